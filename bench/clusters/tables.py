"""Tables of random numbers with two classes: here, made in workers, or in Parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd


def domain(columns: int) -> dict[str, Any]:
    """Return what is public about such a table."""
    numbers = {f"x{k}": {"kind": "numeric", "bounds": [0, 1]} for k in range(columns)}
    return {"version": 1, "features": numbers, "target": {"name": "y", "classes": [0, 1]}}


def part(rows: int, columns: int, seed: int = 0) -> pd.DataFrame:
    """Return some rows: the class follows from three of the numbers, and chance."""
    rng = np.random.default_rng(seed)
    numbers = rng.random((columns, rows), dtype=np.float32)
    score = 4 * (numbers[0] - 0.5) + 3 * np.sin(6 * numbers[1]) + 4 * numbers[0] * numbers[2] - 1
    frame = pd.DataFrame({f"x{k}": numbers[k] for k in range(columns)})
    frame["y"] = (score + rng.logistic(size=rows) > 0).astype(np.int8)
    return frame


def dask_frame(rows: int, columns: int, parts: int) -> Any:
    """Return a Dask frame whose partitions workers make."""
    import dask.dataframe as dd
    from dask import delayed

    ends = np.linspace(0, rows, parts + 1).astype(int)
    make = delayed(part)
    made = [make(int(n), columns, k) for k, n in enumerate(np.diff(ends))]
    return dd.from_delayed(made, meta=part(1, columns), verify_meta=False)


def features(frame: Any) -> tuple[Any, Any]:
    """Return the numbers and the class of a frame, as peers take them."""
    return frame.drop(columns="y"), frame["y"]


def write_parts(folder: Path, rows: int, columns: int, parts: int) -> Path:
    """Write a table as so many Parquet files, of one group of rows each."""
    folder.mkdir(parents=True, exist_ok=True)
    ends = np.linspace(0, rows, parts + 1).astype(int)
    for k, n in enumerate(np.diff(ends)):
        path = folder / f"part-{k:04}.parquet"
        part(int(n), columns, k).to_parquet(path, index=False, row_group_size=int(n))
    return folder
