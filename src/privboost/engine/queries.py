"""Queries: requests for exact integer sums over the rows of all shards.

Only the curator may send them. Every query states its sensitivity (`bound`): the most that one
protected unit can change the sums, whatever the rows are.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from privboost._core.grid import (
    FACTOR_STEPS,
    MAX_SCORE,
    SCORE_STEPS,
    VECTOR_STEPS,
    Contribution,
)
from privboost.data.design_matrix import Terms
from privboost.engine.protocol import BaseShard, Message, Summand
from privboost.randomness.sampling import Sample
from privboost.trees.cell_map import CellMap
from privboost.trees.tree import Tree

GRADIENT_HESSIAN = ("gradient", "hessian")
GRADIENT_COUNT = ("gradient", "count")
COUNT = ("count",)
HESSIAN = ("hessian",)
VOTES = ("votes",)
"""Rows by sum of votes and class: for selections only, no noise is proved for these counts."""
STATISTICS = (GRADIENT_HESSIAN, GRADIENT_COUNT, COUNT, HESSIAN)
"""All statistics that can be summed. The second of a pair, and one alone, is never negative."""

MOST_EDGES = 2**16
"""The largest number of score intervals of a histogram."""


@dataclass(frozen=True)
class Bound:
    """Sensitivity of a query: the most that one protected unit can change its sums.

    Attributes
    ----------
    steps : int
        The change of one cell if all rows of the unit lie there; of a vector, the change of the
        whole vector in the L2 norm.
    cells : int
        The cells of each statistic that one row touches; a vector counts as one.
    rows : int
        The rows of a unit.
    statistics : int
        The number of statistics.
    coordinates : int
        The numbers of the answer that one row can change.
    pure_only : bool
        Whether the bound holds for sums of absolute changes alone, which Laplace noise hides.
    """

    pure_only: ClassVar[bool] = False
    steps: int
    cells: int
    rows: int
    statistics: int
    coordinates: int

    @property
    def of_two(self) -> Bound:
        """The bound for two units, of which one replaces the other.

        For statistics that are never negative: changes within one cell cancel.
        """
        return replace(self, cells=2 * self.cells, coordinates=2 * self.coordinates)


class PureBound(Bound):
    """Sensitivity in the L1 norm alone."""

    pure_only: ClassVar[bool] = True


class Query(Message, ABC):
    """A request for exact int64 sums over all rows."""

    uses_loss: ClassVar[bool] = True
    """Whether a shard needs a loss to answer."""
    uses_terms: ClassVar[bool] = False
    """Whether a shard needs the terms of a linear model to answer."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The shape of the answer."""

    @abstractmethod
    def bound(self, contribution: Contribution) -> Bound:
        """Return the sensitivity: what one protected unit can change."""

    @abstractmethod
    def answer(self, shard: BaseShard) -> np.ndarray:
        """Return the exact sums over the rows of one shard."""


class SumQuery(Query):
    """Sums of the rows' statistics by cell, over all rows or a Poisson sample of them."""

    at_own_states: ClassVar[bool] = True
    """Whether statistics are read at the rows' own states, at which individual budgets pay."""
    may_be_sampled: ClassVar[bool] = True
    """Whether shards can add up a sample of the rows; curators refuse samples of others."""

    @property
    @abstractmethod
    def output(self) -> int:
        """The index of the score (the class, in one-vs-rest)."""

    @property
    @abstractmethod
    def statistics(self) -> tuple[str, ...]:
        """The one or two statistics that are summed."""

    @property
    @abstractmethod
    def sample(self) -> Sample | None:
        """The sample of rows; set by the mechanism that sends the query."""

    @property
    def summand(self) -> Summand:
        """What each row adds."""
        return Summand(self.statistics, self.output, self.sample)

    def sampled(self, sample: Sample | None) -> Self:
        """Return the same query over a sample of rows, or over all."""
        if sample is not None and not self.may_be_sampled:
            raise RuntimeError("the query is about all rows")
        return replace(self, sample=sample)  # type: ignore[type-var]

    def _statistics_of(self, pairs: np.ndarray) -> np.ndarray:
        """Return a shard's pairs in the shape of the answer."""
        return pairs.reshape(*self.shape[:-1], 2)[..., 2 - len(self.statistics) :]


