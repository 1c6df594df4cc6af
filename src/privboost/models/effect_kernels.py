"""Kernels that add the effects of features, and of pairs of them, to the scores of rows."""

from __future__ import annotations

import numpy as np

from privboost.compiling import compiled
from privboost.engine.kernels import add_values, join_cells


@compiled
def add_effects(narrow, wide, slots, values, first, scores):
    """Add the values of each feature's codes to the scores of rows.

    Parameters
    ----------
    narrow, wide : arrays
        The codes of rows.
    slots : uint16 array
        The column of each feature, narrow ones first.
    values : int32 array of shape (outputs, codes of all features)
    first : int64 array
        The first value of each feature, and the end.
    scores : int32 array of shape (outputs, rows)
    """
    for k in range(slots.size):
        slot = np.int64(slots[k])
        for output in range(scores.shape[0]):
            own = values[output, first[k] : first[k + 1]]
            if slot < narrow.shape[0]:
                add_values(narrow[slot], own, scores[output])
            else:
                add_values(wide[slot - narrow.shape[0]], own, scores[output])


@compiled
def add_pairs(narrow, wide, pairs, cell_of, values, scores):
    """Add the values of the joint cells of pairs of features to the scores of rows.

    Parameters
    ----------
    pairs : int64 array of shape (pairs, 9)
        For each pair its output, the columns of both features, where the cells of their codes begin
        and end, where its values begin and end, and how many cells the second feature has.
    cell_of : uint16 array
        The cells of codes.
    values : int32 array
        The values of cells, pair after pair.
    """
    cells = np.empty(scores.shape[1], dtype=np.uint32)
    for k in range(pairs.shape[0]):
        output, one, two, begin, middle, end, first, last, width = pairs[k]
        own, other = cell_of[begin:middle], cell_of[middle:end]
        cells[:] = 0
        if one < narrow.shape[0]:
            join_cells(narrow[one], own, middle - begin, cells)
        else:
            join_cells(wide[one - narrow.shape[0]], own, middle - begin, cells)
        if two < narrow.shape[0]:
            join_cells(narrow[two], other, width, cells)
        else:
            join_cells(wide[two - narrow.shape[0]], other, width, cells)
        add_values(cells, values[first:last], scores[output])
