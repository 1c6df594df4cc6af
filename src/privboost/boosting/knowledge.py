"""What is known of one output: all effects, whom to ask about next, and what rows were told.

Everything here follows from released values and public randomness.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privboost.boosting.effects import VARIANCES, Effect, Heard, Noise, shared_belief
from privboost.boosting.interactions import Place
from privboost.boosting.questions import BINS, Bins, moving_cells
from privboost.grid import SCORE_STEPS
from privboost.tables.encoding import Encoder

TURNS = 4
"""How often each feature is asked about before some come more often."""

FOCUS = 0.7
"""The part of later rounds that follows the size of effects; the rest is shared evenly."""


class Knowledge:
    """What is known of one output: the effect of each feature, and whom to ask about next.

    Parameters
    ----------
    encoder : Encoder
        The features.
    noise : Noise
        The noise of an answer.
    cells : int
        How many cells an answer has.
    worth : tuple of float
        What one step of an answer's gradients and Hessians is worth.
    slopes : sequence of int
        Of each feature, which way its effect goes: see `Effect`.
    most_bins : int
        How many bins a number has at most.
    """

    def __init__(
        self,
        encoder: Encoder,
        noise: Noise,
        cells: int,
        worth: tuple[float, float],
        slopes: Sequence[int],
        most_bins: int = BINS,
    ) -> None:
        self.bins = [Bins.of(encoder, f, most_bins) for f in range(len(encoder.domain.features))]
        self._effects = [
            None if own.too_many else Effect.of(own, len(self.bins), slope)
            for own, slope in zip(self.bins, slopes, strict=True)
        ]
        self.heard: list[tuple[int, Heard]] = []
        self._told = [np.zeros(len(own.learned), dtype=np.int32) for own in self.bins]
        self._noise, self._cells, self._worth = noise, cells, worth
        self._evidence = np.zeros((len(self.bins), len(VARIANCES)))
        self._weights = np.full_like(self._evidence, 1 / len(VARIANCES))
        self._sizes, self._due = np.zeros(len(self.bins)), np.zeros(len(self.bins))

    def next_feature(self, round_: int) -> int:
        """Return each feature in turn, then those of a large effect or doubt more often."""
        count = len(self.bins)
        if round_ < TURNS * count:
            return round_ % count
        total = float(self._sizes.sum())
        focus = FOCUS if total > 0 else 0.0
        self._due += focus * self._sizes / max(total, 1e-300) + (1 - focus) / count
        feature = int(self._due.argmax())
        self._due[feature] -= 1
        return feature

    def question(self, feature: int, generator: np.random.Generator) -> np.ndarray:
        """Return the cell of each bin that the next answer about a feature is about."""
        effect = self._effects[feature]
        if effect is None:  # which of many categories are frequent is not known yet
            return np.arange(len(self.bins[feature].learned))
        ordered = self.bins[feature].ordered
        return moving_cells(effect.profile, ordered, self._cells, generator)

    def hear(self, feature: int, cell_of: np.ndarray, sums: np.ndarray) -> np.ndarray:
        """Take in an answer; return by how much the values of the feature's bins change."""
        gradient: np.ndarray = -sums[:, 0] * self._worth[0]
        hessian: np.ndarray = sums[:, 1] * self._worth[1]
        noise = self._noise
        if self._effects[feature] is None:
            shared = self._share_bins(feature, hessian)
            noise = noise.times(np.sqrt(np.bincount(shared)))
            gradient, hessian = np.bincount(shared, gradient), np.bincount(shared, hessian)
            cell_of = np.arange(len(hessian))
        effect, belief = self.effect(feature), shared_belief(self._evidence, self._weights)
        heard = effect.hear(cell_of, gradient, hessian, noise, belief)
        self.heard.append((feature, heard))
        self._evidence[feature], self._weights[feature] = effect.evidence, effect.weights
        if effect.asked >= TURNS:  # before, nobody looks
            self._sizes[feature] = effect.size
        told = np.rint(effect.values * SCORE_STEPS).astype(np.int32)
        change: np.ndarray = told - self._told[feature]
        self._told[feature] = told
        return change

    def effect(self, feature: int) -> Effect:
        """Return the effect of a feature that was asked about."""
        effect = self._effects[feature]
        assert effect is not None
        return effect

    def places(self) -> list[Place]:
        """Return where the codes of each feature stand, for interactions to be looked for."""
        return [
            Place.unknown(own.of_code)
            if effect is None
            else Place.of(own.of_code, own.ordered, effect)
            for own, effect in zip(self.bins, self._effects, strict=True)
        ]

    def by_code(self, feature: int) -> tuple[np.ndarray, np.ndarray]:
        """Return for each code of a feature its value, and its released mass."""
        of, told, effect = self.bins[feature].of_code, self._told[feature], self._effects[feature]
        if effect is None:
            return told[of], np.zeros(len(of))
        mass = effect.rows / np.maximum(np.bincount(of, minlength=len(told)), 1)
        return told[of], mass[of]

    def _share_bins(self, feature: int, hessian: np.ndarray) -> np.ndarray:
        """Let rare ones of many categories share a bin; return the bin of each."""
        self.bins[feature], shared = self.bins[feature].shared(hessian)
        self._told[feature] = np.zeros(len(self.bins[feature].learned), dtype=np.int32)
        self._effects[feature] = Effect.of(self.bins[feature], len(self.bins))
        return shared
