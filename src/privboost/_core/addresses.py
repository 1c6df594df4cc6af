"""Arrays by their addresses, with which one kernel call processes many separate blocks.

Rows are read and coded block by block, in several threads; one contiguous array of all of them
would need their memory twice while it is made. Callers keep the arrays alive, and pass true sizes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any

import numpy as np
from numba import carray, types  # type: ignore[attr-defined]
from numba.extending import intrinsic, overload


def addresses(arrays: Iterable[np.ndarray]) -> np.ndarray:
    """Return the addresses of contiguous arrays (int64)."""
    found = [array.__array_interface__["data"][0] for array in arrays]
    return np.array(found, dtype=np.int64)


def bytes_at(address: int, size: int) -> np.ndarray:
    """Return the uint8 array at an address."""
    return _array_at(address, size, np.uint8)


def codes_at(address: int, size: int) -> np.ndarray:
    """Return the uint16 array at an address."""
    return _array_at(address, size, np.uint16)


def steps_at(address: int, size: int) -> np.ndarray:
    """Return the int32 array at an address."""
    return _array_at(address, size, np.int32)


NUMBERS = ("f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
"""The types that `number_at` reads, in the order of their numbers."""


def number_at(address: int, kind: int) -> float:
    """Return the number at an address as a float64.

    Parameters
    ----------
    kind : int
        The index of its type in `NUMBERS`.
    """
    return float(_array_at(address, 1, np.dtype(NUMBERS[kind]))[0])


def _array_at(address: int, size: int, kind: Any) -> np.ndarray:
    memory = ctypes.c_uint8 * (int(size) * np.dtype(kind).itemsize)
    return np.ndarray(int(size), kind, memory.from_address(int(address)))


def _make_pointer(typing_context, address):  # type: ignore[no-untyped-def]
    def make(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.inttoptr(arguments[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), make


_pointer: Any = intrinsic(_make_pointer)


@overload(bytes_at)
def _bytes_at(address, size):  # type: ignore[no-untyped-def]
    return lambda address, size: carray(_pointer(address), size, np.uint8)


@overload(codes_at)
def _codes_at(address, size):  # type: ignore[no-untyped-def]
    return lambda address, size: carray(_pointer(address), size, np.uint16)


@overload(steps_at)
def _steps_at(address, size):  # type: ignore[no-untyped-def]
    return lambda address, size: carray(_pointer(address), size, np.int32)


@overload(number_at)
def _number_at(address, kind):  # type: ignore[no-untyped-def]
    def read(address, kind):  # type: ignore[no-untyped-def]
        pointer = _pointer(address)
        if kind == 0:
            return np.float64(carray(pointer, 1, np.float32)[0])
        if kind == 1:
            return np.float64(carray(pointer, 1, np.float64)[0])
        if kind == 2:
            return np.float64(carray(pointer, 1, np.int8)[0])
        if kind == 3:
            return np.float64(carray(pointer, 1, np.int16)[0])
        if kind == 4:
            return np.float64(carray(pointer, 1, np.int32)[0])
        if kind == 5:
            return np.float64(carray(pointer, 1, np.int64)[0])
        if kind == 6:
            return np.float64(carray(pointer, 1, np.uint8)[0])
        if kind == 7:
            return np.float64(carray(pointer, 1, np.uint16)[0])
        if kind == 8:
            return np.float64(carray(pointer, 1, np.uint32)[0])
        return np.float64(carray(pointer, 1, np.uint64)[0])

    return read
