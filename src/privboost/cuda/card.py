"""The devices themselves, by CuPy: their memory, and kernels that are compiled on first use."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.resources import files
from threading import Lock
from typing import Any

import numpy as np

from privboost.cuda.tasks import Task
from privboost.errors import CardError

SOURCES = ("rows.cu", "codes.cu", "cells.cu", "trees.cu", "states.cu", "vectors.cu")
"""In the order in which they know each other."""
THREADS = 1024
"""Of a block; fewer for short tables."""

MANY_ROWS = 2**20
"""From here on it pays to bring the table of a loss near the threads of each block."""

_FEW_THREADS = 256
_SPARE = 1 / 16
"""The part of a device's free memory that no rows are put into: commands need some."""
_LEAST_SPARE = 2**29
"""Bytes of it, at least, where there are as many."""
_COMPILING = Lock()
"""The first device compiles; CuPy remembers it for the others."""
_INSTEAD = 'or leave backend="auto", which uses the processor'
_OLDEST = 70
"""Compute capability, times 10."""


def source() -> str:
    """Return the text of all kernels."""
    folder = files("privboost.cuda") / "kernels"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in SOURCES)


def find_devices() -> tuple[int, ...]:
    """Return the numbers of the devices that can be used, or say in one line what is missing."""
    cupy = _cupy()
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
        raise CardError(f'backend="cuda" needs an NVIDIA device, and finds none; {_INSTEAD}')
    capable = [int(cupy.cuda.Device(k).compute_capability) >= _OLDEST for k in range(count)]
    if not any(capable):
        raise CardError(f"the device is too old: compute capability 7.0 is the least; {_INSTEAD}")
    return tuple(k for k in range(count) if capable[k])


@cache
def open_device(number: int) -> Device:
    """Return one of the devices that `find_devices` names, ready for use."""
    cupy = _cupy()
    try:
        return Device(cupy, number)
    except cupy.cuda.runtime.CUDARuntimeError:
        raise CardError(
            f"the device {number} cannot be used: another program may have all of its memory, or "
            f"have it for itself; {_INSTEAD}"
        ) from None


def _cupy() -> Any:
    try:
        return import_module("cupy")
    except ImportError:
        raise CardError(
            'backend="cuda" needs CuPy: pip install "privboost[gpu12]" for drivers of CUDA 12, '
            f'"privboost[gpu13]" for those of CUDA 13; {_INSTEAD}'
        ) from None


