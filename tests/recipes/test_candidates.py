import numpy as np
import pytest

from privboost import Domain
from privboost.data.encoding import Encoder
from privboost.recipes.common.candidates import (
    HessianThresholds,
    RandomTrees,
    even_thresholds,
    merge_and_divide,
)
from tests.tables import make_domain

ENCODER = Encoder.of(make_domain())
NUMBERS, CATEGORIES = (0, 1, 2), (3, 4, 5)


def trees(features, count=300, category_splits="one", depth=4, thresholds=None):
    rng = np.random.default_rng(1)
    draws = RandomTrees(ENCODER, depth, features, category_splits, rng)
    thresholds = thresholds or even_thresholds(ENCODER, 8)
    return [draws.draw(k, thresholds) for k in range(count)]


def test_features_are_cyclical_uniform_or_few():
    for k, tree in enumerate(trees("cyclical", 20)):
        assert set(tree.feature) == {k % 6}
    counts = np.bincount(np.concatenate([tree.feature for tree in trees("uniform")]), minlength=6)
    np.testing.assert_allclose(counts / counts.sum(), 1 / 6, atol=0.02)
    few = [set(tree.feature) for tree in trees(2)]
    assert max(map(len, few)) == 2
    assert len(set(map(frozenset, few))) > 10


def test_numbers_split_at_candidates_each_as_often():
    thresholds = even_thresholds(ENCODER, 8)
    seen = []
    for tree in trees("uniform", thresholds=thresholds):
        for feature, turns in zip(tree.feature, tree.goes_right, strict=True):
            if feature == 0:
                values = turns[: ENCODER.layout.n_codes[0] - 1]
                assert (np.diff(values.astype(int)) >= 0).all()
                seen.append(int(values.argmax()) - 1)
    assert set(seen) == set(thresholds.own(0).tolist())
    counts = np.bincount(seen)[thresholds.own(0)]
    assert counts.min() > 0.5 * counts.mean()


def test_missing_values_go_either_way():
    codes = ENCODER.layout.n_codes[0]
    turns = [
        t[codes - 1] for tree in trees("cyclical") if tree.feature[0] == 0 for t in tree.goes_right
    ]
    assert 0.4 < np.mean(turns) < 0.6


@pytest.mark.parametrize("category_splits", ["one", "subset"])
def test_categories_split_by_one_or_by_half(category_splits):
    codes = ENCODER.layout.n_codes[5]  # 300 categories, other, missing
    lines = [
        turns[: codes - 1]
        for tree in trees("cyclical", 60, category_splits)
        if tree.feature[0] == 5
        for turns in tree.goes_right
    ]
    ones = np.array(lines).sum(axis=1)
    if category_splits == "one":
        assert (ones == 1).all()
        assert len({int(line.argmax()) for line in lines}) > 50
    else:
        assert (np.abs(ones / (codes - 1) - 0.5) < 0.15).all()


def test_even_thresholds():
    even = even_thresholds(ENCODER, 31)
    np.testing.assert_array_equal(even.own(0), np.arange(1, 32) * 6 - 1)  # 32 of 192 bins
    assert even.own(2).tolist() == [0, 1, 2, 3]  # all there are
    assert (even.count[list(CATEGORIES)] == -1).all()
    assert len(even_thresholds(ENCODER, None).own(0)) == 191
    assert len(even_thresholds(ENCODER, 1).own(0)) == 1


def test_a_feature_of_one_category_is_drawn_too():
    domain = make_domain().to_dict()
    domain["features"] = {"x": {"kind": "categorical", "categories": ["only"]}}
    encoder = Encoder.of(Domain.from_dict(domain))
    draws = RandomTrees(encoder, 2, "cyclical", "one", np.random.default_rng(0))
    tree = draws.draw(0, even_thresholds(encoder, 8))
    assert tree.goes_right.shape == (3, 3)  # the category, other, missing


def test_hessian_thresholds_move_to_where_the_mass_is():
    refined = HessianThresholds(ENCODER, 16)
    assert refined.features == NUMBERS
    mass = np.zeros(192)
    mass[100:110] = 1000.0  # all of "age" lies in ten fine bins
    for _ in range(4):
        cells = refined.cells()
        sums = np.zeros(cells.n_cells)
        np.add.at(sums, cells.by_feature()[0][:192], mass)
        refined.refine(sums)
    own = refined.thresholds.own(0)
    assert ((own >= 99) & (own <= 110)).mean() > 0.5
    assert own.min() < 99  # a tenth stays even
    assert own.max() > 109
    assert len(own) <= 16


def test_wide_tables_have_cells_of_their_own():
    """Beyond 2¹⁶ cells, too: a row that met one cell twice would be undercharged."""
    numbers = {f"x{k}": {"kind": "numeric", "bounds": [0, 1]} for k in range(700)}
    form = {"version": 1, "features": numbers, "target": {"name": "y", "classes": [0, 1]}}
    cells = HessianThresholds(Encoder.of(Domain.from_dict(form)), 191).cells()
    met = np.concatenate(list(cells.by_feature().values()))
    assert len(np.unique(met)) == len(met) == cells.n_cells > 2**16


def test_hessian_thresholds_survive_pure_noise():
    refined = HessianThresholds(ENCODER, 16)
    rng = np.random.default_rng(0)
    for _ in range(5):
        refined.refine(-np.abs(rng.normal(size=refined.cells().n_cells)))
    np.testing.assert_allclose(
        refined.thresholds.own(0), even_thresholds(ENCODER, 16).own(0), atol=2
    )


def test_merging_keeps_thresholds_where_the_mass_is_and_divides_what_is_left():
    codes = np.array([9, 19, 29, 39, 49, 59, 69, 79])
    even = merge_and_divide(codes, np.full(9, 10.0), 9.0, 8)
    np.testing.assert_array_equal(even, codes)  # nothing to merge, nothing to divide
    full = np.array([0, 0, 0, 40.0, 50.0, 0, 0, 0, 0])
    moved = merge_and_divide(codes, full, 90 / 8, 8)  # 39, 49 and the highest stay: 3 parts each
    np.testing.assert_array_equal(moved, [39, 42, 46, 49, 59, 69, 79])
    again = merge_and_divide(np.array([39, 49, 79]), np.array([20.0, 40, 30, 0]), 10, 4)
    np.testing.assert_array_equal(again, [39, 44, 49, 64, 79])  # there was room beside those kept
    np.testing.assert_array_equal(merge_and_divide(codes, np.zeros(9), 1.0, 8), [79])


def test_merging_moves_the_candidates_of_all_numbers():
    refined = HessianThresholds(ENCODER, 16, rule="merge")
    mass = np.zeros(192)
    mass[100:110] = 1000.0
    for _ in range(4):
        cells = refined.cells()
        sums = np.zeros(cells.n_cells)
        for k in NUMBERS:
            own = cells.by_feature()[k][:-1]  # all but missing
            np.add.at(sums, own, mass[: len(own)])
        refined.refine(sums)
    own = refined.thresholds.own(0)
    assert own.min() > 80  # what is empty below is merged
    assert len(own) <= 32
    rng = np.random.default_rng(0)
    for _ in range(5):  # pure noise leaves something to split at
        refined.refine(-np.abs(rng.normal(size=refined.cells().n_cells)))
        assert all(len(refined.thresholds.own(k)) >= 1 for k in NUMBERS)


def test_all_candidates_are_every_place_that_codes_can_tell_apart():
    thresholds = even_thresholds(ENCODER, None)
    for k in NUMBERS:
        np.testing.assert_array_equal(thresholds.own(k), np.arange(len(ENCODER.edges[k])))
