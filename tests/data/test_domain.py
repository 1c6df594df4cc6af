import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

from privboost import Domain, DomainError
from privboost._core.unit import Unit
from privboost.data.encoding import Encoder
from privboost.data.features import CategoricalFeature, NumericFeature
from privboost.data.targets import ClassTarget, NumberTarget

FORM = {
    "version": 1,
    "features": {
        "age": {"kind": "numeric", "bounds": [17, 90]},
        "gain": {"kind": "numeric", "bounds": [0, 100000], "scale": "log"},
        "step": {"kind": "numeric", "bounds": [0, 2], "edges": [0.5, 1.5], "reason": "a scale"},
        "job": {"kind": "categorical", "categories": ["a", "b"], "missing": True},
    },
    "target": {"name": "income", "classes": ["<=50K", ">50K"]},
    "unit": {"column": "patient", "max_rows": 3},
}


def changed(path, value):
    form = json.loads(json.dumps(FORM))
    at = form
    for key in path[:-1]:
        at = at[key]
    if value is None:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return form


def test_round_trips(tmp_path):
    domain = Domain.from_dict(FORM)
    assert domain.to_dict() == FORM
    assert Domain.from_json(domain.to_json()) == domain
    domain.to_json(tmp_path / "d.json")
    assert Domain.from_json(tmp_path / "d.json") == domain
    assert json.loads((tmp_path / "d.json").read_text()) == FORM


def test_feature_order_is_the_order_given():
    assert Domain.from_dict(FORM).feature_names == ("age", "gain", "step", "job")


def test_its_text_is_a_table_and_its_repr_a_line():
    assert repr(Domain.from_dict(FORM)) == "<Domain: 4 features -> income>"
    text = str(Domain.from_dict(FORM))
    assert "gain  numeric      0 … 100000, log scale" in text
    assert "job   categorical  2 categories, missing expected" in text
    assert "protected unit: all rows of one patient (at most 3 are used)" in text


F = "features"


@pytest.mark.parametrize(
    ("path", "value", "place"),
    [
        (["version"], 2, "version"),
        (["version"], None, "domain: 'version'"),
        (["target"], None, "domain: 'target'"),
        (["extra"], 1, "unknown key 'extra'"),
        ([F], {}, "features"),
        ([F, "age", "bounds"], [90, 17], "features.age.bounds"),
        ([F, "age", "bounds"], [17, 17], "features.age.bounds"),
        ([F, "age", "bounds"], [17], "features.age.bounds"),
        ([F, "age", "bounds"], [17, float("inf")], "features.age.bounds"),
        ([F, "age", "bounds"], [17, float("nan")], "features.age.bounds"),
        ([F, "age", "bounds"], [17, 10**400], "features.age.bounds"),
        ([F, "age", "bounds"], [2**60, 2**60 + 1], "features.age.bounds"),
        ([F, "age", "bounds"], ["17", 90], "features.age.bounds"),
        ([F, "age", "bounds"], None, "features.age: 'bounds'"),
        ([F, "age", "kind"], "number", "features.age.kind"),
        ([F, "age", "missing"], "yes", "features.age.missing"),
        ([F, "age", "catgories"], [], "features.age: unknown key"),
        ([F, "gain", "scale"], "sqrt", "features.gain.scale"),
        ([F, "step", "scale"], "log", "features.step"),
        ([F, "step", "edges"], [1.5, 0.5], "features.step.edges"),
        ([F, "step", "edges"], [0, 1], "features.step.edges"),
        ([F, "step", "edges"], [k / 200 for k in range(1, 254)], "features.step.edges: a code"),
        ([F, "job", "categories"], [], "features.job.categories"),
        ([F, "job", "categories"], ["a", "a"], "features.job.categories"),
        ([F, "job", "categories"], ["a", 1], "features.job.categories"),
        ([F, "job", "categories"], [1, 10**400], "features.job.categories"),
        ([F, "step", "edges"], [1, 10**400], "features.step.edges"),
        ([F, "job", "categories"], [1, 2**63], "features.job.categories: a whole number"),
        ([F, "job", "categories"], ["a", "\ud800"], "features.job.categories: a text with"),
        ([F, "job", "categories"], ["a", "a\0"], "features.job.categories: a text with"),
        ([F, "age", "reason"], "\ud800", "features.age.reason"),
        ([F, "age", "reason"], "\x1b[2J", "features.age.reason"),
        ([F, "\x1b[2J"], {"kind": "numeric", "bounds": [0, 1]}, "features, the name of one: a"),
        (["target"], {"name": "y\ud800", "bounds": [2, 3]}, "target.name"),
        (["target"], {"name": "y", "classes": ["a", "a\0"]}, "target.classes"),
        (["target"], {"name": "y", "classes": [1, 10**30]}, "target.classes"),
        (["target"], {"name": "y", "bounds": [2, 3], "reason": "\n"}, "target.reason"),
        (["unit"], {"column": "\ud800", "max_rows": 2}, "unit.column"),
        (["unit"], {"column": "who", "max_rows": 2, "reason": "\0"}, "unit.reason"),
        ([F, "job", "categories"], list(range(65534)), "features.job.categories: a code"),
        (["target"], {"name": "y"}, "target"),
        (["target"], {"name": "y", "classes": ["a"]}, "target.classes"),
        (["target"], {"name": "y", "bounds": [2, 1]}, "target.bounds"),
        (["target"], {"name": "age", "bounds": [1, 2]}, "target.name"),
        (["unit"], {"column": "patient"}, "unit: 'max_rows'"),
        (["unit"], {"column": "patient", "max_rows": 0}, "unit.max_rows"),
        (["unit"], {"column": "patient", "max_rows": True}, "unit.max_rows"),
        (["unit"], {"column": "age", "max_rows": 2}, "unit.column"),
    ],
)
def test_errors_name_the_place(path, value, place):
    with pytest.raises(DomainError, match=place.replace(".", r"\.")):
        Domain.from_dict(changed(path, value))


