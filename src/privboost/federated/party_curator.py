"""A party's curator: it keeps the party's own ledger, and draws its noise and samples.

A party's checks of queries, updates and events: of their shapes, and of their sensitivity.

Kernels do not check shapes, and a failure must not depend on the rows: it would reveal them.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import fields, replace
from typing import Any, NoReturn

import numpy as np

from privboost._core.errors import FederationError, ModelFileError
from privboost._core.grid import SCORE_STEPS, Contribution
from privboost.accounting.events import Event, Selection
from privboost.accounting.ledger import Ledger
from privboost.accounting.noisy_sums import (
    GaussianRelease,
    GramRelease,
    LaplaceRelease,
    NoisySums,
    ThresholdRelease,
    VectorRelease,
)
from privboost.data.design_matrix import Terms
from privboost.data.rows import Layout
from privboost.engine.backend import Backend
from privboost.engine.protocol import ShardState
from privboost.engine.queries import (
    GRADIENT_COUNT,
    GramSums,
    LinearSums,
    NodeHistograms,
    Query,
    SumQuery,
    TreeSums,
    VoteCounts,
)
from privboost.engine.updates import Update
from privboost.federated.agreement import check_scale
from privboost.losses.base import LossTable
from privboost.mechanisms.curator import Curator
from privboost.mechanisms.sensitivity import (
    check_sensitivity,
    check_sum_sensitivity,
    eigenvalue_bound,
    means_bound,
)
from privboost.models.checks import (
    check_tree,
    largest,
    need,
    need_array,
    need_list,
    need_number,
    need_scores,
    need_whole,
)
from privboost.randomness.keystream import KeyStream
from privboost.randomness.sampling import Sample
from privboost.trees.cell_map import CellMap
from privboost.trees.tree import Tree


class PartyCurator(Curator):
    """Answers queries by the events of the party's own copy of the plan.

    Parameters
    ----------
    backend, ledger, stream, contribution, part
        As for `Curator`.
    seeded : bool
        Whether samples follow the key that queries carry, which all ends know. Otherwise each
        release has a fresh sample of the party's own key, and the query's key is ignored.
    """

    def __init__(
        self,
        backend: Backend,
        ledger: Ledger,
        stream: KeyStream,
        contribution: Contribution,
        part: float,
        seeded: bool,
    ) -> None:
        super().__init__(backend, ledger, stream, contribution, part)
        self._seeded = seeded

    def answer(self, query: Query, event: Event) -> np.ndarray:
        """Charge an event, and return the sums to be added to those of other parties."""
        try:
            check_query_sensitivity(query, event, self._contribution)
        except ValueError as error:  # it names the query and the event alone
            raise FederationError(f"plan: {error}") from None
        return self._answer(query, event)

    @abstractmethod
    def _answer(self, query: Query, event: Event) -> np.ndarray:
        """Answer a query whose sensitivity its event covers."""

    def _sampled(self, query: SumQuery, rate: float, stream: KeyStream) -> SumQuery:
        """Return a query on a sample of the rate of its event, or of the group."""
        wanted = rate if self._group is None else self._group.sample.rate
        if (1.0 if query.sample is None else query.sample.rate) != wanted:
            raise FederationError("samples: the query has another rate than its event")
        return query if self._seeded else super()._sampled(query, rate, stream)


class ExactPartyCurator(PartyCurator):
    """Curator for a server that is trusted with exact totals, and adds the noise."""

    def _answer(self, query: Query, event: Event) -> np.ndarray:
        """Charge an event, and return the exact sums; they leave the party under masks only."""
        if isinstance(query, LinearSums | GramSums):
            self._check_terms(query)
        if self._payments:
            if type(event) is not GaussianRelease or not isinstance(query, SumQuery):
                raise FederationError("budgets: rows pay for Gaussian releases only")
            self._ledger.charge_within(event)
            self._payments.charge(query, event)
            stream = self._next_stream()
        else:
            stream = self._charge(event)
        if isinstance(query, SumQuery):
            query = self._sampled(query, event.rate, stream)
        return self._backend.sum(query)


class NoisyPartyCurator(PartyCurator):
    """Curator for a server that is not trusted: each party adds its part of the noise."""

    def _answer(self, query: Query, event: Event) -> np.ndarray:
        """Charge an event, and return sums with this party's part of its Gaussian noise."""
        check_scale(event, self._part)
        if isinstance(query, LinearSums) and type(event) is VectorRelease:
            return self.linear(query, event)
        if isinstance(query, GramSums) and type(event) is GramRelease:
            return self.gram(query, event)
        if isinstance(query, SumQuery) and type(event) is GaussianRelease:
            return self.sums(query, event)
        raise FederationError(f"noise: parties cannot add that of {event.what!r}")


