"""Scores of a linear model: a coefficient for each column."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from privboost.engine.block import Block
from privboost.engine.linear import Terms, add_scores
from privboost.grid import SCORE_UNITS

INTERCEPT = "(intercept)"
MISSING = "missing"


@dataclass(frozen=True)
class Column:
    """What a column of a linear model means.

    Attributes
    ----------
    feature : str
        The feature, or the two of a product.
    value : str
        The category or span that the column indicates; empty for a number itself.
    per_unit : float
        What the column's entry gains for each unit of the number; 0 for an indicator.
    middle : float
        Where the number's entry is 0.
    """

    feature: str
    value: str
    per_unit: float = 0.0
    middle: float = 0.0


@dataclass(frozen=True, eq=False)
class LinearScores:
    """Released coefficients on the score grid.

    Attributes
    ----------
    terms : Terms
        From codes to columns.
    columns : tuple of Column
        What each column means.
    coefficients : int32 array of shape (outputs, columns)
        In score units per norm bound.
    log_odds : bool
        Whether scores are log-odds.
    scale : float
        One over the norm bound: from coefficients on the grid to those of a column's own entries.
    """

    kind = "linear"
    terms: Terms
    columns: tuple[Column, ...]
    coefficients: np.ndarray
    log_odds: bool
    scale: float

    def __post_init__(self) -> None:
        self.coefficients.flags.writeable = False

    @property
    def n_outputs(self) -> int:
        """How many scores a row has."""
        return len(self.coefficients)

    @cached_property
    def _tables(self) -> list[dict[tuple[int, int], np.ndarray]]:
        return [self.terms.tables(own) for own in self.coefficients]

    def scores(self, block: Block) -> np.ndarray:
        """Return the exact scores of a block's rows: int32 of shape (outputs, rows)."""
        scores = np.zeros((self.n_outputs, len(block)), dtype=np.int32)
        for tables, own in zip(self._tables, scores, strict=True):
            add_scores(block, tables, own)
        return scores

    def feature_values(self) -> tuple[np.ndarray, ...]:
        """Return for each feature the score of its codes; the intercept is in none."""
        if any(second >= 0 for _, second in self.terms.features):
            raise AttributeError("effects: this model has products of features; see coefficients()")
        kept = self.coefficients * np.array([c.feature != INTERCEPT for c in self.columns])
        tables = [self.terms.tables(own) for own in kept]
        count = 1 + max(first for first, _ in self.terms.features)
        return tuple(np.stack([own[f, -1] for own in tables]) for f in range(count))

    def in_units(self) -> np.ndarray:
        """Return the coefficients in original units: per unit of a number, or for an indicator.

        The intercept is that of all numbers at 0; the coefficient of a missing number stands for
        the number as well (which counts as the middle of its bounds).
        """
        plain = self.coefficients * (self.scale / SCORE_UNITS)
        slope = np.array([column.per_unit or 1.0 for column in self.columns])
        middle = np.array([column.middle if column.per_unit else 0.0 for column in self.columns])
        own = plain * slope
        at_middle = own * middle
        number = {c.feature: k for k, c in enumerate(self.columns) if c.per_unit}
        for k, column in enumerate(self.columns):
            if column.feature == INTERCEPT:
                own[:, k] -= at_middle.sum(axis=1)
            elif column.value == MISSING and column.feature in number:
                own[:, k] += at_middle[:, number[column.feature]]
        return own

    def to_form(self) -> dict[str, Any]:
        """Return what a model file keeps."""
        return {
            "features": np.array(self.terms.features, dtype=np.int32),
            "column": list(self.terms.column),
            "value": list(self.terms.value),
            "columns": [asdict(column) for column in self.columns],
            "coefficients": self.coefficients,
            "log_odds": self.log_odds,
            "scale": self.scale,
        }

    @classmethod
    def from_form(cls, form: dict[str, Any]) -> LinearScores:
        """Read what `to_form` gave."""
        features = tuple((int(a), int(b)) for a, b in form["features"])
        columns = tuple(Column(**column) for column in form["columns"])
        terms = Terms(features, tuple(form["column"]), tuple(form["value"]), len(columns))
        return cls(terms, columns, form["coefficients"], form["log_odds"], form["scale"])
