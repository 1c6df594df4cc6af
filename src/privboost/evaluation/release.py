"""Releases of an evaluation: queries to the curator, and noisy sums."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from privboost.engine.queries import COUNT, GRADIENT_HESSIAN, CellSums
from privboost.engine.updates import AddCellValues, Start, UseLoss
from privboost.evaluation.number_measures import Clip, choose_clip
from privboost.evaluation.outcomes import (
    NUMBER_CODES,
    QUANTITIES,
    RESIDUAL_CELLS,
    STEPS,
    label_reach,
    middles_of_codes,
)
from privboost.evaluation.plan import EvaluationPlan
from privboost.grid import CLIP_STEPS
from privboost.losses import LossTable, class_indicator
from privboost.privacy.curator import Curator
from privboost.trees.cell_map import CellMap


@dataclass(frozen=True, eq=False)
class Part:
    """Noisy sums of the whole table, or of the groups of one feature.

    Attributes
    ----------
    sums : tuple of float arrays
        For classes, counts of rows by each column of outcomes, of shape (groups, codes). For a
        number, one array for each release, of shape (groups, statistics): sums of numbers from −1
        to 1; the second has rows by cell of the residual's size, of shape (groups, cells).
    noise : tuple of float arrays
        Standard deviation of each statistic's noise.
    """

    sums: tuple[np.ndarray, ...]
    noise: tuple[np.ndarray, ...]


def release_classes(curator: Curator, plan: EvaluationPlan) -> list[Part]:
    """Release rows by outcome: of the whole table, then of the groups of each feature.

    Privacy
    -------
    Spends the plan's one release. Every row adds `CLIP_STEPS` to one cell of each column of
    outcomes, once for the whole table and once for each feature: `settings.touched` cells.
    """
    curator.publish(Start(class_indicator()))
    event = plan.releases[0].event
    counts = curator.sums(CellSums(plan.map, statistics=COUNT), event)[:, 0] / CLIP_STEPS  # type: ignore[arg-type]
    sizes = plan.outcomes.sizes(plan.model)
    noise = _deviations(event)
    found = [
        sums.reshape(-1, sizes[number % len(sizes)])
        for number, sums in enumerate(plan.map.split(counts))
    ]
    columns = len(sizes)
    return [
        Part(tuple(found[at : at + columns]), (noise,) * columns)
        for at in range(0, len(found), columns)
    ]


def release_number(curator: Curator, plan: EvaluationPlan) -> tuple[list[Part], Clip]:
    """Release sums of residuals and labels: of the whole table, then of each feature's groups.

    Rows are counted by the size of their residual first. These noisy counts choose the clips of
    residuals and labels in the sums, unless the plan has a clip.

    Privacy
    -------
    Spends the plan's releases, once each, whatever the clip. A row adds at most `CLIP_STEPS` of
    each statistic to one cell of the whole table, and to one of each feature.
    """
    events = [planned.event for planned in plan.releases]
    noise = [_deviations(event) for event in events]
    released: list[np.ndarray] = []

    def release(query: CellSums) -> None:
        released.append(curator.sums(query, events[len(released)]) / CLIP_STEPS)  # type: ignore[arg-type]

    curator.publish(Start(table_of(np.zeros(NUMBER_CODES), np.zeros(NUMBER_CODES))))
    release(CellSums(plan.map, statistics=COUNT))
    release(CellSums(plan.residual_map, statistics=COUNT))
    of_all = released[1][:RESIDUAL_CELLS, 0]
    clip = _clip(plan, of_all, float(released[0][0, 0]), (float(noise[1][0]), float(noise[2][1])))
    _use_column(curator, 0)
    reach = plan.outcomes.reach  # type: ignore[union-attr]
    residuals = np.clip(middles_of_codes() * (reach / clip.residual), -1, 1)
    labels = np.clip(middles_of_codes() * (label_reach(plan.model) / clip.label), -1, 1)
    both = CellSums(plan.map, 0, GRADIENT_HESSIAN)
    curator.publish(UseLoss(table_of(residuals, residuals**2)))
    release(both)
    curator.publish(UseLoss(table_of(np.abs(residuals), residuals**4)))
    release(both)
    curator.publish(Start(table_of(labels, labels**2)))
    _use_column(curator, 1)
    release(both)
    split = [plan.map.split(sums) for sums in released]
    split[1] = [
        sums.reshape(-1, RESIDUAL_CELLS) for sums in plan.residual_map.split(released[1][:, 0])
    ]
    return [Part(tuple(sums), tuple(noise)) for sums in zip(*split, strict=True)], clip


def _clip(
    plan: EvaluationPlan, counts: np.ndarray, rows: float, noise: tuple[float, float]
) -> Clip:
    """Return the clip of the plan, or one that noisy counts of all rows choose."""
    reach, model = plan.outcomes.reach, plan.model  # type: ignore[union-attr]
    _, half = model.middle_and_half_of_labels
    given = half if plan.settings.clip is None else plan.settings.clip
    cell = RESIDUAL_CELLS - 1 + math.ceil(math.log2(given / reach) - 1e-9)
    cell = min(max(cell, 0), RESIDUAL_CELLS - 1)
    if plan.settings.clip is None:
        cell = choose_clip(counts, rows, *noise, cell)
    low, high = model.domain.target.bounds  # type: ignore[union-attr]
    return Clip.at(cell, reach, half, label_reach(model), high - low)


ExactSums = tuple[dict[str, tuple[int, int]], int]
"""Signed and unsigned sum of each quantity, and the number of rows."""


def release_exactly(curator: Curator, plan: EvaluationPlan) -> list[list[ExactSums]]:
    """Return exact sums of public rows: of the whole table, then of each feature's groups.

    Privacy
    -------
    None: it needs the exact event of public rows, which only their curator makes.
    """
    event: Any = plan.releases[0].event
    digits = np.arange(STEPS)
    table = LossTable(_rows_by_label(digits, -digits), _rows_by_label(digits, digits), shift=0)
    curator.publish(Start(table))
    count = curator.sums(CellSums(plan.map, statistics=COUNT), event)[:, 0] // CLIP_STEPS
    sums: dict[str, Any] = {}
    column = 0
    for name, n_digits in QUANTITIES.items():
        total = np.zeros((plan.map.n_cells, 2), dtype=object)  # of any size
        for _ in range(n_digits):
            curator.publish(Start(table))
            _use_column(curator, column, STEPS)
            own = curator.sums(CellSums(plan.map, 0, GRADIENT_HESSIAN), event)
            total = total * STEPS + own.astype(object)
            column += 1
        sums[name] = total
    cells = [
        ({name: (int(total[k, 0]), int(total[k, 1])) for name, total in sums.items()}, int(rows))
        for k, rows in enumerate(count)
    ]
    starts = (*plan.map.first, plan.map.n_cells)
    return [cells[a:b] for a, b in pairwise(starts)]


def _use_column(curator: Curator, column: int, codes: int = NUMBER_CODES) -> None:
    """Look rows up by one of their columns."""
    states = np.arange(codes, dtype=np.int32) - np.int32(codes // 2)
    curator.publish(AddCellValues(CellMap.of_feature(column, np.arange(codes)), states))


def table_of(first: np.ndarray, second: np.ndarray) -> LossTable:
    """Return a table of two statistics by code, at most 1 in size, for rows with a known label."""
    one, other = (np.trunc(values * CLIP_STEPS) for values in (first, second))
    return LossTable(_rows_by_label(one, one), _rows_by_label(other, other), shift=0)


def _rows_by_label(positive: np.ndarray, negative: np.ndarray) -> np.ndarray:
    """Return a loss table by label: rows of both labels, and rows without one."""
    return np.stack([positive, negative, np.zeros_like(positive)]).astype(np.int32)


def _deviations(event: object) -> np.ndarray:
    found: np.ndarray = event.deviations / CLIP_STEPS  # type: ignore[attr-defined]
    return found
