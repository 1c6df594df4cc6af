"""Dates and durations in other programs: the model's own scores, whatever carries the times."""

import datetime as dt

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from privboost import Domain, PrivBoostClassifier, export_model
from privboost.export.sql import sql_text
from tests.export.databases import in_order
from tests.export.models import made_model

FEATURES = {
    "admitted": {"kind": "date", "bounds": ["1935-01-01", "2024-12-31"], "missing": True},
    "quarter": {
        "kind": "date",
        "bounds": ["2024-01-01", "2024-12-31"],
        "edges": ["2024-03-31", "2024-06-30", "2024-09-30"],
    },
    "week": {"kind": "date", "bounds": ["2024-01-01", "2024-01-07"]},
    "seen": {"kind": "date", "bounds": ["1960-01-01T00:00:00", "2024-01-01T12:00:00"]},
    "stay": {"kind": "duration", "bounds": [0, 864000], "scale": "log", "missing": True},
    "delay": {"kind": "duration", "bounds": [-2, 2], "edges": [-0.3, 0, 0.1, 0.300001]},
}
TARGET = {"name": "y", "classes": [0, 1]}
MODEL = made_model(FEATURES, TARGET)
DATES = [name for name, own in FEATURES.items() if own["kind"] == "date"]
US = {name: 10**6 * (1 if name == "seen" else 86400) for name in DATES}


def make_table(rows=400, seed=0):
    """Return times within the bounds and beyond, at edges and a microsecond off, and missing."""
    rng, columns = np.random.default_rng(seed), {}
    for place, feature in enumerate(MODEL.domain.features):
        low, high = feature.number.bounds
        step = US.get(feature.name, 10**6)
        drawn = rng.uniform(low - (high - low) / 5, high + (high - low) / 5, rows)
        near = rng.choice(MODEL.encoder.edges[place], rows)
        values = np.floor(np.where(rng.random(rows) < 0.5, drawn, near) * step).astype(np.int64)
        if feature.name in DATES:  # where the next step begins, or just before
            whole = (values // step + 1) * step - rng.integers(0, 2, rows)
            values = np.where(rng.random(rows) < 0.5, values, whole)
        kind = pa.timestamp("us") if feature.name in DATES else pa.duration("us")
        columns[feature.name] = pa.array(values, kind, mask=rng.random(rows) < 0.1)
    return pa.table(columns)


def in_duckdb(table, zone="UTC"):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        connection.execute(f"SET TimeZone = '{zone}'")
        return in_order(connection, sql_text(MODEL), table)["privboost score of 1"].to_numpy()


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Pacific/Apia"])
def test_in_a_database_in_any_zone(zone):
    table = make_table()
    known = MODEL.decision_function(table)
    np.testing.assert_array_equal(in_duckdb(table, zone), known)
    for place, name in enumerate(table.column_names[: len(DATES)]):
        zoned = table[name].cast(pa.timestamp("us", "Asia/Kolkata"))
        table = table.set_column(place, name, zoned)
    np.testing.assert_array_equal(MODEL.decision_function(table), known)
    np.testing.assert_array_equal(in_duckdb(table, zone), known)


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("s"), pa.timestamp("ms")])
def test_dates_of_other_types_in_a_database(kind):
    table = make_table()
    for place, name in enumerate(table.column_names[: len(DATES)]):
        table = table.set_column(place, name, table[name].cast(kind, safe=False))
    np.testing.assert_array_equal(in_duckdb(table, "Asia/Tokyo"), MODEL.decision_function(table))


def test_in_onnx(tmp_path):
    pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    table = make_table()
    export_model(MODEL, tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    given = {}
    for column in session.get_inputs():
        values = table[column.name].to_numpy()
        if column.type == "tensor(int64)":
            unit = "s" if column.name == "seen" else "D"
            array = values.astype(f"datetime64[{unit}]").astype(np.int64)
        else:
            array = values / np.timedelta64(1, "s")
        given[column.name] = array.reshape(-1, 1)
    (scores,) = session.run(["scores"], given)
    np.testing.assert_array_equal(scores, MODEL.decision_function(table))


def test_what_onnx_is_given_is_said_there(tmp_path):
    onnx = pytest.importorskip("onnx")
    export_model(MODEL, tmp_path / "m.onnx")
    graph = onnx.load(tmp_path / "m.onnx").graph
    said = {own.name: own.doc_string for own in graph.input}
    missing = "in UTC, negative before; -9223372036854775808 is missing"
    assert said["week"] == f"whole days since 1970 {missing}"
    assert said["seen"] == f"whole seconds since 1970 {missing}"
    assert said["stay"] == "a number of seconds; NaN means missing"


@pytest.mark.parametrize("part", FEATURES)
def test_a_model_that_tells_nothing_but_missing_times_apart(part, tmp_path):
    """Without an edge, any time is no missing one."""
    kind = {"kind": FEATURES[part]["kind"], "bounds": FEATURES[part]["bounds"], "edges": []}
    model = made_model({"x": kind}, TARGET)
    value = dt.timedelta(1) if kind["kind"] == "duration" else dt.date(2024, 5, 5)
    known = model.decision_function(pd.DataFrame({"x": np.array([value, None], dtype=object)}))
    assert known[0] != known[1]
    pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    export_model(model, tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    counts = np.array([[2.0**61], [np.nan]])
    if kind["kind"] == "date":
        counts = np.array([[2**61], [-(2**63)]])
    assert session.run(["scores"], {"x": counts})[0].tolist() == known.tolist()


def test_a_trained_model_of_stays():
    """Trees and pairs look at times, too."""
    rng, rows = np.random.default_rng(0), 3000
    admitted = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.uniform(0, 1400, rows), unit="D")
    stay = pd.to_timedelta(rng.exponential(86400, rows), unit="s")
    frame = pd.DataFrame({"admitted": admitted, "stay": stay, "age": rng.uniform(0, 90, rows)})
    late = (frame["admitted"] > "2022-01-01") ^ (frame["stay"] > pd.Timedelta("20h"))
    frame["y"] = (late & (frame["age"] > 30)).astype(int)
    frame.loc[::17, "admitted"], frame.loc[::13, "stay"] = pd.NaT, pd.NaT
    features = {name: FEATURES[name] for name in ("admitted", "stay")}
    features["age"] = {"kind": "numeric", "bounds": [0, 90]}
    domain = Domain.from_dict({"version": 1, "features": features, "target": TARGET})
    model = PrivBoostClassifier(20.0, 1e-6, domain, random_state=0).fit(frame).model_
    known = model.decision_function(frame)
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        found = in_order(connection, sql_text(model), frame)["privboost score of 1"]
    np.testing.assert_array_equal(found, known)
