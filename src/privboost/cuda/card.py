"""The card itself, by CuPy: its memory, and kernels that are compiled when they are first used."""

from __future__ import annotations

import math
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import Any

import numpy as np

from privboost.cuda.tasks import Task
from privboost.errors import CardError

SOURCES = ("rows.cu", "cells.cu", "trees.cu", "states.cu", "vectors.cu")
"""In the order in which they know each other."""
THREADS = 1024
"""Of a block; fewer for short tables."""

_RESERVED = 1 / 16
"""The part of a card's free memory that no rows are put into: sums and tasks need some."""
_INSTEAD = 'or leave backend="auto", which uses the processor'
_OLDEST = 70
"""Compute capability, times 10."""


def source() -> str:
    """Return the text of all kernels."""
    folder = files("privboost.cuda") / "kernels"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in SOURCES)


@cache
def find_card() -> Card:
    """Return the current card, or say in one line what is missing."""
    try:
        cupy = import_module("cupy")
    except ImportError:
        raise CardError(
            'backend="cuda" needs CuPy: pip install "privboost[gpu12]" for drivers of CUDA 12, '
            f'"privboost[gpu13]" for those of CUDA 13; {_INSTEAD}'
        ) from None
    runtime = cupy.cuda.runtime
    try:
        count = runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        if "InsufficientDriver" in str(error):
            raise CardError(
                "the driver is too old for this CuPy: update it, or install the CuPy of an older "
                f'CUDA ("privboost[gpu12]"); {_INSTEAD}'
            ) from None
        count = 0
    if not count:
        raise CardError(f'backend="cuda" needs an NVIDIA card, and finds none; {_INSTEAD}')
    if int(cupy.cuda.Device().compute_capability) < _OLDEST:
        raise CardError(f"the card is too old: compute capability 7.0 is the least; {_INSTEAD}")
    return Card(cupy)


class Card:
    """One card: its memory, and its kernels.

    Attributes
    ----------
    processors : int
        How many multiprocessors it has.
    near : int
        Bytes of memory near the threads of one block, at most.
    near_all : int
        Bytes of it that blocks on one multiprocessor share.
    threads : int
        Of a block.
    """

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        about = cupy.cuda.Device().attributes
        self.processors: int = about["MultiProcessorCount"]
        self.near: int = about["MaxSharedMemoryPerBlockOptin"] - 64  # kernels have a few bytes
        self.near_all: int = about["MaxSharedMemoryPerMultiprocessor"]
        self.threads = THREADS
        self._pool = cupy.cuda.MemoryPool()
        free, _ = cupy.cuda.runtime.memGetInfo()
        self._pool.set_limit(size=int(free * (1 - _RESERVED)))
        self._module = cupy.RawModule(code=source(), options=("-std=c++17",))
        self._kernels: dict[str, Any] = {}

    def launch(
        self, kernel: str, task: Task, blocks: int, near: int = 0, threads: int | None = None
    ) -> None:
        """Have a kernel begin its task; it need not be over when this returns."""
        if kernel not in self._kernels:
            self._kernels[kernel] = self._compiled(kernel)
        handed = self.put(task.packed())
        self._kernels[kernel](
            (max(blocks, 1),), (threads or self.threads,), (handed,), shared_mem=near
        )

    def _compiled(self, kernel: str) -> Any:
        try:
            function = self._module.get_function(kernel)
            function.max_dynamic_shared_size_bytes = self.near - function.shared_size_bytes
        except (self._cupy.cuda.compiler.CompileException, ImportError, RuntimeError) as error:
            raise CardError(
                "CuPy cannot compile for this card; its CUDA is not the driver's, or incomplete: "
                f'install "privboost[gpu12]" or "privboost[gpu13]", whichever is; {_INSTEAD}'
            ) from error
        return function

    def put(self, array: np.ndarray) -> Any:
        """Bring a small array to the card."""
        return self._cupy.asarray(array)

    def zeros(self, shape: int | tuple[int, ...], kind: Any) -> Any:
        """Return zeros on the card, for sums."""
        return self._cupy.zeros(shape, dtype=kind)

    def room(self, shape: int | tuple[int, ...], kind: Any) -> Any:
        """Return zeros for as many rows, on the card.

        What it cannot hold lies in the machine's memory, where the card reads it through the bus:
        how many rows there are makes a fit slower, and never an error.
        """
        cupy, dtype = self._cupy, np.dtype(kind)
        size = max(math.prod(np.atleast_1d(shape).tolist()) * dtype.itemsize, 1)
        try:
            memory = self._pool.malloc(size)
            memory.memset_async(0, size)
        except cupy.cuda.memory.OutOfMemoryError:
            pinned = cupy.cuda.alloc_pinned_memory(size)
            np.frombuffer(pinned, dtype=np.uint8)[:] = 0
            memory = cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(pinned.ptr, size, pinned), 0)
        return cupy.ndarray(shape, dtype=dtype, memptr=memory)

    def write(self, array: Any, first: int, values: np.ndarray) -> None:
        """Write values from a place on."""
        array[first : first + len(values)].set(np.ascontiguousarray(values))

    def address(self, array: Any) -> int:
        """Return where an array lies; 0 for None."""
        return 0 if array is None else int(array.data.ptr)

    def fetch(self, array: Any) -> np.ndarray:
        """Return an array, when all that was begun is over."""
        fetched: np.ndarray = array.get()
        return fetched

    def rest(self) -> None:
        """Give back memory that nobody uses."""
        self._pool.free_all_blocks()
