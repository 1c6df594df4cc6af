"""Where boosting begins: the rows' mean, released, or zero."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import logit

from privboost.boosting.plan import NewtonPlan
from privboost.engine.commands import GRADIENT_COUNT, AddTreeValues, Start, TreeSums
from privboost.engine.tree import stump
from privboost.grid import SCORE_UNITS
from privboost.losses import LOSSES
from privboost.models.trees import TreeScores
from privboost.privacy.mechanisms import Curator
from privboost.privacy.sum_events import GaussianRelease

_LEAST_MEAN = 0.01
"""A mean of labels is kept this far from 0 and 1 before its logit is taken."""


def start_boosting(curator: Curator, plan: NewtonPlan) -> TreeScores:
    """Release the initial score of each output and tell the rows; return a model of it alone.

    Privacy
    -------
    Spends `plan.init` once for each output.
    """
    outputs = range(plan.task.n_outputs)
    start = np.zeros(len(outputs), dtype=np.int32)
    if plan.init is not None:
        # At a score of 0 a gradient is ½ − y, or minus the scaled number.
        curator.publish(Start(_initial_loss(plan), len(outputs)))
        release = curator.gaussian if isinstance(plan.init, GaussianRelease) else curator.laplace
        for output in outputs:
            query = TreeSums((stump(),), output, GRADIENT_COUNT)
            total, count = release(query, plan.init)[0, 0]  # type: ignore[arg-type]
            start[output] = _initial_score(plan, total / max(count, plan.contribution.row_units))
    curator.publish(Start(plan.loss, len(outputs)))
    for output in outputs:
        curator.publish(AddTreeValues((stump(),), start[output].reshape(1, 1), output))
    return TreeScores.of(start, plan.encoder.layout.n_codes)


def _initial_loss(plan: NewtonPlan) -> Any:
    return LOSSES[plan.task.loss](0.5 if plan.task.loss == "logistic" else 1.0, 1.0)


def _initial_score(plan: NewtonPlan, gradient_units: float) -> int:
    """Turn the released mean gradient, in units of its clip, into a score on the grid."""
    if plan.task.loss == "logistic":
        mean = np.clip((1 - gradient_units) / 2, _LEAST_MEAN, 1 - _LEAST_MEAN)
        score = logit(mean)
    else:
        score = np.clip(-gradient_units, -1, 1)
    return int(np.rint(score * SCORE_UNITS))
