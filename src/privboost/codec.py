"""Nested values with arrays, as bytes and back. Reading runs no code.

A file or message is: eight bytes that name the format, the length of a JSON text, that text, and
the arrays one after the other, little-endian. In the JSON an array stands as its place in a table
of element types and shapes.
"""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import numpy as np

_ALLOWED = ("|u1", "<u2", "<u4", "<u8", "<i4", "<i8", "<f8")
_ARRAY = "__array__"


def dump(value: Any, magic: bytes) -> bytes:
    """Write a value made of dicts, lists, numbers, texts, None and arrays."""
    arrays: list[np.ndarray] = []
    body = _strip(value, arrays)
    table = [[_element(array), list(array.shape)] for array in arrays]
    text = json.dumps({"body": body, "arrays": table}, ensure_ascii=False)
    head = text.encode()
    parts = [np.ascontiguousarray(a).astype(_element(a), copy=False).tobytes() for a in arrays]
    return b"".join([magic, struct.pack("<Q", len(head)), head, *parts])


def load(data: bytes, magic: bytes) -> Any:
    """Read what `dump` wrote; raise ValueError where the bytes are anything else."""
    if data[:8] != magic or len(data) < 16:
        raise ValueError("the first bytes do not name this format")
    (length,) = struct.unpack("<Q", data[8:16])
    if length > len(data) - 16:
        raise ValueError("the text is cut short")
    head = json.loads(data[16 : 16 + length])
    at = 16 + length
    arrays = []
    for element, shape in head["arrays"]:
        if element not in _ALLOWED or any(not isinstance(n, int) or n < 0 for n in shape):
            raise ValueError("an array of an unknown kind")
        size = math.prod(shape) * np.dtype(element).itemsize
        if size > len(data) - at:
            raise ValueError("an array is cut short")
        array = np.frombuffer(data, dtype=element, count=math.prod(shape), offset=at)
        arrays.append(array.reshape(shape))
        at += size
    if at != len(data):
        raise ValueError("bytes are left over")
    return _fill(head["body"], arrays)


def _element(array: np.ndarray) -> str:
    element = array.dtype.newbyteorder("<").str
    if element not in _ALLOWED:
        raise TypeError(f"arrays of {array.dtype} are not written")
    return element


def _strip(value: Any, arrays: list[np.ndarray]) -> Any:
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {_ARRAY: len(arrays) - 1}
    if isinstance(value, dict):
        return {key: _strip(entry, arrays) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_strip(entry, arrays) for entry in value]
    return value


def _fill(value: Any, arrays: list[np.ndarray]) -> Any:
    if isinstance(value, dict):
        if set(value) == {_ARRAY}:
            return arrays[value[_ARRAY]]
        return {key: _fill(entry, arrays) for key, entry in value.items()}
    if isinstance(value, list):
        return [_fill(entry, arrays) for entry in value]
    return value
