"""Kernels that process blocks of rows, each thread some ranges of them; see `engine.kernels`.

Each `kernel` processes the blocks from `first` to before `last`; `number` is the thread's. Arrays
named `…_at` hold the addresses of each block's own arrays. Weights and the marks of active rows are
None where there are none. Sums are added to the thread's line of `copies`.
"""

from __future__ import annotations

import numpy as np

from privboost._core.addresses import bytes_at, codes_at, steps_at
from privboost._core.compilation import compiled
from privboost._core.threads import kernel
from privboost.engine.kernels import (
    LANES,
    add_pairs_packed,
    add_rows_packed,
    add_values,
    charge_rows,
    join_cells,
    row_statistics,
    sum_block_by_node,
    sum_pairs,
    unpack_lanes,
)
from privboost.trees.kernels import count_leaves, route_rows

PACKED_ROWS = 2**15 - 1
"""Rows whose sums fit into packed pairs: see `engine.kernels.add_pairs_packed`.

A block, which has at most `grid.BLOCK_ROWS` rows, must not have more."""
STRIDE = 4096
"""Rows whose statistics are looked up before they are added: they stay in the processor's cache."""


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
def _slice(array, start, stop):
    if array is None:
        return None
    return array[start:stop]


@kernel
def sum_by_id(
    first,
    last,
    number,
    sizes,
    label_at,
    state_at,
    active_at,
    first_entry_of_label,
    table,
    size,
    shift,
    ids_at,
    wide,
    cell_of,
    copies,
):
    """Add up the statistics of rows without weights by the cells of their ids.

    Parameters
    ----------
    first_entry_of_label, table, size, shift
        The look-up table; see `engine.kernels.row_statistics`.
    ids_at, wide : int64 array and bool
        Ids: uint16 if `wide`, else uint8.
    cell_of : uint16 array
        The cell of each id.
    copies : int64 array of shape (shares, cells, 2)
    """
    out = copies[number]
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
            active_here = _slice(active, start, stop)
            if wide:
                ids = codes_at(ids_at[block], rows)[start:stop]
                add_rows_packed(
                    own,
                    first_entry_of_label,
                    here,
                    table,
                    size,
                    shift,
                    active_here,
                    ids,
                    cell_of,
                    packed,
                )
            else:
                codes = bytes_at(ids_at[block], rows)[start:stop]
                add_rows_packed(
                    own,
                    first_entry_of_label,
                    here,
                    table,
                    size,
                    shift,
                    active_here,
                    codes,
                    cell_of,
                    packed,
                )
    unpack_lanes(packed, out)


@compiled
def write_cells(block, rows, start, first, last, ids_at, wide, cell_of, cell_first, radix, out):
    """Write the joint cell of each row of a stride: the cells of its features are the digits."""
    stop = start + out.size
    out[:] = 0
    for digit in range(first, last):
        own = cell_of[cell_first[digit] :]
        if wide[digit]:
            join_cells(codes_at(ids_at[digit, block], rows)[start:stop], own, radix[digit], out)
        else:
            join_cells(bytes_at(ids_at[digit, block], rows)[start:stop], own, radix[digit], out)


@kernel
def sum_parts(
    first,
    last,
    number,
    sizes,
    label_at,
    state_at,
    weight_at,
    active_at,
    first_entry_of_label,
    table,
    size,
    shift,
    ids_at,
    wide,
    cell_of,
    cell_first,
    radix,
    digit_first,
    part_first,
    copies,
):
    """Add up the statistics of rows by the cells of several parts.

    Parameters
    ----------
    first_entry_of_label, table, size, shift
        The look-up table; see `engine.kernels.row_statistics`.
    ids_at, …, part_first
        The parts; see `engine.blocks.Parts`.
    copies : int64 array of shape (shares, cells, 2)
    """
    out, pairs = copies[number], np.empty(STRIDE, dtype=np.int64)
    cells = np.empty(STRIDE, dtype=np.uint32)
    for block in range(first, last):
        rows = sizes[block]
        label, state = bytes_at(label_at[block], rows), steps_at(state_at[block], rows)
        weight = codes_or_none(weight_at, block, rows)
        active = bytes_or_none(active_at, block, rows)
        for start in range(0, rows, STRIDE):
            stop = min(start + STRIDE, rows)
            own, here = pairs[: stop - start], cells[: stop - start]
            row_statistics(
                label[start:stop],
                first_entry_of_label,
                state[start:stop],
                table,
                size,
                shift,
                _slice(weight, start, stop),
                _slice(active, start, stop),
                own,
            )
            for part in range(digit_first.size - 1):
                digit, end = digit_first[part], digit_first[part + 1]
                write_cells(
                    block, rows, start, digit, end, ids_at, wide, cell_of, cell_first, radix, here
                )
                sum_pairs(here, own, out[part_first[part] :])


