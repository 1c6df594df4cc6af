import numpy as np
import pytest

from privboost import SarusXGBClassifier, SarusXGBRegressor, load_model
from privboost._core.grid import CLIP_STEPS, SCORE_STEPS
from privboost.accounting.events import SampledGroup
from privboost.data.encoding import Encoder
from privboost.data.rows import join
from privboost.losses.base import UNKNOWN, filtered, within_steps
from privboost.losses.logistic import LOGISTIC
from privboost.mechanisms.sensitivity import MEAN_STEPS, exact_means, lambda_steps, row_steps
from privboost.recipes.common.newton import start_boosting
from privboost.recipes.common.plan import Budget
from privboost.recipes.common.start import find_target_range
from privboost.recipes.sarus import _leaf_values, add_trees, boost_sarus
from tests.recipes.test_dpxgb import Tell as TellBest
from tests.tables import CLASSES, NUMBER, THREE, encode_training, make_domain, make_frame

SETTINGS = {"n_estimators": 4, "max_depth": 3, "n_candidates": 12}


class Tell(TellBest):
    """A curator without noise, for tests only; groups are noted."""

    def sampling(self, event):
        from contextlib import nullcontext

        self.asked.append(event)
        return nullcontext()

    def laplace_means(self, query, added, event):
        self.asked.append(event)
        return exact_means(self.backend.sum(query), added)


def plan_for(target=CLASSES, epsilon=2.0, delta=0.0, weight_bound=None, **how):
    kind = SarusXGBRegressor if "bounds" in target else SarusXGBClassifier
    domain = make_domain(target)
    model = kind(epsilon, delta, domain, **(SETTINGS | how))
    return model._plan(Encoder.of(domain), weight_bound, Budget(epsilon, delta))


OPTIONS = [
    {"loss": "squared"},
    {"leaves": "means"},
    {"leaves": "means", "subsample": 0.2},
    {"sketch_each_tree": True},
    {"sketch_each_tree": True, "subsample": 0.2, "sketch_weights": "hessian", "sketch_bins": 40},
]


@pytest.mark.parametrize("target", [CLASSES, THREE, NUMBER])
@pytest.mark.parametrize("how", [{}, {"subsample": 0.2}, {"shares": (0.0, 0.5, 0.5)}, *OPTIONS])
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
    plan = plan_for(init_share=0.1, calibration_share=0.05, shares=(0.2, 0.3, 0.5))
    spent = {p.event.what: p.count * p.event.pure / 2 for p in plan.releases}
    parts = sorted(spent.values())
    np.testing.assert_allclose(parts, sorted([0.05, 0.1, 0.17, 0.255, 0.425]), rtol=1e-5)


@pytest.mark.parametrize(("subsample", "part"), [(1.0, 0.5), (0.2, 0.85)])
def test_a_little_delta_buys_less_noise(subsample, part):
    """Much less on full batches; a tree on a sample is composed as one pure mechanism."""
    how = {"epsilon": 1.0, "n_estimators": 20, "max_depth": 6, "subsample": subsample}
    pure, other = plan_for(**how), plan_for(delta=1e-5, **how)
    assert other.leaf.noise < part * pure.leaf.noise
    assert other.accountant.compose(other.releases).epsilon(1e-5) <= 1.0


@pytest.mark.parametrize("target", [CLASSES, THREE, NUMBER])
@pytest.mark.parametrize("how", [{}, {"subsample": 0.2}, *OPTIONS])
def test_the_releases_are_those_planned(target, how):
    plan = plan_for(target, **how)
    encoder = plan.encoder
    rows = encode_training(encoder, make_frame(60, target=target))
    curator = Tell(rows.blocks, plan.contribution)
    find_target_range(curator, plan)
    boost_sarus(curator, plan)
    for planned in plan.releases:
        assert curator.asked.count(planned.event) == planned.count
        if isinstance(planned.event, SampledGroup):
            for inner in planned.event.inner:
                assert curator.asked.count(inner.event) == inner.count * planned.count


