"""Kernels that walk over blocks, each thread over its share, all in one call: see `engine.kernels`.

What is called from outside takes `mail` and `cuts` (see `watch.run_shares`) and a task: the other
arguments of the kernel that walks over one share, which bears the same name. Blocks are those from
`first` to before `last`; arrays named `…_at` hold the addresses of each block's own arrays. Where
there are no weights, or everybody takes part, theirs are None. Sums are added to the copy that
has the thread's number.
"""

from __future__ import annotations

import numpy as np

from privboost.addresses import bytes_at, codes_at, steps_at
from privboost.compiling import compiled
from privboost.engine.kernels import (
    LANES,
    add_pairs_packed,
    add_rows_packed,
    add_values,
    begin_cells,
    charge_rows,
    join_cells,
    row_statistics,
    sum_pairs,
    unpack_lanes,
)
from privboost.trees.kernels import route_and_count, route_rows
from privboost.watch import run_shares

PACKED_ROWS = 2**15 - 1
"""So many rows can be added up packed: see `engine.kernels.add_pairs_packed`."""
STRIDE = 4096
"""Rows whose statistics are looked up before they are added: they stay near the processor."""


@compiled
def bytes_or_none(at, block, size):
    """Return a block's uint8 array, where blocks have one."""
    if at is None:
        return None
    return bytes_at(at[block], size)


@compiled
def codes_or_none(at, block, size):
    """Return a block's uint16 array, where blocks have one."""
    if at is None:
        return None
    return codes_at(at[block], size)


@compiled
def _part(array, start, stop):
    if array is None:
        return None
    return array[start:stop]


