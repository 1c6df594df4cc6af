"""Out-of-core rows: each message copies the columns that it needs to the device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from privboost.cuda.card import Device
from privboost.cuda.tasks import Task


class _HostArray(np.ndarray):
    """An array in host memory, which a kernel can read after it was copied."""


class StreamingDevice(Device):
    """A device whose rows are stored in host memory, with the methods of `Device`.

    An array whose address a kernel gets is copied to the device once a message, and back at its end
    if a kernel has changed it. All copies and kernels are in one stream, hence in order; those of
    another stream run concurrently.

    Parameters
    ----------
    device : Device
        The device; it is used with a stream of its own.
    """

    resident = False

    def __init__(self, device: Device) -> None:
        self._device = device.with_new_stream()
        self.processors, self.threads = device.processors, device.threads
        self.shared_memory, self.shared_memory_all = device.shared_memory, device.shared_memory_all
        self.spare = device.spare
        self._there: dict[int, tuple[np.ndarray, Any]] = {}
        self._changed: set[int] = set()

    @contextmanager
    def activated(self) -> Iterator[None]:
        """Make the device and its stream current in this thread."""
        with self._device.activated():
            yield

    def launch(
        self, kernel: str, task: Task, blocks: int, shared: int = 0, threads: int | None = None
    ) -> None:
        """Launch a kernel asynchronously."""
        self._device.launch(kernel, task, blocks, shared, threads)

    def put(self, array: np.ndarray) -> Any:
        """Keep a small array in host memory."""
        return np.ascontiguousarray(array).view(_HostArray)

    def pinned_zeros(self, shape: int | tuple[int, ...], kind: Any) -> np.ndarray:
        """Return zeros in pinned host memory."""
        return self._device.pinned_zeros(shape, kind)

    def pinned_bytes(self, size: int) -> np.ndarray:
        """Return uninitialised bytes of pinned host memory."""
        return self._device.pinned_bytes(size)

    def record_event(self) -> Any:
        """Return an event after all that is in the stream now."""
        return self._device.record_event()

    def empty_bytes(self, size: int) -> Any:
        """Return uninitialised bytes of device memory."""
        return self._device.empty_bytes(size)

    def copy_into(self, values: np.ndarray, to: Any, first: int) -> None:
        """Copy contiguous values into an array on the device from an index on, asynchronously."""
        self._device.copy_into(values, to, first)

    def synchronize(self) -> None:
        """Wait for all that is in the stream."""
        self._device.synchronize()

    def zeros(self, shape: int | tuple[int, ...], kind: Any) -> Any:
        """Return zeros in device memory, for sums."""
        return self._device.zeros(shape, kind)

    scratch = zeros

    def allocate(self, shape: int | tuple[int, ...], kind: Any) -> Any:
        """Return zeros for rows, in host memory."""
        return self._device.pinned_zeros(shape, kind).view(_HostArray)

    def write(self, array: Any, first: int, values: np.ndarray) -> None:
        """Write values into an array from an index on."""
        array[first : first + len(values)] = values

    def clear(self, array: Any, begin: int, end: int) -> None:
        """Write zeros into a range of an array."""
        self._device.clear(self._bring(array, changed=True), begin, end)

    def address(self, array: Any) -> int:
        """Return the address of a copy on the device, which a kernel reads; 0 for None."""
        return 0 if array is None else self._device.address(self._bring(array, changed=False))

    def target(self, array: Any) -> int:
        """Return the address of a copy on the device, which a kernel changes; 0 for None."""
        return 0 if array is None else self._device.address(self._bring(array, changed=True))

    def _bring(self, array: Any, changed: bool) -> Any:
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

    def fetch(self, array: Any) -> np.ndarray:
        """Return a copy of an array in host memory, after all that is in the stream."""
        return self._device.fetch(array)

    def free_memory(self) -> None:
        """Free unused memory of the pools."""
        self._device.free_memory()
