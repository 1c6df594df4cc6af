"""Constraints by --set: pairs, groups, directions; names of other libraries are answered."""

import json

import numpy as np
import pytest

from privboost import load_model
from tests.cli.test_commands import command, run  # noqa: F401  # fixtures
from tests.tables import CLASSES, make_domain, make_frame


@pytest.fixture
def base(tmp_path):
    """Arguments of `train` up to its parameters."""
    domain, data = tmp_path / "d.json", tmp_path / "1.parquet"
    make_domain(CLASSES).to_json(domain)
    make_frame(300).to_parquet(data)
    budget = ("--epsilon", 20, "--quiet", "--seed", 1, "--model", tmp_path / "m.privboost")
    return ("train", data, "--domain", domain, *budget)


@pytest.mark.parametrize(
    ("setting", "kept"),
    [
        ('interactions=["age*job", ["gain", "age"]]', [["age", "job"], ["gain", "age"]]),
        ("interactions=age*job", [["age", "job"]]),
        ("interactions=2", 2),
        ("interactions=False", False),
        ('interaction_constraints=[["job", "age"]]', [["age", "job"]]),
        ('monotone={"age": 1}', [["age", 1]]),
    ],
)
def test_they_are_read_as_json(setting, kept, base, run, tmp_path):  # noqa: F811
    run(*base, "--set", setting, "--set", "n_estimators=12")
    report = load_model(tmp_path / "m.privboost").privacy
    assert json.loads(report.to_json())["parameters"][setting.partition("=")[0]] == kept


def test_a_stream_keeps_its_directions(base, run, tmp_path):  # noqa: F811
    state, model = tmp_path / "s", tmp_path / "m.privboost"
    trees = ("--set", "n_estimators=12", "--set", 'monotone={"age": -1, "gain": 1}')
    run(*base, *trees, "--recipe", "sbdt", "--stream", state)
    late = tmp_path / "2.parquet"
    make_frame(200, 1).to_parquet(late)
    run("extend", state, late, "--model", model, "--epsilon", 20, "--seed", 1, "--force", "--quiet")
    trained, rows = load_model(model), make_frame(30, 3)
    assert trained.scores.n_trees == 24
    found = [trained.decision_function(rows.assign(age=age)) for age in range(17, 91)]
    assert (np.diff(found, axis=0) <= 0).all()
    assert np.ptp(found, axis=0).max() > 0


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ('monotone_constraints={"age":1}', "here it is monotone, a mapping"),
        ("seed=1", "here it is --seed"),
        ("nthread=1", "here it is --jobs"),
        ("num_boost_round=5", "here it is n_estimators"),
        ("early_stopping_rounds=5", "fixed before a row is read"),
        ("max_depht=5", "name=value is needed"),
    ],
)
def test_names_of_other_libraries_are_answered(setting, words, base, run, tmp_path):  # noqa: F811
    assert words in " ".join(run(*base, "--set", setting, code=2).stderr.split())
    assert not (tmp_path / "m.privboost").exists()
