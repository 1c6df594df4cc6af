"""CUDA devices through CuPy: memory, streams, and kernels that are compiled on first use.

The arguments of a kernel are one buffer: a struct, which is that of `kernels/*.cu` field by field,
followed by arrays. Of rows in host memory each message copies the columns that it needs.
"""

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

from privboost._core.errors import DeviceError

_ALIGNED = 16


def _struct(*fields: tuple[str | np.dtype, str]) -> np.dtype:
    """Return a struct in the layout of C, from types and the names of their fields."""
    return np.dtype([(name, kind) for kind, names in fields for name in names.split()], align=True)


LOOK_UP = _struct(("u8", "label state weight active pairs table"), ("u4", "n own lines size shift"))
PART = _struct(
    ("3u8", "column"),
    ("3u4", "bytes map size"),
    ("u4", "columns cells first fold values first_out"),
)
COLUMN = _struct(("u8", "values out"), ("i8", "stride"), ("u4", "kind first n_edges"))
CODE = _struct(("u4", "n n_columns columns n_edges edges"))
PAIRS = _struct((LOOK_UP, "look"), ("u8", "out"))
SUM = _struct(
    (LOOK_UP, "look"), ("u8", "out"), ("u4", "n_parts parts cells copies chunk shared_table")
)
ADD = _struct(("u8", "state"), ("u4", "n n_parts parts"))
ROUTE = _struct(
    ("u8", "node"), ("u4", "n first nodes words columns bitmask shared n_columns slots")
)
COUNT = _struct(("u8", "node out"), ("u4", "n leaves copies"))
SIBLINGS = _struct(("u8", "counts chosen out parent"), ("u4", "leaves cells"))
NODES = _struct(
    ("u8", "pairs node chosen out"),
    ("u4", "n node_bytes n_parts parts nodes cells copies all_cells chunk maps map_bytes"),
)
START = _struct(("u8", "minus_label state"), ("i8", "middle half steps"), ("u4", "n"))
PREDICTIONS = _struct(
    ("u8", "minus_label state kept bounded"), ("i8", "middle half steps"), ("u4", "n limit")
)
CHARGE = _struct(
    ("u8", "label state weight left active table begin end"),
    ("u4", "own lines size shift steps weight_steps"),
)
SAMPLE = _struct(("u8", "ids active out"), ("u4", "first_id n limit round_keys round_table"))
LINES = _struct(("u8", "minus_label label out"), ("u4", "n n_edges edges"))
CELLS = _struct(("u8", "state label out"), ("u4", "n own classes n_edges edges"))
VOTES = _struct(("u8", "state label node out pairs"), ("u4", "n own votes vote_bits node_of_leaf"))
GRADIENTS = _struct((LOOK_UP, "look"), ("u8", "scale out"), ("u4", "bits"))
SCALES = _struct(("u8", "out"), ("i8", "steps"), ("u4", "n n_parts parts"))
VECTORS = _struct(
    ("u8", "label weight scale out begin end"),
    ("u4", "own width n_parts parts bits factors roots"),
)
SOFTMAX = _struct(
    ("u8", "label weight out"),
    ("i8", "clip clip_steps hessian_clip slope"),
    ("u4", "n classes absolute n_parts parts size table states n_edges edges"),
)
PRODUCTS = _struct(("u8", "vectors out"), ("u4", "rows width tiles slice"))


class Task:
    """The arguments of one launch: a struct, and the arrays that follow it.

    Parameters
    ----------
    kind : dtype
        One of the structs above.
    **fields
        Values of its fields; others are 0 until they are set.
    """

    def __init__(self, kind: np.dtype, **fields: object) -> None:
        self._head = np.zeros((), dtype=kind)
        self._pieces: list[tuple[int, bytes]] = []
        self._size = aligned(kind.itemsize)
        self.set(**fields)

    def set(self, **fields: object) -> None:
        """Set fields."""
        for name, value in fields.items():
            self._head[name] = value

    def put(self, array: np.ndarray) -> int:
        """Append an array, and return its byte offset."""
        start = self._size
        self._pieces.append((start, array.tobytes()))
        self._size = aligned(start + array.nbytes)
        return start

    def packed(self) -> np.ndarray:
        """Return struct and arrays as bytes (uint8)."""
        out = np.zeros(self._size, dtype=np.uint8)
        for start, piece in [(0, self._head.tobytes()), *self._pieces]:
            out[start : start + len(piece)] = np.frombuffer(piece, dtype=np.uint8)
        return out


