"""The blocks of a shard as kernels walk over them, and which threads take which."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from privboost.addresses import addresses
from privboost.crew import Crew
from privboost.engine import copy_kernels
from privboost.engine.look_up import Statistics
from privboost.grid import BLOCK_ROWS
from privboost.tables.layout import Layout
from privboost.tables.rows import Rows
from privboost.watch import run_alone

_T = TypeVar("_T")

_SHARES_OF_A_THREAD = 4
"""Threads take that many on average: whoever is interrupted takes fewer."""
_LARGE = 2**15
"""Sums of so many numbers are cleared and brought together by all threads, in room that is kept."""

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
        self._cuts: dict[int, np.ndarray] = {}
        self._kept: dict[str, np.ndarray] = {}
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
        """Have every block worked on by Python, in as many threads as pay.

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
        cuts = self._cuts_of(self._crew.size_for(look_ups * self.n_rows))
        return self._crew.do([partial(act, *share) for share in pairwise(cuts.tolist())])

    def run(
        self,
        look_ups: float,
        kernel: Callable[..., int],
        task: tuple[Any, ...],
        first: int = 0,
        last: int | None = None,
    ) -> None:
        """Have blocks worked on by a kernel, in as many threads as pay.

        Parameters
        ----------
        look_ups : float
            How many there are for each row.
        kernel, task
            See `block_kernels`.
        first, last : int, optional
            Which blocks: from one to before another, by default all.
        """
        threads, cuts = self._shares(look_ups)
        if last is not None:
            cuts = np.array([first, *(cut for cut in cuts.tolist() if first < cut < last), last])
        self._crew.run(kernel, cuts, task, threads)

    def add_up(
        self,
        look_ups: float,
        kernel: Callable[..., int],
        task_of: Callable[[np.ndarray | None, np.ndarray], tuple[Any, ...]],
        size: int,
        statistics: Statistics | None = None,
    ) -> np.ndarray:
        """The same for a kernel that adds up, where each thread has sums of its own.

        Parameters
        ----------
        task_of : callable
            From where marks of who takes part lie, and the copies of sums, to the task.
        size : int
            How many sums there are.
        statistics : Statistics, optional
            Of whom; by default everybody counts.

        Returns
        -------
        int64 array
            The sums.
        """
        sampled = None if statistics is None else statistics.sampled
        if sampled is not None:
            return add_all(
                self.work(look_ups, partial(_sum_sampled, kernel, task_of, size, sampled))
            )
        threads, cuts = self._shares(look_ups)
        copies = self._copies(threads, size)
        active_at = None if statistics is None else statistics.active_at
        self._crew.run(kernel, cuts, task_of(active_at, copies), threads)
        return self._bring_together(copies)

    def _copies(self, count: int, size: int) -> np.ndarray:
        """Return zeros: as many copies of as many sums."""
        if count == 1 or size < _LARGE:
            return np.zeros((count, size), dtype=np.int64)
        copies = self._keep("copies", count, size)
        self._crew.run(copy_kernels.clear_copies, np.arange(count + 1), (copies,), count)
        return copies

    def rooms(self, count: int, size: int) -> np.ndarray:
        """Return room for what each of so many shares has in hand: that many numbers."""
        if count == 1:  # of samples, any number of threads at once
            return np.empty((1, size), dtype=np.int64)
        return self._keep("rooms", count, size)

    def _keep(self, name: str, count: int, size: int) -> np.ndarray:
        """Return memory that is kept: what the system gives anew is slow to touch."""
        if name not in self._kept or self._kept[name].size < count * size:
            self._kept[name] = np.empty(count * size, dtype=np.int64)
        kept: np.ndarray = self._kept[name][: count * size].reshape(count, size)
        return kept

    def _bring_together(self, copies: np.ndarray) -> np.ndarray:
        count, size = copies.shape
        if size < _LARGE or count == 1:
            sums: np.ndarray = copies[0] if count == 1 else copies.sum(axis=0)
            return sums
        total = np.empty(size, dtype=np.int64)
        cuts = np.linspace(0, size, count + 1).astype(np.int64)
        self._crew.run(copy_kernels.add_copies, cuts, (copies, total), count)
        return total

    def _shares(self, look_ups: float) -> tuple[int, np.ndarray]:
        """Return how many threads pay, and where the shares begin that they take in turn."""
        threads = self._crew.compiled_size_for(look_ups * self.n_rows)
        cuts = self._cuts_of(1 if threads == 1 else _SHARES_OF_A_THREAD * threads)
        return min(threads, len(cuts) - 1), cuts

    def _cuts_of(self, count: int) -> np.ndarray:
        """Cut the blocks into about as many shares, of about as many rows each."""
        if count not in self._cuts:
            middles = self._ends - self.sizes / 2
            inner = np.searchsorted(middles, np.arange(1, count) * (self.n_rows / count))
            ends = [0, *np.unique(inner).tolist(), len(self.rows)]
            shares = [share for share in pairwise(ends) if share[0] < share[1]] or [(0, 0)]
            self._cuts[count] = np.array([0, *(last for _, last in shares)], dtype=np.int64)
        return self._cuts[count]

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


def _sum_sampled(
    kernel: Callable[..., int],
    task_of: Callable[[np.ndarray | None, np.ndarray], tuple[Any, ...]],
    size: int,
    sampled: Callable[[int, int], Iterable[tuple[int, int, np.ndarray]]],
    first: int,
    last: int,
) -> np.ndarray:
    """Add up a sample of some blocks; who is in it is found out a few blocks at a time."""
    copies = np.zeros((1, size), dtype=np.int64)
    for start, stop, active_at in sampled(first, last):
        run_alone(kernel, np.array([start, stop]), task_of(active_at, copies))
    sums: np.ndarray = copies[0]
    return sums


def _weight(block: Rows) -> np.ndarray:
    """Return a block's weights; without any, each row counts as it is."""
    return np.ones(len(block), dtype=np.uint16) if block.weight is None else block.weight
