"""Exports from the command line, and of a model of people."""

import json
import sys
import time
import warnings
from importlib.util import find_spec

import numpy as np
import pyarrow as pa
import pytest

from privboost import PrivBoostClassifier, SBDTClassifier, export_model
from privboost.cli.main import main
from privboost.datasets import load_adult
from privboost.export.sql import sql_text
from tests.export.databases import in_order
from tests.export.models import stored_model


@pytest.fixture
def run(capsys, monkeypatch):
    """Run a command in this process; return its status and what it said."""
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # main sets its own

    def act(*arguments):
        monkeypatch.setattr(sys, "argv", ["privboost", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        told = capsys.readouterr()
        return left.value.code or 0, told.out + told.err

    return act


@pytest.mark.parametrize("suffix", [".sql", ".onnx"])
def test_the_name_of_the_file_says_how(suffix, tmp_path, run):
    if suffix == ".onnx":
        pytest.importorskip("onnx")
    model, (file, out) = stored_model("privboost_2"), (tmp_path / n for n in ("m", f"m{suffix}"))
    model.save(file)
    assert run("export", file, out) == (0, f"{out}: {file} for other programs\n")
    export_model(model, tmp_path / f"again{suffix}")
    assert out.read_bytes() == (tmp_path / f"again{suffix}").read_bytes()
    status, said = run("export", file, out)
    assert status == 3
    assert "--force replaces it" in said
    status, said = run("export", file, out, "--force", "--json")
    assert (status, json.loads(said)) == (0, {"out": str(out)})


def test_what_is_wrong_is_said_in_a_line(tmp_path, run):
    file = tmp_path / "m"
    stored_model("sbdt_2").save(file)
    for arguments, code, words in (
        ((file, tmp_path / "m.txt"), 2, "a file that ends in .onnx or .sql is needed"),
        ((file, tmp_path / "m.py"), 2, "Python modules are no longer exported; use .onnx"),
        ((tmp_path / "none", tmp_path / "m.sql"), 3, "No such file"),
        ((file, tmp_path / "none" / "m.sql"), 3, "no such folder"),
    ):
        status, said = run("export", *arguments)
        assert status == code
        assert words in said
        assert said.count("\n") == 1
    (tmp_path / "bad").write_bytes(b"nonsense")
    assert "not a privboost model file" in run("export", tmp_path / "bad", tmp_path / "m.sql")[1]
    assert not list(tmp_path.glob("*.sql"))


def test_models_that_cannot_be_exported_are_refused(tmp_path):
    with pytest.raises(TypeError, match="a fitted estimator is needed"):
        export_model(SBDTClassifier(1.0), tmp_path / "m.sql")
    with pytest.raises(ValueError, match=r"\.onnx or \.sql"):
        export_model(stored_model("sbdt_2"), tmp_path / "m.txt")
    with pytest.raises(ValueError, match=r"use \.onnx \(onnxruntime\) or \.sql"):
        export_model(stored_model("sbdt_2"), tmp_path / "m.py")
    assert not list(tmp_path.iterdir())


def test_without_onnx_a_line_says_what_to_install(tmp_path, run, monkeypatch):
    stored_model("sbdt_2").save(tmp_path / "m")
    monkeypatch.setitem(sys.modules, "onnx", None)
    for name in [name for name in sys.modules if name.startswith("privboost.export.onnx")]:
        monkeypatch.delitem(sys.modules, name)
    status, said = run("export", tmp_path / "m", tmp_path / "m.onnx")
    assert status == 1
    assert "pip install 'privboost[export]'" in said


@pytest.fixture(scope="module")
def adult():
    data = load_adult()
    fitted = PrivBoostClassifier(1.0, 1e-6, data.domain, random_state=1).fit(data.train)
    return fitted, data.test


def test_the_flagship_on_adult_in_a_database(adult):
    """Its many trees are planned and run in a second or two: they took minutes."""
    duckdb = pytest.importorskip("duckdb")
    fitted, rows = adult
    with duckdb.connect() as connection:
        began = time.process_time()
        found = in_order(connection, sql_text(fitted.model_), rows)
        assert time.process_time() - began < 20
    np.testing.assert_array_equal(
        found["privboost score of >50K"].to_numpy(), fitted.decision_function(rows)
    )


def test_the_flagship_on_adult_in_onnx(adult, tmp_path):
    if not (find_spec("onnx") and find_spec("onnxruntime")):
        pytest.skip("onnx and onnxruntime are not installed")
    import onnxruntime

    fitted, rows = adult
    export_model(fitted, tmp_path / "adult.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "adult.onnx")
    given = {}
    for column in session.get_inputs():
        text = column.type == "tensor(string)"
        own = rows[column.name].fill_null("") if text else rows[column.name].cast(pa.float64())
        given[column.name] = own.to_numpy().reshape(-1, 1)
        given[column.name] = given[column.name].astype(object if text else np.float64)
    predicted, chances, scores = session.run(["prediction", "probabilities", "scores"], given)
    np.testing.assert_array_equal(scores, fitted.decision_function(rows))
    np.testing.assert_array_equal(predicted, fitted.predict(rows))
    np.testing.assert_allclose(chances, fitted.predict_proba(rows), atol=1e-12)
