"""Split candidates: which of a feature's fine codes fall into one cell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privboost.domain import CategoricalFeature
from privboost.encoding import Encoder


@dataclass(frozen=True, eq=False)
class Cells:
    """A coarser view of one feature's codes.

    Attributes
    ----------
    cell_of : uint16 array
        The cell of each code.
    n_cells : int
        How many cells there are.
    learned : bool array
        Whether a cell gets an effect; the cell of missing values does if they are declared.
    """

    cell_of: np.ndarray
    n_cells: int
    learned: np.ndarray


def uniform_grid(encoder: Encoder, feature: int, max_bins: int) -> Cells:
    """Join fine bins evenly into at most `max_bins`; categories stay as they are.

    "Other" and "missing" always have cells of their own.
    """
    declared = encoder.domain.features[feature]
    n_codes = encoder.layout.n_codes[feature]
    cell_of = np.arange(n_codes, dtype=np.uint16)
    if not isinstance(declared, CategoricalFeature):
        fine = n_codes - 1
        coarse = min(fine, max_bins)
        cell_of[:fine] = np.arange(fine) * coarse // fine
        cell_of[fine] = coarse
    n_cells = int(cell_of[-1]) + 1
    learned = np.ones(n_cells, dtype=np.bool_)
    learned[-1] = declared.missing
    return Cells(cell_of, n_cells, learned)
