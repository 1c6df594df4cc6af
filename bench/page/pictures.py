"""Small pictures for the page of results; the only place here that needs matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

from bench import runner
from bench.page.comparisons import by_point, value
from bench.page.pages import PICTURES, README_TABLES, digest
from bench.page.utility_text import same_scores
from bench.utility.methods import CEILING, FLAGSHIP, METHODS
from bench.utility.plan import EPSILONS, Point, delta_of
from bench.utility.scores import MAIN
from bench.utility.store import Summary, read_summary
from bench.utility.tables import kind, title

matplotlib.use("Agg")
from matplotlib import pyplot as plt

plt.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "privboost", "font.size": 8}


def draw(folder: Path = runner.RESULTS, into: Path = PICTURES) -> None:
    """Draw all pictures, each with a mark of the summaries that it was made of."""
    summaries = read_summary(folder / "utility.json")
    into.mkdir(parents=True, exist_ok=True)
    pictures = {
        "scores": _scores(summaries, README_TABLES),
        "in_short": _scores(summaries, README_TABLES[:4]),
        "same_score": _same(summaries),
    }
    for name, picture in pictures.items():
        path = into / f"{name}.svg"
        picture.savefig(path, metadata={"Date": None, "Description": digest(folder)})
        plt.close(picture)
        text = path.read_text(encoding="utf-8")  # matplotlib leaves spaces at ends of lines
        path.write_text("\n".join(line.rstrip() for line in text.splitlines()) + "\n", "utf-8")


def _scores(summaries: list[Summary], names: tuple[str, ...]) -> Any:
    """Return the scores of all methods by ε, a panel for each table that was measured."""
    points = by_point(summaries)
    shown = [name for name in names if any(name == point.table for point in points)]
    across = min(4, max(len(shown), 1))
    down = max(-(-len(shown) // across), 1)
    picture, axes = plt.subplots(
        down, across, figsize=(2.4 * across, 2.2 * down + 0.4), squeeze=False, layout="constrained"
    )
    for axis in axes.flat[len(shown) :]:
        axis.set_axis_off()
    lines: dict[str, Any] = {}
    for name, axis in zip(shown, axes.flat, strict=False):
        lines |= _panel(points, name, axis)
    if lines:
        known = [method.title for method in METHODS.values() if method.title in lines]
        picture.legend(
            [lines[one] for one in known],
            known,
            loc="outside lower center",
            ncols=len(known),
            fontsize=7,
        )
    return picture


def _panel(points: Any, name: str, axis: Any) -> dict[str, Any]:
    """Draw one table's curves and return the lines by method."""
    measure, lines = MAIN[kind(name)], {}
    budgets = [(epsilon, delta_of(epsilon)) for epsilon in EPSILONS]
    for number, (method, known) in enumerate(METHODS.items()):
        found = [points.get(Point(name, method, *budget)) for budget in budgets]
        drawn = [
            (epsilon, *one["scores"][measure])
            for (epsilon, _), one in zip(budgets, found, strict=True)
            if value(one, measure) is not None
        ]
        if known.private and drawn:
            x, y, error = zip(*drawn, strict=True)
            lines[known.title] = axis.errorbar(
                x,
                y,
                [each or 0 for each in error],
                color=f"C{number}",
                marker="o" if number == 0 else None,
                linewidth=1.8 if number == 0 else 0.9,
                markersize=3,
                zorder=3 if number == 0 else 2,
            )
    ceiling = value(points.get(Point(name, CEILING, None, None)), measure)
    if ceiling is not None:
        lines[METHODS[CEILING].title] = axis.axhline(
            ceiling, color="black", linestyle=":", linewidth=0.9
        )
        _zoom(
            axis, ceiling, [value(points.get(Point(name, FLAGSHIP, *b)), measure) for b in budgets]
        )
    axis.set_xscale("log")
    axis.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
    axis.minorticks_off()
    axis.set_title(f"{title(name)}, {measure}", fontsize=8)
    axis.set_xlabel("ε")
    return lines


def _zoom(axis: Any, ceiling: float, flagship: list[float | None]) -> None:
    """Leave out of a panel what is more than twice as far from the ceiling as the flagship."""
    far = [2.2 * (found - ceiling) for found in flagship if found is not None]
    if far:
        low, high = axis.get_ylim()
        end = ceiling + max(far, key=abs)
        axis.set_ylim(
            max(low, end) if end < ceiling else low, min(high, end) if end > ceiling else high
        )


def _same(summaries: list[Summary]) -> Any:
    """Return the flagship's ε for the scores of others, by their ε; below the line is less."""
    picture, axis = plt.subplots(figsize=(6.0, 3.4), layout="constrained")
    found = same_scores(summaries)
    names = dict.fromkeys((whose, name) for whose, name, *_ in found)
    ends = {"": "o", "<": "v", ">": "^"}
    for number, (whose, name) in enumerate(names):
        own = [
            (epsilon, ours)
            for other, table, epsilon, _, ours in found
            if (other, table) == (whose, name)
        ]
        line = "-" if whose.startswith("S-BDT") else "--"
        x, y = [one[0] for one in own], [one[1].epsilon for one in own]
        axis.plot(x, y, line, color=f"C{number}", linewidth=0.9, label=f"{whose}: {title(name)}")
        for epsilon, ours in own:
            axis.plot(epsilon, ours.epsilon, ends[ours.sign], color=f"C{number}", markersize=3.5)
    axis.axline((0.1, 0.1), slope=1, color="black", linestyle=":", linewidth=0.9)
    axis.set(xscale="log", yscale="log", xlabel="ε of the other method")
    ticks = (0.01, 0.03, 0.1, 0.3, 1, 3)
    for one in (axis.xaxis, axis.yaxis):
        one.set_ticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()
    axis.set_ylabel("PrivBoost's ε for its score")
    if names:
        picture.legend(loc="outside right center", fontsize=6)
    return picture
