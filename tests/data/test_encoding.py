import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privboost import Domain, SchemaError
from privboost._core.grid import FULL_RANGE, LABEL_STEPS, SCORE_STEPS, WEIGHT_STEPS
from privboost.data.encoding import Encoder, code_weights
from privboost.data.rows import initial_states, join
from privboost.data.sources import open_vector
from privboost.data.table import objects, slice_vector
from privboost.data.values import (
    MISSING,
    OTHER,
    _Places,
    code_labels,
    column_kind,
    read_numbers,
    read_texts,
)
from privboost.losses.base import UNKNOWN_LABEL
from tests.tables import FEATURES, NUMBER, encode_training, make_domain, make_frame


def codes(encoder, table):
    features = range(len(encoder.domain.features))
    parts = encoder.feature_codes(table)
    return np.concatenate([np.stack([p.column(k) for k in features]) for p in parts], axis=1)


def one_feature(form):
    return Encoder.of(
        Domain.from_dict(
            {"version": 1, "features": {"x": form}, "target": {"name": "y", "classes": [0, 1]}}
        )
    )


def test_words_that_are_numbers_are_found_by_value():
    column = ["1", "1.0", " 1e0", 1, 1.0, Decimal("1.00"), "2", "2.50", 2.5, "one", "inf", None]
    found = code_labels(np.array(column, dtype=object), ["1", "2.5", "2", "02"], "x")
    assert found.tolist() == [0, 0, 0, 0, 0, 0, 2, 1, 1, OTHER, OTHER, MISSING]
    assert code_labels(
        pa.array(["1", "1.0", "2.0", "02"]), ["1.0", "1", "2", "02"], "x"
    ).tolist() == [1, 0, 2, 3]


def test_edges_follow_the_scale():
    features = make_domain().features
    linear, log = features[0].fine_edges(), features[1].fine_edges()
    assert len(linear) == len(log) == 191
    assert np.allclose(np.diff(linear), 73 / 192)
    assert np.allclose(np.diff(np.log1p(log)), math.log1p(1e5) / 192)
    assert features[2].fine_edges().tolist() == [0.5, 1.5, 2.5, 3.5]


@pytest.mark.parametrize("bounds", [[1e-6, 1e-2], [-5, -1], [-100, 1000], [0, 1], [-3, 0]])
def test_log_edges_increase_inside_the_bounds(bounds):
    encoder = one_feature({"kind": "numeric", "bounds": bounds, "scale": "log"})
    edges = encoder.edges[0]
    assert (np.diff(edges) > 0).all()
    assert bounds[0] < edges[0]
    assert edges[-1] < bounds[1]
    assert len(edges) == 191


def test_a_threshold_is_an_edge():
    encoder = one_feature({"kind": "numeric", "bounds": [0, 4], "edges": [1, 2, 3]})
    x = np.array(
        [[-math.inf], [0.0], [1.0], [np.nextafter(1, 2)], [3.0], [9], [math.inf], [np.nan]]
    )
    assert codes(encoder, x)[0].tolist() == [0, 0, 0, 1, 2, 3, 3, 4]
    assert list(encoder.spans(0, np.array([5, 6, 6, 7, 0]))) == [
        ("x ≤ 1", 5),
        ("1 < x ≤ 3", 6),
        ("3 < x", 7),
        ("missing", 0),
    ]
    assert list(encoder.spans(0, np.zeros(5, dtype=int))) == [("any", 0), ("missing", 0)]


def test_categories_other_and_missing():
    found = code_labels(pa.array(["b", "a", "zz", None, ""]), ["a", "b"], "x")
    assert found.tolist() == [1, 0, OTHER, MISSING, OTHER]


