"""Data that come with the package, for demonstrations."""

from __future__ import annotations

import io
import lzma
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from privboost.tables.domain import Domain
from privboost.tables.features import ClassTarget, Feature, NumericFeature, Target


@dataclass(frozen=True)
class Dataset:
    """A table in two parts, and what is public about it."""

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
    domain = Domain.from_json((_folder() / "adult.domain.json").read_text(encoding="utf-8"))
    return Dataset(_read("adult.data.xz", 0, domain), _read("adult.test.xz", 1, domain), domain)


def _folder() -> Traversable:
    return files("privboost") / "data"


def _read(name: str, skip: int, domain: Domain) -> pa.Table:
    """Read one of UCI's files: no header, blanks after commas, "?" for missing."""
    names = [*domain.feature_names, domain.target.name]
    text = lzma.decompress((_folder() / name).read_bytes())
    table = pa.csv.read_csv(
        io.BytesIO(text),
        pa.csv.ReadOptions(column_names=names, skip_rows=skip),
        convert_options=pa.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
    )
    return pa.table({part.name: _clean(table[part.name], part) for part in _parts(domain)})


def _parts(domain: Domain) -> list[Feature | Target]:
    return [*domain.features, domain.target]


def _clean(column: pa.ChunkedArray, part: object) -> pa.ChunkedArray:
    column = pc.utf8_trim_whitespace(column)
    if isinstance(part, NumericFeature):
        return column.cast(pa.int64())
    if isinstance(part, ClassTarget):
        return pc.utf8_rtrim(column, ".")  # the test part ends its labels with a dot
    return pc.if_else(pc.equal(column, "?"), pa.scalar(None, pa.string()), column)
