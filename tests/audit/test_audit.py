"""Audits of releases and of whole fits: within the claim, and beyond it for a planted bug."""

import math
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from privboost import (
    BoostedAdaSSPClassifier,
    DPXGBClassifier,
    LazyBBClassifier,
    PrivBoostClassifier,
    SarusXGBClassifier,
    SBDTClassifier,
    evaluate,
)
from privboost._core.grid import CLIP_STEPS, VECTOR_STEPS, WEIGHT_STEPS, Contribution
from privboost.accounting.accountants import choose_accountant
from privboost.accounting.events import Planned, Selection
from privboost.accounting.formulas import gdp_epsilon, gdp_mu
from privboost.accounting.noisy_sums import (
    GaussianRelease,
    GramRelease,
    LaplaceRelease,
    ThresholdRelease,
)
from privboost.audit import audit, epsilon_lower_bound
from privboost.data import contribution_bound
from privboost.data.design_matrix import Terms
from privboost.data.rows import Codes, Layout, Rows
from privboost.engine.backend import LocalBackend
from privboost.engine.queries import COUNT, GRADIENT_COUNT, CellSums, GramSums, NodeHistograms
from privboost.engine.updates import SetTerms, Start
from privboost.losses.logistic import LOGISTIC
from privboost.losses.squared import SQUARED_NUMBER
from privboost.mechanisms import individual_filter
from privboost.mechanisms.curator import Curator, noisy_threshold
from privboost.mechanisms.utilities import LeafClass, RuleError, SplitGain
from privboost.randomness.keystream import KeyStream
from privboost.trees.cell_map import CellMap
from privboost.trees.splits import join_splits
from privboost.trees.tree import stump
from tests.mechanisms.largest_cell import LargestCell

RUNS = 3000
"""How often a single release is made: a part of its noise then shows by a margin of 0.4 in ε."""

COUNTS = CellSums(CellMap.of_feature(0, np.arange(2)), statistics=COUNT)
PAIRS = CellSums(CellMap.of_feature(0, np.arange(2)))


class Free:
    """A ledger that charges nothing: an audit's runs are not releases."""

    def charge(self, event):
        pass


def claim_of(event, delta):
    planned = [Planned(event, 1)]
    return choose_accountant("auto", planned, delta).compose(planned).epsilon(delta)


def curator_for(canary, seed):
    """Seven rows in two cells; the canary is one more row, in the emptier one."""
    cells = [0, 0, 0, 1, 1, 1, 1] + [0] * canary
    rows = len(cells)
    nothing = np.zeros((0, rows), np.uint16)
    block = Rows(
        Codes(Layout((2,)), np.array([cells], np.uint8), nothing), np.zeros(rows, np.uint8)
    )
    curator = Curator(LocalBackend([block]), Free(), KeyStream.seeded(seed), Contribution())
    curator.publish(Start(SQUARED_NUMBER.table(1.0, 1.0)))
    return curator


def gaussian(noise):
    event = GaussianRelease("counts", noise, CLIP_STEPS, 1, 1, (1.0,))
    return event, lambda canary, seed: curator_for(canary, seed).sums(COUNTS, event)[0, 0]


def laplace(noise):
    event = LaplaceRelease("counts", noise, CLIP_STEPS, 1, 1, (1.0,))
    return event, lambda canary, seed: curator_for(canary, seed).sums(COUNTS, event)[0, 0]


def selection(noise):
    event = Selection("the fullest cell", noise)

    def run(canary, seed):
        return float(curator_for(canary, seed).select(PAIRS, LargestCell(), event)[0] == 0)

    return event, run


def threshold(noise):
    event = ThresholdRelease("values", noise, CLIP_STEPS, 1, 1, (1.0,), delta_of_threshold=0.02)
    common = 2 + 2 * noise  # near the threshold, where one row tells most

    def run(canary, seed):
        counts = {b"a": round(common) + canary}
        told = noisy_threshold(lambda: counts, event, Free(), KeyStream.seeded(seed))
        return float(b"a" in told)

    return event, run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "noise", "delta", "part"),
    [
        (gaussian, 1.2, 0.05, 2),
        (laplace, 0.8, 0.0, 2),
        (selection, 1.0, 0.0, 3),  # what is chosen tells less
        (threshold, 1.2, 0.05, None),
    ],
)
def test_a_release_stays_within_its_claim_and_a_part_of_the_noise_does_not(
    make, noise, delta, part
):
    """A claim holds at every δ, so each mechanism is audited where one row shows most."""
    event, run = make(noise)
    claim = claim_of(event, delta)
    assert audit(run, float, delta, runs=RUNS).epsilon <= claim
    if part is not None:
        _, broken = make(noise / part)
        assert audit(broken, float, delta, runs=RUNS).epsilon > claim


