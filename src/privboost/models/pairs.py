"""Values of two features jointly, by cells of their codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from privboost.models import effect_kernels
from privboost.models.checks import need, need_array, need_finite, need_keys, need_whole
from privboost.models.importance import MORE, add_noise
from privboost.pickling import DeclaredState
from privboost.tables.layout import Layout
from privboost.tables.rows import Codes
from privboost.trees.cell_map import CellMap

_MOST_CELLS = 2**16
"""Cells of a pair."""


@dataclass(frozen=True, eq=False)
class PairValues(DeclaredState):
    """What two features add to the scores together.

    Attributes
    ----------
    output : int
        The score that they add to.
    features : tuple of int
        Which ones; the first is the lower.
    cell_of : tuple of uint16 arrays
        For each of the two the cell of each code.
    values : int32 array of shape (cells of the first, cells of the second)
        In score steps.
    mass : float64 array of the same shape
        What was released about how many rows each has.
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
        """Return the values of the joint cells of two features."""
        part = cells.parts[0]
        (first, second), (own, other) = part.features, part.cell_of
        shaped = (each.reshape(part.sizes) for each in (values, mass, noise))
        return cls(output, (first, second), (own, other), *shaped)

    def cells(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Return the joint cell of rows, given their codes of both features."""
        own, other = self.cell_of
        cells: np.ndarray = own[first].astype(np.intp) * self.values.shape[1] + other[second]
        return cells

    def add_variances(self, codes: Codes, total: np.ndarray) -> None:
        """Add what noise gives to the scores of rows, squared, to a total of their shape."""
        first, second = (codes.column(feature) for feature in self.features)
        total[self.output] += self.noise.reshape(-1)[self.cells(first, second)] ** 2

    def drawn(self, generator: np.random.Generator) -> PairValues:
        """Return the same with noise drawn once more on top."""
        values = add_noise(self.values, self.noise, generator)
        return replace(self, values=values, noise=MORE * self.noise)

    def stretched(self, slope: np.ndarray) -> PairValues:
        """Return the same with values, and their noise, times its output's slope."""
        own = slope[self.output]
        values = np.rint(own * self.values).astype(np.int32)
        return replace(self, values=values, noise=own * self.noise)

    def to_form(self) -> dict[str, Any]:
        """Return what a model file keeps."""
        form = {field.name: getattr(self, field.name) for field in fields(self)}
        return form | {"features": list(self.features), "cell_of": list(self.cell_of)}

    @classmethod
    def from_form(cls, form: Any, layout: Layout, n_outputs: int) -> PairValues:
        """Read what `to_form` gave: two features, and a cell for each of their codes."""
        place = "scores.pairs"
        form = need_keys(form, place, {field.name for field in fields(cls)})
        for name in ("features", "cell_of"):
            fine = isinstance(form[name], list) and len(form[name]) == 2
            need(fine, f"{place}.{name}", "one for each of two features is needed")
        last = len(layout.n_codes) - 1
        first, second = (need_whole(f, f"{place}.features", 0, last) for f in form["features"])
        need(first < second, f"{place}.features", "two features are needed, in their order")
        output = need_whole(form["output"], f"{place}.output", 0, n_outputs - 1)
        values = need_array(form["values"], f"{place}.values", np.int32, (None, None))
        fine = 0 < values.size <= _MOST_CELLS
        need(fine, f"{place}.values", f"there must be 1 to {_MOST_CELLS} cells")
        cell_of = [
            need_array(
                cells, f"{place}.cell_of", np.uint16, (layout.n_codes[feature],), most=size - 1
            )
            for cells, feature, size in zip(
                form["cell_of"], (first, second), values.shape, strict=True
            )
        ]
        mass = need_finite(form["mass"], f"{place}.mass", values.shape)
        noise = need_finite(form["noise"], f"{place}.noise", values.shape, least=0)
        return cls(output, (first, second), (cell_of[0], cell_of[1]), values, mass, noise)


def add_pairs(pairs: Sequence[PairValues], codes: Codes, scores: np.ndarray) -> None:
    """Add what pairs are worth to the scores of rows, of shape (outputs, rows)."""
    if not pairs:
        return
    slots, told, at, first = codes.layout.slots, [], 0, 0
    for pair in pairs:
        (one, two), (cells, others) = pair.features, pair.cell_of
        middle = at + len(cells)
        end, last = middle + len(others), first + pair.values.size
        ends = (at, middle, end, first, last)
        told.append((pair.output, slots[one], slots[two], *ends, pair.values.shape[1]))
        at, first = end, last
    cell_of = np.concatenate([cells for pair in pairs for cells in pair.cell_of])
    values = np.concatenate([pair.values.reshape(-1) for pair in pairs])
    numbers = np.array(told, dtype=np.int64)
    effect_kernels.add_pairs(codes.narrow, codes.wide, numbers, cell_of, values, scores)