@dataclass(frozen=True, eq=False)
class CellSums(SumQuery, tag="CellSums"):
    """Sums of one or two statistics by cell: histograms of features, alone or joint.

    Attributes
    ----------
    cells : CellMap
        The cells.
    output, statistics, sample
        As in `SumQuery`.
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
        """Return the sensitivity: a row has one cell of each part."""
        return _bound_of_sums(len(self.cells.parts), self.statistics, contribution)

    def answer(self, shard: BaseShard) -> np.ndarray:
        """Return the exact sums over the rows of one shard."""
        return self._statistics_of(shard.sum_by_cell(self.cells, self.summand))


@dataclass(frozen=True, eq=False)
class TreeSums(SumQuery, tag="TreeSums"):
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
        """Return the sensitivity: a row has one leaf of each tree."""
        return _bound_of_sums(len(self.trees), self.statistics, contribution)

    def answer(self, shard: BaseShard) -> np.ndarray:
        """Return the exact sums over the rows of one shard."""
        return self._statistics_of(shard.sum_by_leaf(self.trees, self.summand))


@dataclass(frozen=True, eq=False)
class NodeHistograms(SumQuery, tag="NodeHistograms"):
    """Histograms of several features within each leaf of a tree that is being grown.

    Attributes
    ----------
    tree : Tree
        The levels grown so far; the leaves are the nodes of the histograms.
    cells : CellMap
        The cells of the features, each a part of its own.
    output, statistics, sample
        As in `SumQuery`.
    """

    tree: Tree
    cells: CellMap
    output: int = 0
    statistics: tuple[str, ...] = GRADIENT_HESSIAN
    sample: Sample | None = None

    def __post_init__(self) -> None:
        need_cells(self.cells, separate=True)
        _need_statistics(self.statistics)
        if self.tree.n_leaves * self.cells.n_cells >= 2**32:
            raise ValueError("node histograms must have fewer than 2^32 cells")

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the answer: (nodes, cells, statistics)."""
        return (self.tree.n_leaves, self.cells.n_cells, len(self.statistics))

    def bound(self, contribution: Contribution) -> Bound:
        """Return the sensitivity: a row has one node, and one cell of each part."""
        return _bound_of_sums(len(self.cells.parts), self.statistics, contribution)

    def answer(self, shard: BaseShard) -> np.ndarray:
        """Return the exact sums over the rows of one shard."""
        return self._statistics_of(shard.sum_by_node(self.tree, self.cells, self.summand))


@dataclass(frozen=True, eq=False)
class ScoreCounts(SumQuery, tag="ScoreCounts"):
    """Counts of rows by state and class.

    The state of a class is the row's score. Right after a `Start` the state of a number is minus
    its label, so these are counts by label. Rows count with their weights; rows with an unknown
    label do not count.

    Attributes
    ----------
    edges : int32 array
        The lower ends of all score intervals but the first: strictly increasing, in score steps.
    classes : int
        2 separates rows of the output's own class (the second) from others; 1 does not, as for a
        numeric target.
    output, sample
        As in `SumQuery`.
    """

    statistics: ClassVar[tuple[str, ...]] = COUNT
    edges: np.ndarray
    classes: int = 2
    output: int = 0
    sample: Sample | None = None

    def __post_init__(self) -> None:
        if self.classes not in (1, 2):
            raise ValueError("classes must be 1 or 2")
        object.__setattr__(self, "edges", _score_edges(self.edges))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the answer: (intervals, classes, 1)."""
        return (len(self.edges) + 1, self.classes, 1)

    def bound(self, contribution: Contribution) -> Bound:
        """Return the sensitivity: a row has one score and one class."""
        return _bound_of_sums(1, self.statistics, contribution)

    def answer(self, shard: BaseShard) -> np.ndarray:
        """Return the exact counts of the rows of one shard."""
        return self._statistics_of(shard.sum_by_score(self.edges, self.classes, self.summand))


@dataclass(frozen=True, eq=False)
class PredictionSums(SumQuery, tag="PredictionSums"):
    """Sums of gradients and counts by interval of the predicted number.

    The prediction of a row is its state less the state at the start, kept within `limit`: a model
    predicts nothing beyond the ends of the clipping range.

    Attributes
    ----------
    edges : int32 array
        As in `ScoreCounts`, for predictions.
    limit : int
        Bound of predictions, in score steps (±).
    output, sample
        As in `SumQuery`.
    """

    at_own_states: ClassVar[bool] = False
    statistics: ClassVar[tuple[str, ...]] = GRADIENT_COUNT
    edges: np.ndarray
    limit: int
    output: int = 0
    sample: Sample | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges", _score_edges(self.edges))
        if not isinstance(self.limit, int) or not 0 < self.limit < MAX_SCORE * SCORE_STEPS:
            raise ValueError("a bound of predictions must be a whole number above 0")

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the answer: (intervals, statistics)."""
        return (len(self.edges) + 1, len(self.statistics))

    def bound(self, contribution: Contribution) -> Bound:
        """Return the sensitivity: a row has one prediction."""
        return _bound_of_sums(1, self.statistics, contribution)

    def answer(self, shard: BaseShard) -> np.ndarray:
        """Return the exact sums over the rows of one shard."""
        return self._statistics_of(shard.sum_by_prediction(self.edges, self.limit, self.summand))


