"""Sarus' table: test error (RMSE for Abalone) of 20 trees at ε = 1 … 10, pure and with δ = 1e-5.

    python -m bench.sarus --runs 5

The published figures rest on unsound steps (a selection with half the temperature's denominator, an
average with its exact count, tests on exact counts), so they are no yardstick of a private method;
they are printed for orientation. Random 70/30 splits.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from sklearn.metrics import root_mean_squared_error

from bench import data, runner
from bench.dpxgb import two_classes
from privboost import SarusXGBClassifier, SarusXGBRegressor

EPSILONS = (1, 2, 4, 6, 8, 10)
PUBLISHED = {
    "covtype": (22, 18, 15, 17, 16, 15),
    "adult": (24, 18, 19, 19, 18, 18),
    "abalone": (6, 5.5, 3.2, 2.7, 2.6, 2.4),
}


def measure(name: str, frame: Any, domain: Any, epsilon: float, delta: float, seed: int) -> float:
    train = np.random.default_rng(seed).random(len(frame)) < 0.7
    rest = frame[~train]
    truth = rest[domain.target.name]
    how = {"n_estimators": 20, "random_state": seed, "domain": domain, "delta": delta}
    if name == "abalone":
        model = SarusXGBRegressor(epsilon, max_depth=3, **how).fit(frame[train])
        return float(root_mean_squared_error(truth, model.predict(rest)))
    model = SarusXGBClassifier(epsilon, max_depth=4 if name == "adult" else 6, **how)
    return 100 * float((model.fit(frame[train]).predict(rest) != truth).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    results = []
    for name, published in PUBLISHED.items():
        frame, domain = data.load(name) if name != "covtype" else two_classes(name)
        for delta in (0.0, 1e-5):
            cells = []
            for epsilon in EPSILONS:
                values = [
                    measure(name, frame, domain, epsilon, delta, seed)
                    for seed in range(options.runs)
                ]
                cells.append(runner.summarise(values))
            line = " ".join(f"{cell['mean']:6.2f}" for cell in cells)
            print(f"{name:8} delta {delta:<6g} {line}   published {published}", flush=True)
            results.append({"data": name, "delta": delta, "cells": cells, "published": published})
    runner.write("sarus", {"runs": options.runs, "epsilons": EPSILONS}, results)


if __name__ == "__main__":
    main()
