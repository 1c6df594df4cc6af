"""The spans of a feature's values that an explanation tells apart."""

from __future__ import annotations

from dataclasses import dataclass

DAYS, INSTANTS, SECONDS = "days since 1970", "seconds since 1970", "seconds"
"""What the numbers of dates, of instants and of durations count."""


@dataclass(frozen=True)
class Spans:
    """Where a feature's values begin and end, or which they are.

    Attributes
    ----------
    feature : str
        Its name.
    words : tuple of str
        Each span in words; of categories "other" stands behind them, and "missing" is the last.
    edges : tuple of float, or None
        Of a number: from its lower bound to its upper one, one more than it has spans.
    log : bool
        Whether a number was declared on a log scale.
    counts : str
        What a number counts: `DAYS` or `INSTANTS` of a date, `SECONDS` of a duration; else nothing.
    names : tuple of str
        Of ranks and truth values: their words, whose places from 0 on are the numbers.
    """

    feature: str
    words: tuple[str, ...]
    edges: tuple[float, ...] | None = None
    log: bool = False
    counts: str = ""
    names: tuple[str, ...] = ()

    @property
    def declared(self) -> int:
        """How many spans are of values that the domain names: the first ones."""
        return len(self.words) - (2 if self.edges is None else 1)

    def __len__(self) -> int:
        return len(self.words)
