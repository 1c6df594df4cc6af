"""Outcomes of rows of a number: residuals and labels, as codes or as exact integers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from privboost._core.checks import check_number
from privboost._core.grid import CLIP_STEPS, SCORE_STEPS
from privboost.data.rows import Codes
from privboost.data.table import Column
from privboost.data.values import read_numbers
from privboost.engine.queries import COUNT, GRADIENT_HESSIAN, CellSums
from privboost.engine.updates import AddCellValues, Start, UseLoss
from privboost.evaluation.number_measures import (
    DIGIT_BITS,
    EXACT_BITS,
    OCTAVE_STEPS,
    QUANTITIES,
    RESIDUAL_CELLS,
    SQUARE,
    Clip,
    choose_clip,
    measure_exactly,
    measure_number,
)
from privboost.evaluation.outcomes import (
    CHIEF,
    EvaluationPlan,
    Outcomes,
    Releases,
    by_label,
    deviations,
    release,
    table_of,
)
from privboost.evaluation.result import Measures, Residuals
from privboost.losses.base import UNKNOWN_LABEL, LossTable
from privboost.mechanisms.curator import Curator
from privboost.models.model import Model
from privboost.recipes.common.plan import Draft
from privboost.trees.cell_map import CellMap

STEPS = 2**DIGIT_BITS
"""Codes of a digit of an exact number: the size of a loss table."""
OCTAVES = 32
NUMBER_CODES = 2 * OCTAVES * OCTAVE_STEPS
"""Codes of a number with a sign: its distance from its code's middle is at most 1/512 of itself,
except below 2⁻³¹ of the reach."""
_SHARES: tuple[tuple[str, str, float, tuple[float, ...]], ...] = (
    ("rows", "the number of rows", 0.08, (1.0,)),
    ("cells", "rows by the size of their residual", 0.17, (1.0,)),
    (CHIEF, "sums of residuals and their squares", 0.3, (0.2, 0.8)),
    ("sizes", "sums of absolute residuals and their fourth powers", 0.15, (0.85, 0.15)),
    ("labels", "sums of labels and their squares", 0.3, (0.35, 0.65)),
)
"""The releases of a number: their shares of μ², and those of their statistics. Most goes to
squares, which RMSE and R² need; fourth powers only serve the error bar of an RMSE. The counts
choose the clip, and their noise bounds what may lie beyond it."""


def number_releases(draft: Draft, touched: int) -> Releases:
    """Return the releases of sums: a row adds to one cell of each, for the whole table and each
    feature.
    """
    return lambda kind: [
        (name, release(kind, draft, what, touched, shares=shares), part)
        for name, what, part, shares in _SHARES
    ]


def exact_releases(draft: Draft, touched: int) -> Releases:
    """Return the release of exact sums of a number on public rows, digit by digit, and counts."""
    what = "sums of residuals, labels and their powers, by digit"
    count = 1 + sum(QUANTITIES.values())
    return lambda kind: [(CHIEF, release(kind, draft, what, touched, count=count), 1.0)]


def _least_clip(model: Model) -> float:
    """Return the lower bound of a clip: a cell of residuals must lie below it."""
    return math.ldexp(_width(model), 1 - RESIDUAL_CELLS)


def clip_of_scores(model: Model) -> float:
    """Return a clip that follows from a model alone: scores of a search compare models.

    If noisy counts chose the clip, the run with the smallest clip would look best.
    """
    return max(model.middle_and_half_of_labels[1], 2 * _least_clip(model))


@dataclass(frozen=True, eq=False)
class NumberOutcomes(Outcomes):
    """The residual and the label of a row, on grids that are finer towards zero.

    The clip of residuals is chosen after rows are coded, so codes cover the whole range with about
    the same relative precision: a sign, `OCTAVES` halvings of the range, and `OCTAVE_STEPS` equal
    steps in each. They follow from exponents and mantissas, which are the same on every machine.

    Attributes
    ----------
    reach : float
        Largest coded residual, on the scale of the target: the width of its bounds, or a little
        more where a clip was given.
    """

    kind: ClassVar[str] = "number"
    reach: float

    @classmethod
    def clipped(cls, model: Model, clip: Any) -> tuple[NumberOutcomes, float | None]:
        """Return the outcomes, and the clip if one is given: one of the halves of their reach."""
        widest = _width(model)
        if clip is None:
            return cls(widest), None
        given = min(check_number("clip", clip, _least_clip(model), math.inf), widest)
        return cls(math.ldexp(given, math.ceil(math.log2(widest / given)))), given

    def sizes(self, model: Model) -> tuple[int, ...]:
        return NUMBER_CODES, NUMBER_CODES

    def code(
        self, model: Model, codes: Codes, column: Column
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        values, labels = _labels(model, column)
        middle, _ = model.middle_and_half_of_labels
        columns = [
            _code_number(labels - _predictions(model, codes), self.reach),
            _code_number(labels - middle, label_reach(model)),
        ]
        return np.where(np.isnan(values), UNKNOWN_LABEL, 0).astype(np.uint8), columns

    def maps(self, model: Model, groups: list[CellMap]) -> tuple[CellMap, ...]:
        """Return the cells of sums, and cells of residuals by size within each of these."""
        sizes = CellMap.of_feature(0, cells_of_codes(), RESIDUAL_CELLS)
        by_size = CellMap.side_by_side([sizes, *(CellMap.joint([own, sizes]) for own in groups)])
        return _one_cell_each(NUMBER_CODES, groups), by_size

    def measure(
        self, curator: Curator, plan: EvaluationPlan
    ) -> tuple[list[list[Measures]], Residuals]:
        """Release counts, and sums of residuals and labels; return all measures.

        Rows are counted by the size of their residual first. These noisy counts choose the clips
        of residuals and labels in the sums, unless the plan has a clip.
        """
        events: list[Any] = [planned.event for planned in plan.releases]
        noise = [deviations(event) for event in events]
        whole, by_size = plan.maps
        released: list[np.ndarray] = []

        def ask(query: CellSums) -> None:
            released.append(curator.sums(query, events[len(released)]) / CLIP_STEPS)

        curator.publish(Start(table_of(np.zeros(NUMBER_CODES), np.zeros(NUMBER_CODES))))
        ask(CellSums(whole, statistics=COUNT))
        ask(CellSums(by_size, statistics=COUNT))
        cell = self._clip_cell(plan)
        if plan.settings["clip"] is None:
            counts, rows = released[1][:RESIDUAL_CELLS, 0], float(released[0][0, 0])
            cell = choose_clip(counts, rows, float(noise[1][0]), float(noise[2][1]), cell)
        half, farthest = plan.model.middle_and_half_of_labels[1], label_reach(plan.model)
        clip = Clip.at(cell, self.reach, half, farthest, _width(plan.model))
        _use_column(curator, 0)
        residuals = np.clip(middles_of_codes() * (self.reach / clip.residual), -1, 1)
        labels = np.clip(middles_of_codes() * (farthest / clip.label), -1, 1)
        both = CellSums(whole, 0, GRADIENT_HESSIAN)
        curator.publish(UseLoss(table_of(residuals, residuals**2)))
        ask(both)
        curator.publish(UseLoss(table_of(np.abs(residuals), residuals**4)))
        ask(both)
        curator.publish(Start(table_of(labels, labels**2)))
        _use_column(curator, 1)
        ask(both)
        split = [whole.split(sums) for sums in released]
        split[1] = [sums.reshape(-1, RESIDUAL_CELLS) for sums in by_size.split(released[1][:, 0])]
        measures = [
            [measure_number(sums, noise, clip) for sums in zip(*part, strict=True)]
            for part in zip(*split, strict=True)
        ]
        return measures, Residuals(clip.residual, _bounds(plan.model))

    def _clip_cell(self, plan: EvaluationPlan) -> int:
        """Return the cell of the plan's clip, by default half the range of the model's labels."""
        clip = plan.settings["clip"]
        given = plan.model.middle_and_half_of_labels[1] if clip is None else clip
        cell = RESIDUAL_CELLS - 1 + math.ceil(math.log2(given / self.reach) - 1e-9)
        return min(max(cell, 0), RESIDUAL_CELLS - 1)


@dataclass(frozen=True, eq=False)
class ExactNumberOutcomes(Outcomes):
    """The residual and the label of a public row as whole numbers, digit by digit.

    Sums of digits are sums of integers, so sums of residuals, labels and their squares are exact
    on every backend. A row's columns are the digits of `QUANTITIES`, the most significant first;
    rows with a negative residual have the label 1.
    """

    kind: ClassVar[str] = "exact number"

    def sizes(self, model: Model) -> tuple[int, ...]:
        return (STEPS,) * sum(QUANTITIES.values())

    def code(
        self, model: Model, codes: Codes, column: Column
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        values, labels = _labels(model, column)
        residuals = labels - _predictions(model, codes)
        power = _exact_power(model)
        found: dict[str, np.ndarray] = {}
        for name, number in (
            ("residual", np.abs(residuals)),
            ("label", labels - _bounds(model)[0]),
        ):
            whole = np.ldexp(number, EXACT_BITS - power).astype(np.int64)
            upper, lower = whole >> (EXACT_BITS // 2), whole & (2 ** (EXACT_BITS // 2) - 1)
            products = (upper * upper, upper * lower, lower * lower)
            found[name] = whole
            found |= {f"{name} {part}": own for part, own in zip(SQUARE, products, strict=True)}
        found["outside"] = ((values < labels) | (values > labels)).astype(np.int64)
        columns = []
        for name, n_digits in QUANTITIES.items():
            if name == "fourth power":
                columns += _digits_below_one(np.ldexp(residuals, -power) ** 4, n_digits)
            else:
                shifts = DIGIT_BITS * np.arange(n_digits)[::-1]
                columns += [(found[name] >> shift) & (STEPS - 1) for shift in shifts]
        sign = np.where(np.isnan(values), UNKNOWN_LABEL, residuals < 0)
        return sign.astype(np.uint8), columns

    def maps(self, model: Model, groups: list[CellMap]) -> tuple[CellMap, ...]:
        return (_one_cell_each(STEPS, groups),)

    def measure(
        self, curator: Curator, plan: EvaluationPlan
    ) -> tuple[list[list[Measures]], Residuals]:
        """Add up all digits of public rows exactly; return all measures.

        Privacy
        -------
        None: it needs the exact event of public rows, which only their curator makes.
        """
        event: Any = plan.releases[0].event
        (cells,) = plan.maps
        digits = np.arange(STEPS)
        table = LossTable(by_label(digits, -digits), by_label(digits, digits), shift=0)
        curator.publish(Start(table))
        count = curator.sums(CellSums(cells, statistics=COUNT), event)[:, 0] // CLIP_STEPS
        sums: dict[str, np.ndarray] = {}
        column = 0
        for name, n_digits in QUANTITIES.items():
            total = np.zeros((cells.n_cells, 2), dtype=object)  # of any size
            for _ in range(n_digits):
                curator.publish(Start(table))
                _use_column(curator, column, STEPS)
                own = curator.sums(CellSums(cells, 0, GRADIENT_HESSIAN), event)
                total = total * STEPS + own.astype(object)
                column += 1
            sums[name] = total
        power, widest = _exact_power(plan.model), _width(plan.model)
        measures = [
            measure_exactly({name: total[k] for name, total in sums.items()}, rows, power, widest)
            for k, rows in enumerate(map(int, count))
        ]
        outside = int(sums["outside"][0, 1])
        parts = [measures[a:b] for a, b in pairwise((*cells.first, cells.n_cells))]
        return parts, Residuals(None, _bounds(plan.model), outside)


def _one_cell_each(codes: int, groups: list[CellMap]) -> CellMap:
    """Return one cell for the whole table, then those of groups."""
    whole = CellMap.of_feature(0, np.zeros(codes, dtype=np.int64), 1)
    return CellMap.side_by_side([whole, *groups])


def _use_column(curator: Curator, column: int, codes: int = NUMBER_CODES) -> None:
    """Look rows up by one of their columns."""
    states = np.arange(codes, dtype=np.int32) - np.int32(codes // 2)
    curator.publish(AddCellValues(CellMap.of_feature(column, np.arange(codes)), states))


def _bounds(model: Model) -> tuple[float, float]:
    bounds: tuple[float, float] = model.domain.target.bounds  # type: ignore[union-attr]
    return bounds


def _width(model: Model) -> float:
    """Return the largest residual that the target's bounds allow."""
    low, high = _bounds(model)
    return high - low


