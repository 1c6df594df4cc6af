"""Targets on a log scale: within their bounds, there and back, and the same on every machine."""

import hashlib
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privboost import NumberTarget
from privboost._core.grid import LABEL_STEPS
from privboost.data.scales import _exp, _log, from_scale, to_scale
from privboost.losses.base import UNKNOWN_LABEL

BOUNDS = [(1, 1e6), (0, 1e6), (-1e6, -1), (-1e3, 1e6), (1e-300, 1e300), (-3, 0), (5, 6)]


def test_logarithms_and_powers_are_right():
    rng = np.random.default_rng(0)
    values = np.concatenate([np.exp(rng.uniform(-690, 690, 50_000)), rng.uniform(0.5, 2, 50_000)])
    np.testing.assert_allclose(_log(values), np.log(values), rtol=1e-15, atol=1e-16)
    values = rng.uniform(-600, 600, 50_000)
    np.testing.assert_allclose(_exp(values), np.exp(values), rtol=4e-16)
    assert _log(np.array([1.0, 2.0**-1074, 2.0**1023])).tolist() == [
        0.0,
        *np.log([2.0**-1074, 2.0**1023]),
    ]


def test_they_are_the_same_bits_on_every_machine():
    values = np.array([k / 7 + 1e-3 for k in range(20_000)])
    digest = hashlib.sha256(_log(values).tobytes() + _exp(values / 30).tobytes()).hexdigest()
    assert digest == "a70a5d42c94950ace416f4acdef15717102b95c201c5dcc03f1136b0ce4c704f"


@pytest.mark.parametrize("bounds", BOUNDS)
def test_there_and_back(bounds):
    values = np.linspace(*bounds, 1001)
    scaled = to_scale(values, bounds, "log")
    assert (np.diff(scaled) > 0).all()
    np.testing.assert_allclose(from_scale(scaled, bounds, "log"), values, rtol=1e-12, atol=1e-12)
    assert to_scale(values, bounds, "linear") is values


@settings(deadline=None, max_examples=100)
@given(st.lists(st.one_of(st.none(), st.floats(), st.text(), st.just(object()))))
@pytest.mark.parametrize("bounds", BOUNDS)
def test_no_label_leaves_its_bounds_nor_warns(bounds, values):
    target = NumberTarget("y", bounds, scale="log")
    column = np.fromiter(values, dtype=object, count=len(values))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        label, below = target.code(column)
        alone = [target.code(column[k : k + 1]) for k in range(len(values))]
    assert (np.abs(below) <= LABEL_STEPS).all()
    assert (below[label == UNKNOWN_LABEL] == 0).all()
    assert below.tolist() == [int(own[0]) for _, own in alone]


@pytest.mark.parametrize("bounds", BOUNDS)
def test_bounds_are_the_ends_of_labels(bounds):
    target = NumberTarget("y", bounds, scale="log")
    beyond = [bounds[0] - 1, bounds[0], bounds[1], bounds[1] + 1, -np.inf, np.inf]
    ends = [LABEL_STEPS, LABEL_STEPS, -LABEL_STEPS, -LABEL_STEPS, LABEL_STEPS, -LABEL_STEPS]
    _, below = target.code(np.array(beyond))
    assert np.abs(below - ends).max() <= 1
    middle, half = target.middle_and_half()
    assert (middle - half, middle + half) == pytest.approx(target.scaled_bounds)
