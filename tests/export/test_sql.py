from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from privboost.export.sql import sql_text
from privboost.models.interactions import InteractionScores, PairValues
from privboost.models.trees import TreeScores
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


def check(model, frame, run):
    found = run(sql_text(model), frame)
    assert len(found) == len(frame)
    if "bounds" in model.domain.target.to_dict():
        np.testing.assert_allclose(found["prediction"], model.predict(frame), rtol=1e-12)
        return
    new = found.iloc[:, len(frame.columns) :]
    scores = new[[name for name in new if name.startswith("privboost score of")]]
    known = model.decision_function(frame).reshape(len(frame), -1)
    np.testing.assert_array_equal(scores.to_numpy(), known)
    (predicted,) = (name for name in new if name.startswith("prediction"))
    expected = model.predict(frame)
    np.testing.assert_array_equal(new[predicted].to_numpy().astype(expected.dtype), expected)
    chances = new[[name for name in new if name.startswith("probability of")]]
    assert chances.shape[1] == (len(model.classes) if model.has_probabilities else 0)
    if model.has_probabilities:
        np.testing.assert_allclose(chances, model.predict_proba(frame), atol=1e-12, rtol=1e-9)


@pytest.mark.parametrize("model", models_with_intervals().values(), ids=[*models_with_intervals()])
def test_intervals(model, run):
    frame = pd.DataFrame({"upper": [0.0, 0.3, 0.9, 1.0, np.nan]})
    found = run(sql_text(model), frame)
    ends = found[["lower_", "upper_"]]  # the domain has such names
    np.testing.assert_allclose(ends, model.predict_interval(frame), rtol=1e-12)
    check(model, frame, run)


@pytest.mark.parametrize("model", models_with_sets().values(), ids=[*models_with_sets()])
def test_sets(model, run):
    frame = pd.DataFrame({"in set b": [*np.linspace(0, 1, 40), np.nan]})
    found = run(sql_text(model), frame)
    sets = found[[name for name in found.columns[1:] if name.startswith("in set")]]
    np.testing.assert_array_equal(sets.to_numpy(), model.predict_set(frame))
    check(model, frame, run)


@pytest.mark.parametrize("name", STORED)
def test_every_kind_of_model(name, run):
    model = stored_model(name)
    check(model, rows_of(model), run)


@pytest.mark.parametrize("classes", [["a'", "b"], [0, 1], [0.5, 1.5, 3], [False, True]])
@pytest.mark.parametrize("flat", [False, True])
def test_odd_names_and_classes(classes, flat, run):
    check(made_model(ODD_NAMES, {"name": "y", "classes": classes}, flat), ODD_ROWS, run)


def test_other_types_of_columns():
    """Whole numbers, decimals, truths and enums find what their texts or numbers do."""
    duckdb = pytest.importorskip("duckdb")
    features = {
        "n": {"kind": "numeric", "bounds": [0, 10], "edges": [0.5, 2.5]},
        "t": {"kind": "categorical", "categories": ["True", "False"]},
        "b": {"kind": "categorical", "categories": [False, True]},
        "w": {"kind": "categorical", "categories": ["1", "2"]},
    }
    model = made_model(features, {"name": "y", "classes": [0, 1]})
    types = {"n": ["UINTEGER", "DECIMAL(9, 2)", "HUGEINT"], "t": ["BOOLEAN"]}
    types |= {"b": ["BOOLEAN", "TINYINT"], "w": ["INTEGER", "DOUBLE", "ENUM('1', '2', '3')"]}
    frame = pd.DataFrame({"n": [1, 3, 0], "t": [True, False, None], "b": [1, 0, None]})
    frame = frame.assign(w=["1", "2", "3"]).astype(object)
    frame["b"] = frame["b"].map({1: True, 0: False})
    known = model.decision_function(frame)
    for name, kinds in types.items():
        for kind in kinds:
            casts = ", ".join(
                f"CAST({n} AS {kind if n == name else types[n][0]}) AS {n}" for n in types
            )
            values = "(1, true, true, '1'), (3, false, false, '2'), (0, NULL, NULL, '3')"
            rows = f"SELECT {casts} FROM (VALUES {values}) AS t(n, t, b, w)"
            query = f"WITH rows AS ({rows}) {sql_text(model).split(chr(10), 1)[1]}"
            with duckdb.connect() as connection:
                found = connection.sql(query).df()
            np.testing.assert_array_equal(
                found["privboost score of 1"], known, err_msg=f"{name} {kind}"
            )


def test_a_table_may_have_columns_of_the_same_names(run):
    """What stands in a table already is never taken for what the query computes."""
    model = stored_model("privboost_additive_2")
    frame = rows_of(model)
    busy = frame.assign(score=9.0, prediction="x", **{"probability of low": 7.0})
    found = run(sql_text(model), busy)
    known = model.decision_function(frame)
    np.testing.assert_array_equal(found["privboost score of low"], known)
    assert sum(name.startswith("prediction") for name in found) == 2


NAMED_LIKE_CODES = {
    name: {"kind": "numeric", "bounds": [0, 4], "edges": [1, 2, 3]} for name in ("c1", "c0", "p0")
}


def test_columns_may_have_the_names_of_codes(run):
    model = made_model(NAMED_LIKE_CODES, {"name": "y", "classes": [0, 1]})
    cells, values = np.arange(5, dtype=np.uint16), np.arange(25, dtype=np.int32).reshape(5, 5)
    pairs = tuple(
        PairValues(0, own, (cells, cells), values**2, values * 1.0, values * 1.0)
        for own in ((0, 1), (1, 2))
    )
    none = TreeScores.of(np.zeros(1, np.int32), [5, 5, 5])
    model = replace(model, scores=InteractionScores.of(model.scores, pairs, none))
    drawn = np.random.default_rng(0).uniform(0, 4, (60, 3))
    check(model, pd.DataFrame(drawn, columns=list(NAMED_LIKE_CODES)).assign(coded=7.0, c2=8.0), run)


def test_a_table_has_any_name():
    assert '(SELECT * FROM "my ""table""")' in sql_text(stored_model("sbdt_2"), 'my "table"')


def test_the_first_line_is_a_remark():
    first = sql_text(stored_model("sbdt_2")).splitlines()[0]
    assert first.startswith("-- A model of income, written by privboost. ")
