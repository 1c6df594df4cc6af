"""Queries about one output, or about all classes at once, and the updates that follow them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privboost._core.grid import CLIP_STEPS
from privboost.accounting.noisy_sums import NoisySums
from privboost.engine.queries import CellSums, TreeSums
from privboost.engine.softmax import SoftmaxSums, SoftmaxTreeSums, clip_steps_of
from privboost.engine.softmax_kernels import PROBABILITY_STEPS, SLOPE_STEPS
from privboost.engine.updates import (
    AddCellValues,
    AddCellValuesOfAll,
    AddTreeValues,
    AddTreeValuesOfAll,
)
from privboost.mechanisms.curator import Curator
from privboost.trees.cell_map import CellMap
from privboost.trees.tree import Tree


@dataclass(frozen=True)
class SoftmaxClips:
    """Clips of a row's gradients and Hessians, as queries take them; see `SoftmaxQuery`.

    Attributes
    ----------
    n_outputs : int
        The number of classes.
    gradient, hessian : int
        In steps of probabilities.
    absolute : bool
        Whether lengths are sums of absolute values.
    """

    n_outputs: int
    gradient: int
    hessian: int
    absolute: bool

    @classmethod
    def of(cls, n_outputs: int, gradient: float, hessian: float, absolute: bool) -> SoftmaxClips:
        """Return the clips of probabilities, rounded down to steps."""
        steps = [int(min(clip, 1.0) * PROBABILITY_STEPS) for clip in (gradient, hessian)]
        return cls(n_outputs, max(steps[0], 1), max(steps[1], 1), absolute)

    def of_cells(self, cells: CellMap) -> SoftmaxSums:
        """Return the query about cells of features."""
        about = (self.n_outputs, self.gradient, self.hessian, self.absolute)
        return SoftmaxSums(*about, cells=cells)

    def of_trees(self, trees: tuple[Tree, ...], slope: int = SLOPE_STEPS) -> SoftmaxTreeSums:
        """Return the query about leaves of trees, of scores that are multiplied by a slope."""
        about = (self.n_outputs, self.gradient, self.hessian, self.absolute, slope)
        return SoftmaxTreeSums(*about, trees=trees)

    def step_values(self, count_step: float) -> tuple[float, float]:
        """Return the values of one step of the sums of gradients and of Hessians.

        `count_step` is that of a count, in rows of the largest weight.
        """
        gradient = self.gradient / PROBABILITY_STEPS * (CLIP_STEPS / clip_steps_of(self.absolute))
        return gradient * count_step, self.hessian / PROBABILITY_STEPS * count_step


@dataclass(frozen=True)
class OneOutput:
    """Queries about the only score of each row; sums and values have an axis for it."""

    def by_cell(self, curator: Curator, cells: CellMap, release: NoisySums) -> np.ndarray:
        """Release sums by cell: of shape (outputs, cells, statistics)."""
        return curator.sums(CellSums(cells), release)[None]

    def by_leaf(self, curator: Curator, trees: tuple[Tree, ...], release: NoisySums) -> np.ndarray:
        """Release sums by leaf: of shape (outputs, trees, leaves, statistics)."""
        return curator.sums(TreeSums(trees), release)[None]

    def add_by_cell(self, curator: Curator, cells: CellMap, values: Sequence[np.ndarray]) -> None:
        """Publish the values of cells for each output."""
        curator.publish(AddCellValues(cells, values[0]))

    def add_by_leaf(
        self, curator: Curator, trees: tuple[Tree, ...], values: Sequence[np.ndarray]
    ) -> None:
        """Publish the values of leaves for each output."""
        curator.publish(AddTreeValues(trees, values[0]))


@dataclass(frozen=True)
class AllClasses:
    """Queries about the scores of all classes at once, as `OneOutput`."""

    clips: SoftmaxClips

    def by_cell(self, curator: Curator, cells: CellMap, release: NoisySums) -> np.ndarray:
        """Release sums by cell: of shape (outputs, cells, statistics)."""
        return np.moveaxis(curator.sums(self.clips.of_cells(cells), release), -2, 0)

    def by_leaf(self, curator: Curator, trees: tuple[Tree, ...], release: NoisySums) -> np.ndarray:
        """Release sums by leaf: of shape (outputs, trees, leaves, statistics)."""
        return np.moveaxis(curator.sums(self.clips.of_trees(trees), release), -2, 0)

    def add_by_cell(self, curator: Curator, cells: CellMap, values: Sequence[np.ndarray]) -> None:
        """Publish the values of cells for each output."""
        curator.publish(AddCellValuesOfAll(cells, np.stack(values)))

    def add_by_leaf(
        self, curator: Curator, trees: tuple[Tree, ...], values: Sequence[np.ndarray]
    ) -> None:
        """Publish the values of leaves for each output."""
        curator.publish(AddTreeValuesOfAll(trees, np.stack(values)))
