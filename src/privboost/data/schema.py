"""What a table's schema says about a domain: skeletons of domains, and comparison with one.

Names and types of columns are public. Parts of a schema that describe the rows are not used:
categories of pandas, values of an enumeration or a dictionary, statistics and metadata of Parquet
files. Values are compared for public rows only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from privboost._core.checks import check_choice, check_text
from privboost._core.errors import SchemaError
from privboost._core.grid import BLOCK_ROWS
from privboost._core.unit import UNITS
from privboost.data.domain_json import VERSION, Parts, domain_json
from privboost.data.features import FEATURE_KINDS, OPEN_KIND, Feature
from privboost.data.files import check_header
from privboost.data.table import Column, Table
from privboost.data.targets import TASKS_IN_WORDS, Target
from privboost.data.unit_names import read_unit_names
from privboost.data.values import column_kind

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
        return domain_json(self.form)


def make_skeleton(
    table: Table,
    target: str,
    leave_out: Sequence[str] = (),
    task: str | None = None,
    header: bool = False,
    unit: str | None = None,
    event: str | None = None,
) -> Skeleton:
    """Return the skeleton of a domain for a table; no row is read. See `Domain.skeleton`."""
    if task is not None:
        check_choice("task", task, tuple(TASKS_IN_WORDS))
    if event is None and task == "survival":
        raise ValueError("task: survival times need event, the column of events")
    if event is not None and task not in (None, "survival"):
        raise ValueError(f"event is for survival times; the task is {TASKS_IN_WORDS[task]}")
    if table.is_text:
        if not header:
            raise SchemaError(
                "the first line of a text file may be a record, and would become names: say that "
                "it names the columns (header=True, --header)"
            )
        check_header(table.columns, target)
    skipped = (*leave_out, *([] if unit is None else [unit]))
    for name in (target, *skipped, *([] if event is None else [event])):
        if name not in table.columns:
            raise SchemaError(f"the table has no column {name!r}")
    if target in skipped:
        raise SchemaError(f"the target {target!r} cannot be left out, nor be the unit")
    if event in (target, *skipped):
        raise SchemaError(f"the event {event!r} is the target, the unit or left out; name another")
    names = [name for name in table.columns if name not in skipped]
    batch = table.no_rows(names)
    kinds = {name: _kind(batch[name], name, table.is_text) for name in names}
    features = [name for name in names if name not in (target, event)]
    for name in names:
        check_text(name, "a column's name")
    about = _target(kinds[target], task) if event is None else {"bounds": None, "event": event}
    form: dict[str, Any] = {
        "version": VERSION,
        "features": {
            name: dict(_OPEN) if kinds[name] == "any" else _BY_TYPE[kinds[name]].skeleton()
            for name in features
            if kinds[name]
        },
        "target": {"name": target} | about,
    }
    if unit is not None:
        form["unit"] = {"column": unit, "max_rows": None, "weighting": UNITS}
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


def _target(kind: str, task: str | None) -> dict[str, Any]:
    if task is not None and not (kind == "bool" and task == "classes"):
        return dict(_TARGETS["text" if task == "classes" else "number"])
    return dict(_EITHER if kind == "number" else _TARGETS.get(kind, _EITHER))


_MOST_MISSING = 0.99
"""A column that is missing in more than this fraction of public rows does not fit."""


@dataclass(frozen=True)
class OutsideCounts:
    """Counts of a column's values that are not as the domain declares them.

    Attributes
    ----------
    name : str
        The column.
    rows : int
        Number of values.
    missing : int
        Values that are missing, or cannot be read.
    below, above : int
        Values that are clipped to a bound.
    other : int
        Values that are no listed category or class.
    """

    name: str
    rows: int = 0
    missing: int = 0
    below: int = 0
    above: int = 0
    other: int = 0


@dataclass(frozen=True)
class Comparison:
    """Result of comparing a domain with a table.

    Attributes
    ----------
    absent : tuple of str
        Columns that the domain names and the table does not have.
    unfit : tuple of str
        One message for each column whose type contradicts the domain.
    more : tuple of str
        Columns that the domain does not name; they are not read.
    strays : tuple of OutsideCounts
        For public rows: counts of values outside the domain, column by column.
    empty : tuple of str
        For public rows: columns that are missing in more than 99 % of them. Ordinals and classes
        that the domain does not list count as missing, as they do in training.
    """

    absent: tuple[str, ...]
    unfit: tuple[str, ...]
    more: tuple[str, ...]
    strays: tuple[OutsideCounts, ...] = ()
    empty: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether a model can be trained on the table, with an effect of every column."""
        return not self.absent and not self.unfit and not self.empty


def compare(parts: Parts, table: Table) -> Comparison:
    """Compare the readable parts of a domain with a table's schema. No row is read."""
    named = parts.columns
    there = [name for name in named if name in table.columns]
    batch = table.no_rows(there) if there else {}
    readers: list[tuple[str, Callable[[Column], Any]]] = [(f.name, f.read) for f in parts.features]
    if parts.target is not None:
        readers += parts.target.readers.items()
    if parts.unit is not None:
        unit = parts.unit.column
        readers.append((unit, lambda column: read_unit_names(column, unit)))
    unfit = []
    for name, read in readers:
        try:
            if name in batch:
                read(batch[name])
        except SchemaError as error:
            unfit.append(str(error))
    absent = tuple(name for name in named if name not in table.columns)
    more = tuple(name for name in table.columns if name not in named)
    return Comparison(absent, tuple(unfit), more)


def with_outside_counts(found: Comparison, parts: Parts, table: Table) -> Comparison:
    """Return a comparison with exact counts of public rows, and the columns that are empty."""
    assert parts.target is not None
    declared: tuple[Feature | Target, ...] = (*parts.features, parts.target)
    counts: dict[str, Counter[str]] = {part.name: Counter() for part in declared}
    for batch in table.batches(tuple(counts), BLOCK_ROWS):
        for part in declared:
            column = batch[part.name]
            counts[part.name].update({"rows": len(column)} | part.count_outside(column))
    strays = [OutsideCounts(name, **own) for name, own in counts.items()]
    with_other = {part.name for part in parts.features if not part.ordered}
    empty = tuple(
        own.name
        for own in strays
        if own.missing + (0 if own.name in with_other else own.other) > _MOST_MISSING * own.rows
    )
    return replace(found, strays=tuple(strays), empty=empty)
