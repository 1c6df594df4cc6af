"""Every query against a plain reference, and the same integers however rows are held."""

import numpy as np
import pytest

from privboost._core.grid import CLIP_STEPS, SCORE_STEPS
from privboost.data.encoding import Encoder
from privboost.data.rows import Codes, Layout, Rows, initial_states, join
from privboost.engine.backend import LocalBackend
from privboost.engine.blocks import Blocks
from privboost.engine.node_histograms import MOST_COMBINATIONS, bundle
from privboost.engine.protocol import Message
from privboost.engine.queries import (
    STATISTICS,
    CellSums,
    NodeHistograms,
    PredictionSums,
    ScoreCounts,
    TreeSums,
)
from privboost.engine.updates import AddCellValues, AddTreeValues, Start, UseLoss
from privboost.losses.base import UNKNOWN_LABEL
from privboost.losses.logistic import LOGISTIC
from privboost.losses.squared import SQUARED_NUMBER
from privboost.trees.cell_map import CellMap
from privboost.trees.tree import Tree, stump
from tests.hostile import HostileBackend
from tests.tables import CLASSES, NUMBER, THREE, encode_training, make_domain, make_frame

pytestmark = pytest.mark.usefixtures("eager_threads")

ROWS = 700


def rows_for(target, weighted, rows=ROWS):
    domain = make_domain(target)
    frame = make_frame(rows, target=target)
    weights = "weight" if weighted else None
    return Encoder.of(domain), encode_training(
        Encoder.of(domain), frame, weights=weights, weight_bound=2.0, block_rows=128
    ).blocks


def random_tree(layout, depth, seed):
    rng = np.random.default_rng(seed)
    feature = rng.integers(0, len(layout.n_codes), 2**depth - 1).astype(np.uint16)
    turns = rng.integers(0, 2, (len(feature), max(layout.n_codes))).astype(np.uint8)
    return Tree(feature, turns)


def updates(layout, loss, n_outputs):
    rng = np.random.default_rng(5)
    tree = random_tree(layout, 3, 1)
    for output in range(n_outputs):
        size = SCORE_STEPS
        for cells in (CellMap.of_feature(0, np.arange(layout.n_codes[0])), mixed(layout)):
            values = rng.integers(-size, size, cells.n_cells).astype(np.int32)
            yield AddCellValues(cells, values, output)
        yield AddTreeValues((tree,), rng.integers(-size, size, (1, 8)).astype(np.int32), output)


