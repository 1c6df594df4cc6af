"""Points of S-BDT's figures: on the authors' rows, with the recipe and measure of each data set."""

from __future__ import annotations

import math
from typing import Any

from bench.papers.figure import Point, X
from bench.papers.peers import peer
from bench.papers.protocol import run

How = dict[str, Any]

ROWS = {
    "abalone": "abalone",
    "adult": "adult:32561:complete",  # 30,162 rows
    "spambase": "spambase",
}
RECIPES = {"abalone": "SBDTRegressor", "adult": "SBDTClassifier", "spambase": "SBDTClassifier"}
METRICS = {"abalone": "RMSE", "adult": "AUC", "spambase": "AUC"}
EXACT = {"accountant": "auto"}


def ours(
    arm: str, x: X, data: str, how: How, published: float | None = None, panel: str = ""
) -> Point:
    """Return a point of S-BDT on a data set, named as in `protocol.table`."""
    name = data.partition(":")[0]
    what = {"data": data, "estimator": RECIPES[name], "how": how, "metric": METRICS[name]}
    return Point(arm, x, run, what, published, panel)


def others(arm: str, x: X, name: str, kind: str, how: How, published: float | None = None) -> Point:
    """Return a point of another recipe of ours, on stated bounds."""
    end = "Regressor" if METRICS[name] == "RMSE" else "Classifier"
    what = {"data": ROWS[name], "estimator": kind + end, "how": how, "metric": METRICS[name]}
    return Point(arm, x, run, what, published)


def peers(arm: str, x: X, name: str, kind: str, how: How) -> Point:
    """Return a point of a peer, on the same bounds."""
    what = {"data": ROWS[name], "name": kind, "how": how, "metric": METRICS[name]}
    return Point(arm, x, peer, what)


def as_coded(epsilon: float, share: float) -> How:
    """Return an ε and a Hessian's share whose noise is that of the authors' code for classes.

    It draws the Hessian's noise at half the scale that it charges: with r₁ charged, μ² is 1 + 3r₁
    times as large, and ε about the root of that.
    """
    more = 1 + 3 * share
    return {"epsilon": epsilon * math.sqrt(more), "hessian_share": 4 * share / more}
