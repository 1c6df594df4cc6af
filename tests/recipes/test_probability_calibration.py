"""The line of scores against scipy, and against the truth it should find."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from privboost import PrivBoostClassifier
from privboost._core.grid import SCORE_STEPS
from privboost.recipes.common import probability_calibration
from privboost.recipes.common.probability_calibration import (
    EDGES,
    ScoreCells,
    cells_for,
    centres,
    fit_line,
    slope_error,
)
from tests.tables import CLASSES, THREE, make_domain, make_frame

SCORES = EDGES / SCORE_STEPS
MIDDLES = np.r_[-6.3, (SCORES[1:] + SCORES[:-1]) / 2, 6.3]


def counts_of(slope, shift, rows, sigma, rng, where=(-9, 9)):
    """Rows by cell and class, with noise."""
    number = np.where((where[0] < MIDDLES) & (where[1] > MIDDLES), rows, 0)
    own = rng.binomial(number, expit(slope * MIDDLES + shift))
    return np.stack([number - own, own], axis=1) + rng.normal(0, sigma, (len(MIDDLES), 2))


def by_scipy(counts, sigma):
    own, rows = counts[:, 1], np.maximum(counts.sum(axis=1), min(sigma, 1))

    def loss(line):
        chance = expit(math.exp(line[0]) * MIDDLES + line[1])
        spread = rows * chance * (1 - chance) + 2 * sigma**2
        misfit = (own - rows * chance) ** 2 / np.maximum(spread, 1e-9)
        return 2 * line[0] ** 2 + 0.5 * line[1] ** 2 + 0.5 * misfit.sum()

    starts = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1)]
    found = [minimize(loss, start, bounds=[(-2, 2)] * 2) for start in starts]
    best = min(found, key=lambda each: each.fun).x
    return math.exp(best[0]), best[1]


@pytest.mark.parametrize("sigma", [0.01, 1.0, 20.0, 300.0])
def test_the_search_finds_what_scipy_finds(sigma):
    rng = np.random.default_rng(1)
    for slope, shift in [(1.0, 0.0), (0.6, -0.5), (2.0, 1.0)]:
        counts = counts_of(slope, shift, 500, sigma, rng)
        np.testing.assert_allclose(
            fit_line(counts, sigma, MIDDLES), by_scipy(counts, sigma), atol=0.01
        )


@pytest.mark.parametrize("sigma", [0.0, 0.01, 1.0])
@pytest.mark.parametrize("where", [(-9, 0), (0, 9), (-9, 9)])
def test_scores_that_no_row_has_say_nothing(sigma, where):
    """Of nearly exact counts the line is the true one, on whichever side scores lie."""
    counts = counts_of(1.3, 0.3, 4000, sigma, np.random.default_rng(2), where)
    assert fit_line(counts, sigma, MIDDLES) == pytest.approx((1.3, 0.3), abs=0.15)


@pytest.mark.parametrize("sigma", [0.0, 1e-8, 1.0, 1e9])
def test_no_rows_and_any_noise_keep_the_line_within_its_bounds(sigma):
    rng = np.random.default_rng(3)
    for counts in (np.zeros((24, 2)), rng.normal(0, sigma, (24, 2)), np.full((24, 2), -1e12)):
        slope, shift = fit_line(counts, sigma, MIDDLES)
        assert math.exp(-2) <= slope <= math.exp(2)
        assert abs(shift) <= 2
    assert fit_line(np.zeros((24, 2)), 0.0, MIDDLES) == (1.0, 0.0)


def test_loud_noise_leaves_scores_nearly_as_they_are():
    counts = counts_of(1.0, 0.0, 10, 1e4, np.random.default_rng(4))
    assert fit_line(counts, 1e4, MIDDLES) == pytest.approx((1.0, 0.0), abs=0.9)


def test_a_line_stretches_values_and_their_doubt_alike(monkeypatch):
    def fitted(slope):
        monkeypatch.setattr(probability_calibration, "fit_line", lambda *_: (slope, 0.0))
        model = PrivBoostClassifier(domain=make_domain(), n_estimators=7, random_state=1)
        return model.fit(make_frame(100)).model_.scores

    plain, steep = fitted(1.0), fitted(3.0)
    assert any(values.any() for values in plain.values)
    for own, stretched in zip(plain.values, steep.values, strict=True):
        np.testing.assert_array_equal(stretched, 3 * own)
    for own, stretched in zip(plain.noise, steep.noise, strict=True):
        np.testing.assert_allclose(stretched, 3 * own)


@pytest.mark.parametrize("target", [CLASSES, THREE])
@pytest.mark.parametrize("rows", [0, 1, 300])
def test_public_rows_have_exact_counts_and_a_line(target, rows):
    how = {"n_estimators": 30, "public_rows": True, "random_state": 1}
    how["interactions"] = target is CLASSES  # which are many where there is no noise
    model = PrivBoostClassifier(math.inf, domain=make_domain(target), **how)
    model.fit(make_frame(rows, target=target))
    assert np.isfinite(model.predict_proba(make_frame(5, target=target))).all()


def test_cells_lie_where_their_scores_do():
    scores = np.array([-400_000_000, EDGES[0], 1000, 2000, EDGES[-1], 10**8])
    found = centres(scores)
    assert found[0] == -8
    assert found[-1] == 8
    assert found[1] == pytest.approx(-6)  # an edge begins its cell
    assert found[12] == pytest.approx(1500 / SCORE_STEPS)
    np.testing.assert_allclose(found[2:12], MIDDLES[2:12], atol=1e-4)
    np.testing.assert_allclose(centres(scores[:0]), MIDDLES, atol=1e-4)


@pytest.mark.parametrize("truth", [0.8, 2.0, 4.0])
def test_a_line_leaves_good_scores_alone_where_they_are_few(truth):
    """Two scores in the midst of nowhere: the middles of their cells would mislead."""
    domain = {
        "version": 1,
        "features": {"x": {"kind": "categorical", "categories": [0, 1]}},
        "target": {"name": "y", "classes": [0, 1]},
    }
    rng = np.random.default_rng(5)
    x = rng.integers(0, 2, 20_000)
    y = (rng.random(len(x)) < expit(truth * (x - 0.5))).astype(int)
    model = PrivBoostClassifier(8.0, domain=domain, random_state=1).fit(x[:, None], y)
    low, high = model.decision_function(np.array([[0], [1]]))
    assert high - low == pytest.approx(truth, abs=0.2)


def test_few_cells_where_noise_is_loud_and_all_where_there_is_none():
    assert cells_for(1e3, 0.0) == cells_for(1e9, 1.0) == len(EDGES) + 1
    assert cells_for(1.0, 1e3) == 4
    assert cells_for(8 * 10 * 7.0, 7.0) == 10


@pytest.mark.parametrize("spread", [0.0, 1e-4, 0.1, 1.0, 1e4])
@pytest.mark.parametrize("cells", [4, 24])
def test_cells_lie_about_the_scores_there_are(spread, cells):
    drawn = np.random.default_rng(1).normal(1.0, spread, 1024).clip(-1e4, 1e4)
    own = ScoreCells.around(np.rint(drawn * SCORE_STEPS).astype(np.int32), cells)
    assert own.edges.dtype == np.int32
    assert (np.diff(own.edges) > 0).all()
    assert len(own.at) == len(own.edges) + 1 <= cells
    assert (np.abs(own.at) <= 8).all()
    if spread in (0.1, 1.0):
        assert len(own.edges) == cells - 1
        assert abs(own.edges.mean() / SCORE_STEPS - 1.0) < 0.1 * spread
        assert abs(own.edges[-1] / SCORE_STEPS - (1.0 + 4 * spread)) < 0.3 * spread


def test_a_slope_is_found_where_all_scores_lie_close_together():
    """In cells of half a log-odd they would all be in one, and tell nothing."""
    rng = np.random.default_rng(2)
    scores = rng.normal(0.0, 0.1, 20_000)
    label = rng.random(20_000) < expit(7.0 * scores)
    state = np.rint(scores * SCORE_STEPS).astype(np.int32)
    slopes = []
    for cells in (None, 8):
        own = ScoreCells.around(state, cells)
        cell = np.searchsorted(own.edges, state, side="right")
        counts = np.stack(
            [np.bincount(cell[label == k], minlength=len(own.at)) for k in (0, 1)], axis=1
        )
        slopes.append(fit_line(counts + rng.normal(0, 20, counts.shape), 20.0, own.at)[0])
    assert abs(slopes[1] - 7.0) < abs(slopes[0] - 7.0)
    assert slopes[1] == pytest.approx(7.0, rel=0.3)


@pytest.mark.parametrize("sigma", [5.0, 20.0])
def test_the_error_of_a_slope_is_how_far_noise_moves_it(sigma):
    rng = np.random.default_rng(3)
    rows = rng.multinomial(20_000, np.exp(-(MIDDLES**2) / 8) / np.exp(-(MIDDLES**2) / 8).sum())
    chance = expit(0.8 * MIDDLES + 0.2)
    counts = np.stack([rows * (1 - chance), rows * chance], axis=1)
    told, slopes = [], []
    for _ in range(400):
        noisy = counts + rng.normal(0, sigma, counts.shape)
        line = fit_line(noisy, sigma, MIDDLES)
        told.append(slope_error(noisy, sigma, MIDDLES, line))
        slopes.append(math.log(line[0]))
    assert np.mean(told) == pytest.approx(np.std(slopes), rel=0.15)
