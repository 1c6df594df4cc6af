"""The mean of a number: what residuals are released, what follows from them, and what it buys."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from privboost import (
    BoostedAdaSSPRegressor,
    Domain,
    DPXGBRegressor,
    FitWarning,
    ModelFileError,
    PrivBoostRegressor,
    SarusXGBRegressor,
    SBDTRegressor,
    load_model,
)
from privboost._core.grid import CLIP_STEPS, SCORE_STEPS
from privboost.data.encoding import Encoder
from privboost.data.rows import initial_states
from privboost.engine.backend import LocalBackend
from privboost.engine.updates import AddCellValues, SetClippingRange, Start
from privboost.losses.squared import SQUARED_NUMBER
from privboost.models.model import model_bytes, read_model
from privboost.recipes.common.corrections import Residuals, fit_correction, release_residuals
from privboost.recipes.common.label_counts import LabelCounts
from privboost.recipes.common.plan import Budget
from privboost.recipes.common.target_range import TargetRange, with_tails
from privboost.trees.cell_map import CellMap
from tests.tables import encode_training

REGRESSORS = [
    PrivBoostRegressor,
    SBDTRegressor,
    DPXGBRegressor,
    SarusXGBRegressor,
    BoostedAdaSSPRegressor,
]
WHAT = "labels less predictions, and rows, by prediction"


def counts_of(rows=6000, seed=3):
    """Counts of rare events, most of them 0: between mean and median lies most of the mean."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.random((rows, 2)), columns=["a", "b"])
    return frame.assign(y=rng.poisson(np.exp(frame["a"] - 1.5)).astype(float))


def domain_of(bounds=(0, 10)):
    features = {name: {"kind": "numeric", "bounds": [0, 1]} for name in "ab"}
    target = {"name": "y", "bounds": list(bounds)}
    return Domain.from_dict({"version": 1, "features": features, "target": target})


def settings(kind):
    return {"domain": domain_of()} | ({} if kind is SarusXGBRegressor else {"delta": 1e-6})


class Noiseless:
    """A curator that returns exact sums, of rows that nobody protects."""

    def __init__(self, blocks):
        self.backend = LocalBackend(blocks)

    def sums(self, query, event):
        return self.backend.sum(query).astype(float)

    def publish(self, update):
        self.backend.apply(update)


def test_released_residuals_are_those_of_bounded_predictions():
    plan = PrivBoostRegressor(1.0, 1e-6, domain_of())._plan(
        Encoder.of(domain_of()), None, Budget(1.0, 1e-6)
    )
    blocks = encode_training(plan.encoder, counts_of(500)).blocks
    curator = Noiseless(blocks)
    curator.publish(SetClippingRange(-(2**30), 0))  # labels from 0 to 5
    curator.publish(Start(SQUARED_NUMBER.table(1.0, 1.0)))
    cells = CellMap.of_feature(0, np.arange(plan.encoder.layout.n_codes[0]))
    rng = np.random.default_rng(1)
    values = rng.integers(-2 * SCORE_STEPS, 2 * SCORE_STEPS, cells.n_cells).astype(np.int32)
    curator.publish(AddCellValues(cells, values))
    found = release_residuals(curator, plan, plan.calibration_release, np.sort(values), 1e9)
    label = -np.concatenate([initial_states(b.minus_label, (-(2**30), 0)) for b in blocks])
    score = np.concatenate([values[b.column(0)] for b in blocks])
    kept = np.clip(score, -SCORE_STEPS, SCORE_STEPS)
    cell = np.searchsorted(np.rint(found.edges * SCORE_STEPS), kept, side="right")
    assert len(found.rows) == 12
    np.testing.assert_array_equal(found.rows, np.bincount(cell, minlength=12))
    exact = np.bincount(cell, (label - kept) / SCORE_STEPS, minlength=12)
    np.testing.assert_allclose(found.total, exact, atol=500 * 2**-10)  # columns of the table


def residuals(noise, slope=1.0, shift=0.0, rows=10_000.0):
    """Residuals of evenly spread predictions whose labels are a line of them."""
    scores = np.linspace(-0.5, 0.5, 400)
    edges = np.array([-0.25, 0.0, 0.25])
    cell = np.searchsorted(edges, scores, side="right")
    moved = (slope - 1) * scores + shift
    total = np.bincount(cell, moved) * rows / len(scores)
    typical = np.rint(scores * SCORE_STEPS).astype(np.int32)
    return Residuals(edges, total, np.full(4, rows / 4), noise), typical


def test_a_planted_line_is_found_and_noise_hides_it():
    released, typical = residuals(1.0, slope=1.3, shift=0.1)
    slope, shift = fit_correction(released, typical, bias=0.1).line
    assert slope == pytest.approx(1.3, abs=0.03)
    assert shift == pytest.approx(0.1, abs=0.01)
    released, typical = residuals(1e6, slope=1.3, shift=0.1)
    slope, shift = fit_correction(released, typical, bias=0.1).line
    assert slope == pytest.approx(1.0, abs=0.01)
    assert abs(shift) < 0.01


def test_one_cell_moves_the_mean_alone():
    """Bounded predictions count: a shift that bounds swallow is made up for."""
    typical = np.array([-1, -1, 0, 1] * 50, dtype=np.int32) * SCORE_STEPS
    released = Residuals(np.empty(0), np.array([20.0]), np.array([200.0]), 0.01)
    slope, shift = fit_correction(released, typical, bias=1.0).line
    assert slope == 1.0
    scores = typical / SCORE_STEPS
    moved = np.clip(scores + shift, -1, 1).mean() - scores.mean()
    assert moved == pytest.approx(0.1, abs=1e-3)