@dataclass(frozen=True, eq=False)
class VoteCounts(SumQuery, tag="VoteCounts"):
    """Counts of rows by node of a tree, cell of each feature, sum of votes, and class.

    A row's score is the sum of the votes cast on it, ±1 each (`VOTE` score steps).

    Attributes
    ----------
    tree : Tree
        The levels grown so far.
    node_of_leaf : uint16 array
        The node of each leaf; leaves that no row can reach may share one.
    cells : CellMap
        The cells of the features, each a part of its own.
    votes : int
        The votes cast so far on this output.
    output : int
        The index of the score.
    sample : None
        Votes are counted over all rows.
    """

    uses_loss: ClassVar[bool] = False
    statistics: ClassVar[tuple[str, ...]] = VOTES
    tree: Tree
    node_of_leaf: np.ndarray
    cells: CellMap
    votes: int
    output: int = 0
    sample: Sample | None = None

    def __post_init__(self) -> None:
        need_cells(self.cells, separate=True)
        if math.prod(self.shape) >= 2**32:
            raise ValueError("there must be fewer than 2^32 vote counts")

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the answer: (nodes, cells + 1, votes + 1, classes).

        The class is 0 or 1; the sum of votes is 2·k − votes. The last cell has one number, at index
        0 of the first node: the count of rows with an unknown label, which count nowhere else.
        """
        return (int(self.node_of_leaf.max()) + 1, self.cells.n_cells + 1, self.votes + 1, 2)

    def bound(self, contribution: Contribution) -> Bound:
        """Return the sensitivity: a row counts 1 for each feature."""
        cells = max(len(self.cells.parts), 1)
        if contribution.shares_weight:
            raise ValueError("votes are counted without weights, which rows of a unit share")
        return Bound(contribution.rows, cells, contribution.rows, 1, cells)

    def answer(self, shard: BaseShard) -> np.ndarray:
        """Return the exact counts of the rows of one shard."""
        if self.sample is not None:
            raise RuntimeError("votes are counted after a Start, over all rows")
        return shard.count_votes(self.tree, self.node_of_leaf, self.cells, self.votes, self.output)


@dataclass(frozen=True, eq=False)
class LinearSums(Query, tag="LinearSums"):
    """Sum of the rows' vectors, each times its gradient; `SetTerms` defines the vectors.

    Attributes
    ----------
    n_coordinates : int
        The length of the vectors.
    n_terms : int
        The number of terms: a row has an entry in one coordinate of each.
    output : int
        The index of the score.
    """

    uses_terms: ClassVar[bool] = True
    n_coordinates: int
    n_terms: int
    output: int = 0

    @classmethod
    def of(cls, terms: Terms, output: int = 0) -> LinearSums:
        """Return the query about the vectors of some terms."""
        return cls(terms.n_coordinates, len(terms.features), output)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the answer: (coordinates,)."""
        return (self.n_coordinates,)

    def bound(self, contribution: Contribution) -> Bound:
        """Return the sensitivity.

        A row's vector is at most `VECTOR_STEPS` long, and its gradient at most `FACTOR_STEPS`.
        """
        steps = FACTOR_STEPS * VECTOR_STEPS * contribution.unit_weight
        return Bound(steps, 1, contribution.rows, 1, self.n_terms)

    def answer(self, shard: BaseShard) -> np.ndarray:
        """Return the exact sum over the rows of one shard."""
        return shard.sum_gradients(Summand(GRADIENT_COUNT, self.output))


