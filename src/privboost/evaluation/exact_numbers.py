"""Outcomes of public rows of a number: residuals and labels as exact integers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from privboost._core.grid import CLIP_STEPS
from privboost.data.rows import Codes
from privboost.data.table import Column
from privboost.engine.queries import COUNT, GRADIENT_HESSIAN, CellSums
from privboost.engine.updates import Start
from privboost.evaluation.number_measures import measure_exactly
from privboost.evaluation.number_sums import (
    DEVIANCE_QUANTITIES,
    DIGIT_BITS,
    EXACT_BITS,
    QUANTITIES,
    SQUARE,
    ExactSums,
    Wanted,
)
from privboost.evaluation.numbers import (
    bounds_of,
    deviances_of,
    look_up_by,
    most_deviance,
    one_cell_each,
    predictions_of,
    read_labels,
    wanted_of,
    width_of,
    within_each,
)
from privboost.evaluation.outcomes import (
    CHIEF,
    EvaluationPlan,
    Outcomes,
    Releases,
    lines_of,
    release,
)
from privboost.evaluation.prediction_groups import (
    MOST_GROUPS,
    PUBLIC_STEPS,
    Grouping,
    GroupSums,
    PredictionGrid,
    gini_of,
)
from privboost.evaluation.result import Measures, Residuals, Value
from privboost.losses.base import UNKNOWN_LABEL, LossTable
from privboost.mechanisms.curator import Curator
from privboost.models.model import Model
from privboost.recipes.common.plan import PlanBasis
from privboost.trees.cell_map import CellMap

STEPS = 2**DIGIT_BITS
"""Codes of a digit of an exact number: the size of a loss table."""
_MOST_FINE_CELLS = 2**22
"""Cells of predictions of all groups together."""


def exact_releases(basis: PlanBasis, touched: int) -> Releases:
    """Return the release of exact sums of a number on public rows, digit by digit, and counts."""
    what = "sums of residuals, labels and their powers, by digit"
    count = 4 + sum(QUANTITIES.values()) + sum(DEVIANCE_QUANTITIES.values()) + QUANTITIES["label"]
    return lambda kind: [(CHIEF, release(kind, basis, what, touched, count=count), 1.0)]


@dataclass(frozen=True, eq=False)
class ExactNumberOutcomes(Outcomes):
    """The residual and the label of a public row as whole numbers, digit by digit.

    Sums of digits are sums of integers, so sums of residuals, labels and their squares are exact
    on every backend. A row's columns are the digits of `QUANTITIES`, the most significant first,
    those of its deviance if wanted, and the cell of its prediction with curves. Rows with a
    negative residual have the label 1.

    Attributes
    ----------
    curves, deviance, quantile
        As in `Wanted`.
    """

    kind: ClassVar[str] = "exact number"
    curves: bool = False
    deviance: float | None = None
    quantile: float | None = None

    @property
    def digits(self) -> dict[str, int]:
        """The number of digits of each quantity."""
        return QUANTITIES | ({} if self.deviance is None else DEVIANCE_QUANTITIES)

    @property
    def _prediction_column(self) -> int:
        return sum(self.digits.values())

    def sizes(self, model: Model) -> tuple[int, ...]:
        found = (STEPS,) * self._prediction_column
        return (*found, _grid(model).n_cells) if self.curves else found

    def code(
        self, model: Model, codes: Codes, column: Column, event: Column | None = None
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        values, labels = read_labels(model, column)
        predictions = predictions_of(model, codes)
        residuals = labels - predictions
        power = _exact_power(model)
        found: dict[str, np.ndarray] = {}
        for name, number in (
            ("residual", np.abs(residuals)),
            ("label", labels - bounds_of(model)[0]),
        ):
            whole = np.ldexp(number, EXACT_BITS - power).astype(np.int64)
            upper, lower = whole >> (EXACT_BITS // 2), whole & (2 ** (EXACT_BITS // 2) - 1)
            products = (upper * upper, upper * lower, lower * lower)
            found[name] = whole
            found |= {f"{name} {part}": own for part, own in zip(SQUARE, products, strict=True)}
        found["outside"] = ((values < labels) | (values > labels)).astype(np.int64)
        found["below"] = (residuals <= 0).astype(np.int64)
        parts = {"fourth power": np.ldexp(residuals, -power) ** 4}
        if self.deviance is not None:
            deviances, most = deviances_of(model, labels, predictions, self.deviance)
            parts |= {"deviance": deviances / most, "deviance²": (deviances / most) ** 2}
        columns: list[np.ndarray] = []
        for name, n_digits in self.digits.items():
            if name in parts:
                columns += _digits_below_one(parts[name], n_digits)
            else:
                shifts = DIGIT_BITS * np.arange(n_digits)[::-1]
                columns += [(found[name] >> shift) & (STEPS - 1) for shift in shifts]
        if self.curves:
            columns.append(_grid(model).cells(predictions))
        sign = np.where(np.isnan(values), UNKNOWN_LABEL, residuals < 0)
        return sign.astype(np.uint8), columns

    def maps(self, model: Model, groups: list[CellMap]) -> tuple[CellMap, ...]:
        """Return the cells of sums; then, with curves, fine cells of predictions within each."""
        found = [one_cell_each(STEPS, groups)]
        if self.curves:
            n_cells = _grid(model).n_cells
            parts = 1 + sum(group.n_cells for group in groups)
            every = max(1, 2 ** math.ceil(math.log2(n_cells * parts / _MOST_FINE_CELLS)))
            fine = CellMap.of_feature(self._prediction_column, np.arange(n_cells) // every)
            found.append(within_each(fine, groups))
        return tuple(found)

    def measure(
        self, curator: Curator, plan: EvaluationPlan
    ) -> tuple[list[list[Measures]], Residuals]:
        """Add up all digits of public rows exactly; return all measures.

        Privacy
        -------
        None: it needs the exact event of public rows, which only their curator makes.
        """
        model = plan.model
        whole, *fine = plan.maps
        added = _Digits(curator, plan.releases[0].event, self.digits)
        cells, grouping, ginis = whole, None, [(0.0, 0.0)] * whole.n_cells
        if self.curves:
            grid = _grid(model)
            every = CellMap.of_feature(self._prediction_column, np.arange(grid.n_cells))
            grouping = Grouping.of(grid, added.count(every), 0.0, MOST_GROUPS)
            own = CellMap.of_feature(
                self._prediction_column, grouping.group_of, len(grouping.predicted)
            )
            cells = CellMap.side_by_side([whole, within_each(own, plan.group_maps)])
            ginis = _ginis(added, fine[0], whole.n_cells, model)
        count = added.count(cells)
        sums = {name: added.sum(name, cells) for name in self.digits}
        wanted = wanted_of(model, self.curves, self.deviance, self.quantile)
        measures = [
            self._measure(model, wanted, sums, count, k, whole.n_cells, grouping, ginis[k])
            for k in range(whole.n_cells)
        ]
        outside = int(sums["outside"][0, 1])
        parts = [measures[a:b] for a, b in pairwise((*whole.first, whole.n_cells))]
        return parts, Residuals(None, bounds_of(model), outside)

    def _measure(
        self,
        model: Model,
        wanted: Wanted,
        sums: dict[str, np.ndarray],
        count: np.ndarray,
        number: int,
        n_cells: int,
        grouping: Grouping | None,
        gini: tuple[float, float],
    ) -> Measures:
        """Return the measures of one cell, of which there are `n_cells` before those by group."""
        power = _exact_power(model)
        reach = 1.0
        if self.deviance is not None:
            reach = most_deviance(model, self.deviance)
        own = {name: total[number] for name, total in sums.items()}
        exact = ExactSums(wanted, own, int(count[number]), power, reach)
        if grouping is not None and exact.rows:
            first = n_cells + number * len(grouping.predicted)
            places = slice(first, first + len(grouping.predicted))
            groups = _group_sums(model, grouping, sums, count, places)
            std = groups.gini().std if wanted.ratios else 0.0
            exact = replace(exact, groups=groups, gini=Value(gini[0], std, gini[1]))
        return measure_exactly(exact, width_of(model))


class _Digits:
    """Exact sums of public rows, digit by digit."""

    def __init__(self, curator: Curator, event: Any, digits: dict[str, int]) -> None:
        self._curator, self._event, self._digits = curator, event, digits
        each = np.arange(STEPS)
        self._table = LossTable(lines_of(each, -each), lines_of(each, each), shift=0)

    def count(self, cells: CellMap) -> np.ndarray:
        """Return the number of rows of each cell."""
        self._curator.publish(Start(self._table))
        query = CellSums(cells, statistics=COUNT)
        found: np.ndarray = self._curator.sums(query, self._event)[:, 0] // CLIP_STEPS
        return found

    def sum(self, name: str, cells: CellMap) -> np.ndarray:
        """Return the signed and the unsigned sum of a quantity by cell, as integers of any size."""
        names = list(self._digits)
        column = sum(self._digits[before] for before in names[: names.index(name)])
        total = np.zeros((cells.n_cells, 2), dtype=object)
        for digit in range(column, column + self._digits[name]):
            self._curator.publish(Start(self._table))
            look_up_by(self._curator, digit, STEPS)
            own = self._curator.sums(CellSums(cells, 0, GRADIENT_HESSIAN), self._event)
            total = total * STEPS + own.astype(object)
        return total


def _ginis(added: _Digits, fine: CellMap, n_cells: int, model: Model) -> list[tuple[float, float]]:
    """Return the Gini coefficient of each of `n_cells` cells, and the error of its fine cells."""
    count = added.count(fine).reshape(n_cells, -1).astype(np.float64)
    unit = math.ldexp(1.0, _exact_power(model))
    labels = added.sum("label", fine)[:, 1].astype(np.float64).reshape(n_cells, -1)
    labels = labels / 2**EXACT_BITS + bounds_of(model)[0] / unit * count
    values, totals = gini_of(count, labels)
    rows = np.maximum(count.sum(axis=1), 1.0)
    # A row may lie anywhere in its cell; a cell of one row has its place.
    inside = np.where(count > 1, labels * count, 0.0).sum(axis=1)
    known = totals > 0
    widths = inside / np.where(known, totals, 1.0) / rows
    return [
        (float(value), float(width)) if good else (0.0, 0.0)
        for value, width, good in zip(values, widths, known, strict=True)
    ]


def _group_sums(
    model: Model,
    grouping: Grouping,
    sums: dict[str, np.ndarray],
    count: np.ndarray,
    places: slice,
) -> GroupSums:
    """Return the exact sums of groups of predictions, which have these places."""
    unit, rows = math.ldexp(1.0, _exact_power(model)), count[places].astype(np.float64)
    residuals = sums["residual"][places, 0].astype(np.float64) / 2**EXACT_BITS
    labels = sums["label"][places, 1].astype(np.float64) / 2**EXACT_BITS
    squares = _squares(sums, places).astype(np.float64) / 2.0 ** (2 * EXACT_BITS)
    some = rows > 0
    means = (labels - residuals) / np.where(some, rows, 1.0) * unit + bounds_of(model)[0]
    exact = replace(
        grouping,
        predicted=np.where(some, means, grouping.predicted),
        error=np.zeros(len(rows)),
    )
    noise, second = (0.0, 0.0, 0.0), float(squares.sum() / max(rows.sum(), 1.0))
    return GroupSums(
        exact, rows, residuals, squares, noise, second, 0.0, unit, False, bounds_of(model)
    )


def _squares(sums: dict[str, np.ndarray], places: slice) -> np.ndarray:
    """Return sums of squared residuals from those of their three products."""
    upper, mixed, lower = (sums[f"residual {part}"][places, 1] for part in SQUARE)
    found: np.ndarray = upper * 2**EXACT_BITS + mixed * 2 ** (EXACT_BITS // 2 + 1) + lower
    return found


def _grid(model: Model) -> PredictionGrid:
    return PredictionGrid(*model.bounds, PUBLIC_STEPS)


def _exact_power(model: Model) -> int:
    """Return the power of two below which all residuals of a model lie."""
    return int(np.frexp(width_of(model))[1])


def _digits_below_one(values: np.ndarray, n_digits: int) -> list[np.ndarray]:
    """Return the digits of numbers in [0, 1); each step is exact."""
    digits = []
    for _ in range(n_digits):
        values = values * STEPS
        whole = np.floor(values)
        values = values - whole
        digits.append(whole.astype(np.int64))
    return digits
