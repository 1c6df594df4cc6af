"""Predictions for rows that lie with a cluster: they are made, and stay, where the rows are."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from privboost.clusters.recognition import is_remote, map_rows

_Options = ParamSpec("_Options")
_Method = Callable[Concatenate[Any, Any, _Options], Any]


def where_rows_lie(method: _Method[_Options]) -> _Method[_Options]:
    """Have a model's method take a cluster's frame, too: part by part, when somebody asks."""

    @wraps(method)
    def predict(model: Any, data: Any, *args: _Options.args, **options: _Options.kwargs) -> Any:
        if not is_remote(data):
            return method(model, data, *args, **options)
        if any(args) or any(options.values()):
            raise ValueError("return_std: standard errors of a cluster's rows are not computed")
        return map_rows(model, method.__name__, data)

    return predict
