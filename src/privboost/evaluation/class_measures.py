"""Measures of classes, from noisy counts of rows by class and score.

A measure is a function of `ClassCounts` with an entry in `MEASURES`, or one of them and a class in
`MEASURES_OF_A_CLASS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import expit

from privboost._core.grid import SCORE_STEPS
from privboost.evaluation.result import HIGHER, LOWER, Bin, Measures, Value, stands_out
from privboost.randomness.keystream import fixed_generator
from privboost.recipes.common.probability_calibration import ScoreCells

DRAWS = 1000
"""Number of draws of noise and rows for error bars, which are then accurate to about 2 %. The
draws are the same in every evaluation, so their error does not average out."""
_BIN_EDGES = np.array([-3.5, -2.0, -1.0, 0.0, 1.0, 2.0, 3.5])
"""Edges of the bins of a reliability table, in log-odds: each joins several cells, which reduces
the noise, and does not depend on the number of cells."""
_FARTHEST = 2.0
"""Outer end of the last cells, relative to their inner end: it bounds probabilities."""


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """Noisy counts of some rows, followed by draws with other noise and other rows.

    Attributes
    ----------
    names : tuple of str
        The classes.
    hits : float array of shape (1 + draws, classes, 2)
        Rows by class, and by whether the prediction is right.
    curves : float array of shape (1 + draws, outputs, cells, 2)
        Rows by output and cell of scores, of other classes and of its own; for many classes, those
        of the own class alone (shape (…, 1, cells, 1)), or none.
    noise : float
        Standard deviation of a count's noise.
    cells : ScoreCells
        The cells.
    log_odds : bool
        Whether scores are log-odds.
    """

    names: tuple[str, ...]
    hits: np.ndarray
    curves: np.ndarray
    noise: float
    cells: ScoreCells
    log_odds: bool

    @classmethod
    def of(
        cls,
        names: tuple[str, ...],
        columns: tuple[np.ndarray, ...],
        noise: float,
        cells: ScoreCells,
        log_odds: bool,
    ) -> ClassCounts:
        """Return the counts of some rows, from one array for each column of outcomes."""
        n_cells = len(cells.at)
        hits = columns[0].reshape(1, -1, 2)
        curves = np.zeros((1, 0, n_cells, 1))
        if len(columns) > 1:
            curves = np.stack([own.reshape(n_cells, -1) for own in columns[1:]])[None]
        hits, curves = _agreed(hits, curves)
        draw = fixed_generator()
        rows = drawn_again(curves[0], draw)
        # With two classes, rows of the curves determine the hits.
        others = _sides(rows) if len(names) == 2 else drawn_again(hits[0], draw)
        again = _agreed(noisy_again(others, noise, draw), noisy_again(rows, noise, draw))
        hits, curves = (
            np.concatenate([first, more[1:]])
            for first, more in zip((hits, curves), again, strict=True)
        )
        return cls(names, hits, curves, noise, cells, log_odds)

    @property
    def two(self) -> bool:
        """Whether there are two classes."""
        return len(self.names) == 2

    @property
    def has_curves(self) -> bool:
        """Whether rows are counted by score, of each class and of the others."""
        return bool(self.curves.shape[-1] == 2 and self.curves.shape[1] > 0)

    @cached_property
    def totals(self) -> np.ndarray:
        """Rows by class: shape (1 + draws, classes)."""
        totals: np.ndarray = self.hits.sum(axis=2)
        return totals

    @cached_property
    def rows(self) -> np.ndarray:
        """Number of all rows: shape (1 + draws,)."""
        rows: np.ndarray = self.totals.sum(axis=1)
        return rows

    @property
    def noise_of_rows(self) -> float:
        """Standard deviation of the noise in the number of all rows."""
        return self.noise * math.sqrt(2 * len(self.names))

    @property
    def known(self) -> bool:
        """Whether the number of rows exceeds its noise."""
        return stands_out(float(self.rows[0]), self.noise_of_rows)

    @cached_property
    def ends(self) -> np.ndarray:
        """Ends of cells, in log-odds; scores beyond count as the last."""
        edges = self.cells.edges / SCORE_STEPS
        return np.concatenate([[_FARTHEST * edges[0]], edges, [_FARTHEST * edges[-1]]])

    @cached_property
    def bins(self) -> list[np.ndarray]:
        """Cells of each bin of the reliability table."""
        bin_of = np.searchsorted(_BIN_EDGES, self.cells.at)
        return [np.flatnonzero(bin_of == each) for each in np.unique(bin_of)]

    def share(self, some: np.ndarray) -> Value:
        """Return the share of some of the rows."""
        return bounded(ratio(some, self.rows, self.noise_of_rows), (0.0, 1.0), self.known)

    def mean(
        self, counts: np.ndarray, function: Callable[[np.ndarray], np.ndarray]
    ) -> tuple[np.ndarray, float]:
        """Return the mean of a function of scores over all outputs, and its error due to cells.

        `counts` are rows by output and cell: an array of shape (1 + draws, outputs, cells).
        """
        at, ends = function(self.cells.at), function(self.ends)
        total = (counts * at).sum(axis=(1, 2))
        width = self.width(counts[0], at, ends)
        return ratio(total, self.rows, self.noise_of_rows), width

    def width(self, counts: np.ndarray, at: np.ndarray, ends: np.ndarray) -> float:
        """Return how far means may be off as rows lie anywhere in their cells."""
        far = np.maximum(np.abs(ends[1:] - at), np.abs(ends[:-1] - at))
        rows = max(float(self.rows[0]), self.noise_of_rows, 1e-9)
        return float((np.maximum(counts, 0) * far).sum() / rows)


def rows(counts: ClassCounts) -> Value:
    """Return the number of rows; its error is the noise alone."""
    return Value(max(float(counts.rows[0]), 0.0), counts.noise_of_rows)


def accuracy(counts: ClassCounts) -> Value:
    """Return the share of the rows that are predicted right."""
    return counts.share(counts.hits[:, :, 1].sum(axis=1))


def auc(counts: ClassCounts, outputs: Sequence[int] | None = None) -> Value | None:
    """Return the mean AUC of outputs, by default of all.

    It is the probability that a row of the class scores above one of another, ties counting half.
    """
    if not counts.has_curves:
        return None
    own = list(range(counts.curves.shape[1]) if outputs is None else outputs)
    draws = np.mean([_auc(counts, output) for output in own], axis=0)
    totals = counts.curves[0, own].sum(axis=1)
    known = all(stands_out(total, counts.noise * math.sqrt(2)) for total in totals.reshape(-1))
    tied = np.maximum(counts.curves[0, own], 0).prod(axis=2).sum(axis=1) / 2
    width = float((tied / np.maximum(totals.prod(axis=1), 1e-9)).mean())
    return bounded(draws, (0.0, 1.0), known, width)


def _auc(counts: ClassCounts, output: int) -> np.ndarray:
    others, own = counts.curves[:, output, :, 0], counts.curves[:, output, :, 1]
    lower = np.cumsum(others, axis=1) - others / 2
    pairs = others.sum(axis=1) * own.sum(axis=1)
    return ratio((lower * own).sum(axis=1), pairs, counts.noise**2)


def log_loss(counts: ClassCounts) -> Value | None:
    """Return the mean of −ln of the predicted probability of a row's own class."""
    if not (counts.log_odds and counts.curves.shape[1]):
        return None
    loss, width = counts.mean(counts.curves[..., -1], lambda odds: np.logaddexp(0, -odds))
    if counts.two:
        other, more = counts.mean(counts.curves[..., 0], lambda odds: np.logaddexp(0, odds))
        loss, width = loss + other, width + more
    most = float(np.logaddexp(0, -counts.cells.at)[0])
    return bounded(loss, (0.0, most), counts.known, width)


