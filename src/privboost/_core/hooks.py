"""Functions and classes of upper packages that lower packages use, looked up by name.

A lower package never imports an upper one. Where a method of a low-level class is the natural
entry point of something that is computed above it (`Domain.learn`), or bytes name a class that is
defined above (a loader that holds a model), the lower package looks the object up here. The
package's `__init__` registers where each object is, so that the look-up works in every process;
the module is imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_LOCATIONS: dict[str, tuple[str, str]] = {}


def register(name: str, module: str, attribute: str) -> None:
    """Register the location of an object under a name."""
    _LOCATIONS[name] = module, attribute


def resolve(name: str) -> Any:
    """Return a registered object; raise KeyError for an unknown name."""
    module, attribute = _LOCATIONS[name]
    return getattr(import_module(module), attribute)
