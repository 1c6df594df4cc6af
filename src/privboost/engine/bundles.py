"""Small features packed jointly into one code, so that one pass over the rows serves several.

Seven columns of three codes make one column of 3⁷ joint codes; its histogram, added up along the
other six, gives each column's own histogram exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privboost.engine import kernels
from privboost.engine.block import Block
from privboost.engine.layout import Layout

MOST_JOINT_CODES = 2**12
MOST_JOINT_CELLS = 2**18
"""Beyond these, a joint histogram (of a node, of all nodes) no longer stays near the processor."""


@dataclass(frozen=True)
class Bundle:
    """Features whose codes are read as the digits of one joint code, first feature leading."""

    features: tuple[int, ...]
    radices: tuple[int, ...]

    @property
    def n_joint(self) -> int:
        """The number of joint codes."""
        return int(np.prod(self.radices))

    def pack(self, block: Block) -> np.ndarray:
        """Return the joint codes of a block's rows."""
        joint = np.zeros(len(block), dtype=np.uint16)
        for feature, radix in zip(self.features, self.radices, strict=True):
            kernels.pack_codes(block.column(feature), radix, joint)
        return joint

    def marginals(self, histogram: np.ndarray) -> list[np.ndarray]:
        """Split a joint histogram of shape (nodes, joint codes, 2) into one for each feature."""
        nodes, _, width = histogram.shape
        digits = histogram.reshape(nodes, *self.radices, width)
        axes = range(1, len(self.radices) + 1)
        return [digits.sum(axis=tuple(a for a in axes if a != own)) for own in axes]


def bundle(
    layout: Layout, features: tuple[int, ...], n_nodes: int
) -> tuple[list[Bundle], list[int]]:
    """Pack what is small; return the bundles (of two features or more) and the features left over.

    Features are taken from the smallest up, so that a bundle holds as many as it can.
    """
    most = min(MOST_JOINT_CODES, MOST_JOINT_CELLS // n_nodes)
    groups: list[list[int]] = []
    room = 0
    for feature in sorted(features, key=lambda f: layout.n_codes[f]):
        codes = layout.n_codes[feature]
        if room < codes:
            groups.append([])
            room = most
        groups[-1].append(feature)
        room //= codes
    bundles = [
        Bundle(tuple(group), tuple(layout.n_codes[f] for f in group))
        for group in groups
        if len(group) > 1
    ]
    return bundles, [group[0] for group in groups if len(group) == 1]
