"""Dates, durations, truth values and ranks: read alike whatever carries them, and never raising."""

import datetime as dt
import math
import zoneinfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privboost import (
    BooleanFeature,
    CategoricalFeature,
    DateFeature,
    Domain,
    DomainError,
    DurationFeature,
    OrdinalFeature,
    SchemaError,
)
from privboost.data.encoding import Encoder
from privboost.data.times import DAY, SECOND, read_dates, read_durations

FORMS = {
    "admitted": {"kind": "date", "bounds": ["2015-01-01", "2024-12-31"]},
    "seen": {"kind": "date", "bounds": ["2024-01-01T00:00:00", "2024-01-01T12:00:00"]},
    "week": {"kind": "date", "bounds": ["2024-01-01", "2024-01-07"], "missing": True},
    "quarter": {
        "kind": "date",
        "bounds": ["2024-01-01", "2024-12-31"],
        "edges": ["2024-03-31", "2024-06-30", "2024-09-30"],
    },
    "stay": {"kind": "duration", "bounds": [0, 864000], "scale": "log"},
    "smoker": {"kind": "boolean", "missing": True},
    "grade": {"kind": "ordinal", "categories": ["low", "medium", "high"], "reason": "the form"},
    "stage": {"kind": "ordinal", "categories": [1, 2, 3, 4]},
}


def make_domain(**target):
    return Domain.from_dict(
        {
            "version": 1,
            "features": FORMS,
            "target": {"name": "y", **(target or {"classes": [0, 1]})},
        }
    )


def feature(name):
    return next(each for each in make_domain().features if each.name == name)


def codes_of(name, column):
    encoder = Encoder.of(Domain((feature(name),), make_domain().target))
    return encoder.code({name: column}).column(0).tolist()


def test_the_form_comes_back():
    domain = make_domain(bounds=[1, 1000], scale="log")
    assert Domain.from_json(domain.to_json()) == domain
    assert domain.to_dict()["features"] == FORMS
    assert domain.to_dict()["target"] == {"name": "y", "bounds": [1, 1000], "scale": "log"}
    text = str(domain)
    for said in ("2015-01-01 … 2024-12-31", "seconds 0 … 864000, log scale", "false, true"):
        assert said in text
    assert "low < medium < high" in text
    assert "target y: 1 … 1000, log scale" in text


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"kind": "date", "bounds": ["2024-01-01", "2023-01-01"]}, "bounds: the first date"),
        ({"kind": "date", "bounds": ["2024-01-01", "2024-02-30"]}, "bounds: dates are written"),
        ({"kind": "date", "bounds": ["2024-01-01", 7]}, "bounds: dates are written"),
        ({"kind": "date", "bounds": "2024-01-01"}, "bounds: a pair of dates"),
        ({"kind": "date", "bounds": ["2024-01", "2024-12"]}, "bounds: dates are written"),
        (FORMS["week"] | {"edges": ["2024-02-01"]}, "edges: the edges must increase"),
        (FORMS["week"] | {"scale": "log"}, "unknown key 'scale'"),
        ({"kind": "ordinal", "categories": ["a"]}, "categories: at least 2"),
        ({"kind": "ordinal", "categories": ["a", "a"]}, "categories: 'a' is given twice"),
        ({"kind": "ordinal", "categories": list(range(254))}, "categories: a code holds 253"),
        ({"kind": "boolean", "bounds": [0, 1]}, "unknown key 'bounds'"),
        ({"kind": "duration", "bounds": [0, "1h"]}, "bounds: two finite numbers"),
        ({"kind": "numeric", "bounds": None}, "bounds: to be filled in, from public knowledge"),
        ({"kind": "categorical", "categories": None}, "categories: to be filled in"),
        ({"kind": None}, "kind: to be filled in"),
        ({}, 'kind: is missing; it is "numeric", '),
        ({"kind": "text"}, "kind: 'text' is not \"numeric\""),
        ({"kind": ["date"]}, "kind: "),
    ],
)
def test_errors_name_the_place(form, said):
    with pytest.raises(DomainError, match=r"features\.x\.?") as raised:
        Domain.from_dict(
            {"version": 1, "features": {"x": form}, "target": {"name": "y", "classes": [0, 1]}}
        )
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ({"classes": None}, "target.classes: to be"),
        ({"classes": None, "bounds": None}, "target.classes or bounds: to be"),
        ({"classes": [0, 1], "scale": "log"}, "target.scale"),
        ({"bounds": [0, 1], "scale": "sqrt"}, "target.scale"),
        ({"bounds": [0, 1e-9], "scale": "log"}, "too close for a log scale"),
    ],
)
def test_targets_that_say_too_little(target, said):
    with pytest.raises(DomainError) as raised:
        make_domain(**target)
    assert said in str(raised.value)


