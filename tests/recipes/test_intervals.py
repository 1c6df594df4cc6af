"""Prediction intervals: units put aside, what they cost, and how often intervals hold."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.special import ndtri

from privboost import (
    BudgetStore,
    Domain,
    DPXGBRegressor,
    ModelFileError,
    PrivBoostClassifier,
    PrivBoostRegressor,
    SBDTRegressor,
    load_model,
)
from privboost._core.errors import BudgetError
from privboost._core.grid import CLIP_STEPS, FULL_RANGE, LABEL_STEPS, SCORE_STEPS, Contribution
from privboost.accounting.accountants import (
    ACCOUNTANTS,
    GdpAccountant,
    PldAccountant,
    PureAccountant,
    RdpAccountant,
)
from privboost.accounting.events import Planned, Selection
from privboost.accounting.ledger import Ledger
from privboost.accounting.noisy_sums import (
    GaussianRelease,
    LaplaceRelease,
    ParallelLaplaceRelease,
    ParallelRelease,
    ThresholdRelease,
)
from privboost.data.encoding import Encoder
from privboost.data.loading import load_rows
from privboost.data.rows import (
    LARGEST_RESIDUAL,
    RelativeResiduals,
    absolute_residuals,
    initial_states,
)
from privboost.data.targets import NumberTarget
from privboost.engine import shard
from privboost.engine.backend import LocalBackend
from privboost.engine.queries import CellSums, ScoreCounts
from privboost.engine.updates import AddCellValues, Start, Update, UsePart
from privboost.losses.base import UNKNOWN_LABEL
from privboost.losses.logistic import LOGISTIC
from privboost.losses.squared import SQUARED_NUMBER
from privboost.mechanisms.curator import Curator
from privboost.models.intervals import NOISE_PROBABILITY, Nonconformity, RelativeScale
from privboost.models.model import model_bytes, read_model
from privboost.randomness.keystream import KeyStream
from privboost.randomness.sampling import Sample
from privboost.recipes.common.intervals import (
    fine_edges,
    project_to_simplex,
    publish_scores,
    rough_edges,
)
from privboost.recipes.common.plan import Budget, Task
from privboost.trees.cell_map import CellMap
from tests.hostile import HostileBackend
from tests.tables import CLASSES, NUMBER, THREE, encode_training, make_domain, make_frame

TRAINING = GaussianRelease("training", 2.0, CLIP_STEPS, 1, 1, (0.9, 0.1))
COUNTS = GaussianRelease("counts", 5.0, CLIP_STEPS, 1, 1, (1.0,))
COINS = Sample(np.arange(32, dtype=np.uint8), 0.3)
EDGES = np.linspace(-SCORE_STEPS, SCORE_STEPS, 21).astype(np.int32)


def aside(part, what="nonconformity", fraction=0.3, covering=TRAINING):
    return ParallelRelease.of(what, covering, part, fraction, CLIP_STEPS)


# What intervals cost


def test_a_parallel_release_costs_what_the_release_that_covers_it_spends_already():
    plan = [Planned(COUNTS, 1), Planned(TRAINING, 1)]
    parallel = [aside(0.2, "rough"), aside(0.8, "fine")]
    for kind in (GdpAccountant, RdpAccountant, PldAccountant):
        cost = kind().cost(plan, 1e-6)
        assert kind().cost([*plan, *(Planned(event, 1) for event in parallel)], 1e-6) == cost
        # A unit put aside pays for what all pay for, and for these as for any other release.
        alone = [
            GaussianRelease(event.what, event.noise, event.steps, 1, 1, (1.0,))
            for event in parallel
        ]
        other = kind().cost([Planned(COUNTS, 1), *(Planned(event, 1) for event in alone)], 1e-6)
        assert 0.9 * cost < other <= cost


def test_events_that_are_not_covered_are_refused():
    fine = aside(0.5)
    assert fine.noise == pytest.approx(TRAINING.noise / math.sqrt(0.5))
    assert fine.scaled(3.0).covered_by.noise == 3 * TRAINING.noise
    twins = [
        {"noise": 0.99 * fine.noise},
        {"part": 0.4},
        {"part": 1.1},
        {"rows": 2},
        {"fraction": 0.0},
        {"fraction": 1.0},
        {"sampling_rate": 0.5},
        {"covered_by": TRAINING.scaled(1.1)},
        {"covered_by": replace(TRAINING, sampling_rate=0.5)},
        {"covered_by": LaplaceRelease("training", 0.1, CLIP_STEPS, 1, 1, (1.0,))},
        {"covered_by": aside(1.0)},
    ]
    for twin in twins:
        with pytest.raises(ValueError, match=r"cover|fraction|sampling"):
            replace(fine, **twin)


def test_an_exchange_brings_no_second_parallel_release():
    """The first one relies on its cover, which the exchange could take away."""
    other = replace(TRAINING, what="training, again")
    with_own = [Planned(other, 1), Planned(aside(1.0, "second", covering=other), 1)]
    ledger = Ledger(10.0, 1e-6, GdpAccountant())
    ledger.reserve([Planned(TRAINING, 1), Planned(aside(1.0), 1)])
    with pytest.raises(BudgetError, match="one plan only"):
        ledger.exchange(Planned(TRAINING, 1), with_own, GdpAccountant())
    ledger = Ledger(10.0, 1e-6, GdpAccountant())
    ledger.reserve([Planned(TRAINING, 1)])
    ledger.exchange(Planned(TRAINING, 1), with_own, GdpAccountant())


PURE = LaplaceRelease("training", 8.0, CLIP_STEPS, 1, 1, (0.8, 0.2))


def purely(part, what="nonconformity", copies=4, fraction=0.3):
    return ParallelLaplaceRelease.of(what, PURE, copies, part, fraction, CLIP_STEPS)


def test_a_parallel_laplace_release_costs_what_all_that_cover_it_spend_together():
    plan, parallel = [Planned(PURE, 4)], [purely(0.1, "rough"), purely(0.9, "fine")]
    cost = PureAccountant().cost(plan, 0.0)
    assert cost == pytest.approx(0.5)
    assert PureAccountant().cost([*plan, *(Planned(event, 1) for event in parallel)], 0.0) == cost
    alone = [LaplaceRelease(e.what, e.noise, e.steps, 1, 1, (1.0,)) for e in parallel]
    own = PureAccountant().cost([Planned(event, 1) for event in alone], 0.0)
    assert 0.999 * cost < own <= cost
    ledger = Ledger(1.0, 0.0, PureAccountant())
    ledger.reserve([*plan, *(Planned(event, 1) for event in parallel)])
    assert ledger.check_parallel(0.3) == frozenset(parallel)


def test_no_other_theory_covers_a_parallel_laplace_release():
    """By Rényi divergences one release of a large ε costs more than many of small ones."""
    event = purely(1.0, copies=400)
    many, one = Planned(PURE, 400), LaplaceRelease("one", event.noise, CLIP_STEPS, 1, 1, (1.0,))
    assert RdpAccountant().cost([many], 1e-6) < RdpAccountant().cost([Planned(one, 1)], 1e-6)
    for name, accountant in ACCOUNTANTS.items():
        assert accountant().covers(event) == (name == "pure"), name
    assert event.rdp(2) is event.mu is None
    with pytest.raises(ValueError, match="does not cover"):
        Ledger(1e6, 1e-6, RdpAccountant()).reserve([many, Planned(event, 1)])


def test_laplace_events_that_are_not_covered_are_refused():
    fine = purely(0.5)
    assert fine.noise == pytest.approx(PURE.noise / 2)
    assert fine.scaled(3.0).covered_by.noise == 3 * PURE.noise
    twins = [
        {"noise": 0.99 * fine.noise},
        {"part": 0.4},
        {"part": 1.1},
        {"copies": 3},
        {"copies": 0},
        {"rows": 2},
        {"fraction": 0.0},
        {"fraction": 1.0},
        {"sampling_rate": 0.5},
        {"relation": "replace one protected unit"},
        {"covered_by": PURE.scaled(1.1)},
        {"covered_by": replace(PURE, sampling_rate=0.5)},
        {"covered_by": TRAINING},
        {"covered_by": purely(1.0)},
    ]
    for twin in twins:
        with pytest.raises(ValueError, match=r"cover|fraction|sampling|[rR]elation"):
            replace(fine, **twin)


@pytest.mark.parametrize(
    "plan",
    [
        [Planned(purely(1.0), 1)],
        [Planned(PURE, 3), Planned(purely(1.0), 1)],
        [Planned(PURE, 4), Planned(purely(0.6), 2)],
        [Planned(PURE, 4), Planned(purely(0.5), 1), Planned(purely(0.6, "more"), 1)],
        [Planned(PURE, 4), Planned(purely(0.1, copies=2), 1), Planned(purely(0.5, "more"), 1)],
        [Planned(PURE.scaled(0.5), 4), Planned(purely(1.0), 1)],
    ],
)
def test_a_ledger_refuses_pure_plans_that_do_not_cover(plan):
    with pytest.raises(BudgetError, match="parallel"):
        Ledger(1e6, 0.0, PureAccountant()).reserve(plan)


def test_pure_releases_leave_out_units_put_aside():
    ledger = Ledger(1e6, 0.0, PureAccountant())
    start = LaplaceRelease("start", 3.0, CLIP_STEPS, 1, 1, (0.5, 0.5))
    event = purely(1.0)
    ledger.reserve([Planned(start, 2), Planned(PURE, 4), Planned(event, 1)])
    curator = Curator(LocalBackend(blocks_of()), ledger, KeyStream.seeded(1), Contribution())
    curator.publish(Start(SQUARED_NUMBER.table(0.3, 1.0)))
    whole = measure(curator, start)[..., 1].sum()
    curator.put_aside(0.3, event)
    assert measure(curator, start)[..., 1].sum() < 0.85 * whole
    for _ in range(4):
        measure(curator, PURE)
    curator.use_aside()
    with pytest.raises(ValueError, match="not of the units that count now"):
        measure(curator, PURE)
    curator.sums(ScoreCounts(EDGES, 1), event)
    late = Ledger(1e6, 0.0, PureAccountant())
    late.reserve([Planned(PURE, 4), Planned(event, 1)])
    curator = Curator(LocalBackend(blocks_of()), late, KeyStream.seeded(1), Contribution())
    curator.publish(Start(SQUARED_NUMBER.table(0.3, 1.0)))
    measure(curator, PURE)  # one of four, in which units were that would be put aside
    with pytest.raises(BudgetError, match="spent already: training"):
        curator.put_aside(0.3, event)


def test_an_account_by_renyi_divergences_refuses_pure_intervals(tmp_path):
    account = BudgetStore(tmp_path / "store.db").open("rows", 5.0, 1e-5, filter="renyi")
    model = PrivBoostRegressor(1.0, 0.0, domain_of(), conformal_fraction=0.3, budget=account)
    with pytest.raises(BudgetError, match="divergence"):
        model.fit(table(300))
    assert not account.balance().entries


@pytest.mark.parametrize("weights", [[1.0], [1.0, 1.0], [1.0, 0.3, 0.1], [0.2] * 30])
def test_the_margin_holds_for_laplace_noise(weights):
    """A sum of Laplace noise lies below its margin as rarely as Gaussian noise, or more rarely."""
    rng, weights = np.random.default_rng(len(weights)), np.array(weights)
    sums = rng.laplace(0, 1, (200_000, len(weights))) @ weights
    margin = -ndtri(NOISE_PROBABILITY) * math.sqrt(2 * float(weights @ weights))
    assert np.mean(sums < -margin) < NOISE_PROBABILITY + 0.002


@pytest.mark.parametrize(
    "plan",
    [
        [Planned(aside(1.0), 1)],
        [Planned(TRAINING, 0), Planned(aside(1.0), 1)],
        [Planned(TRAINING.scaled(0.5), 1), Planned(aside(1.0), 1)],
        [Planned(TRAINING, 1), Planned(aside(0.6), 2)],
        [Planned(TRAINING, 1), Planned(aside(0.6), 1), Planned(aside(0.6, "more"), 1)],
        [Planned(TRAINING, 1), Planned(aside(0.2), 3)],
    ],
)
def test_a_ledger_refuses_what_nothing_covers(plan):
    with pytest.raises(BudgetError, match="parallel"):
        Ledger(1e6, 1e-6, GdpAccountant()).reserve(plan)


def curator_of(blocks, rows=1, plan=(), backend=LocalBackend):
    ledger = Ledger(1e6, 1e-6, GdpAccountant())
    ledger.reserve([Planned(COUNTS, 2), Planned(TRAINING, 1), Planned(aside(1.0), 1), *plan])
    stream = KeyStream.seeded(1)
    curator = Curator(backend(blocks), ledger, stream, Contribution(rows=rows))
    curator.publish(Start(SQUARED_NUMBER.table(0.3, 1.0)))
    return curator


def blocks_of(rows=600, seed=0, target=NUMBER, **how):
    return encode_training(
        Encoder.of(make_domain(target)), make_frame(rows, seed, target), **how
    ).blocks


def measure(curator, event=TRAINING):
    cells = CellMap.of_feature(0, np.zeros(curator._backend._shard._rows[0].layout.n_codes[0], int))
    return curator.sums(CellSums(cells), event)


def test_units_are_put_aside_before_the_release_that_covers_them_and_turned_to_after():
    blocks, counts = blocks_of(), ScoreCounts(EDGES, 1)
    curator = curator_of(blocks)
    with pytest.raises(ValueError, match="no units are put aside"):
        curator.use_aside()
    with pytest.raises(ValueError, match="another fraction"):
        curator.put_aside(0.2, aside(1.0))
    with pytest.raises(ValueError, match="put_aside"):
        curator.publish(UsePart(COINS, False))
    whole = curator.sums(counts, COUNTS).sum()
    curator.put_aside(0.3, aside(1.0))
    assert curator.sums(counts, COUNTS).sum() < 0.85 * whole
    with pytest.raises(ValueError, match="not of the units that count now"):
        curator.sums(counts, aside(1.0))
    measure(curator)
    twice_over = curator_of(blocks)
    twice_over.put_aside(0.3, aside(1.0))
    with pytest.raises(ValueError, match="once"):
        twice_over.put_aside(0.3, aside(1.0))


def test_the_covering_release_uses_no_unit_put_aside():
    blocks = blocks_of()
    late = curator_of(blocks)
    measure(late)
    with pytest.raises(BudgetError, match="spent already"):
        late.put_aside(0.3, aside(1.0))
    exchanged = curator_of(blocks)
    other = replace(TRAINING, what="instead")
    exchanged.exchange(TRAINING, [Planned(other, 1)])
    with pytest.raises(BudgetError, match="not reserved"):
        exchanged.put_aside(0.3, aside(1.0))
    turned = curator_of(blocks)
    turned.put_aside(0.3, aside(1.0))
    turned.use_aside()
    for event in (TRAINING, COUNTS):
        with pytest.raises(ValueError, match="not of the units that count now"):
            measure(turned, event) if event is TRAINING else turned.sums(
                ScoreCounts(EDGES, 1), event
            )
    turned.sums(ScoreCounts(EDGES, 1), aside(1.0))
    with pytest.raises(BudgetError, match="spent already"):
        turned.sums(ScoreCounts(EDGES, 1), aside(1.0))
    with pytest.raises(ValueError, match="count already"):
        turned.use_aside()


def test_every_parallel_release_is_covered_when_units_are_put_aside():
    """One covered by a release that was made, or reserved later, would cost what nobody states."""
    other = replace(TRAINING, what="other")
    second = ParallelRelease.of("second", other, 1.0, 0.3, CLIP_STEPS)
    curator = curator_of(blocks_of(), plan=[Planned(other, 1), Planned(second, 1)])
    measure(curator, other)
    with pytest.raises(BudgetError, match="spent already: other"):
        curator.put_aside(0.3, aside(1.0))
    strange = ParallelRelease.of("strange", other, 1.0, 0.4, CLIP_STEPS)
    mixed = curator_of(blocks_of(), plan=[Planned(other, 1), Planned(strange, 1)])
    with pytest.raises(BudgetError, match="not of the units that are put aside: strange"):
        mixed.put_aside(0.3, aside(1.0))
    later = curator_of(blocks_of())
    later.put_aside(0.3, aside(1.0))
    later._ledger.reserve([Planned(other, 1), Planned(second, 1)])
    later.use_aside()
    with pytest.raises(ValueError, match="before units were put aside"):
        later.sums(ScoreCounts(EDGES, 1), second)


@pytest.mark.parametrize("turned", [False, True])
def test_where_it_is_not_known_which_units_count_nothing_is_released(turned, monkeypatch):
    curator = curator_of(blocks_of())
    if turned:
        curator.put_aside(0.3, aside(1.0))

    def fail(update):
        raise RuntimeError("a worker is lost")

    with monkeypatch.context() as patch:
        patch.setattr(curator._backend, "apply", fail)
        with pytest.raises(RuntimeError, match="lost"):
            curator.use_aside() if turned else curator.put_aside(0.3, aside(1.0))
    with pytest.raises(ValueError, match="nothing more is released"):
        measure(curator)
    with pytest.raises(ValueError, match=r"nothing more|no units|count already"):
        curator.sums(ScoreCounts(EDGES, 1), aside(1.0))


def test_only_sums_that_leave_units_out_are_released_once_some_are_put_aside():
    """Texts are counted whatever the label is, and votes count rows without one."""
    votes, texts = (
        Selection("votes", 9.0),
        ThresholdRelease("texts", 9.0, CLIP_STEPS, 1, 1, (1.0,), delta_of_threshold=1e-9),
    )
    curator = curator_of(blocks_of(), plan=[Planned(texts, 1)])
    curator.put_aside(0.3, aside(1.0))
    with pytest.raises(ValueError, match="texts of units put aside"):
        curator.threshold(1, texts, KeyStream.seeded(2))
    with pytest.raises(ValueError, match="only noisy sums"):
        curator._charge_event(votes)


def test_units_of_several_rows_are_not_put_aside_in_part():
    with pytest.raises(ValueError, match="in part"):
        curator_of(blocks_of(), rows=2).put_aside(0.3, aside(1.0))


# Which rows count


def counts_of(backend, coins=COINS, cells=EDGES, relative=None):
    """Return the counts of rows that train, and of those put aside, by score."""
    query = ScoreCounts(cells, 1)
    backend.apply(Start(SQUARED_NUMBER.table(0.3, 1.0)))
    backend.apply(UsePart(coins, False))
    train = backend.sum(query)[:, 0, 0]
    backend.apply(UsePart(coins, True, relative))
    return train, backend.sum(query)[:, 0, 0]


def test_every_row_counts_on_one_side_on_every_backend():
    blocks = blocks_of(700, block_rows=50)
    known = sum((block.label != UNKNOWN_LABEL).sum() for block in blocks)
    answers = [
        counts_of(backend)
        for backend in (
            LocalBackend(blocks),
            LocalBackend(blocks, 3),
            HostileBackend(blocks, 2, 0.5),
        )
    ]
    for train, put_aside in answers:
        np.testing.assert_array_equal(train, answers[0][0])
        np.testing.assert_array_equal(put_aside, answers[0][1])
        assert (train.sum() + put_aside.sum()) // CLIP_STEPS == known
        assert 0.25 < put_aside.sum() / CLIP_STEPS / known < 0.35


def test_classes_are_put_aside_as_well():
    blocks = blocks_of(target=CLASSES)
    backend, query = LocalBackend(blocks), ScoreCounts(EDGES, 2)
    backend.apply(Start(SQUARED_NUMBER.table(0.3, 1.0)))
    whole = backend.sum(query)
    parts = []
    for which in (False, True):
        backend.apply(UsePart(COINS, which))
        parts.append(backend.sum(query))
    np.testing.assert_array_equal(parts[0] + parts[1], whole)
    assert parts[1].sum() > 0


def test_the_message_travels_in_bytes():
    update = Update.from_bytes(UsePart(COINS, True).to_bytes())
    assert (update.aside, update.put_aside.same_as(COINS)) == (True, True)


def changes(without, relative=None):
    """Return by how much the sums of both sides change without each of some rows."""
    (block,) = blocks_of(60, block_rows=100)
    whole = counts_of(LocalBackend([block]), relative=relative)
    for row in without:
        fewer = block.take(np.delete(np.arange(len(block)), row))
        parts = zip(whole, counts_of(LocalBackend([fewer]), relative=relative), strict=True)
        yield [int(np.abs(all_ - some).sum()) for all_, some in parts]


@pytest.mark.parametrize("relative", [False, True])
def test_a_row_moves_the_sums_of_one_side_by_its_own_count(relative):
    scale = RelativeScale.of(1.5, 0, 10.0).residuals(NumberTarget("y", (-2.0, 10.0)))
    found = list(changes(range(60), scale if relative else None))
    assert all(sorted(each) in ([0, 0], [0, CLIP_STEPS]) for each in found)
    assert all(any(each[side] for each in found) for side in (0, 1))


def by_label(ids, label, put_aside, is_aside):
    """A coin that looks at other rows: the larger half of the labels is put aside."""
    rank = np.argsort(np.argsort(ids, kind="stable")[::-1], kind="stable")
    return np.where((rank % 2 == 0) == is_aside, label, UNKNOWN_LABEL).astype(np.uint8)


def twice(ids, label, put_aside, is_aside):
    """Rows put aside train as well."""
    return label if not is_aside else honest(ids, label, put_aside, is_aside)


honest = shard.labels_of_part


@pytest.mark.parametrize("twin", [by_label, twice])
def test_rows_on_both_sides_and_coins_that_look_at_other_rows_are_caught(monkeypatch, twin):
    monkeypatch.setattr(shard, "labels_of_part", twin)
    found = list(changes(range(60)))
    assert any(sorted(each) not in ([0, 0], [0, CLIP_STEPS]) for each in found)


@pytest.mark.parametrize("span", [FULL_RANGE, (-LABEL_STEPS // 4, 0), (6, 8)])
def test_residuals_are_of_labels_that_are_not_clipped(span):
    rng = np.random.default_rng(1)
    minus_label = rng.integers(-LABEL_STEPS, LABEL_STEPS + 1, 400).astype(np.int32)
    scores = rng.integers(-2 * SCORE_STEPS, 2 * SCORE_STEPS, 400).astype(np.int32)
    states = (initial_states(minus_label, span) + scores).astype(np.int32)
    found = absolute_residuals(states, minus_label, span)
    middle, half = (span[0] + span[1]) / 2, (span[1] - span[0]) / 2
    exact = np.abs((minus_label + middle) / half * SCORE_STEPS + scores)
    assert (np.abs(found - np.minimum(exact, LARGEST_RESIDUAL)) <= 1).all()


# Relative residuals


SCALES = [
    (1.0, (0.0, 20.0), 0),
    (1.5, (-3.0, 1e6), 4 * SCORE_STEPS),
    (2.0, (0.1, 3.0), -SCORE_STEPS),
    (1.0, (0.0, 1e-4), round(math.log(1e-6) * SCORE_STEPS)),
    (2.0, (0.0, 1e50), round(math.log(1e45) * SCORE_STEPS)),
]


def drawn(power, bounds, middle, rows=4000, seed=1):
    """Return a scale, labels as they are and as they are coded, and scores about the middle."""
    rng, target = np.random.default_rng(seed), NumberTarget("y", bounds)
    scale = RelativeScale.of(power, middle, bounds[1])
    scores = rng.integers(-5 * SCORE_STEPS, 5 * SCORE_STEPS, rows) + middle
    scores[:4] = [middle - 2**21, middle + 2**21, scale.top, scale.top + 1]
    means = np.exp(np.minimum(scores, scale.top) / SCORE_STEPS)
    labels = np.clip(means * rng.gamma(0.5, 2.0, rows), *bounds)
    labels[4:8] = bounds[0], bounds[1], 0.0, means[7]
    minus_label = target.code(pa.chunked_array([labels])).minus_label
    return scale, target, labels, minus_label, scores


@pytest.mark.parametrize("case", SCALES)
def test_relative_residuals_are_those_of_predictions(case):
    scale, target, labels, minus_label, scores = drawn(*case)
    found = scale.residuals(target).of(scores, minus_label) / SCORE_STEPS
    unit = math.exp(scale.middle / SCORE_STEPS)
    low, high = scale.limits
    means = np.exp(np.clip(scores / SCORE_STEPS, low, high)) / unit
    exact = np.abs(np.clip(labels, *target.bounds) / unit - means) * means ** (-scale.power / 2)
    label_step = target.middle_and_half()[1] / LABEL_STEPS
    far = 0.003 * (means + np.abs(labels) / unit) + 4 * label_step / unit
    far = far * means ** (-scale.power / 2) + 1e-3
    known = exact < LARGEST_RESIDUAL / SCORE_STEPS * 0.99
    assert known.mean() > 0.9
    assert (np.abs(found - exact) <= far)[known].all()
    assert (found[~known] > 0.9 * LARGEST_RESIDUAL / SCORE_STEPS).all()


@pytest.mark.parametrize("case", SCALES)
@pytest.mark.parametrize("edge", [700, 30_000, 90_000, 10**7])
def test_a_label_whose_residual_is_below_the_edge_is_within_its_interval(case, edge):
    """The step of the proof that rounding might break."""
    scale, target, labels, minus_label, scores = drawn(*case)
    below = scale.residuals(target).of(scores, minus_label) < edge
    means = np.exp(np.clip(scores / SCORE_STEPS, *scale.limits))
    half = target.middle_and_half()[1]
    low, high = (
        a * means + b * means ** (scale.power / 2) + c for a, b, c in scale.terms(edge, half)
    )
    labels = np.clip(labels, *target.bounds)
    assert below.any()
    assert ((low <= labels) & (labels <= high))[below].all()
    # And hardly wider than need be.
    outside = scale.residuals(target).of(scores, minus_label) > 1.05 * edge + 0.02 * SCORE_STEPS * (
        1 + means / math.exp(scale.middle / SCORE_STEPS)
    )
    if case[2] == 0:
        assert not ((low <= labels) & (labels <= high))[outside].any()


def test_lines_that_do_not_fit_have_the_largest_residuals():
    target = NumberTarget("y", (0.0, 1e50))
    lines = RelativeScale.of(2.0, -100 * SCORE_STEPS, 1e50).residuals(target)
    label = np.array([0, LABEL_STEPS, -LABEL_STEPS], dtype=np.int32)
    scores = np.full(3, -110 * SCORE_STEPS)
    assert (lines.of(scores, label) == LARGEST_RESIDUAL).all()


def test_relative_residuals_travel_in_bytes():
    lines = RelativeScale.of(1.0, 0, 20.0).residuals(NumberTarget("y", (0.0, 20.0)))
    update = Update.from_bytes(UsePart(COINS, True, lines).to_bytes())
    for name in ("first", "bits", "slope", "shift", "offset"):
        np.testing.assert_array_equal(getattr(update.relative, name), getattr(lines, name))
    with pytest.raises(ValueError, match="rows put aside"):
        UsePart(COINS, False, lines)
    with pytest.raises(ValueError, match="rows put aside"):
        UsePart(COINS, True, COINS)


@pytest.mark.parametrize(
    "forgery",
    [
        {"slope": np.array([-1, 1])},
        {"slope": np.array([1, 2**31 + 1])},
        {"shift": np.array([0, 63])},
        {"shift": np.array([0])},
        {"offset": np.array([0, 2**62])},
        {"offset": np.array([0.0, 1.0])},
        {"offset": np.array([[0, 1]])},
        {"bits": 40},
        {"bits": 1.0},
        {"first": 2**40},
        {"slope": np.zeros(0, int), "shift": np.zeros(0, int), "offset": np.zeros(0, int)},
    ],
)
def test_lines_of_residuals_that_would_overflow_are_refused(forgery):
    honest = {"first": 0, "bits": 8, **{n: np.array([1, 2]) for n in ("slope", "shift", "offset")}}
    RelativeResiduals(**honest)
    with pytest.raises(ValueError, match=r"residuals|scores"):
        RelativeResiduals(**honest | forgery)


# What follows from counts


def test_edges_cover_all_residuals_and_follow_the_counts():
    for span in (FULL_RANGE, (0, LABEL_STEPS // 8), (6, 8)):
        edges = rough_edges(span)
        assert (np.diff(edges) > 0).all()
        widest = 2 * LABEL_STEPS / ((span[1] - span[0]) / 2) * SCORE_STEPS
        assert edges[-1] == min(round(widest), LARGEST_RESIDUAL)
        ScoreCounts(edges, 1)
    edges = rough_edges(FULL_RANGE)
    counts = np.zeros(len(edges) + 1)
    at = np.searchsorted(edges, SCORE_STEPS // 10)
    counts[at] = 1000.0
    fine = fine_edges(edges, counts, 3.0)
    assert ((fine >= edges[at - 1]) & (fine <= edges[at])).all()
    assert len(fine) > 20
    assert len(fine_edges(edges, counts, 1000.0)) < len(fine_edges(edges, counts, 30.0)) < len(fine)
    assert len(fine_edges(edges, np.zeros(len(counts)), 30.0)) > 0  # no rows at all
    assert len(fine_edges(edges, counts, 0.0)) < 300  # public rows


def test_the_nearest_counts_are_those_of_a_simplex():
    rng = np.random.default_rng(2)
    for _ in range(20):
        noisy = rng.normal(5, 30, 12)
        found = project_to_simplex(noisy)
        assert found.min() >= 0
        assert found.sum() == pytest.approx(max(noisy.sum(), 1))
        kept = found > 0
        assert np.ptp((noisy - found)[kept]) < 1e-9


def test_without_noise_an_edge_is_the_first_that_leaves_out_few_enough():
    edges = np.arange(10, 110, 10, dtype=np.int32)
    residuals = Nonconformity(edges, np.full(11, 10.0), 0.0)
    for coverage in (0.5, 0.8, 0.9, 0.99):
        most = (1 - coverage) * (110 + 1) - 1
        fine = [edge for k, edge in enumerate(edges) if 110 - 10 * (k + 1) <= most + 1e-9]
        expected = (fine[0] + 1) / SCORE_STEPS if fine else math.inf
        assert residuals.half_width(coverage) == expected
    widths = [residuals.half_width(coverage) for coverage in np.linspace(0.05, 0.95, 19)]
    assert widths == sorted(widths)
    assert Nonconformity(edges[:0], np.array([50.0]), 0.0).half_width(0.5) == math.inf


def simulated(rows, sigma, repeats, margin=True):
    """Return the coverage of intervals in each of some runs, for half-normal residuals."""
    rng, covered = np.random.default_rng(rows), []
    rough = np.rint(2.0 ** np.arange(-8, 2) * SCORE_STEPS).astype(np.int32)

    def counts(residuals, edges, noise):
        cells = np.searchsorted(edges, residuals, "right")
        return np.bincount(cells, minlength=len(edges) + 1) + rng.normal(0, noise, len(edges) + 1)

    for _ in range(repeats):
        own = np.abs(rng.normal(0, 0.2, rows)) * SCORE_STEPS
        edges = fine_edges(rough, counts(own, rough, 3 * sigma), sigma)
        noisy = counts(own, edges, sigma)
        half = Nonconformity(edges, noisy, sigma if margin else 0.0).half_width(0.9)
        covered.append(1.0 if half == math.inf else math.erf(half / 0.2 / math.sqrt(2)))
    return np.array(covered)


@pytest.mark.parametrize(("rows", "sigma"), [(600, 8.0), (2000, 5.0), (6000, 4.0), (2000, 0.0)])
def test_intervals_hold_a_little_more_often_than_they_say(rows, sigma):
    covered = simulated(rows, sigma, 300)
    assert 0.895 < covered.mean() < (0.95 if rows < 1000 else 0.92)
    # Too short by more than the chance of the rows alone, in fewer fits than is stated.
    chance = 2 * math.sqrt(0.09 / rows)
    assert np.mean(covered < 0.9 - chance) < NOISE_PROBABILITY + 0.05


def test_intervals_that_forget_their_noise_are_too_short():
    forgetful, honest = (simulated(600, 16.0, 300, margin) for margin in (False, True))
    assert np.mean(forgetful < 0.9) > 2 * np.mean(honest < 0.9)


# Fits


def table(rows=6000, seed=1):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.random((rows, 3)), columns=["a", "b", "c"])
    noise = rng.normal(0, 8, rows)
    return frame.assign(y=np.clip(40 + 30 * frame["a"] - 25 * frame["b"] + noise, 0, 100))


def domain_of(bounds=(0, 100), **more):
    features = {name: {"kind": "numeric", "bounds": [0, 1]} for name in "abc"}
    target = {"name": "y", "bounds": list(bounds)} | more
    return Domain.from_dict({"version": 1, "features": features, "target": target})


def fit(bounds=(0, 100), seed=1, frame=None, more=None, **how):
    settings = {"n_estimators": 12, "conformal_fraction": 0.3, "random_state": seed} | how
    model = PrivBoostRegressor(2.0, 1e-6, domain_of(bounds, **(more or {})), **settings)
    return model.fit(table() if frame is None else frame)


def coverage_of(model, test, coverage=0.9):
    low, high = model.predict_interval(test, coverage).T
    return np.mean((low <= test["y"]) & (test["y"] <= high))


@pytest.mark.parametrize(
    "how", [{}, {"bounds": (-3000, 7000)}, {"bounds": (1, 400), "more": {"scale": "log"}}]
)
def test_intervals_of_fits_hold(how):
    test = table(5000, 9).clip(lower=1)
    frame = table().clip(lower=1)
    for coverage in (0.5, 0.9):
        model = fit(frame=frame, **how)
        assert coverage - 0.02 < coverage_of(model, test, coverage) < coverage + 0.08
    ends = model.predict_interval(test)
    low, high = how.get("bounds", (0, 100))
    assert (ends[:, 0] >= low).all()
    assert (ends[:, 1] <= high).all()
    inside = model.predict(test)
    assert ((ends[:, 0] <= inside) & (inside <= ends[:, 1])).all()
    wide = model.predict_interval(test, 1 - 1e-5)
    np.testing.assert_allclose(wide, np.tile([low, high], (len(test), 1)))


def counted(loss, rows=6000, seed=1):
    """Return a table for a loss: counts or amounts, in proportion to an exposure."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.random((rows, 3)), columns=["a", "b", "c"])
    mean = np.exp(1.5 * frame["a"] - 0.5 + 0.4 * (frame["b"] > 0.5)) * (0.1 + frame["c"])
    y = rng.poisson(mean) if loss == "poisson" else mean * rng.gamma(2.0, 0.5, rows)
    if loss == "tweedie":
        y = np.where(rng.random(rows) < 0.4, 0.0, y)
    return frame.assign(y=np.clip(y, 0.0, 40.0), c=frame["c"] + 0.1)


