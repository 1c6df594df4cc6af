"""How functions are compiled: by numba, once for all processes where a folder can be written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function for machines; it never holds Python's lock.

    numba keeps what it has compiled in `NUMBA_CACHE_DIR`, beside the source, or in the home folder.
    Where it may write to none of them (containers, locked servers), each process compiles anew. A
    folder shared by all users would be no way out: cached code is run as it is found.
    """
    try:
        return njit(nogil=True, cache=True)(function)
    except RuntimeError:  # numba's word for "no folder that can be written"
        return njit(nogil=True)(function)
