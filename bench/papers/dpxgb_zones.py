"""What DP-XGB's paper reads off its figure 4: ranks of models, and how many trees are enough.

Both are computed from the last measured `dpxgb.figure4`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from bench import runner
from bench.papers.figure import Point

SOURCE = "dpxgb.figure4"
PUBLISHED = {
    "TR": (13.49, 36.11),
    "TR_cyc": (23.41, 48.02),
    "TR_ada": (10.71, 32.14),
    "TR_ada_cyc": (21.03, 40.08),
    "XGB": (19.05, 44.05),
    "XGB_cyc": (29.37, 49.21),
    "XGB_ada": (30.56, 51.19),
}
"""Table 2, at most 50 trees and in all: over 18 data sets and 14 numbers of trees, 10 up to 50."""


def ranks(columns: Iterable[str], trees: Iterable[int]) -> Iterator[Point]:
    """Return figure 3's points."""
    for column in columns:
        for number in trees:
            yield Point(column, float(number), rank, {"column": column, "trees": float(number)})


def zones(columns: Iterable[str]) -> Iterator[Point]:
    """Return table 2's points."""
    for column in columns:
        few, total = PUBLISHED[column]
        for x, least, most, published in (
            ("≤ 50", 0, 50, few),
            ("100", 100, 100, None),
            ("200", 200, 200, None),
            ("total", 0, 200, total),
        ):
            how = {"column": column, "least": least, "most": most}
            yield Point(column, x, zone, how, published)


def rank(column: str, trees: float, seed: int) -> float:
    """Return the mean rank of a model with so many trees, over the data sets that all models have.

    Ranks are of means, so a seed changes nothing.
    """
    cells = _cells(_when())
    of = [{one["arm"]: one["mean"] for one in cells[data] if one["x"] == trees} for data in cells]
    columns = {one["arm"] for data in cells for one in cells[data]}
    found = [1 + sum(v > one[column] for v in one.values()) for one in of if set(one) == columns]
    return float(np.mean(found))


def zone(column: str, least: int, most: int, seed: int) -> float:
    """Return how many % of data sets and numbers of trees are as good as a model's best.

    As good: within a standard deviation of a run of its best on that data set.
    """
    hits, total = 0, 0
    for cells in _cells(_when()).values():
        own = [one for one in cells if one["arm"] == column]
        best = max(own, key=lambda one: one["mean"])
        enough = best["mean"] - (np.std(best["runs"], ddof=1) if len(best["runs"]) > 1 else 0)
        hits += sum(one["mean"] >= enough and least <= one["x"] <= most for one in own)
        total += len(own)
    return 100 * hits / total


def _when() -> float:
    """Return when figure 4 was measured last."""
    path = runner.RESULTS / "papers" / f"{SOURCE}.json"
    if not path.exists():
        raise FileNotFoundError(f"{SOURCE} is not measured yet: python -m bench.papers {SOURCE}")
    return path.stat().st_mtime


@lru_cache(maxsize=1)
def _cells(when: float) -> dict[str, list[dict[str, Any]]]:
    """Return figure 4's points by data set."""
    path = runner.RESULTS / "papers" / f"{SOURCE}.json"
    cells: dict[str, list[dict[str, Any]]] = {}
    for one in json.loads(path.read_text(encoding="utf-8"))["results"]:
        cells.setdefault(one["panel"], []).append(one)
    return cells
