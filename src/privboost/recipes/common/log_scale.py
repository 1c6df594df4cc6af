"""Scale of a log link: the unit of labels, their lines in a table, and clips.

Rows are counted by label twice, in cells whose width doubles with the label: the first counts find
where labels end, the second how many are large. From these follow the clips: a clip leaves out
what lies beyond it, and noise grows with it. The unit is a released mean, in which scores begin at
0. At last one more release corrects what clipped gradients left of the mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from privboost._core.grid import FULL_RANGE, LABEL_STEPS, SCORE_STEPS
from privboost.accounting.events import Planned
from privboost.accounting.noisy_sums import NoisySums
from privboost.data.targets import NumberTarget, has_log_bounds
from privboost.engine.queries import GRADIENT_COUNT, GRADIENT_HESSIAN, TreeSums
from privboost.engine.updates import SetClippingRange, SetLabelBins, Start
from privboost.losses.base import MOST_LINES, LogLink, loss_of
from privboost.mechanisms.curator import Curator
from privboost.recipes.common.corrections import shift_log_mean
from privboost.recipes.common.initial_score import noisy_row_count
from privboost.recipes.common.label_counts import LabelCounts, count_labels
from privboost.recipes.common.label_shares import share_at_the_top
from privboost.recipes.common.plan import Plan, PlanBasis, counts_release
from privboost.recipes.common.scale import Calibrated, Scale, ScaledPlan
from privboost.recipes.common.target_range import TargetRange
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

_MOST_HESSIAN = 2.0
"""Clip of Hessians of measurements, in units."""

_MATTERS = 0.3
"""Share of what a clip leaves out that would differ between the cells of an effect."""

_CELLS = 8.0
"""Cells of an effect that the clip is chosen for."""

_MOST_STEP = 0.7
"""Largest step of one measurement, in scores: beyond it a log link is far from linear."""


class AmountCounts(LabelCounts):
    """Noisy counts of rows by label from 0 on; edges are in the target's own unit.

    Labels are clipped to the outer edges, where they lie as far as counts show.
    """

    @property
    def low(self) -> float:
        """The least label."""
        return float(self.edges[0])

    @property
    def high(self) -> float:
        """The largest label."""
        return float(self.edges[-1])

    @property
    def middles(self) -> np.ndarray:
        """A typical label of each cell: the geometric mean of its edges."""
        ends = np.maximum(self.edges, 0.0)
        middles: np.ndarray = np.sqrt(ends[1:] * ends[:-1])
        return middles

    @property
    def mean(self) -> float:
        """About the mean label."""
        mean = float(self.seen @ self.middles) / max(float(self.seen.sum()), 1.0)
        return max(mean, _LEAST_UNIT * self.high)

    def beyond(self, clip: float) -> float:
        """Return about how much of the sum of labels lies beyond a clip."""
        return float(self.seen @ np.maximum(self.middles - clip, 0.0))

    def spread(self, mean: float, clip: float) -> float:
        """Return about the mean square of the difference between labels and a mean, clipped."""
        apart = np.minimum(np.abs(self.middles - mean), clip)
        return float(self.seen @ apart**2) / max(float(self.seen.sum()), 1.0)

    def clip_for(self, noise: float, matters: float = 1.0) -> float:
        """Return the clip of labels whose squared error is least.

        `noise` is the standard deviation of a count in the sum that is clipped, and `matters` the
        share of what lies beyond the clip that is an error.
        """
        clips = np.geomspace(max(self.mean, self.high * 2.0**-_OCTAVES), self.high, 64)
        errors = [(matters * self.beyond(own)) ** 2 + (noise * own) ** 2 for own in clips.tolist()]
        return float(clips[int(np.argmin(errors))])


def count_amounts(curator: Curator, plan: Plan, release: NoisySums | None) -> AmountCounts:
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
        even, few = np.linspace(low, high, _BINS + 1), np.full(_BINS, 1e-9)
        return AmountCounts(even, few, 0.0, np.zeros(_BINS))
    ends = -SCORE_STEPS, SCORE_STEPS
    if target.bounds[0] < 0:
        middle, half = target.middle_and_half()
        ends = min(math.floor(-middle / half * SCORE_STEPS), SCORE_STEPS - 1), SCORE_STEPS
    squared = loss_of("number", "squared").table(1.0, 1.0)
    curator.publish(Start(squared))
    edges = _edges(*ends)
    found = count_labels(curator, plan, release, edges)
    above = found.counts[::-1].cumsum()[::-1]
    noise = found.deviation * np.sqrt(np.arange(len(above), 0, -1))
    full = np.flatnonzero(above > _FULL * noise)
    top = int(edges[-1])
    if len(full):
        top = int(edges[min(int(full[-1]) + 1 + _CELLS_BEYOND, len(edges) - 1)])
    fine = LABEL_STEPS // SCORE_STEPS
    curator.publish(SetClippingRange(ends[0] * fine, max(top, ends[0] + 1) * fine))
    low, high = (_number(target, end * fine) for end in (ends[0], max(top, ends[0] + 1)))
    low = max(low, 0.0)
    high = high if high > low else target.bounds[1]  # where bounds leave no float between
    curator.publish(Start(squared))
    found = count_labels(curator, plan, release, _edges(-SCORE_STEPS, SCORE_STEPS))
    at = np.append(low + (high - low) * (found.edges[:-1] + 1) / 2, high)
    return AmountCounts(at, found.counts, found.deviation, found.deviates)


def _edges(low: int, high: int) -> np.ndarray:
    """Return the ends of cells of labels: the widths double, but for the first."""
    reach = np.arange(_OCTAVES * _PER_OCTAVE, -1, -1) / _PER_OCTAVE
    inner = np.rint(low + (high - low) * 2.0**-reach).astype(np.int64)
    return np.unique(np.append(low, inner))


def _number(target: NumberTarget, steps: float) -> float:
    """Return the number of a label in `grid.LABEL_STEPS`."""
    middle, half = target.middle_and_half()
    return middle + half * steps / LABEL_STEPS


def label_lines(
    target: NumberTarget, loss: LogLink, counts: AmountCounts
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


@dataclass(frozen=True, eq=False, kw_only=True)
class LogScale(Scale):
    """Unit, lines and clips of a loss with a log link; labels and clips are in units.

    Attributes
    ----------
    labels : float array
        The label of each line.
    last_clip : float
        Clip of differences between prediction and label in the last release.
    beyond : float
        What counts by label say that lies beyond the last clip.
    """

    labels: np.ndarray
    last_clip: float
    beyond: float

    @classmethod
    def label_release(
        cls, basis: PlanBasis, kind: type[NoisySums], share: float
    ) -> tuple[str, Planned]:
        """Return the releases of counts by label; refuse a target that a log link does not fit."""
        target, loss = basis.encoder.domain.target, basis.task.loss_instance.name
        assert isinstance(target, NumberTarget)
        if target.scale != "linear":
            raise ValueError(
                f'loss="{loss}" has a log link of its own: declare the target without a scale'
            )
        if not has_log_bounds(target):
            raise ValueError(
                f'loss="{loss}" needs a target with a positive upper bound, from 1e-50 to 1e50, '
                "and with a lower one that is not a million times as far below 0"
            )
        what = "rows by label, for the unit and the clips of the target"
        return "label_release", Planned(counts_release(kind, what, basis.bound), PASSES)

    @classmethod
    def begin(cls, curator: Curator, plan: ScaledPlan, target_range: TargetRange) -> Self:
        """Find the unit, the lines and the clips; publish the loss.

        Rows begin at the logarithm of their exposure in parts of its bound, or at 0. With an
        exposure, exposures are added up in place of rows, and the unit is that of the largest.

        Privacy
        -------
        Spends `plan.label_release` twice, if there is one, and `plan.init_release` once. A row adds
        at most one clip to the sum of labels, and one to the count, or to the sum of exposures in
        parts of their upper bound.
        """
        target, exposure, release = plan.encoder.domain.target, plan.exposure, plan.first_release
        loss = plan.task.loss_instance
        assert isinstance(target, NumberTarget)
        assert isinstance(loss, LogLink)
        counts = count_amounts(curator, plan, plan.label_release)
        edges, labels = label_lines(target, loss, counts)
        sum_noise = float(release.deviations[0]) * plan.count_step
        clip = counts.high if plan.label_release is None else counts.clip_for(sum_noise)
        curator.publish(SetLabelBins(edges))
        curator.publish(Start(loss.line_table(labels / clip)))
        statistics = GRADIENT_COUNT
        if exposure is not None:
            exposure.publish(curator)
            statistics = GRADIENT_HESSIAN
        total, row_steps = curator.sums(TreeSums((stump(),), 0, statistics), release)[0, 0]
        rows = max(float(row_steps) * plan.count_step, 1.0)
        error = sum_noise * clip / rows
        unit = max(float(total) * plan.count_step * clip / rows, error, _LEAST_UNIT * counts.high)
        unit = min(unit, counts.high / (1.0 if exposure is None else _LEAST_UNIT))
        last = plan.calibration_release
        noise = plan.pooled_noise * math.sqrt(plan.n_measured) * math.sqrt(_CELLS)
        best = counts.clip_for(noise, _MATTERS / math.sqrt(_CELLS)) / unit
        clip = plan.settings.gradient_clip or max(best, 1.0)
        hessian_clip = plan.settings.hessian_clip or min(_MOST_HESSIAN, max(clip, 1.0))
        last_noise = 0.0 if last is None else float(last.deviations[0]) * plan.count_step
        last_clip = max(counts.clip_for(last_noise), unit)
        counted = noisy_row_count(plan, release, np.array([row_steps]))
        if exposure is not None:
            counted = np.maximum(counts.total, [1.0, 0.0])
        known = plan.label_release is not None
        reached = known and curator.target_range[1] == FULL_RANGE[1]
        found = cls(
            clip=clip,
            hessian_clip=hessian_clip,
            start=np.zeros(1, dtype=np.int32),
            zero=round(math.log(unit) * SCORE_STEPS) - (0 if exposure is None else exposure.of_one),
            start_noise=np.array([error / unit]),
            rows=np.array([rows]),
            weights=np.array([rows]),
            counted=counted,
            spread=counts.spread(unit, clip * unit) / unit**2 if known else 1.0,
            typical=0.5,
            most_step=_MOST_STEP,
            row_mass=hessian_clip,
            labels=labels / unit,
            last_clip=last_clip / unit,
            beyond=counts.beyond(last_clip) / unit,
            label_shares=share_at_the_top(counts) if reached else None,
        )
        curator.publish(Start(loss.label_table(found.labels, clip, hessian_clip)))
        if exposure is not None:
            exposure.publish(curator)
        return found

    def response(self, output: int, scores: np.ndarray) -> np.ndarray:
        """See `Scale.response`: labels are taken to be their means."""
        means: np.ndarray = self.rows[output] * np.minimum(np.exp(scores), self.clip)
        return means

    def correct(self, curator: Curator, plan: ScaledPlan, model: Calibrated) -> Calibrated:
        """See `Scale.correct`: all scores are shifted, so that the mean is that of the labels."""
        release, about = plan.calibration_release, (self.labels, self.last_clip)
        if release is None:
            return model
        shift = shift_log_mean(curator, plan, release, *about, float(self.rows[0]), self.beyond)
        return model.with_calibration(np.array([[1.0, shift]]))