@pytest.mark.parametrize(
    ("name", "role"), [("job", "a feature"), ("income", "the target"), ("patient", "the unit")]
)
def test_what_is_named_is_not_left_out(name, role):
    assert Domain.from_dict(FORM | {"leave_out": ["id"]}).feature_names
    with pytest.raises(DomainError, match=f"leave_out: '{name}' is {role} too"):
        Domain.from_dict(FORM | {"leave_out": ["id", name]})


def test_large_whole_numbers_are_bounds_like_any():
    domain = Domain.from_dict(changed([F, "age", "bounds"], [17, 10**30]))
    assert Encoder.of(domain).edges[0].dtype == np.float64


def test_a_key_given_twice_is_refused():
    with pytest.raises(DomainError, match="a: declared twice"):
        Domain.from_json('{"version": 1, "features": {"a": {}, "a": {}}}')


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("[" * 100_000, "nested too deep"),
        ("1" * 5_000, "too long"),
        ("{" + '"kind": ' + "[" * 900 + "]" * 900 + "}", "features.a.kind|too deep"),
    ],
)
def test_json_that_python_cannot_read_is_no_domain(text, rule):
    with pytest.raises(DomainError, match=rule):
        Domain.from_json('{"version": 1, "target": {}, "features": {"a": ' + text + "}}")


def test_parts_are_checked_however_they_are_made():
    for make in (
        lambda: NumericFeature("a\0", (0, 1)),
        lambda: CategoricalFeature("a", ("b",), reason="\ud800"),
        lambda: ClassTarget("\x07", ("a", "b")),
        lambda: NumberTarget("", (0, 1)),
        lambda: Unit("\x7f", 1),
    ):
        with pytest.raises(DomainError):
            make()


def test_words_of_all_alphabets_are_texts():
    for word in ("Ärzte", "日本\u3000語", "می\u200cخواهم", "🏳️\u200d🌈", "a\xa0b", ""):
        assert CategoricalFeature("a", (word,)).categories == (word,)


def test_text_that_is_not_json():
    with pytest.raises(DomainError, match="not JSON"):
        Domain.from_json("{")


def test_a_domain_is_checked_against_a_table(tmp_path):
    domain = Domain.from_dict({key: FORM[key] for key in ("version", "features", "target")})
    rows = {"age": [1, 20, 99], "gain": [0, 1, 2], "step": [0, 1, 2], "job": ["a", "c", None]}
    table = pa.table(rows | {"income": ["<=50K"] * 3, "id": [1, 2, 3]})
    found = domain.check(table)
    assert (found.fits, found.more, found.strays) == (True, ("id",), ())
    strays = {own.name: own for own in domain.check(table, public_rows=True).strays}
    assert (strays["age"].below, strays["age"].above) == (1, 1)
    assert (strays["job"].other, strays["job"].missing) == (1, 1)
    assert domain.check(table.drop(["age"]), public_rows=True).absent == ("age",)
    with pytest.raises(ValueError, match="public_rows must be True or False"):
        domain.check(table, public_rows="no")
    csv.write_csv(table, tmp_path / "t.csv")
    assert domain.check(tmp_path / "t.csv").more == ()  # a first line may be a record
    assert domain.check(tmp_path / "t.csv", header=True).more == ("id",)


@pytest.mark.parametrize(("rows", "empty"), [(100, ()), (101, ("age",))])
def test_a_column_that_public_rows_lack_does_not_fit(rows, empty):
    domain = Domain.from_dict({key: FORM[key] for key in ("version", "features", "target")})
    some = {
        "gain": [0] * rows,
        "step": [0] * rows,
        "job": ["zzz"] * rows,
        "income": ["<=50K"] * rows,
    }
    table = pa.table({"age": pa.array([20, *[None] * (rows - 1)], pa.int64())} | some)
    assert domain.check(table).fits  # where nothing is said of rows, none is looked at
    found = domain.check(table, public_rows=True)
    assert (found.fits, found.empty) == (not empty, empty)


def test_labels_that_match_no_class_do_not_fit():
    domain = Domain.from_dict({key: FORM[key] for key in ("version", "features", "target")})
    rows = {"age": [20], "gain": [0], "step": [0], "job": ["a"], "income": ["<=50k"]}
    found = domain.check(pa.table(rows), public_rows=True)
    assert (found.fits, found.empty) == (False, ("income",))
