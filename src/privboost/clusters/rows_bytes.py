"""Serialisation of coded rows, by which a cluster stores them and restores lost shards.

Equal rows have equal bytes, so a digest shows whether rows have changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from privboost import codec
from privboost.tables.layout import Layout
from privboost.tables.rows import Codes, Rows

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
        "start": rows.start,
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
