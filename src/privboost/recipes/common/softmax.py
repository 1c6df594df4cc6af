"""Several classes in one query: clips, initial scores and calibration of softmax probabilities.

One release has the gradients and Hessians of all classes, at a sensitivity that does not depend on
their number; so have the counts of rows by class at the start, and the two releases of the
calibration: counts by the largest probability and whether that class is the row's own, from which
the slope of scores follows, and the sums of all gradients at that slope, from which a shift of each
class follows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from privboost._core.grid import CLIP_STEPS, SCORE_STEPS
from privboost.accounting.noisy_sums import LaplaceRelease, NoisySums
from privboost.engine.queries import CellSums, TreeSums
from privboost.engine.softmax import (
    MOST_SLOPE,
    LabelCounts,
    SoftmaxSums,
    SoftmaxTreeSums,
    TopClassCounts,
    clip_steps_of,
    steps_of_each,
)
from privboost.engine.softmax_kernels import PROBABILITY_STEPS, SLOPE_STEPS
from privboost.engine.updates import (
    AddCellValues,
    AddCellValuesOfAll,
    AddTreeValues,
    AddTreeValuesOfAll,
    Start,
)
from privboost.mechanisms.curator import Curator
from privboost.recipes.common.plan import Plan
from privboost.recipes.common.posterior import Effect
from privboost.recipes.common.probability_calibration import Lineable, ScoreCells, cells_for
from privboost.trees.cell_map import CellMap
from privboost.trees.tree import Tree, stump

SOFTMAX_LOSS = "softmax, all classes in one query"
"""Name of the loss of several classes in reports."""

TOP_CLASS_PART = 0.5
"""Part of the counts by the largest probability in the budget of the calibration."""

LENGTH_OF_HESSIANS = 0.385
"""Largest length of the vector of a row's Hessians: no clip is larger than that."""

_MOST_COUPLED = 2 / 3
"""Largest share of a class in `couplings`."""

_SLOPES = np.exp(np.linspace(-1.5, 1.5, 61))
"""Slopes of scores, of which one is chosen."""

_LOG_SLOPE_PRIOR, _SHIFT_PRIOR = 0.5, 0.3
"""Standard deviations of the logarithm of the slope, and of shifts, before anything is known."""

_LEAST_SPREAD = 0.1
"""Least variance of a count, in squared rows."""

_Scores = TypeVar("_Scores", bound=Lineable)


@dataclass(frozen=True)
class SoftmaxClips:
    """Clips of a row's gradients and Hessians, as queries take them; see `SoftmaxQuery`.

    Attributes
    ----------
    n_outputs : int
        The number of classes.
    gradient, hessian : int
        In steps of probabilities.
    absolute : bool
        Whether lengths are sums of absolute values.
    """

    n_outputs: int
    gradient: int
    hessian: int
    absolute: bool

    @classmethod
    def of(cls, n_outputs: int, gradient: float, hessian: float, absolute: bool) -> SoftmaxClips:
        """Return the clips of probabilities, rounded down to steps."""
        steps = [int(min(clip, 1.0) * PROBABILITY_STEPS) for clip in (gradient, hessian)]
        return cls(n_outputs, max(steps[0], 1), max(steps[1], 1), absolute)

    def of_cells(self, cells: CellMap) -> SoftmaxSums:
        """Return the query about cells of features."""
        about = (self.n_outputs, self.gradient, self.hessian, self.absolute)
        return SoftmaxSums(*about, cells=cells)

    def of_trees(self, trees: tuple[Tree, ...], slope: int = SLOPE_STEPS) -> SoftmaxTreeSums:
        """Return the query about leaves of trees, of scores that are multiplied by a slope."""
        about = (self.n_outputs, self.gradient, self.hessian, self.absolute, slope)
        return SoftmaxTreeSums(*about, trees=trees)

    def step_values(self, count_step: float) -> tuple[float, float]:
        """Return the values of one step of the sums of gradients and of Hessians.

        `count_step` is that of a count, in rows of the largest weight.
        """
        gradient = self.gradient / PROBABILITY_STEPS * (CLIP_STEPS / clip_steps_of(self.absolute))
        return gradient * count_step, self.hessian / PROBABILITY_STEPS * count_step


