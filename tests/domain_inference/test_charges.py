"""What learning a domain cost goes with it, wherever it goes, and into every fit on its rows."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from privboost import (
    BoostedAdaSSPClassifier,
    Domain,
    DomainError,
    LazyBBClassifier,
    PrivBoostClassifier,
    SarusXGBClassifier,
    SBDTClassifier,
    Unit,
    load_model,
)
from privboost.accounting.formulas import replace_one
from tests.cli.test_commands import command, run  # noqa: F401  # fixtures

# ruff: noqa: F811  # fixtures

FAST = {"n_estimators": 6}


def make_rows(rows=3000, seed=0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.uniform(0, 100, rows)
    return pd.DataFrame(
        {
            "age": age,
            "job": rng.choice(["nurse", "clerk"], rows),
            "label": np.where(age > 50, "old", "young"),
            "person": rng.integers(0, 500, rows),
        }
    )


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return make_rows().drop(columns="person")


@pytest.fixture(scope="module")
def learned(rows) -> Domain:
    return Domain.learn(rows, "label", 0.5, 1e-7)


def carriers(domain: Domain, tmp_path):
    """The ways a domain can take from a lesson to a fit."""
    domain.to_json(tmp_path / "d.json")
    yield domain
    yield domain.to_dict()
    yield json.loads(json.dumps(domain.to_dict()))
    yield tmp_path / "d.json"
    yield Domain.from_json(domain.to_json())


def test_the_price_travels_with_the_domain(rows, learned, tmp_path):
    for carrier in carriers(learned, tmp_path):
        report = PrivBoostClassifier(1.0, 1e-6, carrier, **FAST).fit(rows).privacy_
        assert report.epsilon == pytest.approx(1.5, abs=1e-6)
        assert report.delta == pytest.approx(1.1e-6)
        assert [part.what for part in report.parts] == ["learning the domain", "training"]
        assert sum(part.epsilon for part in report.parts) == pytest.approx(report.epsilon)
        assert any("values that occur" in release.what for release in report.releases)
        assert not any("not read off" in said for said in report.assumptions)
        for text in (str(report), report.to_html(), report.to_json()):
            assert "learning the domain" in text


def test_a_models_domain_has_its_price_too(rows, learned, tmp_path):
    model = PrivBoostClassifier(1.0, 1e-6, learned, **FAST).fit(rows)
    model.save(tmp_path / "m")
    for domain in (model.model_.domain, load_model(tmp_path / "m").domain):
        again = PrivBoostClassifier(1.0, 1e-6, domain, **FAST).fit(rows).privacy_
        assert again.epsilon == pytest.approx(1.5, abs=1e-6)


@pytest.mark.parametrize(
    "kind", [PrivBoostClassifier, SBDTClassifier, SarusXGBClassifier, LazyBBClassifier]
)
def test_a_domain_learned_in_a_fit_has_its_price(kind, rows, tmp_path):
    """With a share of mu squared, or as a guarantee of its own; here and after a file."""
    first = kind(2.0, 1e-6, **FAST).fit(rows, "label")
    assert first.privacy_.epsilon <= 2.0
    first.save(tmp_path / "m")
    domain = load_model(tmp_path / "m").domain
    assert domain.privacy is not None
    assert 0 < domain.privacy.epsilon < 1
    again = PrivBoostClassifier(1.0, 1e-6, domain, **FAST).fit(rows).privacy_
    assert again.epsilon == pytest.approx(1 + domain.privacy.epsilon, abs=1e-6)


def test_a_lesson_is_converted_for_replaced_rows(rows, learned):
    report = LazyBBClassifier(1.0, 1e-6, learned, n_estimators=3).fit(rows).privacy_
    epsilon, delta = replace_one(learned.privacy.epsilon, learned.privacy.delta)
    training = report.parts[1]
    assert report.relation.startswith("replace")
    assert report.epsilon == pytest.approx(epsilon + training.epsilon)
    assert report.delta == pytest.approx(delta + training.delta)
    assert report.epsilon > 1.9


def test_a_seeded_lesson_leaves_no_guarantee(rows):
    domain = Domain.learn(rows, "label", 0.5, 1e-7, random_state=1)
    for carrier in (domain, domain.to_dict()):
        fit = BoostedAdaSSPClassifier(1.0, 1e-6, carrier).fit(rows)
        assert fit.privacy_.seeded
        assert "seeded" in fit.privacy_.guarantee


def test_a_lesson_on_other_rows_adds_nothing_but_is_told(rows, learned):
    how = PrivBoostClassifier(1.0, 1e-6, learned, domain_rows="other", **FAST)
    report = how.fit(make_rows(seed=1).drop(columns="person")).privacy_
    assert report.epsilon == pytest.approx(1.0, abs=1e-6)
    assert report.parts == ()
    assert "(0.5, 1e-07)-differential privacy) from other rows" in report.assumptions[0]
    with pytest.raises(ValueError, match="domain_rows"):
        PrivBoostClassifier(1.0, 1e-6, learned, domain_rows="mine").fit(rows)


def test_a_lesson_about_rows_does_not_serve_units():
    frame = make_rows()
    about_rows = Domain.learn(frame.drop(columns="person"), "label", 0.5, 1e-7)
    form = about_rows.to_dict() | {"unit": {"column": "person", "max_rows": 10}}
    with pytest.raises(DomainError, match="learned protecting one row"):
        PrivBoostClassifier(1.0, 1e-6, form, **FAST).fit(frame)
    with pytest.raises(DomainError, match="learned protecting one row"):
        Domain.learn(frame, "label", 0.5, 1e-7, given=form)
    unit = {"column": "person", "max_rows": 10}
    about_units = Domain.learn(frame, "label", 2.0, 1e-7, given={"unit": unit})
    assert about_units.privacy.unit == Unit("person", 10)
    form = about_units.to_dict()
    form["unit"] = {"column": "person", "max_rows": 3}  # still the same people
    report = PrivBoostClassifier(1.0, 1e-6, form, **FAST).fit(frame).privacy_
    assert report.epsilon == pytest.approx(3.0, abs=1e-6)
    del form["unit"]
    with pytest.raises(DomainError, match="learned protecting all rows of one person"):
        PrivBoostClassifier(1.0, 1e-6, form, **FAST).fit(frame)


def test_a_part_belongs_to_the_price_of_its_own_lesson(rows, learned):
    other = Domain.learn(rows, "label", 0.5, 1e-7)
    assert learned.inferences != other.inferences
    features, target = learned.to_dict()["features"], learned.to_dict()["target"]
    price = other.to_dict()["privacy"]
    for given in ({"features": features}, {"target": target}):
        for form in (given, given | {"privacy": price}):
            with pytest.raises(DomainError, match="its price"):
                Domain.learn(rows, "label", 0.1, 1e-7, given=form)
    for mixed in (
        replace(learned, target=other.target),
        replace(learned, features=(*learned.features[:-1], other.features[-1])),
        replace(learned, privacy=other.privacy),
    ):
        with pytest.raises(DomainError, match="its price"):
            PrivBoostClassifier(1.0, 1e-6, mixed, **FAST).fit(rows)
    both = Domain.learn(
        rows, "label", 0.5, 1e-7, given={"target": target, "privacy": price_of(learned)}
    )
    assert both.inferences > learned.inferences
    report = PrivBoostClassifier(1.0, 1e-6, both, **FAST).fit(rows).privacy_
    assert report.epsilon == pytest.approx(2.0, abs=1e-6)


def price_of(domain):
    return domain.to_dict()["privacy"]


def test_what_is_given_to_a_second_lesson_keeps_its_price(rows, learned):
    for given in (learned, learned.to_dict()):
        domain = Domain.learn(rows, "label", 0.5, 1e-7, given=given)
        assert domain.privacy.epsilon == pytest.approx(1.0, abs=1e-6)


def test_an_altered_price_is_refused(learned):
    for change in ({"epsilon": -1}, {"epsilon": float("nan")}, {"delta": 2}, {"seeded": "no"}):
        form = learned.to_dict()
        form["privacy"] = form["privacy"] | change
        with pytest.raises(DomainError, match="privacy"):
            Domain.from_dict(form)


def test_every_batch_of_a_stream_pays_for_a_lesson_before_it(rows, learned):
    later = make_rows(seed=1).drop(columns="person")
    model = SBDTClassifier(1.0, 1e-6, learned, **FAST).partial_fit(rows)
    assert model.privacy_.epsilon == pytest.approx(1.5, abs=1e-6)
    model.set_params(epsilon=1.2, domain_rows="other").partial_fit(later)
    assert model.privacy_.epsilon == pytest.approx(1.5, abs=1e-6)
    model.set_params(domain_rows="same").partial_fit(make_rows(seed=2).drop(columns="person"))
    assert model.privacy_.epsilon == pytest.approx(1.7, abs=1e-6)


def test_later_batches_do_not_pay_for_what_the_first_learned(rows, tmp_path):
    later = make_rows(seed=1).drop(columns="person")
    model = SBDTClassifier(1.0, 1e-6, **FAST).partial_fit(rows, "label")
    model.save_stream(tmp_path / "state")
    for each in (model, SBDTClassifier(1.0, 1e-6, **FAST).load_stream(tmp_path / "state")):
        each.partial_fit(later, "label")
        assert each.privacy_.epsilon <= 1.0
        assert each.model_.domain.privacy is not None


def test_the_command_line_adds_the_price(rows, learned, tmp_path, run):
    rows.to_parquet(tmp_path / "t.parquet")
    learned.to_json(tmp_path / "d.json")
    train = ("train", tmp_path / "t.parquet", "--quiet", "--domain", tmp_path / "d.json")
    train += ("--epsilon", 1, "--delta", 1e-6, "--set", "n_estimators=6", "--model")
    assert "(1.5, 1.1e-06)" in run(*train, tmp_path / "a").stdout
    assert "(1, 1e-06)" in run(*train, tmp_path / "b", "--domain-rows", "other").stdout


def test_a_lesson_on_a_later_batch_does_not_pass_for_the_first(rows, learned):
    """Equal domains have different prices, and the later batch paid one of them."""
    later = make_rows(seed=1).drop(columns="person")
    for how in ({}, {"random_state": 3}):
        again = Domain.learn(later, "label", 3.0, 1e-7, **how)
        model = SBDTClassifier(1.0, 1e-6, learned, **FAST).partial_fit(rows)
        model.set_params(domain=replace(learned, privacy=again.privacy))
        with pytest.raises(DomainError, match="with its price"):
            model.partial_fit(later)
        model.set_params(domain=learned).partial_fit(later)


def test_what_does_not_go_with_the_table_costs_nothing(rows, tmp_path):
    ledger = tmp_path / "ledger.jsonl"
    model = PrivBoostClassifier(1.0, 1e-6, sample_weight_bound=1.0, ledger=ledger, **FAST)
    weights = np.ones(len(rows))
    for wrong in (weights[:-1], "nowhere"):
        with pytest.raises(ValueError, match="sample_weight"):
            model.fit(rows, "label", wrong)
    with pytest.raises(ValueError, match="X and y"):
        model.fit(rows.drop(columns="label"), rows["label"][:-1], weights)
    with pytest.raises(ValueError, match="X and y"):
        Domain.learn(rows[["age"]], "label", 1.0, 1e-6, y=rows["label"][:-1], ledger=ledger)
    assert not ledger.exists()


def test_a_part_of_a_learned_domain_needs_its_price(rows, learned):
    bare = replace(learned, privacy=None)
    with pytest.raises(DomainError, match="price"):
        PrivBoostClassifier(1.0, 1e-6, bare, **FAST).fit(rows)
    given = {"features": learned.to_dict()["features"]}
    with pytest.raises(DomainError, match="price"):
        Domain.learn(rows, "label", 0.1, 1e-7, given=given)
    assert PrivBoostClassifier(1.0, 1e-6, bare, domain_rows="other", **FAST).fit(rows)