def aligned(size: int) -> int:
    """Return the bytes that an array of a size takes in the buffer."""
    return -(-size // _ALIGNED) * _ALIGNED


SOURCES = ("rows.cu", "codes.cu", "cells.cu", "trees.cu", "states.cu", "vectors.cu", "softmax.cu")
"""Each may use declarations of those before."""
THREADS = 1024
"""Threads of a block; fewer for short tables."""

MANY_ROWS = 2**20
"""From so many rows on, kernels copy the table of a loss to shared memory."""

_FEW_THREADS = 256
_SPARE = 1 / 16
"""The part of a device's free memory that is kept for the arrays of single messages."""
_LEAST_SPARE = 2**29
"""The smallest size of that part, in bytes, if there are as many."""
_COMPILING = Lock()
"""The first device compiles; CuPy caches the kernels for the others."""
_INSTEAD = 'or leave backend="auto", which uses the processor'
_OLDEST = 70
"""The lowest compute capability, times 10."""


def source() -> str:
    """Return the source of all kernels."""
    folder = files("privboost.cuda") / "kernels"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in SOURCES)


def find_devices() -> tuple[int, ...]:
    """Return the numbers of the usable devices; raise `DeviceError` if there is none."""
    cupy = _cupy()
    runtime = cupy.cuda.runtime
    try:
        count = runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        if "InsufficientDriver" in str(error):
            raise DeviceError(
                "the driver is too old for this CuPy: update it, or install the CuPy of an older "
                f'CUDA ("privboost[gpu12]"); {_INSTEAD}'
            ) from None
        count = 0
    if not count:
        raise DeviceError(f'backend="cuda" needs an NVIDIA GPU, and finds none; {_INSTEAD}')
    capable = [int(cupy.cuda.Device(k).compute_capability) >= _OLDEST for k in range(count)]
    if not any(capable):
        raise DeviceError(f"the GPU is too old: compute capability 7.0 is required; {_INSTEAD}")
    return tuple(k for k in range(count) if capable[k])


@cache
def open_device(number: int) -> Device:
    """Return a device of `find_devices`."""
    cupy = _cupy()
    try:
        return Device(cupy, number)
    except cupy.cuda.runtime.CUDARuntimeError:
        raise DeviceError(
            f"device {number} cannot be used: another program may have all of its memory, or "
            f"exclusive access; {_INSTEAD}"
        ) from None


def _cupy() -> Any:
    try:
        return import_module("cupy")
    except ImportError:
        raise DeviceError(
            'backend="cuda" needs CuPy: pip install "privboost[gpu12]" for drivers of CUDA 12, '
            f'"privboost[gpu13]" for drivers of CUDA 13; {_INSTEAD}'
        ) from None


