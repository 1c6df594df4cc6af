"""Arrays that several threads clear, copy and add up together.

What is called from outside takes `mail`, `cuts` and a task, as in `engine.block_kernels`.
"""

from __future__ import annotations

import numpy as np

from privboost.compiling import compiled
from privboost.watch import run_shares


@compiled
def _clear_copies(first, last, number, copies):
    """Write zeros into copies, from one to before another."""
    copies[first:last] = 0


@compiled
def clear_copies(mail, cuts, task):
    """Do `_clear_copies`, all shares at once."""
    return run_shares(mail, cuts, _clear_copies, task)


@compiled
def _add_copies(first, last, number, copies, out):
    """Write the sum of all copies, from one place to before another."""
    total = out[first:last]
    total[:] = copies[0, first:last]
    for k in range(1, copies.shape[0]):
        own = copies[k, first:last]
        for i in range(np.uint64(total.size)):
            total[i] += own[i]


@compiled
def add_copies(mail, cuts, task):
    """Do `_add_copies`, all shares at once."""
    return run_shares(mail, cuts, _add_copies, task)


@compiled
def _copy_numbers(first, last, number, values, out):
    """Copy numbers, from one place to before another."""
    own, room = values[first:last], out[first:last]
    for i in range(np.uint64(room.size)):
        room[i] = own[i]


@compiled
def copy_numbers(mail, cuts, task):
    """Do `_copy_numbers`, all shares at once."""
    return run_shares(mail, cuts, _copy_numbers, task)
