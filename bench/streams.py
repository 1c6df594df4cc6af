"""S-BDT's streams of two batches that differ: rows that keep contributing, beside a naive stream.

    python -m bench.streams                          # Adult 40 runs, Abalone 60
    python -m bench.streams --runs 5 --only abalone
    python -m bench.streams --sweep                  # late trees: T/4, T/2, 3T/4 and T

The late batch of Adult are the rows of the second class, that of Abalone the rows with more rings
than the mean. Random 80/20 splits, one seed a run. Columns, the first two beside their published
figures (means of 200 runs):
- filter: early rows go on contributing while their own budget lasts.
- naive: early rows are forgotten; late trees see late rows alone.
- default: this package's defaults and bounds that a person would state, with the filter; as many
  late trees as early ones.

T trees are for the early batch, and up to T more (T') once the late one is there. Filter and naive
stream have the settings each that S-BDT's authors found best for it, the rows that they had (of
Adult the complete ones of the training file) and their bounds (all numbers from 0 to 100 on Adult,
from 0 to 0.5 on Abalone). Unlike there, all that is spent is counted in ε.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score, root_mean_squared_error

from bench import data, runner
from privboost import ClassTarget, Domain, SBDTClassifier, SBDTRegressor
from privboost.boosting.sbdt_presets import COUNT_EPSILON, DELTA
from privboost.datasets import load_adult

SHARES = (0.25, 0.5, 0.75, 1.0)
"""T' in parts of T, as published."""

MOST = {"adult": 100.0, "abalone": 0.5}
"""The published upper bound of every number; the lower one is 0."""

SHARED: dict[str, Any] = {
    "delta": DELTA,
    "learning_rate": 0.1,
    "subsample": 0.1,
    "leaf_clip": 2.0,
    "init_noise": "laplace",
    "init_share": 0.0,
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


TABLE: dict[tuple[str, float], dict[str, Arm]] = {
    ("adult", 0.02): {
        "filter": Arm(0.7945, 0.0022, 200, 200, 6, 0.3, 1),
        "naive": Arm(0.7491, 0.0038, 200, 150, 6, 0.1, 10),
    },
    ("adult", 0.1): {
        "filter": Arm(0.8671, 0.0005, 400, 400, 6, 0.3, 10),
        "naive": Arm(0.8005, 0.0024, 200, 100, 6, 0.1, 10, h=0.25),
    },
    ("adult", 0.5): {
        "filter": Arm(0.8917, 0.0003, 400, 400, 6, 0.5, 10),
        "naive": Arm(0.8298, 0.0011, 200, 100, 6, 0.1, 10),
    },
    ("abalone", 0.1): {
        "filter": Arm(2.745, 0.012, 100, 100, 2, 0.1, 15, starts=True),
        "naive": Arm(2.796, 0.011, 50, 25, 6, 0.1, 15, starts=True),
    },
    ("abalone", 0.5): {
        "filter": Arm(2.572, 0.012, 400, 300, 2, 0.1, 15),
        "naive": Arm(2.711, 0.009, 100, 25, 6, 0.1, 15, starts=True),
    },
}


def as_published(name: str) -> tuple[pd.DataFrame, Domain, Domain]:
    """Return the rows that S-BDT's authors had, our domain, and one with their bounds."""
    frame, domain = data.load(name)
    if name == "adult":
        frame = load_adult().train.to_pandas().dropna()
    form = domain.to_dict()
    for feature in form["features"].values():
        if feature["kind"] == "numeric":
            feature["bounds"] = [0.0, MOST[name]]
            feature.pop("scale", None)
            feature.pop("edges", None)
    return frame, domain, Domain.from_dict(form)


def measure(
    frame: pd.DataFrame,
    domain: Domain,
    seed: int,
    parameters: dict[str, Any],
    late_trees: int,
    naive: bool,
) -> float:
    """Return AUC or RMSE on held-out rows of both kinds."""
    train = np.random.default_rng(seed).random(len(frame)) < 0.8
    rows, rest = frame[train], frame[~train]
    name = domain.target.name
    classes = isinstance(domain.target, ClassTarget)
    kind = SBDTClassifier if classes else SBDTRegressor
    late = rows[name] == domain.target.ordered[1] if classes else rows[name] > rows[name].mean()
    model = kind(domain=domain, random_state=seed, **parameters).partial_fit(rows[~late])
    if naive:
        model.forget_rows()
    model.set_params(n_estimators=late_trees).partial_fit(rows[late])
    if classes:
        truth = rest[name] == model.classes_[1]
        return float(roc_auc_score(truth, model.decision_function(rest)))
    return float(root_mean_squared_error(rest[name], model.predict(rest)))


def columns(name: str, epsilon: float, sweep: bool) -> dict[str, tuple[dict[str, Any], int]]:
    """Return the parameters of each column, and how many late trees it has."""
    found: dict[str, tuple[dict[str, Any], int]] = {}
    for arm, settings in TABLE[name, epsilon].items():
        parameters = settings.parameters(name, epsilon)
        counts = [int(share * settings.trees) for share in SHARES] if sweep else [settings.late]
        found |= {f"{arm}, {count} late": (parameters, count) for count in counts}
    trees = 300 if name == "adult" else 100  # the defaults, by what is predicted
    found["default"] = ({"epsilon": epsilon, "delta": DELTA}, trees)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, help="runs of each cell (else 40, Abalone 60)")
    parser.add_argument("--only", help="one data set")
    parser.add_argument("--sweep", action="store_true", help="every published T', not the best")
    options = parser.parse_args()
    results = []
    for (name, epsilon), arms in TABLE.items():
        if options.only not in (None, name):
            continue
        frame, own, published = as_published(name)
        runs = options.runs or (60 if name == "abalone" else 40)
        line: dict[str, Any] = {"data": name, "epsilon": epsilon}
        line["published"] = {arm: (each.score, each.error) for arm, each in arms.items()}
        print(f"{name} epsilon {epsilon:g}, published {line['published']}")
        for column, (parameters, late) in columns(name, epsilon, options.sweep).items():
            domain, naive = own if column == "default" else published, column.startswith("naive")
            found = [measure(frame, domain, k, parameters, late, naive) for k in range(runs)]
            line[column] = runner.summarise(found) | {"parameters": parameters, "late_trees": late}
            error = line[column]["standard_error"] or math.nan
            print(f"  {column:16} {line[column]['mean']:.4f} ± {error:.4f}", flush=True)
        results.append(line)
    runner.write("streams", {"split": "80/20", "delta": DELTA, "bounds": MOST}, results)


if __name__ == "__main__":
    main()
