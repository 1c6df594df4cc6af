"""Lazy frames and arrow datasets as tables that are read as a stream.

Their own error messages may quote values, so none is repeated.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, NoReturn

import narwhals.stable.v1 as nw
import pyarrow as pa
import pyarrow.dataset

from privboost._core.errors import SchemaError
from privboost.data.table import Batch, FrameTable, Table, unique

_OWN_ENDS = (KeyboardInterrupt, MemoryError, SystemExit)
"""Exceptions that do not come from the query."""
_TEXT_FORMATS = (pa.dataset.CsvFileFormat, pa.dataset.JsonFileFormat)


class StreamedTable(Table):
    """A table that is read as a stream of batches, and whose length is unknown until then."""

    @property
    def length_is_known(self) -> bool:
        return False

    @abstractmethod
    def no_rows(self, names: Sequence[str]) -> Batch:
        """Return the named columns without rows."""

    @abstractmethod
    def _read(self, names: Sequence[str], rows: int) -> Iterator[Batch]:
        """Yield the rows; may raise any exception."""

    @abstractmethod
    def _count(self) -> int:
        """Count the rows; may raise any exception."""

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Batch]:
        yield self.no_rows(names)
        readable = True
        try:
            yield from self._read(names, rows)
        except GeneratorExit:  # the caller needs no more rows
            raise
        except BaseException as error:
            if isinstance(error, _OWN_ENDS):
                raise
            readable = False  # a panic of polars is no Exception
        if not readable:  # outside the handler: the error of the query quotes its values
            self._fail()

    def count_rows(self) -> int:
        return self._length

    @cached_property
    def _length(self) -> int:
        """The number of rows, by a pass over them that is made once."""
        counted: int | None = _attempt(self._count)
        return self._fail() if counted is None else counted

    def _fail(self) -> NoReturn:
        raise SchemaError(
            "the lazy frame or dataset could not be read to its end; what it says of the reason "
            "may quote its rows, and is not repeated here"
        )


class DatasetTable(StreamedTable):
    """A dataset of arrow: files of a format with typed columns."""

    def __init__(self, dataset: Any) -> None:
        _check_types_are_written(dataset)
        self._dataset = dataset
        self.columns = unique(dataset.schema.names)

    def no_rows(self, names: Sequence[str]) -> Batch:
        schema = self._dataset.schema
        return {name: pa.array([], schema.field(name).type) for name in names}

    def _read(self, names: Sequence[str], rows: int) -> Iterator[Batch]:
        # Arrow's threads would read on while rows are coded, and keep what they have read.
        how: dict[str, Any] = {"use_threads": False, "batch_readahead": 1, "fragment_readahead": 1}
        if isinstance(getattr(self._dataset, "format", None), pa.dataset.ParquetFileFormat):
            options = pa.dataset.ParquetFragmentScanOptions(pre_buffer=False)
            how["fragment_scan_options"] = options  # else the bytes of a whole file are kept
        for batch in self._dataset.to_batches(columns=list(names), batch_size=rows, **how):
            yield dict(zip(batch.schema.names, batch.columns, strict=True))

    def _count(self) -> int:
        return int(self._dataset.count_rows())


class LazyTable(StreamedTable):
    """A lazy frame of polars, evaluated in batches."""

    def __init__(self, frame: Any) -> None:
        if not hasattr(frame, "collect_batches"):
            raise TypeError(
                "the frame is lazy, and does not come in batches: collect it first, or pass the "
                "path of a file (frames of polars 1.34 or later, Dask and Spark may be lazy)"
            )
        if _TEXT_SCAN.search(_attempt(lambda: frame.explain(optimized=False)) or ""):
            raise SchemaError(
                "the types of a text file's columns are guessed from its rows, so a lazy frame "
                "that scans one cannot be used: pass the file's path, or write it as Parquet"
            )
        no_rows = _attempt(lambda: frame.collect_schema().to_frame())
        if no_rows is None:
            raise SchemaError("the lazy frame's query does not fit its columns")
        self._frame, self._empty = frame, FrameTable(nw.from_native(no_rows, eager_only=True))
        self.columns = self._empty.columns

    def no_rows(self, names: Sequence[str]) -> Batch:
        return self._empty.no_rows(names)

    def _read(self, names: Sequence[str], rows: int) -> Iterator[Batch]:
        chosen = self._frame.select(names)
        for chunk in chosen.collect_batches(chunk_size=rows, maintain_order=True, lazy=True):
            yield from FrameTable(nw.from_native(chunk, eager_only=True)).batches(names, rows)

    def _count(self) -> int:
        table = self._frame.select(self.columns[:1])
        return sum(len(chunk) for chunk in table.collect_batches(lazy=True))


_TEXT_SCAN = re.compile(r"\b(csv|ndjson) scan\b", re.IGNORECASE)


def _check_types_are_written(dataset: Any) -> None:
    """Raise SchemaError if column types are inferred from rows: they would reveal values."""
    for part in getattr(dataset, "children", ()):
        _check_types_are_written(part)
    if isinstance(getattr(dataset, "format", None), _TEXT_FORMATS):
        raise SchemaError(
            "the types of a text file's columns are guessed from its rows, so a dataset of such "
            "files cannot be used: pass their paths, or write them as Parquet"
        )
    fragment = next(iter(dataset.get_fragments()), None)
    written = dataset.schema.names if fragment is None else fragment.physical_schema.names
    if not set(dataset.schema.names) <= set(written):
        raise SchemaError(
            "partitions of a dataset are columns whose types are guessed from the names of "
            "folders: write them into the files, and make the dataset without a partitioning"
        )


def _attempt(act: Callable[[], Any]) -> Any:
    """Return the result of a call; None if it fails, for the error may quote values."""
    try:
        return act()
    except BaseException as error:  # a panic of polars is no Exception
        if isinstance(error, _OWN_ENDS):
            raise
    return None
