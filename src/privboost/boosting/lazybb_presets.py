"""The published settings of smooth boosting."""

from __future__ import annotations

from typing import Any

PUBLISHED: dict[str, dict[float, tuple[float, float, int]]] = {
    "adult": {
        0.05: (0.5, 0.5, 5),
        0.1: (0.45, 0.5, 5),
        0.15: (0.5, 0.4, 5),
        0.2: (0.5, 0.3, 5),
        0.25: (0.35, 0.5, 9),
        0.3: (0.4, 0.4, 19),
        0.35: (0.3, 0.45, 9),
        0.4: (0.35, 0.5, 9),
        0.45: (0.4, 0.45, 25),
        0.5: (0.35, 0.5, 15),
        1.0: (0.35, 0.45, 39),
        3.0: (0.35, 0.45, 99),
        5.0: (0.35, 0.45, 75),
    },
    "cod_rna": {
        0.05: (0.5, 0.5, 9),
        0.1: (0.5, 0.35, 19),
        0.15: (0.5, 0.5, 29),
        0.2: (0.4, 0.5, 25),
        0.25: (0.5, 0.45, 25),
        0.3: (0.5, 0.45, 25),
        0.35: (0.45, 0.35, 49),
        0.4: (0.45, 0.45, 39),
        0.45: (0.5, 0.4, 65),
        0.5: (0.45, 0.5, 49),
        1.0: (0.4, 0.5, 99),
        3.0: (0.3, 0.4, 99),
        5.0: (0.35, 0.4, 99),
    },
    "mushroom": {
        0.05: (0.45, 0.5, 5),
        0.1: (0.5, 0.4, 9),
        0.15: (0.5, 0.45, 9),
        0.2: (0.5, 0.4, 15),
        0.25: (0.3, 0.4, 9),
        0.3: (0.35, 0.5, 9),
        0.35: (0.4, 0.35, 15),
        0.4: (0.45, 0.4, 19),
        0.45: (0.35, 0.2, 19),
        0.5: (0.45, 0.25, 25),
        1.0: (0.25, 0.3, 29),
        3.0: (0.2, 0.2, 75),
        5.0: (0.2, 0.5, 29),
    },
}
"""For each table of the thesis, from ε to κ, λ and τ of its rules: chosen by cross-validation."""

_ONE_HOT = {
    "delta": 0.0,
    "learner": "rule",
    "literals": "intervals",
    "n_candidates": 9,
    "calibration_share": 0.0,
}
"""Pure ε; numbers are cut into ten intervals, and each has a literal."""

PRESETS: dict[str, dict[str, Any]] = {
    f"{table}_{epsilon:g}": _ONE_HOT
    | {"epsilon": epsilon, "density": kappa, "learning_rate": rate, "n_estimators": votes}
    for table, settings in PUBLISHED.items()
    for epsilon, (kappa, rate, votes) in settings.items()
}
PRESETS["figure_5.3"] = _ONE_HOT | {"density": 0.25, "learning_rate": 0.25, "n_estimators": 99}
