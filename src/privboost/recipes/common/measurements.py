"""Division of a budget into measurements of single features and of interactions."""

from __future__ import annotations

import math
from dataclasses import dataclass

from privboost.accounting.events import Planned
from privboost.accounting.noisy_sums import NoisySums


def describe(single: int = 0, joint: int = 0) -> str:
    """Describe a round about so many features, pairs or trees; which does not change its cost."""
    if single:
        cells = "a feature" if single == 1 else f"each of {single} features"
    elif joint == 1:
        cells = "two features, or by leaf of a tree"
    else:
        cells = f"each of {joint} pairs of features, or by leaf of each of {joint} trees"
    return f"gradients and Hessians by cell of {cells}"


@dataclass(frozen=True)
class InteractionRule:
    """Division of measurements between single features and interactions.

    It reads public facts and released values alone, and is part of the plan's digest (with the
    names of its fields). Parts are of the reserved budget (on μ²); cells are those that a joint
    query could have: see `PrivBoostPlan._cells`.

    Attributes
    ----------
    tried : int
        Joint measurements, for half of the budget, with which the cells are estimated.
    fewest : float
        Cells at and below which there are no interactions.
    steep : float
        Part of the budget for each doubling of the cells beyond `fewest`.
    most_part : float
        Largest part of the budget.
    count : float
        Joint measurements for a part of 1, while there are few cells.
    many : float
        Cells beyond which the number of measurements grows with the root of the cells.
    most_count : int
        Most joint measurements.
    """

    tried: int = 100
    fewest: float = 1.4
    steep: float = 0.25
    most_part: float = 0.7
    count: float = 400.0
    many: float = 60.0
    most_count: int = 1500

    def divide(self, cells: float) -> tuple[float, int]:
        """Return the part of interactions and the number of their measurements."""
        part = self.steep * math.log2(max(cells, 1e-300) / self.fewest)
        part = min(max(part, 0.0), self.most_part)
        count = self.count * part * max(math.sqrt(cells / self.many), 1.0)
        return part, int(min(count, self.most_count))


@dataclass(frozen=True)
class Measurements:
    """Measurements that are made once the number of rows is known.

    Releases of one round about features, and about pairs or trees; for each output so many rounds
    of each, of so many queries.
    """

    single: NoisySums
    joint: NoisySums | None
    n_single: int
    n_joint: int
    single_queries: int
    joint_queries: int

    def planned(self, outputs: int) -> list[Planned]:
        """Return all releases, to replace the reserved one."""
        single = [Planned(self.single, outputs * self.n_single)]
        if self.joint is None:
            return single
        return [*single, Planned(self.joint, outputs * self.n_joint)]
