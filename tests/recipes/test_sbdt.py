import numpy as np
import pytest
from scipy.special import expit, logit

from privboost import SBDTClassifier, SBDTRegressor
from privboost._core.grid import CLIP_STEPS, SCORE_STEPS, WEIGHT_STEPS
from privboost.accounting.noisy_sums import GaussianRelease
from privboost.data.encoding import Encoder
from privboost.data.rows import initial_states, join
from privboost.losses.base import within_steps
from privboost.randomness.keystream import KeyStream, public_generator
from privboost.recipes.common.newton import start_boosting
from privboost.recipes.common.plan import Budget
from privboost.recipes.common.probability_calibration import calibrate_scores
from privboost.recipes.common.target_range import find_target_range
from privboost.recipes.sbdt import CLASS_PRESETS, NUMBER_PRESETS, add_trees
from tests.recipes.test_privboost import Tell as TellGaussian
from tests.tables import CLASSES, NUMBER, THREE, encode_training, make_domain, make_frame

SETTINGS = {
    "n_estimators": 14,
    "max_depth": 3,
    "learning_rate": 0.3,
    "gradient_clip": 0.8,
    "reg_lambda": 1.0,
}


class Tell(TellGaussian):
    """A curator without noise, for tests only."""

    opened = 0

    def open_budget(self, budget):
        self.opened += 1

    def close_budgets(self):
        pass


def estimator(target, **how):
    kind = SBDTRegressor if "bounds" in target else SBDTClassifier
    return kind(1.0, 1e-6, make_domain(target), sample_weight_bound=2.0, **(SETTINGS | how))


def train(target, weighted=False, rows=600, **how):
    """Train without noise; return the curator, the plan, the model and the rows."""
    model = estimator(target, **how)
    encoder, bound = Encoder.of(make_domain(target)), 2.0 if weighted else None
    frame = make_frame(rows, target=target)
    coded = encode_training(encoder, frame, None, "weight" if weighted else None, bound)
    plan = model._plan(encoder, bound, Budget(1.0, 1e-6))
    curator = Tell(coded.blocks)
    curator.span = find_target_range(curator, plan)
    generator = public_generator(KeyStream.seeded(5))
    before = start_boosting(curator, plan, plan.settings.init_clip)
    scores = add_trees(curator, plan, generator, before)
    return curator, plan, scores, join(coded.blocks)


def leaf_of(tree, block):
    node = np.zeros(len(block), dtype=int)
    for _ in range(tree.depth):
        code = np.array([block.column(tree.feature[at])[i] for i, at in enumerate(node)])
        node = 2 * node + 1 + tree.goes_right[node, code]
    return node - len(tree.feature)


def reference(scores, plan, block, span):
    """The same trees on floating-point numbers, without tables and without noise."""
    weight = np.ones(len(block)) if block.weight is None else block.weight * 2.0 / WEIGHT_STEPS
    known = block.label != 255
    outputs, step = plan.task.n_outputs, plan.step
    own = [block.label == (1 if outputs == 1 else k) for k in range(outputs)]
    state = np.zeros((outputs, len(block)))
    if plan.init_release is not None:
        for k in range(outputs):
            if block.minus_label is None:
                mean = np.average(own[k][known], weights=weight[known])
                state[k] = 2 * mean - 1 if plan.task.loss == "squared" else logit(mean)
            else:
                y = -initial_states(block.minus_label, span)[known] / SCORE_STEPS
                clip = getattr(plan.settings, "init_clip", None) or 1
                y = np.clip(y, -clip, clip)
                state[k] = np.average(y, weights=weight[known])
    trees = list(scores.trees())
    at = 0
    for count in scores.updates:
        change = np.zeros_like(state)
        for tree, _ in trees[at : at + count]:
            leaf = leaf_of(tree, block)
            for k in range(outputs):
                if block.minus_label is None and plan.task.loss == "squared":
                    g, h = state[k] - np.where(own[k], 1, -1), np.ones(len(block))
                elif block.minus_label is None:
                    p = expit(state[k])
                    g, h = p - own[k], p * (1 - p)
                else:
                    own_start = initial_states(block.minus_label, span) / SCORE_STEPS
                    g, h = state[k] + own_start, np.ones(len(block))
                g = np.clip(g, -step.gradient_clip, step.gradient_clip) * weight * known
                h = np.clip(h, 0, step.hessian_clip) * weight * known
                if getattr(plan.settings, "boosting", "newton") == "gradient":
                    h = weight * known
                total_g, total_h = (np.bincount(leaf, s, tree.n_leaves) for s in (g, h))
                value = np.clip(-total_g / (total_h + step.reg_lambda), -2, 2)
                change[k] += (value * step.learning_rate / count)[leaf]
        state += change
        at += count
    return state


