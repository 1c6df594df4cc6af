"""Priors of effects: covariances of a feature's bins, and of a pair's cells."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from privboost.boosting import posterior_kernels as kernels
from privboost.compiling import compiled

RIDGE, ROUGH = 0.1, 5.0
"""Precisions of differences of neighbouring bins (`ROUGH`), and of each bin (`RIDGE`)."""

_RIDGE, _ROUGH, _OWN = 0.1, 0.375, 0.2
"""A pair's prior: a product of random walks, and independent variance of each cell."""


@dataclass(frozen=True, eq=False)
class Prior:
    """Prior of an effect's values, up to its variance.

    Attributes
    ----------
    precision : float array of shape (bins, bins)
        Lower half of the precision matrix, for a variance of 1.
    least : float array
        Pivots of its factor: measurements only increase them.
    first : int array
        First bin that each bin is coupled with.
    learned : bool array
        Bins that have an effect.
    """

    precision: np.ndarray
    least: np.ndarray
    first: np.ndarray
    learned: np.ndarray

    @classmethod
    def of(cls, precision: np.ndarray, first: np.ndarray, learned: np.ndarray) -> Prior:
        """Return the prior of a precision, which nobody can change any more."""
        none = np.zeros_like(precision)
        inverse = kernels.root_of(none, precision, none[0], first, 1.0)[-1]
        parts = precision, 1 / inverse, first, learned
        for part in parts:
            part.flags.writeable = False
        return cls(*parts)


def prior_of(ordered: int, learned: np.ndarray) -> Prior:
    """Return the prior of a feature.

    Parameters
    ----------
    ordered : int
        Number of ordered bins, those of a number, which come first.
    learned : bool array
        Bins that have an effect.
    """
    return _walk_prior(ordered, learned.tobytes())


@lru_cache(maxsize=256)
def _walk_prior(ordered: int, learned: bytes) -> Prior:
    """Return the prior that features of one shape share."""
    known = np.frombuffer(learned, dtype=np.bool_)
    precision, first = np.eye(len(known)), np.arange(len(known))
    steps = np.diff(np.eye(ordered), axis=0)
    precision[:ordered, :ordered] = RIDGE * np.eye(ordered) + ROUGH * (steps.T @ steps)
    first[1:ordered] -= 1
    return Prior.of(precision, first, known)


@lru_cache(maxsize=16)
def grid_prior(side: int) -> Prior:
    """Return the prior of a pair's cells: neighbours along both sides are correlated."""
    covariance = _grid_covariance(kernels.walk_basis(side, _RIDGE, _ROUGH))
    cells = len(covariance)
    first, none = np.zeros(cells, dtype=np.int64), np.zeros((cells, cells))
    precision = np.eye(cells)
    kernels.solve(*kernels.root_of(none, covariance, none[0], first, 1.0), precision)
    return Prior.of(precision, first, np.ones(cells, dtype=np.bool_))


@compiled
def _grid_covariance(walk):  # type: ignore[no-untyped-def]
    """Return the covariance of all cells of two sides."""
    side = walk.shape[0]
    line = np.zeros((side, side))
    for i in range(side):
        for j in range(side):
            for k in range(side):
                line[i, j] += walk[i, k] * walk[j, k]
    size = 0.0
    for i in range(side):
        size += line[i, i] / side
    cells = np.empty((side * side, side * side))
    for i in range(side * side):
        for j in range(side * side):
            own = line[i // side, j // side] / size * (line[i % side, j % side] / size)
            cells[i, j] = own + (_OWN if i == j else 0.0)
    return cells
