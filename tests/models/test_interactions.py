"""Compound models: the sum of their parts, in files as in memory."""

import numpy as np
import pytest

from privboost import PrivBoostClassifier, load_model
from privboost.models import trees
from privboost.models.additive import AdditiveScores
from privboost.models.interactions import InteractionScores
from privboost.models.model import model_bytes
from tests.tables import make_domain, make_frame


def test_scores_are_the_sum_of_effects_pairs_and_trees(compound):
    model, frame = compound
    scores = model.model_.scores
    assert isinstance(scores, InteractionScores)
    assert scores.pairs
    assert scores.trees.n_trees
    codes = list(model.model_.encoder.feature_codes(frame))[-1]
    total = AdditiveScores.scores(scores, codes).astype(np.int64)
    for pair in scores.pairs:
        first, second = (codes.column(feature) for feature in pair.features)
        own, other = pair.cell_of
        total[pair.output] += pair.values[own[first], other[second]]
    total += scores.trees.scores(codes)
    assert (scores.scores(codes) == total).all()
    assert (np.abs(total).max(axis=1) <= scores.largest).all()


def test_a_file_keeps_it_bit_by_bit(compound, tmp_path):
    model, frame = compound
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert model_bytes(again) == model_bytes(model.model_)
    assert (again.decision_function(frame) == model.model_.decision_function(frame)).all()
    assert (again.feature_importances() == model.feature_importances_).all()


def test_values_cannot_be_changed(compound):
    scores = compound[0].model_.scores
    for own in (scores.values[0], scores.pairs[0].values, scores.trees.forests[0].values):
        with pytest.raises(ValueError, match="read-only"):
            own[:] = 0


def test_it_explains_itself(compound):
    model, _ = compound
    shares = model.feature_importances_
    assert shares.sum() == pytest.approx(1)
    assert set(model.model_.effects()["feature"].to_pylist()) == set(
        model.model_.domain.feature_names
    )


def test_a_line_stretches_all_parts(compound):
    model, frame = compound
    scores = model.model_.scores
    codes = list(model.model_.encoder.feature_codes(frame))[-1]
    lines = np.tile([0.5, 0.25], (scores.n_outputs, 1))
    parts = len(scores.pairs) + scores.trees.n_trees + len(scores.values) + 1
    moved = scores.with_calibration(lines).scores(codes)
    np.testing.assert_allclose(moved, 0.5 * scores.scores(codes) + 0.25 * 2**16, atol=parts)
    steep = scores.with_calibration(np.tile([1e9, 0.0], (scores.n_outputs, 1)))
    assert steep.largest.max() < 2**30 + 1e6


@pytest.mark.parametrize("held", [1, 2**18])
def test_other_codes_change_scores_as_importances_say(compound, held, monkeypatch):
    """Whether changes are looked at feature by feature, or all at once."""
    monkeypatch.setattr(trees, "_CHANGES", held)
    model, frame = compound
    scores = model.model_.scores
    codes = list(model.model_.encoder.feature_codes(frame))[-1]
    rows = np.stack([codes.column(f) for f in range(len(scores.values))]).astype(np.uint16)
    others = np.roll(rows, 1, axis=1)
    for feature, change, doubt in scores.changes(rows, others):
        moved = codes.take(np.arange(len(codes)))
        moved.column(feature)[:] = others[feature]
        assert (change == scores.scores(moved) - scores.scores(codes)).all()
        assert (doubt >= 0).all()


def test_without_interactions_it_is_additive():
    model = PrivBoostClassifier(3e3, 1e-6, make_domain(), interactions=False, random_state=1)
    assert isinstance(model.fit(make_frame(400)).model_.scores, AdditiveScores)
