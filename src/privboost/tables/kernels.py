"""Values to codes, and rows to hashes, compiled by numba: each value by itself."""

from __future__ import annotations

import numpy as np

from privboost.compiling import compiled


@compiled
def bin_numbers(values, edges, missing, out):
    """Write the bin of each number: how many edges lie below it. NaN has the code `missing`."""
    for i in range(np.uint64(values.size)):
        value = np.float64(values[i])
        if value != value:
            out[i] = missing
            continue
        low, high = np.uint64(0), np.uint64(edges.size)
        while low < high:
            middle = (low + high) >> np.uint64(1)
            if edges[middle] < value:
                low = middle + np.uint64(1)
            else:
                high = middle
        out[i] = low


@compiled
def hash_column(values, key, out):
    """Mix one column into each row's keyed 64-bit hash."""
    for i in range(np.uint64(out.size)):
        h = (out[i] ^ (np.uint64(values[i]) + key)) * np.uint64(0x9E3779B97F4A7C15)
        h = (h ^ (h >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
        out[i] = h ^ (h >> np.uint64(32))