def test_one_of_two_placeholders_may_stay():
    assert make_domain(classes=[0, 1], bounds=None) == make_domain(classes=[0, 1])


NOON = dt.datetime(2024, 1, 5, 12, 30, 15, 500_000)


def as_carriers(value):
    """One instant without a zone in all that can carry it."""
    aware = value.replace(tzinfo=dt.UTC)
    paris = aware.astimezone(zoneinfo.ZoneInfo("Europe/Paris"))
    yield np.array([value, aware, paris, pd.Timestamp(paris), np.datetime64(value)], dtype=object)
    yield np.array([value], dtype="M8[us]")
    yield pa.array([value], pa.timestamp("ns"))
    yield pa.array([paris], pa.timestamp("us", "Europe/Paris"))
    yield pa.array([value.isoformat(), aware.isoformat(), paris.isoformat(" ")])
    yield pa.array([value.isoformat().encode()], pa.large_binary())
    yield pa.array([f"  {paris.isoformat()} "]).dictionary_encode()
    yield pl.Series([value]).to_arrow()
    yield pa.array(pd.Series([paris]))


@pytest.mark.parametrize("step", [DAY, SECOND])
@pytest.mark.parametrize(
    "value", [NOON, dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), dt.datetime(1900, 3, 1)]
)
def test_an_instant_is_one_number_whatever_carries_it(value, step):
    count = math.floor((value - dt.datetime(1970, 1, 1)) / dt.timedelta(microseconds=1))
    expected = float(count // (step // 1000))
    for column in as_carriers(value):
        assert set(read_dates(column, "x", step).tolist()) == {expected}


def test_a_date_is_its_midnight():
    day = dt.date(2024, 1, 5)
    for column in (
        np.array([day], dtype=object),
        np.array([day], dtype="M8[D]"),
        pa.array([day], pa.date32()),
        pa.array([day], pa.date64()),
        pa.array(["2024-01-05"]),
    ):
        assert read_dates(column, "x", SECOND).tolist() == [1704412800.0]
        assert read_dates(column, "x", DAY).tolist() == [19727.0]


def test_what_is_no_date_is_missing():
    odd = [None, math.nan, pd.NaT, pd.NA, "", "soon", "2024-02-30", "2024-01-01T25:00", 20240101]
    odd += [True, "20240101", np.datetime64("NaT"), dt.time(1), dt.timedelta(1), object(), b"\xff"]
    assert np.isnan(read_dates(np.array(odd, dtype=object), "x", DAY)).all()
    assert np.isnan(read_dates(pa.array(["", "soon", None]), "x", DAY)).all()
    assert np.isnan(read_dates(pa.nulls(2), "x", DAY)).all()
    for column in (np.array([1.0]), pa.array([1]), pa.array([dt.timedelta(1)])):
        with pytest.raises(SchemaError, match=r"'x' holds .* but the domain says dates"):
            read_dates(column, "x", DAY)


def span_carriers(span):
    yield np.array([span, pd.Timedelta(span), np.timedelta64(span), str(span)], dtype=object)
    yield np.array([span], dtype="m8[us]")
    for unit in ("us", "ns"):
        yield pa.array([span], pa.duration(unit))
    yield pa.array([str(span), str(pd.Timedelta(span)), pd.Timedelta(span).isoformat()])
    yield pa.array([span]).dictionary_encode()
    yield pl.Series([span]).to_arrow()


@settings(deadline=None, max_examples=60)
@given(st.timedeltas(dt.timedelta(days=-3000), dt.timedelta(days=3000)))
def test_a_duration_is_its_seconds_whatever_carries_it(span):
    expected = (span // dt.timedelta(microseconds=1)) / 10**6
    for column in span_carriers(span):
        assert set(read_durations(column, "x").tolist()) == {expected}
    assert read_durations(np.array([expected, repr(expected)], dtype=object), "x").tolist() == [
        expected,
        expected,
    ]


def test_durations_in_words_are_read_as_they_are_meant():
    feature = DurationFeature("stay", (-1e6, 1e6))
    written = {93600.0: "1 day, 2:00:00", -93600.0: "-1 day, -2:00:00", 5400.5: "1:30:00.5"}
    assert [feature.format_value(seconds) for seconds in written] == list(written.values())
    read = read_durations(np.array(list(written.values()), dtype=object), "stay")
    assert read.tolist() == list(written)
    assert feature.format_value(172800.0) == "2 days"
    assert feature.format_value(1.5) == "1.5 s"


def test_durations_far_away_are_whole_seconds():
    far = 2**40
    for column in (
        pa.array([far], pa.duration("s")),
        pa.array([far * 1000 + 7], pa.duration("ms")),
        np.array([np.timedelta64(far, "s")], dtype=object),
        pa.array([f"PT{far}.5S"]),
    ):
        assert read_durations(column, "x").tolist() == [float(far)]
    assert read_durations(pa.array([2**62], pa.duration("s")), "x").tolist() == [2.0**62]


def test_written_durations():
    texts = [
        "PT1H30M",
        "p1dt1s",
        "-PT2.5S",
        "P1W",
        "1:30:00",
        "1 day, 0:00:01",
        "-1 days +23:00:00",
    ]
    texts += ["90", "1e3", "2 days", "0:00:00.25"]
    expected = [5400, 86401, -2.5, 604800, 5400, 86401, -3600, 90, 1000, 172800, 0.25]
    assert read_durations(pa.array(texts), "x").tolist() == expected
    odd = ["P", "PT", "", "1:60:00", "a day", "1:2", None, "P1M", "day"]
    assert np.isnan(read_durations(pa.array(odd), "x")).all()
    with pytest.raises(SchemaError, match="'x' holds"):
        read_durations(pa.array([dt.date(2024, 1, 1)]), "x")


def test_truth_values():
    odd = [True, False, 1, 0, "TRUE", "false", "1", "0.0", np.bool_(True), 1.0]
    assert codes_of("smoker", np.array(odd, dtype=object)) == [1, 0, 1, 0, 1, 0, 1, 0, 1, 1]
    others = [None, math.nan, "yes", 2, -1, "", object(), 10**400, [1]]
    assert codes_of("smoker", np.array([*others, 0], dtype=object)) == [2] * len(others) + [0]
    assert codes_of("smoker", pa.array([True, None, False])) == [1, 2, 0]
    assert codes_of("smoker", pa.array(["True", "FALSE", "no", None, "1"])) == [1, 0, 2, 2, 1]
    assert codes_of("smoker", np.array([0, 1, 2], dtype=np.int8)) == [0, 1, 2]


def test_ranks_follow_the_order():
    values = ["high", "low", "medium", "none", None, 7]
    assert codes_of("grade", np.array(values, dtype=object)) == [2, 0, 1, 3, 3, 3]
    assert codes_of("grade", pa.array(values[:4]).dictionary_encode()) == [2, 0, 1, 3]
    assert codes_of("stage", np.array([4.0, 1.0, np.nan, 9.0])) == [3, 0, 4, 4]
    assert codes_of("stage", pa.array(["4", "1.0", "x"])) == [3, 0, 4]
    with pytest.raises(SchemaError, match="'grade' holds bool"):
        codes_of("grade", pa.array([True]))


def test_each_day_of_few_has_a_bin():
    days = pd.Series(pd.date_range("2023-12-31", "2024-01-08"))
    assert codes_of("week", pa.array(days)) == [0, 0, 1, 2, 3, 4, 5, 6, 6]
    assert codes_of("quarter", pa.array(["2024-03-31T23:59:59", "2024-04-01", "2025-01-01"])) == [
        0,
        1,
        3,
    ]
    assert len(Encoder.of(make_domain()).edges[0]) == 191


def test_spans_are_said_in_their_own_words():
    encoder = Encoder.of(make_domain())
    names = list(FORMS)

    def words(name, values):
        return [span for span, _ in encoder.spans(names.index(name), np.array(values))]

    assert words("week", [1, 1, 2, 2, 2, 2, 3, 0]) == [
        "x ≤ 2024-01-02",
        "2024-01-02 < x ≤ 2024-01-06",
        "2024-01-06 < x",
        "missing",
    ]
    assert words("smoker", [1, 2, 0]) == ["false", "true", "missing"]
    assert words("grade", [1, 1, 2, 0]) == ["low to medium", "high", "missing"]
    assert words("grade", [1, 1, 1, 0]) == ["any", "missing"]
    assert words("seen", [*[0] * 96, *[1] * 96, 2])[0] == "x ≤ 2024-01-01T06:00:00"


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=30),
    st.binary(max_size=30),
    st.dates(),
    st.datetimes(timezones=st.one_of(st.none(), st.timezones())),
    st.timedeltas(),
    st.times(),
    st.fractions(),
    st.decimals(),
    st.complex_numbers(),
    st.lists(st.integers(), max_size=2),
    st.just(object()),
    st.just(pd.NaT),
    st.just(np.datetime64("NaT")),
    st.just(np.datetime64(2**62, "Y")),
    st.just(np.timedelta64(5, "Y")),
    st.from_regex(r"[+-]?[0-9]{1,9}-[0-9]{2}(-[0-9]{2}([T ][0-9:.,]{2,12}[Z+0-9:-]{0,6})?)?"),
    st.from_regex(r"-?P([0-9.]{1,9}[WDTHMS]){1,4}"),
    st.from_regex(r"(-?[0-9]{1,12} days?,? ?)?[+-]?[0-9:.]{1,12}"),
)