@pytest.mark.parametrize(
    "column",
    [
        np.array([1, 0, 7]),
        np.array([1.0, 0.0, 7.0]),
        np.array(["1", "0", "7"], dtype=object),
        np.array([1, 0.0, "7"], dtype=object),
        pa.array(["1", "0", "7"]),
        pa.array(["1", "0", "7"]).dictionary_encode(),
        pa.array([1, 0, 7], pa.uint8()),
        pa.chunked_array([[1], [0, 7]]),
    ],
)
@pytest.mark.parametrize("labels", [["0", "1"], [0, 1], [0.0, 1.0], [False, True]])
def test_numbers_and_texts_meet(column, labels):
    assert code_labels(column, labels, "x").tolist() == [1, 0, OTHER]


def test_booleans():
    for column in (np.array([True, False]), pa.array(["true", "False"])):
        assert code_labels(column, [False, True], "x").tolist() == [1, 0]


def test_every_kind_of_table_gives_the_same_codes(tmp_path):
    encoder = Encoder.of(make_domain())
    frame = make_frame(500)
    names = list(FEATURES)
    expected = codes(encoder, frame)
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    polars = pl.from_arrow(arrow)
    arrow_path, csv_path = tmp_path / "t.parquet", tmp_path / "t.csv"
    pa.parquet.write_table(arrow, arrow_path, row_group_size=77)
    frame.to_csv(csv_path, index=False)
    as_category = frame.assign(job=frame["job"].astype("category"))
    for table in (
        arrow,
        polars,
        polars.with_columns(pl.col("job").cast(pl.Categorical)),
        as_category,
        frame.assign(job=frame["job"].astype(object)),
        frame[names].to_numpy(dtype=object),
        frame[names].to_numpy(dtype=object).tolist(),
        frame[names[::-1]],
        frame.convert_dtypes(),
        str(arrow_path),
        csv_path,
    ):
        np.testing.assert_array_equal(codes(encoder, table), expected)


def test_wide_columns_take_two_bytes():
    encoder = Encoder.of(make_domain())
    _, block = encoder.feature_codes(make_frame(10))
    assert block.column(5).dtype == np.uint16
    assert block.column(0).dtype == np.uint8
    assert block.wide.shape == (1, 10)


class Awkward:
    def __float__(self):
        raise RuntimeError("secret")

    def __str__(self):
        raise RuntimeError("secret")

    def __eq__(self, other):
        raise RuntimeError("secret")

    __hash__ = None


cells = st.one_of(
    st.none(),
    st.floats(),
    st.integers(),
    st.booleans(),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.sampled_from(["1_000", " 5 ", "1e400", "-nan", "0x10", "١٢", "5", "nan", "inf", "a", "b"]),
    st.lists(st.integers(), max_size=2),
    st.just(pd.NA),
    st.just(pd.NaT),
    st.builds(Awkward),
    st.builds(lambda: np.arange(3)),
)


@given(st.lists(cells, min_size=1, max_size=8))
@settings(max_examples=300)
def test_no_cell_can_raise_or_change_another(values):
    """Each cell's code is the same alone and in company."""
    column = np.fromiter(values, dtype=object, count=len(values))
    alone = [column[k : k + 1] for k in range(len(column))]
    for read in (
        lambda c: code_labels(c, ["a", "b", "5"], "x"),
        lambda c: code_labels(c, [5, 7], "x"),
        lambda c: read_numbers(c, "x"),
        lambda c: make_domain().target.code(c)[0],
    ):
        together = read(column)
        apart = np.concatenate([read(cell) for cell in alone])
        np.testing.assert_array_equal(together, apart)


@given(st.lists(st.one_of(st.none(), st.text(max_size=6), st.floats().map(str)), min_size=1))
@settings(max_examples=300)
def test_text_is_read_cell_by_cell(texts):
    """Arrow's reader and the careful one agree on each cell, whatever stands beside it."""
    clean = [t if t is None else t.encode(errors="ignore").decode() for t in texts]
    together = read_numbers(pa.array(clean, pa.string()), "x")
    apart = [read_numbers(pa.array([text], pa.string()), "x")[0] for text in clean]
    np.testing.assert_array_equal(together, apart)


