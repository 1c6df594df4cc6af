"""Arrays by their addresses, with which one kernel call processes many separate blocks.

Rows are read and coded block by block, in several threads; one contiguous array of all of them
would need their memory twice while it is made. Callers keep the arrays alive, and pass true sizes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import lower_builtin, type_callable
from numba.np.arrayobj import populate_array
from numba.np.numpy_support import from_dtype


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


def _lower(function: Any, kind: Any) -> None:
    """Compile a function that returns an array at an address.

    As LLVM IR: a function in Python that is inlined takes longer to compile, for each caller.
    """
    array = types.Array(kind, 1, "C")

    @type_callable(function)
    def _type(context):  # type: ignore[no-untyped-def]
        return lambda address, size: array

    @lower_builtin(function, types.Integer, types.Integer)  # type: ignore[no-untyped-call]
    def _make(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        made = context.make_array(array)(context, builder)
        address, size = (
            context.cast(builder, value, own, types.intp)
            for value, own in zip(arguments, signature.args, strict=True)
        )
        width = context.get_constant(types.intp, kind.bitwidth // 8)
        data = builder.inttoptr(address, made.data.type)
        populate_array(made, data, [size], [width], width, None)  # type: ignore[no-untyped-call]
        return made._getvalue()


_lower(bytes_at, types.uint8)
_lower(codes_at, types.uint16)
_lower(steps_at, types.int32)


@type_callable(number_at)
def _type_number(context):  # type: ignore[no-untyped-def]
    return lambda address, kind: types.float64


@lower_builtin(number_at, types.Integer, types.Integer)  # type: ignore[no-untyped-call]
def _read_number(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
    address, number = arguments
    found = cgutils.alloca_once(builder, context.get_value_type(types.float64))  # type: ignore[no-untyped-call]
    end = builder.append_basic_block("end")
    switch = builder.switch(number, end)
    for k, name in enumerate(NUMBERS):
        kind = from_dtype(np.dtype(name))
        block = builder.append_basic_block(name)
        switch.add_case(number.type(k), block)
        builder.position_at_end(block)
        pointer = builder.inttoptr(address, context.get_data_type(kind).as_pointer())
        value = context.cast(builder, builder.load(pointer), kind, types.float64)
        builder.store(value, found)
        builder.branch(end)
    builder.position_at_end(end)
    return builder.load(found)
