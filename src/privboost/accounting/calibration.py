"""Calibration: the noise with which a plan of releases costs a budget of (ε, δ)."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privboost._core.files import write_file
from privboost._core.grid import CLIP_STEPS
from privboost.accounting.accountants import Accountant, choose_accountant, compare_accountants
from privboost.accounting.events import Planned, Selection
from privboost.accounting.formulas import gdp_mu, safe_root
from privboost.accounting.noisy_sums import GaussianRelease, LaplaceRelease

LEAST_DELTA = 1e-300
"""Smallest positive δ: below it logarithms lose their digits."""
LEAST_RATE = 1e-6
"""Smallest sampling rate: below it, a usual δ covers the whole probability of being sampled."""
_EXACT_TOLERANCE = 1e-7
"""Relative part of ε left unspent by root finding, so that rounding never overspends."""
_TOLERANCE = 2e-3
"""The same for slow accountants, which are evaluated a few times only."""
_MIN_SAMPLED_NOISE = 0.1
"""Least start of the search for sampled releases, which need more noise than a Gaussian."""
_MAX_CACHE_RATIO = 1e3
"""A cached factor that is further than this from the first guess is no result for its plan."""
_MAX_STEPS, _POWER_STEPS = 30, 8
_JUMP = 1e-4
"""Relative change of noise below which a change of cost counts as a jump."""
_MAX_EPSILON = 1e50
_MAX_RELEASES = 10**9
_MIN_SHARE = 1e-6
_LARGE_DELTA = (
    "delta is so large that it allows releases nearly without noise, whatever epsilon is: choose "
    "it far below one over the number of protected units, and below the sampling rate of rows "
    "(subsample)"
)
_VERSION = 2

_Cost = Callable[[float], float]


def calibrate(
    events: Sequence[Planned],
    epsilon: float,
    delta: float,
    accountant: Accountant,
    before: Sequence[Planned] = (),
) -> tuple[Planned, ...]:
    """Multiply all noise by the smallest factor with which the plan costs at most (ε, δ).

    Parameters
    ----------
    events : sequence of Planned
        The plan; only ratios between its amounts of noise matter. See `by_shares`.
    epsilon, delta : float
        The budget.
    accountant : Accountant
        Computes the cost. Factors of slow accountants are cached on disk by the plan's hash; the
        ledger checks the cost of a cached factor like that of any other plan.
    before : sequence of Planned
        Releases that are paid from the same budget already.

    Returns
    -------
    tuple of Planned
        The plan with calibrated noise: it spends at most ε, and at least 99 % of it.
    """
    if not events:
        raise ValueError("a plan without releases has nothing to calibrate")

    def cost(factor: float) -> float:
        scaled = [planned.scaled(factor) for planned in events]
        return accountant.cost([*before, *scaled], delta)

    if accountant.closed_form:
        factor = _solve(cost, epsilon)
    else:
        if epsilon < accountant.min_epsilon:
            raise ValueError(
                f"epsilon is too small for Rényi accounting, which is loose below "
                f"{accountant.min_epsilon:g}: raise it"
            )
        _check_samples(events, delta)
        path = _cache_path([*before, *events], epsilon, delta, accountant)
        guess = _first_guess(events, epsilon, delta)
        found = _read_factor(path, guess)
        if found is None or not 0.99 * epsilon <= cost(found) <= epsilon:
            found = _approach(cost, epsilon, guess)
            _write_factor(path, found)
        factor = found
    return tuple(planned.scaled(factor) for planned in events)


def by_shares(parts: Sequence[tuple[Planned, float]]) -> tuple[Planned, ...]:
    """Return a plan whose parts have prescribed shares of its total μ².

    A Gaussian release counts 1/z² of μ², a selection ε₀²/4, a Laplace release 2ε²; the releases of
    a part divide its share evenly. Parts of share 0 are left out.
    """
    shares = [share for _, share in parts]
    if any(not (math.isfinite(s) and s >= 0) for s in shares) or not sum(shares) > 0:
        raise ValueError("shares must be numbers of at least 0, not all of them 0")
    planned = []
    for part, share in parts:
        if share > 0 and part.count > 0:
            weight = share / sum(shares) / part.count
            event = part.event
            noise = event.sampling_rate * math.sqrt(
                event.plain_mu_squared / weight
            )  # a sample needs less
            planned.append(part.scaled(noise / event.noise))
    return tuple(planned)


def _solve(cost: _Cost, epsilon: float) -> float:
    """Find the factor by root finding, with an accountant in closed form."""
    target = epsilon * (1 - _EXACT_TOLERANCE)

    def excess(log_factor: float) -> float:
        return min(cost(math.exp(log_factor)), 1e300) - target

    low, high = -1.0, 1.0
    while excess(high) > 0:
        low, high = high, high + 2
        if high > 60:
            raise ValueError("no amount of noise reaches this epsilon and delta")
    while excess(low) < 0:
        low, high = low - 2, low
    holds: Callable[[float], bool] = lambda x: cost(math.exp(x)) <= epsilon  # noqa: E731
    up: _Cost = lambda x: x + 1e-9  # noqa: E731
    return math.exp(safe_root(excess, (low, high), holds, up, xtol=1e-12, rtol=1e-12))


def _approach(cost: _Cost, epsilon: float, factor: float) -> float:
    """Find the factor from a guess: ε is nearly proportional to a power of the factor.

    Where it is not, as with small samples, power steps oscillate: then the bracket is bisected.
    """
    target = epsilon * (1 - _TOLERANCE / 2)
    spent = cost(factor)
    power = 1.0
    best, most = 0.0, 0.99 * epsilon  # costs on a grid may jump over the tolerance
    low, high = 0.0, math.inf  # bracket: too little noise, and enough
    for number in range(_MAX_STEPS):
        if (1 - _TOLERANCE) * epsilon <= spent <= epsilon:
            return factor
        low, high = (low, min(high, factor)) if spent <= epsilon else (max(low, factor), high)
        if most <= spent <= epsilon:
            best, most = factor, spent
        if number >= _POWER_STEPS and 0 < low < high < math.inf:
            if high / low < 1 + _JUMP:
                break
            factor = math.sqrt(low * high)
            spent = cost(factor)
            continue
        if not math.isfinite(spent):
            factor *= 2
            spent = cost(factor)
            continue
        step = min(max((spent / target) ** (1 / power), 0.2), 5.0)
        before, factor = spent, factor * step
        spent = cost(factor)
        if 0 < spent < math.inf and before not in (0, spent) and step != 1:
            power = min(max(math.log(before / spent) / math.log(step), 0.3), 3.0)
    if best > 0:
        return best
    if high < math.inf or spent <= epsilon:  # and with less noise, still far less or far more
        raise ValueError(_LARGE_DELTA)
    raise ValueError("no amount of noise reaches this epsilon and delta")


def _check_samples(events: Sequence[Planned], delta: float) -> None:
    """Refuse a δ that covers the probability of being in any sample: no noise would be needed."""
    sampled = [planned for planned in events if planned.count]
    if all(planned.event.sampling_rate < 1 for planned in sampled):
        never = sum(planned.count * math.log1p(-planned.event.sampling_rate) for planned in sampled)
        if delta >= -math.expm1(never):
            raise ValueError(_LARGE_DELTA)


def _first_guess(events: Sequence[Planned], epsilon: float, delta: float) -> float:
    """Return the factor that Gaussian noise of the same μ² would need."""
    total = 0.0
    for planned in events:
        mu = planned.event.sampling_rate / planned.event.noise
        total += planned.count * planned.event.plain_mu_squared * mu * mu
    guess = math.sqrt(total) / gdp_mu(epsilon, delta)
    sampled = [planned.event.noise for planned in events if planned.event.sampling_rate < 1]
    return max(guess, _MIN_SAMPLED_NOISE / min(sampled)) if sampled else guess


def _cache_path(
    events: Sequence[Planned], epsilon: float, delta: float, accountant: Accountant
) -> Path | None:
    """Return the cache file of a plan's factor, or None without a cache folder."""
    plan = [{"count": p.count, **p.event.to_dict(), "what": ""} for p in events]
    text = json.dumps([_VERSION, accountant.name, epsilon, delta, plan], sort_keys=True)
    name = f"calibration-{hashlib.sha256(text.encode()).hexdigest()}.json"
    if folder := os.environ.get("PRIVBOOST_CACHE"):
        return Path(folder) / name
    try:
        return Path.home() / ".cache" / "privboost" / name
    except RuntimeError:  # the user has no home folder
        return None