def test_bytes_that_are_no_text_in_a_csv(tmp_path):
    path = tmp_path / "bad.csv"
    path.write_bytes(b"x,y\n1,0\n\xff\xfe,1\n3,\xff\nonly one cell\n7,1\n")
    encoder = one_feature({"kind": "numeric", "bounds": [0, 10], "edges": [2, 5]})
    rows = encode_training(encoder, path)
    block = join(rows.blocks)
    assert block.column(0).tolist() == [0, 3, 1, 2]
    assert block.label.tolist() == [0, 1, UNKNOWN_LABEL, 1]


def test_a_csv_with_a_header_only(tmp_path):
    path = tmp_path / "empty.csv"
    path.write_text("x,y\n")
    encoder = one_feature({"kind": "numeric", "bounds": [0, 10]})
    assert sum(len(block) for block in encode_training(encoder, path).blocks) == 0


def test_labels_of_a_regression_are_scaled_and_clipped():
    target = make_domain(NUMBER).target
    label, start = target.code(np.array([0, 5, 10, 99, -np.inf, np.nan]))
    assert label.tolist() == [0, 0, 0, 0, 0, UNKNOWN_LABEL]
    assert start.tolist() == [LABEL_STEPS, 0, -LABEL_STEPS, -LABEL_STEPS, LABEL_STEPS, 0]


@pytest.mark.parametrize("span", [FULL_RANGE, (-(2**29), 2**29), (-7, 5), (3, 2**28 + 1)])
def test_states_of_numbers_go_from_one_end_of_their_span_to_the_other(span):
    """They are what exact fractions give, rounded toward the middle, for ends and all between."""
    low, high = span
    label = np.concatenate([np.linspace(-LABEL_STEPS, LABEL_STEPS, 999).astype(int), [low, high]])
    middle, half = (low + high) // 2, (high - low) // 2
    states = initial_states(-label.astype(np.int32), span)
    for one, state in zip(label, states, strict=True):
        exact = Fraction(min(max(int(one), low), high) - middle, half) * SCORE_STEPS
        assert -int(exact) == state
    assert (states[-2], states[-1]) == (SCORE_STEPS, -SCORE_STEPS)


