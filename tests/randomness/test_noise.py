import math
from fractions import Fraction

import numpy as np
import pytest

from privboost.randomness import noise
from privboost.randomness.keystream import KeyStream
from privboost.randomness.noise import discrete_gaussian, discrete_laplace

SCALES = [1.0, 1.5, 2.0, 7.3, 1000.5, 2.0**16 + 0.25, 2.0**31, 2.0**44]


@pytest.mark.parametrize("sigma", SCALES)
@pytest.mark.parametrize("margin", [math.inf, 0.05])
def test_exact_arithmetic_gives_the_same_samples(sigma, margin):
    """An infinite margin decides nothing in float64; a large one sends many samples back."""
    scales = np.full(300, sigma)
    fast = discrete_gaussian(scales, KeyStream.seeded(5))
    slow = discrete_gaussian(scales, KeyStream.seeded(5), margin=margin)
    np.testing.assert_array_equal(fast, slow)


@pytest.mark.parametrize("scale", [1, 2, 7, 1000, 2**16, 2**44])
def test_exact_laplace_gives_the_same_samples(scale):
    scales = np.full(300, scale)
    fast = discrete_laplace(scales, KeyStream.seeded(5))
    slow = discrete_laplace(scales, KeyStream.seeded(5), margin=math.inf)
    np.testing.assert_array_equal(fast, slow)


def test_laplace_scales_are_whole_numbers_on_the_grid():
    for bad in (np.array([1.5]), np.array([0]), np.array([2**45])):
        with pytest.raises(ValueError, match="scales"):
            discrete_laplace(bad, KeyStream.seeded(1))


def test_no_draw_is_dropped_when_words_run_out(monkeypatch):
    """Refilled a few words at a time, the stream gives the samples it gives all at once."""
    scales = np.full(400, 12.5)
    whole = discrete_gaussian(scales, KeyStream.seeded(6))

    class Miser(KeyStream):
        def words(self, count):
            return super().words(3)

    miser = Miser(KeyStream.seeded(6)._key)
    np.testing.assert_array_equal(discrete_gaussian(scales, miser), whole)
    miser = Miser(KeyStream.seeded(6)._key)
    np.testing.assert_array_equal(discrete_gaussian(scales, miser, margin=math.inf), whole)


def test_scales_may_differ_within_a_vector():
    scales = np.tile([2.0, 3000.0], 5000)
    drawn = discrete_gaussian(scales, KeyStream.seeded(7))
    assert drawn[::2].std() == pytest.approx(2, rel=0.03)
    assert drawn[1::2].std() == pytest.approx(3000, rel=0.03)


@pytest.mark.parametrize("sigma", [0.5, 0, -1, math.nan, math.inf, 2.0**45])
def test_scales_beyond_the_grid_are_refused(sigma):
    with pytest.raises(ValueError, match="noise scales"):
        discrete_gaussian(np.array([2.0, sigma]), KeyStream.seeded(1))


def test_an_empty_vector():
    assert discrete_gaussian(np.empty(0), KeyStream.seeded(1)).size == 0


def test_the_constant_of_the_geometric_steps():
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(40):
        assert int(mpmath.floor(mpmath.mpf(2) ** 64 / mpmath.e)) == noise._EXP_MINUS_1


@pytest.mark.parametrize("x", ["1/3", "1", "7/2", "1/1000003", "40", "700", "123456789/1000000007"])
def test_brackets_hold_the_exponential_and_shrink(x):
    mpmath = pytest.importorskip("mpmath")
    x = Fraction(x)
    brackets = noise.exp_brackets(x)
    with mpmath.workdps(600):
        truth = mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator)
        width = 1
        for _ in range(3):
            low, high = next(brackets)
            assert mpmath.mpf(low.numerator) / low.denominator < truth
            assert truth < mpmath.mpf(high.numerator) / high.denominator
            assert high - low < width
            width = high - low


def below_exp_of_minus_1(word, stream):
    words = np.array([word], dtype=np.uint64)
    return noise.below_exp(words, 0, Fraction(1), noise.FurtherBits(stream))


def test_close_calls_take_further_bits():
    """A uniform that agrees with exp(−1) in all its first 64 bits is decided by later ones."""
    word = noise._EXP_MINUS_1
    answers = {below_exp_of_minus_1(word, KeyStream.seeded(seed)) for seed in range(40)}
    assert answers == {True, False}
    assert below_exp_of_minus_1(word - 1, KeyStream.seeded(0))
    assert not below_exp_of_minus_1(word + 1, KeyStream.seeded(0))


def test_further_bits_belong_to_their_place():
    """A sample that is redone because words ran out meets the same bits again."""
    further = noise.FurtherBits(KeyStream.seeded(3))
    first = [further.word(5, 0), further.word(7, 0), further.word(5, 1)]
    assert len(set(first)) == 3
    further.after(3)
    assert [further.word(2, 0), further.word(4, 0), further.word(2, 1)] == first
