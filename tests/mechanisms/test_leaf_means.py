"""Means of leaves with Laplace noise: no row moves one by more than is claimed, and twins fail."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privboost._core.grid import CLIP_STEPS, Contribution
from privboost.accounting.accountants import PureAccountant
from privboost.accounting.events import Planned
from privboost.accounting.ledger import Ledger
from privboost.accounting.noisy_sums import LaplaceRelease
from privboost.engine.queries import COUNT, GRADIENT_COUNT, TreeSums
from privboost.mechanisms.curator import Curator
from privboost.mechanisms.sensitivity import (
    MEAN_STEPS,
    exact_means,
    lambda_steps,
    mean_steps_of_row,
    means_bound,
)
from privboost.randomness.keystream import KeyStream
from privboost.trees.tree import stump
from tests.randomness.test_distributions import REJECT, Sums, laplace_fit

LEAF = TreeSums((stump(),), 0, GRADIENT_COUNT)
GRADIENTS = st.one_of(
    st.sampled_from([-CLIP_STEPS, CLIP_STEPS]), st.integers(-CLIP_STEPS, CLIP_STEPS)
)


def mean_of(gradients, added):
    sums = [sum(gradients), CLIP_STEPS * len(gradients)]
    return int(exact_means(np.array([sums]), added)[0])


@given(
    rows=st.lists(GRADIENTS, max_size=6),
    times=st.integers(1, 50),
    more=GRADIENTS,
    reg_lambda=st.sampled_from([1e-4, 0.1, 1.0, 7.3, 1e6]),
)
def test_no_row_moves_a_mean_by_more_than_claimed(rows, times, more, reg_lambda):
    added, rows = lambda_steps(reg_lambda), rows * times
    change = mean_of([*rows, more], added) - mean_of(rows, added)
    assert abs(change) <= mean_steps_of_row(added)
    assert mean_steps_of_row(added) <= MEAN_STEPS / (1 + reg_lambda) + 1


@pytest.mark.parametrize("reg_lambda", [0.1, 1.0])
def test_the_bound_is_attained_and_smaller_ones_are_not_enough(reg_lambda):
    """An empty leaf, and one row against another: a larger least count has no say in either."""
    added = lambda_steps(reg_lambda)
    alone = mean_of([CLIP_STEPS], added) - mean_of([], added)
    against = mean_of([-CLIP_STEPS, CLIP_STEPS], added) - mean_of([-CLIP_STEPS], added)
    for change in (alone, against):
        assert mean_steps_of_row(added) - 1 <= abs(change) <= mean_steps_of_row(added)
        assert abs(change) > MEAN_STEPS * 2 / (50 + 1 + reg_lambda)  # as if leaves had 50 rows


def test_weighted_rows_would_move_a_mean_by_more_and_are_refused():
    added = lambda_steps(0.1)
    before = np.array([[-0.3 * CLIP_STEPS, 0.3 * CLIP_STEPS]]).astype(np.int64)
    after = before + CLIP_STEPS
    change = exact_means(after, added)[0] - exact_means(before, added)[0]
    assert change > 1.3 * mean_steps_of_row(added)
    with pytest.raises(ValueError, match="weighted rows"):
        means_bound(LEAF, added, Contribution(weighted=True))


@given(
    rows=st.lists(st.tuples(st.integers(0, 2), GRADIENTS), max_size=9),
    unit=st.lists(st.tuples(st.integers(0, 2), GRADIENTS), min_size=1, max_size=4),
)
def test_a_units_rows_add_up_over_leaves(rows, unit):
    added = lambda_steps(0.1)

    def means(table):
        sums = np.zeros((3, 2), dtype=np.int64)
        for leaf, gradient in table:
            sums[leaf] += [gradient, CLIP_STEPS]
        return exact_means(sums, added)

    moved = np.abs(means(rows + unit) - means(rows)).sum()
    bound = means_bound(LEAF, added, Contribution(rows=len(unit)))
    assert moved <= bound.steps == len(unit) * mean_steps_of_row(added)


def release(added, rows=1, noise=2.0):
    steps = mean_steps_of_row(added) * rows
    return LaplaceRelease("means", noise, steps=steps, cells=1, rows=rows, shares=(1.0,))


def curator_of(sums, event, count, contribution):
    ledger = Ledger(1e9, 1e-6, PureAccountant())
    ledger.reserve([Planned(event, count)])
    return Curator(Sums(np.array(sums)), ledger, KeyStream.seeded(5), contribution), ledger


def test_released_means_have_their_noise_and_no_other():
    added, count = lambda_steps(2**24 / 400), 30_000  # a coarse one: steps of a row are few
    event = release(added, noise=3.0)
    sums = [[[5 * CLIP_STEPS, 9 * CLIP_STEPS]]]
    curator, ledger = curator_of(sums, event, count, Contribution())
    seen = np.array([curator.laplace_means(LEAF, added, event)[0, 0] for _ in range(count)])
    scale = int(np.ceil(event.scales[0]))
    noise = seen - exact_means(np.array(sums), added)[0, 0]
    assert laplace_fit(noise, scale) > REJECT
    assert laplace_fit(noise, round(scale * 1.1)) < REJECT
    assert laplace_fit(noise, round(scale * 0.9)) < REJECT
    assert ledger.spent[0].count == count


def test_an_event_that_promises_less_is_refused_before_it_is_charged():
    added = lambda_steps(0.1)
    sums = [[[0, 0]]]
    honest = release(added, rows=2)
    for twin in (
        replace(honest, steps=honest.steps - 1),
        replace(honest, steps=mean_steps_of_row(added)),  # one row for two
        replace(honest, rows=1),
        release(lambda_steps(1.0), rows=2),  # the bound of another lambda
    ):
        curator, ledger = curator_of(sums, twin, 1, Contribution(rows=2))
        with pytest.raises(ValueError, match="understates"):
            curator.laplace_means(LEAF, added, twin)
        assert not ledger.spent
    curator, _ = curator_of(sums, honest, 1, Contribution(rows=2))
    with pytest.raises(ValueError, match="gradients over counts"):
        curator.laplace_means(replace(LEAF, statistics=COUNT), added, honest)
    with pytest.raises(ValueError, match="some lambda"):
        curator.laplace_means(LEAF, 0, honest)
    assert curator.laplace_means(LEAF, added, honest).shape == (1, 1)


def test_noise_that_is_too_large_is_refused_before_the_rows_are_asked():
    added = lambda_steps(0.1)
    vast = release(added, noise=2.0**25)
    curator, _ = curator_of([[[0, 0]]], vast, 1, Contribution())
    curator._backend = None
    with pytest.raises(ValueError, match="noise scales"):
        curator.laplace_means(LEAF, added, vast)
