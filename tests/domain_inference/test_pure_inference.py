"""Bounds learned under pure DP: what is released, at which noise, and what must be given."""

import json
from functools import cache, partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import stats

from privboost import (
    Domain,
    DomainError,
    LazyBBClassifier,
    PrivacyReport,
    PrivacyWarning,
    PrivBoostClassifier,
    SarusXGBClassifier,
    SarusXGBRegressor,
    SBDTClassifier,
    SchemaError,
)
from privboost._core.grid import CLIP_STEPS, Contribution
from privboost._core.unit import Unit
from privboost.accounting.accountants import PureAccountant
from privboost.accounting.events import Planned
from privboost.accounting.ledger import Ledger
from privboost.audit import audit
from privboost.data.contribution_bound import UnitRule
from privboost.data.loading import Load
from privboost.data.sources import open_table
from privboost.domain_inference import bounds, inference
from privboost.domain_inference.bounds import (
    SIZE_CODES,
    SIZE_EDGES,
    InferenceLoader,
    least_count,
    plan_sizes,
)
from privboost.engine.backend import open_local
from privboost.engine.updates import Start
from privboost.losses.squared import SQUARED_NUMBER
from privboost.mechanisms.curator import Curator
from privboost.randomness.keystream import KeyStream
from privboost.randomness.noise import discrete_laplace

REJECT = 1e-6

WORDS = {"job": {"kind": "categorical", "categories": ["clerk", "nurse"], "reason": "a code book"}}
PART = {"features": WORDS, "target": {"classes": ["old", "young"]}}
FAST = {"n_estimators": 3}


def frame_of(rows=6000, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.uniform(20, 90, rows)
    return pd.DataFrame(
        {
            "age": age,
            "gain": rng.lognormal(3, 2, rows),
            "job": rng.choice(["clerk", "nurse"], rows),
            "label": np.where(age + rng.normal(0, 10, rows) > 55, "old", "young"),
        }
    )


def test_bounds_are_found_and_nothing_else_is_released():
    domain = Domain.learn(frame_of(), "label", 1.0, 0, given=PART)
    by_name = {feature.name: feature for feature in domain.features}
    assert by_name["age"].bounds == (16, 128)
    assert by_name["gain"].scale == "log"
    assert by_name["job"].categories == ("clerk", "nurse")
    assert domain.target.classes == ("old", "young")
    report = domain.privacy
    assert report.guarantee == "1-differential privacy (pure)"
    assert (report.delta, report.accountant) == (0, "pure")
    assert 1 - 2e-7 < report.epsilon <= 1
    assert [r.what for r in report.releases] == ["rows by size of 2 numbers"]
    assert report.releases[0].mechanism == "discrete Laplace noise, 1-DP"
    again = Domain.from_json(domain.to_json())
    assert again == domain
    assert PrivacyReport.from_dict(again.privacy.to_dict()) == report


def test_seeds_give_the_same_bounds_and_no_guarantee():
    learn = partial(Domain.learn, frame_of(), "label", 0.5, 0, given=PART, random_state=4)
    assert learn().to_json() == learn().to_json()
    assert learn().privacy.guarantee == "no privacy guarantee: seeded"


@pytest.mark.parametrize("kind", [SarusXGBClassifier, LazyBBClassifier])
def test_a_fit_spends_its_epsilon_and_no_delta(kind, tmp_path):
    ledger = tmp_path / "ledger"
    model = kind(2.0, 0, domain_given=PART, ledger=ledger, **FAST).fit(frame_of(), "label")
    report = model.privacy_
    assert report.guarantee == "2-differential privacy (pure)"
    assert report.delta == 0
    assert 2 * (1 - 2e-7) < report.epsilon <= 2
    assert [part.epsilon for part in report.parts] == pytest.approx([0.2, 1.8], rel=1e-6)
    low, high = model.domain_.features[0].bounds
    assert low <= 16 < 128 <= high  # noise may widen them
    reserved = [json.loads(line) for line in ledger.read_text().splitlines()]
    reserved = [entry for entry in reserved if entry["entry"] == "reserve"]
    halved = 0.5 if kind is LazyBBClassifier else 1.0  # before rows that are replaced
    assert reserved[0]["epsilon"] == pytest.approx(0.2 * halved, rel=1e-6)
    assert all(entry["delta"] == 0 for entry in reserved)


def test_a_domain_learned_before_adds_its_price():
    frame = frame_of()
    domain = Domain.learn(frame, "label", 0.5, 0, given=PART)
    assert (
        SarusXGBClassifier(1.0, 0, domain, **FAST)
        .fit(frame)
        .privacy_.guarantee.startswith("1.5-differential privacy (pure)")
    )
    replaced = LazyBBClassifier(1.0, 0, domain, **FAST).fit(frame).privacy_
    assert replaced.guarantee == "2-differential privacy (pure)"


def test_a_number_to_predict_needs_nothing_given():
    frame = frame_of()[["age", "gain"]].assign(pay=lambda f: f["age"] * 2)
    model = SarusXGBRegressor(4.0, **FAST).fit(frame, "pay")
    assert model.privacy_.guarantee == "4-differential privacy (pure)"
    assert model.domain_.target.bounds == (32, 256)


def test_the_report_tells_what_was_given_from_what_was_learned():
    said = SarusXGBClassifier(2.0, domain_given=PART, **FAST).fit(frame_of(), "label").privacy_
    assert "public about 'job': a code book" in said.assumptions
    assert any("so is what was given of the domain" in text for text in said.assumptions)
    assert not any(text.startswith("learned about 'label'") for text in said.assumptions)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, "the categories of 'job' and the classes of the target 'label' must be given"),
        ({"features": WORDS}, "and the classes of the target 'label' must be given"),
        ({"target": PART["target"]}, "and the categories of 'job' must be given"),
        ({"features": {"job": {"kind": "categorical"}}, "target": PART["target"]}, "of 'job'"),
    ],
)
def test_words_must_be_given_before_anything_is_spent(given, words, tmp_path):
    ledger = tmp_path / "ledger"
    with pytest.raises(DomainError, match=rf"delta = 0: categories that occur .* {words}"):
        Domain.learn(frame_of(10), "label", 1.0, 0, given=given, ledger=ledger)
    for kind in (SarusXGBClassifier, LazyBBClassifier):
        model = kind(1.0, 0, domain_given=given, ledger=ledger)
        with pytest.raises(DomainError, match="domain_given of an estimator"):
            model.fit(frame_of(10), "label")
    assert not ledger.exists()


