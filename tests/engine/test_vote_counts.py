"""Counts of rows by their votes: against counting one by one."""

import numpy as np
import pytest

from privboost._core.grid import VOTE
from privboost.data.encoding import Encoder
from privboost.engine.backend import LocalBackend
from privboost.engine.queries import VoteCounts
from privboost.engine.updates import AddTreeValues, Start
from privboost.losses.base import UNKNOWN_LABEL
from privboost.recipes.common.candidates import even_thresholds, splits_of
from privboost.trees.tree import stump
from tests.hostile import HostileBackend
from tests.tables import CLASSES, THREE, encode_training, make_domain, make_frame

pytestmark = pytest.mark.usefixtures("eager_threads")


def voters(splits, count):
    rng = np.random.default_rng(1)
    for candidate in rng.integers(0, splits.total, count):
        tree = stump().with_level([splits.goes_right(int(candidate))])
        yield tree, VOTE * rng.choice([-1, 1]) * np.array([[1, -1]], dtype=np.int32)


def leaf_of(block, tree):
    node = np.zeros(len(block), dtype=int)
    for _ in range(tree.depth):
        feature = tree.feature[node]
        code = np.array([block.column(f)[i] for i, f in enumerate(feature)])
        node = 2 * node + 1 + tree.goes_right[node, code]
    return node - len(tree.feature)


@pytest.mark.parametrize("target", [CLASSES, THREE])
@pytest.mark.parametrize("cast", [0, 1, 4])
def test_counts_are_those_of_single_rows(target, cast):
    encoder = Encoder.of(make_domain(target))
    outputs = 1 if target is CLASSES else 3
    blocks = encode_training(encoder, make_frame(300, target=target), block_rows=70).blocks
    splits = splits_of(encoder, even_thresholds(encoder, 7), tuple(range(6)))
    tree = (
        stump()
        .with_level([splits.goes_right(5)], 302)
        .with_level([splits.goes_right(40), splits.goes_right(0)], 302)
    )
    node_of_leaf = np.array([0, 1, 2, 2], dtype=np.uint16)
    output = outputs - 1
    query = VoteCounts(tree, node_of_leaf, splits.cells, cast, output)
    backends = [LocalBackend(blocks), LocalBackend(blocks, 2), HostileBackend(blocks, 3)]
    expected = np.zeros(query.shape, dtype=np.int64)
    sums = [np.zeros(len(block), dtype=int) for block in blocks]
    for backend in backends:
        backend.apply(Start(None, outputs))
    for voter, votes in voters(splits, cast):
        for backend in backends:
            backend.apply(AddTreeValues((voter,), votes, output))
        for block, own in zip(blocks, sums, strict=True):
            own += votes[0][leaf_of(block, voter)] // VOTE
    for block, own in zip(blocks, sums, strict=True):
        node = node_of_leaf[leaf_of(block, tree)]
        for i in range(len(block)):
            if block.label[i] == UNKNOWN_LABEL:
                expected[0, -1, 0, 0] += 1
                continue
            kind = int(block.label[i] == (1 if outputs == 1 else output))
            for feature, cells in splits.cells.by_feature().items():
                cell = cells[block.column(feature)[i]]
                expected[node[i], cell, (own[i] + cast) // 2, kind] += 1
    for backend in backends:
        np.testing.assert_array_equal(backend.sum(query), expected)
    assert expected[0, -1, 0, 0] > 0


def test_votes_are_counted_after_a_start_only():
    encoder = Encoder.of(make_domain())
    blocks = encode_training(encoder, make_frame(10)).blocks
    splits = splits_of(encoder, even_thresholds(encoder, 7), (0,))
    leaf = np.zeros(1, dtype=np.uint16)
    query = VoteCounts(stump(), leaf, splits.cells, 0)
    with pytest.raises(RuntimeError, match="after a Start"):
        LocalBackend(blocks).sum(query)