def fit_counted(loss, bounds=(0, 40), **how):
    features = {name: {"kind": "numeric", "bounds": [0, 1]} for name in "ab"}
    features["c"] = {"kind": "numeric", "bounds": [0.1, 1.1]}
    form = {"version": 1, "features": features, "target": {"name": "y", "bounds": list(bounds)}}
    settings = {"n_estimators": 18, "conformal_fraction": 0.3, "random_state": 1} | how
    return PrivBoostRegressor(2.0, 1e-6, form, loss=loss, **settings).fit(counted(loss))


@pytest.mark.parametrize(
    ("loss", "how"),
    [
        ("poisson", {}),
        ("poisson", {"exposure": "c"}),
        ("poisson", {"bounds": (-5, 4000)}),
        ("gamma", {}),
        ("tweedie", {"power": 1.3, "bounds": (0, 900)}),
        ("absolute", {}),
        ("quantile", {"quantile": 0.8}),
    ],
)
def test_intervals_of_other_losses_hold(loss, how, tmp_path):
    model, test = fit_counted(loss, **how), counted(loss, 5000, 9)
    widths = []
    for coverage in (0.5, 0.9):
        assert coverage - 0.03 < coverage_of(model, test, coverage) < coverage + 0.08
        low, high = model.predict_interval(test, coverage).T
        widths.append((high - low).mean())
    assert widths[0] < widths[1] < 20
    said, bounds = model.predict(test), how.get("bounds", (0, 40))
    low, high = model.predict_interval(test).T
    assert ((low <= said) & (said <= high)).all()
    if model.model_.link == "log":
        scale = model.model_.nonconformity.scale
        spread = said ** (scale.power / 2)
        exact = np.quantile(np.abs(test["y"] - said) / spread, 0.9)
        assert 0.85 * exact < model.model_.interval_half_width(0.9) < 1.25 * exact
        ends = said - model.model_.interval_half_width(0.9) * spread
        np.testing.assert_allclose(
            low, np.maximum(ends, bounds[0]), atol=0.01 * said.max(), rtol=0.01
        )
    wide = model.predict_interval(test, 1 - 1e-5)
    np.testing.assert_allclose(wide, np.tile(bounds, (len(test), 1)))
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_interval(test), model.predict_interval(test))


