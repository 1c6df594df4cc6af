"""The rows that one party holds, with their state: it answers queries with exact integer sums."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from privboost.engine import kernels
from privboost.engine.growth import Grower
from privboost.engine.linear import LinearRows, add_scores
from privboost.engine.look_up import BlockRows, LookUp, packed_table, place_of_label
from privboost.engine.queries import (
    GRADIENT_COUNT,
    CellSums,
    GramSums,
    LinearSums,
    NodeHistograms,
    Query,
    ScoreCounts,
    SumQuery,
    TreeSums,
    VoteCounts,
)
from privboost.engine.routes import Routes
from privboost.engine.updates import (
    AddCellValues,
    AddTreeValues,
    Charge,
    CloseBudgets,
    OpenBudgets,
    Price,
    SetLinearScores,
    SetSpan,
    SetTerms,
    Start,
    Update,
    UseLoss,
)
from privboost.engine.votes import VoteCounter
from privboost.grid import BLOCK_ROWS, BUDGET_STEPS, WEIGHT_STEPS, WHOLE_SPAN
from privboost.losses import LossTable
from privboost.randomness.keystream import KeyStream
from privboost.randomness.sampling import bernoulli_mask
from privboost.tables.rows import Rows, states_within
from privboost.trees.cell_map import CellMap, CellPart

_MOST_PACKED_CELLS = 1024

_Ids = tuple[np.ndarray, np.ndarray | None]
"""An id for each row of a block, and the cell of each id; None where ids are cells."""


class Shard:
    """Blocks of rows and their scores.

    The scores are a cache: a new shard that holds the same rows and is told the same updates in
    the same order has the same state.
    """

    def __init__(self, blocks: Sequence[Rows]) -> None:
        if any(len(block) > BLOCK_ROWS for block in blocks):
            raise ValueError(f"a block holds at most {BLOCK_ROWS} rows")
        self._blocks = list(blocks)
        self._state: list[np.ndarray] = []
        self._loss: LossTable | None = None
        self._n_outputs = 0
        self._span = WHOLE_SPAN
        self._tables: dict[tuple[str, ...], np.ndarray] = {}
        self._look_ups: dict[tuple[int, tuple[str, ...], int], LookUp] = {}
        self._left: list[np.ndarray] | None = None
        self._active: list[np.ndarray] | None = None
        self._prices: dict[int, Price] = {}
        self._routes = Routes(self._blocks)
        self._grower = Grower(self._blocks, self._routes)
        self._linear: LinearRows | None = None
        self._votes = VoteCounter(self._blocks, self._routes)
        self._pairs = np.empty(BLOCK_ROWS, dtype=np.int64)

    def apply(self, update: Update) -> None:
        """Follow what has been released."""
        self._grower.forget()
        if isinstance(update, Start):
            self._start(update)
        elif isinstance(update, SetSpan):
            self._span = update.low, update.high
        elif isinstance(update, OpenBudgets):
            if self._left is not None:
                raise RuntimeError("budgets are for life: they are opened once")
            self._left = [np.full(len(b), BUDGET_STEPS, dtype=np.int32) for b in self._blocks]
            self._active = [np.zeros(len(block), dtype=np.uint8) for block in self._blocks]
        elif isinstance(update, CloseBudgets):
            self._active = None
        elif isinstance(update, Price):
            self._prices[update.number] = update
        elif isinstance(update, Charge):
            self._charge(update)
        elif isinstance(update, UseLoss):
            self._use(update.loss)
        elif isinstance(update, SetTerms):
            self._linear = LinearRows(self._blocks, update.terms)
        elif isinstance(update, SetLinearScores):
            self._set_linear_scores(update)
        elif isinstance(update, AddCellValues):
            self._add_cells(update)
        else:
            self._add_trees(update)

    def _add_cells(self, update: AddCellValues) -> None:
        self._check_cells(update.cells)
        for part, first in zip(update.cells.parts, update.cells.first, strict=True):
            values = update.value_of[first : first + part.n_cells]
            if part.alone:
                values = values[part.cell_of[0]]
            for block, state in zip(self._blocks, self._state, strict=True):
                kernels.add_values(_cells_of(block, part)[0], values, state[update.output])

    def _check_cells(self, cells: CellMap) -> None:
        """Refuse cells that were not made for these rows."""
        if self._blocks:
            cells.check(self._blocks[0].layout)

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
            scores[:] = 0 if block.start is None else states_within(block.start, self._span)
            add_scores(block.codes, tables, scores)

    def _vectors(self) -> LinearRows:
        if self._linear is None:
            raise RuntimeError("a shard needs a SetTerms before rows are vectors")
        return self._linear

    def sum(self, query: Query) -> np.ndarray:
        """Answer with exact int64 sums over this shard's rows."""
        if isinstance(query, LinearSums | GramSums):
            return self._add_up_vectors(query)
        if isinstance(query, CellSums | NodeHistograms | VoteCounts):
            self._check_cells(query.cells)
        if isinstance(query, NodeHistograms):
            return self._grower.answer(query, lambda k: self._rows(k, query))
        if isinstance(query, VoteCounts):
            return self._count_votes(query)
        if isinstance(query, TreeSums):
            self._routes.follow(query.trees)
        out = np.zeros((*query.shape[:-1], 2), dtype=np.int64)
        sums = _sums_of_parts(query, out)
        for k in range(len(self._blocks)):
            self._add_up(k, query, self._parts(k, query), sums)
        return out[..., 2 - len(query.statistics) :]

    def tally(self) -> dict[bytes, int]:
        """Return how many rows have each text, under the number of its column and a space."""
        return tally_texts([block.texts for block in self._blocks])

    def _parts(self, k: int, query: CellSums | TreeSums | ScoreCounts) -> list[_Ids]:
        """Return the cells of a block's rows, for each part of a query."""
        if isinstance(query, TreeSums):
            return [self._routes.leaves(tree, k) for tree in range(len(query.trees))]
        block = self._blocks[k]
        if isinstance(query, CellSums):
            return [_cells_of(block, part) for part in query.cells.parts]
        kinds = place_of_label(query.output, self._n_outputs, 1)
        cells = np.empty(len(block), dtype=np.uint32)
        state = self._state[k][query.output]
        kernels.score_cells(state, query.edges, block.label, kinds, query.classes, cells)
        return [(cells, None)]

    def _add_up_vectors(self, query: LinearSums | GramSums) -> np.ndarray:
        out = np.zeros(query.shape, dtype=np.int64)
        vectors = self._vectors()
        for k in range(len(self._blocks)):
            if isinstance(query, LinearSums):
                look_up = self._look_up(k, GRADIENT_COUNT, query.output)
                pairs = self._statistics(BlockRows(look_up, self._blocks[k].weight, None))
                vectors.add_gradients(k, pairs, out)
            else:
                kinds = place_of_label(0, self._n_outputs, 1)
                vectors.add_products(k, np.append(query.factor, 0)[kinds], out)
        return out

    def _count_votes(self, query: VoteCounts) -> np.ndarray:
        if not self._n_outputs or query.sample is not None or self._active is not None:
            raise RuntimeError("votes are counted after a Start, of all rows")
        kinds = place_of_label(query.output, self._n_outputs, 1)
        return self._votes.answer(query, kinds, lambda k: self._state[k][query.output])

    def _add_up(self, k: int, query: SumQuery, parts: list[_Ids], sums: list[np.ndarray]) -> None:
        """Add a block's statistics by the cells of each part."""
        rows = self._rows(k, query)
        packed = rows.weight is None and all(len(out) <= _MOST_PACKED_CELLS for out in sums)
        if packed and len(parts) == 1:
            kernels.sum_rows_packed(*rows.look_up, rows.active, *parts[0], sums[0])
            return
        pairs = self._statistics(rows)
        add = kernels.sum_pairs_packed if packed else kernels.sum_pairs
        for part, out in zip(parts, sums, strict=True):
            add(*part, pairs, out)

    def _start(self, update: Start) -> None:
        self._n_outputs = update.n_outputs
        self._use(update.loss)
        for active in self._active or []:
            active[:] = 0  # a charge under another loss pays for nothing
        self._state = []
        for block in self._blocks:
            state = np.zeros((update.n_outputs, len(block)), dtype=np.int32)
            if block.start is not None:
                state[:] = states_within(block.start, self._span)
            self._state.append(state)

    def _use(self, loss: LossTable | None) -> None:
        self._loss, self._tables, self._look_ups = loss, {}, {}

    def _statistics(self, rows: BlockRows) -> np.ndarray:
        """Look up the packed statistics of a block's rows, in memory that the next call reuses."""
        pairs = self._pairs[: len(rows.look_up.label)]
        kernels.row_statistics(*rows.look_up, rows.weight, rows.active, pairs)
        return pairs

    def _rows(self, k: int, query: SumQuery) -> BlockRows:
        """What a block's rows are looked up by, their weights, and who takes part."""
        look_up = self._look_up(k, query.statistics, query.output)
        return BlockRows(look_up, self._blocks[k].weight, self._taking_part(k, query))

    def _look_up(self, k: int, statistics: tuple[str, ...], output: int) -> LookUp:
        """Where a block's rows are looked up: remembered, since states are changed in place."""
        loss, key = self._loss, (k, statistics, output)
        if loss is None:
            raise RuntimeError("a shard needs a Start before it can answer")
        if statistics not in self._tables:
            self._tables[statistics] = packed_table(loss, statistics)
        if key not in self._look_ups:
            self._look_ups[key] = LookUp(
                self._blocks[k].label,
                place_of_label(output, self._n_outputs, loss.size),
                self._state[k][output],
                self._tables[statistics],
                loss.size,
                np.int32(loss.shift),
            )
        return self._look_ups[key]

    def _taking_part(self, k: int, query: SumQuery) -> np.ndarray | None:
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
        places = place_of_label(update.output, self._n_outputs, self._loss.size)
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
                WEIGHT_STEPS,
                self._left[k],
                self._active[k],
            )


