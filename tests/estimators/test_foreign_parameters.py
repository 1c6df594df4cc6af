"""Names of other libraries are answered with the right one, or with the reason for none."""

import inspect
import re

import pytest

import privboost
from privboost import (
    DPXGBClassifier,
    LazyBBClassifier,
    PrivateSearchCV,
    PrivBoostClassifier,
    PrivBoostRegressor,
    SBDTClassifier,
    SBDTRegressor,
)
from privboost.estimators.foreign_parameters import (
    _ANSWERS,
    _NO_LOSSES,
    _OF_NAME,
    _SPELLINGS,
    foreign_loss_hint,
    foreign_name_hint,
)
from privboost.losses.base import losses_of
from privboost.recipes import ESTIMATORS
from tests.tables import CLASSES, NUMBER, make_domain, make_frame

KINDS = {name: getattr(privboost, name) for name in ESTIMATORS}


def parameters_of(kind):
    return list(inspect.signature(kind).parameters)


def test_each_name_is_answered_once_by_parameters_that_exist():
    names = [name for answer in _ANSWERS for name in answer.names.split()]
    assert len(names) == len(set(names)) == len(_OF_NAME)
    known = {own for kind in KINDS.values() for own in parameters_of(kind)}
    assert {own for answer in _ANSWERS for own in answer.own} <= known
    assert all(answer.without for answer in _ANSWERS)


@pytest.mark.parametrize("name", KINDS)
def test_every_estimator_answers_all_of_them(name):
    kind = KINDS[name]
    known = parameters_of(kind)
    for foreign in set(_OF_NAME) - set(known):
        with pytest.raises(TypeError) as raised:
            kind(**{foreign: 1})
        text = str(raised.value)
        assert text.startswith(f"{name} has no parameter {foreign!r}; ")
        assert "there are epsilon" not in text
        if found := re.search("here it is ([a-z_]+)", text):
            assert found[1] in known


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        (PrivBoostClassifier, "monotone_constraints", "here it is monotone, a mapping"),
        (SBDTRegressor, "monotonic_cst", "here it is monotone, a mapping"),
        (DPXGBClassifier, "monotone_constraints", "PrivBoost and of S-BDT alone"),
        (PrivBoostRegressor, "interaction_cst", "here it is interaction_constraints"),
        (SBDTClassifier, "objective", "here it is loss"),
        (PrivBoostClassifier, "objective", "the loss follows the target"),
        (PrivBoostClassifier, "num_boost_round", "here it is n_estimators"),
        (SBDTClassifier, "eta", "here it is learning_rate"),
        (PrivBoostClassifier, "eta", "there is no learning rate"),
        (SBDTClassifier, "num_leaves", r"here it is max_depth: .* 2\*\*max_depth leaves"),
        (PrivBoostClassifier, "subsample", "every round uses all rows"),
        (PrivBoostClassifier, "min_child_weight", "no private counterpart"),
        (PrivBoostClassifier, "early_stopping_rounds", "PrivateSearchCV"),
        (PrivBoostClassifier, "seed", "here it is random_state"),
        (PrivBoostClassifier, "scale_pos_weight", "here it is class_weight, public weights"),
        (LazyBBClassifier, "class_weight", "there are no weights of classes"),
        (PrivBoostRegressor, "quantile_alpha", 'here it is quantile, the level of loss="quantile"'),
        (PrivBoostRegressor, "alpha", "here it is quantile, .* no L1 penalty"),
        (SBDTRegressor, "alpha", "no L1 penalty"),
        (PrivBoostRegressor, "tweedie_variance_power", "here it is power"),
        (PrivBoostRegressor, "offset", "here it is exposure: .* a log link, is the only offset"),
        (PrivBoostClassifier, "base_margin", "here it is init_share: .* no row has one of its own"),
        (SBDTRegressor, "exposure", "PrivBoostRegressor alone takes an exposure"),
        (SBDTRegressor, "max_delta_step", "here it is leaf_clip"),
        (PrivBoostRegressor, "aft_loss_distribution_scale", "PrivBoostSurvival"),
    ],
)
def test_constructors_and_set_params(kind, name, words):
    with pytest.raises(TypeError, match=words):
        kind(**{name: 1})
    with pytest.raises(ValueError, match=f"^{kind.__name__} has no parameter '{name}'; .*{words}"):
        kind().set_params(**{name: 1})


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("eval_set", "privboost.evaluate"),
        ("early_stopping_rounds", "fixed before a row is read"),
        ("callbacks", "privboost.evaluate"),
        ("verbose", "a parameter of the estimator"),
        ("categorical_feature", "here it is domain"),
        ("init_score", "here it is init_share"),
    ],
)
def test_arguments_of_fit(name, words, tmp_path):
    ledger = tmp_path / "ledger"
    for kind in (PrivBoostClassifier, SBDTClassifier):
        model = kind(domain=make_domain(), ledger=ledger)
        with pytest.raises(TypeError, match=rf"^{kind.__name__}\.fit takes no '{name}': .*{words}"):
            model.fit(make_frame(20), **{name: 1})
    model = SBDTClassifier(domain=make_domain(), ledger=ledger)
    with pytest.raises(TypeError, match=rf"^SBDTClassifier\.partial_fit takes no '{name}'"):
        model.partial_fit(make_frame(20), **{name: 1})
    assert not ledger.exists()
    with pytest.raises(TypeError, match=r"LazyBBClassifier\.fit takes no 'sample_weight'"):
        LazyBBClassifier(domain=make_domain()).fit(make_frame(20), sample_weight="weight")
    with pytest.raises(TypeError, match="takes no 'colour': it takes X, y"):
        PrivBoostClassifier(domain=make_domain()).fit(make_frame(20), colour=1)


