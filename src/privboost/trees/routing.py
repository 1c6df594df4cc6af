"""Leaf assignment of coded rows."""

from __future__ import annotations

import numpy as np

from privboost.tables.rows import Codes
from privboost.trees import kernels
from privboost.trees.tree import Tree


def find_leaves(codes: Codes, tree: Tree) -> np.ndarray:
    """Return the leaf of each row in a tree: uint16."""
    leaf = np.empty(len(codes), dtype=np.uint16)
    slots = codes.layout.slot_array[tree.feature]
    kernels.route_rows(codes.narrow, codes.wide, slots, tree.goes_right, tuple(tree.runs), 0, leaf)
    return leaf
