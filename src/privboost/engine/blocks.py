"""The blocks of a shard as kernels walk over them, and which threads take which."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from itertools import pairwise
from typing import TypeVar

import numpy as np

from privboost.crew import Crew
from privboost.engine.addresses import addresses
from privboost.grid import BLOCK_ROWS
from privboost.tables.layout import Layout
from privboost.tables.rows import Rows

_T = TypeVar("_T")

Ids = tuple[np.ndarray, bool]
"""Where each block's ids begin, and whether they take two bytes: of codes, or of nodes."""


class Blocks:
    """Rows in blocks.

    Parameters
    ----------
    rows : sequence of Rows
        The blocks.
    crew : Crew, optional
        Who works on them; by default the caller's thread alone.

    Attributes
    ----------
    rows : list of Rows
        The blocks.
    sizes : int64 array
        How many rows each has.
    label_at, narrow_at, wide_at : int64 arrays
        Where each block's labels and codes lie.
    weight_at : int64 array, optional
        Where each block's weights lie.
    """

    def __init__(self, rows: Sequence[Rows], crew: Crew | None = None) -> None:
        if any(len(block) > BLOCK_ROWS for block in rows):
            raise ValueError(f"a block holds at most {BLOCK_ROWS} rows")
        self.rows, self._crew = list(rows), crew or Crew()
        self.sizes = np.array([len(block) for block in rows], dtype=np.int64)
        self.n_rows = int(self.sizes.sum())
        self._ends = np.cumsum(self.sizes)
        self._held: list[list[np.ndarray]] = []
        self._columns: dict[int, Ids] = {}
        self.label_at = self._hold([block.label for block in rows], np.uint8)
        self.narrow_at = self._hold([block.codes.narrow for block in rows], np.uint8)
        self.wide_at = self._hold([block.codes.wide for block in rows], np.uint16)
        self.weight_at: np.ndarray | None = None
        if any(block.weight is not None for block in rows):
            self.weight_at = self._hold([_weight(block) for block in rows], np.uint16)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def layout(self) -> Layout:
        """How codes lie in memory."""
        return self.rows[0].layout

    @cached_property
    def columns(self) -> tuple[np.ndarray, np.ndarray, int, int]:
        """Return where all codes lie, and how many columns of one and of two bytes there are."""
        if not self.rows:
            return self.narrow_at, self.wide_at, 0, 0
        layout = self.layout
        return self.narrow_at, self.wide_at, layout.n_narrow, len(layout.slots) - layout.n_narrow

    def column(self, feature: int) -> Ids:
        """Return where the codes of a feature lie."""
        if feature not in self._columns:
            self._columns[feature] = self._find_column(feature)
        return self._columns[feature]

    def _find_column(self, feature: int) -> Ids:
        if not self.rows:
            return self.narrow_at, False
        slot, narrow = self.layout.slots[feature], self.layout.n_narrow
        if slot < narrow:
            return self.narrow_at + slot * self.sizes, False
        return self.wide_at + (slot - narrow) * self.sizes * 2, True

    def work(self, look_ups: float, act: Callable[[int, int], _T]) -> list[_T]:
        """Have every block worked on, in as many threads as pay.

        Parameters
        ----------
        look_ups : float
            How many there are for each row.
        act : callable
            Works on blocks, from one to before another.

        Returns
        -------
        list
            What came of it, once for each thread, and at least once.
        """
        threads = self._crew.size_for(look_ups * self.n_rows)
        if threads == 1:
            return [act(0, len(self.rows))]
        return self._crew.do([partial(act, *share) for share in self._shares(threads)])

    def _shares(self, count: int) -> list[tuple[int, int]]:
        """Cut the blocks into about as many shares, of about as many rows each."""
        middles = self._ends - self.sizes / 2
        cuts = np.searchsorted(middles, np.arange(1, count) * (self.n_rows / count))
        ends = [0, *np.unique(cuts).tolist(), len(self.rows)]
        return [share for share in pairwise(ends) if share[0] < share[1]]

    def _hold(self, arrays: Sequence[np.ndarray], kind: type) -> np.ndarray:
        """Return where arrays lie, in one piece each, and keep them."""
        whole: list[np.ndarray] = [np.ascontiguousarray(array, dtype=kind) for array in arrays]
        self._held.append(whole)
        return addresses(whole)


def add_all(answers: Sequence[np.ndarray]) -> np.ndarray:
    """Add the answers of several threads into the first."""
    first, *others = answers
    for other in others:
        first += other
    return first


def _weight(block: Rows) -> np.ndarray:
    """Return a block's weights; without any, each row counts as it is."""
    return np.ones(len(block), dtype=np.uint16) if block.weight is None else block.weight
