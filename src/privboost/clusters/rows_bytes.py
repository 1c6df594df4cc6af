"""Coded rows as bytes: what lies with a cluster, so that lost rows can be held again.

The same rows give the same bytes, so that a digest tells whether rows are still what they were.
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
    """Write coded rows, and the names of their units where they have some."""
    ids = rows.ids
    form = {
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
    return codec.dump(form, _MAGIC)


def read_rows(data: bytes) -> tuple[Rows, pa.Array | None]:
    """Read what `write_rows` wrote."""
    form = codec.load(data, _MAGIC)
    # Copies: kernels were compiled for arrays that can be written.
    arrays = {
        name: form[name] if form[name] is None else form[name].copy()
        for name in ("narrow", "wide", "label", "weight", "start")
    }
    ids: Any = form["ids"]
    rows = Rows(
        Codes(Layout(tuple(form["n_codes"])), arrays["narrow"], arrays["wide"]),
        arrays["label"],
        arrays["weight"],
        arrays["start"],
        range(*ids) if isinstance(ids, list) else ids if ids is None else ids.copy(),
        form["cohort"],
        tuple(_read_texts(form["texts"])),
    )
    return rows, None if form["units"] is None else _read_texts(form["units"])[0]


def _write_texts(columns: Sequence[pa.Array]) -> np.ndarray:
    batch = pa.record_batch(list(columns), names=[str(k) for k in range(len(columns))])
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batch.schema) as stream:
        stream.write_batch(batch)
    return np.frombuffer(out.getvalue(), dtype=np.uint8)


def _read_texts(data: np.ndarray) -> list[pa.Array]:
    return list(pa.ipc.open_stream(pa.py_buffer(data.tobytes())).read_next_batch().columns)