class Device:
    """One device: its memory, its kernels, and a queue in which commands follow each other.

    Whatever is done with it is done within `at_work`, by one thread at a time.

    Attributes
    ----------
    keeps : bool
        Whether what commands write stays there when they are over.
    processors : int
        How many multiprocessors it has.
    near : int
        Bytes of memory near the threads of one block, at most.
    near_all : int
        Bytes of it that blocks on one multiprocessor share.
    threads : int
        Of a block.
    spare : int
        Bytes of memory that no rows are put into: all that commands need beside rows.
    """

    keeps = True

    def __init__(self, cupy: Any, number: int = 0) -> None:
        self._cupy, self._cupy_device = cupy, cupy.cuda.Device(number)
        about = self._cupy_device.attributes
        self.processors: int = about["MultiProcessorCount"]
        self.near: int = about["MaxSharedMemoryPerBlockOptin"] - 64  # kernels have a few bytes
        self.near_all: int = about["MaxSharedMemoryPerMultiprocessor"]
        self.threads = THREADS
        self._pool = cupy.cuda.MemoryPool()
        with self._cupy_device:
            self._stream = cupy.cuda.Stream(non_blocking=True)
            free, _ = cupy.cuda.runtime.memGetInfo()
        self.spare = max(int(free * _SPARE), min(free, _LEAST_SPARE))
        self._module = cupy.RawModule(code=source(), options=("-std=c++17",))
        self._kernels: dict[str, Any] = {}

    def beside(self) -> Device:
        """Return the same device with another queue: what is in both may run at once."""
        other = copy.copy(self)
        with self._cupy_device:
            other._stream = self._cupy.cuda.Stream(non_blocking=True)
        return other

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Have this thread's commands go to this device, into its queue."""
        with self._cupy_device, self._stream:
            yield

    def free(self) -> int:
        """Return how many bytes of rows there is room for, and see that rows take no more."""
        with self._cupy_device:
            free, _ = self._cupy.cuda.runtime.memGetInfo()
            most = max(free + self._pool.total_bytes() - self.spare, 1)  # 0 would be no limit
            self._pool.set_limit(size=most)
            return int(max(most - self._pool.used_bytes(), 0))

    def launch(
        self, kernel: str, task: Task, blocks: int, near: int = 0, threads: int | None = None
    ) -> None:
        """Have a kernel begin its task; it need not be over when this returns."""
        if kernel not in self._kernels:
            with _COMPILING:
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
                "CuPy cannot compile for this device; its CUDA is not the driver's, or incomplete: "
                f'install "privboost[gpu12]" or "privboost[gpu13]", whichever is; {_INSTEAD}'
            ) from error
        return function

    def put(self, array: np.ndarray) -> Any:
        """Bring a small array to the device."""
        return self._cupy.asarray(array)

    def zeros(self, shape: int | tuple[int, ...], kind: Any) -> Any:
        """Return zeros on the device, for sums."""
        return self._cupy.zeros(shape, dtype=kind)

    def room(self, shape: int | tuple[int, ...], kind: Any) -> Any:
        """Return zeros for as many rows, on the device.

        What it cannot hold lies in the machine's memory, where the device reads it through the bus:
        how many rows there are makes a fit slower, and never an error.
        """
        cupy, dtype = self._cupy, np.dtype(kind)
        size = _bytes(shape, dtype)
        try:
            memory = self._pool.malloc(size)
            memory.memset_async(0, size)
        except cupy.cuda.memory.OutOfMemoryError:
            pinned = cupy.cuda.alloc_pinned_memory(size)
            np.frombuffer(pinned, dtype=np.uint8)[:] = 0
            lent = cupy.cuda.UnownedMemory(pinned.ptr, size, pinned, self._cupy_device.id)
            memory = cupy.cuda.MemoryPointer(lent, 0)
        return cupy.ndarray(shape, dtype=dtype, memptr=memory)

    scratch = room
    """For what one command needs: it stays where the device keeps what is written."""

    def pinned(self, shape: int | tuple[int, ...], kind: Any) -> np.ndarray:
        """Return zeros in the machine's memory, where devices copy from at full speed."""
        dtype = np.dtype(kind)
        memory = self.stage(_bytes(shape, dtype))
        memory.fill(0)
        array: np.ndarray = memory[: _count(shape) * dtype.itemsize].view(dtype).reshape(shape)
        return array

    def stage(self, size: int) -> np.ndarray:
        """Return so many bytes of such memory, with whatever is in them."""
        try:
            memory = self._cupy.cuda.alloc_pinned_memory(size)
        except self._cupy.cuda.runtime.CUDARuntimeError:
            return np.empty(size, dtype=np.uint8)  # slower, and no error
        return np.frombuffer(memory, dtype=np.uint8, count=size)

    def mark(self) -> Any:
        """Return what can be waited for: all that is in the queue now."""
        return self._stream.record()

    def bare(self, size: int) -> Any:
        """Return so many bytes on the device, with whatever is in them."""
        return self._cupy.empty(size, dtype=np.uint8)

    def bring(self, array: np.ndarray) -> Any:
        """Return an array of the machine's memory on the device; it is copied in the queue."""
        there = self._cupy.empty(array.shape, dtype=array.dtype)
        there.data.copy_from_host_async(array.ctypes.data, array.nbytes)
        return there

    def send(self, values: np.ndarray, to: Any, first: int) -> None:
        """Copy values in one piece to an array, from a place on, in the queue."""
        part = to[first : first + len(values)]
        part.data.copy_from_host_async(values.ctypes.data, values.nbytes)

    def take_back(self, array: Any, to: np.ndarray) -> None:
        """Copy an array to the machine's memory, in the queue."""
        array.data.copy_to_host_async(to.ctypes.data, to.nbytes)

    def wait(self) -> None:
        """Wait until all that was begun is over."""
        self._stream.synchronize()

    def write(self, array: Any, first: int, values: np.ndarray) -> None:
        """Write values from a place on."""
        self.send(np.ascontiguousarray(values), array, first)
        self.wait()

    def clear(self, array: Any, begin: int, end: int) -> None:
        """Write zeros from a place to another."""
        array[begin:end] = 0

    def address(self, array: Any) -> int:
        """Return where an array lies that a kernel reads; 0 for None."""
        return 0 if array is None else int(array.data.ptr)

    def target(self, array: Any) -> int:
        """The same for an array that a kernel changes."""
        return self.address(array)

    def settle(self) -> None:
        """End a command: what it changed is where it belongs."""

    def fetch(self, array: Any) -> np.ndarray:
        """Return an array, when all that was begun is over."""
        fetched = np.empty(array.shape, dtype=array.dtype)
        self.take_back(array, fetched)
        self.wait()
        return fetched

    def rest(self) -> None:
        """Give back memory that nobody uses."""
        self._pool.free_all_blocks()
        self._cupy.get_default_memory_pool().free_all_blocks()
        self._cupy.get_default_pinned_memory_pool().free_all_blocks()


def _bytes(shape: int | tuple[int, ...], kind: np.dtype) -> int:
    return max(_count(shape) * kind.itemsize, 1)


def _count(shape: int | tuple[int, ...]) -> int:
    return shape if isinstance(shape, int) else math.prod(shape)


def spread(device: Device, rows: int, at_once: int = 1, per_processor: int = 2) -> dict[str, int]:
    """Return how many blocks and threads some rows are spread over."""
    threads = device.threads if rows >= MANY_ROWS else min(_FEW_THREADS, device.threads)
    wanted = -(-rows // (at_once * threads))
    per_processor *= device.threads // threads
    return {"blocks": min(max(wanted, 1), per_processor * device.processors), "threads": threads}
