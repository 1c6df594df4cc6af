"""How far exports are from the models they were made of, and how large they are.

`python -m bench.export [data set …]` trains on the first rows of each data set, exports, and runs
what was written on the same rows.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import numpy as np
import onnxruntime
import pandas as pd
import pyarrow as pa

import privboost
from bench.data import load, names
from privboost import Domain, export_model
from privboost.data.targets import ClassTarget
from privboost.export.formula import missing_text
from privboost.models.model import Model
from privboost.recipes import RECIPES

ROWS = 20_000
TOO_MANY = {("diabetes130us", "adassp"), ("bioresponse", "adassp")}
"""What would need more coordinates than a linear model can have."""
FEW_ROWS = 300
"""The rows of a query."""


def main() -> None:
    print("| data | recipe | model kB | onnx kB | sql kB | onnx | s | sql | s |")
    for name in sys.argv[1:] or names():
        frame, domain = load(name)
        frame = frame.sample(min(ROWS, len(frame)), random_state=0, ignore_index=True)
        for recipe in RECIPES.values():
            task = "classes" if isinstance(domain.target, ClassTarget) else "number"
            if task in recipe.estimators and (name, recipe.name) not in TOO_MANY:
                print(_line(name, recipe.name, recipe.estimators[task], frame, domain), flush=True)


def _line(data: str, recipe: str, estimator: str, frame: pd.DataFrame, domain: Domain) -> str:
    model = getattr(privboost, estimator)(1.0, domain=domain, random_state=1).fit(frame).model_
    with TemporaryDirectory() as folder:
        paths = {kind: Path(folder) / f"m.{kind}" for kind in ("model", "onnx", "sql")}
        for kind, path in paths.items():
            model.save(path) if kind == "model" else export_model(model, path)
        sizes = [f"{path.stat().st_size / 1000:.0f}" for path in paths.values()]
        began = time.perf_counter()
        errors = [_onnx_error(model, frame, paths["onnx"])]
        errors += [f"{time.perf_counter() - began:.2f}"]
        began = time.perf_counter()
        errors += [_sql_error(model, frame, paths["sql"])]
        errors += [f"{time.perf_counter() - began:.2f}"]
    return f"| {' | '.join([data, recipe, *sizes, *errors])} |"


def _said(model: Model, frame: pd.DataFrame) -> np.ndarray:
    """Return what is compared: probabilities, or else scores, or a predicted number."""
    if model.has_probabilities:
        return model.predict_proba(frame)
    classes = isinstance(model.domain.target, ClassTarget)
    return model.decision_function(frame) if classes else model.predict(frame)


def _onnx_error(model: Model, frame: pd.DataFrame, path: Path) -> str:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options)
    declared = {feature.name: feature for feature in model.domain.features}
    given = {}
    for column in session.get_inputs():
        own = frame[column.name]
        if column.type == "tensor(string)":
            values = own.astype(object).where(own.notna(), missing_text(declared[column.name]))
            given[column.name] = values.map(str).to_numpy(dtype=object).reshape(-1, 1)
        else:
            numbers = own if own.dtype.kind in "fiub" else pd.to_numeric(own, errors="coerce")
            given[column.name] = numbers.to_numpy(dtype=np.float64).reshape(-1, 1)
    found = dict(
        zip([own.name for own in session.get_outputs()], session.run(None, given), strict=True)
    )
    said = found.get("probabilities", found.get("scores", found["prediction"]))
    return f"{np.abs(said - _said(model, frame)).max():.1e}"


def _sql_error(model: Model, frame: pd.DataFrame, path: Path) -> str:
    few = frame[:FEW_ROWS]
    keyed = few.assign(**{"place of a row": range(len(few))})  # they may come in any order
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        connection.register("rows", pa.Table.from_pandas(keyed, preserve_index=False))
        found = connection.sql(path.read_text(encoding="utf-8")).df()
    found = found.sort_values("place of a row").iloc[:, len(keyed.columns) :]
    known = _said(model, few)
    classes = isinstance(model.domain.target, ClassTarget)
    word = (
        "probability of"
        if model.has_probabilities
        else "privboost score"
        if classes
        else "prediction"
    )
    chosen = [name for name in found if name.startswith(word)]
    return f"{np.abs(found[chosen].to_numpy().reshape(known.shape) - known).max():.1e}"


if __name__ == "__main__":
    main()
