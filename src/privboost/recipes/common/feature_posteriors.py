"""Posteriors of one output's features: which cells are measured next, and published values.

Noise is per cell, so a coarse query is a precise one. Cells have about equal measure, mostly of
noisy counts and a little of width (a thin tail may be informative), and begin at a random position,
so that later queries have other edges and fine detail is recovered. Everything here follows from
released values and public randomness.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privboost._core.compilation import compiled
from privboost.data.encoding import Encoder
from privboost.data.features import CategoricalFeature
from privboost.recipes.common.interactions import CodeQuantiles
from privboost.recipes.common.posterior import (
    SINGLE,
    VARIANCES,
    Effect,
    Noise,
    Observation,
    Step,
    StepDamping,
    pooled_profile,
    read_sums,
    shared_belief,
    shares_of,
)
from privboost.trees.cell_map import CellMap

BINS = 64
"""Bins of a number.

A feature of more categories is measured once for each, then rare ones share a bin.
"""

FINE_BINS = 192
"""Bins of a number, all its codes, where queries have many cells."""

WIDTH = 0.3
"""Part of width in a cell's measure; the rest is noisy counts."""


@dataclass(frozen=True, eq=False)
class FeatureQuery:
    """Query about one feature, with the cell of each of its bins."""

    feature: int
    cell_of: np.ndarray


@dataclass(frozen=True, eq=False)
class Bins:
    """Finest released binning of a feature.

    The `ordered` bins, those of a number, come first. `learned` bins have an effect: that of
    missing values does if they are declared.
    """

    map: CellMap
    ordered: int
    learned: np.ndarray

    @classmethod
    def of(cls, encoder: Encoder, feature: int, most: int = BINS) -> Bins:
        """Return at most so many even bins of a number; categories have one each."""
        cells = CellMap.of_feature(feature, encoder.coarse_bins(feature, most))
        declared = encoder.domain.features[feature]
        learned = np.ones(cells.n_cells, dtype=np.bool_)
        learned[-1] = declared.missing
        ordered = 0 if isinstance(declared, CategoricalFeature) else cells.n_cells - 1
        return cls(cells, ordered, learned)

    @property
    def of_code(self) -> np.ndarray:
        """Bin of each code."""
        return self.map.parts[0].cell_of[0]

    @property
    def too_many(self) -> bool:
        """Whether rare categories must share a bin."""
        return not self.ordered and len(self.learned) > BINS + 2

    def joined(self, cell_of: np.ndarray) -> CellMap:
        """Return the cells of a query, given that of each bin."""
        return CellMap.of_feature(self.map.features[0], cell_of[self.of_code])

    def shared(self, mass: np.ndarray) -> tuple[Bins, np.ndarray]:
        """Return single bins for the most frequent categories and one for all others.

        `mass` has noisy counts of the categories. Also returns the new bin of each old one.
        """
        last = len(mass) - 1  # missing values, which keep a bin of their own
        order = np.argsort(-mass[:last], kind="stable")[: BINS - 1]
        bin_of = np.full(last + 1, BINS - 1)
        bin_of[np.sort(order)] = np.arange(len(order))
        bin_of[last] = BINS
        learned = np.ones(BINS + 1, dtype=np.bool_)
        learned[-1] = self.learned[-1]
        return Bins(self.joined(bin_of), 0, learned), bin_of


def moving_cells(
    profile: np.ndarray, ordered: int, cells: int, generator: np.random.Generator
) -> np.ndarray:
    """Return the cell of each bin, numbered from 0, of about so many cells.

    `profile` is each bin's estimated share of the rows. Bins of a number that are not among the
    `ordered` ones have cells of their own.
    """
    if not ordered:
        return _sharing_cells(profile, cells, generator)
    own = profile[:ordered] / profile[:ordered].sum()
    measure = (1 - WIDTH) * own + WIDTH / ordered
    cell_of = np.empty(len(profile), dtype=np.int64)
    _cut(measure, cells, generator.random(), cell_of)
    return cell_of


@compiled
def _cut(measure, cells, begin, cell_of):  # type: ignore[no-untyped-def]
    """Write the cells of ordered bins, each of about equal measure, and of the others."""
    end, cell, part = 0.0, 0, 0.0
    for bin_ in range(measure.size):
        end += measure[bin_]
        own = math.floor((end - measure[bin_] / 2) * cells + begin)
        if bin_ > 0 and own != part:
            cell += 1
        cell_of[bin_], part = cell, own
    for bin_ in range(measure.size, cell_of.size):
        cell += 1
        cell_of[bin_] = cell


