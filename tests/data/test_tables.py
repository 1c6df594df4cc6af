"""Tables of every kind: only a schema can raise, and no error quotes a file."""

import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
import pytest
from sklearn.base import clone

from privboost import (
    Domain,
    FitWarning,
    PrivacyWarning,
    PrivBoostClassifier,
    PrivBoostRegressor,
    SBDTClassifier,
    SchemaError,
)
from privboost.data.encoding import Encoder
from privboost.data.files import CsvTable, open_file
from privboost.data.rows import join
from privboost.losses.base import UNKNOWN_LABEL
from tests.tables import encode_training

FORM = {
    "version": 1,
    "features": {
        "x": {"kind": "numeric", "bounds": [0, 4], "edges": [1, 2, 3], "missing": True},
        "c": {"kind": "categorical", "categories": ["a", "b"], "missing": True},
    },
    "target": {"name": "y", "classes": ["no", "yes"]},
}
ENCODER = Encoder.of(Domain.from_dict(FORM))
LOST_X, LOST_C = 4, 3


def model(**how):
    return PrivBoostClassifier(1.0, 1e-6, FORM, n_estimators=4, **how)


def codes(X, y=None, weights=None):
    block = join(encode_training(ENCODER, X, y, weights, 1.0).blocks)
    return block.column(0).tolist(), block.column(1).tolist(), block.label.tolist()


class Broken(str):
    """A text that cannot be asked anything."""

    __slots__ = ()

    def _fail(self, *_):
        raise RuntimeError("secret")

    __str__ = __eq__ = __hash__ = __repr__ = __len__ = __iter__ = __getitem__ = _fail


class BrokenBytes(bytes):
    def _fail(self, *_):
        raise RuntimeError("secret")

    __str__ = __eq__ = __hash__ = __repr__ = __bytes__ = __iter__ = _fail


class Untouchable:
    """An object that fails whoever looks at it."""

    def __getattribute__(self, name):
        raise RuntimeError("secret")

    __hash__ = None


class BrokenRow(list):
    def _fail(self, *_):
        raise RuntimeError("secret")

    __iter__ = __len__ = __getitem__ = _fail


ROWS = {
    "none": None,
    "empty": [],
    "short": [0.5],
    "long": [0.5, "a", "zz", 7],
    "number": 5,
    "text": "ab",
    "bytes": b"ab",
    "dict": {"c": "a", "x": 0.5},
    "other dict": {7: 8},
    "nested": [[1, 2], {"a": 1}],
    "hostile": BrokenRow([1, 2]),
    "array": np.array([0.5, 1.5]),
    "scalar array": np.array(7),
    "set": {1, 2},
    "huge": [10**400, 10**400],
    "hostile cells": [Broken("1"), BrokenBytes(b"a")],
    "untouchable": Untouchable(),
    "untouchable cells": [Untouchable(), Untouchable()],
    "numpy": (np.float32(0.5), np.str_("a")),
    "type": int,
}


FLOATS = {
    np.float16: (np.uint16, [0x7D01, 0x7E00, 0x7C00, 0xFC00, 0x0001, 0x8000, 0x7BFF]),
    np.float32: (np.uint32, [0x7FA00000, 0x7FC00000, 0x7F800000, 0xFF800000, 1, 1 << 31]),
    np.float64: (np.uint64, [0x7FF4 << 48, 0x7FF8 << 48, 0x7FF << 52, 0xFFF << 52, 1, 1 << 63]),
}
"""Patterns of bits: a signalling and a quiet NaN, infinities, the smallest number, minus 0."""


@pytest.mark.parametrize("masked", [False, True], ids=["plain", "masked"])
@pytest.mark.parametrize("kind", FLOATS, ids=lambda kind: kind.__name__)
def test_no_pattern_of_bits_warns(kind, masked):
    bits, patterns = FLOATS[kind]
    column = np.array(patterns, dtype=bits).view(kind)
    features = {"x": {"kind": "numeric", "bounds": [0, 1]}}
    form = {"version": 1, "features": features, "target": {"name": "y", "bounds": [0, 1]}}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for unit in ({}, {"unit": {"column": "u", "max_rows": 1}}):
            table = {"x": column, "y": column, "u": column, "w": column}
            encode_training(
                Encoder.of(Domain.from_dict(form | unit)), pa.table(table), None, "w", 1.0
            )
        array = np.ma.masked_array(column[:, None], False) if masked else column[:, None]
        warnings.simplefilter("ignore", FitWarning)  # of so few rows
        PrivBoostRegressor(domain=form, n_estimators=2).fit(array, column)


