"""How functions are compiled: by numba, once for all processes where a folder can be written."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from numba import njit
from numba.core import event


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


@contextmanager
def compiling_told(verbose: bool) -> Iterator[None]:
    """Write to the standard error stream, if asked to, that functions are going to be compiled.

    That is so on the first fit of a machine, which is told by a function that every fit calls
    before it reads a row: which of the others are compiled, and when, may depend on rows.
    """
    with event.install_listener("numba:compile", _Teller()) if verbose else nullcontext():
        _begin()
    yield


@compiled
def _begin() -> int:
    """Do nothing: whoever finds it compiled is not the first."""
    return 0


class _Teller(event.Listener):
    """Says one line when a function is compiled."""

    def on_start(self, event: Any) -> None:
        words = "compiling: about half a minute, on the first fit of a machine"
        print(words, file=sys.stderr, flush=True)

    def on_end(self, event: Any) -> None:
        pass
