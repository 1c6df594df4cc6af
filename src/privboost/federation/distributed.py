"""Parties add the noise together: each draws a part, and the sum replaces one draw.

Of k parties d may be lost and c may reveal their noise to the server. So every sum has the noise
of k − c − d honest parties, and each draws discrete Gaussian noise of 1/(k − c − d) of the
variance. The sum of m discrete Gaussians of scale s is, at every integer, within e^{±τ} of one
discrete Gaussian of scale s√m, with τ ≤ 10 · Σ_{j<m} exp(−2π²s²·j/(j+1)):
docs/guarantees/federation.md.
"""

from __future__ import annotations

import math

from privboost.boosting.plan import Plan
from privboost.errors import FederationError
from privboost.federation.quorum import Quorum
from privboost.privacy.budgets.life import LifeBudget
from privboost.privacy.events.event import Event
from privboost.privacy.events.sums import GaussianRelease, GramRelease, VectorRelease
from privboost.recipes.adassp import AdaSSPPlan

GAUSSIAN = (GaussianRelease, VectorRelease, GramRelease)
"""Events whose noise parties can add: these classes, not their subclasses."""
LEAST_SCALE = 2.0**8
"""The least scale of one party's noise, in grid steps."""
SLACK = 1e-300
"""Bound of the ε that a run loses because noise is a sum: from `LEAST_SCALE` on, τ of one number
is below 10 · 2¹² · exp(−6 · 10⁵)."""


def noise_part(quorum: Quorum) -> float:
    """Return a party's part of the noise's standard deviation, rounded up."""
    return math.nextafter(1 / math.sqrt(quorum.honest), math.inf)


def sum_slack(scale: float, parties: int) -> float:
    """Return the bound τ of one number: the log-ratio of a sum of discrete Gaussians to one."""
    ratios = (j / (j + 1) for j in range(1, parties))
    return math.fsum(10 * math.exp(-2 * math.pi**2 * scale**2 * ratio) for ratio in ratios)


def check_distributed(plan: Plan, quorum: Quorum) -> None:
    """Refuse a plan whose noise parties cannot add."""
    if isinstance(plan, AdaSSPPlan) and plan.least is not None:
        raise FederationError(
            'trust: the smallest eigenvalue needs a server that is trusted, trust="server"'
        )
    for planned in plan.releases:
        event = planned.event
        if not isinstance(event, LifeBudget) and type(event) not in GAUSSIAN:
            raise FederationError(
                f'trust: {event.what!r} needs a server that is trusted, trust="server" '
                f"({event.mechanism})"
            )
        check_scale(event, noise_part(quorum))


def check_scale(event: Event, part: float) -> None:
    """Refuse noise of which a party's part would be below `LEAST_SCALE`."""
    grid = event.gaussian_grid  # None for a Rényi budget: its releases are checked one by one
    if grid is not None and not grid[1] * part >= LEAST_SCALE:
        raise FederationError(
            f"trust: the noise of {event.what!r} is too little to be divided among parties"
        )
