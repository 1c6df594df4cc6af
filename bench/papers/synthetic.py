"""Tables that are made up: labels by interactions, and a few informative features among many."""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import make_classification

from bench.papers.protocol import make, score, split
from privboost import Domain, PrivacyWarning

ROWS = 10_000
NORMALS = {"x1": (1, 25), "x2": (-5, 8), "x3": (-2, 7)}
"""Mean and variance of DP-XGB's three features."""
BOUNDS = {"x1": [-20, 22], "x2": [-15, 5], "x3": [-12, 8]}
FEATURES = 100
"""Of the problem with few informative features."""


@lru_cache(maxsize=2)
def table(name: str, seed: int) -> tuple[pd.DataFrame, Domain]:
    """Return a table by name and seed: "interactions:2", or "informative:10" of a hundred."""
    kind, _, number = name.partition(":")
    return {"interactions": _interactions, "informative": _informative}[kind](int(number), seed)


def _interactions(problem: int, seed: int) -> tuple[pd.DataFrame, Domain]:
    """Labels by the sign of products of three normal features; in problem 2 of their sum, too."""
    rng = np.random.default_rng(1000 + seed)
    x1, x2, x3 = (rng.normal(mean, np.sqrt(var), ROWS) for mean, var in NORMALS.values())
    of = x1 * x2 + x1 * x3 + x2 * x3 + x1 * x2 * x3
    if problem == 2:
        of = of + x1 + x2 + x3
    columns = {"x1": x1, "x2": x2, "x3": x3}
    return _with_labels(columns, (of > 0).astype(int), BOUNDS)


def _informative(count: int, seed: int) -> tuple[pd.DataFrame, Domain]:
    """A few features with labels by scikit-learn's generator, the others normal noise."""
    known, labels = make_classification(
        ROWS, count, n_informative=count, n_redundant=0, random_state=seed
    )
    noise = np.random.default_rng(2000 + seed).normal(size=(ROWS, FEATURES - count))
    columns = {f"x{k}": column for k, column in enumerate(np.hstack([known, noise]).T)}
    bounds = {name: [-5, 5] if k >= count else [-12, 12] for k, name in enumerate(columns)}
    return _with_labels(columns, labels, bounds)


def _with_labels(
    columns: dict[str, np.ndarray], labels: np.ndarray, bounds: dict[str, list[int]]
) -> tuple[pd.DataFrame, Domain]:
    features = {name: {"kind": "numeric", "bounds": bounds[name]} for name in columns}
    form = {"version": 1, "features": features, "target": {"name": "y", "classes": [0, 1]}}
    return pd.DataFrame(columns).assign(y=labels), Domain.from_dict(form)


def run(
    made: str, estimator: str, how: dict[str, Any], metric: str, seed: int, share: float = 0.7
) -> float:
    """Return the score, on held-out rows, of one fit to a made-up table.

    The metric "informative" is the share of the importances that informative features have.
    """
    frame, domain = table(made, seed)
    rows, rest = split(frame, seed, share)
    model = make(estimator, dict(how), domain, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # of weak δ, as papers have it
        model.fit(rows)
    if metric != "informative":
        return score(model, rest, domain, metric)
    found = model.feature_importances_
    own = found[: int(made.partition(":")[2])].sum()
    return float(own / found.sum()) if found.sum() > 0 else 0.0
