"""One protected unit has one name, whatever carries it; different values keep theirs."""

import datetime as dt
import enum
import unicodedata
import uuid
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privboost import SchemaError
from privboost.data.encoding import Encoder
from privboost.data.files import CsvTable, ParquetTable
from privboost.data.sources import open_table, open_vector
from privboost.data.table import slice_vector
from privboost.data.unit_names import name_unit, read_unit_names, unit_kind
from tests.tables import encode_training, make_domain, make_frame


def names_of(column):
    """Name the units of a column on its own: a series, an arrow or numpy array, a list."""
    return read_unit_names(slice_vector(open_vector(column, "u"), 0, len(column)), "u").to_pylist()


def names_in(table):
    parts = [read_unit_names(b["u"], "u").to_pylist() for b in table.batches(["u"], 1000)]
    return [name for part in parts for name in part]


class Color(enum.Enum):
    RED = "7"


class Level(enum.IntEnum):
    ONE = 7


def objects(*cells):
    return np.fromiter(cells, dtype=object, count=len(cells))


PERSON = uuid.UUID("6f9619ff-8b86-4d01-b42d-00cf4fc964ff")
SMALL = uuid.UUID(int=7)
LETTERS = uuid.UUID(bytes=b"patient-00000001")
MIDNIGHT = dt.datetime(2024, 1, 5)
EAST = dt.timezone(dt.timedelta(hours=2))
DAYS = 19727  # from 1970 to 2024-01-05