def test_residuals_of_another_power_are_caught(monkeypatch):
    """The twin puts rows aside by the residuals of another loss than intervals are made for."""
    honest = RelativeScale.residuals
    monkeypatch.setattr(
        RelativeScale, "residuals", lambda own, target: honest(replace(own, power=2.0), target)
    )
    test = counted("poisson", 5000, 9)
    assert not 0.47 < coverage_of(fit_counted("poisson"), test, 0.5) < 0.58


def test_states_of_rows_put_aside_are_the_relative_residuals_of_the_model():
    kept = []

    class Kept(LocalBackend):
        def close(self):
            (block,) = self._held()._rows
            kept.append((block, self._held()._state[0][0]))

    def opened(loads):
        return Kept([block for each in load_rows(loads) for block in each.blocks])

    features = {name: {"kind": "numeric", "bounds": [0, 1.1]} for name in "abc"}
    form = {"version": 1, "features": features, "target": {"name": "y", "bounds": [0, 40]}}
    frame = counted("tweedie", 600)
    how = {"n_estimators": 6, "conformal_fraction": 0.3, "random_state": 1, "backend": opened}
    model = PrivBoostRegressor(2.0, 1e-6, form, loss="tweedie", **how).fit(frame).model_
    ((block, states),) = kept
    assert 0.2 < np.mean(block.label != UNKNOWN_LABEL) < 0.4
    scale, target = model.nonconformity.scale, model.domain.target
    scores = np.rint(model.decision_function(frame) * SCORE_STEPS).astype(np.int64)
    np.testing.assert_array_equal(states, scale.residuals(target).of(scores, block.minus_label))


