"""Export of a model for other programs; the suffix of the file selects the format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from privboost._core.files import write_file
from privboost.export.sql import sql_text
from privboost.models.model import Model

SUFFIXES = (".onnx", ".sql")


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
    write_file(path, export_bytes(trained, check_suffix(path)))


def check_suffix(path: str | Path) -> str:
    """Return the suffix of a path; raise ValueError unless it names an export format."""
    suffix = Path(path).suffix.lower()
    if suffix == ".py":
        raise ValueError(
            f"{path}: Python modules are no longer exported; use .onnx (onnxruntime) or .sql"
        )
    if suffix not in SUFFIXES:
        raise ValueError(f"{path}: a file that ends in .onnx or .sql is needed")
    return suffix


def export_bytes(model: Model, suffix: str) -> bytes:
    """Return the content of an export in the format of a suffix."""
    if suffix == ".sql":
        return sql_text(model).encode()
    try:
        from privboost.export.onnx import onnx_model
    except ModuleNotFoundError as error:
        if error.name != "onnx":
            raise
        raise ImportError(
            "the package onnx is needed: pip install 'privboost[export]'", name="onnx"
        ) from None
    content: bytes = onnx_model(model).SerializeToString(deterministic=True)
    return content
