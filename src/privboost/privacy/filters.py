"""Individual accounting: what each row's own contribution costs, and when it has given enough.

A release is charged to a row by the row's own share of the sensitivity,
s = share_g·(g/g*)² + share_h·(h/h*)², instead of the worst case 1. A row takes part in a round
only if its charges so far and the one about to be made stay within its budget; then the whole run
satisfies the budget for every row, however many rounds there are. Every active row is charged in
each round, whether or not it was sampled. Charges are tables on the row's state like gradients,
rounded up; shards evaluate them, and who is active never leaves a shard.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from privboost.engine.commands import GRADIENT_HESSIAN, Charge
from privboost.grid import BUDGET_UNITS, UNIT, WEIGHT_CLASSES
from privboost.losses import UNKNOWN, LossTable
from privboost.privacy.events import GaussianRelease
from privboost.privacy.formulas import subsampled_gaussian_rdp

_LEVELS = 1024
"""Steps to which a share is rounded up before its Rényi divergence is computed."""


class RowFilter(ABC):
    """A budget for each row, for life, and what a release costs of it."""

    def charge(
        self,
        loss: LossTable,
        event: GaussianRelease,
        output: int = 0,
        statistics: tuple[str, ...] = GRADIENT_HESSIAN,
    ) -> Charge:
        """Return what a release of these statistics costs each kind of row."""
        return Charge(_units(self._part(_shares(loss, event, statistics), event)), output)

    @abstractmethod
    def _part(self, shares: np.ndarray, event: GaussianRelease) -> np.ndarray:
        """The part of a budget that each share of the sensitivity costs."""


@dataclass(frozen=True)
class GaussianFilter(RowFilter):
    """A budget of μ² for each row; full batches only.

    Dropping a row once Σ s/z² would exceed μ² makes all rounds together μ-Gaussian-DP.
    """

    mu: float

    def _part(self, shares: np.ndarray, event: GaussianRelease) -> np.ndarray:
        if event.sampling_rate != 1:
            raise ValueError("the Gaussian filter needs full batches: use the Rényi filter")
        return shares / (event.noise * self.mu) ** 2


@dataclass(frozen=True)
class RenyiFilter(RowFilter):
    """A budget ρ of Rényi divergence at one order for each row; with sampling.

    Parameters
    ----------
    alpha : int
        The order, fixed for life.
    rho : float
        The budget at that order.
    """

    alpha: int
    rho: float

    def _part(self, shares: np.ndarray, event: GaussianRelease) -> np.ndarray:
        levels = np.ceil(shares * _LEVELS).astype(np.int64)
        cost = np.zeros(_LEVELS + 1)
        for level in np.unique(levels):
            cost[level] = subsampled_gaussian_rdp(
                self.alpha, event.sampling_rate, event.noise, level / _LEVELS
            )
        part: np.ndarray = cost[levels] / self.rho
        return part


def _shares(loss: LossTable, event: GaussianRelease, statistics: tuple[str, ...]) -> np.ndarray:
    """Each row's share of the squared sensitivity: by weight class, kind of row and state."""
    count = np.ones(loss.gradient.shape)
    count[UNKNOWN] = 0
    sizes = {"gradient": loss.gradient / UNIT, "hessian": loss.hessian / UNIT, "count": count}
    parts = zip(event.shares, statistics, strict=True)
    share = sum(part * sizes[name] ** 2 for part, name in parts)
    weight = np.arange(WEIGHT_CLASSES + 1) / WEIGHT_CLASSES
    return np.minimum(weight[:, None, None] ** 2 * share * (1 + 1e-12), 1.0)


def _units(part: np.ndarray) -> np.ndarray:
    """Write charges as parts of a budget, rounded up; what exceeds it is never affordable."""
    units = np.ceil(np.minimum(part, 2.0) * BUDGET_UNITS * (1 + 1e-12))
    return np.where(part > 0, np.maximum(units, 1), 0).astype(np.int64)
