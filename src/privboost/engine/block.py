"""A few thousand coded rows: the piece of a table that kernels work on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from privboost.engine import kernels
from privboost.engine.layout import Layout
from privboost.engine.tree import Tree


@dataclass(frozen=True, eq=False, repr=False)
class Block:
    """Coded rows, feature by feature, with what training needs of each row.

    Attributes
    ----------
    narrow, wide : uint8 and uint16 arrays of shape (columns, rows)
        The codes; `layout` says which feature lies where.
    label : uint8 array
        The class, 0 for any number, or `losses.UNKNOWN_LABEL`.
    weight : uint16 array, optional
        The sample weight in units of its public bound.
    start : int32 array, optional
        The state before boosting (minus the label of a regression); zero where absent.
    ids : range or uint32 array, optional
        The rows' offsets in their table, by which they are sampled.
    cohort : int
        Which batch of a stream the rows came with; rows of one cohort have the same budget.
    """

    layout: Layout
    narrow: np.ndarray
    wide: np.ndarray
    label: np.ndarray
    weight: np.ndarray | None = None
    start: np.ndarray | None = None
    ids: range | np.ndarray | None = None
    cohort: int = 0

    def __len__(self) -> int:
        return self.narrow.shape[1]

    def column(self, feature: int) -> np.ndarray:
        """The codes of one feature."""
        slot = self.layout.slots[feature]
        if slot < len(self.narrow):
            return self.narrow[slot]
        return self.wide[slot - len(self.narrow)]

    def take(self, rows: np.ndarray) -> Block:
        """Return a new block with the chosen rows (a mask or indices)."""
        return Block(
            self.layout,
            np.ascontiguousarray(self.narrow[:, rows]),
            np.ascontiguousarray(self.wide[:, rows]),
            self.label[rows],
            None if self.weight is None else self.weight[rows],
            None if self.start is None else self.start[rows],
            None if self.ids is None else np.asarray(self.ids, dtype=np.uint32)[rows],
            self.cohort,
        )


def route(block: Block, tree: Tree, node: np.ndarray, from_depth: int = 0) -> None:
    """Move a block's rows down a tree, from the nodes of one level to the leaves, in place."""
    slots = block.layout.slot_array[tree.feature]
    kernels.route_rows(block.narrow, block.wide, slots, tree.goes_right, from_depth, node)


def route_and_count(
    block: Block, tree: Tree, node: np.ndarray, from_depth: int, counts: np.ndarray
) -> None:
    """Do `route`, and add to the counts of rows by leaf."""
    slots = block.layout.slot_array[tree.feature]
    kernels.route_and_count(
        block.narrow, block.wide, slots, tree.goes_right, from_depth, node, counts
    )


def join(blocks: Iterable[Block]) -> Block:
    """Return one block with the rows of several, of one cohort."""
    parts = list(blocks)
    first = parts[0]
    if any(part.cohort != first.cohort for part in parts):
        raise ValueError("rows of different cohorts have different budgets: join them apart")
    return Block(
        first.layout,
        np.concatenate([part.narrow for part in parts], axis=1),
        np.concatenate([part.wide for part in parts], axis=1),
        np.concatenate([part.label for part in parts]),
        None if first.weight is None else np.concatenate([part.weight for part in parts]),
        None if first.start is None else np.concatenate([part.start for part in parts]),
        None
        if first.ids is None
        else np.concatenate([np.asarray(part.ids, dtype=np.uint32) for part in parts]),
        first.cohort,
    )