class Hostile(dt.datetime):
    """A date that nobody can ask anything."""

    def __sub__(self, other):
        raise RuntimeError("secret")

    def __ne__(self, other):
        raise RuntimeError("secret")

    __hash__ = None


@settings(deadline=None, max_examples=300)
@given(st.lists(VALUES, min_size=1, max_size=8))
def test_no_value_raises_nor_changes_another(values):
    values = [*values, Hostile(2024, 1, 1)]
    column = np.fromiter(values, dtype=object, count=len(values))
    for each in make_domain().features:
        together = each.read(column)
        alone = [each.read(column[k : k + 1])[0] for k in range(len(values))]
        np.testing.assert_array_equal(together, alone)
        assert together.dtype == np.float64
    texts = [v for v in values if isinstance(v, str | bytes)]
    raw = [v.encode("utf-8", "surrogatepass") if isinstance(v, str) else v for v in texts]
    for each in make_domain().features:
        both = [
            each.read(pa.array(raw, pa.large_binary())),
            each.read(np.array([*texts, None], dtype=object)[:-1]),
        ]
        np.testing.assert_array_equal(*both)


def test_classes_of_features():
    kinds = {each.name: type(each) for each in make_domain().features}
    assert kinds["week"] is DateFeature
    assert kinds["stay"] is DurationFeature
    assert kinds["smoker"] is BooleanFeature
    assert kinds["grade"] is OrdinalFeature
    assert not any(isinstance(each, CategoricalFeature) for each in make_domain().features)


