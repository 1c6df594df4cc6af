"""Scores of methods: what there is to measure, how runs are kept, and what is made of them."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import Executor, Future
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bench import data
from bench.utility import measuring
from bench.utility.methods import CEILING, FLAGSHIP, METHODS, Method
from bench.utility.plan import EPSILONS, PARTS, Point, delta_of, points
from bench.utility.scores import MAIN, calibration_error, score
from bench.utility.store import add_run, merge, point_of, read_runs, summarise
from bench.utility.tables import TABLES, kind, load, title
from privboost import Domain
from privboost.recipes import RECIPES


class Coin:
    """A model of two classes that knows nothing."""

    def predict(self, rows: pd.DataFrame) -> np.ndarray:
        return np.zeros(len(rows), int)

    def predict_proba(self, rows: pd.DataFrame) -> np.ndarray:
        return np.full((len(rows), 2), 0.5)

    def decision_function(self, rows: pd.DataFrame) -> np.ndarray:
        return np.zeros(len(rows))


class HereAndNow(Executor):
    """A pool that needs no processes."""

    def submit(self, act: Any, /, *args: Any, **more: Any) -> Future:
        future: Future = Future()
        try:
            future.set_result(act(*args, **more))
        except Exception as error:
            future.set_exception(error)
        return future


@pytest.fixture
def coin(monkeypatch):
    """A fake method, and the seeds it was fitted with; it fails at ε = 3."""
    seeds: list[int] = []

    def fit(rows, domain, epsilon, delta, seed):
        seeds.append(seed)
        if epsilon == 3:
            raise RuntimeError("no")
        return Coin()

    monkeypatch.setitem(METHODS, "coin", Method("Coin", ("two",), "privboost", "numpy", fit))
    return seeds


def run(method: str, seed: int, auc: float, when: str = "1", epsilon: float = 1.0) -> dict:
    point = Point("adult", method, epsilon, 1e-6)
    return point._asdict() | {
        "seed": seed,
        "scores": {"AUC": auc, "accuracy": 0.5},
        "seconds": 1.0,
        "version": "one",
        "when": when,
    }


def kept(*runs: dict) -> dict:
    return {(point_of(one), one["seed"]): one for one in runs}


def test_every_data_set_and_recipe_is_measured():
    assert {name.split(":")[0] for name in TABLES} == {*data.names(), "interactions"}
    assert set(METHODS) == {*RECIPES, "dp_ebm", "lightgbm"}
    assert (next(iter(METHODS)), list(METHODS)[-1]) == (FLAGSHIP, CEILING)
    assert {kind(name) for name in TABLES} == set(MAIN)
    assert [kind(f"covtype{words}") for words in ("", ":two", ":9")] == [
        "several",
        "two",
        "several",
    ]
    assert title("adult:32561:complete") == "Adult, first 32,561 rows, complete ones"


def test_points_are_what_methods_can_do_and_each_is_there_once():
    found = points(PARTS)
    assert len(set(found)) == len(found)
    for point in found:
        assert METHODS[point.method].takes(point.table)
        assert (point.epsilon is None) == (not METHODS[point.method].private)
    grid = points(["grid"])
    assert set(grid) <= set(found)
    assert sum(p.table == "adult" for p in grid) == 7 * len(EPSILONS) + 1
    assert not any(p.method == "lazybb" for p in grid if kind(p.table) == "number")
    assert not any(p.method == "adassp" for p in grid if p.table == "diabetes130us:two")
    few = points(["grid", "large"], ["cardio:500"], ["privboost", "lightgbm"], [0.3])
    assert few == [
        Point("cardio:500", "privboost", 0.3, delta_of(0.3)),
        Point("cardio:500", "lightgbm", None, None),
    ]
    assert all(
        p.table == "adult" and p.epsilon == 100 for p in points(["large"], ["adult"], ["privboost"])
    )


def test_methods_are_imported_when_they_are_fitted():
    code = (
        "import sys, bench.utility.__main__, bench.results, bench.speed.__main__;"
        "print(*{m.split('.')[0] for m in sys.modules})"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert not set(loaded.stdout.split()) & {"lightgbm", "xgboost", "interpret", "matplotlib"}


def test_a_table_has_its_rows_and_its_question():
    frame, domain = load("adult:300", 0)
    assert len(frame) == 300
    assert domain == data.domain("adult")
    assert not load("interactions:1", 0)[0].equals(load("interactions:1", 1)[0])


def test_the_calibration_error_is_that_of_ten_equal_bins():
    chance = np.repeat(np.linspace(0.05, 0.95, 10), 100)
    label = np.concatenate([np.arange(100) < round(100 * each) for each in chance[::100]])
    assert calibration_error(label, chance) == pytest.approx(0, abs=1e-12)
    assert calibration_error(label, chance + 0.03) == pytest.approx(0.03)
    assert calibration_error(np.array([0, 1]), np.array([0.25, 0.75])) == pytest.approx(0.25)


def test_scores_are_of_the_kind_of_the_target():
    frame = pd.DataFrame({"x": [0.0] * 4, "y": [0, 0, 0, 1]})
    features = {"x": {"kind": "numeric", "bounds": [0, 1]}}
    form = {"version": 1, "features": features, "target": {"name": "y", "classes": [0, 1]}}
    found = score(Coin(), frame, Domain.from_dict(form))
    assert found["AUC"] == 0.5
    assert found["accuracy"] == 0.75
    assert found["log-loss"] == pytest.approx(np.log(2))
    form["target"] = {"name": "y", "bounds": [0, 1]}
    assert score(Coin(), frame, Domain.from_dict(form))["RMSE"] == pytest.approx(0.5)


def test_what_was_run_is_not_run_again(coin, tmp_path, capsys):
    chosen = points(["grid"], ["interactions:1"], ["coin"], [0.1, 3.0])
    assert len(chosen) == 2
    tasks = measuring.to_do(chosen, range(2), folder=tmp_path)
    assert measuring.measure(tasks, HereAndNow(), tmp_path) == 2  # those at ε = 3
    assert "failed: RuntimeError('no')" in capsys.readouterr().out
    assert coin == [0, 0, 1, 1]
    done = read_runs(tmp_path)
    assert {(point.epsilon, seed) for point, seed in done} == {(0.1, 0), (0.1, 1)}
    assert all(one["scores"]["AUC"] == 0.5 for one in done.values())
    left = measuring.to_do(chosen, range(3), folder=tmp_path)
    assert [(point.epsilon, seed) for point, seed in left] == [(3, 0), (3, 1), (3, 2), (0.1, 2)]
    assert len(measuring.to_do(chosen, range(3), again=True, folder=tmp_path)) == 6


def test_of_two_runs_the_later_counts_and_a_torn_line_does_not(tmp_path):
    add_run(run("sbdt", 0, 0.9, when="2"), tmp_path)
    (tmp_path / "elsewhere.jsonl").write_text(json.dumps(run("sbdt", 0, 0.8, when="1")))
    with (tmp_path / "utility.jsonl").open("a") as file:
        file.write('{"table": "ad')
    add_run(run("sbdt", 1, 0.7), tmp_path)
    found = read_runs(tmp_path)
    assert {seed: one["scores"]["AUC"] for (_, seed), one in found.items()} == {0: 0.9, 1: 0.7}


def test_summaries_have_means_errors_and_margins_run_by_run():
    runs = [run("privboost", seed, auc) for seed, auc in enumerate((0.8, 0.9))]
    runs += [run("sbdt", seed, auc) for seed, auc in enumerate((0.81, 0.93, 0.5))]
    flagship, other = summarise(kept(*runs))
    assert flagship["scores"]["AUC"] == (0.85, 0.05)
    assert flagship["margins"] == {}
    assert other["margins"] == {"AUC": (0.02, 0.01)}  # the third run has no partner
    assert other["runs"] == 3
    assert other["versions"] == ["one"]


def test_new_points_take_the_place_of_old_ones():
    old = summarise(
        kept(run("privboost", 0, 0.8), run("sbdt", 0, 0.7), run("sbdt", 0, 0.6, "1", 3.0))
    )
    new = summarise(kept(run("privboost", 0, 0.9)))
    flagship, first, second = merge(old, new)
    assert flagship["scores"]["AUC"][0] == 0.9
    assert first["margins"] == {}  # it was to runs that are gone
    assert first["scores"] == old[1]["scores"]
    assert second == old[2]
