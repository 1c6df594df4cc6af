"""Forms that people write and files keep: checks of their keys and texts that name the place."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from privboost.errors import DomainError

MAX_INT = 2**63 - 1
"""The largest whole number that arrays hold."""

_TO_FILL = "to be filled in, from public knowledge, never from the rows"


class Hole(DomainError):
    """A place of a form that is still as a skeleton left it.

    Parameters
    ----------
    place : str
        The place.
    hint : str
        What goes there, or what else can be done.
    """

    def __init__(self, place: str, hint: str = "") -> None:
        super().__init__(place, hint)
        self.place, self.hint = place, hint

    def __str__(self) -> str:
        return f"{self.place}: {_TO_FILL}{self.hint and f': {self.hint}'}"


def tell_problems(holes: Sequence[Hole], wrong: Sequence[str]) -> str:
    """Say in one text all that is open in a form, and all that is wrong with it."""
    said = [*wrong]
    if len(holes) > 1:
        said.append(f"{len(holes)} places are {_TO_FILL}: {', '.join(h.place for h in holes)}")
    else:
        said += map(str, holes)
    return "; ".join(said)


def check_mapping(form: Any, place: str, needed: set[str], allowed: set[str]) -> Mapping[str, Any]:
    """Check that a part of the form has all the keys it needs and no others."""
    if not isinstance(form, Mapping):
        keys = ", ".join(sorted(needed))
        raise DomainError(f"{place}: a mapping is needed, with {keys}")
    known = ", ".join(sorted(needed | allowed))
    for key in form:
        if key not in needed | allowed:
            raise DomainError(f"{place}: unknown key {key!r} (known: {known})")
    for key in sorted(needed - set(form)):
        raise DomainError(f"{place}: {key!r} is missing")
    return form


_MARKS = ",;"
"""What parts labels, and facts, from each other."""
_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_UNWRITABLE = re.compile(f"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff{_BIDI}]")
"""Control characters, which would act on a terminal or end a text, and halves of characters.

Those that turn the direction of writing are among them: after one, a text reads as another.
"""


def is_writable(text: Any) -> bool:
    """Say whether something is a text that any file and any terminal can hold as it is."""
    return isinstance(text, str) and _UNWRITABLE.search(text) is None


def printable(text: str) -> str:
    """Return a text as a terminal may show it; lines stay lines."""
    return "\n".join(_UNWRITABLE.sub("?", line) for line in text.split("\n"))


def check_text(text: Any, place: str, *, empty: bool = False) -> str:
    """Check a text that is written into files and reports."""
    if not isinstance(text, str) or not (text or empty):
        rule = "a text is needed" if empty else "a text that is not empty is needed"
        raise DomainError(f"{place}: {rule}")
    if not is_writable(text):
        raise DomainError(f"{place}: a text with control characters, or that is not Unicode")
    return text


def read_names(names: Any, place: str) -> tuple[str, ...]:
    """Read a list of columns."""
    if not isinstance(names, list | tuple):
        raise DomainError(f"{place}: a list of columns is needed")
    return tuple(check_text(name, place) for name in names)


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a key given twice: JSON would silently keep the last."""
    twice = given_twice([key for key, _ in pairs])
    if twice is not None:
        name = twice if is_writable(twice) else repr(twice)
        raise DomainError(f"{name}: declared twice")
    return dict(pairs)


def given_twice(keys: Sequence[Any]) -> Any:
    """Return the first of several keys that is there again, or None."""
    counts = Counter(keys)
    return next((key for key in keys if counts[key] > 1), None)


def in_quotes(label: Any, marks: str = _MARKS) -> str:
    """Write a label so that it can be told from its neighbours: in quotes, if need be.

    It needs them where it holds one of the marks that part labels, or a quote, or begins or ends
    with a space, or is empty.
    """
    text = str(label)
    plain = text == text.strip() != "" and not set(text) & {*marks, '"'}
    return text if plain else json.dumps(text, ensure_ascii=False)


def listed(labels: Iterable[Any], between: str = ", ", marks: str = _MARKS) -> str:
    """Write labels in a row, each to be told from the next."""
    return between.join(in_quotes(label, marks) for label in labels)


def did_you_mean(name: Any, names: Sequence[str]) -> str:
    """Return a question about the one of several names that is nearest, or nothing."""
    small = {known.lower(): known for known in reversed(names)}
    own = str(name).lower()
    begun = [known for known in names if len(own) > 1 and known.lower().startswith(own)]
    near = begun or [small[word] for word in get_close_matches(own, small, n=1)]
    return f"did you mean {near[0]!r}?" if near else ""


def read_reason(form: Mapping[str, Any], place: str) -> str:
    """Return the optional reason of a part of the form."""
    return check_text(form.get("reason", ""), f"{place}.reason", empty=True)
