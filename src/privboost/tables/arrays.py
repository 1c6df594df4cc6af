"""Dense and sparse arrays as tables; their columns are the domain's features, in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from privboost.errors import SchemaError
from privboost.tables.frames import arrow_or_bytes
from privboost.tables.pieces import Batch, Column, MemoryTable

_DENSE_VALUES = 2**22
"""Largest number of values of a sparse matrix that are made dense at once."""


class ArrayTable(MemoryTable):
    """A two-dimensional numpy array; its columns are the domain's features, in order."""

    def __init__(self, array: np.ndarray, names: Sequence[str]) -> None:
        _check_shape(array, names)
        self._array = array
        self.columns = tuple(names)

    def _slice(self, names: Sequence[str], start: int, stop: int) -> Batch:
        part = self._array[start:stop]
        return {name: plain_column(part[:, self.columns.index(name)]) for name in names}

    def count_rows(self) -> int:
        """Return the number of rows."""
        return len(self._array)


class SparseTable(MemoryTable):
    """A sparse matrix of scipy, made dense a few rows at a time."""

    def __init__(self, matrix: Any, names: Sequence[str]) -> None:
        _check_shape(matrix, names)
        if matrix.dtype.kind not in "fiub":
            raise SchemaError("a sparse matrix must hold numbers")
        self._matrix = matrix.tocsr()
        self.columns = tuple(names)

    def _slice(self, names: Sequence[str], start: int, stop: int) -> Batch:
        dense = np.asfortranarray(self._matrix[start:stop].toarray())
        return {name: dense[:, self.columns.index(name)] for name in names}

    def _most_rows(self, rows: int) -> int:
        return max(1, min(rows, _DENSE_VALUES // max(len(self.columns), 1)))

    def count_rows(self) -> int:
        """Return the number of rows."""
        return int(self._matrix.shape[0])


def _check_shape(array: Any, names: Sequence[str]) -> None:
    """Raise SchemaError unless an array has the shape of a table of the domain's features."""
    if array.ndim != 2:
        raise SchemaError(
            "a table is needed: a data frame, a two-dimensional array, or the path of a file. "
            "Reshape your data if it is one row or one column"
        )
    if array.dtype.kind == "c":
        raise SchemaError("Complex data not supported")
    if array.shape[1] != len(names):
        raise SchemaError(
            f"X has {array.shape[1]} features, but domain is expecting {len(names)} features "
            "as input (an array holds features alone: target, weights and units need a frame, "
            "or are given apart)"
        )


def plain_column(array: np.ndarray) -> Column:
    """Return strings as an arrow array; other arrays unchanged."""
    if array.dtype.kind not in "US":
        return array
    kind = pa.large_string() if array.dtype.kind == "U" else pa.large_binary()
    # By way of a list: arrow would end a numpy string at its first null byte.
    return arrow_or_bytes(lambda: pa.array(array.tolist(), kind), array.tolist)
