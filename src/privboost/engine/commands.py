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
from privboost.engine.tree import Tree
from privboost.losses import LossTable

GRADIENT_HESSIAN = ("gradient", "hessian")
GRADIENT_COUNT = ("gradient", "count")
HESSIAN_COUNT = ("hessian", "count")
COUNT = ("count",)
HESSIAN = ("hessian",)
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
class Start:
    """Begin boosting: states go back to where they start, and this loss is used."""

    loss: LossTable
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


Query = FeatureSums | TreeSums | NodeHistograms
Update = Start | AddFeatureValues | AddTreeValues | OpenBudgets | Price | Charge
_KINDS = {
    kind.__name__: kind
    for kind in (
        FeatureSums,
        TreeSums,
        NodeHistograms,
        Start,
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


def to_bytes(message: Query | Update) -> bytes:
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
