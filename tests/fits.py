"""Fits for tests: every recipe of the registry on every kind of target, and in ways of its own.

`BASIC` follows from the registry: each recipe on two classes, on three and on a number (the latter
two with weights), with units of several rows, and with pure ε. Every table has missing values. A
new recipe is in it by being registered; `SETTINGS` may make it small. `ALL` adds the parameters
that change what recipes release. The fixtures `basic_fit` and `any_fit` go through them.
"""

from __future__ import annotations

from functools import cache
from inspect import signature
from typing import NamedTuple

import privboost
from privboost import SBDTClassifier
from privboost.models.model import model_bytes
from privboost.recipes import RECIPES
from tests.tables import CLASSES, NUMBER, SURVIVAL, THREE, make_domain, make_frame

ROWS = 1000
PURE = {"delta": 0.0}
UNIT = {"column": "person", "max_rows": 3}
SHARED = {"column": "person", "max_rows": 7, "weighting": "units"}
TARGETS = {"two classes": CLASSES, "three classes": THREE, "numbers": NUMBER}
WEIGHTS = "sample_weight_bound"

BOUNDED = {WEIGHTS: 2.0}
GREEDY = {"epsilon": 5.0, "n_estimators": 4, "max_depth": 3} | BOUNDED
SMALL = {"epsilon": 2.0, "n_estimators": 7}
SETTINGS = {
    "privboost": {"epsilon": 1.0, "n_estimators": 12} | BOUNDED,
    "sbdt": {"epsilon": 1.0, "n_estimators": 12, "max_depth": 4} | BOUNDED,
    "dpxgb": GREEDY | {"accountant": "rdp"},
    "sarus": GREEDY,
}
"""What makes a recipe's models small; `SMALL` where a recipe is not named."""


class Fit(NamedTuple):
    """A fit on a table with its own kind of target."""

    name: str
    recipe: str
    target: dict
    weighted: bool
    parameters: dict
    unit: dict | None = None

    def estimator(self, **how):
        """Return the estimator; arguments go before parameters."""
        task = "survival" if self.target is SURVIVAL else "classes"
        task = "number" if self.target is NUMBER else task
        kind = getattr(privboost, RECIPES[self.recipe].estimators[task])
        settings = {"delta": 1e-6, "random_state": 7} | SETTINGS.get(self.recipe, SMALL)
        if self.weighted:
            settings |= BOUNDED
        domain = {"domain": make_domain(self.target, self.unit)}
        return kind(**settings | domain | self.parameters | how)

    def frame(self, rows=ROWS, seed=0):
        """Return a table with its kind of target."""
        return make_frame(rows, seed, self.target)

    @property
    def weights(self):
        """Arguments of `fit` and of federations."""
        return {"sample_weight": "weight"} if self.weighted else {}

    def __call__(self, table=None, **how):
        """Fit on a table, its own unless one is given."""
        return self.estimator(**how).fit(self.frame() if table is None else table, **self.weights)


@cache
def refusal(name):
    """Return why a recipe does not have this kind of fit, or None."""
    try:
        ALL[name].estimator().preview(n_rows=ROWS)
    except ValueError as error:
        return str(error)
    return None


def takes_weights(recipe, task):
    return WEIGHTS in signature(getattr(privboost, recipe.estimators[task])).parameters


def basic_fits():
    """Yield the fits that follow from the registry."""
    for recipe in RECIPES.values():
        for name, target in TARGETS.items():
            task = "number" if target is NUMBER else "classes"
            if task in recipe.tasks:
                weighted = target is not CLASSES and takes_weights(recipe, task)
                yield Fit(f"{recipe.name}, {name}", recipe.name, target, weighted, {})
        task = recipe.tasks[0]
        target, weighted = CLASSES if task == "classes" else NUMBER, takes_weights(recipe, task)
        yield Fit(f"{recipe.name}, pure", recipe.name, target, False, PURE)
        yield Fit(f"{recipe.name}, units", recipe.name, target, weighted, {}, UNIT)
        if recipe.name != "lazybb":  # which takes no weights
            yield Fit(f"{recipe.name}, shared units", recipe.name, target, False, {}, SHARED)


BASIC = {fit.name: fit for fit in basic_fits()}
for name, epsilon in {"privboost, two classes": 3.0, "privboost, three classes": 4.0}.items():
    BASIC[name].parameters["epsilon"] = epsilon  # that buys some interactions

