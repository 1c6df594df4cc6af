"""Files as tables that are read batch by batch: CSV, Parquet, and several files as one table.

No error quotes a file's contents.
"""

from __future__ import annotations

import codecs
import io
import math
import re
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from privboost._core.errors import SchemaError
from privboost.data.table import Batch, Piece, Table, Watch, unique

_CSV_BYTES = 2**24
"""The longest record of a text file, and the size of the blocks that are read."""
_PATIENCE = 1000
"""Milliseconds to wait for arrow's threads."""


class CsvTable(Table):
    """A text file with a header. All values are strings; the empty string is missing.

    A line with the wrong number of values is left out (`every_line=False`, for training) or
    refused (`every_line=True`, for predictions, which must match their lines). Bytes that are no
    UTF-8 are read as a replacement character. The file must be well formed: a quotation mark that
    is never closed continues into the following lines, and a record has 16 MiB at most. Lines end
    with LF, CR LF or CR. An empty line is no record, except in a file of one column: there it is a
    record with a missing value. No error quotes the file, not even its header, which is a record if
    the header was forgotten.

    Parameters
    ----------
    path : Path
        The file.
    missing : sequence of str
        Strings that mean a missing value, besides the empty string.
    every_line : bool
        Whether a line with the wrong number of values is refused.
    separator : str, optional
        The separator; by default a tab in a .tsv file, else a comma.
    """

    is_text = True
    watch: Watch | None = None

    def __init__(
        self,
        path: Path,
        missing: Sequence[str] = (),
        every_line: bool = False,
        separator: str | None = None,
    ) -> None:
        if separator is None:
            separator = "\t" if ".tsv" in suffixes(path) else ","
        if len(separator) != 1 or not separator.isascii() or separator in '"\r\n':
            raise ValueError("separator must be one ASCII character, no quotation mark or line end")
        self._separator = separator
        self._path = path
        self.n_bytes = path.stat().st_size
        self._missing = ["", *missing]
        self.every_line = every_line
        self.columns = unique(self._header())

    def count_rows(self) -> int:
        batches = self.batches(self.columns[:1], 2**20)
        return sum(len(batch[self.columns[0]]) for batch in batches)

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Batch]:
        convert = pa.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            include_columns=list(names),
            null_values=self._missing,
            strings_can_be_null=True,
        )
        yield {name: pa.array([], pa.string()) for name in names}
        readable = True
        try:
            for batch in self._records(convert):
                for start in range(0, max(batch.num_rows, 1), rows):
                    part = batch.slice(start, rows)
                    yield dict(zip(part.schema.names, part.columns, strict=True))
        except pa.ArrowInvalid:
            readable = False
        if not readable:  # outside the handler: the reader's own error quotes the record
            raise SchemaError(
                f"{self._path.name} is not well formed"
                + (", or a line has the wrong number of cells" if self.every_line else "")
            )

    def _records(self, convert: Any) -> Iterator[pa.RecordBatch]:
        """Yield records as arrow parses them; then wait until its threads hold no Python object."""
        file: Any = self._bytes()
        judge: Any = self._judge()
        held = (weakref.ref(file), weakref.ref(judge))
        source = pa.PythonFile(file, mode="r")
        parse = self._parse(judge, several=len(self.columns) > 1)
        try:
            reader = pa.csv.open_csv(source, self._read(), parse, convert)
            yield from reader
        finally:
            source.close()
            file = judge = source = parse = reader = None
            _await_release(held)

    def _header(self) -> list[str]:
        with self._bytes() as file:
            head = re.split(rb"[\r\n]", file.read(_CSV_BYTES), maxsplit=1)[0]
        if not head.strip():
            raise SchemaError(f"{self._path.name} has no header line")
        try:
            names = pa.csv.read_csv(
                io.BytesIO(head + b"\n"), self._read(), self._parse(self._judge(), several=True)
            )
            return list(names.schema.names)
        except pa.ArrowInvalid:
            pass  # its own error quotes the line
        raise SchemaError(f"{self._path.name} has no header line that is well formed")

    def _bytes(self) -> _Utf8:
        raw = pa.OSFile(str(self._path))
        try:
            compression = pa.Codec.detect(self._path).name
        except (TypeError, ValueError):
            compression = None
        return _Utf8(pa.input_stream(raw, compression=compression), raw, self.watch)

    def _judge(self) -> Callable[[Any], str]:
        """Return arrow's handler of lines with the wrong number of values."""
        verdict = "error" if self.every_line else "skip"
        return lambda row: verdict

    def _parse(self, judge: Callable[[Any], str], several: bool) -> Any:
        return pa.csv.ParseOptions(
            delimiter=self._separator,
            newlines_in_values=True,  # else one quoted line break would change its neighbours
            ignore_empty_lines=several,
            invalid_row_handler=judge,
        )

    def _read(self) -> Any:
        return pa.csv.ReadOptions(block_size=_CSV_BYTES, use_threads=False)


