"""How good a fitted model is on rows that it has not seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss, r2_score, roc_auc_score, root_mean_squared_error

from privboost import ClassTarget, Domain

MAIN = {"two": "AUC", "several": "log-loss", "number": "RMSE"}
"""What tables of a kind are compared by."""
BEST_IS_MOST = {"AUC", "accuracy", "R²"}
BINS = 10


def score(model: Any, rest: pd.DataFrame, domain: Domain) -> dict[str, float]:
    """Return every score that a model has: a vote has no probabilities."""
    truth = rest[domain.target.name]
    if not isinstance(domain.target, ClassTarget):
        said = model.predict(rest)
        return {
            "RMSE": float(root_mean_squared_error(truth, said)),
            "R²": float(r2_score(truth, said)),
        }
    classes = domain.target.ordered
    label = truth.map({one: number for number, one in enumerate(classes)}).to_numpy()
    two = len(classes) == 2
    found = {"accuracy": float((model.predict(rest) == truth.to_numpy()).mean())}
    if two:
        found["AUC"] = float(roc_auc_score(label, model.decision_function(rest)))
    if hasattr(model, "predict_proba"):
        chances = model.predict_proba(rest)
        found["log-loss"] = float(log_loss(label, chances, labels=range(len(classes))))
        if two:
            found["calibration"] = calibration_error(label, chances[:, 1])
    return found


def calibration_error(label: np.ndarray, chance: np.ndarray) -> float:
    """Return how far chances are from frequencies, on average over ten bins of equal counts."""
    order = np.argsort(chance, kind="stable")
    bins = [part for part in np.array_split(order, BINS) if len(part)]
    gaps = [abs(chance[part].mean() - label[part].mean()) * len(part) for part in bins]
    return float(sum(gaps) / len(order))
