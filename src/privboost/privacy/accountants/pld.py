"""Privacy loss distributions, by Google's dp-accounting."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from privboost.privacy.accountants.rdp import gaussian_rdp_epsilon

_CELLS = 2000
"""Grid cells within ε: the pessimistic rounding then costs about a thousandth of ε at most."""
_FINEST = 1e-4
_LEAST_DELTA = 1e-14
"""dp-accounting cuts tails of mass 1e-15."""


@dataclass(frozen=True)
class PldProfile:
    """A privacy curve from a distribution that is built for the grid that an answer needs."""

    build: Callable[[float], Any]
    bound: Callable[[float], float]

    def epsilon(self, delta: float) -> float:
        """Return an ε for which (ε, δ)-DP is proved; never above the Rényi bound."""
        if delta < _LEAST_DELTA:
            raise ValueError(f"delta is below what pld can resolve ({_LEAST_DELTA:g}): use rdp")
        bound = self.bound(delta)
        if bound == 0:
            return 0.0
        answer = float(self.build(min(_FINEST, bound / _CELLS)).get_epsilon_for_delta(delta))
        if not (math.isfinite(answer) and answer >= 0):
            raise ValueError("dp-accounting gave no usable epsilon: use rdp")
        return min(answer, bound)

    def delta(self, epsilon: float) -> float:
        """Return a δ for which (ε, δ)-DP is proved."""
        grid = min(_FINEST, max(epsilon, 1e-3) / _CELLS)
        return min(1.0, float(self.build(grid).get_delta_for_epsilon(epsilon)) + _LEAST_DELTA)


def gaussian_pld(noise_multiplier: float, sampling_rate: float, rounds: int) -> PldProfile:
    """Compose equal Poisson-subsampled Gaussian releases."""
    return PldProfile(
        build=partial(_compose_gaussians, noise_multiplier, sampling_rate, rounds),
        bound=lambda delta: gaussian_rdp_epsilon(sampling_rate, rounds, delta, noise_multiplier),
    )


def _compose_gaussians(
    noise_multiplier: float, sampling_rate: float, rounds: int, grid: float
) -> Any:
    # Here and not above: the import takes seconds.
    from dp_accounting.pld import privacy_loss_distribution

    one = privacy_loss_distribution.from_gaussian_mechanism(
        noise_multiplier, sampling_prob=sampling_rate, value_discretization_interval=grid
    )
    return one.self_compose(rounds)
