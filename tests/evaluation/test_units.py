"""Error bars where a patient has several rows: they hold the truth as often as they say."""

import math
from functools import cache

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from privboost import Domain, PrivBoostClassifier, evaluate
from privboost.data import contribution_bound
from privboost.evaluation import plan
from privboost.evaluation.class_measures import ClassCounts, accuracy, prevalence
from privboost.evaluation.classes import cells_of_scores

RUNS = 500


def domain_of(max_rows):
    features = {
        "flag": {"kind": "boolean"},
        "kind": {"kind": "categorical", "categories": ["a", "b"]},
    }
    return Domain.from_dict(
        {
            "version": 1,
            "features": features,
            "target": {"name": "y", "classes": ["no", "yes"]},
            "unit": {"column": "who", "max_rows": max_rows},
        }
    )


def patients(n, seed, alike, rows=5):
    """Rows of patients, some of whom have the same row five times."""
    rng = np.random.default_rng(seed)
    own = np.arange(n * rows)
    own = np.where(np.repeat(rng.random(n) < alike, rows), own // rows * rows, own)
    flag, kind, level = (draw[own] for draw in rng.random((3, n * rows)))
    return pd.DataFrame(
        {
            "flag": flag < 0.5,
            "kind": np.where(kind < 0.5, "a", "b"),
            "y": np.where(level < np.where(flag < 0.5, 0.2, 0.4), "yes", "no"),
            "who": np.repeat(np.arange(n), rows),
        }
    )


@cache
def model_of(max_rows):
    return PrivBoostClassifier(3.0, 1e-6, domain_of(max_rows), random_state=1).fit(
        patients(4000, 0, 0.0)
    )


def coverage(max_rows, alike, runs=RUNS):
    """How often two standard errors hold the truth, by measure."""
    model = model_of(max_rows)
    exact = evaluate(model, patients(200_000, 99, 0.0), epsilon=math.inf, public_rows=True)
    names = ["accuracy", "prevalence", "auc", "brier"]
    held = []
    for seed in range(runs):
        frame = patients(500, seed + 100, alike)
        found = evaluate(model, frame, epsilon=1.0, delta=1e-6, random_state=seed)
        held.append([abs(found[k].value - exact[k].value) <= 2 * found[k].std for k in names])
    return dict(zip(names, np.mean(held, axis=0), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(("max_rows", "alike"), [(1, 0.0), (3, 0.5)])
def test_intervals_hold_the_truth(max_rows, alike):
    held = coverage(max_rows, alike)
    assert 0.93 <= (held["accuracy"] + held["prevalence"]) / 2 <= 0.97
    assert min(held.values()) > 0.91


def test_rows_of_one_patient_taken_for_independent_are_caught(monkeypatch):
    """The twin uses as many rows of a patient as training does."""
    monkeypatch.setattr(
        plan, "_basis", lambda encoder, budget: plan.PlanBasis(encoder, None, budget, "auto")
    )
    assert coverage(3, 1.0, runs=60)["accuracy"] < 0.9


def test_patients_who_keep_the_same_kind_of_row_are_caught(monkeypatch):
    """The twin's hash forgets the unit."""
    kept = contribution_bound.random_ranks

    def twin(blocks, unit, names, *how):
        return kept(blocks, unit, pa.array([b""] * len(names), names.type), *how)

    monkeypatch.setattr(contribution_bound, "random_ranks", twin)
    assert coverage(1, 0.0, runs=60)["accuracy"] < 0.5


@pytest.mark.parametrize("cells", [12, 16, 24, 32])
def test_the_error_of_a_proportion_is_the_binomial_one(cells):
    """Without noise, of 1,000 rows with two scores."""
    model = model_of(1).model_
    found = cells_of_scores(model, cells, False)
    rows = np.zeros((cells, 2))
    rows[1], rows[-2] = (400.0, 100.0), (200.0, 300.0)
    hits = np.array([[200.0, 400.0], [100.0, 300.0]])
    counts = ClassCounts.of(("no", "yes"), (hits, rows), 1e-9, found, True)
    assert accuracy(counts).value == pytest.approx(0.7)
    assert accuracy(counts).std == pytest.approx(math.sqrt(0.7 * 0.3 / 1000), rel=0.06)
    assert prevalence(counts).std == pytest.approx(math.sqrt(0.4 * 0.6 / 1000), rel=0.06)


def test_few_runs_hold_the_truth():
    """The same measured on one tenth of the runs: it tells the twins apart."""
    assert coverage(3, 1.0, runs=60)["accuracy"] >= 0.9
