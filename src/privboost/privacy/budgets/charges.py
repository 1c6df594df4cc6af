"""Individual accounting: the cost of each row's own contribution to a release.

A release is charged to a row by the row's own share of the sensitivity,
s = share_g·(g/g*)² + share_h·(h/h*)², instead of the worst case 1. A row takes part in a round
only if its charges so far and the one about to be made stay within its budget; then the whole run
satisfies the budget for every row, however many rounds there are. Every active row is charged in
each round, whether or not it was sampled. Charges are tables on the row's state like gradients,
rounded up; shards evaluate them, and the set of active rows never leaves a shard.
"""

from __future__ import annotations

import numpy as np

from privboost.grid import BUDGET_STEPS, CLIP_STEPS, WEIGHT_CLASSES
from privboost.losses import LossTable
from privboost.privacy.budgets.life import LifeBudget
from privboost.privacy.events.sums import GaussianRelease


def charge_table(
    budget: LifeBudget,
    event: GaussianRelease,
    loss: LossTable,
    statistics: tuple[str, ...],
    weighted: bool,
) -> np.ndarray:
    """Return the cost of a release for each kind of row, as a fraction of a budget.

    Returns
    -------
    int32 array of shape (weight classes + 1, or 1; 3; size)
        In steps of `BUDGET_STEPS` a budget, rounded up.
    """
    if not budget.admits(event):
        raise ValueError(f"{event.what}: not a release that this budget covers")
    return _in_steps(budget.part(event, _shares(loss, event, statistics, weighted)))


def _shares(
    loss: LossTable, event: GaussianRelease, statistics: tuple[str, ...], weighted: bool
) -> np.ndarray:
    """Return the share of the squared sensitivity by weight class, kind of row and state."""
    parts = zip(event.shares, statistics, strict=True)
    share = sum(part * (loss.statistic(name) / CLIP_STEPS) ** 2 for part, name in parts)
    weight = np.arange(WEIGHT_CLASSES + 1) / WEIGHT_CLASSES if weighted else np.ones(1)
    return np.minimum(weight[:, None, None] ** 2 * share * (1 + 1e-12), 1.0)


def _in_steps(part: np.ndarray) -> np.ndarray:
    """Round fractions of a budget up to steps; those above 1 are never affordable."""
    steps = np.ceil(np.minimum(part, 1.5) * BUDGET_STEPS * (1 + 1e-12))
    return np.where(part > 0, np.maximum(steps, 1), 0).astype(np.int32)
