import math
import os

import pytest

from bench.closed_forms import bounded_range_delta
from privboost.accounting.accountants import (
    AdvancedAccountant,
    BoundedRangeAccountant,
    GdpAccountant,
    PldAccountant,
    PureAccountant,
    RdpAccountant,
    choose_accountant,
    compare_accountants,
)
from privboost.accounting.calibration import by_shares, calibrate
from privboost.accounting.events import Planned, Relation
from privboost.accounting.formulas import gdp_epsilon, laplace_rdp
from privboost.accounting.noisy_sums import GaussianRelease, LaplaceRelease, ThresholdRelease
from tests.accounting.accountant_suite import AccountantSuite, gaussian, laplace, selection


class TestGdp(AccountantSuite):
    accountant, event, other = GdpAccountant(), gaussian(10.0), laplace(0.1)

    def test_noise_of_a_few_units_is_not_taken_for_free(self):
        coarse = GaussianRelease("sums", 0.5, 1, 1, 1, (1.0,))
        curve = self.accountant.compose([Planned(coarse, 200)])
        assert curve.epsilon(1e-6) > 1000

    def test_samples_are_not_covered(self):
        assert not self.accountant.supports([Planned(gaussian(10.0, rate=0.1), 1)])


class TestPure(AccountantSuite):
    accountant, event, other = PureAccountant(), laplace(0.1), gaussian(10.0)

    def test_epsilon_adds_up_at_delta_zero(self):
        events = [Planned(laplace(0.1), 3), Planned(selection(0.25), 2)]
        assert self.accountant.compose(events).epsilon(0.0) == pytest.approx(0.8, rel=1e-12)

    def test_sampling_amplifies(self):
        """Twenty trees of Sarus at γ = 0.1: what a tree may spend for a total of 1."""
        events = [Planned(laplace(0.4139033814, rate=0.1), 20)]
        assert self.accountant.compose(events).epsilon(0.0) == pytest.approx(1.0, rel=1e-9)

    def test_the_curve_is_that_of_a_lying_coin(self):
        curve = self.accountant.compose([Planned(laplace(1.0), 1)])
        assert curve.epsilon(math.tanh(0.5) * (1 - 1e-9)) == pytest.approx(0.0, abs=1e-8)
        assert curve.epsilon(0.0) == pytest.approx(1.0, rel=1e-9)


class TestRdp(AccountantSuite):
    accountant, event = RdpAccountant(), gaussian(10.0, rate=0.2)

    def test_orders_beyond_two_thousand(self):
        """ε = 0.02 at δ = 5e-8 needs them."""
        events = [Planned(gaussian(21.45 / math.sqrt(2), rate=0.005), 200)]
        assert self.accountant.compose(events).epsilon(5e-8) == pytest.approx(0.02, rel=2e-3)

    def test_discrete_laplace_noise_is_covered(self):
        """At a distance of one unit the discrete Laplace is a lying coin, worse than Laplace."""
        coarse = LaplaceRelease("one cell", 2.0, 1, 1, 1, (1.0,))
        epsilon = 0.5
        p = math.exp(epsilon) / (1 + math.exp(epsilon))
        for alpha in (2, 5, 40):
            coin = math.log(
                p**alpha * (1 - p) ** (1 - alpha) + (1 - p) ** alpha * p ** (1 - alpha)
            ) / (alpha - 1)
            assert coarse.rdp(alpha) >= coin > laplace_rdp(alpha, epsilon)


class TestPld(AccountantSuite):
    accountant, event, other = PldAccountant(), gaussian(10.0, rate=0.2), selection(0.1)

    def test_agrees_with_gdp_on_full_batches(self):
        events = [Planned(gaussian(20.0), 50)]
        exact = GdpAccountant().compose(events).epsilon(1e-6)
        assert exact <= self.accountant.compose(events).epsilon(1e-6) <= exact * 1.002

    def test_laplace_and_gaussian_together(self):
        """A reference value, computed apart from this project."""
        events = [Planned(laplace(0.3), 1), Planned(gaussian(1 / 0.3), 1)]
        profile = self.accountant.compose(events)
        assert profile.ideal_epsilon(0.0007331566627) == pytest.approx(1.0, rel=2e-4)

    def test_tiny_deltas_are_refused(self):
        with pytest.raises(ValueError, match="below what pld can resolve"):
            self.curve(10).epsilon(1e-20)


