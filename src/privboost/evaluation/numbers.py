"""Outcomes of private rows of a number: codes of residuals, labels and predictions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from privboost._core.checks import check_number
from privboost._core.grid import CLIP_STEPS, SCORE_STEPS
from privboost.data.rows import Codes
from privboost.data.table import Column
from privboost.data.values import read_numbers
from privboost.engine.queries import COUNT, GRADIENT_COUNT, GRADIENT_HESSIAN, CellSums
from privboost.engine.updates import AddCellValues, Start, UseLoss
from privboost.evaluation.deviances import largest_deviance, least_prediction, unit_deviance
from privboost.evaluation.number_measures import measure_number
from privboost.evaluation.number_sums import (
    CODE_WIDTH,
    OCTAVE_STEPS,
    RESIDUAL_CELLS,
    Clip,
    Mean,
    NoisyMeans,
    Sizes,
    Tail,
    Wanted,
    choose_clip,
    ends_beyond,
    last_clear_cell,
)
from privboost.evaluation.outcomes import (
    CHIEF,
    EvaluationPlan,
    Outcomes,
    Releases,
    deviations,
    release,
    table_of,
)
from privboost.evaluation.prediction_groups import (
    PRIVATE_STEPS,
    TENTHS,
    Grouping,
    GroupSums,
    PredictionGrid,
    count_groups,
)
from privboost.evaluation.result import ERRORS, Measures, Residuals, Value, stands_out
from privboost.losses.base import UNKNOWN_LABEL, LossTable
from privboost.mechanisms.curator import Curator
from privboost.models.model import Model
from privboost.recipes.common.plan import PlanBasis
from privboost.trees.cell_map import CellMap

RESIDUAL, LABEL, PREDICTION = range(3)
"""Columns of outcomes."""
OCTAVES = 32
NUMBER_CODES = 2 * OCTAVES * OCTAVE_STEPS
"""Codes of a number with a sign: its distance from its code's middle is at most 1/512 of itself,
except below 2⁻³¹ of the reach."""
ROWS, SIZES, ABSOLUTE, LABELS = "rows", "sizes", "absolute", "labels"
PREDICTIONS, GROUP_ROWS, GROUPS = "predictions", "group rows", "groups"
DEVIANCE_SIZES, DEVIANCES = "deviance sizes", "deviances"
"""Names of releases; that of sums of residuals and their squares is `CHIEF`."""
_SHARES: tuple[tuple[str, str, float, tuple[float, ...]], ...] = (
    (ROWS, "the number of rows", 0.08, (1.0,)),
    (SIZES, "rows by the size of their residual", 0.17, (1.0,)),
    (CHIEF, "sums of residuals and their squares", 0.3, (0.2, 0.8)),
    (ABSOLUTE, "sums of absolute residuals and their fourth powers", 0.15, (0.85, 0.15)),
    (LABELS, "sums of labels and their squares", 0.3, (0.35, 0.65)),
)
"""The releases of a number: their shares of μ², and those of their statistics. Most goes to
squares, which RMSE and R² need; fourth powers only serve the error bar of an RMSE. The counts
choose the clip, and their noise bounds what may lie beyond it."""
_OF_GROUPS: tuple[tuple[str, str, float, tuple[float, ...]], ...] = (
    (PREDICTIONS, "rows by their prediction", 0.05, (1.0,)),
    (GROUP_ROWS, "rows by group of their prediction", 0.04, (1.0,)),
    (GROUPS, "sums of residuals and their squares, by group of the prediction", 0.13, (0.85, 0.15)),
)
"""The same of groups by prediction, relative to the sum of `_SHARES`, which is 1."""
_OF_DEVIANCES: tuple[tuple[str, str, float, tuple[float, ...]], ...] = (
    (DEVIANCE_SIZES, "rows by the size of their deviance", 0.06, (1.0,)),
    (DEVIANCES, "sums of deviances and their squares", 0.16, (0.85, 0.15)),
)
"""The same of deviances."""
_SHARES_OF_ROWS = (0.6, 0.4)
"""Where a quantile is wanted: shares of the rows whose label is at most the prediction, and of all
rows, in the release of the number of rows."""


def names_of_releases(wanted: Wanted) -> tuple[str, ...]:
    """Return the names of a number's releases, in the order in which they are made."""
    return tuple(name for name, _, _, _ in _releases(wanted))


