"""Dense and sparse arrays as tables; their columns are the domain's features, in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from privboost.errors import SchemaError
from privboost.tables.frames import arrow_or_bytes, spans
from privboost.tables.pieces import Batch, Column, Piece

_DENSE_VALUES = 2**22
"""Largest number of values of a sparse matrix that are made dense at once."""


class ArrayTable:
    """A two-dimensional numpy array; its columns are the domain's features, in order."""

    is_text = False

    def __init__(self, array: np.ndarray, names: Sequence[str]) -> None:
        _check_shape(array, names)
        self._array = array
        self.columns = tuple(names)

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Batch]:
        """Yield the named columns, at most `rows` rows at a time."""
        places = {name: self.columns.index(name) for name in names}
        for start, stop in spans(len(self._array), rows):
            part = self._array[start:stop]
            yield {name: plain_column(part[:, place]) for name, place in places.items()}

    def pieces(self, names: Sequence[str], rows: int) -> Iterator[Piece]:
        """Yield slices of the array."""
        for start in range(0, len(self._array), rows):
            part = ArrayTable(self._array[start : start + rows], self.columns)
            yield Piece(start, part.count_rows(), partial(part.batches, names, rows))

    def count_rows(self) -> int:
        """Return the number of rows."""
        return len(self._array)


class SparseTable:
    """A sparse matrix of scipy, made dense a few rows at a time."""

    is_text = False

    def __init__(self, matrix: Any, names: Sequence[str]) -> None:
        _check_shape(matrix, names)
        if matrix.dtype.kind not in "fiub":
            raise SchemaError("a sparse matrix must hold numbers")
        self._matrix = matrix.tocsr()
        self.columns = tuple(names)

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Batch]:
        """Yield the named columns, at most `rows` rows at a time."""
        places = [self.columns.index(name) for name in names]
        rows = max(1, min(rows, _DENSE_VALUES // max(len(self.columns), 1)))
        for start, stop in spans(self.count_rows(), rows):
            dense = np.asfortranarray(self._matrix[start:stop].toarray())
            yield {name: dense[:, place] for name, place in zip(names, places, strict=True)}

    def pieces(self, names: Sequence[str], rows: int) -> Iterator[Piece]:
        """Yield slices of the matrix."""
        for start in range(0, self.count_rows(), rows):
            part = SparseTable(self._matrix[start : start + rows], self.columns)
            yield Piece(start, part.count_rows(), partial(part.batches, names, rows))

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