CASES = [
    (CLASSES, {}),
    (THREE, {"features": "uniform"}),
    (NUMBER, {"features": 2}),
    (CLASSES, {"boosting": "gradient", "category_splits": "subset", "candidates": "all"}),
    (CLASSES, {"candidates": "hessian", "features": "uniform", "candidate_rounds": 3}),
    (THREE, {"batch_size": 4, "extra_estimators": 3}),
    (CLASSES, {"init_share": 0.2, "init_noise": "laplace"}),
    (NUMBER, {"init_share": 0.0, "batch_size": 3, "features": "uniform"}),
    (NUMBER, {"init_clip": 0.25, "boosting": "gradient", "negative_hessian": "zero"}),
    (THREE, {"init_epsilon": 0.1, "init_count_epsilon": 0.05, "init_noise": "laplace"}),
    (CLASSES, {"candidates": "hessian", "candidate_rule": "merge", "candidate_share": None}),
    (CLASSES, {"loss": "squared"}),
    (THREE, {"loss": "squared", "boosting": "gradient", "extra_estimators": 3}),
]


@pytest.mark.parametrize(("target", "how"), CASES)
@pytest.mark.parametrize("weighted", [False, True])
def test_without_noise_it_is_plain_boosting(target, how, weighted):
    curator, plan, scores, block = train(target, weighted, **how)
    expected = reference(scores, plan, block, curator.span)
    np.testing.assert_allclose(scores.scores(block.codes) / SCORE_STEPS, expected, atol=0.03)
    assert scores.n_trees == plan.settings.n_estimators + plan.settings.extra_estimators


@pytest.mark.parametrize(("target", "how"), CASES)
def test_the_releases_are_those_planned(target, how):
    curator, plan, scores, _ = train(target, rows=50, **how)
    calibrate_scores(curator, plan, plan.calibration_release, scores)
    made = [e for e in curator.asked if e is plan.leaf]
    assert len(made) == plan.settings.n_updates * plan.task.n_outputs
    if plan.life is None:
        for planned in plan.releases:
            assert curator.asked.count(planned.event) == planned.count
        assert len(curator.asked) == sum(p.count for p in plan.releases)
    assert curator.opened == (plan.life is not None)


def test_an_empty_table_gives_a_model():
    for target in (CLASSES, THREE, NUMBER):
        model = estimator(target, random_state=1).fit(make_frame(3, target=target).iloc[:0])
        assert len(model.predict(make_frame(5))) == 5
        assert np.isfinite(model.model_.decision_function(make_frame(5))).all()


SHARED = {
    "delta": 5e-8,
    "learning_rate": 0.1,
    "leaf_clip": 2.0,
    "features": "cyclical",
    "candidates": "grid",
    "n_candidates": 32,
    "negative_hessian": "zero",
    "accountant": "rdp",
}
PUBLISHED = [  # ε, trees, depth, γ, r₁, g*, h*, λ, and ε_init and m* of the initial score
    ("adult", 0.01, 50, 5, 0.01, 0.04, 0.5, 0.1, 10, None, None),
    ("adult", 0.02, 100, 6, 0.01, 0.04, 0.5, 0.1, 10, None, None),
    ("adult", 0.03, 400, 6, 0.01, 0.04, 0.3, 0.1, 10, None, None),
    ("adult", 0.1, 400, 6, 1, 0.04, 0.3, 0.1, 10, None, None),
    ("adult", 0.5, 200, 6, 1, 0.04, 0.8, 0.1, 5, None, None),
    ("abalone", 0.05, 100, 2, 0.1, 0.3, 0.1, 1, 15, 0.005, 0.5),
    ("abalone", 0.1, 50, 2, 0.1, 0.3, 0.3, 1, 15, 0.01, 0.5),
    ("abalone", 0.2, 50, 3, 0.1, 0.3, 0.3, 1, 15, 0.02, 0.5),
    ("abalone", 0.3, 100, 2, 0.1, 0.3, 0.3, 1, 15, 0.03, 0.5),
    ("abalone", 0.5, 150, 2, 0.1, 0.3, 0.3, 1, 15, None, None),
]


