"""What honest probabilities cost and bring: log-loss, calibration error and AUC by share.

    python -m bench.calibration sbdt dpxgb --tables adult telco_churn --share 0 0.04 --runs 3

Random 80/20 splits, one seed a run, at most 40,000 rows of a table. The calibration error is the
mean distance of predicted and observed rates in ten groups of equal size.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss, roc_auc_score

from bench import data, runner
from privboost import (
    BoostedAdaSSPClassifier,
    Domain,
    DPXGBClassifier,
    LazyBBClassifier,
    SarusXGBClassifier,
    SBDTClassifier,
)

DELTA = 1e-6
MOST_ROWS = 40_000
RECIPES: dict[str, tuple[type, dict[str, Any]]] = {
    "sbdt": (SBDTClassifier, {"delta": DELTA}),
    "sbdt_uniform": (SBDTClassifier, {"delta": DELTA, "features": "uniform"}),
    "sbdt_extra": (SBDTClassifier, {"delta": DELTA, "extra_estimators": 100}),
    "dpxgb": (DPXGBClassifier, {"delta": DELTA}),
    "sarus": (SarusXGBClassifier, {"delta": 0.0}),
    "lazybb": (LazyBBClassifier, {"delta": DELTA}),
    "lazybb_pure": (LazyBBClassifier, {"delta": 0.0}),
    "adassp": (BoostedAdaSSPClassifier, {"delta": DELTA}),
}


def calibration_error(truth: np.ndarray, chances: np.ndarray) -> float:
    """Return the mean distance of predicted and observed rates in ten groups of equal size."""
    order = np.argsort(chances, kind="stable")
    groups = [(chances[part], truth[part]) for part in np.array_split(order, 10)]
    return float(np.mean([abs(own.mean() - seen.mean()) for own, seen in groups]))


def measure(
    recipe: str, frame: pd.DataFrame, domain: Domain, epsilon: float, share: float, seed: int
) -> dict[str, float]:
    """Return what a fit with a share is worth on the held-out part."""
    draws = np.random.default_rng(seed)
    frame = frame.iloc[draws.permutation(len(frame))[:MOST_ROWS]]
    train = draws.random(len(frame)) < 0.8
    rows, rest = frame[train], frame[~train]
    kind, settings = RECIPES[recipe]
    model = kind(
        epsilon, domain=domain, random_state=seed, calibration_share=share, **settings
    ).fit(rows)
    truth = (rest[domain.target.name] == model.classes_[1]).to_numpy()
    found = {"auc": roc_auc_score(truth, model.decision_function(rest))}
    if hasattr(model, "predict_proba"):
        own = model.predict_proba(rest)[:, 1]
        found["loss"] = log_loss(truth, own)
        found["error"] = calibration_error(truth, own)
    return found | {"accuracy": float((model.predict(rest) == rest[domain.target.name]).mean())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipes", nargs="*", default=["sbdt"], help=", ".join(RECIPES))
    parser.add_argument("--tables", nargs="+", default=["adult", "telco_churn"])
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.1, 0.5, 1.0, 3.0])
    parser.add_argument("--share", nargs="+", type=float, default=[0.0, 0.04])
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    for recipe in options.recipes:
        results: dict[str, Any] = {}
        for name in options.tables:
            frame, domain = data.load(name)
            for epsilon in options.epsilon:
                for share in options.share:
                    runs = [
                        measure(recipe, frame, domain, epsilon, share, seed)
                        for seed in range(options.runs)
                    ]
                    found = {key: runner.summarise([run[key] for run in runs]) for key in runs[0]}
                    results[f"{name} {epsilon:g} {share:g}"] = found
                    shown = "  ".join(f"{key} {own['mean']:.4f}" for key, own in found.items())
                    print(f"{recipe:12} {name:12} {epsilon:<4g} {share:<5g} {shown}", flush=True)
        settings = {"split": "80/20", "most_rows": MOST_ROWS, "runs": options.runs}
        runner.write(f"calibration_{recipe}", settings, results)


if __name__ == "__main__":
    main()
