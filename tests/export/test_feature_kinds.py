"""Truth values, ranks and log scales in other programs."""

import numpy as np
import pandas as pd
import pytest

from privboost import Domain, DPXGBRegressor, PrivBoostClassifier, PrivBoostRegressor
from privboost.export.sql import sql_text
from tests.export.databases import in_order

FEATURES = {
    "smoker": {"kind": "boolean", "missing": True},
    "pain": {"kind": "ordinal", "categories": ["none", "mild", "severe"], "missing": True},
    "stage": {"kind": "ordinal", "categories": [1, 2, 3, 4]},
    "age": {"kind": "numeric", "bounds": [0, 100]},
}


def make_frame(rows=400, sign=1):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "smoker": rng.choice([0.0, 1.0, 2.0, np.nan], rows),
            "pain": rng.choice(np.array(["none", "mild", "severe", "odd", None], object), rows),
            "stage": rng.choice([1.0, 2.0, 3.0, 4.0, 7.0, np.nan], rows),
            "age": rng.uniform(0, 100, rows),
        }
    )
    frame["price"] = sign * np.exp(2 + 3 * (frame["smoker"] == 1) + frame["age"] / 40)
    frame["y"] = (frame["price"].abs() > 60).astype(int)
    return frame


def make_model(kind, target, sign=1, **how):
    domain = Domain.from_dict({"version": 1, "features": FEATURES, "target": target})
    model = kind(20.0, 1e-6, domain, n_estimators=20, random_state=0, **how)
    return model.fit(make_frame(2000, sign)).model_


MODELS = {
    "classes": (PrivBoostClassifier, {"name": "y", "classes": [0, 1]}, 1, {}),
    "log": (PrivBoostRegressor, {"name": "price", "bounds": [1, 1e6], "scale": "log"}, 1, {}),
    "signed": (DPXGBRegressor, {"name": "price", "bounds": [0, 1e6], "scale": "log"}, 1, {}),
    "mirrored": (DPXGBRegressor, {"name": "price", "bounds": [-1e6, -1], "scale": "log"}, -1, {}),
}


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    kind, target, sign, how = MODELS[request.param]
    return make_model(kind, target, sign, **how)


def test_in_a_database(model):
    duckdb = pytest.importorskip("duckdb")
    frame = make_frame().drop(columns=["y", "price"])
    for rows in (frame, frame[frame["smoker"] < 2].astype({"smoker": bool})):
        with duckdb.connect() as connection:
            found = in_order(connection, sql_text(model), rows)["prediction"]
        np.testing.assert_allclose(found, model.predict(rows), rtol=1e-12)


def test_in_onnx(model, tmp_path):
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from tests.export.test_onnx import run_onnx

    frame = make_frame()
    words = frame.assign(pain=frame["pain"].where(frame["pain"].notna(), None))
    found, _ = run_onnx_with_words(run_onnx, model, words, tmp_path / "m.onnx")
    np.testing.assert_allclose(found["prediction"], model.predict(frame), rtol=1e-12)


def run_onnx_with_words(run, model, frame, path):
    """What means a missing word is said by the categories that ranks are written as."""
    from unittest import mock

    from privboost import CategoricalFeature
    from privboost.export.formula import missing_text

    def own(feature):
        return missing_text(CategoricalFeature(feature.name, feature.categories))

    with mock.patch("tests.export.test_onnx.missing_text", own):
        return run(model, frame, path)
