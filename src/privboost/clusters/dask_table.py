"""A Dask frame as a table whose rows lie with workers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import dask
import dask.dataframe as dd
import narwhals.stable.v1 as nw

from privboost.clusters.dask_backend import DaskBackend
from privboost.clusters.dask_cluster import DaskCluster, LostError
from privboost.clusters.dask_worker import count_part, predict_part
from privboost.clusters.parts import loads_of
from privboost.engine.backend import Backend
from privboost.errors import ClusterError
from privboost.tables.frames import FrameTable
from privboost.tables.loading import Load
from privboost.tables.pieces import Batch
from privboost.tables.remote import RemoteTable


class DaskTable(RemoteTable):
    """A Dask frame with an active client.

    Parameters
    ----------
    frame : dask.dataframe.DataFrame
        The frame.
    cluster : DaskCluster
        The workers.
    """

    place = "with Dask's workers"

    def __init__(self, frame: Any, cluster: DaskCluster) -> None:
        self._frame, self._cluster = frame, cluster
        self._digests: dict[tuple[bytes, int], bytes] = {}
        self._empty = FrameTable(nw.from_native(frame._meta, eager_only=True))
        self.columns = self._empty.columns

    def no_rows(self, names: Sequence[str]) -> Batch:
        """Return the named columns as the frame declares them."""
        return next(self._empty.batches(names, 1))

    def count_rows(self) -> int:
        """Return the number of rows."""
        return sum(self.lengths)

    @cached_property
    def lengths(self) -> list[int]:
        """How many rows each partition has: workers count them, by one column alone."""
        count = dask.delayed(count_part, pure=False)
        parts = self.parts(self.columns[:1])
        futures = self._cluster.compute([count(part) for part in parts])
        try:
            return [self._cluster.wait(future, self.columns) for future in futures]
        except LostError:  # by Dask itself, which has tried again and again
            raise ClusterError("workers were lost while the rows were counted") from None
        finally:
            self._cluster.forget(futures)

    def declared(self, names: Sequence[str]) -> Any:
        """Return the named columns of the frame that says what partitions hold."""
        return self._frame._meta[self._own(names)]

    def parts(self, names: Sequence[str]) -> list[Any]:
        """Return the named columns of each partition, not computed yet."""
        # Not optimised further: Dask would join partitions by how many columns are read, and their
        # rows must have the same places whatever is read.
        named = self._frame[self._own(names)].simplify()
        parts: list[Any] = named.to_delayed(optimize_graph=False)
        return parts

    def _own(self, names: Sequence[str]) -> list[Any]:
        """Return what the frame itself calls these columns: numbers, perhaps."""
        return [self._frame.columns[self.columns.index(name)] for name in names]

    def open_backend(self, loads: Sequence[Load]) -> Backend:
        """Have the workers load the rows."""
        return DaskBackend(self._cluster, loads_of(loads, DaskTable))

    def is_same(self, coding: bytes, part: int, digest: bytes) -> bool:
        """Whether a partition has the rows that it had when it was first coded so."""
        return self._digests.setdefault((coding, part), digest) == digest


def open_frame(frame: Any) -> DaskTable:
    """Return a Dask frame as a table."""
    _need_frame(frame)
    return DaskTable(frame, DaskCluster.active())


def map_rows(model: Any, method: str, frame: Any) -> Any:
    """Return what a model's method says of each row: lazily, as a Dask series or frame.

    Parameters
    ----------
    model : Model
        Released values alone: it travels to the workers.
    method : str
        The method, which takes a table and returns an array.
    frame : dask.dataframe.DataFrame
        The rows.
    """
    _need_frame(frame)
    return frame.map_partitions(
        predict_part, model, method, meta=predict_part(frame._meta, model, method)
    )


def _need_frame(frame: Any) -> None:
    if not isinstance(frame, dd.DataFrame):
        raise TypeError("of Dask's collections a DataFrame is needed")
