"""The distinct lines of a forest: by them, scores of many rows are found; see `line_kernels`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from privboost.models import line_kernels
from privboost.tables.rows import Codes

_LEVELS = 8
"""Of each tree, that are gone down by lines: a node of them is one operation on many rows."""
_MOST_LINES = 2**13
"""Of a batch of trees: what a stride of rows does at each of them stays in a processor's cache."""
_TURNS = 2**23
"""How many turns of lines are written out at once, a byte each; or a tree's, if it has more."""
_MOST_RUNS = 64
"""With more, it is faster to look up the turn of each row."""


class Batch(NamedTuple):
    """Trees that together have few lines.

    Attributes
    ----------
    trees : slice
        Which.
    feature : uint16 array
        What each line is about.
    runs : tuple of first, begin, length
        Which codes go right.
    many, bits : arrays
        The lines of many runs, and where they send codes, as bits.
    line_of : uint16 array of shape (trees, nodes)
        The line of each node of the first levels.
    """

    trees: slice
    feature: np.ndarray
    runs: tuple[np.ndarray, np.ndarray, np.ndarray]
    many: np.ndarray
    bits: np.ndarray
    line_of: np.ndarray

    def add(
        self,
        codes: Codes,
        feature: np.ndarray,
        goes_right: np.ndarray,
        values: np.ndarray,
        scores: np.ndarray,
    ) -> None:
        """Add the values of the trees, of all that there are, to scores."""
        slots, own = codes.layout.slot_array, self.trees
        lines = (slots[self.feature], self.runs, self.many, self.bits, self.line_of)
        whole = (slots[feature[own]], goes_right[own], values[own])
        line_kernels.add_trees_by_line(codes.narrow, codes.wide, *lines, *whole, scores)


def batches_of(feature: np.ndarray, goes_right: np.ndarray) -> Iterator[Batch]:
    """Part trees into batches.

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
    known = line_kernels.number_lines(flat, bits, table, line_of, first_seen)
    most = max(min(_MOST_LINES, _TURNS // (8 * size)), nodes)
    numbers, begins = np.empty((trees, nodes), np.uint16), np.empty((trees + 1, 2), np.int64)
    line_of = line_of.reshape(trees, nodes)
    count = line_kernels.deal_lines(line_of, known, most, numbers, lines, begins)
    for (tree, line), (last_tree, last_line) in pairwise(begins[: count + 1].tolist()):
        own, seen = slice(tree, last_tree), first_seen[lines[line:last_line]]
        yield Batch(own, flat[seen], *_runs_of(bits[seen]), numbers[own])


def _runs_of(
    bits: np.ndarray,
) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], np.ndarray, np.ndarray]:
    """Return the runs of lines, which of them have many, and the bits of those."""
    turns = np.unpackbits(bits, axis=1, bitorder="little")
    first, many = np.empty(len(bits) + 1, dtype=np.int32), np.empty(len(bits), dtype=np.bool_)
    begin, length = np.empty((2, _MOST_RUNS * len(bits)), dtype=np.uint16)
    line_kernels.find_runs_of_lines(turns, _MOST_RUNS, first, begin, length, many)
    runs = first, begin[: first[-1]].copy(), length[: first[-1]].copy()
    return runs, np.flatnonzero(many), bits[many]
