"""Protected unit: one row, or all rows of one person, household or patient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from privboost._core.checks import Hole, check_mapping, check_text, read_reason
from privboost._core.errors import DomainError
from privboost._core.grid import WEIGHT_STEPS, Contribution, SharedContribution

MAX_ROWS_PER_UNIT = 2**10
ROWS, UNITS = "rows", "units"
"""What weighs one: each row, or all rows of a unit together."""
_MOST = "how many rows of one unit are used at most"


@dataclass(frozen=True)
class Unit:
    """Protected unit other than a row: all rows that share a value of `column`.

    At most `max_rows` rows of a unit are used; rows without a value are not used at all.

    Parameters
    ----------
    column : str
        The column whose values tell units apart.
    max_rows : int
        How many rows of a unit are used at most, at most 1,024 (256 where units weigh one).
    reason : str
        Why `max_rows` is public.
    weighting : {"rows", "units"}
        What weighs one. With "rows" each row does, and noise grows in proportion to `max_rows`.
        With "units" all rows of a unit do together, in equal parts, and noise is that of one row;
        what is learned is about a random row of a random unit.

    Examples
    --------
    >>> Unit("patient", 20, weighting="units").to_dict()
    {'column': 'patient', 'max_rows': 20, 'weighting': 'units'}
    """

    column: str
    max_rows: int
    reason: str = ""
    weighting: str = ROWS

    def __post_init__(self) -> None:
        check_text(self.column, "unit.column")
        check_text(self.reason, "unit.reason", empty=True)
        rows = self.max_rows
        if not isinstance(rows, int) or isinstance(rows, bool) or not rows >= 1:
            raise DomainError(f"unit.max_rows: {rows!r} is not a whole number of at least 1")
        if rows > MAX_ROWS_PER_UNIT:
            raise DomainError(f"unit.max_rows: {rows} is more than {MAX_ROWS_PER_UNIT}")
        if self.weighting not in (ROWS, UNITS):
            raise DomainError(f'unit.weighting: {self.weighting!r} is not "rows" or "units"')
        if self.weighting == UNITS and rows > WEIGHT_STEPS:
            raise DomainError(
                f"unit.max_rows: {rows} is more than {WEIGHT_STEPS}, into which the weight of a "
                'unit can be divided (weighting="units")'
            )

    @property
    def shares_weight(self) -> bool:
        """Whether several rows of a unit share one weight."""
        return self.weighting == UNITS and self.max_rows > 1

    def contribution(self, weighted: bool = False) -> Contribution:
        """Return the bound of one unit's contribution; `weighted` if rows carry weights."""
        if self.shares_weight:
            return SharedContribution(True, self.max_rows)
        return Contribution(weighted, self.max_rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON payload."""
        payload = {"column": self.column, "max_rows": self.max_rows}
        payload |= {} if self.weighting == ROWS else {"weighting": self.weighting}
        return payload | ({"reason": self.reason} if self.reason else {})

    @classmethod
    def from_dict(cls, payload: Any) -> Unit:
        """Read the payload of `to_dict`; errors name the place."""
        payload = check_mapping(payload, "unit", {"column", "max_rows"}, {"reason", "weighting"})
        if payload["max_rows"] is None:
            raise Hole("unit.max_rows", _MOST)
        own = payload["column"], payload["max_rows"], read_reason(payload, "unit")
        return cls(*own, payload.get("weighting", ROWS))


def column_of(unit: Unit | None) -> str | None:
    """Return the column that identifies units; None if a row is the unit."""
    return None if unit is None else unit.column


def describe_unit(unit: Unit | None) -> str:
    """Describe the protected unit, as privacy reports repeat it."""
    if unit is None:
        return "one row"
    shared = ", and share one weight" if unit.shares_weight else ""
    return f"all rows of one {unit.column} (at most {unit.max_rows} are used{shared})"


def unit_assumptions(unit: Unit) -> list[str]:
    """Return the assumptions of a guarantee for protected units."""
    return [
        f"the column {unit.column!r} tells protected units apart",
        f"no whole number in {unit.column!r} was held in a column of floating point numbers that "
        "would round it (2^53 and more; 2^24 in float32), and text files are in UTF-8",
    ]
