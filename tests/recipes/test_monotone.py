"""Effects that go one way: the nearest such values, predictions that keep to it, and refusals."""

import itertools

import numpy as np
import pytest

from privboost import PrivBoostClassifier, PrivBoostRegressor, SBDTClassifier, SBDTRegressor
from privboost.models.interactions import InteractionScores
from privboost.recipes.common.monotone import CellOrder, RisingTrees, rise
from privboost.trees.tree import Tree
from tests.hostile import HostileBackend
from tests.tables import CLASSES, NUMBER, THREE, make_domain, make_frame

BOTH = {"age": 1, "gain": -1}


def nearest_rising(values, weights):
    """The same by the formula of minima and maxima of means."""
    count = range(len(values))
    means = [
        [np.average(values[i : j + 1], weights=weights[i : j + 1]) for j in range(i, len(values))]
        for i in count
    ]
    return [max(min(means[i][k - i :]) for i in range(k + 1)) for k in count]


@pytest.mark.parametrize("size", [1, 2, 7, 40])
def test_the_nearest_values_that_never_fall(size):
    rng = np.random.default_rng(size)
    values, weights = rng.normal(0, 1, size), rng.uniform(0.1, 3, size)
    found = values.copy()
    rise(found, weights)
    np.testing.assert_allclose(found, nearest_rising(values, weights), atol=1e-12)
    assert (np.diff(found) >= 0).all()
    again = found.copy()
    rise(again, weights)
    assert (again == found).all()


@pytest.mark.parametrize("slopes", list(itertools.product([-1, 0, 1], repeat=2)))
def test_cells_of_a_pair_go_their_ways(slopes):
    rng = np.random.default_rng(0)
    for sizes in ((3, 3), (8, 8), (2, 5)):
        values, weights = rng.normal(0, 1, sizes), rng.uniform(0.1, 3, sizes)
        order = CellOrder.of_pair(sizes, slopes)
        found = order.nearest(values.ravel(), weights.ravel()).reshape(sizes)
        for axis, slope in enumerate(slopes):
            assert (slope * np.diff(found, axis=axis) >= 0).all()
            others = [number for number in (0, 1) if number != axis]
            if slope > 0 and not slopes[others[0]]:  # one direction: each line has its nearest
                for line, own, weight in zip(
                    *(np.moveaxis(each, axis, 1) for each in (found, values, weights)), strict=True
                ):
                    np.testing.assert_allclose(line, nearest_rising(own, weight), atol=1e-12)
        assert (found * weights).sum() == pytest.approx((values * weights).sum())
        kept = order.nearest(found.ravel(), weights.ravel())
        assert (kept == found.ravel()).all()


def random_tree(rng, slopes, n_codes, depth):
    """Draw a tree: numbers go right above a threshold, categories and missing values anyhow."""
    feature = rng.integers(0, len(n_codes), 2**depth - 1).astype(np.uint16)
    goes_right = np.zeros((len(feature), n_codes[feature].max()), dtype=np.uint8)
    for line, own in zip(goes_right, feature, strict=True):
        last = n_codes[own] - 1
        line[: last + 1] = rng.integers(0, 2, last + 1)
        if slopes[own]:
            line[:last] = np.arange(last) > rng.integers(-1, last)
    return Tree(feature, goes_right)


def leaf_of(tree, row):
    node = 0
    for _ in range(tree.depth):
        node = 2 * node + 1 + int(tree.goes_right[node, row[tree.feature[node]]])
    return node - len(tree.feature)


def pairs_below(tree, slopes, n_codes):
    """Find the order of leaves from all rows there can be."""
    below = np.zeros((tree.n_leaves, tree.n_leaves), dtype=bool)
    for row in itertools.product(*map(range, n_codes)):
        for feature in np.flatnonzero(slopes):
            for larger in range(row[feature] + 1, n_codes[feature] - 1):
                changed = [*row[:feature], larger, *row[feature + 1 :]]
                low, high = (leaf_of(tree, own) for own in (row, changed)[:: slopes[feature]])
                below[high, low] |= high != low
    return below


