"""Export of a model for other programs; the suffix of the file selects the format."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from privboost._core.files import write_file
from privboost.models.model import Model

EXPORTS = {".onnx": "privboost.export.onnx", ".sql": "privboost.export.sql"}
"""The module of each format, whose `export` returns a model as the content of a file."""


def export_model(model: Any, path: str | Path) -> None:
    """Write a model in a format that other programs run, with the model's own predictions.

    An export costs no privacy. The file holds the model's values and its guarantee in one sentence;
    the privacy report stays with the model file.

    Parameters
    ----------
    model : Model or fitted estimator
        The model to write.
    path : path
        A file that ends in .onnx (a graph; needs the package onnx) or .sql (a SELECT from a table
        named rows). An existing file is replaced.

    Examples
    --------
    >>> from privboost import export_model, load_model
    >>> export_model(load_model("adult.privboost"), "adult.onnx")     # doctest: +SKIP
    """
    trained = model if isinstance(model, Model) else getattr(model, "model_", None)
    if not isinstance(trained, Model):
        raise TypeError("export_model: a model or a fitted estimator is needed")
    suffix = Path(path).suffix.lower()
    if suffix == ".py":
        raise ValueError(
            f"{path}: Python modules are no longer exported; use .onnx (onnxruntime) or .sql"
        )
    if suffix not in EXPORTS:
        raise ValueError(f"{path}: a file that ends in {' or '.join(EXPORTS)} is needed")
    try:
        export = import_module(EXPORTS[suffix]).export
    except ModuleNotFoundError as error:
        raise ImportError(
            f"the package {error.name} is needed: pip install 'privboost[export]'", name=error.name
        ) from None
    write_file(path, export(trained))
