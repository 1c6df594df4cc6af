"""Measured sensitivity never exceeds the claimed one, and a table that cheats is caught."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privboost import SBDTRegressor
from privboost._core.grid import Contribution
from privboost.accounting.accountants import PureAccountant
from privboost.accounting.events import Planned
from privboost.accounting.ledger import Ledger
from privboost.accounting.noisy_sums import GaussianRelease, LaplaceRelease
from privboost.data import contribution_bound
from privboost.data.contribution_bound import UnitRule
from privboost.data.encoding import Encoder
from privboost.engine.backend import LocalBackend
from privboost.engine.queries import (
    GRADIENT_COUNT,
    Bound,
    CellSums,
    PredictionSums,
    ScoreCounts,
    TreeSums,
)
from privboost.engine.updates import Start
from privboost.losses.base import LossTable
from privboost.losses.logistic import LOGISTIC
from privboost.losses.squared import SQUARED_NUMBER
from privboost.mechanisms.curator import Curator
from privboost.randomness.keystream import KeyStream
from privboost.recipes.common.initial_score import initial_release
from privboost.recipes.common.newton import start_boosting
from privboost.recipes.common.plan import Budget
from privboost.trees.tree import stump
from tests.engine.test_queries import queries, updates
from tests.hostile import HostileBackend
from tests.tables import CLASSES, NUMBER, THREE, encode_training, make_domain, make_frame

TASKS = {
    "two classes": (CLASSES, LOGISTIC.table(0.2, 0.05), 1),
    "three classes": (THREE, LOGISTIC.table(0.5, 0.25), 3),
    "a number": (NUMBER, SQUARED_NUMBER.table(0.3, 0.7), 1),
}


def answers(domain, frame, loss, n_outputs, weighted, shuffle):
    """All queries on a table, its rows in an order and a partition of their own."""
    encoder = Encoder.of(domain)
    frame = frame.sample(frac=1, random_state=shuffle)
    rows = encode_training(
        encoder,
        frame,
        weights="weight" if weighted else None,
        weight_bound=2.0,
        block_rows=7,
    )
    blocks = rows.blocks
    if domain.unit is not None:
        blocks = rows.bounded(UnitRule.of(domain.unit, KeyStream.seeded(8)))
    backend = HostileBackend(blocks, shuffle) if shuffle % 2 else LocalBackend(blocks, 2)
    backend.apply(Start(loss, n_outputs))
    for update in updates(encoder.layout, loss, n_outputs):
        backend.apply(update)
    classes = 2 if hasattr(domain.target, "classes") else 1
    return [(query, backend.sum(query)) for query in queries(encoder.layout, n_outputs, classes)]


def unit_of(max_rows, weighting):
    """A protected unit, as a domain declares it."""
    return {"column": "person", "max_rows": max_rows, "weighting": weighting}


def whitened(bound, change):
    """How far, in units of 1/z, a change moves the release that the curator would make."""
    event = GaussianRelease(
        what="a property test",
        noise=1.0,
        steps=bound.steps,
        cells=bound.cells,
        rows=bound.rows,
        shares=(0.7, 0.3) if bound.statistics == 2 else (1.0,),
    )
    return np.sqrt(((change / event.scales) ** 2).sum())


def check(domain, frame, fewer, loss, n_outputs, weighted, shuffle):
    contribution = Contribution(weighted)
    if domain.unit is not None:
        contribution = domain.unit.contribution(weighted)
    with_unit = answers(domain, frame, loss, n_outputs, weighted, shuffle)
    without = answers(domain, fewer, loss, n_outputs, weighted, shuffle + 1)
    for (query, more), (_, less) in zip(with_unit, without, strict=True):
        change, bound = more - less, query.bound(contribution)
        assert bound.statistics == query.shape[-1]
        assert np.abs(change).max() <= bound.steps
        touched = (change != 0).reshape(-1, bound.statistics).sum(axis=0)
        assert (touched <= bound.cells * bound.rows).all()
        assert touched.sum() <= bound.coordinates * bound.rows
        assert whitened(bound, change) <= 1 + 1e-12


@given(
    task=st.sampled_from(sorted(TASKS)),
    rows=st.integers(1, 25),
    seed=st.integers(0, 10_000),
    weighted=st.booleans(),
    shuffle=st.integers(0, 1000),
    data=st.data(),
)
@settings(max_examples=25)
def test_adding_any_row(task, rows, seed, weighted, shuffle, data):
    target, loss, n_outputs = TASKS[task]
    frame = make_frame(rows, seed, target)
    gone = data.draw(st.integers(0, rows - 1))
    fewer = frame.drop(index=gone)
    check(make_domain(target), frame, fewer, loss, n_outputs, weighted, shuffle)


@given(
    task=st.sampled_from(sorted(TASKS)),
    rows=st.integers(1, 60),
    seed=st.integers(0, 10_000),
    weighted=st.booleans(),
    shuffle=st.integers(0, 1000),
    max_rows=st.integers(1, 4),
    weighting=st.sampled_from(["rows", "units"]),
)
@settings(max_examples=40)
def test_adding_any_unit(task, rows, seed, weighted, shuffle, max_rows, weighting):
    target, loss, n_outputs = TASKS[task]
    frame = make_frame(rows, seed, target)
    domain = make_domain(target, unit_of(max_rows, weighting))
    fewer = frame[frame["person"] != frame["person"].iloc[0]]
    if frame["person"].iloc[0] is None:
        fewer = frame[frame["person"].notna()]
    check(domain, frame, fewer, loss, n_outputs, weighted, shuffle)


@given(
    task=st.sampled_from(sorted(TASKS)),
    kinds=st.integers(1, 5),
    rows=st.integers(0, 40),
    own=st.integers(1, 30),
    seed=st.integers(0, 10_000),
    weighted=st.booleans(),
    shuffle=st.integers(0, 1000),
    max_rows=st.integers(1, 4),
    weighting=st.sampled_from(["rows", "units"]),
)
@settings(max_examples=30)
def test_adding_a_unit_of_many_rows_that_are_alike(
    task, kinds, rows, own, seed, weighted, shuffle, max_rows, weighting
):
    """Rows of few kinds, in any order: some copies of a row are kept, and some are not."""
    target, loss, n_outputs = TASKS[task]
    frame = make_frame(kinds, seed, target).sample(rows + own, replace=True, random_state=seed)
    who = np.random.default_rng(seed).choice(["a", "b", None], rows)
    frame = frame.assign(person=np.append(who, ["new"] * own)).reset_index(drop=True)
    domain = make_domain(target, unit_of(max_rows, weighting))
    check(domain, frame, frame[:rows], loss, n_outputs, weighted, shuffle)


def test_a_broken_loss_table_is_caught():
    """The twin rounds away from zero: one unit too much in places."""
    honest = LOGISTIC.table(0.2, 0.05)
    broken = LossTable(honest.gradient + np.sign(honest.gradient), honest.hessian, honest.shift)
    frame = make_frame(25, 3)
    gone = int(np.flatnonzero(frame["income"] == "low")[0])  # at score 0 its gradient is clipped
    with pytest.raises(AssertionError):
        check(make_domain(), frame, frame.drop(index=gone), broken, 1, False, 0)


def test_a_forgotten_bound_on_rows_is_caught():
    """The twin charges for one row where a person has up to four."""
    frame = make_frame(60, 3)
    fewer = frame[frame["person"] != frame["person"].mode()[0]]
    with pytest.raises(AssertionError):
        check(make_domain(), frame, fewer, TASKS["two classes"][1], 1, False, 0)


def new_unit(rows):
    """A table, and the same with a unit of rows that are alike and of a known label."""
    frame = make_frame(20, 3).assign(person="other")
    known = frame[frame["income"] == "low"].iloc[:1]
    more = pd.concat([frame, *([known.assign(person="new")] * rows)], ignore_index=True)
    return more, frame


def test_a_unit_that_shares_a_weight_attains_its_bound():
    """Rows that are alike move one cell of counts by as much as a row of full weight."""
    domain, (more, frame) = make_domain(unit=unit_of(4, "units")), new_unit(6)
    frames = [answers(domain, each, TASKS["two classes"][1], 1, False, 2) for each in (more, frame)]
    bounds = [
        (np.abs(one - other).max(), query.bound(domain.unit.contribution()).steps)
        for (query, one), (_, other) in zip(*frames, strict=True)
    ]
    assert max(far / steps for far, steps in bounds) == 1


def unshared(unit, ranks, keep):
    """Give each row all of its unit's weight."""
    return np.where(keep, 256, 0).astype(np.uint16)