def test_weights_are_clipped():
    wild = np.array([0, 1, 2, 5, np.inf, -1, np.nan, -np.inf, 1e308, -1e308])
    for bound in (2.0, 1e-5):
        weight = code_weights(wild * (bound / 2), bound)
        full = WEIGHT_STEPS
        assert weight.tolist() == [0, full // 2, full, full, full, 0, 0, 0, full, 0]


def test_whole_numbers_beyond_all_floats_are_clipped():
    huge = np.array([10**400, -(10**400)], dtype=object)
    assert read_numbers(huge, "x").tolist() == [np.inf, -np.inf]


def test_only_the_schema_can_raise():
    encoder = Encoder.of(make_domain())
    frame = make_frame(5)
    with pytest.raises(SchemaError, match="no column 'age'"):
        codes(encoder, frame.drop(columns="age"))
    with pytest.raises(SchemaError, match="column 'age' holds"):
        codes(encoder, frame.assign(age=pd.Timestamp("2020-01-01")))
    with pytest.raises(SchemaError, match="column 'job' holds"):
        codes(encoder, pl.DataFrame(frame[list(FEATURES)]).with_columns(job=pl.lit([1, 2])))
    with pytest.raises(SchemaError, match="X has 3 features"):
        codes(encoder, np.zeros((4, 3)))
    with pytest.raises(SchemaError, match=r"X and y have different numbers of rows$"):
        encode_training(encoder, frame, [0, 1])


def test_units_are_numbered_and_missing_ones_marked():
    encoder = Encoder.of(make_domain(unit={"column": "person", "max_rows": 2}))
    for person in (["u", "v", None, "u"], [7.0, 8.0, np.nan, 7.0], [7, "v", None, 7]):
        frame = make_frame(4).assign(person=np.array(person, dtype=object))
        unit = encode_training(encoder, frame).unit
        assert unit[0] == unit[3] != unit[1]
        assert unit[2] == -1


TRUTHS = [np.array([True, False]), pa.array([True, False]), np.array([True, False], dtype=object)]


@pytest.mark.parametrize(
    "labels", [["False", "True"], ["false", "true"], [0, 1], ["FALSE", "TRUE"]]
)
@pytest.mark.parametrize("column", TRUTHS)
def test_truth_values_match_the_words_for_them(labels, column):
    assert code_labels(column, labels, "x").tolist() == [1, 0]


@pytest.mark.parametrize(
    "column",
    [
        np.array([1, 0]),
        np.array([1.0, np.nan]),
        np.array([True, False]),
        pa.array([1, 0]),
        pa.array([1.0]).dictionary_encode(),
        pa.array([Decimal(1)], pa.decimal32(5, 1)),
        pd.Series([1.0, None]),
    ],
)
def test_numbers_for_classes_that_are_words_are_refused(column):
    column = slice_vector(open_vector(column, "y"), 0, len(column))
    with pytest.raises(SchemaError, match=r"column 'income' holds .* labels are strings"):
        make_domain().target.code(column)
    with pytest.raises(SchemaError, match="labels are strings"):
        make_domain().target.code(column[:0])


def test_numbers_for_words_of_truth_are_refused():
    with pytest.raises(SchemaError, match="labels are strings"):
        code_labels(np.array([1, 0]), ["True", "False"], "x")
    with pytest.raises(SchemaError, match="labels are strings"):
        code_labels(np.array([True]), ["yes", "no"], "x")
    with pytest.raises(SchemaError, match="labels are strings"):
        code_labels(np.array([True]), ["0", "1"], "x")


def test_a_feature_may_be_empty_and_so_of_floats():
    assert code_labels(np.array([np.nan]), ["yes", "no"], "x").tolist() == [MISSING]


@pytest.mark.parametrize("width", [pa.decimal32, pa.decimal64, pa.decimal128, pa.decimal256])
def test_decimals_are_numbers(width):
    column = pa.array([Decimal("1.5"), Decimal(7), None], width(5, 1))
    assert read_numbers(column, "x").tolist()[:2] == [1.5, 7]
    assert column_kind(column, "x") == "number"
    assert code_labels(column, [7, 1.5], "x").tolist() == [1, 0, MISSING]
    assert read_texts(column, "x").to_pylist() == [b"1.5", b"7", None]


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("s"), pa.time64("us")])
def test_dates_are_refused_by_their_type_however_they_are_coded(kind):
    """The far one cannot even be shown."""
    column = pa.array([2**31 - 1], pa.int32()).cast(pa.int64())
    far = pa.array([2**31 - 1], pa.int32()) if kind.bit_width == 32 else column
    far = far.cast(kind).dictionary_encode()
    for read in (column_kind, read_numbers, lambda c, n: code_labels(c, ["a"], n)):
        for cells in (far, far[:0], far.dictionary):
            with pytest.raises(SchemaError, match="column 'x' holds"):
                read(cells, "x")


@pytest.mark.parametrize("labels", [("1", "0", "a", "nan", str(2**60)), (1, 0, 2.5, 2**60)])
def test_objects_that_are_looked_for_once_are_found_where_each_is(labels):
    plain = [1, 1.0, "1", "1.0", None, math.nan, float("nan"), "a", -0.0, 0, 2.5, 2**60, 2.0**60]
    for values in (plain * 3, [*plain, True, False, "b", b"1"] * 3):
        found = code_labels(objects(values), labels, "c")
        assert found.tolist() == [_Places(labels, True).find(value) for value in values]