@pytest.mark.parametrize("line", PUBLISHED)
def test_presets_of_sbdt_are_its_published_settings(line):
    data, epsilon, trees, depth, gamma, r1, g, h, lam, init, clip = line
    kind = SBDTClassifier if data == "adult" else SBDTRegressor
    own = kind.from_preset(f"S-BDT_{data}_{epsilon}").get_params()
    assert own.items() >= SHARED.items()
    assert (own["epsilon"], own["n_estimators"], own["max_depth"]) == (epsilon, trees, depth)
    assert (own["subsample"], own["hessian_share"], own["reg_lambda"]) == (gamma, r1, lam)
    assert (own["gradient_clip"], own["hessian_clip"]) == (g, h)
    assert own["boosting"] == ("newton" if data == "adult" else "gradient")
    assert own["init_epsilon"] == (None if init is None else pytest.approx(init))
    assert own["init_clip"] == clip
    assert own["init_count_epsilon"] == (None if init is None else 0.005)
    assert own["init_share"] == 0


def test_presets_of_totally_random_trees_are_those_of_maddock():
    for kind, share in ((SBDTClassifier, 1 / 17), (SBDTRegressor, 1 / 2)):
        for name in ("TR", "TR_cyc", "TR_ada", "TR_ada_cyc"):
            own = kind.from_preset(name).get_params()
            assert (own["features"] == "cyclical") == name.endswith("cyc")
            assert (own["candidates"] == "hessian") == ("ada" in name)
            assert (own["subsample"], own["init_share"], own["max_depth"]) == (1.0, 0.0, 4)
            assert (own["learning_rate"], own["reg_lambda"], own["leaf_clip"]) == (0.3, 1.0, 2.0)
            assert (own["gradient_clip"], own["hessian_share"]) == (1.0, pytest.approx(share))
            assert (own["n_candidates"], own["candidate_rounds"]) == (32, 5)
            assert (own["candidate_rule"], own["candidate_share"]) == ("merge", None)
            assert (own["negative_hessian"], own["accountant"]) == ("floor", "rdp")
    assert SBDTClassifier.from_preset("TR").hessian_clip == 0.25


def test_every_preset_fits():
    for kind, target, presets in (
        (SBDTClassifier, CLASSES, CLASS_PRESETS),
        (SBDTRegressor, NUMBER, NUMBER_PRESETS),
    ):
        for name in presets:
            model = kind.from_preset(name, domain=make_domain(target), n_estimators=4)
            model.fit(make_frame(100, target=target))
    with pytest.raises(ValueError, match='"TR"'):
        SBDTClassifier.from_preset("XGB")
    assert SBDTClassifier.from_preset("TR", hessian_share=0.1).hessian_share == 0.1


class TellLess(Tell):
    """A curator whose sums of Hessians are too small, so that half of each tree's lie below 0."""

    def sums(self, query, event):
        sums = super().sums(query, event)
        if sums.shape[-1] == 2 and event.cells == 1 and sums.shape[-2] > 1:
            sums[..., 1] -= int(np.median(sums[..., 1])) + 1
        return sums


