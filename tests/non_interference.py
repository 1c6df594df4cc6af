"""Everything that a caller can reach after a run, to compare it between two tables.

Shards code rows and follow updates as usual, but answer every query with zeros. Noise comes from a
fixed seed. Then no released value depends on the rows, so *nothing* that a caller can reach may.
Searching for planted values cannot find a cache that is filled or not; this does.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import pickle
import types
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from sklearn.base import BaseEstimator

from privboost.evaluation.model_card import model_card
from privboost.export.export import export_model
from privboost.models.model import model_bytes
from tests.tables import CLASSES, make_frame

ROWS_IN_MEMORY = {"_stream", "_training"}
"""What a stream's estimator keeps while it lives: the rows themselves. No copy has it."""


def silence(patch, *kinds):
    """Have shards or backends of these classes answer as usual, and tell zeros instead."""

    def hushed(answer):
        return lambda self, query: np.zeros_like(answer(self, query))

    def told(tally):
        return lambda self: (tally(self), {})[1]

    for kind in kinds:
        patch.setattr(kind, "sum", hushed(kind.sum))
        if hasattr(kind, "tally"):  # cards learn no domain
            patch.setattr(kind, "tally", told(kind.tally))


def _types_of_frame(frame):
    """The same columns for every library: doubles and texts, which may be null."""
    return {
        name: pa.array(frame[name].tolist(), pa.float64(), from_pandas=False)
        if frame[name].dtype.kind == "f"
        else pa.array(frame[name].tolist(), pa.string(), from_pandas=True)
        for name in frame
    }


def make_tables(folder, target=CLASSES, rows=400, long=40_000):
    """Tables with the same public facts, and nothing else in common; some are files."""
    frame = make_frame(rows, target=target)
    numbers = [name for name in frame if frame[name].dtype.kind == "f"]
    plain, empty, strange = frame.copy(), frame.copy(), frame.copy()
    plain[numbers] = plain[numbers].fillna(1.0)
    for name in frame:
        empty[name] = np.nan if name in numbers else None
        empty[name] = empty[name].astype(frame[name].dtype)
        strange[name] = -1e300 if name in numbers else "no such thing"
    columns = _types_of_frame(frame)
    null = {
        name: pa.array([None, *column.to_pylist()[1:]], column.type)
        for name, column in columns.items()
    }
    plain.to_csv(folder / "plain.csv", index=False)
    empty.to_csv(folder / "empty.csv", index=False)
    frame.to_parquet(folder / "frame.parquet")
    return {
        "plain": plain,
        "with NaN": frame,
        "without rows": frame.iloc[:0],
        "one row": plain.iloc[:1],
        "all missing": empty,
        "unseen": strange.astype(frame.dtypes),
        "other rows": make_frame(rows, seed=3, target=target),
        "long": make_frame(long, seed=1, target=target),
        "polars": pl.DataFrame(pa.table(columns)),
        "arrow": pa.table(columns),
        "arrow with nulls": pa.table(null),
        "csv": folder / "plain.csv",
        "csv, all missing": folder / "empty.csv",
        "parquet": folder / "frame.parquet",
    }


def traces(run, folder: Path, exports=(".sql", ".onnx")):
    """Return all that a run leaves behind, by name: hashes of texts, of bytes, of object graphs.

    Parameters
    ----------
    run : callable
        Trains or evaluates, and returns what its caller is left with.
    folder : Path
        For files.
    """
    screen = io.StringIO()
    hears = warnings.catch_warnings(record=True)
    with redirect_stdout(screen), redirect_stderr(screen), hears as warned:
        warnings.simplefilter("always")
        left = run()
    found = {
        "screen": screen.getvalue(),
        "warnings": [(each.category.__name__, str(each.message)) for each in warned],
        "pickle": pickle.dumps(left),
    }
    joblib.dump(left, folder / "left.joblib")
    found["joblib"] = (folder / "left.joblib").read_bytes()
    found["attributes"] = walk(left)
    found["unpickled"] = walk(pickle.loads(found["pickle"]))
    for number, each in enumerate(left if isinstance(left, tuple) else (left,)):
        if isinstance(each, BaseEstimator) and hasattr(each, "model_"):
            found |= {
                f"{number}: {name}": trace
                for name, trace in _of_model(each, folder, exports).items()
            }
    return {name: _hash(trace) for name, trace in found.items()}


