"""Every answer of a device is that of the processor's own kernels."""

import json
from dataclasses import replace

import numpy as np
import pytest

from privboost import PrivBoostClassifier
from privboost._core.grid import (
    BLOCK_ROWS,
    BUDGET_STEPS,
    CLIP_STEPS,
    VECTOR_STEPS,
    WEIGHT_CLASSES,
    WEIGHT_STEPS,
    Contribution,
)
from privboost.cuda import shard
from privboost.cuda import trees as routes
from privboost.cuda.aes import round_keys
from privboost.cuda.backend import CudaBackend
from privboost.cuda.rows import DeviceRows
from privboost.data.rows import MOST_IDS, Codes, Layout, Rows
from privboost.engine.backend import LocalBackend
from privboost.engine.queries import CellSums, GramSums, LinearSums, NodeHistograms, TreeSums
from privboost.engine.updates import Charge, OpenBudgets, Price, SetLabelBins, Start
from privboost.losses.base import loss_of
from privboost.losses.logistic import LOGISTIC
from privboost.recipes.common.coordinates import design
from privboost.trees.cell_map import CellMap
from privboost.trees.tree import stump
from tests.cuda.conftest import crowd
from tests.cuda.processor_device import ProcessorDevice
from tests.engine.test_label_bins import edges_of, table_of
from tests.engine.test_linear import DESIGNS, LOSSES, coded, started
from tests.engine.test_queries import CASES, queries, random_tree, rows_for, updates
from tests.engine.test_sampled_queries import sampled
from tests.tables import CLASSES, NUMBER, THREE, make_domain, make_frame, opens


def need_equal(one, other, query):
    np.testing.assert_array_equal(other.sum(query), one.sum(query))


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize(("target", "loss", "n_outputs", "weighted"), CASES)
def test_sums(device, target, loss, n_outputs, weighted, small):
    """With little shared memory, sums take several launches, or global memory."""
    if small:
        if not isinstance(device, ProcessorDevice):
            pytest.skip("a device has the memory that it has")
        device.shared_memory = 70_000
    encoder, blocks = rows_for(target, weighted)
    one = LocalBackend(blocks)
    others = [CudaBackend(blocks, [device]), CudaBackend(blocks, crowd(device), 300, least_rows=1)]
    for update in [Start(loss, n_outputs), *updates(encoder.layout, loss, n_outputs)]:
        for backend in (one, *others):
            backend.apply(update)
    for query in queries(encoder.layout, n_outputs, 1 if target is NUMBER else 2):
        for other in others:
            need_equal(one, other, query)


@pytest.mark.parametrize("weighted", [False, True])
def test_samples(device, weighted):
    encoder, blocks = rows_for(CLASSES, weighted)
    shuffled = [block.take(np.random.default_rng(1).permutation(len(block))) for block in blocks]
    one, two = LocalBackend(blocks), CudaBackend(blocks, [device])
    three = CudaBackend(shuffled, crowd(device), 300, least_rows=1)
    for backend in (one, two, three):
        backend.apply(Start(LOGISTIC.table(0.3, 0.1)))
    for query in queries(encoder.layout, 1):
        for rate in (1e-9, 0.3, 1.0):
            need_equal(one, two, sampled(query, rate))
            need_equal(one, three, sampled(query, rate))


