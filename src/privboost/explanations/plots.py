"""All plots of explanations and evaluations, by matplotlib, which is optional."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import cycle
from statistics import fmean
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


def _dates() -> Any:
    import matplotlib.dates

    return matplotlib.dates


def places(spans: Spans) -> list[float]:
    """Return the edges of an ordered feature in the units of its axis; see `name_axis`."""
    assert spans.edges is not None
    if spans.counts not in (DAYS, INSTANTS):
        return [edge / _unit(spans)[1] for edge in spans.edges]
    epoch = float(_dates().date2num(np.datetime64("1970-01-01")))
    return [epoch + edge / (1 if spans.counts == DAYS else _DAY) for edge in spans.edges]


def name_axis(ax: Any, spans: Spans) -> None:
    """Label the x axis with a feature: dates as dates, ordinals by their names."""
    unit = _unit(spans)[0]
    ax.set_xlabel(f"{spans.feature} ({unit})" if unit else spans.feature)
    if spans.counts in (DAYS, INSTANTS):
        dates = _dates()
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


def draw_reliability(bins: Iterable[Any], ax: Any = None) -> Any:
    """Draw observed rates by mean predicted probability; see `Evaluation.plot`.

    Parameters
    ----------
    bins : iterable of evaluation bins
        Each with `of`, `predicted`, `observed` and `rows`; what noise alone fills is left out.
    """
    ax = new_axes(ax, 5.0, 5.0)
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, linestyle=":")
    by_class: dict[str, list[Any]] = {}
    for one in bins:
        if one.rows.value > 2 * one.rows.std:
            by_class.setdefault(one.of, []).append(one)
    for of, own in by_class.items():
        ax.errorbar(
            [one.predicted for one in own],
            [one.observed.value for one in own],
            [one.observed.std for one in own],
            fmt="o-",
            markersize=4,
            linewidth=1,
            capsize=2,
            label=of,
        )
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="mean predicted probability", ylabel="observed rate")
    ax.set_aspect("equal")
    ax.set_title("reliability")
    if by_class:
        ax.legend(frameon=False, fontsize="small")
    return plain(ax)


def draw_calibration(bins: Iterable[Any], residuals: bool = False, ax: Any = None) -> Any:
    """Draw mean labels or mean residuals by mean prediction; see `Evaluation.plot`.

    Bars are one standard error.

    Parameters
    ----------
    bins : iterable of calibration bins
        Each with `predicted`, `observed`, `residual` and `known`; what noise alone fills is left
        out.
    residuals : bool
        Whether residuals are drawn, in place of labels.
    """
    ax = new_axes(ax, 5.0, 5.0)
    shown = [one for one in bins if one.known]
    at = [one.predicted for one in shown]
    values = [one.residual if residuals else one.observed for one in shown]
    if residuals:
        ax.axhline(0, color=GREY, linewidth=0.8, linestyle=":")
    elif at:
        ends = [min(at), max(at)]
        ax.plot(ends, ends, color=GREY, linewidth=0.8, linestyle=":")
    if at:
        means, bars = ([getattr(value, of) for value in values] for of in ("value", "std"))
        ax.errorbar(at, means, bars, fmt="o-", color=BLUE, markersize=4, linewidth=1, capsize=2)
    label = "mean residual" if residuals else "mean label"
    ax.set(xlabel="mean prediction", ylabel=label, title=f"{label} by tenths of the prediction")
    return plain(ax)


def draw_privacy_utility(
    points: Sequence[tuple[float, float, tuple[float, float]]],
    measure: str,
    lines: Mapping[str, float],
    ax: Any = None,
) -> Any:
    """Draw utility by ε; see `Sweep.plot`.

    Parameters
    ----------
    points : sequence of (epsilon, value, (below, above))
        Measured values with their error bars; the curve goes through the mean of each ε.
    measure : str
        The name of the measure.
    lines : mapping from str to float
        Reference values, drawn as horizontal lines.
    """
    ax = new_axes(ax)
    epsilons = sorted({epsilon for epsilon, _, _ in points})
    means = [fmean(own[1] for own in points if own[0] == epsilon) for epsilon in epsilons]
    places, values, errors = (list(own) for own in zip(*points, strict=True))
    ax.plot(epsilons, means, color=BLUE, linewidth=1.5)
    ax.errorbar(places, values, list(zip(*errors, strict=True)), fmt="o", color=BLUE, capsize=3)
    for style, (name, value) in zip(cycle((":", "--", "-.")), lines.items(), strict=False):
        ax.axhline(value, color=GREY, linestyle=style, linewidth=1, label=f"{name} {value:.3g}")
    if lines:
        ax.legend(frameon=False, fontsize="small")
    ax.set_xscale("log")
    ax.set_xticks(epsilons, [f"{own:.3g}" for own in epsilons], minor=False)
    ax.set_xticks([], minor=True)
    ax.set(xlabel="ε (smaller is more private)", ylabel=measure, title="what each ε buys")
    return plain(ax)


MOST_BARS = 16
"""The largest number of readable bars."""

_LINE = 0.26
"""The height of a bar's line, in inches."""

