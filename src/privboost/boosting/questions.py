"""What is asked about a feature: a few cells, coarse where noise is loud, cut anew each time.

Noise is per cell, so a coarse question is a precise one. Cells have about equal measure, mostly of
released mass and a little of width (a thin tail may tell much), and begin at a random place, so
that later questions cut elsewhere and fine detail comes back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privboost.boosting.candidates import uniform_grid
from privboost.compiling import compiled
from privboost.tables.encoding import Encoder
from privboost.tables.features import CategoricalFeature
from privboost.trees.cell_map import CellMap

BINS, FINE_BINS = 64, 192
"""Bins of a number: the latter, which are all there are, where answers have many cells.

A feature of more than `BINS` categories is asked once about each, then they share.
"""

WIDTH = 0.3
"""The part of a cell's measure that is width; the rest is released mass."""

FOCUS = 0.7
"""The part of questions that follows the size of effects; the rest is shared evenly."""


@dataclass(frozen=True, eq=False)
class Question:
    """What is asked about one feature.

    Attributes
    ----------
    feature : int
        The feature.
    cell_of : int array
        The cell of each of its bins.
    """

    feature: int
    cell_of: np.ndarray


@dataclass(frozen=True, eq=False)
class Bins:
    """The finest that is told of a feature's effect.

    Attributes
    ----------
    map : CellMap
        The bin of each code.
    ordered : int
        How many bins have neighbours: those of a number, which come first.
    learned : bool array
        Which bins have an effect: missing values do if they are declared.
    """

    map: CellMap
    ordered: int
    learned: np.ndarray

    @classmethod
    def of(cls, encoder: Encoder, feature: int, most: int = BINS) -> Bins:
        """Return at most so many bins of a number, evenly; categories have one each."""
        grid = uniform_grid(encoder, feature, most)
        category = isinstance(encoder.domain.features[feature], CategoricalFeature)
        return cls(grid.map, 0 if category else grid.n_cells - 1, grid.learned)

    @property
    def of_code(self) -> np.ndarray:
        """The bin of each code."""
        return self.map.parts[0].cell_of[0]

    @property
    def too_many(self) -> bool:
        """Whether categories must share bins before their effects can be told."""
        return not self.ordered and len(self.learned) > BINS + 2

    def joined(self, cell_of: np.ndarray) -> CellMap:
        """Return the cells of a question, given that of each bin."""
        return CellMap.of_feature(self.map.features[0], cell_of[self.of_code])

    def shared(self, mass: np.ndarray) -> tuple[Bins, np.ndarray]:
        """Return bins of their own for the most frequent categories, and one for all others.

        Parameters
        ----------
        mass : float array
            What was released of how frequent each is.

        Returns
        -------
        Bins
            The new bins.
        int array
            The new bin of each old one.
        """
        last = len(mass) - 1  # missing values, which keep a bin of their own
        order = np.argsort(-mass[:last], kind="stable")[: BINS - 1]
        bin_of = np.full(last + 1, BINS - 1)
        bin_of[np.sort(order)] = np.arange(len(order))
        bin_of[last] = BINS
        learned = np.ones(BINS + 1, dtype=np.bool_)
        learned[-1] = self.learned[-1]
        return Bins(self.joined(bin_of), 0, learned), bin_of


def shares_of(sizes: np.ndarray) -> np.ndarray:
    """Return which part of questions each feature has, given how large effects are."""
    total = float(sizes.sum())
    focus = FOCUS if total > 0 else 0.0
    shares: np.ndarray = focus * sizes / max(total, 1e-300) + (1 - focus) / len(sizes)
    return shares


def moving_cells(
    profile: np.ndarray, ordered: int, cells: int, generator: np.random.Generator
) -> np.ndarray:
    """Return the cell of each bin, numbered from 0.

    Parameters
    ----------
    profile : float array
        Which share of the rows each bin is thought to have.
    ordered : int
        See `Bins`; the other bins of a number have cells of their own.
    cells : int
        How many cells there should be, about.
    """
    if not ordered:
        return _sharing_cells(profile, cells, generator)
    own = profile[:ordered] / profile[:ordered].sum()
    measure = (1 - WIDTH) * own + WIDTH / ordered
    cell_of = np.empty(len(profile), dtype=np.int64)
    _cut(measure, cells, generator.random(), cell_of)
    return cell_of


@compiled
def _cut(measure, cells, begin, cell_of):  # type: ignore[no-untyped-def]
    """Write the cells of ordered bins, each of about one part of the measure, and of the others."""
    end, cell, part = 0.0, 0, 0.0
    for bin_ in range(measure.size):
        end += measure[bin_]
        own = math.floor((end - measure[bin_] / 2) * cells + begin)
        if bin_ > 0 and own != part:
            cell += 1
        cell_of[bin_], part = cell, own
    for bin_ in range(measure.size, cell_of.size):
        cell += 1
        cell_of[bin_] = cell


def _sharing_cells(profile: np.ndarray, cells: int, generator: np.random.Generator) -> np.ndarray:
    """Give frequent categories a cell each; rare ones share cells at random."""
    frequent = profile >= 0.7 / cells
    cell_of = np.empty(len(profile), dtype=np.int64)
    cell_of[frequent] = np.arange(int(frequent.sum()))
    rare = generator.permutation(np.flatnonzero(~frequent))
    before = np.cumsum(profile[rare]) - profile[rare]
    shared = np.unique(np.floor(before * cells).astype(np.int64), return_inverse=True)[1]
    cell_of[rare] = int(frequent.sum()) + shared
    return cell_of
