"""How much noise a plan of equal releases needs, before any data are touched."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from privboost.grid import CLIP_STEPS
from privboost.privacy.accountants.choice import choose_accountant, compare_accountants
from privboost.privacy.calibration import LEAST_DELTA, LEAST_RATE, by_shares, calibrate
from privboost.privacy.events.event import Planned, Selection
from privboost.privacy.events.sums import GaussianRelease, LaplaceRelease

_MOST_EPSILON = 1e50
_MOST_RELEASES = 10**9
_LEAST_SHARE = 1e-6


@dataclass(frozen=True)
class CalibratedReleases:
    """A plan with just enough noise.

    Attributes
    ----------
    epsilon, delta : float
        The budget.
    accountant : str
        Who computed the noise.
    releases : tuple of Planned
        The plan.
    costs : dict
        The ε of this plan by every accountant that covers it.
    """

    epsilon: float
    delta: float
    accountant: str
    releases: tuple[Planned, ...]
    costs: dict[str, float]

    def to_text(self) -> str:
        """Return all of it for people."""
        lines = [f"for ({self.epsilon:g}, {self.delta:g})-DP, by the {self.accountant} accountant:"]
        for planned in self.releases:
            lines.append(f"  {planned.count} × {planned.event.what}: {planned.event.mechanism}")
            if isinstance(planned.event, GaussianRelease):
                lines.append(f"      sigma of a leaf release {_leaf_sigma(planned.event):.6g}")
        lines.append("epsilon of this plan by each accountant:")
        lines += [f"  {name:5} {cost:.6g}" for name, cost in self.costs.items()]
        return "\n".join(lines)

    __str__ = to_text

    def to_dict(self) -> dict[str, Any]:
        """Return a form for JSON."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "accountant": self.accountant,
            "releases": [_form(planned) for planned in self.releases],
            "epsilon_by_accountant": self.costs,
        }


def calibrate_releases(
    epsilon: float,
    delta: float,
    rounds: int = 0,
    sampling_rate: float = 1.0,
    selections: int = 0,
    selection_share: float = 0.7,
    laplace: int = 0,
    accountant: str = "auto",
) -> CalibratedReleases:
    """Say what noise a plan of equal releases needs, and what each accountant says of it.

    Parameters
    ----------
    epsilon, delta : float
        The budget; delta may be 0 without Gaussian releases.
    rounds, selections, laplace : int
        How many Gaussian releases, selections and Laplace releases there are.
    sampling_rate : float
        The chance of a row to be used in a Gaussian or Laplace release.
    selection_share : float
        The part of the budget (on μ²) that selections have beside noisy sums.
    accountant : str
        See `accountants.choice.choose_accountant`.
    """
    if not 0 < epsilon < _MOST_EPSILON:
        raise ValueError(
            f"epsilon must be a finite number above 0, and below {_MOST_EPSILON:g}; {epsilon!r} "
            "is not"
        )
    if delta != 0 and not LEAST_DELTA < delta < 1:
        raise ValueError(
            f"delta, if not 0, must be a finite number above {LEAST_DELTA:g} and below 1; "
            f"{delta!r} is not"
        )
    if min(rounds, selections, laplace) < 0 or max(rounds, selections, laplace) > _MOST_RELEASES:
        raise ValueError(
            "rounds, selections and laplace must be whole numbers of at least 0, and at most "
            f"{_MOST_RELEASES}"
        )
    if not LEAST_RATE <= sampling_rate <= 1:
        raise ValueError(
            f"sampling_rate must lie between {LEAST_RATE:g} and 1; {sampling_rate!r} does not"
        )
    if rounds + selections + laplace == 0:
        raise ValueError("give at least one of rounds, selections and laplace")
    if not _LEAST_SHARE <= selection_share <= 1 - _LEAST_SHARE:
        raise ValueError(
            f"selection_share must lie strictly between 0 and 1 (at least {_LEAST_SHARE:g} from "
            f"both); {selection_share!r} does not"
        )
    sums = rounds + laplace
    rest = 1.0 if not selections else 1 - selection_share
    parts = [
        (
            Planned(GaussianRelease("sums", 1.0, CLIP_STEPS, 1, 1, (1.0,), sampling_rate), rounds),
            rounds,
        ),
        (
            Planned(LaplaceRelease("sums", 1.0, CLIP_STEPS, 1, 1, (1.0,), sampling_rate), laplace),
            laplace,
        ),
    ]
    shared = [(planned, rest * count / sums) for planned, count in parts if count]
    if selections:
        share = selection_share if sums else 1.0
        shared.append((Planned(Selection("choices", 1.0), selections), share))
    plan = by_shares(shared)
    chosen = choose_accountant(accountant, plan, delta)
    made = calibrate(plan, epsilon, delta, chosen)
    costs = compare_accountants(made, delta)
    return CalibratedReleases(epsilon, delta, chosen.name, made, costs)


def _form(planned: Planned) -> dict[str, Any]:
    event = planned.event
    form = {
        "what": event.what,
        "count": planned.count,
        "mechanism": event.mechanism,
        "noise": event.noise,
    }
    return form | ({"leaf_sigma": _leaf_sigma(event)} if isinstance(event, GaussianRelease) else {})


def _leaf_sigma(event: GaussianRelease) -> float:
    """Return the noise of a release of leaves, which has two sums."""
    return math.sqrt(2) * event.noise