def brier(counts: ClassCounts) -> Value | None:
    """Return the mean squared difference of probabilities and outcomes.

    It is of one class of two, or summed over all.
    """
    if not (counts.log_odds and counts.has_curves):
        return None
    own, width = counts.mean(counts.curves[..., 1], lambda odds: (1 - expit(odds)) ** 2)
    other, more = counts.mean(counts.curves[..., 0], lambda odds: expit(odds) ** 2)
    most = 1.0 if counts.two else 2.0
    return bounded(own + other, (0.0, most), counts.known, width + more)


def calibration_error(counts: ClassCounts) -> Value | None:
    """Return the mean absolute error of probabilities over the bins of the reliability table.

    The contribution of noise is subtracted; that of sampling rows is not.
    """
    if not (counts.log_odds and counts.has_curves):
        return None
    chance = expit(counts.cells.at)
    off = counts.curves[..., 1] * (1 - chance) - counts.curves[..., 0] * chance
    spread = counts.noise**2 * ((1 - chance) ** 2 + chance**2)
    total = np.zeros(len(counts.rows))
    for cells in counts.bins:
        squares = off[:, :, cells].sum(axis=2) ** 2 - spread[cells].sum()
        total += np.sqrt(np.maximum(squares, 0)).sum(axis=1)
    outputs = counts.curves.shape[1]
    in_cell = np.maximum(counts.curves[0], 0).sum(axis=2)
    width = counts.width(in_cell, chance, expit(counts.ends)) / outputs
    mean = ratio(total / outputs, counts.rows, counts.noise_of_rows)
    return bounded(mean, (0.0, 1.0), counts.known, width)


