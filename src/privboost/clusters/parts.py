"""What workers of every cluster do alike with parts of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from privboost.tables.loader import Loader
from privboost.tables.loading import Coded, Load, number_units
from privboost.tables.part_loader import PartLoader
from privboost.tables.remote import RemoteTable, refuse_mixture

CHANGED = (
    "a partition has other rows than when it was first read: a frame's rows, and their order, must "
    "be the same whenever they are computed (write them to files first)"
)
NO_PRIVBOOST = (
    "a worker cannot import privboost: install it, with what it needs, on all workers (and name "
    "their Python in PYSPARK_PYTHON, where Spark starts it)"
)

_Own = TypeVar("_Own", bound=RemoteTable)


def begin_digest(data: bytes = b"") -> Any:
    """Begin what tells bytes apart."""
    return blake2b(data, digest_size=16)


def deal_units(units: pa.Array, shares: int) -> np.ndarray:
    """Deal units out by their names: the same on every machine, whatever part they come from.

    Returns the share that has all rows of each row's unit, −1 for rows without a unit.
    """
    unit, names = number_units([units])
    hashes = [begin_digest(name).digest() for name in names.to_pylist()]
    share_of = [int.from_bytes(each, "big") % shares for each in hashes]
    of_rows: np.ndarray = np.array([*share_of, -1], dtype=np.int64)[unit]
    return of_rows


def loads_of(loads: Sequence[Load], kind: type[_Own]) -> list[tuple[_Own, Loader]]:
    """Return tables of one cluster, and their loaders; batches whose rows are forgotten have none.

    Raises
    ------
    SchemaError
        If rows of another batch lie elsewhere.
    """
    out = []
    for load in loads:
        source = load.source
        if isinstance(source, kind):
            out.append((source, load.loader))
        elif not isinstance(source, Coded) or source.blocks or source.units is not None:
            refuse_mixture()
    return out


def coding_of(loader: Any) -> bytes:
    """Return what a loader's coded rows depend on: not which rows of a unit are kept."""
    if isinstance(loader, PartLoader):
        return replace(loader, whole=replace(loader.whole, unit=None)).to_bytes()  # type: ignore
    coding: bytes = replace(loader, unit=None).to_bytes()
    return coding


def other_version(theirs: str, ours: str) -> str:
    """Say that a worker's version of privboost is not the driver's."""
    return f"a worker has privboost {theirs}, but the driver has {ours}: they must be the same"
