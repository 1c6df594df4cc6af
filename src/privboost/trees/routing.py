"""Rows down a tree."""

from __future__ import annotations

import numpy as np

from privboost.tables.rows import Codes
from privboost.trees import kernels
from privboost.trees.tree import Tree


def route(codes: Codes, tree: Tree, node: np.ndarray, from_depth: int = 0) -> None:
    """Move rows down a tree, from the nodes of one level to the leaves, in place."""
    slots = codes.layout.slot_array[tree.feature]
    kernels.route_rows(codes.narrow, codes.wide, slots, tree.goes_right, from_depth, node)


def route_and_count(
    codes: Codes, tree: Tree, node: np.ndarray, from_depth: int, counts: np.ndarray
) -> None:
    """Do `route`, and add to the counts of rows by leaf."""
    slots = codes.layout.slot_array[tree.feature]
    kernels.route_and_count(
        codes.narrow, codes.wide, slots, tree.goes_right, from_depth, node, counts
    )
