"""Matplotlib, where it is there: the package works without it."""

from __future__ import annotations

from typing import Any

BLUE, ORANGE, GREY = "#2f6f9f", "#c8642b", "#8a8a8a"
"""Up, down, and what is only beside."""


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