@pytest.mark.parametrize("name", ROWS)
def test_a_row_of_a_list_cannot_raise_or_change_another(name):
    row = ROWS[name]
    plain = [[0.5, "a"], [2.5, "b"]]
    x, c, _ = codes([plain[0], row, plain[1]], ["no", "yes", "no"])
    assert (x[0], x[2], c[0], c[2]) == (0, 2, 0, 1)
    assert len(x) == 3
    model().fit([row], ["no"]).predict([plain[0]])


CELLS = {"text": Broken("1"), "bytes": BrokenBytes(b"a"), "none": Untouchable(), "huge": 10**5000}


@pytest.mark.parametrize("name", CELLS)
def test_a_hostile_cell_of_a_frame_cannot_raise(name):
    column = np.fromiter([CELLS[name], "a"] * 30, dtype=object, count=60)
    frame = pd.DataFrame({n: pd.Series(column, dtype=object) for n in ("x", "c", "y", "u", "w")})
    form = FORM | {"unit": {"column": "u", "max_rows": 2}}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", FitWarning)  # of so few rows
        learner = SBDTClassifier(1.0, 1e-6, form, n_estimators=2, sample_weight_bound=1.0)
        learner.partial_fit(frame, sample_weight="w").partial_fit(frame, sample_weight="w")
        learner.predict(frame)
        warnings.simplefilter("ignore", PrivacyWarning)
        given = {"unit": form["unit"], "target": {"classes": ["a", "b"]}}
        Domain.learn(frame, "y", 1.0, 1e-6, given=given | {"features": {"x": {"kind": "numeric"}}})


def test_rows_of_a_list_are_cut_and_filled_up():
    rows = [None, [0.5], [0.5, "a", 1], {"c": "b"}, "ab", []]
    assert codes(rows, ["no"] * 6)[:2] == (
        [LOST_X, 0, 0, LOST_X, LOST_X, LOST_X],
        [LOST_C, LOST_C, 0, 1, LOST_C, LOST_C],
    )


@pytest.mark.parametrize("labels", [[], np.array([]), np.array([], dtype=object), pd.Series([])])
def test_an_empty_table_gives_a_valid_model(labels, tmp_path):
    arrow = pa.table({"x": pa.chunked_array([], pa.float64()), "c": pa.chunked_array([], "string")})
    if getattr(labels, "dtype", None) == np.float64:
        labels = labels.astype(object)  # floats for words are a wrong schema
    for X in ([], (), np.empty((0, 2)), np.empty((0, 2), dtype=object), arrow, arrow.to_pandas()):
        fitted = model().fit(X, labels)
        assert fitted.predict(X).shape == (0,)


@pytest.mark.parametrize(
    "text", ["x,c,y", "x,c,y\n", "x,c,y\r\n", "x,c,y\r", "\ufeffx,c,y", "x,c,y\n\n"]
)
def test_a_text_file_of_a_header_only(text, tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode())
    assert model().fit(path).predict(path).shape == (0,)
    assert open_file(path).count_rows() == 0


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last", [True, False])
def test_lines_may_end_in_any_way(end, last, tmp_path):
    path = tmp_path / "t.csv"
    lines = ["x,c,y", "0.5,a,no", "2.5,b,yes", '1.5,"a",no']
    path.write_bytes((end.join(lines) + end * last).encode())
    assert codes(path) == ([0, 2, 1], [0, 1, 0], [0, 1, 0])
    assert model().fit(path).predict(path).shape == (3,)


SECRETS = ["5,anna,no\n7,bob,yes\n", "5,anna,no\r7,bob,yes\r", '"anna\n7,bob,yes\n', "anna", "\n"]


