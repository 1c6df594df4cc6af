"""Smooth weights: how far one row moves them, and the ranges of the choices made under them."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privboost._core.grid import Contribution
from privboost.mechanisms.utilities import (
    MOST_DECAY,
    MOST_NODES,
    ROW,
    GiniGain,
    LeafClass,
    RuleError,
    Smoothing,
)
from privboost.trees.splits import join_splits

SPLITS = join_splits(
    [
        (0, np.arange(4), False, True),
        (1, np.arange(3), True, False),
        (2, np.arange(3), False, False),
    ]
)
INTERVALS = join_splits(
    [(k, part.cell_of[0], True, k == 0) for k, part in enumerate(SPLITS.cells.parts)]
)
"""The same cells, of numbers each a literal of its own."""
CELLS = SPLITS.cells.n_cells
SMOOTHINGS = st.builds(
    Smoothing,
    density=st.sampled_from([0.05, 0.2, 0.35, 0.5, 0.9, 1.0]),
    learning_rate=st.sampled_from([0.05, 0.45, 3.0]),
)


@st.composite
def tables(draw):
    """Rows as (node, cells, votes, class or unknown), and another row for one of them."""
    votes = draw(st.integers(0, 8))
    row = st.tuples(
        st.integers(0, 1),
        st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 2)),
        st.integers(0, votes),
        st.sampled_from([0, 1, 0, 1, None]),
    )
    # Many rows that are alike make weights small and caps move; few make them large.
    copies = draw(st.sampled_from([1, 1, 5, 40]))
    rows = draw(st.lists(row, min_size=1, max_size=12)) * copies
    return votes, rows, draw(row)


def counted(votes, rows, nodes):
    sums = np.zeros((nodes, CELLS + 1, votes + 1, 2), dtype=np.int64)
    for node, cells, vote, kind in rows:
        if kind is None:
            sums[0, -1, 0, 0] += 1
            continue
        for first, cell in zip(SPLITS.first, cells, strict=True):
            sums[min(node, nodes - 1), first + cell, vote, kind] += 1
    return sums


def weight_of(row, weights, unknown):
    *_, vote, kind = row
    return unknown if kind is None else weights[vote, kind]


def all_weights(smoothing, votes, rows):
    """The normalised weight of each row."""
    counts = counted(votes, rows, 1)[0]
    own = counts[SPLITS.first[0] : SPLITS.first[0] + SPLITS.count[0]].sum(axis=0)
    unknown = int(counts[-1, 0, 0])
    weights = smoothing.weights(own, unknown)
    margins = {0: unknown}
    for v in range(votes + 1):
        for kind in (0, 1):
            m = (2 * v - votes) * (1 if kind else -1)
            margins[m] = margins.get(m, 0) + int(own[v, kind])
    of_unknown = float(smoothing._project(margins)[0])
    return np.array([weight_of(row, weights, of_unknown) for row in rows])


@given(smoothing=SMOOTHINGS, table=tables())
@settings(max_examples=150)
def test_replacing_a_row_moves_one_row_of_weight(smoothing, table):
    votes, rows, other = table
    before = all_weights(smoothing, votes, rows)
    after = all_weights(smoothing, votes, [other, *rows[1:]])
    total = smoothing.density * len(rows)
    for weights in (before, after):
        assert weights.max() <= 1 + 1e-12
        assert math.isclose(weights.sum(), total, rel_tol=1e-9)
    change = after[1:] - before[1:]
    assert (change >= -1e-12).all() or (change <= 1e-12).all()  # all others in one direction
    # Total variation, of which a row that is replaced is two: at most 1/(κn).
    moved = np.abs(change).sum() + before[0] + after[0]
    assert moved / 2 <= 1 + 1e-9


def test_the_worst_case_is_reached():
    """A row at the cap takes the place of one that weighed nothing."""
    smoothing = Smoothing(0.5, 3.0)
    rows = [(0, (0, 0, 0), 8, 1)] * 7 + [(0, (0, 0, 0), 0, 1)]
    swapped = [(0, (0, 0, 0), 8, 1)] * 8
    before, after = (all_weights(smoothing, 8, each) for each in (rows, swapped))
    assert np.abs(after[:7] - before[:7]).sum() + before[7] > 1.0


def utilities(smoothing, splits=SPLITS):
    reach = np.ones((2, CELLS), dtype=bool)
    return [
        (RuleError(splits, smoothing), 1),
        (GiniGain(splits, smoothing, reach), 2),
        (LeafClass(splits, smoothing), 2),
    ]


def spread(utility, nodes, votes, rows, other):
    """How far apart the changes of scores are, added up over choices."""
    sums = [counted(votes, each, nodes) for each in (rows, [other, *rows[1:]])]
    scores = [utility.scores(each, Contribution()) for each in sums]
    change = scores[1] - scores[0]
    return int((change.max(axis=1) - change.min(axis=1)).sum())


@given(smoothing=SMOOTHINGS, table=tables())
@settings(max_examples=150)
def test_ranges_are_as_claimed(smoothing, table):
    votes, rows, other = table
    for splits in (SPLITS, INTERVALS):
        for utility, nodes in utilities(smoothing, splits):
            claimed = utility.range(Contribution())
            assert spread(utility, nodes, votes, rows, other) <= claimed


def test_ranges_are_nearly_reached_so_a_smaller_one_would_be_caught():
    """A flipped label of a row at the cap: the twins that claim three quarters are refused."""
    smoothing = Smoothing(1.0, 0.5)
    for utility, nodes, share in zip(
        *zip(*utilities(smoothing), strict=True), (0.75, 0.4, 0.75), strict=True
    ):
        rows = [(0, (0, 0, 0), 0, 1)] + [(1, (2, 1, 1), 0, k % 2) for k in range(30)]
        found = spread(utility, nodes, 0, rows, (0, (0, 0, 0), 0, 0))
        rows = [(0, (0, 0, 0), 0, 1)] + [(0, (2, 1, 1), 0, 0) for k in range(30)]
        found = max(found, spread(utility, nodes, 0, rows, (0, (0, 0, 0), 0, 0)))
        assert found > share * utility.range(Contribution())


class EntropyGain(GiniGain):
    """A twin that lowers entropy, and claims the range of Gini."""

    def scores(self, sums, contribution):
        left, right = (side / ROW for side in self.sides(self.masses(sums)))
        worth = entropy(left + right) - entropy(left) - entropy(right)
        return np.floor(worth * ROW).astype(np.int64).reshape(1, -1)


def entropy(masses):
    whole = masses.sum(axis=-1)
    return -(
        masses * np.log2(np.maximum(masses, 1e-300) / np.maximum(whole, 1e-300)[..., None])
    ).sum(-1)


def test_entropy_has_no_such_range():
    """A flipped label in a pure leaf of m rows moves it by more than log2(m)."""
    reach = np.ones((2, CELLS), dtype=bool)
    utility = EntropyGain(SPLITS, Smoothing(1.0, 0.5), reach)
    found = []
    for rows in (64, 4096):
        same = [(0, (0, 0, 0), 0, 1)] * rows + [(1, (2, 1, 1), 0, k % 2) for k in range(rows)]
        same[1:1] = [(0, (3, 2, 2), 0, 0)] * rows
        found.append(spread(utility, 2, 0, same, (0, (0, 0, 0), 0, 0)) / ROW)
    assert found[0] > 6
    assert found[1] > 12
    assert found[1] * ROW > utility.range(Contribution())


def test_the_most_nodes_there_are_err_by_little():
    """Rounding of 31 leaves of 60,000 cells each, with weights that are no steps."""
    many = 60_000
    splits = join_splits([(0, np.arange(many), True, False)])
    rng = np.random.default_rng(0)
    sums = rng.integers(0, 2, (MOST_NODES, many + 1, 3, 2))
    sums[:, -1] = 0
    smoothing = Smoothing(0.575, 0.549)
    weights = smoothing.weights(sums.sum(axis=(0, 1)), 0)
    exact = (sums.sum(axis=1) * weights).sum(axis=1)
    found = LeafClass(splits, smoothing).scores(sums, Contribution())[:, 1] / ROW
    error = np.abs(found - (exact[:, 1] - exact[:, 0])).sum()
    assert error < 2 * 2**-9
    with pytest.raises(ValueError, match="at most 31 nodes"):
        LeafClass(splits, smoothing).scores(np.repeat(sums, 2, axis=0), Contribution())


def test_an_empty_side_is_worth_nothing_however_many_cells_there_are():
    """Masses of different features are rounded differently; a side is made of one feature's."""
    many = 60_000
    splits = join_splits([(0, np.arange(many), True, False), (1, np.arange(2), True, False)])
    sums = np.zeros((1, splits.cells.n_cells + 1, 2, 2), dtype=np.int64)
    sums[0, :many, 0, 0] = sums[0, :many, 1, 1] = 1  # each row in a cell of its own
    sums[0, many, 0, 0] = sums[0, many, 1, 1] = many  # and all rows in one
    utility = GiniGain(
        splits, Smoothing(0.575, 0.549), np.ones((1, splits.cells.n_cells), dtype=bool)
    )
    scores = utility.scores(sums, Contribution())[0]
    assert abs(scores[1 + many]) <= 1  # all rows on one side
    assert abs(scores[2 + many]) <= 1


