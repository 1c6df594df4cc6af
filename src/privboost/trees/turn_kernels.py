"""Rows down the first levels of a tree by comparisons, 512 rows at a time, compiled by numba.

A node sends the codes of some runs to the right: most often one run. Processors compare 64 codes
with the ends of a run in a few instructions, so that asking all nodes of a level about all rows,
wherever these are, is faster than finding out for each row which node to ask; as long as nodes are
few. Who goes right is a bit a row, in words of 64.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from privboost.compiling import compiled

MOST_RUNS = 64
"""A level with more of them is left to look-ups, and all levels below it."""
MOST_LEVELS = 7
"""With a run a node, no more levels have so few."""
_CODES = 255
"""A column of bytes has no more of them; see `tables.layout`."""

_WORDS = 8
STRIDE = 64 * _WORDS
"""Rows that are led down at once: their codes stay near the processor."""

_BYTE, _PLACE, _WORD = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_BITS, _BYTES = ir.VectorType(ir.IntType(1), 64), ir.VectorType(_BYTE, 64)
_NODES, _ALL_WORDS = ir.VectorType(ir.IntType(16), 64), ir.VectorType(_WORD, _WORDS)


def _pointer(context, builder, kind, array, place, to):
    """Return where an entry of an array lies, as a pointer to something."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [place]), to.as_pointer())


def _repeated(builder, byte):
    """Return a vector of one byte, 64 times."""
    nothing = ir.Constant(_BYTES, ir.Undefined)
    first = builder.insert_element(nothing, byte, _PLACE(0))
    places = ir.Constant(ir.VectorType(_PLACE, 64), [0] * 64)
    return builder.shuffle_vector(first, nothing, places)


def _mark_run(context, builder, signature, arguments, more):
    """Mark the rows of a stride whose codes lie in a run, beside those that are marked or alone."""
    kinds = signature.args
    codes = _pointer(context, builder, kinds[0], arguments[0], arguments[1], _BYTE)
    begin, length = _repeated(builder, arguments[2]), _repeated(builder, arguments[3])
    turns = _pointer(context, builder, kinds[4], arguments[4], arguments[5], _WORD)
    for number in range(_WORDS):
        own = builder.gep(codes, [_WORD(64 * number)])
        seen = builder.load(builder.bitcast(own, _BYTES.as_pointer()), align=1)
        # Codes before the run wrap around, and are large.
        within = builder.icmp_unsigned("<", builder.sub(seen, begin), length)
        word, place = builder.bitcast(within, _WORD), builder.gep(turns, [_WORD(number)])
        builder.store(builder.or_(builder.load(place), word) if more else word, place)
    return context.get_dummy_value()


def _kinds_of_run(codes, turns):
    kinds = (codes, types.uint64, types.uint8, types.uint8, turns, types.uint64)
    return types.none(*kinds)


@intrinsic
def _set_run(typing_context, codes, place, begin, length, turns, at):
    """Write which rows of a stride, from a place among codes on, have a code of a run."""

    def generate(context, builder, signature, arguments):
        return _mark_run(context, builder, signature, arguments, False)

    return _kinds_of_run(codes, turns), generate


@intrinsic
def _add_run(typing_context, codes, place, begin, length, turns, at):
    """Do the same with one more run of the same node."""

    def generate(context, builder, signature, arguments):
        return _mark_run(context, builder, signature, arguments, True)

    return _kinds_of_run(codes, turns), generate


@intrinsic
def _part_rows(typing_context, turns, here, below, level, at, nodes, deeper):
    """Part the rows of all nodes of a level.

    Parameters
    ----------
    turns : uint64 array
        Who would go right at each node.
    here, below : uint64 arrays
        Who is at each node, and room for who is at each of their children.
    level, at : uint64 array, int
        Where to write who goes right, at whatever node.
    deeper : bool
        Whether it matters who is at the children.
    """

    def generate(context, builder, signature, arguments):
        def words(number, place):
            kind, array = signature.args[number], arguments[number]
            return _pointer(context, builder, kind, array, place, _ALL_WORDS)

        some = cgutils.alloca_once_value(builder, ir.Constant(_ALL_WORDS, [0] * _WORDS))
        with cgutils.for_range(builder, arguments[5]) as loop:
            place = builder.mul(loop.index, _WORD(_WORDS))
            own = builder.load(words(1, place), align=8)
            right = builder.and_(own, builder.load(words(0, place), align=8))
            with builder.if_then(arguments[6]):
                twice = builder.add(place, place)
                builder.store(builder.xor(own, right), words(2, twice), align=8)
                builder.store(right, words(2, builder.add(twice, _WORD(_WORDS))), align=8)
            builder.store(builder.or_(builder.load(some), right), some)
        builder.store(builder.load(some), words(3, arguments[4]), align=8)
        return context.get_dummy_value()

    kinds = (turns, here, below, level, types.uint64, types.uint64, types.boolean)
    return types.none(*kinds), generate


