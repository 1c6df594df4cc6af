"""Scores of a linear model: a coefficient for each column."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from privboost.engine.linear import add_scores
from privboost.errors import ModelFileError
from privboost.grid import SCORE_STEPS, VECTOR_STEPS
from privboost.models.checks import (
    need,
    need_array,
    need_finite,
    need_flag,
    need_keys,
    need_list,
    need_number,
    need_scores,
    need_text,
)
from privboost.models.importance import even
from privboost.tables.layout import Layout
from privboost.tables.rows import Codes
from privboost.vectors.terms import Terms

INTERCEPT = "(intercept)"
MISSING = "missing"
_LEAST_SHARE = 0.01
"""A number is there in at least this part of the rows."""


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
    moments : float64 array of shape (2, columns), or None
        What was released about the mean and the mean square of each column's entries.
    noise : float64 array of shape (columns,), or None
        The standard deviation that noise alone gives to each coefficient.
    """

    kind = "linear"
    terms: Terms
    columns: tuple[Column, ...]
    coefficients: np.ndarray
    log_odds: bool
    scale: float
    moments: np.ndarray | None = None
    noise: np.ndarray | None = None

    def __post_init__(self) -> None:
        for array in (self.coefficients, self.moments, self.noise):
            if array is not None:
                array.flags.writeable = False

    @property
    def n_outputs(self) -> int:
        """How many scores a row has."""
        return len(self.coefficients)

    @cached_property
    def _tables(self) -> list[dict[tuple[int, int], np.ndarray]]:
        return [self.terms.tables(own) for own in self.coefficients]

    def scores(self, codes: Codes) -> np.ndarray:
        """Return the exact scores of rows: int32 of shape (outputs, rows)."""
        scores = np.zeros((self.n_outputs, len(codes)), dtype=np.int32)
        for tables, own in zip(self._tables, scores, strict=True):
            add_scores(codes, tables, own)
        return scores

    def feature_values(self) -> tuple[np.ndarray, ...]:
        """Return for each feature the score of its codes; the intercept is in none."""
        if any(second >= 0 for _, second in self.terms.features):
            raise AttributeError("effects: this model has products of features; see coefficients()")
        kept = self.coefficients * np.array([c.feature != INTERCEPT for c in self.columns])
        tables = [self.terms.tables(own) for own in kept]
        count = 1 + max(first for first, _ in self.terms.features)
        return tuple(np.stack([own[f, -1] for own in tables]) for f in range(count))

    def chances(self) -> tuple[np.ndarray, ...]:
        """Return for each feature how likely its codes are, from the released matrix.

        A number has two values, a standard deviation to either side of its mean: nothing more was
        released about it, and nothing more matters to a linear score.
        """
        if self.moments is None or self.noise is None:
            raise AttributeError(
                "feature_importances: nothing says how many rows there are; a linear model needs "
                "an intercept for that, and those of earlier versions have no such count"
            )
        chances: dict[int, np.ndarray] = {}
        for feature, term in _features_alone(self.terms, self.columns).items():
            entry = self.terms.value[term] / VECTOR_STEPS
            chances[feature] = _code_chances(self.terms.column[term], entry, self.moments)
        return tuple(chances[feature] for feature in sorted(chances))

    def changes(
        self, rows: np.ndarray, others: np.ndarray
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield what other codes change; see `importance.Explainable`."""
        assert self.noise is not None
        n_codes = {features[0]: len(c) for features, c, _ in self._terms if features[1] < 0}
        looking: dict[int, list[int]] = {}
        for number, features in enumerate(self.terms.features):
            for feature in {feature for feature in features if feature >= 0}:
                looking.setdefault(feature, []).append(number)
        for changed, terms in looking.items():
            change = np.zeros((self.n_outputs, rows.shape[1]))
            doubt = np.zeros((1, rows.shape[1]))
            for number in terms:
                own = [feature for feature in self.terms.features[number] if feature >= 0]
                column, value = self.terms.column[number], self.terms.value[number]
                before = _code_of([rows[f] for f in own], [n_codes[f] for f in own])
                codes = [others[f] if f == changed else rows[f] for f in own]
                after = _code_of(codes, [n_codes[f] for f in own])
                k, entry = column[before], value[before] / VECTOR_STEPS
                k_after, entry_after = column[after], value[after] / VECTOR_STEPS
                gain = self.coefficients[:, k_after] * entry_after
                change += gain - self.coefficients[:, k] * entry
                same = (self.noise[k] * (entry_after - entry)) ** 2
                apart = (self.noise[k_after] * entry_after) ** 2 + (self.noise[k] * entry) ** 2
                doubt += np.where(k == k_after, same, apart)
            yield changed, change, doubt

    @property
    def _terms(self) -> Iterator[tuple[tuple[int, int], np.ndarray, np.ndarray]]:
        """The features, columns and entries of each term."""
        terms = self.terms
        return zip(terms.features, terms.column, terms.value, strict=True)

    def in_units(self) -> np.ndarray:
        """Return the coefficients in original units: per unit of a number, or for an indicator.

        The intercept is that of all numbers at 0; the coefficient of a missing number stands for
        the number as well (which counts as the middle of its bounds).
        """
        plain = self.coefficients * (self.scale / SCORE_STEPS)
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
            "moments": self.moments,
            "noise": self.noise,
            "features": np.array(self.terms.features, dtype=np.int32),
            "column": list(self.terms.column),
            "value": list(self.terms.value),
            "columns": [asdict(column) for column in self.columns],
            "coefficients": self.coefficients,
            "log_odds": self.log_odds,
            "scale": self.scale,
        }

    @classmethod
    def from_form(cls, form: Any, layout: Layout, n_outputs: int) -> LinearScores:
        """Read what `to_form` gave: a coefficient for each output and column."""
        form = need_keys(form, "scores", _KEYS)
        columns = tuple(map(_read_column, need_list(form["columns"], "scores.columns")))
        terms = _read_terms(form, layout, len(columns))
        own = _features_alone(terms, columns)
        need(len(own) == len(layout.n_codes), "scores.columns", "every feature has a column")
        place = "scores.coefficients"
        shape = (n_outputs, len(columns))
        coefficients = need_array(form["coefficients"], place, np.int32, shape)
        need_scores([terms.most_score(own) for own in coefficients], place)
        log_odds = need_flag(form["log_odds"], "scores.log_odds")
        scale = need_number(form["scale"], "scores.scale", 0, above=True)
        told = form["moments"], form["noise"]
        if told[0] is not None:
            need_finite(told[0], "scores.moments", (2, len(columns)))
            need_finite(told[1], "scores.noise", (len(columns),), least=0)
        return cls(terms, columns, coefficients, log_odds, scale, *told)


_KEYS = {"features", "column", "value", "columns", "coefficients", "log_odds", "scale"}
_KEYS |= {"moments", "noise"}
_MOST_ENTRY = 2**30


def _features_alone(terms: Terms, columns: tuple[Column, ...]) -> dict[int, int]:
    """Return the term of each feature alone; the intercept is none of them."""
    return {
        features[0]: number
        for number, (features, column) in enumerate(zip(terms.features, terms.column, strict=True))
        if features[1] < 0 and columns[column[0]].feature != INTERCEPT
    }


def _read_column(form: Any) -> Column:
    place = "scores.columns"
    form = need_keys(form, place, {field.name for field in fields(Column)})
    names = need_text(form["feature"], place), need_text(form["value"], place)
    return Column(*names, *(need_number(form[name], place) for name in ("per_unit", "middle")))


def _read_terms(form: dict[str, Any], layout: Layout, n_columns: int) -> Terms:
    """Read terms that look at the layout's codes and have columns of their own."""
    last = len(layout.n_codes) - 1
    pairs = need_array(form["features"], "scores.features", np.int32, (None, 2), -1, last)
    need(bool((pairs[:, 0] >= 0).all()), "scores.features", "a term looks at a feature")
    alone = set(pairs[pairs[:, 1] < 0, 0].tolist())
    need(len(alone) == last + 1, "scores.features", "every feature has a term of its own")
    column = need_list(form["column"], "scores.column", len(pairs))
    value = need_list(form["value"], "scores.value", len(pairs))
    for (first, second), places, entries in zip(pairs.tolist(), column, value, strict=True):
        codes = layout.n_codes[first] * (1 if second < 0 else layout.n_codes[second])
        need_array(places, "scores.column", np.int32, (codes,), 0, n_columns - 1)
        need_array(entries, "scores.value", np.int32, (codes,), -_MOST_ENTRY, _MOST_ENTRY)
    features = tuple((first, second) for first, second in pairs.tolist())
    terms = Terms(features, tuple(column), tuple(value), n_columns)
    try:
        terms.check()
    except ValueError as error:
        raise ModelFileError(f"scores: {error}") from None
    return terms


def _code_of(codes: list[np.ndarray], n_codes: list[int]) -> np.ndarray:
    """Return the place of one code, or of a pair of codes, in a term."""
    if len(codes) == 1:
        return codes[0]
    return codes[0].astype(np.int64) * n_codes[1] + codes[1]


def _code_chances(column: np.ndarray, entry: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """Return how likely the codes of one feature are, by the moments of its columns."""
    mass = np.zeros(len(column))
    number = None
    for own in np.unique(column[entry != 0]):
        codes = np.flatnonzero((column == own) & (entry != 0))
        if len(np.unique(entry[codes])) > 1:
            number = own
        else:
            mass[codes] = max(moments[1, own], 0.0) / entry[codes[0]] ** 2 / len(codes)
    if number is not None:
        there = max(1 - mass.sum(), _LEAST_SHARE)
        mean, square = moments[:, number] / there
        half = np.sqrt(max(square - mean**2, 0.0))
        codes = np.flatnonzero(column == number)
        for value in (mean - half, mean + half):
            mass[codes[np.abs(entry[codes] - value).argmin()]] += there / 2
    return even(mass)