PARTS = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-5, 300),
        st.floats(),
        st.sampled_from(["2024-01-01", "2024-06-01T10:00:00", "+999999999-12-31", "log", "a", ""]),
    ),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=6,
)
KEYS = st.sampled_from(["bounds", "edges", "categories", "scale", "missing", "reason"])
KINDS = st.sampled_from(["date", "duration", "boolean", "ordinal", "numeric", "categorical", None])


@settings(deadline=None, max_examples=400)
@given(KINDS, st.dictionaries(KEYS, PARTS, max_size=4))
def test_a_form_is_read_or_refused_in_words(kind, rest):
    form = {"features": {"x": {"kind": kind} | rest}, "target": {"name": "y", "classes": [0, 1]}}
    domain, refusal = None, ""
    try:
        domain = Domain.from_dict({"version": 1} | form)
    except DomainError as error:
        refusal = str(error)
    if domain is None:
        assert "features.x" in refusal
        return
    assert Domain.from_json(domain.to_json()) == domain
    encoder = Encoder.of(domain)
    assert list(encoder.spans(0, np.arange(encoder.layout.n_codes[0])))
    assert str(domain)


def test_months_are_no_durations_and_the_least_count_has_no_opposite():
    months = np.array([np.timedelta64(3, "M"), np.timedelta64(90, "s")], dtype=object)
    np.testing.assert_array_equal(read_durations(months, "x"), [np.nan, 90.0])
    least = pa.array([-(2**63) + 1, 5], pa.duration("s"))
    assert read_durations(least, "x")[0] < -9e18
