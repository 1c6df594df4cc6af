"""Outcomes and measures of survival times: concordance, and calibration at a horizon.

All rows are counted first. Then they are counted by interval of their time, by whether the event
was observed, and by interval of their score: intervals follow from the model alone, by whose own
released values they have even shares of events and of rows, and their number from the first count.
All measures follow from these counts.

Concordance compares rows of different intervals of time, and equal intervals of scores count half;
its interval allows for both. Survival at the
horizon is observed in rows whose state then is known: they had the event before, or their time is
longer. Rows that were censored before the horizon do not count in it; their share is a measure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit

from privboost._core.checks import check_number
from privboost._core.grid import CLIP_STEPS, LABEL_STEPS, SCORE_STEPS
from privboost.data.rows import Codes
from privboost.data.table import Column
from privboost.data.targets import SurvivalTarget
from privboost.engine.queries import COUNT, CellSums
from privboost.engine.updates import Start
from privboost.evaluation.outcomes import (
    CHIEF,
    EvaluationPlan,
    Outcomes,
    Releases,
    deviations,
    release,
)
from privboost.evaluation.result import (
    ERRORS,
    HIGHER,
    LOWER,
    Bin,
    BoundedValue,
    Measures,
    Value,
    stands_out,
)
from privboost.losses.base import UNKNOWN_LABEL, loss_of
from privboost.mechanisms.curator import Curator
from privboost.models.model import Model
from privboost.recipes.common.plan import PlanBasis
from privboost.trees.cell_map import CellMap

BETTER = {"concordance": HIGHER, "calibration_error": LOWER}
"""Measures that compare models, and which values of them are better."""

ROWS, CELLS = "rows", CHIEF
_ROWS_SHARE = 0.05
"""The releases, and the share of the count of rows."""
_FINE = 512
"""Intervals of times, and of scores, by which rows are coded."""
_MOST_INTERVALS, _FEWEST_INTERVALS = 64, 6
"""Intervals in which rows are counted with noise, at most and at least."""
_INTERVALS = 0.3
"""These, times the noise of a count and relative to the root of the rows: noise is then no more
than the error of rows being a sample."""
_LATE = 1.5
"""Power with which intervals of times have fewer events the later they are: most rows that are
censored are often in the last one."""
_MOST_CELLS = 2**22
"""Most cells of all groups together, without noise."""
_MOST_BINS = 10
"""Most groups of predicted probabilities."""
_TIMES = 4096
"""Times of the distribution from which intervals follow."""


@dataclass(frozen=True, eq=False)
class SurvivalOutcomes(Outcomes):
    """The interval of a row's time, with whether its event was observed, and that of its score.

    The first column is 2 · interval + (1 if the event was observed), the second the interval.

    Attributes
    ----------
    ends : int32 array
        The ends of intervals of times but the last, in `grid.LABEL_STEPS` of the bounds.
    edges : int32 array
        The lower ends of intervals of scores but the first, in score steps.
    horizon : int
        The number of the end that is the horizon.
    """

    kind: ClassVar[str] = "survival"
    ends: np.ndarray
    edges: np.ndarray
    horizon: int

    @classmethod
    def of(cls, model: Model, horizon: Any) -> SurvivalOutcomes:
        """Return the outcomes for a horizon, if one is given."""
        target, scale = model.domain.target, model.scores.time_scale
        assert isinstance(target, SurvivalTarget)
        assert scale is not None
        typical = _typical(model)
        at = np.linspace(-1, 1, _TIMES)
        gone = expit((at - typical[:, None] / SCORE_STEPS) / scale[0]).mean(axis=0)
        evenly = np.arange(1, _FINE) / _FINE
        shares = gone[0] + (gone[-1] - gone[0]) * (1 - (1 - evenly) ** _LATE)
        low, high = model.span
        found = (low + high) / 2 + (high - low) / 2 * np.interp(shares, gone, at)
        ends = np.rint(found).astype(np.int64)
        number = len(ends) // 2
        if horizon is not None:
            wanted = check_number("horizon", horizon, *target.bounds)
            steps = -target.code(np.array([wanted]), np.array([True])).minus_label  # type: ignore[operator]
            number = int(np.argmin(np.abs(ends - steps[0])))
            ends[number] = steps[0]
        middle = ends[number]
        ends = np.unique(np.clip(ends, -LABEL_STEPS, LABEL_STEPS - 1))
        quantiles = np.quantile(typical, evenly)
        edges = np.unique(np.rint(quantiles).astype(np.int32))
        return cls(ends.astype(np.int32), edges, int(np.searchsorted(ends, middle)))

    def time_at(self, model: Model) -> float:
        """Return the horizon."""
        target = model.domain.target
        assert isinstance(target, SurvivalTarget)
        middle, half = target.middle_and_half()
        at = middle + half * np.array([self.ends[self.horizon] / LABEL_STEPS])
        return float(np.clip(target.from_scale(at), *target.bounds)[0])

    def sizes(self, model: Model) -> tuple[int, ...]:
        return 2 * (len(self.ends) + 1), len(self.edges) + 1

    def code(
        self, model: Model, codes: Codes, column: Column, event: Column | None = None
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        label, minus_label = model.domain.target.code(column, event)
        assert minus_label is not None
        unknown = label == UNKNOWN_LABEL
        times = np.searchsorted(self.ends, -minus_label, side="left")
        scores = np.searchsorted(self.edges, model.scores.scores(codes)[0], side="right")
        happened = np.where(unknown, 0, label)
        return np.where(unknown, UNKNOWN_LABEL, 0).astype(np.uint8), [2 * times + happened, scores]

    def maps(self, model: Model, groups: list[CellMap]) -> tuple[CellMap, ...]:
        """Return the cell of all rows."""
        return (CellMap.of_feature(1, np.zeros(len(self.edges) + 1, dtype=np.int64), 1),)

    def _times(self, count: int) -> tuple[np.ndarray, int]:
        """Return about so many intervals of times, and the one that ends at the horizon.

        The former has the interval of each of those by which rows are coded.
        """
        fine = len(self.ends) + 1
        last = np.append(np.rint(np.arange(1, count) * fine / count) - 1, self.horizon)
        last = np.unique(np.clip(last, 0, fine - 2).astype(np.int64))
        return np.searchsorted(last, np.arange(fine)), int(np.searchsorted(last, self.horizon))

    def _scores(self, count: int) -> np.ndarray:
        """Return about so many intervals of scores: that of each by which rows are coded."""
        fine = len(self.edges) + 1
        return np.arange(fine) * min(count, fine) // fine

    def _count(self, curator: Curator, plan: EvaluationPlan) -> int:
        """Return the number of intervals, by the released number of rows."""
        events = [planned.event for planned in plan.releases]
        noise = float(deviations(events[-1])[0])
        rows = curator.sums(CellSums(plan.maps[0], statistics=COUNT), events[0])  # type: ignore[arg-type]
        if noise == 0:
            n_parts = 1 + sum(group.n_cells for group in plan.group_maps)
            return min(math.isqrt(_MOST_CELLS // (2 * n_parts)), _FINE)
        strength = _INTERVALS * math.sqrt(max(float(rows[0, 0]) / CLIP_STEPS, 0.0)) / noise
        return min(max(int(strength), _FEWEST_INTERVALS), _MOST_INTERVALS)

    def measure(self, curator: Curator, plan: EvaluationPlan) -> tuple[list[list[Measures]], None]:
        event: Any = plan.releases[-1].event
        curator.publish(Start(loss_of("number", "squared").table(1.0, 1.0)))
        count = self._count(curator, plan)
        times, horizon = self._times(count)
        scores, n_times = self._scores(count), int(times[-1]) + 1
        by_event = (2 * times[:, None] + np.arange(2)).reshape(-1)
        own = [CellMap.of_feature(0, by_event), CellMap.of_feature(1, scores)]
        groups = [CellMap.joint([group, *own]) for group in plan.group_maps]
        cells = CellMap.side_by_side([CellMap.joint(own), *groups])
        counts = curator.sums(CellSums(cells, statistics=COUNT), event)[:, 0] / CLIP_STEPS
        noise, expected = float(deviations(event)[0]), _AtHorizon.of(plan.model, self, scores)
        return [
            [
                _measure(SurvivalCounts(each, noise, horizon), expected)
                for each in part.reshape(-1, n_times, 2, int(scores[-1]) + 1)
            ]
            for part in cells.split(counts)
        ], None


def survival_releases(basis: PlanBasis, touched: int) -> Releases:
    """Return the releases: the number of rows, and counts, in which a row touches so many cells."""
    return lambda kind: [
        (ROWS, release(kind, basis, "the number of rows", 1), _ROWS_SHARE),
        (CELLS, release(kind, basis, "rows by time, event and score", touched), 1 - _ROWS_SHARE),
    ]


def _typical(model: Model) -> np.ndarray:
    """Return scores of typical rows, by released values, in score steps."""
    typical = model.scores.typical()[0]
    return typical if len(typical) else np.zeros(1, dtype=np.int32)


@dataclass(frozen=True, eq=False)
class _AtHorizon:
    """What a model predicts at the horizon.

    Attributes
    ----------
    name : str
        The event's absence until then, in words.
    survival : float array
        Mean predicted survival of typical rows of each interval of scores.
    ends : float array
        Predicted survival at all ends of intervals, 0 and 1 included.
    """

    name: str
    survival: np.ndarray
    ends: np.ndarray

    @classmethod
    def of(cls, model: Model, outcomes: SurvivalOutcomes, cell_of: np.ndarray) -> _AtHorizon:
        """Return what a model predicts for each cell of the intervals of scores."""
        time = outcomes.time_at(model)
        at = np.array([time])

        def predict(steps: np.ndarray) -> np.ndarray:
            return model.survival_of(steps / SCORE_STEPS, at)[:, 0]

        edges = outcomes.edges[cell_of[1:] > cell_of[:-1]]
        ends = np.concatenate([[0.0], predict(edges), [1.0]])
        typical, count = _typical(model), len(ends) - 1
        cells = np.searchsorted(edges, typical, side="right")
        rows = np.bincount(cells, minlength=count)
        total = np.bincount(cells, predict(typical), minlength=count)
        own = np.where(rows > 0, total / np.maximum(rows, 1), (ends[1:] + ends[:-1]) / 2)
        return cls(f"{model.domain.target.name} > {time:.6g}", own, ends)


@dataclass(frozen=True, eq=False)
class SurvivalCounts:
    """Noisy counts of some rows.

    Attributes
    ----------
    counts : float array of shape (times, 2, scores)
        Rows by interval of the time, censored ones and events, and by interval of the score.
    noise : float
        Standard deviation of a count's noise.
    horizon : int
        The last interval of times up to the horizon.
    """

    counts: np.ndarray
    noise: float
    horizon: int

    @property
    def rows(self) -> Value:
        """The number of rows; its error is the noise alone."""
        total = float(self.counts.sum())
        return Value(max(total, 0.0), self.noise * math.sqrt(self.counts.size))

    def share(self, some: np.ndarray, others: np.ndarray) -> Value:
        """Return the share of some rows among them and others, from counts of both."""
        here, rest = float(some.sum()), float(others.sum())
        rows = here + rest
        if not stands_out(rows, self.noise * math.sqrt(some.size + others.size)):
            return Value(0.5, 0.5)
        share = min(max(here / rows, 0.0), 1.0)
        parts = (1 - share) ** 2 * some.size + share**2 * others.size
        noise = self.noise * math.sqrt(parts) / rows
        # As if one more row were of either kind: a share of 0 or 1 is not certain.
        likely = (share * rows + 1) / (rows + 2)
        return Value(share, min(math.hypot(noise, math.sqrt(likely * (1 - likely) / rows)), 0.5))

    @property
    def died(self) -> np.ndarray:
        """Events up to the horizon, by score."""
        return self.counts[: self.horizon + 1, 1]

    @property
    def alive(self) -> np.ndarray:
        """Rows whose time is beyond the horizon, by score."""
        return self.counts[self.horizon + 1 :].reshape(-1, self.counts.shape[2])

    @property
    def lost(self) -> np.ndarray:
        """Rows that were censored up to the horizon, by score."""
        return self.counts[: self.horizon + 1, 0]

    def concordance(self) -> BoundedValue:
        """Return Harrell's concordance: events of earlier intervals should have lower scores.

        Equal intervals of scores count half. The standard error is that of the noise, and of the
        rows being a sample, to first order. The interval has two of them, and what rows of one
        interval of times, or of scores, could change: among these the order is taken to be no worse
        than by chance, and no better than among all.
        """
        events, rows = self.counts[:, 1], self.counts.sum(axis=1)
        later = rows[::-1].cumsum(axis=0)[::-1] - rows
        earlier = events.cumsum(axis=0) - events
        above = later.sum(axis=1)[:, None] - later.cumsum(axis=1) + later / 2
        below = earlier.cumsum(axis=1) - earlier / 2
        pairs = float((events * later.sum(axis=1)[:, None]).sum())
        n_times, _, n_scores = self.counts.shape
        # The noise of a sum over pairs, of which each has two counts.
        second = self.noise**2 * n_scores * math.sqrt(n_times * (n_times - 1))
        first = self.noise * math.sqrt(
            float((later.sum(axis=1) ** 2).sum() + 2 * (earlier.sum(axis=1) ** 2).sum()) * n_scores
        )
        if not stands_out(pairs, math.hypot(first, second)):
            return BoundedValue(0.5, 0.5, 0.0, 0.0, 1.0)
        found = min(max(float((events * above).sum()) / pairs, 0.0), 1.0)
        as_later = (below - found * earlier.sum(axis=1)[:, None]) / pairs
        as_event = as_later + (above - found * later.sum(axis=1)[:, None]) / pairs
        squares = np.stack([as_later**2, as_event**2], axis=1)
        sampled = float((np.maximum(self.counts, 0) * squares).sum())
        order = np.sign(np.arange(n_scores)[:, None] - np.arange(n_scores)) / 2 + 0.5 - found
        crossed = self.noise**2 * math.sqrt(n_times * (n_times - 1) * float((order**2).sum()))
        noise = math.hypot(self.noise * math.sqrt(float(squares.sum())), crossed / pairs)
        error = min(math.hypot(math.sqrt(sampled), noise), 0.5)
        known = np.maximum(events.sum(axis=1), 0)
        censored = np.maximum(rows - events, 0).sum(axis=1)
        same = float((known**2 / 2 + known * censored).sum())
        tied = max(float((events * later).sum()), 0.0)
        # Among rows of one interval the order is between that of chance and that of all.
        most = max(found - 0.5, 0.0) / (pairs + same)
        low = max(found - ERRORS * error - most * same, 0.0)
        high = min(found + ERRORS * error + most * tied, 1.0)
        return BoundedValue(found, error, most * max(same, tied), low, high)

    def bins(self, expected: _AtHorizon) -> list[Bin]:
        """Return observed survival by groups of predicted survival."""
        alive, died = self.alive, self.died
        known = np.maximum(alive.sum(axis=0) + died.sum(axis=0), 0) + 1e-9
        found = []
        for cells in np.array_split(np.arange(len(known)), min(len(known), _MOST_BINS)):
            rows = float(alive[:, cells].sum() + died[:, cells].sum())
            noise = self.noise * math.sqrt((len(alive) + len(died)) * len(cells))
            found.append(
                Bin(
                    expected.name,
                    float(expected.ends[cells[0]]),
                    float(expected.ends[cells[-1] + 1]),
                    float(known[cells] @ expected.survival[cells] / known[cells].sum()),
                    self.share(alive[:, cells], died[:, cells]),
                    Value(max(rows, 0.0), noise),
                )
            )
        return found

    def predicted(self, expected: _AtHorizon) -> Value:
        """Return the mean predicted survival at the horizon, of rows whose state is known then."""
        by_score = self.alive.sum(axis=0) + self.died.sum(axis=0)
        each = self.noise * math.sqrt(len(self.alive) + len(self.died))
        rows = float(by_score.sum())
        if not stands_out(rows, each * math.sqrt(len(by_score))):
            return Value(0.5, 0.5)
        mean = min(max(float(by_score @ expected.survival) / rows, 0.0), 1.0)
        apart = expected.survival - mean
        error = each * math.sqrt(float(apart @ apart)) / rows
        seen = np.maximum(by_score, 0)
        sampled = math.sqrt(float(seen @ apart**2)) / rows
        width = float(seen @ np.diff(expected.ends)) / max(float(seen.sum()), 1e-9)
        return Value(mean, min(math.hypot(error, sampled), 0.5), min(width, 1.0))


def _measure(counts: SurvivalCounts, expected: _AtHorizon) -> Measures:
    """Return all measures of counts."""
    rows, bins = counts.rows, counts.bins(expected)
    events, censored = counts.counts[:, 1], counts.counts[:, 0]
    before = np.concatenate([counts.alive, counts.died])
    return Measures(
        {
            "rows": rows,
            "events": counts.share(events, censored),
            "concordance": counts.concordance(),
            "survival": counts.share(counts.alive, counts.died),
            "predicted_survival": counts.predicted(expected),
            "calibration_error": _calibration_error(bins),
            "censored_before": counts.share(counts.lost, before),
        },
        tuple(bins),
    )


def _calibration_error(bins: list[Bin]) -> Value:
    """Return the mean absolute difference of predicted and observed survival over bins.

    The part that errors of observed survival give to it is subtracted.
    """
    known = [one for one in bins if stands_out(one.rows.value, one.rows.std)]
    rows = sum(one.rows.value for one in known)
    if not known:
        return Value(0.5, 0.5)
    total = variance = 0.0
    for one in known:
        share = one.rows.value / rows
        off = (one.observed.value - one.predicted) ** 2 - one.observed.std**2
        total += share * math.sqrt(max(off, 0.0))
        variance += (share * one.observed.std) ** 2
    return Value(total, min(math.sqrt(variance), 0.5))
