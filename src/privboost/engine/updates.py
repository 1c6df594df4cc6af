"""What rows can be told: small frozen messages about what has been released."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privboost.engine.queries import need_cells
from privboost.grid import WHOLE_SPAN
from privboost.losses import LossTable
from privboost.trees.cell_map import CellMap
from privboost.trees.tree import Tree
from privboost.vectors.terms import Terms


@dataclass(frozen=True, eq=False)
class Start:
    """Begin boosting: states go back to where they start, and this loss is used, if any."""

    loss: LossTable | None
    n_outputs: int = 1


@dataclass(frozen=True, eq=False)
class SetSpan:
    """Say within which span a number's labels are told apart; it comes before a start.

    Attributes
    ----------
    low, high : int
        The labels that become −1 and 1, in `grid.LABEL_STEPS`; those outside are clipped.
    """

    low: int
    high: int

    def __post_init__(self) -> None:
        ends = (self.low, self.high)
        if any(not isinstance(end, int) or isinstance(end, bool) for end in ends):
            raise ValueError("a span goes from one whole step to another")
        if not WHOLE_SPAN[0] <= self.low < self.high <= WHOLE_SPAN[1]:
            raise ValueError("a span lies within the bounds, and is not empty")
        if (self.high - self.low) % 2:
            raise ValueError("a span has a middle on the grid")


@dataclass(frozen=True, eq=False)
class AddCellValues:
    """Add to each row's score the released value of its cell, of each part.

    Attributes
    ----------
    cells : CellMap
        The cells.
    value_of : int32 array
        The value of each cell, in score steps.
    output : int
        Which score they are added to.
    """

    cells: CellMap
    value_of: np.ndarray
    output: int = 0

    def __post_init__(self) -> None:
        need_cells(self.cells)
        values = self.value_of
        if not isinstance(values, np.ndarray) or values.dtype != np.int32:
            raise ValueError("values of cells must be an array of int32")
        if values.shape != (self.cells.n_cells,):
            raise ValueError("each cell needs a value")


@dataclass(frozen=True, eq=False)
class AddTreeValues:
    """Add to each row's score the released value of its leaf in each of several trees.

    Attributes
    ----------
    trees : tuple of Tree
        The trees, of one depth.
    value_of : int32 array of shape (trees, leaves)
        The values, in score steps.
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
        For each coordinate, in score steps per `grid.VECTOR_STEPS`.
    output : int
        Which score is meant.
    """

    coefficients: np.ndarray
    output: int = 0


@dataclass(frozen=True, eq=False)
class OpenBudgets:
    """Give each row a budget for life of `grid.BUDGET_STEPS`; from now on charged rows count."""


@dataclass(frozen=True, eq=False)
class CloseBudgets:
    """Let every row count again, whether or not it has spent its budget; none is charged more."""


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


Update = (
    Start
    | SetSpan
    | UseLoss
    | AddCellValues
    | AddTreeValues
    | SetTerms
    | SetLinearScores
    | OpenBudgets
    | CloseBudgets
    | Price
    | Charge
)
