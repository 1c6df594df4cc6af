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
from privboost.estimators.foreign_parameters import _ANSWERS, _OF_NAME, foreign_name_hint
from privboost.recipes import ESTIMATORS
from tests.tables import make_domain, make_frame

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
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
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


def test_any_other_name_has_no_answer():
    assert foreign_name_hint("colour", ["epsilon"]) == ""
    assert foreign_name_hint(3, ["epsilon"]) == ""
    known, written = ["random_state"], {"random_state": "--seed"}
    assert foreign_name_hint("seed", known, written).startswith("here it is --seed:")
