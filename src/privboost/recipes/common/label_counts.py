"""Counts of rows, each in one cell of its label or its residual."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.special import ndtri_exp

from privboost._core.grid import SCORE_STEPS
from privboost.accounting.noisy_sums import LaplaceRelease, NoisySums
from privboost.engine.queries import ScoreCounts
from privboost.mechanisms.curator import Curator
from privboost.recipes.common.plan import Plan

CLEAR = 1.5
"""Standard deviations of noise that are taken off a count before it is believed."""


@dataclass(frozen=True, eq=False)
class LabelCounts:
    """Noisy counts of rows by label, or by residual.

    Attributes
    ----------
    edges : float array
        Edges of the cells, increasing; of labels in half widths of the bounds around their middle.
    counts : float array
        Rows of each cell, in rows of the largest weight.
    deviation : float
        Standard deviation of a count.
    deviates : float array
        Counts in deviations, as if their noise were normal; without noise 0, or infinite.
    """

    edges: np.ndarray
    counts: np.ndarray
    deviation: float
    deviates: np.ndarray

    @property
    def middles(self) -> np.ndarray:
        """Middle of each cell."""
        middles: np.ndarray = (self.edges[1:] + self.edges[:-1]) / 2
        return middles

    @property
    def rows(self) -> float:
        """About how many rows there are, at least 1."""
        return max(float(self.counts.sum()), 1.0)

    @property
    def total(self) -> np.ndarray:
        """The noisy count of all rows, and its standard deviation."""
        return np.array([self.counts.sum(), self.deviation * math.sqrt(len(self.counts))])

    @property
    def clear(self) -> np.ndarray:
        """Counts less `CLEAR` standard deviations of their noise, at least 0."""
        clear: np.ndarray = np.maximum(self.counts - CLEAR * self.deviation, 0.0)
        return clear

    @property
    def seen(self) -> np.ndarray:
        """Counts, shrunk where they are hardly larger than their noise."""
        above = np.maximum(self.counts, 0.0)
        seen: np.ndarray = above**3 / np.maximum(above**2 + self.deviation**2, 1e-300)
        return seen

    @property
    def below(self) -> np.ndarray:
        """Share of rows below each edge: it never falls, whatever noise does."""
        ends = np.concatenate([[0.0], np.cumsum(self.counts)])
        total = max(float(ends[-1]), 1.0)
        rising, falling = np.maximum.accumulate(ends), np.minimum.accumulate(ends[::-1])[::-1]
        shares: np.ndarray = np.clip((rising + falling) / 2 / total, 0.0, 1.0)
        return shares

    def level(self, share: float) -> float:
        """Return where the share of rows below reaches a level."""
        below = self.below
        last = int(np.clip(np.searchsorted(below, share), 1, len(below) - 1))
        low, high = float(below[last - 1]), float(below[last])
        part = min(max((share - low) / (high - low), 0.0), 1.0) if high > low else 0.5
        return float(self.edges[last - 1] + part * (self.edges[last] - self.edges[last - 1]))

    def mirrored(self) -> Self:
        """Return the counts of the numbers times −1."""
        return replace(
            self,
            edges=-self.edges[::-1],
            counts=self.counts[::-1],
            deviates=self.deviates[::-1],
        )


def count_states(
    curator: Curator, plan: Plan, release: NoisySums, edges: np.ndarray, outer: bool = False
) -> LabelCounts:
    """Release the count of rows from each edge of states to the next, in score steps.

    Rows beyond the outer edges are in the outer cells; or, with `outer`, in cells of their own that
    are left out of the result, whose last edge is in the last cell.

    Privacy
    -------
    Spends `release` once: a row lies in one cell, whatever the edges.
    """
    cells = np.rint(edges).astype(np.int32)
    if outer:
        cells[-1] += 1
    within = slice(1, -1)
    query = ScoreCounts(cells if outer else cells[within], 1)
    counts = curator.sums(query, release)[:, 0, 0][within if outer else slice(None)]
    scale = float(release.scales[0])
    if scale == 0:  # public rows are counted exactly
        deviates = np.where(counts > 0, math.inf, 0.0)
    else:
        deviates = counts / scale
        deviates = as_normal(deviates) if isinstance(release, LaplaceRelease) else deviates
    step = plan.count_step
    deviation = float(release.deviations[0]) * step
    return LabelCounts(edges / SCORE_STEPS, counts * step, deviation, deviates)


def count_labels(
    curator: Curator, plan: Plan, release: NoisySums, edges: np.ndarray
) -> LabelCounts:
    """Release counts of rows by label while all scores are 0; `edges` are in score steps.

    A label at an edge is in the cell below it; those beyond the outer edges are in the outer cells.

    Privacy
    -------
    Spends `release` once: states are minus the labels, and a row lies in one cell.
    """
    return count_states(curator, plan, release, -edges[::-1]).mirrored()


def as_normal(laplace: np.ndarray) -> np.ndarray:
    """Return normal deviates of the same quantiles as Laplace noise of scale 1."""
    size: np.ndarray = -ndtri_exp(math.log(0.5) - np.abs(laplace))
    normal: np.ndarray = np.sign(laplace) * size
    return normal