@dataclass(frozen=True)
class OneOutput:
    """Queries about the only score of each row; sums and values have an axis for it."""

    def by_cell(self, curator: Curator, cells: CellMap, release: NoisySums) -> np.ndarray:
        """Release sums by cell: of shape (outputs, cells, statistics)."""
        return curator.sums(CellSums(cells), release)[None]

    def by_leaf(self, curator: Curator, trees: tuple[Tree, ...], release: NoisySums) -> np.ndarray:
        """Release sums by leaf: of shape (outputs, trees, leaves, statistics)."""
        return curator.sums(TreeSums(trees), release)[None]

    def add_by_cell(self, curator: Curator, cells: CellMap, values: Sequence[np.ndarray]) -> None:
        """Publish the values of cells for each output."""
        curator.publish(AddCellValues(cells, values[0]))

    def add_by_leaf(
        self, curator: Curator, trees: tuple[Tree, ...], values: Sequence[np.ndarray]
    ) -> None:
        """Publish the values of leaves for each output."""
        curator.publish(AddTreeValues(trees, values[0]))


@dataclass(frozen=True)
class AllClasses:
    """Queries about the scores of all classes at once, as `OneOutput`."""

    clips: SoftmaxClips

    def by_cell(self, curator: Curator, cells: CellMap, release: NoisySums) -> np.ndarray:
        """Release sums by cell: of shape (outputs, cells, statistics)."""
        return np.moveaxis(curator.sums(self.clips.of_cells(cells), release), -2, 0)

    def by_leaf(self, curator: Curator, trees: tuple[Tree, ...], release: NoisySums) -> np.ndarray:
        """Release sums by leaf: of shape (outputs, trees, leaves, statistics)."""
        return np.moveaxis(curator.sums(self.clips.of_trees(trees), release), -2, 0)

    def add_by_cell(self, curator: Curator, cells: CellMap, values: Sequence[np.ndarray]) -> None:
        """Publish the values of cells for each output."""
        curator.publish(AddCellValuesOfAll(cells, np.stack(values)))

    def add_by_leaf(
        self, curator: Curator, trees: tuple[Tree, ...], values: Sequence[np.ndarray]
    ) -> None:
        """Publish the values of leaves for each output."""
        curator.publish(AddTreeValuesOfAll(trees, np.stack(values)))


def bound_of_all(kind: type[NoisySums], bound: Mapping[str, Any], n_outputs: int) -> dict[str, Any]:
    """Return the bound of a query about all classes, as events take it; see `SoftmaxQuery`."""
    absolute = issubclass(kind, LaplaceRelease)
    steps = steps_of_each(bound["steps"], n_outputs, absolute)
    return {**bound, "steps": steps, "cells": n_outputs}


def class_counts_release(kind: type[NoisySums], bound: Mapping[str, Any]) -> NoisySums:
    """Return the release of counts by class; `bound` is `PlanBasis.bound`."""
    return kind("rows of each class, for the initial scores", 1.0, cells=1, shares=(1.0,), **bound)


def top_class_release(kind: type[NoisySums], bound: Mapping[str, Any]) -> NoisySums:
    """Return the release of counts by the largest probability, for the slope of scores."""
    what = "rows by probability of their most probable class, and whether it is theirs"
    return kind(what, 1.0, cells=1, shares=(1.0,), **bound)


