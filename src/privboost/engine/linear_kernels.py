"""Kernels of one block in a linear model: vectors by code, and their sums; see `engine.kernels`."""

from __future__ import annotations

import math

import numpy as np

from privboost._core.compilation import compiled
from privboost.engine.kernels import LANES


@compiled
def add_joint_values(ids, others, codes, value_of, state):
    """Add to each row's state the value of its pair of codes."""
    for i in range(np.uint64(state.size)):
        state[i] += value_of[np.uint64(ids[i]) * np.uint64(codes) + np.uint64(others[i])]


@compiled
def shorten(square, steps, scale):
    """Write the factors that shorten vectors of these squared norms to a norm of at most `steps`.

    Rounded down, so that no vector is too long; `steps` itself means no change.
    """
    for i in range(np.uint64(square.size)):
        scale[i] = steps if square[i] >= 0 else 0
        if square[i] > steps * steps:
            norm = np.int64(math.sqrt(np.float64(square[i]))) + 1  # never below the norm
            scale[i] = steps * steps // norm


@compiled
def unpack_gradients(pairs, scale, bits, out):
    """Take gradients out of packed pairs, times the rows' scale, rounded toward zero.

    Parameters
    ----------
    bits : int
        How many bits finer the gradient, times weight and scale, is than the result.
    """
    for i in range(np.uint64(out.size)):
        g = pairs[i] >> 32
        if scale is not None:
            g *= np.int64(scale[i])
        out[i] = g >> bits if g >= 0 else -(-g >> bits)


@compiled
def sum_by_code(ids, values, out):
    """Add up values by code."""
    codes = np.uint64(out.size)
    sums = np.zeros(LANES * out.size, dtype=np.int64)
    for i in range(np.uint64(values.size)):
        sums[(i & np.uint64(LANES - 1)) * codes + np.uint64(ids[i])] += values[i]
    for k in range(np.uint64(sums.size)):
        out[k % codes] += sums[k]


@compiled
def sum_by_codes(ids, others, codes, values, out):
    """Add up values by pair of codes."""
    for i in range(np.uint64(values.size)):
        out[np.uint64(ids[i]) * np.uint64(codes) + np.uint64(others[i])] += values[i]


@compiled
def fold(by_code, coordinate, value, out):
    """Add to each coordinate the sums of its codes, times their values."""
    for k in range(np.uint64(by_code.size)):
        out[coordinate[k]] += by_code[k] * np.int64(value[k])


@compiled
def row_factors(label, factor_of_label, scale, weight, roots, steps, out):
    """Write each row's factor: the product for its label, its scale and its weight's root."""
    for i in range(np.uint64(out.size)):
        factor = np.int64(factor_of_label[label[i]])
        if scale is not None:
            factor = factor * np.int64(scale[i]) // steps
        if weight is not None:
            factor = factor * np.int64(roots[weight[i]]) // steps
        out[i] = factor


@compiled
def write_vectors(ids, coordinate, value, factor, bits, out):
    """Write a term's entry for each row, times the row's factor (if any), rounded toward zero.

    A factor of 2^bits is 1.
    """
    one_coordinate = coordinate.min() == coordinate.max()
    own, entries = out[coordinate[0]], value.astype(np.float64)
    if factor is None and one_coordinate:
        for i in range(np.uint64(ids.size)):
            own[i] = entries[ids[i]]
        return
    flat, stride = out.reshape(-1), np.uint64(out.shape[1])
    for i in range(np.uint64(ids.size)):
        entry = entries[ids[i]]
        if factor is not None:
            product = np.int64(value[ids[i]]) * np.int64(factor[i])
            entry = np.float64(product >> bits if product >= 0 else -(-product >> bits))
        flat[np.uint64(coordinate[ids[i]]) * stride + i] = entry
