"""How many answers the flagship asks for, and of which kind.

That is decided once the number of rows is released, from public facts and released values alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from privboost.privacy.events.event import Planned
from privboost.privacy.events.sums import GaussianRelease, NoisySums


@dataclass(frozen=True)
class Rule:
    """How answers are divided between single features and interactions.

    It reads public facts and released values alone, and is part of the plan's digest.

    Attributes
    ----------
    tried : int
        With so many answers, for half of what is left, it is seen how many cells interactions
        could have.
    fewest : float
        With fewer cells than this there are none.
    steep, most_part : float
        Their part for each time that cells double, and the largest part.
    count : float
        Answers about interactions, for a part of 1.
    many : float
        Beyond so many cells their number grows with the root of cells.
    most_count : int
        The most answers there are.
    """

    tried: int = 100
    fewest: float = 1.4
    steep: float = 0.25
    most_part: float = 0.7
    count: float = 400.0
    many: float = 60.0
    most_count: int = 1500

    def divide(self, cells: float) -> tuple[float, int]:
        """Return the part of interactions and how many answers they have, given those cells."""
        part = self.steep * math.log2(max(cells, 1e-300) / self.fewest)
        part = min(max(part, 0.0), self.most_part)
        count = self.count * part * max(math.sqrt(cells / self.many), 1.0)
        return part, int(min(count, self.most_count))


@dataclass(frozen=True)
class Answers:
    """What is asked once the number of rows is known.

    Attributes
    ----------
    alone : GaussianRelease or LaplaceRelease
        The answers of one round about features.
    joint : GaussianRelease or None
        The answers of one round about pairs, or about trees.
    n_alone, n_joint : int
        How many rounds there are of each, for each output.
    questions_alone, questions_joint : int
        How many questions one round of each has.
    """

    alone: NoisySums
    joint: GaussianRelease | None
    n_alone: int
    n_joint: int
    questions_alone: int
    questions_joint: int

    def planned(self, outputs: int) -> list[Planned]:
        """Return all of them, to be put in the place of what was reserved."""
        alone = [Planned(self.alone, outputs * self.n_alone)]
        return (
            alone if self.joint is None else [*alone, Planned(self.joint, outputs * self.n_joint)]
        )
