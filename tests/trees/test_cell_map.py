"""Maps from codes to cells: checked and fixed when they are made, wherever they come from."""

from dataclasses import replace

import numpy as np
import pytest

from privboost._core import codec
from privboost.data.rows import Codes, Layout, Rows
from privboost.engine.backend import LocalBackend
from privboost.engine.protocol import MAGIC, Message
from privboost.engine.queries import CellSums, NodeHistograms, ScoreCounts, VoteCounts
from privboost.engine.updates import AddCellValues, Start
from privboost.losses.logistic import LOGISTIC
from privboost.trees.cell_map import MOST_CODES, CellMap, CellPart
from privboost.trees.tree import stump

ONE = CellMap.of_feature(0, np.array([0, 0, 1, 2]))
OTHER = CellMap.of_feature(2, np.array([1, 0, 1]), 4)
JOINT = CellMap.joint([ONE, OTHER])
EDGES = np.array([-3, 0, 7], dtype=np.int32)


def test_a_joint_cell_has_the_features_own_cells_as_digits():
    assert JOINT.n_cells == 12
    assert JOINT.features == (0, 2)
    both = CellMap.side_by_side([ONE, JOINT, OTHER])
    assert (both.n_cells, both.first) == (19, (0, 3, 15))
    assert both.features == (0, 0, 2, 2)
    assert not both.apart
    assert not JOINT.apart
    own = CellMap.side_by_side([ONE, OTHER]).by_feature()
    assert {f: cells.tolist() for f, cells in own.items()} == {0: [0, 0, 1, 2], 2: [4, 3, 4]}
    with pytest.raises(ValueError, match="no other part"):
        JOINT.by_feature()


def test_what_was_checked_cannot_be_changed():
    mine = np.array([0, 1, 0], dtype=np.uint16)
    cells = CellMap.of_feature(0, mine)
    mine[:] = 9
    kept = cells.parts[0].cell_of[0]
    assert kept.tolist() == [0, 1, 0]
    with pytest.raises(ValueError, match="read-only"):
        kept[:] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        kept.flags.writeable = True
    counts = ScoreCounts(EDGES.copy())
    with pytest.raises(ValueError, match="read-only"):
        counts.edges[:] = 0


def test_maps_are_the_same_by_what_they_say():
    again = CellMap.joint([ONE, CellMap.of_feature(2, np.array([1, 0, 1], dtype=np.uint8), 4)])
    assert JOINT.same_as(again)
    for cells in (ONE, CellMap.joint([OTHER, ONE]), CellMap.side_by_side([JOINT, ONE])):
        assert not JOINT.same_as(cells)
    assert not OTHER.same_as(CellMap.of_feature(2, np.array([1, 0, 1]), 5))
    assert not OTHER.same_as(CellMap.of_feature(2, np.array([1, 1, 1]), 4))


@pytest.mark.parametrize(
    ("features", "cell_of", "sizes"),
    [
        ((), (), ()),
        ((0, 1), (np.arange(2),), (2,)),
        ((0, 0), (np.arange(2),) * 2, (2, 2)),
        (tuple(range(4)), (np.arange(2),) * 4, (2,) * 4),
        ((-1,), (np.arange(2),), (2,)),
        ((True,), (np.arange(2),), (2,)),
        ((1.0,), (np.arange(2),), (2,)),
        ((0,), (np.arange(3),), (2,)),
        ((0,), (np.array([-1, 0]),), (2,)),
        ((0,), (np.array([0.0, 1.0]),), (2,)),
        ((0,), (np.zeros(0, dtype=np.uint16),), (1,)),
        ((0,), (np.zeros((2, 2), dtype=np.uint16),), (1,)),
        ((0,), ([0, 1],), (2,)),
        ((0,), (np.arange(2),), (MOST_CODES + 1,)),
        ((0,), (np.arange(2),), (2.0,)),
        ((0,), (np.array([2**16]),), (2**17,)),
        ((0, 1), (np.zeros(1, dtype=np.uint16),) * 2, (MOST_CODES,) * 2),
        ([0], (np.arange(2),), (2,)),
    ],
)
def test_cells_that_no_feature_has_are_refused(features, cell_of, sizes):
    with pytest.raises(ValueError, match=r"cell|feature|codes"):
        CellPart(features, cell_of, sizes)