TEXTS = {
    b"7": [
        "7",
        "7.0",
        "007",
        "+7",
        " 7 ",
        "7e0",
        "0.7e1",
        "7.",
        "\t7\n",
        "7\0\0",
        "\ufeff7",
        SMALL.hex,
    ],
    b"-7": ["-7", "-7.0", "-07", "-7e0", "-0.07E+2"],
    b"0": ["0", "-0", "0.0", "0e999999999999", "1e-400", "false", "False", "FALSE"],
    b"0.1": ["0.1", ".1", "0.10", "1e-1", "0.1000000000000000055511151231257827"],
    b"inf": ["1e400", "1" * 400, "inf", "Infinity", "9" * 5000, "1e999999999999999999999"],
    b"-inf": ["-1e400", "-" + "1" * 400, "-inf"],
    b"9007199254740993": ["9007199254740993", "9007199254740993.0", "09007199254740993"],
    b"100000000000000000000000": ["1e23", "1" + "0" * 23],
    b"1": ["true", "True", "TRUE", "1", "1.0"],
    PERSON.hex.encode(): [
        str(PERSON),
        PERSON.hex,
        str(PERSON).upper(),
        PERSON.hex.upper(),
        "{" + str(PERSON) + "}",
        PERSON.urn,
        PERSON.urn.upper(),
        f" {PERSON} ",
    ],
    b"patient-00000001": ["patient-00000001", str(LETTERS), LETTERS.hex, " patient-00000001"],
    b"2024-01-05": [
        "2024-01-05",
        "2024-01-05T00:00:00",
        "2024-01-05 00:00",
        "2024-01-05 00:00:00+00:00",
        "2024-01-05T00:00:00Z",
        "2024-01-05T00:00:00.000000000Z",
        "2024-01-05 02:00:00+02:00",
        "2024-01-04T19:30:00-0430",
        "2024-01-05 00:00:00 UTC",
    ],
    b"2024-01-05T12:30:00.5": [
        "2024-01-05T12:30:00.5",
        "2024-01-05 12:30:00.500000",
        "2024-01-05T14:30:00.5+02:00",
    ],
    b"2024-02-01": ["2024-02", "2024-02-01"],
    b"10000-01-01": ["10000-01-01", "10000-01-01 00:00:00"],
    b"08:05:00": ["08:05", "08:05:00", "08:05:00.000"],
    "José".encode(): ["José", unicodedata.normalize("NFD", "José"), "\xa0José\u3000"],
    b"Anna": ["Anna", " Anna", "Anna  ", "Anna\0"],
}
TYPED = {
    b"7": [
        [str(SMALL)],
        [7, 7.0, True + 6, Decimal("7.00"), Fraction(7), Color.RED, Level.ONE, b"7", b" 7.0\0"],
        [np.int8(7), np.uint64(7), np.float16(7), np.float32(7), np.longdouble(7), np.str_("7")],
        *(np.array([7, 7], dtype) for dtype in ("i1", "u8", ">i4", "f2", "f4", ">f8", "g")),
        np.array(["7", "7.0"]),
        [SMALL, SMALL.bytes],
        *(pa.array([SMALL.bytes], kind) for kind in (pa.binary(), pa.binary(16), pa.uuid())),
        np.array([b"7", b"007"]),
        *(pa.array([7], kind) for kind in (pa.int8(), pa.uint64(), pa.float16(), pa.float32())),
        *(pa.array([Decimal(7)], pa.decimal128(9, scale)) for scale in (0, 2)),
        pa.array([Decimal(7)], pa.decimal32(5, 1)),
        pa.array([Decimal(7)], pa.decimal64(9, 1)),
        pa.array([Decimal(7)], pa.decimal256(60, 3)),
        pa.array(["7"], pa.string_view()),
        pa.array([b"7"], pa.binary_view()),
        pa.array(["7"], pa.json_()),
        pa.array([b"007"], pa.binary(3)),
        pa.array([7.0]).dictionary_encode(),
        pa.chunked_array([[7], [], [7]]),
        pd.Series([7, None]),
        pd.Series([7, pd.NA], dtype="Int64"),
        pd.Series([7.0, pd.NA], dtype="Float32"),
        pd.Series(["7", pd.NA], dtype="string"),
        pd.Series([7, None]).astype("category"),
        pd.Series(["7.0", "07"], dtype="category"),
        pd.Series([7, 7], dtype="Sparse[int]"),
        pl.Series([7, None]),
        pl.Series(["7", "7.0"], dtype=pl.Categorical),
        pl.Series(["7"], dtype=pl.Enum(["6", "7"])),
        pl.Series([Decimal("7.0")]),
        pl.Series([7], dtype=pl.Int128),
        pl.Series([Fraction(7)], dtype=pl.Object),
    ],
    b"1": [
        [True, np.True_, 1, "true", 1.0],
        np.array([True]),
        pa.array([True]),
        pa.array([1], pa.bool8()),
        pd.Series([True, None], dtype="boolean"),
        pl.Series([True]),
    ],
    b"0.1": [
        [0.1, Decimal("0.1"), Fraction(1, 10), np.float32(0.1), np.float16(0.1)],
        np.array([0.1], "f4"),
        np.array([0.1], "f2"),
        pa.array([0.1], pa.float32()),
        pl.Series([0.1], dtype=pl.Float32),
        pa.array([Decimal("0.1")]),
    ],
    b"inf": [[np.inf, 10**400, Decimal("1e400"), Decimal("Infinity")], np.array([np.inf], "f4")],
    b"1152921504606847000": [
        [2**60, 2.0**60, Decimal(2**60), "1.152921504606847e+18"],
        np.array([2**60]),
    ],
    b"1152921504606846977": [[2**60 + 1, str(2**60 + 1)], pa.array([2**60 + 1], pa.uint64())],
    b"100000000000000000000000": [[1e23, 10**23, Decimal(10**23), Decimal("1e23")]],
    PERSON.hex.encode(): [
        [PERSON, PERSON.bytes, str(PERSON)],
        pa.array([PERSON.bytes], pa.uuid()),
        pa.array([PERSON.bytes], pa.binary(16)),
        pa.array([PERSON.bytes], pa.binary()),
        pd.Series([PERSON]),
        pl.Series([PERSON.bytes]),
        np.array([PERSON.bytes]),
    ],
    b"ff": [
        np.array([b"\xff" + bytes(15)]),
        pa.array([b"\xff" + bytes(15)], pa.uuid()),
        [uuid.UUID("ff" + "0" * 30)],
    ],
    b"patient-00000001": [
        [LETTERS, LETTERS.bytes, "patient-00000001"],
        pa.array([b"patient-00000001"], pa.binary(16)),
        pa.array([LETTERS.bytes], pa.uuid()),
    ],
    b"anna": [pa.array([b"anna" + bytes(12)], pa.binary(16)), pa.array([b"anna            "])],
    b"2024-01-05": [
        [MIDNIGHT, MIDNIGHT.date(), MIDNIGHT.replace(tzinfo=dt.UTC), pd.Timestamp(MIDNIGHT)],
        [MIDNIGHT.replace(hour=2, tzinfo=EAST), pd.Period("2024-01-05")],
        [np.datetime64("2024-01-05", u) for u in ("D", "h", "m", "s", "ms", "us", "ns")],
        *(np.array(["2024-01-05"], f"M8[{u}]") for u in ("D", "h", "m", "s", "ms", "us", "ns")),
        *(pa.array([MIDNIGHT], pa.timestamp(u)) for u in ("s", "ms", "us", "ns")),
        pa.array([MIDNIGHT], pa.timestamp("us", "Asia/Tokyo")),
        pa.array([DAYS], pa.date32()),
        pa.array([MIDNIGHT.date()], pa.date64()),
        pa.array([DAYS], pa.date32()).dictionary_encode(),
        pd.Series([MIDNIGHT]),
        pd.Series([MIDNIGHT, None]).astype("category"),
        pd.Series([MIDNIGHT]).dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"),
        pl.Series([MIDNIGHT]),
        pl.Series([MIDNIGHT.date()]),
    ],
    b"2024-01-04": [[np.datetime64("2024-01-04", "W")], np.array(["2024-01-04"], "M8[W]")],
    b"2024-01-01": [
        [np.datetime64("2024-01", "M"), np.datetime64("2024", "Y"), np.datetime64("2024-01-01")],
        np.array(["2024"], "M8[Y]"),
    ],
    b"10000-01-01": [[np.datetime64("10000-01-01")], pa.array([2932897], pa.date32())],
    b"08:05:00": [[dt.time(8, 5)], pa.array([dt.time(8, 5)]), pl.Series([dt.time(8, 5)])],
    b"3600000000000 ns": [
        [dt.timedelta(hours=1), np.timedelta64(1, "h"), pd.Timedelta(hours=1)],
        pa.array([3600], pa.duration("s")),
        np.array([60], "m8[m]"),
    ],
}  # fmt: skip
NOBODY = [None, float("nan"), pd.NA, pd.NaT, np.datetime64("NaT"), "", "  ", b"", Decimal("nan")]