class _Utf8(io.RawIOBase):
    """A byte stream with a final line end, in which invalid UTF-8 is replaced."""

    def __init__(self, file: Any, raw: Any, watch: Watch | None) -> None:
        self._file = file
        self._raw, self._watch, self._seen = raw, watch, 0
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
        self._ready = b""
        self._last = b"\n"

    def read(self, size: int = -1) -> bytes:
        while size < 0 or len(self._ready) < size:
            raw = self._file.read(2**20)
            if self._watch is not None:  # in bytes of the file, which may be compressed
                here = self._raw.tell()
                self._watch(here - self._seen)
                self._seen = here
            text = self._decoder.decode(raw, final=not raw).encode()
            self._last = text[-1:] or self._last
            self._ready += text
            if not raw:
                if self._last not in b"\r\n":
                    self._ready += b"\n"
                    self._last = b"\n"
                break
        size = len(self._ready) if size < 0 else size
        out, self._ready = self._ready[:size], self._ready[size:]
        return out

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        self._raw.close()
        super().close()


def _await_release(held: Sequence[weakref.ref[Any]]) -> None:
    """Wait until arrow's threads have released Python objects.

    A thread that does so while the interpreter exits would crash the process.
    """
    for _ in range(_PATIENCE):
        if all(each() is None for each in held):
            return
        time.sleep(0.001)


def suffixes(path: Path) -> set[str]:
    """Return the suffixes of a file's name, in lower case."""
    return {suffix.lower() for suffix in path.suffixes}


def check_header(columns: Sequence[str], target: str) -> None:
    """Raise SchemaError if the header of a text file looks like a record."""
    if target not in columns:
        raise SchemaError(
            f"the table has no column {target!r}: the file's header names no such column; is the "
            "separator right?"
        )
    if any(not name.strip() or is_number(name) for name in columns):
        raise SchemaError(
            "the header of the file has a name that is empty or a number, as a record would: name "
            "its columns, or write a domain"
        )


def is_number(text: str) -> bool:
    """Whether a string is a finite number."""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


_PARQUET_FILES = {".parquet", ".pq"}
_TEXT_FILES = {".csv", ".tsv"}
_DATA_FILES = _PARQUET_FILES | _TEXT_FILES


class ParquetTable(Table):
    """A Parquet file, read batch by batch."""

    watch: Watch | None = None

    def __init__(self, path: Path) -> None:
        self._path = path
        self.n_bytes = path.stat().st_size
        try:
            with pa.parquet.ParquetFile(path) as file:
                self.schema = file.schema_arrow
        except pa.ArrowInvalid:
            raise SchemaError(f"{path.name} is not a Parquet file") from None
        self.columns = unique(self.schema.names)

    def count_rows(self) -> int:
        with pa.parquet.ParquetFile(self._path) as file:
            return int(file.metadata.num_rows)

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Batch]:
        yield {name: pa.array([], self.schema.field(name).type) for name in names}
        yield from self._read(names, rows, None)

    def pieces(self, names: Sequence[str], rows: int) -> Iterator[Piece]:
        with pa.parquet.ParquetFile(self._path) as file:
            sizes = [file.metadata.row_group(k).num_rows for k in range(file.num_row_groups)]
        first = 0
        for group, size in enumerate(sizes):
            yield Piece(first, size, partial(self._read, names, rows, [group]))
            first += size

    def _read(
        self, names: Sequence[str], rows: int, groups: Sequence[int] | None
    ) -> Iterator[Batch]:
        # Without pre-buffering, which keeps the bytes of the whole file in memory.
        with pa.parquet.ParquetFile(self._path, pre_buffer=False) as file:
            of_row = self.n_bytes / max(file.metadata.num_rows, 1)
            for batch in file.iter_batches(rows, row_groups=groups, columns=list(names)):
                if self.watch is not None:
                    self.watch(round(of_row * batch.num_rows))
                yield dict(zip(batch.schema.names, batch.columns, strict=True))


