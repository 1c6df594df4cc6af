"""What every accountant must do: tests that each accountant's own test class inherits."""

import math
from dataclasses import replace

import pytest

from privboost.accounting.events import Planned, Relation, Selection
from privboost.accounting.noisy_sums import GaussianRelease, LaplaceRelease


def gaussian(z, rate=1.0):
    return GaussianRelease("sums", z, 2**16, 1, 1, (0.5, 0.5), rate)


def laplace(epsilon, rate=1.0):
    return LaplaceRelease("sums", 1 / epsilon, 2**16, 1, 1, (0.5, 0.5), rate)


def selection(epsilon):
    return Selection("a choice", 1 / epsilon)


class AccountantSuite:
    """Inherit and give `accountant`, `event` (one it covers), `other` (one it does not)."""

    accountant = None
    event = None
    other = None
    least_delta = 1e-12

    def curve(self, count, noise=1.0):
        return self.accountant.compose([Planned(self.event.scaled(noise), count)])

    def test_says_what_it_covers(self):
        assert self.accountant.supports([Planned(self.event, 3)])
        if self.other is not None:
            assert not self.accountant.supports([Planned(self.other, 1)])
            with pytest.raises(ValueError, match="does not cover"):
                self.accountant.compose([Planned(self.event, 1), Planned(self.other, 1)])

    def test_relations_do_not_mix(self):
        other = replace(self.event, relation=Relation.REPLACE_ONE, sampling_rate=1.0)
        mixed = [Planned(self.event, 1), Planned(other, 1)]
        assert not self.accountant.supports(mixed)
        with pytest.raises(ValueError, match="relations"):
            self.accountant.compose(mixed)

    def test_more_releases_cost_more(self):
        costs = [self.curve(k).epsilon(1e-5) for k in (1, 4, 16)]
        assert costs == sorted(costs)
        assert costs[0] < costs[-1] < math.inf

    def test_more_noise_costs_less(self):
        costs = [self.curve(10, noise).epsilon(1e-5) for noise in (0.5, 1.0, 2.0)]
        assert costs == sorted(costs, reverse=True)
        assert costs[0] > 1.5 * costs[-1]

    def test_a_smaller_delta_costs_more(self):
        costs = [self.curve(10).epsilon(delta) for delta in (1e-9, 1e-6, 1e-3)]
        assert costs == sorted(costs, reverse=True)

    def test_splitting_a_plan_changes_nothing(self):
        whole = self.curve(12).epsilon(1e-6)
        parts = [Planned(self.event, 5), Planned(self.event, 7), Planned(self.event, 0)]
        assert self.accountant.compose(parts).epsilon(1e-6) == pytest.approx(whole, rel=2e-3)

    def test_never_below_a_lower_bound(self):
        """Two releases cost at least what one does by the loosest attack on it."""
        assert self.curve(2).epsilon(1e-6) >= self.curve(1).epsilon(1e-6)

    def test_an_empty_plan_costs_nothing(self):
        assert self.accountant.compose([]).epsilon(1e-6) == 0
