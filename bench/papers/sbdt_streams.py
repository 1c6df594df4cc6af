"""S-BDT's figure 5: streams of two batches that differ, with the filter and naively.

The late batch of Adult are the rows of the second class, that of Abalone the rows with more rings
than the mean. Arms, the first two beside their published figures (means of 200 runs):
- filter: early rows go on contributing while their own budget lasts.
- naive: early rows are forgotten; late trees see late rows alone.
- defaults: this package's defaults and bounds that a person would state, with the filter.

T trees are for the early batch, and up to T more (T') once the late one is there. Filter and naive
stream have the settings each that S-BDT's authors found best for it, on their rows and bounds.
Unlike there, all that is spent is counted in ε.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench.papers.figure import Point
from bench.papers.protocol import make, score, split, table
from bench.papers.sbdt_points import METRICS, RECIPES, ROWS
from privboost import ClassTarget
from privboost.recipes.sbdt import COUNT_EPSILON, DELTA

SHARED: dict[str, Any] = {
    "delta": DELTA,
    "learning_rate": 0.1,
    "subsample": 0.1,
    "leaf_clip": 2.0,
    "init_noise": "laplace",
    "init_share": 0.0,
    "calibration_share": 0.0,
    "negative_hessian": "zero",
    "accountant": "rdp",
}
OF_DATA: dict[str, dict[str, Any]] = {
    "adult": {"hessian_share": 0.1},
    "abalone": {"hessian_share": 0.2, "hessian_clip": 1.0, "boosting": "gradient"},
}


@dataclass(frozen=True)
class Arm:
    """One published figure, its standard error, and the settings behind it."""

    score: float
    error: float
    trees: int
    late: int
    depth: int
    g: float
    lam: float
    h: float = 0.1
    starts: bool = False

    def parameters(self, name: str, epsilon: float) -> dict[str, Any]:
        """Return the estimator's parameters for the early batch."""
        own = {
            "epsilon": epsilon,
            "n_estimators": self.trees,
            "max_depth": self.depth,
            "gradient_clip": self.g,
            "hessian_clip": self.h,
            "reg_lambda": self.lam,
        }
        if self.starts:
            own |= {"init_epsilon": 0.1 * epsilon, "init_count_epsilon": COUNT_EPSILON}
        return SHARED | own | OF_DATA[name]


FIGURE5: dict[tuple[str, float], dict[str, Arm]] = {
    ("adult", 0.01): {
        "filter": Arm(0.7146, 0.0052, 50, 50, 6, 0.5, 10),
        "naive": Arm(0.7035, 0.0053, 200, 200, 6, 0.1, 1),
    },
    ("adult", 0.02): {
        "filter": Arm(0.7945, 0.0022, 200, 200, 6, 0.3, 1),
        "naive": Arm(0.7491, 0.0038, 200, 150, 6, 0.1, 10),
    },
    ("adult", 0.03): {
        "filter": Arm(0.8207, 0.0014, 400, 400, 6, 0.1, 10),
        "naive": Arm(0.7748, 0.0029, 200, 200, 6, 0.1, 10, h=0.25),
    },
    ("adult", 0.1): {
        "filter": Arm(0.8671, 0.0005, 400, 400, 6, 0.3, 10),
        "naive": Arm(0.8005, 0.0024, 200, 100, 6, 0.1, 10, h=0.25),
    },
    ("adult", 0.5): {
        "filter": Arm(0.8917, 0.0003, 400, 400, 6, 0.5, 10),
        "naive": Arm(0.8298, 0.0011, 200, 100, 6, 0.1, 10),
    },
    ("abalone", 0.05): {
        "filter": Arm(2.900, 0.016, 50, 50, 2, 0.1, 15, starts=True),
        "naive": Arm(2.967, 0.022, 50, 25, 4, 0.1, 15, starts=True),
    },
    ("abalone", 0.1): {
        "filter": Arm(2.745, 0.012, 100, 100, 2, 0.1, 15, starts=True),
        "naive": Arm(2.796, 0.011, 50, 25, 6, 0.1, 15, starts=True),
    },
    ("abalone", 0.2): {
        "filter": Arm(2.652, 0.011, 150, 150, 2, 0.1, 15, starts=True),
        "naive": Arm(2.735, 0.010, 100, 25, 4, 0.1, 15, starts=True),
    },
    ("abalone", 0.3): {
        "filter": Arm(2.616, 0.010, 150, 150, 2, 0.1, 15, starts=True),
        "naive": Arm(2.713, 0.010, 100, 25, 6, 0.1, 15, starts=True),
    },
    ("abalone", 0.5): {
        "filter": Arm(2.572, 0.012, 400, 300, 2, 0.1, 15),
        "naive": Arm(2.711, 0.009, 100, 25, 6, 0.1, 15, starts=True),
    },
}

LATE_BY_DEFAULT = {"adult": 300, "abalone": 100}
"""As many late trees as early ones."""


def stream(data: str, epsilon: float, arm: str, seed: int) -> float:
    """Return AUC or RMSE, on held-out rows of both kinds, after two batches."""
    known = FIGURE5[data, epsilon].get(arm)
    if known:
        parameters, late_trees = known.parameters(data, epsilon), known.late
    else:
        parameters, late_trees = {"epsilon": epsilon, "delta": DELTA}, LATE_BY_DEFAULT[data]
    frame, domain = table(ROWS[data] + (":sbdt" if known else ""))
    rows, rest = split(frame, seed, 0.8)
    y, target = rows[domain.target.name], domain.target
    late = y == target.ordered[1] if isinstance(target, ClassTarget) else y > y.mean()
    model = make(RECIPES[data], parameters, domain, seed).partial_fit(rows[~late])
    if arm == "naive":
        model.forget_rows()
    model.set_params(n_estimators=late_trees).partial_fit(rows[late])
    return score(model, rest, domain, METRICS[data])


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
