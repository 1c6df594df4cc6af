"""Speed as ratios in one run: the flagship's whole fit against LightGBM's, and the noise.

One thread each; every contender is warmed up first and takes the best of several runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import lightgbm
import numpy as np

from bench import data, runner
from privboost import PrivBoostClassifier
from privboost.randomness.keystream import KeyStream
from privboost.randomness.noise import discrete_gaussian

ROUNDS = 400
REPEATS = 5


def best(act: Callable[[], object]) -> float:
    act()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        act()
        times.append(time.perf_counter() - start)
    return min(times)


def adult() -> dict[str, float]:
    """Whole fits on 80 % of Adult, from the data frame to the model, coding included."""
    frame, domain = data.load("adult")
    rows = frame.sample(frac=0.8, random_state=0)
    text = [f.name for f in domain.features if f.kind == "categorical"]
    plain = rows[list(domain.feature_names)].astype(dict.fromkeys(text, "category"))
    label = rows["income"] == ">50K"

    def ours() -> None:
        PrivBoostClassifier(1.0, 1e-6, domain, n_estimators=ROUNDS).fit(rows)

    def theirs() -> None:
        lightgbm.LGBMClassifier(
            n_estimators=ROUNDS, max_depth=6, num_leaves=63, n_jobs=1, verbose=-1
        ).fit(plain, label)

    return {"privboost": best(ours), "lightgbm": best(theirs)}


def noise() -> float:
    """Exact discrete Gaussian samples a second, in vectors of 128."""
    scales = np.full(128, 2.0**20)
    stream = KeyStream.secure()
    count = iter(range(10**9))

    def draw() -> None:
        for _ in range(1000):
            discrete_gaussian(scales, stream.child(str(next(count))))

    return 128_000 / best(draw)


def main() -> None:
    seconds = adult()
    ratio = seconds["privboost"] / seconds["lightgbm"]
    print(
        f"Adult, {ROUNDS} rounds, whole fit, one thread: privboost {seconds['privboost']:.3f} s, "
    )
    print(f"  LightGBM (depth 6) {seconds['lightgbm']:.3f} s, ratio {ratio:.3f}")
    rate = noise()
    print(f"discrete Gaussian, vectors of 128: {rate / 1e6:.2f} million a second")
    results = {"seconds": seconds, "ratio": ratio, "noise_per_second": rate}
    runner.write("speed", {"rounds": ROUNDS, "repeats": REPEATS, "threads": 1}, results)


if __name__ == "__main__":
    main()
