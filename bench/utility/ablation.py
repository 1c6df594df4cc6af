"""What each idea of the flagship brings: the same fits without it, on the same splits.

    python -m bench.utility.ablation --runs 5

Ideas that are no parameter are taken away by setting their constants, in this process alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from bench import runner
from bench.papers.protocol import make, split
from bench.utility.measuring import SHARE
from bench.utility.plan import FIVE, delta_of
from bench.utility.scores import MAIN, score
from bench.utility.tables import kind, load
from privboost.recipes import privboost
from privboost.recipes.common import feature_posteriors, interactions, posterior

EPSILONS = (0.1, 1.0)
SEVERAL = 10**6


@dataclass(frozen=True)
class Without:
    """A flagship without one idea: other parameters, other constants by module and name."""

    parameters: Mapping[str, Any] = field(default_factory=dict)
    constants: Mapping[tuple[ModuleType, str], Any] = field(default_factory=dict)


IDEAS = {
    "nothing": Without(),
    "coarse cells: 32 in every question": Without({}, {(privboost, "FEWEST_CELLS"): 32}),
    "pooled answers: the last one alone": Without({}, {(posterior, "FADE"): 0.0}),
    "scale by evidence: a variance of .1": Without(
        {}, {(posterior, "VARIANCES"): np.full(len(posterior.VARIANCES), 0.1)}
    ),
    "questions where effects are: all in turn": Without(
        {}, {(feature_posteriors, "FIRST_SWEEPS"): SEVERAL}
    ),
    "interactions": Without({"interactions": False}),
    "pairs: trees alone": Without({}, {(interactions, "_MOST_PAIRS"): 0}),
    "a clip that follows the rows: 1": Without({"gradient_clip": 1.0}),
    "calibration": Without({"calibration_share": 0.0}),
    "one question a round: all features at once": Without({"at_once": SEVERAL}),
}
"""What is taken away, and what stands in its place."""


@contextmanager
def changed(constants: Mapping[tuple[ModuleType, str], Any]) -> Iterator[None]:
    """Set constants of the flagship's modules, and put them back."""
    before = {}
    for (module, constant), value in constants.items():
        before[module, constant] = _set(module, constant, value)
    try:
        yield
    finally:
        for (module, constant), value in before.items():
            _set(module, constant, value)


def _set(owner: ModuleType, constant: str, value: Any) -> Any:
    """Set a constant, an array in its place (others hold it, too); return what it was."""
    found = getattr(owner, constant)
    if isinstance(found, np.ndarray):
        old = found.copy()
        found[:] = value
        return old
    setattr(owner, constant, value)
    return found


def run(table: str, epsilon: float, idea: str, seed: int) -> dict[str, float]:
    """Return the scores of one fit."""
    without = IDEAS[idea]
    frame, domain = load(table, seed)
    rows, rest = split(frame, seed, SHARE)
    ending = "Regressor" if kind(table) == "number" else "Classifier"
    how = {"epsilon": epsilon, "delta": delta_of(epsilon)} | dict(without.parameters)
    with changed(without.constants), threadpool_limits(1):
        model = make(f"PrivBoost{ending}", how, domain, seed).fit(rows)
        return score(model, rest, domain)


def measure(runs: int) -> list[dict[str, Any]]:
    """Return for each table, ε and idea the mean scores, and what taking it away changes."""
    found = []
    for table in FIVE:
        measures = [MAIN[kind(table)], *(["log-loss"] if kind(table) == "two" else [])]
        for epsilon in EPSILONS:
            whole = [run(table, epsilon, "nothing", seed) for seed in range(runs)]
            for idea in IDEAS:
                if idea == "calibration" and kind(table) == "number":
                    continue
                own = (
                    whole
                    if idea == "nothing"
                    else [run(table, epsilon, idea, seed) for seed in range(runs)]
                )
                scores = {
                    name: {
                        "mean": runner.summarise([one[name] for one in own])["mean"],
                        "change": _change(name, own, whole),
                    }
                    for name in measures
                }
                found.append({"table": table, "epsilon": epsilon, "idea": idea, "scores": scores})
                said = {name: round(each["mean"], 4) for name, each in scores.items()}
                print(table, epsilon, idea, said, flush=True)
    return found


def _change(name: str, own: list[dict[str, float]], whole: list[dict[str, float]]) -> list[float]:
    """Return the mean change of a score and its standard error, run by run."""
    made = runner.summarise([a[name] - b[name] for a, b in zip(own, whole, strict=True)])
    return [made["mean"], made["standard_error"]]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.utility.ablation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--runs", type=int, default=5, help="runs of each (default 5)")
    asked = parser.parse_args()
    print(runner.write("ablation", {"runs": asked.runs}, measure(asked.runs)))


if __name__ == "__main__":
    main()
