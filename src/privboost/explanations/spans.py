"""The bins or categories of a feature that an explanation distinguishes."""

from __future__ import annotations

from dataclasses import dataclass

DAYS, INSTANTS, SECONDS = "days since 1970", "seconds since 1970", "seconds"
"""The units of dates, of instants and of durations."""

COUNTS = {"days": DAYS, "seconds": INSTANTS, "durations": SECONDS, "numbers": ""}
"""Units by what the edges of a feature count (`OrderedFeature.counted_in`)."""


@dataclass(frozen=True)
class Spans:
    """The bins or categories of a feature.

    Attributes
    ----------
    feature : str
        The name of the feature.
    words : tuple of str
        The text of each bin or category; after categories follows "other", and "missing" is last.
    edges : tuple of float, or None
        For a number: from its lower to its upper bound, one more than there are bins.
    log : bool
        Whether a number was declared on a log scale.
    counts : str
        The unit of a number: `DAYS` or `INSTANTS` of a date, `SECONDS` of a duration; else empty.
    names : tuple of str
        For ordinals and booleans: the names of the numbers 0, 1, and so on.
    """

    feature: str
    words: tuple[str, ...]
    edges: tuple[float, ...] | None = None
    log: bool = False
    counts: str = ""
    names: tuple[str, ...] = ()

    @property
    def declared(self) -> int:
        """The number of leading bins or categories that the domain declares."""
        return len(self.words) - (2 if self.edges is None else 1)

    def __len__(self) -> int:
        return len(self.words)
