"""What can be asked of rows, and what rows can be told: small frozen messages.

A *query* asks for exact integer sums; only a mechanism of `privacy` may ask. An *update* tells the
rows what has been released, so that they can follow the model. Both travel as bytes.

Every query states, as plain integers, how many cells of each statistic one row can touch; each
touched cell changes by at most the row's units (`grid.Contribution.row_units`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np

from privboost import codec
from privboost.engine.linear import Terms
from privboost.engine.tree import Tree
from privboost.losses import LossTable

GRADIENT_HESSIAN = ("gradient", "hessian")
GRADIENT_COUNT = ("gradient", "count")
HESSIAN_COUNT = ("hessian", "count")
COUNT = ("count",)
HESSIAN = ("hessian",)
VOTES = ("votes",)
"""Rows by the sum of their votes and their class: for choices only, no noise is made for them."""
STATISTICS = (GRADIENT_HESSIAN, GRADIENT_COUNT, HESSIAN_COUNT, COUNT, HESSIAN)
"""What can be added up. The second of a pair, and one alone, is never negative."""

_MAGIC = b"PVBMSG01"


@dataclass(frozen=True, eq=False)
class Sample:
    """Which rows take part in a query: each by a keyed coin of its own (see `Block.ids`).

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
class FeatureSums:
    """Sums of one or two statistics by cell of one feature: its histogram, or a tree on it alone.

    Attributes
    ----------
    feature : int
        The feature.
    cell_of : uint16 array
        The cell of each code of the feature.
    n_cells : int
        How many cells there are.
    output : int
        Which state of a row is meant (the class, in one-vs-rest).
    statistics : tuple of str
        Which one or two statistics are added up.
    sample : Sample, optional
        Who takes part; set by the mechanism that asks.
    """

    feature: int
    cell_of: np.ndarray
    n_cells: int
    output: int = 0
    statistics: tuple[str, ...] = GRADIENT_HESSIAN
    sample: Sample | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the answer."""
        return (self.n_cells, len(self.statistics))

    @property
    def cells_per_row(self) -> int:
        """How many cells of each statistic a row touches."""
        return 1


@dataclass(frozen=True, eq=False)
class TreeSums:
    """Sums of one or two statistics by leaf of each of several trees of one depth."""

    trees: tuple[Tree, ...]
    output: int = 0
    statistics: tuple[str, ...] = GRADIENT_HESSIAN
    sample: Sample | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the answer: (trees, leaves, statistics)."""
        return (len(self.trees), self.trees[0].n_leaves, len(self.statistics))

    @property
    def cells_per_row(self) -> int:
        """How many cells of each statistic a row touches: a leaf of each tree."""
        return len(self.trees)


@dataclass(frozen=True, eq=False)
class NodeHistograms:
    """Histograms of several features within each leaf of a tree that is being grown.

    Attributes
    ----------
    tree : Tree
        What has been grown so far; its leaves are the nodes in question.
    features : tuple of int
        The features.
    cell_of : tuple of unsigned integer arrays
        For each of them, the cell of each code; cells are numbered through, feature after feature.
    n_cells : int
        How many cells there are in all.
    """

    tree: Tree
    features: tuple[int, ...]
    cell_of: tuple[np.ndarray, ...]
    n_cells: int
    output: int = 0
    statistics: tuple[str, ...] = GRADIENT_HESSIAN
    sample: Sample | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the answer: (nodes, cells, statistics)."""
        return (self.tree.n_leaves, self.n_cells, len(self.statistics))

    @property
    def cells_per_row(self) -> int:
        """How many cells of each statistic a row touches: one of each feature, in one node."""
        return len(self.features)


@dataclass(frozen=True, eq=False)
class VoteCounts:
    """Rows by node of a tree, cell of each feature, sum of votes so far, and class.

    A row's state is the sum of the votes that were cast on it, ±1 each (`VOTE` score units).

    Attributes
    ----------
    tree : Tree
        What has been grown so far.
    node_of_leaf : uint16 array
        Which node each of its leaves is; leaves that no row can reach may share one.
    features, cell_of, n_cells
        As in `NodeHistograms`.
    votes : int
        How many votes were cast so far on this output.
    output : int
        Which state of a row is meant.
    """

    tree: Tree
    node_of_leaf: np.ndarray
    features: tuple[int, ...]
    cell_of: tuple[np.ndarray, ...]
    n_cells: int
    votes: int
    output: int = 0
    statistics: tuple[str, ...] = VOTES
    sample: Sample | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the answer: (nodes, cells + 1, votes + 1, classes).

        The class is 0 or 1; the sum of votes is 2·k − votes. The last cell has one number, at the
        first place of the first node: how many rows have an unknown label. They are nowhere else.
        """
        return (int(self.node_of_leaf.max()) + 1, self.n_cells + 1, self.votes + 1, 2)

    @property
    def cells_per_row(self) -> int:
        """How many cells a row touches: one of each feature, in one node."""
        return len(self.features)


