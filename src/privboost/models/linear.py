"""Scores of a linear model: a coefficient for each coordinate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from privboost.engine.linear import add_scores
from privboost.errors import ModelFileError
from privboost.explanations.lists import INTERCEPT
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
from privboost.models.parts import JointTable, ScoreParts
from privboost.models.told_rows import read_rows
from privboost.pickling import DeclaredState
from privboost.tables.layout import Layout
from privboost.tables.rows import Codes
from privboost.vectors.terms import Terms

MISSING = "missing"
_LEAST_SHARE = 0.01
"""A number is there in at least this part of the rows."""


@dataclass(frozen=True)
class Coordinate:
    """What a coordinate of a linear model means.

    Attributes
    ----------
    feature : str
        The feature, or the two of a product.
    value : str
        The category or span that the coordinate indicates; empty for a number itself.
    slope : float
        What the coordinate's entry gains for each 1 of the number; 0 for an indicator.
    middle : float
        Where the number's entry is 0.
    """

    feature: str
    value: str
    slope: float = 0.0
    middle: float = 0.0


@dataclass(frozen=True, eq=False)
class LinearScores(DeclaredState):
    """Released coefficients on the score grid.

    Attributes
    ----------
    terms : Terms
        From codes to coordinates.
    coordinates : tuple of Coordinate
        What each coordinate means.
    coefficients : int32 array of shape (outputs, coordinates)
        In score steps per norm bound.
    log_odds : bool
        Whether scores are log-odds.
    scale : float
        One over the norm bound: from coefficients on the grid to those of plain entries.
    moments : float64 array of shape (2, coordinates), or None
        What was released about the mean and the mean square of each coordinate's entries.
    noise : float64 array of shape (outputs, coordinates), or None
        The standard deviation that noise alone gives to each coefficient. Earlier versions kept one
        for all outputs, of shape (coordinates,), which knows nothing of a line's slope.
    stages : int32 array of shape (rounds, outputs, coordinates), or None
        The coefficients that each round would have left, were it the last.
    rows : float64 array of shape (2,), or None
        How many rows there are, as far as was released, and the standard deviation of that.
    """

    kind = "linear"
    terms: Terms
    coordinates: tuple[Coordinate, ...]
    coefficients: np.ndarray
    log_odds: bool
    scale: float
    moments: np.ndarray | None = None
    noise: np.ndarray | None = None
    stages: np.ndarray | None = None
    rows: np.ndarray | None = None

    def __post_init__(self) -> None:
        for array in (self.coefficients, self.moments, self.noise, self.stages, self.rows):
            if array is not None:
                array.flags.writeable = False

    @property
    def n_outputs(self) -> int:
        """How many scores a row has."""
        return len(self.coefficients)

    @property
    def n_stages(self) -> int:
        """How many rounds the coefficients were kept of."""
        return 0 if self.stages is None else len(self.stages)

    @cached_property
    def _tables(self) -> list[dict[tuple[int, int], np.ndarray]]:
        return [self.terms.tables(own) for own in self.coefficients]

    def scores(self, codes: Codes) -> np.ndarray:
        """Return the exact scores of rows: int32 of shape (outputs, rows)."""
        return _scores(codes, self._tables)

    def staged_scores(self, codes: Codes) -> Iterator[np.ndarray]:
        """Yield the scores after each round, where the coefficients of rounds were kept."""
        if self.stages is None:
            raise AttributeError("staged predictions: this model was fitted without keep_stages")
        for stage in self.stages:
            yield _scores(codes, [self.terms.tables(own) for own in stage])

    def parts(self) -> ScoreParts:
        """Return the scores as one sum: the intercept is the start, products are pairs."""
        constant = np.array([c.feature == INTERCEPT for c in self.coordinates])
        # The intercept is a term of some feature, all of whose codes say the same.
        level = [[own[0] for own in self._alone(c)] for c in self.coefficients * constant]
        alone = [self._alone(own) for own in self.coefficients]
        tables = tuple(
            np.stack([own[feature] for own in alone]) - np.array([[own[feature]] for own in level])
            for feature in range(self.n_features)
        )
        noise = None
        if self.noise is not None:
            noise = tuple(self._noise_of_codes())
        products = tuple(
            self._product(features) for features in self._tables[0] if features[1] >= 0
        )
        return ScoreParts(np.array(level).sum(axis=1), tables, products, noise=noise)

    def _alone(self, coefficients: np.ndarray) -> list[np.ndarray]:
        """Return what the codes of each feature add by themselves."""
        tables = self.terms.tables(coefficients)
        return [tables[feature, -1].astype(np.int64) for feature in range(self.n_features)]

    @property
    def n_features(self) -> int:
        """How many features there are: each has a term of its own."""
        return 1 + max(first for first, _ in self.terms.features)

    def _product(self, features: tuple[int, int]) -> JointTable:
        """Return what the codes of two features add jointly."""
        first, second = (np.arange(len(self._tables[0][feature, -1])) for feature in features)
        values = np.stack([own[features] for own in self._tables])
        return JointTable(features, (first, second), values.reshape(-1, len(first), len(second)))

    def _noise_of_codes(self) -> list[np.ndarray]:
        """Return what noise gives to what the codes of each feature add, in score steps."""
        noise, variance = self.noise_by_output, dict[int, Any]()
        for (feature, other), coordinate, value in self._terms:
            if other < 0 and self.coordinates[coordinate[0]].feature != INTERCEPT:
                own = (noise[:, coordinate] * value / VECTOR_STEPS) ** 2
                variance[feature] = variance.get(feature, 0.0) + own
        return [np.sqrt(variance[feature]) for feature in range(self.n_features)]

    @property
    def knows_line(self) -> bool:
        """Whether the noise is that of scores on their line."""
        return self.noise is not None and self.noise.ndim == 2

    @property
    def noise_by_output(self) -> np.ndarray:
        """The standard deviation that noise alone gives to each coefficient."""
        assert self.noise is not None
        return np.broadcast_to(self.noise, self.coefficients.shape)

    def feature_values(self) -> tuple[np.ndarray, ...]:
        """Return for each feature the score of its codes; the intercept is in none."""
        if any(second >= 0 for _, second in self.terms.features):
            raise AttributeError("effects: this model has products of features; see coefficients()")
        return self.parts().tables

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
        for feature, term in _features_alone(self.terms, self.coordinates).items():
            entry = self.terms.value[term] / VECTOR_STEPS
            chances[feature] = _code_chances(self.terms.coordinate[term], entry, self.moments)
        return tuple(chances[feature] for feature in sorted(chances))

    def changes(
        self, rows: np.ndarray, others: np.ndarray
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield what other codes change; see `importance.Explainable`."""
        noise = self.noise_by_output
        n_codes = {features[0]: len(c) for features, c, _ in self._terms if features[1] < 0}
        looking: dict[int, list[int]] = {}
        for number, features in enumerate(self.terms.features):
            for feature in {feature for feature in features if feature >= 0}:
                looking.setdefault(feature, []).append(number)
        for changed, terms in looking.items():
            change = np.zeros((self.n_outputs, rows.shape[1]))
            doubt = np.zeros_like(change)
            for number in terms:
                own = [feature for feature in self.terms.features[number] if feature >= 0]
                coordinate, value = self.terms.coordinate[number], self.terms.value[number]
                before = _code_of([rows[f] for f in own], [n_codes[f] for f in own])
                codes = [others[f] if f == changed else rows[f] for f in own]
                after = _code_of(codes, [n_codes[f] for f in own])
                k, entry = coordinate[before], value[before] / VECTOR_STEPS
                k_after, entry_after = coordinate[after], value[after] / VECTOR_STEPS
                gain = self.coefficients[:, k_after] * entry_after
                change += gain - self.coefficients[:, k] * entry
                same = (noise[:, k] * (entry_after - entry)) ** 2
                apart = (noise[:, k_after] * entry_after) ** 2 + (noise[:, k] * entry) ** 2
                doubt += np.where(k == k_after, same, apart)
            yield changed, change, doubt

    @property
    def _terms(self) -> Iterator[tuple[tuple[int, int], np.ndarray, np.ndarray]]:
        """The features, coordinates and entries of each term."""
        terms = self.terms
        return zip(terms.features, terms.coordinate, terms.value, strict=True)

    def on_own_scale(self) -> np.ndarray:
        """Return the coefficients as tables have it: per 1 of a number, or for an indicator.

        The intercept is that of all numbers at 0; the coefficient of a missing number stands for
        the number as well (which counts as the middle of its bounds).
        """
        plain = self.coefficients * (self.scale / SCORE_STEPS)
        slope = np.array([c.slope or 1.0 for c in self.coordinates])
        middle = np.array([c.middle if c.slope else 0.0 for c in self.coordinates])
        own: np.ndarray = plain * slope
        at_middle = own * middle
        number = {c.feature: k for k, c in enumerate(self.coordinates) if c.slope}
        for k, coordinate in enumerate(self.coordinates):
            if coordinate.feature == INTERCEPT:
                own[:, k] -= at_middle.sum(axis=1)
            elif coordinate.value == MISSING and coordinate.feature in number:
                own[:, k] += at_middle[:, number[coordinate.feature]]
        return own

    def to_form(self) -> dict[str, Any]:
        """Return what a model file keeps."""
        kept = {"stages": self.stages, "rows": self.rows}
        kept = {name: own for name, own in kept.items() if own is not None}
        return kept | {
            "moments": self.moments,
            "noise": self.noise,
            "features": np.array(self.terms.features, dtype=np.int32),
            "coordinate": list(self.terms.coordinate),
            "value": list(self.terms.value),
            "coordinates": [asdict(coordinate) for coordinate in self.coordinates],
            "coefficients": self.coefficients,
            "log_odds": self.log_odds,
            "scale": self.scale,
        }

    @classmethod
    def from_form(cls, form: Any, layout: Layout, n_outputs: int) -> LinearScores:
        """Read what `to_form` gave: a coefficient for each output and coordinate."""
        form = need_keys(form, "scores", _KEYS, {"stages", "rows"})
        coordinates = tuple(
            map(_read_coordinate, need_list(form["coordinates"], "scores.coordinates"))
        )
        terms = _read_terms(form, layout, len(coordinates))
        own = _features_alone(terms, coordinates)
        need(
            len(own) == len(layout.n_codes), "scores.coordinates", "every feature has a coordinate"
        )
        place = "scores.coefficients"
        shape = (n_outputs, len(coordinates))
        coefficients = need_array(form["coefficients"], place, np.int32, shape)
        need_scores([terms.most_score(own) for own in coefficients], place)
        log_odds = need_flag(form["log_odds"], "scores.log_odds")
        scale = need_number(form["scale"], "scores.scale", 0, above=True)
        told = form["moments"], form["noise"]
        if told[0] is not None:
            need_finite(told[0], "scores.moments", (2, len(coordinates)))
            one_for_all = np.ndim(told[1]) == 1
            need_finite(told[1], "scores.noise", shape[one_for_all:], least=0)
        stages = _read_stages(form["stages"], terms, coefficients) if "stages" in form else None
        rows = read_rows(form)
        return cls(terms, coordinates, coefficients, log_odds, scale, *told, stages, rows)


