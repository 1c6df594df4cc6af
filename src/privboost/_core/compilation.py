"""Compilation of kernels by numba, and a cache of the machine code that is keyed by content.

numba's own cache compares the source file of the compiled function alone, and is not used at all
where its folder cannot be written. Here a file of the cache is named after everything that its
machine code depends on: the function, the compiled functions and constants that it uses, the
argument types, the processor and the versions. So a file is never stale, and can be read from a
read-only file system.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import llvmlite
import numba
import numpy as np
from numba import njit
from numba.core import event
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.dispatcher import Dispatcher
from numba.core.serialize import dumps

_PACKAGE = __name__.partition(".")[0]
_VERSIONS = (numba.__version__, llvmlite.__version__, sys.version_info[:2], np.__version__)


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function to machine code; it runs without Python's global lock."""
    return _compile(function)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a function as part of its callers, which takes less time than a call of it."""
    return _compile(function, inline="always")


def looped(function: Callable[..., Any]) -> Any:
    """Compile a function whose `prange` loop runs in numba's threads."""
    return _compile(function, parallel=True)


def _compile(function: Callable[..., Any], **options: Any) -> Any:
    decorate: Any = njit  # numba's types do not know all options
    found = decorate(nogil=True, no_cfunc_wrapper=True, **options)(function)
    if isinstance(found, Dispatcher):  # unless numba is disabled
        found._cache = _Cache(function)  # type: ignore[attr-defined]
    return found


class _Cache(NullCache):
    """The cached machine code of one function, a file for each signature."""

    def __init__(self, function: Any) -> None:
        self._function = function

    @property
    def cache_path(self) -> str:
        """The folder that is looked into first."""
        return str(cache_folders()[0])

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled function for a signature; None where no folder has it."""
        target_context.refresh()
        name = self._name(sig, target_context.codegen())
        for folder in cache_folders():
            try:
                payload = pickle.loads((folder / name).read_bytes())
            except Exception:  # no such file, or a damaged one: the function is compiled again
                continue
            return CompileResult._rebuild(target_context, *payload)  # type: ignore[no-untyped-call]
        return None

    def save_overload(self, sig: Any, cres: Any) -> None:
        """Write the compiled function for a signature into the first folder that takes it."""
        if cres.library.has_dynamic_globals or cres.lifted:
            return
        name, data = self._name(sig, cres.codegen), dumps(cres._reduce())  # type: ignore[no-untyped-call]
        for folder in cache_folders():
            try:
                _write(folder / name, data)
            except OSError:
                continue
            return

    def _name(self, sig: Any, codegen: Any) -> str:
        key = (_content_of(self._function), str(sig), codegen.magic_tuple(), _VERSIONS)
        digest = hashlib.sha256(repr(key).encode()).hexdigest()[:32]
        module = self._function.__module__.rpartition(".")[2]
        return f"{module}.{self._function.__name__}-{digest}.nbc"


def cache_folders() -> list[Path]:
    """Return the folders of compiled code, in the order in which they are looked into.

    `NUMBA_CACHE_DIR` if it is set, else `__pycache__` of the package and a folder of the user. None
    is shared between users: cached code is run as it is found.
    """
    if named := numba.config.CACHE_DIR:  # type: ignore[attr-defined]
        return [Path(named) / _PACKAGE]
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    package = Path(inspect.getfile(sys.modules[_PACKAGE])).parent
    folders = [package / "__pycache__"]
    return [*folders, Path(home) / _PACKAGE] if os.path.isabs(home) else folders


def writable_folder() -> Path | None:
    """Return the first folder of compiled code that can be written."""
    for folder in cache_folders():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError:
            continue
        return folder
    return None


def _write(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    try:
        with open(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


@cache
def _content_of(function: Any) -> str:
    """Return a digest of a function's code and of all that it uses by name."""
    digest = hashlib.sha256(repr(_code(function.__code__)).encode())
    for name in sorted(_names(function.__code__)):
        if name in function.__globals__:
            used = function.__globals__[name]
            digest.update(f"{name} {_value(used)}".encode())
    for cell in function.__closure__ or ():
        digest.update(_value(cell.cell_contents).encode())
    return digest.hexdigest()


def _code(code: CodeType) -> tuple[Any, ...]:
    constants = [
        _code(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts
    ]
    return (code.co_code, code.co_names, code.co_varnames, constants)


def _names(code: CodeType) -> set[str]:
    inner = [_names(each) for each in code.co_consts if isinstance(each, CodeType)]
    return set(code.co_names).union(*inner)


def _value(value: Any) -> str:
    """Describe a global variable of a compiled function by what machine code depends on."""
    if isinstance(value, Dispatcher):
        return _content_of(value.py_func)
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {value.tobytes().hex()}"
    module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", "")
    if str(module).partition(".")[0] == _PACKAGE:  # intrinsics and overloads, which emit code
        return _source(module)
    named = isinstance(value, FunctionType | ModuleType | type)
    return f"{module}.{value.__name__}" if named else repr(value)


@cache
def _source(module: str) -> str:
    file = sys.modules[module].__file__
    assert file is not None
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()


@contextmanager
def announce_compilation(verbose: bool) -> Iterator[None]:
    """Print a line to the standard error stream if kernels have to be compiled on this machine.

    The test is a function that every fit calls before it reads a row: which kernels are compiled,
    and when, may depend on rows.
    """
    with event.install_listener("numba:compile", _Announcement()) if verbose else nullcontext():
        _do_nothing()
    yield


@compiled
def _do_nothing() -> int:
    """No-op that detects an empty cache."""
    return 0


@contextmanager
def count_compilations() -> Iterator[list[str]]:
    """Collect the names of the functions that are compiled in a `with` block."""
    with event.install_recorder("numba:compile") as recorder:
        found: list[str] = []
        yield found
    found += [str(each.data["dispatcher"]) for _, each in recorder.buffer if each.is_start]


class _Announcement(event.Listener):
    """Prints one line when a function is compiled."""

    def on_start(self, event: Any) -> None:
        print(
            "compiling kernels: once on this machine, some ten seconds", file=sys.stderr, flush=True
        )

    def on_end(self, event: Any) -> None:
        pass
