"""Coded rows as workers of every cluster check, split, bound and serialise them.

Equal rows have equal bytes, so a digest shows whether rows have changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from privboost import __version__
from privboost._core import codec
from privboost._core.errors import ClusterError
from privboost.data.contribution_bound import UnitRule, bound_units, number_units, without
from privboost.data.loading import Coded, Load, Loader, SplitLoader
from privboost.data.rows import Codes, Layout, Rows
from privboost.data.table import RemoteTable, raise_mixed_stream

CHANGED = (
    "a partition has other rows than when it was first read: a frame's rows, and their order, must "
    "be the same whenever they are computed (write them to files first)"
)
NO_PRIVBOOST = (
    "a worker cannot import privboost: install it, with what it needs, on all workers (and name "
    "their Python in PYSPARK_PYTHON, where Spark starts it)"
)

_Own = TypeVar("_Own", bound=RemoteTable)


def check_version(version: str) -> None:
    """Refuse to work for a driver with another version of privboost."""
    if version != __version__:
        raise ClusterError(other_version(__version__, version))


def other_version(theirs: str, ours: str) -> str:
    """Return the message about a worker's version of privboost that is not the driver's."""
    return f"a worker has privboost {theirs}, but the driver has {ours}: they must be the same"


def begin_digest(data: bytes = b"") -> Any:
    """Return the hash object of digests."""
    return blake2b(data, digest_size=16)


def share_of_units(units: pa.Array, shares: int) -> np.ndarray:
    """Return each row's share by a hash of its unit's name, −1 for rows without a unit.

    It is the same for every partition.
    """
    unit, names = number_units([units])
    hashes = [begin_digest(name).digest() for name in names.to_pylist()]
    share_of = [int.from_bytes(each, "big") % shares for each in hashes]
    of_rows: np.ndarray = np.array([*share_of, -1], dtype=np.int64)[unit]
    return of_rows


def bound_rows(
    blocks: Sequence[Rows], units: Sequence[pa.Array], rule: UnitRule, known: list[pa.Array]
) -> list[Rows]:
    """Bound a table's rows by unit, without units known from earlier tables; add its own to them.

    Each block has an array with the names of its rows' units.
    """
    unit, names = number_units(units)
    unit = without(unit, names, known)
    known.append(names)
    return bound_units(blocks, unit, names, rule)


def split(rows: Rows, size: int) -> Iterator[Rows]:
    """Yield consecutive blocks of at most `size` rows."""
    for first in range(0, len(rows), size):
        yield rows.take(np.arange(first, min(first + size, len(rows))))


def loads_of(loads: Sequence[Load], kind: type[_Own]) -> list[tuple[_Own, Loader]]:
    """Return the tables of one cluster and their loaders, without batches whose rows are gone.

    Refuses rows that are stored elsewhere.
    """
    out = []
    for load in loads:
        source = load.source
        if isinstance(source, kind):
            out.append((source, load.loader))
        elif not isinstance(source, Coded) or source.blocks or source.units is not None:
            raise_mixed_stream()
    return out


def coding_of(loader: Any) -> bytes:
    """Return the part of a loader on which coded rows depend: not which rows of a unit are kept."""
    if isinstance(loader, SplitLoader):
        return replace(loader, whole=replace(loader.whole, unit=None)).to_bytes()  # type: ignore
    coding: bytes = replace(loader, unit=None).to_bytes()
    return coding


_MAGIC = b"PVBROWS1"


def write_rows(rows: Rows, units: pa.Array | None = None) -> bytes:
    """Return coded rows, and the names of their units if they have any, as bytes."""
    ids = rows.ids
    payload = {
        "n_codes": list(rows.layout.n_codes),
        "narrow": rows.codes.narrow,
        "wide": rows.codes.wide,
        "label": rows.label,
        "weight": rows.weight,
        "start": rows.minus_label,
        "ids": [ids.start, ids.stop] if isinstance(ids, range) else ids,
        "cohort": rows.cohort,
        "texts": _write_texts(rows.texts),
        "units": None if units is None else _write_texts([units]),
    }
    return codec.dump(payload, _MAGIC)


def read_rows(data: bytes) -> tuple[Rows, pa.Array | None]:
    """Read the bytes of `write_rows`."""
    payload = codec.load(data, _MAGIC)
    # Copies: kernels are compiled for writable arrays.
    arrays = {
        name: payload[name] if payload[name] is None else payload[name].copy()
        for name in ("narrow", "wide", "label", "weight", "start")
    }
    ids: Any = payload["ids"]
    rows = Rows(
        Codes(Layout(tuple(payload["n_codes"])), arrays["narrow"], arrays["wide"]),
        arrays["label"],
        arrays["weight"],
        arrays["start"],
        range(*ids) if isinstance(ids, list) else ids if ids is None else ids.copy(),
        payload["cohort"],
        tuple(_read_texts(payload["texts"])),
    )
    return rows, None if payload["units"] is None else _read_texts(payload["units"])[0]


def _write_texts(columns: Sequence[pa.Array]) -> np.ndarray:
    batch = pa.record_batch(list(columns), names=[str(k) for k in range(len(columns))])
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batch.schema) as stream:
        stream.write_batch(batch)
    return np.frombuffer(out.getvalue(), dtype=np.uint8)


def _read_texts(data: np.ndarray) -> list[pa.Array]:
    return list(pa.ipc.open_stream(pa.py_buffer(data.tobytes())).read_next_batch().columns)