class FilesTable(Table):
    """The concatenation of several files of one format."""

    def __init__(self, tables: Sequence[ParquetTable | CsvTable]) -> None:
        self._tables = tuple(tables)
        first = self._tables[0]
        self.columns, self.is_text = first.columns, first.is_text
        for table in self._tables[1:]:
            if type(table) is not type(first) or set(table.columns) != set(first.columns):
                raise SchemaError("files of one table are of one kind and have the same columns")
            if isinstance(table, ParquetTable) and isinstance(first, ParquetTable):
                for name in first.columns:
                    if table.schema.field(name).type != first.schema.field(name).type:
                        raise SchemaError(f"column {name!r} has different types in the files")

    @property
    def n_bytes(self) -> int:
        """The total size of the files."""
        return sum(table.n_bytes for table in self._tables)

    @property
    def watch(self) -> Watch | None:
        """Progress callback for bytes that were read."""
        return self._tables[0].watch

    @watch.setter
    def watch(self, watch: Watch | None) -> None:
        for table in self._tables:
            table.watch = watch

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Batch]:
        for table in self._tables:
            yield from table.batches(names, rows)

    def pieces(self, names: Sequence[str], rows: int) -> Iterator[Piece]:
        first = 0
        for table in self._tables:
            for piece in table.pieces(names, rows):
                yield Piece(first, piece.rows, piece.batches)
                first += piece.rows

    def count_rows(self) -> int:
        return sum(table.count_rows() for table in self._tables)


def open_file(path: str | Path, **text_options: Any) -> ParquetTable | CsvTable | FilesTable:
    """Open a Parquet or CSV file, to be read batch by batch, or all files of a folder.

    Parameters
    ----------
    path : path
        The file; its suffix determines the format. The files of a folder are one table, in the
        order of their names, without those whose names begin with a dot or an underscore.
    **text_options
        How text files are read; see `CsvTable`.
    """
    path = Path(path)
    if path.is_dir():
        inside = sorted(each for each in path.iterdir() if each.name[0] not in "._")
        if not inside:
            raise SchemaError(f"{path} is a folder without files")
        return open_files(inside, **text_options)
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    kinds = suffixes(path)
    if kinds & _PARQUET_FILES:
        return ParquetTable(path)
    if kinds & _TEXT_FILES:
        return CsvTable(path, **text_options)
    raise SchemaError(f"{path.name}: a .parquet, .csv or .tsv file is needed")


def open_files(paths: Sequence[str | Path], **text_options: Any) -> FilesTable:
    """Open several files as one table; see `open_file`."""
    for path in paths:
        if Path(path).is_dir():
            raise SchemaError(
                f"{path} is a folder: list its files, or pass one folder alone. Names "
                "of folders are no columns: write their values into the files"
            )
    tables = [open_file(path, **text_options) for path in paths]
    return FilesTable([table for table in tables if not isinstance(table, FilesTable)])


def are_files(data: Any) -> bool:
    """Whether a list holds paths; strings count only if all have suffixes of data files."""
    if not isinstance(data, list | tuple) or not data:
        return False
    # By type: no method of an element may be called.
    return all(
        issubclass(type(each), Path)
        or (type(each) is str and suffixes(Path(each)) & _DATA_FILES != set())
        for each in data
    )
