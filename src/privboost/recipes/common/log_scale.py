"""Losses with a log link: the unit of labels, their lines in a table, and clips.

Rows are counted by label twice, in cells whose width doubles with the label: the first counts find
where labels end, the second how many are large. From these follow the clips: a clip leaves out
what lies beyond it, and noise grows with it. The unit is a released mean, in which scores begin at
0. At last one more release corrects what clipped gradients left of the mean.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from privboost._core.checks import shown
from privboost._core.grid import FULL_RANGE, LABEL_STEPS, SCORE_STEPS
from privboost.accounting.events import Planned
from privboost.accounting.noisy_sums import NoisySums
from privboost.data.encoding import Encoder
from privboost.data.features import NumericFeature
from privboost.data.targets import NumberTarget
from privboost.engine.queries import GRADIENT_COUNT, GRADIENT_HESSIAN, ScoreCounts, TreeSums
from privboost.engine.updates import (
    AddCellValues,
    SetClippingRange,
    SetLabelBins,
    Start,
    UseLoss,
)
from privboost.losses.base import MOST_LINES, LogLink, LossTable, loss_of
from privboost.mechanisms.curator import Curator
from privboost.recipes.common.initial_score import noisy_row_count
from privboost.recipes.common.plan import Plan, PlanBasis
from privboost.trees.cell_map import CellMap
from privboost.trees.tree import stump

PASSES = 2
"""Histograms of labels."""

_OCTAVES, _PER_OCTAVE = 15, 2
"""Reach of a histogram's cells below the largest label, and cells for each factor of 2."""

_FULL = 1.5
"""Least count of all cells from the last full one on, in standard deviations of their noise."""

_CELLS_BEYOND = 4
"""Cells above the last full one that the range has as well, for a thin tail."""

_BINS = MOST_LINES - 2
"""Bins of labels."""

_FINE = 20.0
"""Bins are even below a mean label divided by this, and geometric above."""

_LEAST_UNIT = 1e-6
"""Least unit, in parts of the largest label."""

_MOST_HESSIAN, _LAST_HESSIAN = 2.0, 4.0
"""Clips of Hessians, in units: of measurements, and of the last release."""

_MATTERS = 0.3
"""Share of what a clip leaves out that would differ between the cells of an effect."""

_CELLS = 8.0
"""Cells of an effect that the clip is chosen for."""

MOST_STEP = 0.7
"""Largest step of one measurement, in scores: beyond it a log link is far from linear."""

CORRECTION_SHARES = (0.75, 0.25)
"""Shares of the differences and of the predictions in the last release."""

_MOST_SHIFT = 1.0
"""Bound of the correction of all scores."""


def plan_label_counts(basis: PlanBasis, kind: type[NoisySums]) -> Planned:
    """Return the releases of counts by label, with a noise of 1."""
    what = "rows by label, for the unit and the clips of the target"
    return Planned(kind(what, 1.0, cells=1, shares=(1.0,), **basis.bound), PASSES)


def correction_release(kind: type[NoisySums], bound: Mapping[str, Any]) -> NoisySums:
    """Return the release that corrects the mean prediction; `bound` is `PlanBasis.bound`."""
    what = "predictions less labels, and predictions, to correct their mean"
    return kind(what, 1.0, cells=1, shares=CORRECTION_SHARES, **bound)


@dataclass(frozen=True, eq=False)
class LabelCounts:
    """Noisy counts of rows by label.

    Attributes
    ----------
    low, high : float
        Where labels lie, as far as counts show; they are clipped to it.
    labels, counts : float arrays
        A typical label of each cell, and how many rows are in it.
    noise : float
        Standard deviation of each count.
    """

    low: float
    high: float
    labels: np.ndarray
    counts: np.ndarray
    noise: float

    @property
    def rows(self) -> float:
        """About how many rows there are."""
        return max(float(self.counts.sum()), 1.0)

    @property
    def mean(self) -> float:
        """About the mean label."""
        seen = self._seen
        mean = float(seen @ self.labels) / max(float(seen.sum()), 1.0)
        return max(mean, _LEAST_UNIT * self.high)

    @property
    def _seen(self) -> np.ndarray:
        """The counts, shrunk where they are hardly larger than their noise."""
        above = np.maximum(self.counts, 0.0)
        seen: np.ndarray = above**3 / np.maximum(above**2 + self.noise**2, 1e-300)
        return seen

    def beyond(self, clip: float) -> float:
        """Return about how much of the sum of labels lies beyond a clip."""
        return float(self._seen @ np.maximum(self.labels - clip, 0.0))

    def spread(self, mean: float, clip: float) -> float:
        """Return about the mean square of the difference between labels and a mean, clipped."""
        apart = np.minimum(np.abs(self.labels - mean), clip)
        return float(self._seen @ apart**2) / max(float(self._seen.sum()), 1.0)

    def clip_for(self, noise: float, matters: float = 1.0) -> float:
        """Return the clip of labels whose squared error is least.

        `noise` is the standard deviation of a count in the sum that is clipped, and `matters` the
        share of what lies beyond the clip that is an error.
        """
        clips = np.geomspace(max(self.mean, self.high * 2.0**-_OCTAVES), self.high, 64)
        errors = [(matters * self.beyond(own)) ** 2 + (noise * own) ** 2 for own in clips.tolist()]
        return float(clips[int(np.argmin(errors))])


