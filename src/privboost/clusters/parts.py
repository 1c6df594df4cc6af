"""Partitions of a table, as workers of every cluster handle them."""

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
    """Return the hash object of digests."""
    return blake2b(data, digest_size=16)


def share_of_units(units: pa.Array, shares: int) -> np.ndarray:
    """Assign rows to shares by a hash of their unit's name, the same for every partition.

    Returns the share of each row, −1 for rows without a unit.
    """
    unit, names = number_units([units])
    hashes = [begin_digest(name).digest() for name in names.to_pylist()]
    share_of = [int.from_bytes(each, "big") % shares for each in hashes]
    of_rows: np.ndarray = np.array([*share_of, -1], dtype=np.int64)[unit]
    return of_rows


def loads_of(loads: Sequence[Load], kind: type[_Own]) -> list[tuple[_Own, Loader]]:
    """Return the tables of one cluster and their loaders, without batches whose rows are gone.

    Raises
    ------
    SchemaError
        If rows of another batch are stored elsewhere.
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
    """Return the part of a loader on which coded rows depend: not which rows of a unit are kept."""
    if isinstance(loader, PartLoader):
        return replace(loader, whole=replace(loader.whole, unit=None)).to_bytes()  # type: ignore
    coding: bytes = replace(loader, unit=None).to_bytes()
    return coding


def other_version(theirs: str, ours: str) -> str:
    """Return the message about a worker's version of privboost that is not the driver's."""
    return f"a worker has privboost {theirs}, but the driver has {ours}: they must be the same"
