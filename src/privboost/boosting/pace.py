"""Step damping: the fraction of a step that values take where several queries are made at once.

Effects that are measured together are not corrected for each other: correlated features would each
take the whole step, and overshoot together.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

SINGLE, JOINT = 0.2, 1.0
"""Damping for each further query of a round: of features, and of pairs or trees."""


class StepDamping:
    """Fraction of a step, which shrinks after an overshoot.

    Parameters
    ----------
    queries : int
        Queries of a round.
    strength : float
        `SINGLE` or `JOINT`.
    """

    def __init__(self, queries: int, strength: float) -> None:
        self.part = 1 / (1 + strength * (queries - 1))
        self._several = queries > 1

    def damp(self, moves: Iterable[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> None:
        """Shrink the fraction after an overshoot.

        A fraction p of steps along which everything else moves, too, leaves 1 − p·λ of the
        distance; with p = 1/λ nothing is left.

        Parameters
        ----------
        moves : iterable of (weight, before, now), read where a round has several queries
            Noisy counts of each effect's bins, and their full steps in the last round and now.
        """
        if not self._several:
            return
        length = along = 0.0
        for weight, before, now in moves:
            length += float((weight * before**2).sum())
            along += float((weight * before * now).sum())
        if along < 0:
            self.part /= 1 - along / length
