"""Streams of two batches that differ: the filter against the naive stream.

    python -m bench.streams --runs 20

The late batch of Adult are the rows of the second class, that of Abalone the rows with more rings
than the mean. With the filter, early rows go on contributing while their own budget lasts; the
naive stream forgets them. Random 80/20 splits, one seed a run, the same settings for both; the
late batch adds a quarter as many trees as the early one, or as many, whichever is better for each.

The published naive stream had settings of its own, best for it: on Adult 200 trees of depth 6,
γ = 0.1, r₁ = 0.1, g* = 0.1, h* = 0.1 (0.25 at ε = 0.1), λ = 10, and 150, 100, 100 late trees; on
Abalone 50 and 100 trees of depth 6, γ = 0.1, r₁ = 0.2, g* = 0.1, λ = 15, 25 late trees. Late
rows of Adult are all of one class, so it learns where they are dense, as far as λ and a small clip
let dense leaves count for more. A λ that follows the noise and a larger clip suit the filter.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score, root_mean_squared_error

from bench import data, runner
from privboost import ClassTarget, Domain, SBDTClassifier, SBDTRegressor

DELTA = 5e-8
PUBLISHED = {
    ("adult", 0.02): (0.7945, 0.7491),
    ("adult", 0.1): (0.8671, 0.8005),
    ("adult", 0.5): (0.8917, 0.8298),
    ("abalone", 0.1): (2.745, 2.796),
    ("abalone", 0.5): (2.572, 2.711),
}
SETTINGS: dict[str, dict[str, Any]] = {
    "adult": {"n_estimators": 200, "max_depth": 4, "gradient_clip": 0.5},
    "abalone": {"n_estimators": 100, "max_depth": 2, "gradient_clip": 0.3},
}


LATE_SHARES = (0.25, 1.0)


def measure(
    frame: pd.DataFrame,
    domain: Domain,
    epsilon: float,
    seed: int,
    settings: dict[str, Any],
    late_share: float,
) -> tuple[float, float]:
    """Return AUC or RMSE on held-out rows of both kinds: with the filter, and naively."""
    train = np.random.default_rng(seed).random(len(frame)) < 0.8
    rows, rest = frame[train], frame[~train]
    name = domain.target.name
    classes = isinstance(domain.target, ClassTarget)
    kind = SBDTClassifier if classes else SBDTRegressor
    late = rows[name] == domain.target.ordered[1] if classes else rows[name] > rows[name].mean()
    found = []
    for naive in (False, True):
        model = kind(epsilon, DELTA, domain, random_state=seed, **settings)
        model.partial_fit(rows[~late])
        if naive:
            model.forget_rows()
        model.set_params(n_estimators=round(settings["n_estimators"] * late_share))
        model.partial_fit(rows[late])
        if classes:
            truth = rest[name] == model.classes_[1]
            found.append(float(roc_auc_score(truth, model.decision_function(rest))))
        else:
            found.append(float(root_mean_squared_error(rest[name], model.predict(rest))))
    return found[0], found[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=30)
    options = parser.parse_args()
    results = []
    for (name, epsilon), published in PUBLISHED.items():
        frame, domain = data.load(name)
        columns: list[list[dict[str, Any]]] = [[], []]
        for share in LATE_SHARES:
            runs = [
                measure(frame, domain, epsilon, seed, SETTINGS[name], share)
                for seed in range(options.runs)
            ]
            for column, values in zip(columns, zip(*runs, strict=True), strict=True):
                column.append(runner.summarise(list(values)) | {"late_share": share})
        sign = -1 if name == "abalone" else 1
        kept, naive = (max(column, key=lambda c: sign * c["mean"]) for column in columns)
        print(
            f"{name:8} epsilon {epsilon:<5g}"
            f" filter {kept['mean']:.4f} ± {kept['standard_error']:.4f}"
            f"  naive {naive['mean']:.4f} ± {naive['standard_error']:.4f}  published {published}",
            flush=True,
        )
        line = {"data": name, "epsilon": epsilon, "published": published}
        results.append(line | {"filter": kept, "naive": naive})
    runner.write("streams", {"split": "80/20", "delta": DELTA, "settings": SETTINGS}, results)


if __name__ == "__main__":
    main()
