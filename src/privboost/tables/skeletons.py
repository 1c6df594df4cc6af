"""Skeletons of domains, from a table's schema alone: names and types of columns.

Parts of a schema that describe the rows are not used: categories of pandas, values of an
enumeration or a dictionary, statistics and metadata of Parquet files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from privboost.errors import SchemaError
from privboost.forms import check_text
from privboost.tables.domain_forms import form_text
from privboost.tables.features import FEATURE_KINDS, OPEN_KIND
from privboost.tables.pieces import Column
from privboost.tables.sources import Table
from privboost.tables.text_sources import check_header
from privboost.tables.values import column_kind

_OPEN = (
    {"kind": OPEN_KIND}
    | {key: None for kind in FEATURE_KINDS.values() for key in kind.required}
    | {"missing": False}
)
"""JSON payload of a feature whose kind the column's type does not determine."""
_BY_TYPE = {kind.column_type: kind for kind in FEATURE_KINDS.values() if kind.column_type}
_TARGETS: dict[str, dict[str, Any]] = {
    "text": {"classes": None},
    "bool": {"classes": [False, True]},
    "number": {"bounds": None},
}
_EITHER = {"classes": None, "bounds": None}


@dataclass(frozen=True)
class Skeleton:
    """A domain's JSON payload with null, or all kinds, where something must be filled in.

    Attributes
    ----------
    form : dict
        The payload.
    left_out : tuple of str
        Columns whose type no kind of feature can read.
    """

    form: dict[str, Any]
    left_out: tuple[str, ...]

    @property
    def open_kinds(self) -> int:
        """The number of features whose kind must be chosen."""
        return sum(part["kind"] == OPEN_KIND for part in self.form["features"].values())

    @property
    def placeholders(self) -> int:
        """The number of parts to be filled in: features, the target, the unit."""
        parts = [*self.form["features"].values(), self.form["target"], self.form.get("unit", {})]
        return sum(None in part.values() for part in parts)

    def to_json(self) -> str:
        """Return the JSON text, one feature a line."""
        return form_text(self.form)


def make_skeleton(
    table: Table,
    target: str,
    leave_out: Sequence[str] = (),
    task: str | None = None,
    header: bool = False,
    unit: str | None = None,
) -> Skeleton:
    """Return the skeleton of a domain for a table.

    Parameters
    ----------
    table : Table
        The table. No row is read.
    target : str
        The column to predict.
    leave_out : sequence of str
        Columns that are no features.
    task : {"classes", "number"}, optional
        What the target is; by default its type decides, or both are left open.
    header : bool
        Whether the first line of a text file is known to name its columns.
    unit : str, optional
        The column that identifies protected units, which is no feature.
    """
    if table.is_text:
        if not header:
            raise SchemaError(
                "the first line of a text file may be a record, and would become names: say that "
                "it names the columns (header=True, --header)"
            )
        check_header(table.columns, target)
    skipped = (*leave_out, *([] if unit is None else [unit]))
    for name in (target, *skipped):
        if name not in table.columns:
            raise SchemaError(f"the table has no column {name!r}")
    if target in skipped:
        raise SchemaError(f"the target {target!r} cannot be left out, nor be the unit")
    names = [name for name in table.columns if name not in skipped]
    batch = next(table.batches(names, 1), {})
    kinds = {name: _kind(batch[name], name, table.is_text) for name in names}
    features = [name for name in names if name != target]
    for name in (*features, target):
        check_text(name, "a column's name")
    form: dict[str, Any] = {
        "version": 1,
        "features": {name: _feature(kinds[name]) for name in features if kinds[name]},
        "target": {"name": target} | _target(kinds[target], task),
    }
    if unit is not None:
        form["unit"] = {"column": unit, "max_rows": None}
    if not form["features"]:
        raise SchemaError("the table has no feature columns")
    left_out = tuple(name for name in features if not kinds[name])
    listed = [name for name in (*leave_out, *left_out) if name != unit]
    if listed:
        form["leave_out"] = listed  # else domain inference would take them as features
    return Skeleton(form, left_out)


def _kind(column: Column, name: str, text_file: bool) -> str:
    """Return a column's type; empty if no kind of feature can read it."""
    if text_file:
        return "any"
    if not isinstance(column, pa.Array | pa.ChunkedArray):
        dates = column.dtype.kind == "M"
    else:
        dates = pa.types.is_date(column.type) or pa.types.is_timestamp(column.type)
        if pa.types.is_null(column.type):
            return "any"
    try:
        found = "date" if dates else column_kind(column, name)
    except SchemaError:
        return ""
    return "any" if found == "object" else found


def _feature(column_type: str) -> dict[str, Any]:
    return dict(_OPEN) if column_type == "any" else _BY_TYPE[column_type].skeleton()


def _target(kind: str, task: str | None) -> dict[str, Any]:
    if task is not None and not (kind == "bool" and task == "classes"):
        return dict(_TARGETS["text" if task == "classes" else "number"])
    return dict(_EITHER if kind == "number" else _TARGETS.get(kind, _EITHER))