DOMAIN = {
    "version": 1,
    "features": {"x": {"kind": "categorical", "categories": ["a", "b"]}},
    "target": {"name": "y", "classes": [0, 1]},
}


def small_fit(canary, seed):
    """Forty rows of one class; the canary is a row of the other, in a bin of its own.

    One answer has nearly all of the budget: of several, the effect tells no more than a part.
    """
    x, y = ["a"] * 40 + ["b"] * canary, [0] * 40 + [1] * canary
    model = PrivBoostClassifier(
        4.0,
        1e-5,
        DOMAIN,
        n_estimators=1,
        gradient_clip=0.5,
        hessian_share=0.01,
        init_share=0.001,
        calibration_share=0.0,
        random_state=seed,
    )
    model.fit(np.array(x, dtype=object)[:, None], y)
    return float(model.model_.scores.values[0][0, 1])


def halve_the_noise(monkeypatch):
    honest = GaussianRelease.scales.func
    monkeypatch.setattr(GaussianRelease, "scales", property(lambda event: honest(event) / 2))


@pytest.mark.slow
def test_a_whole_fit_stays_within_its_claim_and_half_the_noise_does_not(monkeypatch):
    delta = 0.05
    claim = gdp_epsilon(gdp_mu(4.0, 1e-5), delta)
    assert audit(small_fit, float, delta, runs=2000).epsilon <= claim
    halve_the_noise(monkeypatch)
    assert audit(small_fit, float, delta, runs=2000).epsilon > claim


def shared_fit(canary, seed):
    """The same where a row is a unit, but for the canary: five rows that weigh one together."""
    rows = 5 * canary
    table = {"x": ["a"] * 40 + ["b"] * rows, "y": [0] * 40 + [1] * rows}
    table["who"] = [*range(40), *[99] * rows]
    unit = {"column": "who", "max_rows": 5, "weighting": "units"}
    model = PrivBoostClassifier(
        4.0,
        1e-5,
        DOMAIN | {"unit": unit},
        n_estimators=1,
        gradient_clip=0.5,
        hessian_share=0.01,
        init_share=0.001,
        calibration_share=0.0,
        random_state=seed,
    )
    model.fit(pa.table(table))
    return float(model.model_.scores.values[0][0, 1])


@pytest.mark.slow
def test_a_unit_that_weighs_one_stays_within_its_claim_and_five_rows_do_not(monkeypatch):
    """The twin leaves each row all of the weight, under noise for one."""
    delta = 0.05
    claim = gdp_epsilon(gdp_mu(4.0, 1e-5), delta)
    assert audit(shared_fit, float, delta, runs=1500).epsilon <= claim
    monkeypatch.setattr(
        contribution_bound,
        "weight_shares",
        lambda unit, ranks, keep: np.where(keep, WEIGHT_STEPS, 0).astype(np.uint16),
    )
    assert audit(shared_fit, float, delta, runs=1500).epsilon > claim


SBDT = {"n_estimators": 4, "max_depth": 5, "gradient_clip": 0.5, "hessian_share": 0.01}
SBDT |= {"reg_lambda": 1000.0, "leaf_clip": 50.0, "init_share": 0.0, "calibration_share": 0.0}


def random_tree_fit(canary, seed, **how):
    """The same table; each tree is deep enough to single out both categories."""
    x, y = ["a"] * 40 + ["b"] * canary, [0] * 40 + [1] * canary
    model = SBDTClassifier(4.0, 1e-5, DOMAIN, random_state=seed, **(SBDT | how))
    model.fit(np.array(x, dtype=object)[:, None], y)
    return float(model.decision_function([["b"]])[0])


@pytest.mark.slow
def test_random_trees_stay_within_their_claim_and_half_the_noise_does_not(monkeypatch):
    delta = 0.05
    claim = gdp_epsilon(gdp_mu(4.0, 1e-5), delta)
    assert audit(random_tree_fit, float, delta, runs=2000).epsilon <= claim
    filtered = partial(random_tree_fit, n_estimators=2, extra_estimators=6)
    assert audit(filtered, float, delta, runs=2000).epsilon <= claim
    halve_the_noise(monkeypatch)
    assert audit(random_tree_fit, float, delta, runs=2000).epsilon > claim