@pytest.mark.parametrize("seed", range(60))
def test_leaves_are_in_order_where_rows_that_differ_in_one_number_reach_them(seed):
    rng = np.random.default_rng(seed)
    count, depth = int(rng.integers(1, 4)), int(rng.integers(1, 5))
    n_codes, slopes = rng.integers(2, 7, count), rng.integers(-1, 2, count)
    tree = random_tree(rng, slopes, n_codes, depth)
    order, below = CellOrder.of_tree(tree, slopes, n_codes), pairs_below(tree, slopes, n_codes)
    if order is None:
        assert not slopes[tree.feature].any()
        return
    assert (order.below == below).all()
    values, weights = rng.normal(0, 1, tree.n_leaves), rng.uniform(0.1, 3, tree.n_leaves)
    found = order.nearest(values, weights)
    high, low = np.nonzero(below)
    assert (found[low] <= found[high]).all()
    assert (found * weights).sum() == pytest.approx((values * weights).sum())
    free = ~(below.any(axis=0) | below.any(axis=1))
    assert (found[free] == values[free]).all()


def test_many_codes_take_several_words():
    """A tree on a number of 300 codes and a category of 400."""
    rng = np.random.default_rng(0)
    n_codes, slopes = np.array([300, 400]), np.array([1, 0])
    tree = random_tree(rng, slopes, n_codes, 4)
    order = CellOrder.of_tree(tree, slopes, n_codes)
    rows = np.stack([rng.integers(0, 299, 4000), rng.integers(0, 400, 4000)], axis=1)
    more = np.stack([np.minimum(rows[:, 0] + rng.integers(1, 300, 4000), 298), rows[:, 1]], axis=1)
    met = {(leaf_of(tree, b), leaf_of(tree, a)) for a, b in zip(rows, more, strict=True)}
    met = {pair for pair in met if pair[0] != pair[1]}
    assert met
    assert met <= {tuple(pair) for pair in np.argwhere(order.below).tolist()}


@pytest.mark.parametrize("slope", [1, -1])
def test_trees_of_one_number_go_its_way_together(slope):
    """A later tree takes back what an earlier one had too much of, and the sum never turns."""
    rng = np.random.default_rng(3)
    n_codes, slopes = np.array([41]), [slope]
    rising, total = RisingTrees(slopes, n_codes), np.zeros(41)
    falls = 0
    for _ in range(30):
        tree = random_tree(rng, slopes, n_codes, 3)
        values = rng.normal(0, 50, 8)
        own = rising.add(tree, values, rng.uniform(0.5, 2, 8))
        assert (own == np.rint(own)).all()
        assert np.abs(own).max() <= np.ceil(np.abs(values).max())
        by_code = own[tree.leaf_of_codes()]
        falls += (slope * np.diff(by_code[:-1]) < 0).any()
        total += by_code
        assert (slope * np.diff(total[:-1]) >= 0).all()
    assert falls > 5


def spread_of(read, rows, name, slope, numbers):
    """Return the largest step of predictions against their direction, and how far they go."""
    found = np.array([read(rows.assign(**{name: number})) for number in numbers])
    return float((slope * np.diff(found, axis=0)).min()), float(np.ptp(found, axis=0).max())


def goes_its_way(model, target, slopes):
    """Predictions for random rows, with missing and odd values, as one number grows."""
    rows = make_frame(60, 9, target)
    read = model.predict if target is NUMBER else model.decision_function
    for name, slope in slopes.items():
        high = {"age": 92.0, "gain": 1.1e5}[name]
        numbers = np.unique(np.r_[-1, np.linspace(0, high, 120), np.geomspace(1e-2, high, 120)])
        least, far = spread_of(read, rows, name, slope, numbers)
        assert least >= 0
        yield far


