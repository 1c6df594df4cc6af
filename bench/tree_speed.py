"""Speed of trees as ratios to LightGBM in one run, one thread each.

    python -m bench.tree_speed

Whole fits of 1,000 trees of depth 6 on 80 % of Adult, from the data frame to the model; with the
individual filter; predictions of a million rows by 200 trees; how time grows with rows and trees;
and greedy trees on covtype. Contenders take turns, and each has its best of several turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import lightgbm
import numpy as np
import pandas as pd

from bench import data, runner
from privboost import Domain, DPXGBClassifier, SBDTClassifier

TREES, DEPTH, TURNS = 1000, 6, 6
AUTHORS_SECONDS = 8.1
"""S-BDT's own C++ code, 1,000 cyclical trees on as many rows, as it was measured elsewhere."""

Act = Callable[[], Any]


def take_turns(acts: dict[str, Act], turns: int = TURNS) -> dict[str, float]:
    """Return the best time of each, in seconds."""
    best = dict.fromkeys(acts, float("inf"))
    for act in acts.values():
        act()
    for _ in range(turns):
        for name, act in acts.items():
            start = time.perf_counter()
            act()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def adult() -> tuple[pd.DataFrame, pd.DataFrame, pd.Series, Any]:
    frame, domain = data.load("adult")
    rows = frame.sample(frac=0.8, random_state=0)
    text = [f.name for f in domain.features if f.kind == "categorical"]
    plain = rows[list(domain.feature_names)].astype(dict.fromkeys(text, "category"))
    return rows, plain, rows["income"] == ">50K", domain


def peer(trees: int) -> lightgbm.LGBMClassifier:
    return lightgbm.LGBMClassifier(
        n_estimators=trees, max_depth=DEPTH, num_leaves=2**DEPTH - 1, n_jobs=1, verbose=-1
    )


def fits() -> dict[str, float]:
    rows, plain, label, domain = adult()

    def ours(**how: Any) -> Act:
        how = {"n_estimators": TREES, "max_depth": DEPTH} | how
        return lambda: SBDTClassifier(1.0, 1e-6, domain, **how).fit(rows)

    half = {"n_estimators": TREES // 2, "extra_estimators": TREES // 2}
    seconds = take_turns(
        {
            "LightGBM": lambda: peer(TREES).fit(plain, label),
            "cyclical": ours(),
            "uniform": ours(features="uniform"),
            "cyclical, filter": ours(**half),
            "uniform, filter": ours(features="uniform", **half),
            "cyclical, subsample 0.1": ours(subsample=0.1),
        }
    )
    print(f"{TREES} trees of depth {DEPTH} on {len(rows)} rows of Adult, whole fit, one thread:")
    for name, each in seconds.items():
        print(f"  {name:24} {each:.3f} s, {each / seconds['LightGBM']:.4f} of LightGBM's")
    for name in ("cyclical", "uniform"):
        ratio = seconds[f"{name}, filter"] / seconds[name]
        print(f"  {name} with the filter, per tree: {ratio:.2f} times")
    print(
        f"  cyclical is {AUTHORS_SECONDS / seconds['cyclical']:.0f} times as fast as S-BDT's code"
    )
    return seconds


def predictions() -> dict[str, float]:
    rng = np.random.default_rng(0)
    table = rng.random((1_000_000, 20))
    label = (table[:, 0] + table[:, 1] > 1).astype(int)
    numbers = {f"x{k}": {"kind": "numeric", "bounds": [0, 1]} for k in range(20)}
    domain = {"version": 1, "features": numbers, "target": {"name": "y", "classes": [0, 1]}}
    few = slice(0, 50_000)
    model = SBDTClassifier(1.0, 1e-6, domain, n_estimators=200, max_depth=6, features="uniform")
    model.fit(table[few], label[few])
    other = peer(200).fit(table[few], label[few])
    acts = {
        "privboost": lambda: model.predict_proba(table),
        "LightGBM": lambda: other.predict_proba(table),
    }
    seconds = take_turns(acts, turns=2)
    print("a million rows × 200 trees of depth 6, coding included, one thread:")
    for name, each in seconds.items():
        print(f"  {name:24} {each:.2f} s")
    return seconds


def growth() -> dict[str, float]:
    """Time for twice the rows, and for twice the trees."""
    rng = np.random.default_rng(0)
    numbers = {f"x{k}": {"kind": "numeric", "bounds": [0, 1]} for k in range(10)}
    domain = {"version": 1, "features": numbers, "target": {"name": "y", "classes": [0, 1]}}
    table = rng.random((800_000, 10)).astype(np.float32)
    label = rng.integers(0, 2, len(table))

    def fit(rows: int, trees: int) -> Act:
        model = SBDTClassifier(1.0, 1e-6, domain, n_estimators=trees, features="uniform")
        return lambda: model.fit(table[:rows], label[:rows])

    seconds = take_turns(
        {
            "400,000 rows, 100 trees": fit(400_000, 100),
            "800,000 rows, 100 trees": fit(800_000, 100),
            "400,000 rows, 200 trees": fit(400_000, 200),
        },
        turns=3,
    )
    for name, each in seconds.items():
        print(f"  {name:24} {each:.2f} s")
    return seconds


def greedy() -> dict[str, float]:
    """Full covtype, class 2 against the rest, 50 greedy trees of depth 6, 64 bins."""
    frame, domain = data.load("covtype")
    name, form = domain.target.name, domain.to_dict()
    form["target"] = {"name": name, "classes": [0, 1]}
    frame = frame.assign(**{name: (frame[name] == 2).astype(int)})
    table, label = frame[list(domain.feature_names)], frame[name]

    def ours(jobs: int) -> Act:
        how = {"n_estimators": 50, "max_depth": 6, "n_candidates": 63, "n_jobs": jobs}
        return lambda: DPXGBClassifier(1.0, 1e-6, Domain.from_dict(form), **how).fit(frame)

    def theirs(jobs: int) -> Act:
        how = {"n_estimators": 50, "max_depth": 6, "num_leaves": 63, "max_bin": 63}
        model = lightgbm.LGBMClassifier(n_jobs=jobs, verbose=-1, **how)
        return lambda: model.fit(table, label)

    acts = {f"privboost, {k}": ours(k) for k in (1, 2)}
    acts |= {f"LightGBM, {k}": theirs(k) for k in (1, 2)}
    seconds = take_turns(acts, turns=3)
    print(f"50 greedy trees of depth 6 on {frame.shape[0]} × 54, threads, binning included:")
    for name, each in seconds.items():
        print(f"  {name:24} {each:.2f} s")
    return seconds


def main() -> None:
    results = {"fits": fits(), "predictions": predictions()}
    results |= {"growth": growth(), "greedy": greedy()}
    runner.write("tree_speed", {"trees": TREES, "depth": DEPTH, "turns": TURNS}, results)


if __name__ == "__main__":
    main()
