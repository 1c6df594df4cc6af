"""What `predict` says of rows, a part of the table after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from privboost.models.model import Model
from privboost.tables.features import ClassTarget
from privboost.tables.sources import need_columns

_ROWS = 2**17
"""How many rows are looked at in one go."""


def predict_parts(model: Model, table: Any, keep: Sequence[str], std: bool) -> Iterator[pa.Table]:
    """Yield columns that are kept, and what the model says; the first part has no rows.

    Parameters
    ----------
    model : Model
        Who predicts.
    table : table
        The rows.
    keep : sequence of str
        Columns of the table that come first, as they are.
    std : bool
        Whether to add the standard errors that noise gives.
    """
    features = model.domain.feature_names
    need_columns(table, (*features, *keep))
    for batch in table.batches(tuple(dict.fromkeys((*features, *keep))), _ROWS):
        rows = pa.table({name: batch[name] for name in features})
        said = prediction_columns(model, rows) | (error_columns(model, rows) if std else {})
        if taken := [name for name in keep if name in said]:
            raise ValueError(f"--keep {taken[0]}: what is predicted has this name")
        yield pa.table({name: batch[name] for name in keep} | said)


def prediction_columns(model: Model, table: Any) -> dict[str, np.ndarray]:
    """Return the prediction and, for classes, probabilities or else scores."""
    scores = model.decision_function(table)
    own = {"prediction": model.prediction_of(scores)}
    if model.has_chances:
        return own | _by_class("probability of", model, model.chances_of(scores))
    if not isinstance(model.domain.target, ClassTarget):
        return own
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
