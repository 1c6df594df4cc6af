"""Joint effects of two features, by cells of their codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pyarrow as pa

from privboost.forms import listed
from privboost.models import effect_kernels
from privboost.models.base import ModelView, class_of, effect_unit, table_of
from privboost.models.checks import need, need_array, need_finite, need_keys, need_whole
from privboost.models.importance import MORE_NOISE, add_noise
from privboost.models.parts import JointTable
from privboost.pickling import DeclaredState
from privboost.tables.features import CategoricalFeature
from privboost.tables.layout import Layout
from privboost.tables.rows import Codes
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
    effect_kernels.add_pairs(codes.narrow, codes.wide, numbers, cell_of, values, scores)


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