def coarse(layout, feature, size):
    codes = layout.n_codes[feature]
    return CellMap.of_feature(feature, np.arange(codes) * size // codes, size)


def mixed(layout):
    """Parts of one feature, of two and of three, of which some share features."""
    two = CellMap.joint([coarse(layout, 5, 9), coarse(layout, 0, 5)])
    three = CellMap.joint(coarse(layout, feature, 3) for feature in (2, 3, 5))
    return CellMap.side_by_side([two, coarse(layout, 0, 4), three])


def queries(layout, n_outputs, classes=2):
    edges = np.array([-70_000, -30_000, 0, 1, 40_000], dtype=np.int32)
    for output in range(n_outputs):
        for statistics in STATISTICS[:: 1 if n_outputs == 1 else 2]:
            for feature in (0, 3, 5):
                yield CellSums(coarse(layout, feature, 7), output, statistics)
            if statistics in STATISTICS[::3]:  # a pair, and one alone
                joint = CellMap.joint([coarse(layout, 0, 50), coarse(layout, 5, 40)])
                yield CellSums(joint, output, statistics)  # too many cells to be packed
                yield CellSums(CellMap(mixed(layout).parts[2:]), output, statistics)
                yield CellSums(mixed(layout), output, statistics)
            trees = [random_tree(layout, 4, 2), random_tree(layout, 4, 3)]
            trees.append(Tree(np.full(15, 5, dtype=np.uint16), trees[0].goes_right))
            yield TreeSums(tuple(trees), output, statistics)
            yield TreeSums((stump(),), output, statistics)
            cells = CellMap.side_by_side(
                CellMap.of_feature(feature, np.arange(layout.n_codes[feature]) // 2)
                for feature in (0, 2, 3, 4, 5)
            )
            deep = random_tree(layout, 4, 3)
            for depth in range(5):
                yield NodeHistograms(deep.top(depth), cells, output, statistics)
        for inner in (edges, edges[:0]):
            yield ScoreCounts(inner, classes, output)
            yield PredictionSums(inner, 50_000, output)


def leaves(block, tree):
    node = np.zeros(len(block), dtype=int)
    for depth in range(tree.depth):
        at = node + 2**depth - 1
        for i in range(len(block)):
            code = block.column(tree.feature[at[i]])[i]
            node[i] = 2 * node[i] + tree.goes_right[at[i], code]
    return node


def cells_of(block, cells):
    """The cell of each row in each part, by what a joint cell means."""
    first = 0
    for part in cells.parts:
        own = [c[block.column(f)] for f, c in zip(part.features, part.cell_of, strict=True)]
        yield first + np.ravel_multi_index(own, part.sizes)
        first += int(np.prod(part.sizes))


def reference(blocks, loss, n_outputs, told, query):
    """The same sums, row by row, in Python."""
    block = join(blocks)
    state = np.zeros((n_outputs, len(block)), dtype=np.int64)
    begin = np.zeros(len(block), dtype=np.int64)
    if block.minus_label is not None:
        begin = initial_states(block.minus_label).astype(np.int64)
    state += begin
    for update in told:
        if isinstance(update, AddCellValues):
            for cells in cells_of(block, update.cells):
                state[update.output] += update.value_of[cells]
        else:
            for tree, values in zip(update.trees, update.value_of, strict=True):
                state[update.output] += values[leaves(block, tree)]
    own = 1 if n_outputs == 1 else query.output
    out = np.zeros(query.shape, dtype=np.int64)
    if isinstance(query, TreeSums):
        nodes = [leaves(block, tree) for tree in query.trees]
    elif isinstance(query, NodeHistograms):
        node = leaves(block, query.tree)
    parts = list(cells_of(block, query.cells)) if hasattr(query, "cells") else []
    for i in range(len(block)):
        label = block.label[i]
        if label == UNKNOWN_LABEL:
            continue
        line, at = int(label == own), state[query.output, i]
        if isinstance(query, PredictionSums):
            predicted = np.clip(at - begin[i], -query.limit, query.limit)
            at = begin[i] + predicted
        cell = np.clip((at >> loss.shift) + loss.size // 2, 0, loss.size - 1)
        table = {
            "gradient": loss.gradient[line, cell],
            "hessian": loss.hessian[line, cell],
            "count": CLIP_STEPS,
        }
        weight = 1 if block.weight is None else int(block.weight[i])
        pair = np.array([int(table[name]) * weight for name in query.statistics])
        if isinstance(query, CellSums):
            for cells in parts:
                out[cells[i]] += pair
        elif isinstance(query, ScoreCounts):
            cell = sum(state[query.output, i] >= edge for edge in query.edges)
            out[cell, line if query.classes == 2 else 0] += pair
        elif isinstance(query, PredictionSums):
            out[sum(predicted >= edge for edge in query.edges)] += pair
        elif isinstance(query, TreeSums):
            for tree, node in enumerate(nodes):
                out[tree, node[i]] += pair
        else:
            for cells in parts:
                out[node[i], cells[i]] += pair
    return out


CASES = [
    (CLASSES, LOGISTIC.table(0.3, 0.1), 1, False),
    (CLASSES, LOGISTIC.table(0.3, 0.1), 1, True),
    (THREE, LOGISTIC.table(1.0, 0.25), 3, True),
    (NUMBER, SQUARED_NUMBER.table(0.3, 1.0), 1, False),
]


@pytest.mark.parametrize(("target", "loss", "n_outputs", "weighted"), CASES)
def test_answers_equal_the_reference_on_every_backend(target, loss, n_outputs, weighted):
    encoder, blocks = rows_for(target, weighted)
    layout = encoder.layout
    backends = [
        LocalBackend(blocks, 1),
        LocalBackend(blocks, 3),
        HostileBackend(blocks, seed=1, death_rate=0.3),
        HostileBackend(blocks, seed=2, death_rate=0.0),
    ]
    told = []
    for update in [Start(loss, n_outputs), *updates(layout, loss, n_outputs)]:
        for backend in backends:
            backend.apply(update)
        if not isinstance(update, Start):
            told.append(update)
    for query in queries(layout, n_outputs, 1 if target is NUMBER else 2):
        expected = reference(blocks, loss, n_outputs, told, query)
        for backend in backends:
            np.testing.assert_array_equal(backend.sum(query), expected)
    assert backends[2].deaths > 0
    for backend in backends:
        backend.close()


def test_sibling_subtraction_is_only_a_cache():
    """Levels asked in order, out of order, and after an update give the same integers."""
    encoder, blocks = rows_for(CLASSES, True)
    loss = LOGISTIC.table(0.3, 0.1)
    asked = [q for q in queries(encoder.layout, 1) if isinstance(q, NodeHistograms)]
    in_order, shuffled = LocalBackend(blocks), LocalBackend(blocks)
    for backend in (in_order, shuffled):
        backend.apply(Start(loss))
    answers = {id(q): in_order.sum(q) for q in asked}
    for k in np.random.default_rng(0).permutation(len(asked)):
        np.testing.assert_array_equal(shuffled.sum(asked[k]), answers[id(asked[k])])
    update = next(updates(encoder.layout, loss, 1))
    fresh = LocalBackend(blocks)
    fresh.apply(Start(loss))
    in_order.sum(asked[0])
    for backend in (in_order, fresh):
        backend.apply(update)
    np.testing.assert_array_equal(in_order.sum(asked[1]), fresh.sum(asked[1]))
    assert not np.array_equal(in_order.sum(asked[1]), answers[id(asked[1])])


def test_where_rows_are_is_one_cache_for_growing_and_whole_trees():
    """Leaves asked for between levels, deeper or of other trees, change no answer."""
    encoder, blocks = rows_for(CLASSES, False)
    layout, cells = encoder.layout, CellMap.of_feature(0, np.arange(encoder.layout.n_codes[0]))
    deep, other = random_tree(layout, 4, 3), random_tree(layout, 3, 9)
    asked = [
        NodeHistograms(deep.top(0), cells),
        NodeHistograms(deep.top(1), cells),
        TreeSums((deep.top(3),)),  # rows go on from where the growing tree left them
        NodeHistograms(deep.top(2), cells),
        TreeSums((deep, other.top(3).with_level([(0, np.zeros(1, dtype=np.uint8))] * 8))),
        NodeHistograms(deep.top(3), cells),
        TreeSums((deep,)),
        TreeSums((other,)),
        NodeHistograms(deep, cells),
        NodeHistograms(deep, cells, statistics=STATISTICS[1]),
    ]
    one = LocalBackend(blocks)
    one.apply(Start(LOGISTIC.table(0.3, 0.1)))
    for query in asked:
        fresh = LocalBackend(blocks)
        fresh.apply(Start(LOGISTIC.table(0.3, 0.1)))
        np.testing.assert_array_equal(one.sum(query), fresh.sum(query))


def test_an_answer_that_is_remembered_cannot_be_changed():
    encoder, blocks = rows_for(CLASSES, False)
    asked = [q for q in queries(encoder.layout, 1) if isinstance(q, NodeHistograms)]
    backend = LocalBackend(blocks)
    backend.apply(Start(LOGISTIC.table(0.3, 0.1)))
    with pytest.raises(ValueError, match="read-only"):
        backend.sum(asked[0])[:] = 0


def test_full_blocks_at_the_clip_do_not_overflow():
    """Every row at the largest gradient in one cell: the packed sums are at their limit."""
    from privboost._core.grid import BLOCK_ROWS, WEIGHT_STEPS
    from privboost.engine.block_kernels import PACKED_ROWS

    assert BLOCK_ROWS <= PACKED_ROWS  # else a block's own sums would not fit
    layout = Layout((4, 4, 200))
    cells = CellMap.side_by_side(
        CellMap.of_feature(f, np.arange(codes)) for f, codes in enumerate(layout.n_codes)
    )
    joint = CellMap.joint(CellMap((part,)) for part in cells.parts[:2])
    edges = np.array([-5, 0], dtype=np.int32)
    rows = BLOCK_ROWS
    for label, sign in ((0, 1), (1, -1)):
        for weight in (None, np.full(rows, WEIGHT_STEPS, dtype=np.uint16)):
            codes = Codes(
                layout,
                np.zeros((3, rows), dtype=np.uint8),
                np.zeros((0, rows), dtype=np.uint16),
            )
            block = Rows(
                codes,
                np.full(rows, label, dtype=np.uint8),
                weight,
            )
            backend = LocalBackend([block, block])
            backend.apply(Start(LOGISTIC.table(0.01, 0.01)))
            most = 2 * rows * CLIP_STEPS * (1 if weight is None else WEIGHT_STEPS)
            for query in (CellSums(CellMap(cells.parts[:1])), CellSums(joint)):
                assert backend.sum(query)[0].tolist() == [sign * most, most]
            by_state = backend.sum(ScoreCounts(edges))
            assert by_state[2, label].tolist() == [most]
            assert np.count_nonzero(by_state) == 1
            for query in (NodeHistograms(stump(), cells), CellSums(cells)):
                sums = backend.sum(query).reshape(208, 2)
                assert sums[[0, 4, 8]].tolist() == [[sign * most, most]] * 3
                assert np.count_nonzero(sums) == 6


def test_an_empty_table_answers_zeros():
    encoder, _ = rows_for(CLASSES, False)
    for backend in (LocalBackend([], 1), LocalBackend([], 2), HostileBackend([])):
        backend.apply(Start(LOGISTIC.table(0.3, 0.1)))
        for query in queries(encoder.layout, 1):
            assert not backend.sum(query).any()


def test_messages_survive_the_wire():
    encoder, _ = rows_for(CLASSES, False)
    for message in [*queries(encoder.layout, 1), *updates(encoder.layout, None, 1)]:
        assert Message.from_bytes(message.to_bytes()).to_bytes() == message.to_bytes()


def test_small_features_share_a_code():
    """Forty indicators of which one is set are one column; random bits fill several."""
    rng = np.random.default_rng(0)
    layout = Layout((3,) * 52 + (194,))
    blocks = []
    for rows in (3000, 500):
        one_of = np.arange(40)[:, None] == rng.integers(0, 40, rows)
        columns = [one_of, rng.integers(0, 3, (12, rows)), rng.integers(0, 194, (1, rows))]
        narrow = np.concatenate(columns).astype(np.uint8)
        nothing = np.zeros((0, rows), dtype=np.uint16)
        blocks.append(Rows(Codes(layout, narrow, nothing), np.zeros(rows, dtype=np.uint8)))
    bundles = bundle(Blocks(blocks), tuple(range(53)))
    assert bundles.members[0].features[:40] == tuple(range(40))
    assert bundles.left_over == [52]
    assert sorted(f for each in bundles.members for f in each.features) == list(range(52))
    for number, each in enumerate(bundles.members):
        assert len(each.digits) <= MOST_COMBINATIONS
        for block, codes in zip(blocks, bundles.codes, strict=True):
            for k, feature in enumerate(each.features):
                np.testing.assert_array_equal(each.digits[codes[number], k], block.column(feature))


def test_a_shard_without_a_start_refuses():
    encoder, blocks = rows_for(CLASSES, False)
    with pytest.raises(RuntimeError, match="Start"):
        LocalBackend(blocks).sum(next(queries(encoder.layout, 1)))


def test_rows_without_scores_answer_and_follow_nothing():
    """Kernels go by addresses: there must be something at them."""
    encoder, blocks = rows_for(CLASSES, weighted=False)
    backend, loss = LocalBackend(blocks), LOGISTIC.table(0.3, 0.1)
    for update in updates(encoder.layout, loss, 1):
        with pytest.raises(RuntimeError, match="needs a Start"):
            backend.apply(update)
    backend.apply(UseLoss(loss))
    with pytest.raises(RuntimeError, match="needs a Start"):
        backend.sum(TreeSums((random_tree(encoder.layout, 2, 1),)))
