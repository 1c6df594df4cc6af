"""The CPU shard: rows in this process with their scores, and exact integer sums over them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from privboost._core.addresses import addresses
from privboost._core.grid import BUDGET_STEPS, CLIP_STEPS, FULL_RANGE, WEIGHT_STEPS
from privboost._core.threads import ThreadPool
from privboost.data.design_matrix import Terms
from privboost.data.rows import (
    RelativeResiduals,
    Rows,
    initial_states,
    labels_of_part,
    lines_of_labels,
    nonconformity,
)
from privboost.engine import block_kernels, kernels, softmax_kernels
from privboost.engine.blocks import BlockArrays, Blocks, Digit, Ids, Parts, add_all, digits_of
from privboost.engine.leaf_assignment import LeafAssignment
from privboost.engine.linear import LinearRows, add_scores
from privboost.engine.look_ups import (
    NO_EDGES,
    LookUp,
    Statistics,
    first_entry_of_label,
    kind_of_label,
    need_lines,
    need_no_bins,
    need_same_lines,
    packed_table,
)
from privboost.engine.node_histograms import Grower, Level
from privboost.engine.protocol import BaseShard, Shrinkage, Summand
from privboost.engine.queries import Query
from privboost.engine.softmax import exponentials
from privboost.engine.updates import Update
from privboost.engine.votes import VoteCounter
from privboost.losses.base import LossTable
from privboost.randomness.sampling import Sample
from privboost.trees.cell_map import CellMap
from privboost.trees.tree import Tree

_MOST_PACKED_CELLS = 1024

_SAMPLED_BLOCKS = 4
"""Blocks whose sample is drawn before it is used."""


class Shard(BaseShard):
    """Blocks of rows and their scores.

    The scores are a cache: a new shard with the same rows and the same updates in the same order
    has the same scores.

    Parameters
    ----------
    blocks : sequence of Rows
        The rows.
    pool : ThreadPool, optional
        The threads that work on them; sums do not depend on them.
    """

    def __init__(self, blocks: Sequence[Rows], pool: ThreadPool | None = None) -> None:
        super().__init__(blocks[0].layout if blocks else None)
        self._blocks = Blocks(blocks, pool)
        self._rows = self._blocks.rows
        self._state: list[np.ndarray] = []
        self._addresses: dict[int, np.ndarray] = {}
        self._loss: LossTable | None = None
        self._n_outputs = 0
        self._range = FULL_RANGE
        self._edges = NO_EDGES
        self._lines: BlockArrays | None = None
        self._tables: dict[tuple[str, ...], np.ndarray] = {}
        self._look_ups: dict[tuple[tuple[str, ...], int], LookUp] = {}
        self._left: BlockArrays | None = None
        self._active: BlockArrays | None = None
        self._prices: dict[int, tuple[np.ndarray, ...]] = {}
        self._leaves = LeafAssignment(self._blocks)
        self._grower = Grower(self._blocks, self._leaves)
        self._linear: LinearRows | None = None
        self._labels: list[np.ndarray] | None = None

    def sum(self, query: Query) -> np.ndarray:
        """Return the exact int64 sums over this shard's rows."""
        return query.answer(self)

    def apply(self, update: Update) -> None:
        """Follow an update."""
        self._grower.forget()
        update.apply_to(self)

    def tally(self) -> dict[bytes, int]:
        """Return the count of each text, under the number of its column and a space."""
        return tally_texts([block.texts for block in self._rows])

    # Updates

    def start(self, loss: LossTable | None, n_outputs: int) -> None:
        """Reset the scores of all rows, and use a loss from now on."""
        need_lines(loss, self._edges, n_outputs)
        self._n_outputs = n_outputs
        self._loss, self._tables, self._look_ups = loss, {}, {}
        self._lines = None
        if len(self._edges):
            lines = [lines_of_labels(block, self._edges) for block in self._rows]
            self._lines = BlockArrays(lines)
        if self._active is not None:
            for active in self._active.arrays:
                active[:] = 0  # a charge under another loss pays for nothing
        self._state, self._addresses = [], {}
        for block in self._rows:
            state = np.empty((n_outputs, len(block)), dtype=np.int32)
            state[:] = self._initial_state(block)
            self._state.append(state)

    def _initial_state(self, block: Rows) -> np.ndarray | int:
        """Return the states of rows whose scores are 0."""
        if block.minus_label is None or self._lines is not None:
            return 0
        return initial_states(block.minus_label, self._range)

    def use_loss(self, loss: LossTable) -> None:
        """Use another loss from now on."""
        need_same_lines(loss, self._loss)
        self._loss, self._tables, self._look_ups = loss, {}, {}

    def clip_labels(self, low: int, high: int) -> None:
        """Clip numeric labels to a range from the next start on."""
        self._range = low, high

    def bin_labels(self, edges: np.ndarray) -> None:
        """Look up numeric labels by bin from the next start on."""
        self._edges = edges

    def use_part(
        self, put_aside: Sample, aside: bool, relative: RelativeResiduals | None = None
    ) -> None:
        """Have only the rows put aside count, with nonconformity as states, or only others."""
        need_no_bins(self._lines)
        if self._labels is None:
            self._labels = [block.label for block in self._rows]
        parts = zip(self._rows, self._labels, strict=True)
        self._blocks.set_labels(
            [labels_of_part(block.ids, label, put_aside, aside) for block, label in parts]
        )
        for k, states in enumerate(self._state if aside else []):
            minus_label = self._rows[k].minus_label
            about = self._labels[k], minus_label, self._range, relative
            states[0] = nonconformity(states, *about)

    def add_cell_values(self, cells: CellMap, values: np.ndarray, output: int) -> None:
        """Add to each row's score the value of its cell in each part."""
        self._check_cells(cells)
        joint, values_of_joint = [], []
        for part, own in zip(cells.parts, cells.split(values), strict=True):
            if part.alone:
                ids = self._blocks.column(part.features[0])
                self._add_values(ids, own[part.cell_of[0]], output)
            else:
                joint.append(digits_of(self._blocks, part))
                values_of_joint.append(own)
        if joint:
            parts = Parts.of(joint)
            value_of = np.concatenate(values_of_joint)
            task = (self._blocks.sizes, tuple(parts), value_of, self._state_addresses(output))
            self._blocks.run(len(parts.radix), block_kernels.add_values_by_part, task)

    def add_tree_values(self, trees: tuple[Tree, ...], values: np.ndarray, output: int) -> None:
        """Add to each row's score the value of its leaf in each tree."""
        self._leaves.set_trees(trees)
        self._leaves.assign()
        for tree, own in enumerate(values):
            ids, leaf_of = self._leaves.leaves(tree)
            self._add_values(ids, own[leaf_of], output)

    def _add_values(self, ids: Ids, values: np.ndarray, output: int) -> None:
        """Add to each row's score the value of its id."""
        task = (self._blocks.sizes, *ids, values, self._state_addresses(output))
        self._blocks.run(1, block_kernels.add_values_by_id, task)

    def set_terms(self, terms: Terms) -> None:
        """Define the vectors of rows."""
        self._linear = LinearRows(self._blocks, terms)

    def set_linear_scores(self, coefficients: np.ndarray, output: int) -> None:
        """Set each row's score to the product of its vector and the coefficients."""
        tables = self._vectors().terms.tables(coefficients)

        def act(first: int, last: int) -> None:
            for block, state in zip(self._rows[first:last], self._state[first:last], strict=True):
                scores = state[output]
                scores[:] = self._initial_state(block)
                add_scores(block.codes, tables, scores)

        self._blocks.work(len(tables), act)

    def open_budgets(self) -> None:
        """Give each row a lifetime budget."""
        if self._left is not None:
            raise RuntimeError("lifetime budgets can be opened once only")
        self._left = BlockArrays(
            [np.full(len(block), BUDGET_STEPS, dtype=np.int32) for block in self._rows]
        )
        self._active = BlockArrays([np.zeros(len(block), dtype=np.uint8) for block in self._rows])

    def close_budgets(self) -> None:
        """Let every row count again."""
        self._active = None

    def set_price(self, number: int, tables: tuple[np.ndarray, ...]) -> None:
        """Store the charges of a kind of release."""
        self._prices[number] = tables

    def charge(self, price: int, output: int) -> None:
        """Charge every row that can afford a price; the others do not count."""
        if self._loss is None or self._left is None or self._active is None:
            raise RuntimeError("a shard needs a Start and OpenBudgets before it can charge")
        left, active, blocks = self._left, self._active, self._blocks
        loss = self._loss
        first_entry = first_entry_of_label(output, self._n_outputs, loss.size, loss.lines)
        state_at, shift = self._state_addresses(output), np.int32(loss.shift)
        tables = self._prices[price]
        for cohort, own in groupby(range(len(self._rows)), lambda k: self._rows[k].cohort):
            numbers = list(own)
            if cohort >= len(tables):
                for k in numbers:
                    active.arrays[k][:] = 0
                continue
            paid = (tables[cohort], shift, blocks.weight_at, WEIGHT_STEPS, left.at, active.at)
            task = (blocks.sizes, self._line_at, first_entry, state_at, *paid)
            blocks.run(2, block_kernels.charge_blocks, task, numbers[0], numbers[-1] + 1)

    # Queries

    def sum_by_cell(self, cells: CellMap, summand: Summand) -> np.ndarray:
        """Return sums by cell."""
        self._check_cells(cells)
        return self._add_up([digits_of(self._blocks, part) for part in cells.parts], summand)

    def sum_by_leaf(self, trees: tuple[Tree, ...], summand: Summand) -> np.ndarray:
        """Return sums by leaf of each tree."""
        self._leaves.set_trees(trees)
        self._leaves.assign()
        leaves = [self._leaves.leaves(tree) for tree in range(len(trees))]
        return self._add_up(
            [[(ids, leaf_of, trees[0].n_leaves)] for ids, leaf_of in leaves], summand
        )

    def sum_by_node(self, tree: Tree, cells: CellMap, summand: Summand) -> np.ndarray:
        """Return sums by leaf of a tree and cell."""
        self._check_cells(cells)
        return self._grower.answer(Level(tree, cells, summand), self._statistics(summand))

    def sum_by_score(self, edges: np.ndarray, classes: int, summand: Summand) -> np.ndarray:
        """Return sums by interval of the score and class."""

        def states_of(k: int) -> tuple[np.ndarray, np.ndarray]:
            state = self._state[k][summand.output]
            return state, state

        return self._sum_by_interval(edges, classes, summand, states_of)

    def sum_by_prediction(self, edges: np.ndarray, limit: int, summand: Summand) -> np.ndarray:
        """Return sums by interval of the prediction."""

        def states_of(k: int) -> tuple[np.ndarray, np.ndarray]:
            start = self._initial_state(self._rows[k])
            kept = np.clip(self._state[k][summand.output] - start, -limit, limit)
            return kept, start + kept

        return self._sum_by_interval(edges, 1, summand, states_of)

    def _sum_by_interval(
        self,
        edges: np.ndarray,
        classes: int,
        summand: Summand,
        states_of: Callable[[int], tuple[np.ndarray, np.ndarray]],
    ) -> np.ndarray:
        """Return sums by interval and class.

        `states_of` returns of a block the numbers that lie in intervals, and the states by which
        statistics are looked up.
        """
        kinds = kind_of_label(summand.output, self._n_outputs)
        look_up = self._look_up(summand)

        def act(first: int, last: int) -> np.ndarray:
            out = np.zeros(((len(edges) + 1) * classes, 2), dtype=np.int64)
            for k in range(first, last):
                block, (within, state) = self._rows[k], states_of(k)
                cells = np.empty(len(block), dtype=np.uint32)
                kernels.score_cells(within, edges, block.label, kinds, classes, cells)
                pairs = self._pairs(k, look_up, state, self._counted(k, summand.sample))
                kernels.sum_pairs(cells, pairs, out)
            return out

        return add_all(self._blocks.work(3, act))

    def count_votes(
        self, tree: Tree, node_of_leaf: np.ndarray, cells: CellMap, votes: int, output: int
    ) -> np.ndarray:
        """Return counts by node, cell, sum of votes and class."""
        self._check_cells(cells)
        if not self._n_outputs or self._active is not None:
            raise RuntimeError("votes are counted after a Start, over all rows")
        kinds = kind_of_label(output, self._n_outputs)
        return self._vote_counter.answer(
            tree, node_of_leaf, cells, votes, kinds, lambda k: self._state[k][output]
        )

    @cached_property
    def _vote_counter(self) -> VoteCounter:
        """Answers counts of votes; made where they are asked for."""
        return VoteCounter(self._blocks, self._leaves)

    def sum_softmax_by_cell(self, cells: CellMap, shrinkage: Shrinkage) -> np.ndarray:
        """Return softmax sums by cell."""
        self._check_cells(cells)
        return self._sum_softmax([digits_of(self._blocks, part) for part in cells.parts], shrinkage)

    def sum_softmax_by_leaf(self, trees: tuple[Tree, ...], shrinkage: Shrinkage) -> np.ndarray:
        """Return softmax sums by leaf of each tree."""
        self._leaves.set_trees(trees)
        self._leaves.assign()
        leaves = [self._leaves.leaves(tree) for tree in range(len(trees))]
        parts = [[(ids, leaf_of, trees[0].n_leaves)] for ids, leaf_of in leaves]
        return self._sum_softmax(parts, shrinkage)

    def _sum_softmax(self, parts: list[list[Digit]], shrinkage: Shrinkage) -> np.ndarray:
        """Add the softmax statistics of all rows by the cells of each part."""
        blocks, shape = self._blocks, (self._n_outputs, 2)
        whose = (
            *self._rows_of_classes(shrinkage.n_outputs),
            *shrinkage,
            CLIP_STEPS,
            exponentials(),
        )
        several = tuple(Parts.of(parts)) if parts else ()
        cells = sum(math.prod(size for _, _, size in part) for part in parts)

        def task_of(_: np.ndarray | None, copies: np.ndarray) -> tuple[Any, ...]:
            return (*whose, several, copies.reshape(len(copies), -1, *shape))

        if not parts:
            return np.zeros(0, dtype=np.int64)
        look_ups = 8 * self._n_outputs + sum(map(len, parts))
        kernel, size = softmax_kernels.sum_softmax, cells * math.prod(shape)
        return blocks.add_up(look_ups, kernel, task_of, size)

    def count_labels(self, n_outputs: int) -> np.ndarray:
        """Return counts of rows by class."""
        blocks = self._blocks
        sizes, labels, _, weights = self._rows_of_classes(n_outputs)
        return CLIP_STEPS * blocks.add_up(
            1,
            softmax_kernels.count_labels,
            lambda _, copies: (sizes, labels, weights, copies),
            n_outputs,
        )

    def count_top_classes(self, n_outputs: int, edges: np.ndarray) -> np.ndarray:
        """Return counts by largest probability, and whether that class is the row's own."""
        whose = (*self._rows_of_classes(n_outputs), n_outputs, exponentials(), edges)
        return CLIP_STEPS * self._blocks.add_up(
            4 * n_outputs,
            softmax_kernels.count_top_classes,
            lambda _, copies: (*whose, copies.reshape(len(copies), -1, 2)),
            2 * (len(edges) + 1),
        )

    def _rows_of_classes(self, n_outputs: int) -> tuple[Any, ...]:
        """Return sizes, labels, scores of all classes and weights of blocks, as kernels read them.

        All rows count: individual budgets pay for the statistics of one class at a time.
        """
        if self._n_outputs != n_outputs or self._active is not None or self._lines is not None:
            raise RuntimeError("statistics of all classes need a Start with their scores")
        blocks = self._blocks
        return blocks.sizes, blocks.label_at, self._state_addresses(0), blocks.weight_at

    def sum_gradients(self, summand: Summand) -> np.ndarray:
        """Return the sum of the rows' vectors, each times its gradient."""
        vectors, look_up, output = self._vectors(), self._look_up(summand), summand.output

        def add(k: int, out: np.ndarray) -> None:
            vectors.add_gradients(k, self._pairs(k, look_up, self._state[k][output], None), out)

        return self._add_up_vectors((vectors.terms.n_coordinates,), add)

    def sum_products(self, factor: np.ndarray) -> np.ndarray:
        """Return the sum of the outer products of the rows' vectors with themselves."""
        vectors = self._vectors()
        of_label = np.append(factor, 0)[kind_of_label(0, self._n_outputs)]
        return self._add_up_vectors(
            (vectors.terms.n_coordinates,) * 2,
            lambda k, out: vectors.add_products(k, of_label, out),
        )

    def _add_up_vectors(
        self, shape: tuple[int, ...], add: Callable[[int, np.ndarray], None]
    ) -> np.ndarray:
        """Return the sum over all blocks; `add` adds that of one block to an array."""

        def act(first: int, last: int) -> np.ndarray:
            out = np.zeros(shape, dtype=np.int64)
            for k in range(first, last):
                add(k, out)
            return out

        return add_all(self._blocks.work(2 + len(self._vectors().terms.features), act))

    def _vectors(self) -> LinearRows:
        if self._linear is None:
            raise RuntimeError("a shard needs a SetTerms before rows are vectors")
        return self._linear

    def _add_up(self, parts: list[list[Digit]], summand: Summand) -> np.ndarray:
        """Add the statistics of all rows by the cells of each part."""
        blocks, statistics = self._blocks, self._statistics(summand)
        counts = [math.prod(size for _, _, size in part) for part in parts]
        packed = blocks.weight_at is None and max(counts, default=0) <= _MOST_PACKED_CELLS
        whose = (blocks.sizes, statistics.label_at, statistics.state_at)

        def by_id(active_at: np.ndarray | None, copies: np.ndarray) -> tuple[Any, ...]:
            ids, cell_of, _ = parts[0][0]
            return (*whose, active_at, statistics.look_up, *ids, cell_of, _pairs_of(copies))

        def by_parts(active_at: np.ndarray | None, copies: np.ndarray) -> tuple[Any, ...]:
            weight_at = () if packed else (blocks.weight_at,)
            return (
                *(*whose, *weight_at, active_at, statistics.look_up, several),
                _pairs_of(copies),
            )

        look_ups, size = 1 + sum(map(len, parts)), 2 * sum(counts)
        if packed and len(parts) == 1 and len(parts[0]) == 1:
            return blocks.add_up(look_ups, block_kernels.sum_by_id, by_id, size, statistics)
        if parts:
            several = tuple(Parts.of(parts))
            kernel = block_kernels.sum_parts_packed if packed else block_kernels.sum_parts
            return blocks.add_up(look_ups, kernel, by_parts, size, statistics)
        return np.zeros(size, dtype=np.int64)

    def _state_addresses(self, output: int) -> np.ndarray:
        """Return the address of each block's scores of an output."""
        if len(self._state) != len(self._rows):  # kernels would read anywhere
            raise RuntimeError("a shard needs a Start before its rows have scores")
        if output not in self._addresses:
            self._addresses[output] = addresses(state[output] for state in self._state)
        return self._addresses[output]

    def _pairs(
        self, k: int, look_up: LookUp, state: np.ndarray, active: np.ndarray | None
    ) -> np.ndarray:
        """Look up the packed statistics of a block's rows, given their states."""
        block = self._rows[k]
        first_entry, *table = look_up
        pairs = np.empty(len(block), dtype=np.int64)
        label = block.label if self._lines is None else self._lines.arrays[k]
        kernels.row_statistics(label, first_entry, state, *table, block.weight, active, pairs)
        return pairs

    def _statistics(self, summand: Summand) -> Statistics:
        """Return the look-up of what each row adds."""
        sample = summand.sample

        def sampled(first: int, last: int) -> Iterator[tuple[int, int, np.ndarray]]:
            for start in range(first, last, _SAMPLED_BLOCKS):
                stop = min(start + _SAMPLED_BLOCKS, last)
                own = [self._counted(k, sample) for k in range(start, stop)]
                chosen = BlockArrays([mask for mask in own if mask is not None])
                yield start, stop, np.append(np.zeros(start, dtype=np.int64), chosen.at)

        active_at = None if self._active is None else self._active.at
        return Statistics(
            self._look_up(summand),
            self._line_at,
            self._state_addresses(summand.output),
            active_at,
            None if sample is None else sampled,
        )

    @property
    def _line_at(self) -> np.ndarray:
        """The addresses of each block's labels, by which lines of the loss are found."""
        return self._blocks.label_at if self._lines is None else self._lines.at

    def _look_up(self, summand: Summand) -> LookUp:
        """Return the loss table of what each row adds, and how to index it."""
        loss, statistics, output = self._loss, summand.statistics, summand.output
        if loss is None:
            raise RuntimeError("a shard needs a Start before it can answer")
        key = (statistics, output)
        if key not in self._look_ups:
            if statistics not in self._tables:
                self._tables[statistics] = packed_table(loss, statistics)
            first_entry = first_entry_of_label(output, self._n_outputs, loss.size, loss.lines)
            table, shift = self._tables[statistics], np.int32(loss.shift)
            self._look_ups[key] = first_entry, table, loss.size, shift
        return self._look_ups[key]

    def _counted(self, k: int, sample: Sample | None) -> np.ndarray | None:
        """Return which rows of a block count: those charged (with budgets) and in the sample."""
        active = None if self._active is None else self._active.arrays[k]
        if sample is None:
            return active
        ids = self._rows[k].ids
        if ids is None:
            raise RuntimeError("rows without ids cannot be sampled")
        chosen = sample.mask(ids).view(np.uint8)
        return chosen if active is None else chosen & active


def _pairs_of(copies: np.ndarray) -> np.ndarray:
    """Return sums of pairs of statistics by cell, for each share."""
    return copies.reshape(len(copies), -1, 2)


def tally_texts(texts: Sequence[tuple[pa.Array, ...]]) -> dict[bytes, int]:
    """Return the count of rows of each text in some blocks; see `Shard.tally`."""
    counts: dict[bytes, int] = {}
    for number, column in enumerate(zip(*texts, strict=True)):
        words = pa.chunked_array(column, pa.large_binary()).drop_null().value_counts()
        for word, count in zip(words.field("values"), words.field("counts"), strict=True):
            counts[f"{number} ".encode() + word.as_py()] = count.as_py()
    return counts
