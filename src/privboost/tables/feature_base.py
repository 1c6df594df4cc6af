"""Base classes of features.

A feature states what is public about one column. Its class, the feature's kind, owns everything
that depends on the kind: how values are read and coded, how codes are described, how the
declaration is written as JSON, and what exports need to know. A new kind is one subclass, listed in
`features.FEATURE_KINDS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from privboost.forms import check_text
from privboost.pickling import DeclaredState
from privboost.tables.domain_checks import Label
from privboost.tables.pieces import Column

if TYPE_CHECKING:
    from privboost.tables.bins import Bins

MISSING_LABEL = "missing"


class BaseFeature(DeclaredState, ABC):
    """What is public about one column.

    Attributes
    ----------
    kind : str
        Name of the kind in JSON.
    ordered : bool
        Whether codes follow the order of values, so that models split along it.
    required : mapping from str to str
        JSON keys that must be filled in, each with a hint for the error message.
    optional : tuple of str
        JSON keys besides "missing" and "reason" that have a default.
    example : str
        What to write for a feature of this kind, shown with a skeleton.
    column_type : str
        Column type (see `values.column_kind`) for which a skeleton proposes this kind; empty if
        none.
    inferable : bool
        Whether private domain inference can fill in the required keys.
    reads_plain_numbers : bool
        Whether a plain numeric column holds the values to be binned as they are.
    name : str
        The column.
    missing : bool
        Whether missing values are expected.
    reason : str
        Where the fact comes from.
    """

    kind: ClassVar[str]
    ordered: ClassVar[bool]
    required: ClassVar[Mapping[str, str]] = {}
    optional: ClassVar[tuple[str, ...]] = ()
    example: ClassVar[str]
    column_type: ClassVar[str] = ""
    inferable: ClassVar[bool] = False
    reads_plain_numbers: ClassVar[bool] = False

    name: str
    missing: bool
    reason: str

    @property
    @abstractmethod
    def range(self) -> str:
        """The distinguished values, as shown in tables of features."""

    @property
    @abstractmethod
    def labels(self) -> tuple[Label, ...]:
        """The listed values in the order of their codes; empty if codes are bins of a range."""

    @abstractmethod
    def read(self, column: Column) -> np.ndarray:
        """Return each value of a column as a number; raise SchemaError for a wrong column type."""

    @abstractmethod
    def encode(self, column: Column, bins: Bins, out: np.ndarray) -> None:
        """Write the code of each value of a column to `out`."""

    @abstractmethod
    def fine_edges(self) -> np.ndarray:
        """Return the upper edges of all bins but the last; empty without an order."""

    @abstractmethod
    def count_codes(self, edges: np.ndarray) -> int:
        """Return the number of codes, "missing" and "other" included."""

    @abstractmethod
    def describe_codes(self, values: np.ndarray, edges: np.ndarray) -> Iterator[tuple[str, int]]:
        """Yield a description and the first code of each run of codes with the same value.

        Parameters
        ----------
        values : array
            One value for each code. Neighbouring bins with equal values are described together.
        edges : float64 array
            The upper edges of the bins.
        """

    @abstractmethod
    def count_outside(self, column: Column) -> dict[str, int]:
        """Count values that are missing, clipped or unknown: exactly, so for public rows only."""

    def with_bins(self, count: int) -> Any:
        """Return the feature with at most `count` bins, equal on its scale.

        Features with edges or labels of their own are returned unchanged.
        """
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON payload, without keys that are at their default."""
        payload: dict[str, Any] = {"kind": self.kind}
        for key in (*self.required, *self.optional):
            value = getattr(self, key)
            if key in self.required or value != getattr(type(self), key):
                payload[key] = list(value) if isinstance(value, tuple) else value
        return payload | common_keys(self)

    @classmethod
    def skeleton(cls) -> dict[str, Any]:
        """Return the JSON payload with null for each key that must be filled in."""
        return {"kind": cls.kind} | dict.fromkeys(cls.required) | {"missing": False}

    def _check_names(self) -> str:
        """Check the strings that every feature has; return the feature's place in the JSON."""
        place = f"features.{check_text(self.name, 'features, the name of one')}"
        check_text(self.reason, f"{place}.reason", empty=True)
        return place


def count_clipped(values: np.ndarray, bounds: tuple[float, float]) -> dict[str, int]:
    """Count numbers that are missing (NaN), or that are clipped to a bound."""
    low, high = bounds
    return {
        "missing": int(np.isnan(values).sum()),
        "below": int((values < low).sum()),
        "above": int((values > high).sum()),
    }


def common_keys(part: Any) -> dict[str, Any]:
    """Return the JSON keys that features and targets share, without those at their default."""
    payload: dict[str, Any] = {}
    if getattr(part, "missing", False):
        payload["missing"] = True
    if part.reason:
        payload["reason"] = part.reason
    return payload
