"""Warnings on the command line: after all is written, in a line, in JSON, and with --strict."""

import json
import subprocess
import sys
import warnings

import numpy as np
import pytest

from privboost import Evaluation, FitWarning, load_model
from privboost.cli.exits import Status
from tests.cli.test_commands import command, run  # noqa: F401  # fixtures
from tests.tables import make_domain, make_frame

# ruff: noqa: F811  # fixtures

UNMATCHED = {"name": "income", "classes": ["LOW", "HIGH"]}
SMALL = ("--set", "n_estimators=6", "--seed", 1)


@pytest.fixture(autouse=True)
def shown():
    """Show fit warnings, which the settings of the tests hide."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", FitWarning)
        yield


@pytest.fixture
def files(tmp_path):
    make_domain().to_json(tmp_path / "good.json")
    make_domain(UNMATCHED).to_json(tmp_path / "bad.json")
    make_frame(3000).to_csv(tmp_path / "t.csv", index=False)
    return tmp_path


def train(files, domain, model, *more):
    words = ("train", files / "t.csv", "--domain", files / domain, "--model", files / model)
    return (*words, "--epsilon", 1, *SMALL, *more)


def test_train_says_it_once_in_a_line(files, run):
    done = run(*train(files, "bad.json", "m"))
    (said,) = [line for line in done.stderr.splitlines() if "no rows" in line]
    assert said.startswith("privboost: warning: no rows: ")
    assert "labels match no class" in said
    assert "labels match no class" not in done.stdout  # said already
    assert "no rows" not in run(*train(files, "good.json", "n", "--strict")).stderr


def test_json_has_kinds_and_texts(files, run):
    form = json.loads(run(*train(files, "bad.json", "m", "--json")).stdout)
    (own,) = form["warnings"]
    assert own["kind"] == "no rows"
    assert own["text"] in form["findings"]
    assert json.loads(run(*train(files, "good.json", "n", "--json")).stdout)["warnings"] == []


def test_strict_ends_with_a_status_of_its_own_and_the_model_is_written(files, run):
    done = run(*train(files, "bad.json", "m", "--strict", "--json"), code=Status.warned)
    assert json.loads(done.stdout)["warnings"]
    assert load_model(files / "m").privacy.epsilon <= 1


def test_a_stream_is_written_before_it_too(files, run):
    more = ("--recipe", "sbdt", "--stream", files / "s")
    run(*train(files, "bad.json", "m", *more, "--strict"), code=Status.warned)
    extend = ("extend", files / "s", files / "t.csv", "--epsilon", 1, "--seed", 2)
    done = run(*extend, "--model", files / "n", "--strict", "--json", code=Status.warned)
    assert [own["kind"] for own in json.loads(done.stdout)["warnings"]] == ["no rows"]
    assert done.stderr.count("warning: no rows") == 1
    assert load_model(files / "n").scores.n_trees == 12
    run(*extend, "--model", files / "o")  # the stream goes on


def test_evaluate(files, run):
    run(*train(files, "good.json", "m"))
    line = ("evaluate", files / "m", files / "t.csv", "--epsilon", 1, "--seed", 1, "--strict")
    assert json.loads(run(*line, "--json").stdout)["warnings"] == []
    make_frame(3000).assign(income="other").to_csv(files / "t.csv", index=False)
    done = run(*line, "--json", code=Status.warned)
    assert [own["kind"] for own in json.loads(done.stdout)["warnings"]] == ["no rows"]
    done = run(*line, "--json", "--out", files / "e.json", code=Status.warned)
    assert [own["kind"] for own in json.loads(done.stdout)["warnings"]] == ["no rows"]
    assert Evaluation.from_json(files / "e.json").findings()


def test_search(files, run):
    (files / "c.json").write_text('[{"n_estimators": 3}, {"n_estimators": 6}]')
    line = ("search", files / "t.csv", "--candidates", files / "c.json", "--epsilon", 1, "--json")
    line += ("--domain", files / "bad.json", "--expected-runs", 2, "--seed", 1)
    done = run(*line, "--model", files / "m", "--strict", code=Status.warned)
    assert [own["kind"] for own in json.loads(done.stdout)["warnings"]] == ["no rows"]
    assert load_model(files / "m").privacy.epsilon <= 1


def test_warnings_as_errors_lose_nothing(files):
    """In a process of its own; `python -W` is read too early to know a class of a package."""
    words = map(str, train(files, "bad.json", "m", "--json"))
    code = (
        "import warnings; from privboost import FitWarning; from privboost.cli.main import main; "
        "warnings.simplefilter('error', FitWarning); main()"
    )
    line = [sys.executable, "-c", code, *words]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == Status.warned, done.stderr
    assert json.loads(done.stdout)["warnings"]
    assert "\nprivboost: no rows: " in done.stderr
    assert "Traceback" not in done.stderr
    assert load_model(files / "m").privacy.epsilon <= 1


def test_classes_are_given_in_a_word(files, run):
    frame = make_frame(2000)[["age"]]
    frame["fraud"] = (np.arange(2000) < 8).astype(float)
    frame.to_parquet(files / "f.parquet")
    line = ("train", files / "f.parquet", "--target", "fraud", "--epsilon", 5, *SMALL)
    done = run(*line, "--model", files / "m", code=Status.table)
    assert "PrivBoostRegressor" in done.stderr
    assert "--classes 0,1" in done.stderr
    run(*line, "--model", files / "m", "--classes", "0,1")
    assert load_model(files / "m").classes.tolist() == [0, 1]
    run(*line, "--model", files / "n", "--classes", '["0", "1"]')
    assert load_model(files / "n").classes.tolist() == ["0", "1"]
    done = run(*train(files, "good.json", "o", "--classes", "low,mid"), code=Status.table)
    assert "classes must be those of the domain" in done.stderr
    run(*train(files, "good.json", "o", "--classes", "low, high"))
    wrong = ("--task", "number", "--classes", "0,1", "--recipe", "adassp")
    line = ("train", files / "f.parquet", "--target", "age", "--epsilon", 5, *wrong)
    done = run(*line, "--model", files / "p", code=Status.usage)
    assert "--classes is for classes" in done.stderr


@pytest.mark.parametrize("form", ["text", "json"])
def test_domain_check_fails_where_public_rows_are_missing(files, run, form):
    frame = make_frame(3000)
    frame["age"] = [30.0, *[None] * 2999]
    frame["job"] = "unheard of"  # which is another category, and no missing one
    frame.to_csv(files / "t.csv", index=False)
    line = ("domain", "check", files / "good.json", files / "t.csv")
    assert "fits" in run(*line).stdout
    done = run(*line, "--public-rows", *(["--json"] if form == "json" else []), code=Status.table)
    if form == "json":
        told = json.loads(done.stdout)
        assert (told["fits"], told["empty"]) == (False, ["age"])
        assert {own["name"]: own["missing"] for own in told["columns"]}["age"] == 2999
    else:
        assert "empty: 'age'" in done.stdout
        assert "the domain does not fit the table" in done.stdout
