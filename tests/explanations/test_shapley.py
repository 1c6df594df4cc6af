"""Shapley values in closed form are those of the definition."""

from itertools import combinations, product
from math import factorial

import numpy as np
import pandas as pd
import pytest

import privboost
from privboost import Domain
from privboost.data.rows import Codes, Layout
from privboost.models.explain import _View
from privboost.models.parts import JointTree, ScoreParts, Shapley
from privboost.trees.tree import Tree, stump

DOMAIN = Domain.from_dict(
    {
        "version": 1,
        "features": {
            "x": {"kind": "numeric", "bounds": [0, 3], "edges": [1, 2], "missing": True},
            "y": {"kind": "numeric", "bounds": [0, 2], "edges": [1]},
            "z": {"kind": "categorical", "categories": ["a", "b"]},
        },
        "target": {"name": "t", "classes": [0, 1]},
    }
)
MODELS = {
    "compound": ("PrivBoostClassifier", {}),
    "trees": ("SBDTClassifier", {"n_estimators": 3, "features": "uniform", "max_depth": 4}),
    "greedy": ("DPXGBClassifier", {"n_estimators": 3}),
    "votes": ("LazyBBClassifier", {"n_estimators": 3, "learner": "tree"}),
    "products": ("BoostedAdaSSPClassifier", {"products": True}),
}


def make_rows(rows):
    rng = np.random.default_rng(3)
    x, y, z = rng.uniform(0, 3, rows), rng.uniform(0, 2, rows), rng.integers(0, 2, rows)
    together = (x > 1.5) ^ (y > 1) ^ (z == 1)
    label = np.where(rng.random(rows) < 0.8, together, ~together).astype(int)
    x[rng.random(rows) < 0.1] = np.nan
    return pd.DataFrame({"x": x, "y": y, "z": np.array(["a", "b"])[z], "t": label})


def by_definition(scores, chances, row):
    """Return the mean score, and the Shapley value of each feature, over all rows there can be."""
    layout = Layout(tuple(map(len, chances)))
    everyone = np.array(list(product(*(range(len(own)) for own in chances))))
    weight = np.prod([own[everyone[:, k]] for k, own in enumerate(chances)], axis=0)

    def mean_given(known):
        mixed = everyone.copy()
        mixed[:, list(known)] = row[list(known)]
        found = scores.scores(Codes.of(layout, mixed.T.astype(np.uint16)))[0]
        return float(weight @ found)

    features, values = range(len(chances)), np.zeros(len(chances))
    for own in features:
        rest = [feature for feature in features if feature != own]
        for size in range(len(rest) + 1):
            part = factorial(size) * factorial(len(rest) - size) / factorial(len(chances))
            for known in combinations(rest, size):
                values[own] += part * (mean_given((*known, own)) - mean_given(known))
    return mean_given(()), values


@pytest.mark.parametrize("case", MODELS)
def test_values_are_those_of_the_definition(case):
    name, parameters = MODELS[case]
    model = getattr(privboost, name)(50.0, domain=DOMAIN, random_state=2, **parameters)
    model.fit(make_rows(500))
    local = model.explain_local(make_rows(6))
    view = _View(model.model_)
    assert any(local.shap_values[0])
    for row, own in zip(local.codes, local.shap_values, strict=True):
        level, values = by_definition(model.model_.scores, view.probabilities, row)
        assert local.baseline[0] == pytest.approx(level / 2**16, abs=1e-9)
        np.testing.assert_allclose(own, values / 2**16, atol=1e-9)


def test_leaves_that_every_row_or_none_comes_to():
    """A tree without splits moves the baseline; a split on which all codes go one way does so."""
    chances = (np.array([0.25, 0.75]),)
    codes = Codes.of(Layout((2,)), np.array([[0, 1]], dtype=np.uint16))
    one_way = Tree(np.zeros(1, dtype=np.uint16), np.ones((1, 2), dtype=np.uint8))
    for tree, values in ((stump(), [[5]]), (one_way, [[7, 5]])):
        joint = JointTree(0, tree, np.array(values), None, None)
        parts = ScoreParts(np.array([1]), (np.array([[0, 4]]),), trees=(joint,))
        shapley = Shapley(parts, chances)
        assert shapley.baseline().tolist() == [1 + 3 + 5]
        assert shapley.values(codes).tolist() == [[[-3, 1]]]
        assert parts.contributions(codes).sum(axis=0).tolist() == [[5, 9]]
