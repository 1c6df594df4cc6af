"""One cell, row or record never changes how the others are read; nothing in a cell can raise.

Each case once broke this, or would break it if types were found by looking at all values at once.
"""

import datetime as dt
import enum
import itertools
import uuid
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

from privboost import Domain, PrivBoostClassifier, SchemaError
from privboost.data.encoding import Encoder
from privboost.data.rows import join
from privboost.data.sources import open_vector
from privboost.data.table import slice_vector
from privboost.data.unit_names import read_unit_names
from tests.tables import encode_training


def domain(labels=("no", "yes"), categories=("a", "b"), unit=False):
    form = {
        "version": 1,
        "features": {
            "x": {"kind": "numeric", "bounds": [0, 1]},
            "c": {"kind": "categorical", "categories": list(categories)},
        },
        "target": {"name": "y", "classes": list(labels)},
    }
    return Domain.from_dict(form | ({"unit": {"column": "u", "max_rows": 1}} if unit else {}))


def read(public, table, labels=None):
    """Return (x, c, y) codes row by row."""
    block = join(encode_training(Encoder.of(public), table, labels).blocks)
    return np.stack([block.column(0), block.column(1), block.label], axis=1).tolist()


class Answer(str, enum.Enum):  # noqa: UP042 (a StrEnum would write itself like its value)
    NO = "no"
    YES = "yes"


class Shy(str):
    __slots__ = ()

    def __str__(self):
        raise RuntimeError("secret")


class Hostile(int):
    def __float__(self):
        raise RuntimeError("secret")


FOREIGN = [
    Hostile(3),
    dt.date(2020, 1, 1),
    7,
    2.5,
    1j,
    None,
    pd.NA,
    np.ma.masked,
    [1, [2]],
    np.arange(3),
    b"\xff",
    "\ud800",
    Decimal("1e999"),
    Decimal("sNaN"),
    Fraction(10**400),
    10**5000,
    -(10**5000),
    np.longdouble("1e4000"),
    np.complex128(2 + 3j),
    Shy("yes"),
    object(),
]


