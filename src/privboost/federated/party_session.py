"""A party in a session: it checks the coordinator's requests, and replies to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import fields
from typing import Any, NoReturn, TypeVar

import numpy as np

from privboost._core.errors import FederationError, ModelFileError
from privboost._core.grid import SCORE_STEPS
from privboost.accounting.events import SampledGroup
from privboost.accounting.noisy_sums import GaussianRelease
from privboost.data.design_matrix import Terms
from privboost.data.rows import Layout, RelativeResiduals
from privboost.engine.backend import LocalBackend
from privboost.engine.protocol import ShardState
from privboost.engine.queries import Query
from privboost.engine.updates import CloseBudgets, OpenBudgets, Update, UsePart
from privboost.federated.aggregation import PartyRounds
from privboost.federated.messages import (
    Catalogue,
    asked_digest,
    read_bytes,
    read_releases,
    whole,
    write_bytes,
)
from privboost.federated.party_curator import PartyCurator
from privboost.losses.base import KINDS_OF_ROWS, LossTable
from privboost.models.checks import (
    check_loss_table,
    check_tree,
    largest,
    need,
    need_array,
    need_flag,
    need_list,
    need_number,
    need_scores,
    need_whole,
)
from privboost.randomness.sampling import Sample
from privboost.recipes.common.plan import Plan
from privboost.trees.cell_map import CellMap
from privboost.trees.tree import Tree

_Command = TypeVar("_Command")
_PLACE = "messages"
_CHECKED_BY_QUERIES = {
    "statistics",
    "edges",
    "limit",
    "classes",
    "factor",
    "n_coordinates",
    "n_terms",
    "clip",
    "hessian_clip",
    "absolute",
    "slope",
}
"""Fields that a query checks itself, or the curator against the terms."""


class PartySession:
    """Replies to the coordinator's requests, stage by stage.

    `joint` is the joint randomness: the party can repeat the public choices drawn from it.
    """

    def __init__(
        self,
        rounds: PartyRounds,
        curator: PartyCurator,
        plan: Plan,
        backend: LocalBackend,
        joint: bytes,
    ) -> None:
        self._rounds, self._curator, self._backend = rounds, curator, backend
        self.joint = joint
        self._catalogue = Catalogue(plan.releases)
        self._checker = CommandChecker(
            plan.encoder.layout, plan.task.n_outputs, plan.task.target != "classes"
        )
        self._group = ExitStack()
        self._stages = {
            "deal": self._deal,
            "sum": self._sum,
            "confirm": self._confirm,
            "open": self._open,
        }

    def follow(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the reply to a request."""
        stage = body.get("stage")
        if stage not in self._stages:
            raise FederationError("messages: an unknown stage")
        return {"stage": stage, **self._stages[stage](body)}

    def close(self) -> None:
        """Release the rows."""
        self._backend.close()

    def _deal(self, body: Mapping[str, Any]) -> dict[str, Any]:
        dealt = self._rounds.deal(whole(body, "first"), whole(body, "count"))
        return {
            "first": body["first"],
            "commitments": dealt.commitments,
            "lids": dealt.envelopes,
            "sealed": write_bytes(dealt.sealed),
        }

    def _sum(self, body: Mapping[str, Any]) -> dict[str, Any]:
        if body.get("shares") is not None:
            self._rounds.hold(read_bytes(body["shares"]))
        self._rounds.begin(whole(body, "round"))
        for note in body["notes"]:
            self._apply(note)
        query = read_command(body["query"], Query.from_bytes)
        event = self._catalogue[body["event"]]
        self._checker.check_query(query)
        asked = asked_digest(body["query"].tobytes(), event)
        answer = self._curator.answer(query, event)
        masked, tags = self._rounds.mask(answer, asked + self.joint)
        return {
            "round": body["round"],
            "asked": asked.hex(),
            "words": masked,
            "tags": write_bytes(tags),
        }

    def _confirm(self, body: Mapping[str, Any]) -> dict[str, Any]:
        survivors = body.get("survivors")
        if not isinstance(survivors, list) or any(type(each) is not int for each in survivors):
            raise FederationError("messages: a list of survivors is needed")
        tags = read_bytes(body.get("tags"))
        confirmed = self._rounds.confirm(whole(body, "round"), survivors, tags)
        return {"round": body["round"], "tags": write_bytes(confirmed)}

    def _open(self, body: Mapping[str, Any]) -> dict[str, Any]:
        opened = self._rounds.open(whole(body, "round"), read_bytes(body.get("tags")))
        return {"round": body["round"], "opened": write_bytes(opened)}

    def _apply(self, note: Mapping[str, Any]) -> None:
        """Apply one of the notes that precede a query: see `Session`."""
        if "update" in note:
            self._update(read_command(note["update"], Update.from_bytes))
        elif "exchange" in note:
            reserved, releases = self._catalogue[note["exchange"]], read_releases(note["releases"])
            if not isinstance(reserved, GaussianRelease):
                raise FederationError("plan: this release is not exchanged")
            self._curator.exchange(reserved, releases)
            self._catalogue.add(releases)
        elif "within" in note:
            self._catalogue.add(read_releases(note["within"]))
        elif "group" in note:
            self._group.close()
            if note["group"] is not None:
                event = self._catalogue[note["group"]]
                if not isinstance(event, SampledGroup):
                    raise FederationError("plan: this release is no group")
                self._group.enter_context(self._curator.sampling(event))
        else:
            raise FederationError("messages: an unknown note")

    def _update(self, update: Update) -> None:
        """Apply an update; budgets of rows are opened as this party's own plan has them."""
        if isinstance(update, OpenBudgets):
            self._curator.open_budget(self._catalogue.life)
            return
        if isinstance(update, CloseBudgets):
            self._curator.close_budgets()
            return
        self._checker.check_update(update)
        if isinstance(update, UsePart):
            self._curator.follow_part(update, self._catalogue.parallel)
        else:
            self._curator.publish(update)


