"""The rows that one party holds, with their state: it answers queries with exact integer sums."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from privboost.addresses import addresses
from privboost.crew import Crew
from privboost.engine import block_kernels, kernels
from privboost.engine.blocks import Blocks, Ids, add_all
from privboost.engine.growth import Grower
from privboost.engine.linear import LinearRows, add_scores
from privboost.engine.look_up import LookUp, Statistics, packed_table, place_of_label
from privboost.engine.parts import Digit, Parts, digits_of
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
from privboost.grid import BUDGET_STEPS, WEIGHT_STEPS, WHOLE_SPAN
from privboost.losses import LossTable
from privboost.randomness.keystream import KeyStream
from privboost.randomness.sampling import bernoulli_mask
from privboost.tables.rows import Rows, states_within
from privboost.trees.cell_map import CellMap

_MOST_PACKED_CELLS = 1024

_SAMPLED_BLOCKS = 4
"""Blocks whose sample is drawn before it is used."""


class Shard:
    """Blocks of rows and their scores.

    The scores are a cache: a new shard that holds the same rows and is told the same updates in
    the same order has the same state.

    Parameters
    ----------
    blocks : sequence of Rows
        The rows.
    crew : Crew, optional
        Who works on them. The answers do not depend on the threads.
    """

    def __init__(self, blocks: Sequence[Rows], crew: Crew | None = None) -> None:
        self._rows = Blocks(blocks, crew)
        self._blocks = self._rows.rows
        self._state: list[np.ndarray] = []
        self._states_at: dict[int, np.ndarray] = {}
        self._loss: LossTable | None = None
        self._n_outputs = 0
        self._span = WHOLE_SPAN
        self._tables: dict[tuple[str, ...], np.ndarray] = {}
        self._look_ups: dict[tuple[tuple[str, ...], int], LookUp] = {}
        self._left: Marks | None = None
        self._active: Marks | None = None
        self._prices: dict[int, Price] = {}
        self._routes = Routes(self._rows)
        self._grower = Grower(self._rows, self._routes)
        self._linear: LinearRows | None = None
        self._votes = VoteCounter(self._rows, self._routes)

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
            self._left = Marks(
                [np.full(len(block), BUDGET_STEPS, dtype=np.int32) for block in self._blocks]
            )
            self._active = Marks([np.zeros(len(block), dtype=np.uint8) for block in self._blocks])
        elif isinstance(update, CloseBudgets):
            self._active = None
        elif isinstance(update, Price):
            self._prices[update.number] = update
        elif isinstance(update, Charge):
            self._charge(update)
        elif isinstance(update, UseLoss):
            self._use(update.loss)
        elif isinstance(update, SetTerms):
            self._linear = LinearRows(self._rows, update.terms)
        elif isinstance(update, SetLinearScores):
            self._set_linear_scores(update)
        elif isinstance(update, AddCellValues):
            self._add_cells(update)
        else:
            self._add_trees(update)

    def _add_cells(self, update: AddCellValues) -> None:
        self._check_cells(update.cells)
        joint, values_of_joint = [], []
        for part, first in zip(update.cells.parts, update.cells.first, strict=True):
            values = update.value_of[first : first + part.n_cells]
            if part.alone:
                ids = self._rows.column(part.features[0])
                self._add_values(ids, values[part.cell_of[0]], update.output)
            else:
                joint.append(digits_of(self._rows, part))
                values_of_joint.append(values)
        if joint:
            self._add_joint_values(Parts.of(joint), np.concatenate(values_of_joint), update.output)

    def _add_values(self, ids: Ids, values: np.ndarray, output: int) -> None:
        """Add to each row's score the value of its id."""
        task = (self._rows.sizes, *ids, values, self._states(output))
        self._rows.run(1, block_kernels.add_values_by_id, task)

    def _add_joint_values(self, parts: Parts, values: np.ndarray, output: int) -> None:
        task = (self._rows.sizes, tuple(parts), values, self._states(output))
        self._rows.run(len(parts.radix), block_kernels.add_values_by_part, task)

    def _states(self, output: int) -> np.ndarray:
        """Where the states of an output lie, block by block."""
        if len(self._state) != len(self._blocks):  # kernels would look up wherever
            raise RuntimeError("a shard needs a Start before its rows have scores")
        if output not in self._states_at:
            self._states_at[output] = addresses(state[output] for state in self._state)
        return self._states_at[output]

    def _check_cells(self, cells: CellMap) -> None:
        """Refuse cells that were not made for these rows."""
        if self._blocks:
            cells.check(self._blocks[0].layout)

    def _add_trees(self, update: AddTreeValues) -> None:
        self._routes.follow(update.trees)
        self._routes.lead()
        for tree, values in enumerate(update.value_of):
            ids, leaf_of = self._routes.leaves(tree)
            self._add_values(ids, values[leaf_of], update.output)

    def _set_linear_scores(self, update: SetLinearScores) -> None:
        tables = self._vectors().terms.tables(update.coefficients)

        def act(first: int, last: int) -> None:
            for block, state in zip(self._blocks[first:last], self._state[first:last], strict=True):
                scores = state[update.output]
                scores[:] = 0 if block.start is None else states_within(block.start, self._span)
                add_scores(block.codes, tables, scores)

        self._rows.work(len(tables), act)

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
            return self._grower.answer(query, self._statistics(query))
        if isinstance(query, VoteCounts):
            return self._count_votes(query)
        if isinstance(query, ScoreCounts):
            return self._count_scores(query)
        return self._add_up(query, self._parts(query))

    def tally(self) -> dict[bytes, int]:
        """Return how many rows have each text, under the number of its column and a space."""
        return tally_texts([block.texts for block in self._blocks])

    def _parts(self, query: CellSums | TreeSums) -> list[list[Digit]]:
        """Return the cells that rows have, for each part of a query."""
        if isinstance(query, CellSums):
            return [digits_of(self._rows, part) for part in query.cells.parts]
        self._routes.follow(query.trees)
        self._routes.lead()
        trees = [self._routes.leaves(tree) for tree in range(len(query.trees))]
        return [[(ids, leaf_of, query.shape[1])] for ids, leaf_of in trees]

    def _add_up(self, query: CellSums | TreeSums, parts: list[list[Digit]]) -> np.ndarray:
        """Add the statistics of all rows by the cells of each part."""
        rows, statistics = self._rows, self._statistics(query)
        counts = [math.prod(size for _, _, size in part) for part in parts]
        packed = rows.weight_at is None and max(counts, default=0) <= _MOST_PACKED_CELLS
        whose = (rows.sizes, rows.label_at, statistics.state_at)

        def by_id(active_at: np.ndarray | None, copies: np.ndarray) -> tuple[Any, ...]:
            ids, cell_of, _ = parts[0][0]
            return (*whose, active_at, statistics.look_up, *ids, cell_of, copies)

        def by_parts(active_at: np.ndarray | None, copies: np.ndarray) -> tuple[Any, ...]:
            how = (rows.weight_at, active_at, statistics.look_up)
            return (*whose, *how, several, packed, copies)

        look_ups, size = 1 + sum(map(len, parts)), 2 * sum(counts)
        if packed and len(parts) == 1 and len(parts[0]) == 1:
            sums = rows.add_up(look_ups, block_kernels.sum_by_id, by_id, size, statistics)
        elif parts:
            several = tuple(Parts.of(parts))
            sums = rows.add_up(look_ups, block_kernels.sum_parts, by_parts, size, statistics)
        else:
            sums = np.zeros(size, dtype=np.int64)
        return sums.reshape(*query.shape[:-1], 2)[..., 2 - len(query.statistics) :]

    def _count_scores(self, query: ScoreCounts) -> np.ndarray:
        kinds = place_of_label(query.output, self._n_outputs, 1)
        look_up = self._look_up(query)

        def act(first: int, last: int) -> np.ndarray:
            out = np.zeros((math.prod(query.shape), 2), dtype=np.int64)
            for k in range(first, last):
                block, state = self._blocks[k], self._state[k][query.output]
                cells = np.empty(len(block), dtype=np.uint32)
                kernels.score_cells(state, query.edges, block.label, kinds, query.classes, cells)
                pairs = self._pairs(k, look_up, query.output, self._taking_part(k, query))
                kernels.sum_pairs(cells, None, pairs, out)
            return out

        sums = add_all(self._rows.work(3, act))
        return sums.reshape(*query.shape[:-1], 2)[..., 1:]

    def _add_up_vectors(self, query: LinearSums | GramSums) -> np.ndarray:
        vectors, kinds = self._vectors(), place_of_label(0, self._n_outputs, 1)
        look_up = self._look_up(query) if isinstance(query, LinearSums) else None

        def act(first: int, last: int) -> np.ndarray:
            out = np.zeros(query.shape, dtype=np.int64)
            for k in range(first, last):
                if isinstance(query, LinearSums) and look_up is not None:
                    vectors.add_gradients(k, self._pairs(k, look_up, query.output, None), out)
                elif isinstance(query, GramSums):
                    vectors.add_products(k, np.append(query.factor, 0)[kinds], out)
            return out

        return add_all(self._rows.work(2 + len(vectors.terms.features), act))

    def _count_votes(self, query: VoteCounts) -> np.ndarray:
        if not self._n_outputs or query.sample is not None or self._active is not None:
            raise RuntimeError("votes are counted after a Start, of all rows")
        kinds = place_of_label(query.output, self._n_outputs, 1)
        return self._votes.answer(query, kinds, lambda k: self._state[k][query.output])

    def _start(self, update: Start) -> None:
        self._n_outputs = update.n_outputs
        self._use(update.loss)
        if self._active is not None:
            for active in self._active.arrays:
                active[:] = 0  # a charge under another loss pays for nothing
        self._state, self._states_at = [], {}
        for block in self._blocks:
            state = np.zeros((update.n_outputs, len(block)), dtype=np.int32)
            if block.start is not None:
                state[:] = states_within(block.start, self._span)
            self._state.append(state)

    def _use(self, loss: LossTable | None) -> None:
        self._loss, self._tables, self._look_ups = loss, {}, {}

    def _pairs(self, k: int, look_up: LookUp, output: int, active: np.ndarray | None) -> np.ndarray:
        """Look up the packed statistics of a block's rows."""
        block = self._blocks[k]
        places, *table = look_up
        pairs = np.empty(len(block), dtype=np.int64)
        state = self._state[k][output]
        kernels.row_statistics(block.label, places, state, *table, block.weight, active, pairs)
        return pairs

    def _statistics(self, query: SumQuery) -> Statistics:
        """What rows add to the sums of a query."""

        def sampled(first: int, last: int) -> Iterator[tuple[int, int, np.ndarray]]:
            for start in range(first, last, _SAMPLED_BLOCKS):
                stop = min(start + _SAMPLED_BLOCKS, last)
                own = [self._taking_part(k, query) for k in range(start, stop)]
                chosen = Marks([mask for mask in own if mask is not None])
                yield start, stop, np.append(np.zeros(start, dtype=np.int64), chosen.at)

        active_at = None if self._active is None else self._active.at
        own = None if query.sample is None else sampled
        return Statistics(self._look_up(query), self._states(query.output), active_at, own)

    def _look_up(self, query: SumQuery | LinearSums) -> LookUp:
        """Where the statistics of a query are looked up."""
        loss = self._loss
        if loss is None:
            raise RuntimeError("a shard needs a Start before it can answer")
        statistics = GRADIENT_COUNT if isinstance(query, LinearSums) else query.statistics
        key = (statistics, query.output)
        if key not in self._look_ups:
            if statistics not in self._tables:
                self._tables[statistics] = packed_table(loss, statistics)
            places = place_of_label(query.output, self._n_outputs, loss.size)
            table, shift = self._tables[statistics], np.int32(loss.shift)
            self._look_ups[key] = places, table, loss.size, shift
        return self._look_ups[key]

    def _taking_part(self, k: int, query: SumQuery) -> np.ndarray | None:
        """Who counts: rows that paid, if there are budgets, and are in the sample, if there is."""
        active = None if self._active is None else self._active.arrays[k]
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
        left, active, rows = self._left, self._active, self._rows
        places = place_of_label(update.output, self._n_outputs, self._loss.size)
        state_at, shift = self._states(update.output), np.int32(self._loss.shift)
        tables = self._prices[update.price].tables
        for cohort, own in groupby(range(len(self._blocks)), lambda k: self._blocks[k].cohort):
            blocks = list(own)
            if cohort >= len(tables):
                for k in blocks:
                    active.arrays[k][:] = 0
                continue
            paid = (tables[cohort], shift, rows.weight_at, WEIGHT_STEPS, left.at, active.at)
            task = (rows.sizes, rows.label_at, places, state_at, *paid)
            rows.run(2, block_kernels.charge_blocks, task, blocks[0], blocks[-1] + 1)


class Marks:
    """An array for each block, and where it lies."""

    def __init__(self, arrays: list[np.ndarray]) -> None:
        self.arrays, self.at = arrays, addresses(arrays)


def tally_texts(texts: Sequence[tuple[pa.Array, ...]]) -> dict[bytes, int]:
    """Return how many rows of some blocks have each text; see `Shard.tally`."""
    counts: dict[bytes, int] = {}
    for number, column in enumerate(zip(*texts, strict=True)):
        words = pa.chunked_array(column, pa.large_binary()).drop_null().value_counts()
        for word, count in zip(words.field("values"), words.field("counts"), strict=True):
            counts[f"{number} ".encode() + word.as_py()] = count.as_py()
    return counts