@pytest.mark.parametrize("most", [0, 99])
def test_trees_whose_columns_are_copied_to_shared_memory(device, monkeypatch, most):
    """From any level on, with rows that end anywhere in a tile."""
    monkeypatch.setattr(routes, "MANY_ROWS", 1)
    monkeypatch.setattr(routes, "_COLUMNS_OF_A_LEVEL", most)
    layout, rng = Layout((193, 9, 255, 300, 40)), np.random.default_rng(0)
    blocks = []
    for rows in (4000, 1, 777):
        codes = Codes.of(layout, np.stack([rng.integers(0, n, rows) for n in layout.n_codes]))
        blocks.append(Rows(codes, rng.integers(0, 2, rows, dtype=np.uint8)))
    one, other = LocalBackend(blocks), CudaBackend(blocks, [device])
    for backend in (one, other):
        backend.apply(Start(LOGISTIC.table(0.3, 0.1)))
    narrow = Layout((193, 9, 255))
    trees = [random_tree(narrow, depth, seed) for seed, depth in enumerate((1, 2, 5, 8))]
    trees += [trees[-1].top(depth) for depth in (3, 4, 7, 8)] + [random_tree(layout, 6, 9)]
    for tree in trees:
        need_equal(one, other, TreeSums((tree,)))
    if isinstance(device, ProcessorDevice):
        assert ("route_tiles" in device.launched) == (most > 0)


def test_keys_of_rounds_are_those_of_the_standard():
    """FIPS 197, appendix A.3."""
    key = "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4"
    words = round_keys(bytes.fromhex(key))
    assert [hex(words[k]) for k in (8, 12, 59)] == ["0x9ba35411", "0xa8b09c1a", "0x706c631e"]


@pytest.mark.parametrize("columns", DESIGNS)
@pytest.mark.parametrize("task", LOSSES)
@pytest.mark.parametrize("weighted", [False, True])
def test_vectors(device, columns, task, weighted, monkeypatch):
    """Products are made of some rows at a time, as many as the device can spare memory for."""
    monkeypatch.setattr(shard, "_SLICE", 64)
    name, target = LOSSES[task]
    encoder, blocks = coded(target, 400, weighted=weighted)
    terms = design(encoder, **DESIGNS[columns]).terms
    outputs = 3 if target is THREE else 1
    loss = loss_of(*name).gradient_table(0.6, (1.0, 0.5))
    one = started(blocks, terms, loss, outputs)
    for where in (
        {"devices": [device]},
        {"devices": crowd(device), "most_rows": 90, "least_rows": 1},
    ):
        other = started(blocks, terms, loss, outputs, CudaBackend, **where)
        need_equal(one, other, LinearSums.of(terms, outputs - 1))
        need_equal(one, other, GramSums.of(terms, np.array([VECTOR_STEPS, 20000])))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("label", "sign"), [(0, 1), (1, -1)])
def test_identical_rows_at_the_clip_do_not_overflow(device, label, sign, weighted):
    """All rows in one cell, each as large as can be: sums of 32 bits spill in time."""
    layout, rows, times = Layout((4, 200)), BLOCK_ROWS, 90
    weight = np.full(rows, WEIGHT_STEPS, dtype=np.uint16) if weighted else None
    none = np.zeros((0, rows), dtype=np.uint16)
    codes = Codes(layout, np.full((2, rows), 3, dtype=np.uint8), none)
    blocks = [Rows(codes, np.full(rows, label, dtype=np.uint8), weight)] * times
    backend = CudaBackend(blocks, [device])
    backend.apply(Start(LOGISTIC.table(0.01, 0.01)))
    most = times * rows * CLIP_STEPS * (WEIGHT_STEPS if weighted else 1)
    cells = CellMap.side_by_side(
        CellMap.of_feature(f, np.arange(n)) for f, n in enumerate((4, 200))
    )
    tree = random_tree(layout, 3, 1)
    for query in (
        *(CellSums(CellMap((part,))) for part in cells.parts),
        *(CellSums(each) for each in (cells, CellMap.joint([cells]))),
        *(TreeSums((each,)) for each in (stump(), tree)),
        *(NodeHistograms(each, cells) for each in (stump(), tree.top(1), tree.top(2), tree)),
    ):
        sums = backend.sum(query).reshape(-1, 2)
        found = sums[sums.any(axis=1)]
        touched = query.bound(Contribution()).cells
        assert found.tolist() == [[sign * most, most]] * touched


def test_an_empty_table_answers_zeros(device):
    encoder, _ = rows_for(CLASSES, False)
    backend = CudaBackend([], [device])
    backend.apply(Start(LOGISTIC.table(0.3, 0.1)))
    for query in queries(encoder.layout, 1):
        assert not backend.sum(query).any()
    assert backend.tally() == {}