def label_reach(model: Model) -> float:
    """Return the largest distance of a label from the middle of the model's labels."""
    low, high = _bounds(model)
    middle, _ = model.middle_and_half_of_labels
    return float(max(high - middle, middle - low))


def _exact_power(model: Model) -> int:
    """Return the power of two below which all residuals of a model lie."""
    return int(np.frexp(_width(model))[1])


def middles_of_codes() -> np.ndarray:
    """Return the middle of each code of a number, in units of its reach, from −1 to 1."""
    octave, step = np.divmod(np.arange(NUMBER_CODES // 2), OCTAVE_STEPS)
    low = np.where(octave > 0, OCTAVE_STEPS + step, step)  # the first octave reaches down to 0
    sizes = np.ldexp(low + 0.5, np.maximum(octave, 1) - OCTAVES) / OCTAVE_STEPS
    return np.concatenate([-sizes[::-1], sizes])


def cells_of_codes() -> np.ndarray:
    """Return the cell of each code of a residual: by how often its size halves the reach."""
    octave = np.arange(NUMBER_CODES // 2) // OCTAVE_STEPS
    cells = np.maximum(octave - (OCTAVES - RESIDUAL_CELLS), 0)
    return np.concatenate([cells[::-1], cells])


def _labels(model: Model, column: Column) -> tuple[np.ndarray, np.ndarray]:
    """Return labels as they are, NaN where unknown, and clipped to the target's bounds."""
    bounds = _bounds(model)
    values = np.asarray(read_numbers(column, model.domain.target.name), dtype=np.float64)
    return values, np.clip(np.where(np.isnan(values), bounds[0], values), *bounds)


def _predictions(model: Model, codes: Codes) -> np.ndarray:
    return model.numbers(model.scores.scores(codes)[0] / SCORE_STEPS)


def _code_number(values: np.ndarray, reach: float) -> np.ndarray:
    """Return the code of each number from −reach to reach: sign, octave, step in the octave."""
    size = np.minimum(np.abs(values) / reach, 1.0)
    mantissa, power = np.frexp(size)
    small = size < 2.0 ** (1 - OCTAVES)
    octave = np.where(small, 0, OCTAVES - 1 + power)
    within = np.where(small, np.ldexp(size, OCTAVES - 1), 2 * mantissa - 1)
    step = np.minimum((within * OCTAVE_STEPS).astype(np.int64), OCTAVE_STEPS - 1)
    code = np.minimum(octave * OCTAVE_STEPS + step, NUMBER_CODES // 2 - 1)
    half = NUMBER_CODES // 2
    codes: np.ndarray = np.where(values < 0, half - 1 - code, half + code)
    return codes


def _digits_below_one(values: np.ndarray, n_digits: int) -> list[np.ndarray]:
    """Return the digits of numbers in [0, 1); each step is exact."""
    digits = []
    for _ in range(n_digits):
        values = values * STEPS
        whole = np.floor(values)
        values = values - whole
        digits.append(whole.astype(np.int64))
    return digits
