"""Tables that are written as they are made: CSV, Parquet and JSON lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from privboost.cli.files import check_output
from privboost.files import new_file

SUFFIXES = (".csv", ".parquet", ".jsonl")
_GROUP_ROWS = 2**20
"""Rows of a group in a Parquet file."""

_RUN = r"\A([\t\r\n]|[\s\x00\x{feff}]*[=+\-@＝＋－＠])"
"""Texts that spreadsheets take for formulas, with the wide forms that some do, and after blanks."""
_NUMBER = r"\A[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\z"
_BYTES = (
    *(pa.types.is_binary, pa.types.is_large_binary),
    *(pa.types.is_binary_view, pa.types.is_fixed_size_binary),
)
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)

Write = Callable[[pa.Table], Any]


def check_suffix(out: Path) -> None:
    """Refuse a file whose name does not say how to write it."""
    if out.suffix.lower() not in SUFFIXES:
        raise ValueError(f"{out}: a .csv, .parquet or .jsonl file is needed")


@contextmanager
def file_writer(out: Path, schema: pa.Schema, raw_text: bool = False) -> Iterator[Write]:
    """Yield what takes the parts of a table in order; the file is there whole or not at all.

    Parameters
    ----------
    out : Path
        The file.
    schema : pa.Schema
        The table's.
    raw_text : bool
        Whether CSV holds texts as they are, also those that a spreadsheet would run.
    """
    with new_file(out) as file:
        match out.suffix.lower():
            case ".parquet":
                with _parquet_writer(file, schema) as write:
                    yield write
            case ".jsonl":
                yield lambda part: file.write(_json_lines(part))
            case _:
                file.write(_csv(schema.empty_table(), raw_text, header=True))
                yield lambda part: file.write(_csv(part, raw_text))


@contextmanager
def output_writer(schema: pa.Schema, as_json: bool, raw_text: bool = False) -> Iterator[Write]:
    """Yield what prints the parts of a table; who reads it may stop at any line."""
    check_output()
    out = sys.stdout.buffer  # arrow's own writer aborts where nobody reads
    if as_json:
        yield lambda part: out.write(_json_lines(part))
    else:
        out.write(_csv(schema.empty_table(), raw_text, header=True))
        yield lambda part: out.write(_csv(part, raw_text))
    sys.stdout.flush()


@contextmanager
def _parquet_writer(file: Any, schema: pa.Schema) -> Iterator[Write]:
    waiting: list[pa.Table] = []

    def write(part: pa.Table) -> None:
        waiting.append(part)
        if sum(each.num_rows for each in waiting) >= _GROUP_ROWS:
            send()

    def send() -> None:
        group = pa.concat_tables(waiting)
        writer.write_table(group, row_group_size=max(group.num_rows, 1))
        waiting.clear()

    with pa.parquet.ParquetWriter(file, schema) as writer:
        yield write
        if waiting:
            send()


def _csv(table: pa.Table, raw_text: bool, header: bool = False) -> bytes:
    text = pa.BufferOutputStream()
    pa.csv.write_csv(
        table if raw_text else _escaped(table), text, pa.csv.WriteOptions(include_header=header)
    )
    return bytes(text.getvalue())


def _escaped(table: pa.Table) -> pa.Table:
    """Return a table whose texts and names no spreadsheet runs: an apostrophe stands before them.

    A text that is a plain number is none to be run, and stays.
    """
    columns = []
    for column in table.columns:
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if any(is_text(kind) for is_text in _TEXTS):
            column = _escaped_texts(column.cast(pa.large_string()))
        elif any(is_bytes(kind) for is_bytes in _BYTES):  # which are written as texts
            told = (
                None if own is None else own.decode(errors="replace") for own in column.to_pylist()
            )
            column = _escaped_texts(pa.array(told, pa.large_string()))
        columns.append(column)
    names = _escaped_texts(pa.array(table.column_names, pa.large_string())).to_pylist()
    return pa.Table.from_arrays(columns, names)


def _escaped_texts(texts: Any) -> Any:
    run = pc.match_substring_regex(texts, _RUN)
    run = pc.and_not(run, pc.match_substring_regex(texts, _NUMBER))
    mark, end = pa.scalar("'", texts.type), pa.scalar("", texts.type)
    return pc.if_else(run, pc.binary_join_element_wise(mark, texts, end), texts)


def _json_lines(table: pa.Table) -> bytes:
    lines = (json.dumps(row, ensure_ascii=False, default=str) for row in table.to_pylist())
    return "".join(f"{line}\n" for line in lines).encode()
