"""The CUDA shard: rows on one device with their scores, and the same sums as `engine.shard`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from privboost._core.grid import (
    CLIP_STEPS,
    FACTOR_STEPS,
    VECTOR_BITS,
    VECTOR_STEPS,
    VOTE,
    WEIGHT_STEPS,
)
from privboost.cuda.device import (
    CELLS,
    GRADIENTS,
    PRODUCTS,
    SCALES,
    SOFTMAX,
    VECTORS,
    VOTES,
    Device,
    Task,
    spread,
)
from privboost.cuda.rows import DeviceRows
from privboost.cuda.states import DeviceState
from privboost.cuda.sums import (
    Part,
    add_values,
    part_of_cells,
    part_of_features,
    part_with_values,
    put_parts,
    sum_by_node,
    sum_parts,
)
from privboost.cuda.trees import DeviceGrower, DeviceLeaves, separate_parts
from privboost.data.design_matrix import Terms
from privboost.data.rows import Rows
from privboost.engine import linear_kernels
from privboost.engine.linear import ROOTS, check_terms, squares_of
from privboost.engine.node_histograms import Level
from privboost.engine.protocol import Shrinkage, Summand
from privboost.engine.queries import Query
from privboost.engine.softmax import exponentials
from privboost.engine.softmax_kernels import SLOPE_STEPS
from privboost.engine.updates import Update
from privboost.trees.cell_map import CellMap
from privboost.trees.tree import Tree

_MOST_BYTES = 2**30
"""Bytes of vectors that are written at once."""
_SHARE = 8
"""They take at most this part of the spare memory: several streams may use it."""
_SIDE, _PRODUCT_THREADS = 64, 256
_CLASS_THREADS = 256
"""Threads of a block of the kernels about all classes, which need many registers."""
_SLICE = 4096
"""Rows whose products one block adds up, and the fewest vectors that are written at once."""


class DeviceVectors:
    """The vectors of rows on a device; they are computed whenever they are needed."""

    def __init__(self, shard: DeviceState, terms: Terms) -> None:
        rows = shard.rows
        self._rows, self._shard, self.terms = rows, shard, terms
        if rows.layout is not None:
            check_terms(terms, rows.layout)
        self._scale = self._scales() if terms.shortens and rows.n else None

    def _scales(self) -> Any:
        """Return the factor by which each row's vector is shortened."""
        rows, device = self._rows, self._rows.device
        out = rows.allocate(np.uint16)
        task = Task(SCALES, out=device.target(out), steps=VECTOR_STEPS, n=rows.n)
        squares = squares_of(self.terms)
        put_parts(
            device, task, [part_of_features(rows, own, table) for own, table in squares.items()]
        )
        device.launch("vector_scales", task, **spread(device, rows.n, 4))
        return out

    def set_scores(self, coefficients: np.ndarray, output: int) -> None:
        """Set each row's score to the product of its vector and the coefficients."""
        rows, tables = self._rows, self.terms.tables(coefficients)
        self._shard.reset(output)
        parts = [part_of_features(rows, features, table) for features, table in tables.items()]
        add_values(rows.device, self._shard.state(output), rows.n, parts)

    def sum_gradients(self, summand: Summand) -> np.ndarray:
        """Return the sum of vectors, each times its row's gradient."""
        rows, device, terms = self._rows, self._rows.device, self.terms
        finer = CLIP_STEPS // FACTOR_STEPS * (1 if rows.weight is None else WEIGHT_STEPS)
        bits = finer.bit_length() - 1 + (0 if self._scale is None else VECTOR_BITS)
        look_up = self._shard.look_up(summand, None)
        pairs = rows.scratch(np.int64)
        task = Task(GRADIENTS, look=look_up, scale=device.address(self._scale), bits=bits)
        task.set(out=device.address(pairs))
        device.launch("vector_gradients", task, **spread(device, rows.n, 4))
        look_up["pairs"] = device.address(pairs)
        total = np.zeros(terms.n_coordinates, dtype=np.int64)
        parts: list[Part] = []
        for features in terms.by_features:
            first = parts[-1].first + parts[-1].cells if parts else 0
            parts.append(replace(part_of_features(rows, features), first=first))
        out = device.zeros((sum(part.cells for part in parts), 2), np.int64)
        sum_parts(device, look_up, parts, out, weighted=False)
        sums = device.fetch(out)[:, 0]
        for part, numbers in zip(parts, terms.by_features.values(), strict=True):
            by_code = sums[part.first : part.first + part.cells].copy()
            for number in numbers:
                linear_kernels.fold(by_code, terms.coordinate[number], terms.value[number], total)
        return total

    def sum_products(self, factor: np.ndarray) -> np.ndarray:
        """Return the sum of the outer products of vectors with themselves."""
        rows, device, terms = self._rows, self._rows.device, self.terms
        tiles = -(-terms.n_coordinates // _SIDE)
        width = tiles * _SIDE
        step = max(min(_MOST_BYTES, device.spare // _SHARE) // (4 * width), _SLICE)
        out = device.zeros((width, width), np.int64)
        for begin in range(0, rows.n, step):
            end = min(begin + step, rows.n)
            vectors = device.zeros((end - begin, width), np.int32)
            self._write(factor, vectors, begin, end, width)
            task = Task(PRODUCTS, vectors=device.address(vectors), out=device.address(out))
            task.set(rows=end - begin, width=width, tiles=tiles, slice=_SLICE)
            blocks = tiles * tiles * -(-(end - begin) // _SLICE)
            threads = min(_PRODUCT_THREADS, device.threads)
            device.launch("add_products", task, blocks, threads=threads)
        half = np.triu(device.fetch(out))[: terms.n_coordinates, : terms.n_coordinates]
        products: np.ndarray = half + np.triu(half, 1).T
        return products

    def _write(self, factor: np.ndarray, vectors: Any, begin: int, end: int, width: int) -> None:
        rows, device = self._rows, self._rows.device
        task = Task(VECTORS, label=device.address(rows.label), weight=device.address(rows.weight))
        task.set(
            scale=device.address(self._scale), out=device.address(vectors), begin=begin, end=end
        )
        task.set(own=self._shard.own(0), width=width, bits=VECTOR_BITS)
        task.set(factors=task.put(factor.astype(np.int32)), roots=task.put(ROOTS))
        put_parts(
            device, task, [self._entries(number) for number in range(len(self.terms.features))]
        )
        device.launch("write_vectors", task, **spread(device, end - begin))

    def _entries(self, number: int) -> Part:
        """Return the coordinate and the value of each code of a term."""
        entries = np.stack([self.terms.coordinate[number], self.terms.value[number]], axis=1)
        return part_of_features(self._rows, self.terms.features[number], entries.astype(np.int32))


class DeviceShard(DeviceState):
    """Blocks of rows on a device.

    Parameters
    ----------
    device : Device
        The device.
    blocks : sequence of Rows
        The rows.
    n_threads : int
        The CPU threads that copy rows to the device.
    """

    def __init__(self, device: Device, blocks: Sequence[Rows], n_threads: int = 1) -> None:
        super().__init__(DeviceRows(device, blocks, n_threads))
        device.finish()
        self._device = device
        self._leaves = DeviceLeaves(self.rows)
        self._grower = DeviceGrower(self.rows, self._leaves)
        self._linear: DeviceVectors | None = None
        self._pairs: tuple[Summand, Any] | None = None

    def sum(self, query: Query) -> np.ndarray:
        """Return the exact int64 sums over these rows."""
        if not self.rows.n:
            return np.zeros(query.shape, dtype=np.int64)
        answer = query.answer(self)
        self._device.finish()
        if not self._device.resident:
            self._forget()
        return answer

    def apply(self, update: Update) -> None:
        """Follow an update."""
        self._forget()
        update.apply_to(self)
        self._device.finish()

    def _forget(self) -> None:
        """Drop the caches of a tree that grows."""
        self._grower.forget()
        self._pairs = None

    def add_cell_values(self, cells: CellMap, values: np.ndarray, output: int) -> None:
        """Add to each row's score the value of its cell in each part."""
        self._check_cells(cells)
        parts = zip(cells.parts, cells.split(values), strict=True)
        if self.rows.n:
            self._add([part_with_values(self.rows, part, own) for part, own in parts], output)

    def add_tree_values(self, trees: tuple[Tree, ...], values: np.ndarray, output: int) -> None:
        """Add to each row's score the value of its leaf in each tree."""
        if self.rows.n:
            self._leaves.set_trees(trees)
            self._add([self._leaves.values(k, own) for k, own in enumerate(values)], output)

    def _add(self, parts: Sequence[Part], output: int) -> None:
        add_values(self._device, self.state(output), self.rows.n, parts)

    def set_terms(self, terms: Terms) -> None:
        """Define the vectors of rows."""
        self._linear = DeviceVectors(self, terms)

    def set_linear_scores(self, coefficients: np.ndarray, output: int) -> None:
        """Set each row's score to the product of its vector and the coefficients."""
        self._vectors().set_scores(coefficients, output)

    def sum_by_cell(self, cells: CellMap, summand: Summand) -> np.ndarray:
        """Return sums by cell."""
        self._check_cells(cells)
        each = zip(cells.parts, cells.first, strict=True)
        parts = [part_of_cells(self.rows, part, first) for part, first in each]
        return self._add_up(parts, cells.n_cells, summand)

    def sum_by_leaf(self, trees: tuple[Tree, ...], summand: Summand) -> np.ndarray:
        """Return sums by leaf of each tree."""
        leaves = trees[0].n_leaves
        self._leaves.set_trees(trees)
        parts = [self._leaves.part(k, k * leaves) for k in range(len(trees))]
        return self._add_up(parts, len(trees) * leaves, summand)

    def sum_by_score(self, edges: np.ndarray, classes: int, summand: Summand) -> np.ndarray:
        """Return sums by interval of the score and class."""
        within = self.state(summand.output)
        return self._sum_by_interval(within, edges, classes, summand)

    def sum_by_prediction(self, edges: np.ndarray, limit: int, summand: Summand) -> np.ndarray:
        """Return sums by interval of the prediction."""
        kept, bounded = self.bounded_predictions(summand.output, limit)
        return self._sum_by_interval(kept, edges, 1, summand, bounded)

    def _sum_by_interval(
        self, within: Any, edges: np.ndarray, classes: int, summand: Summand, state: Any = None
    ) -> np.ndarray:
        """Return sums by interval of some numbers and class; see `look_up` for the state."""
        rows, device, count = self.rows, self._device, (len(edges) + 1) * classes
        cells = rows.scratch(np.uint32)
        task = Task(CELLS, state=device.address(within))
        task.set(label=device.address(rows.label), out=device.address(cells), n=rows.n)
        task.set(own=self.own(summand.output), classes=classes)
        task.set(n_edges=len(edges), edges=task.put(edges))
        device.launch("score_cells", task, **spread(device, rows.n))
        return self._add_up([Part((cells,), (None,), (count,))], count, summand, state)

    def _add_up(
        self, parts: Sequence[Part], cells: int, summand: Summand, state: Any = None
    ) -> np.ndarray:
        """Add the statistics of all rows by cell."""
        active = self.counted(summand.sample)
        look_up = self.look_up(summand, active, state)
        out = self._device.zeros((cells, 2), np.int64)
        sum_parts(self._device, look_up, parts, out, self.rows.weight is not None)
        return self._device.fetch(out)

    def sum_by_node(self, tree: Tree, cells: CellMap, summand: Summand) -> np.ndarray:
        """Return sums by leaf of a tree and cell."""
        self._check_cells(cells)
        return self._grower.answer(Level(tree, cells, summand), self._pairs_of(summand))

    def _pairs_of(self, summand: Summand) -> Any:
        """Return the pairs of statistics of rows, which are kept while a tree grows."""
        if self._pairs is not None and summand.same_as(self._pairs[0]):
            return self._pairs[1]
        active = self.counted(summand.sample)
        self._pairs = summand, self.pairs(self.look_up(summand, active))
        return self._pairs[1]

    def count_votes(
        self, tree: Tree, node_of_leaf: np.ndarray, cells: CellMap, votes: int, output: int
    ) -> np.ndarray:
        """Return counts by node, cell, sum of votes and class."""
        self._check_cells(cells)
        if not self.n_outputs or self._active is not None:
            raise RuntimeError("votes are counted after a Start, over all rows")
        rows, device, n_cells = self.rows, self._device, cells.n_cells
        shape = nodes, sums, classes = (int(node_of_leaf.max()) + 1, votes + 1, 2)
        counts = np.zeros((nodes, n_cells + 1, sums, classes), dtype=np.int64)
        self._leaves.set_trees((tree,))
        node, pairs = rows.scratch(np.uint32), rows.scratch(np.int64)
        task = Task(VOTES, state=device.address(self.state(output)))
        task.set(label=device.address(rows.label), node=device.address(self._leaves.nodes(0)))
        task.set(out=device.address(node), pairs=device.address(pairs), n=rows.n, votes=votes)
        task.set(own=self.own(output), vote_bits=VOTE.bit_length() - 1)
        task.set(node_of_leaf=task.put(node_of_leaf.astype(np.uint16)))
        device.launch("vote_nodes", task, **spread(device, rows.n))
        out = device.zeros((math.prod(shape), n_cells, 2), np.int64)
        parts = separate_parts(rows, cells)
        sum_by_node(device, pairs, node, None, parts, out, rows.n, weighted=False)
        found = device.fetch(out)[:, :, 1].reshape(*shape, n_cells)
        counts[:, :-1] = np.moveaxis(found, -1, 1)
        counts[0, -1, 0, 0] = rows.n_unknown
        return counts

    def sum_softmax_by_cell(self, cells: CellMap, shrinkage: Shrinkage) -> np.ndarray:
        """Return softmax sums by cell."""
        self._check_cells(cells)
        each = zip(cells.parts, cells.first, strict=True)
        parts = [part_of_cells(self.rows, part, first) for part, first in each]
        return self._sum_softmax(parts, cells.n_cells, shrinkage)

    def sum_softmax_by_leaf(self, trees: tuple[Tree, ...], shrinkage: Shrinkage) -> np.ndarray:
        """Return softmax sums by leaf of each tree."""
        leaves = trees[0].n_leaves
        self._leaves.set_trees(trees)
        parts = [self._leaves.part(k, k * leaves) for k in range(len(trees))]
        return self._sum_softmax(parts, len(trees) * leaves, shrinkage)

    def _sum_softmax(self, parts: Sequence[Part], cells: int, shrinkage: Shrinkage) -> np.ndarray:
        """Add the softmax statistics of all rows by cell."""
        task = self._about_classes(shrinkage.n_outputs)
        task.set(clip=shrinkage.clip, clip_steps=shrinkage.clip_steps, slope=shrinkage.slope)
        task.set(hessian_clip=shrinkage.hessian_clip, absolute=shrinkage.absolute)
        put_parts(self._device, task, parts)
        return self._launch_about_classes("sum_softmax", task, (cells, shrinkage.n_outputs, 2))

    def count_labels(self, n_outputs: int) -> np.ndarray:
        """Return counts of rows by class."""
        task = self._about_classes(n_outputs)
        return self._launch_about_classes("count_labels", task, (n_outputs,))

    def count_top_classes(self, n_outputs: int, edges: np.ndarray) -> np.ndarray:
        """Return counts by largest probability, and whether that class is the row's own."""
        task = self._about_classes(n_outputs)
        task.set(slope=SLOPE_STEPS, n_edges=len(edges), edges=task.put(edges))
        return self._launch_about_classes("count_top_classes", task, (len(edges) + 1, 2))

    def _about_classes(self, n_outputs: int) -> Task:
        """Return the arguments of kernels about all classes, of which each has a score.

        All rows count: individual budgets pay for the statistics of one class at a time.
        """
        if self.n_outputs != n_outputs or self._active is not None or self._lines is not None:
            raise RuntimeError("statistics of all classes need a Start with their scores")
        rows, device, powers = self.rows, self._device, exponentials()
        states = [device.address(self.state(output)) for output in range(n_outputs)]
        task = Task(SOFTMAX, label=device.address(rows.label), weight=device.address(rows.weight))
        task.set(states=task.put(np.array(states, dtype=np.uint64)), n=rows.n, classes=n_outputs)
        task.set(size=len(powers), table=task.put(powers))
        return task

    def _launch_about_classes(self, kernel: str, task: Task, shape: tuple[int, ...]) -> np.ndarray:
        """Launch a kernel about all classes; return its answer."""
        device = self._device
        out = device.zeros(shape, np.int64)
        task.set(out=device.address(out))
        how = spread(device, self.rows.n)
        device.launch(kernel, task, **how | {"threads": min(_CLASS_THREADS, how["threads"])})
        return device.fetch(out)

    def sum_gradients(self, summand: Summand) -> np.ndarray:
        """Return the sum of the rows' vectors, each times its gradient."""
        return self._vectors().sum_gradients(summand)

    def sum_products(self, factor: np.ndarray) -> np.ndarray:
        """Return the sum of the outer products of the rows' vectors with themselves."""
        return self._vectors().sum_products(factor)

    def _vectors(self) -> DeviceVectors:
        if self._linear is None:
            raise RuntimeError("a shard needs a SetTerms before rows are vectors")
        return self._linear
