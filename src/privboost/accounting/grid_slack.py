"""Slack of theories for continuous noise when noise is drawn on an integer grid.

Let P_d be a discrete Gaussian of scale σ and P_r a continuous one rounded to integers. For every
integer k, P_d(k) ≤ e^a P_r(k) with a = 1/(24σ²) + ν, and for |k| ≤ zσ also P_r(k) ≤ e^b P_d(k)
with b = z²/(24σ²) · e^{z²/8σ²} + ν, where ν = 3 e^{−2π²σ²} covers the two normalisers. For
Laplace noise of scale s the same holds for all k with a = 1/(2s) and b = 1/(8s²). Replacing one by
the other in all coordinates that a unit can touch, first under one table and then under its
neighbour, turns (ε, δ) into (ε + Σa + Σb, e^{Σa}(δ + e^ε τ)), where τ bounds the probability that
one of the Gaussian coordinates exceeds z. `docs/guarantees/gaussian_release.md` has the proof.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from privboost.accounting.events import Planned

EXCHANGE_ROOM = 1 + 1e-4
"""Factor by which releases may exceed the μ² of the reservation that they replace: calibrations
are rounded."""
_TAIL = 1e-9
"""e^ε τ relative to δ; a larger z costs more ε, a smaller one more δ."""
_ROUNDING = 1e-9
"""Relative part of δ kept for float64 rounding in the formulas."""
_GRID_BY_MU = 2.0**-20
"""Least Σ coordinates/σ² relative to μ² that is allowed for."""
_MIN_SIGMA = 2.0**10


def grid_size(plan: Sequence[Planned], least: float = 0.0) -> float:
    """Return Σ coordinates/σ² of Gaussian releases, which determines the slack of their grid.

    The result is infinite where σ is too small for that. `least` times its μ² is a lower bound for
    each release.
    """
    total = 0.0
    for planned in plan:
        grid, mu = planned.event.gaussian_grid, planned.event.mu
        if grid is None or mu is None or not planned.count:
            continue
        if grid[1] < _MIN_SIGMA:
            return math.inf
        total += planned.count * max(1.01 * grid[0] / grid[1] ** 2, least * mu**2)
    return total


def grid_allowed(plan: Sequence[Planned]) -> float:
    """Return an upper bound of `grid_size` for everything that may replace parts of a plan."""
    return grid_size(plan, _GRID_BY_MU)


@dataclass(frozen=True)
class Slack:
    """Slack of the grid for one composition."""

    epsilon: float
    """Σa + Σb, to be added to the continuous ε."""
    delta: float
    """The δ at which the continuous ε is taken: at most e^{−Σa} δ − e^ε τ."""


def discretisation_slack(events: Sequence[Planned], delta: float, epsilon: float) -> Slack:
    """Return the slack of noisy sums at the δ of the guarantee; selections have none.

    `epsilon` is an upper bound of the continuous ε.
    """
    forward = backward = 0.0
    gaussian = [
        (planned.count * grid[0], grid[1])
        for planned in events
        if (grid := planned.event.gaussian_grid) is not None
    ]
    if gaussian:
        touched = sum(count for count, _ in gaussian)
        # A rounded Gaussian beyond zσ was beyond zσ − ½ before: τ ≤ touched · 2Φ(−(z − 1/2σ)). As
        # 2Φ(−x) ≤ 2 exp(−x²/2), this z has e^ε τ ≤ _TAIL · δ.
        log_odds = math.log(2 * touched) - math.log(_TAIL) - math.log(delta) + epsilon
        z = math.sqrt(2 * log_odds) + 1 / (2 * min(s for _, s in gaussian))
        forward += sum(count * (1 / (24 * s * s) + _normaliser(s)) for count, s in gaussian)
        backward += sum(count * (_ratio(z / s) + _normaliser(s)) for count, s in gaussian)
    for planned in events:
        grid = planned.event.laplace_grid
        if grid is not None:
            count, s = planned.count * grid[0], grid[1]
            forward += count / (2 * s)
            backward += count / (8 * s * s)
    return Slack(forward + backward, delta * (math.exp(-forward) - _TAIL - _ROUNDING))


def _ratio(step: float) -> float:
    return step**2 / 24 * math.exp(min(step**2 / 8, 700.0))


def _normaliser(sigma: float) -> float:
    return 3 * math.exp(-2 * math.pi**2 * sigma**2)
