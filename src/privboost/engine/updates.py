"""Updates: messages that carry released values to the rows of all shards."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from privboost._core.grid import FULL_RANGE
from privboost.data.design_matrix import Terms
from privboost.data.rows import RelativeResiduals
from privboost.engine.protocol import Message, ShardState
from privboost.engine.queries import need_cells
from privboost.losses.base import MOST_LINES, LossTable, within_steps
from privboost.randomness.sampling import Sample
from privboost.trees.cell_map import CellMap
from privboost.trees.tree import Tree


class Update(Message, ABC):
    """A message about released values."""

    of_budgets: ClassVar[bool] = False
    """Whether it concerns the rows' lifetime budgets, which only the curator manages."""

    def frozen(self) -> Self:
        """Return the update with copies of its arrays that nobody can change, checked."""
        return self

    @abstractmethod
    def apply_to(self, state: ShardState) -> None:
        """Have a shard, or a check of a log, follow this update."""


def _checked(loss: LossTable) -> LossTable:
    """Return a read-only copy of a loss table, every entry of which is within its clip."""
    loss = loss.frozen()
    if not within_steps(loss):
        raise ValueError("a loss table exceeds its clip: it would be undercharged")
    return loss


@dataclass(frozen=True, eq=False)
class Start(Update, tag="Start"):
    """Begin boosting: all scores are reset, and a loss is used from now on.

    Attributes
    ----------
    loss : LossTable or None
        The loss; None where nothing is looked up in one.
    n_outputs : int
        The number of scores of each row.
    """

    loss: LossTable | None
    n_outputs: int = 1

    def frozen(self) -> Start:
        """Return the update with a read-only loss, checked."""
        return self if self.loss is None else replace(self, loss=_checked(self.loss))

    def apply_to(self, state: ShardState) -> None:
        """Reset the scores."""
        state.start(self.loss, self.n_outputs)


@dataclass(frozen=True, eq=False)
class SetClippingRange(Update, tag="SetSpan"):
    """Set the clipping range of a numeric target, before a start.

    Attributes
    ----------
    low, high : int
        The labels that are scaled to −1 and 1, in `grid.LABEL_STEPS`; those outside are clipped.
    """

    low: int
    high: int

    def __post_init__(self) -> None:
        ends = (self.low, self.high)
        if any(not isinstance(end, int) or isinstance(end, bool) for end in ends):
            raise ValueError("a clipping range must have two integer ends")
        if not FULL_RANGE[0] <= self.low < self.high <= FULL_RANGE[1]:
            raise ValueError("a clipping range must lie within the bounds, and not be empty")
        if (self.high - self.low) % 2:
            raise ValueError("a clipping range must have a middle on the grid")

    def apply_to(self, state: ShardState) -> None:
        """Set the range."""
        state.clip_labels(self.low, self.high)


@dataclass(frozen=True, eq=False)
class SetLabelBins(Update, tag="SetLabelBins"):
    """Look up numeric labels by bin, from the next start on.

    The line of a row in a loss table is then the number of the edges at or below its label, its
    state is its score alone, and the loss needs a line for each bin and one for unknown labels.
    Without edges, states are again scores less labels.

    Attributes
    ----------
    edges : int32 array
        The lower ends of all bins but the first, strictly increasing, in `grid.LABEL_STEPS`.
    """

    edges: np.ndarray

    def __post_init__(self) -> None:
        edges = self.edges
        if not isinstance(edges, np.ndarray) or edges.dtype != np.int32 or edges.ndim != 1:
            raise ValueError("edges of labels must be a one-dimensional int32 array")
        if len(edges) > MOST_LINES - 2 or not (edges[1:] > edges[:-1]).all():
            raise ValueError(f"edges of labels must increase, and be at most {MOST_LINES - 2}")
        object.__setattr__(self, "edges", np.frombuffer(edges.tobytes(), dtype=np.int32))

    def apply_to(self, state: ShardState) -> None:
        """Set the bins."""
        state.bin_labels(self.edges)


@dataclass(frozen=True, eq=False)
class UseLoss(Update, tag="UseLoss"):
    """Use another loss from now on; scores stay."""

    loss: LossTable

    def frozen(self) -> UseLoss:
        """Return the update with a read-only loss, checked."""
        return UseLoss(_checked(self.loss))

    def apply_to(self, state: ShardState) -> None:
        """Replace the loss."""
        state.use_loss(self.loss)


@dataclass(frozen=True, eq=False)
class UsePart(Update, tag="UsePart"):
    """Have only the rows put aside count from now on, or only all others.

    Rows that do not count are like rows with an unknown label: they add nothing to any sum. When
    rows put aside begin to count, the state of the first output becomes the nonconformity of each:
    the absolute residual of a number, whose label is not clipped to the clipping range, or a
    relative one, or minus the score of the row's class. So that comes last.

    Attributes
    ----------
    put_aside : Sample
        The rows put aside.
    aside : bool
        Whether these count, or the others.
    relative : RelativeResiduals, optional
        Where scores are logarithms of means, the residuals of rows put aside.
    """

    put_aside: Sample
    aside: bool
    relative: RelativeResiduals | None = None

    def __post_init__(self) -> None:
        if self.relative is None:
            return
        if not self.aside or not isinstance(self.relative, RelativeResiduals):
            raise ValueError("relative residuals are those of rows put aside")

    def apply_to(self, state: ShardState) -> None:
        """Mark the rows."""
        state.use_part(self.put_aside, self.aside, self.relative)