def count_labels(curator: Curator, plan: Plan, release: NoisySums | None) -> LabelCounts:
    """Count rows by label, and publish the clipping range that follows.

    Without a `release`, labels are taken to lie anywhere within their bounds.

    Privacy
    -------
    Spends `release` as often as `PASSES`, whatever the rows. A row lies in one cell of a pass; the
    cells of the second follow from the counts of the first.
    """
    target = plan.encoder.domain.target
    assert isinstance(target, NumberTarget)
    low, high = max(target.bounds[0], 0.0), target.bounds[1]
    if release is None:
        even = np.linspace(low, high, _BINS)
        return LabelCounts(low, high, even, np.full(_BINS, 1e-9), 0.0)
    ends = -SCORE_STEPS, SCORE_STEPS
    if target.bounds[0] < 0:
        middle, half = target.middle_and_half()
        ends = min(math.floor(-middle / half * SCORE_STEPS), SCORE_STEPS - 1), SCORE_STEPS
    noise = float(release.deviations[0]) * plan.count_step
    squared = loss_of("number", "squared").table(1.0, 1.0)
    curator.publish(Start(squared))
    edges = _edges(*ends)
    counts = _counts(curator, plan, release, edges)
    above = counts[::-1].cumsum()[::-1]
    full = np.flatnonzero(above > _FULL * noise * np.sqrt(np.arange(len(counts), 0, -1)))
    top = int(edges[-1])
    if len(full):
        top = int(edges[min(int(full[-1]) + 1 + _CELLS_BEYOND, len(edges) - 1)])
    fine = LABEL_STEPS // SCORE_STEPS
    curator.publish(SetClippingRange(ends[0] * fine, max(top, ends[0] + 1) * fine))
    low, high = (_number(target, end * fine) for end in (ends[0], max(top, ends[0] + 1)))
    low = max(low, 0.0)
    high = high if high > low else target.bounds[1]  # where bounds leave no float between
    curator.publish(Start(squared))
    edges = _edges(-SCORE_STEPS, SCORE_STEPS)
    counts = _counts(curator, plan, release, edges)
    at = low + (high - low) * (edges + SCORE_STEPS) / (2 * SCORE_STEPS)
    labels = np.sqrt(np.maximum(at[1:], 0) * np.maximum(at[:-1], 0))
    return LabelCounts(low, high, labels, counts, noise)


def _edges(low: int, high: int) -> np.ndarray:
    """Return the ends of cells of labels: the widths double, but for the first."""
    reach = np.arange(_OCTAVES * _PER_OCTAVE, -1, -1) / _PER_OCTAVE
    inner = np.rint(low + (high - low) * 2.0**-reach).astype(np.int64)
    return np.unique(np.append(low, inner))


def _counts(curator: Curator, plan: Plan, release: NoisySums, edges: np.ndarray) -> np.ndarray:
    """Release the count of rows whose label is above each edge, up to the next.

    Labels at the first edge are in the first cell. States are minus the labels.
    """
    query = ScoreCounts(-edges[-2:0:-1].astype(np.int32), 1)
    counts: np.ndarray = curator.sums(query, release)[::-1, 0, 0] * plan.count_step
    return counts


def _number(target: NumberTarget, steps: float) -> float:
    """Return the number of a label in `grid.LABEL_STEPS`."""
    middle, half = target.middle_and_half()
    return middle + half * steps / LABEL_STEPS


