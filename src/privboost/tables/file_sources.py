"""Files as tables that are read as a stream: Parquet, and several files as one table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from privboost.errors import SchemaError
from privboost.tables.pieces import Batch, Piece, Table, Watch
from privboost.tables.text_sources import CsvTable, suffixes, unique

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
        """Return the number of rows in the file's metadata."""
        with pa.parquet.ParquetFile(self._path) as file:
            return int(file.metadata.num_rows)

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Batch]:
        """Yield the named columns, at most `rows` rows at a time."""
        yield {name: pa.array([], self.schema.field(name).type) for name in names}
        yield from self._read(names, rows, None)

    def pieces(self, names: Sequence[str], rows: int) -> Iterator[Piece]:
        """Yield the file's own groups of rows."""
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
        """Yield the named columns, at most `rows` rows at a time, file after file."""
        for table in self._tables:
            yield from table.batches(names, rows)

    def pieces(self, names: Sequence[str], rows: int) -> Iterator[Piece]:
        """Yield the pieces of each file."""
        first = 0
        for table in self._tables:
            for piece in table.pieces(names, rows):
                yield Piece(first, piece.rows, piece.batches)
                first += piece.rows

    def count_rows(self) -> int:
        """Return the number of rows of all files."""
        return sum(table.count_rows() for table in self._tables)


def open_file(
    path: str | Path,
    missing: Sequence[str] = (),
    every_line: bool = False,
    separator: str | None = None,
) -> ParquetTable | CsvTable | FilesTable:
    """Open a Parquet or CSV file, to be read batch by batch, or all files of a folder.

    Parameters
    ----------
    path : path
        The file; its suffix determines the format. The files of a folder are one table, in the
        order of their names, without those whose names begin with a dot or an underscore.
    missing : sequence of str
        Strings that mean a missing value in a CSV file, besides the empty string.
    every_line : bool
        Whether a text file's malformed lines are refused (see `CsvTable`).
    separator : str, optional
        The separator of a text file; by default its suffix determines it.
    """
    path = Path(path)
    if path.is_dir():
        inside = sorted(each for each in path.iterdir() if each.name[0] not in "._")
        if not inside:
            raise SchemaError(f"{path} is a folder without files")
        return open_files(inside, missing, every_line, separator)
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    kinds = suffixes(path)
    if kinds & _PARQUET_FILES:
        return ParquetTable(path)
    if kinds & _TEXT_FILES:
        return CsvTable(path, missing, every_line, separator)
    raise SchemaError(f"{path.name}: a .parquet, .csv or .tsv file is needed")


def open_files(
    paths: Sequence[str | Path],
    missing: Sequence[str] = (),
    every_line: bool = False,
    separator: str | None = None,
) -> FilesTable:
    """Open several files as one table; see `open_file`."""
    for path in paths:
        if Path(path).is_dir():
            raise SchemaError(
                f"{path} is a folder: list its files, or pass one folder alone. Names "
                "of folders are no columns: write their values into the files"
            )
    tables = [open_file(path, missing, every_line, separator) for path in paths]
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