def test_a_text_files_columns_are_not_named(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("anna,label\n1,old\n")
    with pytest.raises(DomainError, match="the text file's columns") as caught:
        Domain.learn(path, "label", 1.0, 0, given={"target": PART["target"]})
    assert "anna" not in str(caught.value)


def test_where_all_is_given_there_is_nothing_to_learn():
    frame = frame_of(10)[["job", "label"]]
    with pytest.raises(DomainError, match="nothing to learn at delta = 0"):
        Domain.learn(frame, "label", 1.0, 0, given=PART)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"domain_given": 3}, "domain_given must be a mapping"),
        ({"domain_given": {"target": "label"}}, "target: a mapping"),
        ({"domain_given": PART | {"target": {"bounds": [0, 1]}}}, 'classifier needs "classes"'),
        ({"domain_given": PART | {"unit": {"column": "who", "max_rows": 2}}}, "no column 'who'"),
        ({"domain_given": PART, "domain": PART}, "not both"),
    ],
)
def test_bad_parts_are_refused(how, words, tmp_path):
    model = SarusXGBClassifier(1.0, ledger=tmp_path / "ledger", **how)
    with pytest.raises((ValueError, TypeError), match=words):
        model.fit(frame_of(10), "label")
    assert not (tmp_path / "ledger").exists()


DATES = pd.Series(pd.date_range("2000", periods=10))


