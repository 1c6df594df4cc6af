"""A utility whose choice is easy to foresee."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privboost._core.grid import Contribution
from privboost.accounting.events import Relation
from privboost.engine.queries import GRADIENT_COUNT, GRADIENT_HESSIAN


@dataclass(frozen=True)
class LargestCell:
    """Find the cell with the largest sum of the second statistic (a count, or Hessians).

    Range: a row adds between 0 and its steps to one cell of each feature and nothing elsewhere,
    so all changes lie in [0, row steps · rows].
    """

    statistics: ClassVar[tuple[tuple[str, ...], ...]] = (GRADIENT_HESSIAN, GRADIENT_COUNT)
    relation: ClassVar[Relation] = Relation.ADD_REMOVE
    allowed: ClassVar[None] = None

    def scores(self, sums: np.ndarray, contribution: Contribution) -> np.ndarray:
        """Return each cell's sum."""
        return sums[..., 1].reshape(1, -1)

    def range(self, contribution: Contribution) -> int:
        """Return the most that a unit adds to a cell."""
        return contribution.row_steps * contribution.rows
