"""Pickles and copies of declared fields alone: what was computed on the way stays behind.

Objects that callers keep (a model, its encoder, a domain's features) compute some things lazily and
keep them. Whether such a cache is filled can depend on the rows that an object was used on, so no
pickle and no copy may carry one.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

_T = TypeVar("_T")


class DeclaredState:
    """A dataclass that is pickled and copied by its declared fields, without cached properties."""

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]


def fresh_copy(value: _T) -> _T:
    """Return an equal object with empty caches, all the way down; arrays are shared.

    What is used on private rows on behalf of a caller works on such a copy, so that nothing the
    caller holds can tell of them. Dataclasses and tuples of them are copied, nothing else.
    """
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(map(fresh_copy, value))  # type: ignore[return-value]
    if not isinstance(value, DeclaredState) or not is_dataclass(value):
        return value
    own = {field.name: fresh_copy(getattr(value, field.name)) for field in fields(value)}
    return replace(value, **own)
