"""Draws a figure: ours with standard errors, published points hollow in the same colour."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest
from typing import Any

import matplotlib

from bench import runner
from bench.papers.figure import Figure

matplotlib.use("Agg")
from matplotlib import pyplot as plt

_ACROSS = 5
"""The most panels in one row."""


def draw(figure: Figure, results: list[dict[str, Any]]) -> None:
    """Write a figure's plot beside its JSON."""
    panels = list(dict.fromkeys(one["panel"] for one in results))
    across = min(len(panels), _ACROSS)
    down = -(-len(panels) // across)
    page, axes = plt.subplots(
        down, across, figsize=(max(5 * across, 6), 4 * down), squeeze=False, layout="constrained"
    )
    for panel, axis in zip_longest(panels, axes.flat):
        if panel is None:
            axis.set_axis_off()
            continue
        _draw_panel(figure, [one for one in results if one["panel"] == panel], axis)
        axis.set_title(panel)
    axes[0][0].set_ylabel(figure.y)
    axes.flat[len(panels) - 1].legend(fontsize="small")
    page.suptitle(f"{figure.name}: {figure.title}", fontsize="medium")
    folder = runner.RESULTS / "papers"
    folder.mkdir(parents=True, exist_ok=True)
    page.savefig(folder / f"{figure.name}.png", dpi=120)
    plt.close(page)


def _draw_panel(figure: Figure, results: Iterable[dict[str, Any]], axis: Any) -> None:
    arms: dict[str, list[dict[str, Any]]] = {}
    for one in results:
        arms.setdefault(one["arm"], []).append(one)
    for arm, points in arms.items():
        x = [one["x"] for one in points]
        line = axis.errorbar(
            x,
            [one["mean"] for one in points],
            [one["standard_error"] or 0 for one in points],
            marker="o",
            linestyle="" if isinstance(x[0], str) else "-",
            label=arm,
        )
        known = [(one["x"], one["published"]) for one in points if one["published"] is not None]
        if known:
            colour = line[0].get_color()
            axis.plot(*zip(*known, strict=True), "s", mfc="none", color=colour, markersize=9)
    axis.set_xlabel(figure.x)
    if figure.log:
        axis.set_xscale("log")
