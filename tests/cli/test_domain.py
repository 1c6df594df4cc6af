"""`privboost domain`: sketched, learned, checked and shown."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privboost import Domain, DomainError, DurationFeature, NumberTarget, SchemaError
from privboost.data.features import OPEN_KIND
from privboost.domain_inference.partial_domain import read_partial_domain
from tests.cli.test_commands import command, run  # noqa: F401

ROWS = 3000


def make_table(rows=ROWS):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "id": [f"secret-{k}" for k in range(rows)],
            "age": rng.integers(18, 90, rows),
            "sex": pd.Categorical(rng.choice(["secret-f", "secret-m"], rows)),
            "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, rows), "D"),
            "stay": pd.to_timedelta(rng.integers(60, 9000, rows), "s"),
            "smoker": rng.random(rows) < 0.5,
            "word": rng.choice(["a", "b"], rows),
            "cost": rng.exponential(500, rows),
            "ill": rng.choice(["no", "yes"], rows),
        }
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    frame = make_table()
    frame.to_parquet(folder / "t.parquet")
    frame.to_csv(folder / "t.csv", index=False)
    return folder


def test_a_skeleton_knows_names_and_types_alone(files, run, tmp_path):  # noqa: F811
    out = tmp_path / "d.json"
    how = ("--target", "ill", "--leave-out", "id", "--out", out)
    done = run("domain", "skeleton", files / "t.parquet", *how)
    assert "7 parts hold null" in done.stderr
    form = json.loads(out.read_text())
    assert "secret" not in out.read_text()
    assert form["target"] == {"name": "ill", "classes": None}
    kinds = {name: part["kind"] for name, part in form["features"].items()}
    assert kinds == {
        "age": "numeric",
        "sex": "categorical",
        "seen": "date",
        "stay": "duration",
        "smoker": "boolean",
        "word": "categorical",
        "cost": "numeric",
    }
    refused = run("domain", "show", out, code=4)
    assert "7 places are to be filled in, from public knowledge" in refused.stderr
    for place in ("age.bounds", "sex.categories", "seen.bounds", "stay.bounds", "cost.bounds"):
        assert f"features.{place}" in refused.stderr
    assert "target.classes" in refused.stderr
    assert "exists already" in run("domain", "skeleton", files / "t.parquet", *how, code=3).stderr


def test_a_text_file_gives_names_after_its_header_is_confirmed(files, run, tmp_path):  # noqa: F811
    refused = run("domain", "skeleton", files / "t.csv", "--target", "ill", code=4)
    assert "may be a record" in refused.stderr
    assert "secret" not in refused.stderr
    done = run("domain", "skeleton", files / "t.csv", "--target", "ill", "--header")
    form = json.loads(done.stdout)
    assert {part["kind"] for part in form["features"].values()} == {OPEN_KIND}
    assert 'ordinal      "categories"' in done.stderr
    assert form["target"] == {"name": "ill", "classes": None, "bounds": None}
    record = tmp_path / "r.csv"
    record.write_text("17,ill\n18,yes\n")
    assert (
        "as a record would"
        in run("domain", "skeleton", record, "--target", "ill", "--header", code=4).stderr
    )
    path = tmp_path / "d.json"
    path.write_text(done.stdout)
    refused = run("domain", "show", path, code=4)
    assert "features.age.kind, features.sex.kind" in refused.stderr


def test_check_lists_all_that_is_open_or_wrong(files, run, tmp_path):  # noqa: F811
    path = tmp_path / "d.json"
    done = run("domain", "skeleton", files / "t.csv", "--target", "ill", "--header")
    form = json.loads(done.stdout)
    known = read_partial_domain(form, "ill")
    assert not known.features
    assert not known.kinds  # all is to be learned
    features = form["features"]
    del features["id"], features["sex"]
    features["age"] |= {"kind": "numeric", "bounds": [90, 18]}
    features["smoker"]["kind"] = "boolean"  # what other kinds need may stay open
    features["word"]["kind"] = "ordinal"
    features["wrod"] = {"kind": "text"}
    path.write_text(json.dumps(form))
    done = run("domain", "check", path, files / "t.csv", "--header", code=4)
    assert "wrong: features.age.bounds: the lower bound 90" in done.stdout
    assert "wrong: features.wrod.kind: 'text' is not" in done.stdout
    assert "absent: the table has no column 'wrod'" in done.stdout
    assert "more: 'sex'" in done.stdout
    assert "smoker" not in done.stdout
    found = json.loads(run("domain", "check", path, files / "t.csv", "--json", code=4).stdout)
    kinds = [f"features.{name}.kind" for name in ("seen", "stay", "cost")]
    assert {*kinds, "features.word.categories", "target.classes or bounds"} == set(found["open"])
    with pytest.raises(DomainError, match=r"lower bound 90.*'text' is not.*5 places are to be"):
        Domain.from_json(path)
    features["word"]["bounds"] = [0, 1]
    path.write_text(json.dumps(form))
    assert "unknown key 'bounds'" in run("domain", "check", path, files / "t.csv", code=4).stdout


FRAMES = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "enumeration": lambda frame: pl.from_pandas(frame).with_columns(
        pl.col("sex").cast(pl.Enum(["secret-f", "secret-m", "secret-x"]))
    ),
    "arrow": lambda frame: pa.Table.from_pandas(frame),
}


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_skeletons_of_frames_hold_no_value(make):
    frame = make(make_table(20))
    form = Domain.skeleton(frame, "cost", leave_out=["id"], task="number")
    assert "secret" not in json.dumps(form)
    assert form["target"] == {"name": "cost", "bounds": None}
    assert form["features"]["sex"]["kind"] in ("categorical", OPEN_KIND)
    assert form["features"]["seen"]["kind"] == "date"
    assert form["features"]["stay"]["kind"] == "duration"
    with pytest.raises(DomainError, match="to be filled in"):
        Domain.from_dict(form)
    with pytest.raises(SchemaError, match="no column 'age2'"):
        Domain.skeleton(frame, "cost", leave_out=["age2"])


def test_skeletons_of_survival_times(tmp_path, run):  # noqa: F811
    frame = make_table(20)
    form = Domain.skeleton(frame, "cost", event="smoker")
    assert form["target"] == {"name": "cost", "bounds": None, "event": "smoker"}
    assert not {"cost", "smoker"} & set(form["features"])
    assert Domain.skeleton(frame, "cost", task="survival", event="smoker") == form
    with pytest.raises(DomainError, match="to be filled in"):
        Domain.from_dict(form)
    frame.to_parquet(tmp_path / "t.parquet")
    how = ("--target", "cost", "--event", "smoker")
    made = run("domain", "skeleton", str(tmp_path / "t.parquet"), *how)
    assert json.loads(made.stdout)["target"] == form["target"]
    for how in ({"task": "number"}, {"event": "cost"}, {"event": "no"}, {"unit": "smoker"}):
        with pytest.raises((SchemaError, ValueError), match=r"event|no column 'no'"):
            Domain.skeleton(frame, "cost", **{"event": "smoker"} | how)
    with pytest.raises(ValueError, match="need event"):
        Domain.skeleton(frame, "cost", task="survival")
    with pytest.raises(ValueError, match="task must be"):
        Domain.skeleton(frame, "cost", task="bogus")


def test_a_column_without_a_kind_is_left_out(tmp_path, run):  # noqa: F811
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": [1], "many": [[1, 2]], "y": [True]}), path)
    done = run("domain", "skeleton", path, "--target", "y")
    assert "'many': left out" in done.stderr
    form = json.loads(done.stdout)
    assert form["target"]["classes"] == [False, True]
    assert form["leave_out"] == ["many"]
    form["features"]["x"]["bounds"] = [0, 1]
    assert Domain.from_dict(form).feature_names == ("x",)
    with pytest.raises(DomainError, match="leave_out: a list of columns is needed"):
        Domain.from_dict(form | {"leave_out": "many"})


def test_a_unit_is_no_feature(files, run, tmp_path):  # noqa: F811
    out = tmp_path / "d.json"
    how = ("domain", "skeleton", files / "t.parquet", "--target", "ill")
    run(*how, "--unit", "id", "--leave-out", "id", "--out", out)
    form = json.loads(out.read_text())
    assert form["unit"] == {"column": "id", "max_rows": None, "weighting": "units"}
    assert "id" not in form["features"]
    form["features"] = {"smoker": {"kind": "boolean"}}
    form["target"]["classes"] = ["no", "yes"]
    out.write_text(json.dumps(form))
    assert "unit.max_rows: to be filled in" in run("domain", "show", out, code=4).stderr
    form["unit"]["max_rows"] = 3
    out.write_text(json.dumps(form))
    assert (
        "all rows of one id (at most 3 are used, and share one weight)"
        in run("domain", "show", out).stdout
    )
    assert "nor be the unit" in run(*how, "--unit", "ill", code=4).stderr


def test_learn_fills_a_skeleton_in(files, run, tmp_path):  # noqa: F811
    sketch, out, store = (tmp_path / name for name in ("s.json", "d.json", "store"))
    how = ("--target", "cost", "--leave-out", "id", "--out", sketch)
    run("domain", "skeleton", files / "t.parquet", *how)
    form = json.loads(sketch.read_text())
    how = ("--target", "cost", "--epsilon", 2, "--domain-given", sketch)
    refused = run("domain", "learn", files / "t.parquet", *how, code=4)
    assert "bounds of dates" in refused.stderr
    form["features"]["seen"]["bounds"] = ["2024-01-01", "2024-12-31"]
    form["target"] = {"name": "cost", "scale": "log"}
    sketch.write_text(json.dumps(form))
    done = run(
        *("domain", "learn", files / "t.parquet", *how, "--out", out),
        *("--ledger", tmp_path / "ledger", "--budget", store, "--dataset", "visits"),
        *("--limit-epsilon", 5, "--limit-delta", 1e-5),
    )
    assert "1e-06)-differential privacy" in done.stdout
    domain = Domain.from_json(out)
    assert "id" not in domain.feature_names
    by_name = {feature.name: feature for feature in domain.features}
    assert isinstance(by_name["stay"], DurationFeature)
    assert by_name["stay"].bounds[1] == 16384
    assert by_name["smoker"].kind == "boolean"
    assert by_name["sex"].categories == ("secret-f", "secret-m")
    assert isinstance(domain.target, NumberTarget)
    assert domain.target.scale == "log"
    assert domain.privacy is not None
    assert "visits" in run("budget", "show", store).stdout
    assert (tmp_path / "ledger").exists()
    shown = run("domain", "show", out).stdout
    for said in (
        "seconds ",
        "2024-01-01 … 2024-12-31",
        "on a log scale",
        "learned at: ",
        "expected",
    ):
        assert said in shown
    assert json.loads(run("domain", "show", out, "--json").stdout) == domain.to_dict()
    model = tmp_path / "m.privboost"
    run(
        *("train", files / "t.parquet", "--domain", out, "--model", model, "--epsilon", 1),
        *("--set", "n_estimators=5", "--quiet"),
    )
    prediction = run("predict", model, files / "t.parquet").stdout.splitlines()
    assert len(prediction) == ROWS + 1


def test_max_rows_of_a_unit_in_a_skeleton_are_learned(files, run, tmp_path):  # noqa: F811
    sketch, out, store = (tmp_path / name for name in ("s.json", "d.json", "store"))
    table, how = files / "t.parquet", ("--target", "ill", "--leave-out", "seen")
    run("domain", "skeleton", table, *how, "--unit", "id", "--out", sketch)
    where = ("--domain-given", sketch, "--out", out, "--budget", store, "--dataset", "visits")
    where = (*where, "--limit-epsilon", 90, "--limit-delta", 1e-5)
    run("domain", "learn", table, "--target", "ill", "--epsilon", 40, *where)
    domain = Domain.from_json(out)
    assert (domain.unit.column, domain.unit.weighting) == ("id", "units")
    assert "id" in run("budget", "show", store).stdout
    form = json.loads(sketch.read_text())
    del form["unit"]["weighting"]
    sketch.write_text(json.dumps(form))
    refused = run("domain", "learn", table, "--target", "ill", "--epsilon", 1, *where[:2], code=4)
    assert 'learned where "weighting" is "units"' in refused.stderr


def test_leaving_out_what_is_given_or_absent(files, run, tmp_path):  # noqa: F811
    how = ("domain", "learn", files / "t.parquet", "--target", "cost", "--epsilon", 1)
    ledger = ("--ledger", tmp_path / "ledger")
    assert "no column 'ID'" in run(*how, *ledger, "--leave-out", "ID", code=4).stderr
    given = tmp_path / "g.json"
    given.write_text('{"features": {"age": {"kind": "numeric"}}, "leave_out": ["age"]}')
    refused = run(*how, *ledger, "--domain-given", given, code=4)
    assert "leave_out: 'age' is given too" in refused.stderr
    given.write_text('{"features": {"seen": {"kind": "numeric"}}}')
    refused = run(*how, *ledger, "--domain-given", given, code=4)
    assert "'seen' holds timestamp" in refused.stderr
    given.write_text('{"target": {"name": "cost", "scale": "log"}, "leave_out": ["seen"]}')
    refused = run(*how, *ledger, "--domain-given", given, "--task", "classes", code=4)
    assert "target.scale: classes have none" in refused.stderr
    assert not (tmp_path / "ledger").exists()


FITTING = {
    "version": 1,
    "features": {
        "age": {"kind": "numeric", "bounds": [30, 50], "reason": "[b]working[/b] age"},
        "sex": {"kind": "categorical", "categories": ["secret-f"]},
        "seen": {"kind": "date", "bounds": ["2024-02-01", "2024-03-01"]},
        "smoker": {"kind": "boolean"},
        "word": {"kind": "ordinal", "categories": ["b", "c"]},
    },
    "target": {"name": "cost", "bounds": [0, 100]},
    "unit": {"column": "id", "max_rows": 1},
}


def test_check_compares_schemas_and_counts_public_rows_alone(files, run, tmp_path):  # noqa: F811
    path = tmp_path / "d.json"
    path.write_text(json.dumps(FITTING))
    for name in ("t.parquet", "t.csv"):
        done = run("domain", "check", path, files / name)
        assert "the domain fits the table" in done.stdout
        assert "below" not in done.stdout
        assert ("more: 'ill'" in done.stdout) == (name == "t.parquet")
        assert "more: 'ill'" in run("domain", "check", path, files / name, "--header").stdout
        done = run("domain", "check", path, files / name, "--public-rows", "--json")
        found = json.loads(done.stdout)
        columns = {part["name"]: part for part in found["columns"]}
        frame = make_table()
        assert columns["age"]["below"] == int((frame["age"] < 30).sum())
        assert columns["age"]["above"] == int((frame["age"] > 50).sum())
        assert columns["sex"]["other"] == int((frame["sex"] == "secret-m").sum())
        assert columns["seen"]["below"] == int((frame["seen"] < "2024-02-01").sum())
        assert columns["word"]["other"] == int((frame["word"] == "a").sum())
        assert columns["cost"]["above"] == int((frame["cost"] > 100).sum())
        assert columns["smoker"] == {
            "name": "smoker", "rows": ROWS, "missing": 0, "below": 0, "above": 0, "other": 0
        }  # fmt: skip
    assert "below" in run("domain", "check", path, files / "t.csv", "--public-rows").stdout
    assert "[b]working[/b] age" in run("domain", "show", path).stdout


def test_check_says_what_is_wrong(files, run, tmp_path):  # noqa: F811
    path = tmp_path / "d.json"
    form = FITTING | {"target": {"name": "price", "bounds": [0, 1]}}
    form["features"] = FITTING["features"] | {
        "stay": {"kind": "date", "bounds": ["2024-01-01", "2024-02-01"]}
    }
    path.write_text(json.dumps(form))
    done = run("domain", "check", path, files / "t.parquet", "--public-rows", code=4)
    assert "absent: the table has no column 'price'" in done.stdout
    assert "unfit: column 'stay' holds duration" in done.stdout
    assert "the domain does not fit the table" in done.stdout
    found = json.loads(run("domain", "check", path, files / "t.parquet", "--json", code=4).stdout)
    assert found["absent"] == ["price"]
    assert not found["fits"]
    done = run("domain", "check", path, files / "t.csv", code=4)
    assert "absent: the table has no column 'price'" in done.stdout
    assert "cost" not in done.stdout


def test_help_has_examples(run):  # noqa: F811
    for act in ("skeleton", "learn", "check"):
        assert f"privboost domain {act}" in run("domain", act, "--help").stdout