def shifts_release(kind: type[NoisySums], bound: Mapping[str, Any], n_outputs: int) -> NoisySums:
    """Return the release of the sums of all gradients and Hessians, for a shift of each class."""
    what = "gradients and Hessians of all classes, to calibrate probabilities"
    return kind(what, 1.0, shares=(0.95, 0.05), **bound_of_all(kind, bound, n_outputs))


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """Released counts by class.

    Attributes
    ----------
    counts : array
        The noisy counts, in rows of the largest weight.
    deviation : float
        The standard deviation of each.
    """

    counts: np.ndarray
    deviation: float

    @property
    def rows(self) -> np.ndarray:
        """The noisy count of all rows, at least 1, and its standard deviation."""
        total = max(float(self.counts.sum()), 1.0)
        return np.array([total, self.deviation * math.sqrt(len(self.counts))])

    @property
    def shares(self) -> np.ndarray:
        """The share of each class: counts shrunk to their mean where noise hides differences."""
        spread = max(float(self.counts.var()) - self.deviation**2, 0.0)
        total = spread + self.deviation**2
        mean = float(self.rows[0]) / len(self.counts)
        kept = mean + (self.counts - mean) * (spread / total if total > 0 else 0.0)
        likely = np.maximum(kept, max(self.deviation / 2, 1.0))
        shares: np.ndarray = likely / likely.sum()
        return shares

    @property
    def errors(self) -> np.ndarray:
        """The standard deviations of the logarithms of shares."""
        errors: np.ndarray = self.deviation / (self.shares * self.rows[0])
        return errors

    @property
    def start(self) -> np.ndarray:
        """The initial scores, in score steps: logarithms of shares, with a mean of about 0."""
        logs = np.log(self.shares)
        start: np.ndarray = np.rint((logs - logs.mean()) * SCORE_STEPS).astype(np.int32)
        return start


def release_class_counts(curator: Curator, plan: Plan, release: NoisySums) -> ClassCounts:
    """Release counts by class, and publish the initial scores that follow from them.

    Privacy
    -------
    Spends `release` once: a row is in one class.
    """
    classes = plan.task.n_outputs
    curator.publish(Start(None, classes))
    counts = curator.sums(LabelCounts(classes), release)[:, 0] * plan.count_step
    found = ClassCounts(counts, float(release.deviations[0]) * plan.count_step)
    curator.publish(AddTreeValuesOfAll((stump(),), found.start.reshape(-1, 1, 1)))
    return found


def couplings(shares: np.ndarray) -> np.ndarray:
    """Return the factors of Hessians with which steps of all classes at once do not overshoot.

    A class' gradient depends on the scores of all. Where all rows have the probabilities π, the
    Newton step of a class is −g/π (up to a constant of all classes), and h = π(1 − π): the factor
    is 1/(1 − π), as 2 of two equal classes, which both move.
    """
    factors: np.ndarray = 1 / (1 - np.minimum(shares, _MOST_COUPLED))
    return factors


def typical_hessians(shares: np.ndarray, clips: SoftmaxClips) -> np.ndarray:
    """Return the mean clipped Hessian of each class, of rows with these probabilities."""
    each = shares * (1 - shares)
    length = float(each.sum() if clips.absolute else np.sqrt((each**2).sum()))
    most = clips.hessian / PROBABILITY_STEPS
    hessians: np.ndarray = each * min(1.0, most / length)
    return hessians


def calibrate_softmax(
    curator: Curator,
    plan: Plan,
    releases: tuple[NoisySums, NoisySums],
    scores: _Scores,
    counts: ClassCounts,
) -> _Scores:
    """Multiply all scores by a slope, and shift each class', so that probabilities fit the rows.

    Privacy
    -------
    Spends each of the releases once, at the scores of training: counts by the largest probability
    (a row has one), and the sums of all gradients at the slope that follows.
    """
    tops, shifts = releases
    classes, sigma = plan.task.n_outputs, float(tops.deviations[0]) * plan.count_step
    typical = scores.typical() / SCORE_STEPS
    odds = _top_odds(typical)
    cells = ScoreCells.around(
        np.rint(odds * SCORE_STEPS).astype(np.int32), cells_for(float(counts.rows[0]), sigma)
    )
    edges = PROBABILITY_STEPS / (1 + np.exp(-cells.edges / SCORE_STEPS))
    edges = np.unique(np.rint(edges).astype(np.int32))
    found = curator.sums(TopClassCounts(classes, edges), tops)[:, :, 0] * plan.count_step
    slope = _fit_slope(found, sigma, edges, typical)
    whole = min(max(round(slope * SLOPE_STEPS), 1), MOST_SLOPE)
    absolute = isinstance(shifts, LaplaceRelease)
    clips = SoftmaxClips.of(classes, 1.0, 1.0 if absolute else LENGTH_OF_HESSIANS, absolute)
    sums = curator.sums(clips.of_trees((stump(),), whole), shifts)[0, 0]
    values = np.array(clips.step_values(plan.count_step))
    gradient, hessian = sums.T * values[:, None]
    noise = shifts.deviations * values
    weight = np.maximum(hessian, 0.5 * float(noise[-1]) + 1.0) * couplings(counts.shares)
    variance = float(noise[0]) ** 2 + weight
    moved = -gradient * weight / (weight**2 + variance / _SHIFT_PRIOR**2)
    moved -= moved.mean()
    lines = np.stack([np.full(classes, whole / SLOPE_STEPS), moved], axis=1)
    return scores.with_calibration(lines)


