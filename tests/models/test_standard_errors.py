"""Standard errors of what a model says: shapes, sums of parts, and clear words where none are."""

import numpy as np
import pytest

from privboost import (
    BoostedAdaSSPRegressor,
    LazyBBClassifier,
    PrivBoostClassifier,
    PrivBoostRegressor,
    SBDTClassifier,
    load_model,
)
from privboost._core.grid import SCORE_STEPS
from privboost.models.interactions import InteractionScores
from tests.tables import CLASSES, NUMBER, make_domain, make_frame


def test_errors_of_scores_are_those_of_their_parts(compound):
    model, frame = compound
    scores = model.model_.scores
    assert isinstance(scores, InteractionScores)
    codes = list(model.model_.encoder.feature_codes(frame))[-1]
    total = np.zeros((scores.n_outputs, len(frame)))
    for feature, noise in enumerate(scores.noise):
        total += noise[:, codes.column(feature)] ** 2
    for pair in scores.pairs:
        first, second = (codes.column(feature) for feature in pair.features)
        own, other = pair.cell_of
        total[pair.output] += pair.noise[own[first], other[second]] ** 2
    for forest in scores.trees.forests:
        for number in range(len(forest)):
            columns = np.stack([codes.column(f) for f in range(len(scores.noise))])
            tree, leaf = forest.tree(number), np.zeros(len(frame), dtype=int)
            for _ in range(tree.depth):
                turn = tree.goes_right[leaf, columns[tree.feature[leaf], np.arange(len(frame))]]
                leaf = 2 * leaf + 1 + turn
            total += forest.noise[number][:, leaf - len(tree.feature)].astype(float) ** 2
    expected = np.sqrt(total) * scores.together[:, None]
    np.testing.assert_allclose(np.sqrt(scores.variances(codes)), expected)
    found = model.model_.decision_function(frame, return_std=True)
    assert (found[0] == model.model_.decision_function(frame)).all()
    np.testing.assert_allclose(found[1].T.reshape(expected.shape), expected / SCORE_STEPS)


def test_predictions_come_with_errors(compound):
    model, frame = compound
    scores, errors = model.model_.decision_function(frame, return_std=True)
    assert (errors > 0).all()
    if isinstance(model, PrivBoostRegressor):
        predicted, std = model.predict(frame, return_std=True)
        assert (predicted == model.predict(frame)).all()
        np.testing.assert_allclose(std, errors * 5)  # half of the bounds' width
        return
    chances, std = model.predict_proba(frame, return_std=True)
    assert (chances == model.predict_proba(frame)).all()
    step = 1e-5
    moved = np.zeros_like(chances)
    for output in range(scores.ndim and (scores.shape[1] if scores.ndim > 1 else 1)):
        shift = np.zeros_like(scores)
        shift[(..., output) if scores.ndim > 1 else ...] = step
        slope = (model.model_.probabilities_of(scores + shift) - chances) / step
        own = errors[:, output] if scores.ndim > 1 else errors
        moved += (slope * own[:, None]) ** 2
    np.testing.assert_allclose(std, np.sqrt(moved), rtol=1e-3, atol=1e-8)
    with pytest.raises(AttributeError, match="predict_proba"):
        model.model_.predict(frame, return_std=True)


def test_tables_tell_effects_and_errors(compound):
    model, _ = compound
    several = ["class"] if model.model_.scores.n_outputs > 1 else []
    effects, pairs = model.model_.effects(), model.model_.pairs()
    assert effects.column_names == ["feature", "values", "effect", "std", *several]
    names = ["feature", "values", "other feature", "other values", "effect", "std", *several]
    assert pairs.column_names == names
    unit = (5 if isinstance(model, PrivBoostRegressor) else 1) / SCORE_STEPS
    first = effects.to_pylist()[0]
    assert first["effect"] == pytest.approx(model.model_.scores.values[0][0, 0] * unit)
    assert first["std"] == pytest.approx(model.model_.scores.noise[0][0, 0] * unit)
    held = [np.unique(pair.cell_of[0]).size * np.unique(pair.cell_of[1]).size
            for pair in model.model_.scores.pairs]  # fmt: skip
    assert pairs.num_rows == sum(held)
    assert all(line["std"] >= 0 and line["values"] for line in pairs.to_pylist())


def test_importances_have_errors(compound, tmp_path):
    model, _ = compound
    shares, errors = model.model_.feature_importances(return_std=True)
    assert (shares == model.feature_importances_).all()
    assert errors.shape == shares.shape
    assert (errors >= 0).all()
    assert errors.any()
    model.save(tmp_path / "model")
    assert (load_model(tmp_path / "model").scores.importance_errors() == errors).all()


def test_an_additive_model_has_no_pairs_but_says_so_in_a_table():
    model = PrivBoostClassifier(domain=make_domain(), interactions=False, random_state=1)
    pairs = model.fit(make_frame(100)).model_.pairs()
    assert pairs.num_rows == 0
    assert "std" in pairs.column_names


@pytest.mark.parametrize("kind", [SBDTClassifier, LazyBBClassifier, BoostedAdaSSPRegressor])
def test_other_recipes_say_that_they_have_none(kind):
    target = NUMBER if kind is BoostedAdaSSPRegressor else CLASSES
    model = kind(1.0, domain=make_domain(target), random_state=1).fit(make_frame(60, target=target))
    frame = make_frame(5, target=target)
    for ask in (
        lambda: model.model_.decision_function(frame, return_std=True),
        lambda: model.model_.feature_importances(return_std=True),
        model.model_.pairs,
    ):
        with pytest.raises(AttributeError, match=r"standard errors|pairs|feature_importances"):
            ask()
    if target is CLASSES:
        with pytest.raises(AttributeError, match="standard errors"):
            model.decision_function(frame, return_std=True)
    else:
        with pytest.raises(AttributeError, match="standard errors"):
            model.predict(frame, return_std=True)
