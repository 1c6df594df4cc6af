"""Node histograms level by level on a device: as `engine.growth`, without joint codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from privboost.cuda.places import Part
from privboost.cuda.routes import DeviceLeaves
from privboost.cuda.rows import DeviceRows
from privboost.cuda.sums import sum_by_node
from privboost.cuda.tasks import SIBLINGS, Task
from privboost.engine.growth import Level
from privboost.trees.cell_map import CellMap


@dataclass
class DeviceGrower:
    """Sums by node and cell, with sibling subtraction between levels."""

    rows: DeviceRows
    leaves: DeviceLeaves
    _last: tuple[Level, Any] | None = None

    def forget(self) -> None:
        """Drop the last histograms: the scores of rows have changed."""
        self._last = None

    def answer(self, level: Level, pairs: Any) -> np.ndarray:
        """Return the exact histograms (nodes, cells, 2) of the pairs of rows."""
        rows, device = self.rows, self.rows.device
        out = device.zeros((level.tree.n_leaves, level.cells.n_cells, 2), np.int64)
        self.leaves.set_trees((level.tree,))
        parts = separate_parts(rows, level.cells)
        siblings = None
        if self._last is not None and level.is_below(self._last[0]):
            siblings = self._siblings(out, self._last[1])
        chosen = None if siblings is None else siblings[1]
        weighted = rows.weight is not None
        sum_by_node(device, pairs, self.leaves.nodes(0), chosen, parts, out, rows.n, weighted)
        if siblings is not None:
            device.launch("subtract_siblings", siblings[0], blocks=device.processors)
        self._last = level, out
        return device.fetch(out)

    def _siblings(self, out: Any, parent: Any) -> tuple[Task, Any]:
        """Choose the sibling of each pair that is added up; the other is a difference."""
        device, (leaves, cells) = self.rows.device, out.shape[:2]
        counts, chosen = self.leaves.counts(), device.zeros(leaves, np.uint8)
        task = Task(SIBLINGS, leaves=leaves, cells=cells, counts=device.address(counts))
        task.set(
            chosen=device.address(chosen), out=device.address(out), parent=device.address(parent)
        )
        device.launch("choose_siblings", task, blocks=1)
        return task, chosen


def separate_parts(rows: DeviceRows, cells: CellMap) -> list[Part]:
    """Return the cells of each feature, of parts that are one feature each."""
    return [
        Part((rows.columns[part.features[0]],), part.cell_of, part.sizes, first)
        for part, first in zip(cells.parts, cells.first, strict=True)
    ]
