"""Groups of rows by their prediction: their edges, and what is measured of them.

Edges follow from noisy counts of rows by prediction, in cells that follow from the model alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from privboost.evaluation.class_measures import DRAWS
from privboost.evaluation.result import ERRORS, BoundedValue, CalibrationBin, Value, stands_out
from privboost.randomness.keystream import fixed_generator

TENTHS = 10
PRIVATE_STEPS, PUBLIC_STEPS = 8, 2048
"""Cells of predictions in each halving, of private and of public rows."""
MOST_GROUPS = 100
"""Groups of public rows, from which the error bar of a Gini coefficient is computed."""
_HALVINGS = 16
_CLEAR, _CLEAR_NEIGHBOUR = 2.5, 1.5
"""Standard deviations of its noise that the rows of a halving must exceed to count, and the same
next to one that counts: elsewhere noise alone would move the edges."""
_NUMBERS_OF_GROUPS = (10, 20, 50)
_TIE = 1e-12
"""Slack of shares, which are sums of floats."""


@dataclass(frozen=True)
class PredictionGrid:
    """Cells of predictions between two bounds, finer towards both.

    Each half of the range is halved `_HALVINGS` times towards its bound, and each of these parts
    has `steps` equal cells: means of counts and amounts mostly lie close to the lower bound.

    Attributes
    ----------
    low, high : float
        Bounds of the model's predictions.
    steps : int
        Cells of each part.
    """

    low: float
    high: float
    steps: int

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return 2 * _HALVINGS * self.steps

    @cached_property
    def edges(self) -> np.ndarray:
        """Edges of the cells, from the lower bound to the upper one."""
        part, step = np.divmod(np.arange(_HALVINGS * self.steps), self.steps)
        inner = np.where(part > 0, self.steps + step, step)
        sizes = np.ldexp(inner / self.steps, np.maximum(part, 1) - _HALVINGS - 1)
        width = self.high - self.low
        found: np.ndarray = np.concatenate(
            [self.low + width * sizes, [self.low + width / 2], self.high - width * sizes[::-1]]
        )
        return found

    @property
    def middles(self) -> np.ndarray:
        """Middle of each cell."""
        found: np.ndarray = self.edges[:-1] / 2 + self.edges[1:] / 2
        return found

    def cells(self, predictions: np.ndarray) -> np.ndarray:
        """Return the cell of each prediction; those beyond the bounds lie in the outer cells."""
        found = np.searchsorted(self.edges, predictions, side="right") - 1
        cells: np.ndarray = np.clip(found, 0, self.n_cells - 1)
        return cells


@dataclass(frozen=True, eq=False)
class Grouping:
    """Groups of neighbouring cells of predictions, with about as many rows in each.

    Attributes
    ----------
    group_of : int array
        Group of each cell.
    tenth_of : int array
        Tenth of each group.
    edges : float array
        Edges of the groups.
    predicted, error, spread : float arrays
        Approximate mean prediction of each group, its error due to the noise of counts, and the
        standard deviation of predictions.
    """

    group_of: np.ndarray
    tenth_of: np.ndarray
    edges: np.ndarray
    predicted: np.ndarray
    error: np.ndarray
    spread: np.ndarray

    @property
    def of_some(self) -> Grouping:
        """The same groups of some of the rows only, whose mean predictions may be others."""
        return replace(self, error=np.hypot(self.error, self.spread))

    @classmethod
    def of(cls, grid: PredictionGrid, counts: np.ndarray, noise: float, n_groups: int) -> Grouping:
        """Return groups from noisy counts by cell, whose noise has this standard deviation.

        `n_groups` is a multiple of ten; there are fewer groups where many predictions are alike.
        """
        rows = _without_noise(counts, noise, grid.steps)
        shares = np.cumsum(rows) / rows.sum()
        # The edge of a group is that of a cell, behind the one in which its share is reached.
        behind = np.searchsorted(shares, np.arange(1, n_groups) / n_groups - _TIE) + 1
        first, tenths = (
            np.unique(own[shares[own - 1] < 1 - _TIE])
            for own in (behind, behind[n_groups // TENTHS - 1 :: n_groups // TENTHS])
        )
        first = np.concatenate([[0], first])
        tenth_of = np.searchsorted(tenths, first, side="right")
        group_of = np.searchsorted(first, np.arange(grid.n_cells), side="right") - 1
        ends, width = np.append(first, grid.n_cells), grid.high - grid.low
        predicted, error, spread = (np.zeros(len(first)) for _ in range(3))
        for k, own in enumerate(map(slice, ends[:-1], ends[1:])):
            inside, at = rows[own], grid.middles[own]
            weights = inside if inside.sum() > 0 else np.ones_like(inside)
            predicted[k] = (weights * at).sum() / weights.sum()
            # Relative to the range, whose square may be no float.
            far = np.where(weights > 0, (at - predicted[k]) / width, 0.0)
            spread[k] = width * math.sqrt(float((weights * far**2).sum() / weights.sum()))
            sure = max(float(inside.sum()), noise, 1e-9)
            error[k] = width * noise * math.sqrt(float((far**2).sum())) / sure
        most = np.maximum(grid.edges[ends[1:]] - predicted, predicted - grid.edges[first])
        error = np.minimum(error, most)
        return cls(group_of, tenth_of, grid.edges[ends], predicted, error, spread)


def _without_noise(counts: np.ndarray, noise: float, steps: int) -> np.ndarray:
    """Return estimated counts of rows by cell, none below 0 and some above.

    Halvings without clear counts are empty; in the others, counts are shrunk towards their mean as
    far as they vary no more than their noise does.
    """
    parts = counts.reshape(-1, steps)
    rows, most = parts.sum(axis=1), noise * math.sqrt(steps)
    clear = rows > _CLEAR * most
    near = clear.copy()
    near[1:] |= clear[:-1]
    near[:-1] |= clear[1:]
    kept = clear | (near & (rows > _CLEAR_NEIGHBOUR * most))
    if not kept.any():
        return np.ones_like(counts)
    mean = parts.mean(axis=1, keepdims=True)
    own = np.maximum(parts.var(axis=1, keepdims=True) - noise**2, 0.0)
    trust = own / np.maximum(own + noise**2, 1e-9)
    found = np.where(kept[:, None], np.maximum(mean + trust * (parts - mean), 0.0), 0.0)
    flat: np.ndarray = found.reshape(-1)
    return flat if flat.sum() > 0 else np.ones_like(counts)


def count_groups(rows: float, noise: float, mean: float) -> int:
    """Return the number of groups with the narrowest interval of a Gini coefficient.

    Within a group the order of rows is unknown, and each further group adds noise. `noise` is that
    of a group's sum of residuals and `mean` the mean label, both on the scale of the target.
    """
    if not (mean > 0 and stands_out(rows, 0.0)):
        return TENTHS
    spread = noise / (rows * mean) / math.sqrt(3)
    return min(_NUMBERS_OF_GROUPS, key=lambda n: 2 * ERRORS * spread * math.sqrt(n) + 2 / n)


@dataclass(frozen=True, eq=False)
class GroupSums:
    """Sums of the rows of each group; noisy, or exact with no noise.

    Attributes
    ----------
    grouping : Grouping
        The groups.
    rows, residuals, squares : float arrays
        Number of rows, sum of residuals, and sum of their squares; residuals in parts of `unit`.
    noise : (float, float, float)
        Standard deviations of the noise of each.
    second : float
        Mean square of residuals of all rows, likewise.
    beyond : float
        Upper bound of what residuals beyond the clip add to all sums of sizes, likewise.
    unit : float
        The clip of residuals, or a bound of them where there is none.
    clipped : bool
        Whether residuals were clipped.
    bounds : (float, float)
        Bounds of labels.
    relative : float
        Largest error of a coded residual, relative to itself.
    """

    grouping: Grouping
    rows: np.ndarray
    residuals: np.ndarray
    squares: np.ndarray
    noise: tuple[float, float, float]
    second: float
    beyond: float
    unit: float
    clipped: bool
    bounds: tuple[float, float]
    relative: float = 0.0

    def _variance(self, rows: np.ndarray, squares: np.ndarray, noise: float) -> np.ndarray:
        """Return mean squares of groups: what was measured, and that of all rows where noise hides
        it.
        """
        if not noise:
            exact: np.ndarray = np.maximum(squares, 0.0) / np.maximum(rows, 1.0)
            return exact
        rows = np.maximum(rows, 1.0)
        own, prior = (noise / rows) ** 2, max(self.second, 1e-150) ** 2
        found = np.maximum(squares / rows, 0.0)
        shrunk: np.ndarray = (found * prior + self.second * own) / (prior + own)
        return shrunk

    @property
    def _tails(self) -> tuple[np.ndarray, np.ndarray]:
        """What residuals beyond the clip may take from a group's sum, and add to it."""
        low, high = self.bounds
        edges = self.grouping.edges
        beyond = self.beyond if self.clipped else 0.0
        below = np.where(edges[1:] - low > self.unit, beyond, 0.0)
        above = np.where(high - edges[:-1] > self.unit, beyond, 0.0)
        return below, above

    def calibration(self) -> tuple[CalibrationBin, ...]:
        """Return mean predictions and mean labels by tenths of the prediction."""
        grouping, tenths = self.grouping, self.grouping.tenth_of
        found = []
        for tenth in np.unique(tenths):
            own = np.flatnonzero(tenths == tenth)
            root = math.sqrt(len(own))
            rows, total = float(self.rows[own].sum()), float(self.residuals[own].sum())
            noise = self.noise[0] * root
            weights = np.maximum(self.rows[own], 0.0) + 1e-9
            weights /= weights.sum()
            predicted = float(weights @ grouping.predicted[own])
            low, high = float(grouping.edges[own[0]]), float(grouping.edges[own[-1] + 1])
            ends = self.bounds[0] - high, self.bounds[1] - low
            errors = weights * grouping.error[own] / self.unit
            unsure = self.unit * math.sqrt(float((errors**2).sum()))
            size = Value(max(rows, 0.0), noise)
            if not stands_out(rows, noise):
                widest = max(-ends[0], ends[1])
                hidden = BoundedValue(0.0, widest, 0.0, *ends)
                found.append(self._bin(low, high, predicted, hidden, 0.0, size))
                continue
            unit, part = self.unit, total / rows
            at = min(max(unit * part, ends[0]), ends[1])
            squares = np.array([float(self.squares[own].sum())])
            second = float(self._variance(np.array([rows]), squares, self.noise[2] * root)[0])
            sampled = math.sqrt(max(second - part**2, 0.0) / rows)
            std = unit * math.hypot(self.noise[1] * root / rows, part * noise / rows, sampled)
            width = unit * self.relative * math.sqrt(second)
            below, above = (unit * float(tail[own].max()) / rows for tail in self._tails)
            lower = max(at - ERRORS * std - width - below, ends[0])
            upper = min(at + ERRORS * std + width + above, ends[1])
            gap = BoundedValue(at, min(std, ends[1] - ends[0]), width, lower, upper)
            found.append(self._bin(low, high, predicted, gap, unsure, size))
        return tuple(found)

    def _bin(
        self,
        low: float,
        high: float,
        predicted: float,
        gap: BoundedValue,
        unsure: float,
        size: Value,
    ) -> CalibrationBin:
        """Return a tenth; `unsure` is the error of its mean prediction."""
        std = math.hypot(gap.std, unsure)
        assert gap.lower is not None
        assert gap.upper is not None
        if not self.clipped:  # public rows
            observed, left = Value(predicted + gap.value, std), Value(gap.value, gap.std)
            return CalibrationBin(low, high, predicted, observed, left, size)
        more = ERRORS * (std - gap.std)
        ends = (predicted + gap.lower - more, predicted + gap.upper + more)
        lower, upper = (min(max(end, self.bounds[0]), self.bounds[1]) for end in ends)
        at = min(max(predicted + gap.value, lower), upper)
        observed = BoundedValue(at, std, gap.width, lower, upper)
        return CalibrationBin(low, high, predicted, observed, gap, size)

    @cached_property
    def labels(self) -> np.ndarray:
        """Sum of labels of each group, approximately; in parts of `unit`."""
        labels: np.ndarray = self.rows * (self.grouping.predicted / self.unit) + self.residuals
        return labels

    def gini(self) -> BoundedValue:
        """Return the Gini coefficient of labels that are at least 0, in the order of predictions.

        The error bar is the spread of coefficients of drawn sums. The interval allows for any order
        within a group, and for any place of what lies beyond the clip.
        """
        rows, labels = np.maximum(self.rows, 0.0), self.labels
        draw = fixed_generator()
        shape = (DRAWS, len(rows))
        spread = np.sqrt(self.noise[0] ** 2 + rows)
        second = self._variance(rows, self.squares, self.noise[2])
        own = np.sqrt(self.noise[1] ** 2 + rows * second)
        drawn = self.rows + spread * draw.standard_normal(shape)
        left = self.residuals + own * draw.standard_normal(shape)
        means = self.grouping.predicted + self.grouping.error * draw.standard_normal(shape)
        means /= self.unit
        many, total = gini_of(drawn, drawn * means + left)
        (value,), (whole,) = gini_of(self.rows[None], labels[None])
        noise = float(total.std())
        if not (rows.sum() > 0 and stands_out(float(whole), noise)):
            return unknown_gini()
        std = min(float(many[np.isfinite(many)].std()), 1.0)
        width = float((np.maximum(labels, 0.0) * rows).sum() / (whole * rows.sum()))
        reach = abs(float(value)) + ERRORS * std + width
        below, above = (float(tail.max()) for tail in self._tails)
        least = max(float(whole) - below - ERRORS * noise, 1e-300)
        # Labels beyond change the sum of labels, and anywhere in the order.
        far = (above + below) * (1 + min(reach, 1.0)) / (least if below else float(whole) + above)
        return BoundedValue(
            float(np.clip(value, -1, 1)),
            std,
            min(width, 2.0),
            float(max(value - ERRORS * std - width - far, -1.0)),
            float(min(value + ERRORS * std + width + far, 1.0)),
        )


def unknown_gini() -> BoundedValue:
    """Return the Gini coefficient of no rows to speak of: anything."""
    return BoundedValue(0.0, 1.0, 0.0, -1.0, 1.0)


def gini_of(rows: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return Gini coefficients, and sums of labels, from sums by group: the last axis.

    Twice the covariance of labels and ranks, relative to the mean label; ranks lie between 0 and 1
    and ties have their middle. It is 1 less twice the area below the Lorenz curve.
    """
    rows = np.maximum(rows, 0.0)
    total = np.maximum(rows.sum(axis=-1, keepdims=True), 1e-300)
    middle = (np.cumsum(rows, axis=-1) - rows / 2) / total
    whole = labels.sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = (labels * (2 * middle - 1)).sum(axis=-1) / whole
    return found, whole
