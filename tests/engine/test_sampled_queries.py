"""Samples: who takes part in a query is decided by each row's own coin."""

from dataclasses import replace

import numpy as np
import pytest

from privboost.data.rows import MOST_IDS, id_array, join
from privboost.engine.backend import LocalBackend
from privboost.engine.queries import CellSums, NodeHistograms, TreeSums
from privboost.engine.updates import Start
from privboost.losses.logistic import LOGISTIC
from privboost.randomness.keystream import KeyStream
from privboost.randomness.sampling import Sample, bernoulli_mask
from privboost.trees.cell_map import CellMap
from privboost.trees.tree import stump
from tests.engine.test_queries import queries, rows_for
from tests.hostile import HostileBackend
from tests.tables import CLASSES

pytestmark = pytest.mark.usefixtures("eager_threads")

KEY = np.arange(32, dtype=np.uint8)


def sampled(query, rate=0.3, key=KEY):
    return replace(query, sample=Sample(key, rate))


@pytest.mark.parametrize("weighted", [False, True])
def test_a_sample_is_answered_by_the_chosen_rows_alone(weighted):
    encoder, blocks = rows_for(CLASSES, weighted)
    loss, rows = LOGISTIC.table(0.3, 0.1), join(blocks)
    chosen = rows.take(bernoulli_mask(KeyStream(KEY.tobytes()), rows.ids, 0.3))
    assert 0.2 < len(chosen) / len(rows) < 0.4
    alone = LocalBackend([chosen])
    backends = [LocalBackend(blocks), LocalBackend(blocks, 2), HostileBackend(blocks, 3)]
    for backend in (alone, *backends):
        backend.apply(Start(loss))
    for query in queries(encoder.layout, 1):
        expected = alone.sum(query)
        for backend in backends:
            np.testing.assert_array_equal(backend.sum(sampled(query)), expected)
            if isinstance(query, NodeHistograms):  # what another sample left is not re-used
                backend.sum(sampled(query, key=KEY + np.uint8(1)))


def test_other_keys_choose_other_rows():
    encoder, blocks = rows_for(CLASSES, False)
    backend = LocalBackend(blocks)
    backend.apply(Start(LOGISTIC.table(0.3, 0.1)))
    query = TreeSums((stump(),))
    answers = [backend.sum(sampled(query, key=KEY + np.uint8(k)))[0, 0, 1] for k in range(5)]
    assert len(set(answers)) == 5
    assert encoder.layout.n_codes


def test_rows_without_ids_cannot_be_sampled():
    encoder, blocks = rows_for(CLASSES, False)
    backend = LocalBackend([replace(block, ids=None) for block in blocks])
    backend.apply(Start(LOGISTIC.table(0.3, 0.1)))
    query = CellSums(CellMap.of_feature(4, np.zeros(encoder.layout.n_codes[4], dtype=np.uint16)))
    backend.sum(query)
    with pytest.raises(RuntimeError, match="without ids"):
        backend.sum(sampled(query))


@pytest.mark.parametrize("start", [0, 1, 16384, 99_999])
def test_a_range_of_rows_has_the_coins_of_its_rows_one_by_one(start):
    one, two = KeyStream.seeded(6), KeyStream.seeded(6)
    ids = range(start, start + 501)
    shuffled = np.random.default_rng(1).permutation(np.array(ids))
    by_range = bernoulli_mask(one, ids, 0.4)
    by_id = dict(zip(shuffled.tolist(), bernoulli_mask(two, shuffled, 0.4), strict=True))
    assert [by_id[i] for i in ids] == by_range.tolist()
    words = KeyStream.seeded(6).words(start + 501)[start:]
    np.testing.assert_array_equal(KeyStream.seeded(6).words_at(ids), words)


def numbered(ids):
    _, blocks = rows_for(CLASSES, False)
    return replace(blocks[0].take(np.arange(len(ids))), ids=ids)


def test_ids_that_would_not_be_told_apart_are_refused():
    last = numbered(range(MOST_IDS - 4, MOST_IDS))
    assert id_array(last.ids).tolist() == list(last.ids)
    assert last.take(np.array([3])).ids.tolist() == [MOST_IDS - 1]
    beyond = numbered(range(MOST_IDS - 3, MOST_IDS + 1))
    for move in (lambda: beyond.take(np.array([0])), lambda: join([beyond])):
        with pytest.raises(ValueError, match="below 2"):
            move()


def test_spark_numbers_rows_without_turning_over():
    shifted = pytest.importorskip("privboost.distributed.spark_worker")._shifted
    held = numbered(np.arange(4, dtype=np.uint32))
    assert shifted(held, MOST_IDS - 4).ids.tolist() == list(range(MOST_IDS - 4, MOST_IDS))
    for first in (MOST_IDS - 3, MOST_IDS, 2 * MOST_IDS):
        with pytest.raises(ValueError, match="below 2"):
            shifted(held, first)
    with pytest.raises(ValueError, match="below 2"):
        shifted(numbered(range(4)), MOST_IDS - 3).take(np.array([0]))
    none = held.take(np.arange(0))
    assert len(shifted(none, 2 * MOST_IDS)) == 0


def test_coins_of_consecutive_ids_are_those_of_their_positions_at_any_size():
    stream, ids = KeyStream(KEY.tobytes()), range(MOST_IDS - 500, MOST_IDS + 500)
    at = np.arange(ids.start, ids.stop, dtype=np.uint64)
    own, lower = bernoulli_mask(stream, ids, 0.3), bernoulli_mask(stream, range(500), 0.3)
    np.testing.assert_array_equal(own, bernoulli_mask(stream, at, 0.3))
    assert (own[500:] != lower).any()
