"""Published settings of S-BDT, and of the totally random trees of Maddock et al., by name."""

from __future__ import annotations

from typing import Any

DELTA = 5e-8
"""δ of all published runs of S-BDT."""

COUNT_EPSILON = 0.005
"""ε_ds of the published runs: ε of the row count in S-BDT's initial score."""

_SBDT: dict[str, Any] = {
    "delta": DELTA,
    "learning_rate": 0.1,
    "leaf_clip": 2.0,
    "features": "cyclical",
    "candidates": "grid",
    "n_candidates": 32,
    "category_splits": "one",
    "negative_hessian": "zero",
    "init_noise": "laplace",
    "init_share": 0.0,
    "calibration_share": 0.0,
    "span_share": 0.0,
    "accountant": "rdp",
}


def _adult(epsilon: float, trees: int, depth: int, rate: float, clip: float, lam: float) -> Any:
    return _SBDT | {
        "epsilon": epsilon,
        "n_estimators": trees,
        "max_depth": depth,
        "subsample": rate,
        "gradient_clip": clip,
        "hessian_clip": 0.1,
        "hessian_share": 0.04,
        "reg_lambda": lam,
        "boosting": "newton",
    }


def _abalone(epsilon: float, trees: int, depth: int, clip: float, starts: bool = True) -> Any:
    own = {
        "init_clip": 0.5,
        "init_epsilon": 0.1 * epsilon,
        "init_count_epsilon": COUNT_EPSILON,
    }
    return (
        _SBDT
        | {
            "epsilon": epsilon,
            "n_estimators": trees,
            "max_depth": depth,
            "subsample": 0.1,
            "gradient_clip": clip,
            "hessian_clip": 1.0,
            "hessian_share": 0.3,
            "reg_lambda": 15.0,
            "boosting": "gradient",
        }
        | (own if starts else {})
    )


_TR: dict[str, Any] = {
    "max_depth": 4,
    "learning_rate": 0.3,
    "subsample": 1.0,
    "gradient_clip": 1.0,
    "reg_lambda": 1.0,
    "leaf_clip": 2.0,
    "init_share": 0.0,
    "calibration_share": 0.0,
    "span_share": 0.0,
    "boosting": "newton",
    "n_candidates": 32,
    "candidate_rounds": 5,
    "candidate_share": None,
    "candidate_rule": "merge",
    "category_splits": "one",
    "extra_estimators": 0,
    "batch_size": 1,
    "negative_hessian": "floor",
    "accountant": "rdp",
}
"""The number of trees is not among them: it was varied, from 25 to 300."""


def _totally_random(hessian_clip: float) -> dict[str, dict[str, Any]]:
    """Return the variants for a bound of Hessians; gradients are bounded by 1.

    Both sums have noise of one size, so the Hessian's share follows from its bound.
    """
    share = hessian_clip**2 / (1 + hessian_clip**2)
    shared = _TR | {"hessian_clip": hessian_clip, "hessian_share": share}
    return {
        "TR": shared | {"features": "uniform", "candidates": "grid"},
        "TR_cyc": shared | {"features": "cyclical", "candidates": "grid"},
        "TR_ada": shared | {"features": "uniform", "candidates": "hessian"},
        "TR_ada_cyc": shared | {"features": "cyclical", "candidates": "hessian"},
    }


CLASS_PRESETS: dict[str, dict[str, Any]] = {
    "S-BDT_adult_0.01": _adult(0.01, 50, 5, 0.01, 0.5, 10.0),
    "S-BDT_adult_0.02": _adult(0.02, 100, 6, 0.01, 0.5, 10.0),
    "S-BDT_adult_0.03": _adult(0.03, 400, 6, 0.01, 0.3, 10.0),
    "S-BDT_adult_0.1": _adult(0.1, 400, 6, 1.0, 0.3, 10.0),
    "S-BDT_adult_0.5": _adult(0.5, 200, 6, 1.0, 0.8, 5.0),
    **_totally_random(0.25),
}
"""For classes."""

NUMBER_PRESETS: dict[str, dict[str, Any]] = {
    "S-BDT_abalone_0.05": _abalone(0.05, 100, 2, 0.1),
    "S-BDT_abalone_0.1": _abalone(0.1, 50, 2, 0.3),
    "S-BDT_abalone_0.2": _abalone(0.2, 50, 3, 0.3),
    "S-BDT_abalone_0.3": _abalone(0.3, 100, 2, 0.3),
    "S-BDT_abalone_0.5": _abalone(0.5, 150, 2, 0.3, starts=False),
    **_totally_random(1.0),
}
"""For a number."""
