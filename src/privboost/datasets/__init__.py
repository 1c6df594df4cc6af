"""Data sets that come with the package: Adult (classes) and Abalone (a number)."""

from __future__ import annotations

import io
import lzma
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from privboost.data.domain import Domain

_ABALONE_TRAIN = 3133
"""Number of training rows of Abalone, which are the first, as in Waugh (1995)."""


@dataclass(frozen=True)
class Dataset:
    """A table in two parts, and its domain."""

    train: pa.Table
    test: pa.Table
    domain: Domain


def load_adult() -> Dataset:
    """Load the Adult (Census Income) data set, in its canonical two parts.

    Examples
    --------
    >>> adult = load_adult()
    >>> adult.train.num_rows, adult.test.num_rows
    (32561, 16281)
    """
    domain = _read_domain("adult.domain.json")
    parts = _read_texts("adult.data.xz", 0, domain), _read_texts("adult.test.xz", 1, domain)
    return Dataset(*parts, domain)


def load_abalone() -> Dataset:
    """Load the Abalone data set, in the two parts of the study that gave it away.

    The target is a number: an abalone's rings, which indicate its age. Lengths and weights are in
    units of 200 mm and 200 g. A few values lie outside the domain's bounds, which are those of the
    species and not of this table; they are clipped.

    Examples
    --------
    >>> abalone = load_abalone()
    >>> abalone.train.num_rows, abalone.test.num_rows
    (3133, 1044)
    """
    domain = _read_domain("abalone.domain.json")
    table = _read("abalone.data.xz", 0, domain)
    return Dataset(table.slice(0, _ABALONE_TRAIN), table.slice(_ABALONE_TRAIN), domain)


def _folder() -> Traversable:
    return files("privboost") / "datasets"


def _read_domain(name: str) -> Domain:
    return Domain.from_json((_folder() / name).read_text(encoding="utf-8"))


def _read(name: str, skip: int, domain: Domain, kind: pa.DataType | None = None) -> pa.Table:
    """Read one of UCI's files, which have no header; `kind` is the type of all columns."""
    names = [*domain.feature_names, domain.target.name]
    text = lzma.decompress((_folder() / name).read_bytes())
    kinds = None if kind is None else dict.fromkeys(names, kind)
    return pa.csv.read_csv(
        io.BytesIO(text),
        pa.csv.ReadOptions(column_names=names, skip_rows=skip),
        convert_options=pa.csv.ConvertOptions(column_types=kinds),
    )


def _read_texts(name: str, skip: int, domain: Domain) -> pa.Table:
    """Read one of Adult's files: blanks after commas, "?" for missing."""
    table = _read(name, skip, domain, pa.string())
    columns = {name: pc.utf8_trim_whitespace(table[name]) for name in table.column_names}
    for feature in domain.features:
        column = columns[feature.name]
        known = pc.if_else(pc.equal(column, "?"), pa.scalar(None, pa.string()), column)
        columns[feature.name] = column.cast(pa.int64()) if feature.ordered else known
    # The labels of the test part end with a dot.
    columns[domain.target.name] = pc.utf8_rtrim(columns[domain.target.name], ".")
    return pa.table(columns)
