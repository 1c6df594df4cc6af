"""What float64 does to composed privacy losses, against sums in which nothing cancels."""

import math

import numpy as np
import pytest

from bench.closed_forms import calibrate_gaussian
from privboost.accounting import bounded_range
from privboost.accounting.accountants import (
    PER_RELEASE,
    RESOLVED,
    BoundedRangeAccountant,
    PldAccountant,
    choose_accountant,
    compare_accountants,
    losses_rounding,
)
from privboost.accounting.events import Planned, Selection
from privboost.accounting.noisy_sums import GaussianRelease
from tests.accounting.accountant_suite import gaussian, laplace, selection

PLANS = {
    "26 classes of 315 trees": [Planned(gaussian(60.0, rate=0.05), 8190)],
    "few samples": [Planned(gaussian(1.5, rate=0.01), 3000)],
    "large samples": [Planned(gaussian(40.0, rate=0.5), 1500)],
    "Laplace noise": [Planned(laplace(0.05, rate=0.2), 2000)],
}


def self_convolved(chances, times):
    """Convolve with itself by squaring, directly: positive terms, so every digit counts.

    Ends below 10⁻³⁰ are cut, which only takes away.
    """
    total, first, power, start = np.ones(1), 0, chances, 0
    while times:
        if times % 2:
            total, first = cut(np.convolve(total, power), first + start)
        times //= 2
        if times:
            power, start = cut(np.convolve(power, power), 2 * start)
    return total, first


def cut(chances, first):
    kept = np.flatnonzero(chances > 1e-30)
    return chances[kept[0] : kept[-1] + 1], first + int(kept[0])


def directly_composed(planned, grid):
    """The losses of equal releases and their chances, in both directions."""
    one = planned.event.pld(grid)
    for pmf in (one._pmf_remove.to_dense_pmf(), one._pmf_add.to_dense_pmf()):
        chances, first = self_convolved(np.asarray(pmf._probs), planned.count)
        losses = (np.arange(len(chances)) + first + pmf._lower_loss * planned.count) * grid
        infinite = -math.expm1(planned.count * math.log1p(-pmf._infinity_mass))
        yield losses, chances, infinite


def delta_directly(planned, grid, epsilon):
    """δ(ε), every term of it positive."""
    found = []
    for losses, chances, infinite in directly_composed(planned, grid):
        above = losses > epsilon
        lost = -np.expm1(epsilon - losses[above]) * chances[above]
        found.append(infinite + math.fsum(lost))
    return max(found)


@pytest.fixture
def without_allowance(monkeypatch):
    """The broken twin: nothing is kept for rounding, and no δ is too small."""
    monkeypatch.setattr("privboost.accounting.accountants.PER_RELEASE", 0.0)


def understatements(deltas_of):
    """True δ over claimed δ of each plan, at the δ that are asked for."""
    for events in PLANS.values():
        profile = PldAccountant().compose(events)
        for delta in deltas_of(events):
            epsilon = profile.ideal_epsilon(delta)
            grid = min(1e-3, profile.bound_epsilon(delta - losses_rounding(tuple(events))) / 2000)
            yield delta_directly(events[0], grid, epsilon) / delta


def test_losses_are_on_the_safe_side_down_to_the_smallest_delta():
    def deltas_of(events):
        least = RESOLVED * losses_rounding(tuple(events))
        return least, 30 * least, 1e-6

    assert max(understatements(deltas_of)) <= 1


def test_a_twin_that_keeps_nothing_for_rounding_is_rejected(without_allowance):
    assert max(understatements(lambda events: (1e-13, 1e-12, 1e-11))) > 1.01


def test_the_allowance_is_not_far_from_what_is_lost():
    """It is of the size of the errors: a hundredth of it would not do."""
    lost = []
    for events in PLANS.values():
        planned = events[0]
        composed = planned.event.pld(1e-3).self_compose(planned.count)
        for epsilon in np.linspace(0.5, 3.0, 6):
            claimed = float(composed.get_delta_for_epsilon(epsilon))
            lost.append((delta_directly(planned, 1e-3, epsilon) - claimed) / planned.count)
    assert 0.01 * PER_RELEASE < max(lost) < PER_RELEASE


MIXED = [Planned(selection(0.02), 30), Planned(laplace(0.05, rate=0.2), 2000)]


def test_the_game_with_losses_is_on_the_safe_side():
    least = BoundedRangeAccountant().least_delta(MIXED) / 2
    profile = BoundedRangeAccountant().compose(MIXED)
    bound = profile.bound_epsilon(least)
    epsilon = profile.ideal_epsilon(least)
    curve = profile._curve(bound)
    true = max(
        curve.delta_with_losses(epsilon, *losses)
        for losses in directly_composed(MIXED[1], min(1e-3, bound / 1000))
    )
    assert 0.9 * least < true <= least


@pytest.mark.parametrize(
    ("name", "events"), [("pld", PLANS["few samples"]), ("game", MIXED)], ids=["pld", "game"]
)
def test_what_cannot_be_resolved_is_refused_and_auto_falls_back(name, events):
    accountant = choose_accountant(name, events, 1e-6)
    least = accountant.least_delta(events)
    assert accountant.cost(events, least) < math.inf
    assert choose_accountant("auto", events, least).name == name
    for ask in (
        lambda: choose_accountant(name, events, least / 10),
        lambda: accountant.cost(events, least / 10),
    ):
        words = rf"below what {name} can resolve.*larger delta or accountant='rdp'"
        with pytest.raises(ValueError, match=words):
            ask()
    assert choose_accountant("auto", events, least / 10).name == "rdp"
    assert name not in compare_accountants(events, least / 10)


