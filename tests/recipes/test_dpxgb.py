import numpy as np
import pytest

from privboost import DPXGBClassifier, DPXGBRegressor
from privboost._core.grid import SCORE_STEPS
from privboost.data.encoding import Encoder
from privboost.data.rows import join
from privboost.engine.queries import NodeHistograms
from privboost.randomness.keystream import KeyStream, public_generator
from privboost.recipes.common.candidates import even_thresholds, splits_of
from privboost.recipes.common.newton import start_boosting
from privboost.recipes.common.plan import Budget
from privboost.recipes.common.probability_calibration import calibrate_scores
from privboost.recipes.common.start import find_target_range
from privboost.recipes.dpxgb import PRESETS, add_trees
from tests.recipes.test_sbdt import Tell as TellSums
from tests.recipes.test_sbdt import leaf_of, reference
from tests.tables import CLASSES, NUMBER, THREE, encode_training, make_domain, make_frame

SETTINGS = {"n_estimators": 5, "max_depth": 3, "reg_lambda": 1.0, "n_candidates": 12}


class Tell(TellSums):
    """A curator without noise, for tests only: it takes the best split."""

    def __init__(self, blocks, contribution):
        super().__init__(blocks)
        self.contribution = contribution

    def select(self, query, utility, event):
        self.asked.append(event)
        scores = utility.scores(self.backend.sum(query), self.contribution)
        return np.where(utility.allowed, scores, -1).argmax(axis=1)


def estimator(target, **how):
    kind = DPXGBRegressor if "bounds" in target else DPXGBClassifier
    return kind(1.0, 1e-6, make_domain(target), sample_weight_bound=2.0, **(SETTINGS | how))


def train(target, weighted=False, rows=600, curator=None, **how):
    model = estimator(target, **({"accountant": "rdp"} | how))
    encoder, bound = Encoder.of(make_domain(target)), 2.0 if weighted else None
    frame = make_frame(rows, target=target)
    coded = encode_training(encoder, frame, None, "weight" if weighted else None, bound)
    plan = model._plan(encoder, bound, Budget(1.0, 1e-6))
    curator = (curator or Tell)(coded.blocks, plan.contribution)
    curator.span = find_target_range(curator, plan)
    generator = public_generator(KeyStream.seeded(4))
    scores = add_trees(curator, plan, generator, start_boosting(curator, plan))
    return curator, plan, scores, join(coded.blocks)


CASES = [
    (CLASSES, {}),
    (CLASSES, {"features": "cyclical"}),
    (THREE, {"features": 2}),
    (NUMBER, {"candidates": "hessian", "candidate_rounds": 2}),
    (CLASSES, {"greedy_depth": 1}),
]


@pytest.mark.parametrize(("target", "how"), CASES)
@pytest.mark.parametrize("weighted", [False, True])
def test_without_noise_leaves_are_those_of_plain_boosting(target, how, weighted):
    curator, plan, scores, block = train(target, weighted, **how)
    if plan.task.n_outputs == 1:
        expected = reference(scores, plan, block, curator.span)
        np.testing.assert_allclose(scores.scores(block.codes) / SCORE_STEPS, expected, atol=0.03)
    assert scores.n_trees == plan.settings.n_estimators * plan.task.n_outputs


@pytest.mark.parametrize("weighted", [False, True])
def test_without_noise_splits_are_the_best(weighted):
    """Each greedy split has the largest score among all candidates, on floats."""
    _, plan, scores, block = train(CLASSES, weighted, init_share=0.0, rows=300)
    tree, _ = next(scores.trees())
    splits = splits_of(plan.encoder, even_thresholds(plan.encoder, 12), tuple(range(6)))
    weight = np.ones(len(block)) if block.weight is None else block.weight / 256
    known = block.label != 255
    g = np.where(block.label == 1, -1, 1) * 0.5 / plan.step.gradient_clip * weight * known
    n = weight * known

    def score(feature, turns, here):
        right = turns[block.column(feature)] == 1
        return sum(
            g[here & side].sum() ** 2 / (n[here & side].sum() + plan.settings.split_lambda)
            for side in (right, ~right)
        )

    for depth in range(tree.depth):
        node = leaf_of(tree.top(depth), block) if depth else np.zeros(len(block), dtype=int)
        for k in range(2**depth):
            at, here = 2**depth - 1 + k, node == k
            chosen = score(tree.feature[at], tree.goes_right[at], here)
            best = max(score(*splits.goes_right(c), here) for c in range(splits.total))
            assert chosen >= best * (1 - 1e-2)


@pytest.mark.parametrize(("target", "how"), CASES)
def test_the_releases_are_those_planned(target, how):
    curator, plan, scores, _ = train(target, rows=50, **how)
    calibrate_scores(curator, plan, plan.scores, scores)
    for planned in plan.releases:
        assert curator.asked.count(planned.event) == planned.count
    assert len(curator.asked) == sum(p.count for p in plan.releases)


