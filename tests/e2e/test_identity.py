"""One seed gives the same model, byte for byte, however the rows are held."""

from functools import partial

import numpy as np
import polars as pl
import pytest

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
from privboost.models.files import model_bytes
from tests.hostile import HostileBackend
from tests.tables import CLASSES, NUMBER, THREE, make_domain, make_frame

ROWS = 1000


def fit(target, weighted, table=None, unit=None, **how):
    kind = PrivBoostRegressor if "bounds" in target else PrivBoostClassifier
    table = make_frame(ROWS, target=target) if table is None else table
    how = {"n_estimators": 12, "random_state": 7, "sample_weight_bound": 2.0} | how
    model = kind(**{"epsilon": 1.0, "delta": 1e-6, "domain": make_domain(target, unit)} | how)
    return model.fit(table, sample_weight="weight" if weighted else None)


@pytest.mark.parametrize(
    ("target", "weighted", "epsilon"),
    [(CLASSES, False, 3.0), (THREE, True, 4.0), (NUMBER, True, 1.0)],
)
def test_threads_partitions_deaths_and_order_change_nothing(target, weighted, epsilon):
    """With an ε that buys some interactions: a party that dies is told every answer again."""
    run = partial(fit, target, weighted, epsilon=epsilon)
    frame, plain = make_frame(ROWS, target=target), run().model_
    assert plain.scores.kind == "compound"
    expected = model_bytes(plain)
    assert model_bytes(run(n_jobs=2).model_) == expected
    for seed in range(2):
        assert model_bytes(run(backend=partial(HostileBackend, seed=seed)).model_) == expected
    assert model_bytes(run(frame.sample(frac=1, random_state=1)).model_) == expected
    assert model_bytes(run(random_state=8).model_) != expected
    assert model_bytes(run(frame.iloc[1:]).model_) != expected


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


@pytest.mark.parametrize("how", TREES, ids=lambda how: "-".join(map(str, how.values())))
@pytest.mark.parametrize(("target", "weighted"), [(CLASSES, False), (THREE, True), (NUMBER, True)])
def test_trees_of_every_kind_are_the_same_everywhere(target, weighted, how):
    expected = model_bytes(fit_trees(target, weighted, how).model_)
    assert model_bytes(fit_trees(target, weighted, how, n_jobs=2).model_) == expected
    for seed in range(2):
        hostile = partial(HostileBackend, seed=seed)
        assert model_bytes(fit_trees(target, weighted, how, backend=hostile).model_) == expected


GREEDY = [
    (DPXGBClassifier, CLASSES, False, {"candidates": "hessian", "candidate_rounds": 2}),
    (DPXGBClassifier, THREE, True, {"features": 3, "greedy_depth": 2}),
    (DPXGBRegressor, NUMBER, True, {"features": "cyclical"}),
    (SarusXGBClassifier, CLASSES, True, {"delta": 0.0, "gradient_filter": 0.4}),
    (SarusXGBClassifier, THREE, False, {"delta": 0.0, "subsample": 0.3}),
    (SarusXGBRegressor, NUMBER, False, {"delta": 1e-6, "accountant": "rdp", "subsample": 0.3}),
]


@pytest.mark.parametrize(("kind", "target", "weighted", "how"), GREEDY)
def test_greedy_trees_are_the_same_everywhere(kind, target, weighted, how):
    def run(**where):
        settings = {"epsilon": 5.0, "delta": 1e-6, "n_estimators": 4, "max_depth": 3} | how
        if settings["delta"] > 0:
            settings |= {"accountant": "rdp"}
        settings |= {"random_state": 7, "sample_weight_bound": 2.0, "domain": make_domain(target)}
        model = kind(**settings, **where)
        weights = "weight" if weighted else None
        return model_bytes(model.fit(make_frame(ROWS, target=target), sample_weight=weights).model_)

    expected = run()
    assert run(n_jobs=2) == expected
    for seed in range(2):
        assert run(backend=partial(HostileBackend, seed=seed, death_rate=0.2)) == expected