@pytest.mark.parametrize("target", [CLASSES, NUMBER])
@pytest.mark.parametrize("epsilon", [0.5, 100.0])
@pytest.mark.parametrize("slope", [1, -1])
def test_predictions_go_one_way_in_that_feature(target, epsilon, slope):
    """Also against the rows, with pairs and trees of that feature, and after calibration."""
    domain, frame = make_domain(target), make_frame(1000, target=target)
    kind = PrivBoostRegressor if target is NUMBER else PrivBoostClassifier
    slopes = {"age": slope, "gain": -1}
    model = kind(epsilon, domain=domain, monotone=slopes | {"step": 0}, random_state=1).fit(frame)
    assert max(goes_its_way(model, target, slopes)) > 0
    scores = model.model_.scores
    if epsilon < 100:
        return
    assert isinstance(scores, InteractionScores)
    directions = np.array([slopes.get(name, 0) for name in domain.feature_names])
    directed = 0
    for pair in scores.pairs:
        for axis, feature in enumerate(pair.features):
            directed += directions[feature] != 0
            assert (directions[feature] * np.diff(pair.values, axis=axis) >= 0).all()
            if directions[feature]:
                assert (np.diff(pair.cell_of[axis][:-1].astype(int)) >= 0).all()
    assert directed > 0
    directed = 0
    for tree, values in scores.trees.trees():
        order = CellOrder.of_tree(tree, directions, scores.trees.n_codes)
        if order is not None:
            directed += 1
            high, low = np.nonzero(order.below)
            assert (values[0, low] <= values[0, high]).all()
    assert directed > 10


WAYS = [
    {"features": "cyclical", "n_estimators": 60},
    {"features": "cyclical", "batch_size": 4, "extra_estimators": 10},
    {"features": "uniform", "candidates": "hessian", "candidate_rounds": 3},
    {"features": 2, "category_splits": "subset", "batch_size": 3},
    {"features": 3, "boosting": "gradient", "negative_hessian": "zero"},
]


@pytest.mark.parametrize("target", [CLASSES, NUMBER])
@pytest.mark.parametrize("way", range(len(WAYS)))
def test_random_trees_go_one_way(target, way):
    kind = SBDTRegressor if target is NUMBER else SBDTClassifier
    how = {"n_estimators": 20, "max_depth": 5, "monotone": BOTH} | WAYS[way]
    model = kind(1.0, 1e-6, make_domain(target), random_state=1, **how)
    model.fit(make_frame(800, target=target))
    assert max(goes_its_way(model, target, BOTH)) > 0


@pytest.mark.parametrize("kind", [PrivBoostClassifier, SBDTClassifier])
def test_without_it_predictions_turn(kind):
    how = {"features": "uniform", "n_estimators": 20} if kind is SBDTClassifier else {}
    model = kind(50.0, 1e-6, make_domain(), random_state=1, **how).fit(make_frame(1000))
    with pytest.raises(AssertionError):
        list(goes_its_way(model, CLASSES, BOTH))


def test_also_with_the_squared_loss_of_classes():
    how = {"n_estimators": 24, "max_depth": 4, "monotone": BOTH, "loss": "squared"}
    model = SBDTClassifier(1.0, 1e-6, make_domain(), random_state=1, **how).fit(make_frame(800))
    assert max(goes_its_way(model, CLASSES, BOTH)) > 0


def test_a_stream_keeps_to_it(tmp_path):
    how = {"n_estimators": 18, "max_depth": 4, "random_state": 1}
    model = SBDTClassifier(1.0, 1e-6, make_domain(), monotone=BOTH, **how)
    model.partial_fit(make_frame(400, 0))
    model.save_stream(tmp_path / "rows.stream")
    free = SBDTClassifier(1.0, 1e-6, make_domain(), **how).load_stream(tmp_path / "rows.stream")
    with pytest.raises(ValueError, match="monotone must equal that of the first batch"):
        free.partial_fit(make_frame(400, 1))
    free.set_params(monotone={"gain": -1, "age": 1.0, "step": 0}).partial_fit(make_frame(400, 1))
    assert max(goes_its_way(free, CLASSES, BOTH)) > 0
    backend = HostileBackend
    there = SBDTClassifier(1.0, 1e-6, make_domain(), monotone=BOTH, backend=backend, **how)
    there.partial_fit(make_frame(400, 0)).partial_fit(make_frame(400, 1))
    here = model.partial_fit(make_frame(400, 1))
    rows = make_frame(50, 5)
    assert (here.decision_function(rows) == there.decision_function(rows)).all()


