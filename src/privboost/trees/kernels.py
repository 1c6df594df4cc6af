"""Kernels that route rows down a tree. Indices are unsigned, as in `engine.kernels`.

A node sends the codes of some intervals to the right: most often one. Processors compare 64 codes
with the ends of an interval in a few instructions, so evaluating all nodes of a level for all rows
is faster than looking up each row's own node, as long as intervals are few. The results are
bitmasks, one bit for each row in words of 64. numba has no vector types, so intrinsics emit LLVM IR
for a stride of 512 rows, which LLVM compiles to the vector instructions of the processor.

Arguments that recur: `narrow` and `wide` are the codes of rows, `slots` the columns of nodes or
splits (narrow ones first), `split_bits` the bitmasks of unique splits, `WORDS` words for each,
`split_of` the split of each node, `at_node` bitmasks of the rows at each node, and `by_level`
bitmasks of the rows that go right at each level.
"""

from __future__ import annotations

import sys

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

from privboost._core.compilation import compiled, inlined

WORDS = 8
STRIDE = 64 * WORDS
"""Rows that are processed at once; their codes stay in the processor's cache."""
FEWEST_ROWS = sys.maxsize if config.DISABLE_JIT else STRIDE  # type: ignore[attr-defined]
"""Fewer rows are routed by look-up; all are where numba is disabled."""

_PLACE, _WORD = ir.IntType(32), ir.IntType(64)
_BITS, _ALL_WORDS = ir.VectorType(ir.IntType(1), 64), ir.VectorType(_WORD, WORDS)
_NODE = ir.IntType(16)
_NODES = ir.VectorType(_NODE, 64)


def _pointer(context, builder, kind, array, place, to):
    """Return a pointer of a type to an entry of an array."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [place]), to.as_pointer())


def _repeated(builder, code, many):
    """Return a vector that holds one code everywhere."""
    nothing = ir.Constant(many, ir.Undefined)
    first = builder.insert_element(nothing, code, _PLACE(0))
    places = ir.Constant(ir.VectorType(_PLACE, 64), [0] * 64)
    return builder.shuffle_vector(first, nothing, places)


def _mark_interval(context, builder, signature, arguments, more):
    """Write the bitmask of rows whose codes lie in an interval, or add them to the bitmask."""
    kinds = signature.args
    code = context.get_value_type(kinds[0].dtype)
    many = ir.VectorType(code, 64)
    codes = _pointer(context, builder, kinds[0], arguments[0], arguments[1], code)
    begin, length = (_repeated(builder, each, many) for each in arguments[2:4])
    split_bits = _pointer(context, builder, kinds[4], arguments[4], arguments[5], _WORD)
    with cgutils.for_range(builder, _WORD(WORDS)) as loop:
        own = builder.gep(codes, [builder.mul(loop.index, _WORD(64))])
        seen = builder.load(builder.bitcast(own, many.as_pointer()), align=1)
        # Codes before the interval wrap around, and are large.
        within = builder.icmp_unsigned("<", builder.sub(seen, begin), length)
        word, place = builder.bitcast(within, _WORD), builder.gep(split_bits, [loop.index])
        builder.store(builder.or_(builder.load(place), word) if more else word, place)
    return context.get_dummy_value()


def _kinds_of_interval(codes, split_bits):
    return types.none(codes, types.uint64, codes.dtype, codes.dtype, split_bits, types.uint64)


@intrinsic
def set_interval(typing_context, codes, place, begin, length, split_bits, at):
    """Write the bitmask of a stride's rows, from an index on, whose codes lie in an interval."""

    def generate(context, builder, signature, arguments):
        return _mark_interval(context, builder, signature, arguments, False)

    return _kinds_of_interval(codes, split_bits), generate


@intrinsic
def add_interval(typing_context, codes, place, begin, length, split_bits, at):
    """Add the rows of one more interval to a bitmask."""

    def generate(context, builder, signature, arguments):
        return _mark_interval(context, builder, signature, arguments, True)

    return _kinds_of_interval(codes, split_bits), generate