_KEYS = {"features", "coordinate", "value", "coordinates", "coefficients", "log_odds", "scale"}
_KEYS |= {"moments", "noise"}
_MOST_ENTRY = 2**30


def _scores(codes: Codes, tables: list[dict[tuple[int, int], np.ndarray]]) -> np.ndarray:
    """Return the scores of rows by the tables of each output."""
    scores = np.zeros((len(tables), len(codes)), dtype=np.int32)
    for own_tables, own in zip(tables, scores, strict=True):
        add_scores(codes, own_tables, own)
    return scores


def _read_stages(value: Any, terms: Terms, coefficients: np.ndarray) -> np.ndarray:
    """Read the coefficients of all rounds, of which the last are the model's."""
    place = "scores.stages"
    stages = need_array(value, place, np.int32, (None, *coefficients.shape))
    ends = len(stages) > 0 and np.array_equal(stages[-1], coefficients)
    need(ends, place, "the last stage must be the model")
    need_scores([terms.most_score(own) for stage in stages for own in stage], place)
    return stages


def _features_alone(terms: Terms, coordinates: tuple[Coordinate, ...]) -> dict[int, int]:
    """Return the term of each feature alone; the intercept is none of them."""
    return {
        features[0]: number
        for number, (features, coordinate) in enumerate(
            zip(terms.features, terms.coordinate, strict=True)
        )
        if features[1] < 0 and coordinates[coordinate[0]].feature != INTERCEPT
    }


