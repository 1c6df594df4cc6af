"""Names for what an export adds to columns that have names already."""

from __future__ import annotations

from collections.abc import Collection


def free_name(word: str, taken: Collection[str]) -> str:
    """Return a word, or the word with as many strokes as make it a name that nothing has."""
    while word in taken:
        word += "_"
    return word