@intrinsic
def part_rows(typing_context, split_bits, split_of, first, nodes, at_node, by_level, level, deeper):
    """Split the rows of all nodes of a level, whose first node's split is `split_of[first]`.

    The bitmasks of the level in `by_level` are written, and with `deeper` those of children in
    `at_node`.
    """

    def generate(context, builder, signature, arguments):
        def words(number, place):
            kind, array = signature.args[number], arguments[number]
            place = builder.mul(place, _WORD(WORDS))
            return _pointer(context, builder, kind, array, place, _ALL_WORDS)

        some = cgutils.alloca_once_value(builder, ir.Constant(_ALL_WORDS, [0] * WORDS))
        above = builder.sub(arguments[3], _WORD(1))
        lines = _pointer(context, builder, signature.args[1], arguments[1], arguments[2], _NODE)
        with cgutils.for_range(builder, arguments[3]) as loop:
            line = builder.zext(builder.load(builder.gep(lines, [loop.index])), _WORD)
            node = builder.add(above, loop.index)
            own = builder.load(words(4, node), align=8)
            right = builder.and_(own, builder.load(words(0, line), align=8))
            with builder.if_then(arguments[7]):
                twice = builder.add(node, node)
                left = words(4, builder.add(twice, _WORD(1)))
                builder.store(builder.xor(own, right), left, align=8)
                builder.store(right, words(4, builder.add(twice, _WORD(2))), align=8)
            builder.store(builder.or_(builder.load(some), right), some)
        builder.store(builder.load(some), words(5, arguments[6]), align=8)
        return context.get_dummy_value()

    place = types.uint64
    kinds = (split_bits, split_of, place, place, at_node, by_level, place, types.boolean)
    return types.none(*kinds), generate


@intrinsic
def write_nodes(typing_context, by_level, levels, node, place):
    """Write the node of each row of a stride, from an index on, from its bits at all levels."""

    def generate(context, builder, signature, arguments):
        kinds = signature.args
        split_bits = _pointer(context, builder, kinds[0], arguments[0], _WORD(0), _WORD)
        out = _pointer(context, builder, kinds[2], arguments[2], arguments[3], _NODE)
        for number in range(WORDS):
            nodes = cgutils.alloca_once_value(builder, ir.Constant(_NODES, [0] * 64))
            with cgutils.for_range(builder, arguments[1]) as loop:
                word = builder.add(builder.mul(loop.index, _WORD(WORDS)), _WORD(number))
                bits = builder.bitcast(builder.load(builder.gep(split_bits, [word])), _BITS)
                own = builder.load(nodes)
                deeper = builder.add(builder.add(own, own), builder.zext(bits, _NODES))
                builder.store(deeper, nodes)
            where = builder.gep(out, [_WORD(64 * number)])
            where = builder.bitcast(where, _NODES.as_pointer())
            builder.store(builder.load(nodes), where, align=2)
        return context.get_dummy_value()

    return types.none(by_level, types.uint64, node, types.uint64), generate


_MOST_NARROW = 255
_MOST_WIDE = 2**16 - 1
"""The longest interval of codes in a column of one byte (see `data.rows`), and of two."""


@inlined
def find_intervals(goes_right, most, begin, length, found):
    """Write the intervals of codes that go right: at least one, which may be empty.

    Parameters
    ----------
    goes_right : uint8 array
        1 for each code that goes right.
    most : int
        How many intervals there may be.
    begin, length : uint16 arrays
        The first code of each interval, and its length; written.
    found : int
        How many intervals were written before.

    Returns
    -------
    int
        How many there are now; −1 if there are too many.
    """
    before, code = found, 0
    while code < goes_right.size:
        end = code
        while end < goes_right.size and goes_right[end] and end - code < _MOST_WIDE:
            end += 1
        if end > code:
            if found - before >= most:
                return -1
            begin[found], length[found] = code, end - code
            found += 1
        code = max(end, code + 1)
    if found == before:
        if most < 1:
            return -1
        begin[found], length[found] = 0, 0
        found += 1
    return found


@compiled
def find_intervals_of_level(goes_right, most, first, begin, length):
    """Write the intervals of all nodes of a level; return whether there are at most `most`.

    `goes_right` has shape (nodes, codes). `first` has the index of each node's first interval, and
    the end of the last node's; all but its first entry are written.
    """
    for node in range(goes_right.shape[0]):
        left = most - (first[node] - first[0])
        found = find_intervals(goes_right[node], left, begin, length, first[node])
        if found < 0:
            return False
        first[node + 1] = found
    return True


@inlined
def mark_splits(narrow, wide, rows, place, slots, first, begin, length, lines, split_bits):
    """Write the bitmasks of splits: which rows of a stride each sends to the right.

    `narrow` and `wide` hold column after column of `rows` codes, and `place` is the first row of
    the stride. `first`, `begin` and `length` are the intervals of each split; see `find_intervals`.
    (Not a tuple: unpacking one changes reference counts of its arrays, for which threads wait for
    each other.)
    """
    one, thin = np.uint64(1), np.uint64(narrow.size)
    for line in range(np.uint64(lines)):
        slot, at = np.uint64(slots[line]), line * np.uint64(WORDS)
        run, last = np.uint64(first[line]), np.uint64(first[line + one])
        start = slot * rows + place
        if start < thin:
            set_interval(narrow, start, *_narrowed(begin[run], length[run]), split_bits, at)
            for more in range(run + one, last):
                add_interval(narrow, start, *_narrowed(begin[more], length[more]), split_bits, at)
        else:
            set_interval(wide, start - thin, begin[run], length[run], split_bits, at)
            for more in range(run + one, last):
                add_interval(wide, start - thin, begin[more], length[more], split_bits, at)


