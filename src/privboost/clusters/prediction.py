"""Predictions for rows that lie with a cluster: they are made, and stay, where the rows are."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from privboost.clusters.recognition import is_remote, map_rows


def where_rows_lie(method: Callable[[Any, Any, bool, int | None], Any]) -> Callable[..., Any]:
    """Have a model's method take a cluster's frame, too: part by part, when somebody asks."""

    @wraps(method)
    def predict(model: Any, data: Any, return_std: bool = False, n_jobs: int | None = None) -> Any:
        if not is_remote(data):
            return method(model, data, return_std, n_jobs)
        if return_std:
            raise ValueError("return_std: standard errors are not told of a cluster's rows")
        return map_rows(model, method.__name__, data)

    return predict
