import numpy as np
import pytest
from scipy.special import expit, logit

from privboost import SBDTClassifier, SBDTRegressor
from privboost.boosting.initial_score import start_boosting
from privboost.boosting.plan import Budget
from privboost.boosting.sbdt import PRESETS, boost_sbdt
from privboost.boosting.structures import public_generator
from privboost.grid import SCORE_STEPS, WEIGHT_STEPS
from privboost.privacy.events.sums import GaussianRelease, LaplaceRelease
from privboost.randomness.keystream import KeyStream
from privboost.tables.encoding import Encoder
from privboost.tables.rows import join
from tests.boosting.test_privboost import Tell as TellGaussian
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

    def laplace(self, query, event):
        assert isinstance(event, LaplaceRelease)
        return self.gaussian(query, event)

    def open_budget(self, budget):
        self.opened += 1


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
    structures = model._structures(plan, KeyStream.seeded(5))
    scores = boost_sbdt(curator, plan, structures, start_boosting(curator, plan))
    return curator, plan, scores, join(coded.blocks)


def leaf_of(tree, block):
    node = np.zeros(len(block), dtype=int)
    for _ in range(tree.depth):
        code = np.array([block.column(tree.feature[at])[i] for i, at in enumerate(node)])
        node = 2 * node + 1 + tree.goes_right[node, code]
    return node - len(tree.feature)


def reference(scores, plan, block):
    """The same trees on floating-point numbers, without tables and without noise."""
    weight = np.ones(len(block)) if block.weight is None else block.weight * 2.0 / WEIGHT_STEPS
    known = block.label != 255
    outputs, step = plan.task.n_outputs, plan.step
    own = [block.label == (1 if outputs == 1 else k) for k in range(outputs)]
    state = np.zeros((outputs, len(block)))
    if plan.init is not None:
        for k in range(outputs):
            if block.start is None:
                state[k] = logit(np.average(own[k][known], weights=weight[known]))
            else:
                y = -block.start[known] / SCORE_STEPS
                state[k] = np.average(y, weights=weight[known])
    trees = list(scores.trees())
    at = 0
    for count in scores.updates:
        change = np.zeros_like(state)
        for tree, _ in trees[at : at + count]:
            leaf = leaf_of(tree, block)
            for k in range(outputs):
                if block.start is None:
                    p = expit(state[k])
                    g, h = p - own[k], p * (1 - p)
                else:
                    g, h = state[k] + block.start / SCORE_STEPS, np.ones(len(block))
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
]


@pytest.mark.parametrize(("target", "how"), CASES)
@pytest.mark.parametrize("weighted", [False, True])
def test_without_noise_it_is_plain_boosting(target, how, weighted):
    _, plan, scores, block = train(target, weighted, **how)
    expected = reference(scores, plan, block)
    np.testing.assert_allclose(scores.scores(block.codes) / SCORE_STEPS, expected, atol=0.03)
    assert scores.n_trees == plan.settings.n_estimators + plan.settings.extra_estimators


@pytest.mark.parametrize(("target", "how"), CASES)
def test_the_releases_are_those_planned(target, how):
    curator, plan, _, _ = train(target, rows=50, **how)
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


def test_presets_are_totally_random_trees():
    for name, settings in PRESETS.items():
        model = SBDTClassifier.from_preset(name, domain=make_domain(), n_estimators=4)
        assert (model.features == "cyclical") == name.endswith("cyc")
        assert (model.candidates == "hessian") == ("ada" in name)
        assert (model.subsample, model.hessian_share, model.init_share) == (1.0, 0.5, 0.0)
        assert settings.items() <= model.get_params().items()
        model.fit(make_frame(100))
    with pytest.raises(ValueError, match='"TR"'):
        SBDTClassifier.from_preset("XGB")
    assert SBDTClassifier.from_preset("TR", hessian_share=0.1).hessian_share == 0.1


def test_structures_are_drawn_alike_from_one_key():
    one, two = (public_generator(KeyStream.seeded(3)).random(4) for _ in range(2))
    np.testing.assert_array_equal(one, two)


def test_the_hessian_share_balances_by_default():
    """At the clips of the published runs, the rule gives about their tuned shares."""
    _, classes, _, _ = train(CLASSES, rows=10, gradient_clip=0.3)
    _, number, _, _ = train(NUMBER, rows=10, gradient_clip=0.3)
    assert classes.step.hessian_share == pytest.approx(0.04)
    assert number.step.hessian_share == pytest.approx(0.3, abs=0.01)
    assert isinstance(classes.init, GaussianRelease)


def test_lambda_follows_the_noise_by_default():
    _, plan, _, _ = train(CLASSES, rows=10, reg_lambda=None)
    noise = plan.leaf.sigmas[1] / 2**16 * plan.step.hessian_clip
    assert plan.step.reg_lambda == pytest.approx(noise / 2)
    _, weighted, _, _ = train(CLASSES, True, rows=10, reg_lambda=None)
    assert weighted.step.reg_lambda == pytest.approx(2.0 * noise / 2)  # a weight is at most 2