OTHERS = [
    (LazyBBClassifier, CLASSES, False, {"delta": 0.0}),
    (LazyBBClassifier, THREE, False, {"accountant": "rdp"}),
    (LazyBBClassifier, CLASSES, False, {"learner": "tree", "delta": 0.0}),
    (BoostedAdaSSPClassifier, CLASSES, True, {"class_weight": "balanced", "clip_decay": 0.9}),
    (BoostedAdaSSPClassifier, THREE, False, {"bins": 6, "products": [("age", "job")]}),
    (BoostedAdaSSPRegressor, NUMBER, True, {"ratio": (1, 1, 1), "norm_bound": 0.8}),
]


@pytest.mark.parametrize(("kind", "target", "weighted", "how"), OTHERS)
def test_votes_and_linear_models_are_the_same_everywhere(kind, target, weighted, how):
    def run(frame, **where):
        settings = {"epsilon": 2.0, "delta": 1e-6, "n_estimators": 7, "random_state": 7} | how
        if weighted:
            settings |= {"sample_weight_bound": 2.0}
        model = kind(**settings, domain=make_domain(target), **where)
        return model_bytes(
            model.fit(frame, **({"sample_weight": "weight"} if weighted else {})).model_
        )

    frame = make_frame(ROWS, target=target)
    expected = run(frame)
    assert run(frame.sample(frac=1, random_state=2), n_jobs=2) == expected
    for seed in range(2):
        assert run(frame, backend=partial(HostileBackend, seed=seed, death_rate=0.2)) == expected


@pytest.mark.parametrize("subsample", [1.0, 0.3])
def test_streams_are_the_same_everywhere(subsample):
    def run(**where):
        model = SBDTClassifier(
            1.0, 1e-6, make_domain(), n_estimators=12, random_state=7, subsample=subsample, **where
        )
        for seed in range(3):
            model.partial_fit(make_frame(400, seed))
        return model_bytes(model.model_)

    expected = run()
    assert run(n_jobs=2) == expected
    for seed in range(2):
        assert run(backend=partial(HostileBackend, seed=seed, death_rate=0.2)) == expected


def test_units_are_chosen_alike_everywhere():
    unit = {"column": "person", "max_rows": 50}
    expected = model_bytes(fit(CLASSES, True, unit=unit).model_)
    hostile = partial(HostileBackend, seed=3)
    assert model_bytes(fit(CLASSES, True, unit=unit, backend=hostile).model_) == expected
    shuffled = make_frame(ROWS).sample(frac=1, random_state=1)
    assert model_bytes(fit(CLASSES, True, shuffled, unit=unit, n_jobs=2).model_) == expected


def test_files_and_frames_give_the_same_model(tmp_path):
    frame = make_frame(ROWS)
    expected = model_bytes(fit(CLASSES, True, frame).model_)
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=501)
    for table in (tmp_path / "t.csv", str(tmp_path / "t.parquet"), pl.DataFrame(frame)):
        assert model_bytes(fit(CLASSES, True, table).model_) == expected


def test_secure_noise_is_the_default_and_never_repeats():
    one, two = (fit(CLASSES, False, random_state=None) for _ in range(2))
    assert model_bytes(one.model_) != model_bytes(two.model_)
    assert not one.privacy_.seeded
    assert one.privacy_.guarantee == "(1, 1e-06)-differential privacy"
    assert fit(CLASSES, False).privacy_.guarantee == "no privacy guarantee: seeded"


def test_predictions_are_those_of_the_rows_states():
    """Scores that shards followed during training are the scores the model gives afterwards."""
    kept = []

    class Keep(HostileBackend):
        def close(self):
            for shard in self._shards:
                for block, state in zip(shard._blocks, shard._state, strict=True):
                    kept.append((block, state))
            super().close()

    # Calibration comes last, and tells the rows nothing.
    model = fit(THREE, True, backend=Keep, calibration_share=0).model_
    for block, state in kept:
        np.testing.assert_array_equal(model.scores.scores(block.codes), state)
