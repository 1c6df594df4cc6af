"""What is known of one output: all effects, whom to ask about next, and what rows were told.

Everything here follows from released values and public randomness.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privboost.boosting.effects import VARIANCES, Effect, Heard, Noise, Step, shared_belief
from privboost.boosting.interactions import Place
from privboost.boosting.pace import ALONE, Pace
from privboost.boosting.questions import BINS, Bins, Question, moving_cells, shares_of
from privboost.grid import SCORE_STEPS
from privboost.tables.encoding import Encoder
from privboost.trees.cell_map import CellMap

TURNS = 4
"""How often each feature is asked about before some come more often."""


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
    questions : int
        How many are asked at once.
    """

    def __init__(
        self,
        encoder: Encoder,
        noise: Noise,
        cells: int,
        worth: tuple[float, float],
        slopes: Sequence[int],
        most_bins: int = BINS,
        questions: int = 1,
    ) -> None:
        self.bins = [Bins.of(encoder, f, most_bins) for f in range(len(encoder.domain.features))]
        self._effects = [
            None if own.too_many else Effect.of(own, len(self.bins), slope)
            for own, slope in zip(self.bins, slopes, strict=True)
        ]
        self.steps: list[list[tuple[int, Step]]] = []
        self._told = [np.zeros(len(own.learned), dtype=np.int32) for own in self.bins]
        self._noise, self._cells, self._worth = noise, cells, worth
        self._pace = Pace(questions, ALONE)
        self._evidence = np.zeros((len(self.bins), len(VARIANCES)))
        self._weights = np.full_like(self._evidence, 1 / len(VARIANCES))
        self._sizes, self._due = np.zeros(len(self.bins)), np.zeros(len(self.bins))
        self._asked = 0
        self._missing = np.zeros((len(self.bins), 4))

    def next_questions(self, count: int, generator: np.random.Generator) -> list[Question]:
        """Return what is asked next, about so many features."""
        return [Question(f, self._cells_for(f, generator)) for f in self._next_features(count)]

    def _next_features(self, count: int) -> list[int]:
        """Return each feature in turn, then those of a large effect or doubt more often."""
        features, asked = len(self.bins), self._asked
        self._asked += count
        if asked < TURNS * features:
            return [(asked + number) % features for number in range(count)]
        self._due += count * shares_of(self._sizes)
        chosen = np.argsort(-self._due, kind="stable")[:count]
        self._due[chosen] -= 1
        return [int(feature) for feature in chosen]

    def _cells_for(self, feature: int, generator: np.random.Generator) -> np.ndarray:
        """Return the cell of each bin that the next answer about a feature is about."""
        effect = self._effects[feature]
        if effect is None:  # which of many categories are frequent is not known yet
            return np.arange(len(self.bins[feature].learned))
        ordered = self.bins[feature].ordered
        return moving_cells(effect.profile, ordered, self._cells, generator)

    def cells_of(self, question: Question) -> CellMap:
        """Return the cells of the codes that a question is about."""
        return self.bins[question.feature].joined(question.cell_of)

    def hear(
        self, questions: Sequence[Question], answers: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """Take in answers; return by how much the values of each feature's bins change."""
        belief = shared_belief(self._evidence, self._weights)
        heard = [self._hear(*each, belief) for each in zip(questions, answers, strict=True)]
        features = [question.feature for question in questions]
        effects = [self.effect(feature) for feature in features]
        self._pace.heed(effect.turn for effect in effects)
        steps = [
            effect.go(own, self._pace.part) for effect, own in zip(effects, heard, strict=True)
        ]
        self.steps.append(list(zip(features, steps, strict=True)))
        return [self._tell(feature) for feature in features]

    def _hear(self, question: Question, sums: np.ndarray, belief: np.ndarray) -> Heard:
        """Take in an answer about one feature."""
        feature, cell_of, noise = question.feature, question.cell_of, self._noise
        gradient: np.ndarray = -sums[:, 0] * self._worth[0]
        hessian: np.ndarray = sums[:, 1] * self._worth[1]
        self._add_missing(feature, cell_of, hessian)
        if self._effects[feature] is None:
            shared = self._share_bins(feature, hessian)
            noise = noise.times(np.sqrt(np.bincount(shared)))
            gradient, hessian = np.bincount(shared, gradient), np.bincount(shared, hessian)
            cell_of = np.arange(len(hessian))
        effect = self.effect(feature)
        heard = effect.hear(cell_of, gradient, hessian, noise, belief)
        self._evidence[feature], self._weights[feature] = effect.evidence, effect.weights
        return heard

    def _tell(self, feature: int) -> np.ndarray:
        """Return by how much the values of a feature's bins have changed since rows were told."""
        effect = self.effect(feature)
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

    def _add_missing(self, feature: int, cell_of: np.ndarray, hessian: np.ndarray) -> None:
        """Add an answer's Hessian sums without and with a value, and the latter's variance.

        An answer whose cell of missing values holds rare categories too is left out.
        """
        own = cell_of[-1]
        if np.count_nonzero(cell_of == own) == 1:
            variance = (len(hessian) - 1) * float(self._noise.hessian) ** 2
            rest = float(hessian.sum() - hessian[own])
            self._missing[feature] += (hessian[own], rest, variance, 1)

    @property
    def missing(self) -> np.ndarray:
        """The mean Hessian sum of each feature's rows without a value, with one, its variance."""
        asked = np.maximum(self._missing[:, 3], 1)
        found: np.ndarray = self._missing[:, :3] / np.stack([asked, asked, asked**2], axis=1)
        return found

    def _share_bins(self, feature: int, hessian: np.ndarray) -> np.ndarray:
        """Let rare ones of many categories share a bin; return the bin of each."""
        self.bins[feature], shared = self.bins[feature].shared(hessian)
        self._told[feature] = np.zeros(len(self.bins[feature].learned), dtype=np.int32)
        self._effects[feature] = Effect.of(self.bins[feature], len(self.bins))
        return shared
