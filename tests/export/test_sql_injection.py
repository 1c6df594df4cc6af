"""Exported SQL where names, tables and values are out to be taken for others."""

import sqlite3
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from privboost.export.sql import sql_text
from privboost.models.additive import AdditiveScores
from privboost.models.interactions import InteractionScores, PairValues
from privboost.models.trees import TreeScores
from tests.export.models import made_model, rows_of, stored_model
from tests.export.test_sql import check
from tests.export.test_times import DATES, MODEL, make_table

LONG = "é" * 40
NUMBER = {"kind": "numeric", "bounds": [0, 4], "edges": [1, 2, 3]}
BINARY = {"name": "label", "classes": [0, 1]}


def joint_model(names, target=BINARY):
    """Return a model that looks at each column alone and at neighbours together."""
    model = made_model(dict.fromkeys(names, NUMBER), target)
    cells, values = np.arange(5, dtype=np.uint16), np.arange(25, dtype=np.int32).reshape(5, 5)
    pairs = tuple(
        PairValues(
            0, (own, own + 1), (cells, cells), values**2 * (own + 1), values * 1.0, values * 1.0
        )
        for own in range(len(names) - 1)
    )
    none = TreeScores.of(np.zeros_like(model.scores.start), [5] * len(names))
    return replace(model, scores=InteractionScores.of(model.scores, pairs, none))


def draw(names, rows=60):
    drawn = np.random.default_rng(0).uniform(0, 4, (rows, len(names)))
    return pd.DataFrame(drawn, columns=list(names))


@pytest.mark.parametrize("name", ["privboost_2", "privboost_3", "privboost_1", "sbdt_2"])
def test_a_table_that_was_scored_before_is_scored_anew(name, run):
    """Old scores, whatever they say and in whatever case, are not taken for new ones."""
    model = stored_model(name)
    frame = rows_of(model)
    first = run(sql_text(model), frame)
    new = first.columns[len(frame.columns) :]
    assert len({column.lower() for column in first.columns}) == first.shape[1]
    for case in (str, str.upper):
        old = {case(column): -7.0 for column in new}
        again = run(sql_text(model), frame.assign(**old))
        assert again.shape[1] == first.shape[1] + len(new)
        found = again.iloc[:, -len(new) :].set_axis(new, axis=1)
        pd.testing.assert_frame_equal(found, first[new])


INNER = ["C0", "c1", "P0", "S0", "s1", "R", "s", "p", "c", "scored", "Privboost_Rows"]
ODD = ["select", "table.column", 'a "b" c', "it's", " ", "%s", ":x", "--", "; DROP TABLE rows"]
ODD += ["☃", "$1", "count", "`", "[x]", "/*", "\\", "PREDICTION", LONG, "x" * 200, "null", "?"]


@pytest.mark.parametrize("names", [INNER, ODD], ids=["inner", "odd"])
def test_columns_may_have_any_name(names, run):
    frame = draw(names)
    check(joint_model(names), frame, run)
    beside = {"privboost score of 1": 3.0, "r": 1.0, "C": 2.0, "C00": 4.0}
    free = {
        name: value for name, value in beside.items() if name.lower() not in map(str.lower, names)
    }
    busy = frame.assign(**free)
    check(joint_model(names), busy, run)


@pytest.mark.parametrize(
    "classes",
    [
        ["Yes", "yes", "YES"],
        ["é" + "x" * 70 + end for end in "abc"],
        ["prediction", "Prediction"],
        ["a_", "A", "a"],
        ["", " ", '"'],
    ],
)
def test_classes_may_differ_in_little(classes, run):
    model = joint_model(["x", "y", "probability of yes"], {"name": "label", "classes": classes})
    frame = draw(["x", "y", "probability of yes"])
    check(model, frame, run)
    names = [name.lower().encode() for name in run(sql_text(model), frame).columns]
    assert len(set(names)) == len(names)
    assert max(map(len, names)) <= 63


@pytest.mark.parametrize(
    "names",
    [
        ["Age", "age"],
        ["n" * 63 + "a", "n" * 63 + "b"],
        ["é" * 31 + "éa", "é" * 31 + "óa"],
    ],
)
def test_columns_that_a_database_takes_for_one_are_refused(names):
    with pytest.raises(ValueError, match="databases do not distinguish the columns") as error:
        sql_text(joint_model(names))
    assert "\n" not in str(error.value)


def test_columns_that_every_database_tells_apart_are_not_refused(run):
    names = ["É", "é", "n" * 62 + "a", "n" * 62 + "b"]
    check(joint_model(names), draw(names), run)


def test_a_missing_column_is_an_error(run):
    """SQLite takes a name in double quotes for a text, if there is no such column."""
    model = joint_model(["x", "gone"])
    with pytest.raises(Exception, match="gone"):
        run(sql_text(model), draw(["x", "other"]))


def test_a_table_may_have_the_name_of_one_of_ours(run):
    model = joint_model(["x", "y"])
    query = sql_text(model, "PrivBoost_Rows")
    made = 'WITH "PrivBoost_Rows" AS (SELECT * FROM rows) '
    found = run(made + query.split("\n", 1)[1], draw(["x", "y"]))
    known = model.decision_function(draw(["x", "y"]))
    np.testing.assert_array_equal(found["privboost score of 1"], known)


