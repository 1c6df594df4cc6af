"""Accuracy of the flagship on real data: random 80/20 splits, one seed a run.

    python -m bench.accuracy adult abalone --epsilon 0.1 0.5 --runs 20

Runs are seeded so that they can be repeated; the data sets are public.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
from sklearn.metrics import accuracy_score, roc_auc_score, root_mean_squared_error

from bench import data, runner
from privboost import ClassTarget, Domain, PrivBoostClassifier, PrivBoostRegressor

DELTA = 5e-8


def measure(frame: pd.DataFrame, domain: Domain, epsilon: float, seed: int) -> float:
    """Return AUC (two classes), accuracy (more) or RMSE (a number) on the held-out part."""
    train = np.random.default_rng(seed).random(len(frame)) < 0.8
    rows, rest = frame[train], frame[~train]
    truth = rest[domain.target.name]
    if not isinstance(domain.target, ClassTarget):
        model = PrivBoostRegressor(epsilon, DELTA, domain, random_state=seed).fit(rows)
        return root_mean_squared_error(truth, model.predict(rest))
    model = PrivBoostClassifier(epsilon, DELTA, domain, random_state=seed).fit(rows)
    if len(domain.target.classes) == 2:
        return roc_auc_score(truth == model.classes_[1], model.decision_function(rest))
    return accuracy_score(truth, model.predict(rest))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["adult"], help="data sets, or 'all'")
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.1, 0.5])
    parser.add_argument("--runs", type=int, default=20)
    options = parser.parse_args()
    names = data.names() if options.names == ["all"] else options.names
    for name in names:
        frame, domain = data.load(name)
        results = {}
        for epsilon in options.epsilon:
            seeds = range(options.runs)
            values = [measure(frame, domain, epsilon, seed) for seed in seeds]
            results[f"{epsilon:g}"] = found = runner.summarise(values)
            error = found["standard_error"] or float("nan")
            print(f"{name:18} epsilon {epsilon:<5g} {found['mean']:.4f} ± {error:.4f}", flush=True)
        settings = {"split": "80/20", "delta": DELTA, "seeds": list(range(options.runs))}
        runner.write(f"accuracy_{name}", settings, results)


if __name__ == "__main__":
    main()