def _releases(wanted: Wanted) -> tuple[tuple[str, str, float, tuple[float, ...]], ...]:
    listed = _SHARES
    if wanted.quantile is not None:
        what = "the number of rows, and of labels that are at most the prediction"
        listed = ((ROWS, what, listed[0][2], _SHARES_OF_ROWS), *listed[1:])
    groups = _OF_GROUPS if wanted.curves else ()
    return (*listed, *groups, *(_OF_DEVIANCES if wanted.deviance is not None else ()))


def number_releases(basis: PlanBasis, touched: int, wanted: Wanted) -> Releases:
    """Return the releases of sums: a row adds to one cell of each, for the whole table and each
    feature. Rows are counted by their prediction for the whole table alone.
    """
    return lambda kind: [
        (
            name,
            release(kind, basis, what, 1 if name == PREDICTIONS else touched, shares=shares),
            part,
        )
        for name, what, part, shares in _releases(wanted)
    ]


def wanted_of(
    model: Model,
    curves: bool = False,
    deviance: float | None = None,
    quantile: float | None = None,
) -> Wanted:
    """Return what is wanted of a model's rows."""
    return Wanted(bounds_of(model)[0], curves, deviance, quantile)


def _least_clip(model: Model) -> float:
    """Return the lower bound of a clip: a cell of residuals must lie below it."""
    return math.ldexp(width_of(model), 1 - RESIDUAL_CELLS)


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
    curves, deviance, quantile
        As in `Wanted`. With curves there is a column of predictions, with a deviance one of these.
    """

    kind: ClassVar[str] = "number"
    reach: float
    curves: bool = False
    deviance: float | None = None
    quantile: float | None = None

    @classmethod
    def clipped(
        cls, model: Model, clip: Any, wanted: Wanted
    ) -> tuple[NumberOutcomes, float | None]:
        """Return the outcomes, and the clip if one is given: one of the halves of their reach."""
        widest, how = width_of(model), (wanted.curves, wanted.deviance, wanted.quantile)
        if clip is None:
            return cls(widest, *how), None
        given = min(check_number("clip", clip, _least_clip(model), math.inf), widest)
        return cls(math.ldexp(given, math.ceil(math.log2(widest / given))), *how), given

    def wanted(self, model: Model) -> Wanted:
        """Return what is wanted of the rows."""
        return wanted_of(model, self.curves, self.deviance, self.quantile)

    def sizes(self, model: Model) -> tuple[int, ...]:
        found = [NUMBER_CODES, NUMBER_CODES]
        if self.curves:
            found.append(_grid(model).n_cells)
        if self.deviance is not None:
            found.append(NUMBER_CODES)
        return tuple(found)

    def code(
        self, model: Model, codes: Codes, column: Column, event: Column | None = None
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        values, labels = read_labels(model, column)
        predictions = predictions_of(model, codes)
        middle, _ = model.middle_and_half_of_labels
        columns = [
            _code_number(labels - predictions, self.reach),
            _code_number(labels - middle, label_reach(model)),
        ]
        if self.curves:
            columns.append(_grid(model).cells(predictions))
        if self.deviance is not None:
            deviances, most = deviances_of(model, labels, predictions, self.deviance)
            columns.append(_code_number(deviances, most))
        return np.where(np.isnan(values), UNKNOWN_LABEL, 0).astype(np.uint8), columns

    def maps(self, model: Model, groups: list[CellMap]) -> tuple[CellMap, ...]:
        """Return the cells of sums; within each of these, cells of residuals by size; then, if
        wanted, cells of predictions and cells of deviances by size.
        """
        found = [one_cell_each(NUMBER_CODES, groups), _by_size(RESIDUAL, groups)]
        if self.curves:
            found.append(CellMap.of_feature(PREDICTION, np.arange(_grid(model).n_cells)))
        if self.deviance is not None:
            found.append(_by_size(self._deviance_column, groups))
        return tuple(found)

    @property
    def _deviance_column(self) -> int:
        return PREDICTION + self.curves

    def measure(
        self, curator: Curator, plan: EvaluationPlan
    ) -> tuple[list[list[Measures]], Residuals]:
        """Release counts, and sums of residuals and labels; return all measures.

        Rows are counted by the size of their residual first. These noisy counts choose the clips
        of residuals and labels in the sums, unless the plan has a clip. Noisy counts by prediction
        choose the groups of predictions, and those by the size of deviances the clip of these.
        """
        wanted = self.wanted(plan.model)
        asked = _Asked(curator, plan, names_of_releases(wanted))
        whole, by_size, *more = plan.maps
        codes = np.arange(NUMBER_CODES)
        # The code of a residual of 0 is the first of the upper half.
        curator.publish(Start(table_of(1.0 * (codes <= NUMBER_CODES // 2), 0.0 * codes)))
        look_up_by(curator, RESIDUAL)
        asked.ask(ROWS, whole, COUNT if self.quantile is None else GRADIENT_COUNT)
        asked.ask(SIZES, by_size, COUNT)
        half, farthest = plan.model.middle_and_half_of_labels[1], label_reach(plan.model)
        clip = Clip.at(
            self._clip_cell(plan, asked), self.reach, half, farthest, width_of(plan.model)
        )
        residuals = np.clip(middles_of_codes() * (self.reach / clip.residual), -1, 1)
        labels = np.clip(middles_of_codes() * (farthest / clip.label), -1, 1)
        curator.publish(UseLoss(table_of(residuals, residuals**2)))
        asked.ask(CHIEF, whole)
        curator.publish(UseLoss(table_of(np.abs(residuals), residuals**4)))
        asked.ask(ABSOLUTE, whole)
        curator.publish(Start(table_of(labels, labels**2)))
        look_up_by(curator, LABEL)
        asked.ask(LABELS, whole)
        grouping, deviance_clip = None, (0, 0.0)
        if self.curves:
            grouping = self._ask_groups(asked, more[0], table_of(residuals, residuals**2), clip)
        if self.deviance is not None:
            deviance_clip = self._ask_deviances(asked, more[-1], self.deviance)
        measures = [
            [
                self._measure(asked, wanted, part, number, clip, grouping, deviance_clip)
                for number in range(own.n_cells)
            ]
            for part, own in enumerate(whole.parts)
        ]
        return measures, Residuals(clip.residual, bounds_of(plan.model))

    def _ask_groups(
        self, asked: _Asked, by_prediction: CellMap, table: LossTable, clip: Clip
    ) -> Grouping:
        """Choose groups of predictions; release their rows, and sums of residuals."""
        plan, curator = asked.plan, asked.curator
        asked.ask(PREDICTIONS, by_prediction, COUNT)
        rows, labels = float(asked.sums(ROWS, 0)[0, -1]), asked.sums(LABELS, 0)[0, 0]
        mean = plan.model.middle_and_half_of_labels[0] + clip.label * labels / max(rows, 1.0)
        noise = clip.residual * float(asked.noise(GROUPS)[0])
        n_groups = count_groups(rows, noise, mean) if self.wanted(plan.model).ratios else TENTHS
        counts = asked.sums(PREDICTIONS, 0)[:, 0]
        found = Grouping.of(_grid(plan.model), counts, float(asked.noise(PREDICTIONS)[0]), n_groups)
        own = CellMap.of_feature(PREDICTION, found.group_of, len(found.predicted))
        cells = within_each(own, plan.group_maps)
        asked.ask(GROUP_ROWS, cells, COUNT)
        curator.publish(Start(table))
        look_up_by(curator, RESIDUAL)
        asked.ask(GROUPS, cells)
        return found

    def _ask_deviances(self, asked: _Asked, by_size: CellMap, power: float) -> tuple[int, float]:
        """Choose the clip of deviances, and release their sums; return its cell and the clip."""
        plan, curator = asked.plan, asked.curator
        asked.ask(DEVIANCE_SIZES, by_size, COUNT)
        counts, rows = asked.sums(DEVIANCE_SIZES, 0)[:, 0], float(asked.sums(ROWS, 0)[0, -1])
        noise = float(asked.noise(DEVIANCE_SIZES)[0]), float(asked.noise(DEVIANCES)[0])
        cell = choose_clip(counts, rows, *noise, last_clear_cell(counts, noise[0]), power=1)
        most = most_deviance(plan.model, power)
        clip = math.ldexp(most, cell - RESIDUAL_CELLS + 1)
        sizes = np.clip(middles_of_codes() * (most / clip), 0, 1)
        curator.publish(Start(table_of(sizes, sizes**2)))
        look_up_by(curator, self._deviance_column)
        asked.ask(DEVIANCES, plan.maps[0])
        return cell, clip

    def _measure(
        self,
        asked: _Asked,
        wanted: Wanted,
        part: int,
        number: int,
        clip: Clip,
        grouping: Grouping | None,
        deviance_clip: tuple[int, float],
    ) -> Measures:
        """Return the measures of one cell: the whole table, or a group."""
        model = asked.plan.model
        *below, rows = map(float, asked.sums(ROWS, part)[number])
        unsure = float(asked.noise(ROWS)[-1])
        size = Value(max(rows, 0.0), unsure)
        if not stands_out(rows, unsure):
            return measure_number(None, wanted, size, clip.range)
        least = rows - ERRORS * unsure

        def means(name: str) -> list[Mean]:
            totals, noise = asked.sums(name, part)[number], asked.noise(name)
            pairs = zip(totals, noise, strict=True)
            return [Mean.of(float(total), float(own), rows, unsure) for total, own in pairs]

        def tail(name: str, cell: int, ends: np.ndarray) -> Tail:
            counts = asked.sums(name, part)[:, 0].reshape(-1, RESIDUAL_CELLS)[number, cell + 1 :]
            return Tail.of(counts, float(asked.noise(name)[0]), ends, least)

        (bias, square), (absolute, fourth) = means(CHIEF), means(ABSOLUTE)
        label, label_square = means(LABELS)
        middle, beyond = model.middle_and_half_of_labels[0], tail(SIZES, clip.cell, clip.ends)
        own = bias, absolute, label, label_square, beyond, clip, middle
        found = NoisyMeans.of(wanted, rows, unsure, square, fourth, *own)
        if below:
            noise = float(asked.noise(ROWS)[0])
            found = replace(found, below=Mean.of(below[0], noise, rows, unsure))
        if self.deviance is not None:
            cell, widest = deviance_clip
            most = most_deviance(model, self.deviance)
            mean, squares = means(DEVIANCES)
            beyond = tail(DEVIANCE_SIZES, cell, ends_beyond(cell, most / widest))
            sizes = Sizes(mean, min(max(squares.at, 0.0), 1.0), beyond, widest, most)
            found = replace(found, deviance=sizes)
        if grouping is not None:
            n_groups = len(grouping.predicted)
            totals = asked.sums(GROUPS, part).reshape(-1, n_groups, 2)[number]
            counts = asked.sums(GROUP_ROWS, part).reshape(-1, n_groups)[number]
            one, other = map(float, asked.noise(GROUPS))
            groups = GroupSums(
                grouping if part == 0 else grouping.of_some,
                counts,
                totals[:, 0],
                totals[:, 1],
                (float(asked.noise(GROUP_ROWS)[0]), one, other),
                found.second,
                found.tail.excess * rows,
                clip.residual,
                True,
                bounds_of(model),
                CODE_WIDTH,
            )
            found = replace(found, groups=groups)
        return measure_number(found, wanted, size, clip.range)

    def _clip_cell(self, plan: EvaluationPlan, asked: _Asked) -> int:
        """Return the cell of the plan's clip, or the one that noisy counts choose; by default half
        the range of the model's labels.
        """
        clip = plan.settings["clip"]
        given = plan.model.middle_and_half_of_labels[1] if clip is None else clip
        cell = RESIDUAL_CELLS - 1 + math.ceil(math.log2(given / self.reach) - 1e-9)
        cell = min(max(cell, 0), RESIDUAL_CELLS - 1)
        if clip is not None:
            return cell
        counts, rows = asked.sums(SIZES, 0)[:, 0], float(asked.sums(ROWS, 0)[0, -1])
        noise = float(asked.noise(SIZES)[0]), float(asked.noise(CHIEF)[1])
        return choose_clip(counts, rows, *noise, cell)


class _Asked:
    """The releases of a plan by name, as they are made, in rows."""

    def __init__(self, curator: Curator, plan: EvaluationPlan, names: tuple[str, ...]) -> None:
        self.curator, self.plan = curator, plan
        events = (planned.event for planned in plan.releases)
        self._events: dict[str, Any] = dict(zip(names, events, strict=True))
        self._sums: dict[str, list[np.ndarray]] = {}

    def ask(
        self, name: str, cells: CellMap, statistics: tuple[str, ...] = GRADIENT_HESSIAN
    ) -> None:
        """Release sums by cell."""
        query = CellSums(cells, statistics=statistics)
        self._sums[name] = cells.split(self.curator.sums(query, self._events[name]) / CLIP_STEPS)

    def sums(self, name: str, part: int) -> np.ndarray:
        """Return the sums of the whole table (part 0) or of a feature's groups, one row a cell."""
        return self._sums[name][part]

    def noise(self, name: str) -> np.ndarray:
        """Return the standard deviation of each statistic's noise."""
        return deviations(self._events[name])


