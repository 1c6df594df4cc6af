from functools import partialmethod

import numpy as np
import pytest
from scipy.special import expit

from privboost import PrivBoostClassifier, PrivBoostRegressor
from privboost._core.grid import CLIP_STEPS, SCORE_STEPS, WEIGHT_STEPS
from privboost.data.encoding import Encoder
from privboost.data.rows import initial_states, join
from privboost.engine.backend import LocalBackend
from privboost.randomness.keystream import KeyStream, public_generator
from privboost.recipes.common import feature_posteriors
from privboost.recipes.common.feature_posteriors import FeaturePosteriors, FeatureQuery
from privboost.recipes.common.plan import Budget
from privboost.recipes.common.posterior import StepDamping
from privboost.recipes.common.scale import LogOddsScale
from privboost.recipes.common.softmax import ClassCounts, SoftmaxScale
from privboost.recipes.common.target_range import WHOLE_RANGE
from privboost.recipes.privboost import PrivBoostPlan, boost_privboost
from tests.tables import CLASSES, NUMBER, THREE, encode_training, make_domain, make_frame


class Tell:
    """A curator without noise, for tests only: it tells exact sums."""

    def __init__(self, blocks):
        self.backend, self.asked = LocalBackend(blocks), []

    def sums(self, query, event):
        self.asked.append(event)
        return self.backend.sum(query)

    def exchange(self, reserved, releases):
        self.given_up, self.instead = reserved, releases

    def close_budgets(self):
        pass

    def publish(self, update):
        self.backend.apply(update)


def plan_for(domain, weight_bound=None, rounds=18, epsilon=1.0, delta=1e-6, **how):
    classes = hasattr(domain.target, "classes")
    how = {
        "n_estimators": rounds,
        "interactions": False,
        "gradient_clip": 0.8,
        "hessian_clip": 0.25 if classes else 1.0,
        "hessian_share": 0.1,
        "init_share": 0.02,
        "calibration_share": 0.04 if classes else 0.0,
        "span_share": 0.0,
    } | how
    kind = PrivBoostClassifier if classes else PrivBoostRegressor
    model = kind(epsilon, delta, domain, **how)
    return model._plan(Encoder.of(domain), weight_bound, Budget(epsilon, delta))


def scale_for(plan, rows=1e4):
    """The scale of classes at a score of 0, with so many rows."""
    if plan.several:
        return SoftmaxScale.of(plan, ClassCounts(np.full(plan.task.n_outputs, rows), 1.0))
    return LogOddsScale.of(plan, np.zeros(1), np.array([rows / plan.count_step]), WHOLE_RANGE)


def boost(rows, plan, seed=0):
    tell = Tell(rows.blocks)
    generator = public_generator(KeyStream.seeded(seed))
    return boost_privboost(tell, plan, generator), tell


@pytest.mark.parametrize("target", [CLASSES, THREE, NUMBER])
@pytest.mark.parametrize(("answers", "at_once", "rounds"), [(2, 1, 2), (20, 1, 20), (20, 3, 7)])
def test_it_releases_exactly_its_plan(target, answers, at_once, rounds):
    domain = make_domain(target)
    for epsilon, joint in ((1.0, False), (1.0, True), (3e3, True)):
        how = {"rounds": answers, "at_once": at_once, "epsilon": epsilon, "interactions": joint}
        plan = plan_for(domain, **how)
        _, tell = boost(encode_training(plan.encoder, make_frame(50, target=target)), plan)
        assert tell.given_up == plan.reserved_release
        kept = [planned for planned in plan.releases if planned.event != plan.reserved_release]
        assert len(kept) == len(plan.releases) - 1
        for planned in (*kept, *tell.instead):
            assert tell.asked.count(planned.event) == planned.count
        assert len(tell.asked) == sum(planned.count for planned in (*kept, *tell.instead))
        assert tell.instead[0].count == rounds
        assert len(tell.instead) == 1 + (joint and epsilon > 1)