@pytest.mark.parametrize(
    "forgery",
    [
        None,
        {"power": 0.5},
        {"power": 2.5},
        {"power": math.nan},
        {"power": "1"},
        {"middle": 1.5},
        {"middle": 10**9},
        {"top": -(2**40)},
        {"top": 2**40},
        {"more": 1},
    ],
)
def test_forged_scales_of_residuals_are_refused(forgery):
    model = fit_counted("poisson", n_estimators=2, interactions=False).model_
    known = model.nonconformity
    read_model(model_bytes(model), "file")
    if forgery is None:
        forged = [replace(model, nonconformity=replace(known, scale=None))]
        forged += [replace(fit(n_estimators=2, interactions=False).model_, nonconformity=known)]
    else:
        payload = known.to_payload()
        payload["scale"] |= forgery
        other = SimpleNamespace(to_payload=lambda: payload)
        forged = [replace(model, nonconformity=other)]
    for each in forged:
        with pytest.raises(ModelFileError, match="nonconformity"):
            read_model(model_bytes(each), "file")


def test_labels_beyond_the_clipping_range_are_missed_by_intervals_and_counted_as_missed():
    """Training clips labels to a range that leaves some out; residuals are of the labels."""
    frame = table(6000)
    far = np.arange(6000) % 8 == 0
    frame["y"] = np.where(far, 90_000.0, frame["y"])
    test = frame.sample(frac=1, random_state=0)
    model = fit((0, 100_000), frame=frame, interactions=False)
    assert coverage_of(model, test, 0.8) > 0.79
    assert coverage_of(model, test, 0.95) > 0.94


