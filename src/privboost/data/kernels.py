"""Bins of numbers and hashes of rows, compiled by numba: each value by itself."""

from __future__ import annotations

import numpy as np

from privboost._core.addresses import number_at
from privboost._core.compilation import compiled, inlined

_STRIDE = 1024
"""Numbers whose slots are computed before any is settled."""


@inlined
def _even_slot(value, low, scale, top):
    """Return the slot of a number among slots of equal width, from 0 to top."""
    place = (value - low) * scale
    place = place if place > 0.0 else 0.0
    return np.int32(place if place < top else top)


@inlined
def _slot_by_bits(bits_of_value, first, bits, top):
    """Return the slot of a number among slots of equally many neighbouring numbers."""
    # The integers below have the order of the floats with these bits.
    sign = bits_of_value >> np.int64(63)
    order = ((bits_of_value & np.int64(0x7FFFFFFFFFFFFFFF)) ^ sign) - sign
    return np.int32(min(max((order >> bits) - first, np.int64(0)), np.int64(top)))


@compiled
def guess_slots(values, low, scale, first, bits, slots, out):
    """Write the slot of each number; that of NaN comes after all others.

    Parameters
    ----------
    low, scale, first, bits : float, float, int and int
        With bits = 0, slots have a width of 1 / scale, from low on. Else each holds 2^bits
        neighbouring floats, and `first` slots precede the first.
    slots : int
        The number of slots for numbers.
    out : int32 array
        Output: the slots.
    """
    beyond = np.int32(slots)
    if bits:
        own = values.astype(np.float64).view(np.int64)
        for i in range(np.uint64(out.size)):
            slot = _slot_by_bits(own[i], first, bits, beyond - 1)
            out[i] = slot if values[i] == values[i] else beyond
        return
    top = np.float64(slots - 1)
    for i in range(np.uint64(out.size)):
        value = np.float64(values[i])
        slot = _even_slot(value, low, scale, top)
        out[i] = slot if value == value else beyond


@compiled
def bin_numbers(values, guess, start, halvings, edges, out):
    """Write the bin of each number, which is the number of edges below it; NaN has its own code.

    Parameters
    ----------
    guess : tuple
        Arguments of `guess_slots`: low, scale, first, bits.
    start : uint16 array
        The number of edges in earlier slots, slot by slot, then the code of NaN.
    halvings : int
        A slot has fewer than 2^halvings edges.
    edges : float64 array
        The edges, then infinities, which are never below a number.
    """
    low, scale, first, bits = guess
    slots = np.empty(min(values.size, _STRIDE), dtype=np.int32)
    for begin in range(0, values.size, _STRIDE):
        part, codes = values[begin : begin + _STRIDE], out[begin : begin + _STRIDE]
        own = slots[: part.size]
        guess_slots(part, low, scale, first, bits, start.size - 1, own)
        _settle(part, own, start, halvings, edges, codes)


@inlined
def _settle(values, slots, start, halvings, edges, out):
    """Find the bin of each number among the edges of its slot."""
    for i in range(np.uint64(values.size)):
        value, code = np.float64(values[i]), np.uint64(start[np.uint64(slots[i])])
        for k in range(np.uint64(halvings), np.uint64(0), -1):
            half = np.uint64(1) << np.uint64(k - 1)
            # A shift instead of a branch, which processors would often mispredict.
            below = np.uint64(edges[code + half - np.uint64(1)] < value)
            code += below << np.uint64(k - 1)
        out[i] = code


@compiled
def bin_columns(rows, columns, guesses, starts, edges, out):
    """Write the bins of several columns of numbers, some rows of all of them at a time.

    So a row-major table is read once.

    Parameters
    ----------
    columns : int64 array of shape (columns, 5)
        The address and stride (in bytes) of each column, its type (see `addresses.number_at`),
        its line of `out`, and the index of its bins.
    guesses : tuple of arrays
        low, scale, first, bits and halvings of all bins, as in `bin_numbers`.
    starts, edges : tuples of a flat array and the offsets of each column's part
    out : uint8 array of shape (lines, rows)
    """
    low, scale, first, bits, halvings = guesses
    start, start_first = starts
    edge, edge_first = edges
    size = min(rows, _STRIDE)
    slots, values = np.empty(size, dtype=np.int32), np.empty(size, dtype=np.float64)
    for begin in range(0, rows, _STRIDE):
        end = min(begin + _STRIDE, rows)
        part, own = values[: end - begin], slots[: end - begin]
        for c in range(columns.shape[0]):
            address, stride, kind, line, b = columns[c]
            for i in range(part.size):
                part[i] = number_at(address + (begin + i) * stride, kind)
            own_start = start[start_first[b] : start_first[b + 1]]
            own_edges = edge[edge_first[b] : edge_first[b + 1]]
            guess_slots(part, low[b], scale[b], first[b], bits[b], own_start.size - 1, own)
            _settle(part, own, own_start, halvings[b], own_edges, out[line, begin:end])


@inlined
def _rotate(word, bits):
    """Rotate a 64-bit word to the left."""
    return (word << np.uint64(bits)) | (word >> np.uint64(64 - bits))


@inlined
def _sip_rounds(rounds, a, b, c, d):
    """Mix the state of SipHash."""
    for _ in range(rounds):
        a, c = a + b, c + d
        b, d = _rotate(b, 13) ^ a, _rotate(d, 16) ^ c
        a, c = _rotate(a, 32) + d, c + b
        b, d = _rotate(b, 17) ^ c, _rotate(d, 21) ^ a
        c = _rotate(c, 32)
    return a, b, c, d


@compiled
def hash_strings(data, ends, key, out):
    """Write SipHash-2-4 of each string of bytes, with 128 bits: a pseudorandom function.

    Parameters
    ----------
    data : uint8 array
        The strings.
    ends : int64 array
        The start of the first, and the end of each.
    key : uint64 array of length 2
        The key.
    out : uint64 array of shape (strings, 2)
        Output.
    """
    for i in range(out.shape[0]):
        begin, size = ends[i], ends[i + 1] - ends[i]
        a = key[0] ^ np.uint64(0x736F6D6570736575)
        b = key[1] ^ np.uint64(0x646F72616E646F6D) ^ np.uint64(0xEE)
        c = key[0] ^ np.uint64(0x6C7967656E657261)
        d = key[1] ^ np.uint64(0x7465646279746573)
        for at in range(0, size + 1, 8):
            word = np.uint64(0)
            for k in range(min(8, size - at)):
                word |= np.uint64(data[begin + at + k]) << np.uint64(8 * k)
            if size - at < 8:  # the last word, which may hold only the length
                word |= np.uint64(size) << np.uint64(56)
            a, b, c, d = _sip_rounds(2, a, b, c, d ^ word)
            a ^= word
        a, b, c, d = _sip_rounds(4, a, b, c ^ np.uint64(0xEE), d)
        out[i, 0] = a ^ b ^ c ^ d
        a, b, c, d = _sip_rounds(4, a, b ^ np.uint64(0xDD), c, d)
        out[i, 1] = a ^ b ^ c ^ d
