"""Noise replay, a parametric bootstrap: standard deviations of a model's values due to noise.

The noise of each measurement is known exactly, and values follow from measurements by known rules.
But noise in one effect moves the rows' scores, and so the measurements of all others. So rows are
drawn from released values, and the run is replayed on them with new noise, many times at once,
without any of the real rows. The correlation of features is not released; drawn rows are strongly
correlated, so that noise spreads between features as it does in tables of redundant features.
Everything follows from released values.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from privboost._core.compilation import compiled
from privboost._core.grid import SCORE_STEPS
from privboost.data.rows import Codes, Layout
from privboost.models.scores import even
from privboost.randomness.keystream import fixed_generator
from privboost.recipes.common.feature_posteriors import FeaturePosteriors
from privboost.recipes.common.interactions import FittedTree, Interactions, Pair
from privboost.recipes.common.posterior import Effect, Observation, Step, weight_and_precision
from privboost.recipes.common.posterior_kernels import add_measurement, by_cell, root_of, solve
from privboost.trees.tree import find_leaves

N_ROWS, N_DRAWS = 512, 32
"""Numbers of drawn rows, and of draws of the noise."""

AGREEMENT = 0.85
"""Correlation of a row's features with a common factor."""

SHARED = 0.16
"""Part of an effect's mean variance that is added to each bin's own.

The distribution of noise over an effect's bins depends on the joint distribution of features, which
is not known."""


class _Noisy:
    """Replayed noise of one effect: its posterior of the run, and the bin of each drawn row."""

    def __init__(self, effect: Effect, rows: np.ndarray) -> None:
        self.effect, self.rows = effect, rows
        bins, self.first = len(effect.values), effect.prior.first.copy()
        self.info, self.pull = np.zeros((bins, bins)), np.zeros((bins, N_DRAWS))
        self.values, self.published = np.zeros((bins, N_DRAWS)), np.zeros(bins)

    @property
    def deviations(self) -> np.ndarray:
        """Standard deviation of each bin of the centred effect."""
        profile = self.effect.profile
        centred = self.values - (profile[:, None] * self.values).sum(axis=0)
        variance = (centred**2).mean(axis=1)
        deviations: np.ndarray = np.sqrt(variance + SHARED * (profile * variance).sum())
        return deviations