def label_lines(
    target: NumberTarget, loss: LogLink, counts: LabelCounts
) -> tuple[np.ndarray, np.ndarray]:
    """Return the edges of bins of labels, in `grid.LABEL_STEPS`, and the label of each bin.

    Counts have bins at every whole number while there are not too many, and labels between them
    the nearest; others have bins that are even below the mean, and geometric above.
    """
    low, high = counts.low, counts.high
    first, last = math.ceil(low), math.floor(high)
    if loss.whole and 0 < last - first < _BINS:
        finer = _BINS // (last - first + 1)
        labels = first + np.arange((last - first) * finer + 1) / finer
    else:
        scale = counts.mean / _FINE
        steps = np.arange(_BINS) * (math.asinh((high - low) / scale) / (_BINS - 1))
        labels = low + scale * np.sinh(steps)
    middle, half = target.middle_and_half()
    between = (labels[1:] + labels[:-1]) / 2
    edges = np.rint((between - middle) / half * LABEL_STEPS).astype(np.int64)
    edges = np.clip(edges, FULL_RANGE[0], FULL_RANGE[1])
    apart = np.append(True, edges[1:] > edges[:-1]) if len(edges) else np.zeros(0, dtype=bool)
    if not apart.any():  # one label: a bin more, so that there are bins
        return np.array([FULL_RANGE[1]], dtype=np.int32), np.array([labels[0], labels[-1]])
    return edges[apart].astype(np.int32), labels[np.append(True, apart)]


@dataclass(frozen=True, eq=False)
class Exposure:
    """The effect of an exposure: the logarithm of each bin's middle, known before any release.

    Attributes
    ----------
    feature : int
        The feature.
    most : float
        Its upper bound.
    values : int32 array
        The logarithm of the exposure of each code, in parts of the upper bound, in score steps.
    """

    feature: int
    most: float
    values: np.ndarray

    @classmethod
    def of(cls, encoder: Encoder, name: str) -> Exposure:
        """Return the effect of a numeric feature; a missing exposure counts as the upper bound."""
        feature = encoder.domain.feature_names.index(name)
        declared = encoder.domain.features[feature]
        assert isinstance(declared, NumericFeature)
        low, high = declared.bounds
        ends = np.concatenate([[low], np.clip(encoder.edges[feature], low, high), [high]])
        if declared.scale == "log":
            middles = np.sqrt(ends[1:] * ends[:-1])
        else:
            middles = (ends[1:] + ends[:-1]) / 2
        logs = np.rint(np.log(np.append(middles, high) / high) * SCORE_STEPS)
        return cls(feature, high, logs.astype(np.int32))

    def publish(self, curator: Curator) -> None:
        """Add it to the scores of all rows, which have just begun."""
        cells = CellMap.of_feature(self.feature, np.arange(len(self.values)))
        curator.publish(AddCellValues(cells, self.values))

    @property
    def of_one(self) -> int:
        """The logarithm of the upper bound, in score steps."""
        return round(math.log(self.most) * SCORE_STEPS)


def check_exposure(name: Any, encoder: Encoder) -> None:
    """Refuse an exposure that is no numeric feature with positive bounds, or the only feature."""
    known = {feature.name: feature for feature in encoder.domain.features}
    if not isinstance(name, str) or name not in known:
        raise ValueError(f"exposure must name a feature of the domain; {shown(name)} does not")
    feature = known[name]
    if not isinstance(feature, NumericFeature) or not feature.bounds[0] > 0:
        raise ValueError(f"exposure: {name!r} must be numeric, with a lower bound above 0")
    if len(known) == 1:
        raise ValueError("exposure: the domain has no other feature")