@pytest.mark.parametrize("text", SECRETS, ids=repr)
def test_a_file_without_a_header_is_not_quoted(text, tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode())
    good = tmp_path / "good.csv"
    good.write_text("x,c,y\n0.5,a,no\n")
    fitted = model().fit(good)
    for use in (lambda: model().fit(path), lambda: fitted.predict(path)):
        with pytest.raises(SchemaError, match="header") as caught:
            use()
        error = caught.value
        assert error.__context__ is None
        assert "anna" not in str(error)
        assert "bob" not in str(error)


def test_a_wrong_number_of_cells_is_not_quoted(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"x,c\r0.5,a\ranna,7,8\r")
    with pytest.raises(SchemaError, match="wrong number of cells") as caught:
        model().fit([[0.5, "a"]], ["no"]).predict(path)
    assert "anna" not in str(caught.value)


def test_a_separator_may_be_given(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x;c;y\n0.5;a;no\n2.5;b;yes\n")
    assert codes(open_file(path, separator=";")) == ([0, 2], [0, 1], [0, 1])
    tabs = tmp_path / "t.tsv"
    tabs.write_text("x\tc\ty\n0.5\ta\tno\n")
    assert codes(open_file(tabs)) == ([0], [0], [0])
    for bad in ("", ";;", '"', "\n", "é"):
        with pytest.raises(ValueError, match="separator must be one ASCII character"):
            CsvTable(path, separator=bad)


def test_files_of_a_folder_are_one_table(tmp_path):
    with pytest.raises(SchemaError, match="a folder without files"):
        model().fit(tmp_path)
    rows = pa.table({"x": [0.5, 1.5, 2.5], "c": ["a", "b", "a"], "y": ["no", "yes", "no"]})
    for write, kind in ((pa.parquet.write_table, "parquet"), (pa.csv.write_csv, "csv")):
        folder = tmp_path / kind
        folder.mkdir()
        paths = [folder / f"{k}.{kind}" for k in range(3)]
        for k, path in enumerate(paths):
            write(rows[k : k + 1], path)
        (folder / "_SUCCESS").touch()
        whole = codes(rows)
        for table in (folder, paths, list(map(str, paths)), str(folder)):
            assert codes(table) == whole
        ids = [i for b in encode_training(ENCODER, folder).blocks for i in b.ids]
        assert ids == [0, 1, 2]
    other = pa.table({"x": ["0.5"], "c": ["a"], "y": ["no"]})
    pa.parquet.write_table(other, tmp_path / "parquet" / "3.parquet")
    with pytest.raises(SchemaError, match="column 'x' has different types"):
        model().fit(tmp_path / "parquet")


def test_cells_under_a_mask_are_missing():
    X = np.ma.masked_array([[0.5, 0.0], [2.5, 0.0]], mask=[[True, True], [False, True]])
    assert codes(X, ["no", "no"])[:2] == ([LOST_X, 2], [LOST_C, LOST_C])
    cells = np.ma.masked_array(np.array([[1, "a"], [1, "b"]], dtype=object), [[0, 1], [0, 0]])
    assert codes(cells, ["no", "no"])[:2] == ([0, 0], [LOST_C, 1])
    labels = np.ma.masked_array(np.array(["no", "yes"]), mask=[False, True])
    assert codes([[1, "a"]] * 2, labels)[2] == [0, UNKNOWN_LABEL]
    texts = np.array([["1", "a\0b"]])
    assert codes(texts, ["no"])[:2] == ([0], [2])


TYPES = {
    "date": pa.array([2**30], pa.date32()),
    "coded date": pa.array([2**30], pa.date32()).dictionary_encode(),
    "far time": pa.array([2**62], pa.timestamp("s")),
    "zone": pa.array([2**62], pa.timestamp("s", "Asia/Tokyo")),
    "list": pa.array([[1]]),
    "struct": pa.array([{"a": 1}]),
    "span": pa.array([1], pa.duration("s")),
    "uuid": pa.array([b"0" * 16], pa.uuid()),
    "fixed": pa.array([b"ab"], pa.binary(2)),
    "runs": pc.run_end_encode(pa.array([1])),
}


@pytest.mark.parametrize("column", TYPES.values(), ids=TYPES)
@pytest.mark.parametrize("place", ["x", "c", "y", "w"])
def test_a_wrong_type_is_refused_with_or_without_rows_before_anything_is_spent(
    column, place, tmp_path
):
    table = {"x": pa.array([0.5]), "c": pa.array(["a"]), "y": pa.array(["no"]), "w": pa.array([1])}
    table = pa.table(table | {place: column})
    ledger = tmp_path / "ledger"
    learner = model(sample_weight_bound=1.0, ledger=ledger)
    name = {"w": "sample_weight"}.get(place, place)
    for rows in (table, table[:0]):
        with pytest.raises(SchemaError, match=f"column '{name}' holds"):
            learner.fit(rows, sample_weight="w")
        if place in "xc" and not pa.types.is_duration(column.type):  # a duration can be learned
            with pytest.raises(SchemaError, match=f"column '{name}' holds"):
                Domain.learn(rows, "y", 1.0, 1e-6, task="classes")
    assert not ledger.exists()


LISTS = {
    "pandas": pd.DataFrame({"c": pd.Series([["a"]], dtype=pd.ArrowDtype(pa.list_(pa.string())))}),
    "polars": pl.DataFrame({"c": [["a"]]}),
    "struct": pl.DataFrame({"c": [{"a": 1}]}),
    "lazy": pl.LazyFrame({"c": [["a"]]}),
}


@pytest.mark.parametrize("frame", LISTS.values(), ids=LISTS)
def test_lists_in_cells_are_refused_where_the_type_tells(frame):
    domain = Domain.from_dict(FORM | {"features": {"c": FORM["features"]["c"]}})
    with pytest.raises(SchemaError, match="column 'c' holds"):
        next(Encoder.of(domain).feature_codes(frame))
    rows = pd.DataFrame({"c": [["a"], "a"]}, dtype=object)  # which has no type
    blocks = Encoder.of(domain).feature_codes(rows)
    assert [code for block in blocks for code in block.column(0)] == [LOST_C - 1, 0]


WORDS = {
    "array": np.array(["1"]),
    "pandas": pd.Series(["1"], dtype="string"),
    "coded": pa.array(["1"]).dictionary_encode(),
    "polars": pl.Series(["1"]),
    "arrow": pa.array(["1"]),
    "column": "c",
}


@pytest.mark.parametrize("weights", WORDS.values(), ids=WORDS)
def test_weights_that_are_words_are_refused_by_their_type(weights, tmp_path):
    frame, ledger = pl.DataFrame({"x": [0.5], "c": ["1"], "y": ["no"]}), tmp_path / "ledger"
    learner = model(sample_weight_bound=1.0, ledger=ledger)
    unknown = clone(learner).set_params(domain=None)
    for fit in (learner.fit, unknown.fit):
        with pytest.raises(SchemaError, match="column 'sample_weight' holds text"):
            fit(frame, "y", sample_weight=weights)
    assert not ledger.exists()


def test_weights_without_a_type_are_read_one_by_one(tmp_path):
    frame = pd.DataFrame({"x": [0.5], "c": ["a"], "y": ["no"]})
    learner = model(sample_weight_bound=1.0)
    learner.fit(frame, sample_weight=["a"])
    frame.assign(w="1").to_csv(tmp_path / "t.csv", index=False)
    learner.fit(tmp_path / "t.csv", sample_weight="w")


FRAMES = {
    "pandas": pd.DataFrame({"x": [0.5], "c": ["a"], "y": ["no"]}),
    "categories": pd.DataFrame({"x": [0.5], "c": ["a"], "y": ["no"]}).astype("category"),
    "sparse": pd.DataFrame({"x": pd.Series([0.5], dtype="Sparse[float]"), "c": ["a"], "y": ["no"]}),
    "nullable": pd.DataFrame({"x": [0.5], "c": ["a"], "y": ["no"]}).convert_dtypes(),
    "polars": pl.DataFrame({"x": [Decimal("0.5")], "c": ["a"], "y": ["no"]}),
    "polars objects": pl.DataFrame(
        {"x": [0.5], "c": pl.Series(["a"], dtype=pl.Object), "y": ["no"]}
    ),
    "views": pa.table(
        {"x": pa.array(["0.5"], pa.string_view()), "c": pa.array([b"a"]), "y": ["no"]}
    ),
}  # fmt: skip


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_one_table_in_many_types_has_the_same_codes(frame):
    assert codes(frame) == ([0], [0], [0])


def test_nothing_but_nulls_is_nothing_but_missing():
    nulls = pa.table({name: pa.nulls(2) for name in "xcy"})
    assert codes(nulls) == ([LOST_X] * 2, [LOST_C] * 2, [UNKNOWN_LABEL] * 2)


def test_a_column_of_labels_is_warned_about_once():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(0, 4, (3000, 2)), np.where(rng.random((3000, 1)) < 0.5, "no", "yes")
    for domain in (None, FORM):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            PrivBoostClassifier(5.0, 1e-6, domain, n_estimators=2).fit(X, y)
        assert [str(w.message)[:24] for w in caught if "column-vector" in str(w.message)] == [
            "A column-vector y was pa"
        ]


def test_the_target_cannot_be_another_column():
    frame = FRAMES["pandas"].assign(z="yes")
    with pytest.raises(SchemaError, match="y is the column 'z', but the domain's target is 'y'"):
        model().fit(frame, "z")
    model().fit(frame, "y")


PEOPLE = {
    "number": [pa.array([1, 2]), pa.array([1.0, None]), pa.array([Decimal(1), Decimal(2)])],
    "text": [pa.array(["1", "2"]), pa.array(["1", "2"]).dictionary_encode()],
    "time": [pa.array([1, 2], pa.date32()), pa.array([1, 2], pa.timestamp("s"))],
    "uuid": [pa.array([b"0" * 16, b"1" * 16], pa.uuid())],
    "bool": [pa.array([True, False])],
}


@pytest.mark.parametrize("kind", PEOPLE)
def test_a_stream_keeps_to_one_kind_of_unit_column(kind, tmp_path):
    form = FORM | {"unit": {"column": "u", "max_rows": 1}}
    rows = pa.table({"x": [0.5, 1.5], "c": ["a", "b"], "y": ["no", "yes"]})
    ledger = tmp_path / "ledger"

    def start():
        return SBDTClassifier(1.0, 1e-6, form, n_estimators=2, max_depth=2, ledger=ledger)

    stream = start().partial_fit(rows.append_column("u", PEOPLE[kind][0]))
    stream.save_stream(tmp_path / "state")
    spent = ledger.read_bytes()
    for other, columns in PEOPLE.items():
        for column in columns if other != kind else ():
            again = start().load_stream(tmp_path / "state")
            for batch in (rows.append_column("u", column), rows.append_column("u", column)[:0]):
                with pytest.raises(SchemaError, match=f"kind '{other}', but .* had '{kind}'"):
                    again.partial_fit(batch)
    assert ledger.read_bytes() == spent
    for column in PEOPLE[kind]:
        stream.partial_fit(rows.append_column("u", column))
    assert sum(map(len, stream._stream.cohorts[1].rows.blocks)) == 0  # the same people


def test_a_text_file_may_hold_units_of_any_kind(tmp_path):
    form = FORM | {"unit": {"column": "u", "max_rows": 1}}
    rows = pa.table({"x": [0.5, 1.5], "c": ["a", "b"], "y": ["no", "yes"]})
    path = tmp_path / "t.csv"
    path.write_text("x,c,y,u\n0.5,a,no,1.0\n1.5,b,yes,3\n")
    model = SBDTClassifier(1.0, 1e-6, form, n_estimators=2, max_depth=2)
    model.partial_fit(path).partial_fit(rows.append_column("u", pa.array([1, 2])))
    kept = [sum(map(len, cohort.rows.blocks)) for cohort in model._stream.cohorts]
    assert kept == [2, 1]
    assert model._stream.unit_kind == "number"


def test_a_report_says_what_floats_cannot_tell():
    form = FORM | {"unit": {"column": "u", "max_rows": 1}}
    frame = FRAMES["pandas"].assign(u=1)
    said = PrivBoostClassifier(1.0, 1e-6, form, n_estimators=2).fit(frame).privacy_.assumptions
    assert any("whole number in 'u'" in text and "2^53 and more" in text for text in said)
    said = model().fit(frame).privacy_.assumptions
    assert not any("2^53" in text for text in said)


LISTS = {
    "one row": ([0.5, "a"], "must hold rows"),
    "texts": (["ab", "ba"], "must hold rows"),
    "numbers": ([1, 2], "must hold rows"),
    "scalars": ([np.array(1)], "must hold rows"),
    "short": ([[0.5]], "has 1 cells, but domain is expecting 2"),
    "long": ([[0.5, "a"], [0.5, "a", 1]], "has 3 cells, but domain is expecting 2"),
    "keys": ([{"x": 1}], "has no key 'c'"),
}


@pytest.mark.parametrize("name", LISTS)
def test_predictions_need_a_list_of_rows(name):
    rows, words = LISTS[name]
    with pytest.raises(SchemaError, match=words):
        model().fit([[0.5, "a"]], ["no"]).predict(rows)


def test_a_list_of_rows_is_predicted():
    fitted = model().fit([[0.5, "a"]], ["no"])
    rows = [[0.5, "a"], (None, "b"), {"x": 1, "c": None, "y": "no"}, np.array([0.5, 1])]
    assert fitted.predict(rows).shape == (4,)
    assert fitted.predict([]).shape == (0,)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_an_empty_line_is_a_record_of_one_column_only(end, tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(end.join(["x", "0.5", "", "2.5", ""]).encode())
    cells = [cell for batch in CsvTable(path).batches(["x"], 9) for cell in batch["x"].to_pylist()]
    assert cells == ["0.5", None, "2.5"]
    assert CsvTable(path).count_rows() == 3
    path.write_bytes(end.join(["x,c,y", "0.5,a,no", "", "2.5,b,yes", "", ""]).encode())
    assert codes(path) == ([0, 2], [0, 1], [0, 1])


@pytest.mark.parametrize("scale", [-2, 0, 2])
def test_decimals_of_any_scale(scale):
    numbers = pa.array([Decimal(0), Decimal(200), None], pa.decimal128(7, scale))
    labels = pa.array(["no", "yes", "no"])
    table = pa.table({"x": numbers, "c": ["a"] * 3, "y": labels})
    assert codes(table) == ([0, 3, LOST_X], [0, 0, 0], [0, 1, 0])


@pytest.mark.parametrize("kind", [pa.string_view(), pa.binary_view(), pa.string()])
def test_categories_of_any_text_are_read_as_numbers(kind):
    words = pa.DictionaryArray.from_arrays(
        pa.array([1, 0, None]), pa.array(["?", "0.5"]).cast(kind)
    )
    table = pa.table({"x": words, "c": ["a"] * 3, "y": ["no"] * 3})
    assert codes(table)[0] == [0, LOST_X, LOST_X]


def test_a_date_says_what_to_do():
    frame = pd.DataFrame({"x": pd.to_datetime(["2020-01-01"] * 2), "y": ["no", "yes"]})
    with pytest.raises(SchemaError, match=r"'x' holds timestamp.*say what it is: .*date"):
        Domain.learn(frame, "y", 1.0, 1e-6)


def test_a_wrong_separator_is_guessed(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x;c;y\n0.5;a;no\n2.5;b;yes\n")
    for use in (lambda: model().fit(path), lambda: Domain.learn(path, "y", 1.0, 1e-6)):
        with pytest.raises(SchemaError, match="is the separator right"):
            use()


def test_a_text_file_warns_that_all_is_words(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("secret,y\n" + "1,no\n2,yes\n" * 200)
    with pytest.warns(PrivacyWarning) as said:
        Domain.learn(path, "y", 40.0, 1e-4)
    texts = [str(warning.message) for warning in said]
    assert [text for text in texts if "learned as strings" in text and '"numeric"' in text]
    assert not any("secret" in text for text in texts if "learned as strings" in text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        given = {"features": {"secret": {"kind": "categorical"}}}
        Domain.learn(path, "y", 40.0, 1e-4, given=given)
