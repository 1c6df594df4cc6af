"""Validation of the parts of a stream's file: rows, privacy filters and the update log.

Kernels read the rows, and updates are replayed on them, so both must fit the model's layout.
Messages quote no value and no length: all of this is private.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
from privboost.engine.protocol import ShardState
from privboost.recipes.sbdt import STREAM_PARAMETERS as OF_TREES

from privboost.engine.updates import Update
from privboost.errors import ModelFileError
from privboost.grid import BLOCK_ROWS, SCORE_STEPS, WEIGHT_CLASSES, WEIGHT_STEPS, WHOLE_SPAN
from privboost.losses import UNKNOWN_LABEL, LossTable, within_steps
from privboost.models.checks import (
    count_outputs,
    largest,
    need,
    need_array,
    need_keys,
    need_list,
    need_number,
    need_scores,
    need_text,
    need_whole,
)
from privboost.privacy.budgets.life import (
    GaussianBudget,
    LifeBudget,
    RenyiBudget,
    budget_from_dict,
)
from privboost.privacy.events.event import Relation
from privboost.privacy.formulas import MOST_ORDER
from privboost.tables.encoding import Encoder
from privboost.tables.features import ClassTarget
from privboost.tables.layout import Layout
from privboost.tables.rows import Codes, Rows
from privboost.trees.tree import Tree

ROW_ARRAYS = ("narrow", "wide", "label", "weight", "start", "ids")
"""Arrays of rows in a file."""
STREAM_PARAMETERS = OF_TREES | {"domain_share", "sample_weight_bound", "accountant"}
"""Parameters that later batches inherit; budgets, seeds and files belong to one run."""
_LEAST_NOISE = 1e-100
"""Least standard deviation of noise; its inverse is the largest. Squares of both are finite."""


def read_parameters(document: Any) -> dict[str, Any]:
    """Read the parameters of the last batch that later batches inherit."""
    need(isinstance(document, dict), "parameters", "a mapping is needed")
    known = STREAM_PARAMETERS.issuperset(document)
    need(known, "parameters", "only those of trees, which later batches inherit, are known")
    plain = all(
        value is None or isinstance(value, str | int | float) for value in document.values()
    )
    need(plain, "parameters", "numbers, strings, true, false or null are needed")
    return dict(document)


def read_rows(document: Any, encoder: Encoder, weighted: bool, cohort: int) -> tuple[Rows, ...]:
    """Read the rows of a cohort, in blocks."""
    if document is None:
        return ()
    document = need_keys(document, "rows", ROW_ARRAYS)
    layout, target = encoder.layout, encoder.domain.target
    narrow = need_array(document["narrow"], "rows.narrow", np.uint8, (layout.n_narrow, None))
    rows, n_wide = narrow.shape[1], len(layout.n_codes) - layout.n_narrow
    wide = need_array(document["wide"], "rows.wide", np.uint16, (n_wide, rows))
    label = need_array(document["label"], "rows.label", np.uint8, (rows,))
    classes = len(target.classes) if isinstance(target, ClassTarget) else 1
    known = bool(((label < classes) | (label == UNKNOWN_LABEL)).all())
    need(known, "rows.label", "labels must be classes of the domain")
    weight = need_if(
        weighted, document["weight"], "rows.weight", np.uint16, (rows,), 0, WEIGHT_STEPS
    )
    start = need_if(
        not isinstance(target, ClassTarget),
        document["start"],
        "rows.start",
        np.int32,
        (rows,),
        *WHOLE_SPAN,
    )
    ids = need_array(document["ids"], "rows.ids", np.uint32, (rows,))
    whole = Rows(Codes(layout, narrow, wide), label, weight, start, ids, cohort)
    for feature, codes in enumerate(layout.n_codes):
        fine = not rows or int(whole.column(feature).max()) < codes
        need(fine, "rows", "codes must be those of the domain")
    starts = range(0, rows, BLOCK_ROWS)
    return tuple(whole.take(np.arange(at, min(at + BLOCK_ROWS, rows))) for at in starts)


def need_if(wanted: bool, value: Any, place: str, *rule: Any) -> np.ndarray | None:
    """Check an array that must be present if `wanted`, and absent if not."""
    need(wanted or value is None, place, "nothing is needed here")
    return need_array(value, place, *rule) if wanted else None


def check_ids(cohorts: list[tuple[Rows, ...]], next_id: int) -> None:
    """Refuse rows that share an id: they would be sampled together."""
    ids = [np.asarray(block.ids) for blocks in cohorts for block in blocks]
    every = np.sort(np.concatenate([np.empty(0, dtype=np.uint32), *ids]))
    apart = bool((every[1:] > every[:-1]).all())
    below = not len(every) or int(every[-1]) < next_id
    need(apart and below, "rows.ids", "each row needs an id of its own, below the next one")


def read_names(document: Any, expected: bool) -> pa.Array | None:
    """Read the names of units, where the domain has units."""
    if not expected:
        need(document is None, "units", "nothing is needed here")
        return None
    document = need_keys(document, "units", {"ends", "bytes"})
    text = need_array(document["bytes"], "units.bytes", np.uint8, (None,))
    ends = need_array(document["ends"], "units.ends", np.int64, (None,))
    offsets = np.concatenate([np.zeros(1, dtype=np.int64), ends])
    cut = bool((offsets[1:] >= offsets[:-1]).all()) and offsets[-1] == len(text)
    need(cut, "units.ends", "names must cut their bytes into pieces")
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text.tobytes())]
    return pa.Array.from_buffers(pa.large_binary(), len(ends), buffers)


def read_budget(document: Any) -> LifeBudget:
    """Read an individual privacy filter."""
    need(isinstance(document, dict), "budget", "a mapping is needed")
    need_text(document.get("kind"), "budget.kind")
    need(document.get("relation") in tuple(Relation), "budget.relation", "an unknown relation")
    budget = budget_from_dict(document)
    need_text(budget.what, "budget.what")
    need_number(budget.noise, "budget.noise", _LEAST_NOISE, 1 / _LEAST_NOISE)
    need_whole(budget.releases, "budget.releases", 1)
    if isinstance(budget, GaussianBudget):
        need_whole(budget.touched, "budget.touched", 1)
        need_number(budget.least_sigma, "budget.least_sigma", _LEAST_NOISE, 1 / _LEAST_NOISE)
    if isinstance(budget, RenyiBudget):
        need_whole(budget.alpha, "budget.alpha", 2, MOST_ORDER)
    return budget


@dataclass
class _State(ShardState):
    """Shard state while a log of updates is checked."""

    encoder: Encoder
    weighted: bool
    n_cohorts: int
    loss: LossTable | None = None
    open: bool = False
    span: tuple[int, int] = WHOLE_SPAN

    def __post_init__(self) -> None:
        self.prices: list[tuple[np.ndarray, ...]] = []
        self.charges = [0] * self.n_cohorts  # by the last cohort charged; earlier ones are too
        self.n_outputs = count_outputs(self.encoder.domain.target)
        self.most = np.full(
            self.n_outputs, SCORE_STEPS, dtype=np.int64
        )  # initial scores of numbers

    def refuse(self) -> NoReturn:
        """Refuse an update that no stream has."""
        raise ModelFileError("log: an update that no stream has")

    def start(self, loss: LossTable | None, n_outputs: int) -> None:
        """Check a start."""
        need(n_outputs == self.n_outputs, "log", "scores for each class are needed")
        self.loss = _loss(loss)
        self.most[:] = SCORE_STEPS

    def clip_labels(self, low: int, high: int) -> None:
        """Check a clipping range."""
        need(not self.open, "log", "the clipping range is set before budgets are opened")
        self.span = low, high

    def open_budgets(self) -> None:
        """Check that budgets are opened once."""
        need(not self.open, "log", "budgets are opened once")
        self.open = True

    def set_price(self, number: int, tables: tuple[np.ndarray, ...]) -> None:
        """Check the tables of a price."""
        need(self.loss is not None and self.open, "log", "a price needs a loss and budgets")
        assert self.loss is not None
        need_whole(number, "log.price", len(self.prices), len(self.prices))
        need_list(tables, "log.price")
        need(0 < len(tables) <= self.n_cohorts, "log.price", "a table for each cohort is needed")
        steps = WEIGHT_CLASSES + 1 if self.weighted else 1
        for table in tables:
            need_array(table, "log.price", np.int32, (steps, 3, self.loss.size), 0)
        self.prices.append(tables)

    def charge(self, price: int, output: int) -> None:
        """Check a charge, and count it."""
        need_whole(price, "log.charge", 0, len(self.prices) - 1)
        self._check_output(output)
        tables = self.prices[price]
        fits = self.loss is not None and tables[0].shape[2] == self.loss.size
        need(fits, "log.charge", "the price is one of another loss")
        self.charges[len(tables) - 1] += 1

    def add_tree_values(self, trees: tuple[Tree, ...], values: np.ndarray, output: int) -> None:
        """Check the values of leaves, and that scores cannot overflow."""
        need(self.loss is not None, "log", "the first update is a start")
        self._check_output(output)
        need_list(trees, "log.trees")
        for tree in trees:
            check_tree(tree, self.encoder.layout)
        alike = len({len(tree.feature) for tree in trees}) == 1
        need(alike, "log.trees", "trees of one depth are needed")
        need_array(values, "log.values", np.int32, (len(trees), trees[0].n_leaves))
        self.most[output] += largest(values, axis=1).sum()
        need_scores(self.most, "log.values")

    def _check_output(self, output: Any) -> None:
        need_whole(output, "log.output", 0, self.n_outputs - 1)


def check_log(
    log: tuple[Update, ...],
    encoder: Encoder,
    weighted: bool,
    used: list[int],
    span: tuple[int, int],
) -> None:
    """Check that updates can be replayed on rows, and charge cohorts only what is recorded.

    Parameters
    ----------
    log : tuple of Update
        The updates, in order.
    encoder : Encoder
        Encoder of the rows.
    weighted : bool
        Whether rows have weights.
    used : list of int
        Number of releases charged to each cohort's filter.
    span : (int, int)
        The model's clipping range of labels.
    """
    state = _State(encoder, weighted, len(used))
    for update in log:
        update.apply_to(state)
    need(state.loss is not None and state.open, "log", "a stream has a start and budgets")
    need(state.span == span, "log", "the clipping range is that of the model")
    made = list(accumulate(reversed(state.charges)))[::-1]
    covered = all(own >= charged for own, charged in zip(used, made, strict=True))
    need(covered, "log", "rows were charged for more releases than their budgets record")


def _loss(loss: Any) -> LossTable:
    place = "log.loss"
    if not isinstance(loss, LossTable):
        raise ModelFileError(f"{place}: a loss is needed")
    gradient = need_array(loss.gradient, place, np.int32, (3, None))
    size = gradient.shape[1]
    need(size > 0, place, "an entry for each score is needed")
    need_array(loss.hessian, place, np.int32, (3, size))
    need_whole(loss.shift, place, 0, 31)
    need(loss.taking_part is None, place, "all rows take part in a stream")
    need(within_steps(loss), place, "an entry exceeds the clip")
    return loss


def check_tree(tree: Any, layout: Layout) -> None:
    """Check a tree: its features are the layout's, and every code of them goes left or right."""
    place = "log.trees"
    need(isinstance(tree, Tree), place, "a tree is needed")
    nodes = len(tree.feature)
    feature = need_array(tree.feature, place, np.uint16, (nodes,), 0, len(layout.n_codes) - 1)
    turns = need_array(tree.goes_right, place, np.uint8, (nodes, None), 0, 1)
    n_codes = np.array(layout.n_codes)
    wide = not nodes or n_codes[feature].max() <= turns.shape[1]
    need(bool(wide), place, "a turn for each code of the features is needed")
    need(turns.shape[1] <= n_codes.max(), place, "there are more turns than codes")