TREES = [
    {"features": "cyclical", "extra_estimators": 10},
    {"features": "uniform", "candidates": "hessian", "candidate_rounds": 2},
    {"features": 2, "category_splits": "subset", "batch_size": 4},
    {"features": "uniform", "subsample": 0.3},
    {"subsample": 0.3, "extra_estimators": 10, "init_noise": "laplace"},
]
RANDOM_TREES = {
    f"sbdt {number}, {name}": Fit(
        f"sbdt {number}, {name}", "sbdt", target, target is not CLASSES, how
    )
    for number, how in enumerate(TREES)
    for name, target in TARGETS.items()
}
"""Each of them on every kind of target."""
FILTERED = PURE | {"gradient_filter": 0.4}
LINEAR = {"class_weight": "balanced"}
PRODUCTS = {"bins": 6, "products": [("age", "job")]}
RIDGES = {"ratio": (1, 1, 1), "norm_bound": 0.8}
SAMPLED = {"subsample": 0.3}
RISING = {"monotone": {"age": 1, "gain": -1}}
NAMED_PAIRS = {"interactions": ["age*job", ("gain", "age")]}
GROUPS = {"epsilon": 5.0, "interaction_constraints": [["age", "job", "gain"], ["gain", "flag"]]}
HESSIANS = {"candidates": "hessian", "candidate_rounds": 2}
EXPOSED = {"loss": "poisson", "exposure": "age", "at_once": 3}
HIGH = {"loss": "quantile", "quantile": 0.9}
COUNTS = {"loss": "poisson", "gradient_clip": 3.0}
INTERVALS = {"conformal_fraction": 0.3}
OWN = [
    Fit("PrivBoostRegressor, intervals", "privboost", NUMBER, True, INTERVALS),
    Fit("PrivBoostClassifier, sets", "privboost", THREE, True, INTERVALS),
    *(RANDOM_TREES[f"sbdt {k}, {[*TARGETS][k % 3]}"] for k in range(len(TREES))),
    Fit("PrivBoostRegressor, poisson", "privboost", NUMBER, True, {"loss": "poisson"}),
    Fit("PrivBoostRegressor, gamma", "privboost", NUMBER, False, {"loss": "gamma"}),
    Fit("PrivBoostRegressor, tweedie", "privboost", NUMBER, True, {"loss": "tweedie"}),
    Fit("PrivBoostRegressor, absolute", "privboost", NUMBER, True, {"loss": "absolute"}),
    Fit("PrivBoostRegressor, quantile", "privboost", NUMBER, False, HIGH | {"at_once": 2}),
    Fit("PrivBoostRegressor, pure quantile", "privboost", NUMBER, False, HIGH | PURE),
    Fit("PrivBoostRegressor, exposure", "privboost", NUMBER, True, EXPOSED),
    Fit("SBDTRegressor, poisson", "sbdt", NUMBER, True, {"loss": "poisson", "extra_estimators": 9}),
    Fit("SBDTRegressor, tweedie", "sbdt", NUMBER, False, {"loss": "tweedie", "subsample": 0.3}),
    Fit("SBDTRegressor, quantile", "sbdt", NUMBER, True, HIGH | {"extra_estimators": 9}),
    Fit("DPXGBRegressor, gamma", "dpxgb", NUMBER, True, {"loss": "gamma"}),
    Fit("DPXGBRegressor, absolute", "dpxgb", NUMBER, False, {"loss": "absolute"}),
    Fit("PrivBoostRegressor, units", "privboost", NUMBER, False, COUNTS, UNIT),
    Fit("PrivBoostRegressor, shared units", "privboost", NUMBER, True, {}, SHARED),
    Fit("SBDTClassifier, shared units", "sbdt", THREE, True, {"extra_estimators": 10}, SHARED),
    Fit("PrivBoostRegressor, pure", "privboost", NUMBER, False, COUNTS | PURE),
    Fit("PrivBoostRegressor, relative", "privboost", NUMBER, True, EXPOSED | INTERVALS),
    Fit("PrivBoostRegressor, about .9", "privboost", NUMBER, False, HIGH | INTERVALS),
    Fit("PrivBoostRegressor, pure intervals", "privboost", NUMBER, False, PURE | INTERVALS),
    Fit("PrivBoostSurvival", "privboost", SURVIVAL, True, {"interactions": 2}),
    Fit("PrivBoostSurvival, pure", "privboost", SURVIVAL, False, PURE | {"scale": 0.8}),
    Fit("PrivBoostSurvival, units", "privboost", SURVIVAL, False, {"at_once": 2}, UNIT),
    Fit("DPXGBClassifier 0", "dpxgb", CLASSES, False, HESSIANS),
    Fit("DPXGBClassifier 1", "dpxgb", THREE, True, {"features": 3, "greedy_depth": 2}),
    Fit("DPXGBRegressor 2", "dpxgb", NUMBER, True, {"features": "cyclical"}),
    Fit("SarusXGBClassifier 3", "sarus", CLASSES, True, FILTERED),
    Fit("SarusXGBClassifier 4", "sarus", THREE, False, PURE | SAMPLED),
    Fit("SarusXGBRegressor 5", "sarus", NUMBER, False, {"accountant": "rdp"} | SAMPLED),
    Fit("LazyBBClassifier 0", "lazybb", CLASSES, False, PURE),
    Fit("LazyBBClassifier 1", "lazybb", THREE, False, {"accountant": "rdp"}),
    Fit("LazyBBClassifier 2", "lazybb", CLASSES, False, PURE | {"learner": "tree"}),
    Fit("BoostedAdaSSPClassifier 3", "adassp", CLASSES, True, LINEAR | {"clip_decay": 0.9}),
    Fit("BoostedAdaSSPClassifier 4", "adassp", THREE, False, PRODUCTS),
    Fit("BoostedAdaSSPRegressor 5", "adassp", NUMBER, True, RIDGES),
    Fit("PrivBoostClassifier 6", "privboost", CLASSES, True, NAMED_PAIRS | RISING),
    Fit("PrivBoostClassifier 7", "privboost", THREE, False, {"interactions": 2, "at_once": 3}),
    Fit("PrivBoostRegressor 8", "privboost", NUMBER, True, GROUPS | RISING),
    Fit(
        "SBDTClassifier 9", "sbdt", CLASSES, True, {"features": "uniform", "batch_size": 3} | RISING
    ),
    Fit("SBDTRegressor 10", "sbdt", NUMBER, False, RISING),
]
"""Parameters that change what a recipe releases."""
FLAGSHIP = {name: fit for name, fit in BASIC.items() if fit.recipe == "privboost"}
ALL = FLAGSHIP | {fit.name: fit for fit in OWN} | BASIC


def fit_stream(subsample, **where):
    model = SBDTClassifier(
        1.0, 1e-6, make_domain(), n_estimators=12, random_state=7, subsample=subsample, **where
    )
    for seed in range(3):
        model.partial_fit(make_frame(400, seed))
    return model


def bytes_of(model):
    return model_bytes(model.model_)
