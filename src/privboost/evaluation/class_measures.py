"""Measures of classes, from noisy counts of rows by class and score."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import expit

from privboost._core.grid import SCORE_STEPS
from privboost.evaluation.result import Bin, Measures, Value, stands_out
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
    def known(self) -> bool:
        """Whether the number of rows exceeds its noise."""
        return stands_out(self.rows[0], self._noise_of_rows)

    @property
    def _noise_of_rows(self) -> float:
        return self.noise * math.sqrt(2 * len(self.names))

    def share(self, number: int) -> Value:
        """Share of the rows that are of a class."""
        return self._part(self.totals[:, number])

    def accuracy(self) -> Value:
        """Share of the rows that are predicted right."""
        return self._part(self.hits[:, :, 1].sum(axis=1))

    def size(self) -> Value:
        """Number of rows; its error is the noise alone."""
        return Value(max(float(self.rows[0]), 0.0), self._noise_of_rows)

    def auc(self, output: int) -> Value:
        """Probability that a row of the class scores above one of another, ties counting half."""
        return self._mean_auc([output])

    def mean_auc(self) -> Value:
        """Mean AUC of all classes."""
        return self._mean_auc(range(self.curves.shape[1]))

    def _mean_auc(self, outputs: Iterable[int]) -> Value:
        own = list(outputs)
        draws = np.mean([self._auc(output) for output in own], axis=0)
        totals = self.curves[0, own].sum(axis=1)
        known = all(stands_out(total, self.noise * math.sqrt(2)) for total in totals.reshape(-1))
        tied = np.maximum(self.curves[0, own], 0).prod(axis=2).sum(axis=1) / 2
        width = float((tied / np.maximum(totals.prod(axis=1), 1e-9)).mean())
        return bounded(draws, (0.0, 1.0), known, width)

    def _auc(self, output: int) -> np.ndarray:
        others, own = self.curves[:, output, :, 0], self.curves[:, output, :, 1]
        lower = np.cumsum(others, axis=1) - others / 2
        pairs = others.sum(axis=1) * own.sum(axis=1)
        return ratio((lower * own).sum(axis=1), pairs, self.noise**2)

    def log_loss(self) -> Value:
        """Mean of −ln of the predicted probability of a row's own class."""
        lost, ends = np.logaddexp(0, -self.cells.at), np.logaddexp(0, -self._ends)
        loss, width = self._mean(self.curves[..., -1], lost, ends)
        if len(self.names) == 2:
            gone, off = np.logaddexp(0, self.cells.at), np.logaddexp(0, self._ends)
            other, more = self._mean(self.curves[..., 0], gone, off)
            loss, width = loss + other, width + more
        return bounded(loss, (0.0, float(lost[0])), self.known, width)

    def brier(self) -> Value:
        """Mean squared difference of probabilities and outcomes: of one class of two, or summed
        over all.
        """
        chance, ends = expit(self.cells.at), expit(self._ends)
        own, width = self._mean(self.curves[..., 1], (1 - chance) ** 2, (1 - ends) ** 2)
        other, more = self._mean(self.curves[..., 0], chance**2, ends**2)
        most = 1.0 if len(self.names) == 2 else 2.0
        return bounded(own + other, (0.0, most), self.known, width + more)

    def _mean(
        self, counts: np.ndarray, at: np.ndarray, ends: np.ndarray
    ) -> tuple[np.ndarray, float]:
        """Return the mean of a function of scores over all outputs, and its error due to cells.

        Parameters
        ----------
        counts : array of shape (1 + draws, outputs, cells)
            The rows.
        at, ends : arrays
            The function at the assumed scores of cells, and at the ends of cells.
        """
        total = (counts * at).sum(axis=(1, 2))
        far = np.maximum(np.abs(ends[1:] - at), np.abs(ends[:-1] - at))
        rows = max(float(self.rows[0]), self._noise_of_rows, 1e-9)
        width = float((np.maximum(counts[0], 0) * far).sum() / rows)
        return ratio(total, self.rows, self._noise_of_rows), width

    @cached_property
    def _ends(self) -> np.ndarray:
        """Ends of cells, in log-odds; scores beyond count as the last."""
        edges = self.cells.edges / SCORE_STEPS
        return np.concatenate([[_FARTHEST * edges[0]], edges, [_FARTHEST * edges[-1]]])

    def calibration_error(self) -> Value:
        """Mean absolute error of probabilities over the bins of the reliability table.

        The contribution of noise is subtracted; that of sampling rows is not.
        """
        chance, ends = expit(self.cells.at), expit(self._ends)
        off = self.curves[..., 1] * (1 - chance) - self.curves[..., 0] * chance
        spread = self.noise**2 * ((1 - chance) ** 2 + chance**2)
        total = np.zeros(len(self.rows))
        for cells in self._bins:
            squares = off[:, :, cells].sum(axis=2) ** 2 - spread[cells].sum()
            total += np.sqrt(np.maximum(squares, 0)).sum(axis=1)
        outputs = self.curves.shape[1]
        far = np.maximum(np.abs(ends[1:] - chance), np.abs(ends[:-1] - chance))
        rows = max(float(self.rows[0]), self._noise_of_rows, 1e-9)
        width = float((np.maximum(self.curves[0], 0).sum(axis=2) * far).sum() / rows / outputs)
        mean = ratio(total / outputs, self.rows, self._noise_of_rows)
        return bounded(mean, (0.0, 1.0), self.known, width)

    @cached_property
    def _bins(self) -> list[np.ndarray]:
        """Cells of each bin of the reliability table."""
        bin_of = np.searchsorted(_BIN_EDGES, self.cells.at)
        return [np.flatnonzero(bin_of == each) for each in np.unique(bin_of)]

    def reliability(self, output: int, name: str) -> list[Bin]:
        """Return the reliability table of one output."""
        chance, ends = expit(self.cells.at), expit(self._ends)
        found = []
        for cells in self._bins:
            counts = self.curves[:, output, cells]
            own, rows = counts[..., 1].sum(axis=1), counts.sum(axis=(1, 2))
            noise = self.noise * math.sqrt(2 * len(cells))
            known = stands_out(rows[0], noise)
            weights = np.maximum(counts[0].sum(axis=1), 0) + 1e-9
            found.append(
                Bin(
                    name,
                    float(ends[cells[0]]),
                    float(ends[cells[-1] + 1]),
                    float((weights * chance[cells]).sum() / weights.sum()),
                    bounded(ratio(own, rows, noise), (0.0, 1.0), known),
                    Value(max(float(rows[0]), 0.0), noise),
                )
            )
        return found

    def _part(self, some: np.ndarray) -> Value:
        return bounded(ratio(some, self.rows, self._noise_of_rows), (0.0, 1.0), self.known)


