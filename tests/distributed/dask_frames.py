"""Dask's workers and frames, for tests; imported where Dask is known to be installed."""

from itertools import pairwise

import dask.dataframe as dd
import distributed
import numpy as np
from dask import delayed


def start(workers, threads=1):
    return distributed.LocalCluster(
        n_workers=workers, threads_per_worker=threads, processes=True, dashboard_address=":0"
    )


def in_parts(frame, sizes):
    """A Dask frame whose partitions have these sizes, and the rest."""
    ends = [0, *np.cumsum(sizes), len(frame)]
    parts = [delayed(frame.iloc[a:b]) for a, b in pairwise(ends)]
    return dd.from_delayed(parts, meta=frame.iloc[:0])