@pytest.mark.parametrize("name", TEXTS, ids=repr)
def test_texts_that_mean_one_value_are_one_unit_in_every_carrier(name, tmp_path):
    texts = TEXTS[name]
    frame = pd.DataFrame({"u": pd.Series(texts, dtype=object)})
    arrow = pa.table({"u": pa.array(texts)})
    pa.parquet.write_table(arrow, tmp_path / "t.parquet")
    carriers = [
        texts,
        objects(*texts),
        objects(*[text.encode() for text in texts]),
        np.array(texts),
        pd.Series(texts, dtype=object),
        pd.Series(texts, dtype="str"),
        pd.Series(texts, dtype=object).astype("category"),
        pl.Series(texts),
        arrow["u"],
        arrow["u"].cast(pa.binary()),
        arrow["u"].dictionary_encode(),
    ]
    for carrier in carriers:
        assert set(names_of(carrier)) == {name}
    assert set(names_in(ParquetTable(tmp_path / "t.parquet"))) == {name}
    assert set(names_in(open_table(frame, ()))) == {name}
    if not any("\0" in text for text in texts):
        pa.csv.write_csv(arrow, tmp_path / "t.csv")
        assert set(names_in(CsvTable(tmp_path / "t.csv"))) == {name}


@pytest.mark.parametrize("name", TYPED, ids=repr)
def test_values_of_every_type_are_one_unit(name, tmp_path):
    for column in TYPED[name]:
        assert {n for n in names_of(column) if n is not None} == {name}, column
        if isinstance(column, pa.Array) and column.type not in (pa.float16(), pa.bool8()):
            pa.parquet.write_table(pa.table({"u": column}), tmp_path / "t.parquet")
            assert {*names_in(ParquetTable(tmp_path / "t.parquet"))} == {name}, column
        if isinstance(column, pd.Series):
            column.to_frame("u").to_csv(tmp_path / "t.csv", index=False)
            found = {*names_in(CsvTable(tmp_path / "t.csv"))} - {None}
            assert found == {name}, column


def test_what_is_missing_names_nobody(tmp_path):
    assert names_of(NOBODY) == [None] * len(NOBODY)
    assert names_of(objects(*NOBODY)) == [None] * len(NOBODY)
    for column in (pa.nulls(2), pa.nulls(2, pa.uuid()), pa.array(["", " "]), np.array(["", "\t"])):
        assert names_of(column) == [None, None]
    (tmp_path / "t.csv").write_text('u,x\n,1\n"",1\n" ",1\n')
    assert names_in(CsvTable(tmp_path / "t.csv")) == [None] * 3
    for kind in (pa.float64(), pa.float16(), pa.int64(), pa.timestamp("s"), pa.decimal128(9, 2)):
        assert names_of(pa.nulls(2, kind)) == [None, None]
        assert names_of(pa.array([], kind)) == []
        assert names_of(pa.chunked_array([], kind)) == []


