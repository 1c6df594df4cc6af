"""Contribution bound: at most `max_rows` rows of each protected unit are used.

Which rows these are, and how a unit's weight is divided among them, follows from a secret key and
the unit's own rows alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privboost._core.grid import WEIGHT_STEPS
from privboost._core.unit import Unit
from privboost.data.kernels import hash_strings
from privboost.data.rows import Codes, Layout, Rows
from privboost.randomness.keystream import KeyStream


@dataclass(frozen=True, eq=False)
class UnitRule:
    """Bound on the rows of one protected unit: the unit's column, and the key of the choice.

    With `shares_weight` the rows that are kept of a unit share one weight. With `counts_rows` those
    that are kept are coded by the number of the unit's rows, for private domain inference.
    """

    column: str
    max_rows: int
    key: np.ndarray
    shares_weight: bool = False
    counts_rows: bool = False

    @classmethod
    def of(cls, unit: Unit | None, stream: KeyStream) -> UnitRule | None:
        """Return the rule for a unit, with a key of its own; None without a unit."""
        if unit is None:
            return None
        return cls(unit.column, unit.max_rows, stream.words(2), unit.shares_weight)

    def to_dict(self) -> dict[str, Any]:
        """Return the payload for another process."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def number_units(parts: Sequence[pa.Array | None]) -> tuple[np.ndarray, pa.Array]:
    """Return the unit of each row as an index into the names, −1 for none, and the names."""
    empty = pa.array([], pa.large_binary())
    column = pa.chunked_array([empty, *parts], pa.large_binary())
    coded = column.combine_chunks().dictionary_encode()
    numbers = pc.fill_null(coded.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
    return numbers, coded.dictionary


def without(unit: np.ndarray, names: pa.Array, known: Sequence[pa.Array]) -> np.ndarray:
    """Return the unit of each row, −1 for units that are known already."""
    for others in known:
        came = pc.is_in(names, value_set=others).to_numpy(zero_copy_only=False)
        unit = np.where((unit >= 0) & np.append(came, False)[unit], -1, unit)
    return unit


def bound_units(
    blocks: Sequence[Rows], unit: np.ndarray, names: pa.Array, rule: UnitRule
) -> list[Rows]:
    """Keep at most `rule.max_rows` rows of each unit, and divide its weight among them.

    See `random_ranks`, `weight_shares` and `row_count_codes`.
    """
    ranks = random_ranks(blocks, unit, names, rule.key)
    keep = ranks < rule.max_rows
    shares = weight_shares(unit, ranks, keep) if rule.shares_weight else None
    counts = row_count_codes(unit) if rule.counts_rows else None
    bounded, at = [], 0
    for block in blocks:
        own = slice(at, at := at + len(block))
        rows = block.take(keep[own])
        if shares is not None:
            rows = _with_shares(rows, shares[own][keep[own]])
        if counts is not None:
            codes = Codes.of(Layout((len(LEAST_ROWS),)), counts[None, own][:, keep[own]])
            rows = replace(rows, codes=codes)
        bounded.append(rows)
    return bounded


LEAST_ROWS = (1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257)
"""Least number of rows of the units in each cell of their histogram."""


def row_count_codes(unit: np.ndarray) -> np.ndarray:
    """Return the cell of each row's unit by its number of rows, 0 for no unit (uint8)."""
    codes = np.zeros(len(unit), dtype=np.uint8)
    named = unit >= 0
    rows = np.bincount(unit[named])[unit[named]]
    codes[named] = np.searchsorted(LEAST_ROWS, rows, side="right") - 1
    return codes


def weight_shares(unit: np.ndarray, ranks: np.ndarray, keep: np.ndarray) -> np.ndarray:
    """Return each row's share of its unit's weight, in `grid.WEIGHT_STEPS` (uint16).

    Of m rows that are kept of a unit each has ⌊256/m⌋ steps, and the first 256 mod m by rank one
    more: together exactly 256.

    Privacy
    -------
    A share is a function of the unit's own rows and the key, and the shares of a unit add up to
    `WEIGHT_STEPS`: a unit more or less changes the weight of no other unit's row.
    """
    shares = np.zeros(len(unit), dtype=np.uint16)
    rows = np.bincount(unit[keep])[unit[keep]]
    shares[keep] = WEIGHT_STEPS // rows + (ranks[keep] < WEIGHT_STEPS % rows)
    return shares


def _with_shares(rows: Rows, shares: np.ndarray) -> Rows:
    """Return rows that weigh their shares, times their own weights where they have any."""
    if rows.weight is None:
        return replace(rows, weight=shares)
    own = rows.weight.astype(np.uint32) * shares // WEIGHT_STEPS
    return replace(rows, weight=own.astype(np.uint16))


NOT_HASHED = frozenset({"ids", "cohort", "layout"})
"""Fields of `Rows` and `Codes` that do not decide which rows of a unit are kept: a row's index in
its table, and what all rows of a table share. Every other field does."""


_NO_UNIT = np.iinfo(np.int64).max
"""Rank of a row without a unit."""


def random_ranks(
    blocks: Sequence[Rows], unit: np.ndarray, names: pa.Array, key: np.ndarray
) -> np.ndarray:
    """Return each row's rank among its unit's rows in a random order, of which the first are kept.

    Orders are uniformly random within each unit, independently between units: that of the keyed
    hashes of the unit's name, all fields of the row, and the row's number among the unit's
    identical rows.

    `unit` has the unit of each row as an index into the canonical names, in the order of the
    blocks; negative for none (the row is dropped).

    Privacy
    -------
    Under any fixed key, what is kept of a unit is a function of the multiset of that unit's own
    rows: neither other units nor the order of rows change it. So adding a unit adds at most
    `max_rows` rows, and moves no other. (Among identical rows the first in the table are counted
    first, which decides only which of their indices is kept.)
    """
    of_units = np.append(_hash_strings(names, key), np.zeros((1, 2), dtype=np.uint64), axis=0)
    hashes, at = np.empty((len(unit), 2), dtype=np.uint64), 0
    for block in blocks:
        own = slice(at, at := at + len(block))
        content = [_bytes_of(of_units[unit[own]]), *row_bytes(block, key)]
        hashes[own] = _hash_lines(np.concatenate(content, axis=1), key)
    order = np.lexsort((hashes[:, 1], hashes[:, 0], unit))
    copies = np.empty(len(unit), dtype=np.uint64)
    copies[order] = _rank_within_runs(unit[order], hashes[order])
    draws = _hash_lines(np.concatenate([_bytes_of(hashes), _bytes_of(copies)], axis=1), key)
    order = np.lexsort((draws[:, 1], draws[:, 0], unit))
    ranks = np.empty(len(unit), dtype=np.int64)
    ranks[order] = np.where(unit[order] < 0, _NO_UNIT, _rank_within_runs(unit[order]))
    return ranks


def row_bytes(part: Any, key: np.ndarray) -> Iterator[np.ndarray]:
    """Yield all fields of rows, as arrays of bytes with one line a row.

    Every field of `Rows` is included, also one that is added later, except for `NOT_HASHED`.
    Strings are hashed, so that all rows of a table have equally many bytes.
    """
    if isinstance(part, Rows | Codes):
        for field in fields(part):
            if field.name not in NOT_HASHED:
                yield from row_bytes(getattr(part, field.name), key)
    elif isinstance(part, tuple):
        for column in part:
            yield from row_bytes(column, key)
    elif isinstance(part, pa.Array):
        yield _bytes_of(part.is_valid().to_numpy(zero_copy_only=False))
        yield _bytes_of(_hash_strings(part, key))
    elif isinstance(part, np.ndarray):
        yield _bytes_of(part.T if part.ndim == 2 else part)
    elif part is not None:
        raise TypeError(f"rows with fields of type {type(part).__name__} cannot be hashed")


def _bytes_of(values: np.ndarray) -> np.ndarray:
    """Return the bytes of an array, one line for each of its lines."""
    lines = np.ascontiguousarray(values).view(np.uint8)
    return lines.reshape(len(values), lines.size // max(len(values), 1))


def _hash_strings(column: pa.Array, key: np.ndarray) -> np.ndarray:
    """Return a keyed hash of each string, as two 64-bit words; null is the empty string."""
    whole = pc.fill_null(column.cast(pa.large_binary()), b"")
    if not len(whole):
        return np.empty((0, 2), dtype=np.uint64)
    _, offsets, data = whole.buffers()
    ends = np.frombuffer(offsets, dtype=np.int64)[whole.offset : whole.offset + len(whole) + 1]
    return _hash(np.frombuffer(data or b"", dtype=np.uint8), ends, key)


def _hash_lines(lines: np.ndarray, key: np.ndarray) -> np.ndarray:
    """Return a keyed hash of each line of bytes, as two 64-bit words."""
    return _hash(lines.reshape(-1), np.arange(len(lines) + 1) * lines.shape[1], key)


def _hash(data: np.ndarray, ends: np.ndarray, key: np.ndarray) -> np.ndarray:
    out = np.empty((len(ends) - 1, 2), dtype=np.uint64)
    # Writable copies where needed: the kernel is compiled for one signature.
    data, ends, key = (np.require(each, requirements="W") for each in (data, ends, key))
    hash_strings(data, ends, key, out)
    return out


def _rank_within_runs(unit: np.ndarray, hashes: np.ndarray | None = None) -> np.ndarray:
    """Number consecutive rows of the same unit (and hash, if given) from 0."""
    begins = unit[1:] != unit[:-1]
    if hashes is not None:
        begins |= (hashes[1:] != hashes[:-1]).any(axis=1)
    at = np.arange(len(unit))
    at[1:][~begins] = 0
    ranks: np.ndarray = np.arange(len(unit)) - np.maximum.accumulate(at)
    return ranks
