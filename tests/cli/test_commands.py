import csv
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privboost import load_model
from privboost.cli.exits import Status
from privboost.cli.main import main
from tests.tables import CLASSES, NUMBER, make_domain, make_frame


@pytest.fixture
def command(capsys, monkeypatch):
    """Run a command in this process, and return its status, output and errors."""
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # main sets its own

    def act(*arguments):
        monkeypatch.setattr(sys, "argv", ["privboost", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        return left.value.code or 0, *capsys.readouterr()

    return act


def run_process(*arguments, code=0):
    """Run a command as a shell would."""
    command = [sys.executable, "-m", "privboost", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == code, done.stderr
    return done


@pytest.fixture
def run(command):
    """Run commands in this process, which starts quicker than one for each."""

    def act(*arguments, code=0):
        status, out, err = command(*arguments)
        assert status == code, err
        return SimpleNamespace(stdout=out, stderr=err)

    return act


def test_intervals_are_columns_of_predictions(tmp_path, run):
    domain, data = tmp_path / "d.json", tmp_path / "t.parquet"
    make_domain(NUMBER).to_json(domain)
    frame = make_frame(300, target=NUMBER)
    frame.to_parquet(data)
    for fraction, name in ((0.3, "with"), (0, "without")):
        run(
            *("train", data, "--domain", domain, "--model", tmp_path / name, "--epsilon", 1),
            *("--delta", 1e-6, "--set", "n_estimators=4"),
            *("--set", f"conformal_fraction={fraction}"),
        )
    run("predict", tmp_path / "with", data, "--interval", 0.8, "--out", tmp_path / "p.parquet")
    found = pq.read_table(tmp_path / "p.parquet").select(["lower", "upper"]).to_pandas()
    expected = load_model(tmp_path / "with").predict_interval(frame, 0.8)
    np.testing.assert_array_equal(found.to_numpy(), expected)
    refused = run("predict", tmp_path / "without", data, "--interval", 0.8, code=2)
    assert "--interval: this model holds no prediction intervals" in refused.stderr
    refused = run("predict", tmp_path / "with", data, "--interval", 1.8, code=2)
    assert "coverage must lie strictly between 0 and 1" in refused.stderr


def test_rates_are_a_column_of_predictions(tmp_path, run):
    domain, data, model = tmp_path / "d.json", tmp_path / "t.parquet", tmp_path / "m"
    rng = np.random.default_rng(0)
    years, age = rng.uniform(0.1, 1, 300), rng.uniform(18, 90, 300)
    frame = pd.DataFrame({"years": years, "age": age, "claims": rng.poisson(years)})
    frame.to_parquet(data)
    features = {
        "years": {"kind": "numeric", "bounds": [0.05, 1]},
        "age": {"kind": "numeric", "bounds": [18, 90]},
    }
    target = {"name": "claims", "bounds": [0, 10]}
    domain.write_text(json.dumps({"version": 1, "features": features, "target": target}))
    train = ("train", data, "--domain", domain, "--epsilon", 1, "--set", "n_estimators=4")
    poisson = ("--set", "loss=poisson")
    run(*train, "--model", model, *poisson, "--set", "exposure=years")
    run(*train, "--model", tmp_path / "other", *poisson)
    run("predict", model, data, "--rate", "--out", tmp_path / "p.parquet")
    found = pq.read_table(tmp_path / "p.parquet")
    assert found.column_names == ["prediction", "rate"]
    rates = load_model(model).predict_rate(frame)
    np.testing.assert_array_equal(found["rate"].to_numpy(), rates)
    refused = run("predict", tmp_path / "other", data, "--rate", code=2)
    assert "--rate: this model was trained without an exposure" in refused.stderr


@pytest.mark.parametrize("target", [CLASSES, NUMBER], ids=["classes", "number"])
def test_train_predict_report(tmp_path, target, run):
    train = run_process if target is CLASSES else run
    domain, data, model = (tmp_path / name for name in ("d.json", "t.csv", "m.privboost"))
    make_domain(target).to_json(domain)
    frame = make_frame(150, target=target)
    frame.to_csv(data, index=False, na_rep="?")
    done = train(
        *("train", data, "--domain", domain, "--model", model, "--epsilon", 1, "--delta", 1e-6),
        *("--missing", "?", "--set", "n_estimators=12", "--set", "gradient_clip=0.3"),
        *("--ledger", tmp_path / "ledger.jsonl", "--jobs", 2),
    )
    assert "(1, 1e-06)-differential privacy" in done.stdout
    # No terminal, no progress; so few rows may be warned of.
    assert all("warning: no rows" in line for line in done.stderr.splitlines())
    charges = 1 + 12 + 1 + (0 if target is CLASSES else 3)  # start, rounds, calibration, looks
    assert (tmp_path / "ledger.jsonl").read_text().count('"charge"') == charges

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

    with_errors = run("predict", model, data, "--missing", "?", "--std").stdout.splitlines()
    added = ",std of" if target is CLASSES else ",std of prediction"
    assert added in with_errors[0].replace('"', "")
    assert len(with_errors) == len(rows) + 1

    run("predict", model, data, "--missing", "?", "--out", tmp_path / "p.parquet")
    assert pq.read_table(tmp_path / "p.parquet").num_rows == len(rows)
    assert "add or remove one protected unit" in run("report", model).stdout
    assert json.loads(run("report", model, "--json").stdout)["delta"] == 1e-6
    run("report", model, "--format", "html", "--out", tmp_path / "r.html")
    assert "A model of income" in (tmp_path / "r.html").read_text()
    assert run("report", model, "--format", "markdown", "--name", "N").stdout.startswith("# N\n")


@pytest.mark.parametrize("target", [CLASSES, NUMBER], ids=["classes", "number"])
def test_evaluate(tmp_path, target, command):
    domain, data, model, ledger = (tmp_path / name for name in ("d.json", "t.csv", "m", "ledger"))
    make_domain(target).to_json(domain)
    make_frame(150, target=target).to_csv(data, index=False, na_rep="?")
    read = ("--missing", "?")
    train = ("train", data, "--domain", domain, "--model", model, "--epsilon", 1, *read)
    assert command(*train, "--set", "n_estimators=2", "--quiet")[0] == 0
    ask = ("evaluate", model, data, *read, "--by", "job", "--by", "flag")
    status, out, err = command(*ask, "--epsilon", 0.5, "--ledger", ledger)
    assert (status, err) == (0, "")
    assert out.startswith("Evaluation of income: ")
    assert "flag: missing" in out
    assert "0.5" in out.splitlines()[0]
    assert ledger.read_text().startswith('{"entry": "reserve"')
    assert ("residuals clipped at " in out) == (target is NUMBER)
    out = json.loads(command(*ask, "--epsilon", 0.5, "--json")[1])
    if target is NUMBER:
        assert out["residuals"]["clip"] > 0
        assert out["all"]["rmse"]["lower"] <= out["all"]["rmse"]["upper"] <= 10
        assert len(out["all"]["calibration"]) > 1
        more = ("--no-curves", "--quantile", 0.5, "--deviance", "tweedie", "--power", 1.2)
        out = json.loads(command(*ask, *more, "--epsilon", 0.5, "--json")[1])
        assert {"deviance", "pinball", "share_below", "mean_ratio"} < set(out["all"])
        assert not {"gini", "calibration"} & set(out["all"])
        assert out["privacy"]["parameters"]["power"] == 1.2
    else:
        assert set(out) == {"target", "all", "groups", "privacy", "warnings"}
        assert set(out["all"]["auc"]) == {"value", "std", "width"}
    found = tmp_path / "found.json"
    how = ("--json", "--out", found)
    status, out, _ = command(*ask, "--epsilon", "inf", "--public-rows", "--jobs", 2, *how)
    assert (status, json.loads(out)) == (0, {"out": str(found), "warnings": []})
    form = json.loads(found.read_text())
    assert form["privacy"]["public_rows"]
    assert form["all"]["rows"]["std"] == 0
    status, _, err = command(*ask, "--epsilon", 1, *how)
    assert status == Status.file
    assert "--force replaces it" in err
    status, _, err = command(*ask, "--epsilon", 1, "--by", "nose")
    assert (status, err.count("\n")) == (Status.usage, 1)
    assert "no feature 'nose'" in err
    status, _, err = command(*ask, "--epsilon", "inf")
    assert status == Status.budget
    assert "--public-rows" in err


def test_train_without_a_domain(tmp_path, run):
    data, model = tmp_path / "t.parquet", tmp_path / "m.privboost"
    make_frame(3000).drop(columns=["person", "weight"]).to_parquet(data)
    base = ("train", data, "--model", model, "--epsilon", 5, "--delta", 1e-5, "--quiet")
    done = run(*base, "--target", "income", "--set", "n_estimators=12")
    base = (*base, "--force")
    assert "(5, 1e-05)-differential privacy" in done.stdout
    assert {"high", "low"} <= set(load_model(model).classes)  # a rare third may stand out too
    assert "--target" in run(*base, code=2).stderr


def test_train_under_pure_dp_with_a_part_of_a_domain(tmp_path, run):
    data, model, part = (tmp_path / name for name in ("t.csv", "m.privboost", "part.json"))
    rng = np.random.default_rng(0)
    x = rng.uniform(20, 90, 3000)
    label = np.where(x > 50, "old", "young")
    pd.DataFrame({"x": x, "label": label}).to_csv(data, index=False)
    base = ("train", data, "--model", model, "--epsilon", 5, "--recipe", "sarus", "--quiet")
    base = (*base, "--target", "label", "--set", "n_estimators=3")
    assert "the classes of the target 'label' must be given" in run(*base, code=4).stderr
    form = {"features": {"x": {"kind": "numeric"}}, "target": {"classes": ["old", "young"]}}
    part.write_text(json.dumps(form))
    done = run(*base, "--domain-given", part)
    assert "5-differential privacy (pure)" in done.stdout
    assert load_model(model).domain.features[0].bounds == (16, 128)
    part.write_text("{")
    assert "is not JSON" in run(*base, "--domain-given", part, "--force", code=4).stderr
    both = ("--domain-given", part, "--domain", part)
    assert "not both" in run(*base[:-4], *both, "--force", code=2).stderr


def test_calibrate(run):
    said = run("calibrate", "--epsilon", 1, "--delta", 1e-5, "--rounds", 100).stdout
    assert "by the gdp accountant" in said
    assert "sigma of a leaf release 52.7591" in said
    said = run("calibrate", "--epsilon", 1, "--delta", 0, "--laplace", 10).stdout
    assert "0.1-DP" in said
    asked = ["calibrate", "--epsilon", 1, "--rounds", 10, "--sampling-rate", 1e-300]
    assert run(*asked, code=2).stderr.startswith("privboost: sampling_rate must lie between")
    asked = ["calibrate", "--epsilon", 1, "--delta", 0, "--rounds", 10]
    assert "pure DP" in run(*asked, code=2).stderr


def test_version():
    assert run_process("--version").stdout.startswith("privboost 0.")


@pytest.mark.filterwarnings("default::privboost.PrivacyWarning")
def test_a_seed_says_so(tmp_path, run):
    domain, data, model = (tmp_path / name for name in ("d.json", "t.parquet", "m.privboost"))
    make_domain().to_json(domain)
    make_frame(50).to_parquet(data)
    done = run(
        *("train", data, "--domain", domain, "--model", model, "--epsilon", 1, "--delta", 1e-6),
        *("--seed", 1, "--quiet", "--set", "n_estimators=3"),
    )
    assert "no privacy guarantee: seeded" in done.stdout
    assert done.stderr.startswith("privboost: warning: random_state is given")
    assert done.stderr.count("\n") == 1


def test_public_rows_say_so(trained, run):
    folder, base = trained
    model = folder / "public"
    base = [*base, model]
    base[base.index("--epsilon") + 1] = "inf"
    assert "public_rows=True" in run(*base, code=5).stderr
    assert not model.exists()
    said = run(*base, "--public-rows")
    assert f"{model}: NO PRIVACY" in said.stdout
    assert said.stderr == ""
    assert "NO PRIVACY" in run("report", model).stdout
    assert json.loads(run("report", model, "--json").stdout)["epsilon"] is None
    finite = run(*base, "--public-rows", "--epsilon", 1, "--force", code=5)
    assert "epsilon=math.inf only" in finite.stderr


def test_errors_are_one_line(tmp_path, run):
    domain = tmp_path / "d.json"
    make_domain().to_json(domain)
    data = tmp_path / "t.csv"
    make_frame(20).drop(columns="age").to_csv(data, index=False)
    base = ["train", data, "--domain", domain, "--model", tmp_path / "m", "--delta", 1e-6]
    for arguments, status, words in (
        ([*base, "--epsilon", 1], 4, "privboost: the table has no column 'age'"),
        ([*base, "--epsilon", 0], 2, "privboost: epsilon must be a finite number above 0"),
        (["report", data], 3, "is not a privboost model file"),
        (["predict", tmp_path / "none", data], 3, "No such file"),
        (
            [*base, "--epsilon", 1, "--weights", "w", "--weight-bound", 2],
            4,
            "no column 'age', 'w': the file's header names no such",
        ),
    ):
        done = run(*arguments, code=status)
        assert words in done.stderr
        assert "Traceback" not in done.stderr
        assert done.stderr.count("\n") == 1
    assert not (tmp_path / "m").exists()
    (tmp_path / "folder").mkdir()
    ledger = tmp_path / "ledger.jsonl"
    base[5] = tmp_path / "folder"
    assert "is a folder" in run(*base, "--epsilon", 1, "--ledger", ledger, code=3).stderr
    assert not ledger.exists()
    assert "name=value" in run(*base, "--epsilon", 1, "--set", "deep=3", code=2).stderr


@pytest.mark.parametrize("target", [CLASSES, NUMBER], ids=["classes", "number"])
def test_a_stream_of_random_trees(tmp_path, target, run):
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
    assert "exists already" in run("extend", state, late, *budget, code=3).stderr
    budget = (*budget, "--force")
    done = run("extend", state, late, *budget, "--set", "learning_rate=0.05")
    assert "(1, 1e-06)-differential privacy" in done.stdout
    assert load_model(model).scores.n_trees == 20
    assert "batch 2" in run("report", model).stdout
    refused = run("extend", state, late, *budget, "--set", "gradient_clip=0.9", code=2)
    assert "gradient_clip and hessian_clip must equal" in refused.stderr
    assert load_model(model).scores.n_trees == 20
    base = ("train", data, "--domain", domain, *budget)
    assert "--recipe sbdt" in run(*base, "--stream", state, code=2).stderr
    refused = run(*base, "--recipe", "sbdt", "--stream", model, code=2)
    assert "must be different" in refused.stderr
    refused = run(*base, "--recipe", "sbdt", "--preset", "XGB", code=2)
    assert '"TR_ada"' in refused.stderr


@pytest.mark.parametrize("recipe", ["lazybb", "adassp"])
def test_votes_and_linear_models(tmp_path, recipe, run):
    domain, data, model = (tmp_path / name for name in ("d.json", "t.csv", "m.privboost"))
    make_domain().to_json(domain)
    make_frame(300).to_csv(data, index=False)
    how = ("--set", "n_estimators=5", "--recipe", recipe, "--quiet")
    base = ("train", data, "--domain", domain, "--model", model, "--epsilon", 1, "--delta", 1e-6)
    assert "1e-06)-differential privacy" in run(*base, *how).stdout
    base = (*base, "--force")
    header = run("predict", model, data).stdout.splitlines()[0]
    assert "probability" in header
    assert "score" not in header
    run(*base, *how, "--set", "calibration_share=0")
    header = run("predict", model, data).stdout.splitlines()[0]
    assert ("probability" in header) == (recipe == "adassp")
    assert ("score" in header) == (recipe == "lazybb")
    assert "is needed" in run("predict", model, data, "--out", tmp_path / "p.xlsx", code=2).stderr
    said = run("predict", model, data, "--std", code=2).stderr
    assert "models of this recipe hold no standard errors" in " ".join(said.split())
    assert "Traceback" not in said
    relation = "replace one" if recipe == "lazybb" else "add or remove one"
    assert f"{relation} protected unit" in run("report", model).stdout
    if recipe == "lazybb":
        weighted = run(*base, *how, "--weights", "weight", "--weight-bound", 1, code=2)
        assert "takes no weights" in weighted.stderr
        assert "--weight-bound" in run(*base, *how, "--weights", "weight", code=2).stderr
        make_domain(NUMBER).to_json(domain)
        assert "is for classes" in run(*base, *how, code=2).stderr


@pytest.fixture
def trained(tmp_path, command):
    """A folder with a domain, a table and a model, and what trained it but for the last."""
    make_domain().to_json(tmp_path / "d.json")
    make_frame(40).to_csv(tmp_path / "t.csv", index=False)
    base = ("train", tmp_path / "t.csv", "--domain", tmp_path / "d.json", "--epsilon", 1)
    base = (*base, "--quiet", "--set", "n_estimators=2", "--model")
    code, out, err = command(*base, tmp_path / "m")
    assert (code, err) == (0, "")
    assert "(1, 1e-06)-differential privacy" in out  # delta has a default, as in Python
    return tmp_path, base


def test_delta_has_the_recipes_default(trained, command):
    folder, base = trained
    out = command(*base, folder / "pure", "--recipe", "sarus")[1]
    assert "1-differential privacy (pure)" in out
    out = command(*base, folder / "other", "--delta", 1e-7)[1]
    assert "(1, 1e-07)-differential privacy" in out
    assert "(1, 1e-06)" in command("calibrate", "--epsilon", 1, "--rounds", 10)[1]


def test_nothing_is_replaced_unasked(trained, command):
    folder, base = trained
    model, table = folder / "m", folder / "t.csv"
    for name in ("p.csv", "p.parquet", "r.html", "s"):
        (folder / name).write_text("dear to me")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    ledger = folder / "ledger"
    asked = [
        (*base, model, "--ledger", ledger),
        (*base, folder / "new", "--recipe", "sbdt", "--stream", folder / "s", "--ledger", ledger),
        ("predict", model, table, "--out", folder / "p.csv"),
        ("predict", model, table, "--out", folder / "p.parquet"),
        ("report", model, "--out", folder / "r.html"),
    ]
    for arguments in asked:
        code, out, err = command(*arguments)
        assert (code, out) == (Status.file, "")
        assert err.startswith("privboost: ")
        assert err.endswith("exists already: --force replaces it\n")
        assert {path: path.read_bytes() for path in folder.iterdir()} == before  # nor spent
    for arguments in asked:
        assert command(*arguments, "--force")[0] == 0
    assert not [path for path in before if path.read_bytes() == b"dear to me"]


def test_a_card_with_its_evaluations(trained, command):
    folder, _ = trained
    model, found, card = folder / "m", folder / "e.json", folder / "card.html"
    ask = ("evaluate", model, folder / "t.csv", "--epsilon", 0.5, "--json", "--out", found)
    assert command(*ask)[0] == 0
    form = ("--format", "html", "--name", "Mine & yours", "--evaluation", found)
    assert command("report", model, *form, "--out", card)[0] == 0
    text = card.read_text()
    assert "<title>Mine &amp; yours</title>" in text
    assert "Evaluation of income: privacy cost" in text
    assert hashlib.sha256(model.read_bytes()).hexdigest() in text
    html = ("--format", "html")
    for refused, status, words in (
        (
            ("--name", "N"),
            2,
            "--name and --evaluation are for model cards",
        ),
        (("--json", "--evaluation", found), 2, "are for model cards"),
        ((*html, "--json"), 2, "--json is a format of its own"),
        ((*html, "--evaluation", folder / "t.csv"), 2, "holds no evaluation as JSON"),
        ((*html, "--evaluation", folder / "no"), 3, "No such file or directory"),
        ((*html, "--evaluation", found, "--out", found), 2, "must be different"),
    ):
        code, out, err = command("report", model, *refused)
        assert (code, out, err.count("\n")) == (status, "", 1)
        assert words in err


def test_numbers_nobody_can_compute_with_are_one_line(trained, command, monkeypatch):
    folder, base = trained
    hard = (*base, folder / "n", "--recipe", "sbdt", "--set", "subsample=1e-300")
    code, _, err = command(*hard)
    assert (code, err.count("\n")) == (Status.usage, 1)
    assert "subsample must lie" in err

    def divide(*_, **__):
        raise ZeroDivisionError("float division by zero")

    monkeypatch.setattr("privboost.accounting.calibration.calibrate_releases", divide)
    code, _, err = command("calibrate", "--epsilon", 1)
    assert (code, err) == (2, "privboost: a number is too small or too large to compute with\n")


@pytest.mark.parametrize("output", ["t.csv", "d.json", "ledger"])
def test_no_force_writes_over_what_is_read(trained, command, output):
    folder, base = trained
    code, _, err = command(*base, folder / output, "--force", "--ledger", folder / "ledger")
    assert (code, err.count("\n")) == (Status.usage, 1)
    assert "must be different" in err
    assert "must be different" in command("report", folder / "m", "--out", folder / "m")[2]


def test_a_folder_that_is_read_stays_as_it_is(trained, command):
    folder, base = trained
    table = folder / "table"
    table.mkdir()
    for name in ("a.csv", "b.csv"):
        (table / name).write_bytes((folder / "t.csv").read_bytes())
    before = {path: path.read_bytes() for path in table.iterdir()}
    train = ("train", table, *base[2:])
    for arguments in (
        (*train, table / "a.csv", "--force"),
        (*train, folder / "new", "--ledger", table / "b.csv"),
        ("predict", folder / "m", table, "--out", table / "a.csv", "--force"),
        ("predict", folder / "m", table, "--out", table / "new.csv"),
    ):
        code, _, err = command(*arguments)
        assert (code, err.count("\n")) == (Status.usage, 1)
        assert "lies in a folder that is read" in err
    code, _, err = command(*base, folder / "new", "--ledger", table / "b.csv")
    assert code == Status.usage
    assert "is no ledger" in err
    assert {path: path.read_bytes() for path in table.iterdir()} == before


def test_errors_of_files_and_columns_are_one_line(trained, command):
    folder, base = trained
    (folder / "empty.csv").write_text("")
    (folder / "broken.json").write_text("{")
    (folder / "broken.parquet").write_text("no")
    swapped = {
        folder / "none.csv": (3, "no such file"),
        folder: (4, "is needed"),
        folder / "empty.csv": (4, "has no header line"),
        folder / "broken.parquet": (4, "is not a Parquet file"),
        folder / "broken.json": (4, "a .parquet, .csv or .tsv file is needed"),
    }
    asked = [(("train", data, *base[2:], folder / "n"), *said) for data, said in swapped.items()]
    asked += [
        ((*base[:3], folder / "broken.json", *base[4:], folder / "n"), 4, "is not JSON"),
        ((*base[:3], folder / "none.json", *base[4:], folder / "n"), 3, "No such file"),
        ((*base, folder), 3, "is a folder"),
        ((*base, folder / "no" / "n"), 3, "no such folder"),
        ((*base, folder / "n", "--separator", ";"), 4, "the table has no column 'age'"),
        ((*base, folder / "n", "--separator", "::"), 2, "--separator must be one character"),
        ((*base, folder / "n", "--weights", "weight"), 2, "--weight-bound"),
        ((*base, folder / "n", "--epsilon", "nan"), 2, "epsilon must be"),
        ((*base, folder / "n", "--set", "init_share=2"), 2, "init_share must lie strictly"),
        (("predict", folder / "t.csv", folder / "t.csv"), 3, "is not a privboost model"),
        (("report", folder), 3, "is a folder: name the file"),
        (("train",), 2, "privboost train --help"),
        (("trian",), 2, "privboost --help"),
        (("report", folder / "m", "--shape", "x"), 2, "No such option"),
    ]
    for arguments, status, words in asked:
        code, out, err = command(*arguments)
        assert (code, out, err.count("\n")) == (status, "", 1), err
        assert err.startswith("privboost: ")
        assert words in err
    assert not (folder / "n").exists()


@pytest.mark.parametrize("separator", [";", r"\t", "|"])
def test_other_separators(trained, command, separator):
    folder, base = trained
    mark = "\t" if separator == r"\t" else separator
    make_frame(40).to_csv(folder / "other.csv", index=False, sep=mark)
    how = ("--separator", separator)
    same = ("--seed", 1, "--force")
    assert command("train", folder / "other.csv", *base[2:], folder / "a", *how, *same)[0] == 0
    assert command(*base, folder / "b", *same)[0] == 0
    assert (folder / "a").read_bytes() == (folder / "b").read_bytes()
    code, other, _ = command("predict", folder / "a", folder / "other.csv", *how)
    assert code == 0
    assert other == command("predict", folder / "a", folder / "t.csv")[1]


@pytest.mark.filterwarnings("default::privboost.PrivacyWarning")
def test_warnings_are_one_line(trained, command):
    folder, base = trained
    err = command(*base, folder / "n", "--epsilon", 60, "--delta", 0.01)[2]
    assert [line[:29] for line in err.splitlines()] == [
        "privboost: warning: delta is ",
        "privboost: warning: epsilon i",
    ]


@pytest.mark.parametrize(("what", "rows"), [("predict", 3), ("predict", 20_000), ("report", None)])
def test_who_reads_may_stop(trained, what, rows):
    """As in `privboost predict … | head`: no trace, no word."""
    folder, _ = trained
    arguments = [folder / "m"]
    if rows is not None:
        arguments.append(folder / "rows.csv")
        make_frame(rows).to_csv(arguments[-1], index=False)
    reader, writer = os.pipe()
    os.close(reader)  # before anything is written, however slow this process is
    done = subprocess.run(
        [sys.executable, "-m", "privboost", what, *map(str, arguments)],
        stdout=writer,
        stderr=subprocess.PIPE,
        timeout=300,
        check=False,
    )
    os.close(writer)
    assert done.stderr == b""
    assert done.returncode == Status.unread == 128 + signal.SIGPIPE


def test_an_interruption_says_what_it_cost(trained):
    folder, base = trained
    ledger = folder / "ledger"
    how = ("--set", "n_estimators=200000", "--ledger", ledger)
    process = subprocess.Popen(
        [sys.executable, "-m", "privboost", *map(str, (*base, folder / "n", *how))],
        stderr=subprocess.PIPE,
        text=True,
    )
    # Not before its kernels are loaded: what numba says of an interruption is its own.
    while not (ledger.exists() and ledger.read_bytes()[:100_000].count(b'"charge"') > 50):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=300)[1]
    assert process.returncode == 130
    assert said.startswith("privboost: interrupted; epsilon 1 and delta 1e-06 count as spent")
    assert said.count("\n") == 1
    assert not (folder / "n").exists()


def test_files_beside_are_left_alone(trained, command):
    folder, base = trained
    (folder / "n.part").write_text("dear to me")
    assert command(*base, folder / "n")[0] == 0
    assert (folder / "n.part").read_text() == "dear to me"


def test_a_pipe_is_not_replaced(trained, command):
    folder, base = trained
    pipe = folder / "pipe.csv"
    os.mkfifo(pipe)
    ledger = folder / "ledger"
    for arguments in (
        (*base, pipe, "--force", "--ledger", ledger),
        ("predict", folder / "m", folder / "t.csv", "--out", pipe, "--force"),
        ("report", folder / "m", "--out", pipe, "--force"),
    ):
        code, out, err = command(*arguments)
        assert (code, out, err.count("\n")) == (Status.file, "", 1)
        assert "is a device or a pipe" in err
        assert pipe.is_fifo()
    assert not ledger.exists()


@pytest.mark.parametrize("output", ["p.csv", "p.parquet", "r.html"])
def test_what_fails_midway_leaves_the_old_file(trained, command, monkeypatch, output):
    folder, _ = trained
    place = folder / output
    place.write_text("old")
    before = sorted(folder.iterdir())

    def fail(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    what = ("report", folder / "m") if output == "r.html" else ("predict", folder / "m")
    what = what if output == "r.html" else (*what, folder / "t.csv")
    code, _, err = command(*what, "--out", place, "--force")
    assert (code, err) == (Status.file, f"privboost: No space left on device: {place}\n")
    assert place.read_text() == "old"
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("what", ["predict", "report"])
def test_a_closed_output_is_said_in_a_line(trained, command, monkeypatch, what):
    folder, _ = trained
    monkeypatch.setattr(sys, "stdout", None)
    rows = [folder / "t.csv"] if what == "predict" else []
    code, _, err = command(what, folder / "m", *rows)
    assert (code, err.count("\n")) == (Status.file, 1)
    assert "the standard output is closed" in err


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (OverflowError("int too large"), 2, "a number is too large: int too large"),
        (RecursionError("maximum depth"), 2, "nested too deeply"),
        (MemoryError("Unable to allocate for shape (4711,)"), 1, "not enough memory"),
        (KeyError(4711), 1, "internal error (KeyError): --debug"),
        (pa.ArrowInvalid("row 4711"), 1, "internal error (ArrowInvalid)"),
        (UnicodeDecodeError("utf-8", b"4711", 0, 1, "4711"), 2, "not UTF-8"),
    ],
    ids=["overflow", "recursion", "memory", "bug", "others", "bytes"],
)
def test_what_a_machine_cannot_do_is_said_in_a_line(
    trained, command, monkeypatch, error, status, words
):
    def fail(_):
        raise error

    monkeypatch.setattr("privboost.models.model.load_model", fail)
    code, _, err = command("report", trained[0] / "m")
    assert (code, err.count("\n")) == (status, 1)
    assert words in err
    assert "4711" not in err
    traced = command("report", trained[0] / "m", "--debug")[2]
    assert traced.startswith("Traceback")
    assert words in traced.splitlines()[-1]


def test_a_domain_names_its_target(trained, command):
    folder, base = trained
    code, _, err = command(*base, folder / "n", "--target", "income")
    assert code == Status.usage
    assert "not both" in err


@pytest.mark.parametrize("delta", [5e-324, 1e-301])
@pytest.mark.parametrize("what", ["train", "calibrate"])
def test_a_delta_beyond_arithmetic_is_named(trained, command, what, delta):
    folder, base = trained
    arguments = (*base, folder / "n") if what == "train" else ("calibrate", "--rounds", 9)
    code, _, err = command(*arguments, "--epsilon", 1, "--delta", delta)
    assert (code, err.count("\n")) == (Status.usage, 1)
    assert err.startswith("privboost: delta, if not 0, must be")
