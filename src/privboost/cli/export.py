"""Models for other programs, on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privboost.cli.files import check_files
from privboost.cli.options import AsJson, Force, ModelFile
from privboost.cli.printing import print_written


def export(
    model: ModelFile,
    out: Annotated[Path, typer.Argument(help="A file that ends in .onnx or .sql.")],
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Write a model for other programs: an ONNX graph or a SELECT."""
    from privboost.export.export import check_suffix, export_model
    from privboost.models.files import load_model

    check_suffix(out)
    check_files((model,), [out], [out] if force else ())
    export_model(load_model(model), out)
    print_written(out, f"{model} for other programs", as_json)