def test_states_of_rows_put_aside_are_the_residuals_of_the_model():
    kept = []

    class Kept(LocalBackend):
        def close(self):
            (block,) = self._held()._rows
            kept.append((block, self._held()._state[0][0]))

    def opened(loads):
        return Kept([block for each in load_rows(loads) for block in each.blocks])

    frame = table(500)
    model = fit(frame=frame, backend=opened).model_
    ((block, states),) = kept
    assert 0.2 < np.mean(block.label != UNKNOWN_LABEL) < 0.4
    middle, half = model.middle_and_half
    exact = np.abs(middle + half * model.decision_function(frame) - frame["y"])
    np.testing.assert_allclose(states / SCORE_STEPS * half, exact, atol=2 * half / SCORE_STEPS)


@pytest.mark.parametrize("kind", [PrivBoostRegressor, SBDTRegressor, DPXGBRegressor])
def test_rows_learn_the_scores_of_a_finished_model(kind):
    """Also of a model whose scores were changed after training, as calibrations do."""
    how = {"n_estimators": 8} | ({"accountant": "rdp"} if kind is DPXGBRegressor else {})
    frame = table(3000)
    model = kind(50.0, 1e-6, domain_of(), random_state=1, **how).fit(frame).model_
    scores = model.scores.with_calibration(np.array([[1.3, 0.2]]))
    assert scores.parts().trees or kind is SBDTRegressor  # whose trees have one feature each
    encoder = model.encoder
    backend = LocalBackend(encode_training(encoder, frame).blocks)
    curator = Curator(backend, None, KeyStream.seeded(1), Contribution())
    plan = SimpleNamespace(task=Task.of(encoder.domain.target), encoder=encoder)
    publish_scores(curator, plan, scores.parts())
    shard_ = backend._shard
    for block, state in zip(shard_._rows, shard_._state, strict=True):
        expected = initial_states(block.minus_label) + scores.scores(block.codes)
        np.testing.assert_array_equal(state, expected)