@dataclass(frozen=True, eq=False)
class GramSums(Query, tag="GramSums"):
    """Sum of the outer products of the rows' vectors with themselves.

    Attributes
    ----------
    n_coordinates, n_terms : int
        As in `LinearSums`.
    factor : int array of length 2
        The factors of the vectors of class 0 (or of any row of a numeric target) and of class 1, in
        `grid.VECTOR_STEPS`, which they are at most; rows with an unknown label do not count.
    """

    uses_loss: ClassVar[bool] = False
    uses_terms: ClassVar[bool] = True
    n_coordinates: int
    n_terms: int
    factor: np.ndarray

    @classmethod
    def of(cls, terms: Terms, factor: np.ndarray) -> GramSums:
        """Return the query about the vectors of some terms."""
        return cls(terms.n_coordinates, len(terms.features), factor)

    def __post_init__(self) -> None:
        factor = self.factor
        if not isinstance(factor, np.ndarray) or factor.dtype.kind not in "iu":
            raise ValueError("factors of classes must be an integer array")
        if factor.shape != (2,) or factor.min() < 0 or factor.max() > VECTOR_STEPS:
            raise ValueError("a factor of a class must lie between 0 and 1")
        own = factor.astype(np.int32)
        object.__setattr__(self, "factor", np.frombuffer(own.tobytes(), dtype=np.int32))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the answer: (coordinates, coordinates)."""
        return (self.n_coordinates, self.n_coordinates)

    def bound(self, contribution: Contribution) -> Bound:
        """Return the sensitivity of the upper triangle, which is released once.

        x·xᵀ, of which each entry off the diagonal is released once and counts √2 times, is ‖x‖²
        long, at most `VECTOR_STEPS`².
        """
        touched = self.n_terms * (self.n_terms + 1) // 2
        return Bound(VECTOR_STEPS**2 * contribution.unit_weight, 1, contribution.rows, 1, touched)

    def answer(self, shard: BaseShard) -> np.ndarray:
        """Return the exact sum over the rows of one shard."""
        return shard.sum_products(self.factor)


def need_cells(cells: object, separate: bool = False) -> None:
    """Refuse anything but a `CellMap`; `separate` requires parts of one feature each."""
    if not isinstance(cells, CellMap):
        raise ValueError("cells must be a CellMap")
    if separate and not cells.apart:
        raise ValueError("each part must be one feature that no other part has")


def _score_edges(edges: object) -> np.ndarray:
    """Return a copy of the edges of score intervals that nobody can change, checked."""
    if not isinstance(edges, np.ndarray) or edges.dtype != np.int32 or edges.ndim != 1:
        raise ValueError("edges of scores must be a one-dimensional int32 array")
    if len(edges) >= MOST_EDGES or not (edges[1:] > edges[:-1]).all():
        raise ValueError(f"edges of scores must increase, and be fewer than {MOST_EDGES}")
    return np.frombuffer(edges.tobytes(), dtype=np.int32)


def _need_statistics(statistics: tuple[str, ...]) -> None:
    if statistics not in STATISTICS:
        raise ValueError(f"statistics must be one of {STATISTICS}")


def _bound_of_sums(cells: int, statistics: tuple[str, ...], contribution: Contribution) -> Bound:
    """Return the bound of sums to which a row adds its steps in a few cells of each statistic."""
    steps, count = contribution.row_steps * contribution.unit_weight, len(statistics)
    return Bound(steps, cells, contribution.rows, count, cells * count)