def test_a_device_without_a_start_refuses(device):
    encoder, blocks = rows_for(CLASSES, False)
    with pytest.raises(RuntimeError, match="Start"):
        CudaBackend(blocks, [device]).sum(next(queries(encoder.layout, 1)))


def test_a_kernel_that_fails_ends_the_fit_with_a_true_ledger(device, monkeypatch, tmp_path):
    begun = []
    launch = device.launch

    def fail(kernel, *task, **how):
        begun.append(kernel)
        if begun.count("sum_alone") == 5:
            raise RuntimeError("a fault of the device")
        launch(kernel, *task, **how)

    monkeypatch.setattr(device, "launch", fail)
    there, ledger = opens(CudaBackend, devices=[device]), tmp_path / "ledger.jsonl"
    how = {"n_estimators": 20, "interactions": False, "backend": there, "ledger": ledger}
    with pytest.raises(RuntimeError, match="a fault of the device"):
        PrivBoostClassifier(1.0, 1e-6, make_domain(), **how).fit(make_frame(100))
    entries = [json.loads(line)["entry"] for line in ledger.read_text().splitlines()]
    assert entries[0] == "reserve"
    assert entries.count("charge") >= 5


def test_rows_that_a_device_cannot_hold_lie_in_the_machines_memory(device):
    if isinstance(device, ProcessorDevice):
        pytest.skip("the processor's memory is the machine's")
    small = type(device)(device._cupy)
    small.free = lambda: 2**40
    with small._cupy_device:
        small._pool.set_limit(size=1)
    encoder, blocks = rows_for(THREE, True)
    one, other = LocalBackend(blocks), CudaBackend(blocks, [small])
    loss = LOGISTIC.table(1.0, 0.25)
    for update in [Start(loss, 3), *updates(encoder.layout, loss, 3)]:
        for backend in (one, other):
            backend.apply(update)
    for query in queries(encoder.layout, 3):
        need_equal(one, other, query)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("bins", [1, 2, 253])
def test_lines_of_labels(device, bins, weighted):
    """Sums and charges, where a loss has a line for each bin of labels."""
    encoder, blocks = rows_for(NUMBER, weighted)
    edges, loss = edges_of(max(bins, 2)), table_of(max(bins, 2))
    if bins == 1:  # a start without edges afterwards: the lines of classes again
        edges, loss = edges[:0], table_of(2)
    rng, steps = np.random.default_rng(1), WEIGHT_CLASSES + 1 if weighted else 1
    price = rng.integers(0, BUDGET_STEPS // 3, (steps, loss.lines, loss.size)).astype(np.int32)
    one = LocalBackend(blocks)
    others = [CudaBackend(blocks, [device]), CudaBackend(blocks, crowd(device), 300, least_rows=1)]
    first = [SetLabelBins(edges_of(7)), Start(table_of(7)), SetLabelBins(edges), Start(loss)]
    told = [*first, *updates(encoder.layout, loss, 1)]
    charged = [OpenBudgets(), Price(0, (price,)), *[Charge(0)] * 4]
    for some in (told, charged):
        for update in some:
            for backend in (one, *others):
                backend.apply(update)
        for query in queries(encoder.layout, 1, 1):
            for other in others:
                need_equal(one, other, query)


def test_a_device_refuses_ids_that_would_not_be_told_apart(device):
    _, blocks = rows_for(CLASSES, False)
    own = blocks[0].take(np.arange(8))
    kept = replace(own, ids=range(MOST_IDS - 8, MOST_IDS))
    assert DeviceRows(device, [kept], 1).first_id == MOST_IDS - 8
    for first in (MOST_IDS - 7, MOST_IDS):
        with pytest.raises(ValueError, match="below 2"):
            DeviceRows(device, [replace(own, ids=range(first, first + 8))], 1)
