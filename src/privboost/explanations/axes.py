"""Plots by matplotlib, which is optional: all pictures of explanations and evaluations."""

from __future__ import annotations

from typing import Any

import numpy as np

from privboost.explanations.spans import DAYS, INSTANTS, SECONDS, Spans

BLUE, ORANGE, GREY = "#2f6f9f", "#c8642b", "#8a8a8a"
"""The colours of positive values, of negative values, and of annotations."""

_DAY = 86_400
_UNITS = {"days": _DAY, "hours": 3600, "minutes": 60}
"""Units of durations that are at least two of it long, in seconds."""
_MOST_NAMES = 8
"""The largest number of tick labels that do not overlap."""


def pyplot() -> Any:
    """Return matplotlib's pyplot.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'privboost[plot]'") from None
    return plt


def new_axes(ax: Any, width: float = 6.0, height: float = 4.0) -> Any:
    """Return the caller's axes, or new ones of a size in inches."""
    if ax is not None:
        return ax
    return pyplot().subplots(figsize=(width, height), layout="constrained")[1]


def plain(ax: Any) -> Any:
    """Hide the top and right lines of the frame."""
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def places(spans: Spans) -> list[float]:
    """Return the edges of an ordered feature in the units of its axis; see `name_axis`."""
    assert spans.edges is not None
    if spans.counts not in (DAYS, INSTANTS):
        return [edge / _unit(spans)[1] for edge in spans.edges]
    import matplotlib.dates

    dates: Any = matplotlib.dates  # untyped
    epoch = float(dates.date2num(np.datetime64("1970-01-01")))
    return [epoch + edge / (1 if spans.counts == DAYS else _DAY) for edge in spans.edges]


def name_axis(ax: Any, spans: Spans) -> None:
    """Label the x axis with a feature: dates as dates, ordinals by their names."""
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
    """Return the unit of durations and its seconds; an empty unit for other numbers."""
    if spans.counts != SECONDS or spans.edges is None:
        return "", 1
    most = max(map(abs, spans.edges))
    return next((own for own in _UNITS.items() if most >= 2 * own[1]), (SECONDS, 1))
