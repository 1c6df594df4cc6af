"""Rows that are led down a tree by runs of codes come to the leaves that look-ups lead to."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privboost.models.trees import Forest
from privboost.tables.layout import Layout
from privboost.tables.rows import Codes
from privboost.trees import kernels
from privboost.trees.routing import find_leaves
from privboost.trees.runs import NO_RUNS, Runs, narrow_levels
from privboost.trees.tree import Tree
from privboost.trees.turn_kernels import MOST_LEVELS, MOST_RUNS, STRIDE

N_CODES = (255, 3, 193, 300, 2, 17)
"""Of some features; one needs two bytes."""


def make_codes(rows, rng, n_codes=N_CODES):
    columns = np.stack([rng.integers(0, count, rows) for count in n_codes]).astype(np.uint16)
    return Codes.of(Layout(n_codes), columns)


def make_tree(rng, depth, kinds, features):
    """Return a tree whose nodes part codes in some ways, each drawn."""
    nodes = 2**depth - 1
    feature = rng.choice(features, nodes).astype(np.uint16)
    width = max([N_CODES[f] for f in feature], default=1)
    codes = np.arange(width)
    lines = {
        "cut": lambda: codes >= rng.integers(0, width + 1),
        "cut, the last apart": lambda: (codes >= rng.integers(0, width)) & (codes < width - 1),
        "one": lambda: codes == rng.integers(0, width),
        "any": lambda: rng.random(width) < 0.5,
        "none": lambda: codes < 0,
        "all": lambda: codes >= 0,
    }
    goes_right = np.zeros((nodes, width), dtype=np.uint8)
    for line in goes_right:
        line[:] = lines[rng.choice(kinds)]()
    return Tree(feature, goes_right)


def walk(codes, tree):
    """Follow each row by itself."""
    columns = [codes.column(feature) for feature in range(len(N_CODES))]
    leaves = []
    for row in range(len(codes)):
        node = 0
        while node < len(tree.feature):
            code = columns[tree.feature[node]][row]
            node = 2 * node + 1 + int(tree.goes_right[node, code])
        leaves.append(node - len(tree.feature))
    return leaves


KINDS = ["cut", "cut, the last apart", "one", "any", "none", "all"]


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32),
    depth=st.integers(0, 9),
    rows=st.sampled_from([0, 1, 63, STRIDE - 1, STRIDE, STRIDE + 1, 2 * STRIDE, 1300]),
    kinds=st.lists(st.sampled_from(KINDS), min_size=1, unique=True),
    features=st.lists(st.integers(0, len(N_CODES) - 1), min_size=1, unique=True),
)
def test_leaves_are_those_of_look_ups(seed, depth, rows, kinds, features):
    rng = np.random.default_rng(seed)
    tree, codes = make_tree(rng, depth, kinds, features), make_codes(rows, rng)
    assert find_leaves(codes, tree).tolist() == walk(codes, tree)


@pytest.mark.parametrize("rows", [STRIDE - 1, 3 * STRIDE + 7])
def test_runs_alone_lead_to_the_same_nodes(rows):
    """All levels that have runs, with no line to look at."""
    rng = np.random.default_rng(rows)
    tree = make_tree(rng, MOST_LEVELS, ["cut", "one", "all"], [0, 1, 2, 4, 5])
    codes, node = make_codes(rows, rng), np.empty(rows, dtype=np.uint16)
    slots, lines = codes.layout.slot_array[tree.feature], tree.goes_right[:0]
    runs = tree.runs.on(slots, codes.layout.n_narrow)
    assert runs.levels == MOST_LEVELS
    kernels.route_rows(codes.narrow, codes.wide, slots, lines, runs, 0, node)
    assert node.tolist() == walk(codes, tree)


def test_what_runs_say():
    lines = np.zeros((3, 300), dtype=np.uint8)
    lines[0, 7:9] = lines[0, 254] = 1
    lines[1] = lines[2, 280] = 1  # a column of bytes has no such code
    runs = Runs.of(lines)
    assert runs.levels == 2
    assert runs.first.tolist() == [0, 2, 3, 4]
    assert runs.begin.tolist()[:3] == [7, 254, 0]
    assert runs.length.tolist() == [2, 1, 255, 0]
    assert NO_RUNS.levels == 0
    assert NO_RUNS.first.tolist() == [0]


def test_levels_of_many_runs_are_left_to_look_ups():
    every_other = np.tile(np.arange(256, dtype=np.uint8) % 2, (3, 1))
    assert Runs.of(every_other).levels == 0
    few = every_other.copy()
    few[0, 2:] = 0
    few[1:, 2 * (MOST_RUNS // 2) :] = 0
    assert Runs.of(few).levels == 2
    few[1, 2 * (MOST_RUNS // 2) + 1] = 1
    assert Runs.of(few).levels == 1
    deep = np.zeros((2 ** (MOST_LEVELS + 2) - 1, 4), dtype=np.uint8)
    assert Runs.of(deep).levels == MOST_LEVELS


def test_levels_of_wide_columns_are_left_to_look_ups():
    slots = np.array([[0, 1, 1, 2, 0, 0, 0], [0, 1, 2, 0, 0, 0, 0], [0] * 7], dtype=np.uint16)
    assert narrow_levels(slots, 2).tolist() == [2, 1, 3]
    assert narrow_levels(slots, 0).tolist() == [0, 0, 0]
    assert narrow_levels(slots[:, :0], 2).tolist() == [0, 0, 0]


@pytest.mark.parametrize("features", [[0, 1, 2], [0, 3, 5], [3]])
@pytest.mark.parametrize("rows", [5, STRIDE + 3])
def test_predictions_add_the_values_of_leaves(features, rows):
    """Of trees with runs at different numbers of levels, in one forest."""
    rng = np.random.default_rng(rows)
    ways = [["cut"], ["any"], ["none"], KINDS]
    trees = [make_tree(rng, 8, kinds, features) for kinds in ways]
    values = [rng.integers(-999, 999, (2, 256)).astype(np.int32) for _ in trees]
    codes, scores = make_codes(rows, rng), np.zeros((2, rows), dtype=np.int32)
    forest = Forest.of(trees, values)
    forest.add_joint(codes, scores)
    expected = np.zeros_like(scores)
    for tree, own, joins in zip(trees, values, forest.joins, strict=True):
        expected += joins * own[:, walk(codes, tree)]
    np.testing.assert_array_equal(scores, expected)
