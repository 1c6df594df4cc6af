"""The kernel that adds up node histograms of blocks: as those of `engine.block_kernels`."""

from __future__ import annotations

import numpy as np

from privboost.addresses import bytes_at, codes_at, steps_at
from privboost.compiling import compiled
from privboost.engine.block_kernels import PACKED_ROWS, bytes_or_none, codes_or_none
from privboost.engine.kernels import sum_block_by_node
from privboost.watch import run_shares

_ROOM_ROWS = PACKED_ROWS + 1
"""No block has more rows."""


def room_of_nodes(nodes: int, cells: int, joint_cells: int) -> int:
    """Return how many numbers `sum_by_node` has in hand."""
    return 2 * _ROOM_ROWS + nodes * (cells + joint_cells)


@compiled
def _sum_by_node(
    first,
    last,
    number,
    sizes,
    label_at,
    state_at,
    weight_at,
    active_at,
    look_up,
    node_at,
    chosen,
    columns,
    narrow,
    wide,
    joint_at,
    joint,
    shape,
    rooms,
    copies,
):
    """Add up pairs by (node, cell), for the rows of chosen nodes.

    Parameters
    ----------
    look_up : tuple of place_of_label, table, size, shift
        Where statistics are found.
    columns : tuple of narrow_at, wide_at, n_narrow, n_wide
        Where codes lie, and how many columns there are.
    narrow, wide, joint : tuples of slots, cell_of, first
        Which columns are meant, and their cells: see `kernels.sum_block_by_node`.
    joint_at : int64 array
        Where joint codes lie.
    shape : tuple of int
        How many nodes there are, cells of each, and cells of joint codes.
    rooms : int64 array of shape (threads, at least `room_of_nodes`)
        Room for what is in hand: threads that ask the system for memory wait for each other.
    copies : int64 array of shape (threads, 2 · nodes · (cells + joint cells))
        The sums of all cells, then those of joint codes.
    """
    place_of_label, table, size, shift = look_up
    nodes, cells, joint_cells = shape
    own, plain = copies[number], 2 * nodes * cells
    out = own[:plain].reshape((nodes, cells, 2))
    joint_out = own[plain:].reshape((nodes, joint_cells, 2))
    narrow_at, wide_at, n_narrow, n_wide = columns
    n_joint, room = joint[0].size, rooms[number]
    pairs = room[:_ROOM_ROWS]
    numbers = room[_ROOM_ROWS : 2 * _ROOM_ROWS].view(np.uint32)
    own_rows, start = numbers[:_ROOM_ROWS], numbers[_ROOM_ROWS:]
    rest, middle = room[2 * _ROOM_ROWS :], nodes * cells
    packed = rest[:middle].reshape((nodes, cells))
    joint_packed = rest[middle : middle + nodes * joint_cells].reshape((nodes, joint_cells))
    for block in range(first, last):
        rows = sizes[block]
        label, state = bytes_at(label_at[block], rows), steps_at(state_at[block], rows)
        thin = bytes_at(narrow_at[block], n_narrow * rows).reshape((n_narrow, rows))
        broad = codes_at(wide_at[block], n_wide * rows).reshape((n_wide, rows))
        both = codes_at(joint_at[block], n_joint * rows).reshape((n_joint, rows))
        sum_block_by_node(
            (label, place_of_label, state, table, size, shift),
            codes_or_none(weight_at, block, rows),
            bytes_or_none(active_at, block, rows),
            codes_at(node_at[block], rows),
            chosen,
            (thin, narrow[0], narrow[1], narrow[2]),
            (broad, wide[0], wide[1], wide[2]),
            (both, joint[0], joint[1], joint[2]),
            own_rows,
            start,
            pairs,
            packed,
            joint_packed,
            out,
            joint_out,
        )


@compiled
def sum_by_node(mail, cuts, task):
    """Do `_sum_by_node`, all shares at once."""
    return run_shares(mail, cuts, _sum_by_node, task)