class Device:
    """One device: its memory, its kernels, and a stream.

    Its methods are called within `activated`, by one thread at a time.

    Attributes
    ----------
    resident : bool
        Whether arrays of rows stay in device memory between messages.
    processors : int
        The number of multiprocessors.
    shared_memory : int
        The shared memory of a block, at most, in bytes.
    shared_memory_all : int
        The shared memory of a multiprocessor, in bytes.
    threads : int
        The threads of a block.
    spare : int
        Bytes of memory that are kept for the arrays of single messages.
    """

    resident = True

    def __init__(self, cupy: Any, number: int = 0) -> None:
        self._cupy, self._cupy_device = cupy, cupy.cuda.Device(number)
        about = self._cupy_device.attributes
        self.processors: int = about["MultiProcessorCount"]
        self.shared_memory: int = (
            about["MaxSharedMemoryPerBlockOptin"] - 64
        )  # kernels declare a few bytes themselves
        self.shared_memory_all: int = about["MaxSharedMemoryPerMultiprocessor"]
        self.threads = THREADS
        self._pool = cupy.cuda.MemoryPool()
        with self._cupy_device:
            self._stream = cupy.cuda.Stream(non_blocking=True)
            free, _ = cupy.cuda.runtime.memGetInfo()
        self.spare = max(int(free * _SPARE), min(free, _LEAST_SPARE))
        self._module = cupy.RawModule(code=source(), options=("-std=c++17",))
        self._kernels: dict[str, Any] = {}

    def with_new_stream(self) -> Device:
        """Return the same device with another stream, which may run concurrently."""
        other = copy.copy(self)
        with self._cupy_device:
            other._stream = self._cupy.cuda.Stream(non_blocking=True)
        return other

    @contextmanager
    def activated(self) -> Iterator[None]:
        """Make this device and its stream current in this thread."""
        with self._cupy_device, self._stream:
            yield

    def free(self) -> int:
        """Return the bytes that are free for rows, and limit the memory pool of rows to them."""
        with self._cupy_device:
            free, _ = self._cupy.cuda.runtime.memGetInfo()
            most = max(free + self._pool.total_bytes() - self.spare, 1)  # 0 would be no limit
            self._pool.set_limit(size=most)
            return int(max(most - self._pool.used_bytes(), 0))

    def launch(
        self, kernel: str, task: Task, blocks: int, shared: int = 0, threads: int | None = None
    ) -> None:
        """Launch a kernel asynchronously.

        Parameters
        ----------
        kernel : str
            Its name.
        task : Task
            Its arguments.
        blocks : int
            The blocks of the grid.
        shared : int
            Bytes of shared memory of a block.
        threads : int, optional
            The threads of a block.
        """
        if kernel not in self._kernels:
            with _COMPILING:
                self._kernels[kernel] = self._compiled(kernel)
        handed = self.put(task.packed())
        self._kernels[kernel](
            (max(blocks, 1),), (threads or self.threads,), (handed,), shared_mem=shared
        )

    def _compiled(self, kernel: str) -> Any:
        try:
            function = self._module.get_function(kernel)
            function.max_dynamic_shared_size_bytes = self.shared_memory - function.shared_size_bytes
        except (self._cupy.cuda.compiler.CompileException, ImportError, RuntimeError) as error:
            raise DeviceError(
                "CuPy cannot compile for this device: its CUDA is incomplete, or not the driver's; "
                f'install the matching "privboost[gpu12]" or "privboost[gpu13]"; {_INSTEAD}'
            ) from error
        return function

    def put(self, array: np.ndarray) -> Any:
        """Copy a small array to the device."""
        return self._cupy.asarray(array)

    def zeros(self, shape: int | tuple[int, ...], kind: Any) -> Any:
        """Return zeros in device memory, for sums."""
        return self._cupy.zeros(shape, dtype=kind)

    def allocate(self, shape: int | tuple[int, ...], kind: Any) -> Any:
        """Return zeros for rows, in device memory.

        Arrays that do not fit are allocated in pinned host memory, which the device reads through
        the bus: many rows make a fit slower, and never fail.
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

    scratch = allocate
    """For arrays of rows that one message needs."""

    def pinned_zeros(self, shape: int | tuple[int, ...], kind: Any) -> np.ndarray:
        """Return zeros in pinned host memory."""
        dtype = np.dtype(kind)
        memory = self.pinned_bytes(_bytes(shape, dtype))
        memory.fill(0)
        array: np.ndarray = memory[: _count(shape) * dtype.itemsize].view(dtype).reshape(shape)
        return array

    def pinned_bytes(self, size: int) -> np.ndarray:
        """Return uninitialised bytes of pinned host memory."""
        try:
            memory = self._cupy.cuda.alloc_pinned_memory(size)
        except self._cupy.cuda.runtime.CUDARuntimeError:
            return np.empty(size, dtype=np.uint8)  # pageable: slower, but no error
        return np.frombuffer(memory, dtype=np.uint8, count=size)

    def record_event(self) -> Any:
        """Return an event after all that is in the stream now."""
        return self._stream.record()

    def empty_bytes(self, size: int) -> Any:
        """Return uninitialised bytes of device memory."""
        return self._cupy.empty(size, dtype=np.uint8)

    def copy_to_device(self, array: np.ndarray) -> Any:
        """Copy an array of host memory to a new one on the device, asynchronously."""
        there = self._cupy.empty(array.shape, dtype=array.dtype)
        there.data.copy_from_host_async(array.ctypes.data, array.nbytes)
        return there

    def copy_into(self, values: np.ndarray, to: Any, first: int) -> None:
        """Copy contiguous values into an array from an index on, asynchronously."""
        part = to[first : first + len(values)]
        part.data.copy_from_host_async(values.ctypes.data, values.nbytes)

    def copy_to_host(self, array: Any, to: np.ndarray) -> None:
        """Copy an array to host memory, asynchronously."""
        array.data.copy_to_host_async(to.ctypes.data, to.nbytes)

    def synchronize(self) -> None:
        """Wait for all that is in the stream."""
        self._stream.synchronize()

    def write(self, array: Any, first: int, values: np.ndarray) -> None:
        """Write values into an array from an index on."""
        self.copy_into(np.ascontiguousarray(values), array, first)
        self.synchronize()

    def clear(self, array: Any, begin: int, end: int) -> None:
        """Write zeros into a range of an array."""
        array[begin:end] = 0

    def address(self, array: Any) -> int:
        """Return the address of an array that a kernel reads; 0 for None."""
        return 0 if array is None else int(array.data.ptr)

    def target(self, array: Any) -> int:
        """Return the address of an array that a kernel changes."""
        return self.address(array)

    def finish(self) -> None:
        """End a message: write back what it has changed."""

    def fetch(self, array: Any) -> np.ndarray:
        """Return a copy of an array in host memory, after all that is in the stream."""
        fetched = np.empty(array.shape, dtype=array.dtype)
        self.copy_to_host(array, fetched)
        self.synchronize()
        return fetched

    def free_memory(self) -> None:
        """Free unused memory of the pools."""
        self._pool.free_all_blocks()
        self._cupy.get_default_memory_pool().free_all_blocks()
        self._cupy.get_default_pinned_memory_pool().free_all_blocks()


def _bytes(shape: int | tuple[int, ...], kind: np.dtype) -> int:
    return max(_count(shape) * kind.itemsize, 1)


def _count(shape: int | tuple[int, ...]) -> int:
    return shape if isinstance(shape, int) else math.prod(shape)


def spread(device: Device, rows: int, at_once: int = 1, per_processor: int = 2) -> dict[str, int]:
    """Return the blocks and threads of a launch over some rows."""
    threads = device.threads if rows >= MANY_ROWS else min(_FEW_THREADS, device.threads)
    wanted = -(-rows // (at_once * threads))
    per_processor *= device.threads // threads
    return {"blocks": min(max(wanted, 1), per_processor * device.processors), "threads": threads}


class _HostArray(np.ndarray):
    """An array in host memory, which a kernel can read after it was copied."""


class StreamingDevice:
    """A device whose rows are stored in host memory; it can replace a `Device` in shards.

    An array whose address a kernel gets is copied to the device once a message, and back at its end
    if a kernel has changed it. All copies and kernels are in one stream, hence in order; those of
    another stream run concurrently. All other methods are those of the device.

    Parameters
    ----------
    device : Device
        The device; it is used with a stream of its own.
    """

    resident = False

    def __init__(self, device: Device) -> None:
        self._device = device.with_new_stream()
        self.scratch = self._device.zeros
        self._there: dict[int, tuple[np.ndarray, Any]] = {}
        self._changed: set[int] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    def put(self, array: np.ndarray) -> Any:
        """Keep a small array in host memory."""
        return np.ascontiguousarray(array).view(_HostArray)

    def allocate(self, shape: int | tuple[int, ...], kind: Any) -> Any:
        """Return zeros for rows, in host memory."""
        return self._device.pinned_zeros(shape, kind).view(_HostArray)

    def write(self, array: Any, first: int, values: np.ndarray) -> None:
        """Write values into an array from an index on."""
        array[first : first + len(values)] = values

    def clear(self, array: Any, begin: int, end: int) -> None:
        """Write zeros into a range of an array."""
        self._device.clear(self._copy(array, changed=True), begin, end)

    def address(self, array: Any) -> int:
        """Return the address of a copy on the device, which a kernel reads; 0 for None."""
        return 0 if array is None else self._device.address(self._copy(array, changed=False))

    def target(self, array: Any) -> int:
        """Return the address of a copy on the device, which a kernel changes; 0 for None."""
        return 0 if array is None else self._device.address(self._copy(array, changed=True))

    def _copy(self, array: Any, changed: bool) -> Any:
        if not isinstance(array, _HostArray):
            return array
        own = id(array)  # valid while the array is in `_there`
        if own not in self._there:
            self._there[own] = array, self._device.copy_to_device(array)
        if changed:
            self._changed.add(own)
        return self._there[own][1]

    def finish(self) -> None:
        """Copy changed arrays back, and drop all copies on the device."""
        for own in self._changed:
            array, there = self._there[own]
            self._device.copy_to_host(there, array)
        self._device.synchronize()
        self._there, self._changed = {}, set()