class NoiseReplay:
    """Replayed noise of one output's run.

    `initial_score_noise` is the deviation of the initial score, and `response` the sum of the
    derivatives of all rows' gradients with respect to their scores, given these. `effects`, `pairs`
    and `trees` are the standard deviations of values: by bin of a feature, cell of a pair, leaf of
    a tree.
    """

    def __init__(
        self,
        posteriors: FeaturePosteriors,
        interactions: Interactions | None,
        start: float,
        initial_score_noise: float,
        response: Callable[[np.ndarray], np.ndarray],
    ) -> None:
        self._respond = response
        self._generator = fixed_generator()
        self._codes = draw_codes(posteriors, self._generator)
        self._scores = np.full(N_ROWS, start)
        signs = 2.0 * (self._words(N_DRAWS) >> 31) - 1.0
        self._moved = np.repeat(initial_score_noise * signs[None], N_ROWS, axis=0)
        self._independent = np.zeros(N_ROWS)
        self.effects = self._replay_features(posteriors)
        self.pairs: list[np.ndarray] = []
        self.trees: list[np.ndarray] = []
        if interactions is not None:
            self._replay_interactions(interactions)

    @property
    def together(self) -> float:
        """Deviation of scores relative to that of independent errors of all values.

        Values of the same rows compensate for each other's errors.
        """
        independent = float(self._independent.mean())
        return float(np.sqrt((self._moved**2).mean() / independent)) if independent > 0 else 0.0

    def _replay_features(self, posteriors: FeaturePosteriors) -> list[np.ndarray]:
        """Replay the measurements of features; return the deviation of each bin."""
        noisy: dict[int, _Noisy] = {}
        for round_ in posteriors.steps:
            measured = []
            for feature, step in round_:
                if feature not in noisy:
                    rows = posteriors.bins[feature].of_code[self._codes[feature]].astype(np.int64)
                    noisy[feature] = _Noisy(posteriors.effect(feature), rows)
                own = noisy[feature]
                measured.append((own, step, self._measure(own, step.observed)))
            for each in measured:
                self._observe(*each)
        found = []
        for feature, bins in enumerate(posteriors.bins):
            moved = noisy[feature].deviations if feature in noisy else np.zeros(len(bins.learned))
            self._independent += moved[bins.of_code[self._codes[feature]]] ** 2
            found.append(moved)
        return found

    def _replay_interactions(self, interactions: Interactions) -> None:
        """Replay the measurements of pairs and trees; keep the deviations of their values."""
        noisy: dict[int, _Noisy] = {}
        n_codes = tuple(len(own.of_code) for own in interactions.quantiles)
        codes = Codes.of(Layout(n_codes), self._codes)
        for round_ in interactions.steps:
            measured, fitted = [], []
            for entry in round_:
                if isinstance(entry, FittedTree):
                    fitted.append((entry, *self._measure_tree(entry, codes)))
                else:
                    pair, step = entry
                    if id(pair) not in noisy:
                        noisy[id(pair)] = _Noisy(pair.effect, self._cells_of_pair(pair))
                    own = noisy[id(pair)]
                    measured.append((own, step, self._measure(own, step.observed)))
            for each in measured:
                self._observe(*each)
            for tree in fitted:
                self.trees.append(self._observe_tree(*tree))
        for pair in interactions.pairs.values():
            self.pairs.append(noisy[id(pair)].deviations)
            self._independent += self.pairs[-1][noisy[id(pair)].rows] ** 2

    def _measure(self, own: _Noisy, observed: Observation) -> np.ndarray:
        """Return the noise of a measurement of an effect, with the effect of earlier noise."""
        cell_of, cells = observed.cell_of, len(observed.weight)
        missed: np.ndarray = observed.within * (own.published - own.effect.values)
        missed = np.bincount(cell_of, missed, minlength=cells)
        measured = self._noise(observed.noise.gradient, observed.noise.hessian * missed, cells)
        response = self._respond(self._scores) / N_ROWS
        add_response(cell_of[own.rows], response, observed.weight, self._moved, measured)
        return measured

    def _observe(self, own: _Noisy, step: Step, measured: np.ndarray) -> None:
        """Update an effect with the noise of its measurement."""
        observed, prior = step.observed, own.effect.prior
        current = by_cell(observed.cell_of, observed.within, own.values, len(observed.weight))
        measured += observed.weight[:, None] * current
        of_cells = (observed.cell_of, observed.within, observed.weight, observed.precision)
        how = (*of_cells, measured, observed.fade)
        add_measurement(prior.learned, *how, own.first, own.info, own.pull)
        factors = (own.info, prior.precision, prior.least, own.first)
        mean = own.pull.copy()
        solve(*root_of(*factors, observed.variance), mean)
        change = step.part * (mean - own.values)
        move_rows(own.rows, change, self._moved)
        self._scores += (step.values - own.published)[own.rows]
        own.values, own.published = own.values + change, step.values

    def _measure_tree(self, fitted: FittedTree, codes: Codes) -> tuple[np.ndarray, np.ndarray]:
        """Return the leaf of each drawn row, and the noise of a measurement of a tree."""
        leaf = find_leaves(codes, fitted.tree).astype(np.int64)  # as bins: one type for kernels
        values = fitted.published / SCORE_STEPS
        measured = self._noise(fitted.noise.gradient, fitted.noise.hessian * values, len(values))
        weight, _ = weight_and_precision(fitted.mass, fitted.noise)
        add_response(leaf, self._respond(self._scores) / N_ROWS, weight, self._moved, measured)
        return leaf, measured

    def _observe_tree(
        self, fitted: FittedTree, leaf: np.ndarray, measured: np.ndarray
    ) -> np.ndarray:
        """Update scores with the noise of a tree's leaves; return the deviation of each leaf."""
        weight, precision = weight_and_precision(fitted.mass, fitted.noise)
        part = fitted.variance / max(fitted.tree.depth, 1)
        values = fitted.part * shrink_leaves(measured, weight, precision, part)
        move_rows(leaf, values, self._moved)
        self._scores += (fitted.published / SCORE_STEPS)[leaf]
        deviation: np.ndarray = np.sqrt((values**2).mean(axis=1))
        self._independent += deviation[leaf] ** 2
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
        """Draw the noise of a measurement: of gradients, and of Hessians times their factors."""
        drawn, words = np.empty((cells, N_DRAWS)), self._words(2 * cells * N_DRAWS)
        draw_noise(words, np.full(cells, gradient), np.full(cells, hessian), drawn)
        return drawn

    def _words(self, count: int) -> np.ndarray:
        """Return an even number of random 32-bit words."""
        return self._generator.bit_generator.random_raw(count // 2).astype("<u8").view("<u4")


def draw_codes(posteriors: FeaturePosteriors, generator: np.random.Generator) -> np.ndarray:
    """Draw rows of correlated features, with frequencies of the noisy counts: codes by feature.

    Large effects tend to come together.
    """
    own_part = math.sqrt(1 - AGREEMENT**2)
    row = _bells(generator)
    codes = np.empty((len(posteriors.bins), N_ROWS), dtype=np.int64)
    for feature in range(len(posteriors.bins)):
        published, mass = posteriors.by_code(feature)
        far = np.argsort(AGREEMENT * row + own_part * _bells(generator), kind="stable")
        order = np.argsort(published, kind="stable")
        ends = np.cumsum(even(np.maximum(mass, 0.0))[order])
        middles = (np.arange(N_ROWS) + 0.5) / N_ROWS
        at = np.minimum(np.searchsorted(ends, middles * ends[-1]), len(order) - 1)
        codes[feature, far] = order[at]
    return codes


def _bells(generator: np.random.Generator) -> np.ndarray:
    """Draw approximately Gaussian numbers, by additions alone."""
    bells: np.ndarray = generator.random((4, N_ROWS)).sum(axis=0)
    return bells


@compiled
def draw_noise(words, gradient, hessian, out):  # type: ignore[no-untyped-def]
    """Write the noise of a measurement: of gradients, and of Hessians times their factors.

    Only variances matter, so noise is a sign times its size: signs are the same everywhere. The
    first bit of each of 2 · cells · draws random words is a sign.
    """
    cells, draws = out.shape
    first, second = words[: cells * draws], words[cells * draws :]
    for cell in range(cells):
        for draw in range(draws):
            at = cell * draws + draw
            one = gradient[cell] if first[at] >> 31 else -gradient[cell]
            two = hessian[cell] if second[at] >> 31 else -hessian[cell]
            out[cell, draw] = one + two


@compiled
def add_response(cell_of_row, response, weight, moved, measured):  # type: ignore[no-untyped-def]
    """Subtract from a measurement how its rows' gradients change since noise moved their scores.

    The rows of a cell together do not respond by more than its Hessian: where drawn rows are many
    and released ones few, errors would grow from measurement to measurement.
    """
    total = np.zeros(weight.size)
    for row in range(cell_of_row.size):
        total[cell_of_row[row]] += response[row]
    for row in range(cell_of_row.size):
        cell = cell_of_row[row]
        own, part = measured[cell], response[row]
        if total[cell] > weight[cell]:
            part *= weight[cell] / total[cell]
        for draw in range(moved.shape[1]):
            own[draw] -= part * moved[row, draw]


@compiled
def shrink_leaves(measured, weight, precision, part):  # type: ignore[no-untyped-def]
    """Return the noise of a tree's leaves, given that of their sums; see `posterior.leaf_values`.

    `part` is the prior variance of a node's part.
    """
    leaves, draws = measured.shape
    sure, mean = np.empty(2 * leaves - 1), np.empty((2 * leaves - 1, draws))
    for leaf in range(leaves):
        sure[leaves - 1 + leaf] = precision[leaf]
        for draw in range(draws):
            mean[leaves - 1 + leaf, draw] = measured[leaf, draw] / weight[leaf]
    for node in range(leaves - 2, -1, -1):
        left, right = 2 * node + 1, 2 * node + 2
        first = sure[left] / (1 + sure[left] * part)
        second = sure[right] / (1 + sure[right] * part)
        sure[node] = first + second
        for draw in range(draws):
            both = first * mean[left, draw] + second * mean[right, draw]
            mean[node, draw] = both / sure[node]
    down = np.zeros((2 * leaves - 1, draws))
    for node in range(1, 2 * leaves - 1):
        above = (node - 1) // 2
        keep = 1 / (1 + sure[node] * part)
        for draw in range(draws):
            own = sure[node] * mean[node, draw] * part + down[above, draw]
            down[node, draw] = keep * own
    return down[leaves - 1 :].copy()


@compiled
def move_rows(cell_of_row, change, moved):  # type: ignore[no-untyped-def]
    """Add the change of a cell's value due to noise to its rows."""
    for row in range(cell_of_row.size):
        own = change[cell_of_row[row]]
        for draw in range(moved.shape[1]):
            moved[row, draw] += own[draw]
