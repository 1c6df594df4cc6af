"""Queries about all classes at once: softmax gradients and Hessians, and counts by class.

Probabilities are integers: exponentials of score differences are looked up in a table that is the
same everywhere, and divided by their sum. A row's gradients of all classes, p − y, are shrunk
together until the largest is at most the clip, and so are its Hessians p(1 − p) by the length of
their vector. So one row moves both vectors by a bounded length, whatever the number of classes is:
docs/guarantees/softmax.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cache
from typing import ClassVar

import numpy as np

from privboost._core.grid import CLIP_STEPS, Contribution
from privboost.engine.protocol import BaseShard, Shrinkage
from privboost.engine.queries import COUNT, GRADIENT_HESSIAN, Bound, PureBound, SumQuery, need_cells
from privboost.engine.softmax_kernels import DIFFERENCE_BITS, PROBABILITY_STEPS, SLOPE_STEPS
from privboost.randomness.sampling import Sample
from privboost.trees.cell_map import CellMap
from privboost.trees.tree import Tree

MOST_SLOPE = 2**4 * SLOPE_STEPS
"""Largest factor of scores, in steps."""

LENGTH_CLIP = 46340
"""Clip of a gradient in steps of sums: √2 times that is the clip of a length, `CLIP_STEPS`."""

TOTAL_CLIP = CLIP_STEPS // 2
"""The same where absolute values add up to `CLIP_STEPS`."""

MOST_CLASSES = 254
"""Most classes of a target: labels are bytes."""

_COLUMNS = 2**12
_DIGITS = Context(prec=30)


@cache
def exponentials() -> np.ndarray:
    """Return e^−d at the middle of each column of score differences d, rounded to steps (int32).

    Decimal arithmetic rounds correctly, so that the table is the same on every machine.
    """
    width = Decimal(2) ** (DIFFERENCE_BITS - 16)
    found = [
        _DIGITS.exp(-(column + Decimal("0.5")) * width) * PROBABILITY_STEPS
        for column in range(_COLUMNS)
    ]
    table = np.array([int(value.to_integral_value()) for value in found], dtype=np.int32)
    table.flags.writeable = False
    return table


@dataclass(frozen=True, eq=False)
class SoftmaxQuery(SumQuery):
    """Sums of the gradients and Hessians of all classes by cell.

    Attributes
    ----------
    n_outputs : int
        The number of classes, each of which has a score.
    clip : int
        The clip of gradients: those of a row are multiplied by clip/q where q > clip, q being the
        probability of all classes but the row's own. In steps of probabilities.
    hessian_clip : int
        The same for the length of the vector of a row's Hessians.
    absolute : bool
        Whether lengths are sums of absolute values (for Laplace noise), not Euclidean.
    slope : int
        Factor of scores, in `SLOPE_STEPS`.
    sample : None
        All rows are added up.
    """

    at_own_states: ClassVar[bool] = False
    may_be_sampled: ClassVar[bool] = False
    uses_loss: ClassVar[bool] = False
    output: ClassVar[int] = 0
    statistics: ClassVar[tuple[str, ...]] = GRADIENT_HESSIAN
    n_outputs: int
    clip: int
    hessian_clip: int
    absolute: bool = False
    slope: int = SLOPE_STEPS
    sample: Sample | None = None

    def __post_init__(self) -> None:
        need_classes(self.n_outputs)
        for clip in (self.clip, self.hessian_clip):
            if not _is_whole(clip, 1, PROBABILITY_STEPS):
                raise ValueError("a clip of probabilities must be a whole number, up to 1")
        if not isinstance(self.absolute, bool) or not _is_whole(self.slope, 1, MOST_SLOPE):
            raise ValueError("lengths are absolute or not, and a slope is a whole number")

    @property
    def shrinkage(self) -> Shrinkage:
        """How the statistics of a row are computed."""
        clips = self.clip, clip_steps_of(self.absolute), self.hessian_clip
        return Shrinkage(self.n_outputs, *clips, self.absolute, self.slope)

    def _bound_of(self, parts: int, contribution: Contribution) -> Bound:
        """Return the bound where a row has one cell of each of some parts.

        A row changes all classes of a cell by a vector that is at most `CLIP_STEPS` long (times its
        weight), as if each of K numbers changed by 1/√K of that, or 1/K for absolute values.
        """
        if self.sample is not None:
            raise ValueError("nothing is proved for samples of softmax statistics")
        length = contribution.row_steps * contribution.unit_weight
        steps = steps_of_each(length, self.n_outputs, self.absolute)
        cells = parts * self.n_outputs
        kind = PureBound if self.absolute else Bound
        return kind(steps, cells, contribution.rows, 2, 2 * cells)


@dataclass(frozen=True, eq=False)
class SoftmaxSums(SoftmaxQuery, tag="SoftmaxSums"):
    """Sums of the gradients and Hessians of all classes by cell of features.

    Attributes
    ----------
    cells : CellMap
        The cells.
    """

    cells: CellMap = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        super().__post_init__()
        need_cells(self.cells)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the answer: (cells, classes, statistics)."""
        return (self.cells.n_cells, self.n_outputs, 2)

    def bound(self, contribution: Contribution) -> Bound:
        """Return the sensitivity: a row has one cell of each part."""
        return self._bound_of(len(self.cells.parts), contribution)

    def answer(self, shard: BaseShard) -> np.ndarray:
        """Return the exact sums over the rows of one shard."""
        return shard.sum_softmax_by_cell(self.cells, self.shrinkage).reshape(self.shape)


