"""Protected unit: one row, or all rows of one person, household or patient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from privboost._core.checks import Hole, check_mapping, check_text, read_reason
from privboost._core.errors import DomainError

MAX_ROWS_PER_UNIT = 2**10
_MOST = "how many rows of one unit are used at most"


@dataclass(frozen=True)
class Unit:
    """Protected unit other than a row: all rows that share a value of `column`.

    At most `max_rows` rows of a unit are used; rows without a value are not used at all.
    """

    column: str
    max_rows: int
    reason: str = ""

    def __post_init__(self) -> None:
        check_text(self.column, "unit.column")
        check_text(self.reason, "unit.reason", empty=True)
        rows = self.max_rows
        if not isinstance(rows, int) or isinstance(rows, bool) or not rows >= 1:
            raise DomainError(f"unit.max_rows: {rows!r} is not a whole number of at least 1")
        if rows > MAX_ROWS_PER_UNIT:
            raise DomainError(f"unit.max_rows: {rows} is more than {MAX_ROWS_PER_UNIT}")

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON payload."""
        payload = {"column": self.column, "max_rows": self.max_rows}
        return payload | ({"reason": self.reason} if self.reason else {})

    @classmethod
    def from_dict(cls, payload: Any) -> Unit:
        """Read the payload of `to_dict`; errors name the place."""
        payload = check_mapping(payload, "unit", {"column", "max_rows"}, {"reason"})
        if payload["max_rows"] is None:
            raise Hole("unit.max_rows", _MOST)
        return cls(payload["column"], payload["max_rows"], read_reason(payload, "unit"))


def column_of(unit: Unit | None) -> str | None:
    """Return the column that identifies units; None if a row is the unit."""
    return None if unit is None else unit.column


def describe_unit(unit: Unit | None) -> str:
    """Describe the protected unit, as privacy reports repeat it."""
    if unit is None:
        return "one row"
    return f"all rows of one {unit.column} (at most {unit.max_rows} are used)"


def unit_assumptions(unit: Unit) -> list[str]:
    """Return the assumptions of a guarantee for protected units."""
    return [
        f"the column {unit.column!r} tells protected units apart",
        f"no whole number in {unit.column!r} was held in a column of floating point numbers that "
        "would round it (2^53 and more; 2^24 in float32), and text files are in UTF-8",
    ]