class TestGame(AccountantSuite):
    accountant, event = BoundedRangeAccountant(), selection(0.1)

    def test_one_selection_is_its_own_profile(self):
        curve = self.accountant.compose([Planned(selection(1.0), 1)])
        assert curve.ideal_epsilon(bounded_range_delta(0.5, 1.0)) == pytest.approx(0.5, rel=1e-6)

    def test_tighter_than_renyi_and_pure(self):
        events = [Planned(selection(0.05), 60)]
        found = compare_accountants(events, 1e-5)
        assert found["game"] < found["rdp"] < found["pure"]
        assert found["game"] == pytest.approx(0.701, abs=0.0025)

    def test_with_gaussians_among_them(self):
        """The mix costs more than each part and less than both added."""
        choices, sums = Planned(selection(0.05), 30), Planned(gaussian(20.0), 40)
        both = self.accountant.compose([choices, sums]).epsilon(1e-5)
        alone = [
            self.accountant.compose([choices]).epsilon(1e-5),
            GdpAccountant().compose([sums]).epsilon(1e-5),
        ]
        assert max(alone) < both < sum(alone)

    def test_losses_by_distribution_and_in_closed_form_agree(self):
        choices, sums = Planned(selection(0.05), 30), Planned(gaussian(20.0), 40)
        closed = self.accountant.compose([choices, sums]).epsilon(1e-5)
        whisper = Planned(laplace(1e-4), 1)  # forces the distribution
        mixed = self.accountant.compose([choices, sums, whisper]).epsilon(1e-5)
        assert closed < mixed < closed * 1.01

    def test_ranges_may_differ(self):
        events = [Planned(selection(0.1), 5), Planned(selection(0.033), 20)]
        cost = self.accountant.compose(events).epsilon(1e-5)
        loosest = self.accountant.compose([Planned(selection(0.1), 25)]).epsilon(1e-5)
        assert self.accountant.compose(events[:1]).epsilon(1e-5) < cost < loosest


def test_auto_takes_the_tightest_that_covers():
    for events, name in (
        ([Planned(gaussian(5.0), 3)], "gdp"),
        ([Planned(gaussian(5.0, rate=0.1), 3)], "pld"),
        ([Planned(gaussian(5.0), 3), Planned(laplace(0.1), 1)], "pld"),
        ([Planned(gaussian(5.0), 3), Planned(selection(0.1), 1)], "game"),
    ):
        assert choose_accountant("auto", events, 1e-5).name == name
        found = compare_accountants(events, 1e-5)
        assert min(found, key=found.get) == name
    assert choose_accountant("auto", [Planned(laplace(0.1), 3)], 0.0).name == "pure"


@pytest.mark.parametrize("kind", ["pld", "rdp", "gdp"])
def test_a_threshold_with_half_of_delta_is_covered_by_all(kind):
    event = ThresholdRelease("values", 30.0, 2**16, 1, 1, (1.0,), delta_of_threshold=5e-6)
    cost = choose_accountant(kind, [Planned(event, 1)], 1e-5).compose([Planned(event, 1)])
    assert cost.epsilon(1e-5) < 1


def test_sampling_is_for_units_of_one_row_that_come_and_go():
    for bad in ({"rows": 2}, {"relation": Relation.REPLACE_ONE}):
        form = {"what": "x", "noise": 1.0, "steps": 2**16, "cells": 1, "rows": 1, "shares": (1.0,)}
        with pytest.raises(ValueError, match="of one row"):
            GaussianRelease(**(form | bad), sampling_rate=0.5)


def test_a_threshold_adds_its_delta():
    plain = gaussian(10.0)
    counted = ThresholdRelease("values", 10.0, 2**16, 1, 1, (0.5, 0.5), delta_of_threshold=4e-6)
    with_it = GdpAccountant().compose([Planned(counted, 2)])
    assert with_it.epsilon(1e-5) == pytest.approx(
        GdpAccountant().compose([Planned(plain, 2)]).epsilon(2e-6), rel=1e-6
    )
    assert with_it.epsilon(8e-6) == math.inf


@pytest.mark.parametrize(
    ("name", "events", "delta", "words"),
    [
        ("magic", [Planned(gaussian(5.0), 1)], 1e-5, "accountant must be one of"),
        ("gdp", [Planned(laplace(1.0), 1)], 1e-5, "does not cover"),
        ("auto", [Planned(gaussian(5.0), 1)], 0.0, "pure DP"),
        ("gdp", [Planned(laplace(5.0), 1)], 0.0, "needs delta above 0"),
        ("pure", [Planned(gaussian(5.0), 1)], 1e-5, "does not cover"),
    ],
)
def test_bad_choices(name, events, delta, words):
    with pytest.raises(ValueError, match=words):
        choose_accountant(name, events, delta)


class TestAdvanced(AccountantSuite):
    accountant, event, other = AdvancedAccountant(), laplace(0.05), gaussian(10.0)

    def test_is_the_classical_formula_or_the_plain_sum(self):
        delta = 1e-5
        many = self.accountant.compose([Planned(laplace(0.05), 400)]).epsilon(delta)
        drift = 400 * 0.05 * math.expm1(0.05)
        assert many == pytest.approx(0.05 * math.sqrt(2 * 400 * math.log(1 / delta)) + drift)
        few = self.accountant.compose([Planned(laplace(0.05), 4)]).epsilon(delta)
        assert few == pytest.approx(0.2)

    def test_looser_than_the_game(self):
        found = compare_accountants([Planned(selection(0.05), 60)], 1e-5)
        assert found["game"] < found["rdp"] < found["advanced"]