@kernel
def sum_parts_packed(
    first,
    last,
    number,
    sizes,
    label_at,
    state_at,
    active_at,
    first_entry_of_label,
    table,
    size,
    shift,
    ids_at,
    wide,
    cell_of,
    cell_first,
    radix,
    digit_first,
    part_first,
    copies,
):
    """Do `sum_parts` for rows without weights; the sums of `PACKED_ROWS` rows stay packed."""
    out, pairs = copies[number], np.empty(STRIDE, dtype=np.int64)
    cells = np.empty(STRIDE, dtype=np.uint32)
    packed, held = np.zeros(LANES * out.shape[0], dtype=np.int64), 0
    for block in range(first, last):
        rows = sizes[block]
        if held + rows > PACKED_ROWS:
            _unpack_parts(packed, part_first, out)
            held = 0
        held += rows
        label, state = bytes_at(label_at[block], rows), steps_at(state_at[block], rows)
        active = bytes_or_none(active_at, block, rows)
        for start in range(0, rows, STRIDE):
            stop = min(start + STRIDE, rows)
            own, here = pairs[: stop - start], cells[: stop - start]
            row_statistics(
                label[start:stop],
                first_entry_of_label,
                state[start:stop],
                table,
                size,
                shift,
                None,
                _slice(active, start, stop),
                own,
            )
            for part in range(digit_first.size - 1):
                digit, end = digit_first[part], digit_first[part + 1]
                write_cells(
                    block, rows, start, digit, end, ids_at, wide, cell_of, cell_first, radix, here
                )
                begin, after = part_first[part], part_first[part + 1]
                add_pairs_packed(here, own, packed[LANES * begin : LANES * after])
    _unpack_parts(packed, part_first, out)


@compiled
def _unpack_parts(packed, part_first, out):
    """Add the packed sums of all parts to `out`, and set them to 0."""
    for part in range(part_first.size - 1):
        begin, end = part_first[part], part_first[part + 1]
        unpack_lanes(packed[LANES * begin : LANES * end], out[begin:end])


@kernel
def add_values_by_id(first, last, number, sizes, ids_at, wide, value_of, state_at):
    """Add to each row's state the value of its id."""
    for block in range(first, last):
        rows = sizes[block]
        state = steps_at(state_at[block], rows)
        if wide:
            add_values(codes_at(ids_at[block], rows), value_of, state)
        else:
            add_values(bytes_at(ids_at[block], rows), value_of, state)


@kernel
def add_values_by_part(
    first,
    last,
    number,
    sizes,
    ids_at,
    wide,
    cell_of,
    cell_first,
    radix,
    digit_first,
    part_first,
    value_of,
    state_at,
):
    """Add to each row's state the values of its joint cells of several parts."""
    cells = np.empty(STRIDE, dtype=np.uint32)
    for block in range(first, last):
        rows = sizes[block]
        state = steps_at(state_at[block], rows)
        for start in range(0, rows, STRIDE):
            stop = min(start + STRIDE, rows)
            own = cells[: stop - start]
            for part in range(digit_first.size - 1):
                digit, end = digit_first[part], digit_first[part + 1]
                write_cells(
                    block, rows, start, digit, end, ids_at, wide, cell_of, cell_first, radix, own
                )
                add_values(own, value_of[part_first[part] :], state[start:stop])


@kernel
def route_blocks(
    first,
    last,
    number,
    sizes,
    narrow_at,
    wide_at,
    n_narrow,
    n_wide,
    slots,
    goes_right,
    levels,
    run_first,
    run_begin,
    run_length,
    depth,
    node_at,
    copies,
):
    """Move rows from their nodes at a depth down to their leaves; see `trees.kernels.route_rows`.

    Parameters
    ----------
    narrow_at, wide_at, n_narrow, n_wide
        Codes, and how many columns of one and of two bytes there are.
    levels, run_first, run_begin, run_length
        See `trees.tree.Runs`.
    copies : int64 array of shape (shares, leaves)
        Counts of rows by leaf; with no leaves rows are not counted.
    """
    counts = copies[number]
    for block in range(first, last):
        rows = sizes[block]
        narrow = bytes_at(narrow_at[block], n_narrow * rows)
        wide, node = codes_at(wide_at[block], n_wide * rows), codes_at(node_at[block], rows)
        route_rows(
            narrow,
            wide,
            n_narrow,
            slots,
            goes_right,
            levels,
            run_first,
            run_begin,
            run_length,
            depth,
            node,
        )
        if counts.size > 0:
            count_leaves(node, counts)