@inlined
def _narrowed(begin, length):
    """Return the part of an interval that a column of one byte can have."""
    low = min(np.uint64(begin), np.uint64(_MOST_NARROW))
    return np.uint8(low), np.uint8(min(np.uint64(length), np.uint64(_MOST_NARROW) - low))


@inlined
def route_stride(split_bits, split_of, root, levels, at_node, by_level):
    """Route the rows of a stride, all of which are at the root, down a tree's levels.

    `root` is the index of the tree's root in `split_of`.
    """
    one = np.uint64(1)
    for level in range(np.uint64(levels)):
        nodes = one << level
        deeper, first = level + one < levels, root + nodes - one
        part_rows(split_bits, split_of, first, nodes, at_node, by_level, level, deeper)


@inlined
def start_at_root(nodes):
    """Return the bitmasks of rows at each node, with all rows of a stride at the root."""
    at_node = np.empty(WORDS * nodes, dtype=np.uint64)
    at_node[:WORDS] = ~np.uint64(0)
    return at_node


@inlined
def route_by_intervals(narrow, wide, slots, levels, first, begin, length, node):
    """Route at least `FEWEST_ROWS` rows from the root down the levels that have intervals.

    The node of each row, numbered within its level, is written to `node`.
    """
    rows, stride, nodes = np.uint64(node.size), np.uint64(STRIDE), (1 << levels) - 1
    split_bits, by_level = np.empty(WORDS * nodes, np.uint64), np.empty(WORDS * levels, np.uint64)
    at_node, split_of = start_at_root(nodes), np.arange(nodes).astype(np.uint16)
    for start in range(np.uint64(0), rows, stride):
        place = start if start + stride <= rows else rows - stride  # some rows are routed twice
        mark_splits(narrow, wide, rows, place, slots, first, begin, length, nodes, split_bits)
        route_stride(split_bits, split_of, np.uint64(0), levels, at_node, by_level)
        write_nodes(by_level, np.uint64(levels), node, place)


LANES = 4
"""Copies of a small count: neighbouring rows add to different ones and seldom wait."""


@inlined
def route_level(narrow, wide, n_narrow, slots, goes_right, node):
    """Move each row from its node of one level to a child: node ← 2·node + (0 left, 1 right).

    `goes_right`, of shape (nodes, codes), tells for each node and code whether the row goes right.
    """
    rows, n_narrow = np.uint64(node.size), np.uint64(n_narrow)
    some_wide = False
    start = np.empty(slots.size, dtype=np.uint64)
    for k in range(slots.size):
        start[k] = np.uint64(slots[k]) * rows
        some_wide |= slots[k] >= n_narrow
    if not some_wide:
        for i in range(rows):
            at = np.uint64(node[i])
            node[i] = at + at + np.uint64(goes_right[at, np.uint64(narrow[start[at] + i])])
        return
    for i in range(rows):
        at = np.uint64(node[i])
        if slots[at] < n_narrow:
            code = np.uint64(narrow[start[at] + i])
        else:
            code = np.uint64(wide[start[at] - n_narrow * rows + i])
        node[i] = at + at + np.uint64(goes_right[at, code])


@compiled
def route_rows(
    narrow, wide, n_narrow, slots, goes_right, levels, first, begin, length, depth, node
):
    """Move each row from its node at a depth, numbered within its level, down to its leaf.

    Codes lie column after column; `n_narrow` columns have one byte. The tree is `slots` and
    `goes_right`, see `route_level`, and the parts of a `CodeIntervals`, not as one: each kind of
    tuple would be compiled for itself. At depth 0 the nodes are not read.
    """
    if depth == 0 and levels > 0 and node.size >= FEWEST_ROWS:
        route_by_intervals(narrow, wide, slots, levels, first, begin, length, node)
        depth = levels
    elif depth == 0:
        node[:] = 0
    top = (1 << depth) - 1
    while top < slots.size:
        last = 2 * top + 1
        route_level(narrow, wide, n_narrow, slots[top:last], goes_right[top:last], node)
        top = last


@compiled
def leaves_of_codes(goes_right, out):
    """Write the leaf of each code in a complete tree that splits one feature only."""
    for code in range(np.uint64(out.size)):
        node = np.uint64(0)
        while node < goes_right.shape[0]:
            node = node + node + np.uint64(1) + np.uint64(goes_right[node, code])
        out[code] = node - np.uint64(goes_right.shape[0])


@inlined
def count_leaves(leaf, out):
    """Add to the counts of rows by leaf."""
    leaves = np.uint64(out.size)
    counts = np.zeros(LANES * out.size, dtype=np.int32)
    for i in range(np.uint64(leaf.size)):
        counts[(i & np.uint64(LANES - 1)) * leaves + np.uint64(leaf[i])] += 1
    for k in range(np.uint64(counts.size)):
        out[k % leaves] += counts[k]
