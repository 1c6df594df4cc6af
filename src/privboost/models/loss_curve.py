"""The mean loss after each round, of a linear model that keeps its stages, on public rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from privboost.grid import BLOCK_ROWS, SCORE_STEPS
from privboost.losses import UNKNOWN_LABEL, Loss, loss_of
from privboost.models.linear import LinearScores
from privboost.models.model import Model
from privboost.tables.beside import open_source
from privboost.tables.features import ClassTarget
from privboost.tables.rows import states_within


def loss_curve(model: Model, X: Any, y: Any) -> np.ndarray:
    """Return the mean loss on public rows after each round; see the estimator's method."""
    scores, target = model.scores, model.domain.target
    assert isinstance(scores, LinearScores)
    task = "classes" if isinstance(target, ClassTarget) else "number"
    loss = loss_of(task, model.privacy.parameters["loss"])
    table, roles = open_source(replace(model.domain, unit=None), X, y, None)
    total, rows = np.zeros(scores.n_stages), 0
    for batch in table.batches([*model.domain.feature_names, roles.target], BLOCK_ROWS):
        label, start = target.code(batch[roles.target])
        known = label != UNKNOWN_LABEL
        state = 0 if start is None else states_within(start[known], model.span)
        stages = scores.staged_scores(model.encoder.code(batch))
        states = np.stack([stage[:, known] + state for stage in stages]) / SCORE_STEPS
        total += _losses(loss, label[known], states)
        rows += int(known.sum())
    return total / rows if rows else np.full_like(total, np.nan)


def _losses(loss: Loss, label: np.ndarray, states: np.ndarray) -> np.ndarray:
    """Add up the losses of rows, given their states by stage, output and row."""
    other, own = loss.sizes
    outputs = states.shape[1]
    number = np.arange(outputs) if outputs > 1 else np.ones(1)
    each = np.where(number[:, None] == label, own(states), other(states))
    total: np.ndarray = each.sum(axis=(1, 2))
    return total
