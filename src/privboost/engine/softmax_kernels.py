"""Kernels about all classes of a row at once; see `engine.softmax` and `engine.block_kernels`.

A row's scores lie apart by the number of rows of its block. Every number is an integer: that of a
square root is found from a float, and is checked by integers.
"""

from __future__ import annotations

import math

import numpy as np

from privboost._core.addresses import bytes_at, steps_at
from privboost._core.compilation import compiled
from privboost._core.threads import kernel
from privboost.engine.block_kernels import codes_or_none, write_cells

PROBABILITY_BITS = 24
PROBABILITY_STEPS = 2**PROBABILITY_BITS
"""A probability of 1, and the exponential of 0, in steps."""

DIFFERENCE_BITS = 8
"""Bits by which differences of scores are shifted right to give a column of the table."""

SLOPE_BITS = 12
SLOPE_STEPS = 2**SLOPE_BITS
"""A factor of scores of 1, in steps."""

_ROWS = 64
"""Rows whose statistics are computed before they are added: they stay in the processor's cache."""

_RECIPROCAL_BITS = 62 - PROBABILITY_BITS
_FACTOR_BITS = 30


@compiled
def _times(weight, row):
    """Return how many times a row counts."""
    if weight is None:
        return np.int64(1)
    return np.int64(weight[row])


@compiled
def _root(square):
    """Return the least whole number whose square is at least this, which is below 2⁵²."""
    root = np.int64(math.sqrt(square))
    while root * root < square:
        root += 1
    while root > 0 and (root - 1) * (root - 1) >= square:
        root -= 1
    return root


@compiled
def _exponentiate(state, table, slope, first, held, top, total):
    """Write the exponentials of rows' scores, the class of the largest one, and their sum."""
    n_outputs, count = held.shape
    last = np.int64(table.size - 1)
    for i in range(count):
        top[i], total[i] = 0, state[0, first + i]  # the largest score, for now
    for k in range(1, n_outputs):
        scores = state[k]
        for i in range(count):
            if scores[first + i] > total[i]:
                top[i], total[i] = k, scores[first + i]
    shift = np.int64(SLOPE_BITS + DIFFERENCE_BITS)
    for k in range(n_outputs):
        own, scores = held[k], state[k]
        for i in range(count):
            below = ((total[i] - np.int64(scores[first + i])) * slope) >> shift
            own[i] = table[np.uint64(min(below, last))]
    total[:count] = 0
    for k in range(n_outputs):
        own = held[k]
        for i in range(count):
            total[i] += own[i]


@compiled
def softmax_statistics(
    state,
    label,
    weight,
    table,
    slope,
    clip,
    clip_steps,
    hessian_clip,
    absolute,
    most_steps,
    first,
    held,
    g,
    h,
):
    """Write the gradients and Hessians of rows, in steps of sums.

    Parameters
    ----------
    state : int32 array of shape (classes, rows)
    first : int
        The first of the rows, of which there are `held.shape[1]`.
    clip, clip_steps, hessian_clip, absolute, most_steps
        The clip of gradients in steps of probabilities and of sums, and that of the length of
        Hessians; `most_steps` is the latter in steps of sums. See `engine.softmax`.
    held : int64 array of shape (classes, rows)
        Working memory.
    g, h : int64 arrays of shape (rows, classes)
    """
    n_outputs, count = held.shape
    top, total = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    _exponentiate(state, table, slope, first, held, top, total)
    others, length = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    for i in range(count):  # the reciprocal of each sum
        total[i] = (np.int64(PROBABILITY_STEPS) << np.int64(_RECIPROCAL_BITS)) // total[i]
    for k in range(n_outputs):
        own = held[k]
        for i in range(count):
            p = (own[i] * total[i]) >> np.int64(_RECIPROCAL_BITS)
            own[i] = p
            others[i] += p
    for i in range(count):
        y = label[first + i]
        if y < n_outputs:
            others[i] -= held[y, i]
            held[y, i] = PROBABILITY_STEPS - others[i]
    for k in range(n_outputs):
        own = held[k]
        for i in range(count):
            own_h = (own[i] * (PROBABILITY_STEPS - own[i])) >> np.int64(PROBABILITY_BITS)
            h[i, k] = own_h
            length[i] += own_h if absolute else own_h * own_h
    for i in range(count):
        y = label[first + i]
        if y >= n_outputs:
            g[i, :] = 0
            h[i, :] = 0
            continue
        if not absolute:
            length[i] = _root(length[i])
        by = (np.int64(clip_steps) << np.int64(_FACTOR_BITS)) // max(others[i], clip)
        most = (np.int64(most_steps) << np.int64(_FACTOR_BITS)) // max(length[i], hessian_clip)
        times = _times(weight, first + i)
        for k in range(n_outputs):
            g[i, k] = ((held[k, i] * by) >> np.int64(_FACTOR_BITS)) * times
            h[i, k] = ((h[i, k] * most) >> np.int64(_FACTOR_BITS)) * times
        g[i, y] = -((others[i] * by) >> np.int64(_FACTOR_BITS)) * times


