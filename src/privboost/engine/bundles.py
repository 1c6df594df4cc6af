"""Bundles: small features with one joint code, so that one pass over the rows serves several.

Only combinations that a shard's own rows have get a joint code: forty indicators of which one is
set have forty, not 2⁴⁰. The histogram of joint codes gives each feature's own exactly. Which
combinations exist never leaves the shard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from privboost.addresses import addresses
from privboost.engine import kernels
from privboost.engine.blocks import Blocks

MOST_COMBINATIONS = 2**10
"""Larger joint histograms no longer stay in the processor's cache."""
MOST_CODES = 32
"""Features with more codes are not bundled."""


@dataclass(frozen=True, eq=False)
class Bundle:
    """Features that share a column.

    Attributes
    ----------
    features : tuple of int
        The features.
    digits : uint16 array of shape (combinations, features)
        The codes of the features for each joint code.
    """

    features: tuple[int, ...]
    digits: np.ndarray


@dataclass(frozen=True, eq=False)
class Bundles:
    """All bundles of some features.

    Attributes
    ----------
    asked : tuple of int
        The features.
    members : list of Bundle
        The bundles, of two features or more.
    codes : list of uint16 arrays of shape (bundles, rows)
        The joint codes of each block's rows.
    left_over : list of int
        The features that are in no bundle.
    """

    asked: tuple[int, ...]
    members: list[Bundle]
    codes: list[np.ndarray]
    left_over: list[int]

    @cached_property
    def codes_at(self) -> np.ndarray:
        """The addresses of each block's joint codes."""
        return addresses(self.codes)

    @property
    def first(self) -> np.ndarray:
        """The first joint code of each bundle, numbered over all bundles."""
        return np.cumsum([0, *(len(each.digits) for each in self.members)])

    @property
    def n_codes(self) -> int:
        """The number of joint codes of all bundles."""
        return int(self.first[-1])


@dataclass
class _Open:
    """A bundle that may still grow."""

    codes: list[np.ndarray]
    features: list[int] = field(default_factory=list)
    digits: np.ndarray = field(default_factory=lambda: np.zeros((1, 0), dtype=np.uint16))

    def takes(self, feature: int, radix: int, blocks: Blocks) -> bool:
        """Add a feature, unless there would be too many combinations."""
        used = np.zeros(len(self.digits) * radix, dtype=np.bool_)

        def mark(first: int, last: int) -> None:
            for codes, block in zip(self.codes[first:last], blocks.rows[first:last], strict=True):
                kernels.mark_pairs(codes, block.column(feature), radix, used)

        def join(first: int, last: int) -> None:
            for codes, block in zip(self.codes[first:last], blocks.rows[first:last], strict=True):
                kernels.join_codes(codes, block.column(feature), radix, number_of)

        blocks.work(1, mark)
        pairs = np.flatnonzero(used)
        if len(pairs) > MOST_COMBINATIONS:
            return False
        number_of = np.zeros(len(used), dtype=np.uint16)
        number_of[pairs] = np.arange(len(pairs))
        blocks.work(1, join)
        self.features.append(feature)
        last = (pairs % radix).astype(np.uint16)
        self.digits = np.column_stack([self.digits[pairs // radix], last])
        return True


def bundle(blocks: Blocks, features: Sequence[int]) -> Bundles:
    """Bundle small features, from the smallest up, so that each bundle holds as many as it can."""
    n_codes = blocks.layout.n_codes
    small = sorted((f for f in features if n_codes[f] <= MOST_CODES), key=lambda f: n_codes[f])
    done: list[_Open] = []
    for feature in small:
        if not (done and done[-1].takes(feature, n_codes[feature], blocks)):
            done.append(_Open([np.zeros(len(block), dtype=np.uint16) for block in blocks.rows]))
            done[-1].takes(feature, n_codes[feature], blocks)
    done = [each for each in done if len(each.features) > 1]
    codes = []
    for k, block in enumerate(blocks.rows):
        parts = [each.codes[k] for each in done]
        codes.append(np.array(parts, dtype=np.uint16).reshape(len(parts), len(block)))
    packed = {feature for each in done for feature in each.features}
    return Bundles(
        tuple(features),
        [Bundle(tuple(each.features), each.digits) for each in done],
        codes,
        [feature for feature in features if feature not in packed],
    )
