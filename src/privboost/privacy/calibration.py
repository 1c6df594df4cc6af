"""From (ε, δ) and a plan of releases to noise scales."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from privboost.files import write_file
from privboost.privacy.accountants.base import Accountant
from privboost.privacy.events.event import Planned
from privboost.privacy.formulas import gdp_mu
from privboost.privacy.searches import safe_root

LEAST_DELTA = 1e-300
"""Below it, a δ that is not 0 has no logarithm, or no digits."""
LEAST_RATE = 1e-6
"""The least chance of a row to be sampled: below it, a usual δ covers sampled rows whole."""
_CLOSE = 1e-7
"""What a quick accountant leaves of ε, relatively, so that rounding never overspends."""
_NEAR = 2e-3
"""The same for a slow accountant, of which few answers are asked."""
_FIRST_NOISE = 0.1
"""Where the search begins at least, for samples: a Gaussian would need less, and they more."""
_FAR = 1e3
"""A factor on disk that is further than this from the first guess was never found for its plan."""
_LEAST_RENYI = 1e-5
"""About ln(1/δ) over the largest order: nearer to 0 the best order is beyond all of them."""
_TURNS, _QUICK_TURNS = 30, 8
_NARROW = 1e-4
"""Where so small a change of noise takes the cost from far too little to too much, it jumps."""
_LARGE_DELTA = (
    "delta is so large that it allows releases nearly without noise, whatever epsilon is: choose "
    "it far below one over the number of protected units, and below the chance of a row to be "
    "used (subsample)"
)
_QUICK = ("gdp", "pure")
_VERSION = 2

_Cost = Callable[[float], float]


def calibrate(
    events: Sequence[Planned],
    epsilon: float,
    delta: float,
    accountant: Accountant,
    before: Sequence[Planned] = (),
) -> tuple[Planned, ...]:
    """Multiply all noise by one factor, the smallest with which the plan costs at most (ε, δ).

    Parameters
    ----------
    events : sequence of Planned
        The plan; its amounts of noise matter only relative to each other. See `by_shares`.
    epsilon, delta : float
        The budget.
    accountant : Accountant
        Who computes the cost. The factors of slow ones are kept on disk, by the plan's hash; what
        a file says is checked like any other plan when it is reserved.
    before : sequence of Planned
        What is spent already, within the same budget.

    Returns
    -------
    tuple of Planned
        The same plan with calibrated noise: it spends at most ε, and at least 99 % of it.
    """
    if not events:
        raise ValueError("a plan without releases has nothing to calibrate")

    def cost(factor: float) -> float:
        scaled = [planned.scaled(factor) for planned in events]
        return accountant.cost([*before, *scaled], delta)

    if accountant.name in _QUICK:
        factor = _solve(cost, epsilon)
    else:
        if accountant.name == "rdp" and epsilon < _LEAST_RENYI:
            raise ValueError(
                f"epsilon is too small for Rényi accounting, which tells little below "
                f"{_LEAST_RENYI:g}: raise it"
            )
        _check_samples(events, delta)
        cached = _cache_file([*before, *events], epsilon, delta, accountant)
        guess = _first_guess(events, epsilon, delta)
        found = _read_factor(cached, guess)
        if found is None or not 0.99 * epsilon <= cost(found) <= epsilon:
            found = _approach(cost, epsilon, guess)
            _write_factor(cached, found)
        factor = found
    return tuple(planned.scaled(factor) for planned in events)


def by_shares(parts: Sequence[tuple[Planned, float]]) -> tuple[Planned, ...]:
    """Set the relative noise of a plan so that each part has its share of the whole μ².

    A Gaussian release counts 1/z² of μ², a selection ε₀²/4, a Laplace release 2ε²; a part's count
    of releases divide its share evenly.

    Parameters
    ----------
    parts : sequence of (Planned, share)
        Shares are not negative and not all zero; a part of share 0 is left out.
    """
    shares = [share for _, share in parts]
    if any(not (math.isfinite(s) and s >= 0) for s in shares) or not sum(shares) > 0:
        raise ValueError("shares must be numbers of at least 0, not all of them 0")
    planned = []
    for part, share in parts:
        if share > 0 and part.count > 0:
            weight = share / sum(shares) / part.count
            event = part.event
            noise = event.rate * math.sqrt(event.plain_mu_squared / weight)  # a sample needs less
            planned.append(part.scaled(noise / event.noise))
    return tuple(planned)


def _solve(cost: _Cost, epsilon: float) -> float:
    """Find the factor exactly, with an accountant that answers at once."""
    target = epsilon * (1 - _CLOSE)

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
    """Come near from a guess: ε is nearly proportional to a power of the factor.

    Where it is not, as with few rows sampled, steps go to and fro: then the gap is halved.
    """
    target = epsilon * (1 - _NEAR / 2)
    spent = cost(factor)
    power = 1.0
    best, most = 0.0, 0.99 * epsilon  # costs that jump, on a grid, may come no nearer
    low, high = 0.0, math.inf  # too little noise, and enough
    for turn in range(_TURNS):
        if (1 - _NEAR) * epsilon <= spent <= epsilon:
            return factor
        low, high = (low, min(high, factor)) if spent <= epsilon else (max(low, factor), high)
        if most <= spent <= epsilon:
            best, most = factor, spent
        if turn >= _QUICK_TURNS and 0 < low < high < math.inf:
            if high / low < 1 + _NARROW:
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
    """Refuse a δ that covers the whole chance of a row to be in any sample: no noise is needed."""
    sampled = [planned for planned in events if planned.count]
    if all(planned.event.rate < 1 for planned in sampled):
        never = sum(planned.count * math.log1p(-planned.event.rate) for planned in sampled)
        if delta >= -math.expm1(never):
            raise ValueError(_LARGE_DELTA)


def _first_guess(events: Sequence[Planned], epsilon: float, delta: float) -> float:
    """The factor that a Gaussian of the same μ² would need."""
    total = 0.0
    for planned in events:
        mu = planned.event.rate / planned.event.noise
        total += planned.count * planned.event.plain_mu_squared * mu * mu
    guess = math.sqrt(total) / gdp_mu(epsilon, delta)
    sampled = [planned.event.noise for planned in events if planned.event.rate < 1]
    return max(guess, _FIRST_NOISE / min(sampled)) if sampled else guess


def _cache_file(
    events: Sequence[Planned], epsilon: float, delta: float, accountant: Accountant
) -> Path | None:
    """Return where a plan's factor is kept, or None where no folder is known."""
    plan = [{"count": p.count, **p.event.to_dict(), "what": ""} for p in events]
    text = json.dumps([_VERSION, accountant.name, epsilon, delta, plan], sort_keys=True)
    name = f"calibration-{hashlib.sha256(text.encode()).hexdigest()}.json"
    if given := os.environ.get("PRIVBOOST_CACHE"):
        return Path(given) / name
    try:
        return Path.home() / ".cache" / "privboost" / name
    except RuntimeError:  # a user without a home
        return None


def _read_factor(path: Path | None, guess: float) -> float | None:
    """Return what a file says, if it may be so: anybody may have written it."""
    if path is None:
        return None
    try:
        factor = json.loads(path.read_text())["factor"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    near = isinstance(factor, float) and guess / _FAR < factor < guess * _FAR
    return factor if near else None


def _write_factor(path: Path | None, factor: float) -> None:
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, json.dumps({"factor": factor}).encode())
    except OSError:  # a cache that cannot be written is no loss
        return
