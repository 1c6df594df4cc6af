"""The rows that one party holds, with their state: it answers queries with exact integer sums."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privboost.engine import kernels
from privboost.engine.block import Block
from privboost.engine.commands import (
    AddFeatureValues,
    AddTreeValues,
    Charge,
    FeatureSums,
    NodeHistograms,
    OpenBudgets,
    Query,
    Start,
    TreeSums,
    Update,
)
from privboost.engine.growth import Grower, route
from privboost.grid import BLOCK_ROWS, BUDGET_UNITS, UNIT, WEIGHT_UNITS
from privboost.losses import OTHER_CLASS, OWN_CLASS, UNKNOWN, UNKNOWN_LABEL, LossTable

_MOST_PACKED_CELLS = 1024
_EVERY_ID = np.arange(2**16, dtype=np.uint16)


class Shard:
    """Blocks of rows and their scores.

    The scores are a cache: a new shard that holds the same rows and is told the same updates in
    the same order has the same state.
    """

    def __init__(self, blocks: Sequence[Block]) -> None:
        if any(len(block) > BLOCK_ROWS for block in blocks):
            raise ValueError(f"a block holds at most {BLOCK_ROWS} rows")
        self._blocks = list(blocks)
        self._state: list[np.ndarray] = []
        self._loss: LossTable | None = None
        self._n_outputs = 0
        self._tables: dict[tuple[str, ...], np.ndarray] = {}
        self._left: list[np.ndarray] | None = None
        self._active: list[np.ndarray] | None = None
        self._grower = Grower(self._blocks)
        self._pairs = np.empty(BLOCK_ROWS, dtype=np.int64)

    def apply(self, update: Update) -> None:
        """Follow what has been released."""
        self._grower.forget()
        if isinstance(update, Start):
            self._start(update)
        elif isinstance(update, OpenBudgets):
            if self._left is not None:
                raise RuntimeError("budgets are for life: they are opened once")
            self._left = [np.full(len(b), BUDGET_UNITS, dtype=np.int64) for b in self._blocks]
            self._active = [np.zeros(len(block), dtype=np.uint8) for block in self._blocks]
        elif isinstance(update, Charge):
            self._charge(update)
        else:
            self._add(update)

    def _add(self, update: AddFeatureValues | AddTreeValues) -> None:
        for block, state in zip(self._blocks, self._state, strict=True):
            if isinstance(update, AddFeatureValues):
                ids = block.column(update.feature)
            else:
                ids = self._leaves(block, update)
            kernels.add_values(ids, update.value_of, state[update.output])

    def sum(self, query: Query) -> np.ndarray:
        """Answer with exact int64 sums over this shard's rows."""
        if isinstance(query, NodeHistograms):
            return self._grower.answer(query, lambda k: self._statistics(k, query))
        out = np.zeros((*query.shape[:-1], 2), dtype=np.int64)
        for k, block in enumerate(self._blocks):
            if isinstance(query, FeatureSums):
                ids, cell_of = block.column(query.feature), query.cell_of
            else:
                ids, cell_of = self._leaves(block, query), _EVERY_ID
            pairs = self._statistics(k, query)
            if block.weight is None and len(out) <= _MOST_PACKED_CELLS:
                kernels.sum_pairs_packed(ids, cell_of, pairs, out)
            else:
                kernels.sum_pairs(ids, cell_of, pairs, out)
        return out[..., 2 - len(query.statistics) :]

    def _start(self, update: Start) -> None:
        self._loss, self._n_outputs, self._tables = update.loss, update.n_outputs, {}
        for active in self._active or []:
            active[:] = 0  # a charge under another loss pays for nothing
        self._state = []
        for block in self._blocks:
            state = np.zeros((update.n_outputs, len(block)), dtype=np.int32)
            if block.start is not None:
                state[:] = block.start
            self._state.append(state)

    def _statistics(self, k: int, query: Query) -> np.ndarray:
        """Look up the packed statistics of a block's rows, in memory that the next call reuses."""
        block, loss = self._blocks[k], self._loss
        if loss is None:
            raise RuntimeError("a shard needs a Start before it can answer")
        if query.statistics not in self._tables:
            self._tables[query.statistics] = _packed_table(loss, query.statistics)
        pairs = self._pairs[: len(block)]
        kernels.row_statistics(
            block.label,
            _line_of_label(query.output, self._n_outputs),
            self._state[k][query.output],
            self._tables[query.statistics],
            loss.size,
            np.int32(loss.shift),
            block.weight,
            None if self._active is None else self._active[k],
            pairs,
        )
        return pairs

    def _charge(self, update: Charge) -> None:
        if self._loss is None or self._left is None or self._active is None:
            raise RuntimeError("a shard needs a Start and OpenBudgets before it can charge")
        lines = _line_of_label(update.output, self._n_outputs)
        for k, block in enumerate(self._blocks):
            kernels.charge_rows(
                block.label,
                lines,
                self._state[k][update.output],
                update.table,
                np.int32(self._loss.shift),
                block.weight,
                WEIGHT_UNITS,
                self._left[k],
                self._active[k],
            )

    @staticmethod
    def _leaves(block: Block, message: TreeSums | AddTreeValues) -> np.ndarray:
        node = np.zeros(len(block), dtype=np.uint16)
        route(block, message.tree, node)
        return node


def _packed_table(loss: LossTable, statistics: tuple[str, ...]) -> np.ndarray:
    """Join two statistics into one table of int64: (first << 32) + second; one alone is second."""
    count = np.full_like(loss.hessian, UNIT)
    count[UNKNOWN] = 0
    table = {"gradient": loss.gradient, "hessian": loss.hessian, "count": count}
    table["nothing"] = np.zeros_like(count)
    names = statistics if len(statistics) == 2 else ("nothing", *statistics)
    first, second = (table[name].astype(np.int64) for name in names)
    return ((first << 32) + second).reshape(-1)


def _line_of_label(output: int, n_outputs: int) -> np.ndarray:
    """Which line of a loss table a label means for one output.

    With one output, class 1 is its own class (and a regression has label 0 only); with several,
    each output has the class of its number.
    """
    own = 1 if n_outputs == 1 else output
    lines = np.full(256, OTHER_CLASS, dtype=np.uint8)
    lines[own] = OWN_CLASS
    lines[UNKNOWN_LABEL] = UNKNOWN
    return lines
