"""How far noise moved a model: the noise of a run, drawn again and sent through all its answers.

The noise of each answer is known exactly, and values follow from answers by known rules. But noise
in one effect moves the rows, and so the answers about all others. So rows are drawn from released
values, and the run is told again on them, many times side by side: only noise, nothing of the
rows. How features agree is not released; drawn rows agree by far more than by chance, which makes
noise run to and fro between features as it does in tables where several say the same. Everything
follows from released values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from privboost.boosting import echo_kernels as kernels
from privboost.boosting.effects import Effect, Heard, Step
from privboost.boosting.interactions import Grown, Interactions, Pair
from privboost.boosting.knowledge import Knowledge
from privboost.boosting.leaves import weight_and_precision
from privboost.boosting.posterior_kernels import add_answer, by_cell, root_of, solve
from privboost.grid import SCORE_STEPS
from privboost.models.importance import even
from privboost.randomness.public_choices import fixed_generator
from privboost.tables.layout import Layout
from privboost.tables.rows import Codes
from privboost.trees.routing import find_leaves

N_ROWS, N_DRAWS = 512, 32
"""Rows that are drawn, and how often noise is."""

AGREEMENT = 0.85
"""What a row's features have in common: each is as far along as the row is, this much."""

SHARED = 0.16
"""The part of an effect's mean variance that each bin is given on top of its own.

Where in an effect noise gathers depends on which values of other features come with which of its
own, and that is not known."""


@dataclass(eq=False)
class _Noisy:
    """What noise does to one effect.

    Parameters
    ----------
    effect : Effect
        What was heard.
    rows : int array
        The bin of each drawn row.
    """

    effect: Effect
    rows: np.ndarray
    first: np.ndarray = field(init=False)
    info: np.ndarray = field(init=False)
    pull: np.ndarray = field(init=False)
    values: np.ndarray = field(init=False)
    told: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        bins, self.first = len(self.effect.values), self.effect.prior.first.copy()
        self.info, self.pull = np.zeros((bins, bins)), np.zeros((bins, N_DRAWS))
        self.values, self.told = np.zeros((bins, N_DRAWS)), np.zeros(bins)

    @property
    def deviations(self) -> np.ndarray:
        """The standard deviation of each bin of the centred effect."""
        profile = self.effect.profile
        centred = self.values - (profile[:, None] * self.values).sum(axis=0)
        variance = (centred**2).mean(axis=1)
        deviations: np.ndarray = np.sqrt(variance + SHARED * (profile * variance).sum())
        return deviations