@compiled
def _scores_of_block(state_at, rows, n_outputs):
    return steps_at(state_at, n_outputs * rows).reshape((n_outputs, rows))


@kernel
def sum_softmax(
    first,
    last,
    number,
    sizes,
    label_at,
    state_at,
    weight_at,
    n_outputs,
    clip,
    clip_steps,
    hessian_clip,
    absolute,
    slope,
    most_steps,
    table,
    ids_at,
    wide,
    cell_of,
    cell_first,
    radix,
    digit_first,
    part_first,
    copies,
):
    """Add up the softmax statistics of rows by the cells of several parts.

    Parameters
    ----------
    state_at : int64 array
        The addresses of each block's scores, of all classes.
    ids_at, …, part_first
        The parts; see `engine.blocks.Parts`.
    copies : int64 array of shape (shares, cells, classes, 2)
    """
    out, cells = copies[number], np.empty(_ROWS, dtype=np.uint32)
    held = np.empty(n_outputs * _ROWS, dtype=np.int64)
    g = np.empty((_ROWS, n_outputs), dtype=np.int64)
    h = np.empty((_ROWS, n_outputs), dtype=np.int64)
    for block in range(first, last):
        rows = sizes[block]
        label = bytes_at(label_at[block], rows)
        state = _scores_of_block(state_at[block], rows, n_outputs)
        weight = codes_or_none(weight_at, block, rows)
        for start in range(0, rows, _ROWS):
            count = min(start + _ROWS, rows) - start
            softmax_statistics(
                state,
                label,
                weight,
                table,
                slope,
                clip,
                clip_steps,
                hessian_clip,
                absolute,
                most_steps,
                start,
                held[: n_outputs * count].reshape((n_outputs, count)),
                g,
                h,
            )
            here = cells[:count]
            for part in range(digit_first.size - 1):
                digit, end = digit_first[part], digit_first[part + 1]
                write_cells(
                    block, rows, start, digit, end, ids_at, wide, cell_of, cell_first, radix, here
                )
                begin = part_first[part]
                for i in range(count):
                    own = out[begin + np.int64(here[i])]
                    for k in range(n_outputs):
                        own[k, 0] += g[i, k]
                        own[k, 1] += h[i, k]


@kernel
def count_labels(first, last, number, sizes, label_at, weight_at, copies):
    """Count rows by label; those beyond the last class do not count.

    `copies` is an int64 array of shape (shares, classes).
    """
    out = copies[number]
    for block in range(first, last):
        rows = sizes[block]
        label, weight = bytes_at(label_at[block], rows), codes_or_none(weight_at, block, rows)
        for i in range(rows):
            if label[i] < out.size:
                times = _times(weight, i)
                out[label[i]] += times


@kernel
def count_top_classes(
    first, last, number, sizes, label_at, state_at, weight_at, n_outputs, table, edges, copies
):
    """Count rows by interval of the largest probability, and whether that class is their own.

    `copies` is an int64 array of shape (shares, intervals, 2).
    """
    out, slope = copies[number], np.int64(1) << np.int64(SLOPE_BITS)
    held = np.empty(n_outputs * _ROWS, dtype=np.int64)
    top, total = np.empty(_ROWS, dtype=np.int64), np.empty(_ROWS, dtype=np.int64)
    for block in range(first, last):
        rows = sizes[block]
        label = bytes_at(label_at[block], rows)
        state = _scores_of_block(state_at[block], rows, n_outputs)
        weight = codes_or_none(weight_at, block, rows)
        for start in range(0, rows, _ROWS):
            count = min(start + _ROWS, rows) - start
            own = held[: n_outputs * count].reshape((n_outputs, count))
            _exponentiate(state, table, slope, start, own, top, total)
            for i in range(count):
                y = label[start + i]
                if y >= n_outputs:
                    continue
                whole = (np.int64(PROBABILITY_STEPS) << np.int64(_RECIPROCAL_BITS)) // total[i]
                p = (own[top[i], i] * whole) >> np.int64(_RECIPROCAL_BITS)
                times = _times(weight, start + i)
                cell = np.searchsorted(edges, p, side="right")
                out[cell, np.int64(top[i] == y)] += times
