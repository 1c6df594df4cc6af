"""One seed gives the same model on a device, byte for byte, by every recipe."""

from functools import partial

import numpy as np
import pytest

from privboost import PrivBoostClassifier, evaluate
from privboost.cuda.backend import CudaBackend
from privboost.data.loading import load_rows
from tests.cuda.conftest import crowd
from tests.identity import (
    FLAGSHIP,
    GREEDY,
    OTHERS,
    TASKS,
    TREES,
    bytes_of,
    fit,
    fit_greedy,
    fit_other,
    fit_stream,
    fit_trees,
)
from tests.tables import CLASSES, NUMBER, make_frame, opens


def on_several(devices, loads):
    blocks = [block for each in load_rows(loads, rows=60) for block in each.blocks]
    return CudaBackend(blocks, devices, most_rows=150, least_rows=1)


def same(run, device):
    expected = bytes_of(run())
    assert bytes_of(run(backend=opens(CudaBackend, devices=[device]))) == expected
    assert bytes_of(run(backend=partial(on_several, crowd(device)))) == expected


@pytest.mark.parametrize(("target", "weighted", "epsilon"), FLAGSHIP)
def test_the_flagship(device, target, weighted, epsilon):
    same(partial(fit, target, weighted, epsilon=epsilon), device)


@pytest.mark.parametrize("how", TREES, ids=lambda how: "-".join(map(str, how.values())))
@pytest.mark.parametrize(("target", "weighted"), TASKS)
def test_random_trees(device, target, weighted, how):
    same(partial(fit_trees, target, weighted, how), device)


@pytest.mark.parametrize(("kind", "target", "weighted", "how"), GREEDY)
def test_greedy_trees(device, kind, target, weighted, how):
    same(partial(fit_greedy, kind, target, weighted, how), device)


@pytest.mark.parametrize(("kind", "target", "weighted", "how"), OTHERS)
def test_votes_and_linear_models(device, kind, target, weighted, how):
    same(partial(fit_other, kind, target, weighted, how), device)


@pytest.mark.parametrize("subsample", [1.0, 0.3])
def test_streams(device, subsample):
    same(partial(fit_stream, subsample), device)


def test_units(device):
    same(partial(fit, CLASSES, True, unit={"column": "person", "max_rows": 50}), device)


def test_evaluation(device):
    there = opens(CudaBackend, devices=[device])
    for target in (CLASSES, NUMBER):
        frame = make_frame(500, 1, target)
        model = fit(target, False)
        asked = {"epsilon": 1.0, "delta": 1e-6, "random_state": 3}
        assert evaluate(model, frame, backend=there, **asked) == evaluate(model, frame, **asked)


def test_a_domain_that_is_learned(device):
    frame = make_frame(1000)[["age", "job", "flag"]]

    def run(**where):
        model = PrivBoostClassifier(9.0, 1e-5, n_estimators=5, random_state=7, **where)
        return model.fit(frame, np.where(frame["flag"] == 1, "yes", "no"))

    same(run, device)
