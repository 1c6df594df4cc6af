"""The initial score of each output: that of the mean label, from a release before all rounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from privboost._core.grid import SCORE_STEPS
from privboost.accounting.noisy_sums import NoisySums
from privboost.engine.queries import GRADIENT_COUNT, TreeSums
from privboost.engine.updates import AddTreeValues, Start
from privboost.losses.base import LossTable, loss_of
from privboost.mechanisms.curator import Curator
from privboost.models.scores import pool_counts
from privboost.recipes.common.plan import Plan
from privboost.trees.tree import stump

INIT_SHARES = (0.75, 0.25)
"""Shares of the sum of gradients and of the count in the release of the initial score."""


def initial_release(
    kind: type[NoisySums],
    noise: float,
    bound: Mapping[str, Any],
    shares: tuple[float, float] = INIT_SHARES,
) -> NoisySums:
    """Return the release of one output's initial score; `bound` is `PlanBasis.bound`."""
    what = "labels and their count, for the initial score"
    return kind(what, noise, cells=1, shares=shares, **bound)


def release_initial_scores(
    curator: Curator,
    plan: Plan,
    release: NoisySums,
    clip: float | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Release the mean gradient at a score of 0, from which the initial score follows.

    Returned are each output's initial score, in score steps, and noisy count of rows, in grid
    steps. Gradients are clipped to `clip`, so that one row adds at most one clip; by default it is
    the largest gradient at a score of 0. That of a number is minus its label.

    Privacy
    -------
    Spends `release` once for each output.
    """
    outputs, loss = range(plan.task.n_outputs), loss_of(plan.task.target, plan.task.loss)
    clip = loss.label_clip if clip is None else clip
    curator.publish(Start(loss.table(clip, 1.0), len(outputs)))
    scores = np.zeros(len(outputs), dtype=np.int32)
    counts = np.zeros(len(outputs), dtype=np.int64)
    for output in outputs:
        query = TreeSums((stump(),), output, GRADIENT_COUNT)
        total, counts[output] = curator.sums(query, release)[0, 0]
        mean_gradient = total / max(counts[output], plan.contribution.row_steps)
        score = loss.initial_score(mean_gradient * (clip / loss.label_clip))
        scores[output] = int(np.rint(score * SCORE_STEPS))
    return scores, counts


def noisy_row_count(plan: Plan, release: NoisySums, counts: np.ndarray) -> np.ndarray:
    """Return the noisy count of rows, and its deviation, in rows of the largest weight."""
    return pool_counts(counts * plan.count_step, float(release.deviations[1]) * plan.count_step)


def publish_initial_scores(curator: Curator, loss: LossTable, scores: np.ndarray) -> None:
    """Publish the loss of training and the initial scores."""
    curator.publish(Start(loss, len(scores)))
    for output, score in enumerate(scores):
        curator.publish(AddTreeValues((stump(),), score.reshape(1, 1), output))