def _sharing_cells(profile: np.ndarray, cells: int, generator: np.random.Generator) -> np.ndarray:
    """Give frequent categories a cell each; rare ones share cells at random."""
    frequent = profile >= 0.7 / cells
    cell_of = np.empty(len(profile), dtype=np.int64)
    cell_of[frequent] = np.arange(int(frequent.sum()))
    rare = generator.permutation(np.flatnonzero(~frequent))
    before = np.cumsum(profile[rare]) - profile[rare]
    shared = np.unique(np.floor(before * cells).astype(np.int64), return_inverse=True)[1]
    cell_of[rare] = int(frequent.sum()) + shared
    return cell_of


FIRST_SWEEPS = 2
"""Measurements of each feature before some are measured more often."""


class FeaturePosteriors:
    """Posteriors of all features' effects on one output.

    A round has so many `queries` of `cells` cells each. `scale` has the values of one grid step of
    gradients and of Hessians, and `slopes` the direction of each feature's effect: see `Effect`.
    The effect of the feature `known`, if any, is public, and not measured.

    Attributes
    ----------
    bins : list of Bins
        Finest released binning of each feature.
    steps : list
        Updates so far: for each round the features and their steps, for `NoiseReplay`.
    _effects : list of Effect or None
        None for a feature of many categories until it is measured.
    _sizes : array
        Size of each feature's effect and its uncertainty, which later queries follow.
    _due : array
        Queries that each feature is owed by its share; those owed most are made next.
    _evidence, _weights : arrays of shape (features, variances)
        Each effect's, for the belief that all features share.
    _missing : array of shape (features, 4)
        Sums over queries: Hessians of rows with a missing value, of others, their noise's variance;
        and the number of queries.
    """

    def __init__(
        self,
        encoder: Encoder,
        noise: Noise,
        cells: int,
        scale: tuple[float, float],
        slopes: Sequence[int],
        most_bins: int = BINS,
        queries: int = 1,
        known: int | None = None,
    ) -> None:
        self.bins = [Bins.of(encoder, f, most_bins) for f in range(len(encoder.domain.features))]
        self._effects = [
            None if own.too_many else Effect.of(own.ordered, own.learned, len(self.bins), slope)
            for own, slope in zip(self.bins, slopes, strict=True)
        ]
        self.steps: list[list[tuple[int, Step]]] = []
        self._noise, self._cells, self._scale = noise, cells, scale
        self._damping = StepDamping(queries, SINGLE)
        self._evidence = np.zeros((len(self.bins), len(VARIANCES)))
        self._weights = np.full_like(self._evidence, 1 / len(VARIANCES))
        self._sizes, self._due = np.zeros(len(self.bins)), np.zeros(len(self.bins))
        self._n_queries = 0
        self._measured = [f for f in range(len(self.bins)) if f != known]
        self._missing = np.zeros((len(self.bins), 4))

    def next_queries(
        self,
        count: int,
        generator: np.random.Generator,
        others: Sequence[FeaturePosteriors] = (),
    ) -> list[FeatureQuery]:
        """Return the next queries, about so many features; `others` are measured by them as well.

        Those are the posteriors of other classes.
        """
        together = (self, *others)
        features = self._next_features(count, together)
        return [FeatureQuery(f, self._cells_for(f, generator, together)) for f in features]

    def _next_features(self, count: int, together: Sequence[FeaturePosteriors]) -> list[int]:
        """Return each feature in turn, then those of a large or uncertain effect more often."""
        measured, before = self._measured, self._n_queries
        sizes = self._sizes
        if len(together) > 1:
            sizes = np.sqrt(np.sum([own._sizes**2 for own in together], axis=0))
        self._n_queries += count
        if before < FIRST_SWEEPS * len(measured):
            return [measured[(before + number) % len(measured)] for number in range(count)]
        self._due[measured] += count * shares_of(sizes[measured])
        chosen = np.argsort(-self._due[measured], kind="stable")[:count]
        features = [measured[number] for number in chosen]
        self._due[features] -= 1
        return features

    def _cells_for(
        self,
        feature: int,
        generator: np.random.Generator,
        together: Sequence[FeaturePosteriors],
    ) -> np.ndarray:
        """Return the cell of each bin in the next query about a feature."""
        effect = self._effects[feature]
        if effect is None:  # frequencies of many categories are not known yet
            return np.arange(len(self.bins[feature].learned))
        profile = effect.profile
        if len(together) > 1:
            profile = pooled_profile([own.effect(feature) for own in together])
        return moving_cells(profile, self.bins[feature].ordered, self._cells, generator)

    def cells_of(self, query: FeatureQuery) -> CellMap:
        """Return the cells of a query, by code."""
        return self.bins[query.feature].joined(query.cell_of)

    def observe(
        self,
        queries: Sequence[FeatureQuery],
        measured: Sequence[np.ndarray],
        counted: Sequence[np.ndarray] | None = None,
    ) -> list[np.ndarray]:
        """Update the posteriors with noisy sums; return the change of each feature's values.

        Categories are joined by the noisy counts `counted`, by default the Hessians in the sums.
        """
        belief = shared_belief(self._evidence, self._weights)
        mass = [None] * len(queries) if counted is None else counted
        each = zip(queries, measured, mass, strict=True)
        observed = [self._observe(query, sums, belief, own) for query, sums, own in each]
        features = [query.feature for query in queries]
        effects = [self.effect(feature) for feature in features]
        steps = self._damping.steps(effects, observed)
        self.steps.append(list(zip(features, steps, strict=True)))
        for feature, effect in zip(features, effects, strict=True):
            if effect.n_observed >= FIRST_SWEEPS:  # before, sizes are not used
                self._sizes[feature] = effect.size
        return [effect.publish() for effect in effects]

    def _observe(
        self,
        query: FeatureQuery,
        sums: np.ndarray,
        belief: np.ndarray,
        counted: np.ndarray | None,
    ) -> Observation:
        """Update the posterior of one feature."""
        feature, cell_of, noise = query.feature, query.cell_of, self._noise
        descent, hessian = read_sums(sums, self._scale)
        self._add_missing(feature, cell_of, hessian)
        if self._effects[feature] is None:  # rare ones of many categories share a bin from now on
            own, shared = self.bins[feature].shared(hessian if counted is None else counted)
            self.bins[feature] = own
            self._effects[feature] = Effect.of(own.ordered, own.learned, len(self.bins))
            noise = noise.times(np.sqrt(np.bincount(shared)))
            descent, hessian = np.bincount(shared, descent), np.bincount(shared, hessian)
            cell_of = np.arange(len(hessian))
        effect = self.effect(feature)
        observed = effect.observe(cell_of, descent, hessian, noise, belief)
        self._evidence[feature], self._weights[feature] = effect.evidence, effect.weights
        return observed

    def effect(self, feature: int) -> Effect:
        """Return the effect of a feature that was measured."""
        effect = self._effects[feature]
        assert effect is not None
        return effect

    def quantiles(self, others: Sequence[FeaturePosteriors] = ()) -> list[CodeQuantiles]:
        """Return the quantiles of each feature's codes, for interactions of all these classes."""
        return [
            CodeQuantiles.unknown(own.of_code)
            if effect is None
            else CodeQuantiles.of(
                own.of_code, own.ordered, [effect, *(other.effect(k) for other in others)]
            )
            for k, (own, effect) in enumerate(zip(self.bins, self._effects, strict=True))
        ]

    def by_code(self, feature: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the value and the noisy count of each code of a feature."""
        of, effect = self.bins[feature].of_code, self._effects[feature]
        if effect is None:
            return np.zeros(len(of), dtype=np.int32), np.zeros(len(of))
        mass = effect.rows / np.maximum(np.bincount(of, minlength=len(effect.rows)), 1)
        return effect.published[of], mass[of]

    def _add_missing(self, feature: int, cell_of: np.ndarray, hessian: np.ndarray) -> None:
        """Add Hessian sums of rows with a missing value, of the others, and the latter's variance.

        A query whose cell of missing values has rare categories too is left out.
        """
        own = cell_of[-1]
        if np.count_nonzero(cell_of == own) == 1:
            variance = (len(hessian) - 1) * float(self._noise.hessian) ** 2
            rest = float(hessian.sum() - hessian[own])
            self._missing[feature] += (hessian[own], rest, variance, 1)

    @property
    def missing(self) -> np.ndarray:
        """Mean Hessian sum of each feature's rows with a missing value, of others, its variance."""
        count = np.maximum(self._missing[:, 3], 1)
        found: np.ndarray = self._missing[:, :3] / np.stack([count, count, count**2], axis=1)
        return found
