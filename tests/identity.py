"""The fits that must give the same model wherever rows are held: each recipe in several ways."""

from privboost import (
    BoostedAdaSSPClassifier,
    BoostedAdaSSPRegressor,
    DPXGBClassifier,
    DPXGBRegressor,
    LazyBBClassifier,
    PrivBoostClassifier,
    PrivBoostRegressor,
    SarusXGBClassifier,
    SarusXGBRegressor,
    SBDTClassifier,
    SBDTRegressor,
)
from privboost.models.model import model_bytes
from tests.tables import CLASSES, NUMBER, THREE, make_domain, make_frame

ROWS = 1000
FLAGSHIP = [(CLASSES, False, 3.0), (THREE, True, 4.0), (NUMBER, True, 1.0)]
"""With an ε that buys some interactions."""


def fit(target, weighted, table=None, unit=None, **how):
    kind = PrivBoostRegressor if "bounds" in target else PrivBoostClassifier
    table = make_frame(ROWS, target=target) if table is None else table
    how = {"n_estimators": 12, "random_state": 7, "sample_weight_bound": 2.0} | how
    model = kind(**{"epsilon": 1.0, "delta": 1e-6, "domain": make_domain(target, unit)} | how)
    return model.fit(table, sample_weight="weight" if weighted else None)


TREES = [
    {"features": "cyclical", "extra_estimators": 10},
    {"features": "uniform", "candidates": "hessian", "candidate_rounds": 2},
    {"features": 2, "category_splits": "subset", "batch_size": 4},
    {"features": "uniform", "subsample": 0.3},
    {"subsample": 0.3, "extra_estimators": 10, "init_noise": "laplace"},
]


def fit_trees(target, weighted, how, **where):
    kind = SBDTRegressor if "bounds" in target else SBDTClassifier
    shared = {"n_estimators": 12, "max_depth": 4, "random_state": 7, "sample_weight_bound": 2.0}
    model = kind(1.0, 1e-6, make_domain(target), **(shared | how | where))
    weights = "weight" if weighted else None
    return model.fit(make_frame(ROWS, target=target), sample_weight=weights)


TASKS = [(CLASSES, False), (THREE, True), (NUMBER, True)]


GREEDY = [
    (DPXGBClassifier, CLASSES, False, {"candidates": "hessian", "candidate_rounds": 2}),
    (DPXGBClassifier, THREE, True, {"features": 3, "greedy_depth": 2}),
    (DPXGBRegressor, NUMBER, True, {"features": "cyclical"}),
    (SarusXGBClassifier, CLASSES, True, {"delta": 0.0, "gradient_filter": 0.4}),
    (SarusXGBClassifier, THREE, False, {"delta": 0.0, "subsample": 0.3}),
    (SarusXGBRegressor, NUMBER, False, {"delta": 1e-6, "accountant": "rdp", "subsample": 0.3}),
]


def fit_greedy(kind, target, weighted, how, **where):
    settings = {"epsilon": 5.0, "delta": 1e-6, "n_estimators": 4, "max_depth": 3} | how
    if settings["delta"] > 0:
        settings |= {"accountant": "rdp"}
    settings |= {"random_state": 7, "sample_weight_bound": 2.0, "domain": make_domain(target)}
    model = kind(**settings, **where)
    weights = "weight" if weighted else None
    return model.fit(make_frame(ROWS, target=target), sample_weight=weights)


OTHERS = [
    (LazyBBClassifier, CLASSES, False, {"delta": 0.0}),
    (LazyBBClassifier, THREE, False, {"accountant": "rdp"}),
    (LazyBBClassifier, CLASSES, False, {"learner": "tree", "delta": 0.0}),
    (BoostedAdaSSPClassifier, CLASSES, True, {"class_weight": "balanced", "clip_decay": 0.9}),
    (BoostedAdaSSPClassifier, THREE, False, {"bins": 6, "products": [("age", "job")]}),
    (BoostedAdaSSPRegressor, NUMBER, True, {"ratio": (1, 1, 1), "norm_bound": 0.8}),
]


def fit_other(kind, target, weighted, how, frame=None, **where):
    settings = {"epsilon": 2.0, "delta": 1e-6, "n_estimators": 7, "random_state": 7} | how
    if weighted:
        settings |= {"sample_weight_bound": 2.0}
    model = kind(**settings, domain=make_domain(target), **where)
    frame = make_frame(ROWS, target=target) if frame is None else frame
    return model.fit(frame, **({"sample_weight": "weight"} if weighted else {}))


def fit_stream(subsample, **where):
    model = SBDTClassifier(
        1.0, 1e-6, make_domain(), n_estimators=12, random_state=7, subsample=subsample, **where
    )
    for seed in range(3):
        model.partial_fit(make_frame(400, seed))
    return model


def bytes_of(model):
    return model_bytes(model.model_)
