"""How far values go to where answers point, where several questions are asked at once.

Those that are asked about together do not know of each other: features that say the same would
each go the whole way, and all together too far.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

ALONE, JOINT = 0.2, 1.0
"""What one more question at once takes off the pace: of features, and of pairs or trees."""


class Pace:
    """A part of the way, which becomes shorter where steps went too far.

    Parameters
    ----------
    questions : int
        How many are asked at once.
    crowd : float
        `ALONE` or `JOINT`.
    """

    def __init__(self, questions: int, crowd: float) -> None:
        self.part = 1 / (1 + crowd * (questions - 1))
        self._several = questions > 1

    def heed(self, ways: Iterable[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> None:
        """Go slower if values are to turn back.

        Steps of a part p along which everything else moves, too, leave 1 − p·λ of the way; with
        p = 1/λ nothing is left.

        Parameters
        ----------
        ways : iterable of (weight, before, now), read where several are asked at once
            Of each effect its bins' masses, and how far they were to go the last time and now.
        """
        if not self._several:
            return
        length = along = 0.0
        for weight, before, now in ways:
            length += float((weight * before**2).sum())
            along += float((weight * before * now).sum())
        if along < 0:
            self.part /= 1 - along / length
