"""Losses with a line for each bin of labels: the same integers on every backend, and refusals."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privboost._core.grid import CLIP_STEPS, LABEL_STEPS, SCORE_STEPS, Contribution
from privboost.data.encoding import Encoder
from privboost.data.rows import join, lines_of_labels
from privboost.engine.backend import LocalBackend
from privboost.engine.protocol import Message
from privboost.engine.queries import CellSums, PredictionSums, ScoreCounts, TreeSums
from privboost.engine.updates import SetLabelBins, Start, UseLoss, UsePart
from privboost.losses.base import UNKNOWN_LABEL, LossTable, within_steps
from privboost.losses.logistic import LOGISTIC
from privboost.losses.squared import SQUARED_NUMBER
from privboost.randomness.sampling import Sample
from privboost.trees.tree import stump
from tests.engine.test_queries import cells_of, leaves, queries, rows_for, updates
from tests.hostile import HostileBackend
from tests.tables import CLASSES, NUMBER, encode_training, make_domain, make_frame

pytestmark = pytest.mark.usefixtures("eager_threads")


def table_of(bins, seed=3, size=256, shift=12):
    """Any table of so many bins: entries at random within the clip, none of unknown labels."""
    rng = np.random.default_rng(seed)
    gradient = rng.integers(-CLIP_STEPS, CLIP_STEPS + 1, (bins + 1, size)).astype(np.int32)
    hessian = rng.integers(0, CLIP_STEPS + 1, (bins + 1, size)).astype(np.int32)
    gradient[-1] = hessian[-1] = 0
    return LossTable(gradient, hessian, shift)


def edges_of(bins):
    return np.linspace(-0.9 * LABEL_STEPS, 0.8 * LABEL_STEPS, bins - 1).astype(np.int32)


def expected(blocks, loss, edges, told, query):
    """The sums of a query, from the definition of lines, states and cells."""
    block = join(blocks)
    state = np.zeros(len(block), dtype=np.int64)
    for update in told:
        if hasattr(update, "cells"):
            for cells in cells_of(block, update.cells):
                state = state + update.value_of[cells]
        else:
            for tree, values in zip(update.trees, update.value_of, strict=True):
                state = state + values[leaves(block, tree)]
    line = (edges[:, None] <= -block.minus_label[None, :].astype(np.int64)).sum(axis=0)
    line[block.label == UNKNOWN_LABEL] = len(edges) + 1
    if isinstance(query, PredictionSums):
        state = np.clip(state, -query.limit, query.limit)
    column = np.clip((state >> loss.shift) + loss.size // 2, 0, loss.size - 1)
    weight = 1 if block.weight is None else block.weight.astype(np.int64)
    added = [loss.statistic(name)[line, column] * weight for name in query.statistics]
    if isinstance(query, CellSums):
        at = list(cells_of(block, query.cells))
    elif isinstance(query, ScoreCounts | PredictionSums):
        at = [np.searchsorted(query.edges, state, side="right")]
    elif isinstance(query, TreeSums):
        at = [k * tree.n_leaves + leaves(block, tree) for k, tree in enumerate(query.trees)]
    else:
        node = leaves(block, query.tree) * query.cells.n_cells
        at = [node + cells for cells in cells_of(block, query.cells)]
    out = np.zeros((int(np.prod(query.shape[:-1])), len(added)), dtype=np.int64)
    for cells in at:
        for k, values in enumerate(added):
            np.add.at(out[:, k], cells, values)
    return out.reshape(query.shape)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("bins", [2, 3, 253])
def test_sums_follow_the_bin_of_the_label_on_every_backend(bins, weighted):
    encoder, blocks = rows_for(NUMBER, weighted)
    loss, edges = table_of(bins), edges_of(bins)
    assert within_steps(loss)
    backends = [
        LocalBackend(blocks, 1),
        LocalBackend(blocks, 3),
        HostileBackend(blocks, seed=1, death_rate=0.3),
    ]
    told = list(updates(encoder.layout, loss, 1))
    for backend in backends:
        backend.apply(Start(SQUARED_NUMBER.table(1.0, 1.0)))  # an earlier loss leaves nothing
        for update in [SetLabelBins(edges), Start(loss), *told]:
            backend.apply(update)
    for query in queries(encoder.layout, 1, 1):
        wanted = expected(blocks, loss, edges, told, query)
        for backend in backends:
            np.testing.assert_array_equal(backend.sum(query), wanted)
    assert backends[2].deaths > 0


def test_without_edges_states_are_scores_less_labels_again():
    _, blocks = rows_for(NUMBER, False)
    one, other = LocalBackend(blocks), LocalBackend(blocks)
    squared = Start(SQUARED_NUMBER.table(1.0, 1.0))
    one.apply(squared)
    for update in [SetLabelBins(edges_of(5)), Start(table_of(5)), SetLabelBins(edges_of(5)[:0])]:
        other.apply(update)
    other.apply(UseLoss(table_of(5, seed=4)))  # the lines are those of the last start
    other.apply(squared)
    counts = ScoreCounts(np.linspace(-SCORE_STEPS, SCORE_STEPS, 9).astype(np.int32), 1)
    np.testing.assert_array_equal(other.sum(counts), one.sum(counts))


def test_a_loss_without_a_line_for_each_bin_is_refused():
    """Before a row is looked up: what is refused does not depend on rows."""
    for blocks in ([], rows_for(NUMBER, False)[1]):
        shard = LocalBackend(blocks)
        with pytest.raises(ValueError, match="needs 3 lines, and has 6"):
            shard.apply(Start(table_of(5)))
        shard.apply(SetLabelBins(edges_of(5)))
        for loss in (SQUARED_NUMBER.table(1.0, 1.0), table_of(4), table_of(6)):
            with pytest.raises(ValueError, match="needs 6 lines"):
                shard.apply(Start(loss))
        shard.apply(Start(table_of(5)))
        with pytest.raises(ValueError, match="needs 6 lines"):
            shard.apply(UseLoss(table_of(4)))


def test_no_rows_are_put_aside_while_labels_have_bins():
    """Their states are no residuals, and lines of rows put aside would count."""
    shard = LocalBackend(rows_for(NUMBER, False)[1])
    for update in (SetLabelBins(edges_of(5)), Start(table_of(5))):
        shard.apply(update)
    aside = Sample(np.zeros(32, dtype=np.uint8), 0.5)
    with pytest.raises(ValueError, match="only where states are residuals"):
        shard.apply(UsePart(aside, True))


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_put_aside_before_labels_have_bins_count_nowhere(weighted):
    """As in a fit whose loss has a log link: bins come after rows are put aside, and go at last."""
    _, blocks = rows_for(NUMBER, weighted)
    coins = Sample(np.arange(32, dtype=np.uint8), 0.4)
    (rows,) = [join(blocks)]
    alone = [rows.take(np.flatnonzero(coins.mask(rows.ids) == side)) for side in (False, True)]
    every = [SetLabelBins(edges_of(5)), Start(table_of(5))]
    query = TreeSums((stump(),), statistics=("gradient", "hessian"))
    for backend in (LocalBackend(blocks), HostileBackend(blocks, 3, 0.4)):
        backend.apply(UsePart(coins, False))
        for update in every:
            backend.apply(update)
        own = LocalBackend([alone[0]])
        for update in every:
            own.apply(update)
        np.testing.assert_array_equal(backend.sum(query), own.sum(query))
        squared = SQUARED_NUMBER.table(1.0, 1.0)
        for update in (SetLabelBins(edges_of(5)[:0]), Start(squared), UsePart(coins, True)):
            backend.apply(update)
        aside = LocalBackend([alone[1]])
        aside.apply(Start(squared))
        counted = TreeSums((stump(),), statistics=("count",))
        np.testing.assert_array_equal(backend.sum(counted), aside.sum(counted))


def test_classes_have_no_bins():
    shard = LocalBackend(rows_for(CLASSES, False)[1])
    shard.apply(SetLabelBins(edges_of(5)))
    with pytest.raises(RuntimeError, match="only numeric labels have bins"):
        shard.apply(Start(table_of(5)))
    with pytest.raises(ValueError, match="have one score"):
        shard.apply(Start(table_of(5), 3))


@pytest.mark.parametrize(
    "edges",
    [
        np.arange(253, dtype=np.int32),
        np.array([3, 3], dtype=np.int32),
        np.array([4, 3], dtype=np.int32),
        np.zeros((1, 1), dtype=np.int32),
        np.zeros(1),
        [1, 2],
    ],
)
def test_edges_that_are_none_are_refused(edges):
    with pytest.raises(ValueError, match="edges of labels"):
        SetLabelBins(edges)


def test_the_update_travels():
    update = SetLabelBins(edges_of(17))
    read = Message.from_bytes(update.to_bytes())
    assert isinstance(read, SetLabelBins)
    np.testing.assert_array_equal(read.edges, update.edges)


def test_a_table_whose_unknown_labels_add_something_is_refused():
    """The twin of a checked table: rows that must not count would."""
    loss = table_of(4)
    for name in ("gradient", "hessian"):
        wrong = getattr(loss, name).copy()
        wrong[-1, 7] = 1
        assert not within_steps(replace(loss, **{name: wrong}))
    assert not loss.count[-1].any()
    assert (loss.count[:-1] == CLIP_STEPS).all()
    assert LOGISTIC.table(1.0, 0.25).lines == 3


def test_lines_are_counted_from_below():
    block = rows_for(NUMBER, False)[1][0]
    edges = np.sort(np.unique(-block.minus_label))[[1, 3]]
    found = lines_of_labels(block, edges)
    known = block.label != UNKNOWN_LABEL
    for line, label in zip(found[known], -block.minus_label[known], strict=True):
        assert line == sum(label >= edges)
    assert (found[~known] == UNKNOWN_LABEL).all()


def answers(frame, bins, weighted, shuffle):
    """All queries on a table with lines of labels, its rows in an order of their own."""
    encoder = Encoder.of(make_domain(NUMBER))
    weights = "weight" if weighted else None
    rows = encode_training(
        encoder,
        frame.sample(frac=1, random_state=shuffle),
        weights=weights,
        weight_bound=2.0,
        block_rows=7,
    )
    backend = HostileBackend(rows.blocks, shuffle) if shuffle % 2 else LocalBackend(rows.blocks, 2)
    loss = table_of(bins)
    for update in [SetLabelBins(edges_of(bins)), Start(loss), *updates(encoder.layout, loss, 1)]:
        backend.apply(update)
    return [(query, backend.sum(query)) for query in queries(encoder.layout, 1, 1)]


def exceeds(frame, gone, bins, weighted, shuffle):
    """Whether a row changes some answer by more than its query claims."""
    whole = answers(frame, bins, weighted, shuffle)
    fewer = answers(frame.drop(index=gone), bins, weighted, shuffle + 1)
    for (query, more), (_, less) in zip(whole, fewer, strict=True):
        change, bound = more - less, query.bound(Contribution(weighted))
        touched = (change != 0).reshape(-1, bound.statistics).sum(axis=0)
        if np.abs(change).max() > bound.steps or (touched > bound.cells).any():
            return True
    return False


@given(
    bins=st.sampled_from([2, 5, 253]),
    rows=st.integers(1, 25),
    seed=st.integers(0, 10_000),
    weighted=st.booleans(),
    shuffle=st.integers(0, 1000),
    data=st.data(),
)
@settings(max_examples=15)
def test_a_row_changes_no_sum_by_more_than_is_claimed(bins, rows, seed, weighted, shuffle, data):
    frame = make_frame(rows, seed, NUMBER)
    assert not exceeds(frame, data.draw(st.integers(0, rows - 1)), bins, weighted, shuffle)


def test_a_shard_that_takes_bins_from_its_rows_is_caught(monkeypatch):
    """The twin cuts bins at the labels that occur: one row moves others to other lines."""

    def from_rows(rows, edges):
        own = np.unique(-rows.minus_label)
        return lines_of_labels(rows, own[np.linspace(0, len(own) - 1, len(edges)).astype(int)])

    frame = make_frame(25, 4, NUMBER)
    assert not any(exceeds(frame, gone, 5, False, 2) for gone in range(25))
    monkeypatch.setattr("privboost.engine.shard.lines_of_labels", from_rows)
    assert any(exceeds(frame, gone, 5, False, 2) for gone in range(25))
