"""Times of boosted linear models and of votes, one thread, beside what the machine can do.

python -m bench.linear_speed
"""

from __future__ import annotations

import time

import numpy as np

from bench import data, runner
from bench.tree_speed import Act, take_turns
from privboost import BoostedAdaSSPClassifier, LazyBBClassifier
from privboost.boosting.adassp_terms import design
from privboost.engine.backend import open_local
from privboost.engine.queries import GramSums
from privboost.engine.updates import SetTerms, Start
from privboost.grid import VECTOR_STEPS
from privboost.losses import loss_of
from privboost.tables.beside import open_source
from privboost.tables.domain import Domain
from privboost.tables.encoding import Encoder
from privboost.tables.features import ClassTarget, NumericFeature
from privboost.tables.loader import RowLoader
from privboost.tables.loading import Load

ROUNDS = 1000
ROWS, COLUMNS = 1_000_000, 100


def fits() -> dict[str, float]:
    """Whole fits on the 32,561 rows of Adult's training set, coding included."""
    frame, domain = data.load("adult")
    rows = frame[frame["split"] == "train"] if "split" in frame else frame.iloc[:32561]

    def linear() -> None:
        BoostedAdaSSPClassifier(1.0, 1e-6, domain, n_estimators=ROUNDS, bins=5).fit(rows)

    def votes() -> None:
        LazyBBClassifier(1.0, 1e-6, domain, n_estimators=99).fit(rows)

    acts: dict[str, Act] = {
        f"BoostedAdaSSP, {ROUNDS} rounds, 133 indicators": linear,
        "LazyBB, 99 rules": votes,
    }
    seconds = take_turns(acts)
    for name, each in seconds.items():
        print(f"{name:44} {each:.2f} s")
    return seconds


def matrix() -> dict[str, float]:
    """The products of 100 numbers of a million rows, against BLAS on a float64 matrix."""
    features = tuple(NumericFeature(f"x{k}", (0, 1)) for k in range(COLUMNS))
    encoder = Encoder.of(Domain(features, ClassTarget("y", (0, 1))))
    rng = np.random.default_rng(0)
    table = rng.random((ROWS, COLUMNS))
    source, roles = open_source(encoder.domain, table, rng.integers(0, 2, ROWS), None)
    terms = design(encoder, intercept=False).terms
    backend = open_local([Load(RowLoader(encoder, roles), source)])
    backend.apply(Start(loss_of("classes", "logistic").gradient_table(1.0, (1.0, 1.0))))
    backend.apply(SetTerms(terms))
    query = GramSums.of(terms, np.full(2, VECTOR_STEPS))
    acts: dict[str, Act] = {
        "privboost, exact, from codes": lambda: backend.sum(query),
        "BLAS, from float64": lambda: table.T @ table,
    }
    seconds = take_turns(acts, turns=3)
    for name, each in seconds.items():
        print(f"{name:44} {each:.2f} s, {ROWS * COLUMNS**2 / each / 1e9:.1f} G products a second")
    return seconds


def main() -> None:
    start = time.perf_counter()
    results = {"fits": fits(), "matrix": matrix()}
    print(f"{time.perf_counter() - start:.0f} s in all")
    runner.write("linear_speed", {"rounds": ROUNDS, "rows": ROWS, "columns": COLUMNS}, results)


if __name__ == "__main__":
    main()