def measure_classes(counts: ClassCounts) -> Measures:
    """Return all measures of counts."""
    names, outputs = counts.names, counts.curves.shape[1]
    two, curves = len(names) == 2, counts.curves.shape[-1] == 2 and outputs > 0
    values = {"rows": counts.size(), "accuracy": counts.accuracy()}
    if curves:
        values["auc"] = counts.auc(0) if two else counts.mean_auc()
    if counts.log_odds and outputs:
        values["log_loss"] = counts.log_loss()
    if counts.log_odds and curves:
        values["brier"] = counts.brier()
        values["calibration_error"] = counts.calibration_error()
    if two:
        values["prevalence"] = counts.share(1)
    else:
        values |= {f"share of {name}": counts.share(k) for k, name in enumerate(names)}
        if curves:
            values |= {f"auc of {name}": counts.auc(k) for k, name in enumerate(names)}
    if not (counts.log_odds and curves):
        return Measures(values)
    own = names[1:] if two else names
    lines = [one for k, name in enumerate(own) for one in counts.reliability(k, name)]
    return Measures(values, tuple(lines))


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
    """Return an estimate, the first of draws, within its limits, with their spread as its error.

    Parameters
    ----------
    draws : float array
        The estimate, then its values with other noise and rows.
    limits : (float, float)
        Range of the measure, whatever the rows.
    known : bool
        Whether rows exceed their noise; else the estimate is the middle of the limits.
    width : float
        See `Value`.
    """
    low, high = limits
    if not known:
        return Value((low + high) / 2, (high - low) / 2, 0.0)
    value = min(max(float(draws[0]), low), high)
    # Draws are not clipped: an estimate at a limit is no more precise for it.
    return Value(value, min(float(draws[1:].std()), (high - low) / 2), min(width, high - low))
