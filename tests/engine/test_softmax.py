"""Softmax statistics: exact integers, however rows are held, within the proved bound."""

import math
from dataclasses import replace

import numpy as np
import pytest

from privboost._core.grid import CLIP_STEPS, Contribution, SharedContribution
from privboost.accounting.accountants import PldAccountant, PureAccountant
from privboost.accounting.events import Planned, SampledGroup
from privboost.accounting.ledger import Ledger
from privboost.accounting.noisy_sums import GaussianRelease, LaplaceRelease
from privboost.data.rows import Codes, Layout, Rows, join
from privboost.engine.backend import LocalBackend
from privboost.engine.protocol import Message
from privboost.engine.softmax import (
    LENGTH_CLIP,
    TOTAL_CLIP,
    LabelCounts,
    SoftmaxSums,
    SoftmaxTreeSums,
    TopClassCounts,
    exponentials,
    steps_of_each,
)
from privboost.engine.softmax_kernels import PROBABILITY_STEPS, SLOPE_STEPS
from privboost.engine.updates import AddCellValuesOfAll, AddTreeValuesOfAll, OpenBudgets, Start
from privboost.losses.base import UNKNOWN_LABEL
from privboost.mechanisms.curator import Curator
from privboost.mechanisms.sensitivity import check_sum_sensitivity
from privboost.randomness.keystream import KeyStream
from privboost.randomness.sampling import Sample
from privboost.trees.cell_map import CellMap
from tests.engine.test_queries import cells_of, coarse, leaves, random_tree
from tests.hostile import HostileBackend

LAYOUT = Layout((40, 9, 300))


def blocks_of(rows, classes, seed=0, weighted=False):
    rng = np.random.default_rng(seed)
    found = []
    for first in range(0, rows, 97):
        count = min(97, rows - first)
        codes = Codes.of(LAYOUT, np.stack([rng.integers(0, n, count) for n in LAYOUT.n_codes]))
        label = rng.integers(0, classes, count).astype(np.uint8)
        label[rng.random(count) < 0.1] = UNKNOWN_LABEL
        weight = rng.integers(0, 257, count).astype(np.uint16) if weighted else None
        found.append(Rows(codes, label, weight))
    return found


def updates(classes, seed=1, size=2.0):
    """Scores that differ by little and by much."""
    rng = np.random.default_rng(seed)
    yield Start(None, classes)
    for feature, n_codes in enumerate(LAYOUT.n_codes):
        values = rng.normal(0, size * 10.0**feature * 2**12, (classes, n_codes)).astype(np.int32)
        yield AddCellValuesOfAll(CellMap.of_feature(feature, np.arange(n_codes)), values)
    tree = random_tree(LAYOUT, 3, 5)
    yield AddTreeValuesOfAll((tree,), rng.integers(-999, 999, (classes, 1, 8)).astype(np.int32))


def queries(classes):
    whole = CellMap.of_feature(0, np.arange(40))
    joint = CellMap.joint([coarse(LAYOUT, 0, 4), coarse(LAYOUT, 2, 5)])
    for clip, hessian, absolute, slope in [
        (0.3, 0.14, False, SLOPE_STEPS),
        (1.0, 0.385, True, SLOPE_STEPS),
        (0.01, 2.0**-24, False, 777),
        (1.0, 1.0, False, 3 * SLOPE_STEPS),
    ]:
        clips = int(clip * PROBABILITY_STEPS), int(hessian * PROBABILITY_STEPS)
        how = (classes, *clips, absolute, slope)
        for cells in (whole, joint, CellMap.side_by_side([whole, joint])):
            yield SoftmaxSums(*how, cells=cells)
        trees = tuple(random_tree(LAYOUT, 3, seed) for seed in (2, 3))
        yield SoftmaxTreeSums(*how, trees=trees)
    yield LabelCounts(classes)
    for edges in ([], [2**20, 2**22, 2**23, 2**24]):
        yield TopClassCounts(classes, np.array(edges, dtype=np.int32))


def exact_statistics(scores, label, query):
    """The gradients and Hessians of one row, by Python's integers."""
    table, classes = exponentials().tolist(), query.n_outputs
    steps = TOTAL_CLIP if query.absolute else LENGTH_CLIP
    if label >= classes:
        return [0] * classes, [0] * classes
    scores = [int(score) for score in scores]
    below = [(max(scores) - score) * query.slope >> 20 for score in scores]
    powers = [table[min(own, len(table) - 1)] for own in below]
    whole = (2**62) // sum(powers)
    p = [power * whole >> 38 for power in powers]
    others = sum(p) - p[label]
    p[label] = 2**24 - others
    hessians = [own * (2**24 - own) >> 24 for own in p]
    length = sum(hessians) if query.absolute else math.isqrt(sum(h * h for h in hessians))
    if not query.absolute and length**2 < sum(h * h for h in hessians):
        length += 1
    by = (steps << 30) // max(others, query.clip)
    most = (CLIP_STEPS << 30) // max(length, query.hessian_clip)
    gradients = [own * by >> 30 for own in p]
    gradients[label] = -(others * by >> 30)
    return gradients, [h * most >> 30 for h in hessians]


