"""Scores of a linear model, a coefficient for each coordinate, and its loss round by round."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from privboost._core.errors import ModelFileError
from privboost._core.grid import BLOCK_ROWS, SCORE_STEPS, VECTOR_STEPS
from privboost.data.design_matrix import Terms
from privboost.data.features import Feature, OrderedFeature
from privboost.data.loading import open_source
from privboost.data.rows import Codes, Layout, initial_states
from privboost.data.targets import ClassTarget
from privboost.engine.linear import add_scores
from privboost.explanations.terms import INTERCEPT, Coefficient, Coefficients
from privboost.losses.base import UNKNOWN_LABEL, Loss, loss_of
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
    read_mean,
    read_row_count,
)
from privboost.models.parts import JointTable, ScoreParts
from privboost.models.scores import ModelView, Scores, effect_unit, even, make_read_only

MISSING = "missing"
_LEAST_SHARE = 0.01
"""The least part of rows in which a number is assumed to be present."""


@dataclass(frozen=True)
class Coordinate:
    """The meaning of a coordinate of a linear model.

    Attributes
    ----------
    feature : str
        The feature, or the two of a product.
    value : str
        The category or bin that the coordinate indicates; empty for a number itself.
    slope : float
        The change of the coordinate's entry for each 1 of the number; 0 for an indicator.
    middle : float
        The number whose entry is 0.
    """

    feature: str
    value: str
    slope: float = 0.0
    middle: float = 0.0


@dataclass(frozen=True, eq=False)
class LinearScores(Scores):
    """Released coefficients on the score grid.

    Attributes
    ----------
    terms : Terms
        The map from codes to coordinates.
    coordinates : tuple of Coordinate
        The meaning of each coordinate.
    coefficients : int32 array of shape (outputs, coordinates)
        In score steps per norm bound.
    log_odds : bool
        Whether scores are log-odds.
    scale : float
        One over the norm bound: from coefficients on the grid to those of plain entries.
    moments : float64 array of shape (2, coordinates), or None
        The released mean and mean square of each coordinate's entries.
    noise : float64 array of shape (outputs, coordinates), or None
        The standard deviation that noise alone gives to each coefficient. Earlier versions kept one
        for all outputs, of shape (coordinates,), without the error of the calibration's slope.
    stages : int32 array of shape (rounds, outputs, coordinates), or None
        The coefficients after each round, as if it were the last.
    """

    kind = "linear"
    is_centred: ClassVar[bool] = False  # its zero is the middle of all bounds
    resolves_bins: ClassVar[bool] = False
    terms: Terms
    coordinates: tuple[Coordinate, ...]
    coefficients: np.ndarray
    log_odds: bool
    scale: float
    moments: np.ndarray | None = None
    noise: np.ndarray | None = None
    stages: np.ndarray | None = None
    rows: np.ndarray | None = None
    mean: np.ndarray | None = None

    def __post_init__(self) -> None:
        make_read_only(self)

    @property
    def n_outputs(self) -> int:
        return len(self.coefficients)

    @cached_property
    def _tables(self) -> list[dict[tuple[int, int], np.ndarray]]:
        return [self.terms.tables(own) for own in self.coefficients]

    def scores(self, codes: Codes) -> np.ndarray:
        return _scores(codes, self._tables)

    def staged_scores(self, codes: Codes) -> Iterator[np.ndarray]:
        if self.stages is None:
            raise AttributeError("staged predictions: this model was fitted without keep_stages")
        for stage in self.stages:
            yield _scores(codes, [self.terms.tables(own) for own in stage])

    def parts(self) -> ScoreParts:
        """Return the scores as one sum: the intercept is the start, products are pairs."""
        constant = np.array([c.feature == INTERCEPT for c in self.coordinates])
        # The intercept is a term of some feature with the same entry for all codes.
        level = [[own[0] for own in self._alone(c)] for c in self.coefficients * constant]
        alone = [self._alone(own) for own in self.coefficients]
        tables = tuple(
            np.stack([own[feature] for own in alone]) - np.array([[own[feature]] for own in level])
            for feature in range(self.n_features)
        )
        noise = None if self.noise is None else tuple(self._noise_of_codes())
        products = tuple(
            self._product(features) for features in self._tables[0] if features[1] >= 0
        )
        return ScoreParts(np.array(level).sum(axis=1), tables, products, noise=noise)

    def export_parts(self) -> ScoreParts:
        """Return the scores as one sum without a start: the intercept is in some table."""
        alone = [self._alone(own) for own in self.coefficients]
        tables = tuple(np.stack(by_output) for by_output in zip(*alone, strict=True))
        products = []
        for output, own in enumerate(self._tables):
            for features in (features for features in own if features[1] >= 0):
                product = self._product(features)
                values = np.zeros_like(product.values)
                values[output] = product.values[output]
                products.append(JointTable(features, product.cell_of, values, output))
        return ScoreParts(np.zeros(self.n_outputs, dtype=np.int64), tables, tuple(products))

    def _alone(self, coefficients: np.ndarray) -> list[np.ndarray]:
        """Return the effect of each feature's codes."""
        tables = self.terms.tables(coefficients)
        return [tables[feature, -1].astype(np.int64) for feature in range(self.n_features)]

    @property
    def n_features(self) -> int:
        """The number of features: each has a term of its own."""
        return 1 + max(first for first, _ in self.terms.features)

    def _product(self, features: tuple[int, int]) -> JointTable:
        """Return the joint effect of two features' codes."""
        first, second = (np.arange(len(self._tables[0][feature, -1])) for feature in features)
        values = np.stack([own[features] for own in self._tables])
        return JointTable(features, (first, second), values.reshape(-1, len(first), len(second)))

    def _noise_of_codes(self) -> list[np.ndarray]:
        """Return the standard deviation of the effect of each feature's codes, in score steps."""
        noise, variance = self.noise_by_output, dict[int, Any]()
        for (feature, other), coordinate, value in self._terms:
            if other < 0 and self.coordinates[coordinate[0]].feature != INTERCEPT:
                own = (noise[:, coordinate] * value / VECTOR_STEPS) ** 2
                variance[feature] = variance.get(feature, 0.0) + own
        return [np.sqrt(variance[feature]) for feature in range(self.n_features)]

    def knows_noise(self, model: ModelView) -> bool:
        """Return whether the noise is that of the model's final scores.

        It is not for calibrated models of earlier versions: the error of the slope, the largest for
        strong coefficients, is missing from the noise that they kept.
        """
        by_output = self.noise is not None and self.noise.ndim == 2
        return by_output or model.privacy.parameters.get("calibration_share") == 0

    @property
    def noise_by_output(self) -> np.ndarray:
        """The standard deviation that noise alone gives to each coefficient."""
        assert self.noise is not None
        return np.broadcast_to(self.noise, self.coefficients.shape)

    def feature_values(self) -> tuple[np.ndarray, ...]:
        if any(second >= 0 for _, second in self.terms.features):
            raise AttributeError("effects: this model has products of features; see coefficients()")
        return self.parts().tables

    def code_probabilities(self) -> tuple[np.ndarray, ...]:
        """Return for each feature the probability of each code, from the released matrix.

        A number has two values, one standard deviation on either side of its mean: nothing more
        was released about it, and nothing more matters to a linear score.
        """
        if self.moments is None or self.noise is None:
            raise AttributeError(
                "feature_importances: no row count was released; a linear model needs an intercept "
                "for that, and files of earlier versions have none"
            )
        found: dict[int, np.ndarray] = {}
        for feature, term in _features_alone(self.terms, self.coordinates).items():
            entry = self.terms.value[term] / VECTOR_STEPS
            found[feature] = _code_probabilities(self.terms.coordinate[term], entry, self.moments)
        return tuple(found[feature] for feature in sorted(found))

    def changes(
        self, rows: np.ndarray, others: np.ndarray
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        noise = self.noise_by_output
        n_codes = {features[0]: len(c) for features, c, _ in self._terms if features[1] < 0}
        for changed in range(self.n_features):
            change = np.zeros((self.n_outputs, rows.shape[1]))
            variance = np.zeros_like(change)
            for features, coordinate, value in self._terms:
                if changed not in features:
                    continue
                own = [feature for feature in features if feature >= 0]
                sizes = [n_codes[feature] for feature in own]
                after_change = [(others if f == changed else rows)[f] for f in own]
                before = np.ravel_multi_index([rows[f] for f in own], sizes)
                after = np.ravel_multi_index(after_change, sizes)
                k, entry = coordinate[before], value[before] / VECTOR_STEPS
                k_after, entry_after = coordinate[after], value[after] / VECTOR_STEPS
                gain = self.coefficients[:, k_after] * entry_after
                change += gain - self.coefficients[:, k] * entry
                same = (noise[:, k] * (entry_after - entry)) ** 2
                apart = (noise[:, k_after] * entry_after) ** 2 + (noise[:, k] * entry) ** 2
                variance += np.where(k == k_after, same, apart)
            yield changed, change, variance

    @property
    def _terms(self) -> Iterator[tuple[tuple[int, int], np.ndarray, np.ndarray]]:
        """The features, coordinates and entries of each term."""
        terms = self.terms
        return zip(terms.features, terms.coordinate, terms.value, strict=True)

    def on_own_scale(self) -> np.ndarray:
        """Return the coefficients on the scale of the table: per 1 of a number, or an indicator.

        The intercept is the score with all numbers at 0; the coefficient of a missing number
        includes that of the number itself (at the middle of its bounds).
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

    def typical(self) -> np.ndarray:
        """Return no rows: nothing typical of a number follows from its two moments."""
        return np.zeros((self.n_outputs, 0), dtype=np.int32)

    def coefficient_table(self, model: ModelView) -> pa.Table:
        with np.errstate(over="ignore", invalid="ignore"):  # bounds may be any numbers
            own = self.on_own_scale()
            if not isinstance(model.domain.target, ClassTarget):
                middle, half = model.middle_and_half
                own = own * half
                constant = [one.feature == INTERCEPT for one in self.coordinates]
                own[:, constant] += middle
        columns: dict[str, list[Any]] = {
            "feature": [one.feature for one in self.coordinates] * len(own),
            "value": [one.value for one in self.coordinates] * len(own),
            "coefficient": own.reshape(-1).tolist(),
        }
        if len(own) > 1:
            columns["class"] = [name for name in model.classes for _ in self.coordinates]
        return pa.table(columns)

    def coefficient_list(self, model: ModelView) -> Coefficients:
        """Return the coefficients with their standard errors and units."""
        declared = {feature.name: feature for feature in model.domain.features}
        per = [_per(declared.get(one.feature)) if one.slope else "" for one in self.coordinates]
        lines, stds = self.coefficient_table(model).to_pylist(), self._coefficient_errors(model)
        return Coefficients(
            tuple(
                Coefficient(
                    line["feature"],
                    line["value"],
                    line["coefficient"],
                    std,
                    str(line.get("class", "")),
                    own,
                )
                for line, std, own in zip(lines, stds, per * self.n_outputs, strict=True)
            )
        )

    def _coefficient_errors(self, model: ModelView) -> list[float | None]:
        """Return the standard errors of coefficients on the scale of the table.

        None for the intercept and for missing numbers, which include other coefficients: the
        covariances of errors are not kept.
        """
        if self.noise is None or not self.knows_noise(model):
            return [None] * self.coefficients.size
        numbers = {own.feature for own in self.coordinates if own.slope}
        unit = effect_unit(model)
        return [
            None
            if own.feature == INTERCEPT or (own.value == MISSING and own.feature in numbers)
            else float(noise) * self.scale * abs(own.slope or 1.0) * unit  # perhaps infinite
            for by_output in self.noise_by_output
            for own, noise in zip(self.coordinates, by_output, strict=True)
        ]

    def to_text(self, model: ModelView, most_trees: int | None = None) -> str:
        """Return a list of coefficients."""
        lines = [
            f"{line.coefficient:+12.5g}  {line.feature} {line.per or line.value}".rstrip()
            + (f"  (for {line.of})" if line.of else "")
            for line in self.coefficient_list(model).lines
        ]
        return "\n".join(["coefficients", *lines])

    def to_payload(self) -> dict[str, Any]:
        kept = {"stages": self.stages, "rows": self.rows, "mean": self.mean}
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
    def from_payload(cls, payload: Any, layout: Layout, n_outputs: int) -> Self:
        payload = need_keys(payload, "scores", _KEYS, {"stages", "rows", "mean"})
        coordinates = tuple(
            map(_read_coordinate, need_list(payload["coordinates"], "scores.coordinates"))
        )
        terms = _read_terms(payload, layout, len(coordinates))
        own = _features_alone(terms, coordinates)
        need(
            len(own) == len(layout.n_codes), "scores.coordinates", "every feature has a coordinate"
        )
        place = "scores.coefficients"
        shape = (n_outputs, len(coordinates))
        coefficients = need_array(payload["coefficients"], place, np.int32, shape)
        need_scores([terms.most_score(own) for own in coefficients], place)
        log_odds = need_flag(payload["log_odds"], "scores.log_odds")
        scale = need_number(payload["scale"], "scores.scale", 0, above=True)
        moments, noise = payload["moments"], payload["noise"]
        if moments is not None:
            need_finite(moments, "scores.moments", (2, len(coordinates)))
        if moments is not None or noise is not None:
            one_for_all = np.ndim(noise) == 1
            need_finite(noise, "scores.noise", shape[one_for_all:], least=0)
        stages = (
            _read_stages(payload["stages"], terms, coefficients) if "stages" in payload else None
        )
        parts = (moments, noise, stages, read_row_count(payload), read_mean(payload))
        return cls(terms, coordinates, coefficients, log_odds, scale, *parts)


_KEYS = {"features", "coordinate", "value", "coordinates", "coefficients", "log_odds", "scale"}
_KEYS |= {"moments", "noise"}
_MOST_ENTRY = 2**30


def _scores(codes: Codes, tables: list[dict[tuple[int, int], np.ndarray]]) -> np.ndarray:
    """Return the scores of rows from the tables of each output."""
    scores = np.zeros((len(tables), len(codes)), dtype=np.int32)
    for own_tables, own in zip(tables, scores, strict=True):
        add_scores(codes, own_tables, own)
    return scores


def _read_stages(value: Any, terms: Terms, coefficients: np.ndarray) -> np.ndarray:
    """Return the checked coefficients of all rounds, of which the last are the model's."""
    place = "scores.stages"
    stages = need_array(value, place, np.int32, (None, *coefficients.shape))
    ends = len(stages) > 0 and np.array_equal(stages[-1], coefficients)
    need(ends, place, "the last stage must be the model")
    need_scores([terms.most_score(own) for stage in stages for own in stage], place)
    return stages


def _features_alone(terms: Terms, coordinates: tuple[Coordinate, ...]) -> dict[int, int]:
    """Return the term of each single feature; the intercept is none of them."""
    return {
        features[0]: number
        for number, (features, coordinate) in enumerate(
            zip(terms.features, terms.coordinate, strict=True)
        )
        if features[1] < 0 and coordinates[coordinate[0]].feature != INTERCEPT
    }


def _read_coordinate(payload: Any) -> Coordinate:
    place = "scores.coordinates"
    payload = need_keys(payload, place, {field.name for field in fields(Coordinate)})
    names = need_text(payload["feature"], place), need_text(payload["value"], place)
    return Coordinate(*names, *(need_number(payload[name], place) for name in ("slope", "middle")))


def _read_terms(payload: dict[str, Any], layout: Layout, n_coordinates: int) -> Terms:
    """Return checked terms of the layout's codes, with coordinates of their own."""
    last = len(layout.n_codes) - 1
    pairs = need_array(payload["features"], "scores.features", np.int32, (None, 2), -1, last)
    need(bool((pairs[:, 0] >= 0).all()), "scores.features", "a term needs a feature")
    alone = set(pairs[pairs[:, 1] < 0, 0].tolist())
    need(len(alone) == last + 1, "scores.features", "every feature has a term of its own")
    coordinate = need_list(payload["coordinate"], "scores.coordinate", len(pairs))
    value = need_list(payload["value"], "scores.value", len(pairs))
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


def _code_probabilities(
    coordinate: np.ndarray, entry: np.ndarray, moments: np.ndarray
) -> np.ndarray:
    """Return the probabilities of one feature's codes, from the moments of its coordinates."""
    mass = np.zeros(len(coordinate))
    number = None
    for own in np.unique(coordinate[entry != 0]):
        codes = np.flatnonzero((coordinate == own) & (entry != 0))
        if len(np.unique(entry[codes])) > 1:
            number = own
        else:
            mass[codes] = max(moments[1, own], 0.0) / entry[codes[0]] ** 2 / len(codes)
    if number is not None:
        present = max(1 - mass.sum(), _LEAST_SHARE)
        mean, square = moments[:, number] / present
        half = np.sqrt(max(square - mean**2, 0.0))
        codes = np.flatnonzero(coordinate == number)
        for value in (mean - half, mean + half):
            mass[codes[np.abs(entry[codes] - value).argmin()]] += present / 2
    return even(mass)


_PER = {"days": "day", "seconds": "second", "durations": "second", "ordinal": "rank"}
"""The unit of a coefficient, by the kind of an ordinal, or by what edges count."""


def _per(feature: Feature | None) -> str:
    """Return what a coefficient of a number, date, duration, ordinal or boolean is for."""
    if not isinstance(feature, OrderedFeature):
        return "per 1"
    if feature.kind == "boolean":
        return "is true"
    return f"per {_PER.get(feature.kind if feature.labels else feature.counted_in, '1')}"


def loss_curve(model: ModelView, X: Any, y: Any) -> np.ndarray:
    """Return the mean loss on public rows after each round; see the estimator's method."""
    scores, target = model.scores, model.domain.target
    assert isinstance(scores, LinearScores)
    loss = loss_of(target.task, model.privacy.parameters["loss"])
    table, roles = open_source(replace(model.domain, unit=None), X, y, None)
    total, rows = np.zeros(0 if scores.stages is None else len(scores.stages)), 0
    for batch in table.batches([*model.domain.feature_names, roles.target], BLOCK_ROWS):
        label, minus_label = target.code(batch[roles.target])
        known = label != UNKNOWN_LABEL
        state = 0 if minus_label is None else initial_states(minus_label[known], model.span)
        stages = scores.staged_scores(model.encoder.code(batch))
        states = np.stack([stage[:, known] + state for stage in stages]) / SCORE_STEPS
        total += _total_losses(loss, label[known], states)
        rows += int(known.sum())
    return total / rows if rows else np.full_like(total, np.nan)


def _total_losses(loss: Loss, label: np.ndarray, states: np.ndarray) -> np.ndarray:
    """Return the total loss of each stage, from states of shape (stages, outputs, rows)."""
    other, own = loss.labels
    outputs = states.shape[1]
    number = np.arange(outputs) if outputs > 1 else np.ones(1)
    each = np.where(number[:, None] == label, loss.value(states, own), loss.value(states, other))
    total: np.ndarray = each.sum(axis=(1, 2))
    return total
