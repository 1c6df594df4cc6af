"""How one run is made: load, split, fit, score. Seeded, so that a point can be measured again."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import f1_score, roc_auc_score, root_mean_squared_error

import privboost
from bench import data
from privboost import ClassTarget, Domain, PrivacyWarning

TWO_CLASSES: dict[str, Callable[[pd.Series], pd.Series]] = {
    "covtype": lambda y: y == 2,
    "bioresponse": lambda y: y == 1,
    "diabetes130us": lambda y: y != "NO",
    "jannis_subset": lambda y: y == 3,
    "pol": lambda y: y > 0,
}
"""Which rows are of class 1 where a paper asks a question of two classes."""


@lru_cache(maxsize=2)
def table(name: str) -> tuple[pd.DataFrame, Domain]:
    """Return a data set by name, its target made two classes where papers have two.

    Words after it change it, one by one: "covtype:100000" is its first 100,000 rows,
    "adult:complete" rows without missing values, "adult:linear" has every number on a linear
    scale.
    """
    name, *words = name.split(":")
    frame, domain = data.load(name)
    form, target = domain.to_dict(), domain.target.name
    if name in TWO_CLASSES:
        frame = frame.assign(**{target: TWO_CLASSES[name](frame[target]).astype(int)})
        form["target"] = {"name": target, "classes": [0, 1]}
    for word in words:
        if word == "complete":
            frame = frame.dropna()
        elif word == "linear":
            for feature in form["features"].values():
                feature.pop("scale", None)
        else:
            frame = frame.iloc[: int(word)]
    return frame.reset_index(drop=True), Domain.from_dict(form)


def split(frame: pd.DataFrame, seed: int, share: float) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a random share of rows, and the rest."""
    train = np.random.default_rng(seed).random(len(frame)) < share
    return frame[train], frame[~train]


def run(
    data: str, estimator: str, how: dict[str, Any], metric: str, seed: int, share: float = 0.8
) -> float:
    """Return the score, on held-out rows, of one fit of one of our estimators.

    `how` may name a "preset", whose settings the rest of it overrides.
    """
    frame, domain = table(data)
    rows, rest = split(frame, seed, share)
    model = make(estimator, dict(how), domain, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # of weak δ, as papers have it
        model.fit(rows)
    return score(model, rest, domain, metric)


def make(estimator: str, how: dict[str, Any], domain: Domain, seed: int) -> Any:
    """Return an estimator by name, perhaps from a preset."""
    kind = getattr(privboost, estimator)
    preset = how.pop("preset", None)
    build = kind if preset is None else lambda **rest: kind.from_preset(preset, **rest)
    return build(domain=domain, random_state=seed, **how)


def score(model: Any, rest: pd.DataFrame, domain: Domain, metric: str) -> float:
    """Return AUC, accuracy, error (in per cent), F1 or RMSE of a fitted model."""
    truth = rest[domain.target.name]
    if metric == "RMSE":
        return float(root_mean_squared_error(truth, model.predict(rest)))
    assert isinstance(domain.target, ClassTarget)
    own = truth == domain.target.ordered[1]
    if metric == "AUC":
        return float(roc_auc_score(own, model.decision_function(rest)))
    said = model.predict(rest) == domain.target.ordered[1]
    if metric == "F1":
        return float(f1_score(own, said))
    hit = float((said == own).mean())
    return 100 * (1 - hit) if metric == "error" else hit