PLANS = {
    "advanced": [Planned(laplace(1.0), 20), Planned(selection(1.0), 20)],
    "gdp": [Planned(gaussian(1.0), 1000)],
    "rdp": [Planned(gaussian(1.0, rate=0.1), 1000)],
    "pld": [Planned(gaussian(1.0, rate=0.1), 1000)],
    "pure": [Planned(laplace(1.0), 20), Planned(selection(1.0), 20)],
    "game": [Planned(gaussian(1.0), 50), Planned(selection(1.0), 150)],
}


@pytest.mark.parametrize("name", PLANS)
def test_calibration_spends_all_and_no_more(name, tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVBOOST_CACHE", str(tmp_path))
    accountant = choose_accountant(name, PLANS[name], 1e-6)
    made = calibrate(PLANS[name], 1.0, 1e-6, accountant)
    assert 0.99 <= accountant.compose(made).epsilon(1e-6) <= 1.0
    again = calibrate(PLANS[name], 1.0, 1e-6, accountant)
    assert [p.event.noise for p in again] == [p.event.noise for p in made]
    assert bool(list(tmp_path.iterdir())) == (name not in ("gdp", "pure"))


def test_a_spoiled_cache_is_not_believed(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVBOOST_CACHE", str(tmp_path))
    accountant = choose_accountant("rdp", PLANS["rdp"], 1e-6)
    made = calibrate(PLANS["rdp"], 1.0, 1e-6, accountant)
    wrong = ["1e-3", '"x"', "1e300", "1e-300", "Infinity", "NaN", "true", "[1.0]", "9" * 5000]
    for text in ("nonsense", "[" * 200_000, "[]", *(f'{{"factor": {part}}}' for part in wrong)):
        next(tmp_path.iterdir()).write_text(text)
        again = calibrate(PLANS["rdp"], 1.0, 1e-6, accountant)
        assert again[0].event.noise == pytest.approx(made[0].event.noise, rel=0.01)


def test_a_cache_is_written_through_no_link_that_somebody_laid(tmp_path, monkeypatch):
    """Its temporary file has a name that nobody can foresee, and was not there before."""
    monkeypatch.setenv("PRIVBOOST_CACHE", str(tmp_path / "cache"))
    accountant = choose_accountant("rdp", PLANS["rdp"], 1e-6)
    made = calibrate(PLANS["rdp"], 1.0, 1e-6, accountant)
    (file,) = (tmp_path / "cache").iterdir()
    content = file.read_bytes()
    file.unlink()
    dear = tmp_path / "dear"
    dear.write_bytes(b"dear to me")
    file.with_suffix(f".{os.getpid()}").symlink_to(dear)
    opened = []
    plainly = os.open

    def watched(path, flags, *more, **how):
        opened.append((str(path), flags))
        return plainly(path, flags, *more, **how)

    monkeypatch.setattr(os, "open", watched)
    again = calibrate(PLANS["rdp"], 1.0, 1e-6, accountant)
    assert again[0].event.noise == made[0].event.noise
    assert (dear.read_bytes(), file.read_bytes()) == (b"dear to me", content)
    ((_, flags),) = [each for each in opened if "cache" in each[0]]
    assert flags & os.O_EXCL


def test_shares_are_of_mu_squared():
    parts = [(Planned(gaussian(7.0), 10), 3.0), (Planned(selection(0.5), 5), 1.0)]
    sums, choice = by_shares(parts)
    weights = [10 / sums.event.noise**2, 5 / choice.event.noise**2 / 4]
    assert weights[0] / weights[1] == pytest.approx(3.0)
    sampled = by_shares([(Planned(gaussian(7.0, rate=0.1), 10), 3.0), parts[1]])
    assert sampled[0].event.noise == pytest.approx(0.1 * sums.event.noise)
    assert len(by_shares([*parts, (Planned(laplace(1.0), 1), 0.0)])) == 2
    for bad in (-1.0, math.nan, 0.0):
        with pytest.raises(ValueError, match="shares"):
            by_shares([(Planned(gaussian(1.0), 1), bad)])


def test_conversion_to_replace_one():
    from privboost.accounting.formulas import replace_one

    epsilon, delta = replace_one(1.0, 1e-6)
    assert epsilon == 2.0
    assert delta == pytest.approx((1 + math.e) * 1e-6)
    # Gaussian noise: replacing doubles the sensitivity, which costs less than the conversion.
    assert gdp_epsilon(2 * 0.2367043807, 3.7182818e-6) < 2.0