@pytest.mark.parametrize("kind", [PrivBoostClassifier, SBDTClassifier])
def test_it_costs_nothing(kind):
    plain, held = (kind(1.0, 1e-6, make_domain(), **how) for how in ({}, {"monotone": BOTH}))
    own, other = (model.preview().privacy.to_dict() for model in (plain, held))
    assert own["epsilon"] == other["epsilon"]
    assert own["releases"] == other["releases"]


@pytest.mark.parametrize("kind", [PrivBoostClassifier, SBDTClassifier])
def test_without_constraints_the_model_is_the_same(kind):
    plain, free = (
        kind(domain=make_domain(), random_state=1, n_estimators=20, **how).fit(make_frame(300))
        for how in ({}, {"monotone": {"age": 0}})
    )
    own, other = plain.model_.scores, free.model_.scores
    assert (own.start == other.start).all()
    rows = make_frame(50, 3)
    assert (plain.decision_function(rows) == free.decision_function(rows)).all()
    assert plain.privacy_.plan == free.privacy_.plan


@pytest.mark.parametrize("kind", [PrivBoostClassifier, SBDTClassifier])
@pytest.mark.parametrize(
    ("monotone", "words"),
    [
        ({"nobody": 1}, "no feature 'nobody'"),
        ({"aeg": 1}, "no feature 'aeg'; did you mean 'age'"),
        ({"job": 1}, "is a category"),
        ({"age": 2}, "must map names"),
        ({"age": "up"}, "must map names"),
        ({"age": True}, "must map names"),
        ({1: 1}, "must map names"),
        (["age"], "must map names"),
        ([1, 0, -1, 0, 0, 0], "must map names"),
        ("age", "must map names"),
    ],
)
def test_what_cannot_go_one_way_is_refused_before_anything_is_spent(
    kind, monotone, words, tmp_path
):
    ledger = tmp_path / "ledger"
    model = kind(domain=make_domain(), monotone=monotone, ledger=ledger)
    with pytest.raises(ValueError, match=words):
        model.fit(make_frame(20))
    assert not ledger.exists()


@pytest.mark.parametrize("kind", [PrivBoostClassifier, SBDTClassifier])
def test_beyond_two_classes_it_is_refused(kind):
    model = kind(domain=make_domain(THREE), monotone={"age": 1})
    with pytest.raises(ValueError, match="two classes or a number"):
        model.fit(make_frame(20, target=THREE))


@pytest.mark.parametrize("kind", [PrivBoostClassifier, SBDTClassifier])
@pytest.mark.parametrize(
    ("monotone", "given", "words"),
    [
        ({"job": 1}, {"target": {"classes": [0, 1]}}, "is a category"),
        ({"nobody": 1}, {"target": {"classes": [0, 1]}}, "no feature 'nobody'"),
        ({"aeg": 1}, {"target": {"classes": [0, 1]}}, "columns of the table; did you mean 'age'"),
        ({"age": 1}, None, "say in classes"),
    ],
)
def test_with_a_domain_to_be_learned_as_well(kind, monotone, given, words, tmp_path):
    frame = make_frame(50)
    model = kind(monotone=monotone, domain_given=given, ledger=tmp_path / "ledger", random_state=1)
    with pytest.raises(ValueError, match=words):
        model.fit(frame, make_domain().target.name)
    assert not (tmp_path / "ledger").exists()
