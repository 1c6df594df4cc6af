"""Rows that are led down a tree by runs of codes come to the leaves that look-ups lead to."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privboost.data.rows import Codes, Layout
from privboost.models import forest as forests
from privboost.models.forest import Forest
from privboost.trees import kernels
from privboost.trees.kernels import STRIDE
from privboost.trees.tree import NO_INTERVALS, CodeIntervals, Tree, find_leaves

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
    depth=st.integers(0, 11),
    rows=st.sampled_from([0, 1, 63, STRIDE - 1, STRIDE, STRIDE + 1, 2 * STRIDE, 1300]),
    kinds=st.lists(st.sampled_from(KINDS), min_size=1, unique=True),
    features=st.lists(st.integers(0, len(N_CODES) - 1), min_size=1, unique=True),
)
def test_leaves_are_those_of_look_ups(seed, depth, rows, kinds, features):
    rng = np.random.default_rng(seed)
    tree, codes = make_tree(rng, depth, kinds, features), make_codes(rows, rng)
    assert find_leaves(codes, tree).tolist() == walk(codes, tree)


@pytest.mark.parametrize("rows", [STRIDE, 3 * STRIDE + 7])
def test_runs_alone_lead_to_the_same_nodes(rows):
    """Without a line to look at."""
    rng = np.random.default_rng(rows)
    tree = make_tree(rng, 6, ["cut", "one", "all"], range(len(N_CODES)))
    codes, node = make_codes(rows, rng), np.empty(rows, dtype=np.uint16)
    slots, no_lines = codes.layout.slot_array[tree.feature], np.zeros_like(tree.goes_right)
    assert tree.intervals.levels == 6
    columns = (codes.narrow.reshape(-1), codes.wide.reshape(-1), len(codes.narrow))
    kernels.route_rows(*columns, slots, no_lines, *tree.intervals, 0, node)
    assert node.tolist() == walk(codes, tree)


def test_what_runs_say():
    lines = np.zeros((3, 300), dtype=np.uint8)
    lines[0, 7:9] = lines[0, 299] = 1
    lines[1] = 1
    runs = CodeIntervals.of(lines)
    assert runs.levels == 2
    assert runs.first.tolist() == [0, 2, 3, 4]
    assert runs.begin.tolist()[:3] == [7, 299, 0]
    assert runs.length.tolist() == [2, 1, 300, 0]
    assert NO_INTERVALS.levels == 0
    assert NO_INTERVALS.first.tolist() == [0]


def test_a_line_without_codes_has_an_empty_run():
    assert CodeIntervals.of(np.zeros((1, 0), dtype=np.uint8)).length.tolist() == [0]


def test_a_run_of_all_codes_that_there_can_be():
    everything = CodeIntervals.of(np.ones((1, 2**16), dtype=np.uint8))
    assert everything.begin.tolist() == [0, 2**16 - 1]
    assert everything.length.tolist() == [2**16 - 1, 1]


def test_levels_of_many_runs_are_left_to_look_ups():
    every_other = np.tile(np.arange(256, dtype=np.uint8) % 2, (3, 1))
    assert CodeIntervals.of(every_other).levels == 0
    few = every_other.copy()
    few[0, 2:] = 0
    few[1:, 64:] = 0
    assert CodeIntervals.of(few).levels == 2
    few[1, 65] = 1
    assert CodeIntervals.of(few).levels == 1
    assert CodeIntervals.of(np.zeros((2**9 - 1, 4), dtype=np.uint8)).levels == 7


def make_forest(rng, depth, ways, features):
    trees = [make_tree(rng, depth, kinds, features) for kinds in ways]
    values = [rng.integers(-999, 999, (2, 2**depth)).astype(np.int32) for _ in trees]
    return trees, values


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32),
    depth=st.integers(0, 11),
    rows=st.sampled_from([1, STRIDE - 1, STRIDE, STRIDE + 3, 1300]),
    ways=st.lists(st.lists(st.sampled_from(KINDS), min_size=1, unique=True), min_size=1),
    features=st.lists(st.integers(0, len(N_CODES) - 1), min_size=1, unique=True),
)
def test_predictions_add_the_values_of_leaves(seed, depth, rows, ways, features):
    rng = np.random.default_rng(seed)
    trees, values = make_forest(rng, depth, ways, features)
    codes, scores = make_codes(rows, rng), np.zeros((2, rows), dtype=np.int32)
    forest = Forest.of(trees, values)
    forest.add_joint(codes, scores)
    expected = np.zeros_like(scores)
    for tree, own, joins in zip(trees, values, forest.joins, strict=True):
        expected += joins * own[:, walk(codes, tree)]
    np.testing.assert_array_equal(scores, expected)


@pytest.mark.parametrize("most", [63, 100, 2**13])
def test_batches_of_trees_add_up_to_all(most, monkeypatch):
    """However few lines a batch may have, and where lines have many runs."""
    monkeypatch.setattr(forests, "_MOST_SPLITS", most)
    rng = np.random.default_rng(most)
    ways = [["cut"], ["any"], ["one", "cut"], ["none"], ["cut"], ["all", "any"]]
    trees, values = make_forest(rng, 6, ways, range(len(N_CODES)))
    codes, scores = make_codes(700, rng), np.zeros((2, 700), dtype=np.int32)
    forest = Forest.of(trees, values)
    forest.add_joint(codes, scores)
    found = list(forests.batches_of(forest.feature, forest.goes_right))
    assert [batch.trees.start for batch in found[1:]] == [batch.trees.stop for batch in found[:-1]]
    assert (len(found) > 1) == (most < 2**13)
    assert all(len(batch.feature) <= most for batch in found)
    assert any(len(batch.many) for batch in found)
    expected = sum(own[:, walk(codes, tree)] for tree, own in zip(trees, values, strict=True))
    np.testing.assert_array_equal(scores, expected)


def test_lines_that_many_nodes_share_are_kept_once():
    tree = make_tree(np.random.default_rng(0), 6, ["cut"], [0, 1, 2])
    forest = Forest.of([tree] * 9, [np.zeros((1, 64), dtype=np.int32)] * 9)
    (batch,) = forests.batches_of(forest.feature, forest.goes_right)
    lines = {(f, line.tobytes()) for f, line in zip(tree.feature, tree.goes_right, strict=True)}
    assert len(batch.feature) == len(lines)
    assert (batch.split_of == batch.split_of[0]).all()


def test_without_a_compiler_rows_go_one_by_one():
    """As many as would go by strides otherwise: the words of strides cannot be interpreted."""
    code = """
import numpy as np
from privboost.models.forest import Forest
from privboost.trees.tree import find_leaves
from tests.trees.test_code_intervals import make_codes, make_tree, walk
rng = np.random.default_rng(0)
tree, codes = make_tree(rng, 4, ["cut", "any"], range(6)), make_codes(600, rng)
assert find_leaves(codes, tree).tolist() == walk(codes, tree)
values, scores = np.arange(16, dtype=np.int32)[None], np.zeros((1, 600), dtype=np.int32)
Forest.of([tree], [values]).add_joint(codes, scores)
assert scores[0].tolist() == walk(codes, tree)
"""
    root = Path(__file__).parents[2]
    how = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(root)}
    subprocess.run([sys.executable, "-c", code], env=how, cwd=root, check=True)
