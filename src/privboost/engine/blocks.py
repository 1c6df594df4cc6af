"""The blocks of a CPU shard: their arrays as kernels read them, and how threads divide them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np

from privboost._core.addresses import addresses
from privboost._core.grid import BLOCK_ROWS
from privboost._core.threads import Kernel, ThreadPool, run_serially, run_shares
from privboost.data.rows import Layout, Rows
from privboost.engine import block_kernels
from privboost.engine.look_ups import Statistics
from privboost.trees.cell_map import CellPart

_T = TypeVar("_T")

_SHARES = 4
"""Shares of rows for each thread, of which a slow thread takes fewer."""
_LARGE = 2**15
"""From so many sums on, the copies of threads are added up by all threads."""

Ids = tuple[np.ndarray, bool]
"""The address of each block's ids (codes or nodes), and whether an id takes two bytes."""


class BlockArrays:
    """An array for each block, such as marks of rows, and their addresses."""

    def __init__(self, arrays: list[np.ndarray]) -> None:
        self.arrays, self.at = arrays, addresses(arrays)


class Blocks:
    """Rows in blocks.

    Parameters
    ----------
    rows : sequence of Rows
        The blocks.
    pool : ThreadPool, optional
        The threads; by default the caller's alone.

    Attributes
    ----------
    rows : list of Rows
        The blocks.
    sizes : int64 array
        The number of rows of each.
    label_at, narrow_at, wide_at : int64 arrays
        The addresses of each block's labels and codes.
    weight_at : int64 array, optional
        The addresses of each block's weights.
    """

    def __init__(self, rows: Sequence[Rows], pool: ThreadPool | None = None) -> None:
        if any(len(block) > BLOCK_ROWS for block in rows):
            raise ValueError(f"a block holds at most {BLOCK_ROWS} rows")
        self.rows, self._pool = list(rows), pool or ThreadPool()
        self.sizes = np.array([len(block) for block in rows], dtype=np.int64)
        self.n_rows = int(self.sizes.sum())
        self._ends = np.cumsum(self.sizes)
        self._cuts: dict[int, np.ndarray] = {}
        self._buffer: np.ndarray | None = None
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

    def set_labels(self, labels: Sequence[np.ndarray]) -> None:
        """Replace the labels of each block."""
        self.rows[:] = [
            replace(each, label=own) for each, own in zip(self.rows, labels, strict=True)
        ]
        self.label_at = self._hold(labels, np.uint8)

    @property
    def layout(self) -> Layout:
        """The memory layout of codes."""
        return self.rows[0].layout

    @cached_property
    def columns(self) -> tuple[np.ndarray, np.ndarray, int, int]:
        """The addresses of all codes, and the numbers of columns of one and of two bytes."""
        if not self.rows:
            return self.narrow_at, self.wide_at, 0, 0
        layout = self.layout
        return self.narrow_at, self.wide_at, layout.n_narrow, len(layout.slots) - layout.n_narrow

    def column(self, feature: int) -> Ids:
        """Return the addresses of a feature's codes."""
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
        """Call a Python function on all blocks, in as many threads as are worth starting.

        Parameters
        ----------
        look_ups : float
            Table look-ups per row.
        act : callable
            Takes the first block, and the one after the last.

        Returns
        -------
        list
            The result of each thread, at least one.
        """
        cuts = self._cuts_of(self._pool.size_for(look_ups * self.n_rows))
        return self._pool.do([partial(act, *share) for share in pairwise(cuts.tolist())])

    def run(
        self,
        look_ups: float,
        kernel: Kernel,
        task: tuple[Any, ...],
        first: int = 0,
        last: int | None = None,
    ) -> None:
        """Run a kernel on blocks, in as many threads as are worth starting.

        Parameters
        ----------
        look_ups : float
            Table look-ups per row.
        kernel, task : Kernel and tuple
            The kernel, and its arguments after the number of the share.
        first, last : int, optional
            The first block, and the one after the last; by default all blocks.
        """
        threads, cuts = self._shares(look_ups)
        if last is not None:
            cuts = np.array([first, *(cut for cut in cuts.tolist() if first < cut < last), last])
        run_shares(kernel, cuts, task, threads)

    def add_up(
        self,
        look_ups: float,
        kernel: Kernel,
        task_of: Callable[[np.ndarray | None, np.ndarray], tuple[Any, ...]],
        size: int,
        statistics: Statistics | None = None,
    ) -> np.ndarray:
        """Run a kernel that adds up, with sums of its own for each thread, and return their sum.

        Parameters
        ----------
        look_ups, kernel
            See `run`.
        task_of : callable
            Returns the kernel's arguments, from the addresses of the marks of active rows and the
            copies of sums.
        size : int
            How many sums there are.
        statistics : Statistics, optional
            Which rows are active; by default all of them.

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
        copies = np.zeros((threads, size), dtype=np.int64)
        active_at = None if statistics is None else statistics.active_at
        run_shares(kernel, cuts, task_of(active_at, copies), threads)
        return _sum_of(copies)

    def buffers(self, count: int, size: int) -> np.ndarray:
        """Return working memory for so many shares, of so many numbers each."""
        if count == 1:  # samples are added up by any number of threads at once
            return np.empty((1, size), dtype=np.int64)
        if self._buffer is None or self._buffer.size < count * size:
            self._buffer = np.empty(
                count * size, dtype=np.int64
            )  # kept: new memory is slow to touch
        buffer: np.ndarray = self._buffer[: count * size].reshape(count, size)
        return buffer

    def _shares(self, look_ups: float) -> tuple[int, np.ndarray]:
        """Return how many threads are worth starting for a kernel, and where their shares begin."""
        threads = min(self._pool.compiled_size_for(look_ups, self.n_rows), max(1, len(self.rows)))
        return threads, self._cuts_of(threads * _SHARES if threads > 1 else 1)

    def _cuts_of(self, count: int) -> np.ndarray:
        """Return where up to `count` shares of about equally many rows begin, and the end."""
        if count not in self._cuts:
            middles = self._ends - self.sizes / 2
            inner = np.searchsorted(middles, np.arange(1, count) * (self.n_rows / count))
            ends = [0, *np.unique(inner).tolist(), len(self.rows)]
            shares = [share for share in pairwise(ends) if share[0] < share[1]] or [(0, 0)]
            self._cuts[count] = np.array([0, *(last for _, last in shares)], dtype=np.int64)
        return self._cuts[count]

    def _hold(self, arrays: Sequence[np.ndarray], kind: type) -> np.ndarray:
        """Return the addresses of arrays, made contiguous, and keep the arrays."""
        whole: list[np.ndarray] = [np.ascontiguousarray(array, dtype=kind) for array in arrays]
        self._held.append(whole)
        return addresses(whole)


def add_all(answers: Sequence[np.ndarray]) -> np.ndarray:
    """Add the results of several threads into the first."""
    first, *others = answers
    for other in others:
        first += other
    return first


def _sum_of(copies: np.ndarray) -> np.ndarray:
    """Return the sum of the sums of several threads."""
    count, size = copies.shape
    if count == 1 or size < _LARGE:
        few: np.ndarray = copies[0] if count == 1 else copies.sum(axis=0)
        return few
    total = np.empty(size, dtype=np.int64)
    cuts = np.linspace(0, size, count + 1).astype(np.int64)
    run_shares(block_kernels.sum_copies, cuts, (copies, total), count)
    return total


def _sum_sampled(
    kernel: Kernel,
    task_of: Callable[[np.ndarray | None, np.ndarray], tuple[Any, ...]],
    size: int,
    sampled: Callable[[int, int], Iterable[tuple[int, int, np.ndarray]]],
    first: int,
    last: int,
) -> np.ndarray:
    """Add up the sampled rows of some blocks; the sample is drawn a few blocks at a time."""
    copies = np.zeros((1, size), dtype=np.int64)
    for start, stop, active_at in sampled(first, last):
        run_serially(kernel, start, stop, task_of(active_at, copies))
    sums: np.ndarray = copies[0]
    return sums


def _weight(block: Rows) -> np.ndarray:
    """Return a block's weights; rows without weights have the weight of one step."""
    return np.ones(len(block), dtype=np.uint16) if block.weight is None else block.weight


