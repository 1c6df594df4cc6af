"""One unit changes the exact integers of an evaluation by what its events say, at most."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privboost import (
    CategoricalFeature,
    PrivBoostClassifier,
    PrivBoostRegressor,
    PrivBoostSurvival,
)
from privboost._core.grid import Contribution
from privboost.accounting.events import Planned
from privboost.accounting.ledger import Ledger
from privboost.accounting.noisy_sums import GaussianRelease
from privboost.data.contribution_bound import UnitRule
from privboost.data.encoding import Encoder
from privboost.data.loading import Load, load_rows
from privboost.data.sources import open_table
from privboost.engine.backend import LocalBackend
from privboost.engine.queries import CellSums
from privboost.evaluation import numbers
from privboost.evaluation.evaluate import measure
from privboost.evaluation.outcomes import OutcomeLoader, open_groups
from privboost.evaluation.plan import plan_evaluation
from privboost.losses.base import LossTable
from privboost.mechanisms.curator import Curator
from privboost.randomness.keystream import KeyStream
from privboost.recipes.common.plan import Budget
from tests.hostile import HostileBackend
from tests.tables import CLASSES, NUMBER, SURVIVAL, THREE, make_domain, make_frame

BY = ("job", "age", CategoricalFeature("place", ("p1", "p2")))


def fitted(kind, target):
    how = {"n_estimators": 6, "random_state": 1}
    frame = make_frame(400, 5, target)
    return kind(5.0, 1e-6, make_domain(target), **how).fit(frame).model_


MODELS = {
    "two classes": fitted(PrivBoostClassifier, CLASSES),
    "three classes": fitted(PrivBoostClassifier, THREE),
    "a number": fitted(PrivBoostRegressor, NUMBER),
    "survival times": fitted(PrivBoostSurvival, SURVIVAL),
}
TARGETS = {"two classes": CLASSES, "three classes": THREE, "a number": NUMBER}
TARGETS["survival times"] = SURVIVAL


HOW = {"a number": {"deviance": "poisson", "quantile": 0.5}}
"""All that can be measured of a target."""


def of_units(model, unit):
    domain = replace(model.domain, unit=make_domain(unit=unit).unit)
    return replace(model, encoder=Encoder(domain, model.encoder.edges))


class Spy:
    """Stands for the curator: keeps exact sums beside the events, and tells them.

    Of a neighbouring table it tells what was told of the first: what is asked next follows from
    released values, and mechanisms are compared given the same ones.
    """

    def __init__(self, backend, released=None):
        self.backend, self.told, self.released = backend, [], released
        self.publish = backend.apply

    def sums(self, query, event):
        exact = self.backend.sum(query)
        self.told.append((query, event, exact))
        return exact if self.released is None else self.released[len(self.told) - 1]


def plan_of(model, delta, by=BY, **how):
    return plan_evaluation(model, open_groups(by, model), Budget(1.0, delta), **how)


def told_of(plan, frame, shuffle, released=None):
    """What an evaluation asks, with the event of each question and the exact answer."""
    rule = UnitRule.of(plan.encoder.domain.unit, KeyStream.seeded(8))
    event = plan.model.domain.target.event_column
    loader = OutcomeLoader(plan.model, plan.outcomes, plan.groups, "income", rule, event)
    frame = frame.sample(frac=1, random_state=shuffle)
    load = Load(loader, open_table(frame, plan.model.domain.feature_names))
    if shuffle % 2:
        backend = HostileBackend([load], shuffle)
    else:
        backend = LocalBackend([block for each in load_rows([load]) for block in each.blocks], 2)
    spy = Spy(backend, released)
    measure(spy, plan)
    return spy.told


def losses(plan, frame, fewer, shuffle=0):
    """How far each release moves, in what its event claims: 1 is all of it."""
    first = told_of(plan, frame, shuffle)
    second = told_of(plan, fewer, shuffle + 1, [exact for _, _, exact in first])
    for (query, event, more), (other, _, less) in zip(first, second, strict=True):
        assert query.cells.same_as(other.cells)  # they follow from released values alone
        change = more - less
        bound = query.bound(Contribution(rows=event.rows))
        assert np.abs(change).max(initial=0) <= bound.steps
        assert (change != 0).sum() <= event.touched
        if isinstance(event, GaussianRelease):
            yield event.noise * np.sqrt(((change / event.scales) ** 2).sum())
        else:
            yield event.noise * (np.abs(change) / event.scales).sum()


@given(
    task=st.sampled_from(sorted(MODELS)),
    rows=st.integers(1, 25),
    seed=st.integers(0, 10_000),
    shuffle=st.integers(0, 1000),
    delta=st.sampled_from([0.0, 1e-6, 0.2]),
    data=st.data(),
)
@settings(max_examples=25)
def test_adding_any_row(task, rows, seed, shuffle, delta, data):
    model = MODELS[task]
    target = TARGETS[task]
    frame = make_frame(rows, seed, target)
    fewer = frame.drop(index=data.draw(st.integers(0, rows - 1)))
    plan = plan_of(model, delta, **HOW.get(task, {}))
    assert all(moved <= 1 + 1e-12 for moved in losses(plan, frame, fewer, shuffle))


@given(
    task=st.sampled_from(sorted(MODELS)),
    rows=st.integers(1, 60),
    seed=st.integers(0, 10_000),
    shuffle=st.integers(0, 1000),
    delta=st.sampled_from([0.0, 1e-6, 0.2]),
    max_rows=st.integers(1, 4),
)
@settings(max_examples=25)
def test_adding_any_unit(task, rows, seed, shuffle, delta, max_rows):
    model = of_units(MODELS[task], {"column": "person", "max_rows": max_rows})
    target = TARGETS[task]
    frame = make_frame(rows, seed, target)
    first = frame["person"].iloc[0]
    fewer = frame[frame["person"].notna() if first is None else frame["person"] != first]
    plan = plan_of(model, delta, **HOW.get(task, {}))
    assert all(moved <= 1 + 1e-12 for moved in losses(plan, frame, fewer, shuffle))


def known_row(frame):
    return int(np.flatnonzero(frame["income"].isin(["low", "high"]))[0])


@pytest.mark.parametrize("delta", [0.0, 0.2])
def test_the_claim_about_counts_is_attained(delta):
    frame = make_frame(30, 3)
    plan = plan_of(MODELS["two classes"], delta)
    moved = list(losses(plan, frame, frame.drop(index=known_row(frame))))
    assert moved == [pytest.approx(1)]
    assert isinstance(plan.releases[0].event, GaussianRelease) == (delta > 0)


@pytest.mark.parametrize("delta", [0.0, 0.2])
@pytest.mark.parametrize("max_rows", [None, 3])
def test_the_claim_about_residuals_by_size_is_attained(delta, max_rows):
    """A row is in one cell of the whole table and of each feature; a unit with all its rows."""
    model = MODELS["a number"]
    frame = make_frame(30, 3, NUMBER).assign(income=2.0)
    if max_rows is not None:
        model = of_units(model, {"column": "person", "max_rows": max_rows})
        frame = frame.iloc[[0] * 5].assign(person="someone").reset_index(drop=True)
    plan = plan_of(model, delta, deviance="poisson")
    fewer = frame.drop(index=0) if max_rows is None else frame.iloc[:0]
    moved = list(losses(plan, frame, fewer))
    counted = {
        "the number of rows",
        "rows by the size of their residual",
        "rows by their prediction",
        "rows by group of their prediction",
        "rows by the size of their deviance",
    }
    whats = [planned.event.what for planned in plan.releases]
    assert counted < set(whats)
    for what, own, planned in zip(whats, moved, plan.releases, strict=True):
        if what in counted:
            assert own == pytest.approx(1), what
        assert planned.event.cells == (1 if what == "rows by their prediction" else 1 + len(BY))
        assert isinstance(planned.event, GaussianRelease) == (delta > 0)


@pytest.mark.parametrize("task", ["two classes", "a number"])
def test_a_forgotten_feature_is_caught(task, monkeypatch):
    """The twin counts the cells of the whole table alone, and forgets those of groups."""
    from privboost.evaluation import plan as plans

    monkeypatch.setattr(plans, "_n_parts", lambda groups: 1)
    frame = make_frame(30, 3)
    if task == "a number":
        frame = frame.assign(income=2.0)
    plan = plan_of(MODELS[task], 0.0)
    moved = losses(plan, frame, frame.drop(index=known_row(frame) if task != "a number" else 0))
    with pytest.raises(AssertionError):
        assert all(each <= 1 + 1e-12 for each in moved)


def test_groups_of_predictions_that_follow_from_rows_are_caught(monkeypatch):
    """The twin takes the edges of groups from exact counts, at no price."""
    asked = numbers._Asked
    exact = []

    class Twin(asked):
        def ask(self, name, cells, statistics=numbers.GRADIENT_HESSIAN):
            super().ask(name, cells, statistics)
            if name == numbers.PREDICTIONS:
                exact.append(self.curator.told[-1][2] / numbers.CLIP_STEPS)
                self._sums[name] = [exact[-1]]

    monkeypatch.setattr(numbers, "_Asked", Twin)
    frame = make_frame(60, 3, NUMBER).assign(income=2.0)
    with pytest.raises((AssertionError, ValueError)):
        list(losses(plan_of(MODELS["a number"], 0.0), frame, frame.iloc[:20]))
    assert len(exact) == 2


def test_counts_by_prediction_within_groups_are_refused(monkeypatch):
    """The twin counts rows by their prediction in groups too, which the event does not pay for."""
    honest = numbers.NumberOutcomes.maps

    def twin(self, model, groups):
        whole, by_size, by_prediction, *more = honest(self, model, groups)
        return whole, by_size, numbers.within_each(by_prediction, groups), *more

    monkeypatch.setattr(numbers.NumberOutcomes, "maps", twin)
    plan = plan_of(MODELS["a number"], 0.0)
    ledger = Ledger(1.0, 0.0, plan.accountant)
    ledger.reserve(plan.releases)
    curator = Curator(LocalBackend([]), ledger, KeyStream.seeded(5), plan.contribution)
    with pytest.raises(ValueError, match="understates"):
        measure(curator, plan)
    assert "rows by their prediction" not in {planned.event.what for planned in ledger.spent}


def test_a_forgotten_bound_on_rows_is_caught():
    """The twin protects rows where a person has up to four."""
    frame = make_frame(60, 3)
    fewer = frame[frame["person"] != frame["person"].mode()[0]]
    with pytest.raises(AssertionError):
        assert all(
            moved <= 1 + 1e-12
            for moved in losses(plan_of(MODELS["two classes"], 0.0), frame, fewer)
        )


@pytest.mark.parametrize("what", ["cells", "rows", "steps"])
def test_the_curator_refuses_an_event_that_understates(what):
    model = of_units(MODELS["two classes"], {"column": "person", "max_rows": 2})
    plan = plan_of(model, 0.0)
    (planned,) = plan.releases
    twin = replace(planned.event, **{what: getattr(planned.event, what) - 1})
    ledger = Ledger(1e9, 0.0, plan.accountant)
    ledger.reserve([Planned(twin, 1)])
    curator = Curator(LocalBackend([]), ledger, KeyStream.seeded(5), plan.contribution)
    with pytest.raises(ValueError, match="understates"):
        measure(curator, replace(plan, releases=(Planned(twin, 1),)))
    assert not ledger.spent


def test_a_table_that_is_too_large_is_refused(monkeypatch):
    """The twin squares residuals that were not clipped."""
    honest = numbers.table_of

    def twin(first, second):
        table = honest(first, second)
        return LossTable(table.gradient, table.hessian * 2, table.shift)

    monkeypatch.setattr(numbers, "table_of", twin)
    plan = plan_of(MODELS["a number"], 0.0)
    ledger = Ledger(1.0, 0.0, plan.accountant)
    ledger.reserve(plan.releases)
    curator = Curator(LocalBackend([]), ledger, KeyStream.seeded(5), plan.contribution)
    with pytest.raises(ValueError, match="exceeds its clip"):
        measure(curator, plan)
    spent = {planned.event.what for planned in ledger.spent}
    assert spent == {"the number of rows", "rows by the size of their residual"}  # no table yet


def test_a_row_of_an_unknown_label_adds_nothing():
    for task, model in MODELS.items():
        target = TARGETS[task]
        frame = make_frame(9, 3, target).assign(income=None)
        for query, _, exact in told_of(plan_of(model, 0.0, **HOW.get(task, {})), frame, 0):
            assert isinstance(query, CellSums)
            assert not exact.any()
