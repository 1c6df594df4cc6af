"""Writes a model for other programs; the name of the file says how."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from privboost.export.python_module import python_text
from privboost.export.sql import sql_text
from privboost.files import write_file
from privboost.models.model import Model

SUFFIXES = (".onnx", ".py", ".sql")


def export_model(model: Any, path: str | Path) -> None:
    """Write a model for other programs to run: its predictions are those of the model.

    Costs no privacy. A file says what the model says, and its guarantee in one sentence; the
    privacy report stays with the model file.

    Parameters
    ----------
    model : Model or fitted estimator
        What to write.
    path : path
        A file that ends in .onnx (a graph; needs the package onnx), .py (a module that needs the
        standard library alone) or .sql (a SELECT from a table named rows). One of that name is
        replaced.

    Examples
    --------
    >>> from privboost import export_model, load_model
    >>> export_model(load_model("adult.privboost"), "adult.onnx")     # doctest: +SKIP
    """
    trained = model if isinstance(model, Model) else getattr(model, "model_", None)
    if not isinstance(trained, Model):
        raise TypeError("export_model: a model, or an estimator that is fitted, is needed")
    write_file(path, model_text(trained, check_suffix(path)))


def check_suffix(path: str | Path) -> str:
    """Return how a name of a file ends, if it says how to write a model."""
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"{path}: a file that ends in .onnx, .py or .sql is needed")
    return suffix


def model_text(model: Model, suffix: str) -> bytes:
    """Return the content of a file that ends so."""
    if suffix == ".py":
        return python_text(model).encode()
    if suffix == ".sql":
        return sql_text(model).encode()
    try:
        from privboost.export.onnx_model import onnx_model
    except ModuleNotFoundError as error:
        if error.name != "onnx":
            raise
        raise ImportError(
            "the package onnx is needed: pip install 'privboost[export]'", name="onnx"
        ) from None
    content: bytes = onnx_model(model).SerializeToString(deterministic=True)
    return content
