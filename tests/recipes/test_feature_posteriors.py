"""Whatever was released, a question's cells are a few whole spans, and every bin is in one."""

import numpy as np
import pytest

from privboost.data.encoding import Encoder
from privboost.recipes.common.feature_posteriors import BINS, Bins, moving_cells
from tests.tables import make_domain

PROFILES = {
    "even": lambda rng, size: np.full(size, 1 / size),
    "random": lambda rng, size: rng.dirichlet(np.full(size, 0.3)) + 1e-12,
    "one bin": lambda rng, size: np.eye(size)[rng.integers(size)] + 1e-12,
    "tiny": lambda rng, size: rng.random(size) * 1e-300 + 1e-305,
}


@pytest.mark.parametrize("kind", PROFILES)
@pytest.mark.parametrize("cells", [4, 7, 32])
def test_cells_of_a_number_are_neighbours(kind, cells):
    rng = np.random.default_rng(1)
    for ordered in (1, 2, 5, 63, 64):
        for alone in (1, 0):
            cell_of = moving_cells(PROFILES[kind](rng, ordered + alone), ordered, cells, rng)
            assert len(cell_of) == ordered + alone
            assert cell_of[0] == 0
            assert np.isin(np.diff(cell_of), (0, 1)).all()  # contiguous, and none is empty
            assert cell_of[ordered - 1] <= cells
            assert (np.diff(cell_of[ordered - 1 :]) == 1).all()  # missing values are apart


@pytest.mark.parametrize("kind", ["even", "random", "one bin"])
@pytest.mark.parametrize("cells", [4, 7, 32])
def test_each_category_is_in_one_cell_and_the_frequent_are_alone(kind, cells):
    rng = np.random.default_rng(2)
    for size in (1, 2, 3, 40, 65):
        profile = PROFILES[kind](rng, size)
        profile /= profile.sum()
        cell_of = moving_cells(profile, 0, cells, rng)
        counts = np.bincount(cell_of)
        assert len(cell_of) == size
        assert (counts > 0).all()
        assert (counts[cell_of[profile >= 0.7 / cells]] == 1).all()
        assert len(counts) <= 3 * cells


def test_later_questions_cut_elsewhere():
    rng = np.random.default_rng(3)
    cuts = {tuple(moving_cells(np.full(65, 1 / 65), 64, 4, rng)) for _ in range(50)}
    assert len(cuts) > 10
    between = {int(k) for cut in cuts for k in np.flatnonzero(np.diff(cut[:64]))}
    assert len(between) > 45  # nearly every pair of neighbours is parted by some question


def test_bins_are_of_numbers_or_of_categories():
    encoder = Encoder.of(make_domain())
    for feature, declared in enumerate(encoder.domain.features):
        bins = Bins.of(encoder, feature)
        number = feature < 3
        assert bins.ordered == (len(bins.learned) - 1 if number else 0)
        assert bins.learned[-1] == declared.missing
        assert bins.learned[:-1].all()
        assert bins.too_many == (declared.name == "place")
        assert np.array_equal(np.unique(bins.of_code), np.arange(len(bins.learned)))
        cell_of = moving_cells(
            np.full(len(bins.learned), 1.0), bins.ordered, 4, np.random.default_rng(0)
        )
        joined = bins.joined(cell_of)
        assert joined.features == (feature,)
        assert len(joined.parts) == 1  # a row has one cell
        assert joined.n_cells == cell_of.max() + 1


def test_the_most_frequent_of_many_categories_keep_bins_of_their_own():
    encoder = Encoder.of(make_domain())
    bins = Bins.of(encoder, 5)
    size = len(bins.learned)
    assert size == 302  # 300, "other", and missing values
    mass = np.random.default_rng(4).normal(0, 50, size)
    mass[[7, 100, 300]] = 1e4
    shared, bin_of = bins.shared(mass)
    assert not shared.too_many
    assert np.array_equal(np.unique(bin_of), np.arange(BINS + 1))
    assert bin_of[-1] == BINS  # missing values
    counts = np.bincount(bin_of)
    assert (counts[bin_of[[7, 100, 300]]] == 1).all()
    assert counts[BINS - 1] == size - BINS
    assert shared.learned[:-1].all()
    assert not shared.learned[-1]
    assert np.array_equal(shared.of_code, bin_of)
    least = mass[:-1][bin_of[:-1] < BINS - 1].min()
    assert least >= mass[:-1][bin_of[:-1] == BINS - 1].max()