def _read_coordinate(form: Any) -> Coordinate:
    place = "scores.coordinates"
    form = need_keys(form, place, {field.name for field in fields(Coordinate)})
    names = need_text(form["feature"], place), need_text(form["value"], place)
    return Coordinate(*names, *(need_number(form[name], place) for name in ("slope", "middle")))


def _read_terms(form: dict[str, Any], layout: Layout, n_coordinates: int) -> Terms:
    """Read terms that look at the layout's codes and have coordinates of their own."""
    last = len(layout.n_codes) - 1
    pairs = need_array(form["features"], "scores.features", np.int32, (None, 2), -1, last)
    need(bool((pairs[:, 0] >= 0).all()), "scores.features", "a term looks at a feature")
    alone = set(pairs[pairs[:, 1] < 0, 0].tolist())
    need(len(alone) == last + 1, "scores.features", "every feature has a term of its own")
    coordinate = need_list(form["coordinate"], "scores.coordinate", len(pairs))
    value = need_list(form["value"], "scores.value", len(pairs))
    for (first, second), places, entries in zip(pairs.tolist(), coordinate, value, strict=True):
        codes = layout.n_codes[first] * (1 if second < 0 else layout.n_codes[second])
        need_array(places, "scores.coordinate", np.int32, (codes,), 0, n_coordinates - 1)
        need_array(entries, "scores.value", np.int32, (codes,), -_MOST_ENTRY, _MOST_ENTRY)
    features = tuple((first, second) for first, second in pairs.tolist())
    terms = Terms(features, tuple(coordinate), tuple(value), n_coordinates)
    try:
        terms.check()
    except ValueError as error:
        raise ModelFileError(f"scores: {error}") from None
    return terms


def _code_of(codes: list[np.ndarray], n_codes: list[int]) -> np.ndarray:
    """Return the place of one code, or of a pair of codes, in a term."""
    if len(codes) == 1:
        return codes[0]
    pairs: np.ndarray = codes[0].astype(np.int64) * n_codes[1] + codes[1]
    return pairs


def _code_chances(coordinate: np.ndarray, entry: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """Return how likely the codes of one feature are, by the moments of its coordinates."""
    mass = np.zeros(len(coordinate))
    number = None
    for own in np.unique(coordinate[entry != 0]):
        codes = np.flatnonzero((coordinate == own) & (entry != 0))
        if len(np.unique(entry[codes])) > 1:
            number = own
        else:
            mass[codes] = max(moments[1, own], 0.0) / entry[codes[0]] ** 2 / len(codes)
    if number is not None:
        there = max(1 - mass.sum(), _LEAST_SHARE)
        mean, square = moments[:, number] / there
        half = np.sqrt(max(square - mean**2, 0.0))
        codes = np.flatnonzero(coordinate == number)
        for value in (mean - half, mean + half):
            mass[codes[np.abs(entry[codes] - value).argmin()]] += there / 2
    return even(mass)