def states(block, told, classes):
    found = np.zeros((classes, len(block)), dtype=np.int64)
    for update in told:
        if isinstance(update, AddCellValuesOfAll):
            part = update.cells.parts[0]
            found += update.value_of[:, part.cell_of[0][block.column(part.features[0])]]
        elif isinstance(update, AddTreeValuesOfAll):
            found += update.value_of[:, 0, leaves(block, update.trees[0])]
    return found


def _cells(block, query):
    if isinstance(query, SoftmaxSums):
        return list(cells_of(block, query.cells))
    size = query.trees[0].n_leaves
    return [k * size + leaves(block, tree) for k, tree in enumerate(query.trees)]


def reference(blocks, told, query):
    block, classes = join(blocks), query.n_outputs
    scores = states(block, told, classes)
    weight = np.ones(len(block), np.int64) if block.weight is None else block.weight
    out = np.zeros(query.shape, dtype=np.int64)
    if isinstance(query, LabelCounts):
        for label, times in zip(block.label, weight, strict=True):
            if label < classes:
                out[label, 0] += CLIP_STEPS * int(times)
        return out
    if isinstance(query, TopClassCounts):
        table = exponentials()
        for i in range(len(block)):
            if block.label[i] >= classes:
                continue
            below = np.minimum((scores[:, i].max() - scores[:, i]) >> 8, len(table) - 1)
            powers = [int(own) for own in table[below]]
            top = int(scores[:, i].argmax())
            p = powers[top] * (2**62 // sum(powers)) >> 38
            cell = int((query.edges <= p).sum())
            out[cell, int(top == block.label[i]), 0] += CLIP_STEPS * int(weight[i])
        return out
    flat, parts = out.reshape(-1, classes, 2), _cells(block, query)
    for i in range(len(block)):
        pair = exact_statistics(scores[:, i], int(block.label[i]), query)
        for cells in parts:
            flat[cells[i]] += np.array(pair).T * int(weight[i])
    return out


@pytest.mark.parametrize(("classes", "weighted"), [(3, True), (17, False)])
@pytest.mark.usefixtures("eager_threads")
def test_answers_equal_the_reference_on_every_backend(classes, weighted):
    blocks = blocks_of(500, classes, weighted=weighted)
    told = list(updates(classes))
    backends = [
        LocalBackend(blocks, 1),
        LocalBackend(blocks, 3),
        HostileBackend(blocks, seed=1, death_rate=0.3),
    ]
    for backend in backends:
        for update in told:
            backend.apply(update)
    for query in queries(classes):
        expected = reference(blocks, told, query)
        assert expected.any()
        for backend in backends:
            np.testing.assert_array_equal(backend.sum(query), expected)
        again = Message.from_bytes(query.to_bytes())
        assert again.shape == query.shape


def corner_scores(classes, rng):
    """Scores of rows: equal, one far ahead, two ahead, spread evenly, at random."""
    size = 2**30
    yield np.zeros(classes, dtype=np.int64)
    yield np.where(np.arange(classes) == 0, size, -size)
    yield np.where(np.arange(classes) < 2, 9 * 2**16, 0)
    yield np.arange(classes) * 2**14
    for scale in (1e2, 1e4, 1e5, 1e6):
        yield rng.normal(0, scale, classes).astype(np.int64)


def lengths(classes, query, rng):
    """How far one row moves the sums of gradients and of Hessians, in steps."""
    for scores in corner_scores(classes, rng):
        for label in {0, 1, classes - 1}:
            own = [np.array(each) for each in exact_statistics(scores, label, query)]
            assert (own[1] >= 0).all()
            if query.absolute:
                yield tuple(int(np.abs(each).sum()) for each in own)
            else:
                yield tuple(math.sqrt(sum(int(v) ** 2 for v in each)) for each in own)


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("classes", [2, 3, 7, 100, 254])
def test_no_row_moves_the_sums_by_more_than_the_clip(classes, absolute):
    rng, found = np.random.default_rng(classes), []
    cells = CellMap.of_feature(0, np.arange(40))
    for clip in (1, 2**10, 5_033_164, 2**24):
        for hessian in (1, 2_400_000, 2**24):
            query = SoftmaxSums(classes, clip, hessian, absolute, cells=cells)
            bound = query.bound(Contribution())
            own = list(lengths(classes, query, rng))
            assert max(max(pair) for pair in own) <= CLIP_STEPS
            found += [pair[0] for pair in own]
            if absolute:
                assert bound.steps * bound.cells >= CLIP_STEPS
            else:
                assert bound.steps * math.sqrt(bound.cells) >= CLIP_STEPS
    assert max(found) > 0.999 * CLIP_STEPS  # it is attained


def test_gradients_that_are_scaled_one_class_at_a_time_would_exceed_the_bound():
    """The twin clips each class alone, as if there were one: √K instead of √2."""
    p = np.full(10, 0.1)
    apart = np.minimum(p, 0.05) / 0.05 * LENGTH_CLIP
    apart[0] = -LENGTH_CLIP
    assert np.sqrt((apart**2).sum()) > 2 * CLIP_STEPS


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_events_that_understate_the_bound_are_refused(rows, weighted):
    contribution = Contribution(weighted, rows)
    cells = CellMap.of_feature(0, np.arange(40))
    for absolute, kind in ((False, GaussianRelease), (True, LaplaceRelease)):
        query = SoftmaxSums(7, 2**22, 2**21, absolute, cells=cells)
        bound = query.bound(contribution)
        shares = (0.9, 0.1)
        event = kind("sums", 1.0, bound.steps, bound.cells, rows, shares)
        check_sum_sensitivity(query, event, contribution)
        for broken in (
            kind("sums", 1.0, bound.steps - 1, bound.cells, rows, shares),
            kind("sums", 1.0, bound.steps, bound.cells - 1, rows, shares),
        ):
            with pytest.raises(ValueError, match="understates"):
                check_sum_sensitivity(query, broken, contribution)
    gaussian = GaussianRelease("sums", 1.0, bound.steps, bound.cells, rows, shares)
    with pytest.raises(ValueError, match="understates"):  # absolute values do not bound lengths
        check_sum_sensitivity(query, gaussian, contribution)


def test_rows_that_share_a_weight_move_sums_by_one_row():
    cells = CellMap.of_feature(0, np.arange(40))
    for query in (SoftmaxSums(7, 2**22, 2**21, cells=cells), LabelCounts(7)):
        one, shared = (
            query.bound(each) for each in (Contribution(True), SharedContribution(True, 9))
        )
        assert shared.steps == one.steps
        assert shared.rows == 9


def test_samples_are_refused_before_anything_is_charged():
    """Nothing would be sampled, so the price of a sample would be too low."""
    rows = [replace(block, ids=np.arange(len(block))) for block in blocks_of(97, 3)]
    cheap = GaussianRelease("counts", 1.0, CLIP_STEPS, 1, 1, (1.0,), sampling_rate=0.01)
    steps = steps_of_each(CLIP_STEPS, 3, True)
    pure = LaplaceRelease("sums", 0.5, steps, 3, 1, (0.5, 0.5))
    group = SampledGroup.of("on a sample", (Planned(pure, 1),), 0.01)
    for accountant, event in ((PldAccountant(), cheap), (PureAccountant(), group)):
        ledger = Ledger(100.0, 1e-6 if event is cheap else 0.0, accountant)
        ledger.reserve([Planned(event, 1)])
        curator = Curator(LocalBackend(rows), ledger, KeyStream.seeded(1), Contribution())
        curator.publish(Start(None, 3))
        if event is cheap:
            with pytest.raises(ValueError, match="about all rows"):
                curator.sums(LabelCounts(3), cheap)
            assert not ledger.spent
        else:
            with curator.sampling(group), pytest.raises(ValueError, match="under way"):
                curator.sums(next(q for q in queries(3) if getattr(q, "absolute", False)), pure)
    with pytest.raises(RuntimeError, match="all rows"):
        LabelCounts(3).sampled(Sample(np.zeros(16, dtype=np.uint8), 0.5))


def test_steps_of_each_output_are_rounded_up():
    for length in (1, 2**16, 2**24 * 3):
        for classes in (2, 3, 7, 254):
            steps = steps_of_each(length, classes, False)
            assert steps**2 * classes >= length**2 > (steps - 1) ** 2 * classes
            assert steps_of_each(length, classes, True) == math.ceil(length / classes)


def test_rows_need_scores_of_every_class_and_no_budgets():
    cells = CellMap.of_feature(0, np.arange(40))
    for told in ([], [Start(None, 2)], [Start(None, 3), OpenBudgets()]):
        backend = LocalBackend(blocks_of(10, 3))
        for update in told:
            backend.apply(update)
        for query in (SoftmaxSums(3, 9, 9, cells=cells), LabelCounts(3)):
            with pytest.raises(RuntimeError, match="Start"):
                backend.sum(query)


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_outputs": 1},
        {"n_outputs": 255},
        {"clip": 0},
        {"clip": 2**24 + 1},
        {"hessian_clip": 0},
        {"absolute": 1},
        {"slope": 0},
        {"slope": 2**17},
        {"cells": None},
    ],
)
def test_impossible_queries_cannot_be_made(wrong):
    fine = {"n_outputs": 3, "clip": 9, "hessian_clip": 9}
    with pytest.raises(ValueError, match=r"must|whole"):
        SoftmaxSums(**fine | {"cells": CellMap.of_feature(0, np.arange(40))} | wrong)