@pytest.mark.parametrize("interactions", [False, True])
@pytest.mark.parametrize("at_once", [1, 4, 10**6])
@pytest.mark.parametrize("weight", [1.0, 1e2, 1e4, 1e8])
def test_answers_cost_together_what_is_reserved_for_them(interactions, at_once, weight):
    plan = plan_for(make_domain(THREE), interactions=interactions, at_once=at_once)
    made = plan.measurements_for(weight, scale_for(plan)).planned()
    together = sum(planned.count * planned.event.mu**2 for planned in made)
    assert together == pytest.approx(plan.reserved_release.mu**2, rel=1e-12)
    assert len(made) == 1 + (interactions and weight > 1e2)


def test_questions_at_once_have_the_noise_of_as_many_rounds():
    """One round of several questions costs what as many rounds of one cost, and is as loud."""
    plans = [plan_for(make_domain(), at_once=k) for k in (1, 6)]
    one, several = (plan.measurements_for(1e4, scale_for(plan)) for plan in plans)
    assert one.n_single == 6 * several.n_single
    assert several.single.cells == 6
    np.testing.assert_allclose(several.single.scales, one.single.scales)
    assert several.single.mu**2 == pytest.approx(6 * one.single.mu**2)


@pytest.mark.parametrize("target", [CLASSES, THREE, NUMBER])
@pytest.mark.parametrize("at_once", [1, 4])
def test_pure_epsilon_is_spent_by_laplace_noise_on_features_alone(target, at_once):
    kind = PrivBoostRegressor if target is NUMBER else PrivBoostClassifier
    model = kind(3.0, 0, make_domain(target), at_once=at_once).fit(make_frame(100, target=target))
    report = model.privacy_
    assert report.guarantee == "3-differential privacy (pure)"
    assert 3 * (1 - 1e-6) < report.epsilon <= 3
    assert {release.mechanism.split(",")[0] for release in report.releases} == {
        "discrete Laplace noise"
    }
    (answers,) = (release for release in report.releases if "by cell" in release.what)
    features = len(make_domain(target).features)
    assert answers.count == -(-3 * features // min(at_once, features))
    assert model.model_.scores.kind == "additive"


def test_pure_epsilon_learns_what_there_is_to_learn():
    x = np.random.default_rng(1).random((8000, 2))
    form = {
        "version": 1,
        "features": {name: {"kind": "numeric", "bounds": [0, 1]} for name in "ab"},
        "target": {"name": "y", "classes": [0, 1]},
    }
    y = (x[:, 0] > 0.4).astype(int)
    model = PrivBoostClassifier(1.0, 0, form, random_state=1).fit(x, y)
    assert (model.predict(x) == y).mean() > 0.95
    assert model.feature_importances_[0] > 0.9


def test_more_questions_than_an_answer_was_paid_for_are_refused(monkeypatch):
    """A twin that reserves one question, and asks three, is stopped by the curator."""
    honest = PrivBoostPlan._release
    monkeypatch.setattr(
        PrivBoostPlan, "_release", lambda plan, what, _, times: honest(plan, what, 1, times)
    )
    monkeypatch.setattr(FeaturePosteriors, "next_queries", partialmethod(ask, 3))
    with pytest.raises(ValueError, match="understates what the query reveals"):
        PrivBoostClassifier(domain=make_domain(), random_state=1).fit(make_frame(50))


def ask(known, count, _, generator, others):
    return [FeatureQuery(f, known._cells_for(f, generator, (known, *others))) for f in range(count)]


def test_copies_asked_about_at_once_do_not_overshoot(monkeypatch):
    """Forty copies of one feature share its effect; each going the whole way, they could not."""
    x, error = np.random.default_rng(1).random(5000), np.random.default_rng(2).normal(size=5000)
    X, y = np.repeat(x[:, None], 40, axis=1), x + 0.05 * error
    features = {f"x{k}": {"kind": "numeric", "bounds": [0, 1]} for k in range(40)}
    form = {"version": 1, "features": features, "target": {"name": "y", "bounds": [-1, 2]}}

    def missed():
        model = PrivBoostRegressor(
            3.0, 1e-6, form, at_once=40, interactions=False, random_state=1
        ).fit(X, y)
        return np.sqrt(np.mean((model.predict(X) - y) ** 2))

    assert missed() < 0.5 * y.std()
    monkeypatch.setattr(feature_posteriors, "SINGLE", 0.0)
    monkeypatch.setattr(StepDamping, "damp", lambda damping, moves: None)
    assert missed() > 4 * 0.05


def loss_of(target, block, scores):
    """Mean loss of scores, outputs summed."""
    known = block.label != 255
    if block.minus_label is not None:
        return float(
            ((scores[0] + initial_states(block.minus_label) / SCORE_STEPS) ** 2)[known].mean()
        )
    outputs = len(scores)
    own = np.stack([block.label == (1 if outputs == 1 else k) for k in range(outputs)])
    chance = np.clip(expit(scores), 1e-6, 1 - 1e-6)
    return float(-np.where(own, np.log(chance), np.log(1 - chance))[:, known].sum(axis=0).mean())


@pytest.mark.parametrize("target", [CLASSES, THREE, NUMBER])
@pytest.mark.parametrize("weighted", [False, True])
def test_without_noise_it_learns(target, weighted):
    """At a budget whose noise is small, exact sums must leave less loss than the start alone."""
    domain = make_domain(target)
    bound = 2.0 if weighted else None
    plan = plan_for(domain, bound, rounds=60, epsilon=30.0)
    frame = make_frame(3000, target=target)
    rows = encode_training(plan.encoder, frame, None, "weight" if weighted else None, bound)
    block = join(rows.blocks)
    model, _ = boost(rows, plan)
    start = np.repeat(model.start[:, None] / SCORE_STEPS, len(block), axis=1)
    learned = model.scores(block.codes) / SCORE_STEPS
    assert loss_of(target, block, learned) < 0.97 * loss_of(target, block, start)


def test_weights_that_are_all_at_their_bound_change_nothing_but_the_grid():
    domain, frame = make_domain(), make_frame(2000).assign(weight=3.0)
    plain = encode_training(Encoder.of(domain), frame)
    heavy = encode_training(Encoder.of(domain), frame, None, "weight", 3.0)
    one, _ = boost(plain, plan_for(domain, rounds=24))
    other, _ = boost(heavy, plan_for(domain, 3.0, rounds=24))
    for left, right in zip(one.values, other.values, strict=True):
        np.testing.assert_allclose(left, right, atol=0.02 * SCORE_STEPS)


def test_missing_values_have_an_effect_only_where_they_are_declared():
    plan = plan_for(make_domain())
    model, _ = boost(encode_training(plan.encoder, make_frame(800)), plan)
    assert model.values[0][0, -1] != 0
    assert model.values[1][0, -1] == 0


def test_rare_ones_of_many_categories_share_an_effect():
    plan = plan_for(make_domain(), rounds=30)
    model, _ = boost(encode_training(plan.encoder, make_frame(4000)), plan)
    wide = model.values[5][0]
    assert len(wide) == 302
    assert 2 < len(np.unique(wide)) <= 65


def test_grids_are_even_parts_of_the_fine_bins():
    encoder = Encoder.of(make_domain())
    assert (np.bincount(encoder.coarse_bins(0, 32)) == [6] * 32 + [1]).all()
    assert encoder.coarse_bins(2, 32).tolist() == [0, 1, 2, 3, 4, 5]
    assert encoder.coarse_bins(5, 32).max() == 301


def test_the_noise_of_an_answer_is_shared_between_its_sums():
    """σ_g = g-clip · z/√(1−r₁) and σ_h = h-clip · z/√r₁, on the grid and per unit of weight."""
    plain = plan_for(make_domain()).reserved_release
    np.testing.assert_allclose(plain.scales, CLIP_STEPS * plain.noise / np.sqrt([0.9, 0.1]))
    heavy = plan_for(make_domain(unit={"column": "person", "max_rows": 3}), 2.0).reserved_release
    np.testing.assert_allclose(heavy.scales / plain.scales, 3 * WEIGHT_STEPS, rtol=1e-5)


def test_shares_are_of_squared_mu():
    plan = plan_for(make_domain(), init_share=0.1, calibration_share=0.2, rounds=7)
    spent = {
        planned.event.what: planned.count / planned.event.noise**2 for planned in plan.releases
    }
    total = sum(spent.values())
    shares = [
        spent[e.what] / total
        for e in (plan.init_release, plan.reserved_release, plan.calibration_release)
    ]
    np.testing.assert_allclose(shares, [0.1, 0.7, 0.2], rtol=1e-9)


def test_clip_and_cells_follow_the_rows_that_were_released():
    plan = plan_for(make_domain(), gradient_clip=None, rounds=72)
    clips = [scale_for(plan, rows).clip for rows in (10, 1e4, 1e6, 1e9)]
    assert clips == sorted(clips)
    assert (clips[0], clips[-1]) == (0.25, 1.0)
    cells = []
    for weight in (1, 1e2, 1e4, 1e9):
        answers = plan.measurements_for(weight, scale_for(plan))
        cells.append(plan._cells(answers.single, answers.n_single, weight, scale_for(plan)))
    assert cells == sorted(cells)
    assert cells[0] < 4 < 32 < cells[-1]


def test_the_digest_follows_everything_in_the_plan():
    domain = make_domain()
    base = plan_for(domain).digest
    assert plan_for(domain).digest == base
    others = [
        plan_for(domain, rounds=19),
        plan_for(domain, weight_bound=1.0),
        plan_for(make_domain(THREE)),
        plan_for(domain, gradient_clip=0.81),
        plan_for(domain, init_share=0.03),
    ]
    assert len({base, *(plan.digest for plan in others)}) == 6


def test_calibration_mends_what_a_narrow_clip_does_to_probabilities():
    """A clip far below the gradients makes scores too small; counts by score tell."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=20_000)
    y = (rng.random(20_000) < expit(3 * x)).astype(int)
    feature = {"x": {"kind": "numeric", "bounds": [-4, 4]}}
    domain = {"version": 1, "features": feature, "target": {"name": "y", "classes": [0, 1]}}

    def loss(share):
        model = PrivBoostClassifier(
            3.0, 1e-6, domain, gradient_clip=0.05, calibration_share=share, random_state=1
        )
        chance = model.fit(x[:, None], y).predict_proba(x[:, None])[:, 1]
        return float(-np.log(np.where(y == 1, chance, 1 - chance)).mean())

    assert loss(0.04) < loss(0.0) - 0.01


def test_answers_that_may_not_fit_are_refused_before_anything_is_paid():
    """Their number follows from the start; the plan judges the most there may be."""
    unit = {"column": "person", "max_rows": 1000}
    with pytest.raises(ValueError, match="would not fit the integer grid"):
        plan_for(make_domain(THREE, unit), 2.0, rounds=72, epsilon=0.05, interactions=True)
    with pytest.raises(ValueError, match="delta is too large for so small an epsilon"):
        plan_for(make_domain(), epsilon=1e-4, delta=0.1, interactions=True)


def test_features_of_very_many_categories_are_asked_about_alone():
    """A tree would keep all their codes at every node."""
    features = {
        "place": {"kind": "categorical", "categories": list(range(2000))},
        "a": {"kind": "numeric", "bounds": [0, 1]},
        "b": {"kind": "numeric", "bounds": [0, 1]},
    }
    domain = {"version": 1, "features": features, "target": {"name": "y", "classes": [0, 1]}}
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(2000, size=3000), rng.random((3000, 2))])
    y = ((X[:, 1] > 0.5) ^ (X[:, 2] > 0.5)).astype(int)
    model = PrivBoostClassifier(100.0, 1e-6, domain, n_estimators=2, random_state=0).fit(X, y)
    scores = model.model_.scores
    assert {pair.features for pair in scores.pairs} == {(1, 2)}
    assert all(0 not in forest.feature for forest in scores.trees.forests)
