"""Rounds of several questions: what they save where a round is dear, and what they cost in scores.

A model is the same wherever its rows lie, so scores are of fits on this machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import mean, stdev
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from sklearn.metrics import log_loss, roc_auc_score

from bench.clusters.places import dask_workers, spark_session
from bench.clusters.watching import fit
from privboost import PrivBoostClassifier
from privboost.datasets import load_adult

WORKERS, PARTS = 2, 4
BUDGET = {"epsilon": 1.0, "delta": 1e-6}


def measure(
    at_once: tuple[int, ...] = (1, 8, 14), seeds: int = 20, interactions: tuple[int, ...] = (1, 0)
) -> Iterator[dict[str, Any]]:
    """Yield scores and times on Adult, with interactions and without."""
    adult = load_adult()
    cases = [
        {"at_once": count, "interactions": bool(joint)}
        for joint in interactions
        for count in at_once
    ]
    how = BUDGET | {"domain": adult.domain}
    for case in cases:
        yield case | {"where": "scores"} | _scores(adult, how | case, seeds)
    with TemporaryDirectory() as folder:
        for k in range(PARTS):
            rows = adult.train.take(pa.array(np.arange(k, adult.train.num_rows, PARTS)))
            pa.parquet.write_table(rows, Path(folder) / f"{k}.parquet")
        with dask_workers(WORKERS):
            import dask.dataframe as dd

            yield from _fits("Dask", how, cases, dd.read_parquet(folder))
        with spark_session(WORKERS) as spark:
            frame = spark.read.parquet(folder).repartition(PARTS).persist()
            yield from _fits("Spark", how, cases, frame)


def _fits(
    where: str, how: dict[str, Any], cases: list[dict[str, Any]], frame: Any
) -> Iterator[dict[str, Any]]:
    fit(PrivBoostClassifier, how | cases[-1], [frame])  # processes load their compiled code
    for case in cases:
        yield case | {"where": where} | fit(PrivBoostClassifier, how | case, [frame])


def _scores(adult: Any, how: dict[str, Any], seeds: int) -> dict[str, Any]:
    """Return means over seeds, on Adult's own test rows, with their standard errors."""
    label = np.array(adult.test[adult.domain.target.name].to_pylist()) == _positive(adult)
    found: dict[str, list[float]] = {"auc": [], "log_loss": [], "accuracy": []}
    for seed in range(seeds):
        model = PrivBoostClassifier(**how, random_state=seed).fit(adult.train)
        chance = model.predict_proba(adult.test)[:, 1]
        found["auc"].append(roc_auc_score(label, chance))
        found["log_loss"].append(log_loss(label, chance))
        found["accuracy"].append(float(np.mean((chance > 0.5) == label)))
    out: dict[str, Any] = {"seeds": seeds}
    for name, values in found.items():
        out[name] = round(mean(values), 5)
        out[f"{name}_error"] = round(stdev(values) / seeds**0.5, 5)
    return out


def _positive(adult: Any) -> Any:
    return adult.domain.target.classes[1]