def _top_odds(scores: np.ndarray) -> np.ndarray:
    """Return the log-odds of the most probable class of each column of scores."""
    if not scores.shape[1]:
        return np.zeros(0)
    ordered = np.sort(scores, axis=0)
    odds: np.ndarray = ordered[-1] - np.logaddexp.reduce(ordered[:-1], axis=0)
    return odds


def _fit_slope(counts: np.ndarray, sigma: float, edges: np.ndarray, typical: np.ndarray) -> float:
    """Return the slope with which the most probable class is right as often as it should be.

    `counts` are by cell of its probability, and whether it is right. Of typical rows in each cell
    the mean probability at each slope is known.
    """
    rows = np.maximum(counts.sum(axis=1), min(sigma, 1.0))
    inner = edges / PROBABILITY_STEPS
    odds = _top_odds(typical)
    cell = np.searchsorted(inner, 1 / (1 + np.exp(-odds)), side="right")
    number = np.bincount(cell, minlength=len(rows))
    ends = np.concatenate([[0.0], inner, [1.0]])
    middles = np.clip((ends[1:] + ends[:-1]) / 2, 1e-3, 1 - 1e-3)
    losses: list[float] = []
    for slope in _SLOPES:
        moved = 1 / (1 + np.exp(-_top_odds(typical * slope)))
        total = np.bincount(cell, moved, minlength=len(rows))
        alone = 1 / (1 + (1 / middles - 1) ** slope)
        rate = np.where(number > 0, total / np.maximum(number, 1), alone)
        spread = rows * rate * (1 - rate) + 2 * sigma**2 + _LEAST_SPREAD
        # Noise of the two counts of a cell, of which one is compared with its share of both.
        far = (counts[:, 1] - rows * rate) ** 2 / spread
        losses.append(0.5 * float(far.sum()) + 0.5 * (math.log(slope) / _LOG_SLOPE_PRIOR) ** 2)
    return float(_SLOPES[int(np.argmin(losses))])


def centred(values: Iterable[np.ndarray]) -> np.ndarray:
    """Return the values of all classes less their mean, rounded: no probability changes."""
    stacked = np.stack(list(values)).astype(np.int64)
    level = np.rint(stacked.mean(axis=0)).astype(np.int64)
    moved: np.ndarray = (stacked - level).astype(np.int32)
    return moved


def centred_changes(
    effects: Sequence[Sequence[Effect]], changes: Sequence[Sequence[np.ndarray]]
) -> list[list[np.ndarray]]:
    """Subtract from effects of all classes their mean; return the changes of published values.

    Both arguments are by class; `changes` are those of values that were published before.
    """
    for same in zip(*effects, strict=True):
        level = np.mean([effect.values for effect in same], axis=0)
        for effect in same:
            effect.values -= level  # in place: the step of a noise replay has the same values
    return [
        [change + effect.publish() for effect, change in zip(own, before, strict=True)]
        for own, before in zip(effects, changes, strict=True)
    ]


def centred_deviations(deviations: Iterable[np.ndarray]) -> np.ndarray:
    """Return the standard deviations of values less their mean, if they are independent."""
    variance = np.stack(list(deviations)) ** 2
    classes = len(variance)
    centred: np.ndarray = np.sqrt((1 - 2 / classes) * variance + variance.sum(axis=0) / classes**2)
    return centred