@pytest.mark.parametrize("kind", REGRESSORS)
def test_means_of_rare_counts_are_right_and_would_not_be(kind):
    """Without the last release the same regressors predict too little."""
    train, test = counts_of(), counts_of(seed=4)
    ratios = {}
    for share in (None, 0):
        fits = [
            kind(1.0, random_state=seed, calibration_share=share, **settings(kind)).fit(train)
            for seed in range(5)
        ]
        ratios[share] = np.mean([fit.predict(test).mean() for fit in fits]) / test["y"].mean()
    assert 0.9 < ratios[None] < 1.1
    assert abs(ratios[None] - 1) < abs(ratios[0] - 1)


@pytest.mark.parametrize("kind", REGRESSORS)
def test_the_release_is_planned_reported_and_can_be_left_out(kind):
    train = counts_of(300)
    fit = kind(1.0, random_state=1, n_estimators=3, **settings(kind)).fit(train)
    released = [each["what"] for each in fit.privacy_.to_dict()["releases"]]
    assert released.count(WHAT) == 1
    assert fit.privacy_.epsilon <= 1.0
    without = kind(1.0, random_state=1, n_estimators=3, calibration_share=0, **settings(kind))
    assert WHAT not in str(without.fit(train).privacy_.to_dict())
    for preset in getattr(kind, "_presets", {}).values():
        assert preset["calibration_share"] == 0


def test_findings_compare_the_means_and_say_what_noise_hides(tmp_path):
    """Released values alone: a loaded model says the same."""
    moved = PrivBoostRegressor(
        3.0, random_state=1, gradient_clip=0.3, interactions=False, **settings(PrivBoostRegressor)
    ).fit(counts_of())
    label, _, before, after, clipped = moved.model_.scores.mean
    low, high = moved.model_.bounds
    mean = low + (label + 1) * (high - low) / 2
    assert mean == pytest.approx(counts_of()["y"].mean(), rel=0.1)
    assert before < after == pytest.approx(label, abs=0.02)
    assert 0.05 < clipped <= 1
    found = {each.kind: each.text for each in moved.model_.findings()}
    assert "the last release corrected it" in found["moved mean"]
    moved.save(tmp_path / "model")
    assert load_model(tmp_path / "model").findings() == moved.model_.findings()

    few = PrivBoostRegressor(0.1, random_state=1, **settings(PrivBoostRegressor))
    with pytest.warns(FitWarning, match="uncertain mean"):
        few.fit(counts_of(3000))
    assert "more rows or a larger epsilon" in str(few.model_.findings())


@pytest.mark.parametrize("forged", [np.zeros(4), np.full(5, np.nan), np.array([0, -1.0, 0, 0, 0])])
def test_forged_means_are_refused(forged):
    fit = PrivBoostRegressor(1.0, random_state=1, n_estimators=2, **settings(PrivBoostRegressor))
    model = fit.fit(counts_of(300)).model_
    with pytest.raises(ModelFileError, match=r"scores\.mean"):
        read_model(model_bytes(replace(model, scores=model.scores.with_mean(forged))), "file")


def labels(counts, noise):
    """Counts of labels in 25 cells of a narrow range, and of doubling width beyond it."""
    inner = np.linspace(-1, -0.98, 26)
    width = 0.02 * (2.0 ** np.arange(1, 7) - 1)
    edges = np.concatenate([inner, -0.98 + width, [1.0]])
    counted = np.array(counts, dtype=float)
    return LabelCounts(edges, counted, noise, counted / noise if noise else counted)


def test_ranges_reach_to_tails_that_hold_much_of_the_mean():
    tail = [900, 500, 270, 150, 70, 30, 10]
    narrow = with_tails(labels([400] * 25 + [0] * 7, 20.0), -1.0, -0.98)
    wide = with_tails(labels([400] * 25 + tail, 20.0), -1.0, -0.98)
    hidden = with_tails(labels([400] * 25 + [0] * 7, 1e5), -1.0, -0.98)
    assert narrow == hidden == (-1.0, -0.98)
    assert wide[0] == -1.0
    assert wide[1] > -0.5
    exact = with_tails(labels([400] * 25 + [0, 0, 1, 0, 0, 0, 0], 0.0), -1.0, -0.98)
    assert exact[1] == pytest.approx(-0.98 + 0.02 * 7)  # the end of the cell that has a row


def test_residuals_of_labels_follow_clear_counts():
    counts = [400] * 25 + [0] * 7
    found, rows = TargetRange(-(2**30), 2**30, labels(counts, 1.0)).residuals()
    assert rows.sum() == pytest.approx(25 * 398.5)
    assert abs(found @ rows) < 1e-6 * rows.sum()
    assert not len(TargetRange(-(2**30), 2**30, None).residuals()[0])


def test_no_entry_of_the_table_exceeds_a_clip():
    """A residual of the whole range is one clip; with half the clip, rows would be undercharged."""
    table = SQUARED_NUMBER.table(2.0, 1.0)
    assert np.abs(table.gradient).max() <= CLIP_STEPS
    edges = np.array([0, table.size - 1])
    assert (np.abs(table.gradient[0, edges]) > 0.99 * CLIP_STEPS).all()
