"""Out-of-core rows: each message copies the columns that it needs to the device."""

from __future__ import annotations

from typing import Any

import numpy as np

from privboost.cuda.card import Device


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
