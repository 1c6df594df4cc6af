"""Progress of long work. It counts rounds, never rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

Track = Callable[[range], Iterable[int]]
"""What wraps the rounds of a recipe, to show progress."""


def rounds_bar(verbose: bool) -> Track:
    """Return a wrapper of rounds that draws a bar on the standard error stream if asked to."""
    if not verbose:
        return iter

    def track(rounds: range) -> Iterator[int]:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

        columns = ("rounds", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True)) as bar:
            yield from bar.track(rounds)

    return track