class Echoes:
    """The noise of one output's run, drawn again.

    Parameters
    ----------
    known : Knowledge
        What was heard about features.
    joined : Interactions or None
        What was heard about pairs and trees.
    start, start_noise : float
        Where scores begin, and the standard deviation of it.
    response : callable
        By how much the gradients of all rows change with their scores, given these, on average.
    """

    def __init__(
        self,
        known: Knowledge,
        joined: Interactions | None,
        start: float,
        start_noise: float,
        response: Callable[[np.ndarray], np.ndarray],
    ) -> None:
        self._respond = response
        self._generator = fixed_generator()
        self._codes = draw_codes(known, self._generator)
        self._scores = np.full(N_ROWS, start)
        signs = 2.0 * (self._words(N_DRAWS) >> 31) - 1.0
        self._moved = np.repeat(start_noise * signs[None], N_ROWS, axis=0)
        self._alone = np.zeros(N_ROWS)
        self.effects = self._follow_features(known)
        self.pairs: list[np.ndarray] = []
        self.trees: list[np.ndarray] = []
        if joined is not None:
            self._follow_interactions(joined)

    def _response(self, scores: np.ndarray) -> np.ndarray:
        """Return by how much the gradients of the rows that each drawn one stands for change."""
        return self._respond(scores) / N_ROWS

    @property
    def together(self) -> float:
        """What noise gives to scores, in parts of what it would if all values erred on their own.

        Values that act on the same rows make up for each other's errors.
        """
        alone = float(self._alone.mean())
        return float(np.sqrt((self._moved**2).mean() / alone)) if alone > 0 else 0.0

    def _follow_features(self, known: Knowledge) -> list[np.ndarray]:
        """Tell the answers about features again; return the deviation of each bin."""
        noisy: dict[int, _Noisy] = {}
        for round_ in known.steps:
            told = []
            for feature, step in round_:
                if feature not in noisy:
                    rows = known.bins[feature].of_code[self._codes[feature]].astype(np.int64)
                    noisy[feature] = _Noisy(known.effect(feature), rows)
                told.append((noisy[feature], step, self._answer(noisy[feature], step.heard)))
            for each in told:
                self._hear(*each)
        found = []
        for feature, bins in enumerate(known.bins):
            moved = noisy[feature].deviations if feature in noisy else np.zeros(len(bins.learned))
            self._alone += moved[bins.of_code[self._codes[feature]]] ** 2
            found.append(moved)
        return found

    def _follow_interactions(self, joined: Interactions) -> None:
        """Tell the answers about pairs and trees again; keep the deviations of their values."""
        noisy: dict[int, _Noisy] = {}
        codes = Codes.of(Layout(tuple(len(place.of_code) for place in joined.places)), self._codes)
        for round_ in joined.steps:
            told, grown = [], []
            for asked in round_:
                if isinstance(asked, Grown):
                    grown.append((asked, *self._answer_of_tree(asked, codes)))
                else:
                    pair, step = asked
                    if id(pair) not in noisy:
                        noisy[id(pair)] = _Noisy(pair.effect, self._cells_of_pair(pair))
                    own = noisy[id(pair)]
                    told.append((own, step, self._answer(own, step.heard)))
            for each in told:
                self._hear(*each)
            for tree in grown:
                self.trees.append(self._hear_tree(*tree))
        for pair in joined.pairs.values():
            self.pairs.append(noisy[id(pair)].deviations)
            self._alone += self.pairs[-1][noisy[id(pair)].rows] ** 2

    def _answer(self, own: _Noisy, heard: Heard) -> np.ndarray:
        """Return the noise of an answer about an effect, and what earlier noise does to it."""
        cell_of, cells = heard.cell_of, len(heard.weight)
        missed = heard.within * (own.told - own.effect.values)
        missed = np.bincount(cell_of, missed, minlength=cells)
        answer = self._noise(heard.noise.gradient, heard.noise.hessian * missed, cells)
        response = self._response(self._scores)
        kernels.take_answer(cell_of[own.rows], response, heard.weight, self._moved, answer)
        return answer

    def _hear(self, own: _Noisy, step: Step, answer: np.ndarray) -> None:
        """Take in the noise of an answer about an effect."""
        effect, heard, prior = own.effect, step.heard, own.effect.prior
        today = by_cell(heard.cell_of, heard.within, own.values, len(heard.weight))
        answer += heard.weight[:, None] * today
        how = (heard.cell_of, heard.within, heard.weight, heard.precision, answer, effect.fade)
        add_answer(prior.learned, *how, own.first, own.info, own.pull)
        known = (own.info, prior.precision, prior.least, own.first)
        mean = own.pull.copy()
        solve(*root_of(*known, heard.variance), mean)
        change = step.part * (mean - own.values)
        kernels.move_rows(own.rows, change, self._moved)
        self._scores += (step.values - own.told)[own.rows]
        own.values, own.told = own.values + change, step.values

    def _answer_of_tree(self, grown: Grown, codes: Codes) -> tuple[np.ndarray, np.ndarray]:
        """Return the leaf of each drawn row, and the noise of an answer about a tree."""
        leaf = find_leaves(codes, grown.tree)
        told = grown.told / SCORE_STEPS
        answer = self._noise(grown.noise.gradient, grown.noise.hessian * told, len(told))
        weight, _ = weight_and_precision(grown.mass, grown.noise)
        kernels.take_answer(leaf, self._response(self._scores), weight, self._moved, answer)
        return leaf, answer

    def _hear_tree(self, grown: Grown, leaf: np.ndarray, answer: np.ndarray) -> np.ndarray:
        """Take in the noise of an answer about a tree; return the deviation of each leaf."""
        weight, precision = weight_and_precision(grown.mass, grown.noise)
        part = grown.variance / max(grown.tree.depth, 1)
        values = grown.part * kernels.shrink_leaves(answer, weight, precision, part)
        kernels.move_rows(leaf, values, self._moved)
        self._scores += (grown.told / SCORE_STEPS)[leaf]
        deviation: np.ndarray = np.sqrt((values**2).mean(axis=1))
        self._alone += deviation[leaf] ** 2
        return deviation

    def _cells_of_pair(self, pair: Pair) -> np.ndarray:
        """Return the joint cell of each drawn row."""
        part = pair.cells.parts[0]
        first, second = (
            cells[self._codes[feature]].astype(np.int64)
            for cells, feature in zip(part.cell_of, part.features, strict=True)
        )
        cells: np.ndarray = first * part.sizes[1] + second
        return cells

    def _noise(
        self, gradient: float | np.ndarray, hessian: float | np.ndarray, cells: int
    ) -> np.ndarray:
        """Draw the noise of an answer: of gradients, and of Hessians times what they multiply."""
        drawn, words = np.empty((cells, N_DRAWS)), self._words(2 * cells * N_DRAWS)
        kernels.draw_noise(words, np.full(cells, gradient), np.full(cells, hessian), drawn)
        return drawn

    def _words(self, count: int) -> np.ndarray:
        """Return random words of 32 bits; an even number of them."""
        return self._generator.bit_generator.random_raw(count // 2).astype("<u8").view("<u4")


def draw_codes(known: Knowledge, generator: np.random.Generator) -> np.ndarray:
    """Draw rows whose features agree: where one has a large effect, others are likely to.

    Returns
    -------
    int array of shape (features, rows)
        Their codes, as often as released mass says.
    """
    own_part = math.sqrt(1 - AGREEMENT**2)
    row = _bells(generator)
    codes = np.empty((len(known.bins), N_ROWS), dtype=np.int64)
    for feature in range(len(known.bins)):
        told, mass = known.by_code(feature)
        far = np.argsort(AGREEMENT * row + own_part * _bells(generator), kind="stable")
        order = np.argsort(told, kind="stable")
        ends = np.cumsum(even(np.maximum(mass, 0.0))[order])
        middles = (np.arange(N_ROWS) + 0.5) / N_ROWS
        at = np.minimum(np.searchsorted(ends, middles * ends[-1]), len(order) - 1)
        codes[feature, far] = order[at]
    return codes


def _bells(generator: np.random.Generator) -> np.ndarray:
    """Draw what is about Gaussian, by additions alone."""
    bells: np.ndarray = generator.random((4, N_ROWS)).sum(axis=0)
    return bells
