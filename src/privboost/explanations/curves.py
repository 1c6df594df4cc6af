"""Reliability diagrams, and curves of utility by ε."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from statistics import fmean
from typing import Any

from privboost.explanations.axes import BLUE, GREY, new_axes, plain


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
