"""Whole fits beside peers, from a data frame in memory to the model, coding included.

Peers have the columns as they like them, before the clock starts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import pandas as pd

import privboost
from bench.papers import peers
from bench.papers.protocol import split
from bench.speed.clock import Act, Timing, compare
from bench.utility.methods import METHODS
from bench.utility.tables import load
from privboost import Domain
from privboost.recipes import RECIPES

EPSILON, DELTA = 1.0, 1e-6


def _peers(trees: int, depth: int | None = None, bins: int | None = None) -> dict[str, Any]:
    """Return LightGBM and XGBoost with so many trees; no depth means 31 leaves."""
    light = {"num_leaves": 31} if depth is None else {"max_depth": depth, "num_leaves": 2**depth}
    extreme = {"max_leaves": 31} if depth is None else {"max_depth": depth}
    if bins:
        light |= {"max_bin": bins}
        extreme |= {"max_bin": bins}
    return {
        "LightGBM": ("lightgbm", {"n_estimators": trees} | light),
        "XGBoost": ("xgboost", {"n_estimators": trees} | extreme),
    }


@dataclass(frozen=True)
class Case:
    """One table, and who is fitted to four fifths of it.

    Attributes
    ----------
    title, table : str
        What is compared, and on which of `bench.utility.tables`.
    ours, peers : dict
        Estimators and peers by the name that they have here, with their settings.
    """

    title: str
    table: str
    ours: dict[str, tuple[str, dict[str, Any]]]
    peers: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)


_SBDT = {"n_estimators": 1000, "max_depth": 6}
_FILTER = {"n_estimators": 500, "extra_estimators": 500, "max_depth": 6}
CASES = (
    Case(
        "Adult, defaults (LightGBM and XGBoost: 100 trees of 31 leaves)",
        "adult",
        {
            METHODS[name].title: (recipe.estimators["classes"], {})
            for name, recipe in RECIPES.items()
        },
        _peers(100) | {"DP-EBM": ("dp_ebm", {"epsilon": EPSILON, "delta": DELTA})},
    ),
    Case(
        "Adult, 400 rounds (trees: depth 6)",
        "adult",
        {"PrivBoost": ("PrivBoostClassifier", {"n_estimators": 400})},
        _peers(400, 6),
    ),
    Case(
        "Adult, 1,000 trees of depth 6",
        "adult",
        {
            "S-BDT, cyclical": ("SBDTClassifier", _SBDT),
            "S-BDT, any feature": ("SBDTClassifier", _SBDT | {"features": "uniform"}),
            "S-BDT, cyclical, filter": ("SBDTClassifier", _FILTER),
            "S-BDT, any feature, filter": ("SBDTClassifier", _FILTER | {"features": "uniform"}),
            "S-BDT, cyclical, subsample .1": ("SBDTClassifier", _SBDT | {"subsample": 0.1}),
        },
        _peers(1000, 6),
    ),
    Case(
        "Adult, a linear model of 133 indicators in 1,000 rounds; 99 votes",
        "adult",
        {
            "BoostedAdaSSP": ("BoostedAdaSSPClassifier", {"n_estimators": 1000, "bins": 5}),
            "LazyBB": ("LazyBBClassifier", {"n_estimators": 99}),
        },
    ),
    Case(
        "Covtype, two classes, 50 greedy trees of depth 6, 64 bins",
        "covtype:two",
        {
            "DP-XGB": (
                "DPXGBClassifier",
                {"n_estimators": 50, "max_depth": 6, "n_candidates": 63},
            )
        },
        _peers(50, 6, 63),
    ),
)


def measure(threads: list[int], turns: int, words: str = "") -> list[Timing]:
    """Return the times of all cases whose title has these words, for each number of threads."""
    timings = []
    for case in CASES:
        if words not in case.title:
            continue
        frame, domain = load(case.table, 0)
        rows, _ = split(frame, 0, 0.8)
        acts: dict[tuple[str, int], Act] = {}
        for count in threads:
            for who, (name, how) in case.peers.items():
                if find_spec(peers.NEEDS[name]):
                    acts[who, count] = _peer(name, how | {"n_jobs": count}, rows, domain)
            for who, (name, how) in case.ours.items():
                acts[who, count] = _ours(name, how | {"n_jobs": count}, rows, domain)
        timings += compare(case.title, acts, turns)
    return timings


def _ours(name: str, how: dict[str, Any], rows: pd.DataFrame, domain: Domain) -> Act:
    kind = getattr(privboost, name)
    return lambda: kind(EPSILON, DELTA, domain, **how).fit(rows)


def _peer(name: str, how: dict[str, Any], rows: pd.DataFrame, domain: Domain) -> Act:
    model, prepare = peers.build(name, how, domain, 0)
    table, label = prepare(rows), peers.labels(rows, domain)
    return lambda: model.fit(table, label)