def test_a_fit_costs_its_budget_and_says_what_was_put_aside():
    model = fit()
    report = model.privacy_
    assert report.epsilon == 2.0
    assert report.parameters["conformal_fraction"] == 0.3
    said = [one for one in report.to_dict()["releases"] if "put aside" in one["what"]]
    assert len(said) == 2
    assert all("no cost of its own" in one["mechanism"] for one in said)
    plan = model._plan(Encoder.of(domain_of()), None, Budget(2.0, 1e-6))
    assert plan.accountant.cost(plan.releases, 1e-6) <= 2.0
    paid = [
        GaussianRelease(e.what, e.noise, e.steps, 1, 1, (1.0,)) for e in plan.conformal_releases
    ]
    shared = [p for p in plan.releases if p.event is plan.range_release]
    other = plan.accountant.cost([*shared, *(Planned(event, 1) for event in paid)], 1e-6)
    assert 1.5 < other <= 2.0
    assert model.preview().privacy.epsilon <= 2.0


def test_without_a_fraction_nothing_is_put_aside():
    plain = fit(conformal_fraction=0.0)
    assert plain.model_.nonconformity is None
    assert "conformal_fraction" not in plain.privacy_.parameters
    with pytest.raises(AttributeError, match="conformal_fraction"):
        plain.predict_interval(table(5))