def test_queries_and_updates_refuse_what_they_cannot_answer():
    leaf = np.zeros(1, dtype=np.uint16)
    for make in (
        lambda: NodeHistograms(stump(), JOINT),
        lambda: NodeHistograms(stump(), CellMap.side_by_side([ONE, ONE])),
        lambda: VoteCounts(stump(), leaf, JOINT, 0),
        lambda: CellSums(None),
        lambda: CellSums(ONE, statistics=("hessian", "gradient")),
        lambda: AddCellValues(ONE, np.zeros(4, dtype=np.int32)),
        lambda: AddCellValues(ONE, np.zeros(3, dtype=np.int64)),
        lambda: ScoreCounts(EDGES[::-1].copy()),
        lambda: ScoreCounts(np.zeros(2, dtype=np.int32)),
        lambda: ScoreCounts(EDGES.astype(np.int64)),
        lambda: ScoreCounts(EDGES, 3),
        lambda: CellMap((ONE,)),
        lambda: CellMap([ONE.parts[0]]),
    ):
        with pytest.raises(ValueError, match=r"part|cell|statistics|edges|class"):
            make()


def a_backend():
    rows = 5
    wide = np.zeros((0, rows), dtype=np.uint16)
    codes = Codes(Layout((4, 2, 3)), np.zeros((3, rows), dtype=np.uint8), wide)
    backend = LocalBackend([Rows(codes, np.zeros(rows, dtype=np.uint8))])
    backend.apply(Start(LOGISTIC.table(0.3, 0.1)))
    return backend


@pytest.mark.parametrize(
    "cells",
    [
        CellMap.of_feature(0, np.arange(3)),  # a code too few
        CellMap.of_feature(0, np.arange(5)),
        CellMap.of_feature(7, np.arange(4)),  # no such feature
        CellMap.joint([ONE, CellMap.of_feature(1, np.arange(3))]),
    ],
)
def test_a_map_of_other_columns_does_not_reach_a_kernel(cells):
    backend = a_backend()
    leaf, values = np.zeros(1, dtype=np.uint16), np.zeros(cells.n_cells, dtype=np.int32)
    with pytest.raises(ValueError, match="a cell for each code"):
        backend.sum(CellSums(cells))
    with pytest.raises(ValueError, match="a cell for each code"):
        backend.apply(AddCellValues(cells, values))
    if cells.apart:
        for query in (NodeHistograms(stump(), cells), VoteCounts(stump(), leaf, cells, 0)):
            with pytest.raises(ValueError, match="a cell for each code"):
                backend.sum(query)


def change(form, *path):
    *inner, last, how = path
    for key in inner:
        form = form[key]
    form[last] = how(form[last])


PART = ("cells", "parts", 0)


@pytest.mark.parametrize(
    "path",
    [
        (*PART, "cell_of", 0, lambda a: a + np.uint16(3)),
        (*PART, "cell_of", 0, lambda a: a.astype(np.float64)),
        (*PART, "cell_of", 1, lambda a: a.reshape(1, -1)),
        (*PART, "cell_of", lambda arrays: arrays[:1]),
        (*PART, "sizes", 0, lambda _: 2),
        (*PART, "sizes", 1, lambda _: 2**40),
        (*PART, "sizes", lambda _: 12),
        (*PART, "features", 0, lambda _: "0"),
        (*PART, "features", 0, lambda _: 2),
        (*PART, "kind", lambda _: "Tree"),
        (*PART, "kind", lambda _: "CellMap"),
        ("cells", "parts", lambda _: [1, 2]),
        ("cells", lambda _: 7),
        ("value_of", lambda a: a[:-1]),
        ("value_of", lambda a: a.astype(np.uint32)),
        ("kind", lambda _: "os.system"),
    ],
)
def test_a_forged_message_is_refused_where_it_is_read(path):
    honest = AddCellValues(JOINT, np.zeros(12, dtype=np.int32)).to_bytes()
    form = codec.load(honest, MAGIC)
    change(form, *path)
    with pytest.raises((ValueError, LookupError, TypeError)):
        Message.from_bytes(codec.dump(form, MAGIC))
    assert Message.from_bytes(honest).cells.same_as(JOINT)


def test_a_damaged_message_never_becomes_another_map():
    """Any byte may be hit: what is read is refused, or has cells within their number."""
    honest = CellSums(JOINT).to_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        data = bytearray(honest)
        data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
        try:
            query = Message.from_bytes(bytes(data))
        except (ValueError, LookupError, TypeError):
            refused += 1
            continue
        for part in query.cells.parts:
            for cells, size in zip(part.cell_of, part.sizes, strict=True):
                assert cells.max() < size
    assert refused > 200


def test_a_sample_can_be_put_into_every_query():
    for query in (CellSums(JOINT), ScoreCounts(EDGES)):
        assert replace(query, sample=None).shape == query.shape