@pytest.mark.slow
def test_a_filter_that_never_drops_anybody_is_caught(monkeypatch):
    """The twin charges nothing: twenty times the releases, paid for once."""
    delta = 0.05
    claim = gdp_epsilon(gdp_mu(4.0, 1e-5), delta)
    many = partial(random_tree_fit, n_estimators=1, extra_estimators=19)
    assert audit(many, float, delta, runs=1000).epsilon <= claim
    monkeypatch.setattr(
        individual_filter, "_in_steps", lambda part: np.zeros(part.shape, dtype=np.int32)
    )
    assert audit(many, float, delta, runs=1000).epsilon > claim


def split_choice(noise):
    """Twenty rows of one sign, which no split parts better than another, until one row of the
    other sign stands alone in the first cell: it raises one score by 1 and lowers the others by 3.
    """
    splits = join_splits([(0, np.arange(4), False, False)])
    event = Selection("a split", noise)

    def run(canary, seed):
        odd = 0 if canary else 1  # the row is there in the other half of the runs
        codes = np.array([[1] * 10 + [2] * 10 + [0] * odd], np.uint8)
        rows = codes.shape[1]
        label = np.array([0] * 20 + [1] * odd, np.uint8)
        block = Rows(Codes(Layout((4,)), codes, np.zeros((0, rows), np.uint16)), label)
        curator = Curator(LocalBackend([block]), Free(), KeyStream.seeded(seed), Contribution())
        curator.publish(Start(LOGISTIC.table(0.5, 0.25)))
        query = NodeHistograms(stump(), splits.cells, 0, GRADIENT_COUNT)
        return float(curator.select(query, SplitGain(splits, 0.01), event)[0] != 1)

    return event, run


@pytest.mark.slow
def test_a_choice_of_splits_stays_within_its_claim_and_a_third_of_the_noise_does_not():
    event, run = split_choice(0.4)
    claim = claim_of(event, 0.0)
    assert audit(run, float, 0.0, runs=RUNS).epsilon <= claim
    _, broken = split_choice(0.4 / 3)
    assert audit(broken, float, 0.0, runs=RUNS).epsilon > claim


def greedy_fit(canary, seed, kind=DPXGBClassifier, **how):
    x, y = ["a"] * 40 + ["b"] * canary, [0] * 40 + [1] * canary
    model = kind(domain=DOMAIN, random_state=seed, n_estimators=2, max_depth=1, init_share=0, **how)
    model.fit(np.array(x, dtype=object)[:, None], y)
    scores = model.decision_function([["b"], ["a"]])
    return float(scores[0] - scores[1])


@pytest.mark.slow
def test_greedy_fits_stay_within_their_claim():
    delta = 0.05
    how = {"epsilon": 4.0, "delta": 1e-5, "accountant": "rdp", "reg_lambda": 1000.0}
    assert audit(partial(greedy_fit, **how), float, delta, runs=1500).epsilon <= 4.0
    pure = {"kind": SarusXGBClassifier, "epsilon": 2.0, "shares": (0.0, 0.3, 0.7)}
    for subsample in (1.0, 0.5):
        run = partial(greedy_fit, subsample=subsample, reg_lambda=1000.0, **pure)
        assert audit(run, float, 0.0, runs=1500).epsilon <= 2.0


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


VOTE_DOMAIN = {
    "version": 1,
    "features": {"x": {"kind": "categorical", "categories": ["a", "b"]}},
    "target": {"name": "y", "classes": [0, 1]},
}


def vote(canary, seed, learner="rule", epsilon=1.0):
    """Nine rows alike, of which one is of either class: one choice of a class for all."""
    x, y = np.array(["a"] * 9, dtype=object)[:, None], [1] * 5 + [0] * 3 + [int(canary)]
    model = LazyBBClassifier(
        epsilon,
        0.0,
        VOTE_DOMAIN,
        n_estimators=1,
        density=1.0,
        learner=learner,
        n_splits=1,
        label_share=0.999,
        calibration_share=0.0,
        random_state=seed,
    )
    return float(model.fit(x, y).decision_function([["a"]])[0])