@dataclass(frozen=True, eq=False)
class LogScale:
    """Unit, lines and clips of a loss with a log link, from released values.

    Attributes
    ----------
    loss : LogLink
        The loss.
    labels : float array
        The label of each line, in units.
    unit : float
        The mean label, by which labels are divided; the score 0 stands for it.
    start_noise : float
        Standard deviation of the unit due to noise, in parts of it.
    clip, last_clip : float
        Clips of gradients, in units: of measurements, and of the last release.
    spread : float
        Mean square of clipped gradients at a score of 0.
    rows : float
        Sum of Hessians at a score of 0.
    counted : float array
        The noisy count of rows, and its standard deviation.
    beyond : float
        What counts by label say that lies beyond the last clip, in units.
    """

    loss: LogLink
    labels: np.ndarray
    unit: float
    start_noise: float
    clip: float
    last_clip: float
    spread: float
    rows: float
    counted: np.ndarray
    beyond: float

    most_step: ClassVar[float] = MOST_STEP
    curvature: ClassVar[float] = 1.0
    typical: ClassVar[float] = 0.5
    """Size of an effect that a measurement should detect."""

    def response(self, rows: float, scores: np.ndarray) -> np.ndarray:
        """Return about the derivative of so many rows' gradients with respect to their scores."""
        means: np.ndarray = rows * np.minimum(np.exp(scores), self.clip)
        return means

    @property
    def hessian_clip(self) -> float:
        """Clip of Hessians of measurements."""
        return min(_MOST_HESSIAN, max(self.clip, 1.0))

    def table(self, hessian_clip: float) -> LossTable:
        """Tabulate the loss for measurements."""
        return self.loss.label_table(self.labels, self.clip, hessian_clip)

    @property
    def start(self) -> int:
        """The logarithm of the unit, in score steps."""
        return round(math.log(self.unit) * SCORE_STEPS)

    def correct(self, curator: Curator, plan: Plan, release: NoisySums) -> float:
        """Return the shift of all scores with which the mean prediction is that of the labels.

        Privacy
        -------
        Spends `release` once: the sums of all rows' differences between prediction and label,
        and of predictions, with wider clips than those of measurements.
        """
        means = loss_of("number", "poisson")  # whose gradients are these differences
        assert isinstance(means, LogLink)
        clips = self.last_clip, _LAST_HESSIAN
        curator.publish(UseLoss(means.label_table(self.labels, *clips)))
        sums = curator.sums(TreeSums((stump(),), 0, GRADIENT_HESSIAN), release)[0, 0]
        gradient, hessian = sums * plan.count_step * clips
        least = max(0.1 * self.rows, 1.0)
        predicted = max(float(hessian), least)
        wanted = predicted - float(gradient) + self.beyond
        shift = math.log(max(wanted, 0.1 * predicted) / predicted)
        return min(max(shift, -_MOST_SHIFT), _MOST_SHIFT)


def release_log_scale(
    curator: Curator,
    plan: Plan,
    releases: tuple[NoisySums | None, NoisySums],
    noise: float,
    last_noise: float,
    gradient_clip: float | None,
    exposure: Exposure | None = None,
) -> tuple[LogScale, np.ndarray]:
    """Find the unit, the lines and the clips; also return the noisy count of rows, in grid steps.

    Parameters
    ----------
    releases : pair
        Counts by label, and labels with the count of rows.
    noise, last_noise : float
        Standard deviation of the mean of all measurements of one feature, and of the last release,
        in rows.
    gradient_clip : float, optional
        The clip of measurements, in units, if it is given.
    exposure : Exposure, optional
        What rows are exposed to: then exposures are added up in place of rows, and the unit is that
        of the largest exposure.

    Privacy
    -------
    Spends the first release twice and the second once. A row adds at most one clip to the sum of
    labels, and one to the count, or to the sum of exposures in parts of their upper bound.
    """
    target = plan.encoder.domain.target
    assert isinstance(target, NumberTarget)
    loss = loss_of("number", plan.task.loss)
    assert isinstance(loss, LogLink)
    by_label, release = releases
    counts = count_labels(curator, plan, by_label)
    edges, labels = label_lines(target, loss, counts)
    sum_noise = float(release.deviations[0]) * plan.count_step
    clip = counts.clip_for(sum_noise) if by_label is not None else counts.high
    curator.publish(SetLabelBins(edges))
    curator.publish(Start(loss.line_table(labels / clip)))
    statistics = GRADIENT_COUNT
    if exposure is not None:
        exposure.publish(curator)
        statistics = GRADIENT_HESSIAN
    total, rows = curator.sums(TreeSums((stump(),), 0, statistics), release)[0, 0]
    known = max(float(rows) * plan.count_step, 1.0)
    error = sum_noise * clip / known
    unit = max(float(total) * plan.count_step * clip / known, error, _LEAST_UNIT * counts.high)
    unit = min(unit, counts.high / (1.0 if exposure is None else _LEAST_UNIT))
    if gradient_clip is None:
        own = counts.clip_for(noise * math.sqrt(_CELLS), _MATTERS / math.sqrt(_CELLS)) / unit
        chosen = max(own, 1.0)
    else:
        chosen = gradient_clip
    last_clip = max(counts.clip_for(last_noise), unit)
    counted = noisy_row_count(plan, release, np.array([rows]))
    if exposure is not None:
        counted = np.array([counts.rows, counts.noise * math.sqrt(len(counts.counts))])
    scale = LogScale(
        loss,
        labels / unit,
        unit,
        error / unit,
        chosen,
        last_clip / unit,
        counts.spread(unit, chosen * unit) / unit**2 if by_label is not None else 1.0,
        known,
        counted,
        counts.beyond(last_clip) / unit,
    )
    return scale, np.array([rows])
