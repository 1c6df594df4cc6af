"""Additive scores: a start and one value for each feature and code; a row's score is their sum."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import pyarrow as pa

from privboost._core.checks import listed
from privboost._core.compilation import compiled
from privboost._core.grid import SCORE_STEPS
from privboost.data.features import CategoricalFeature
from privboost.data.rows import Codes, Layout
from privboost.engine.kernels import add_values
from privboost.models.checks import (
    largest,
    need,
    need_array,
    need_finite,
    need_keys,
    need_list,
    need_scores,
    read_label_shares,
    read_mean,
    read_row_count,
    read_time_scale,
    within_grid,
)
from privboost.models.parts import JointTable, ScoreParts
from privboost.models.scores import (
    MORE_NOISE,
    NO_ERRORS,
    NO_MASS,
    ModelView,
    Scores,
    add_noise,
    class_of,
    effect_unit,
    even,
    make_read_only,
    table_of,
)

_OPTIONAL = ("rows", "missing", "mean", "time_scale", "label_shares")
"""Parts of a file that may be absent."""


@dataclass(frozen=True, eq=False)
class AdditiveScores(Scores):
    """Released values of features on the score grid.

    Attributes
    ----------
    start : int32 array of shape (outputs,)
        The constant term.
    values : tuple of int32 arrays
        For each feature, of shape (outputs, codes).
    mass : tuple of float64 arrays, or None
        The noisy count of each code, of the same shapes; noise may leave it below 0.
    noise : tuple of float64 arrays, or None
        The standard deviation that noise gives to each value, in score steps, without that of the
        feature's mean value: other features and the start share that part.
    together : float64 array of shape (outputs,), or None
        The ratio of the standard deviation of a score to that of independent errors of its values:
        values that act on the same rows correct each other's errors.
    missing : float64 array of shape (features, 3), or None
        For each feature, the mean released Hessian sum of rows without a value, that of rows with
        one, and the standard deviation of the latter. Unlike `mass`, sums below 0 are kept.
    """

    kind = "additive"
    log_odds = True
    start: np.ndarray
    values: tuple[np.ndarray, ...]
    mass: tuple[np.ndarray, ...] | None = None
    noise: tuple[np.ndarray, ...] | None = None
    together: np.ndarray | None = None
    rows: np.ndarray | None = None
    missing: np.ndarray | None = None
    mean: np.ndarray | None = None
    time_scale: np.ndarray | None = None
    label_shares: np.ndarray | None = None

    def __post_init__(self) -> None:
        make_read_only(self)

    @property
    def n_outputs(self) -> int:
        return len(self.values[0])

    @property
    def has_errors(self) -> bool:
        return self.noise is not None

    def scores(self, codes: Codes) -> np.ndarray:
        scores = np.repeat(self.start[:, None], len(codes), axis=1)
        values, first = self._packed
        slots = codes.layout.slot_array
        _add_effects(codes.narrow, codes.wide, slots, values, first, scores)
        return scores

    def _scores_of_few(self, codes: Codes) -> np.ndarray:
        scores = self.start[:, None]
        for feature, values in enumerate(self.values):
            scores = scores + values[:, codes.column(feature)]
        return scores

    @cached_property
    def _packed(self) -> tuple[np.ndarray, np.ndarray]:
        """The values of all features in one array, and the bounds of each feature's part."""
        first = np.cumsum([0, *(own.shape[1] for own in self.values)], dtype=np.int64)
        return np.ascontiguousarray(np.concatenate(self.values, axis=1)), first

    @property
    def largest(self) -> np.ndarray:
        """A bound on the absolute score of any row, for each output, in score steps."""
        sizes = [largest(self.start[:, None], axis=1)]
        sizes += [largest(own, axis=1) for own in self.values]
        most: np.ndarray = np.sum(sizes, axis=0)
        return most

    def with_calibration(self, lines: np.ndarray) -> Self:
        """Return the calibrated scores; see `TreeScores.with_calibration`."""
        slope = within_grid(lines[:, 0], self.largest)
        start = np.rint(slope * self.start + lines[:, 1] * SCORE_STEPS).astype(np.int32)
        by_code = slope[:, None]
        values = tuple(np.rint(own * by_code).astype(np.int32) for own in self.values)
        noise = None if self.noise is None else tuple(own * by_code for own in self.noise)
        return replace(self, start=start, values=values, noise=noise)

    def variances(self, codes: Codes) -> np.ndarray:
        if self.noise is None or self.together is None:
            raise AttributeError(NO_ERRORS)
        total = np.zeros((self.n_outputs, len(codes)))
        self._add_variances(codes, total)
        scaled: np.ndarray = self.together[:, None] ** 2 * total
        return scaled

    def _add_variances(self, codes: Codes, total: np.ndarray) -> None:
        """Add the variances of all terms, as if their errors were independent."""
        for feature, noise in enumerate(self.noise or ()):
            total += noise[:, codes.column(feature)] ** 2

    def with_more_noise(self, generator: np.random.Generator) -> Self:
        if self.noise is None:
            raise AttributeError(NO_ERRORS)
        values = tuple(
            add_noise(own, noise, generator)
            for own, noise in zip(self.values, self.noise, strict=True)
        )
        return replace(self, values=values, noise=tuple(MORE_NOISE * own for own in self.noise))

    def feature_noise(self) -> tuple[np.ndarray, ...] | None:
        return self.noise

    def feature_values(self) -> tuple[np.ndarray, ...]:
        return self.values

    def parts(self) -> ScoreParts:
        return ScoreParts(self.start, self.values, noise=self.noise)

    def code_masses(self) -> tuple[np.ndarray, ...] | None:
        return self.mass

    def code_probabilities(self) -> tuple[np.ndarray, ...]:
        if self.mass is None or self.noise is None:
            raise AttributeError(NO_MASS)
        return tuple(even(np.maximum(mass.sum(axis=0), 0.0)) for mass in self.mass)

    def changes(
        self, rows: np.ndarray, others: np.ndarray
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        assert self.noise is not None
        for feature, (values, noise) in enumerate(zip(self.values, self.noise, strict=True)):
            before, after = rows[feature], others[feature]
            change = values[:, after].astype(np.float64) - values[:, before]
            # Codes of one cell have the same value, with the same noise.
            variance = (change != 0) * (noise[:, after] ** 2 + noise[:, before] ** 2)
            yield feature, change, variance

    def least_rows(self) -> float | None:
        if self.mass is None:
            return None
        return max(float(min(own[k].sum() for own in self.mass)) for k in range(self.n_outputs))

    def missing_cells(self) -> np.ndarray | None:
        return self.missing

    def pair_table(self, model: ModelView) -> pa.Table:
        unit, lines = effect_unit(model), []
        for pair in self.parts().pairs:
            assert pair.output is not None
            assert pair.noise is not None
            names = [model.domain.features[feature].name for feature in pair.features]
            first, second = (_cells_as_text(model, pair, side) for side in (0, 1))
            lines += [
                {
                    "feature": names[0],
                    "values": own,
                    "other feature": names[1],
                    "other values": other,
                    "effect": float(pair.values[pair.output, i, j] * unit),
                    "std": float(pair.noise[i, j] * unit),
                    "class": class_of(model, pair.output),
                }
                for i, own in first
                for j, other in second
            ]
        columns = ("feature", "values", "other feature", "other values", "effect", "std")
        return table_of(model, columns, lines)

    def to_payload(self) -> dict[str, Any]:
        mass, noise = (None if part is None else list(part) for part in (self.mass, self.noise))
        kept = {} if self.rows is None else {"rows": self.rows}
        kept |= {} if self.missing is None else {"missing": self.missing}
        kept |= {} if self.mean is None else {"mean": self.mean}
        kept |= {} if self.time_scale is None else {"time_scale": self.time_scale}
        kept |= {} if self.label_shares is None else {"label_shares": self.label_shares}
        return kept | {
            "start": self.start,
            "values": list(self.values),
            "mass": mass,
            "noise": noise,
            "together": self.together,
        }

    @classmethod
    def from_payload(cls, payload: Any, layout: Layout, n_outputs: int) -> Self:
        place = "scores.values"
        required = {"start", "values", "mass", "noise", "together"}
        payload = need_keys(payload, "scores", required, _OPTIONAL)
        start = need_array(payload["start"], "scores.start", np.int32, (n_outputs,))
        count, n_codes = len(layout.n_codes), layout.n_codes
        values = need_list(payload["values"], place)
        need(len(values) == count, place, "an array for each feature is needed")
        for own, codes in zip(values, n_codes, strict=True):
            need_array(own, place, np.int32, (n_outputs, codes))
        scale, shares = read_time_scale(payload), read_label_shares(payload)
        plain = cls(start, tuple(values), time_scale=scale, label_shares=shares)
        need_scores(plain.largest, place)
        if payload["mass"] is None:
            return plain
        mass = need_list(payload["mass"], "scores.mass", count)
        noise = need_list(payload["noise"], "scores.noise", count)
        for own, deviation, codes in zip(mass, noise, n_codes, strict=True):
            need_finite(own, "scores.mass", (n_outputs, codes))
            need_finite(deviation, "scores.noise", (n_outputs, codes), least=0)
        together = need_finite(payload["together"], "scores.together", (n_outputs,), least=0)
        missing = payload.get("missing")  # absent from files of earlier versions
        if missing is not None:
            need_finite(missing, "scores.missing", (count, 3))
            need_finite(missing[:, 2], "scores.missing", (count,), least=0)
        rows, mean = read_row_count(payload), read_mean(payload)
        parts = (tuple(mass), tuple(noise), together, rows, missing, mean, scale, shares)
        return cls(start, tuple(values), *parts)


def _cells_as_text(model: ModelView, pair: JointTable, side: int) -> list[tuple[int, str]]:
    """Return each cell of one of a pair's features, with its values as text."""
    feature, cells = pair.features[side], pair.cell_of[side]
    texts: dict[int, list[str]] = {}
    for text, code in model.encoder.spans_of_codes(feature, cells.astype(np.int64)):
        texts.setdefault(int(cells[code]), []).append(text)
    categories = isinstance(model.domain.features[feature], CategoricalFeature)
    joint = listed if categories else " or ".join
    return [(cell, joint(texts[cell])) for cell in sorted(texts)]


@compiled
def _add_effects(narrow, wide, slots, values, first, scores):  # type: ignore[no-untyped-def]
    """Add the values of each feature's codes to scores of shape (outputs, rows).

    `slots` has the column of each feature, narrow ones first; `values` is of shape (outputs, codes
    of all features); `first` has the index of each feature's first value, and the end.
    """
    for k in range(slots.size):
        slot = np.int64(slots[k])
        for output in range(scores.shape[0]):
            own = values[output, first[k] : first[k + 1]]
            if slot < narrow.shape[0]:
                add_values(narrow[slot], own, scores[output])
            else:
                add_values(wide[slot - narrow.shape[0]], own, scores[output])
