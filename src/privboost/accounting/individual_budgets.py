"""Individual privacy filters as events: one budget covers all releases that a filter permits.

An accountant sees the budget alone; `charge_table` turns it into charges of single rows.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from privboost._core.errors import BudgetError
from privboost.accounting.events import Event
from privboost.accounting.formulas import round_up, subsampled_gaussian_rdp
from privboost.accounting.noisy_sums import GaussianRelease

_LEVELS = 1024
"""Levels to which a share is rounded up before its Rényi divergence is computed."""


@dataclass(frozen=True)
class IndividualBudget(Event):
    """An individual privacy filter: the charges of each row stay within one budget.

    `releases` is the largest number of releases within it: fixed, whatever the rows have left.
    """

    releases: int

    def check(self, event: GaussianRelease, count: int, used: int) -> None:
        """Raise unless further releases of a kind fit within the budget."""
        if used + count > self.releases:
            raise BudgetError(f"the budget has no releases left for this: {self.what}")
        if not self.admits(event):
            raise BudgetError(
                f"the budget of earlier rows does not cover {event.what!r} ({self.what}): the new "
                "noise is too small for it, or rows would be sampled. Use a smaller epsilon or "
                "more trees, nearer to what the stream began with, and the same subsample"
            )

    @abstractmethod
    def admits(self, event: GaussianRelease) -> bool:
        """Whether a release can be charged to this budget."""

    @abstractmethod
    def part(self, event: GaussianRelease, shares: np.ndarray) -> np.ndarray:
        """Return the fraction of the budget that a release costs rows with these shares."""


@dataclass(frozen=True)
class GaussianBudget(IndividualBudget):
    """A budget of μ² for each row: all releases together are μ-Gaussian-DP. Full batches only.

    Attributes
    ----------
    noise : float
        1/μ.
    touched : int
        Number of coordinates that one unit can change in one release.
    least_sigma : float
        Smallest noise scale of releases within the budget, in grid steps.
    """

    kind: ClassVar[str] = "gaussian budget"
    plain_mu_squared: ClassVar[float] = 1.0
    touched: int
    least_sigma: float

    def admits(self, event: GaussianRelease) -> bool:
        """Whether a release is a full batch on the grid that the budget's slack assumes."""
        return (
            event.sampling_rate == 1
            and event.touched <= self.touched
            and float(event.sigmas.min()) >= self.least_sigma
        )

    def part(self, event: GaussianRelease, shares: np.ndarray) -> np.ndarray:
        """Return s/z² over μ²."""
        return shares * (self.noise / event.noise) ** 2

    @property
    def mu(self) -> float | None:
        return 1 / self.noise

    def rdp(self, alpha: int) -> float | None:
        return alpha / (2 * self.noise**2)

    def pld(self, grid: float) -> Any:
        from dp_accounting.pld import privacy_loss_distribution

        return privacy_loss_distribution.from_gaussian_mechanism(
            self.noise, value_discretization_interval=grid
        )

    @property
    def has_pld(self) -> bool:
        return True

    @property
    def gaussian_grid(self) -> tuple[int, float] | None:
        """Number of coordinates of all releases, and the smallest noise scale among them."""
        return self.releases * self.touched, self.least_sigma

    def scaled(self, factor: float) -> Self:
        return replace(self, noise=self.noise * factor, least_sigma=self.least_sigma * factor)

    @property
    def mechanism(self) -> str:
        return (
            f"discrete Gaussian noise with an individual filter: each row's own charges stay "
            f"within mu = {round_up(1 / self.noise)} over at most {self.releases} releases"
        )


@dataclass(frozen=True)
class RenyiBudget(IndividualBudget):
    """A budget ρ of Rényi divergence of one order α for each row; releases may be sampled.

    Attributes
    ----------
    noise : float
        1/ρ.
    alpha : int
        The order, the same for all releases.
    """

    kind: ClassVar[str] = "renyi budget"
    alpha: int

    @property
    def rho(self) -> float:
        """The budget."""
        return 1 / self.noise

    def admits(self, event: GaussianRelease) -> bool:
        """Whether a release can be charged: any Gaussian one."""
        return True

    def part(self, event: GaussianRelease, shares: np.ndarray) -> np.ndarray:
        """Return the Rényi divergence over ρ, for shares rounded up to a grid."""
        levels = np.ceil(shares * _LEVELS).astype(np.int64)
        cost = np.zeros(_LEVELS + 1)
        for level in np.unique(levels):
            cost[level] = subsampled_gaussian_rdp(
                self.alpha, event.sampling_rate, event.noise, level / _LEVELS
            )
        part: np.ndarray = cost[levels] / self.rho
        return part

    def rdp(self, alpha: int) -> float | None:
        """Return ρ up to the budget's own order (divergences grow with it), infinity beyond."""
        return self.rho if alpha <= self.alpha else math.inf

    @property
    def mechanism(self) -> str:
        return (
            f"discrete Gaussian noise with an individual filter: each row's own charges stay "
            f"within a Rényi divergence of {round_up(self.rho)} at order {self.alpha} over at most "
            f"{self.releases} releases"
        )


_KINDS = {kind.kind: kind for kind in (GaussianBudget, RenyiBudget)}


def budget_from_dict(form: dict[str, Any]) -> IndividualBudget:
    """Read a budget from its `to_dict`."""
    fields = {name: value for name, value in form.items() if name != "kind"}
    return _KINDS[form["kind"]](**fields)
