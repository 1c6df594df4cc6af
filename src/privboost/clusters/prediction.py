"""Predictions for frames of a cluster, computed by its workers."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from privboost.clusters.recognition import is_remote, map_rows


def where_rows_lie(method: Callable[[Any, Any, bool, int | None], Any]) -> Callable[..., Any]:
    """Let a model's method accept a cluster's frame too: lazily, partition by partition."""

    @wraps(method)
    def predict(model: Any, data: Any, return_std: bool = False, n_jobs: int | None = None) -> Any:
        if not is_remote(data):
            return method(model, data, return_std, n_jobs)
        if return_std:
            raise ValueError(
                "return_std: standard errors are not available for frames of a cluster"
            )
        return map_rows(model, method.__name__, data)

    return predict
