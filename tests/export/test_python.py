import math
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privboost import SBDTClassifier, export_model
from privboost.export.python_module import python_text
from tests.export.models import ODD_NAMES, ODD_ROWS, STORED, made_model, rows_of, stored_model


def module_of(model):
    names = {}
    exec(python_text(model), names)
    return names


def check(model, frame):
    module, rows = module_of(model), frame.to_dict("records")
    scores = np.array([module["scores"](row) for row in rows])
    known = model.decision_function(frame)
    np.testing.assert_array_equal(scores, known.reshape(len(rows), -1))
    np.testing.assert_array_equal([module["predict"](row) for row in rows], model.predict(frame))
    assert ("predict_proba" in module) == model.has_chances
    if model.has_chances:
        chances = [module["predict_proba"](row) for row in rows]
        np.testing.assert_allclose(chances, model.predict_proba(frame), atol=1e-12, rtol=1e-9)


@pytest.mark.parametrize("name", STORED)
def test_every_kind_of_model(name):
    model = stored_model(name)
    check(model, rows_of(model))


@pytest.mark.parametrize("classes", [["a", "b"], [0, 1], [0.5, 1.5, 3], [False, True]])
@pytest.mark.parametrize("flat", [False, True])
def test_odd_names_and_classes(classes, flat):
    check(made_model(ODD_NAMES, {"name": "y", "classes": classes}, flat), ODD_ROWS)


LABELS = {
    "words": ["a", "b", "1", "2.50", "True", ""],
    "numbers": [0, 1, 2.5, -7],
    "both ways": ["1.0", "1", "02", "false", "inf"],
}
MODELS = {
    name: made_model(
        {"x": {"kind": "categorical", "categories": own}}, {"name": "y", "classes": [0, 1]}
    )
    for name, own in LABELS.items()
} | {
    "edges": made_model(
        {"x": {"kind": "numeric", "bounds": [-10, 10], "edges": [-1, 0, 1, 2.5]}},
        {"name": "y", "classes": [0, 1]},
    )
}
MODULES = {name: module_of(model) for name, model in MODELS.items()}
VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.integers()
    | st.floats()
    | st.sampled_from([0.0, -0.0, 1.0, 2.5, np.float32(2.5), np.int8(1), np.bool_(True), pd.NA])
    | st.decimals()
    | st.sampled_from(["a", "1", "1.0", " 1e0", "2.5", "true", "FALSE", "nan", "inf", "1_0", "٣"])
    | st.sampled_from([b"a", b"1", np.str_("a"), np.float64("nan"), Decimal("sNaN"), 10**400])
    | st.sampled_from([Fraction(1, 2), (1, 2), object(), pd.NaT, 1j])
    | st.text()
)


@pytest.mark.parametrize("name", MODELS)
@given(value=VALUES)
def test_any_value_is_read_as_the_model_reads_it(name, value):
    column = np.empty((1, 1), dtype=object)
    column[0, 0] = value
    known = MODELS[name].decision_function(column)
    assert MODULES[name]["scores"]({"x": value}) == known.tolist()


def test_it_needs_nothing_that_is_installed(tmp_path):
    model = stored_model("privboost_3")
    export_model(model, tmp_path / "model.py")
    row = {"age": 30, "gain": "12.5", "step": None, "job": "b", "flag": True}
    code = f"import model, sys; print(model.predict({row!r}), *model.predict_proba({row!r}))\n"
    code += "print(sorted(set(sys.modules) & {'numpy', 'privboost'}))"
    isolated = [sys.executable, "-S", "-E", "-c", code]
    done = subprocess.run(isolated, cwd=tmp_path, capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    frame = pd.DataFrame({name: np.array([value], dtype=object) for name, value in row.items()})
    assert first.split()[0] == model.predict(frame)[0]
    chances = [float(word) for word in first.split()[1:]]
    np.testing.assert_allclose(chances, model.predict_proba(frame)[0])
    assert second == "[]"


def test_a_column_that_is_not_there_is_no_missing_value():
    with pytest.raises(KeyError, match="age"):
        module_of(stored_model("privboost_2"))["predict"]({"gain": 1})


def test_no_text_of_a_model_is_run(tmp_path):
    """A model file may come from anybody: names and categories stay texts."""
    name = "\"\"\" + str(exec('raise SystemExit')) + '''\\"
    features = {name: {"kind": "categorical", "categories": [name, "{x}", "\\"]}}
    model = made_model(features, {"name": f"{name}y", "classes": [name, "b"]})
    check(model, pd.DataFrame({name: [name, "{x}", "\\", None]}))


def test_extreme_scores_have_probabilities():
    chances_of = module_of(stored_model("privboost_2"))["chances_of"]
    assert chances_of([-16000.0]) == [1.0, 0.0]
    assert chances_of([16000.0]) == [0.0, 1.0]
    assert math.isclose(chances_of([-16000.0, -16000.0, -16000.0])[0], 1 / 3)


def test_what_cannot_be_exported_is_refused(tmp_path):
    with pytest.raises(TypeError, match="an estimator that is fitted"):
        export_model(SBDTClassifier(1.0), tmp_path / "m.py")
    with pytest.raises(ValueError, match=r"\.onnx, \.py or \.sql"):
        export_model(stored_model("sbdt_2"), tmp_path / "m.txt")
    assert not list(tmp_path.iterdir())