@intrinsic
def _write_nodes(typing_context, levels, count, node, place):
    """Write the nodes of a stride's rows, which the turns at so many levels say."""

    def generate(context, builder, signature, arguments):
        kinds = signature.args
        turns = _pointer(context, builder, kinds[0], arguments[0], _WORD(0), _WORD)
        out = _pointer(context, builder, kinds[2], arguments[2], arguments[3], ir.IntType(16))
        for number in range(_WORDS):
            nodes = cgutils.alloca_once_value(builder, ir.Constant(_NODES, [0] * 64))
            with cgutils.for_range(builder, arguments[1]) as loop:
                word = builder.add(builder.mul(loop.index, _WORD(_WORDS)), _WORD(number))
                bits = builder.bitcast(builder.load(builder.gep(turns, [word])), _BITS)
                own = builder.load(nodes)
                deeper = builder.add(builder.add(own, own), builder.zext(bits, _NODES))
                builder.store(deeper, nodes)
            where = builder.gep(out, [_WORD(64 * number)])
            where = builder.bitcast(where, _NODES.as_pointer())
            builder.store(builder.load(nodes), where, align=2)
        return context.get_dummy_value()

    return types.none(levels, types.uint64, node, types.uint64), generate


@compiled
def find_runs(goes_right, first, begin, length):
    """Write which runs of codes the nodes of a tree send to the right, as far as they are few.

    Parameters
    ----------
    goes_right : uint8 array of shape (nodes, codes)
        The tree.
    first : uint16 array, a number longer than there are nodes
        Room for the place of each node's first run: each has at least one, be it empty.
    begin, length : uint8 arrays of length MOST_LEVELS · MOST_RUNS
        Room for the first code of each run, and for how many there are.

    Returns
    -------
    int
        How many levels from the root on have few.
    """
    codes, found, levels, node = min(goes_right.shape[1], _CODES), 0, 0, 0
    first[0] = 0
    while node < goes_right.shape[0] and levels < MOST_LEVELS:
        start, last = found, 2 * node + 1
        for own in range(node, last):
            code = 0
            while code < codes:
                end = code
                while end < codes and goes_right[own, end]:
                    end += 1
                if end > code or (code + 1 == codes and found == first[own]):
                    if found - start == MOST_RUNS:
                        return levels
                    begin[found], length[found] = code, end - code
                    found += 1
                code = max(end, code + 1)
            first[own + 1] = found
        levels, node = levels + 1, last
    return levels


@compiled
def turn_rows(narrow, slots, runs, node):
    """Lead rows from the root down as many levels as have runs.

    Parameters
    ----------
    narrow : uint8 array of shape (columns, rows)
        Codes.
    slots : uint16 array
        Which of these columns each node looks at.
    runs : Runs
        What goes right; see `trees.runs`.
    node : uint16 array
        Where to write the node of each row, numbered within its level.
    """
    if runs[0] == 0:
        node[:] = 0
    elif node.size < STRIDE:
        _turn_few(narrow, slots, runs, node)
    else:
        _turn_many(narrow, slots, runs, node)


@compiled
def _turn_few(narrow, slots, runs, node):
    """Do `turn_rows`, row by row."""
    levels, first, begin, length = runs
    for row in range(node.size):
        at = 0
        for level in range(levels):
            own = (1 << level) - 1 + at
            code, right = narrow[slots[own], row], False
            for run in range(first[own], first[own + 1]):
                right |= (np.int64(code) - np.int64(begin[run])) & 255 < length[run]
            at = 2 * at + right
        node[row] = at


@compiled
def _turn_many(narrow, slots, runs, node):
    """Do `turn_rows` for `STRIDE` rows at once, or more."""
    levels, first, begin, length = runs
    rows, stride, words = np.uint64(node.size), np.uint64(STRIDE), np.uint64(_WORDS)
    one, codes = np.uint64(1), narrow.reshape(-1)
    most = np.uint64(_WORDS) << np.uint64(levels)
    turns, here, below = np.empty((3, most), dtype=np.uint64)
    by_level = np.empty(_WORDS * levels, dtype=np.uint64)
    for start in range(np.uint64(0), rows, stride):
        place = start if start + stride <= rows else rows - stride  # some are led twice
        here[:_WORDS] = ~np.uint64(0)
        for level in range(np.uint64(levels)):
            nodes = one << level
            for k in range(nodes):
                own = nodes - one + k
                column, at = np.uint64(slots[own]) * rows + place, k * words
                run = np.uint64(first[own])
                _set_run(codes, column, begin[run], length[run], turns, at)
                for more in range(run + one, np.uint64(first[own + one])):
                    _add_run(codes, column, begin[more], length[more], turns, at)
            deeper = level + one < levels
            _part_rows(turns, here, below, by_level, level * words, nodes, deeper)
            here, below = below, here
        _write_nodes(by_level, np.uint64(levels), node, place)