@pytest.mark.parametrize("coverage", [0, 1, -0.5, 1.5, math.nan, "0.9", None])
def test_other_coverages_are_refused(coverage):
    with pytest.raises(ValueError, match="coverage"):
        fit().predict_interval(table(5), coverage)


@pytest.mark.parametrize("fraction", [-0.1, 1.0, 1.5, math.nan, "a"])
def test_other_fractions_are_refused(fraction):
    with pytest.raises(ValueError, match="conformal_fraction"):
        PrivBoostRegressor(1.0, 1e-6, domain_of(), conformal_fraction=fraction).fit(None)


@pytest.mark.parametrize("epsilon", [0.7, 2.0])
def test_intervals_of_pure_budgets_hold(epsilon):
    frame, test = table(8000), table(4000, 9)
    how = {"conformal_fraction": 0.3, "random_state": 1}
    model = PrivBoostRegressor(epsilon, 0.0, domain_of(), **how).fit(frame)
    assert 0.999 * epsilon < model.privacy_.epsilon <= epsilon
    assert model.privacy_.delta == 0
    for coverage in (0.5, 0.9):
        assert coverage - 0.025 < coverage_of(model, test, coverage) < coverage + 0.06
    said = [one for one in model.privacy_.to_dict()["releases"] if "put aside" in one["what"]]
    assert len(said) == 2
    assert all("no cost of its own" in one["mechanism"] for one in said)
    plan = model._plan(Encoder.of(domain_of()), None, Budget(epsilon, 0.0))
    assert plan.accountant.name == "pure"
    own = [LaplaceRelease(e.what, e.noise, e.steps, 1, 1, (1.0,)) for e in plan.conformal_releases]
    made = sum(p.count for p in plan.releases if p.event == plan.reserved_release)
    others = plan.accountant.cost([Planned(event, 1) for event in own], 0.0)
    assert others <= plan.accountant.cost([Planned(plan.reserved_release, made)], 0.0)
    assert others > 0.7 * epsilon


def test_units_of_several_rows_are_refused_before_anything_is_spent():
    for most in (1, 2):
        domain = make_domain(NUMBER, {"column": "person", "max_rows": most})
        model = PrivBoostRegressor(2.0, 1e-6, domain, conformal_fraction=0.4, random_state=1)
        if most == 1:
            assert model.fit(make_frame(400, target=NUMBER)).model_.nonconformity is not None
        else:
            with pytest.raises(ValueError, match="max_rows=1"):
                model.fit(make_frame(400, target=NUMBER))