def one_cell_each(codes: int, groups: list[CellMap]) -> CellMap:
    """Return one cell for the whole table, then those of groups."""
    whole = CellMap.of_feature(0, np.zeros(codes, dtype=np.int64), 1)
    return CellMap.side_by_side([whole, *groups])


def within_each(own: CellMap, groups: Sequence[CellMap]) -> CellMap:
    """Return the cells of a column for the whole table, then within each group."""
    return CellMap.side_by_side([own, *(CellMap.joint([group, own]) for group in groups)])


def _by_size(column: int, groups: Sequence[CellMap]) -> CellMap:
    return within_each(CellMap.of_feature(column, cells_of_codes(), RESIDUAL_CELLS), groups)


def look_up_by(curator: Curator, column: int, codes: int = NUMBER_CODES) -> None:
    """Add a value to the state of each row, by which a table is looked up: its code in a column.

    A state of 0, as after `Start`, becomes the code less half the number of codes, to which the
    middle of a table of that size belongs.
    """
    states = np.arange(codes, dtype=np.int32) - np.int32(codes // 2)
    curator.publish(AddCellValues(CellMap.of_feature(column, np.arange(codes)), states))


def bounds_of(model: Model) -> tuple[float, float]:
    """Return the bounds of labels."""
    bounds: tuple[float, float] = model.domain.target.bounds  # type: ignore[union-attr]
    return bounds


def width_of(model: Model) -> float:
    """Return the largest residual that the target's bounds allow."""
    low, high = bounds_of(model)
    return high - low


def label_reach(model: Model) -> float:
    """Return the largest distance of a label from the middle of the model's labels."""
    low, high = bounds_of(model)
    middle, _ = model.middle_and_half_of_labels
    return float(max(high - middle, middle - low))


def _grid(model: Model) -> PredictionGrid:
    return PredictionGrid(*model.bounds, PRIVATE_STEPS)


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


def read_labels(model: Model, column: Column) -> tuple[np.ndarray, np.ndarray]:
    """Return labels as they are, NaN where unknown, and clipped to the target's bounds."""
    bounds = bounds_of(model)
    values = np.asarray(read_numbers(column, model.domain.target.name), dtype=np.float64)
    return values, np.clip(np.where(np.isnan(values), bounds[0], values), *bounds)


def predictions_of(model: Model, codes: Codes) -> np.ndarray:
    """Return the prediction of each row."""
    return model.numbers(model.scores.scores(codes)[0] / SCORE_STEPS)


def deviances_of(
    model: Model, labels: np.ndarray, predictions: np.ndarray, power: float
) -> tuple[np.ndarray, float]:
    """Return the deviance of each row, and the largest that there can be."""
    most = most_deviance(model, power)
    means = np.maximum(predictions, least_prediction(bounds_of(model)))
    return np.minimum(unit_deviance(labels, means, power), most), most


def most_deviance(model: Model, power: float) -> float:
    """Return the largest deviance that a row of a model can have."""
    return largest_deviance(bounds_of(model), model.bounds, power)


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