def test_a_table_without_rows(run):
    assert len(run(sql_text(joint_model(["x", "y"])), draw(["x", "y"], rows=0))) == 0


@pytest.mark.parametrize("classes", [[0, 1], [0, 1, 2]])
def test_scores_that_no_exponential_can_hold(classes, run):
    """PostgreSQL raises where one overflows or underflows."""
    model = made_model({"x": NUMBER}, {"name": "y", "classes": classes})
    outputs = 1 if len(classes) == 2 else 3
    values = np.tile(np.array([2**31 - 1, -(2**31) + 1, 10**8, 0, 0], np.int32), (outputs, 1))
    values[1:, :] //= 3
    scores = AdditiveScores(np.zeros(outputs, np.int32), (np.ascontiguousarray(values),))
    check(replace(model, scores=scores), pd.DataFrame({"x": [0.5, 1.5, 2.5, 3.5]}), run)


KINDS = {
    "truth": {"kind": "boolean", "missing": True},
    "flag": {"kind": "categorical", "categories": [False, True], "missing": True},
    "word": {"kind": "categorical", "categories": ["nurse", "Nurse", "NURSE ", "1", "True"]},
    "size": {"kind": "categorical", "categories": [1, 2.5, -3]},
    "count": {"kind": "numeric", "bounds": [-1, 10], "edges": [0, 0.1, 2, 7]},
}
ROWS = pd.DataFrame(
    {
        "truth": [True, False, None, True, False, None],
        "flag": [False, True, None, None, True, False],
        "word": ["nurse", "Nurse", "NURSE ", "NURSE", "1", None],
        "size": [1, 2.5, -3, 2, None, 1],
        "count": [0, 1, 2, 7, 8, None],
    },
    dtype=object,
)


@pytest.mark.parametrize(
    "kinds",
    [
        {"truth": "boolean", "flag": "boolean", "size": "numeric(9, 2)", "count": "integer"},
        {"truth": "text", "flag": "boolean", "size": "real", "count": "numeric"},
        {"truth": "boolean", "flag": "text", "size": "text", "count": "bigint"},
    ],
)
def test_types_of_columns_in_postgres(kinds, postgres):
    model = made_model(KINDS, BINARY)
    found = postgres(sql_text(model), ROWS, {"word": "varchar(9)"} | kinds)
    np.testing.assert_array_equal(found["privboost score of 1"], model.decision_function(ROWS))


def test_numbers_that_are_none_in_postgres(postgres):
    """NaN is above all numbers there, and equal to itself; NULL is neither."""
    model = made_model(KINDS, BINARY)
    odd = [np.nan, np.inf, -np.inf, -0.0, 5e-324, 1.7e308, 0.1, np.nextafter(0.1, 1)]
    frame = pd.DataFrame({name: [None] * len(odd) for name in KINDS}, dtype=object)
    frame = frame.assign(size=odd, count=odd)
    found = postgres(sql_text(model), frame)
    np.testing.assert_array_equal(found["privboost score of 1"], model.decision_function(frame))


def test_a_column_that_ignores_case_in_sqlite():
    model = made_model({"word": KINDS["word"]}, BINARY)
    with sqlite3.connect(":memory:") as connection:
        connection.execute("CREATE TABLE rows (word TEXT COLLATE NOCASE)")
        connection.executemany("INSERT INTO rows VALUES (?)", [(word,) for word in ROWS["word"]])
        found = pd.read_sql_query(sql_text(model), connection)
    known = model.decision_function(ROWS[["word"]])
    np.testing.assert_array_equal(found["privboost score of 1"], known)


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Apia"])
@pytest.mark.parametrize("kind", ["timestamp", "timestamptz", "date"])
def test_times_in_postgres(kind, zone, postgres):
    table = make_table(80)
    frame = table.to_pandas().astype(object)
    frame = frame.where(frame.notna(), None)
    for name in frame.columns.difference(DATES):
        frame[name] = [v if v is None else f"{v.total_seconds()!r} seconds" for v in frame[name]]
    for name in DATES:
        frame[name] = [
            v if v is None else f"{v}{'+00' * (kind == 'timestamptz')}" for v in frame[name]
        ]
    kinds = {name: kind if name in DATES else "interval" for name in frame}
    known = table.to_pandas()
    if kind == "date":
        known = known.assign(**{name: known[name].dt.floor("D") for name in DATES})
    found = postgres(f"SET LOCAL TimeZone = '{zone}'; {sql_text(MODEL)}", frame, kinds)
    np.testing.assert_array_equal(found["privboost score of 1"], MODEL.decision_function(known))


def test_dates_without_end_are_missing_in_postgres(postgres):
    features = {"day": {"kind": "date", "bounds": ["2024-01-01", "2024-01-07"], "missing": True}}
    model = made_model(features, BINARY)
    frame = pd.DataFrame({"day": ["infinity", "-infinity", None, "2024-01-09"]}, dtype=object)
    for kind in ("date", "timestamp", "timestamptz"):
        found = postgres(sql_text(model), frame, {"day": kind})["privboost score of 1"]
        known = model.decision_function(
            pd.DataFrame({"day": pd.to_datetime([None, None, None, "2024-01-09"])})
        )
        np.testing.assert_array_equal(found, known)
