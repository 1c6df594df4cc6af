"""A Spark DataFrame as a table of which only the schema is here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.functions import col
from pyspark.sql.pandas.types import to_arrow_type

from privboost.clusters.parts import loads_of
from privboost.clusters.spark_backend import SparkBackend
from privboost.clusters.spark_worker import Part
from privboost.errors import SchemaError
from privboost.tables.loading import Load
from privboost.tables.pieces import Batch
from privboost.tables.remote import RemoteTable
from privboost.tables.text_sources import unique


class SparkTable(RemoteTable):
    """A Spark DataFrame.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        The frame. It is computed by each fit; its rows and their order must be the same whenever
        Spark computes them.
    """

    place = "with Spark's executors"

    def __init__(self, frame: DataFrame) -> None:
        self._frame = frame
        self._seen: dict[bytes, Sequence[Part]] = {}
        self._lengths: list[int] | None = None
        self.columns = unique(frame.columns)

    def no_rows(self, names: Sequence[str]) -> Batch:
        """Return the named columns without rows."""
        return {name: pa.array([], self._kind(name)) for name in names}

    def count_rows(self) -> int:
        """Return the number of rows."""
        return int(self._frame.count()) if self._lengths is None else sum(self._lengths)

    def open_backend(self, loads: Sequence[Load]) -> SparkBackend:
        """Have the executors load the rows."""
        return SparkBackend(loads_of(loads, SparkTable))

    def select(self, names: Sequence[str]) -> DataFrame:
        """Return the named columns, in this order."""
        return self._frame.select(*(col("`" + name.replace("`", "``") + "`") for name in names))

    def is_same(self, coding: bytes, parts: Sequence[Part], whole: bool) -> bool:
        """Whether the frame has the rows that it had when it was first coded so.

        Coded in another way it must have had as many, if all were coded: rows are known by their
        places.
        """
        lengths = [part.n_rows for part in parts]
        if whole:
            self._lengths = lengths if self._lengths is None else self._lengths
            if lengths != self._lengths:
                return False
        return self._seen.setdefault(coding, parts) == parts

    def _kind(self, name: str) -> pa.DataType:
        kind = self._frame.schema[name].dataType
        try:
            return to_arrow_type(kind)
        except Exception:
            raise SchemaError(
                f"column {name!r} holds {kind.simpleString()}, which is neither number nor text"
            ) from None


def open_frame(frame: Any) -> SparkTable:
    """Make a table of a DataFrame of a session in this application."""
    if not isinstance(frame, DataFrame) or "connect" in type(frame).__module__.split("."):
        raise TypeError(
            "of Spark's frames, a pyspark.sql.DataFrame of a classic session is supported (Spark "
            "Connect has no RDDs; a pandas-on-Spark frame has to_spark())"
        )
    if frame.isStreaming:
        raise TypeError("the frame is a stream: write it to a table first")
    return SparkTable(frame)


def map_rows(model: Any, method: str, frame: Any) -> NoReturn:
    """Refuse: Spark's scores are columns of a frame, which `privboost.spark` makes."""
    raise TypeError(
        f"{method}: of a Spark DataFrame predictions are columns: use privboost.spark.score_column"
    )
