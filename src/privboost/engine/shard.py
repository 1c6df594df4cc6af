"""The rows that one party holds, with their state: it answers queries with exact integer sums."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from privboost.engine import kernels
from privboost.engine.block import Block
from privboost.engine.commands import (
    GRADIENT_COUNT,
    AddFeatureValues,
    AddTreeValues,
    Charge,
    FeatureSums,
    GramSums,
    LinearQuery,
    LinearSums,
    NodeHistograms,
    OpenBudgets,
    Price,
    Query,
    SetLinearScores,
    SetTerms,
    Start,
    TreeSums,
    Update,
    UseLoss,
    VoteCounts,
)
from privboost.engine.growth import Grower
from privboost.engine.linear import LinearRows, add_scores
from privboost.engine.routes import Routes
from privboost.engine.votes import VoteCounter
from privboost.grid import BLOCK_ROWS, BUDGET_UNITS, WEIGHT_UNITS
from privboost.losses import OTHER_CLASS, OWN_CLASS, UNKNOWN, UNKNOWN_LABEL, LossTable
from privboost.privacy.keystream import KeyStream
from privboost.privacy.sampling import bernoulli_mask

_MOST_PACKED_CELLS = 1024


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
        self._prices: dict[int, Price] = {}
        self._grower = Grower(self._blocks)
        self._routes = Routes(self._blocks, self._grower)
        self._linear: LinearRows | None = None
        self._votes = VoteCounter(self._blocks, self._routes)
        self._pairs = np.empty(BLOCK_ROWS, dtype=np.int64)

    def apply(self, update: Update) -> None:
        """Follow what has been released."""
        self._grower.forget()
        if isinstance(update, Start):
            self._start(update)
        elif isinstance(update, OpenBudgets):
            if self._left is not None:
                raise RuntimeError("budgets are for life: they are opened once")
            self._left = [np.full(len(b), BUDGET_UNITS, dtype=np.int32) for b in self._blocks]
            self._active = [np.zeros(len(block), dtype=np.uint8) for block in self._blocks]
        elif isinstance(update, Price):
            self._prices[update.number] = update
        elif isinstance(update, Charge):
            self._charge(update)
        elif isinstance(update, UseLoss):
            self._loss, self._tables = update.loss, {}
        elif isinstance(update, SetTerms):
            self._linear = LinearRows(self._blocks, update.terms)
        elif isinstance(update, SetLinearScores):
            self._set_linear_scores(update)
        elif isinstance(update, AddFeatureValues):
            for block, state in zip(self._blocks, self._state, strict=True):
                column = block.column(update.feature)
                kernels.add_values(column, update.value_of, state[update.output])
        else:
            self._add_trees(update)

    def _add_trees(self, update: AddTreeValues) -> None:
        self._routes.follow(update.trees)
        for tree, values in enumerate(update.value_of):
            for k, state in enumerate(self._state):
                ids, leaf_of = self._routes.leaves(tree, k)
                kernels.add_values(ids, values[leaf_of], state[update.output])

    def _set_linear_scores(self, update: SetLinearScores) -> None:
        tables = self._vectors().terms.tables(update.coefficients)
        for block, state in zip(self._blocks, self._state, strict=True):
            scores = state[update.output]
            scores[:] = 0 if block.start is None else block.start
            add_scores(block, tables, scores)

    def _vectors(self) -> LinearRows:
        if self._linear is None:
            raise RuntimeError("a shard needs a SetTerms before rows are vectors")
        return self._linear

    def sum(self, query: Query | LinearQuery) -> np.ndarray:
        """Answer with exact int64 sums over this shard's rows."""
        if isinstance(query, LinearSums | GramSums):
            return self._add_up_vectors(query)
        if isinstance(query, NodeHistograms):
            return self._grower.answer(query, lambda k: self._rows(k, query))
        if isinstance(query, VoteCounts):
            return self._count_votes(query)
        out = np.zeros((*query.shape[:-1], 2), dtype=np.int64)
        if isinstance(query, TreeSums):
            self._routes.follow(query.trees)
        for k, block in enumerate(self._blocks):
            if isinstance(query, FeatureSums):
                self._add_up(k, query, [(block.column(query.feature), query.cell_of)], out[None])
            else:
                leaves = [self._routes.leaves(tree, k) for tree in range(len(query.trees))]
                self._add_up(k, query, leaves, out)
        return out[..., 2 - len(query.statistics) :]

    def _add_up_vectors(self, query: LinearQuery) -> np.ndarray:
        out = np.zeros(query.shape, dtype=np.int64)
        vectors = self._vectors()
        for k in range(len(self._blocks)):
            if isinstance(query, LinearSums):
                pairs = self._statistics(k, GRADIENT_COUNT, query.output, None)
                vectors.add_gradients(k, pairs, out)
            else:
                kinds = _place_of_label(0, self._n_outputs, 1)
                vectors.add_products(k, np.append(query.factor, 0)[kinds], out)
        return out

    def _count_votes(self, query: VoteCounts) -> np.ndarray:
        if not self._n_outputs or query.sample is not None or self._active is not None:
            raise RuntimeError("votes are counted after a Start, of all rows")
        kinds = _place_of_label(query.output, self._n_outputs, 1)
        return self._votes.answer(query, kinds, lambda k: self._state[k][query.output])

    def _add_up(
        self,
        k: int,
        query: Query,
        parts: list[tuple[np.ndarray, np.ndarray]],
        out: np.ndarray,
    ) -> None:
        """Add a block's statistics by the cells of each part: ids of rows, and cells of ids."""
        packed = self._blocks[k].weight is None and out.shape[1] <= _MOST_PACKED_CELLS
        if packed and len(parts) == 1:
            looked_up = self._looked_up(k, query.statistics, query.output)
            label, places, state, table, size, shift = looked_up
            active, (ids, cell_of) = self._taking_part(k, query), parts[0]
            kernels.sum_rows_packed(
                label, places, state, table, size, shift, active, ids, cell_of, out[0]
            )
            return
        active = self._taking_part(k, query)
        pairs = self._statistics(k, query.statistics, query.output, active)
        add = kernels.sum_pairs_packed if packed else kernels.sum_pairs
        for part, sums in zip(parts, out, strict=True):
            add(*part, pairs, sums)

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

    def _statistics(
        self, k: int, statistics: tuple[str, ...], output: int, active: np.ndarray | None
    ) -> np.ndarray:
        """Look up the packed statistics of a block's rows, in memory that the next call reuses."""
        block = self._blocks[k]
        pairs = self._pairs[: len(block)]
        label, places, state, table, size, shift = self._looked_up(k, statistics, output)
        kernels.row_statistics(
            label, places, state, table, size, shift, block.weight, active, pairs
        )
        return pairs

    def _rows(self, k: int, query: Query) -> tuple[Any, ...]:
        """What a block's rows are looked up by, their weights, and who takes part."""
        looked_up = self._looked_up(k, query.statistics, query.output)
        return looked_up, self._blocks[k].weight, self._taking_part(k, query)

    def _looked_up(self, k: int, statistics: tuple[str, ...], output: int) -> tuple[Any, ...]:
        """What a row's statistics are looked up by, and where: the first arguments of kernels."""
        loss = self._loss
        if loss is None:
            raise RuntimeError("a shard needs a Start before it can answer")
        if statistics not in self._tables:
            self._tables[statistics] = _packed_table(loss, statistics)
        return (
            self._blocks[k].label,
            _place_of_label(output, self._n_outputs, loss.size),
            self._state[k][output],
            self._tables[statistics],
            loss.size,
            np.int32(loss.shift),
        )

    def _taking_part(self, k: int, query: Query) -> np.ndarray | None:
        """Who counts: rows that paid, if there are budgets, and are in the sample, if there is."""
        active = None if self._active is None else self._active[k]
        if query.sample is None:
            return active
        ids = self._blocks[k].ids
        if ids is None:
            raise RuntimeError("rows without ids cannot be sampled")
        stream = KeyStream(query.sample.key.tobytes())
        chosen = bernoulli_mask(stream, ids, query.sample.rate).view(np.uint8)
        return chosen if active is None else chosen & active

    def _charge(self, update: Charge) -> None:
        if self._loss is None or self._left is None or self._active is None:
            raise RuntimeError("a shard needs a Start and OpenBudgets before it can charge")
        places = _place_of_label(update.output, self._n_outputs, self._loss.size)
        tables = self._prices[update.price].tables
        for k, block in enumerate(self._blocks):
            if block.cohort >= len(tables):
                self._active[k][:] = 0
                continue
            kernels.charge_rows(
                block.label,
                places,
                self._state[k][update.output],
                tables[block.cohort],
                np.int32(self._loss.shift),
                block.weight,
                WEIGHT_UNITS,
                self._left[k],
                self._active[k],
            )


def _packed_table(loss: LossTable, statistics: tuple[str, ...]) -> np.ndarray:
    """Join two statistics into one table of int64: (first << 32) + second; one alone is second."""
    table = {"gradient": loss.gradient, "hessian": loss.hessian, "count": loss.count}
    table["nothing"] = np.zeros_like(loss.count)
    names = statistics if len(statistics) == 2 else ("nothing", *statistics)
    first, second = (table[name].astype(np.int64) for name in names)
    return ((first << 32) + second).reshape(-1)


@lru_cache(maxsize=1024)
def _place_of_label(output: int, n_outputs: int, size: int) -> np.ndarray:
    """Where the line of a loss table begins that a label means for one output.

    With one output, class 1 is its own class (and a regression has label 0 only); with several,
    each output has the class of its number.
    """
    own = 1 if n_outputs == 1 else output
    lines = np.full(256, OTHER_CLASS, dtype=np.uint32)
    lines[own] = OWN_CLASS
    lines[UNKNOWN_LABEL] = UNKNOWN
    return lines * np.uint32(size)