def tally_texts(texts: Sequence[tuple[pa.Array, ...]]) -> dict[bytes, int]:
    """Return how many rows of some blocks have each text; see `Shard.tally`."""
    counts: dict[bytes, int] = {}
    for number, column in enumerate(zip(*texts, strict=True)):
        words = pa.chunked_array(column, pa.large_binary()).drop_null().value_counts()
        for word, count in zip(words.field("values"), words.field("counts"), strict=True):
            counts[f"{number} ".encode() + word.as_py()] = count.as_py()
    return counts


def _cells_of(block: Rows, part: CellPart) -> _Ids:
    """Return an id for each row, and the cell of each id; None where ids are cells."""
    if part.alone:
        return block.column(part.features[0]), part.cell_of[0]
    columns = [block.column(feature) for feature in part.features]
    cells = np.empty(len(block), dtype=np.uint32)
    kernels.begin_cells(columns[0], part.cell_of[0], cells)
    for k in range(1, len(columns)):
        kernels.join_cells(columns[k], part.cell_of[k], part.sizes[k], cells)
    return cells, None


def _sums_of_parts(query: CellSums | TreeSums | ScoreCounts, out: np.ndarray) -> list[np.ndarray]:
    """Return the views of an answer, each of shape (cells, 2), that its parts are added to."""
    if isinstance(query, TreeSums):
        return list(out)
    if isinstance(query, ScoreCounts):
        return [out.reshape(-1, 2)]
    cells = query.cells
    return [
        out[first : first + part.n_cells]
        for part, first in zip(cells.parts, cells.first, strict=True)
    ]
