"""Audits of releases and of whole fits: within the claim, and beyond it for a planted bug."""

import math

import numpy as np
import pytest

from privboost import Domain, PrivBoostClassifier
from privboost.audit import audit, epsilon_lower_bound
from privboost.engine.backend import LocalBackend
from privboost.engine.block import Block
from privboost.engine.commands import COUNT, FeatureSums, Start
from privboost.engine.layout import Layout
from privboost.grid import UNIT, Contribution
from privboost.losses import squared
from privboost.privacy.accountants.choice import choose_accountant
from privboost.privacy.events import (
    GaussianRelease,
    LaplaceRelease,
    Planned,
    Selection,
    ThresholdRelease,
)
from privboost.privacy.keystream import KeyStream
from privboost.privacy.mechanisms import Curator, noisy_threshold
from privboost.privacy.utilities import LargestCell

DELTA = 1e-5
QUERY = FeatureSums(0, np.arange(3, dtype=np.uint16), 3, statistics=COUNT)


class Free:
    """A ledger that charges nothing: an audit's runs are not releases."""

    def charge(self, event):
        pass


def claim_of(event):
    planned = [Planned(event, 1)]
    return choose_accountant("auto", planned, DELTA).compose(planned).epsilon(DELTA)


def curator_for(canary, event, seed):
    """Ten rows in three cells; the canary is one more row, in the first."""
    cells = [0, 0, 0, 1, 1, 1, 1, 2, 2, 2] + [0] * canary
    codes = np.array([cells], dtype=np.uint8)
    rows = len(cells)
    block = Block(Layout((3,)), codes, np.zeros((0, rows), np.uint16), np.zeros(rows, np.uint8))
    backend = LocalBackend([block])
    curator = Curator(backend, Free(), KeyStream.seeded(seed), Contribution())
    curator.publish(Start(squared(1.0, 1.0)))
    return curator


def gaussian(noise):
    event = GaussianRelease("counts", noise, UNIT, 1, 1, (1.0,))
    return event, lambda canary, seed: curator_for(canary, event, seed).gaussian(QUERY, event)[0, 0]


def laplace(noise):
    event = LaplaceRelease("counts", noise, UNIT, 1, 1, (1.0,))
    return event, lambda canary, seed: curator_for(canary, event, seed).laplace(QUERY, event)[0, 0]


def selection(noise):
    event = Selection("the fullest cell", noise)

    def run(canary, seed):
        return float(curator_for(canary, event, seed).select(QUERY_PAIR, LargestCell(), event) == 0)

    return event, run


QUERY_PAIR = FeatureSums(0, np.arange(3, dtype=np.uint16), 3)


def threshold(noise):
    event = ThresholdRelease("values", noise, UNIT, 1, 1, (1.0,), delta_of_threshold=DELTA / 2)

    def run(canary, seed):
        counts = {b"a": 12 + canary, b"b": 11}
        told = noisy_threshold(counts, event, Free(), KeyStream.seeded(seed))
        return float(b"a" in told)

    return event, run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "noise"), [(gaussian, 1.2), (laplace, 0.6), (selection, 0.6), (threshold, 1.2)]
)
def test_a_release_stays_within_its_claim_and_half_the_noise_does_not(make, noise):
    event, run = make(noise)
    claim = claim_of(event)
    honest = audit(run, float, DELTA, runs=6000)
    assert honest.epsilon <= claim
    if make in (gaussian, laplace):
        _, broken = make(noise / 4)
        assert audit(broken, float, DELTA, runs=6000).epsilon > claim


@pytest.mark.slow
def test_a_selection_with_too_little_noise_is_caught():
    event, _ = selection(2.0)
    claim = claim_of(event)
    _, broken = selection(0.25)
    assert audit(broken, float, DELTA, runs=6000).epsilon > claim


def small_fit(canary, seed, epsilon):
    """Forty rows with one label; the canary is a row with the other, in a bin of its own."""
    domain = Domain.from_dict(
        {
            "version": 1,
            "features": {"x": {"kind": "categorical", "categories": ["a", "b"]}},
            "target": {"name": "y", "classes": [0, 1]},
        }
    )
    x, y = ["a"] * 40 + ["b"] * canary, [0] * 40 + [1] * canary
    model = PrivBoostClassifier(
        epsilon,
        DELTA,
        domain,
        n_estimators=4,
        gradient_clip=0.5,
        random_state=seed,
        reg_lambda=0.1,
        hessian_share=0.01,
        leaf_clip=50.0,
    )
    model.fit(np.array(x, dtype=object)[:, None], y)
    return float(model.decision_function([["b"]])[0])


@pytest.mark.slow
def test_a_whole_fit_stays_within_its_claim_and_half_the_noise_does_not():
    claim = 1.0
    honest = audit(lambda c, s: small_fit(c, s, claim), float, DELTA, runs=1500)
    assert honest.epsilon <= claim
    broken = audit(lambda c, s: small_fit(c, s, 8.0), float, DELTA, runs=1500)
    assert broken.epsilon > claim


def test_the_bound_is_never_above_the_truth():
    """Randomised response tells the truth with chance e^ε/(1 + e^ε)."""
    epsilon = 1.0
    honest = math.exp(epsilon) / (1 + math.exp(epsilon))

    def run(canary, seed):
        truth = np.random.default_rng(seed).random() < honest
        return float(canary == truth)

    found = audit(run, float, 0.0, runs=4000)
    assert 0.6 < found.epsilon <= epsilon


def test_counts_that_tell_nothing_bound_nothing():
    assert epsilon_lower_bound(0, 0, 100, 1e-5, 0.99) == 0
    assert epsilon_lower_bound(100, 100, 100, 1e-5, 0.99) == 0
