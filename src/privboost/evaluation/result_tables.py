"""What an evaluation says as tables: a line for each group, and a line for each reliability bin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from privboost.evaluation.result import BoundedValue, Evaluation, Measures

_WHICH = ("feature", "value")
"""Whose a line is; both are null for all rows."""


def measure_table(evaluation: Evaluation) -> pa.Table:
    """Return the measures; see `Evaluation.to_table`."""
    lines = []
    for which, measures in _parts(evaluation):
        line = dict(which)
        for name in evaluation.measures.values:
            known = measures.tells or name == "rows"
            value = measures[name]
            own: dict[str, float | None] = {name: value.value, f"{name}_std": value.std}
            if isinstance(value, BoundedValue):
                own |= {f"{name}_lower": value.lower, f"{name}_upper": value.upper}
            line |= own if known else dict.fromkeys(own)
        lines.append(line)
    numbers = [name for name in lines[0] if name not in _WHICH]
    return _table(lines, (), numbers)


def reliability_table(evaluation: Evaluation) -> pa.Table:
    """Return the reliability bins; see `Evaluation.reliability_table`."""
    numbers = ("low", "high", "promised", "observed", "observed_std", "rows", "rows_std")
    lines = [
        which
        | {
            "class": own.of,
            "low": own.low,
            "high": own.high,
            "promised": own.promised,
            "observed": own.observed.value,
            "observed_std": own.observed.std,
            "rows": own.rows.value,
            "rows_std": own.rows.std,
        }
        for which, measures in _parts(evaluation)
        for own in measures.reliability
    ]
    return _table(lines, ("class",), numbers)


def _parts(evaluation: Evaluation) -> list[tuple[dict[str, Any], Measures]]:
    named = [(group.feature, group.value, group.measures) for group in evaluation.groups]
    return [
        ({"feature": feature, "value": value}, measures)
        for feature, value, measures in [(None, None, evaluation.measures), *named]
    ]


def _table(lines: list[dict[str, Any]], texts: Sequence[str], numbers: Sequence[str]) -> pa.Table:
    schema = [(name, pa.string()) for name in (*_WHICH, *texts)]
    schema += [(name, pa.float64()) for name in numbers]
    return pa.Table.from_pylist(lines, pa.schema(schema))