def prevalence(counts: ClassCounts) -> Value | None:
    """Return the share of the second of two classes."""
    return counts.share(counts.totals[:, 1]) if counts.two else None


@dataclass(frozen=True)
class ClassMeasure:
    """A measure of classes.

    Attributes
    ----------
    of : callable
        The function of the counts; None where these do not have what it needs.
    better : {"lower", "higher"} or None
        Which values are better; None where neither are.
    log_odds : bool
        Whether scores must be log-odds.
    curves : bool
        Whether each class must have cells of scores, as two classes always do.
    """

    of: Callable[[ClassCounts], Value | None]
    better: str | None = None
    log_odds: bool = False
    curves: bool = False


MEASURES = {
    "rows": ClassMeasure(rows),
    "accuracy": ClassMeasure(accuracy, HIGHER),
    "auc": ClassMeasure(auc, HIGHER, curves=True),
    "log_loss": ClassMeasure(log_loss, LOWER, log_odds=True),
    "brier": ClassMeasure(brier, LOWER, log_odds=True, curves=True),
    "calibration_error": ClassMeasure(calibration_error, LOWER, log_odds=True, curves=True),
    "prevalence": ClassMeasure(prevalence),
}
"""Measures by name."""
MEASURES_OF_A_CLASS: dict[str, Callable[[ClassCounts, int], Value | None]] = {
    "share of": lambda counts, k: counts.share(counts.totals[:, k]),
    "auc of": lambda counts, k: auc(counts, [k]),
}
"""Measures of each of more than two classes."""


def measure_classes(counts: ClassCounts) -> Measures:
    """Return all measures of counts."""
    found = {name: measure.of(counts) for name, measure in MEASURES.items()}
    if not counts.two:
        for what, of_class in MEASURES_OF_A_CLASS.items():
            found |= {f"{what} {name}": of_class(counts, k) for k, name in enumerate(counts.names)}
    values = {name: value for name, value in found.items() if value is not None}
    if not (counts.log_odds and counts.has_curves):
        return Measures(values)
    own = counts.names[1:] if counts.two else counts.names
    return Measures(
        values, tuple(one for k, name in enumerate(own) for one in _reliability(counts, k, name))
    )