_MOST_LEAVES = 16
"""The largest number of readable leaves; deeper levels are left out."""

_EFFECT = "added to the score"


def draw_steps(
    spans: Spans, effects: Sequence[float], stds: Sequence[float] | None, title: str, ax: Any = None
) -> Any:
    """Draw the effects of a number as steps, with a band of two standard errors if known.

    The last effect is that of missing values.
    """
    ax = new_axes(ax)
    edges, values = places(spans), np.array(effects[:-1])
    ax.axhline(0, color=GREY, linewidth=0.8)
    if stds is not None:
        band = 2 * np.array(stds[:-1])
        ends = (np.append(own, own[-1]) for own in (values - band, values + band))
        ax.fill_between(edges, *ends, step="post", color=BLUE, alpha=0.2, linewidth=0)
    ax.stairs(values, edges, color=BLUE, linewidth=1.6, baseline=None)
    beyond = edges[-1] + 0.04 * (edges[-1] - edges[0])
    if spans.log and edges[-1] > 0:
        beyond = edges[-1] * 2
    error = None if stds is None else 2 * stds[-1]
    ax.errorbar(
        [beyond], [effects[-1]], error, fmt="o", color=ORANGE, markersize=4, label="missing"
    )
    if spans.log:
        ax.set_xscale("symlog", linthresh=min(abs(edge) for edge in edges if edge != 0))
    ax.legend(frameon=False, fontsize="small")
    name_axis(ax, spans)
    ax.set_ylabel(_EFFECT)
    ax.set_title(title)
    return plain(ax)


def draw_categories(
    names: Sequence[str],
    effects: Sequence[float],
    stds: Sequence[float] | None,
    title: str,
    ax: Any = None,
) -> Any:
    """Draw the strongest effects of categories as bars, with two standard errors if known."""
    middle = float(np.median(effects))  # a feature's level has no meaning
    chosen = strongest([effect - middle for effect in effects])
    errors = None if stds is None else [2 * stds[k] for k in chosen]
    bars = [names[k] for k in chosen], [effects[k] for k in chosen], errors
    return draw_bars(*bars, _EFFECT, title, new_axes(ax))


def strongest(values: Sequence[float]) -> list[int]:
    """Return the indices of the largest absolute values, in order, as many as are readable."""
    ranked = sorted(range(len(values)), key=lambda k: -abs(values[k]))
    return sorted(ranked[:MOST_BARS])


def draw_bars(
    names: Sequence[str],
    values: Sequence[float],
    errors: Sequence[float] | None,
    label: str,
    title: str,
    ax: Any = None,
    width: float = 6.5,
) -> Any:
    """Draw values as bars from the top down, positive ones blue and negative ones orange."""
    ax = new_axes(ax, width, 1.2 + _LINE * len(names))
    lines = np.arange(len(names))
    ax.barh(lines, values, color=[BLUE if value >= 0 else ORANGE for value in values])
    if errors is not None:
        ax.errorbar(values, lines, xerr=errors, fmt="none", ecolor="black", linewidth=1)
    ax.axvline(0, color=GREY, linewidth=0.8)
    size = "small" if len(names) > 8 else "medium"
    ax.set_yticks(lines, [_short(own) for own in names], fontsize=size)
    ax.invert_yaxis()
    if all(isinstance(value, int) for value in values):
        ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set_xlabel(label)
    ax.set_title(title)
    return plain(ax)


def _short(text: str, most: int = 40) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def draw_heat_map(
    first: Spans, second: Spans, effects: Sequence[Sequence[float]], title: str, ax: Any = None
) -> Any:
    """Draw the joint effects of two features; all cells have the same size."""
    ax = new_axes(ax, 6.5, 5.0)
    values = np.array(effects)
    most = float(np.abs(values).max()) or 1.0
    image = ax.imshow(values.T, cmap="RdBu", vmin=-most, vmax=most, aspect="auto", origin="lower")
    for axis, spans in ((ax.xaxis, first), (ax.yaxis, second)):
        count = min(len(spans), 12)
        ticks = np.unique(np.linspace(0, len(spans) - 1, count).round().astype(int))
        axis.set_ticks(ticks, [_short(spans.words[k], 20) for k in ticks], fontsize="small")
        axis.set_label_text(spans.feature)
    ax.tick_params(axis="x", rotation=60)
    ax.set_title(title)
    ax.figure.colorbar(image, ax=ax, label=_EFFECT)
    return ax


