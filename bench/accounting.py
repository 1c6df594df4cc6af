"""What tight accounting buys: the noise that the same guarantee needs, beside the papers'.

python -m bench.accounting
"""

from __future__ import annotations

import math
import time

from bench import runner
from bench.closed_forms import calibrate_gaussian, composed_range_epsilon
from privboost._core.grid import CLIP_STEPS
from privboost.accounting.accountants import choose_accountant
from privboost.accounting.calibration import by_shares, calibrate
from privboost.accounting.events import Planned, Selection
from privboost.accounting.noisy_sums import GaussianRelease, LaplaceRelease

LEAF = math.sqrt(2)


def gaussians() -> list[list[object]]:
    rows = []
    for name, epsilon, rounds, rate, paper in (
        ("S-BDT Abalone", 0.105, 150, 0.1, 75.99),
        ("S-BDT Adult", 0.02, 200, 0.005, 21.45),
        ("full batch, T=25", 1.0, 25, 1.0, 36.10),
        ("full batch, T=50", 1.0, 50, 1.0, 51.05),
        ("full batch, T=100", 1.0, 100, 1.0, 72.20),
        ("full batch, T=200", 1.0, 200, 1.0, 102.11),
    ):
        rdp = LEAF * calibrate_gaussian(epsilon, 5e-8, rounds, rate, "rdp")
        tight = LEAF * calibrate_gaussian(epsilon, 5e-8, rounds, rate)
        rows.append([f"{name}, sigma of a leaf", paper, rdp, tight])
    return rows


def dp_xgb() -> list[object]:
    """ε₀ of a split: 50 trees of depth 3, selections 0.7 and leaves 0.3 of μ²."""
    parts = [
        (Planned(Selection("splits", 1.0), 150), 0.7),
        (Planned(GaussianRelease("leaves", 1.0, CLIP_STEPS, 1, 1, (1.0,)), 50), 0.3),
    ]
    delta = 1 / 30000
    found = []
    for name in ("rdp", "game"):
        plan = by_shares(parts)
        made = calibrate(plan, 1.0, delta, choose_accountant(name, plan, delta))
        found.append(1 / made[0].event.noise)
    return ["DP-XGB, epsilon of a split", 0.0363, *found]


def sarus() -> list[object]:
    """ε at δ = 1e-5 of mechanisms that are 1-DP: 20 trees of depth 6, γ = 0.1."""
    tree = math.log1p(math.expm1(1 / 20) / 0.1)
    parts = [
        Planned(
            LaplaceRelease("sketches", 14 / (tree / 3), CLIP_STEPS, 1, 1, (1.0,), 0.1), 20 * 14
        ),
        Planned(Selection("splits", 6 / (tree / 3), 0.1), 20 * 6),
        Planned(LaplaceRelease("leaves", 1 / (tree / 3), CLIP_STEPS, 1, 1, (1.0,), 0.1), 20),
    ]
    found = [
        choose_accountant(name, parts, 1e-5).compose(parts).epsilon(1e-5)
        for name in ("rdp", "auto")
    ]
    return ["Sarus, epsilon at delta 1e-5", 1.0, *found]


def lazybb() -> list[object]:
    """η of 39 rounds at ε = 1, δ = 1e-5, n = 32561, κ = .35: pure in the paper, the game here."""
    low, high = 1e-4, 1.0
    for _ in range(30):
        middle = math.sqrt(low * high)
        low, high = (
            (middle, high) if composed_range_epsilon(1e-5, [middle] * 39) <= 1 else (low, middle)
        )
    per_round = 0.35 * 32561 / 2
    return ["LazyBB, eta", 73, 1 / 39 * per_round, low * per_round]


def main() -> None:
    start = time.perf_counter()
    rows = [*gaussians(), dp_xgb(), sarus(), lazybb()]
    print(f"{'setting':32} {'paper':>9} {'plain':>9} {'tight':>9}")
    for name, *values in rows:
        print(f"{name:32} " + " ".join(f"{float(value):9.4g}" for value in values))
    print(f"{time.perf_counter() - start:.1f} s")
    runner.write("accounting", {}, rows)


if __name__ == "__main__":
    main()
