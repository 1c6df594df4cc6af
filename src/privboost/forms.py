"""Schema checks of dicts that people write: keys and strings; errors name the place."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from privboost.errors import DomainError

MAX_INT = 2**63 - 1
"""Largest integer that arrays hold."""

_TO_FILL = "to be filled in, from public knowledge, never from the rows"


class Hole(DomainError):
    """A place that still holds a skeleton's null.

    Parameters
    ----------
    place : str
        The place.
    hint : str
        What belongs there, or an alternative.
    """

    def __init__(self, place: str, hint: str = "") -> None:
        super().__init__(place, hint)
        self.place, self.hint = place, hint

    def __str__(self) -> str:
        return f"{self.place}: {_TO_FILL}{self.hint and f': {self.hint}'}"


def tell_problems(holes: Sequence[Hole], wrong: Sequence[str]) -> str:
    """Return one line with all open places and all errors of a dict."""
    problems = [*wrong]
    if len(holes) > 1:
        problems.append(f"{len(holes)} places are {_TO_FILL}: {', '.join(h.place for h in holes)}")
    else:
        problems += map(str, holes)
    return "; ".join(problems)


def check_mapping(
    document: Any, place: str, needed: set[str], allowed: set[str]
) -> Mapping[str, Any]:
    """Check that a dict has all keys it needs and no unknown ones."""
    if not isinstance(document, Mapping):
        keys = ", ".join(sorted(needed))
        raise DomainError(f"{place}: a mapping is needed, with {keys}")
    known = ", ".join(sorted(needed | allowed))
    for key in document:
        if key not in needed | allowed:
            raise DomainError(f"{place}: unknown key {key!r} (known: {known})")
    for key in sorted(needed - set(document)):
        raise DomainError(f"{place}: {key!r} is missing")
    return document


_MARKS = ",;"
"""Separators of labels and facts."""
_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_UNWRITABLE = re.compile(f"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff{_BIDI}]")
"""Control characters, lone surrogates, and characters that change the direction of writing."""


def is_writable(text: Any) -> bool:
    """Whether something is a string that any file and terminal can show unchanged."""
    return isinstance(text, str) and _UNWRITABLE.search(text) is None


def printable(text: str) -> str:
    """Return a string without control characters other than line breaks."""
    return "\n".join(_UNWRITABLE.sub("?", line) for line in text.split("\n"))


def check_text(text: Any, place: str, *, empty: bool = False) -> str:
    """Check a string that is written into files and reports."""
    if not isinstance(text, str) or not (text or empty):
        rule = "a text is needed" if empty else "a text that is not empty is needed"
        raise DomainError(f"{place}: {rule}")
    if not is_writable(text):
        raise DomainError(f"{place}: a text with control characters, or that is not Unicode")
    return text


def read_names(names: Any, place: str) -> tuple[str, ...]:
    """Return a checked list of column names."""
    if not isinstance(names, list | tuple):
        raise DomainError(f"{place}: a list of columns is needed")
    return tuple(check_text(name, place) for name in names)


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse duplicate keys, of which JSON would silently keep the last."""
    twice = given_twice([key for key, _ in pairs])
    if twice is not None:
        name = twice if is_writable(twice) else repr(twice)
        raise DomainError(f"{name}: declared twice")
    return dict(pairs)


def given_twice(keys: Sequence[Any]) -> Any:
    """Return the first duplicate key, or None."""
    counts = Counter(keys)
    return next((key for key in keys if counts[key] > 1), None)


def in_quotes(label: Any, marks: str = _MARKS) -> str:
    """Return a label, in quotes if it contains a separator or a quote, begins or ends with a space,
    or is empty.
    """
    text = str(label)
    plain = text == text.strip() != "" and not set(text) & {*marks, '"'}
    return text if plain else json.dumps(text, ensure_ascii=False)


def listed(labels: Iterable[Any], between: str = ", ", marks: str = _MARKS) -> str:
    """Return labels in one line, quoted where needed."""
    return between.join(in_quotes(label, marks) for label in labels)


def did_you_mean(name: Any, names: Sequence[str]) -> str:
    """Return "did you mean …?" with the nearest of several names, or ""."""
    small = {known.lower(): known for known in reversed(names)}
    own = str(name).lower()
    begun = [known for known in names if len(own) > 1 and known.lower().startswith(own)]
    near = begun or [small[word] for word in get_close_matches(own, small, n=1)]
    return f"did you mean {near[0]!r}?" if near else ""


def read_reason(document: Mapping[str, Any], place: str) -> str:
    """Return the optional reason of a part of a domain."""
    return check_text(document.get("reason", ""), f"{place}.reason", empty=True)