def test_errors_are_those_of_weighted_rows():
    smoothing = Smoothing(0.3, 0.4)
    rng = np.random.default_rng(0)
    rows = [
        (0, tuple(rng.integers(0, (4, 3, 3))), int(rng.integers(0, 6)), int(rng.integers(0, 2)))
        for _ in range(200)
    ]
    weights = all_weights(smoothing, 5, rows)
    scores = RuleError(SPLITS, smoothing).scores(counted(5, rows, 1), Contribution())[0]
    for literal in range(SPLITS.total):
        feature, right = SPLITS.goes_right(literal)
        true = np.array([right[row[1][feature]] for row in rows], dtype=bool)
        label = np.array([row[3] for row in rows], dtype=bool)
        for opposite in (False, True):
            error = weights[(true ^ opposite) != label].sum()
            assert scores[2 * literal + opposite] / ROW == pytest.approx(-error, abs=1e-5)


def test_projection_is_the_nearest_dense_measure():
    """Caps where weights would exceed 1, and one factor for the rest."""
    smoothing = Smoothing(0.5, 1.0)
    rows = {-2: 3, 0: 4, 2: 13}
    projected = smoothing._project(rows)
    assert sum(rows[m] * w for m, w in projected.items()) == Fraction(10)
    assert projected[-2] == 1
    free = [m for m, w in projected.items() if w < 1]
    ratios = {float(projected[m]) / math.exp(-m) for m in free}
    assert max(ratios) == pytest.approx(min(ratios))


@pytest.mark.parametrize(
    ("density", "rate"), [(0.0, 0.5), (1.1, 0.5), (float("nan"), 0.5), (0.5, 0.0), (0.5, math.inf)]
)
def test_smoothing_refuses_what_is_no_density_or_rate(density, rate):
    with pytest.raises(ValueError, match=r"density|learning_rate"):
        Smoothing(density, rate)


def test_smoothing_refuses_weights_that_would_vanish():
    with pytest.raises(ValueError, match="times votes"):
        Smoothing(0.5, 1.0).weights(np.zeros((int(MOST_DECAY) + 2, 2), dtype=np.int64), 0)


def test_an_empty_table_has_scores():
    for utility, nodes in utilities(Smoothing(0.5, 0.5)):
        assert not utility.scores(counted(3, [], nodes), Contribution()).any()


def test_no_range_for_weights_or_several_rows():
    utility = RuleError(SPLITS, Smoothing(0.5, 0.5))
    for bound in (Contribution(weighted=True), Contribution(rows=2)):
        with pytest.raises(ValueError, match="no range"):
            utility.range(bound)
