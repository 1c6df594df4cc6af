"""Laplace noise, selection, thresholds and samples: each accepted, its broken twins rejected."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from privboost._core.grid import CLIP_STEPS, Contribution
from privboost.accounting.accountants import GdpAccountant, PureAccountant
from privboost.accounting.events import Planned, Selection
from privboost.accounting.ledger import Ledger
from privboost.accounting.noisy_sums import LaplaceRelease, ThresholdRelease
from privboost.engine.queries import GRADIENT_COUNT, CellSums
from privboost.mechanisms.curator import Curator, noisy_threshold
from privboost.mechanisms.utilities import SCORE, SplitGain
from privboost.randomness.keystream import KeyStream
from privboost.randomness.noise import discrete_laplace
from privboost.randomness.sampling import bernoulli_mask
from privboost.randomness.selection import choose_each
from privboost.trees.cell_map import CellMap
from privboost.trees.splits import join_splits
from tests.mechanisms.largest_cell import LargestCell

REJECT = 1e-6


def laplace_fit(samples, scale):
    k = np.arange(-60 * scale, 60 * scale + 1)
    mass = np.exp(-np.abs(k) / scale)
    mass /= mass.sum()
    cut = np.unique(np.quantile(samples, np.linspace(0.01, 0.99, 40)).round())
    expected = np.bincount(np.searchsorted(cut, k), mass, len(cut) + 1) * len(samples)
    seen = np.bincount(np.searchsorted(cut, samples), minlength=len(cut) + 1)
    keep = expected > 5
    return stats.chi2.sf(((seen - expected)[keep] ** 2 / expected[keep]).sum(), int(keep.sum()) - 1)


@pytest.mark.parametrize("scale", [1, 10, 500])
def test_laplace_fits_its_scale_and_no_other(scale):
    samples = discrete_laplace(np.full(200_000, scale), KeyStream.seeded(21))
    assert laplace_fit(samples, scale) > REJECT
    if scale > 1:
        assert laplace_fit(samples, round(scale * 1.1)) < REJECT
        assert laplace_fit(samples, round(scale * 0.9)) < REJECT


SPLITS = join_splits(
    [(0, np.arange(6), False, True), (1, np.arange(4), True, False)]  # a number and a category
)


def frequencies(scores, rate, draws, **how):
    stream = KeyStream.seeded(22)
    scores = np.array(scores)
    seen = [
        choose_each(scores[None], None, rate, stream.child(str(k)), **how)[0] for k in range(draws)
    ]
    return np.bincount(seen, minlength=len(scores))


def selection_fit(seen, scores, temperature):
    mass = np.exp(temperature * np.array(scores, dtype=float))
    return stats.chisquare(seen, mass / mass.sum() * seen.sum()).pvalue


def test_selection_has_its_temperature_and_no_other():
    scores = [0, 1, 2, 3, 5]
    seen = frequencies(scores, Fraction(1, 2), 40_000)
    assert selection_fit(seen, scores, 0.5) > REJECT
    for wrong in (0.4, 0.6, 1.0):  # ∓ 20 %, and a range taken for half of itself
        assert selection_fit(seen, scores, wrong) < REJECT


def test_exact_choices_agree_with_quick_ones():
    case = (range(9), Fraction(1, 7), 300)
    quick, exact = frequencies(*case), frequencies(*case, margin=1.0)
    np.testing.assert_array_equal(quick, exact)


class Sums:
    def __init__(self, sums):
        self.sums = sums

    def sum(self, query):
        return self.sums

    def apply(self, update):
        pass

    def close(self):
        pass


def test_the_curator_selects_by_the_utilitys_range():
    counts = np.array([[0, 40], [0, 42], [0, 44]]) * CLIP_STEPS
    event = Selection("the fullest cell", noise=2.0)
    ledger = Ledger(1e9, 1e-6, PureAccountant())
    ledger.reserve([Planned(event, 20_000)])
    curator = Curator(Sums(counts), ledger, KeyStream.seeded(23), Contribution())
    query = CellSums(CellMap.of_feature(0, np.arange(3)), statistics=GRADIENT_COUNT)
    seen = np.bincount([curator.select(query, LargestCell(), event)[0] for _ in range(20_000)])
    assert selection_fit(seen, [40, 42, 44], 0.5) > REJECT
    assert selection_fit(seen, [40, 42, 44], 0.6) < REJECT
    assert ledger.spent[0].count == 20_000


def test_a_range_counts_only_for_the_statistics_it_is_proved_for():
    event = Selection("a split", noise=2.0)
    ledger = Ledger(1e9, 1e-6, PureAccountant())
    ledger.reserve([Planned(event, 1)])
    curator = Curator(Sums(np.zeros((3, 2))), ledger, KeyStream.seeded(1), Contribution())
    hessians = CellSums(CellMap.of_feature(0, np.arange(3)))
    with pytest.raises(ValueError, match="not proved"):
        curator.select(hessians, SplitGain(SPLITS, 1.0), event)
    assert ledger.spent == ()


def test_the_curators_laplace_has_its_scale():
    event = LaplaceRelease("sums", 3.0, CLIP_STEPS, 1, 1, (0.5, 0.5))
    ledger = Ledger(1e9, 1e-6, PureAccountant())
    ledger.reserve([Planned(event, 300)])
    curator = Curator(
        Sums(np.zeros((50, 2), np.int64)), ledger, KeyStream.seeded(2), Contribution()
    )
    query = CellSums(CellMap.of_feature(0, np.arange(50)))
    noise = np.stack([curator.sums(query, event) for _ in range(300)])
    mean = np.abs(noise).mean() / CLIP_STEPS
    assert mean == pytest.approx(6.0, rel=0.03)  # the scale is 3 · 1 / 0.5
    with pytest.raises(ValueError, match="understates"):
        curator.sums(query, LaplaceRelease("sums", 3.0, CLIP_STEPS // 2, 1, 1, (0.5, 0.5)))


def threshold_event(z=2.0, delta=0.05):
    return ThresholdRelease("values", z, CLIP_STEPS, 1, 1, (1.0,), delta_of_threshold=delta)


def told(counts, event, seed):
    ledger = Ledger(1e9, 0.5, GdpAccountant())
    ledger.reserve([Planned(event, 1)])
    return noisy_threshold(lambda: counts, event, ledger, KeyStream.seeded(seed))


def test_a_value_of_one_unit_is_seldom_told():
    event = threshold_event()
    seen = sum(len(told({b"rare": 1}, event, seed)) for seed in range(4000))
    assert stats.binomtest(seen, 4000, 0.05, alternative="greater").pvalue > REJECT
    assert stats.binomtest(seen, 4000, 0.03, alternative="greater").pvalue < REJECT
    assert told({b"common": 1000, b"other": 900}, event, 1) == [b"common", b"other"]


def test_a_values_noise_does_not_depend_on_the_others():
    event = threshold_event()
    counts = {f"v{k}".encode(): 4 for k in range(60)}
    some = {value: 4 for k, value in enumerate(counts) if k % 2}
    for seed in range(20):
        assert set(told(some, event, seed)) == set(told(counts, event, seed)) & set(some)


def test_lambda_must_be_seen_on_the_grid():
    for bad in (0.0, -1.0, 1e-6):
        with pytest.raises(ValueError, match="reg_lambda"):
            SplitGain(SPLITS, bad)


def test_samples_have_their_rate_and_follow_ids():
    ids = np.arange(200_000, dtype=np.uint64)
    mask = bernoulli_mask(KeyStream.seeded(24), ids, 0.1)
    assert stats.binomtest(int(mask.sum()), len(mask), 0.1).pvalue > REJECT
    assert stats.binomtest(int(mask.sum()), len(mask), 0.11).pvalue < REJECT
    order = np.random.default_rng(0).permutation(len(ids))
    shuffled = bernoulli_mask(KeyStream.seeded(24), ids[order], 0.1)
    np.testing.assert_array_equal(shuffled, mask[order])
    other = bernoulli_mask(KeyStream.seeded(25), ids, 0.1)
    assert (mask & other).mean() == pytest.approx(0.01, abs=0.002)
    assert bernoulli_mask(KeyStream.seeded(24), ids, 1.0).all()
    with pytest.raises(ValueError, match="rate"):
        bernoulli_mask(KeyStream.seeded(24), ids, 0.0)


def test_a_stream_is_read_one_way_only():
    stream = KeyStream.seeded(1)
    stream.words(1)
    with pytest.raises(ValueError, match="in sequence"):
        stream.words_at(np.arange(3))
    stream = KeyStream.seeded(1)
    stream.words_at(np.arange(3))
    with pytest.raises(ValueError, match="by position"):
        stream.words(1)


def split_sums(rng, rows, weighted):
    """A node's rows and its candidates' sums of gradients and weights, left of each."""
    top = 256 if weighted else 1
    weight = rng.integers(0, top + 1, rows) if weighted else np.ones(rows, dtype=np.int64)
    gradient = (
        np.where(
            rng.random(rows) < 0.5, CLIP_STEPS, rng.integers(-CLIP_STEPS, CLIP_STEPS + 1, rows)
        )
        * weight
    )
    return rng.integers(0, 6, rows), gradient, weight * CLIP_STEPS


@pytest.mark.parametrize("weighted", [False, True])
def test_the_range_of_a_split_holds_and_is_nearly_attained(weighted):
    """Adding any row moves all scores within the proved range; half of it would not do."""
    rng = np.random.default_rng(0)
    contribution = Contribution(weighted)
    utility = SplitGain(SPLITS, 0.5)

    def scores(side, g, n):
        """The code of the category goes with the number's, for a worst case in both."""
        cells = [(g[side == c].sum(), n[side == c].sum()) for c in range(6)]
        return utility.scores(np.array([cells + cells[:4]], dtype=np.int64), contribution)[0]

    widest = 0
    for _ in range(400):
        rows = int(rng.integers(1, 40))
        side, g, n = split_sums(rng, rows, weighted)
        if rng.random() < 0.3:  # the worst case: all alike, then one of the other sign
            g = np.where(side <= 2, -1, 1) * n
            g[-1] = -g[-1]
        change = scores(side, g, n) - scores(side[:-1], g[:-1], n[:-1])
        widest = max(widest, change.max() - change.min())
    assert widest <= utility.range(contribution)
    assert widest > 0.5 * utility.range(contribution)
    assert utility.range(contribution) < 4.001 * SCORE


def test_each_choice_is_made_among_its_own_candidates():
    """Several choices at once have the chances of one each; what is not allowed never comes."""
    scores = np.array([[0, 1, 2, 9], [5, 0, 0, 1]])
    allowed = np.array([[True, True, True, False], [False, True, False, True]])
    stream = KeyStream.seeded(31)
    seen = np.zeros((2, 4), dtype=int)
    for k in range(20_000):
        chosen = choose_each(scores, allowed, Fraction(1, 2), stream.child(str(k)))
        seen[[0, 1], chosen] += 1
    assert not seen[~allowed].any()
    for line, mask, own in zip(seen, allowed, scores, strict=True):
        assert selection_fit(line[mask], own[mask], 0.5) > REJECT
        assert selection_fit(line[mask], own[mask], 0.6) < REJECT
    exact = choose_each(scores, allowed, Fraction(1, 2), stream.child("a"), margin=1.0)
    stream = KeyStream.seeded(31)
    np.testing.assert_array_equal(
        exact, choose_each(scores, allowed, Fraction(1, 2), stream.child("a"))
    )
