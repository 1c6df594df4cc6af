"""An evaluation's questions: exact integers go in, and what the curator tells comes out."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from privboost.engine.queries import COUNT, GRADIENT_HESSIAN, CellSums
from privboost.engine.updates import AddCellValues, Start, UseLoss
from privboost.evaluation.outcomes import STEPS
from privboost.evaluation.plan import EvaluationPlan
from privboost.grid import CLIP_STEPS
from privboost.losses import UNKNOWN, LossTable, class_indicator
from privboost.privacy.curator import Curator
from privboost.trees.cell_map import CellMap


@dataclass(frozen=True, eq=False)
class Part:
    """What was released of the whole table, or of the groups of one feature.

    Attributes
    ----------
    sums : tuple of float arrays
        Of classes, one for each column of outcomes: rows, of shape (groups, codes). Of a number one
        for each release, of shape (groups, statistics): sums of numbers from −1 to 1.
    noise : tuple of float arrays
        The standard deviation of each statistic's noise.
    """

    sums: tuple[np.ndarray, ...]
    noise: tuple[np.ndarray, ...]


def release_classes(curator: Curator, plan: EvaluationPlan) -> list[Part]:
    """Release rows by outcome: of the whole table, then of the groups of each feature.

    Privacy
    -------
    Spends the plan's one release. A row adds `CLIP_STEPS` to one cell of each column of outcomes,
    once for the whole table and once for each feature: `settings.touched` cells, whatever it is.
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


def release_number(curator: Curator, plan: EvaluationPlan) -> list[Part]:
    """Release sums of residuals and labels: of the whole table, then of each feature's groups.

    Privacy
    -------
    Spends the plan's releases, once each. A row adds at most `CLIP_STEPS` of each statistic to one
    cell of the whole table, and to one of each feature.
    """
    curator.publish(Start(moments(), n_outputs=2))
    for column in range(2):  # a row's states are its residual and its label
        code = CellMap.of_feature(column, np.arange(STEPS))
        states = np.arange(STEPS, dtype=np.int32) - np.int32(STEPS // 2)
        curator.publish(AddCellValues(code, states, column))
    count = CellSums(plan.map, statistics=COUNT)
    residuals = CellSums(plan.map, 0, GRADIENT_HESSIAN)
    asked = (
        (moments(), count),
        (moments(), residuals),
        (higher_moments(), residuals),
        (moments(), replace(residuals, output=1)),
    )
    told, noise = [], []
    for (table, query), planned in zip(asked, plan.releases, strict=True):
        curator.publish(UseLoss(table))
        told.append(curator.sums(query, planned.event) / CLIP_STEPS)  # type: ignore[arg-type]
        noise.append(_deviations(planned.event))
    split = [plan.map.split(sums) for sums in told]
    return [Part(tuple(sums), tuple(noise)) for sums in zip(*split, strict=True)]


def moments() -> LossTable:
    """Return a table of numbers from −1 to 1 and their squares, by step."""
    return _table(_numbers(), _numbers() ** 2)


def higher_moments() -> LossTable:
    """Return a table of their sizes and fourth powers."""
    return _table(np.abs(_numbers()), _numbers() ** 4)


def _numbers() -> np.ndarray:
    """The middle of each step between −1 and 1."""
    middles: np.ndarray = (np.arange(STEPS) + 0.5) / (STEPS / 2) - 1
    return middles


def _table(first: np.ndarray, second: np.ndarray) -> LossTable:
    """Tabulate two statistics that rows of any known label add: at most 1 in size."""
    one, other = (
        np.stack([np.trunc(values * CLIP_STEPS).astype(np.int32)] * 3) for values in (first, second)
    )
    one[UNKNOWN] = other[UNKNOWN] = 0
    return LossTable(one, other, shift=0)


def _deviations(event: object) -> np.ndarray:
    found: np.ndarray = event.deviations / CLIP_STEPS  # type: ignore[attr-defined]
    return found
