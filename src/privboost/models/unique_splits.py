"""The unique splits of a forest, by which many rows are scored at once; see `line_kernels`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from privboost.data.rows import Codes
from privboost.models import kernels

_LEVELS = 8
"""The levels of a tree that are evaluated by unique splits, one operation on many rows each."""
_MOST_SPLITS = 2**13
"""The largest number of splits of a batch: the bits of a stride of rows fit into a cache."""
_MOST_BYTES = 2**23
"""The size of the unpacked bitmasks of a batch, or of one tree if that is larger."""
_MOST_INTERVALS = 64
"""The largest number of code intervals of a split; beyond it a table look-up is faster."""


class Batch(NamedTuple):
    """Trees that together have few unique splits.

    Attributes
    ----------
    trees : slice
        The trees of the forest.
    feature : uint16 array
        The feature of each split.
    intervals : tuple of first, begin, length
        The intervals of codes that go right.
    many, bits : arrays
        The splits of many intervals, and their bitmasks.
    split_of : uint16 array of shape (trees, nodes)
        The split of each node of the first levels.
    """

    trees: slice
    feature: np.ndarray
    intervals: tuple[np.ndarray, np.ndarray, np.ndarray]
    many: np.ndarray
    bits: np.ndarray
    split_of: np.ndarray

    def add(
        self,
        codes: Codes,
        feature: np.ndarray,
        goes_right: np.ndarray,
        values: np.ndarray,
        scores: np.ndarray,
    ) -> None:
        """Add the values of the batch's trees, from the arrays of all trees, to scores."""
        slots, own = codes.layout.slot_array, self.trees
        lines = (slots[self.feature], self.intervals, self.many, self.bits, self.split_of)
        whole = (slots[feature[own]], goes_right[own], values[own])
        kernels.add_trees_by_split(codes.narrow, codes.wide, *lines, *whole, scores)


def batches_of(feature: np.ndarray, goes_right: np.ndarray) -> Iterator[Batch]:
    """Yield trees in batches.

    Parameters
    ----------
    feature, goes_right : arrays
        The trees; see `Forest`.
    """
    feature, goes_right = (
        np.ascontiguousarray(array[:, : 2**_LEVELS - 1]) for array in (feature, goes_right)
    )
    trees, nodes, size = goes_right.shape
    flat, bits = feature.reshape(-1), goes_right.reshape(-1, size)
    table = np.full(1 << (2 * flat.size - 1).bit_length(), -1, dtype=np.int32)
    line_of, first_seen, lines = np.empty((3, flat.size), dtype=np.int32)
    known = kernels.number_splits(flat, bits, table, line_of, first_seen)
    most = max(min(_MOST_SPLITS, _MOST_BYTES // (8 * size)), nodes)
    numbers, begins = np.empty((trees, nodes), np.uint16), np.empty((trees + 1, 2), np.int64)
    line_of = line_of.reshape(trees, nodes)
    count = kernels.batch_splits(line_of, known, most, numbers, lines, begins)
    for (tree, line), (last_tree, last_line) in pairwise(begins[: count + 1].tolist()):
        own, seen = slice(tree, last_tree), first_seen[lines[line:last_line]]
        yield Batch(own, flat[seen], *_intervals_of(bits[seen]), numbers[own])


def _intervals_of(
    bits: np.ndarray,
) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], np.ndarray, np.ndarray]:
    """Return the code intervals of splits, the splits of many, and their bitmasks."""
    goes_right = np.unpackbits(bits, axis=1, bitorder="little")
    first, many = np.empty(len(bits) + 1, dtype=np.int32), np.empty(len(bits), dtype=np.bool_)
    begin, length = np.empty((2, _MOST_INTERVALS * len(bits)), dtype=np.uint16)
    kernels.find_intervals_of_splits(goes_right, _MOST_INTERVALS, first, begin, length, many)
    intervals = first, begin[: first[-1]].copy(), length[: first[-1]].copy()
    return intervals, np.flatnonzero(many), bits[many]
