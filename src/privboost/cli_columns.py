"""What `predict` says of rows, as columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from privboost.models.model import Model
from privboost.tables.features import ClassTarget


def prediction_columns(model: Model, table: Any) -> dict[str, np.ndarray]:
    """Return the prediction and, for classes, probabilities or else scores."""
    own = {"prediction": model.predict(table)}
    if model.has_chances:
        return own | _by_class("probability of", model, model.predict_proba(table))
    if not isinstance(model.domain.target, ClassTarget):
        return own
    scores = model.decision_function(table)
    return own | ({"score": scores} if scores.ndim == 1 else _by_class("score of", model, scores))


def error_columns(model: Model, table: Any) -> dict[str, np.ndarray]:
    """Return the standard errors of probabilities, or of predictions where there are none.

    Raises
    ------
    ValueError
        If the model holds none.
    """
    if not model.has_errors:
        raise ValueError("--std: models of this recipe hold no standard errors; PrivBoost's do")
    if model.has_chances:
        return _by_class("std of", model, model.predict_proba(table, return_std=True)[1])
    return {"std of prediction": model.predict(table, return_std=True)[1]}


def _by_class(what: str, model: Model, values: np.ndarray) -> dict[str, np.ndarray]:
    return {f"{what} {label}": own for label, own in zip(model.classes, values.T, strict=True)}