def _reliability(counts: ClassCounts, output: int, name: str) -> list[Bin]:
    """Return the reliability table of one output."""
    chance, ends = expit(counts.cells.at), expit(counts.ends)
    found = []
    for cells in counts.bins:
        inside = counts.curves[:, output, cells]
        own, all_rows = inside[..., 1].sum(axis=1), inside.sum(axis=(1, 2))
        noise = counts.noise * math.sqrt(2 * len(cells))
        known = stands_out(all_rows[0], noise)
        weights = np.maximum(inside[0].sum(axis=1), 0) + 1e-9
        found.append(
            Bin(
                name,
                float(ends[cells[0]]),
                float(ends[cells[-1] + 1]),
                float((weights * chance[cells]).sum() / weights.sum()),
                bounded(ratio(own, all_rows, noise), (0.0, 1.0), known),
                Value(max(float(all_rows[0]), 0.0), noise),
            )
        )
    return found


def _sides(curves: np.ndarray) -> np.ndarray:
    """Return the hits that two classes' counts by score imply: shape (…, 2, 2)."""
    half = curves.shape[2] // 2
    low, high = curves[:, 0, :half].sum(axis=1), curves[:, 0, half:].sum(axis=1)
    return np.stack(
        [np.stack([high[:, 0], low[:, 0]], axis=1), np.stack([low[:, 1], high[:, 1]], axis=1)],
        axis=1,
    )


def _agreed(hits: np.ndarray, curves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Make hits and curves consistent: the maximum likelihood estimate, given equal noise.

    Rows are in both. A sum of many cells has much noise and a single count little, so totals
    are nearly those of hits; the difference is spread over the cells.
    """
    if not curves.shape[1]:
        return hits, curves
    curves, outputs, n_cells = curves.copy(), curves.shape[1], curves.shape[2]
    if hits.shape[1] == 2:
        half = n_cells // 2
        for own in range(2):
            for side, place in enumerate((slice(0, half), slice(half, None))):
                _spread(curves[:, 0, place, own], hits[:, own, int(side == own)], 1)
        return _sides(curves), curves
    totals = hits.sum(axis=2)
    everybody = totals.sum(axis=1)
    if curves.shape[3] == 1:
        _spread(curves[:, 0, :, 0], everybody, 2 * hits.shape[1])
        return hits, curves
    for output in range(outputs):
        own = totals[:, output]
        _spread(curves[:, output, :, 1], own, 2)
        _spread(curves[:, output, :, 0], everybody - own, 2 * hits.shape[1] - 2)
    return hits, curves


def _spread(cells: np.ndarray, total: np.ndarray, counts: int) -> None:
    """Shift cells towards a total that is the sum of `counts` counts, by its precision."""
    size = cells.shape[1]
    off = total - cells.sum(axis=1)
    cells += (off / (size + counts))[:, None]


# Error bars: estimates with other noise and other rows


def drawn_again(
    counts: np.ndarray, generator: np.random.Generator, draws: int = DRAWS
) -> np.ndarray:
    """Return counts, then draws of counts of other rows: shape (draws + 1, …).

    The standard deviation of a count is its root. Noisy counts below 0 do not vary.
    """
    spread = np.sqrt(np.maximum(counts, 0))
    moves = generator.standard_normal((draws, *counts.shape)) * spread
    return np.concatenate([counts[None], counts + moves])


def noisy_again(counts: np.ndarray, noise: float, generator: np.random.Generator) -> np.ndarray:
    """Add noise to all draws but the first, which has its own."""
    again = generator.standard_normal(counts.shape) * noise
    again[0] = 0
    noisy: np.ndarray = counts + again
    return noisy


def ratio(above: np.ndarray, below: np.ndarray, least: float) -> np.ndarray:
    """Divide by at least `least`: a noisy number of rows may be anything."""
    found: np.ndarray = above / np.maximum(below, max(least, 1e-9))
    return found


def bounded(
    draws: np.ndarray, limits: tuple[float, float], known: bool, width: float = 0.0
) -> Value:
    """Return an estimate within its limits: the first of draws, and the spread of the others.

    Where it is not known, because rows do not exceed their noise, it is the middle of the limits.
    """
    low, high = limits
    if not known:
        return Value((low + high) / 2, (high - low) / 2, 0.0)
    value = min(max(float(draws[0]), low), high)
    # Draws are not clipped: an estimate at a limit is no more precise for it.
    return Value(value, min(float(draws[1:].std()), (high - low) / 2), min(width, high - low))
