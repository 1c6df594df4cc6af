"""What can be asked of rows: small frozen messages that ask for exact integer sums.

Only the curator may ask. Every query states its own `bound`: how much one protected
unit can change its answer, whatever the rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from privboost.grid import FACTOR_STEPS, VECTOR_STEPS, Contribution
from privboost.trees.cell_map import CellMap
from privboost.trees.tree import Tree
from privboost.vectors.terms import Terms

GRADIENT_HESSIAN = ("gradient", "hessian")
GRADIENT_COUNT = ("gradient", "count")
COUNT = ("count",)
HESSIAN = ("hessian",)
VOTES = ("votes",)
"""Rows by the sum of their votes and their class: for choices only, no noise is made for them."""
STATISTICS = (GRADIENT_HESSIAN, GRADIENT_COUNT, COUNT, HESSIAN)
"""What can be added up. The second of a pair, and one alone, is never negative."""

MOST_EDGES = 2**16
"""Cells of a state: a histogram of them stays small."""


@dataclass(frozen=True)
class Bound:
    """How much one protected unit can change the answer of a query.

    Attributes
    ----------
    steps : int
        The most by which it changes one cell, if all its rows lie there; of a vector, the most by
        which it moves the whole of it (in the L2 norm).
    cells : int
        How many cells of each statistic one of its rows touches; a vector counts as one.
    rows : int
        How many rows it has.
    statistics : int
        How many statistics there are.
    coordinates : int
        How many numbers of the answer one of its rows can change.
    """

    steps: int
    cells: int
    rows: int
    statistics: int
    coordinates: int

    @property
    def of_two(self) -> Bound:
        """What two units change at most, one that goes and one that comes in its place.

        For statistics that are never negative: where both lie in one cell they cancel.
        """
        return replace(self, cells=2 * self.cells, coordinates=2 * self.coordinates)


@dataclass(frozen=True, eq=False)
class Sample:
    """Which rows take part in a query: each by a keyed coin of its own (see `Rows.ids`).

    Attributes
    ----------
    key : uint8 array of length 32
        The secret key of the coins.
    rate : float
        The chance of each row.
    """

    key: np.ndarray = field(repr=False)
    rate: float


@dataclass(frozen=True, eq=False)
class CellSums:
    """Sums of one or two statistics by cell: histograms of features, alone or jointly.

    Attributes
    ----------
    cells : CellMap
        The cells.
    output : int
        Which state of a row is meant (the class, in one-vs-rest).
    statistics : tuple of str
        Which one or two statistics are added up.
    sample : Sample, optional
        Who takes part; set by the mechanism that asks.
    """

    cells: CellMap
    output: int = 0
    statistics: tuple[str, ...] = GRADIENT_HESSIAN
    sample: Sample | None = None

    def __post_init__(self) -> None:
        need_cells(self.cells)
        _need_statistics(self.statistics)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the answer: (cells, statistics)."""
        return (self.cells.n_cells, len(self.statistics))

    def bound(self, contribution: Contribution) -> Bound:
        """Return what one protected unit can change: a row has one cell of each part."""
        return _bound_of_sums(len(self.cells.parts), self.statistics, contribution)