def test_different_values_have_different_names():
    different = [
        *range(-3, 12), 2**53 - 1, 2**53 + 1, 2**53 + 3, 10**18 + 1, 10**18 + 2, 0.5, 7.5, 1e-7,
        "a", "A", "anna", "Anna", "7a", "0x7", "7 7", "1_000", "1,5", "seven", "٧", "nan", "None",
        "2024-13-01", "2024-02-30", "2024-01-05T24:00", "2024-01-05", "2024-01-06", "20240105",
        "2024-01-05T00:00:01", "2024-01-05T00:00:00+25:00", "10:61", "tru", "truest", "-", ".",
        PERSON, uuid.UUID(int=PERSON.int + 1), str(PERSON)[:-1], str(PERSON) + "0", PERSON.hex[:-2],
        b"\xff\xfe", b"\xff\xfd", "ÿþ", "José", "Jose", "\ud800", dt.timedelta(1), "1 days",
        "patient-00000001", "patient-00000002", np.inf, -np.inf,
    ]  # fmt: skip
    names = [name_unit(cell) for cell in different]
    assert None not in names
    assert len(set(names)) == len(names)


cells = st.one_of(
    st.text(max_size=20),
    st.text("0123456789+-.eE:TZ {}abcdef\0", max_size=40),
    st.binary(max_size=20),
    st.binary(min_size=16, max_size=16),
    st.integers(),
    st.integers(-(10**40), 10**40),
    st.floats(),
    st.decimals(),
    st.fractions(),
    st.uuids(),
    st.datetimes(),
    st.datetimes(timezones=st.timezones()),
    st.dates(),
    st.times(),
    st.timedeltas(),
    st.booleans(),
    st.none(),
)


@given(cells)
def test_a_name_names_itself(cell):
    """So two values have one name only if they can be written as one text."""
    name = name_unit(cell)
    if name is not None:
        assert name_unit(name) == name
        assert name_unit(name.decode("utf-8", "surrogatepass")) == name
        assert names_of(pa.array([name], pa.binary())) == [name]


@given(st.lists(st.text(max_size=12), min_size=1))
def test_texts_are_named_alike_one_by_one_and_in_a_column(texts):
    """The texts that a column takes as they stand are names already."""
    clean = [text.encode("utf-8", "ignore").decode() for text in texts]
    expected = [name_unit(text) for text in clean]
    assert names_of(pa.array(clean)) == names_of(np.array(clean, dtype=object)) == expected


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1), st.lists(st.floats(), min_size=1))
def test_numbers_are_named_alike_one_by_one_and_in_a_column(whole, floats):
    assert names_of(pa.array(whole, pa.int64())) == [name_unit(n) for n in whole]
    assert names_of(np.array(floats)) == [name_unit(x) for x in floats]
    assert names_of([*map(str, whole)]) == names_of(pa.array(whole, pa.int64()))


@given(st.lists(st.uuids(), min_size=1), st.lists(st.datetimes(), min_size=1))
def test_people_and_instants_have_one_name_in_all_carriers(people, instants):
    raw = pa.array([p.bytes for p in people], pa.binary(16))
    assert names_of(raw) == names_of([*map(str, people)]) == names_of(people)
    typed = pa.array(instants, pa.timestamp("us"))
    assert names_of(typed) == names_of([i.isoformat(" ") for i in instants]) == names_of(instants)


def test_a_narrow_twin_would_split_one_person():
    """Names by type, as a naive reader has them, fail what the tables above demand."""
    naive = {str(cell) for cell in (7, 7.0, "007", Decimal("7.00"))}
    assert len(naive) == 4
    assert len({name_unit(cell) for cell in (7, 7.0, "007", Decimal("7.00"))}) == 1


def test_one_person_takes_part_once_whatever_the_spelling():
    encoder = Encoder.of(make_domain(unit={"column": "person", "max_rows": 1}))
    spellings = objects(PERSON, str(PERSON), PERSON.bytes, PERSON.hex.upper(), None, "other")
    frame = make_frame(6).assign(person=spellings)
    unit = encode_training(encoder, frame).unit.tolist()
    assert unit[:4] == [unit[0]] * 4
    assert unit[4] == -1 != unit[5] != unit[0]


