"""Initial score of boosting: the released mean label, or zero."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from privboost.boosting.newton import NewtonPlan, grid_step
from privboost.boosting.plan import Plan
from privboost.engine.queries import GRADIENT_COUNT, TreeSums
from privboost.engine.updates import AddTreeValues, Start
from privboost.grid import SCORE_STEPS
from privboost.losses import LossTable, loss_of
from privboost.models.told_rows import pool_counts
from privboost.models.trees import MarginScores, TreeScores
from privboost.privacy.curator import Curator
from privboost.privacy.events.sums import GaussianRelease, LaplaceRelease
from privboost.trees.tree import stump

INIT_SHARES = (0.75, 0.25)
"""Shares of the sum of labels and of the count in the release of the initial score."""

_WHAT = "labels and their count, for the initial score"


def initial_release(
    kind: type[GaussianRelease] | type[LaplaceRelease],
    noise: float,
    bound: Mapping[str, Any],
    shares: tuple[float, float] = INIT_SHARES,
) -> GaussianRelease | LaplaceRelease:
    """Return the release of one output's initial score; `bound` is `Draft.bound`."""
    return kind(_WHAT, noise, cells=1, shares=shares, **bound)


def start_boosting(curator: Curator, plan: NewtonPlan, clip: float | None = None) -> TreeScores:
    """Release the initial score of each output and publish it; return a model of it alone.

    Privacy
    -------
    Spends `plan.init` once for each output; see `release_start` for the clip.
    """
    loss = loss_of(plan.task.target, plan.task.loss)
    start, rows = np.zeros(plan.task.n_outputs, dtype=np.int32), None
    if plan.init is not None:
        start, counts = release_start(curator, plan, plan.init, clip)
        rows = count_rows(plan, plan.init, counts)
    publish_start(curator, plan.loss, start)
    kind = MarginScores if loss.target == "classes" and not loss.log_odds else TreeScores
    return kind.of(start, plan.encoder.layout.n_codes, rows)


def release_start(
    curator: Curator,
    plan: Plan,
    init: GaussianRelease | LaplaceRelease,
    clip: float | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Release the mean label and the number of rows of each output.

    Parameters
    ----------
    init : GaussianRelease or LaplaceRelease
        Reserved release.
    clip : float, optional
        Bound of labels; by default the largest label. The sum is released in parts of it, so that
        one row adds at most one clip.

    Returns
    -------
    int32 array
        Initial scores, on the score grid.
    int64 array
        Noisy counts, in grid steps.

    Privacy
    -------
    Spends `init` once for each output.
    """
    outputs, loss = range(plan.task.n_outputs), loss_of(plan.task.target, plan.task.loss)
    clip = loss.start_clip if clip is None else clip
    curator.publish(Start(loss.table(clip, 1.0), len(outputs)))
    start = np.zeros(len(outputs), dtype=np.int32)
    counts = np.zeros(len(outputs), dtype=np.int64)
    for output in outputs:
        query = TreeSums((stump(),), output, GRADIENT_COUNT)
        total, counts[output] = curator.sums(query, init)[0, 0]
        mean = total / max(counts[output], plan.contribution.row_steps)
        score = loss.start(mean * (clip / loss.start_clip))
        start[output] = int(np.rint(score * SCORE_STEPS))
    return start, counts


def count_rows(
    plan: Plan, init: GaussianRelease | LaplaceRelease, counts: np.ndarray
) -> np.ndarray:
    """Return the noisy count of rows, and its deviation, in rows of the largest weight."""
    step = grid_step(None if plan.weight_bound is None else 1.0)
    return pool_counts(counts * step, float(init.deviations[1]) * step)


def publish_start(curator: Curator, loss: LossTable, start: np.ndarray) -> None:
    """Publish the loss of training and the initial scores."""
    curator.publish(Start(loss, len(start)))
    for output, score in enumerate(start):
        curator.publish(AddTreeValues((stump(),), score.reshape(1, 1), output))
