"""Plans for units whose rows share one weight: noise of one row, and what is refused."""

import numpy as np
import pytest

from privboost import (
    BoostedAdaSSPClassifier,
    DPXGBClassifier,
    LazyBBClassifier,
    PrivBoostClassifier,
    SarusXGBClassifier,
    SBDTClassifier,
)
from privboost._core.grid import CLIP_STEPS, WEIGHT_STEPS, Contribution, SharedContribution
from privboost.accounting.noisy_sums import NoisySums
from privboost.data.encoding import Encoder
from privboost.engine.queries import VoteCounts
from privboost.mechanisms.sensitivity import means_bound
from privboost.mechanisms.utilities import ROUNDING, SCORE, SplitGain
from privboost.recipes.common.plan import Budget, PlanBasis
from privboost.trees.cell_map import CellMap
from privboost.trees.tree import stump
from tests.tables import make_domain


def unit_of(rows, weighting="units"):
    return {"column": "person", "max_rows": rows, "weighting": weighting}


def plan_of(kind, unit, **how):
    model = kind(epsilon=1.0, delta=1e-6, domain=make_domain(unit=unit), **how)
    preparation = model._stages(None, None, None, lambda: 100)
    return preparation.plan(preparation.domain_and_budget())


KINDS = [PrivBoostClassifier, SBDTClassifier, DPXGBClassifier, BoostedAdaSSPClassifier]
KINDS.append(SarusXGBClassifier)


@pytest.mark.parametrize("kind", KINDS)
def test_noise_is_that_of_one_row_of_full_weight_whatever_max_rows_is(kind):
    """But for the slack of the grid, of more coordinates."""
    few, many, rows = (
        plan_of(kind, unit_of(2)),
        plan_of(kind, unit_of(200)),
        plan_of(kind, unit_of(200, "rows")),
    )
    assert many.contribution == SharedContribution(True, 200)
    assert many.weight_bound == 1.0
    assert rows.weight_bound is None
    for one, other, alone in zip(few.releases, many.releases, rows.releases, strict=True):
        if isinstance(one.event, NoisySums):
            assert one.event.steps == other.event.steps
            assert (one.event.rows, other.event.rows) == (2, 200)
            assert other.event.noise == pytest.approx(one.event.noise, rel=1e-4)
            assert other.event.steps * 200 >= alone.event.steps  # of finer steps


def test_counts_are_in_steps_of_a_whole_unit():
    plan = plan_of(PrivBoostClassifier, unit_of(5))
    assert plan.init_release.steps == CLIP_STEPS * WEIGHT_STEPS
    assert plan.count_step * CLIP_STEPS * WEIGHT_STEPS == 1


@pytest.mark.parametrize(
    ("kind", "how", "message"),
    [
        (LazyBBClassifier, {"n_estimators": 3, "density": 0.5}, "units of several rows"),
        (SarusXGBClassifier, {"leaves": "means", "delta": 0.0}, "whole counts"),
        (SBDTClassifier, {"subsample": 0.5}, "sampled in part"),
        (PrivBoostClassifier, {"conformal_fraction": 0.2}, "max_rows=1"),
    ],
)
def test_what_is_not_proved_is_refused(kind, how, message):
    how = {"epsilon": 1.0, "delta": 1e-6} | how
    with pytest.raises(ValueError, match=message):
        kind(domain=make_domain(unit=unit_of(2)), **how).preview(n_rows=100)
    assert kind(domain=make_domain(unit=unit_of(1)), **how).preview(n_rows=100)


def test_queries_without_weights_are_refused_by_their_bounds():
    shared = SharedContribution(True, 3)
    votes = VoteCounts(stump(), np.zeros(1, np.uint16), CellMap.of_feature(0, np.arange(2)), 0)
    with pytest.raises(ValueError, match="weighted rows"):
        means_bound(None, 1, shared)
    with pytest.raises(ValueError, match="without weights"):
        votes.bound(shared)
    domain = make_domain(unit=unit_of(3))
    with pytest.raises(ValueError, match="have weights"):
        PlanBasis(Encoder.of(domain), None, Budget(1.0, 1e-6), "auto")


def test_splits_have_the_range_of_one_row_and_the_rounding_of_all():
    utility = SplitGain(None, 1.0)
    one, shared = utility.range(Contribution(True)), utility.range(SharedContribution(True, 9))
    assert shared == one + 8 * ROUNDING == 4 * SCORE + 9 * ROUNDING
    assert utility.range(Contribution(True, 9)) == 9 * one
