"""One form for every recipe: what is said of a model adds up to what it predicts."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import privboost
from privboost import BoostedAdaSSPClassifier, Domain, SBDTClassifier
from privboost.explanations.terms import Finding
from privboost.models.model import model_bytes, read_model
from privboost.recipes import RECIPES
from tests.explanations.conftest import CASES
from tests.tables import make_domain


def scores_of(estimator, frame):
    """Raw scores; of a number, predictions that are not clipped."""
    middle, half = estimator.model_.middle_and_half
    return middle + half * estimator.model_.decision_function(frame)


def test_every_recipe_is_here():
    kinds = {name for name, _, _ in CASES.values()}
    for recipe in RECIPES.values():
        for name in recipe.estimators.values():
            assert hasattr(getattr(privboost, name), "explain_global")
        assert kinds & set(recipe.estimators.values()), recipe.title


def test_contributions_add_up_to_the_score(fitted):
    estimator, frame, _, local = fitted
    scores = scores_of(estimator, frame)
    np.testing.assert_allclose(local.scores, scores, rtol=1e-12, atol=1e-12)
    several = scores.ndim > 1
    assert local.contributions.shape[:2] == (len(frame), len(local.terms))
    assert local.shap_values.shape[:2] == (len(frame), len(local.features))
    assert local.contributions.ndim == local.shap_values.ndim == 2 + several
    level = local.baseline if several else local.baseline[0]
    np.testing.assert_allclose(level + local.shap_values.sum(axis=1), scores, rtol=1e-9, atol=1e-9)


def test_shapes_hold_numbers_that_say_what_rows_are_given(fitted):
    """Each value of each row is looked up in the shape by its number or name."""
    _, frame, explanation, local = fitted
    outputs = len(explanation.start)
    added = local.contributions.reshape(len(frame), len(local.terms), outputs)
    for shape in explanation.shapes:
        spans, output = shape.spans, local.output(shape.of)
        own = added[:, local.features.index(spans.feature), output]
        for value, contribution in zip(frame[spans.feature], own, strict=True):
            assert shape.effects[place_of(value, spans)] == pytest.approx(contribution, abs=1e-9)
        assert len(shape.effects) == len(spans)
        for beside in (shape.stds, shape.masses):
            assert beside is None or len(beside) == len(spans)
        assert shape.stds is None or min(shape.stds) >= 0


def place_of(value, spans):
    if spans.edges is not None:
        assert len(spans.edges) == len(spans)
        assert (np.diff(spans.edges) > 0).all()
        number = float(value)
        within = np.searchsorted(spans.edges[1:-1], number)
        return len(spans) - 1 if np.isnan(number) else int(within)
    if value is None or value != value:
        return len(spans) - 1
    names = list(spans.words[:-2])
    name = str(value) if isinstance(value, str) else f"{value:g}"
    return names.index(name) if name in names else len(spans) - 2


@pytest.mark.parametrize(
    "fitted", ["privboost", "privboost three", "privboost number", "sbdt", "lazybb"], indirect=True
)
def test_shapes_and_pairs_add_nothing_on_average(fitted):
    """Levels stand in the start, as far as masses tell; a vote has whole votes."""
    model, own = fitted.estimator.model_, fitted.explanation
    raw, outputs = model.scores.parts(), len(own.start)
    step = model.middle_and_half[1] / 2**16
    if own.weights == "even":
        assert own.start == pytest.approx(raw.start * step)
        return
    chances = model.scores.code_probabilities()
    added = fitted.local.contributions.reshape(len(fitted.frame), -1, outputs)
    for k, table in enumerate(raw.tables):
        code = int(fitted.local.codes[0, k])
        moved = added[0, k] - table[:, code] * step
        np.testing.assert_allclose(moved, -(table @ chances[k]) * step, atol=step)
    if not raw.trees:
        np.testing.assert_allclose(own.start, fitted.local.baseline, atol=99 * step)
    for pair in raw.centred(chances).pairs:
        assert np.abs(pair.mean(chances)).max() <= 0.5


def test_features_without_a_shape_add_nothing_alone(fitted):
    _, _, explanation, local = fitted
    shown = {shape.spans.feature for shape in explanation.shapes}
    for place, feature in enumerate(local.features):
        if feature not in shown:
            assert not local.contributions[:, place].any()


def test_a_loaded_model_says_the_same(fitted):
    estimator, frame, explanation, own = fitted
    again = read_model(model_bytes(estimator.model_), "file")
    assert again.explain_global() == explanation
    other = again.explain_local(frame)
    assert own.to_dict() == other.to_dict()
    assert own.to_text(1) == other.to_text(1)


def test_forms(fitted):
    estimator, _, explanation, local = fitted
    form = json.loads(json.dumps(explanation.to_dict(), allow_nan=False))
    assert form == json.loads(explanation.to_json())
    assert len(form["shapes"]) == len(explanation.shapes)
    parts = (*explanation.shapes, *explanation.pairs, *explanation.trees)
    assert all(part.to_text().startswith(part.name) for part in parts)
    text = explanation.to_text()
    assert text == str(explanation)
    assert len(text.splitlines()) < 400
    assert all(feature in text for feature in estimator.domain_.feature_names)
    assert "<table>" in explanation._repr_html_()
    assert json.loads(json.dumps(local.to_dict(), allow_nan=False))["terms"] == list(local.terms)
    assert len(local.to_text().splitlines()) == 2 + len(local.features)


def test_trees_end_in_what_rows_are_given(fitted):
    """Every leaf of a tree that a row can reach is in its card, once."""
    estimator, _, explanation, _ = fitted
    step = estimator.model_.middle_and_half[1] / 2**16
    scores = estimator.model_.scores
    trees = {tree.number + 1: tree for tree in scores.parts().trees}
    for card in explanation.trees:
        outputs = len(scores.start)
        output = list(map(str, estimator.classes_)).index(card.of) if outputs > 1 else 0
        said = sorted(leaves_of(card.root))
        held = (trees[card.number].values[output] * step).tolist()
        assert {round(leaf, 9) for leaf in said} <= {round(leaf, 9) for leaf in held}
        assert len(said) <= len(held)


def leaves_of(node):
    if not hasattr(node, "below"):
        return [node.effect]
    return [leaf for below in node.below for leaf in leaves_of(below)]


def test_importances_are_shares(fitted):
    estimator, own = fitted.estimator, fitted.explanation.importance
    assert sum(own.shares) == pytest.approx(1)
    assert min(own.shares) >= 0
    if own.noise_removed:
        np.testing.assert_array_equal(own.shares, estimator.feature_importances_)
    assert own.features[own.ranked[0]] == "age"  # the label depends on it


def test_every_model_has_a_text(fitted):
    assert fitted.estimator.model_.to_text()


def test_no_rows_are_explained(fitted):
    local = fitted.estimator.explain_local(fitted.frame[:0])
    assert len(local) == 0
    assert local.contributions.shape[:2] == (0, len(local.terms))
    assert local.scores.shape[0] == 0


@pytest.mark.parametrize("fitted", ["lazybb", "sarus means", "sarus"], indirect=True)
def test_where_nothing_was_released_weights_are_even(fitted):
    estimator, _, explanation, local = fitted
    known = estimator.model_.scores.forests[0].mass is not None
    assert explanation.weights == ("released" if known else "even")
    assert explanation.importance.noise_removed == known
    assert local.weights == explanation.weights


@pytest.mark.parametrize("fitted", ["lazybb three"], indirect=True)
def test_a_vote_has_its_card(fitted):
    estimator, _, explanation, _ = fitted
    assert explanation.scored_in == "votes"
    lines = estimator.model_.explain().to_pylist()
    assert [rule.votes for rule in explanation.votes.rules] == [line["votes"] for line in lines]
    assert all(shape.stds is None for shape in explanation.shapes)


@pytest.mark.parametrize(
    "fitted", ["adassp number", "adassp without a line", "adassp products"], indirect=True
)
def test_coefficients_have_the_errors_of_their_shapes(fitted):
    """A number's band is its coefficient's error times how far it lies from the middle."""
    estimator, _, explanation, _ = fitted
    table = estimator.model_.coefficients().to_pylist()
    lines = explanation.coefficients.lines
    assert [line.coefficient for line in lines] == [line["coefficient"] for line in table]
    intercept, age = lines[0], lines[1]
    assert (intercept.std, age.feature) == (None, "age")
    shape = explanation.shape("age")
    first = (shape.spans.edges[0] + shape.spans.edges[1]) / 2  # the number a bin stands for
    middle = (17 + 90) / 2
    assert shape.stds[0] == pytest.approx(age.std * (middle - first), rel=1e-3)


@pytest.mark.parametrize("fitted", ["adassp products", "adassp three"], indirect=True)
def test_files_that_do_not_know_their_line_tell_no_errors(fitted):
    """Earlier versions kept what noise gives to coefficients before they were put on a line."""
    model = fitted.estimator.model_
    earlier = replace(model, scores=replace(model.scores, noise=model.scores.noise[0]))
    explanation = read_model(model_bytes(earlier), "file").explain_global()
    assert all(line.std is None for line in explanation.coefficients.lines)
    assert all(shape.stds is None for shape in explanation.shapes)


@pytest.mark.parametrize("fitted", ["sbdt three, joint"], indirect=True)
def test_classes_are_named_and_unknown_ones_refused(fitted):
    local = fitted.local
    assert local.classes == ("high", "low", "mid")
    assert local.to_text(0, "mid").startswith("mid: log-odds")
    with pytest.raises(KeyError):
        local.to_text(0, "never")
    with pytest.raises(KeyError):
        fitted.explanation.shape("nothing")


@pytest.mark.parametrize("fitted", ["lazybb"], indirect=True)
def test_rows_of_a_cluster_are_refused(fitted, monkeypatch):
    monkeypatch.setattr("privboost.models.model.is_remote", lambda data: True)
    with pytest.raises(ValueError, match="rows of a cluster"):
        fitted.estimator.explain_local(fitted.frame)


def test_an_estimator_must_be_fitted():
    with pytest.raises(NotFittedError):
        SBDTClassifier(1.0, domain=make_domain()).explain_global()
    with pytest.raises(NotFittedError):
        SBDTClassifier(1.0, domain=make_domain()).explain_local([])


@pytest.mark.parametrize("fitted", ["privboost", "privboost number", "lazybb"], indirect=True)
def test_the_text_does_not_sell_noise(fitted):
    """Extremes have errors, silence has no extremes, and shares with noise in them say so."""
    own = fitted.explanation
    lines = own.to_text().splitlines()
    said = any("noise is not taken off" in line for line in lines)
    assert said == (not own.importance.noise_removed)
    head = f"{own.target}: {own.scored_in}" if own.classes else own.scored_in
    assert lines[0].startswith(f"{head} at the start: ")
    if own.votes is not None:
        return
    first = own.importance.features[0]
    quiet = replace(own.importance, shares=(0.0, *own.importance.shares[1:]))
    shapes = replace(own, importance=quiet).to_text().partition("\nshapes\n")[2]
    assert f"  {first}  " not in shapes
    assert all(line.count(" ± ") == 2 for line in shapes.splitlines() if " to " in line)
    assert "shapes without signal" in shapes
    clear = [pair for pair in own.pairs if pair.strength >= 3]
    assert replace(own, findings=()).to_text().count(" × ") == len(clear[:20])
    loud = replace(own, findings=(Finding("wasted share", "pairs do not stand out"),))
    assert not loud.to_text().count(" × ")


@pytest.mark.parametrize("fitted", ["privboost", "privboost three"], indirect=True)
def test_rows_are_told_by_their_own_values(fitted):
    frame, local = fitted.frame, fitted.local
    table = local.to_table().to_pylist()
    outputs = len(local.start)
    assert len(table) == local.shap_values.size
    assert [line["shap_value"] for line in table] == local.shap_values.reshape(-1).tolist()
    assert ("class" in table[0]) == (outputs > 1)
    for line in table[:: 7 * outputs]:
        value = frame[line["feature"]].iloc[line["row"]]
        if line["feature"] == "age" and value == value:
            assert line["value"] == f"{min(max(value, 17), 90):.6g}"
    assert f"age = {table[0]['value']}" in local.to_text(0)
    with pytest.raises(IndexError, match="40 rows were explained"):
        local.to_text(40)


@pytest.mark.parametrize("fitted", ["privboost"], indirect=True)
def test_unknown_features_are_refused_with_a_hint(fitted):
    with pytest.raises(KeyError, match="did you mean 'age'"):
        fitted.explanation.shape("Agge")


def test_coefficients_have_units():
    features = {
        "day": {"kind": "date", "bounds": ["2024-01-01", "2024-12-31"]},
        "pain": {"kind": "ordinal", "categories": ["none", "mild", "severe"]},
        "fit": {"kind": "boolean"},
        "stay": {"kind": "duration", "bounds": [0, 1000]},
        "age": {"kind": "numeric", "bounds": [0, 100]},
    }
    target = {"name": "y", "classes": [0, 1]}
    domain = Domain.from_dict({"version": 1, "features": features, "target": target})
    row = {"day": "2024-02-03", "pain": "mild", "fit": True, "stay": 9, "age": 30, "y": 1}
    model = BoostedAdaSSPClassifier(5.0, domain=domain, random_state=1).fit(pd.DataFrame([row]))
    units = {line.feature: line.per for line in model.explain_global().coefficients.lines}
    assert units.pop("(intercept)") == ""
    assert [*units.values()] == ["per day", "per rank", "is true", "per second", "per 1"]
    for text in (str(model.explain_global()), model.model_.to_text()):
        assert "pain per rank" in text
    assert "the (intercept) where all are 0" in str(model.explain_global())
