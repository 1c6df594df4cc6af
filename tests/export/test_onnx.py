import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from privboost import export_model
from privboost.export.formula import missing_text
from tests.export.models import (
    ODD_NAMES,
    ODD_ROWS,
    STORED,
    made_model,
    models_with_intervals,
    models_with_sets,
    rows_of,
    stored_model,
)


def run_onnx(model, frame, path):
    """Return what onnxruntime gives, by name."""
    export_model(model, path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    declared = {feature.name: feature for feature in model.domain.features}
    given = {}
    for column in session.get_inputs():
        values = frame[column.name]
        if column.type == "tensor(string)":
            text = missing_text(declared[column.name])
            array = np.array([text if v is None or v != v else v for v in values], dtype=object)
        else:
            array = values.to_numpy(dtype=np.float64)
        given[column.name] = array.reshape(-1, 1)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, given), strict=True)), session


def check(model, frame, path):
    found, session = run_onnx(model, frame, path)
    if not hasattr(model, "predict_proba") and "scores" not in found:
        np.testing.assert_allclose(found["prediction"], model.predict(frame), rtol=1e-12)
        return session
    (predicted,) = (own for name, own in found.items() if name.startswith("prediction"))
    np.testing.assert_array_equal(predicted, model.predict(frame))
    np.testing.assert_array_equal(found["scores"], model.decision_function(frame))
    assert ("probabilities" in found) == model.has_probabilities
    if model.has_probabilities:
        np.testing.assert_allclose(
            found["probabilities"], model.predict_proba(frame), atol=1e-12, rtol=1e-9
        )
    return session


@pytest.mark.parametrize("model", models_with_intervals().values(), ids=[*models_with_intervals()])
def test_intervals(model, tmp_path):
    frame = pd.DataFrame({"upper": [0.0, 0.3, 0.9, 1.0, np.nan]})
    found, _ = run_onnx(model, frame, tmp_path / "m.onnx")
    ends = np.stack([found["lower"], found["upper_"]], axis=1)  # the domain has a feature "upper"
    np.testing.assert_allclose(ends, model.predict_interval(frame), rtol=1e-12)
    check(model, frame, tmp_path / "m.onnx")


@pytest.mark.parametrize("model", models_with_sets().values(), ids=[*models_with_sets()])
def test_sets(model, tmp_path):
    frame = pd.DataFrame({"in set b": [*np.linspace(0, 1, 40), np.nan]})
    found, _ = run_onnx(model, frame, tmp_path / "m.onnx")
    np.testing.assert_array_equal(found["in_set"], model.predict_set(frame))
    check(model, frame, tmp_path / "m.onnx")


@pytest.mark.parametrize("name", STORED)
def test_every_kind_of_model(name, tmp_path):
    model = stored_model(name)
    check(model, rows_of(model), tmp_path / "m.onnx")


@pytest.mark.parametrize("classes", [["a", "b"], [0, 1], [0.5, 1.5, 3], [False, True], [3, 1, 2]])
def test_odd_names_and_classes(classes, tmp_path):
    model = made_model(ODD_NAMES, {"name": "y", "classes": classes})
    session = check(model, ODD_ROWS, tmp_path / "m.onnx")
    assert session.get_outputs()[0].name == "prediction_"


def test_a_model_that_looks_at_nothing(tmp_path):
    model = made_model(ODD_NAMES, {"name": "y", "classes": ["a", "b"]}, flat=True)
    session = check(model, ODD_ROWS, tmp_path / "m.onnx")
    assert [own.name for own in session.get_inputs()] == ["prediction"]


def test_columns_that_nothing_looks_at_are_not_asked_for(tmp_path):
    model = stored_model("lazybb_2")
    _, session = run_onnx(model, rows_of(model), tmp_path / "m.onnx")
    asked = {own.name for own in session.get_inputs()}
    assert asked < set(model.domain.feature_names)
    assert set(model.explain()["feature"].to_pylist()) - {"(every row)"} <= asked


def test_no_rows_and_one(tmp_path):
    model = stored_model("privboost_2")
    for rows in (0, 1):
        found, _ = run_onnx(model, rows_of(model)[:rows], tmp_path / "m.onnx")
        assert found["prediction"].shape == (rows,)
        assert found["probabilities"].shape == (rows, 2)


def test_the_guarantee_is_told_and_no_more(tmp_path):
    model = stored_model("privboost_2")
    _, session = run_onnx(model, rows_of(model), tmp_path / "m.onnx")
    facts = session.get_modelmeta().custom_metadata_map
    assert facts == {"guarantee": model.privacy.guarantee, "target": "income"}
    again = tmp_path / "again.onnx"
    export_model(model, again)
    assert again.read_bytes() == (tmp_path / "m.onnx").read_bytes()


def test_other_exports_need_no_onnx(tmp_path):
    code = (
        "import sys; sys.modules['onnx'] = None\n"
        "from privboost import export_model, load_model\n"
        "from tests.export.models import stored_model\n"
        f"export_model(stored_model('sbdt_2'), {str(tmp_path / 'm.sql')!r})\n"
        "try: export_model(stored_model('sbdt_2'), 'm.onnx')\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'privboost[export]'" in done.stdout