def test_equal_releases_at_a_tiny_delta_are_calibrated_by_renyi():
    noise = calibrate_gaussian(1.0, 1e-13, 200, 0.1)
    assert noise == calibrate_gaussian(1.0, 1e-13, 200, 0.1, "rdp")
    with pytest.raises(ValueError, match="accountant='rdp'"):
        calibrate_gaussian(1.0, 1e-13, 200, 0.1, "pld")


def played(ranges, steps, number):
    """The recursion as its definition says, chord by chord, in any kind of number."""
    exp, sqrt = number["exp"], number["sqrt"]
    step = number["of"](bounded_range._grid(ranges, sum(ranges))[0])
    most = steps
    n = math.ceil(sum(ranges) / float(step)) + 1 + most + 1
    x = [exp((k - most) * step) for k in range(n)]
    v = [max(1 - each, 0 * each) for each in x]
    shrink = exp(-steps * step)
    for _ in ranges:
        slopes = [(v[j + 1] - v[j]) / (x[j + 1] - x[j]) for j in range(n - 1)]
        lines = [(v[j] - s * x[j], s) for j, s in enumerate(slopes)]
        lines += [(v[-1], 0 * step)] * (steps + 1)
        out = [None] * n
        for i in range(most, n):
            k, best = x[i] * shrink, 0 * step
            for j in range(i - steps, i):
                (near, slope), (away, far_slope) = lines[j], lines[j + steps]
                p, q = slope - far_slope, k * (away - near)
                at = min(max(sqrt(max(q / p, 0 * q)), x[j]), x[j + 1]) if p < 0 else x[j + 1]
                rest = near - k * slope - shrink * away + k * far_slope / shrink
                best = max(best, (rest + p * at + q / at) / (1 - shrink))
            out[i] = best
        for back in range(1, most + 1):
            out[most - back] = 1 - exp(-back * step) * (1 - out[most + back])
        v = out
    return v[most:]


FLOATS = {"of": float, "exp": math.exp, "sqrt": math.sqrt}


def test_the_recursion_never_understates(monkeypatch):
    mpmath = pytest.importorskip("mpmath")
    monkeypatch.setattr(bounded_range, "_STEPS", (6,))
    ranges = [0.2] * 8
    found = bounded_range.compose_ranges(ranges).values
    with mpmath.workdps(40):
        exact = played(ranges, 6, {"of": mpmath.mpf, "exp": mpmath.exp, "sqrt": mpmath.sqrt})
        inside = range(len(found) - 8)  # beyond the sum of all ranges it is zero
        excess = [float(mpmath.mpf(float(found[k])) / exact[k] - 1) for k in inside]
        twin = played(ranges, 6, FLOATS)
        lost = [float(mpmath.mpf(twin[k]) / exact[k] - 1) for k in inside]
    raised = len(ranges) * bounded_range._ROUND
    assert 0 < min(excess) <= max(excess) < 1.02 * raised
    assert max(excess[len(excess) // 2 :]) > 0.98 * raised  # float64 itself loses next to nothing
    assert min(lost) < 0  # plain differences, with nothing added, fall below


def test_ranges_are_rounded_up():
    ranges = [0.1, 0.1 / 3, 0.2 * (1 + 1e-15), 0.2 * (1 + 1e-9)]
    step, widths, _ = bounded_range._grid(ranges, 1.0)
    assert all(width * step >= each for width, each in zip(widths, ranges, strict=True))
    assert widths[2] == 6 * widths[1]
    assert widths[3] == widths[2] + 1


@pytest.mark.parametrize("mu", [0.03, 0.4, 3.0])
def test_gaussians_in_the_game_are_not_understated(mu):
    """Against the mean of chords, integrated with many digits."""
    mpmath = pytest.importorskip("mpmath")
    curve = bounded_range.compose_ranges([0.2] * 3)
    points, _ = curve._points()
    values = curve._at(points)
    with mpmath.workdps(40):

        def chance(low, high, mean):
            ends = ((edge - mean) / mu / mpmath.sqrt(2) for edge in (low, high))
            first, second = (mpmath.erfc(end) for end in ends)
            return (first - second) / 2

        for epsilon in (0.3, 1.0, 2.0 + 4 * mu):
            total, shift = mpmath.mpf(0), mpmath.mpf(mu) ** 2 / 2
            for j in range(len(points) - 1):
                a, b = mpmath.mpf(points[j]), mpmath.mpf(points[j + 1])
                slope = (mpmath.mpf(values[j + 1]) - mpmath.mpf(values[j])) / (
                    mpmath.exp(b) - mpmath.exp(a)
                )
                start = mpmath.mpf(values[j]) - slope * mpmath.exp(a)
                low, high = epsilon - b, epsilon - a
                total += start * chance(low, high, shift)
                total += slope * mpmath.exp(epsilon) * chance(low, high, -shift)
            last, edge, end = values[-1], epsilon - points[0], epsilon - points[-1]
            total += chance(edge, mpmath.inf, shift) + last * chance(-mpmath.inf, end, shift)
            total -= (1 - last) * mpmath.exp(epsilon) * chance(edge, mpmath.inf, -shift)
            found = curve.delta_with_gaussian(epsilon, mu)
            assert float(total) <= found <= float(total) * (1 + 1e-8) + 2e-18


def test_a_delta_that_the_game_cannot_resolve_beside_gaussians_is_left_to_renyi():
    plan = [
        Planned(Selection("a split", 10.0), 5),
        Planned(GaussianRelease("leaves", 10.0, 2**16, 1, 1, (1.0,)), 5),
    ]
    for delta in (1e-20, 1e-100):
        assert choose_accountant("auto", plan, delta).name == "rdp"
        assert "game" not in compare_accountants(plan, delta)
    assert choose_accountant("auto", plan, 1e-12).name == "game"