def check_query_sensitivity(query: Query, event: Event, contribution: Contribution) -> None:
    """Refuse a query whose sensitivity its event does not cover, as far as a party can check.

    A trusted server alone decides how it uses the sums: λ of noisy means, and the utility of a
    selection.
    """
    if isinstance(event, Selection) and isinstance(query, NodeHistograms | VoteCounts):
        return
    if not isinstance(event, NoisySums) or isinstance(event, ThresholdRelease):
        raise FederationError("plan: this release answers no such query")
    if isinstance(query, GramSums):
        vector = type(event) is VectorRelease
        own = eigenvalue_bound(query, contribution) if vector else query.bound(contribution)
        check_sensitivity(own, event)
    elif isinstance(query, LinearSums):
        check_sensitivity(query.bound(contribution), event)
    elif _is_means(query, event):
        assert isinstance(query, TreeSums)
        check_sensitivity(replace(means_bound(query, 1, contribution), steps=event.steps), event)
    else:
        assert isinstance(query, SumQuery)
        check_sum_sensitivity(query, event, contribution)


def _is_means(query: Query, event: NoisySums) -> bool:
    """Return whether sums of two statistics are for a release of their means."""
    pair = isinstance(query, TreeSums) and query.statistics == GRADIENT_COUNT
    return pair and isinstance(event, LaplaceRelease) and len(event.shares) == 1


_PLACE = "messages"
_CHECKED_BY_QUERIES = {"statistics", "edges", "classes", "factor", "n_coordinates", "n_terms"}
"""Fields that a query checks itself, or the curator against the terms."""


class CommandChecker(ShardState):
    """Checks queries and updates against the columns, and tracks the state they depend on.

    Parameters
    ----------
    layout : Layout
        The columns of the rows.
    n_outputs : int
        Number of scores of a row.
    """

    def __init__(self, layout: Layout, n_outputs: int) -> None:
        self._layout, self._n_outputs = layout, n_outputs
        self._started = self._has_loss = False
        self._terms: Terms | None = None
        self._most = np.full(n_outputs, SCORE_STEPS, dtype=np.int64)

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
        """Refuse an update that no party follows."""
        raise ValueError("an unknown update")

    def start(self, loss: LossTable | None, n_outputs: int) -> None:
        """Check a start."""
        need(n_outputs == self._n_outputs, _PLACE, "states of each output are needed")
        if loss is not None:
            _check_loss(loss)
        self._started, self._has_loss = True, loss is not None
        self._most[:] = SCORE_STEPS

    def use_loss(self, loss: LossTable) -> None:
        """Check another loss."""
        _check_loss(loss)
        self._has_loss = True

    def clip_labels(self, low: int, high: int) -> None:
        """Accept a clipping range: its message has checked it."""

    def set_terms(self, terms: Terms) -> None:
        """Check terms."""
        self._check_terms(terms)
        self._terms = terms

    def add_cell_values(self, cells: CellMap, values: np.ndarray, output: int) -> None:
        """Check values of cells."""
        cells.check(self._layout)
        parts = [
            values[first : first + part.n_cells]
            for part, first in zip(cells.parts, cells.first, strict=True)
        ]
        self._add(output, sum(int(largest(part, axis=0)) for part in parts))

    def add_tree_values(self, trees: tuple[Tree, ...], values: np.ndarray, output: int) -> None:
        """Check values of leaves."""
        self._check_trees(trees)
        need_array(values, _PLACE, np.int32, (len(trees), trees[0].n_leaves))
        self._add(output, int(largest(values, axis=1).sum()))

    def set_linear_scores(self, coefficients: np.ndarray, output: int) -> None:
        """Check coefficients."""
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


def _check_loss(loss: Any) -> None:
    """Refuse a table of another shape; the curator bounds its entries."""
    need(isinstance(loss, LossTable), _PLACE, "a loss is needed")
    gradient = need_array(loss.gradient, _PLACE, np.int32, (3, None))
    size = gradient.shape[1]
    need(size > 0, _PLACE, "an entry for each score is needed")
    need_array(loss.hessian, _PLACE, np.int32, (3, size))
    need_whole(loss.shift, _PLACE, 0, 31)
    if loss.taking_part is not None:
        need_array(loss.taking_part, _PLACE, np.uint8, (3, size), 0, 1)


def _federation_error(error: Exception) -> FederationError:
    """Return the error of a message; these checks see no rows."""
    text = str(error) if isinstance(error, ModelFileError) else f"{_PLACE}: {error}"
    return FederationError(text.replace("log.trees", _PLACE))
