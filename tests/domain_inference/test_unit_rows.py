"""How many rows of a unit are used, learned from a noisy histogram of units by number of rows."""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privboost import (
    BudgetStore,
    Domain,
    DomainError,
    LazyBBClassifier,
    PrivBoostClassifier,
    SBDTClassifier,
    Unit,
)
from privboost._core.grid import CLIP_STEPS, WEIGHT_STEPS, Contribution
from privboost.accounting.noisy_sums import GaussianRelease, LaplaceRelease
from privboost.data import contribution_bound
from privboost.data.contribution_bound import LEAST_ROWS, UnitRule
from privboost.data.loading import Load
from privboost.data.sources import open_table
from privboost.domain_inference.bounds import InferenceLoader
from privboost.domain_inference.unit_rows import choose_max_rows, plan_unit_rows
from privboost.engine.backend import open_local
from privboost.engine.queries import COUNT, CellSums
from privboost.engine.updates import Start
from privboost.losses.squared import SQUARED_NUMBER
from privboost.mechanisms.curator import Curator
from privboost.mechanisms.sensitivity import check_sum_sensitivity
from privboost.models.model import model_bytes
from privboost.randomness.keystream import KeyStream
from privboost.trees.cell_map import CellMap
from tests.hostile import HostileBackend

OPEN = {"unit": {"column": "who", "max_rows": None, "weighting": "units"}}
QUERY = CellSums(CellMap.of_feature(0, np.arange(len(LEAST_ROWS))), statistics=COUNT)


def visits(sizes, seed=0):
    """A table whose units have so many rows each, in any order."""
    rng = np.random.default_rng(seed)
    who = np.repeat([f"p{k}" for k in range(len(sizes))], sizes)
    x = rng.uniform(0, 9, len(who))
    label = np.where(x + rng.normal(0, 2, len(who)) > 5, "ill", "well")
    frame = pd.DataFrame({"x": x, "label": label, "who": who})
    return frame.sample(frac=1, random_state=seed).reset_index(drop=True)


def counted(frame, kind=open_local):
    """Exact numbers of units by number of rows, in rows."""
    rule = UnitRule("who", 1, KeyStream.seeded(4).words(2), counts_rows=True)
    backend = kind([Load(InferenceLoader((), (), rule, "x"), open_table(frame, ()))])
    backend.apply(Start(SQUARED_NUMBER.table(1.0, 1.0)))
    return backend.sum(QUERY)[:, 0] / CLIP_STEPS


@given(
    sizes=st.lists(st.one_of(st.integers(1, 12), st.integers(1, 300)), max_size=12),
    own=st.integers(1, 300),
    seed=st.integers(0, 1000),
)
@settings(max_examples=25)
def test_one_more_unit_moves_one_count_by_one_whatever_rows_it_has(sizes, own, seed):
    less, more = counted(visits(sizes, seed)), counted(visits([*sizes, own], seed + 1))
    expected = np.histogram([*sizes, own], [*LEAST_ROWS, np.inf])[0]
    np.testing.assert_array_equal(more, expected)
    np.testing.assert_array_equal(
        more, counted(visits([*sizes, own]), partial(HostileBackend, seed=seed))
    )
    assert np.abs(more - less).sum() == 1
    event, bound = plan_unit_rows(pure=False), QUERY.bound(Contribution())
    check_sum_sensitivity(QUERY, event, Contribution())
    assert (bound.steps, bound.cells, bound.rows) == (event.steps, event.cells, event.rows)


def test_rows_without_a_unit_are_no_unit():
    frame = visits([3, 2])
    frame.loc[frame["who"] == "p0", "who"] = None
    assert counted(frame).tolist() == [0, 1, *[0] * 15]
    assert counted(visits([])).sum() == 0


