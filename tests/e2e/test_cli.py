import csv
import json
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from privboost import load_model
from tests.tables import CLASSES, NUMBER, make_domain, make_frame


def run(*arguments, code=0):
    command = [sys.executable, "-m", "privboost", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == code, done.stderr
    return done


@pytest.mark.parametrize("target", [CLASSES, NUMBER], ids=["classes", "number"])
def test_train_predict_report(tmp_path, target):
    domain, data, model = (tmp_path / name for name in ("d.json", "t.csv", "m.privboost"))
    make_domain(target).to_json(domain)
    frame = make_frame(150, target=target)
    frame.to_csv(data, index=False, na_rep="?")
    done = run(
        *("train", data, "--domain", domain, "--model", model, "--epsilon", 1, "--delta", 1e-6),
        *("--missing", "?", "--set", "n_estimators=12", "--set", "learning_rate=0.3"),
        *("--ledger", tmp_path / "ledger.jsonl", "--jobs", 2),
    )
    assert "(1, 1e-06)-differential privacy" in done.stdout
    assert "12/12" in done.stderr
    assert (tmp_path / "ledger.jsonl").read_text().count('"charge"') == 12

    run("predict", model, data, "--missing", "?", "--out", tmp_path / "p.csv")
    with (tmp_path / "p.csv").open() as file:
        rows = list(csv.DictReader(file))
    expected = load_model(model).predict(frame)
    assert [row["prediction"] for row in rows] == [
        str(value) if target is CLASSES else repr(float(value)) for value in expected
    ] or [float(row["prediction"]) for row in rows] == expected.tolist()
    if target is CLASSES:
        assert 0 < float(rows[0]["probability of high"]) < 1
    assert run("predict", model, data, "--missing", "?").stdout == (tmp_path / "p.csv").read_text()

    run("predict", model, data, "--missing", "?", "--out", tmp_path / "p.parquet")
    assert pq.read_table(tmp_path / "p.parquet").num_rows == len(rows)
    assert "add or remove one protected unit" in run("report", model).stdout
    assert json.loads(run("report", model, "--format", "json").stdout)["delta"] == 1e-6
    run("report", model, "--format", "html", "--out", tmp_path / "r.html")
    assert "Privacy report" in (tmp_path / "r.html").read_text()


def test_train_without_a_domain(tmp_path):
    data, model = tmp_path / "t.parquet", tmp_path / "m.privboost"
    make_frame(3000).drop(columns=["person", "weight"]).to_parquet(data)
    base = ("train", data, "--model", model, "--epsilon", 5, "--delta", 1e-5, "--quiet")
    done = run(*base, "--target", "income", "--set", "n_estimators=12")
    assert "(5, 1e-05)-differential privacy" in done.stdout
    assert {"high", "low"} <= set(load_model(model).classes)  # a rare third may stand out too
    assert "--target" in run(*base, code=1).stderr


def test_calibrate():
    said = run("calibrate", "--epsilon", 1, "--delta", 1e-5, "--rounds", 100).stdout
    assert "by the gdp accountant" in said
    assert "sigma of a leaf release 52.7591" in said
    said = run("calibrate", "--epsilon", 1, "--delta", 0, "--laplace", 10).stdout
    assert "0.1-DP" in said
    asked = ["calibrate", "--epsilon", 1, "--delta", 0, "--rounds", 10]
    assert "pure DP" in run(*asked, code=1).stderr


def test_version():
    assert run("--version").stdout.startswith("privboost 0.")


def test_a_seed_says_so(tmp_path):
    domain, data, model = (tmp_path / name for name in ("d.json", "t.parquet", "m.privboost"))
    make_domain().to_json(domain)
    make_frame(50).to_parquet(data)
    done = run(
        *("train", data, "--domain", domain, "--model", model, "--epsilon", 1, "--delta", 1e-6),
        *("--seed", 1, "--quiet", "--set", "n_estimators=3"),
    )
    assert "no privacy guarantee: seeded" in done.stdout
    assert done.stderr == ""


def test_errors_are_one_line(tmp_path):
    domain = tmp_path / "d.json"
    make_domain().to_json(domain)
    data = tmp_path / "t.csv"
    make_frame(20).drop(columns="age").to_csv(data, index=False)
    base = ["train", data, "--domain", domain, "--model", tmp_path / "m", "--delta", 1e-6]
    for arguments, words in (
        ([*base, "--epsilon", 1], "privboost: the table has no column 'age'"),
        ([*base, "--epsilon", 0], "privboost: epsilon must be a finite number above 0"),
        (["report", data], "is not a privboost model file"),
        (["predict", tmp_path / "none", data], "No such file"),
        (
            [*base, "--epsilon", 1, "--weights", "w", "--weight-bound", 2],
            "no column 'age', 'w': the file's header names no such",
        ),
    ):
        done = run(*arguments, code=1)
        assert words in done.stderr
        assert "Traceback" not in done.stderr
        assert done.stderr.count("\n") == 1
    assert not (tmp_path / "m").exists()
    (tmp_path / "folder").mkdir()
    ledger = tmp_path / "ledger.jsonl"
    base[5] = tmp_path / "folder"
    assert "is a folder" in run(*base, "--epsilon", 1, "--ledger", ledger, code=1).stderr
    assert not ledger.exists()
    assert "name=value" in run(*base, "--epsilon", 1, "--set", "deep=3", code=2).stderr


@pytest.mark.parametrize("target", [CLASSES, NUMBER], ids=["classes", "number"])
def test_a_stream_of_random_trees(tmp_path, target):
    domain, data, late, model, state = (
        tmp_path / name for name in ("d.json", "1.parquet", "2.parquet", "m.privboost", "s")
    )
    make_domain(target).to_json(domain)
    make_frame(200, target=target).to_parquet(data)
    make_frame(200, 1, target).to_parquet(late)
    budget = ("--model", model, "--epsilon", 1, "--delta", 1e-6, "--quiet")
    trees = ("--set", "n_estimators=10", "--set", "features=uniform")
    run("train", data, "--domain", domain, *budget, *trees, "--recipe", "sbdt", "--stream", state)
    assert load_model(model).scores.n_trees == 10
    done = run("extend", state, late, *budget, "--set", "learning_rate=0.05")
    assert "(1, 1e-06)-differential privacy" in done.stdout
    assert load_model(model).scores.n_trees == 20
    assert "batch 2" in run("report", model).stdout
    refused = run("extend", state, late, *budget, "--set", "gradient_clip=0.9", code=1)
    assert "gradient_clip and hessian_clip stay" in refused.stderr
    assert load_model(model).scores.n_trees == 20
    base = ("train", data, "--domain", domain, *budget)
    assert "--recipe sbdt" in run(*base, "--stream", state, code=1).stderr
    refused = run(*base, "--recipe", "sbdt", "--stream", model, code=1)
    assert "different files" in refused.stderr
    refused = run(*base, "--recipe", "sbdt", "--preset", "XGB", code=1)
    assert '"TR_ada"' in refused.stderr


@pytest.mark.parametrize("recipe", ["lazybb", "adassp"])
def test_votes_and_linear_models(tmp_path, recipe):
    domain, data, model = (tmp_path / name for name in ("d.json", "t.csv", "m.privboost"))
    make_domain().to_json(domain)
    make_frame(300).to_csv(data, index=False)
    how = ("--set", "n_estimators=5", "--recipe", recipe, "--quiet")
    base = ("train", data, "--domain", domain, "--model", model, "--epsilon", 1, "--delta", 1e-6)
    assert "1e-06)-differential privacy" in run(*base, *how).stdout
    header = run("predict", model, data).stdout.splitlines()[0]
    assert ("probability" in header) == (recipe == "adassp")
    assert ("score" in header) == (recipe == "lazybb")
    assert "is needed" in run("predict", model, data, "--out", tmp_path / "p.xlsx", code=1).stderr
    relation = "replace one" if recipe == "lazybb" else "add or remove one"
    assert f"{relation} protected unit" in run("report", model).stdout
    if recipe == "lazybb":
        weighted = run(*base, *how, "--weights", "weight", "--weight-bound", 1, code=1)
        assert "takes no weights" in weighted.stderr
        assert "--weight-bound" in run(*base, *how, "--weights", "weight", code=1).stderr
        make_domain(NUMBER).to_json(domain)
        assert "is for classes" in run(*base, *how, code=1).stderr
