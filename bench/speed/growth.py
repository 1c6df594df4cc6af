"""How time grows: twice the rows, twice the columns, twice the rounds, on a table of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.speed.clock import Act, Timing, compare
from privboost import (
    BoostedAdaSSPClassifier,
    DPXGBClassifier,
    LazyBBClassifier,
    PrivBoostClassifier,
    SBDTClassifier,
)

RECIPES: dict[str, tuple[Any, dict[str, Any]]] = {
    "PrivBoost": (PrivBoostClassifier, {}),
    "S-BDT, any feature": (SBDTClassifier, {"features": "uniform"}),
    "DP-XGB": (DPXGBClassifier, {"max_depth": 4}),
    "LazyBB": (LazyBBClassifier, {"density": 0.2}),
    "BoostedAdaSSP": (BoostedAdaSSPClassifier, {}),
}


def made_up(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """Return numbers between 0 and 1, labels by two of them, and the domain."""
    table = np.random.default_rng(0).random((rows, columns)).astype(np.float32)
    numbers = {f"x{k}": {"kind": "numeric", "bounds": [0, 1]} for k in range(columns)}
    form = {"version": 1, "features": numbers, "target": {"name": "y", "classes": [0, 1]}}
    return table, (table[:, 0] + table[:, 1] > 1).astype(int), form


def measure(rows: int, columns: int, rounds: int, turns: int) -> list[Timing]:
    """Return the times of each recipe as it is, and with each size doubled, on one thread."""
    table, label, _ = made_up(2 * rows, 2 * columns)

    def fit(who: str, rows: int, columns: int, rounds: int) -> Act:
        kind, how = RECIPES[who]
        model = kind(1.0, 1e-6, made_up(1, columns)[2], n_estimators=rounds, n_jobs=1, **how)
        part = np.ascontiguousarray(table[:rows, :columns])
        return lambda: model.fit(part, label[:rows])

    sizes = {
        f"{rows:,} rows, {columns} columns, {rounds} rounds": (rows, columns, rounds),
        "twice the rows": (2 * rows, columns, rounds),
        "twice the columns": (rows, 2 * columns, rounds),
        "twice the rounds": (rows, columns, 2 * rounds),
    }
    return [
        timing
        for case, size in sizes.items()
        for timing in compare(case, {(who, 1): fit(who, *size) for who in RECIPES}, turns)
    ]
