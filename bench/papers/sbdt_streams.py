"""S-BDT's figure 5: streams whose late rows differ, with the filter and naively."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from bench.papers.figure import Point
from bench.streams import TABLE, Arm, as_published, measure
from privboost.boosting.sbdt_presets import DELTA

FIGURE5: dict[tuple[str, float], dict[str, Arm]] = TABLE | {
    ("adult", 0.01): {
        "filter": Arm(0.7146, 0.0052, 50, 50, 6, 0.5, 10),
        "naive": Arm(0.7035, 0.0053, 200, 200, 6, 0.1, 1),
    },
    ("adult", 0.03): {
        "filter": Arm(0.8207, 0.0014, 400, 400, 6, 0.1, 10),
        "naive": Arm(0.7748, 0.0029, 200, 200, 6, 0.1, 10, h=0.25),
    },
    ("abalone", 0.05): {
        "filter": Arm(2.900, 0.016, 50, 50, 2, 0.1, 15, starts=True),
        "naive": Arm(2.967, 0.022, 50, 25, 4, 0.1, 15, starts=True),
    },
    ("abalone", 0.2): {
        "filter": Arm(2.652, 0.011, 150, 150, 2, 0.1, 15, starts=True),
        "naive": Arm(2.735, 0.010, 100, 25, 4, 0.1, 15, starts=True),
    },
    ("abalone", 0.3): {
        "filter": Arm(2.616, 0.010, 150, 150, 2, 0.1, 15, starts=True),
        "naive": Arm(2.713, 0.010, 100, 25, 6, 0.1, 15, starts=True),
    },
}
"""The settings of each point; the bench of streams has those of five."""

LATE_BY_DEFAULT = {"adult": 300, "abalone": 100}
"""As many late trees as early ones."""

_rows = lru_cache(maxsize=2)(as_published)


def stream(data: str, epsilon: float, arm: str, seed: int) -> float:
    """Return AUC or RMSE after two batches."""
    frame, stated, theirs = _rows(data)
    if arm == "defaults":
        parameters: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA}
        return measure(frame, stated, seed, parameters, LATE_BY_DEFAULT[data], naive=False)
    known = FIGURE5[data, epsilon][arm]
    parameters = known.parameters(data, epsilon)
    return measure(frame, theirs, seed, parameters, known.late, naive=arm == "naive")


def figure5(name: str) -> tuple[Point, ...]:
    """Return the points of a data set: the filter, the naive stream, and our defaults."""
    points = []
    for data, epsilon in sorted(FIGURE5):
        if data != name:
            continue
        for arm in ("filter", "naive", "defaults"):
            known = FIGURE5[data, epsilon].get(arm)
            how = {"data": data, "epsilon": epsilon, "arm": arm}
            points.append(Point(arm, epsilon, stream, how, known.score if known else None))
    return tuple(points)