def test_units_that_are_counted_once_a_row_are_caught(monkeypatch):
    """The twin keeps all rows of a unit: it moves one count by as many."""
    honest = contribution_bound.bound_units
    monkeypatch.setattr(
        "privboost.data.loading.bound_units",
        lambda blocks, unit, names, rule: honest(blocks, unit, names, replace(rule, max_rows=99)),
    )
    change = np.abs(counted(visits([2, 1, 7])) - counted(visits([2, 1])))
    with pytest.raises(AssertionError):
        assert change.sum() <= QUERY.bound(Contribution()).steps / CLIP_STEPS


def test_an_event_that_understates_a_unit_is_refused():
    for kind in (GaussianRelease, LaplaceRelease):
        twin = kind("units by number of rows", 1.0, CLIP_STEPS - 1, 1, 1, (1.0,))
        with pytest.raises(ValueError, match="understates"):
            check_sum_sensitivity(QUERY, twin, Contribution())


def cells(**units):
    """Counts of units, by the least number of rows of their cell."""
    own = {int(name[1:]): count for name, count in units.items()}
    return np.array([own.get(rows, 0.0) for rows in LEAST_ROWS], dtype=float)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        (cells(_1=5000), 1),
        (cells(_1=5000, _2=100), 1),  # 50 of 4950: a hundredth
        (cells(_1=5000, _2=2000), 2),
        (cells(_3=100), 3),
        (cells(_9=100), 12),
        (cells(_1=-40, _3=1000, _33=-300), 3),
        (cells(_193=70), 192),
        (cells(_257=70), 256),
        (cells(), 1),
        (cells(_1=-1, _4=-5), 1),
    ],
)
def test_the_fewest_rows_that_tell_nearly_as_much_as_all(counts, expected):
    assert choose_max_rows(counts) == expected


@given(st.lists(st.floats(-1e3, 1e4), min_size=len(LEAST_ROWS), max_size=len(LEAST_ROWS)))
def test_the_choice_is_the_smallest_within_five_percent(counts):
    units = np.maximum(counts, 0)

    def variance(rows):
        return sum(n / min(own, rows) for n, own in zip(units, LEAST_ROWS, strict=True))

    chosen, ends = (
        choose_max_rows(np.array(counts)),
        [*np.array(LEAST_ROWS[1:-1]) - 1, WEIGHT_STEPS],
    )
    assert chosen in ends
    assert variance(chosen) <= 1.05 * variance(WEIGHT_STEPS) * (1 + 1e-12)
    assert all(
        variance(rows) > 1.05 * variance(256) * (1 - 1e-12) for rows in ends if rows < chosen
    )


SIZES = [1] * 1500 + [2] * 800 + [5] * 900 + [20] * 60


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_domain_whose_unit_is_learned(delta):
    frame = visits(SIZES)
    given = OPEN | {"target": {"classes": ["ill", "well"]}}
    learn = partial(Domain.learn, target="label", epsilon=1.0, delta=delta, given=given)
    domain = learn(frame, random_state=1)
    assert domain.unit == replace(
        Unit("who", domain.unit.max_rows, weighting="units"), reason=domain.unit.reason
    )
    assert 4 <= domain.unit.max_rows <= 6
    assert domain.unit.reason.startswith("learned privately")
    report = domain.privacy
    assert report.unit == domain.unit
    assert report.releases[0].what == "units by number of rows"
    assert Domain.from_json(domain.to_json()) == domain
    assert learn(frame.sample(frac=1, random_state=2), random_state=1).unit == domain.unit
    private = learn(frame).privacy
    assert private.epsilon <= 1.0
    assert private.delta == delta
    assert abs(sum(release.share for release in private.releases) - 1) < 1e-6
    # Without the price it is refused, before anything is spent.
    bare = {key: part for key, part in domain.to_dict().items() if key != "privacy"}
    bare["features"] = {"x": {"kind": "numeric", "bounds": [0, 9]}}
    with pytest.raises(DomainError, match="its price"):
        PrivBoostClassifier(1.0, 1e-6, domain=Domain.from_dict(bare)).preview()