@pytest.mark.slow
@pytest.mark.parametrize("learner", ["rule", "tree"])
def test_a_vote_stays_within_its_claim_and_a_third_of_the_range_does_not(learner, monkeypatch):
    run = partial(vote, learner=learner)
    assert audit(run, float, 0.0, runs=2000).epsilon <= 1.0
    for utility in (RuleError, LeafClass):
        monkeypatch.setattr(utility, "widest", utility.widest // 3)
    assert audit(run, float, 0.0, runs=2000).epsilon > 1.0


def linear_fit(canary, seed):
    """The canary is alone in a table of one column; nearly all goes to its gradient."""
    domain = VOTE_DOMAIN | {"features": {"x": {"kind": "categorical", "categories": ["b"]}}}
    model = BoostedAdaSSPClassifier(
        4.0,
        1e-5,
        domain,
        n_estimators=1,
        gradient_clip=0.5,
        ratio=(0.05, 1.0, 0.0),
        intercept=False,
        random_state=seed,
    )
    model.fit(np.array(["b"] * canary, dtype=object)[:, None], [1] * canary)
    return float(model.decision_function([["b"]])[0])


@pytest.mark.slow
def test_a_linear_fit_stays_within_its_claim_and_half_the_noise_does_not(monkeypatch):
    delta = 0.05
    claim = gdp_epsilon(gdp_mu(4.0, 1e-5), delta)
    assert audit(linear_fit, float, delta, runs=2000).epsilon <= claim
    halve_the_noise(monkeypatch)
    assert audit(linear_fit, float, delta, runs=2000).epsilon > claim


def matrix_fit(canary, seed):
    """The canary is the only row of its column: what the matrix tells of it is told alone."""
    event = GramRelease("matrix", 1.2, VECTOR_STEPS**2, 1, 1, (1.0,), coordinates=1)
    curator = curator_for(canary, seed)
    one = np.array([0, 1], dtype=np.int32)
    whole = np.full(2, VECTOR_STEPS, dtype=np.int32)
    curator.publish(SetTerms(Terms(((0, -1),), (one,), (whole,), 2)))
    query = GramSums(2, 1, np.full(2, VECTOR_STEPS))
    return float(curator.gram(query, event)[0, 0])


@pytest.mark.slow
def test_a_matrix_stays_within_its_claim_and_half_the_noise_does_not(monkeypatch):
    delta = 0.05
    claim = gdp_epsilon(1 / 1.2, delta)
    assert audit(matrix_fit, float, delta, runs=RUNS).epsilon <= claim
    halve_the_noise(monkeypatch)
    assert audit(matrix_fit, float, delta, runs=RUNS).epsilon > claim


def evaluated(canary, seed, delta, by, model):
    """Forty rows of one class; the canary is a row of the other, alone in its cells."""
    x, y = ["a"] * 40 + ["b"] * canary, [0] * 40 + [1] * canary
    how = {"epsilon": 1.5, "delta": delta, "by": by, "score_cells": 4, "random_state": seed}
    return evaluate(model, np.array(x, dtype=object)[:, None], y, **how)


class Told:
    """Keeps what was released of the cells that the canary is in: of it, all that tells most."""

    def __init__(self, monkeypatch):
        honest, self.rows = Curator.sums, 0.0

        def sums(curator, query, event):
            told = honest(curator, query, event)
            at = [
                first + place for first, place in zip(query.cells.first, self.places, strict=True)
            ]
            self.rows = float(told[at, 0].sum())
            return told

        monkeypatch.setattr(Curator, "sums", sums)

    def run(self, canary, seed, **how):
        evaluated(canary, seed, **how)
        return self.rows


@pytest.fixture
def small_model():
    x, y = np.array(["a", "b"] * 20, dtype=object)[:, None], [0, 1] * 20
    return PrivBoostClassifier(9.0, 1e-5, DOMAIN, n_estimators=2, random_state=0).fit(x, y)


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 0.05], ids=["Laplace", "Gaussian"])
def test_an_evaluation_stays_within_its_claim_and_half_the_noise_does_not(
    delta, small_model, monkeypatch
):
    """The canary is in a cell of hits and one of scores, of all rows and of its group."""
    told = Told(monkeypatch)
    cell = int(small_model.decision_function([["b"]])[0] > 0)
    side = np.searchsorted([-5, 0, 5], small_model.decision_function([["b"]])[0])
    hits, scores = 2 + cell, 2 * int(side) + 1
    told.places = [hits, scores, 4 + hits, 8 + scores]
    how = {"delta": delta, "by": "x", "model": small_model}
    run = partial(told.run, **how)
    event = "Laplace" if delta == 0 else "Gaussian"
    assert event in evaluated(True, 1, **how).privacy.releases[0].mechanism
    assert audit(run, float, delta, runs=1500).epsilon <= 1.5
    for kind in (GaussianRelease, LaplaceRelease):
        whole = kind.scales.func if kind is GaussianRelease else kind.scales.fget
        monkeypatch.setattr(kind, "scales", property(lambda own, whole=whole: whole(own) / 3))
    assert audit(run, float, delta, runs=1500).epsilon > 1.5