@pytest.mark.parametrize("how", [{}, *OPTIONS])
def test_without_noise_it_learns(how):
    plan = plan_for(n_estimators=30, reg_lambda=1.0, **how)
    rows = encode_training(plan.encoder, make_frame(3000))
    curator = Tell(rows.blocks, plan.contribution)
    scores = add_trees(curator, plan, start_boosting(curator, plan))
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


def train(plan, rows):
    curator = Tell(encode_training(plan.encoder, rows).blocks, plan.contribution)
    return add_trees(curator, plan, start_boosting(curator, plan))


def test_the_squared_loss_predicts_classes_as_minus_one_and_one():
    """One leaf moves the score of all rows to the mean label, but for the rate."""
    how = {"loss": "squared", "n_estimators": 1, "max_depth": 1, "gradient_clip": 1.0}
    frame = make_frame(500)
    plan = plan_for(**how, init_share=0.0, reg_lambda=1e-6, learning_rate=1.0)
    scores = train(plan, frame)
    assert (plan.task.loss, plan.parameters["loss"]) == ("squared", "squared")
    block = join(encode_training(plan.encoder, frame).blocks)
    own = scores.scores(block.codes)[0] / SCORE_STEPS
    label = np.where(block.label == 1, 1.0, -1.0)
    known = block.label != 255
    for value in np.unique(own):
        here = known & (own == value)
        assert label[here].mean() == pytest.approx(value, abs=0.01)
    start = train(plan_for(**how), frame).start[0] / SCORE_STEPS
    assert start == pytest.approx(label[known].mean(), abs=0.01)


@pytest.mark.parametrize("target", [CLASSES, THREE])
def test_the_squared_loss_has_no_probabilities(target, tmp_path):
    model = SarusXGBClassifier(2.0, 0.0, make_domain(target), loss="squared", **SETTINGS)
    model.set_params(random_state=1).fit(make_frame(200, target=target))
    assert not hasattr(model, "predict_proba")
    assert not hasattr(model, "staged_predict_proba")
    assert not model.model_.has_probabilities
    assert model.feature_importances_.shape == (6,)
    model.save(tmp_path / "m.privboost")
    loaded, rows = load_model(tmp_path / "m.privboost"), make_frame(50, seed=1)
    np.testing.assert_array_equal(loaded.predict(rows), model.predict(rows))
    with pytest.raises(AttributeError) as refused:
        loaded.predict_proba(rows)
    assert "not log-odds" in str(refused.value.__cause__)
    assert hasattr(SarusXGBClassifier(), "predict_proba")