def rounded_up(unit, ranks, keep):
    """Give each of m rows ⌈256/m⌉ steps."""
    rows = np.bincount(unit[keep])[np.maximum(unit, 0)]
    return np.where(keep, -(-256 // np.maximum(rows, 1)), 0).astype(np.uint16)


@pytest.mark.parametrize("twin", [unshared, rounded_up])
def test_rows_that_share_too_much_weight_are_caught(twin, monkeypatch):
    monkeypatch.setattr(contribution_bound, "weight_shares", twin)
    domain, (more, frame) = make_domain(unit=unit_of(3, "units")), new_unit(6)
    with pytest.raises(AssertionError):
        check(domain, more, frame, TASKS["two classes"][1], 1, False, 0)


def test_a_map_whose_parts_are_forgotten_is_caught(monkeypatch):
    """The twin states the bound of one part where a row has a cell of several."""
    honest = CellSums.bound
    monkeypatch.setattr(
        CellSums, "bound", lambda query, own: replace(honest(query, own), cells=1, coordinates=2)
    )
    frame = make_frame(25, 3)
    with pytest.raises(AssertionError):
        check(make_domain(), frame, frame.drop(index=4), TASKS["two classes"][1], 1, False, 0)


@pytest.mark.parametrize("kind", [ScoreCounts, PredictionSums])
def test_sums_by_score_that_forget_weights_are_caught(kind, monkeypatch):
    """The twin states a row's steps without its weight."""
    honest = kind.bound
    monkeypatch.setattr(
        kind, "bound", lambda query, own: honest(query, replace(own, weighted=False))
    )
    frame = make_frame(25, 3)
    known = np.flatnonzero(frame["income"].notna() & (frame["weight"] > 0.5))
    with pytest.raises(AssertionError):
        check(
            make_domain(),
            frame,
            frame.drop(index=int(known[0])),
            TASKS["two classes"][1],
            1,
            True,
            0,
        )


def moved_by_replacing(frame, other, unit_rows, weighted):
    """How far counts of scores move, in what two-cell events claim: μ of Gaussians, and pure ε."""
    domain = make_domain(CLASSES, {"column": "person", "max_rows": unit_rows})
    frames = [pd.concat([frame, each], ignore_index=True) for each in other]
    loss, contribution = TASKS["two classes"][1], Contribution(weighted, unit_rows)
    one, two = (answers(domain, each, loss, 1, weighted, seed) for seed, each in enumerate(frames))
    own = [(q, a - b) for (q, a), (_, b) in zip(one, two, strict=True) if type(q) is ScoreCounts]
    assert own
    for query, change in own:
        bound = query.bound(contribution).of_two
        events = [
            kind("counts", 1.0, bound.steps, bound.cells, bound.rows, (1.0,))
            for kind in (GaussianRelease, LaplaceRelease)
        ]
        far = np.sqrt(((change / events[0].scales) ** 2).sum())
        yield far, (np.abs(change) / events[1].scales).sum()


@given(
    rows=st.integers(0, 25),
    seed=st.integers(0, 10_000),
    weighted=st.booleans(),
    unit_rows=st.integers(1, 4),
)
@settings(max_examples=25)
def test_replacing_any_unit_moves_counts_of_scores_by_two_cells(rows, seed, weighted, unit_rows):
    frame = make_frame(rows, seed)
    other = [make_frame(5, seed + k).assign(person="the same") for k in (1, 2)]
    for far, pure in moved_by_replacing(frame, other, unit_rows, weighted):
        assert far <= 1 + 1e-12
        assert pure <= 1 + 1e-12


def test_two_cells_are_attained_and_one_is_caught(monkeypatch):
    """The twin counts a unit that is replaced like one that is added."""
    frame = make_frame(20, 3)
    known = make_frame(40, 4).assign(person="the same")
    other = [known[known["income"] == name].iloc[:1] for name in ("low", "high")]
    moved = list(moved_by_replacing(frame, other, 1, False))
    assert max(far for far, _ in moved) == pytest.approx(1)
    assert max(pure for _, pure in moved) == pytest.approx(1)
    monkeypatch.setattr(Bound, "of_two", property(lambda own: own))
    moved = list(moved_by_replacing(frame, other, 1, False))
    assert max(far for far, _ in moved) > 1.4
    assert max(pure for _, pure in moved) > 1.9


INITIAL = TreeSums((stump(),), 0, GRADIENT_COUNT)


def initial_event(contribution, epsilons=(0.1, 0.02)):
    """The release of an initial score whose sum of labels and count have an ε each."""
    bound = {"steps": contribution.row_steps * contribution.rows, "rows": contribution.rows}
    shares = tuple(epsilon / sum(epsilons) for epsilon in epsilons)
    return initial_release(LaplaceRelease, 1 / sum(epsilons), bound, shares)


def loss_of_the_start(domain, frames, clip, weighted):
    """How far an initial score's exact sums of neighbours are apart, in scales of noise: ε."""
    contribution = Contribution(weighted, 1 if domain.unit is None else domain.unit.max_rows)
    sums, encoder = [], Encoder.of(domain)
    for frame in frames:
        rows = encode_training(encoder, frame, None, "weight" if weighted else None, 2.0)
        blocks = rows.blocks
        if domain.unit is not None:
            blocks = rows.bounded(UnitRule.of(domain.unit, KeyStream.seeded(8)))
        backend = LocalBackend(blocks)
        backend.apply(Start(SQUARED_NUMBER.table(clip, 1.0), 1))
        sums.append(backend.sum(INITIAL)[0, 0])
    return (np.abs(sums[0] - sums[1]) / initial_event(contribution).scales).sum()


@given(
    rows=st.integers(1, 30),
    seed=st.integers(0, 10_000),
    weighted=st.booleans(),
    clip=st.sampled_from([0.01, 0.3, 1.0]),
    max_rows=st.integers(1, 4),
)
@settings(max_examples=25)
def test_adding_any_unit_to_an_initial_score(rows, seed, weighted, clip, max_rows):
    """One ε for the sum and one for the count: together they are all that a unit can move."""
    frame = make_frame(rows, seed, NUMBER).assign(person="someone")
    frame.loc[: rows // 2, "person"] = "other"
    domain = make_domain(NUMBER, {"column": "person", "max_rows": max_rows})
    frames = frame, frame[frame["person"] == "other"]
    assert loss_of_the_start(domain, frames, clip, weighted) <= 0.12 * (1 + 1e-12)


@pytest.mark.parametrize("understated", ["the row", "the clip", "the count"])
def test_an_initial_score_that_understates_its_sensitivity_is_caught(understated, monkeypatch):
    """The claim is attained, so a twin that claims less is found out."""
    frame = make_frame(6, 3, NUMBER).assign(income=10.0)  # the largest label there is
    frames = frame, frame.iloc[:-1]
    assert loss_of_the_start(make_domain(NUMBER), frames, 0.3, False) == pytest.approx(0.12)
    honest = LaplaceRelease.scales.fget
    factor = {"the row": [0.5, 0.5], "the clip": [0.3, 1], "the count": [1, 0.5]}[understated]
    monkeypatch.setattr(LaplaceRelease, "scales", property(lambda own: honest(own) * factor))
    with pytest.raises(AssertionError):
        assert loss_of_the_start(make_domain(NUMBER), frames, 0.3, False) <= 0.12 * (1 + 1e-12)


def test_the_curator_refuses_an_initial_score_that_understates_what_one_unit_can_change():
    domain = make_domain(NUMBER, {"column": "person", "max_rows": 2})
    rows = encode_training(Encoder.of(domain), make_frame(20, 3, NUMBER)).blocks
    own = {"init_noise": "laplace", "init_epsilon": 0.1, "init_count_epsilon": 0.02}
    model = SBDTRegressor(1.0, 1e-6, domain, init_clip=0.3, n_estimators=2, **own)
    plan = model._plan(Encoder.of(domain), None, Budget(1.0, 1e-6))
    honest = plan.init_release
    assert honest == initial_event(Contribution(rows=2))
    for twin in (
        replace(honest, steps=honest.steps - 1),
        initial_event(Contribution()),  # of one row, where a unit has two
        replace(honest, rows=1),
        replace(honest, shares=(1.0,)),  # the count is told for nothing
    ):
        ledger = Ledger(1e9, 1e-6, PureAccountant())
        ledger.reserve([Planned(twin, 1)])
        curator = Curator(LocalBackend(rows), ledger, KeyStream.seeded(5), plan.contribution)
        with pytest.raises(ValueError, match="understates"):
            start_boosting(curator, replace(plan, init_release=twin), 0.3)
        assert not ledger.spent
