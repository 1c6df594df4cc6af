"""Additive scores: a start and one value for each feature and code; a row's score is their sum.

Joint effects of two features, by cells of their codes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import pyarrow as pa

from privboost._core.checks import listed
from privboost._core.grid import SCORE_STEPS
from privboost._core.pickling import DeclaredState
from privboost.data.features import CategoricalFeature
from privboost.data.rows import Codes, Layout
from privboost.models import kernels
from privboost.models.checks import (
    largest,
    need,
    need_array,
    need_finite,
    need_keys,
    need_list,
    need_scores,
    need_whole,
    within_grid,
)
from privboost.models.scores import (
    MORE_NOISE,
    NO_ERRORS,
    NO_MASS,
    JointTable,
    ModelView,
    ScoreParts,
    Scores,
    add_noise,
    as_counts,
    class_of,
    draw_rows,
    effect_unit,
    even,
    read_row_count,
    table_of,
)
from privboost.trees.cell_map import CellMap

_MOST_CELLS = 2**16
"""The largest number of cells of a pair."""


@dataclass(frozen=True, eq=False)
class PairValues(DeclaredState):
    """The joint effect of two features on one score.

    Attributes
    ----------
    output : int
        The score.
    features : tuple of int
        The indices of the features, in ascending order.
    cell_of : tuple of uint16 arrays
        For each of the two the cell of each code.
    values : int32 array of shape (cells of the first, cells of the second)
        In score steps.
    mass : float64 array of the same shape
        The noisy count of each cell.
    noise : float64 array of the same shape
        The standard deviation of each value, in score steps.
    """

    output: int
    features: tuple[int, int]
    cell_of: tuple[np.ndarray, np.ndarray]
    values: np.ndarray
    mass: np.ndarray
    noise: np.ndarray

    def __post_init__(self) -> None:
        for array in (*self.cell_of, self.values, self.mass, self.noise):
            array.flags.writeable = False

    @classmethod
    def of(
        cls, output: int, cells: CellMap, values: np.ndarray, mass: np.ndarray, noise: np.ndarray
    ) -> PairValues:
        """Return a pair from values of the joint cells of two features."""
        part = cells.parts[0]
        (first, second), (own, other) = part.features, part.cell_of
        shaped = (each.reshape(part.sizes) for each in (values, mass, noise))
        return cls(output, (first, second), (own, other), *shaped)

    def cells(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Return the joint cells of rows from their codes of both features."""
        own, other = self.cell_of
        cells: np.ndarray = own[first].astype(np.intp) * self.values.shape[1] + other[second]
        return cells

    def add_variances(self, codes: Codes, total: np.ndarray) -> None:
        """Add the variance that noise gives to the scores of rows to a total of their shape."""
        first, second = (codes.column(feature) for feature in self.features)
        total[self.output] += self.noise.reshape(-1)[self.cells(first, second)] ** 2

    def with_more_noise(self, generator: np.random.Generator) -> PairValues:
        """Return the pair with noise drawn once more on top."""
        values = add_noise(self.values, self.noise, generator)
        return replace(self, values=values, noise=MORE_NOISE * self.noise)

    def scaled(self, slope: np.ndarray) -> PairValues:
        """Return the pair with values and noise times the slope of its output."""
        own = slope[self.output]
        values = np.rint(own * self.values).astype(np.int32)
        return replace(self, values=values, noise=own * self.noise)

    def joint_table(self, n_outputs: int) -> JointTable:
        """Return the pair as a term of all outputs."""
        values = np.zeros((n_outputs, *self.values.shape), dtype=np.int32)
        values[self.output] = self.values
        return JointTable(self.features, self.cell_of, values, self.output, self.noise)

    def change(
        self, feature: int, rows: np.ndarray, others: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the change where one of the features takes another code, and its variance."""
        first, second = self.features
        before = self.cells(rows[first], rows[second])
        after = (
            self.cells(others[first], rows[second])
            if feature == first
            else self.cells(rows[first], others[second])
        )
        values, variance = self.values.reshape(-1).astype(np.float64), self.noise.reshape(-1) ** 2
        change = values[after] - values[before]
        return change, (after != before) * (variance[after] + variance[before])

    def to_payload(self) -> dict[str, Any]:
        """Return the content of a model file."""
        payload = {field.name: getattr(self, field.name) for field in fields(self)}
        return payload | {"features": list(self.features), "cell_of": list(self.cell_of)}

    @classmethod
    def from_payload(cls, payload: Any, layout: Layout, n_outputs: int) -> PairValues:
        """Return a checked pair from the content of a model file."""
        place = "scores.pairs"
        payload = need_keys(payload, place, {field.name for field in fields(cls)})
        for name in ("features", "cell_of"):
            fine = isinstance(payload[name], list) and len(payload[name]) == 2
            need(fine, f"{place}.{name}", "one for each of two features is needed")
        last = len(layout.n_codes) - 1
        first, second = (need_whole(f, f"{place}.features", 0, last) for f in payload["features"])
        need(first < second, f"{place}.features", "two features are needed, in their order")
        output = need_whole(payload["output"], f"{place}.output", 0, n_outputs - 1)
        values = need_array(payload["values"], f"{place}.values", np.int32, (None, None))
        fine = 0 < values.size <= _MOST_CELLS
        need(fine, f"{place}.values", f"there must be 1 to {_MOST_CELLS} cells")
        cell_of = [
            need_array(
                cells, f"{place}.cell_of", np.uint16, (layout.n_codes[feature],), most=size - 1
            )
            for cells, feature, size in zip(
                payload["cell_of"], (first, second), values.shape, strict=True
            )
        ]
        mass = need_finite(payload["mass"], f"{place}.mass", values.shape)
        noise = need_finite(payload["noise"], f"{place}.noise", values.shape, least=0)
        return cls(output, (first, second), (cell_of[0], cell_of[1]), values, mass, noise)


def add_pairs(pairs: Sequence[PairValues], codes: Codes, scores: np.ndarray) -> None:
    """Add the effects of pairs to the scores of rows, of shape (outputs, rows)."""
    if not pairs:
        return
    slots, table, at, first = codes.layout.slots, [], 0, 0
    for pair in pairs:
        (one, two), (cells, others) = pair.features, pair.cell_of
        middle = at + len(cells)
        end, last = middle + len(others), first + pair.values.size
        ends = (at, middle, end, first, last)
        table.append((pair.output, slots[one], slots[two], *ends, pair.values.shape[1]))
        at, first = end, last
    cell_of = np.concatenate([cells for pair in pairs for cells in pair.cell_of])
    values = np.concatenate([pair.values.reshape(-1) for pair in pairs])
    numbers = np.array(table, dtype=np.int64)
    kernels.add_pairs(codes.narrow, codes.wide, numbers, cell_of, values, scores)


def pair_table(model: ModelView, pairs: Sequence[PairValues]) -> pa.Table:
    """Return the effects of pairs as a table; see `Model.pairs`."""
    unit = effect_unit(model)
    lines: list[dict[str, Any]] = []
    for pair in pairs:
        names = [model.domain.features[feature].name for feature in pair.features]
        first, second = (_cells_as_text(model, pair, side) for side in (0, 1))
        for i, own in first:
            for j, other in second:
                lines.append(
                    {
                        "feature": names[0],
                        "values": own,
                        "other feature": names[1],
                        "other values": other,
                        "effect": float(pair.values[i, j] * unit),
                        "std": float(pair.noise[i, j] * unit),
                        "class": class_of(model, pair.output),
                    }
                )
    columns = ("feature", "values", "other feature", "other values", "effect", "std")
    return table_of(model, columns, lines)


def _cells_as_text(model: ModelView, pair: PairValues, side: int) -> list[tuple[int, str]]:
    """Return each cell of one of a pair's features, with its values as text."""
    feature, cells = pair.features[side], pair.cell_of[side]
    texts: dict[int, list[str]] = {}
    numbers = not isinstance(model.domain.features[feature], CategoricalFeature)
    for text, code in model.encoder.spans_of_codes(feature, cells.astype(np.int64)):
        texts.setdefault(int(cells[code]), []).append(text)
    joint = " or ".join if numbers else listed
    return [(cell, joint(texts[cell])) for cell in sorted(texts)]


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
    rows : float64 array of shape (2,), or None
        The noisy row count and its standard deviation.
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

    def __post_init__(self) -> None:
        for array in (self.start, *self.values, *(self.mass or ()), *(self.noise or ())):
            array.flags.writeable = False
        for whole in (self.together, self.rows, self.missing):
            if whole is not None:
                whole.flags.writeable = False

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
        kernels.add_effects(codes.narrow, codes.wide, slots, values, first, scores)
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

    def typical(self) -> np.ndarray:
        # A few rows: kernels of predictions take seconds to compile.
        rows, scores = draw_rows(self.code_probabilities())[0], self.start[:, None]
        for codes, values in zip(rows, self.values, strict=True):
            scores = scores + values[:, codes]
        return scores

    def with_calibration(self, lines: np.ndarray) -> AdditiveScores:
        """Return the calibrated scores; see `TreeScores.with_calibration`."""
        slope = within_grid(lines[:, 0], self.largest)
        start = np.rint(slope * self.start + lines[:, 1] * SCORE_STEPS).astype(np.int32)
        by_code = slope[:, None]
        values = tuple(np.rint(own * by_code).astype(np.int32) for own in self.values)
        noise = None if self.noise is None else tuple(own * by_code for own in self.noise)
        return replace(self, start=start, values=values, noise=noise)

    def variances(self, codes: Codes) -> np.ndarray:
        return self.variances_with((), codes)

    def variances_with(self, others: Sequence[Any], codes: Codes) -> np.ndarray:
        """Return the variance of these scores plus other terms, which have `add_variances`."""
        if self.noise is None or self.together is None:
            raise AttributeError(NO_ERRORS)
        total = np.zeros((self.n_outputs, len(codes)))
        for feature, noise in enumerate(self.noise):
            total += noise[:, codes.column(feature)] ** 2
        for part in others:
            part.add_variances(codes, total)
        scaled: np.ndarray = self.together[:, None] ** 2 * total
        return scaled

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

    def row_counts(self) -> Iterator[tuple[float, float]]:
        return as_counts(self.rows)

    def least_rows(self) -> float | None:
        if self.mass is None:
            return None
        return max(float(min(own[k].sum() for own in self.mass)) for k in range(self.n_outputs))

    def missing_cells(self) -> np.ndarray | None:
        return self.missing

    def pair_table(self, model: ModelView) -> pa.Table:
        return pair_table(model, ())

    def to_payload(self) -> dict[str, Any]:
        mass, noise = (None if part is None else list(part) for part in (self.mass, self.noise))
        kept = {} if self.rows is None else {"rows": self.rows}
        kept |= {} if self.missing is None else {"missing": self.missing}
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
        payload = need_keys(payload, "scores", required, {"rows", "missing"})
        start = need_array(payload["start"], "scores.start", np.int32, (n_outputs,))
        count, n_codes = len(layout.n_codes), layout.n_codes
        values = need_list(payload["values"], place)
        need(len(values) == count, place, "an array for each feature is needed")
        for own, codes in zip(values, n_codes, strict=True):
            need_array(own, place, np.int32, (n_outputs, codes))
        plain = cls(start, tuple(values))
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
        parts = (tuple(mass), tuple(noise), together, read_row_count(payload), missing)
        return cls(start, tuple(values), *parts)
