"""One seed gives the same model on a device, byte for byte, by every recipe."""

import math
from functools import partial

import numpy as np
import pytest

from privboost import PrivBoostClassifier, evaluate
from privboost.cuda.backend import CudaBackend
from privboost.data.loading import load_rows
from tests import fits
from tests.cuda.conftest import crowd
from tests.fits import bytes_of, fit_stream
from tests.tables import make_frame, opens


def on_several(devices, loads):
    blocks = [block for each in load_rows(loads, rows=60) for block in each.blocks]
    return CudaBackend(blocks, devices, most_rows=150, least_rows=1)


def same(run, device):
    expected = bytes_of(run())
    assert bytes_of(run(backend=opens(CudaBackend, devices=[device]))) == expected
    assert bytes_of(run(backend=partial(on_several, crowd(device)))) == expected


def test_every_recipe(device, any_fit):
    same(any_fit, device)


@pytest.mark.parametrize("name", sorted(fits.RANDOM_TREES.keys() - fits.ALL.keys()))
def test_random_trees(device, name):
    same(fits.RANDOM_TREES[name], device)


@pytest.mark.parametrize("subsample", [1.0, 0.3])
def test_streams(device, subsample):
    same(partial(fit_stream, subsample), device)


def test_evaluation(device):
    there = opens(CudaBackend, devices=[device])
    for name in ("privboost, two classes", "privboost, numbers"):
        fit = fits.ALL[name]
        frame, model = fit.frame(500, 1), fit()
        asked = {"epsilon": 1.0, "delta": 1e-6, "random_state": 3}
        assert evaluate(model, frame, backend=there, **asked) == evaluate(model, frame, **asked)
    public = {"epsilon": math.inf, "public_rows": True, "quantile": 0.5}  # of the number
    assert evaluate(model, frame, backend=there, **public) == evaluate(model, frame, **public)


def test_a_domain_that_is_learned(device):
    frame = make_frame(1000)[["age", "job", "flag"]]

    def run(**where):
        model = PrivBoostClassifier(9.0, 1e-5, n_estimators=5, random_state=7, **where)
        return model.fit(frame, np.where(frame["flag"] == 1, "yes", "no"))

    same(run, device)


def test_a_named_pair_of_thousands_of_categories(device):
    kinds = {
        "x": {"kind": "numeric", "bounds": [0, 1]},
        "shop": {"kind": "categorical", "categories": list(range(3000))},
    }
    domain = {"version": 1, "features": kinds, "target": {"name": "y", "classes": [0, 1]}}
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.random(900), rng.integers(0, 3000, 900)])
    y = (X[:, 0] > 0.5).astype(int)

    def run(**where):
        how = {"n_estimators": 6, "interactions": ["x*shop"], "random_state": 7} | where
        return PrivBoostClassifier(9.0, 1e-5, domain, **how).fit(X, y)

    assert run().model_.scores.pairs
    same(run, device)