@dataclass(frozen=True, eq=False)
class TreeSums:
    """Sums of one or two statistics by leaf of each of several trees of one depth."""

    trees: tuple[Tree, ...]
    output: int = 0
    statistics: tuple[str, ...] = GRADIENT_HESSIAN
    sample: Sample | None = None

    def __post_init__(self) -> None:
        _need_statistics(self.statistics)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the answer: (trees, leaves, statistics)."""
        return (len(self.trees), self.trees[0].n_leaves, len(self.statistics))

    def bound(self, contribution: Contribution) -> Bound:
        """Return what one protected unit can change: a row has one leaf of each tree."""
        return _bound_of_sums(len(self.trees), self.statistics, contribution)


@dataclass(frozen=True, eq=False)
class NodeHistograms:
    """Histograms of several features within each leaf of a tree that is being grown.

    Attributes
    ----------
    tree : Tree
        What has been grown so far; its leaves are the nodes in question.
    cells : CellMap
        The cells of the features, each a part of its own.
    """

    tree: Tree
    cells: CellMap
    output: int = 0
    statistics: tuple[str, ...] = GRADIENT_HESSIAN
    sample: Sample | None = None

    def __post_init__(self) -> None:
        need_cells(self.cells, apart=True)
        _need_statistics(self.statistics)
        if self.tree.n_leaves * self.cells.n_cells >= 2**32:
            raise ValueError("there are too many sums to number them")

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the answer: (nodes, cells, statistics)."""
        return (self.tree.n_leaves, self.cells.n_cells, len(self.statistics))

    def bound(self, contribution: Contribution) -> Bound:
        """Return what one protected unit can change: a row has one node, one cell of each part."""
        return _bound_of_sums(len(self.cells.parts), self.statistics, contribution)


@dataclass(frozen=True, eq=False)
class ScoreCounts:
    """Rows by their state and class: a histogram of scores or, right after a start, of a target.

    Rows count with their weights, and those of an unknown label nowhere. The state of a number
    begins at minus its scaled label.

    Attributes
    ----------
    edges : int32 array
        Where cells of the state begin, but the first: strictly increasing, in score steps.
    classes : int
        2 parts rows of the output's own class (the second) from others; 1 does not, as for a
        number.
    output : int
        Which state of a row is meant.
    """

    statistics: ClassVar[tuple[str, ...]] = COUNT
    edges: np.ndarray
    classes: int = 2
    output: int = 0
    sample: Sample | None = None

    def __post_init__(self) -> None:
        edges = self.edges
        if not isinstance(edges, np.ndarray) or edges.dtype != np.int32 or edges.ndim != 1:
            raise ValueError("edges of scores must be an array of int32")
        if len(edges) >= MOST_EDGES or not (edges[1:] > edges[:-1]).all():
            raise ValueError(f"edges of scores must increase, and be fewer than {MOST_EDGES}")
        if self.classes not in (1, 2):
            raise ValueError("rows are counted in one class or two")
        object.__setattr__(self, "edges", np.frombuffer(edges.tobytes(), dtype=np.int32))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the answer: (cells, classes, 1)."""
        return (len(self.edges) + 1, self.classes, 1)

    def bound(self, contribution: Contribution) -> Bound:
        """Return what one protected unit can change: a row has one state and one class."""
        return _bound_of_sums(1, self.statistics, contribution)


@dataclass(frozen=True, eq=False)
class VoteCounts:
    """Rows by node of a tree, cell of each feature, sum of votes so far, and class.

    A row's state is the sum of the votes that were cast on it, ±1 each (`VOTE` score steps).

    Attributes
    ----------
    tree : Tree
        What has been grown so far.
    node_of_leaf : uint16 array
        Which node each of its leaves is; leaves that no row can reach may share one.
    cells : CellMap
        As in `NodeHistograms`.
    votes : int
        How many votes were cast so far on this output.
    output : int
        Which state of a row is meant.
    """

    statistics: ClassVar[tuple[str, ...]] = VOTES
    tree: Tree
    node_of_leaf: np.ndarray
    cells: CellMap
    votes: int
    output: int = 0
    sample: Sample | None = None

    def __post_init__(self) -> None:
        need_cells(self.cells, apart=True)
        if math.prod(self.shape) >= 2**32:
            raise ValueError("there are too many counts to number them")

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the answer: (nodes, cells + 1, votes + 1, classes).

        The class is 0 or 1; the sum of votes is 2·k − votes. The last cell has one number, at the
        first place of the first node: how many rows have an unknown label. They are nowhere else.
        """
        return (int(self.node_of_leaf.max()) + 1, self.cells.n_cells + 1, self.votes + 1, 2)

    def bound(self, contribution: Contribution) -> Bound:
        """Return what one protected unit can change: a row counts 1 for each feature."""
        cells = max(len(self.cells.parts), 1)
        return Bound(contribution.rows, cells, contribution.rows, 1, cells)


