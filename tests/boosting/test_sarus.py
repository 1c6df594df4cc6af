import numpy as np
import pytest

from privboost import SarusXGBClassifier, SarusXGBRegressor
from privboost.boosting.initial_score import start_boosting
from privboost.boosting.plan import Budget
from privboost.boosting.sarus import _leaf_values, boost_sarus
from privboost.grid import CLIP_STEPS, SCORE_STEPS
from privboost.losses import UNKNOWN, filtered, within_steps
from privboost.losses.logistic import LOGISTIC
from privboost.privacy.events.event import SampledGroup
from privboost.tables.encoding import Encoder
from privboost.tables.rows import join
from tests.boosting.test_dpxgb import Tell as TellBest
from tests.tables import CLASSES, NUMBER, THREE, encode_training, make_domain, make_frame

SETTINGS = {"n_estimators": 4, "max_depth": 3, "n_candidates": 12}


class Tell(TellBest):
    """A curator without noise, for tests only; groups are noted."""

    def sampling(self, event):
        from contextlib import nullcontext

        self.asked.append(event)
        return nullcontext()


def plan_for(target=CLASSES, epsilon=2.0, delta=0.0, weight_bound=None, **how):
    kind = SarusXGBRegressor if "bounds" in target else SarusXGBClassifier
    domain = make_domain(target)
    model = kind(epsilon, delta, domain, **(SETTINGS | how))
    return model._plan(Encoder.of(domain), weight_bound, Budget(epsilon, delta))


@pytest.mark.parametrize("target", [CLASSES, THREE, NUMBER])
@pytest.mark.parametrize("how", [{}, {"subsample": 0.2}, {"shares": (0.0, 0.5, 0.5)}])
def test_a_pure_plan_spends_its_epsilon_and_no_more(target, how):
    plan = plan_for(target, **how)
    assert plan.accountant.name == "pure"
    assert 0.9999 * 2 <= plan.accountant.compose(plan.releases).epsilon(0.0) <= 2.0
    if "subsample" in how:
        inner = sum(p.count * p.event.pure for p in plan.group.inner)
        per_tree = np.log1p(0.2 * np.expm1(inner))
        assert plan.group.pure == pytest.approx(per_tree)
        assert plan.group.pure < 0.5 * inner
    else:
        assert plan.group is None


def test_shares_are_parts_of_epsilon():
    plan = plan_for(init_share=0.1, shares=(0.2, 0.3, 0.5))
    spent = {p.event.what: p.count * p.event.pure / 2 for p in plan.releases}
    parts = sorted(spent.values())
    np.testing.assert_allclose(parts, sorted([0.1, 0.9 * 0.2, 0.9 * 0.3, 0.9 * 0.5]), rtol=1e-5)


@pytest.mark.parametrize(("subsample", "part"), [(1.0, 0.5), (0.2, 0.85)])
def test_a_little_delta_buys_less_noise(subsample, part):
    """Much less on full batches; a tree on a sample is composed as one pure mechanism."""
    how = {"epsilon": 1.0, "n_estimators": 20, "max_depth": 6, "subsample": subsample}
    pure, other = plan_for(**how), plan_for(delta=1e-5, **how)
    assert other.leaf.noise < part * pure.leaf.noise
    assert other.accountant.compose(other.releases).epsilon(1e-5) <= 1.0


@pytest.mark.parametrize("target", [CLASSES, THREE, NUMBER])
@pytest.mark.parametrize("subsample", [1.0, 0.2])
def test_the_releases_are_those_planned(target, subsample):
    plan = plan_for(target, subsample=subsample)
    encoder = plan.encoder
    rows = encode_training(encoder, make_frame(60, target=target))
    curator = Tell(rows.blocks, plan.contribution)
    boost_sarus(curator, plan, start_boosting(curator, plan))
    for planned in plan.releases:
        assert curator.asked.count(planned.event) == planned.count
        if isinstance(planned.event, SampledGroup):
            for inner in planned.event.inner:
                assert curator.asked.count(inner.event) == inner.count * planned.count