@pytest.mark.parametrize(
    ("given", "how", "words"),
    [
        ({"features": {"when": {"kind": "numeric", "bounds": [0, 1]}}}, {}, "'when' holds"),
        ({"unit": {"column": "many", "max_rows": 2}}, {}, "'many' holds"),
        ({"target": {"classes": ["old", "young"]}}, {"y": np.arange(10.0)}, "labels are strings"),
        ({}, {"sample_weight": "when"}, "'sample_weight' holds"),
        ({}, {"sample_weight": DATES}, "'sample_weight' holds"),
    ],
)
def test_columns_of_a_wrong_type_are_refused_before_anything_is_spent(given, how, words, tmp_path):
    ledger = tmp_path / "ledger"
    table = pa.Table.from_pandas(frame_of(10)[["age", "label"]])
    kept = str(given) + str(how)
    for name, column in {"when": pa.array(DATES), "many": pa.array([[1]] * 10)}.items():
        table = table.append_column(name, column) if name in kept else table
    if "y" in how:
        table = table.drop(["label"])
    part = {"target": PART["target"]} | given
    model = SarusXGBClassifier(1.0, 0, domain_given=part, ledger=ledger, sample_weight_bound=1.0)
    with pytest.raises(SchemaError, match=words):
        model.fit(table, **({"y": "label"} | how))
    assert not ledger.exists()


@pytest.mark.parametrize("delta", [0, 1e-6])
def test_noise_beyond_the_grid_is_refused_before_anything_is_spent(delta, tmp_path):
    ledger = tmp_path / "ledger"
    frame = frame_of(10).assign(who=0)
    part = PART | {"unit": {"column": "who", "max_rows": 1024}}
    with pytest.raises(ValueError, match="would not fit the integer grid"):
        Domain.learn(frame, "label", 1e-8, delta, given=part, ledger=ledger)
    model = SarusXGBClassifier(
        0.1, delta, domain_given=part, domain_share=1e-6, ledger=ledger, **FAST
    )
    with pytest.raises(ValueError, match="would not fit the integer grid"):
        model.fit(frame, "label")
    assert not ledger.exists()


def test_an_epsilon_whose_exponential_is_no_number():
    """Where rows are replaced: the lesson has half of it, and its delta grows with that."""
    frame = frame_of(200)
    model = LazyBBClassifier(1e4, 0, domain_given=PART, domain_share=0.9, **FAST)
    with pytest.warns(PrivacyWarning, match="above 50"):
        report = model.fit(frame, "label").privacy_
    assert (report.guarantee, report.delta) == ("10000-differential privacy (pure)", 0)
    with pytest.warns(PrivacyWarning, match="above 50"):
        domain = Domain.learn(frame, "label", 800.0, 1e-6, given=PART)
    report = LazyBBClassifier(1.0, 1e-6, domain, **FAST).fit(frame).privacy_
    assert report.epsilon == pytest.approx(1601, rel=1e-2)
    assert report.delta == 1  # nothing better is known of a replaced row


def test_a_part_that_was_learned_is_refused(tmp_path):
    domain = Domain.learn(frame_of(), "label", 1.0, 0, given=PART)
    bare = {key: part for key, part in domain.to_dict().items() if key != "privacy"}
    for part in (domain, bare):
        model = SarusXGBClassifier(1.0, domain_given=part, ledger=tmp_path / "ledger")
        with pytest.raises(DomainError, match="domain_given: a part was learned privately"):
            model.fit(frame_of().assign(new=1.0), "label")
    assert not (tmp_path / "ledger").exists()