@pytest.mark.parametrize("foreign", FOREIGN, ids=lambda f: type(f).__name__)
@pytest.mark.parametrize("make", ["pandas", "list", "array"])
def test_a_foreign_cell_changes_no_other_and_says_nothing(foreign, make):
    words = [Answer.YES, Answer.NO, "yes", Shy("no"), True, 1] * 5
    numbers = [0.25, "0.5", True, 1, Decimal("0.75"), np.float32(0.5)] * 5

    def table(extra):
        cells = [numbers + extra, words + extra]
        objects = [np.fromiter(c, dtype=object, count=len(c)) for c in cells]
        if make == "pandas":
            return pd.DataFrame({"x": objects[0], "c": objects[1], "u": "p"})
        array = np.stack(objects, axis=1)
        return array if make == "array" else [list(row) for row in array]

    public = domain(("no", "yes", "True", "1"), ("yes", "no", "True", "1"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        without = read(public, table([]), words)
        beside = read(public, table([foreign]), [*words, foreign])
    assert beside[:-1] == without
    assert len({tuple(row) for row in without}) == 6


@pytest.mark.parametrize("extra", [2, None, 1j, "x", [1]])
def test_lists_have_no_common_type(extra):
    public = domain(("False", "True"), ("True", "False"))
    rows, labels = [[1.0, True], [0.0, False]] * 4, [True, False] * 4
    without = read(public, rows, labels)
    assert {row[2] for row in without} == {0, 1}
    beside = read(public, [*rows, [extra, extra]], [*labels, extra])
    assert beside[:-1] == without


@pytest.mark.parametrize("extra", [Decimal("2.5"), "z", dt.date(2020, 1, 1), (1, 2)])
def test_a_category_changes_no_other(extra):
    public = domain(categories=("1", "2"))

    def table(cells):
        values = np.fromiter(cells, dtype=object, count=len(cells))
        return pd.DataFrame({"x": 0.5, "c": pd.Series(values).astype("category"), "y": "no"})

    without = read(public, table([1, 2, 1]))
    assert [row[1] for row in without] == [0, 1, 0]
    assert read(public, table([1, 2, 1, extra]))[:-1] == without


RECORDS = ["0.1,a,no\n", "0.9,b,yes\n"]


@pytest.mark.parametrize(
    "record",
    [
        b'0.3,"a\nb\n0.5,a,yes\n",yes\n',
        b"0.3,M\xfcller,no,too many\n",
        b"\xff\n",
        b'0.3,"say ""hi""",no\n',
        b"\n",
        "0.3,ü,no\n".encode(),
    ],
)
@pytest.mark.parametrize("place", [0, 100, 200])
def test_a_record_of_a_text_file_changes_no_other(tmp_path, record, place, monkeypatch):
    """Whatever one record holds, and wherever the reader's blocks end."""
    from privboost.data import files

    monkeypatch.setattr(files, "_CSV_BYTES", 300)
    lines = [line.encode() for line in RECORDS * 100]
    path = tmp_path / "t.csv"
    path.write_bytes(b"x,c,y\n" + b"".join(lines))
    without = read(domain(), path)
    path.write_bytes(b"x,c,y\n" + b"".join([*lines[:place], record, *lines[place:]]))
    beside = read(domain(), path)
    assert len(without) == 200
    extra = len(beside) - len(without)
    assert extra in (0, 1)
    assert beside[:place] + beside[place + extra :] == without


def test_units_that_are_one_value_are_one_unit():
    """At most one row each, whatever type a value comes in."""
    now = dt.datetime(2020, 1, 1, 12, tzinfo=dt.UTC)
    same = [
        np.array([0.0, -0.0]),
        np.fromiter([1, 1.0, True, Decimal("1.00"), np.int8(1)], dtype=object, count=5),
        np.fromiter([now, now.astimezone(dt.timezone(dt.timedelta(hours=5)))], object, 2),
        np.array(["p", "p"]),
        np.fromiter(["p", Shy("p")], dtype=object, count=2),
    ]
    for units in same:
        frame = pd.DataFrame({"x": 0.5, "c": "a", "y": "no", "u": units})
        unit = encode_training(Encoder.of(domain(unit=True)), frame).unit
        assert len(set(unit)) == 1
        assert unit[0] >= 0
    different = np.fromiter([1, "02", 1.5, "number 1", b"x", 10**300, np.inf], object, 7)
    frame = pd.DataFrame({"x": 0.5, "c": "a", "y": "no", "u": different})
    assert len(set(encode_training(Encoder.of(domain(unit=True)), frame).unit)) == 7


def unit_names(column):
    return read_unit_names(slice_vector(open_vector(column, "u"), 0, len(column)), "u").to_pylist()


def test_a_unit_has_one_name_in_columns_of_every_type():
    """Streams tell by it who came before, and a cell elsewhere may change a column's type."""
    moment = dt.datetime(2020, 1, 1, 12)
    numbers = [7, 10**16, 0]
    columns = [
        [pd.Series(numbers), pd.Series(numbers, dtype=float), pd.Series([*map(str, numbers)])],
        [pd.Series(numbers, dtype=object), pd.Series(numbers, dtype="Int64")],
        [pd.Series([Decimal(n) for n in numbers], dtype=object)],
        [pa.array([Decimal(n) for n in numbers]), pa.array([7.0, 1e16, -0.0])],
    ]
    for column in itertools.chain(*columns):
        assert unit_names(column) == [b"7", b"10000000000000000", b"0"]
    times = [
        pd.Series([moment]),
        pd.Series([moment]).astype("datetime64[s]"),
        pd.Series([moment], dtype=object),
        pd.Series([moment.replace(tzinfo=dt.UTC)]).dt.tz_convert("Asia/Tokyo"),
        pd.Series([moment, None], dtype=object)[:1],
        np.array([np.datetime64(moment)], dtype=object),
        pa.array([moment], pa.timestamp("ms")),
    ]
    days = [pa.array([moment.date()], pa.date32()), pd.Series([moment.date()], dtype=object)]
    days.append(pa.array([moment.date()], pa.date64()))
    spans = [pd.Series([dt.timedelta(hours=1)]), pd.Series([dt.timedelta(hours=1)], dtype=object)]
    truths = [pd.Series([True]), pd.Series([True], dtype=object), pd.Series([1])]
    for group in (times, days, spans, truths):
        assert len({unit_names(column)[0] for column in group}) == 1


@pytest.mark.parametrize("foreign", FOREIGN, ids=lambda f: type(f).__name__)
def test_a_foreign_unit_changes_no_other(foreign):
    cells = [Answer.YES, 1, 2.5, "q", dt.date(2020, 1, 1), uuid.UUID(int=5)] * 3

    def units(cells):
        column = np.fromiter(cells, dtype=object, count=len(cells))
        frame = pd.DataFrame({"x": 0.5, "c": "a", "y": "no", "u": column})
        return encode_training(Encoder.of(domain(unit=True)), frame, block_rows=4).unit.tolist()

    assert units([*cells, foreign])[:-1] == units(cells)


@pytest.mark.parametrize(
    "units",
    [
        pa.array([b"\xff\xfe", b"ab", None], pa.binary(2)),
        pa.array([b"\xff" * 16, b"0" * 16, None], pa.uuid()),
        pa.array([1, 2, None], pa.timestamp("us", "UTC")),
        pa.array([1, 2, None], pa.date32()),
        pa.array([Decimal("1.0"), Decimal("2.5"), None]),
        pa.array([True, False, None]),
        pa.array(["a", "b", None]).dictionary_encode(),
    ],
    ids=str,
)
def test_typed_units_of_every_kind(units, tmp_path):
    table = pa.table({"x": [0.5] * 3, "c": ["a"] * 3, "y": ["no"] * 3, "u": units})
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    for source in (table, tmp_path / "t.parquet"):
        numbers = encode_training(Encoder.of(domain(unit=True)), source).unit.tolist()
        assert numbers[2] == -1
        assert len(set(numbers)) == 3


@pytest.mark.parametrize("rows", [0, 1])
def test_the_schema_is_judged_whether_or_not_there_are_rows(rows, tmp_path):
    dates = pa.array([dt.date(2020, 1, 1)] * rows, pa.date32())
    table = pa.table({"x": dates, "c": pa.array(["a"] * rows), "y": pa.array(["no"] * rows)})
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    for source in (table, pl.from_arrow(table), tmp_path / "t.parquet"):
        with pytest.raises(SchemaError, match="column 'x' holds"):
            PrivBoostClassifier(1.0, 1e-6, domain(), n_estimators=2).fit(source)


def test_numbers_for_words_are_a_wrong_kind_of_column():
    frame = pd.DataFrame({"x": [0.5], "c": ["a"], "y": [1]})
    with pytest.raises(SchemaError, match="the domain's labels are strings"):
        read(domain(), frame)
    assert read(domain(("0", "1")), frame)[0][2] == 1


def test_two_columns_of_one_name(tmp_path):
    frame = pd.DataFrame([[0.5, "a", "no", 0.7]], columns=["x", "c", "y", "x"])
    frame.to_csv(tmp_path / "t.csv", index=False)
    table = pa.table([pa.array([0.5]), pa.array(["a"]), pa.array([0.7])], names=["x", "c", "x"])
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    for source in (frame, tmp_path / "t.csv", tmp_path / "t.parquet"):
        with pytest.raises(SchemaError, match="the same name"):
            read(domain(), source)


def test_labels_of_a_text_file_must_be_in_it(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x,c,y\n0.5,a,no\n")
    with pytest.raises(SchemaError, match="y of a CSV file must be one of its columns"):
        read(domain(), path, ["no"])


def test_predictions_of_a_text_file_match_its_lines(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x,c,y\n0.5,a,no\n0.7,b\n")
    model = PrivBoostClassifier(1.0, 1e-6, domain(), n_estimators=2).fit(path)
    with pytest.raises(SchemaError, match="wrong number of cells") as caught:
        model.predict(path)
    assert caught.value.__context__ is None


def test_labels_are_the_domains():
    frame = pd.DataFrame({"x": [0.5], "c": ["a"], "y": ["no"], "z": ["yes"]})
    assert read(domain(), frame, "y")[0][2] == 0
    with pytest.raises(SchemaError, match="y is the column 'z', but the domain's target is 'y'"):
        read(domain(), frame, "z")