def test_without_noise_it_learns():
    plan = plan_for(n_estimators=30, reg_lambda=1.0)
    rows = encode_training(plan.encoder, make_frame(3000))
    curator = Tell(rows.blocks, plan.contribution)
    scores = boost_sarus(curator, plan, start_boosting(curator, plan))
    block = join(rows.blocks)
    known = block.label != 255
    right = (scores.scores(block.codes)[0] > 0) == (block.label == 1)
    assert right[known].mean() > 0.75


def test_leaves_are_clipped_geometrically_and_thin_ones_stay_zero():
    plan = plan_for(
        geometric_clip=True, leaf_clip=1.0, learning_rate=0.5, min_child_weight=10, reg_lambda=1.0
    )
    sums = np.array([[-(10**9), 100], [10**9, 100], [-(10**9), 9]]) * CLIP_STEPS
    for round_ in (0, 1, 3):
        clip = 0.5**round_ * 0.5 * SCORE_STEPS
        values, noise = _leaf_values(plan, sums, round_)
        np.testing.assert_allclose(values, [clip, -clip, 0], atol=1)
        assert 0 < noise[0] == noise[1] <= clip
        assert noise[2] == 0


@pytest.mark.parametrize("target", [CLASSES, NUMBER])
def test_a_geometric_clip_has_a_rate_that_leaves_later_trees_something(target):
    plan = plan_for(target, geometric_clip=True)
    assert plan.step.learning_rate == 0.3
    assert plan_for(target, geometric_clip=True, learning_rate=0.9).step.learning_rate == 0.9
    assert plan_for().step.learning_rate == 1.0
    sums = np.array([[-(10**9), 100]]) * CLIP_STEPS
    clips = [_leaf_values(plan, sums, round_)[0][0] for round_ in range(4)]
    np.testing.assert_allclose(np.divide(clips[1:], clips[:-1]), 0.7, rtol=1e-3)


def test_filtered_rows_count_for_nothing():
    table = LOGISTIC.table(1.0, 0.25)
    kept = filtered(table, 0.7, 1.0)
    out = np.abs(table.gradient) > 0.7 * CLIP_STEPS
    assert out.any()
    for statistic in (kept.gradient, kept.hessian, kept.count):
        assert not statistic[out].any()
    inside = ~out
    inside[UNKNOWN] = False
    np.testing.assert_array_equal(kept.gradient[inside], table.gradient[inside])
    assert (kept.count[inside] == CLIP_STEPS).all()
    assert within_steps(kept)


BAD = [
    ({"accountant": "gdp"}, "gdp accountant needs delta"),
    ({"accountant": "rdp"}, "rdp accountant needs delta"),
    ({"shares": (0.5, 0.5, 0.5)}, "shares must add up to 1"),
    ({"shares": (0.5, 0.5)}, "shares must be 3 numbers"),
    ({"shares": "abc"}, "shares must be 3 numbers"),
    ({"subsample": 0.0}, "subsample"),
    ({"split_lambda": 1e-6}, "split_lambda"),
    ({"shares": (0.5, 0.5, 0.0)}, "but the first"),
    ({"max_depth": 13}, "max_depth"),
    ({"n_candidates": 0}, "n_candidates"),
    ({"gradient_filter": 2.0}, "gradient_filter must be at most gradient_clip"),
    ({"geometric_clip": True, "learning_rate": 1.0}, "learning_rate below 1"),
    ({"count_share": 1.0}, "share"),
    ({"min_child_weight": -1}, "min_child_weight"),
    ({"epsilon": 0}, "epsilon"),
    ({"delta": 1.0}, "delta"),
    ({"domain": None}, "pure DP"),
]


@pytest.mark.parametrize(("how", "words"), BAD)
def test_bad_parameters_are_refused_before_a_row_is_read(how, words):
    class Rows:
        def __len__(self):
            raise AssertionError("the rows were looked at")

    parameters = {"epsilon": 1.0, "domain": make_domain()} | how
    with pytest.raises(ValueError, match=words):
        SarusXGBClassifier(**parameters).fit(Rows(), "income")
