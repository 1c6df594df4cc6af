"""Queries about a feature: a few cells, coarse where noise is large, with new edges each time.

Noise is per cell, so a coarse query is a precise one. Cells have about equal measure, mostly of
noisy counts and a little of width (a thin tail may be informative), and begin at a random position,
so that later queries have other edges and fine detail is recovered.
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
"""Bins of a number: the latter, which are all codes, where queries have many cells.

A feature of more than `BINS` categories is measured once for each, then rare ones share a bin.
"""

WIDTH = 0.3
"""Part of width in a cell's measure; the rest is noisy counts."""


@dataclass(frozen=True, eq=False)
class FeatureQuery:
    """Query about one feature.

    Attributes
    ----------
    feature : int
        Number of the feature.
    cell_of : int array
        Cell of each of its bins.
    """

    feature: int
    cell_of: np.ndarray


@dataclass(frozen=True, eq=False)
class Bins:
    """Finest released binning of a feature.

    Attributes
    ----------
    map : CellMap
        Bin of each code.
    ordered : int
        Number of ordered bins, those of a number, which come first.
    learned : bool array
        Bins that have an effect: missing values do if they are declared.
    """

    map: CellMap
    ordered: int
    learned: np.ndarray

    @classmethod
    def of(cls, encoder: Encoder, feature: int, most: int = BINS) -> Bins:
        """Return at most so many even bins of a number; categories have one each."""
        grid = uniform_grid(encoder, feature, most)
        category = isinstance(encoder.domain.features[feature], CategoricalFeature)
        return cls(grid.map, 0 if category else grid.n_cells - 1, grid.learned)

    @property
    def of_code(self) -> np.ndarray:
        """Bin of each code."""
        return self.map.parts[0].cell_of[0]

    @property
    def too_many(self) -> bool:
        """Whether rare categories must share a bin."""
        return not self.ordered and len(self.learned) > BINS + 2

    def joined(self, cell_of: np.ndarray) -> CellMap:
        """Return the cells of a query, given that of each bin."""
        return CellMap.of_feature(self.map.features[0], cell_of[self.of_code])

    def shared(self, mass: np.ndarray) -> tuple[Bins, np.ndarray]:
        """Return single bins for the most frequent categories, and one for all others.

        Parameters
        ----------
        mass : float array
            Noisy counts of the categories.

        Returns
        -------
        Bins
            New bins.
        int array
            New bin of each old one.
        """
        last = len(mass) - 1  # missing values, which keep a bin of their own
        order = np.argsort(-mass[:last], kind="stable")[: BINS - 1]
        bin_of = np.full(last + 1, BINS - 1)
        bin_of[np.sort(order)] = np.arange(len(order))
        bin_of[last] = BINS
        learned = np.ones(BINS + 1, dtype=np.bool_)
        learned[-1] = self.learned[-1]
        return Bins(self.joined(bin_of), 0, learned), bin_of


def moving_cells(
    profile: np.ndarray, ordered: int, cells: int, generator: np.random.Generator
) -> np.ndarray:
    """Return the cell of each bin, numbered from 0.

    Parameters
    ----------
    profile : float array
        Estimated share of the rows of each bin.
    ordered : int
        See `Bins`; the other bins of a number have cells of their own.
    cells : int
        Approximate number of cells.
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
    """Write the cells of ordered bins, each of about equal measure, and of the others."""
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
