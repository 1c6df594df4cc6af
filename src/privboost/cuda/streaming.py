"""Rows that a device does not hold: each command brings what it needs of them through the bus."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from privboost.cuda.card import Device
from privboost.cuda.tasks import Task


class _Here(np.ndarray):
    """An array in the machine's memory, which kernels cannot be told of as it is."""


class StreamingDevice(Device):
    """A device whose rows lie in the machine's memory: for shards it has every verb of a device.

    An array that a kernel is told of is copied to the device, once a command, and back when the
    command is over if it was changed. All of it is in one queue, so nothing is read before it is
    there. Copies in another device's queue go on meanwhile.

    Parameters
    ----------
    device : Device
        It is used with a queue of its own.
    """

    keeps = False

    def __init__(self, device: Device) -> None:
        self._device = device.beside()
        self.processors, self.threads = device.processors, device.threads
        self.near, self.near_all, self.spare = device.near, device.near_all, device.spare
        self._there: dict[int, tuple[np.ndarray, Any]] = {}
        self._changed: set[int] = set()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Have this thread's commands go to the device, into its queue."""
        with self._device.at_work():
            yield

    def launch(
        self, kernel: str, task: Task, blocks: int, near: int = 0, threads: int | None = None
    ) -> None:
        """Have a kernel begin its task; it need not be over when this returns."""
        self._device.launch(kernel, task, blocks, near, threads)

    def put(self, array: np.ndarray) -> Any:
        """Keep a small array until a kernel is told of it."""
        return np.ascontiguousarray(array).view(_Here)

    def pinned(self, shape: int | tuple[int, ...], kind: Any) -> np.ndarray:
        """Return zeros in the machine's memory, where devices copy from at full speed."""
        return self._device.pinned(shape, kind)

    def stage(self, size: int) -> np.ndarray:
        """Return so many bytes of such memory, with whatever is in them."""
        return self._device.stage(size)

    def mark(self) -> Any:
        """Return what can be waited for: all that is in the queue now."""
        return self._device.mark()

    def bare(self, size: int) -> Any:
        """Return so many bytes on the device, with whatever is in them."""
        return self._device.bare(size)

    def send(self, values: np.ndarray, to: Any, first: int) -> None:
        """Copy values in one piece to an array on the device, from a place on, in the queue."""
        self._device.send(values, to, first)

    def wait(self) -> None:
        """Wait until all that was begun is over."""
        self._device.wait()

    def zeros(self, shape: int | tuple[int, ...], kind: Any) -> Any:
        """Return zeros on the device, for sums."""
        return self._device.zeros(shape, kind)

    scratch = zeros

    def room(self, shape: int | tuple[int, ...], kind: Any) -> Any:
        """Return zeros for as many rows, in the machine's memory."""
        return self._device.pinned(shape, kind).view(_Here)

    def write(self, array: Any, first: int, values: np.ndarray) -> None:
        """Write values from a place on."""
        array[first : first + len(values)] = values

    def clear(self, array: Any, begin: int, end: int) -> None:
        """Write zeros from a place to another."""
        self._device.clear(self._bring(array, changed=True), begin, end)

    def address(self, array: Any) -> int:
        """Bring an array to the device, and return where; 0 for None."""
        return 0 if array is None else self._device.address(self._bring(array, changed=False))

    def target(self, array: Any) -> int:
        """The same for an array that a kernel changes."""
        return 0 if array is None else self._device.address(self._bring(array, changed=True))

    def _bring(self, array: Any, changed: bool) -> Any:
        if not isinstance(array, _Here):
            return array
        own = id(array)  # which is kept as long as its place here
        if own not in self._there:
            self._there[own] = array, self._device.bring(array)
        if changed:
            self._changed.add(own)
        return self._there[own][1]

    def settle(self) -> None:
        """Bring back what was changed, and forget what is on the device."""
        for own in self._changed:
            array, there = self._there[own]
            self._device.take_back(there, array)
        self._device.wait()
        self._there, self._changed = {}, set()

    def fetch(self, array: Any) -> np.ndarray:
        """Return an array, when all that was begun is over."""
        return self._device.fetch(array)

    def rest(self) -> None:
        """Give back memory that nobody uses."""
        self._device.rest()
