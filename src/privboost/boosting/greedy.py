"""Greedy trees: splits chosen privately on exact node histograms, level by level.

All nodes of a level are chosen at once, for the price of one choice, because a row lies in one of
them.
"""

from __future__ import annotations

import numpy as np

from privboost.engine.queries import GRADIENT_COUNT, NodeHistograms
from privboost.privacy.curator import Curator
from privboost.privacy.events.event import Selection
from privboost.privacy.utilities.splits import SplitGain
from privboost.trees.splits import Splits
from privboost.trees.tree import Tree, stump


def of_each(leaves: np.ndarray, outputs: int) -> np.ndarray:
    """Spread what belongs to trees of one output after the other; zero in the others' places."""
    spread = np.zeros((len(leaves), outputs, leaves.shape[1]), dtype=leaves.dtype)
    numbers = np.arange(len(leaves))
    spread[numbers, numbers % outputs] = leaves
    return spread


def grow(
    curator: Curator,
    splits: Splits,
    depth: int,
    split_lambda: float,
    event: Selection,
    output: int,
) -> Tree:
    """Choose splits level by level; return the tree.

    A node chooses among the splits that part what its path leaves open; the path is public.

    Privacy
    -------
    Spends `event` once for each level.
    """
    tree, reach = stump(), splits.start_reach()
    for _ in range(depth):
        utility = SplitGain(splits, split_lambda, splits.allowed(reach))
        query = NodeHistograms(tree, splits.cells, output, GRADIENT_COUNT)
        chosen = curator.select(query, utility, event)
        tree = tree.with_level(
            [splits.goes_right(int(candidate)) for candidate in chosen], splits.width
        )
        reach = splits.follow(reach, chosen)
    return tree
