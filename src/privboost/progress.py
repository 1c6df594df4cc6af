"""Progress of long work. It counts rounds, never rows, and says nothing of time.

How long a round takes tells about the number of rows and their values, so the bar has no rate, no
time passed and no time left.
"""

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
        from rich.progress import BarColumn, MofNCompleteColumn, Progress

        columns = ("rounds", BarColumn(), MofNCompleteColumn())
        with Progress(*columns, console=Console(stderr=True)) as bar:
            yield from bar.track(rounds)

    return track