def test_a_fit_learns_the_unit_too_and_pays_for_it(tmp_path):
    frame, ledger = visits(SIZES), tmp_path / "ledger"
    how = {"epsilon": 2.0, "delta": 1e-6, "domain_given": OPEN, "n_estimators": 8}
    model = PrivBoostClassifier(**how, ledger=ledger).fit(frame, "label")
    assert model.privacy_.guarantee == "(2, 1e-06)-differential privacy"
    named = [release.what for release in model.privacy_.releases]
    assert named[0] == "units by number of rows"
    assert f"max_rows {model.domain_.unit.max_rows}" in " ".join(model.privacy_.assumptions)
    assert "units by number of rows" in ledger.read_text()
    hostile = partial(HostileBackend, seed=5, death_rate=0.2)
    one, two = (
        PrivBoostClassifier(**how, random_state=7, **where).fit(frame, "label")
        for where in ({}, {"backend": hostile})
    )
    assert model_bytes(one.model_) == model_bytes(two.model_)


def test_an_account_is_charged_with_it(tmp_path):
    account = BudgetStore(tmp_path / "store").open("visits", 3.0, 1e-5, unit="who")
    domain = Domain.learn(visits(SIZES), "label", 0.5, 1e-6, given=OPEN, budget=account)
    (entry,) = account.balance().entries
    assert entry.key == domain.privacy.entry
    model = PrivBoostClassifier(0.5, 1e-6, domain, n_estimators=4, budget=account)
    assert model.fit(visits(SIZES), "label").domain_.unit == domain.unit


def test_files_give_the_same_domain(tmp_path):
    frame = visits(SIZES)
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=700)
    frame.to_csv(tmp_path / "t.csv", index=False)
    numbers = {"features": {"x": {"kind": "numeric"}}}
    found = [
        Domain.learn(table, "label", 1.0, 1e-6, given=OPEN | numbers, random_state=1).to_dict()
        for table in (frame, tmp_path / "t.parquet", tmp_path / "t.csv")
    ]
    assert found[0] == found[1]
    assert found[0]["unit"] == found[2]["unit"]


def test_a_skeleton_leaves_the_unit_to_be_learned():
    frame = visits(SIZES)
    sketch = Domain.skeleton(frame, "label", unit="who")
    assert sketch["unit"] == OPEN["unit"]
    assert Domain.learn(frame, "label", 1.0, 1e-6, given=sketch, random_state=1).unit.max_rows > 1


@pytest.mark.parametrize(
    ("kind", "how", "message"),
    [
        (
            PrivBoostClassifier,
            {"domain_given": {"unit": {"column": "who", "max_rows": None}}},
            "learned where",
        ),
        (LazyBBClassifier, {"n_estimators": 3, "density": 0.5}, "units of several rows"),
        (SBDTClassifier, {"subsample": 0.5}, "one row"),
        (PrivBoostClassifier, {"conformal_fraction": 0.3}, "max_rows=1"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_spent(kind, how, message, tmp_path):
    ledger = tmp_path / "ledger"
    how = {"domain_given": OPEN} | how
    with pytest.raises(ValueError, match=message):
        kind(1.0, 1e-6, ledger=ledger, **how).fit(visits([1, 2, 3]), "label")
    assert not ledger.exists()


@pytest.mark.parametrize(("weighting", "rows"), [("units", 30), ("rows", 30 * 3)])
def test_one_row_of_a_unit_that_weighs_one_is_used(weighting, rows, monkeypatch):
    """Where rows weigh one, `max_rows` of them are."""
    seen, exact = [], Curator._exact

    def watched(curator, query, event):
        seen.append((exact(curator, query, event), curator._contribution.rows))
        return seen[-1][0]

    monkeypatch.setattr(Curator, "_exact", watched)
    unit = {"column": "who", "max_rows": 3, "weighting": weighting}
    given = {"unit": unit, "target": {"classes": ["ill", "well"]}}
    Domain.learn(visits([9] * 30), "label", 1.0, 1e-6, given=given, random_state=1)
    assert [(counts.sum() / CLIP_STEPS, own) for counts, own in seen] == [(rows, rows / 30)] * 2