@compiled
def _sum_by_id(
    first,
    last,
    number,
    sizes,
    label_at,
    state_at,
    active_at,
    look_up,
    ids_at,
    wide,
    cell_of,
    copies,
):
    """Add up the statistics of rows without weights by the cells of their ids.

    Parameters
    ----------
    look_up : tuple of place_of_label, table, size, shift
        Where statistics are found.
    ids_at, wide : int64 array and bool
        Ids: uint16 where they are wide, else uint8.
    cell_of : uint16 array
        The cell of each id.
    copies : int64 array of shape (threads, 2 · cells)
    """
    place_of_label, table, size, shift = look_up
    out = copies[number].reshape((copies.shape[1] // 2, 2))
    packed, held = np.zeros(LANES * out.shape[0], dtype=np.int64), 0
    for block in range(first, last):
        rows = sizes[block]
        if held + rows > PACKED_ROWS:
            unpack_lanes(packed, out)
            held = 0
        held += rows
        label, state = bytes_at(label_at[block], rows), steps_at(state_at[block], rows)
        active = bytes_or_none(active_at, block, rows)
        for start in range(0, rows, STRIDE):
            stop = min(start + STRIDE, rows)
            own, here = label[start:stop], state[start:stop]
            taking = _part(active, start, stop)
            if wide:
                ids = codes_at(ids_at[block], rows)[start:stop]
                add_rows_packed(
                    own, place_of_label, here, table, size, shift, taking, ids, cell_of, packed
                )
            else:
                codes = bytes_at(ids_at[block], rows)[start:stop]
                add_rows_packed(
                    own, place_of_label, here, table, size, shift, taking, codes, cell_of, packed
                )
    unpack_lanes(packed, out)


@compiled
def sum_by_id(mail, cuts, task):
    """Do `_sum_by_id`, all shares at once."""
    return run_shares(mail, cuts, _sum_by_id, task)


@compiled
def _write_cells(block, rows, start, digits, ids_at, wide, cell_of, cell_first, radix, out):
    """Write the joint cell of each row of a stride: its features' own cells are the digits."""
    stop = start + out.size
    for digit in range(digits[0], digits[1]):
        own = cell_of[cell_first[digit] :]
        if wide[digit]:
            ids = codes_at(ids_at[digit, block], rows)[start:stop]
            if digit == digits[0]:
                begin_cells(ids, own, out)
            else:
                join_cells(ids, own, radix[digit], out)
        else:
            codes = bytes_at(ids_at[digit, block], rows)[start:stop]
            if digit == digits[0]:
                begin_cells(codes, own, out)
            else:
                join_cells(codes, own, radix[digit], out)


@compiled
def _add_pairs(as_packed, ids, cell_of, pairs, packed, out):
    if as_packed:
        add_pairs_packed(ids, cell_of, pairs, packed)
    else:
        sum_pairs(ids, cell_of, pairs, out)


@compiled
def _sum_parts(
    first,
    last,
    number,
    sizes,
    label_at,
    state_at,
    weight_at,
    active_at,
    look_up,
    parts,
    as_packed,
    copies,
):
    """Add up the statistics of rows by the cells of several parts.

    Parameters
    ----------
    look_up : tuple of place_of_label, table, size, shift
        Where statistics are found.
    parts : tuple
        See `engine.parts.Parts`.
    as_packed : bool
        Whether sums of up to `PACKED_ROWS` stay packed.
    copies : int64 array of shape (threads, 2 · cells)
    """
    place_of_label, table, size, shift = look_up
    out = copies[number].reshape((copies.shape[1] // 2, 2))
    ids_at, wide, cell_of, cell_first, radix, digit_first, part_first = parts
    packed = np.zeros(LANES * out.shape[0] if as_packed else 0, dtype=np.int64)
    pairs, cells = np.empty(STRIDE, dtype=np.int64), np.empty(STRIDE, dtype=np.uint32)
    held = 0
    for block in range(first, last):
        rows = sizes[block]
        if as_packed and held + rows > PACKED_ROWS:
            _unpack_parts(packed, part_first, out)
            held = 0
        held += rows
        label, state = bytes_at(label_at[block], rows), steps_at(state_at[block], rows)
        weight = codes_or_none(weight_at, block, rows)
        active = bytes_or_none(active_at, block, rows)
        for start in range(0, rows, STRIDE):
            stop = min(start + STRIDE, rows)
            own = pairs[: stop - start]
            row_statistics(
                label[start:stop],
                place_of_label,
                state[start:stop],
                table,
                size,
                shift,
                _part(weight, start, stop),
                _part(active, start, stop),
                own,
            )
            for part in range(digit_first.size - 1):
                begin, end = part_first[part], part_first[part + 1]
                room = packed[LANES * begin : LANES * end] if as_packed else packed
                digit = digit_first[part]
                if digit_first[part + 1] > digit + 1:
                    joint, digits = cells[: stop - start], digit_first[part : part + 2]
                    _write_cells(
                        block, rows, start, digits, ids_at, wide, cell_of, cell_first, radix, joint
                    )
                    _add_pairs(as_packed, joint, None, own, room, out[begin:end])
                elif wide[digit]:
                    ids = codes_at(ids_at[digit, block], rows)[start:stop]
                    those = cell_of[cell_first[digit] :]
                    _add_pairs(as_packed, ids, those, own, room, out[begin:end])
                else:
                    codes = bytes_at(ids_at[digit, block], rows)[start:stop]
                    those = cell_of[cell_first[digit] :]
                    _add_pairs(as_packed, codes, those, own, room, out[begin:end])
    if as_packed:
        _unpack_parts(packed, part_first, out)


@compiled
def sum_parts(mail, cuts, task):
    """Do `_sum_parts`, all shares at once."""
    return run_shares(mail, cuts, _sum_parts, task)


@compiled
def _unpack_parts(packed, part_first, out):
    for part in range(part_first.size - 1):
        begin, end = part_first[part], part_first[part + 1]
        unpack_lanes(packed[LANES * begin : LANES * end], out[begin:end])


@compiled
def _add_values_by_id(first, last, number, sizes, ids_at, wide, value_of, state_at):
    """Add to each row's state the value of its id."""
    for block in range(first, last):
        rows = sizes[block]
        if wide:
            add_values(codes_at(ids_at[block], rows), value_of, steps_at(state_at[block], rows))
        else:
            add_values(bytes_at(ids_at[block], rows), value_of, steps_at(state_at[block], rows))


@compiled
def add_values_by_id(mail, cuts, task):
    """Do `_add_values_by_id`, all shares at once."""
    return run_shares(mail, cuts, _add_values_by_id, task)


@compiled
def _add_values_by_part(first, last, number, sizes, parts, value_of, state_at):
    """Add to each row's state the values of its joint cells of several parts."""
    ids_at, wide, cell_of, cell_first, radix, digit_first, part_first = parts
    cells = np.empty(STRIDE, dtype=np.uint32)
    for block in range(first, last):
        rows = sizes[block]
        state = steps_at(state_at[block], rows)
        for start in range(0, rows, STRIDE):
            stop = min(start + STRIDE, rows)
            own = cells[: stop - start]
            for part in range(digit_first.size - 1):
                digits, values = digit_first[part : part + 2], value_of[part_first[part] :]
                _write_cells(
                    block, rows, start, digits, ids_at, wide, cell_of, cell_first, radix, own
                )
                add_values(own, values, state[start:stop])


@compiled
def add_values_by_part(mail, cuts, task):
    """Do `_add_values_by_part`, all shares at once."""
    return run_shares(mail, cuts, _add_values_by_part, task)


@compiled
def _route_blocks(
    first, last, number, sizes, columns, slots, goes_right, runs, depth, node_at, copies
):
    """Move rows from their nodes at a depth down to their leaves; see `trees.kernels.route_rows`.

    Parameters
    ----------
    columns : tuple of narrow_at, wide_at, n_narrow, n_wide
        Where codes lie, and how many columns there are.
    copies : int64 array of shape (threads, leaves)
        Rows are counted by leaf, too, if it has room for them.
    """
    counts = copies[number]
    narrow_at, wide_at, n_narrow, n_wide = columns
    for block in range(first, last):
        rows = sizes[block]
        narrow = bytes_at(narrow_at[block], n_narrow * rows).reshape((n_narrow, rows))
        wide = codes_at(wide_at[block], n_wide * rows).reshape((n_wide, rows))
        node = codes_at(node_at[block], rows)
        if counts.size == 0:
            route_rows(narrow, wide, slots, goes_right, runs, depth, node)
        else:
            route_and_count(narrow, wide, slots, goes_right, runs, depth, node, counts)


@compiled
def route_blocks(mail, cuts, task):
    """Do `_route_blocks`, all shares at once."""
    return run_shares(mail, cuts, _route_blocks, task)


@compiled
def _charge_blocks(
    first,
    last,
    number,
    sizes,
    label_at,
    places,
    state_at,
    table,
    shift,
    weight_at,
    steps,
    left_at,
    paid_at,
):
    """Charge each row that can afford it, and mark who could: see `kernels.charge_rows`."""
    for block in range(first, last):
        rows = sizes[block]
        charge_rows(
            bytes_at(label_at[block], rows),
            places,
            steps_at(state_at[block], rows),
            table,
            shift,
            codes_or_none(weight_at, block, rows),
            steps,
            steps_at(left_at[block], rows),
            bytes_at(paid_at[block], rows),
        )


@compiled
def charge_blocks(mail, cuts, task):
    """Do `_charge_blocks`, all shares at once."""
    return run_shares(mail, cuts, _charge_blocks, task)
