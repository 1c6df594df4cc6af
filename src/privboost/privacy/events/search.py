"""The event of a hyperparameter search: the best of a random number of hidden runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from privboost.privacy.events.event import Event
from privboost.randomness.run_counts import mean_runs
from privboost.reports.curve import ORDERS, Curve

_UP = 1 + 1e-12


@dataclass(frozen=True)
class SearchRelease(Event):
    """The run with the best released score, of K runs with P(K = k) ∝ (1 − γ)^k / k.

    With ρ(α) the divergence of one run, that of the search is, for any order λ,
    ρ(α) + (1 − 1/λ)ρ(λ) + ln(1/γ)/λ + ln E[K]/(α − 1): the theorem of Papernot and Steinke for
    truncated negative binomial numbers of runs with η = 0.

    Attributes
    ----------
    noise : float
        1: each run has noise of its own.
    stop : float
        γ.
    rho : tuple of float or None
        Divergence of one run at each of `ORDERS`.
    """

    kind: ClassVar[str] = "search"
    plain_mu_squared: ClassVar[float] = 1.0
    stop: float
    rho: tuple[float | None, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.stop < 1:
            raise ValueError("the stopping probability must lie between 0 and 1")

    def rdp(self, alpha: int) -> float | None:
        """Return the Rényi divergence of the winner: its score, model and parameters."""
        own = Curve(None, 0.0, self.rho).rho_at(alpha)
        spread = math.log(mean_runs(self.stop)) / (alpha - 1)
        return (own + self._hidden + spread) * _UP

    @property
    def _hidden(self) -> float:
        """Cost of the hidden runs, at the order that makes it least."""
        known = [(o, r) for o, r in zip(ORDERS, self.rho, strict=True) if r is not None]
        costs = [(1 - 1 / o) * r + math.log(1 / self.stop) / o for o, r in known]
        return min(costs, default=math.inf)

    @property
    def mechanism(self) -> str:
        """Description of the mechanism."""
        return (
            f"the best of about {mean_runs(self.stop):.3g} runs, whose number is random and hidden "
            "(logarithmic), each with its own noise"
        )