def test_kinds_are_a_matter_of_the_type():
    for column, kind in (
        (pa.array([1.0]), "number"),
        (np.array([1]), "number"),
        (pa.array([Decimal(1)]), "number"),
        (np.array([True]), "bool"),
        (pa.array(["a"]).dictionary_encode(), "text"),
        (pa.array([1], pa.date32()), "time"),
        (np.array(["2024"], "M8[s]"), "time"),
        (pa.array([PERSON.bytes], pa.uuid()), "uuid"),
        (pa.array([PERSON.bytes], pa.binary(16)), "any"),
        (pa.array([b"a"]), "any"),
        (np.array(["a"], dtype=object), "any"),
        (pa.nulls(1), "any"),
    ):
        assert unit_kind(column) == kind
    with pytest.raises(SchemaError, match="cannot name a unit"):
        names_of(pa.array([[1]]))
    with pytest.raises(SchemaError, match="cannot name a unit"):
        read_unit_names(pa.array(pd.Series(pd.period_range("2024", periods=2, freq="D"))), "u")


@given(st.lists(st.text("0123456789abcdefABCDEF-", max_size=36), min_size=1))
def test_digits_are_named_alike_one_by_one_and_in_a_column(texts):
    assert names_of(pa.array(texts)) == [name_unit(text) for text in texts]


def odd_texts(count: int, seed: int) -> list[str]:
    """Texts near every rule: short, padded, of 16 and 32 characters, digits, blanks, controls."""
    rng = np.random.default_rng(seed)
    parts = ["a", "alice", "true", "inf", "7", "00", "12", "e", ".", " ", "\t", "-", ":", "0", "é"]
    parts += ["ff", "3e", "2e31", "2024-01-05", "12:30:00", "+00", "\0", "_", "#", "Z", "nan"]
    texts = []
    for _ in range(count):
        text = "".join(rng.choice(parts, rng.integers(1, 7)))
        kind = rng.integers(0, 6)
        if kind == 0:
            text = text[:16].ljust(16, rng.choice(["1", " ", "x"]))
        elif kind == 1:
            text = text.encode()[:16].ljust(16, b"5").hex()
        elif kind == 2:
            text = rng.bytes(rng.choice([16, 20, 32])).hex()
        elif kind == 3:
            text = "".join(map(str, rng.integers(0, 10, rng.choice([31, 32, 33, 40]))))
        texts.append(rng.choice(["", " ", "\t"]) + text + rng.choice(["", " ", "\0", "  "]))
    return texts


def test_columns_and_single_cells_are_named_alike():
    """Most texts of a column are never read one by one; none may get another name for it."""
    texts = odd_texts(20_000, 0)
    one_by_one = [name_unit(text) for text in texts]
    for column in (pa.array(texts), pa.array(texts).cast(pa.binary())):
        assert read_unit_names(column, "u").to_pylist() == one_by_one
    assert [name_unit(text.encode()) for text in texts] == one_by_one
    assert [name and name_unit(name) for name in one_by_one] == one_by_one
    padded = [f" {text}\0 " for text in texts]
    assert read_unit_names(pa.array(padded), "u").to_pylist() == one_by_one


def test_raw_bytes_have_one_name_in_every_width():
    rng = np.random.default_rng(1)
    for width in (16, 20, 32):
        raw = [rng.bytes(width - k) + bytes(k) for k in (0, 1, 2) for _ in range(300)]
        expected = [name_unit(each) for each in raw]
        fixed = pa.array(raw, pa.binary(width))
        assert read_unit_names(fixed, "u").to_pylist() == expected
        assert read_unit_names(pa.array([each.hex() for each in raw]), "u").to_pylist() == expected
        assert [name_unit(each) for each in np.array(raw)] == expected  # which cuts null bytes off


def test_a_tab_before_a_text_of_sixteen_bytes_does_not_count():
    """Its bytes are decimal digits with a leading 0, as those of a small UUID are."""
    assert name_unit("\t123456789012345") == name_unit(b"\t123456789012345") == b"123456789012345"


def test_digits_of_other_scripts_name_units():
    names = read_unit_names(pa.array(["²" * 32, "١" * 32, "1" * 32]), "who").to_pylist()
    assert None not in names
    assert len(set(names)) == 3
