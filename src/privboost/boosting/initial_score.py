"""Where boosting begins: the rows' mean, released, or zero."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from privboost.boosting.newton import NewtonPlan
from privboost.engine.queries import GRADIENT_COUNT, TreeSums
from privboost.engine.updates import AddTreeValues, Start
from privboost.grid import SCORE_STEPS
from privboost.losses import loss_of
from privboost.models.trees import MarginScores, TreeScores
from privboost.privacy.curator import Curator
from privboost.privacy.events.sums import GaussianRelease, LaplaceRelease
from privboost.trees.tree import stump

INIT_SHARES = (0.75, 0.25)
"""How the initial score's release is shared between the sum of labels and the count."""

_WHAT = "labels and their count, for the initial score"


def initial_release(
    kind: type[GaussianRelease] | type[LaplaceRelease],
    noise: float,
    bound: Mapping[str, Any],
    shares: tuple[float, float] = INIT_SHARES,
) -> GaussianRelease | LaplaceRelease:
    """Return the release of one output's initial score; `bound` is that of a `Draft`."""
    return kind(_WHAT, noise, cells=1, shares=shares, **bound)


def start_boosting(curator: Curator, plan: NewtonPlan, clip: float | None = None) -> TreeScores:
    """Release the initial score of each output and tell the rows; return a model of it alone.

    Parameters
    ----------
    clip : float, optional
        What labels are clipped to; by default to what they can be at most. The sum is told in
        parts of it, so that one row's label is at most one clip whatever it is.

    Privacy
    -------
    Spends `plan.init` once for each output.
    """
    outputs, loss = range(plan.task.n_outputs), loss_of(plan.task.target, plan.task.loss)
    start = np.zeros(len(outputs), dtype=np.int32)
    if plan.init is not None:
        assert loss.start is not None
        clip = loss.start_clip if clip is None else clip
        curator.publish(Start(loss.table(clip, 1.0), len(outputs)))
        release = curator.gaussian if isinstance(plan.init, GaussianRelease) else curator.laplace
        for output in outputs:
            query = TreeSums((stump(),), output, GRADIENT_COUNT)
            total, count = release(query, plan.init)[0, 0]  # type: ignore[arg-type]
            mean = total / max(count, plan.contribution.row_steps)
            score = loss.start(mean * (clip / loss.start_clip))
            start[output] = int(np.rint(score * SCORE_STEPS))
    curator.publish(Start(plan.loss, len(outputs)))
    for output in outputs:
        curator.publish(AddTreeValues((stump(),), start[output].reshape(1, 1), output))
    kind = MarginScores if loss.target == "classes" and not loss.log_odds else TreeScores
    return kind.of(start, plan.encoder.layout.n_codes)