def test_public_rows_have_exact_residuals():
    frame = table(3000)
    how = {"public_rows": True, "interactions": False, "conformal_fraction": 0.3}
    model = PrivBoostRegressor(
        math.inf, 1e-6, domain_of(), n_estimators=6, random_state=1, **how
    ).fit(frame)
    assert model.model_.nonconformity.deviation == 0
    assert 800 < model.model_.nonconformity.counts.sum() < 1000
    assert 0.88 < coverage_of(model, table(4000, 5)) < 0.93


def test_a_model_keeps_its_intervals(tmp_path):
    model, test = fit(), table(50, 2)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_interval(test), model.predict_interval(test))
    half = loaded.interval_half_width(0.9) * loaded.middle_and_half[1]
    raw = loaded.middle_and_half[0] + loaded.middle_and_half[1] * loaded.decision_function(test)
    ends = np.clip(np.stack([raw - half, raw + half], axis=1), 0, 100)
    np.testing.assert_allclose(loaded.predict_interval(test), ends)


@pytest.mark.parametrize(
    "forgery",
    [
        {"edges": np.array([2, 1], dtype=np.int32)},
        {"edges": np.array([0, 1], dtype=np.int32)},
        {"edges": np.array([1.0, 2.0])},
        {"edges": [1, 2]},
        {"counts": np.zeros(2)},
        {"counts": np.array([1.0, np.nan, 1.0])},
        {"counts": np.array([1.0, np.inf, 1.0])},
        {"deviation": -1.0},
        {"deviation": math.inf},
        {"deviation": "1"},
    ],
)
def test_forged_residuals_are_refused(forgery):
    model = fit(n_estimators=2, interactions=False).model_
    honest = Nonconformity(np.array([1, 2], dtype=np.int32), np.ones(3), 1.0)
    read_model(model_bytes(replace(model, nonconformity=honest)), "file")
    with pytest.raises(ModelFileError):
        read_model(model_bytes(replace(model, nonconformity=replace(honest, **forgery))), "file")


# Sets of classes


def table_of_classes(rows=8000, seed=1, names=("u", "v", "w")):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.random((rows, 3)), columns=["a", "b", "c"])
    far = frame["a"] - frame["b"] + rng.normal(0, 0.3, rows)
    place = np.digitize(far, [-0.3, 0.3] if len(names) == 3 else [0.0])
    return frame.assign(y=np.array(names)[place])


def fit_classes(names=("u", "v", "w"), frame=None, **how):
    features = {name: {"kind": "numeric", "bounds": [0, 1]} for name in "abc"}
    form = {"version": 1, "features": features, "target": {"name": "y", "classes": list(names)}}
    settings = {"n_estimators": 24, "conformal_fraction": 0.3, "random_state": 1} | how
    model = PrivBoostClassifier(4.0, 1e-6, Domain.from_dict(form), **settings)
    return model.fit(table_of_classes(names=names) if frame is None else frame)


@pytest.mark.parametrize("names", [("u", "v"), ("u", "v", "w")])
def test_sets_hold_a_little_more_often_than_they_say(names):
    model, test = fit_classes(names), table_of_classes(8000, 5, names)
    own = np.searchsorted(model.classes_, test["y"].to_numpy())
    sizes = []
    for coverage in (0.7, 0.9, 0.95):
        sets = model.predict_set(test, coverage)
        assert sets.shape == (len(test), len(names))
        assert (sets.sum(axis=1) > 0).all()
        held = sets[np.arange(len(test)), own].mean()
        assert held > coverage - 0.015
        sizes.append(sets.sum(axis=1).mean())
        if coverage > 0.75:  # below, the most probable class alone is right more often
            assert held < coverage + 0.04
    assert sizes == sorted(sizes)
    assert sizes[0] < 0.75 * len(names)
    best = np.searchsorted(model.classes_, model.predict(test))
    assert sets[np.arange(len(test)), best].all()
    assert model.predict_set(test, 1 - 1e-5).all()


def test_sets_that_hold_all_classes_are_found(tmp_path):
    few = fit_classes(frame=table_of_classes(40), interactions=False)
    (found,) = [one for one in few.model_.findings() if one.kind == "wide intervals"]
    assert "hold all classes" in found.text
    assert few.predict_set(table_of_classes(5), 0.9).all()
    model, test = fit_classes(), table_of_classes(50, 2)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_set(test, 0.8), model.predict_set(test, 0.8))
    with pytest.raises(AttributeError, match="predict_interval"):
        loaded.predict_interval(test)
    with pytest.raises(AttributeError, match="predict_set"):
        fit().model_.predict_set(table(5))
    with pytest.raises(AttributeError, match="conformal_fraction"):
        fit_classes(conformal_fraction=0.0).predict_set(test)
    assert model.privacy_.epsilon == 4.0
    assert not hasattr(model, "predict_interval")


@pytest.mark.parametrize("target", [CLASSES, THREE])
def test_states_of_rows_put_aside_are_minus_the_scores_of_their_classes(target):
    blocks = blocks_of(400, target=target, block_rows=90)
    outputs = 1 if target is CLASSES else 3
    table_ = LOGISTIC.table(1.0, 1.0)
    for backend in (LocalBackend(blocks), LocalBackend(blocks, 2)):
        backend.apply(Start(table_, outputs))
        for output in range(outputs):
            cells = CellMap.of_feature(3, np.arange(blocks[0].layout.n_codes[3]))
            values = (np.arange(cells.n_cells) - 1) * 700 * (output + 1)
            backend.apply(AddCellValues(cells, values.astype(np.int32), output))
        held = backend._held()
        scores = [states.copy() for states in held._state]
        labels = [block.label for block in held._rows]
        backend.apply(UsePart(COINS, True))
        for own, label, states in zip(scores, labels, held._state, strict=True):
            known = label != UNKNOWN_LABEL
            both = np.stack([-own[0], own[0]]) if outputs == 1 else own
            expected = -both[label[known], np.flatnonzero(known)]
            np.testing.assert_array_equal(states[0][known], expected)


def test_intervals_that_are_the_bounds_are_found():
    few = fit(frame=table(120), interactions=False)
    assert few.model_.interval_half_width(0.9) == math.inf
    (found,) = [one for one in few.model_.findings() if one.kind == "wide intervals"]
    assert "conformal_fraction" in found.text
    assert not any(one.kind == "wide intervals" for one in fit().model_.findings())


def test_weights_count_in_intervals():
    model = PrivBoostRegressor(
        3.0,
        1e-6,
        make_domain(NUMBER),
        conformal_fraction=0.5,
        random_state=1,
        sample_weight_bound=2,
    )
    frame = make_frame(2000, target=NUMBER)
    whole = model.fit(frame, sample_weight="weight").model_.nonconformity.counts.sum()
    light = model.fit(frame.assign(weight=0.2), sample_weight="weight").model_.nonconformity
    assert light.counts.sum() < 0.5 * whole