@dataclass(frozen=True, eq=False)
class SoftmaxTreeSums(SoftmaxQuery, tag="SoftmaxTreeSums"):
    """Sums of the gradients and Hessians of all classes by leaf of trees of one depth.

    Attributes
    ----------
    trees : tuple of Tree
        The trees.
    """

    trees: tuple[Tree, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the answer: (trees, leaves, classes, statistics)."""
        return (len(self.trees), self.trees[0].n_leaves, self.n_outputs, 2)

    def bound(self, contribution: Contribution) -> Bound:
        """Return the sensitivity: a row has one leaf of each tree."""
        return self._bound_of(len(self.trees), contribution)

    def answer(self, shard: BaseShard) -> np.ndarray:
        """Return the exact sums over the rows of one shard."""
        return shard.sum_softmax_by_leaf(self.trees, self.shrinkage).reshape(self.shape)


@dataclass(frozen=True, eq=False)
class LabelCounts(SumQuery, tag="LabelCounts"):
    """Counts of rows by class; rows count with their weights, those of unknown label do not.

    Attributes
    ----------
    n_outputs : int
        The number of classes.
    sample : None
        All rows are counted.
    """

    at_own_states: ClassVar[bool] = False
    may_be_sampled: ClassVar[bool] = False
    uses_loss: ClassVar[bool] = False
    output: ClassVar[int] = 0
    statistics: ClassVar[tuple[str, ...]] = COUNT
    n_outputs: int
    sample: Sample | None = None

    def __post_init__(self) -> None:
        need_classes(self.n_outputs)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the answer: (classes, 1)."""
        return (self.n_outputs, 1)

    def bound(self, contribution: Contribution) -> Bound:
        """Return the sensitivity: a row has one class."""
        return _bound_of_counts(self, contribution)

    def answer(self, shard: BaseShard) -> np.ndarray:
        """Return the exact counts of the rows of one shard."""
        return shard.count_labels(self.n_outputs).reshape(self.shape)


@dataclass(frozen=True, eq=False)
class TopClassCounts(SumQuery, tag="TopClassCounts"):
    """Counts of rows by probability of the most probable class, and whether it is their own.

    Attributes
    ----------
    n_outputs : int
        The number of classes.
    edges : int32 array
        The lower ends of all intervals of the probability but the first, in steps.
    sample : None
        All rows are counted.
    """

    at_own_states: ClassVar[bool] = False
    may_be_sampled: ClassVar[bool] = False
    uses_loss: ClassVar[bool] = False
    output: ClassVar[int] = 0
    statistics: ClassVar[tuple[str, ...]] = COUNT
    n_outputs: int
    edges: np.ndarray
    sample: Sample | None = None

    def __post_init__(self) -> None:
        need_classes(self.n_outputs)
        edges = self.edges
        if not isinstance(edges, np.ndarray) or edges.dtype != np.int32 or edges.ndim != 1:
            raise ValueError("edges of probabilities must be a one-dimensional int32 array")
        if len(edges) >= 2**16 or not (edges[1:] > edges[:-1]).all():
            raise ValueError("edges of probabilities must increase, and be fewer than 2^16")
        object.__setattr__(self, "edges", np.frombuffer(edges.tobytes(), dtype=np.int32))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the answer: (intervals, wrong or right, 1)."""
        return (len(self.edges) + 1, 2, 1)

    def bound(self, contribution: Contribution) -> Bound:
        """Return the sensitivity: a row has one most probable class, the first of several."""
        return _bound_of_counts(self, contribution)

    def answer(self, shard: BaseShard) -> np.ndarray:
        """Return the exact counts of the rows of one shard."""
        return shard.count_top_classes(self.n_outputs, self.edges).reshape(self.shape)


def clip_steps_of(absolute: bool) -> int:
    """Return the clip of a gradient in steps of sums; see `SoftmaxQuery.absolute`."""
    return TOTAL_CLIP if absolute else LENGTH_CLIP


def steps_of_each(length: int, n_outputs: int, absolute: bool) -> int:
    """Return the least equal change of each output whose vector is as long as this."""
    if absolute:
        return -(-length // n_outputs)
    root = math.isqrt(-(-(length**2) // n_outputs))
    return root if n_outputs * root**2 >= length**2 else root + 1


def need_classes(n_outputs: object) -> None:
    """Refuse a number of classes that softmax is not defined for."""
    if not _is_whole(n_outputs, 2, MOST_CLASSES):
        raise ValueError(f"there must be 2 to {MOST_CLASSES} classes")


def _is_whole(value: object, least: int, most: int) -> bool:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return whole and least <= value <= most  # type: ignore[operator]


def _bound_of_counts(query: SumQuery, contribution: Contribution) -> Bound:
    if query.sample is not None:
        raise ValueError("nothing is proved for samples of classes")
    return Bound(contribution.row_steps * contribution.unit_weight, 1, contribution.rows, 1, 1)
