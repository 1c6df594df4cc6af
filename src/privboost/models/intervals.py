"""Prediction intervals of numbers and prediction sets of classes, from a released histogram."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import ndtri

from privboost._core.grid import SCORE_STEPS
from privboost._core.pickling import DeclaredState
from privboost.data.rows import LARGEST_RESIDUAL
from privboost.models.checks import need, need_array, need_finite, need_keys, need_number

NOISE_PROBABILITY = 0.2
"""Largest probability that noise makes intervals shorter than those without noise."""

EXPORTED_COVERAGE = 0.9
"""Coverage of the intervals in exports."""

_MOST_CELLS = 2**16


@dataclass(frozen=True, eq=False)
class Nonconformity(DeclaredState):
    """A noisy histogram of the nonconformity of rows that no release of training used.

    Nonconformity is the absolute residual of a number, and minus the score of a row's own class.

    Attributes
    ----------
    edges : int32 array
        The lower ends of all cells but the first, in score steps.
    counts : float64 array
        The noisy count of each cell, in rows of the largest weight.
    deviation : float
        The standard deviation of the noise of each count.
    """

    edges: np.ndarray
    counts: np.ndarray
    deviation: float

    def half_width(self, coverage: float) -> float:
        """Return half the width of prediction intervals in scores; infinite for the bounds."""
        edge = self.threshold(coverage)
        return math.inf if edge is None else (edge + 1) / SCORE_STEPS  # states are rounded

    def threshold(self, coverage: float) -> int | None:
        """Return the edge below which the nonconformity of labels is predicted, in score steps.

        None if no edge is large enough, or if noise hides which one is.

        Edges are tried from the largest down, until one leaves out too many rows. Of the n rows put
        aside at most (1 − coverage)(n + 1) − 1 may have a residual beyond the edge, by noisy counts
        and with a margin for their noise; see docs/guarantees/intervals.md.
        """
        left_out = 1.0 - coverage
        beyond = self.counts[::-1].cumsum()[::-1][1:]
        cells = np.arange(len(self.edges), 0, -1)  # beyond each edge
        variance = cells * coverage**2 + (len(self.counts) - cells) * left_out**2
        margin = -float(ndtri(NOISE_PROBABILITY)) * self.deviation * np.sqrt(variance)
        fine = beyond + margin <= left_out * self.counts.sum() - coverage
        too_many = np.flatnonzero(~fine)
        first = int(too_many[-1]) + 1 if len(too_many) else 0
        return None if first == len(self.edges) else int(self.edges[first])

    def to_payload(self) -> dict[str, Any]:
        """Return what a model's file holds."""
        return {"edges": self.edges, "counts": self.counts, "deviation": self.deviation}

    @classmethod
    def from_payload(cls, payload: Any, least: int) -> Self:
        """Read and check what a file holds; `least` is the least edge."""
        payload = need_keys(payload, "nonconformity", {"edges", "counts", "deviation"})
        edges, counts = payload["edges"], payload["counts"]
        fits = isinstance(edges, np.ndarray) and edges.ndim == 1 and len(edges) < _MOST_CELLS
        need(fits, "nonconformity.edges", "an array of one dimension is needed")
        need_array(edges, "nonconformity.edges", np.int32, (len(edges),), least, LARGEST_RESIDUAL)
        need(bool((edges[1:] > edges[:-1]).all()), "nonconformity.edges", "edges must increase")
        need_finite(counts, "nonconformity.counts", (len(edges) + 1,))
        deviation = need_number(payload["deviation"], "nonconformity.deviation", 0)
        return cls(edges, counts, deviation)
