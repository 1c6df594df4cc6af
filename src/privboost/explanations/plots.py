"""Pictures of shapes, pairs, lists and rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from privboost.explanations.axes import (
    BLUE,
    GREY,
    ORANGE,
    name_axis,
    new_axes,
    places,
    plain,
    pyplot,
)
from privboost.explanations.explanation import Explanation
from privboost.explanations.lists import Card, Coefficients, Importance
from privboost.explanations.local import LocalExplanation
from privboost.explanations.shapes import Pair, Shape
from privboost.explanations.spans import Spans

_MOST_BARS = 16
"""More would not be read."""

_LINE = 0.26
"""The height of a bar's line, in inches."""


def draw_shape(shape: Shape, ax: Any = None) -> Any:
    """Draw a shape: steps of a number, bars of categories; bands are two standard errors."""
    ax = new_axes(ax)
    if shape.spans.edges is None:
        _draw_categories(shape, ax)
    else:
        _draw_steps(shape, places(shape.spans), ax)
    ax.set_title(shape.name)
    return plain(ax)


def _draw_steps(shape: Shape, edges: Sequence[float], ax: Any) -> None:
    effects = np.array(shape.effects[:-1])
    ax.axhline(0, color=GREY, linewidth=0.8)
    if shape.stds is not None:
        band = 2 * np.array(shape.stds[:-1])
        ends = (np.append(own, own[-1]) for own in (effects - band, effects + band))
        ax.fill_between(edges, *ends, step="post", color=BLUE, alpha=0.2, linewidth=0)
    ax.stairs(effects, edges, color=BLUE, linewidth=1.6, baseline=None)
    missing, error = shape.effects[-1], None if shape.stds is None else 2 * shape.stds[-1]
    beside = _beyond(edges, shape.spans.log)
    ax.errorbar([beside], [missing], error, fmt="o", color=ORANGE, markersize=4, label="missing")
    if shape.spans.log:
        ax.set_xscale("symlog", linthresh=_smallest(edges))
    ax.legend(frameon=False, fontsize="small")
    name_axis(ax, shape.spans)
    ax.set_ylabel("added to the score")


def _smallest(edges: Sequence[float]) -> float:
    """Return from where on a log scale is one: the smallest edge that is not 0."""
    return min(abs(edge) for edge in edges if edge != 0)


def _beyond(edges: Sequence[float], log: bool) -> float:
    """Return a place a little above all edges, for what is missing."""
    if log and edges[-1] > 0:
        return edges[-1] * 2
    return edges[-1] + 0.04 * (edges[-1] - edges[0])


def _draw_categories(shape: Shape, ax: Any) -> None:
    middle = float(np.median(shape.effects))  # a feature's level says nothing
    places = _strongest([effect - middle for effect in shape.effects])
    stds = None if shape.stds is None else [2 * shape.stds[k] for k in places]
    words = [shape.spans.words[k] for k in places]
    _draw_bars(words, [shape.effects[k] for k in places], stds, ax)
    ax.set_xlabel("added to the score")


def _strongest(values: Sequence[float]) -> list[int]:
    """Return the places of the largest values, in their order, as many as can be read."""
    ranked = sorted(range(len(values)), key=lambda k: -abs(values[k]))
    return sorted(ranked[:_MOST_BARS])


def _draw_bars(
    words: Sequence[str], values: Sequence[float], errors: Sequence[Any] | None, ax: Any
) -> None:
    """Draw bars from the top down, blue to the right and orange to the left."""
    places = np.arange(len(words))
    ax.barh(places, values, color=[BLUE if value >= 0 else ORANGE for value in values])
    if errors is not None:
        bars = [0.0 if error is None else error for error in errors]
        ax.errorbar(values, places, xerr=bars, fmt="none", ecolor="black", linewidth=1)
    ax.axvline(0, color=GREY, linewidth=0.8)
    size = "small" if len(words) > 8 else "medium"
    ax.set_yticks(places, [_short(own) for own in words], fontsize=size)
    ax.invert_yaxis()


def _short(words: str, most: int = 40) -> str:
    return words if len(words) <= most else words[: most - 1] + "…"


def draw_pair(pair: Pair, ax: Any = None) -> Any:
    """Draw a pair as a heat map; spans are equally wide, whatever they span."""
    ax = new_axes(ax, 6.5, 5.0)
    effects = np.array(pair.effects)
    most = float(np.abs(effects).max()) or 1.0
    image = ax.imshow(effects.T, cmap="RdBu", vmin=-most, vmax=most, aspect="auto", origin="lower")
    for axis, spans in ((ax.xaxis, pair.first), (ax.yaxis, pair.second)):
        _name_spans(axis, spans)
    ax.tick_params(axis="x", rotation=60)
    ax.set_title(pair.name)
    ax.figure.colorbar(image, ax=ax, label="added to the score")
    return ax


def _name_spans(axis: Any, spans: Spans) -> None:
    count = min(len(spans), 12)
    places = np.unique(np.linspace(0, len(spans) - 1, count).round().astype(int))
    axis.set_ticks(places, [_short(spans.words[k], 20) for k in places], fontsize="small")
    axis.set_label_text(spans.feature)


