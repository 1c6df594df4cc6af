"""What a card is made of, before anybody decides how it looks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Tone(StrEnum):
    """How a text is meant."""

    plain = "plain"
    promise = "promise"
    alarm = "alarm"


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    words: str
    tone: Tone = Tone.plain


@dataclass(frozen=True)
class Listing:
    """A list of sentences."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """A table; the first cell of a row says what the row is about.

    Attributes
    ----------
    caption : str
        What it tells.
    rows : tuple of tuple of str
        Its cells.
    head : tuple of str
        The names of columns; none of a list of facts, which has two.
    numbers : frozenset of int
        The columns that hold numbers.
    """

    caption: str
    rows: tuple[tuple[str, ...], ...]
    head: tuple[str, ...] = ()
    numbers: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Bar:
    """A whole, by its parts: names with shares that add up to 1."""

    caption: str
    parts: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Plot:
    """δ against ε.

    Attributes
    ----------
    caption : str
        What it shows.
    points : tuple of (float, float)
        ε and δ, δ above 0, in the order of δ.
    mark : (float, float)
        The stated ε and δ.
    """

    caption: str
    points: tuple[tuple[float, float], ...]
    mark: tuple[float, float]


Block = Text | Listing | Table | Bar | Plot


@dataclass(frozen=True)
class Section:
    """Blocks under a title."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Page:
    """All that is shown.

    Attributes
    ----------
    title : str
        Of what it is.
    subtitle : str
        In a line, what it is.
    sections : tuple of Section
        From the promise to its details.
    """

    title: str
    subtitle: str
    sections: tuple[Section, ...]
