"""Split candidates: what each means, and that its score is that of the rows it separates."""

import numpy as np
import pytest

from privboost._core.grid import CLIP_STEPS, Contribution
from privboost.mechanisms.utilities import SCORE, SplitGain
from privboost.trees.splits import join_splits

PARTS = [
    (4, np.array([0, 0, 1, 1, 2, 3]), False, True),  # a number of three cells, and missing
    (7, np.array([0, 1]), False, True),  # one cell only: nothing to split
    (2, np.arange(4), True, False),  # a category of four codes
    (5, np.array([0, 1, 2]), False, False),  # two cells; missing values stay on the left
]


def test_a_node_has_the_candidates_that_part_what_its_path_leaves_open():
    splits = join_splits(PARTS)
    reach = splits.start_reach()
    root = splits.allowed(reach)[0]
    # Not splitting, the number's two places with missing values on either side, and the category's
    # four codes but the last, for nobody expects it to be missing; the last number's one place.
    assert root.tolist() == [True] + [True] * 4 + [True] * 3 + [False] + [True]
    reach = splits.follow(reach, np.array([3]))  # after its second cell, missing on the left
    left, right = splits.allowed(reach)
    assert left[1:5].tolist() == [True, True, False, True]  # (0 | 1, missing), …, missing alone
    assert right[1:5].tolist() == [False] * 4  # one cell is left
    assert left[5:].tolist() == right[5:].tolist() == root[5:].tolist()
    reach = splits.follow(reach, np.array([5, 0]))  # the first category, and no split
    assert splits.allowed(reach)[1, 5:8].tolist() == [False] * 3
    assert not splits.allowed(reach)[3, 1:].any()  # where nobody goes, nothing is chosen


def test_candidates_are_numbered_through():
    splits = join_splits(PARTS)
    assert splits.cells.n_cells == 4 + 2 + 4 + 3
    assert np.bincount(splits.candidates.place[1:]).tolist() == [4, 0, 4, 1]
    assert splits.total == 10
    said = [splits.goes_right(k) for k in range(splits.total)]
    assert [feature for feature, _ in said] == [4, 4, 4, 4, 4, 2, 2, 2, 2, 5]
    assert [turns.tolist() for _, turns in said[:5]] == [
        [0, 0, 0, 0, 0, 0],
        [0, 0, 1, 1, 1, 0],
        [0, 0, 1, 1, 1, 1],
        [0, 0, 0, 0, 1, 0],
        [0, 0, 0, 0, 1, 1],
    ]
    assert said[6][1].tolist() == [0, 1, 0, 0]
    assert said[9][1].tolist() == [0, 1, 0]


@pytest.mark.parametrize("weighted", [False, True])
def test_scores_are_those_of_the_two_sides(weighted):
    rng = np.random.default_rng(0)
    splits, rows, nodes = join_splits(PARTS), 60, 3
    unit = CLIP_STEPS * (256 if weighted else 1)
    codes = {feature: rng.integers(0, len(own), rows) for feature, own, *_ in PARTS}
    node = rng.integers(0, nodes, rows)
    weight = rng.integers(0, 257, rows) if weighted else np.ones(rows, dtype=np.int64)
    g, n = rng.integers(-CLIP_STEPS, CLIP_STEPS + 1, rows) * weight, CLIP_STEPS * weight
    sums = np.zeros((nodes, splits.cells.n_cells, 2), dtype=np.int64)
    for feature, cells in splits.cells.by_feature().items():
        np.add.at(sums, (node, cells[codes[feature]]), np.stack([g, n], axis=1))
    scores = SplitGain(splits, 0.75).scores(sums, Contribution(weighted))
    for k in range(splits.total):
        feature, turns = splits.goes_right(k)
        for each in range(nodes):
            score = 0.0
            for side in (0, 1):
                mine = (node == each) & (turns[codes[feature]] == side)
                score += (g[mine].sum() / unit) ** 2 / (n[mine].sum() / unit + 0.75)
            assert abs(scores[each, k] / SCORE - score) < 2e-6