@pytest.mark.parametrize("target", [CLASSES, THREE, NUMBER])
def test_a_leaf_below_a_hessian_of_zero_is_worth_nothing_if_asked(target):
    scores = {}
    for how in ("floor", "zero"):
        model = estimator(target, negative_hessian=how, init_share=0.0)
        encoder = Encoder.of(make_domain(target))
        coded = encode_training(encoder, make_frame(600, target=target), None, None, None)
        plan = model._plan(encoder, None, Budget(1.0, 1e-6))
        curator = TellLess(coded.blocks)
        generator = public_generator(KeyStream.seeded(5))
        scores[how] = add_trees(curator, plan, generator, start_boosting(curator, plan))
    forests = {how: own.forests[0] for how, own in scores.items()}
    below = forests["zero"].mass < 0
    assert below.any()
    assert not forests["zero"].values[below].any()
    assert not forests["zero"].noise[below].any()
    assert forests["floor"].values[forests["floor"].mass < 0].any()
    first = forests["zero"].mass[0] > 0  # the first tree has met the same rows in both
    np.testing.assert_array_equal(
        forests["zero"].values[0][first], forests["floor"].values[0][first]
    )


def test_gradient_and_newton_boosting_of_a_number_are_the_same():
    how = {"hessian_share": 0.3, "random_state": 4, "n_estimators": 10}
    frame = make_frame(300, target=NUMBER)
    one, two = (
        estimator(NUMBER, boosting=boosting, **how).fit(frame).predict(frame)
        for boosting in ("newton", "gradient")
    )
    np.testing.assert_array_equal(one, two)


def test_structures_are_drawn_alike_from_one_key():
    one, two = (public_generator(KeyStream.seeded(3)).random(4) for _ in range(2))
    np.testing.assert_array_equal(one, two)


def test_the_hessian_share_balances_by_default():
    """At the clips of the published runs, the rule gives about their tuned shares."""
    _, classes, _, _ = train(CLASSES, rows=10, gradient_clip=0.3)
    _, number, _, _ = train(NUMBER, rows=10, gradient_clip=0.3)
    assert classes.step.hessian_share == pytest.approx(0.04)
    assert number.step.hessian_share == pytest.approx(0.3, abs=0.01)
    assert isinstance(classes.init_release, GaussianRelease)


def test_lambda_follows_the_noise_by_default():
    _, plan, _, _ = train(CLASSES, rows=10, reg_lambda=None)
    noise = plan.leaf.scales[1] / 2**16 * plan.step.hessian_clip
    assert plan.step.reg_lambda == pytest.approx(noise / 2)
    _, weighted, _, _ = train(CLASSES, True, rows=10, reg_lambda=None)
    assert weighted.step.reg_lambda == pytest.approx(2.0 * noise / 2)  # a weight is at most 2


def test_the_squared_loss_of_classes_counts_rows_and_has_no_probabilities():
    """Its table keeps to the clips that every sensitivity assumes; its price is the logistic's."""
    plans = [
        estimator(CLASSES, **how)._plan(Encoder.of(make_domain(CLASSES)), None, Budget(1.0, 1e-6))
        for how in (
            {"loss": "squared", "hessian_share": 0.2},
            {"boosting": "gradient", "hessian_share": 0.2, "calibration_share": 0.0},
        )
    ]
    assert plans[0].loss.hessian.max() == CLIP_STEPS
    assert plans[0].step.hessian_clip == 1
    assert within_steps(plans[0].loss)
    np.testing.assert_array_equal(plans[0].leaf.scales, plans[1].leaf.scales)
    model = estimator(CLASSES, loss="squared", random_state=1).fit(make_frame(300))
    assert not hasattr(model, "predict_proba")
    assert not model.model_.has_probabilities
    assert set(model.predict(make_frame(50))) <= set(model.classes_)


def test_what_losses_there_are():
    with pytest.raises(ValueError, match="a stream of classes needs loss"):
        estimator(CLASSES, loss="squared").partial_fit(make_frame(100))
    with pytest.raises(ValueError, match="loss must be"):
        estimator(CLASSES, loss="hinge").fit(make_frame(100))
    with pytest.raises(ValueError, match='loss="logistic" is for classes'):
        estimator(NUMBER, loss="logistic").fit(make_frame(100, target=NUMBER))