def test_below_the_greedy_levels_trees_are_random():
    _, plan, scores, _ = train(CLASSES, greedy_depth=1, max_depth=4)
    below = np.concatenate([tree.feature[1:] for tree, _ in scores.trees()])
    assert set(below) == set(range(6))
    selection = next(p for p in plan.releases if p.event is plan.selection)
    assert selection.count == plan.settings.n_estimators


@pytest.mark.parametrize("target", [CLASSES, THREE])
def test_a_tree_looks_at_k_features_in_all(target):
    """Random levels keep to the features that the greedy levels chose among."""
    _, plan, scores, _ = train(
        target, features=2, greedy_depth=1, max_depth=5, n_estimators=12, rows=100
    )
    used = [set(tree.feature.tolist()) for tree, _ in scores.trees()]
    assert max(map(len, used)) == 2
    assert len(set.union(*used)) > 2
    outputs = plan.task.n_outputs
    for first in range(0, len(used), outputs):  # the trees of a round share their features
        assert len(set.union(*used[first : first + outputs])) <= 2


PUBLISHED = {
    "learning_rate": 0.3,
    "reg_lambda": 1.0,
    "split_lambda": 1.0,
    "gradient_clip": 1.0,
    "hessian_clip": 0.25,
    "hessian_share": 1 / 17,
    "init_share": 0.0,
}


@pytest.mark.parametrize(
    ("name", "features", "candidates", "shares"),
    [
        ("XGB", "all", "grid", (0.0, 0.7, 0.3)),
        ("XGB_cyc", "cyclical", "grid", (0.0, 0.7, 0.3)),
        ("XGB_ada", "all", "hessian", (0.1, 0.6, 0.3)),
    ],
)
def test_presets_are_the_published_variants(name, features, candidates, shares):
    """What the paper says, in the plan: λ, clips, no initial score, no clip of leaves, shares."""
    domain, trees = make_domain(), 7
    model = DPXGBClassifier.from_preset(name, domain=domain, n_estimators=trees, max_depth=3)
    plan = model._plan(Encoder.of(domain), None, Budget(1.0, 1e-5))
    chosen = plan.parameters
    assert {key: chosen[key] for key in PUBLISHED} == pytest.approx(PUBLISHED)
    assert (chosen["features"], chosen["candidates"]) == (features, candidates)
    assert plan.init is None
    assert plan.leaf.sigmas[0] * 1.0 == pytest.approx(plan.leaf.sigmas[1] * 0.25)  # equal noise
    parts = {
        p.event.what: p.count * p.event.plain_mu_squared / p.event.noise**2 for p in plan.releases
    }
    kept = [share for share in shares if share > 0]
    np.testing.assert_allclose([v / sum(parts.values()) for v in parts.values()], kept)
    if candidates == "hessian":
        sketch = next(p for p in plan.releases if p.event is plan.sketch)
        assert sketch.count == trees  # one for each round
    far = plan.step.values(np.array([-(2**40)]), np.array([0]), None)
    assert far[0] > 1000 * SCORE_STEPS  # no clip but that of the grid
    model.fit(make_frame(100))


def test_presets_have_names():
    assert set(PRESETS) == {"XGB", "XGB_cyc", "XGB_ada"}
    assert DPXGBClassifier.from_preset("XGB", leaf_clip=2.0).leaf_clip == 2.0
    with pytest.raises(ValueError, match='"XGB"'):
        DPXGBClassifier.from_preset("TR")


@pytest.mark.parametrize("bins", [None, 2, 48])
def test_a_sketch_has_bins_of_its_own(bins):
    """Releases are about so many even spans, whatever the candidates; these go where rows are."""
    asked = []

    class Note(Tell):
        def sums(self, query, event):
            if isinstance(query, NodeHistograms):
                asked.append(query)
            return super().sums(query, event)

    _, plan, scores, _ = train(
        NUMBER, candidates="hessian", candidate_rounds="all", sketch_bins=bins, curator=Note
    )
    assert len(asked) == plan.settings.n_estimators == scores.n_trees
    own = [13, 13, 5] if bins is None else [bins, bins, min(bins, 5)]  # "step" has 5 bins
    assert asked[0].cells.n_cells == sum(own) + 3  # beside missing values
    if bins is not None:
        assert len({query.cells.n_cells for query in asked}) == 1


def test_greedy_trees_find_what_random_ones_need_many_for():
    """The sign of a product: no single feature tells anything."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (20_000, 4))
    y = (x[:, 0] * x[:, 1] > 0).astype(int)
    numbers = {f"x{k}": {"kind": "numeric", "bounds": [-1, 1]} for k in range(4)}
    domain = {"version": 1, "features": numbers, "target": {"name": "y", "classes": [0, 1]}}
    model = DPXGBClassifier(2.0, 1e-6, domain, n_estimators=10, max_depth=4, random_state=1)
    assert model.fit(x, y).score(x, y) > 0.9
    assert set(np.argsort(model.feature_importances_)[-2:]) == {0, 1}


def test_an_empty_table_gives_a_model():
    for target in (CLASSES, THREE, NUMBER):
        model = estimator(target, random_state=1).fit(make_frame(3, target=target).iloc[:0])
        assert len(model.predict(make_frame(5))) == 5