def draw_waterfall(
    moves: Sequence[tuple[str, float]], baseline: float, name: str, label: str, ax: Any = None
) -> Any:
    """Draw how features move the score of a row from the baseline to its value."""
    if len(moves) > MOST_BARS:
        few, rest = moves[: MOST_BARS - 1], moves[MOST_BARS - 1 :]
        moves = [*few, (f"{len(rest)} others", sum(move for _, move in rest))]
    ax = new_axes(ax, 7.0, 1.4 + _LINE * len(moves))
    begins = baseline + np.cumsum([0.0, *(move for _, move in moves)])
    for line, (_, move) in enumerate(moves):
        ax.barh(line, move, left=begins[line], color=BLUE if move >= 0 else ORANGE)
        ax.text(max(begins[line : line + 2]), line, f" {move:+.3g}", va="center", fontsize=8)
    for end, style in ((begins[0], ":"), (begins[-1], "-")):
        ax.axvline(end, color=GREY, linewidth=0.8, linestyle=style)
    ax.use_sticky_edges = False
    ax.margins(x=0.15)
    ax.set_yticks(range(len(moves)), [_short(text) for text, _ in moves])
    ax.invert_yaxis()
    ax.set_xlabel(label)
    ax.set_title(f"{name}: from the baseline {begins[0]:.3g} to {begins[-1]:.3g}")
    return plain(ax)


def draw_panels(parts: Sequence[Any], title: str) -> Any:
    """Draw parts, each of which has a `plot` method, side by side; return their axes."""
    columns = min(3, len(parts))
    lines = -(-len(parts) // columns)
    figure, grid = pyplot().subplots(
        lines, columns, figsize=(5.2 * columns, 3.8 * lines), layout="constrained", squeeze=False
    )
    axes = grid.reshape(-1)
    for part, ax in zip(parts, axes, strict=False):
        part.plot(ax)
    for ax in axes[len(parts) :]:
        ax.set_axis_off()
    figure.suptitle(title)
    return axes[: len(parts)]


def draw_tree(root: Any, title: str, ax: Any = None) -> Any:
    """Draw a tree of `Split` and `Leaf` from the top down, with the left condition at splits."""
    levels = 0
    while levels < _depth(root) and _width(root, levels + 1) <= _MOST_LEAVES:
        levels += 1
    leaves = _width(root, levels)
    ax = new_axes(ax, max(5.0, 1.3 * leaves), 1.2 + 1.1 * (1 + levels))
    _draw_node(root, 0.0, float(leaves), 0, levels, ax)
    ax.set_axis_off()
    ax.margins(0.06)
    ax.set_title(title, pad=14)
    return ax


def _depth(node: Any) -> int:
    return 1 + max(map(_depth, node.below)) if node.below else 0


def _width(node: Any, levels: int) -> int:
    """Return the number of ends of a tree that is cut below some levels."""
    if not node.below or levels == 0:
        return 1
    return sum(_width(below, levels - 1) for below in node.below)


def _draw_node(
    node: Any, left: float, width: float, depth: int, levels: int, ax: Any
) -> tuple[float, float]:
    """Draw a node in the middle of its width, and its subtree; return its position."""
    position = (left + width / 2, -float(depth))
    if not node.below:
        error = "" if node.std is None else f"\n± {node.std:.2g}"
        _write(ax, position, f"{node.effect:+.3g}{error}", BLUE if node.effect >= 0 else ORANGE)
        return position
    if levels == 0:
        _write(ax, position, "…", GREY)
        return position
    for below, text in zip(node.below, ("yes", "else"), strict=True):
        own = width * _width(below, levels - 1) / _width(node, levels)
        child = _draw_node(below, left, own, depth + 1, levels - 1, ax)
        left += own
        ax.plot(*zip(position, child, strict=True), color=GREY, linewidth=1, zorder=1)
        middle = [(a + b) / 2 for a, b in zip(position, child, strict=True)]
        ax.text(*middle, text, fontsize=7, color=GREY, ha="center", zorder=3)
    _write(ax, position, "\n".join(_wrapped(node.left)), "black")
    return position


def _write(ax: Any, position: tuple[float, float], text: str, colour: str) -> None:
    box = {"boxstyle": "round", "facecolor": "white", "edgecolor": colour}
    ax.text(*position, text, fontsize=8, color=colour, ha="center", va="center", bbox=box, zorder=2)


def _wrapped(text: str, most: int = 18) -> Iterator[str]:
    """Yield the first three lines of a text that is broken at spaces."""
    line, count = "", 0
    for word in text.split(" "):
        if line and len(line) + len(word) > most:
            yield line
            line, count = "", count + 1
        if count == 3:
            yield "…"
            return
        line = f"{line} {word}".strip()
    yield line