def test_noise_of_means_is_that_of_one_row():
    plan = plan_for(leaves="means", reg_lambda=0.1, gradient_clip=0.5)
    added = lambda_steps(0.1)
    assert plan.leaf.steps == row_steps(added) == pytest.approx(MEAN_STEPS / 1.1, rel=1e-4)
    assert plan_for(leaves="means").step.reg_lambda == 1.0
    means = np.array([[MEAN_STEPS // 2], [-MEAN_STEPS], [50 * MEAN_STEPS]])
    values, noise = _leaf_values(plan, means, 0)
    np.testing.assert_array_equal(values, np.array([-0.25, 0.5, -2.0]) * SCORE_STEPS)
    assert (noise > 0).all()
    model = SarusXGBClassifier(2.0, 0.0, make_domain(), leaves="means", random_state=1, **SETTINGS)
    assert not hasattr(model.fit(make_frame(100)), "feature_importances_")  # no counts


def test_a_sketch_for_each_tree_is_on_its_sample():
    plan = plan_for(THREE, sketch_each_tree=True, subsample=0.2, sketch_weights="hessian")
    inner = [planned.event for planned in plan.group.inner]
    assert inner == [plan.sketch, plan.selection, plan.leaf]
    costs = [p.count * p.event.pure for p in plan.group.inner]
    np.testing.assert_allclose(np.divide(costs, sum(costs)), plan.settings.shares, rtol=1e-6)
    whole = plan_for(THREE, sketch_each_tree=True)
    assert {p.event.what: p.count for p in whole.releases}[whole.sketch.what] == 4 * 3


def test_hessians_in_a_sketch_fill_their_clip():
    for target, how in ((CLASSES, {}), (CLASSES, {"loss": "squared"}), (NUMBER, {})):
        table = plan_for(target, sketch_weights="hessian", **how).loss
        assert 0.99 * CLIP_STEPS < table.hessian.max() <= CLIP_STEPS


@pytest.mark.parametrize("kind", [SarusXGBClassifier, SarusXGBRegressor])
def test_the_preset_is_the_published_setting(kind):
    """γ, rate, λ, thirds of the budget, the squared loss on ±1, a sketch for each tree."""
    target = NUMBER if kind is SarusXGBRegressor else CLASSES
    domain = make_domain(target)
    model = kind.from_preset("DP_XGBoost", epsilon=1.0, domain=domain, random_state=1)
    plan = model._plan(Encoder.of(domain), None, Budget(1.0, 0.0))
    chosen = plan.parameters
    published = {
        "loss": "squared",
        "n_estimators": 20,
        "subsample": 0.1,
        "learning_rate": 0.3,
        "reg_lambda": 0.1,
        "split_lambda": 0.1,
        "gradient_clip": 1.0,
        "leaf_clip": 1.0,
        "leaves": "sums",
        "n_candidates": 50,
    }
    assert {key: chosen[key] for key in published} == published
    assert plan.init is None
    parts = [p.count * p.event.pure for p in plan.group.inner]
    np.testing.assert_allclose(np.divide(parts, sum(parts)), 1 / 3, rtol=1e-6)
    assert [(p.event, p.count) for p in plan.releases] == [(plan.group, 20)]
    assert 0.9999 <= plan.accountant.compose(plan.releases).epsilon(0.0) <= 1.0
    model.fit(make_frame(100, target=target))


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
    ({"gradient_filter": 2.0}, "gradient_filter must be below gradient_clip"),
    ({"gradient_filter": 0.5}, "gradient_filter must be below gradient_clip"),
    ({"geometric_clip": True, "learning_rate": 1.0}, "learning_rate below 1"),
    ({"count_share": 1.0}, "share"),
    ({"loss": "hinge"}, "loss must be"),
    ({"loss": 3}, "loss must be"),
    ({"leaves": "medians"}, "leaves must be"),
    ({"leaves": "means", "min_child_weight": 5}, "releases none"),
    ({"leaves": "means", "reg_lambda": 0}, "reg_lambda"),
    ({"sketch_bins": 1}, "sketch_bins"),
    ({"sketch_bins": 193}, "sketch_bins must be at most"),
    ({"sketch_weights": "rows"}, "sketch_weights must be"),
    ({"min_child_weight": -1}, "min_child_weight"),
    ({"epsilon": 0}, "epsilon"),
    ({"delta": 1.0}, "delta"),
    ({"domain_given": {}}, "give it, or domain, not both"),
]


@pytest.mark.parametrize(("how", "words"), BAD)
def test_bad_parameters_are_refused_before_a_row_is_read(how, words):
    class Rows:
        def __len__(self):
            raise AssertionError("the rows were looked at")

    parameters = {"epsilon": 1.0, "domain": make_domain()} | how
    with pytest.raises(ValueError, match=words):
        SarusXGBClassifier(**parameters).fit(Rows(), "income")


def test_means_take_no_weights():
    with pytest.raises(ValueError, match="takes no sample_weight"):
        plan_for(leaves="means", weight_bound=2.0)


def test_a_number_has_the_squared_loss_alone():
    with pytest.raises(ValueError, match='loss must be "squared"'):
        plan_for(NUMBER, loss="logistic")
