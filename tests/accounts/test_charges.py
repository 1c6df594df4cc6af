"""Everything that spends goes through one door: fits, streams and learned domains."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from privboost import (
    BoostedAdaSSPClassifier,
    BudgetError,
    BudgetStore,
    Domain,
    DomainError,
    DPXGBClassifier,
    LazyBBClassifier,
    PrivacyReport,
    PrivBoostClassifier,
    SarusXGBClassifier,
    SBDTClassifier,
    load_model,
)
from privboost.accounting.composition import curve_of
from privboost.accounting.events import Planned
from privboost.accounting.noisy_sums import LaplaceRelease
from tests.tables import CLASSES, make_domain, make_frame

FRAME = make_frame(300)
GAUSSIAN = [
    (PrivBoostClassifier, {"n_estimators": 6, "interactions": False}),
    (SBDTClassifier, {"n_estimators": 3, "max_depth": 2}),
    (BoostedAdaSSPClassifier, {"n_estimators": 3}),
]
OTHERS = [
    (DPXGBClassifier, {"n_estimators": 2, "max_depth": 2}),
    (SarusXGBClassifier, {"delta": 0, "n_estimators": 2, "max_depth": 2}),
    (SBDTClassifier, {"n_estimators": 3, "max_depth": 2, "subsample": 0.5}),
]


@pytest.fixture
def store(tmp_path):
    return BudgetStore(tmp_path / "store.db")


def train(kind, account, epsilon=1.0, domain=None, **how):
    how = {"delta": 1e-6, "domain": domain or make_domain(), "budget": account} | how
    return kind(epsilon, **how).fit(FRAME)


@pytest.mark.parametrize(("kind", "how"), GAUSSIAN, ids=lambda x: getattr(x, "__name__", ""))
def test_a_run_as_large_as_the_limit_fits_and_no_second_one(store, kind, how):
    account = store.open("a", 1.0, 1e-6)
    model = train(kind, account.named("mine"), **how)
    (entry,) = account.balance().entries
    assert (entry.name, entry.what) == ("mine", kind.__name__)
    assert model.privacy_.entry == entry.key
    assert model.privacy_.rows == account.rows
    assert 0.98 < account.balance().epsilon <= 1.0
    assert model.privacy_.epsilon <= account.balance().epsilon
    with pytest.raises(BudgetError, match="does not cover this"):
        train(kind, account, **how)
    assert len(account.balance().entries) == 1


def test_two_fits_cost_less_than_their_sum(store):
    account = store.open("a", 2.0, 1e-6)
    kind, how = GAUSSIAN[0]
    reports = [train(kind, account, **how).privacy_ for _ in range(2)]
    together = reports[0] + reports[1]
    assert 1.44 < together.epsilon < 1.46
    assert together.epsilon == pytest.approx(account.balance().epsilon, rel=1e-6)
    assert together.delta == pytest.approx(0.9e-6)  # a tenth is kept for learned words
    assert "fixed beforehand" in str(together)
    assert PrivacyReport.from_dict(json.loads(together.to_json())) == together


@pytest.mark.parametrize(("kind", "how"), OTHERS, ids=lambda x: getattr(x, "__name__", ""))
def test_what_is_not_gaussian_needs_a_renyi_account(store, kind, how):
    gaussian = store.open("a", 9.0, 1e-5)
    with pytest.raises(BudgetError, match="need an account with the filter 'renyi'"):
        train(kind, gaussian, **how)
    assert not gaussian.balance().entries
    renyi = store.open("b", 3.0, 1e-5, filter="renyi")
    for _ in range(2):
        train(kind, renyi, epsilon=0.3, **how)
    assert len(renyi.balance().entries) == 2
    assert 0 < renyi.balance().epsilon < 3.0


def test_neighbours_are_converted_one_way_only(store):
    how = {"n_estimators": 2}
    adding = store.open("a", 3.0, 1e-5, filter="renyi")
    with pytest.raises(BudgetError, match="replacing a unit"):
        train(LazyBBClassifier, adding, epsilon=0.5, **how)
    replacing = store.open("b", 3.0, 1e-5, filter="renyi", relation="replace-one")
    train(LazyBBClassifier, replacing, epsilon=0.5, **how)
    train(PrivBoostClassifier, replacing, epsilon=0.3, n_estimators=4, interactions=False)
    own, converted = (entry.price for entry in replacing.balance().entries)
    train(PrivBoostClassifier, adding, epsilon=0.3, n_estimators=4, interactions=False)
    (near,) = (entry.price for entry in adding.balance().entries)
    assert own.size > 0
    order = replacing.balance().rules.filter.order
    assert order == adding.balance().rules.filter.order
    assert converted.size == pytest.approx(4 * near.size)


def test_units_must_be_those_of_the_account(store):
    unit = {"column": "person", "max_rows": 2}
    frame = FRAME.assign(person=[k // 2 for k in range(len(FRAME))])
    people, rows = store.open("a", 3.0, 1e-5, unit="person"), store.open("b", 3.0, 1e-5)
    how = {"delta": 1e-6, "n_estimators": 4, "interactions": False}
    PrivBoostClassifier(1.0, domain=make_domain(unit=unit), budget=people, **how).fit(frame)
    with pytest.raises(BudgetError, match="protects one row; this run would protect all rows of"):
        PrivBoostClassifier(1.0, domain=make_domain(unit=unit), budget=rows, **how).fit(frame)
    with pytest.raises(BudgetError, match="protects all rows of one person"):
        PrivBoostClassifier(1.0, domain=make_domain(), budget=people, **how).fit(frame)


def test_a_seed_and_public_rows_have_no_place_in_an_account(store):
    account = store.open("a", 3.0, 1e-5)
    with pytest.raises(BudgetError, match="seeded run has no guarantee"):
        train(PrivBoostClassifier, account, random_state=1)
    with pytest.raises(BudgetError, match="nothing to record"):
        train(PrivBoostClassifier, account, epsilon=float("inf"), public_rows=True)
    with pytest.raises(TypeError, match="budget must be the account of a data set"):
        train(PrivBoostClassifier, store)
    with pytest.raises(BudgetError, match="seeded"):
        Domain.learn(FRAME, "income", 1.0, 1e-6, budget=account, random_state=1)
    assert not account.balance().entries


def test_a_learned_domain_is_charged_once(store):
    account = store.open("a", 5.0, 1e-5)
    frame = make_frame(2000)
    domain = Domain.learn(frame, "income", 1.0, 1e-6, budget=account)
    (inference,) = account.balance().entries
    assert domain.privacy.entry == inference.key
    how = {"n_estimators": 4, "interactions": False, "delta": 1e-6}
    PrivBoostClassifier(0.5, domain=domain, budget=account, **how).fit(frame)
    after = account.balance()
    assert len(after.entries) == 2
    alone = PrivBoostClassifier(0.5, domain=make_domain(), budget=account, **how).fit(frame)
    assert alone.privacy_.epsilon < 0.51
    entries = account.balance().entries
    assert entries[1].price.size == pytest.approx(entries[2].price.size, rel=0.05)
    other = store.open("b", 5.0, 1e-5)  # which does not know of the lesson
    PrivBoostClassifier(0.5, domain=domain, budget=other, **how).fit(frame)
    (both,) = other.balance().entries
    assert both.price.size == pytest.approx(inference.price.size + entries[1].price.size, rel=0.01)
    assert both.price.delta >= inference.price.delta > 0
    PrivBoostClassifier(0.5, domain=domain, domain_rows="other", budget=other, **how).fit(frame)
    assert other.balance().entries[1].price.size < both.price.size


def test_a_lesson_cannot_borrow_the_entry_of_something_cheaper(store):
    account, frame = store.open("a", 9.0, 1e-5), make_frame(2000)
    how = {"n_estimators": 4, "interactions": False, "delta": 1e-6, "budget": account}
    PrivBoostClassifier(0.1, domain=make_domain(), **how).fit(frame)
    form = Domain.learn(frame, "income", 1.0, 1e-6).to_dict()
    form["privacy"]["entry"] = account.balance().entries[0].key
    PrivBoostClassifier(0.1, domain=Domain.from_dict(form), **how).fit(frame)
    cheap, both = (entry.price for entry in account.balance().entries)
    assert both.size > 2 * cheap.size
    assert both.delta > 0


def test_a_domain_whose_price_does_not_add_up_is_refused(store):
    frame = make_frame(2000)
    domain = Domain.learn(frame, "income", 1.0, 1e-6)
    form = domain.to_dict()
    form["privacy"]["curve"] = None  # as an older version wrote it
    with pytest.raises(BudgetError, match="does not add up here"):
        train(PrivBoostClassifier, store.open("a", 9.0, 1e-5), domain=Domain.from_dict(form))


@pytest.mark.parametrize("part", ["mu_squared", "rho"])
def test_a_curve_that_promises_less_than_its_epsilon_is_refused(part):
    form = Domain.learn(make_frame(2000), "income", 1.0, 1e-6).to_dict()
    curve = form["privacy"]["curve"]
    known = curve[part]
    for less in (0.0, 0.5, 0.999, 1.0, 2.0):
        curve[part] = [less * rho for rho in known] if part == "rho" else less * known
        if less >= 1:
            assert Domain.from_dict(form).privacy.epsilon == form["privacy"]["epsilon"]
            continue
        if (part, less) == ("rho", 0.999):
            continue  # still above what Gaussian DP gives, which is what is stated
        with pytest.raises(DomainError, match="curve: it implies less than the stated epsilon"):
            Domain.from_dict(form)
        with pytest.raises(DomainError, match="curve: it implies less"):
            Domain.learn(make_frame(10), "income", 1.0, 1e-6, given={"privacy": form["privacy"]})


def test_a_sum_keeps_no_curve_that_promises_less():
    """Thresholds use up δ: ε adds up at the sum of both δ, where the curve would say less."""
    inference = Domain.learn(make_frame(2000), "income", 1.0, 1e-6).privacy
    used = replace(inference, curve=replace(inference.curve, extra_delta=0.6e-6))
    together = used + used
    assert together.epsilon == 2 * inference.epsilon
    assert together.curve is None
    assert PrivacyReport.from_dict(json.loads(together.to_json())) == together


def test_a_domain_that_a_fit_learns_is_in_its_entry(store):
    account = store.open("a", 1.0, 1e-6)
    frame = make_frame(2000)
    how = {"n_estimators": 4, "interactions": False}
    model = PrivBoostClassifier(1.0, 1e-6, budget=account, **how).fit(frame, "income")
    (entry,) = account.balance().entries
    assert model.domain_.privacy.entry == model.privacy_.entry == entry.key
    assert account.balance().epsilon <= 1.0
    account.set_limit(2.0, 1e-6)
    PrivBoostClassifier(0.5, 1e-6, model.domain_, budget=account, **how).fit(frame)
    PrivBoostClassifier(0.5, 1e-6, make_domain(), budget=account, **how).fit(frame)
    again, alone = account.balance().entries[1:]
    assert again.price.size == pytest.approx(alone.price.size, rel=0.05)  # no lesson in it


def test_learning_apart_is_an_entry_of_its_own_and_needs_room_for_both(store):
    frame = make_frame(2000)
    how = {"n_estimators": 2, "max_depth": 2}
    account = store.open("a", 3.0, 1e-5, filter="renyi")
    DPXGBClassifier(0.5, 1e-6, domain_share=0.5, budget=account, **how).fit(frame, "income")
    inference, training = account.balance().entries
    assert inference.price.delta > 0
    assert training.price.delta == 0
    small = store.open("b", 3.0, 1e-5, filter="renyi")
    small.set_limit(1.3, 1e-5)  # room for the lesson, and not for training
    with pytest.raises(BudgetError, match="does not cover"):
        DPXGBClassifier(1.0, 1e-6, budget=small, **how).fit(frame, "income")
    assert not small.balance().entries


def test_a_stream_is_one_entry(store, tmp_path):
    account = store.open("a", 2.0, 1e-6)
    how = {"domain": make_domain(), "n_estimators": 4, "max_depth": 2}
    model = SBDTClassifier(1.0, 1e-6, budget=account, **how).partial_fit(FRAME)
    (first,) = account.balance().entries
    model.set_params(epsilon=1.5).partial_fit(make_frame(300, seed=1))
    (second,) = account.balance().entries
    assert second.key == first.key == model.privacy_.entry
    assert second.price.size > first.price.size
    model.set_params(epsilon=0.9)
    model.save_stream(tmp_path / "stream")
    with pytest.raises(BudgetError, match="all batches of a stream"):
        model.set_params(budget=None).partial_fit(make_frame(300, seed=2))
    with pytest.raises(BudgetError, match="all batches of a stream"):
        model.set_params(budget=store.open("b", 9.0, 1e-5)).partial_fit(make_frame(300, seed=2))
    again = SBDTClassifier(1.4, 1e-6, budget=account, **how).load_stream(tmp_path / "stream")
    again.partial_fit(make_frame(300, seed=3))
    assert [entry.price for entry in account.balance().entries] == [second.price]
    with pytest.raises(BudgetError, match="does not cover"):
        again.set_params(epsilon=3.0).partial_fit(make_frame(300, seed=4))
    account.set_limit(9.0, 1e-6)
    twice = SBDTClassifier(1.0, 1e-6, budget=account, **how).load_stream(tmp_path / "stream")
    twice.partial_fit(make_frame(300, seed=3))  # its rows paid once already
    assert [entry.price for entry in account.balance().entries] == [second.price] * 2


def test_reports_of_other_things_do_not_add_up(store):
    kind, how = GAUSSIAN[0]
    one, two = store.open("a", 2.0, 1e-6), store.open("b", 2.0, 1e-6)
    mine, other = train(kind, one, **how).privacy_, train(kind, two, **how).privacy_
    with pytest.raises(BudgetError, match="different rows"):
        mine + other
    with pytest.raises(BudgetError, match="same run"):
        mine + mine
    with pytest.raises(TypeError):
        mine + 1
    free = train(kind, None, **how).privacy_
    assert (mine + free).rows == mine.rows
    replaced = train(LazyBBClassifier, None, n_estimators=2).privacy_
    with pytest.raises(BudgetError, match="different neighbours"):
        free + replaced
    unit = make_domain(unit={"column": "person", "max_rows": 2})
    frame = FRAME.assign(person=range(len(FRAME)))
    people = kind(1.0, 1e-6, unit, **how).fit(frame).privacy_
    with pytest.raises(BudgetError, match="do not add up"):
        free + people
    public = train(kind, None, epsilon=float("inf"), public_rows=True, **how).privacy_
    with pytest.raises(BudgetError, match="no guarantee to add"):
        free + public
    with pytest.warns(UserWarning, match="random_state"):
        seeded = train(kind, None, random_state=1, **how).privacy_
    assert (free + seeded).seeded
    pure = train(*OTHERS[1][:1], None, **OTHERS[1][1]).privacy_
    assert (pure + pure).epsilon == 2 * pure.epsilon


def test_a_pure_report_adds_no_more_than_its_epsilon():
    free, pure = (train(kind, None, **how).privacy_ for kind, how in (GAUSSIAN[0], OTHERS[1]))
    assert (free + pure).accountant == "rdp"  # choices add up to far less than their epsilons
    noise = [Planned(LaplaceRelease("counts", 1.0, 2**16, 2, 2, (1.0,)), 1)]
    pure = replace(pure, epsilon=1.0, curve=curve_of(noise))
    both = free + pure
    assert (both.epsilon, both.delta) == (free.epsilon + 1.0, free.delta)
    assert both.accountant == "sum"
    assert both.alternatives["sum"] == both.epsilon < both.alternatives["rdp"]
    assert PrivacyReport.from_dict(json.loads(both.to_json())) == both
    for all_three in ((free + pure) + pure, free + (pure + pure), sum([pure, free, pure])):
        assert all_three.epsilon <= both.epsilon + 1.0
        assert all_three.delta == free.delta
    # Two δ do not fit into one, however small they are.
    assert "sum" not in (free + replace(pure, delta=1e-30)).alternatives


KILLED = """
import os, signal, sys
from privboost import BudgetStore, PrivBoostClassifier
from privboost.engine.backend import LocalBackend
from tests.tables import make_domain, make_frame