def _read_factor(path: Path | None, guess: float) -> float | None:
    """Return a plausible cached factor, or None; anybody may have written the file."""
    if path is None:
        return None
    try:
        factor = json.loads(path.read_text())["factor"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    plausible = (
        isinstance(factor, float) and guess / _MAX_CACHE_RATIO < factor < guess * _MAX_CACHE_RATIO
    )
    return factor if plausible else None


def _write_factor(path: Path | None, factor: float) -> None:
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, json.dumps({"factor": factor}).encode())
    except OSError:  # the cache is optional
        return


@dataclass(frozen=True)
class CalibratedReleases:
    """A plan with calibrated noise, and its ε by every accountant that covers it."""

    epsilon: float
    delta: float
    accountant: str
    releases: tuple[Planned, ...]
    costs: dict[str, float]

    def to_text(self) -> str:
        """Return a human-readable summary."""
        lines = [f"for ({self.epsilon:g}, {self.delta:g})-DP, by the {self.accountant} accountant:"]
        for planned in self.releases:
            lines.append(f"  {planned.count} × {planned.event.what}: {planned.event.mechanism}")
            if planned.event.leaf_sigma is not None:
                lines.append(f"      sigma of a leaf release {planned.event.leaf_sigma:.6g}")
        lines.append("epsilon of this plan by each accountant:")
        lines += [f"  {name:5} {cost:.6g}" for name, cost in self.costs.items()]
        return "\n".join(lines)

    __str__ = to_text

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-compatible dict."""
        releases = [
            {
                "what": event.what,
                "count": count,
                "mechanism": event.mechanism,
                "noise": event.noise,
                **({} if event.leaf_sigma is None else {"leaf_sigma": event.leaf_sigma}),
            }
            for event, count in ((planned.event, planned.count) for planned in self.releases)
        ]
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "accountant": self.accountant,
            "releases": releases,
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
    """Return the noise that equal releases need, and their ε by each accountant.

    Rounds of Gaussian noise and Laplace releases may be sampled; selections have `selection_share`
    of the budget (on μ²), noisy sums the rest. δ may be 0 without Gaussian releases.
    """
    if not 0 < epsilon < _MAX_EPSILON:
        raise ValueError(
            f"epsilon must be a finite number above 0, and below {_MAX_EPSILON:g}; {epsilon!r} "
            "is not"
        )
    if delta != 0 and not LEAST_DELTA < delta < 1:
        raise ValueError(
            f"delta, if not 0, must be a finite number above {LEAST_DELTA:g} and below 1; "
            f"{delta!r} is not"
        )
    if min(rounds, selections, laplace) < 0 or max(rounds, selections, laplace) > _MAX_RELEASES:
        raise ValueError(
            "rounds, selections and laplace must be whole numbers of at least 0, and at most "
            f"{_MAX_RELEASES}"
        )
    if not LEAST_RATE <= sampling_rate <= 1:
        raise ValueError(
            f"sampling_rate must lie between {LEAST_RATE:g} and 1; {sampling_rate!r} does not"
        )
    if rounds + selections + laplace == 0:
        raise ValueError("give at least one of rounds, selections and laplace")
    if not _MIN_SHARE <= selection_share <= 1 - _MIN_SHARE:
        raise ValueError(
            f"selection_share must lie strictly between 0 and 1 (at least {_MIN_SHARE:g} from "
            f"both); {selection_share!r} does not"
        )
    sums = rounds + laplace
    rest = 1.0 if not selections else 1 - selection_share
    one = ("sums", 1.0, CLIP_STEPS, 1, 1, (1.0,), sampling_rate)
    noisy = (Planned(GaussianRelease(*one), rounds), Planned(LaplaceRelease(*one), laplace))
    shared = [(planned, rest * planned.count / sums) for planned in noisy if planned.count]
    if selections:
        share = selection_share if sums else 1.0
        shared.append((Planned(Selection("choices", 1.0), selections), share))
    plan = by_shares(shared)
    chosen = choose_accountant(accountant, plan, delta)
    made = calibrate(plan, epsilon, delta, chosen)
    costs = compare_accountants(made, delta)
    return CalibratedReleases(epsilon, delta, chosen.name, made, costs)
