"""Whole fits beside LightGBM and XGBoost on the same workers and rows; theirs have no noise."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from bench.clusters.places import dask_workers
from bench.clusters.tables import dask_frame, domain, features
from bench.clusters.watching import fit
from privboost import PrivBoostClassifier, SarusXGBClassifier, SBDTClassifier

FEW_ROWS = 2000


def measure(
    rows: int = 2_000_000,
    columns: int = 10,
    trees: int = 100,
    workers: int = 2,
    parts: int = 8,
    turns: int = 3,
) -> Iterator[dict[str, Any]]:
    """Yield seconds of each in each turn, and then the least as a ratio to LightGBM's."""
    from distributed import wait

    acts = _contenders(columns, trees)
    least = dict.fromkeys(acts, float("inf"))
    with dask_workers(workers) as client:
        few = dask_frame(FEW_ROWS, columns, parts)
        for act in acts.values():
            act(few)  # processes load their compiled code
        frame = client.persist(dask_frame(rows, columns, parts))
        wait(frame)
        for turn in range(turns):
            for who, act in acts.items():
                found = act(frame)
                least[who] = min(least[who], found["seconds"])
                yield {"who": who, "turn": turn} | found
    for who, seconds in least.items():
        yield {"who": who, "least": seconds, "ratio": round(seconds / least["LightGBM"], 2)}


def _contenders(columns: int, trees: int) -> dict[str, Callable[[Any], dict[str, Any]]]:
    """Return who is fitted, by name: how a frame becomes times. Defaults, but for peers' trees."""
    public = {"epsilon": 1.0, "domain": domain(columns)}
    ours = {
        "PrivBoost": (PrivBoostClassifier, public | {"delta": 1e-9}),
        "S-BDT": (SBDTClassifier, public | {"delta": 1e-9}),
        "Sarus": (SarusXGBClassifier, public),
    }
    acts = {who: partial(_fit, kind, how) for who, (kind, how) in ours.items()}
    return acts | {
        "LightGBM": partial(fit_lightgbm, trees),
        "XGBoost": partial(_fit_xgboost, trees),
    }


def _fit(kind: Any, how: dict[str, Any], frame: Any) -> dict[str, Any]:
    return fit(kind, how, [frame])


def fit_lightgbm(trees: int, frame: Any) -> dict[str, Any]:
    """Fit LightGBM's trees of 31 leaves."""
    from lightgbm.dask import DaskLGBMClassifier

    start = time.perf_counter()
    DaskLGBMClassifier(n_estimators=trees, verbosity=-1).fit(*features(frame))
    return {"seconds": round(time.perf_counter() - start, 3), "rounds": trees}


def _fit_xgboost(trees: int, frame: Any) -> dict[str, Any]:
    """Fit XGBoost's trees of depth 6."""
    from distributed import get_client
    from xgboost import dask

    start = time.perf_counter()
    client, (table, label) = get_client(), features(frame)
    rows = dask.DaskDMatrix(client, table, label)
    dask.train(client, {"objective": "binary:logistic", "tree_method": "hist"}, rows, trees)
    return {"seconds": round(time.perf_counter() - start, 3), "rounds": trees}