def _of_model(estimator, folder, exports):
    model, report = estimator.model_, estimator.privacy_
    public = make_frame(30, seed=9)
    found = {
        "file": model_bytes(model),
        "report": str(report) + report.to_json(),
        "repr": repr(estimator) + repr(model),
        "findings": walk(model.findings()),
        "predictions": walk(model.decision_function(public)),
    }
    if exports:
        explanation = model.explain_global()
        found["card"] = str(model_card(model).to_html())
        found["explanation"] = str(explanation) + explanation.to_json()
        found["local"] = walk(model.explain_local(public))
    for ending in exports:
        export_model(model, folder / f"model{ending}")
        found[ending] = (folder / f"model{ending}").read_bytes()
    # Explaining and predicting are of public rows here, and fill caches: the same ones each time.
    return found | {"attributes after": walk(model)}


def _hash(trace):
    text = trace if isinstance(trace, bytes) else json.dumps(trace, default=str).encode()
    return hashlib.sha256(text).hexdigest()[:16] + f" of {len(text)} bytes"


def walk(value, above=()):
    """Write an object with all that hangs on it, caches included, as nested lists."""
    if isinstance(value, bool | int | float | complex | str | bytes | type(None) | np.generic):
        return [type(value).__name__, repr(value)]
    if isinstance(value, type | types.FunctionType | types.BuiltinFunctionType | types.ModuleType):
        return [type(value).__name__, getattr(value, "__qualname__", value.__name__)]
    if any(value is each for each in above):
        return ["above"]
    above = (*above, value)
    if isinstance(value, np.ndarray):
        held = walk(value.tolist(), above) if value.dtype.hasobject else value.tobytes().hex()
        return [value.dtype.str, list(value.shape), held]
    if isinstance(value, dict | types.MappingProxyType):
        return ["dict", *([walk(key, above), walk(own, above)] for key, own in value.items())]
    if isinstance(value, list | tuple):
        return [type(value).__qualname__, *(walk(each, above) for each in value)]
    if isinstance(value, set | frozenset):
        return [type(value).__name__, *sorted(map(repr, value))]
    if isinstance(value, functools.partial):
        return ["partial", walk((value.func, value.args, value.keywords), above)]
    if isinstance(value, types.MethodType):
        return ["method", value.__func__.__qualname__, walk(value.__self__, above)]
    if isinstance(value, pa.Table | pa.Array | pa.ChunkedArray):
        return [
            type(value).__name__,
            str(value.type if hasattr(value, "type") else value.schema),
            walk(value.to_pylist(), above),
        ]
    if isinstance(value, pd.DataFrame | Path):
        return [type(value).__name__, str(value)]
    own = {
        name: each
        for name, each in getattr(value, "__dict__", {}).items()
        if name not in ROWS_IN_MEMORY
    }
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    own |= {name: getattr(value, name) for name in slots if hasattr(value, name)}
    return [f"{type(value).__module__}.{type(value).__qualname__}", walk(own, above)]


def check(run, tables, folder, **how):
    """Run with each table; all of them must leave the same behind."""
    found = {
        which: traces(functools.partial(run, own), folder, **how) for which, own in tables.items()
    }
    expected = next(iter(found.values()))
    told = {which: differences(expected, own) for which, own in found.items()}
    assert {which: own for which, own in told.items() if own} == {}


def differences(one, other):
    """Return the names of what differs between two runs' traces."""
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
