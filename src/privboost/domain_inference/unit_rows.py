"""Private inference of how many rows of a unit are used: units by number of rows, with noise.

A unit lies in one cell of the histogram, whatever rows it has. The loader keeps one row of each
unit, coded by the number of the unit's rows.
"""

from __future__ import annotations

import numpy as np

from privboost._core.grid import CLIP_STEPS, WEIGHT_STEPS
from privboost.accounting.noisy_sums import GaussianRelease, LaplaceRelease
from privboost.data.contribution_bound import LEAST_ROWS
from privboost.engine.queries import COUNT, CellSums
from privboost.mechanisms.curator import Curator
from privboost.trees.cell_map import CellMap

_TOLERANCE = 0.05
"""Part by which the variance of a mean may exceed that with all rows."""


def plan_unit_rows(pure: bool) -> GaussianRelease | LaplaceRelease:
    """Return the release of the histogram; Laplace noise under pure DP."""
    kind = LaplaceRelease if pure else GaussianRelease
    return kind("units by number of rows", 1.0, CLIP_STEPS, 1, 1, (1.0,))


def learn_max_rows(curator: Curator, event: GaussianRelease | LaplaceRelease) -> int:
    """Release units by number of rows, and choose `max_rows` for units that weigh one.

    Privacy
    -------
    Spends `event`; the choice is post-processing.
    """
    cells = CellMap.of_feature(0, np.arange(len(LEAST_ROWS)))
    counts = curator.sums(CellSums(cells, statistics=COUNT), event)
    return choose_max_rows(counts[:, 0] / CLIP_STEPS)


def choose_max_rows(counts: np.ndarray) -> int:
    """Return the fewest rows of a unit that tell nearly as much as all of them.

    `counts` are noisy numbers of units, by the cells of `LEAST_ROWS`. Units that weigh one have the
    same weight and the same noise whatever `max_rows` is; what more rows lower is the variance of a
    unit's mean, 1/min(n, max_rows) for n rows that vary independently. The choice is the smallest
    number at which the sum over units exceeds its minimum by 5 % at most.
    """
    units, least = np.maximum(counts, 0.0), np.array(LEAST_ROWS, dtype=np.float64)
    most = [*(rows - 1 for rows in LEAST_ROWS[1:-1]), WEIGHT_STEPS]
    variances = [float((units / np.minimum(least, rows)).sum()) for rows in most]
    enough = (1 + _TOLERANCE) * variances[-1]
    return next(rows for rows, own in zip(most, variances, strict=True) if own <= enough)
