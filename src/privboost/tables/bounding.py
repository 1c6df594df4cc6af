"""Rows of one protected unit, bounded before anything else is computed from them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privboost.tables import kernels
from privboost.tables.rows import Rows


def kept_rows(
    blocks: Sequence[Rows], unit: np.ndarray, max_rows: int, keys: np.ndarray
) -> np.ndarray:
    """Choose at most `max_rows` rows of each unit; return a mask over all rows.

    Which rows stay depends on a keyed hash of each row's own codes, so the choice for one unit
    depends neither on other units nor on the order of rows.

    Parameters
    ----------
    blocks : sequence of Rows
        All rows.
    unit : int64 array
        The unit of each row, in the order of the blocks; negative for none (the row is dropped).
    max_rows : int
        The public bound.
    keys : uint64 array of length 2
        The key of the hash.
    """
    hashes = [_hash_rows(block, keys) for block in blocks]
    order = np.lexsort((np.concatenate([*hashes, np.empty(0, np.uint64)]), unit))
    ranks = _rank_within_runs(unit[order])
    keep = np.zeros(len(unit), dtype=np.bool_)
    keep[order] = (ranks < max_rows) & (unit[order] >= 0)
    return keep


def _hash_rows(block: Rows, keys: np.ndarray) -> np.ndarray:
    hashes = np.full(len(block), keys[0], dtype=np.uint64)
    columns = [*block.codes.narrow, *block.codes.wide, block.label]
    columns += [column for column in (block.weight, block.start) if column is not None]
    for column in columns:
        kernels.hash_column(column, keys[1], hashes)
    return hashes


def _rank_within_runs(values: np.ndarray) -> np.ndarray:
    """Number the members of each run of equal values from 0."""
    starts = np.flatnonzero(np.r_[True, values[1:] != values[:-1]]) if len(values) else values
    positions = np.arange(len(values))
    ranks: np.ndarray = positions - np.repeat(starts, np.diff(np.r_[starts, len(values)]))
    return ranks
