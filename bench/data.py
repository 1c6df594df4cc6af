"""Where data sets are found, and what is public about each.

A folder of Parquet files named by `$PRIVBOOST_DATA`, else `../shared/data` beside the project,
else what the package ships (Adult, Abalone). `domains/` holds one domain for each, with the reason
for every bound.
"""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pyarrow as pa

from privboost import Domain
from privboost.datasets import load_abalone, load_adult

_HERE = Path(__file__).parent
_BESIDE = _HERE.parent.parent / "shared" / "data"
_SHIPPED = {"adult": load_adult, "abalone": load_abalone}


def load(name: str) -> tuple[pd.DataFrame, Domain]:
    """Return a data set, all its rows in their original order, and its domain."""
    known = domain(name)
    for folder in (os.environ.get("PRIVBOOST_DATA"), _BESIDE):
        path = Path(folder) / f"{name}.parquet" if folder else None
        if path is not None and path.exists():
            return pd.read_parquet(path), known
    if name in _SHIPPED:
        shipped = _SHIPPED[name]()
        return pa.concat_tables([shipped.train, shipped.test]).to_pandas(), known
    raise FileNotFoundError(f"{name}.parquet: set PRIVBOOST_DATA to a folder that holds it")


def domain(name: str) -> Domain:
    """Return what is public about a data set."""
    return Domain.from_json(_HERE / "domains" / f"{name}.json")


def names() -> list[str]:
    """Return the names of the data sets that have a domain."""
    return sorted(path.stem for path in (_HERE / "domains").glob("*.json"))
