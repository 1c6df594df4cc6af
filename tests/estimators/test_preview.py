"""A preview tells what a fit would promise and cost, without a row and without a charge."""

import math

import pytest

from privboost import (
    BoostedAdaSSPClassifier,
    BudgetError,
    BudgetStore,
    DomainError,
    DPXGBClassifier,
    LazyBBClassifier,
    PrivacyWarning,
    PrivBoostClassifier,
    PrivBoostRegressor,
    SarusXGBClassifier,
    SBDTClassifier,
)
from privboost.data import loading
from tests.tables import make_domain, make_frame

FRAME = make_frame(300)
RECIPES = [
    (PrivBoostClassifier, {"n_estimators": 6}),
    (SBDTClassifier, {"n_estimators": 3, "max_depth": 2}),
    (SBDTClassifier, {"n_estimators": 3, "max_depth": 2, "class_weight": {"low": 1, "high": 2}}),
    (DPXGBClassifier, {"n_estimators": 2, "max_depth": 2}),
    (SarusXGBClassifier, {"n_estimators": 2, "max_depth": 2}),
    (LazyBBClassifier, {"n_estimators": 3, "density": 0.5}),
    (BoostedAdaSSPClassifier, {"n_estimators": 3}),
]


def make(kind=PrivBoostClassifier, **how):
    return kind(**{"epsilon": 1.0, "delta": 1e-6, "domain": make_domain()} | how)


@pytest.fixture
def account(tmp_path):
    return BudgetStore(tmp_path / "store.db").open(
        "a", 9.0, 1e-6, filter="renyi", relation="replace-one"
    )


@pytest.mark.parametrize(("kind", "how"), RECIPES, ids=lambda x: getattr(x, "__name__", ""))
def test_a_preview_says_what_the_fit_then_says(kind, how, account):
    model = make(kind, **how, budget=account)
    preview = model.preview()
    assert account.balance().entries == ()
    assert not hasattr(model, "model_")
    model.fit(FRAME)
    said, told = preview.privacy, model.privacy_
    for part in (
        "epsilon",
        "guarantee",
        "delta",
        "accountant",
        "plan",
        "parameters",
        "assumptions",
    ):
        assert getattr(said, part) == getattr(told, part)
    assert sum(release.share or 0 for release in said.releases) == pytest.approx(1)
    after = account.balance()
    assert preview.left == after.left < preview.before.left
    assert preview.after.entries[-1].price == after.entries[-1].price
    assert "of it would be taken; epsilon " in str(preview)


def test_no_row_is_touched_and_nothing_is_written(monkeypatch, tmp_path, account):
    def never(*_, **__):
        raise AssertionError("a row")

    monkeypatch.setattr(loading, "load_rows", never)
    before = account.path.read_bytes()
    ledger = tmp_path / "ledger.jsonl"
    preview = make(budget=account, ledger=ledger, backend=never).preview()
    assert account.path.read_bytes() == before
    assert not ledger.exists()
    assert preview.privacy.entry == ""
    assert str(preview).startswith("Nothing was spent, and no row was read")


def test_a_preview_refuses_and_warns_as_a_fit_does(account):
    with pytest.raises(BudgetError, match="does not cover this"):
        make(epsilon=30.0, budget=account).preview()
    with pytest.raises(ValueError, match="n_estimators"):
        make(n_estimators=0).preview()
    with pytest.warns(PrivacyWarning, match="epsilon is above 50"):
        make(epsilon=60.0).preview()
    with pytest.warns(PrivacyWarning, match="random_state is given"):
        assert make(random_state=0).preview().privacy.seeded
    with pytest.raises(DomainError, match="a preview needs the whole domain"):
        make(domain=None).preview()
    with pytest.raises(BudgetError, match="rows that are public have no price"):
        make(epsilon=math.inf, public_rows=True).preview()
    with pytest.raises(DomainError, match="bounds"):
        make(PrivBoostRegressor).preview()


def test_weights_and_the_number_of_rows_are_told():
    plain, weighted = make().preview(), make(sample_weight_bound=2.0).preview(weighted=True)
    assert "sample weights are clipped" in " ".join(weighted.privacy.assumptions)
    assert plain.privacy.plan != weighted.privacy.plan
    with pytest.raises(ValueError, match="sample_weight_bound"):
        make().preview(weighted=True)
    with pytest.raises(ValueError, match="must be given"):
        make(LazyBBClassifier).preview()
    with pytest.raises(ValueError, match="n_rows"):
        make(LazyBBClassifier).preview(n_rows=0.5)
    model = make(LazyBBClassifier)
    assert model.preview(n_rows=len(FRAME)).privacy.plan == model.fit(FRAME).privacy_.plan


def test_a_domain_that_was_learned_from_these_rows_is_paid_for():
    spent = make(domain=None, epsilon=20.0).fit(FRAME, "income").domain_
    preview = make(domain=spent, epsilon=0.5).preview()
    assert [part.what for part in preview.privacy.parts] == ["learning the domain", "training"]
