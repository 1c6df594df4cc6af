"""Small tables with everything that can go wrong in a cell."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from privboost import Domain
from privboost._core.threads import ThreadPool
from privboost.data.contribution_bound import UnitRule, bound_units, number_units
from privboost.data.loading import RowLoader, _read, check_schema, load_rows, open_source
from privboost.randomness.keystream import KeyStream

FEATURES = {
    "age": {"kind": "numeric", "bounds": [17, 90], "missing": True},
    "gain": {"kind": "numeric", "bounds": [0, 100000], "scale": "log"},
    "step": {"kind": "numeric", "bounds": [0, 4], "edges": [0.5, 1.5, 2.5, 3.5]},
    "job": {"kind": "categorical", "categories": ["a", "b", "c"], "missing": True},
    "flag": {"kind": "categorical", "categories": [0, 1]},
    "place": {"kind": "categorical", "categories": [f"p{k}" for k in range(300)]},
}
CLASSES = {"name": "income", "classes": ["low", "high"]}
THREE = {"name": "income", "classes": ["low", "mid", "high"]}
NUMBER = {"name": "income", "bounds": [0, 10]}
SURVIVAL = {"name": "income", "bounds": [0.5, 10], "event": "paid"}


def make_domain(target=CLASSES, unit=None) -> Domain:
    form = {"version": 1, "features": FEATURES, "target": target}
    return Domain.from_dict(form | ({"unit": unit} if unit else {}))


def make_frame(rows: int, seed: int = 0, target=CLASSES) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    wild = np.array([np.nan, np.inf, -np.inf, 1e308, -5.0])

    def spoil(values):
        out = np.asarray(values, dtype=float)
        bad = rng.random(rows) < 0.1
        out[bad] = rng.choice(wild, bad.sum())
        return out

    age = rng.uniform(17, 90, rows)
    signal = age / 40 + rng.normal(0, 0.3, rows)
    frame = pd.DataFrame(
        {
            "age": spoil(age),
            "gain": spoil(rng.exponential(500, rows)),
            "step": spoil(rng.integers(0, 5, rows)),
            "job": rng.choice(np.array(["a", "b", "c", "zzz", None], dtype=object), rows),
            "flag": spoil(rng.integers(0, 2, rows)),
            "place": [f"p{k}" for k in rng.integers(0, 310, rows)],
            "person": rng.choice(np.array([*"abcdefghij", None], dtype=object), rows),
            "weight": spoil(rng.uniform(0, 3, rows)),
        }
    )
    if "bounds" in target:
        frame["income"] = spoil(signal * 3)
        if "event" in target:
            frame["paid"] = spoil(rng.integers(0, 2, rows))
    else:
        labels = [*target["classes"], "unheard of", None]
        cuts = np.digitize(signal, np.linspace(1, 2, len(target["classes"]) - 1))
        odd = rng.random(rows) < 0.05
        cuts[odd] = rng.integers(0, len(labels), odd.sum())
        frame["income"] = np.array(labels, dtype=object)[cuts]
    return frame


class CodedRows(NamedTuple):
    """Rows as a loader reads them, before they are bounded, and the unit of each row."""

    blocks: list
    unit: np.ndarray | None
    names: pa.Array | None

    def bounded(self, rule):
        """The rows that are kept."""
        return bound_units(self.blocks, self.unit, self.names, rule)


def encode_training(encoder, data, labels=None, weights=None, weight_bound=None, block_rows=None):
    """Code a table with its labels and weights."""
    table, roles = open_source(encoder.domain, data, labels, weights)
    rule = UnitRule.of(encoder.domain.unit, KeyStream.seeded(0))
    loader = RowLoader(encoder, roles, weight_bound, rule)
    check_schema(loader, table)
    parts = _read(loader, table, ThreadPool(), block_rows or 2**15 - 1)
    units = (None, None) if rule is None else number_units([part.units for part in parts])
    return CodedRows([part.rows for part in parts], *units)


def opens(kind, **how):
    """Turn a kind of backend that takes rows into what an estimator's `backend` is."""
    return lambda loads: kind([b for each in load_rows(loads) for b in each.blocks], **how)