@kernel
def charge_blocks(
    first,
    last,
    number,
    sizes,
    label_at,
    first_entry_of_label,
    state_at,
    table,
    shift,
    weight_at,
    steps,
    left_at,
    paid_at,
):
    """Charge each row that can afford it, and mark these rows; see `kernels.charge_rows`."""
    for block in range(first, last):
        rows = sizes[block]
        charge_rows(
            bytes_at(label_at[block], rows),
            first_entry_of_label,
            steps_at(state_at[block], rows),
            table,
            shift,
            codes_or_none(weight_at, block, rows),
            steps,
            steps_at(left_at[block], rows),
            bytes_at(paid_at[block], rows),
        )


@kernel
def sum_copies(first, last, number, copies, out):
    """Write the sum of all lines of `copies`, from one column to before another."""
    total = out[first:last]
    total[:] = copies[0, first:last]
    for k in range(1, copies.shape[0]):
        own = copies[k, first:last]
        for i in range(np.uint64(total.size)):
            total[i] += own[i]


@kernel
def copy_numbers(first, last, number, values, out):
    """Copy numbers, from one place to before another."""
    own, target = values[first:last], out[first:last]
    for i in range(np.uint64(target.size)):
        target[i] = own[i]


_MOST_ROWS = PACKED_ROWS + 1
"""No block has more rows."""


def room_of_nodes(nodes: int, cells: int, joint_cells: int) -> int:
    """Return the size of the working memory of `sum_by_node`, in numbers of 8 bytes."""
    return 2 * _MOST_ROWS + nodes * (cells + joint_cells)


@kernel
def sum_by_node(
    first,
    last,
    number,
    sizes,
    label_at,
    state_at,
    weight_at,
    active_at,
    first_entry_of_label,
    table,
    size,
    shift,
    node_at,
    chosen,
    narrow_at,
    wide_at,
    n_narrow,
    n_wide,
    narrow_slots,
    narrow_cell_of,
    narrow_first,
    wide_slots,
    wide_cell_of,
    wide_first,
    joint_at,
    joint_slots,
    joint_cell_of,
    joint_first,
    nodes,
    cells,
    joint_cells,
    buffers,
    copies,
):
    """Add up pairs by (node, cell), for the rows of chosen nodes.

    Parameters
    ----------
    first_entry_of_label, table, size, shift
        The look-up table; see `engine.kernels.row_statistics`.
    narrow_at, wide_at, n_narrow, n_wide
        Codes, and how many columns of one and of two bytes there are.
    narrow_slots, narrow_cell_of, narrow_first, and so on
        The columns to add up, and their cells: see `engine.kernels.sum_block_by_node`.
    joint_at : int64 array
        Joint codes.
    nodes, cells, joint_cells : int
        How many nodes there are, and how many cells and cells of joint codes each has.
    buffers : int64 array of shape (shares, at least `room_of_nodes`)
        Working memory: threads that ask the system for memory wait for each other.
    copies : int64 array of shape (shares, 2 · nodes · (cells + joint cells))
        The sums of all cells, then those of joint codes.
    """
    own, plain = copies[number], 2 * nodes * cells
    out = own[:plain].reshape((nodes, cells, 2))
    joint_out = own[plain:].reshape((nodes, joint_cells, 2))
    n_joint, buffer = joint_slots.size, buffers[number]
    pairs = buffer[:_MOST_ROWS]
    numbers = buffer[_MOST_ROWS : 2 * _MOST_ROWS].view(np.uint32)
    own_rows, node_start = numbers[:_MOST_ROWS], numbers[_MOST_ROWS:]
    rest, middle = buffer[2 * _MOST_ROWS :], nodes * cells
    packed = rest[:middle].reshape((nodes, cells))
    joint_packed = rest[middle : middle + nodes * joint_cells].reshape((nodes, joint_cells))
    for block in range(first, last):
        rows = sizes[block]
        sum_block_by_node(
            bytes_at(label_at[block], rows),
            first_entry_of_label,
            steps_at(state_at[block], rows),
            table,
            size,
            shift,
            codes_or_none(weight_at, block, rows),
            bytes_or_none(active_at, block, rows),
            codes_at(node_at[block], rows),
            chosen,
            bytes_at(narrow_at[block], n_narrow * rows).reshape((n_narrow, rows)),
            narrow_slots,
            narrow_cell_of,
            narrow_first,
            codes_at(wide_at[block], n_wide * rows).reshape((n_wide, rows)),
            wide_slots,
            wide_cell_of,
            wide_first,
            codes_at(joint_at[block], n_joint * rows).reshape((n_joint, rows)),
            joint_slots,
            joint_cell_of,
            joint_first,
            own_rows,
            node_start,
            pairs,
            packed,
            joint_packed,
            out,
            joint_out,
        )