@dataclass(frozen=True, eq=False)
class LinearSums:
    """Sums of the rows' vectors, each times its gradient; `SetTerms` says what vectors are.

    Attributes
    ----------
    n_columns : int
        How many columns vectors have.
    output : int
        Which state of a row is meant.
    """

    n_columns: int
    output: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the answer."""
        return (self.n_columns,)


@dataclass(frozen=True, eq=False)
class GramSums:
    """Sums of the outer products of the rows' vectors with themselves.

    Attributes
    ----------
    n_columns : int
        How many columns vectors have.
    factor : int array of length 2
        What the vectors of class 0 (or of any number) and of class 1 are multiplied by, in
        `grid.LINEAR_UNITS`; rows of an unknown label are left out.
    """

    n_columns: int
    factor: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the answer."""
        return (self.n_columns, self.n_columns)


@dataclass(frozen=True, eq=False)
class Start:
    """Begin boosting: states go back to where they start, and this loss is used, if any."""

    loss: LossTable | None
    n_outputs: int = 1


@dataclass(frozen=True, eq=False)
class AddFeatureValues:
    """Add to each row's score the released value of its code of one feature (score units)."""

    feature: int
    value_of: np.ndarray
    output: int = 0


@dataclass(frozen=True, eq=False)
class AddTreeValues:
    """Add to each row's score the released value of its leaf in each of several trees.

    Attributes
    ----------
    trees : tuple of Tree
        The trees, of one depth.
    value_of : int32 array of shape (trees, leaves)
        The values, in score units.
    output : int
        Which score they are added to.
    """

    trees: tuple[Tree, ...]
    value_of: np.ndarray
    output: int = 0


@dataclass(frozen=True, eq=False)
class UseLoss:
    """Go on with another loss; states stay as they are."""

    loss: LossTable


@dataclass(frozen=True, eq=False)
class SetTerms:
    """Say how rows become vectors of a linear model."""

    terms: Terms


@dataclass(frozen=True, eq=False)
class SetLinearScores:
    """Put each row's score to what released coefficients give for its vector.

    Attributes
    ----------
    coefficients : int32 array
        For each column, in score units per `grid.LINEAR_UNITS`.
    output : int
        Which score is meant.
    """

    coefficients: np.ndarray
    output: int = 0


@dataclass(frozen=True, eq=False)
class OpenBudgets:
    """Give each row a budget for life of `grid.BUDGET_UNITS`; from now on charged rows count."""


@dataclass(frozen=True, eq=False)
class Price:
    """What a kind of release costs a row, under a number by which charges refer to it.

    Attributes
    ----------
    number : int
        The number.
    tables : tuple of int32 arrays of shape (weight classes + 1, or 1; 3; size)
        For each cohort, the charge of each weight class, kind of row and state of the loss. Rows
        of later cohorts pay nothing and sit out.
    """

    number: int
    tables: tuple[np.ndarray, ...]


@dataclass(frozen=True, eq=False)
class Charge:
    """Charge every row that can afford it for the release that follows; the others sit out.

    Attributes
    ----------
    price : int
        The number of the price.
    output : int
        Which state of a row is meant.
    """

    price: int
    output: int = 0


Query = FeatureSums | TreeSums | NodeHistograms | VoteCounts
LinearQuery = LinearSums | GramSums
Update = (
    Start
    | UseLoss
    | AddFeatureValues
    | AddTreeValues
    | SetTerms
    | SetLinearScores
    | OpenBudgets
    | Price
    | Charge
)
_KINDS = {
    kind.__name__: kind
    for kind in (
        FeatureSums,
        TreeSums,
        NodeHistograms,
        VoteCounts,
        LinearSums,
        GramSums,
        Start,
        UseLoss,
        SetTerms,
        SetLinearScores,
        Terms,
        AddFeatureValues,
        AddTreeValues,
        OpenBudgets,
        Price,
        Charge,
        Sample,
        Tree,
        LossTable,
    )
}


def to_bytes(message: Query | LinearQuery | Update) -> bytes:
    """Write a message for another process."""
    return codec.dump(_to_form(message), _MAGIC)


def from_bytes(data: bytes) -> Any:
    """Read a message; only the kinds of this module are known."""
    return _from_form(codec.load(data, _MAGIC))


def _to_form(value: Any) -> Any:
    if is_dataclass(value):
        form = {field.name: _to_form(getattr(value, field.name)) for field in fields(value)}
        return {"kind": type(value).__name__, **form}
    if isinstance(value, tuple):
        return [_to_form(entry) for entry in value]
    return value


def _from_form(value: Any) -> Any:
    if isinstance(value, dict):
        entries = {name: _from_form(entry) for name, entry in value.items() if name != "kind"}
        return _KINDS[value["kind"]](**entries)
    if isinstance(value, list):
        return tuple(_from_form(entry) for entry in value)
    return value