def test_signatures_stay_what_they_are():
    assert list(inspect.signature(PrivBoostClassifier.fit).parameters) == [
        *("self", "X", "y", "sample_weight")
    ]
    assert list(inspect.signature(LazyBBClassifier.fit).parameters) == ["self", "X", "y"]
    assert "Spends the whole budget" in SBDTClassifier.fit.__doc__


def test_candidates_of_a_search():
    estimator = PrivBoostClassifier(domain=make_domain())
    with pytest.raises(ValueError, match="here it is n_estimators"):
        PrivateSearchCV(estimator, [{"num_boost_round": 3}], 1.0, 1e-6).fit(make_frame(20))


@pytest.mark.parametrize(
    ("kind", "loss", "hint"),
    [
        (PrivBoostRegressor, "count:poisson", 'here it is loss="poisson"'),
        (PrivBoostRegressor, "reg:squarederror", 'here it is loss="squared"'),
        (PrivBoostRegressor, "regression_l1", 'here it is loss="absolute"'),
        (PrivBoostRegressor, "MAE", 'here it is loss="absolute"'),
        (PrivBoostRegressor, "Poisson", 'here it is loss="poisson"'),
        (PrivBoostRegressor, "reg:quantileerror", 'here it is loss="quantile"'),
        (PrivBoostRegressor, "reg:tweedie", 'here it is loss="tweedie"'),
        (PrivBoostRegressor, "mape", "parts of the label"),
        (PrivBoostRegressor, "huber", "gradient_clip"),
        (PrivBoostRegressor, "survival:aft", "PrivBoostSurvival"),
        (PrivBoostRegressor, "survival:cox", "partial likelihood .* PrivBoostSurvival"),
        (PrivBoostRegressor, "binary:logistic", 'loss="logistic" is for classes'),
        (SBDTClassifier, "binary:logistic", 'here it is loss="logistic"'),
        (SBDTClassifier, "poisson", 'loss="poisson" is for numbers'),
        (SBDTClassifier, "rank:pairwise", "ranking"),
    ],
)
def test_losses_of_other_libraries(kind, loss, hint, tmp_path):
    target = NUMBER if kind._task == "number" else CLASSES
    ledger = tmp_path / "ledger"
    model = kind(1.0, 1e-6, make_domain(target), loss=loss, ledger=ledger)
    with pytest.raises(ValueError, match=f"^loss: '{loss}' is not known; .*{hint}"):
        model.fit(make_frame(20, target=target))
    assert not ledger.exists()


def test_an_objective_is_answered_with_its_value():
    with pytest.raises(TypeError, match="'count:poisson' is called \"poisson"):
        PrivBoostRegressor(objective="count:poisson")
    with pytest.raises(ValueError, match='called "absolute"'):
        PrivBoostRegressor().set_params(objective="mae")
    with pytest.raises(TypeError, match="PrivBoostSurvival"):
        PrivBoostRegressor(objective="survival:aft")
    with pytest.raises(TypeError, match="here it is loss, with its own values"):
        PrivBoostRegressor(objective="colour")
    with pytest.raises(TypeError, match="the loss follows the target"):
        PrivBoostClassifier(objective="binary:logistic")


def test_each_spelling_is_of_one_loss_that_there_is():
    known = {*losses_of("classes"), *losses_of("number")}
    names = [name for names in _SPELLINGS.values() for name in names.split()]
    names += [name for names in _NO_LOSSES for name in names.split()]
    assert len(names) == len(set(names))
    assert not known & set(names)
    assert set(_SPELLINGS) <= known
    for target in ("classes", "number"):
        for loss in losses_of(target):
            assert foreign_loss_hint(loss, losses_of(target)) == ""
    assert foreign_loss_hint("colour", known) == foreign_loss_hint(None, known) == ""


def test_any_other_name_has_no_answer():
    assert foreign_name_hint("colour", ["epsilon"]) == ""
    assert foreign_name_hint(3, ["epsilon"]) == ""
    known, written = ["random_state"], {"random_state": "--seed"}
    assert foreign_name_hint("seed", known, written).startswith("here it is --seed:")