@dataclass(frozen=True, eq=False)
class AddCellValues(Update, tag="AddCellValues"):
    """Add to each row's score the released value of its cell, of each part.

    Attributes
    ----------
    cells : CellMap
        The cells.
    value_of : int32 array
        The value of each cell, in score steps.
    output : int
        The index of the score.
    """

    cells: CellMap
    value_of: np.ndarray
    output: int = 0

    def __post_init__(self) -> None:
        need_cells(self.cells)
        values = self.value_of
        if not isinstance(values, np.ndarray) or values.dtype != np.int32:
            raise ValueError("values of cells must be an int32 array")
        if values.shape != (self.cells.n_cells,):
            raise ValueError("each cell needs a value")

    def apply_to(self, state: ShardState) -> None:
        """Add the values."""
        state.add_cell_values(self.cells, self.value_of, self.output)


@dataclass(frozen=True, eq=False)
class AddTreeValues(Update, tag="AddTreeValues"):
    """Add to each row's score the released value of its leaf in each of several trees.

    Attributes
    ----------
    trees : tuple of Tree
        The trees, of one depth.
    value_of : int32 array of shape (trees, leaves)
        The values, in score steps.
    output : int
        The index of the score.
    """

    trees: tuple[Tree, ...]
    value_of: np.ndarray
    output: int = 0

    def apply_to(self, state: ShardState) -> None:
        """Add the values."""
        state.add_tree_values(self.trees, self.value_of, self.output)


@dataclass(frozen=True, eq=False)
class AddCellValuesOfAll(Update, tag="AddCellValuesOfAll"):
    """Do `AddCellValues` for all scores of a row: `value_of` has shape (outputs, cells)."""

    cells: CellMap
    value_of: np.ndarray

    def __post_init__(self) -> None:
        need_cells(self.cells)
        values = self.value_of
        if not isinstance(values, np.ndarray) or values.dtype != np.int32 or values.ndim != 2:
            raise ValueError("values of cells must be an int32 array of each output")
        if values.shape[1] != self.cells.n_cells:
            raise ValueError("each cell needs a value")

    def apply_to(self, state: ShardState) -> None:
        """Add the values."""
        for output, values in enumerate(self.value_of):
            state.add_cell_values(self.cells, values, output)


@dataclass(frozen=True, eq=False)
class AddTreeValuesOfAll(Update, tag="AddTreeValuesOfAll"):
    """Do `AddTreeValues` for all scores: `value_of` has shape (outputs, trees, leaves)."""

    trees: tuple[Tree, ...]
    value_of: np.ndarray

    def __post_init__(self) -> None:
        values = self.value_of
        if not isinstance(values, np.ndarray) or values.dtype != np.int32 or values.ndim != 3:
            raise ValueError("values of leaves must be an int32 array of each output")

    def apply_to(self, state: ShardState) -> None:
        """Add the values."""
        for output, values in enumerate(self.value_of):
            state.add_tree_values(self.trees, values, output)


@dataclass(frozen=True, eq=False)
class SetTerms(Update, tag="SetTerms"):
    """Define the vectors of rows in a linear model."""

    terms: Terms

    def frozen(self) -> SetTerms:
        """Return the update with read-only terms, checked."""
        terms = self.terms.frozen()
        terms.check()
        return SetTerms(terms)

    def apply_to(self, state: ShardState) -> None:
        """Set the terms."""
        state.set_terms(self.terms)


@dataclass(frozen=True, eq=False)
class SetLinearScores(Update, tag="SetLinearScores"):
    """Set each row's score to the product of its vector and released coefficients.

    Attributes
    ----------
    coefficients : int32 array
        For each coordinate, in score steps per `grid.VECTOR_STEPS`.
    output : int
        The index of the score.
    """

    coefficients: np.ndarray
    output: int = 0

    def apply_to(self, state: ShardState) -> None:
        """Set the scores."""
        state.set_linear_scores(self.coefficients, self.output)


@dataclass(frozen=True, eq=False)
class OpenBudgets(Update, tag="OpenBudgets"):
    """Give each row a lifetime budget of `grid.BUDGET_STEPS`; then only charged rows count."""

    of_budgets: ClassVar[bool] = True

    def apply_to(self, state: ShardState) -> None:
        """Open the budgets."""
        state.open_budgets()


@dataclass(frozen=True, eq=False)
class CloseBudgets(Update, tag="CloseBudgets"):
    """Let every row count again, whatever it has spent; no row is charged any more."""

    of_budgets: ClassVar[bool] = True

    def apply_to(self, state: ShardState) -> None:
        """Close the budgets."""
        state.close_budgets()


@dataclass(frozen=True, eq=False)
class Price(Update, tag="Price"):
    """The charges of a kind of release, under a number by which a `Charge` refers to them.

    Attributes
    ----------
    number : int
        The number.
    tables : tuple of int32 arrays of shape (weight classes + 1, or 1; lines; size)
        For each cohort, the charge of each weight class, line and column of the loss.
        Rows of later cohorts pay nothing and do not count.
    """

    of_budgets: ClassVar[bool] = True
    number: int
    tables: tuple[np.ndarray, ...]

    def apply_to(self, state: ShardState) -> None:
        """Store the price."""
        state.set_price(self.number, self.tables)


@dataclass(frozen=True, eq=False)
class Charge(Update, tag="Charge"):
    """Charge every row that can afford the next release; the others do not count in it.

    Attributes
    ----------
    price : int
        The number of the price.
    output : int
        The index of the score.
    """

    of_budgets: ClassVar[bool] = True
    price: int
    output: int = 0

    def apply_to(self, state: ShardState) -> None:
        """Charge the rows."""
        state.charge(self.price, self.output)
