"""Small features packed jointly into one code, so that one pass over the rows serves several.

Joint codes are given to the combinations that a shard's own rows have. Forty indicators of which
one is set make forty combinations, not 2⁴⁰: one column stands for all of them. Its histogram gives
each feature's own exactly. Which combinations there are never leaves the shard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from privboost.engine import kernels
from privboost.engine.block import Block

MOST_COMBINATIONS = 2**10
"""Beyond this a joint histogram no longer stays near the processor."""
MOST_CODES = 32
"""A feature with more codes is better off alone."""


@dataclass(frozen=True, eq=False)
class Bundle:
    """Features that share a column.

    Attributes
    ----------
    features : tuple of int
        The features.
    digits : uint16 array of shape (combinations, features)
        The codes that each joint code stands for.
    codes : list of uint16 arrays
        The joint codes of each block's rows.
    """

    features: tuple[int, ...]
    digits: np.ndarray
    codes: list[np.ndarray]


@dataclass
class _Open:
    """A bundle that may still grow."""

    codes: list[np.ndarray]
    features: list[int] = field(default_factory=list)
    digits: np.ndarray = field(default_factory=lambda: np.zeros((1, 0), dtype=np.uint16))

    def takes(self, feature: int, radix: int, blocks: Sequence[Block]) -> bool:
        """Add a feature, unless there would be too many combinations."""
        used = np.zeros(len(self.digits) * radix, dtype=np.bool_)
        for codes, block in zip(self.codes, blocks, strict=True):
            kernels.mark_pairs(codes, block.column(feature), radix, used)
        pairs = np.flatnonzero(used)
        if len(pairs) > MOST_COMBINATIONS:
            return False
        number_of = np.zeros(len(used), dtype=np.uint16)
        number_of[pairs] = np.arange(len(pairs))
        for codes, block in zip(self.codes, blocks, strict=True):
            kernels.join_codes(codes, block.column(feature), radix, number_of)
        self.features.append(feature)
        last = (pairs % radix).astype(np.uint16)
        self.digits = np.column_stack([self.digits[pairs // radix], last])
        return True


def bundle(blocks: Sequence[Block], features: Sequence[int]) -> tuple[list[Bundle], list[int]]:
    """Pack what is small; return the bundles (of two features or more) and the features left over.

    Features are taken from the smallest up, so that a bundle holds as many as it can.
    """
    n_codes = blocks[0].layout.n_codes
    small = sorted((f for f in features if n_codes[f] <= MOST_CODES), key=lambda f: n_codes[f])
    done: list[_Open] = []
    for feature in small:
        if not (done and done[-1].takes(feature, n_codes[feature], blocks)):
            done.append(_Open([np.zeros(len(block), dtype=np.uint16) for block in blocks]))
            done[-1].takes(feature, n_codes[feature], blocks)
    bundles = [
        Bundle(tuple(each.features), each.digits, each.codes)
        for each in done
        if len(each.features) > 1
    ]
    packed = {feature for each in bundles for feature in each.features}
    return bundles, [feature for feature in features if feature not in packed]
