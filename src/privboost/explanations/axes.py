"""Matplotlib, where it is there: the package works without it."""

from __future__ import annotations

from typing import Any

import numpy as np

from privboost.explanations.spans import DAYS, INSTANTS, SECONDS, Spans

BLUE, ORANGE, GREY = "#2f6f9f", "#c8642b", "#8a8a8a"
"""Up, down, and what is only beside."""

_DAY = 86_400
_UNITS = {"days": _DAY, "hours": 3600, "minutes": 60}
"""In what durations are told that are at least two of it long, and how many seconds it has."""
_MOST_NAMES = 8
"""More would run into each other."""


def pyplot() -> Any:
    """Return matplotlib's pyplot.

    Raises
    ------
    ImportError
        If it is not installed, with what to do.
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'privboost[plot]'") from None
    return plt


def new_axes(ax: Any, width: float = 6.0, height: float = 4.0) -> Any:
    """Return the axes that were given, or new ones of a size in inches."""
    if ax is not None:
        return ax
    return pyplot().subplots(figsize=(width, height), layout="constrained")[1]


def plain(ax: Any) -> Any:
    """Take away the lines of a frame that say nothing."""
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def places(spans: Spans) -> list[float]:
    """Return the edges of what has an order as an axis has them: see `name_axis`."""
    assert spans.edges is not None
    if spans.counts not in (DAYS, INSTANTS):
        return [edge / _unit(spans)[1] for edge in spans.edges]
    import matplotlib.dates

    dates: Any = matplotlib.dates  # which has no types
    epoch = float(dates.date2num(np.datetime64("1970-01-01")))
    return [epoch + edge / (1 if spans.counts == DAYS else _DAY) for edge in spans.edges]


def name_axis(ax: Any, spans: Spans) -> None:
    """Write under an axis what a feature's values are: dates as dates, ranks by their names."""
    unit = _unit(spans)[0]
    ax.set_xlabel(f"{spans.feature} ({unit})" if unit else spans.feature)
    if spans.counts in (DAYS, INSTANTS):
        import matplotlib.dates

        dates: Any = matplotlib.dates
        locator = dates.AutoDateLocator(tz="UTC", maxticks=8)
        ax.xaxis.set_major_locator(locator)
        ax.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator, tz="UTC"))
    elif spans.names:
        every = -(-len(spans.names) // _MOST_NAMES)
        ax.set_xticks(range(0, len(spans.names), every), spans.names[::every])


def _unit(spans: Spans) -> tuple[str, int]:
    """Return in what a duration is told, and how many seconds it has; of other numbers nothing."""
    if spans.counts != SECONDS or spans.edges is None:
        return "", 1
    most = max(map(abs, spans.edges))
    return next((own for own in _UNITS.items() if most >= 2 * own[1]), (SECONDS, 1))