@dataclass(frozen=True, eq=False)
class LinearSums:
    """Sums of the rows' vectors, each times its gradient; `SetTerms` says what vectors are.

    Attributes
    ----------
    n_coordinates : int
        How many coordinates vectors have.
    n_terms : int
        How many terms they have: a row has an entry in one coordinate of each.
    output : int
        Which state of a row is meant.
    """

    n_coordinates: int
    n_terms: int
    output: int = 0

    @classmethod
    def of(cls, terms: Terms, output: int = 0) -> LinearSums:
        """Return the query about the vectors that terms give."""
        return cls(terms.n_coordinates, len(terms.features), output)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the answer."""
        return (self.n_coordinates,)

    def bound(self, contribution: Contribution) -> Bound:
        """Return what one protected unit can change.

        A row's vector is at most `VECTOR_STEPS` long, and its gradient at most `FACTOR_STEPS`.
        """
        steps = FACTOR_STEPS * VECTOR_STEPS * contribution.rows
        return Bound(steps, 1, contribution.rows, 1, self.n_terms)


@dataclass(frozen=True, eq=False)
class GramSums:
    """Sums of the outer products of the rows' vectors with themselves.

    Attributes
    ----------
    n_coordinates, n_terms : int
        As in `LinearSums`.
    factor : int array of length 2
        What the vectors of class 0 (or of any number) and of class 1 are multiplied by, in
        `grid.VECTOR_STEPS`, which they are at most; rows of an unknown label are left out.
    """

    n_coordinates: int
    n_terms: int
    factor: np.ndarray

    @classmethod
    def of(cls, terms: Terms, factor: np.ndarray) -> GramSums:
        """Return the query about the vectors that terms give."""
        return cls(terms.n_coordinates, len(terms.features), factor)

    def __post_init__(self) -> None:
        factor = self.factor
        if not isinstance(factor, np.ndarray) or factor.dtype.kind not in "iu":
            raise ValueError("factors of classes must be an array of whole numbers")
        if factor.shape != (2,) or factor.min() < 0 or factor.max() > VECTOR_STEPS:
            raise ValueError("a factor of a class must lie between 0 and 1")
        own = factor.astype(np.int32)
        object.__setattr__(self, "factor", np.frombuffer(own.tobytes(), dtype=np.int32))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the answer."""
        return (self.n_coordinates, self.n_coordinates)

    def bound(self, contribution: Contribution) -> Bound:
        """Return what one protected unit can change, of what is told once: a triangle.

        x·xᵀ, of which each entry off the diagonal is told once and counts √2 times, is ‖x‖² long,
        at most `VECTOR_STEPS`².
        """
        touched = self.n_terms * (self.n_terms + 1) // 2
        return Bound(VECTOR_STEPS**2 * contribution.rows, 1, contribution.rows, 1, touched)


SumQuery = CellSums | TreeSums | NodeHistograms | ScoreCounts | VoteCounts
"""What is added up by cell; such sums can be made of a sample."""
Query = SumQuery | LinearSums | GramSums


def need_cells(cells: object, apart: bool = False) -> None:
    """Refuse anything but a map of cells; `apart` wants one feature of its own in each part."""
    if not isinstance(cells, CellMap):
        raise ValueError("a map of cells is needed")
    if apart and not cells.apart:
        raise ValueError("each part must be one feature of its own")


def _need_statistics(statistics: tuple[str, ...]) -> None:
    if statistics not in STATISTICS:
        raise ValueError("statistics that no row has, or not in this order")


def _bound_of_sums(cells: int, statistics: tuple[str, ...], contribution: Contribution) -> Bound:
    """Return the bound of sums to which a row adds its steps in a few cells of each statistic."""
    steps, count = contribution.row_steps * contribution.rows, len(statistics)
    return Bound(steps, cells, contribution.rows, count, cells * count)
