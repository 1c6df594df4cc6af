"""Split bitmasks, one bit for each row in words of 64, as LLVM vector operations.

numba has no vector types, so these intrinsics emit LLVM IR for a stride of 512 rows. LLVM compiles
it to the vector instructions of the processor: 64 codes are compared in one of them, or in a few.
"""

from __future__ import annotations

import sys

from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

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


def _mark_run(context, builder, signature, arguments, more):
    """Write the bitmask of rows whose codes lie in an interval, or add them to the bitmask."""
    kinds = signature.args
    code = context.get_value_type(kinds[0].dtype)
    many = ir.VectorType(code, 64)
    codes = _pointer(context, builder, kinds[0], arguments[0], arguments[1], code)
    begin, length = (_repeated(builder, each, many) for each in arguments[2:4])
    turns = _pointer(context, builder, kinds[4], arguments[4], arguments[5], _WORD)
    for number in range(WORDS):
        own = builder.gep(codes, [_WORD(64 * number)])
        seen = builder.load(builder.bitcast(own, many.as_pointer()), align=1)
        # Codes before the interval wrap around, and are large.
        within = builder.icmp_unsigned("<", builder.sub(seen, begin), length)
        word, place = builder.bitcast(within, _WORD), builder.gep(turns, [_WORD(number)])
        builder.store(builder.or_(builder.load(place), word) if more else word, place)
    return context.get_dummy_value()


def _kinds_of_run(codes, turns):
    return types.none(codes, types.uint64, codes.dtype, codes.dtype, turns, types.uint64)


@intrinsic
def set_run(typing_context, codes, place, begin, length, turns, at):
    """Write the bitmask of a stride's rows, from an index on, whose codes lie in an interval."""

    def generate(context, builder, signature, arguments):
        return _mark_run(context, builder, signature, arguments, False)

    return _kinds_of_run(codes, turns), generate


@intrinsic
def add_run(typing_context, codes, place, begin, length, turns, at):
    """Add the rows of one more interval to a bitmask."""

    def generate(context, builder, signature, arguments):
        return _mark_run(context, builder, signature, arguments, True)

    return _kinds_of_run(codes, turns), generate


@intrinsic
def part_rows(typing_context, turns, line_of, first, nodes, at_node, by_level, level, deeper):
    """Split the rows of all nodes of a level.

    Parameters
    ----------
    turns : uint64 array
        The bitmasks of unique splits.
    line_of, first, nodes : uint16 array, int, int
        The split of each node, the index of the level's first node, and its number of nodes.
    at_node : uint64 array
        Bitmasks of the rows at each node, level by level; those of children are written.
    by_level, level : uint64 array, int
        Bitmasks of the rows that go right at each level; that of this level is written.
    deeper : bool
        Whether the children's bitmasks are needed.
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
    kinds = (turns, line_of, place, place, at_node, by_level, place, types.boolean)
    return types.none(*kinds), generate


@intrinsic
def write_nodes(typing_context, by_level, levels, node, place):
    """Write the node of each row of a stride, from an index on, from its bits at all levels."""

    def generate(context, builder, signature, arguments):
        kinds = signature.args
        turns = _pointer(context, builder, kinds[0], arguments[0], _WORD(0), _WORD)
        out = _pointer(context, builder, kinds[2], arguments[2], arguments[3], _NODE)
        for number in range(WORDS):
            nodes = cgutils.alloca_once_value(builder, ir.Constant(_NODES, [0] * 64))
            with cgutils.for_range(builder, arguments[1]) as loop:
                word = builder.add(builder.mul(loop.index, _WORD(WORDS)), _WORD(number))
                bits = builder.bitcast(builder.load(builder.gep(turns, [word])), _BITS)
                own = builder.load(nodes)
                deeper = builder.add(builder.add(own, own), builder.zext(bits, _NODES))
                builder.store(deeper, nodes)
            where = builder.gep(out, [_WORD(64 * number)])
            where = builder.bitcast(where, _NODES.as_pointer())
            builder.store(builder.load(nodes), where, align=2)
        return context.get_dummy_value()

    return types.none(by_level, types.uint64, node, types.uint64), generate