def read_command(data: Any, read: Callable[[bytes], _Command]) -> _Command:
    """Return the query or update of a message; anything else is refused."""
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8:
        raise FederationError("messages: not one of this version")
    try:
        return read(data.tobytes())
    except (LookupError, TypeError, ValueError, AttributeError):
        raise FederationError("messages: neither query nor update") from None


class CommandChecker(ShardState):
    """Checks queries and updates against the columns, and tracks the state they depend on.

    Kernels do not check shapes, and a failure must not depend on the rows: it would reveal them.
    """

    def __init__(self, layout: Layout, n_outputs: int, is_number: bool = False) -> None:
        self._layout, self._n_outputs, self._is_number = layout, n_outputs, is_number
        self._started = self._has_loss = False
        self._terms: Terms | None = None
        self._most = np.full(n_outputs, SCORE_STEPS, dtype=np.int64)
        self._bins, self._lines = 0, KINDS_OF_ROWS

    def check_query(self, query: Query) -> None:
        """Refuse a query that does not fit the columns, or comes before `Start`."""
        try:
            need(self._started, _PLACE, "rows begin before they answer queries")
            need(self._has_loss or not query.uses_loss, _PLACE, "rows have no loss yet")
            need(self._terms is not None or not query.uses_terms, _PLACE, "rows are no vectors yet")
            for field in fields(query):  # type: ignore[arg-type]
                self._check_field(query, field.name)
        except (ValueError, TypeError, AttributeError) as error:
            raise _federation_error(error) from None

    def check_update(self, update: Update) -> None:
        """Refuse an update that does not fit the columns; else record the state after it."""
        try:
            update.apply_to(self)
        except (ValueError, TypeError, AttributeError) as error:
            raise _federation_error(error) from None

    def refuse(self) -> NoReturn:
        raise ValueError("an unknown update")

    def start(self, loss: LossTable | None, n_outputs: int) -> None:
        need(n_outputs == self._n_outputs, _PLACE, "states of each output are needed")
        self._lines = self._bins + 1 if self._bins else KINDS_OF_ROWS
        if loss is not None:
            check_loss_table(loss, _PLACE, self._lines)
        self._started, self._has_loss = True, loss is not None
        self._most[:] = SCORE_STEPS

    def use_loss(self, loss: LossTable) -> None:
        check_loss_table(loss, _PLACE, self._lines)
        self._has_loss = True

    def clip_labels(self, low: int, high: int) -> None:
        pass  # its message has checked it

    def bin_labels(self, edges: np.ndarray) -> None:
        need(self._is_number or not len(edges), _PLACE, "only numeric labels have bins")
        self._bins = len(edges) + 1 if len(edges) else 0

    def use_part(
        self, put_aside: Sample, aside: bool, relative: RelativeResiduals | None = None
    ) -> None:
        need(relative is None or self._is_number, _PLACE, "only numbers have residuals")
        need(put_aside is not None, _PLACE, "the coins of units are needed")
        self._check_sample(put_aside)
        need_flag(aside, _PLACE)
        need(not self._bins, _PLACE, "rows are put aside where labels have no bins")
        if aside:  # states are residuals, to which nothing is added
            self._most[:] = np.iinfo(np.int32).max

    def set_terms(self, terms: Terms) -> None:
        self._check_terms(terms)
        self._terms = terms

    def add_cell_values(self, cells: CellMap, values: np.ndarray, output: int) -> None:
        cells.check(self._layout)
        parts = [
            values[first : first + part.n_cells]
            for part, first in zip(cells.parts, cells.first, strict=True)
        ]
        self._add(output, sum(int(largest(part, axis=0)) for part in parts))

    def add_tree_values(self, trees: tuple[Tree, ...], values: np.ndarray, output: int) -> None:
        self._check_trees(trees)
        need_array(values, _PLACE, np.int32, (len(trees), trees[0].n_leaves))
        self._add(output, int(largest(values, axis=1).sum()))

    def set_linear_scores(self, coefficients: np.ndarray, output: int) -> None:
        terms = self._terms
        need(terms is not None and self._started, _PLACE, "rows are no vectors yet")
        assert terms is not None
        self._check_output(output)
        need_array(coefficients, _PLACE, np.int32, (terms.n_coordinates,))
        self._most[output] = SCORE_STEPS
        self._add(output, terms.most_score(coefficients))

    def _add(self, output: int, most: int) -> None:
        need(self._started, _PLACE, "rows begin before their scores change")
        self._check_output(output)
        self._most[output] += most
        need_scores(self._most, _PLACE)

    def _check_output(self, output: Any) -> None:
        need_whole(output, _PLACE, 0, self._n_outputs - 1)

    def _check_sample(self, sample: Sample | None) -> None:
        if sample is not None:
            need_array(sample.key, _PLACE, np.uint8, (32,))
            need_number(sample.rate, _PLACE, 0, 1, above=True)

    def _check_trees(self, trees: Any) -> None:
        listed = need_list(trees, _PLACE)
        for tree in listed:
            check_tree(tree, self._layout)
        need(len({tree.n_leaves for tree in listed}) == 1, _PLACE, "trees of one depth are needed")

    def _check_field(self, query: Any, name: str) -> None:
        """Check a field of a query by its name; a query checks the others when it is made."""
        value = getattr(query, name)
        if name == "output":
            self._check_output(value)
        elif name == "n_outputs":
            need(value == self._n_outputs, _PLACE, "statistics of each output are needed")
            need(not self._bins, _PLACE, "labels with bins are no classes")
        elif name == "sample":
            self._check_sample(value)
        elif name in ("tree", "trees"):
            self._check_trees(value if name == "trees" else (value,))
        elif name == "cells":
            value.check(self._layout)
        elif name == "node_of_leaf":
            need_array(value, _PLACE, np.uint16, (query.tree.n_leaves,))
        elif name == "votes":
            need_whole(value, _PLACE, 0)
        else:
            need(name in _CHECKED_BY_QUERIES, _PLACE, "an unknown field")

    def _check_terms(self, terms: Terms) -> None:
        terms.check()
        n_codes = self._layout.n_codes
        for pair, *arrays in zip(terms.features, terms.coordinate, terms.value, strict=True):
            first, second = need_list(pair, _PLACE, 2)
            need_whole(first, _PLACE, 0, len(n_codes) - 1)
            need_whole(second, _PLACE, -1, len(n_codes) - 1)
            size = n_codes[first] * (1 if second == -1 else n_codes[second])
            for array in arrays:
                need_array(array, _PLACE, np.int32, (size,))


def _federation_error(error: Exception) -> FederationError:
    """Return the error of a message; these checks see no rows."""
    text = str(error) if isinstance(error, ModelFileError) else f"{_PLACE}: {error}"
    return FederationError(text.replace("log.trees", _PLACE))