def draw_importance(importance: Importance, ax: Any = None) -> Any:
    """Draw importances as bars, with one standard error where it is known."""
    places = importance.ranked[:_MOST_BARS]
    ax = new_axes(ax, 6.0, 1.2 + _LINE * len(places))
    stds = None if importance.stds is None else [importance.stds[k] for k in places]
    words = [importance.features[k] for k in places]
    _draw_bars(words, [importance.shares[k] for k in places], stds, ax)
    ax.set_xlabel("share of what moves the score")
    ax.set_title("importance")
    return plain(ax)


def draw_coefficients(coefficients: Coefficients, ax: Any = None) -> Any:
    """Draw the coefficients that stand out most from their errors, in units of them.

    The units of coefficients differ from line to line; where no error is known, they are drawn as
    they are.
    """
    known = [line for line in coefficients.lines if line.std]
    ax = new_axes(ax, 6.5, 1.2 + _LINE * min(len(known) or len(coefficients.lines), _MOST_BARS))
    if known:
        lines = Coefficients(tuple(known)).strongest(_MOST_BARS).lines
        values = [line.coefficient / (line.std or 1.0) for line in lines]
        ax.set_xlabel("coefficient, in standard errors of the noise")
    else:
        everything = coefficients.lines
        lines = tuple(everything[k] for k in _strongest([own.coefficient for own in everything]))
        values = [line.coefficient for line in lines]
        ax.set_xlabel("coefficient")
    _draw_bars([line.name for line in lines], values, None, ax)
    ax.set_title("coefficients")
    return plain(ax)


def draw_card(card: Card, ax: Any = None) -> Any:
    """Draw the card of a vote as bars."""
    rules = card.rules[:_MOST_BARS]
    ax = new_axes(ax, 6.5, 1.2 + _LINE * len(rules))
    _draw_bars([rule.name for rule in rules], [rule.votes for rule in rules], None, ax)
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set_xlabel("votes where it holds; as many against where it does not")
    ax.set_title("votes")
    return plain(ax)


def draw_moves(local: LocalExplanation, row: int, of: str, ax: Any = None) -> Any:
    """Draw how features move the score of a row from the baseline to what it is."""
    output, moves = local.output(of), local.moves(row, of)
    if len(moves) > _MOST_BARS:
        few, rest = moves[: _MOST_BARS - 1], moves[_MOST_BARS - 1 :]
        moves = [*few, (f"{len(rest)} others", sum(move for _, move in rest))]
    ax = new_axes(ax, 7.0, 1.4 + _LINE * len(moves))
    begins = float(local.baseline[output]) + np.cumsum([0.0, *(move for _, move in moves)])
    for place, (_, move) in enumerate(moves):
        colour = BLUE if move >= 0 else ORANGE
        ax.barh(place, move, left=begins[place], color=colour)
        ax.text(max(begins[place : place + 2]), place, f" {move:+.3g}", va="center", fontsize=8)
    for place, words in ((begins[0], "baseline"), (begins[-1], "score")):
        ax.axvline(place, color=GREY, linewidth=0.8, linestyle=":" if words == "baseline" else "-")
    ax.use_sticky_edges = False
    ax.margins(x=0.15)
    ax.set_yticks(range(len(moves)), [_short(words) for words, _ in moves])
    ax.invert_yaxis()
    name = local.classes[output] if local.classes else local.target
    ax.set_xlabel(local.scored_in)
    ax.set_title(f"{name}: from the baseline {begins[0]:.3g} to {begins[-1]:.3g}")
    return plain(ax)


def draw_explanation(explanation: Explanation, most: int) -> Any:
    """Draw the importances, and what moves the score most, side by side."""
    parts = _main_parts(explanation)[:most]
    columns = min(3, 1 + len(parts))
    lines = -(-(1 + len(parts)) // columns)
    figure, grid = pyplot().subplots(
        lines, columns, figsize=(5.2 * columns, 3.8 * lines), layout="constrained", squeeze=False
    )
    axes = grid.reshape(-1)
    explanation.importance.plot(axes[0])
    for part, ax in zip(parts, axes[1:], strict=False):
        part.plot(ax)
    for ax in axes[1 + len(parts) :]:
        ax.set_axis_off()
    figure.suptitle(f"{explanation.target}: {explanation.scored_in}")
    return axes[: 1 + len(parts)]


def _main_parts(explanation: Explanation) -> list[Any]:
    """Return what has a picture, in the order in which it is worth a look."""
    lists = [part for part in (explanation.card, explanation.coefficients) if part is not None]
    own = explanation.importance
    share = dict(zip(own.features, own.shares, strict=True))
    shapes = sorted(explanation.shapes, key=lambda shape: -share[shape.spans.feature])
    pairs = sorted(explanation.pairs, key=lambda pair: -pair.size)
    return [*lists, *shapes, *pairs, *explanation.trees]
