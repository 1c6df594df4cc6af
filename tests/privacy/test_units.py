import numpy as np

from privboost.randomness.keystream import KeyStream
from privboost.tables.encoding import Encoder
from privboost.tables.loader import UnitRule
from privboost.tables.rows import join
from tests.tables import encode_training, make_domain, make_frame

DOMAIN = make_domain(unit={"column": "person", "max_rows": 3})


def bounded(frame, seed=1, block_rows=64):
    rows = encode_training(Encoder.of(DOMAIN), frame, block_rows=block_rows)
    return rows.bounded(UnitRule("u", 3, KeyStream.seeded(seed).words(2)))


def content(blocks):
    block = join(blocks)
    return sorted(
        map(bytes, np.concatenate([block.codes.narrow, block.codes.wide.astype(np.uint8)]).T.copy())
    )


def test_at_most_so_many_rows_of_each_and_none_without_a_unit():
    frame = make_frame(400)
    kept = sum(len(block) for block in bounded(frame))
    assert kept == frame["person"].value_counts().clip(upper=3).sum() == 30


def test_the_choice_depends_on_the_key_and_not_on_order_or_blocks():
    frame = make_frame(400)
    chosen = content(bounded(frame))
    assert content(bounded(frame.sample(frac=1, random_state=3), block_rows=17)) == chosen
    assert content(bounded(frame, seed=2)) != chosen


def test_one_unit_does_not_change_the_rows_of_another():
    frame = make_frame(400)
    fewer = frame[frame["person"] != "c"]
    own = content(bounded(frame[frame["person"] == "c"]))
    assert sorted(content(bounded(fewer)) + own) == content(bounded(frame))


def test_no_rows():
    assert sum(len(block) for block in bounded(make_frame(0))) == 0
