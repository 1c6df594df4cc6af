"""Whether a query is one that sensitivities and ranges were proved for."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from privboost.engine.commands import NodeHistograms, Query, VoteCounts
from privboost.privacy.utilities import Utility


def cells_apart(query: Query) -> bool:
    """Whether features have cells of their own, so that a row touches each cell at most once."""
    if not isinstance(query, NodeHistograms | VoteCounts):
        return True
    if all(not cells.flags.writeable for cells in query.cell_of):
        return _fixed_cells_apart(_Fixed(query.cell_of), query.n_cells)
    return _are_apart(query.cell_of, query.n_cells)


def scores_these(utility: Utility, query: Query) -> bool:
    """Whether a utility of splits is about the cells that a query counts."""
    splits = getattr(utility, "splits", None)
    if splits is None or not isinstance(query, NodeHistograms | VoteCounts):
        return splits is None
    return (
        query.features == splits.features
        and query.n_cells == splits.n_cells
        and (
            query.cell_of is splits.cell_of
            or all(map(np.array_equal, query.cell_of, splits.cell_of))
        )
    )


class _Fixed:
    """Arrays that cannot change, told apart by being the same objects."""

    def __init__(self, cell_of: tuple[np.ndarray, ...]) -> None:
        self.cell_of = cell_of

    def __hash__(self) -> int:
        return id(self.cell_of)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Fixed) and self.cell_of is other.cell_of


@lru_cache(maxsize=16)
def _fixed_cells_apart(fixed: _Fixed, n_cells: int) -> bool:
    return _are_apart(fixed.cell_of, n_cells)


def _are_apart(cell_of: tuple[np.ndarray, ...], n_cells: int) -> bool:
    spans = sorted((int(cells.min()), int(cells.max())) for cells in cell_of)
    ends = [-1, *(last for _, last in spans)]
    apart = all(first > end for (first, _), end in zip(spans, ends, strict=False))
    return apart and ends[-1] < n_cells
