"""Predictions as tables, written part by part: CSV, Parquet and JSON lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from privboost._core.files import new_file
from privboost.cli.output import check_standard_output
from privboost.data.sources import check_columns_present
from privboost.data.targets import ClassTarget
from privboost.models.model import Model

_ROWS = 2**17
"""Rows that are predicted at once."""


def predict_parts(
    model: Model,
    table: Any,
    keep: Sequence[str],
    std: bool,
    interval: float | None = None,
    rate: bool = False,
) -> Iterator[pa.Table]:
    """Yield kept columns with predictions, part by part; the first part has no rows.

    The columns of the table named in `keep` come first, unchanged. With `std`, predictions have
    their standard errors due to noise; `interval` is the coverage of prediction intervals. With
    `rate` there is the prediction for an exposure of 1 as well.
    """
    if rate and model.exposure is None:
        raise ValueError("--rate: this model was trained without an exposure")
    features = model.domain.feature_names
    check_columns_present(table, (*features, *keep))
    for batch in table.batches(tuple(dict.fromkeys((*features, *keep))), _ROWS):
        rows = pa.table({name: batch[name] for name in features})
        columns = prediction_columns(model, rows) | (error_columns(model, rows) if std else {})
        if interval is not None:
            columns |= interval_columns(model, rows, interval)
        if rate:
            columns["rate"] = model.predict_rate(rows)
        if taken := [name for name in keep if name in columns]:
            raise ValueError(f"--keep {taken[0]}: a column of predictions has this name")
        yield pa.table({name: batch[name] for name in keep} | columns)


def prediction_columns(model: Model, table: Any) -> dict[str, np.ndarray]:
    """Return the prediction and, for classes, probabilities or else scores."""
    scores = model.decision_function(table)
    own = {"prediction": model.prediction_of(scores)}
    if model.has_probabilities:
        return own | _by_class("probability of", model, model.probabilities_of(scores))
    if not isinstance(model.domain.target, ClassTarget):
        return own
    return own | ({"score": scores} if scores.ndim == 1 else _by_class("score of", model, scores))


def error_columns(model: Model, table: Any) -> dict[str, np.ndarray]:
    """Return the standard errors of probabilities, or of predictions where there are none.

    Raises
    ------
    ValueError
        If the model holds none.
    """
    if not model.has_errors:
        raise ValueError("--std: models of this recipe hold no standard errors; PrivBoost's do")
    if model.has_probabilities:
        return _by_class("std of", model, model.predict_proba(table, return_std=True)[1])
    return {"std of prediction": model.predict(table, return_std=True)[1]}


def interval_columns(model: Model, table: Any, coverage: float) -> dict[str, np.ndarray]:
    """Return the ends of prediction intervals, or whether each class is in the prediction set.

    Raises
    ------
    ValueError
        If the model holds none.
    """
    if model.nonconformity is None:
        raise ValueError(
            "--interval: this model holds no prediction intervals; one that was trained with a "
            "conformal_fraction above 0 does"
        )
    if isinstance(model.domain.target, ClassTarget):
        return _by_class("in set", model, model.predict_set(table, coverage))
    lower, upper = model.predict_interval(table, coverage).T
    return {"lower": lower, "upper": upper}


def _by_class(what: str, model: Model, values: np.ndarray) -> dict[str, np.ndarray]:
    return {f"{what} {label}": own for label, own in zip(model.classes, values.T, strict=True)}


SUFFIXES = (".csv", ".parquet", ".jsonl")
_GROUP_ROWS = 2**20
"""Rows of a group in a Parquet file."""

_FORMULA = r"\A([\t\r\n]|[\s\x00\x{feff}]*[=+\-@＝＋－＠])"
"""Strings that spreadsheets run as formulas, full-width signs and leading blanks included."""
_NUMBER = r"\A[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\z"
_BYTES = (
    *(pa.types.is_binary, pa.types.is_large_binary),
    *(pa.types.is_binary_view, pa.types.is_fixed_size_binary),
)
_STRINGS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)

Write = Callable[[pa.Table], Any]


def check_suffix(out: Path) -> None:
    """Refuse a file whose suffix names no format."""
    if out.suffix.lower() not in SUFFIXES:
        raise ValueError(f"{out}: a .csv, .parquet or .jsonl file is needed")


@contextmanager
def file_writer(out: Path, schema: pa.Schema, raw_text: bool = False) -> Iterator[Write]:
    """Yield a function that writes the parts of a table in order; the file appears when complete.

    With `raw_text`, CSV holds strings unchanged, also those that a spreadsheet would run.
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
    """Yield a function that prints the parts of a table; the reader may stop at any line."""
    check_standard_output()
    out = sys.stdout.buffer  # arrow's own writer aborts if the reader stops
    if as_json:
        yield lambda part: out.write(_json_lines(part))
    else:
        out.write(_csv(schema.empty_table(), raw_text, header=True))
        yield lambda part: out.write(_csv(part, raw_text))
    sys.stdout.flush()


@contextmanager
def _parquet_writer(file: Any, schema: pa.Schema) -> Iterator[Write]:
    with pa.parquet.ParquetWriter(file, schema) as writer:
        waiting: list[pa.Table] = []

        def write(part: pa.Table | None) -> None:
            if part is not None:
                waiting.append(part)
            rows = sum(each.num_rows for each in waiting)
            if waiting and (part is None or rows >= _GROUP_ROWS):
                writer.write_table(pa.concat_tables(waiting), row_group_size=max(rows, 1))
                waiting.clear()

        yield write
        write(None)


def _csv(table: pa.Table, raw_text: bool, header: bool = False) -> bytes:
    text = pa.BufferOutputStream()
    pa.csv.write_csv(
        table if raw_text else _escaped(table), text, pa.csv.WriteOptions(include_header=header)
    )
    return bytes(text.getvalue())


def _escaped(table: pa.Table) -> pa.Table:
    """Put an apostrophe before strings and names that a spreadsheet would run as formulas.

    Plain numbers stay unchanged.
    """
    columns = []
    for column in table.columns:
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if any(is_string(kind) for is_string in _STRINGS):
            column = _escaped_strings(column.cast(pa.large_string()))
        elif any(is_bytes(kind) for is_bytes in _BYTES):  # CSV writes them as strings
            decoded = (
                None if own is None else own.decode(errors="replace") for own in column.to_pylist()
            )
            column = _escaped_strings(pa.array(decoded, pa.large_string()))
        columns.append(column)
    names = _escaped_strings(pa.array(table.column_names, pa.large_string())).to_pylist()
    return pa.Table.from_arrays(columns, names)


def _escaped_strings(texts: Any) -> Any:
    run = pc.match_substring_regex(texts, _FORMULA)
    run = pc.and_not(run, pc.match_substring_regex(texts, _NUMBER))
    mark, end = pa.scalar("'", texts.type), pa.scalar("", texts.type)
    return pc.if_else(run, pc.binary_join_element_wise(mark, texts, end), texts)


def _json_lines(table: pa.Table) -> bytes:
    lines = (json.dumps(row, ensure_ascii=False, default=str) for row in table.to_pylist())
    return "".join(f"{line}\n" for line in lines).encode()