Digit = tuple[Ids, np.ndarray, int]
"""Ids of rows, the cell of each id, and the number of cells."""


class Parts(NamedTuple):
    """Several parts: the cell of a row in each is a mixed-radix number with a digit per id.

    Attributes
    ----------
    ids_at : int64 array of shape (digits, blocks)
        The addresses of ids.
    wide : bool array of shape (digits,)
        Whether ids take two bytes.
    cell_of : uint16 array
        The cell of each id, digit after digit.
    cell_first : int64 array of shape (digits,)
        The offset of each digit in `cell_of`.
    radix : uint32 array of shape (digits,)
        The number of cells of each digit.
    digit_first : int64 array of shape (parts + 1,)
        The first digit of each part.
    part_first : int64 array of shape (parts + 1,)
        The first cell of each part.
    """

    ids_at: np.ndarray
    wide: np.ndarray
    cell_of: np.ndarray
    cell_first: np.ndarray
    radix: np.ndarray
    digit_first: np.ndarray
    part_first: np.ndarray

    @classmethod
    def of(cls, parts: Sequence[Sequence[Digit]]) -> Parts:
        """Join parts; each is a sequence of digits, of which the last varies fastest."""
        digits = [digit for part in parts for digit in part]
        cells = [int(np.prod([size for _, _, size in part])) for part in parts]
        return cls(
            np.stack([at for (at, _), _, _ in digits]),
            np.array([wide for (_, wide), _, _ in digits], dtype=np.bool_),
            np.concatenate([cell_of for _, cell_of, _ in digits]),
            _starts([len(cell_of) for _, cell_of, _ in digits])[:-1],
            np.array([size for _, _, size in digits], dtype=np.uint32),
            _starts([len(part) for part in parts]),
            _starts(cells),
        )


def digits_of(blocks: Blocks, part: CellPart) -> list[Digit]:
    """Return the digits of the cells of one or several features."""
    own = zip(part.features, part.cell_of, part.sizes, strict=True)
    return [(blocks.column(feature), cell_of, size) for feature, cell_of, size in own]


def _starts(counts: Sequence[int]) -> np.ndarray:
    return np.cumsum([0, *counts], dtype=np.int64)