def die(loads):
    os.kill(os.getpid(), signal.SIGKILL)  # reserved, and about to read

account = BudgetStore(sys.argv[1]).account("a")
how = {"n_estimators": 4, "interactions": False, "backend": die, "budget": account}
PrivBoostClassifier(1.0, 1e-6, make_domain(), **how).fit(make_frame(50))
"""


def test_a_process_that_dies_between_reserving_and_reading_has_paid(store):
    account = store.open("a", 1.0, 1e-6)
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(store.path)],
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == -signal.SIGKILL
    assert len(account.balance().entries) == 1
    with pytest.raises(BudgetError, match="does not cover"):
        train(*GAUSSIAN[0][:1], account, **GAUSSIAN[0][1])


def test_a_ledger_on_a_full_disk_says_that_the_account_was_charged(store):
    account = store.open("a", 1.0, 1e-6)
    with pytest.raises(OSError, match="No space left on device; the account was charged") as full:
        train(PrivBoostClassifier, account, ledger="/dev/full")
    (entry,) = account.balance().entries
    assert f"(entry {entry.key}), and nothing is given back" in full.value.strerror
    assert full.value.filename == "/dev/full"
    with pytest.raises(OSError, match=r"No space left on device: '/dev/full'$"):
        train(PrivBoostClassifier, None, ledger="/dev/full")


def test_a_saved_model_carries_its_entry(store, tmp_path):
    account = store.open("a", 2.0, 1e-6)
    kind, how = GAUSSIAN[0]
    model = train(kind, account, **how)
    model.save(tmp_path / "model")
    assert load_model(tmp_path / "model").privacy == model.privacy_


def test_the_account_stays_out_of_what_is_hashed(store):
    account = store.open("a", 2.0, 1e-6)
    kind, how = GAUSSIAN[0]
    reports = [train(kind, own, **how).privacy_ for own in (account, account.named("x"))]
    assert reports[0].plan == reports[1].plan
    assert CLASSES["name"] in make_domain().target.name
