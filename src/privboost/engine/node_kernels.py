"""The kernel that adds up node histograms of blocks; see `engine.block_kernels`."""

from __future__ import annotations

import numpy as np

from privboost.addresses import bytes_at, codes_at, steps_at
from privboost.crew import kernel
from privboost.engine.block_kernels import PACKED_ROWS, bytes_or_none, codes_or_none
from privboost.engine.kernels import sum_block_by_node

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
    place_of_label,
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
    rooms,
    copies,
):
    """Add up pairs by (node, cell), for the rows of chosen nodes.

    Parameters
    ----------
    place_of_label, table, size, shift
        The look-up table; see `engine.kernels.row_statistics`.
    narrow_at, wide_at, n_narrow, n_wide
        Codes, and how many columns of one and of two bytes there are.
    narrow_slots, narrow_cell_of, narrow_first, and so on
        The columns to add up, and their cells: see `engine.kernels.sum_block_by_node`.
    joint_at : int64 array
        Joint codes.
    nodes, cells, joint_cells : int
        How many nodes there are, and how many cells and cells of joint codes each has.
    rooms : int64 array of shape (shares, at least `room_of_nodes`)
        Working memory: threads that ask the system for memory wait for each other.
    copies : int64 array of shape (shares, 2 · nodes · (cells + joint cells))
        The sums of all cells, then those of joint codes.
    """
    own, plain = copies[number], 2 * nodes * cells
    out = own[:plain].reshape((nodes, cells, 2))
    joint_out = own[plain:].reshape((nodes, joint_cells, 2))
    n_joint, room = joint_slots.size, rooms[number]
    pairs = room[:_MOST_ROWS]
    numbers = room[_MOST_ROWS : 2 * _MOST_ROWS].view(np.uint32)
    own_rows, start = numbers[:_MOST_ROWS], numbers[_MOST_ROWS:]
    rest, middle = room[2 * _MOST_ROWS :], nodes * cells
    packed = rest[:middle].reshape((nodes, cells))
    joint_packed = rest[middle : middle + nodes * joint_cells].reshape((nodes, joint_cells))
    for block in range(first, last):
        rows = sizes[block]
        sum_block_by_node(
            bytes_at(label_at[block], rows),
            place_of_label,
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
            start,
            pairs,
            packed,
            joint_packed,
            out,
            joint_out,
        )
