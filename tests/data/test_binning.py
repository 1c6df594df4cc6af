"""Bins that are guessed and settled are those of a search."""

import math

import numpy as np
import pytest

from privboost._core.addresses import NUMBERS
from privboost.data.binning import Bins, ColumnBins
from privboost.data.feature_base import FINE_BINS
from privboost.domain_inference.bounds import SIZE_EDGES

TINY, HUGE = 5e-324, np.finfo(np.float64).max
STEPS = np.arange(1, FINE_BINS) / FINE_BINS
RNG = np.random.default_rng(3)
EDGES = {
    "even": -4 + 8 * STEPS,
    "even, far from 0": 1e9 + STEPS,
    "even, huge": -HUGE / 2 + HUGE * STEPS,
    "log": np.exp(math.log(1e-3) + math.log(1e9) * STEPS),
    "log, with both signs": np.copysign(np.expm1(np.abs(14 * STEPS - 7)), 14 * STEPS - 7),
    "sizes": SIZE_EDGES,
    "tiny": np.arange(-90, 90) * TINY,
    "neighbours": np.nextafter(1.0, 2.0) + np.arange(200) * np.spacing(1.0),
    "whole": np.arange(0.5, 252),
    "heavy tails": np.sort(RNG.standard_cauchy(252) ** 5),
    "all numbers": np.sort(RNG.integers(0, 2**64, 400, dtype=np.uint64).view(np.float64)),
    "equal": np.sort(np.repeat([-1.0, 0.0, -0.0, 3.0, 3.0], 40)),
    "ends": np.array([-HUGE, -TINY, 0.0, TINY, HUGE]),
    "one": np.array([0.25]),
    "one zero": np.array([-0.0]),
    "none": np.empty(0),
}


def near(edges):
    """Numbers at, beside, between and far from edges."""
    with np.errstate(all="ignore"):
        around = [edges, np.nextafter(edges, -math.inf), np.nextafter(edges, math.inf)]
        between = edges[:-1] / 2 + edges[1:] / 2
        wild = RNG.integers(0, 2**64, 1500, dtype=np.uint64).view(np.float64)
    ends = [0.0, -0.0, TINY, -TINY, HUGE, -HUGE, math.inf, -math.inf, math.nan, -math.nan]
    spread = RNG.normal(size=500) * (1 + np.abs(edges).min(initial=1.0))
    return RNG.permutation(np.concatenate([*around, between, spread, wild, ends]))


@pytest.mark.parametrize("kind", EDGES)
@pytest.mark.parametrize("width", [np.float64, np.float32])
def test_bins_are_those_of_a_search(kind, width):
    edges = EDGES[kind][~np.isnan(EDGES[kind])]
    with np.errstate(all="ignore"):
        values = near(edges).astype(width)
    out = np.empty(len(values), dtype=np.uint16)
    Bins(edges).code(values, out)
    wide = values.astype(np.float64)
    expected = np.where(np.isnan(wide), len(edges) + 1, np.searchsorted(edges, wide))
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("kind", NUMBERS)
def test_columns_are_binned_as_each_by_itself(kind):
    """Of any kind, lying anyhow, of which some lines of codes are whose."""
    narrow = {name: edges for name, edges in EDGES.items() if len(edges) <= 253}
    with np.errstate(all="ignore"):
        values = np.stack([np.resize(near(edges), 2500) for edges in narrow.values()], axis=1)
        if kind[0] != "f":
            about = np.iinfo(kind)
            values = np.clip(np.nan_to_num(values), about.min / 2, about.max / 2)
        table = values.astype(kind)
    bins = [Bins(edges) for edges in narrow.values()]
    expected = np.empty((len(bins), len(table)), dtype=np.uint8)
    for own, column, line in zip(bins, table.T, expected, strict=True):
        own.code(column.astype(np.float64), line)
    lines = np.random.default_rng(1).permutation(len(bins))
    for laid in (table, np.asfortranarray(table), table[::-1], np.repeat(table, 2, axis=1)[:, ::2]):
        columns = {k: laid[:, k] for k in range(len(bins))}
        out = np.empty_like(expected)
        ColumnBins(dict(enumerate(bins)), lines.tolist()).code(columns, out)
        wanted = expected if laid.strides[0] > 0 else expected[:, ::-1]
        np.testing.assert_array_equal(out[lines], wanted)


def test_some_columns_alone_are_binned_as_all_of_them():
    bins = {1: Bins(EDGES["even"]), 4: Bins(EDGES["log"]), 5: Bins(EDGES["whole"])}
    values = np.linspace(-1, 90, 700)
    found = ColumnBins(bins, [9, 2, 9, 9, 0, 1])
    for features in ([], [4], [5, 1], [1, 4, 5]):
        out = np.full((3, len(values)), 7, dtype=np.uint8)
        found.code(dict.fromkeys(features, values), out)
        for feature, line in ((1, 2), (4, 0), (5, 1)):
            wanted = np.full_like(out[line], 7)
            if feature in features:
                bins[feature].code(values, wanted)
            np.testing.assert_array_equal(out[line], wanted)


def test_columns_have_a_number_for_each_row():
    with pytest.raises(ValueError, match="each row"):
        ColumnBins({0: Bins(EDGES["even"])}, [0]).code({0: np.zeros(3)}, np.empty((1, 4), np.uint8))


def test_slots_are_few_and_nearly_empty():
    for kind in ("even", "log", "log, with both signs", "whole"):
        _, start, halvings, _ = Bins(EDGES[kind]).settled
        assert len(start) <= 2**14 + 1, kind
        assert halvings <= 2, kind