def test_units_of_several_rows(tmp_path):
    """One person's rows are bounded, the noise grows with them, and votes refuse them in time."""
    frame = frame_of().assign(who=np.arange(6000) // 2)
    frame.loc[:3999, ["age", "who"]] = 1e9, 0
    part = PART | {"unit": {"column": "who", "max_rows": 2}}
    model = SarusXGBClassifier(4.0, domain_given=part, **FAST).fit(frame, "label")
    assert model.domain_.features[0].bounds == (16, 128)
    assert model.domain_.unit.max_rows == 2
    assert model.privacy_.unit == model.domain_.unit
    assert model.privacy_.guarantee == "4-differential privacy (pure)"
    with pytest.raises(ValueError, match="units of several rows") as caught:
        LazyBBClassifier(4.0, 0, domain_given=part, ledger=tmp_path / "l").fit(frame, "label")
    assert "spent" not in str(caught.value)
    assert not (tmp_path / "l").exists()


def test_a_part_may_name_the_target():
    target = PART["target"] | {"name": "label"}
    model = SarusXGBClassifier(4.0, 0, domain_given=PART | {"target": target}, n_estimators=2)
    assert model.fit(frame_of(3000)).domain_.target.name == "label"
    with pytest.raises(DomainError, match="the target is 'label', not 'job'"):
        model.fit(frame_of(3000), "job")


def test_a_part_may_be_given_under_any_delta():
    model = PrivBoostClassifier(4.0, 1e-6, domain_given={"target": PART["target"]}, n_estimators=6)
    report = model.fit(frame_of(), "label").privacy_
    assert [release.what for release in report.releases][:3] == [
        "the number of rows",
        "rows by size of 2 numbers",
        "values that occur in 1 columns of words",
    ]
    assert report.epsilon <= 4
    part = PART | {"unit": {"column": "who", "max_rows": 2}}
    stream = SBDTClassifier(4.0, 1e-5, domain_given=part, n_estimators=4)
    for batch in range(2):
        who = np.arange(3000) // 2 + 3000 * batch
        stream.partial_fit(frame_of(3000, batch).assign(who=who), "label")
    assert stream.domain_.unit.max_rows == 2
    assert stream.privacy_.epsilon <= 4


def learned_noise(monkeypatch, rows, numbers, epsilon=0.5, runs=40):
    """The noise on all counts of an empty table, in rows, as the curator adds it."""
    seen = []
    honest = Curator.sums

    def keep(curator, query, event):
        seen.append(honest(curator, query, event))
        return seen[-1]

    monkeypatch.setattr(Curator, "sums", keep)
    frame = pd.DataFrame({f"x{k}": [] for k in range(numbers)} | {"who": [], "y": []}, dtype=float)
    given = {"target": {"bounds": [0, 1]}, "unit": {"column": "who", "max_rows": rows}}
    for seed in range(runs):
        Domain.learn(frame, "y", epsilon, 0, given=given, random_state=seed)
    return np.concatenate([noise.ravel() for noise in seen]) / CLIP_STEPS


@pytest.mark.parametrize(("rows", "numbers"), [(1, 3), (4, 1), (2, 2)])
def test_the_noise_has_its_scale_and_no_other(rows, numbers, monkeypatch):
    """p counts of r rows each move: the scale is p·r/ε, and the absolute noise is exponential."""
    noise = np.abs(learned_noise(monkeypatch, rows, numbers))
    scale = rows * numbers / 0.5
    assert stats.kstest(noise, stats.expon(scale=scale).cdf).pvalue > REJECT
    for wrong in (0.9 * scale, 1.1 * scale):
        assert stats.kstest(noise, stats.expon(scale=wrong).cdf).pvalue < REJECT


@pytest.mark.parametrize("wrong", [{"numbers": 2}, {"rows": 1}])
def test_an_understated_release_is_refused(wrong, monkeypatch):
    """The twins forget that a row is counted for each number, or that a unit has several rows."""

    def broken(contribution, numbers, pure):
        rows = wrong.get("rows", contribution.rows)
        return plan_sizes(Contribution(rows=rows), wrong.get("numbers", numbers), pure)

    monkeypatch.setattr(inference, "plan_sizes", broken)
    frame = frame_of(50)[["age", "gain"]].assign(pay=1.0, who=np.arange(50) // 2)
    with pytest.raises(ValueError, match="understates"):
        Domain.learn(frame, "pay", 1.0, 0, given={"unit": {"column": "who", "max_rows": 2}})


@pytest.mark.parametrize("pure", [True, False])
def test_empty_bins_pass_for_full_ones_as_seldom_with_either_noise(pure, monkeypatch):
    """At a chance of a half for all bins together, which is seen to be neither less nor more."""
    monkeypatch.setattr(bounds, "_FALSE_ALARM", 0.5)
    event = plan_sizes(Contribution(), 1, pure).scaled(40.0)
    least = least_count(event, SIZE_CODES)
    stream, tables = KeyStream.seeded(7), 3000
    scale = float(event.scales[0])
    if pure:
        noise = discrete_laplace(np.full(tables * SIZE_CODES, int(scale)), stream)
    else:
        noise = np.random.default_rng(7).normal(0, scale, tables * SIZE_CODES)
    above = (noise.reshape(tables, SIZE_CODES) / CLIP_STEPS > least).any(axis=1).sum()
    truth = 1 - (1 - 0.5 / SIZE_CODES) ** SIZE_CODES
    assert stats.binomtest(int(above), tables, truth, alternative="greater").pvalue > REJECT
    assert stats.binomtest(int(above), tables, 0.8 * truth, alternative="greater").pvalue < REJECT


ODD = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e300, -1e-300, 5e-324, 2.0**62, -(2.0**63), 7.5, -3.0]


def table_of(people, rows, seed=0):
    """Two numbers of any kind; each person has so many rows."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(people), rows)
    return pd.DataFrame(
        {"a": rng.choice(ODD, len(who)), "b": rng.choice(ODD, len(who)), "who": who}
    )


def opened(frame, max_rows):
    """A backend with the rows of a table as a lesson counts them."""
    rule = UnitRule.of(Unit("who", max_rows), KeyStream.seeded(3))
    loader = InferenceLoader(("a", "b"), (), rule, "a")
    backend = open_local([Load(loader, open_table(frame, ()))])
    backend.apply(Start(SQUARED_NUMBER.table(1.0, 1.0)))
    return backend


def moved(frame, fewer, max_rows):
    """How far, in L1, exact counts move between two tables."""
    sums = [opened(part, max_rows).sum(bounds._sizes(2)) for part in (frame, fewer)]
    return int(np.abs(sums[0] - sums[1]).sum())


@pytest.mark.parametrize("max_rows", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_a_unit_moves_counts_by_no_more_than_is_charged(max_rows, seed):
    """Of ten rows a person has at most `max_rows`; a replaced person moves twice as much."""
    event = plan_sizes(Contribution(rows=max_rows), 2, True)
    claimed = event.scales[0] * event.pure  # the L1 sensitivity
    frame = table_of(6, 10, seed)
    for person in range(6):
        assert moved(frame, frame[frame["who"] != person], max_rows) == claimed
        other = frame.where(frame["who"] != person, frame.assign(a=1e9, b=-5.0, who=99))
        assert moved(frame, other, max_rows) <= 2 * claimed


def test_a_forgotten_bound_on_rows_is_caught():
    """The twin keeps two rows of a person where one is charged."""
    event = plan_sizes(Contribution(rows=1), 2, True)
    frame = table_of(6, 10)
    assert moved(frame, frame[frame["who"] != 0], 2) > event.scales[0] * event.pure


@cache
def person(there):
    """One person with two rows of two numbers, or nobody."""
    frame = pd.DataFrame({"a": [3.0, 3.0], "b": [-3.0, -3.0], "who": [1, 1]})
    return opened(frame if there else frame[:0], 2)


def counted(canary, seed, noise):
    """The counts of the bins of one person, added up."""
    event = plan_sizes(Contribution(rows=2), 2, True).scaled(noise)
    ledger = Ledger(1e9, 0, PureAccountant())
    ledger.reserve([Planned(event, 1)])
    curator = Curator(person(bool(canary)), ledger, KeyStream.seeded(seed), Contribution(rows=2))
    counts = curator.sums(bounds._sizes(2), event)[0, :, 0] / CLIP_STEPS
    bins = np.searchsorted(SIZE_EDGES, [3.0, -3.0]) + np.array([0, SIZE_CODES])
    return float(np.clip(counts[bins], 0, 2).sum())  # all that tells of the person


@pytest.mark.slow
def test_a_lesson_stays_within_its_claim_and_a_third_of_the_noise_does_not():
    assert audit(partial(counted, noise=1.0), float, 0.0, runs=3000).epsilon <= 1.0
    assert audit(partial(counted, noise=1 / 3), float, 0.0, runs=3000).epsilon > 1.0
