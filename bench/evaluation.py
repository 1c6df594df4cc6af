"""How far released evaluations are off, and how often their error bars hold.

    python -m bench.evaluation adult abalone --runs 20

Adult's test rows at ε = 0.1 and 1, all together and by sex and race; Abalone's rows, a quarter of
them held out. Errors are against exact values on the same rows. Bars are of noise and of rows, so
they are judged on tables whose rows are drawn with replacement, against the values of the table
that they are drawn from.
"""

from __future__ import annotations

import argparse
import math
import warnings

import numpy as np
import pandas as pd

from bench.data import load
from privboost import Evaluation, PrivBoostClassifier, PrivBoostRegressor, evaluate
from privboost.datasets import load_adult
from privboost.evaluation.result import BoundedValue, Value

DELTA = 1e-6
EPSILONS = (0.1, 1.0)


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", default=["adult", "abalone"])
    parser.add_argument("--runs", type=int, default=20)
    given = parser.parse_args()
    for table in given.tables:
        {"adult": _adult, "abalone": _abalone}[table](given.runs)


def _adult(runs: int) -> None:
    adult = load_adult()
    classes = PrivBoostClassifier(1.0, DELTA, adult.domain, random_state=0).fit(adult.train)
    test = adult.test.to_pandas()
    _report("Adult", classes, test, runs, ())
    _report("Adult by sex", classes, test, runs, ("sex",))
    _report("Adult by sex and race", classes, test, runs, ("sex", "race"))


def _abalone(runs: int) -> None:
    frame, domain = load("abalone")
    frame = frame.sample(frac=1, random_state=0)
    cut = len(frame) * 3 // 4
    number = PrivBoostRegressor(1.0, DELTA, domain, random_state=0).fit(frame[:cut])
    _report("Abalone", number, frame[cut:], runs, ())
    _report("Abalone by sex", number, frame[cut:], runs, ("sex",))


def _report(what: str, model: object, rows: pd.DataFrame, runs: int, by: tuple[str, ...]) -> None:
    truth = _values(evaluate(model, rows, epsilon=math.inf, public_rows=True, by=by))
    for epsilon in EPSILONS:
        same = [
            _values(evaluate(model, rows, epsilon=epsilon, delta=DELTA, by=by)) for _ in range(runs)
        ]
        drawn = [
            _values(
                evaluate(
                    model,
                    rows.sample(frac=1, replace=True, random_state=seed),
                    epsilon=epsilon,
                    delta=DELTA,
                    by=by,
                )
            )
            for seed in range(runs)
        ]
        print(f"\n{what}, epsilon {epsilon:g}: {len(rows)} rows")
        for place, exact in truth.items():
            if exact.value == 0.5 and exact.std == 0.5:
                continue  # nothing is known even without noise
            off = np.array([one[place].value - exact.value for one in same])
            bars = np.mean([one[place].std for one in same])
            tables = same if place[-1] == "rows" else drawn  # tables that are drawn have their own
            held = np.mean([_holds(one[place], exact.value) for one in tables])
            error = np.sqrt((off**2).mean())
            print(
                f"  {' '.join(place):44} exact {exact.value:10.4f}  error {error:8.4f}"
                f"  bias {off.mean():8.4f}  bar {bars:8.4f}  within two bars {held:5.0%}"
            )


def _holds(value: Value, exact: float) -> bool:
    """Whether two standard errors, or the ends of an interval, hold the exact value."""
    if not isinstance(value, BoundedValue):
        return abs(value.value - exact) <= 2 * value.std
    low, high = value.lower, value.upper
    return (low is None or low <= exact) and (high is None or exact <= high)


def _values(found: Evaluation) -> dict:
    own = {("all", name): value for name, value in found.measures.values.items()}
    for group in found.groups:
        own |= {
            (group.feature, group.value, name): value
            for name, value in group.measures.values.items()
        }
    return own


if __name__ == "__main__":
    main()
