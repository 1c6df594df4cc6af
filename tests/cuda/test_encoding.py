"""Numbers that a device codes have the codes that the processor gives them, bit for bit."""

from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from privboost import Domain, SBDTClassifier
from privboost.cuda import rows as coding
from privboost.cuda.backend import CudaBackend
from privboost.cuda.device import StreamingDevice
from privboost.cuda.rows import DeviceRows, NumberLoader, Uncoded, leave_numbers
from privboost.data.encoding import Encoder
from privboost.data.loading import Load, RowLoader, load_rows, open_source
from privboost.data.values import plain_numbers
from tests.cuda.conftest import crowd
from tests.cuda.processor_device import ProcessorDevice
from tests.fits import bytes_of

ROWS = 700
KINDS = ("f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
FEATURES = {
    "line": {"kind": "numeric", "bounds": [-3, 130]},
    "log": {"kind": "numeric", "bounds": [0.001, 1e6], "scale": "log"},
    "both": {"kind": "numeric", "bounds": [-1e9, 1e9], "scale": "log"},
    "edges": {
        "kind": "numeric",
        "bounds": [0, 1e300],
        "edges": [5e-324, 0.1, 0.5, 7, 2**53, 1e299],
    },
    "job": {"kind": "categorical", "categories": [0, 1, 2]},
    "truth": {"kind": "boolean"},
}
DOMAIN = Domain.from_dict(
    {"version": 1, "features": FEATURES, "target": {"name": "y", "classes": [0, 1]}}
)


def hard_numbers(kind):
    """Edges, their neighbours, whatever is no number, and what is beyond all bounds."""
    rng, kind = np.random.default_rng(KINDS.index(kind)), np.dtype(kind)
    edges = np.concatenate([each for each in Encoder.of(DOMAIN).edges if len(each)])
    near = [
        np.nextafter(edges, -np.inf),
        edges,
        np.nextafter(edges, np.inf),
        -edges,
        rng.random(99),
    ]
    values = rng.choice(np.concatenate([*near, edges.round()]), (ROWS, len(FEATURES)))
    if kind.kind == "f":
        special = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, 1e-40, 1.7e308]
        values[rng.random(values.shape) < 0.2] = 0
        at = rng.random(values.shape) < 0.2
        values[at] = rng.choice(special, at.sum())
        with np.errstate(all="ignore"):
            return values.astype(kind)
    about = np.iinfo(kind)
    values = np.clip(values, about.min / 2, about.max / 2).astype(kind)
    at = rng.random(values.shape) < 0.2
    values[at] = rng.choice(
        np.array([about.min, about.max, about.max - 1, 0, 1], dtype=kind), at.sum()
    )
    return values


def _beside_objects(array):
    """Columns of records that hold objects, too: their bytes cannot be copied as they lie."""
    kinds = [(name, array.dtype) for name in FEATURES]
    records = np.empty(len(array), dtype=[*kinds, ("object", object)])
    for name, column in zip(FEATURES, array.T, strict=True):
        records[name] = column
    return pd.DataFrame({name: records[name] for name in FEATURES}, copy=False)


LAID_OUT = {
    "rows": lambda array: array,
    "columns": np.asfortranarray,
    "backward": lambda array: np.ascontiguousarray(array[::-1, ::-1])[::-1, ::-1],
    "every third": lambda array: np.repeat(array, 3, axis=0)[1::3],
    "with gaps": lambda array: np.concatenate([array] * 9, axis=1)[:, : array.shape[1]],
    "beside objects": lambda array: _beside_objects(array),
    "shifted": lambda array: np.concatenate([array[:1], array])[1:],
    "frame": lambda array: pa.table(dict(zip(FEATURES, array.T, strict=True))),
}


def codes_of(device, table, labels, **how):
    """Return the columns of rows that were loaded for a device."""
    source, roles = open_source(DOMAIN, table, labels, None)
    loader = NumberLoader(RowLoader(Encoder.of(DOMAIN), roles), few_rows=1)
    (loaded,) = load_rows([Load(loader, source)], rows=150)
    with device.activated():
        rows = DeviceRows(device, loaded.blocks, **how)
        device.finish()
        found = [device.fetch(column) if device.resident else column for column in rows.columns]
    return loaded.blocks, [column[:ROWS] for column in found]


@pytest.mark.parametrize("kind", KINDS)
def test_codes_are_those_of_the_processor(device, kind, monkeypatch):
    monkeypatch.setattr(coding, "_SLOT", 480)  # several for a piece, and columns across two
    if isinstance(device, ProcessorDevice):
        device.shared_memory = 8 * 300  # the edges of some columns, not of all
    values, labels = hard_numbers(kind), np.arange(ROWS) % 2
    *_, expected = Encoder.of(DOMAIN).feature_codes(values)
    for laid_out, lay_out in LAID_OUT.items():
        how = {"n_threads": 3} if laid_out == "rows" else {}
        for where in (device, StreamingDevice(device)):
            blocks, found = codes_of(where, lay_out(values), labels, **how)
            assert all(isinstance(block.codes, Uncoded) for block in blocks)
            for feature, column in enumerate(found):
                wanted = expected.column(feature)
                np.testing.assert_array_equal(column, wanted, f"{laid_out}, {feature}")


def test_what_is_no_plain_number_is_left_to_the_processor():
    column = np.arange(4.0)
    left = [
        column.astype(">f8"),
        column.astype("f2"),
        column.astype(object),
        column > 1,
        column[None],
    ]
    left += [pa.array([1.0, None]), pa.array(["1"])]
    assert all(plain_numbers(each) is None for each in left)
    assert plain_numbers(pa.array(column)) is not None


@pytest.mark.parametrize(("columns", "there"), [(510, True), (520, False)])
def test_rows_of_many_columns_are_coded_by_the_processor(columns, there):
    """What is brought to a device at once stays small."""
    numbers = {f"x{k}": {"kind": "numeric", "bounds": [0, 1]} for k in range(columns)}
    target = {"name": "y", "classes": [0, 1]}
    domain = Domain.from_dict({"version": 1, "features": numbers, "target": target})
    source, roles = open_source(domain, np.zeros((2, columns)), np.zeros(2), None)
    loads = [Load(RowLoader(Encoder.of(domain), roles), source)]
    left, rows = leave_numbers(loads)
    assert (left is not loads) == (rows is not None) == there


def test_a_model_of_uncoded_rows_is_the_processors(device, monkeypatch):
    monkeypatch.setattr(NumberLoader.__init__, "__defaults__", (1,))
    rng = np.random.default_rng(0)
    table, label = (
        rng.normal(size=(ROWS, len(FEATURES))).astype(np.float32),
        rng.integers(0, 2, ROWS),
    )

    def there(devices, loads):
        left, rows = leave_numbers(loads)
        assert rows is not None
        blocks = [block for each in load_rows(left, rows=100) for block in each.blocks]
        assert isinstance(blocks[0].codes, Uncoded)
        return CudaBackend(blocks, devices, most_rows=200, least_rows=1)

    how = {"n_estimators": 8, "features": "uniform", "random_state": 3}
    fits = [
        SBDTClassifier(1.0, 1e-6, DOMAIN, **how, **where).fit(table, label)
        for where in ({}, {"backend": partial(there, crowd(device))})
    ]
    assert bytes_of(fits[0]) == bytes_of(fits[1])
