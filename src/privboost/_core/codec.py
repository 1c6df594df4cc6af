"""Nested values with arrays, as bytes and back. Reading runs no code.

A file or message is: eight bytes that name the format, the length of a JSON text, that text, and
the arrays one after the other, little-endian. In the JSON an array stands as its place in a table
of element types and shapes.

Only what `dump` would write is read. So no array stands in two places, no key is given twice, no
text holds half a character, and what is read takes memory in proportion to its bytes.
"""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import numpy as np

_ALLOWED = ("|u1", "<u2", "<u4", "<u8", "<i4", "<i8", "<f8")
_ARRAY = "__array__"
_MOST_AXES = 4


def dump(value: Any, magic: bytes) -> bytes:
    """Write a value made of dicts, lists, numbers, texts, None and arrays."""
    head, arrays = _head(value)
    parts = [np.ascontiguousarray(a).astype(_element(a), copy=False).tobytes() for a in arrays]
    return b"".join([magic, struct.pack("<Q", len(head)), head, *parts])


def load(data: bytes | memoryview, magic: bytes) -> Any:
    """Read what `dump` wrote; raise ValueError where the bytes are anything else."""
    if data[:8] != magic:
        raise ValueError("the first bytes do not name this format")
    end = text_end(data)
    text = bytes(data[16:end])
    try:
        head = json.loads(text)
        value = _fill(head["body"], _arrays(head["arrays"], data, end))
        as_written = _head(value)[0] == text
    except (LookupError, TypeError, RecursionError):
        as_written = False
    if not as_written:
        raise ValueError("the text is not one of this format")
    return value


def text_end(data: bytes | memoryview) -> int:
    """Return where the text ends and arrays begin; raise ValueError where it is cut short."""
    if len(data) < 16:
        raise ValueError("the text is cut short")
    (length,) = struct.unpack("<Q", data[8:16])
    if length > len(data) - 16:
        raise ValueError("the text is cut short")
    return 16 + int(length)


def _head(value: Any) -> tuple[bytes, list[np.ndarray]]:
    """Return the JSON text, and the arrays in the order in which they stand there."""
    arrays: list[np.ndarray] = []
    body = _strip(value, arrays)
    table = [[_element(array), list(array.shape)] for array in arrays]
    return json.dumps({"body": body, "arrays": table}, ensure_ascii=False).encode(), arrays


def _arrays(table: list[Any], data: bytes | memoryview, at: int) -> list[np.ndarray]:
    """Read the arrays, which take up all bytes from `at` to the end."""
    arrays = []
    for element, shape in table:
        # A side is bounded by itself: beside a side of 0 it takes no bytes.
        if (
            element not in _ALLOWED
            or len(shape) > _MOST_AXES
            or any(not isinstance(side, int) or not 0 <= side <= len(data) for side in shape)
        ):
            raise ValueError("an array of an unknown kind")
        count = math.prod(shape)
        size = count * np.dtype(element).itemsize
        if size > len(data) - at:
            raise ValueError("an array is cut short")
        arrays.append(np.frombuffer(data, element, count, at).reshape(shape))
        at += size
    if at != len(data):
        raise ValueError("bytes are left over")
    return arrays


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
        if _stands_for_array(value):
            raise TypeError(f"a whole number alone under {_ARRAY!r} means an array")
        return {key: _strip(entry, arrays) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_strip(entry, arrays) for entry in value]
    return value


def _fill(value: Any, arrays: list[np.ndarray]) -> Any:
    if isinstance(value, dict):
        if _stands_for_array(value):
            return arrays[value[_ARRAY]]
        return {key: _fill(entry, arrays) for key, entry in value.items()}
    if isinstance(value, list):
        return [_fill(entry, arrays) for entry in value]
    return value


def _stands_for_array(value: dict[str, Any]) -> bool:
    return len(value) == 1 and isinstance(value.get(_ARRAY), int)
