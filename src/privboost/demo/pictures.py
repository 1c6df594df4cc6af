"""What budgets buy, and what models have learned, as pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from privboost.demo.svg import Picture, even_ticks, scale
from privboost.explanations.axes import BLUE, GREY, ORANGE
from privboost.explanations.lists import Importance
from privboost.explanations.shapes import Shape
from privboost.explanations.spans import Spans

_PALE = "#e8e8e8"
_MOST_BARS = 9
"""More would not be read."""

_LINE = 17.0
"""The height of a bar's line."""


def draw_curve(
    points: Sequence[tuple[float, float]], measure: str, least: float, limit: float
) -> str:
    """Draw what each ε buys, between the majority class and a model without privacy.

    Parameters
    ----------
    points : sequence of (epsilon, value)
        What was measured.
    measure : str
        Its name.
    least, limit : float
        What the majority class and the model without privacy reach.
    """
    picture = Picture(420, 260, f"{measure} by epsilon")
    epsilons, values = zip(*points, strict=True)
    low, high = min(least, *values), max(limit, *values)
    across = scale(math.log(min(epsilons)), math.log(max(epsilons)), 90, 360)
    up = scale(low, high, 205, 40)
    for tick in even_ticks(low, high):
        picture.line([(48, up(tick)), (400, up(tick))], _PALE)
        picture.text(42, up(tick) + 4, f"{tick:g}", "end")
    for value, words in ((least, "majority class"), (limit, "without privacy")):
        picture.line([(48, up(value)), (400, up(value))], GREY, 1.4, "5 4")
        picture.text(400, up(value) - 5, f"{words} {value:.3f}", "end")
    places = [(across(math.log(epsilon)), up(value)) for epsilon, value in points]
    picture.line(places, BLUE, 2)
    for (x, y), (epsilon, value) in zip(places, points, strict=True):
        picture.dot(x, y, BLUE)
        picture.text(x, y + 18, f"{value:.3f}", "middle")
        picture.text(x, 228, f"{epsilon:g}", "middle")
    picture.text(225, 248, "ε (smaller is more private)", "middle")
    picture.text(10, 18, measure)
    return str(picture)


def draw_importance(importance: Importance) -> str:
    """Draw the largest importances as bars, with one standard error where it is known."""
    places = importance.ranked[:_MOST_BARS]
    words = [importance.features[k] for k in places]
    shares = [importance.shares[k] for k in places]
    errors = None if importance.stds is None else [importance.stds[k] for k in places]
    high = max(own + (errors[k] if errors else 0) for k, own in enumerate(shares)) or 1.0
    return _draw_bars("importance", words, shares, errors, (0.0, high))


def draw_shapes(shapes: Sequence[Shape]) -> list[str]:
    """Draw shapes of one feature that several models have learned, all on one scale.

    Bands are two standard errors of the noise. The values are those that the domain names; of many
    categories, those that move the score of the last model most.
    """
    if shapes[0].spans.edges is not None:
        reach = _reach(shapes, range(shapes[0].spans.declared))
        return [_draw_steps(shape, reach) for shape in shapes]
    kept = _strongest(shapes[-1])
    reach, drawn = _reach(shapes, kept), []
    for shape in shapes:
        errors = None if shape.stds is None else [2 * shape.stds[k] for k in kept]
        words = [shape.spans.words[k] for k in kept]
        effects = [shape.effects[k] for k in kept]
        drawn.append(_draw_bars(shape.name, words, effects, errors, reach))
    return drawn


def _strongest(shape: Shape) -> list[int]:
    """Return the places of categories that stand out most from the others, in their order."""
    effects = shape.effects[: shape.spans.declared]
    middle = median(effects)  # a feature's level says nothing
    ranked = sorted(range(len(effects)), key=lambda k: -abs(effects[k] - middle))
    return sorted(ranked[:_MOST_BARS])


def _reach(shapes: Sequence[Shape], kept: Sequence[int]) -> tuple[float, float]:
    """Return from where to where shapes go, bands and 0 among it."""
    ends = [0.0]
    for shape in shapes:
        errors = shape.stds or (0.0,) * len(shape.effects)
        ends += [shape.effects[k] + side * errors[k] for k in kept for side in (-2, 2)]
    return min(ends), max(ends)


def _draw_steps(shape: Shape, reach: tuple[float, float]) -> str:
    """Draw what a number adds, as stairs."""
    picture = Picture(300, 200, f"{shape.name}: what it adds to the score")
    places, ticks = _places(shape.spans)
    across, up = scale(places[0], places[-1], 40, 285), scale(*reach, 165, 12)
    for tick in even_ticks(*reach):
        picture.line([(40, up(tick)), (285, up(tick))], GREY if tick == 0 else _PALE)
        picture.text(35, up(tick) + 4, f"{tick:g}", "end")
    for place, words in ticks:
        picture.text(across(place), 181, words, "middle")
    picture.text(162, 196, shape.name, "middle")
    sides = [across(place) for place in places]
    effects = shape.effects[: shape.spans.declared]
    if shape.stds is not None:
        high, low = (
            _stairs(
                sides, [up(own + side * std) for own, std in zip(effects, shape.stds, strict=False)]
            )
            for side in (2, -2)
        )
        picture.area([*high, *reversed(low)], BLUE)
    picture.line(_stairs(sides, [up(own) for own in effects]), BLUE, 1.8)
    return str(picture)


def _places(spans: Spans) -> tuple[list[float], list[tuple[float, str]]]:
    """Return where the edges of a number lie, and where which ticks do."""
    edges = spans.edges or ()
    if not spans.log:
        return list(edges), [(tick, _brief(tick)) for tick in even_ticks(edges[0], edges[-1])]
    smallest = min(abs(edge) for edge in edges if edge)

    def bend(value: float) -> float:  # straight about 0, where no logarithm is
        return math.copysign(math.log1p(abs(value) / smallest), value)

    last = max(abs(edges[0]), abs(edges[-1]))
    powers = [10.0**k for k in range(math.ceil(math.log10(smallest)), 1 + int(math.log10(last)))]
    ticks = [0.0, *powers[::-2], *(-own for own in powers[::-2])]
    return [bend(edge) for edge in edges], [
        (bend(tick), _brief(tick)) for tick in ticks if edges[0] <= tick <= edges[-1]
    ]


def _brief(number: float) -> str:
    """Write a number so that it fits under a tick."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:g}{letter}"
    return f"{number:g}"


def _stairs(sides: Sequence[float], heights: Sequence[float]) -> list[tuple[float, float]]:
    """Return the corners of stairs."""
    return [(x, own) for k, own in enumerate(heights) for x in (sides[k], sides[k + 1])]


def _draw_bars(
    title: str,
    words: Sequence[str],
    values: Sequence[float],
    errors: Sequence[float] | None,
    reach: tuple[float, float],
) -> str:
    """Draw bars from the top down, blue to the right and orange to the left, with their errors."""
    below = 14 + _LINE * len(words)
    picture = Picture(300, below + 34, title)
    across = scale(*reach, 122, 290)
    for tick in even_ticks(*reach, most=4):
        picture.line([(across(tick), 10), (across(tick), below)], GREY if tick == 0 else _PALE)
        picture.text(across(tick), below + 13, f"{tick:g}", "middle")
    for k, (own, value) in enumerate(zip(words, values, strict=True)):
        top = 12 + _LINE * k
        colour = BLUE if value >= 0 else ORANGE
        picture.bar(across(0), top, across(value) - across(0), _LINE - 4, colour)
        if errors is not None:
            ends = max(value - errors[k], reach[0]), min(value + errors[k], reach[1])
            picture.line([(across(end), top + _LINE / 2 - 2) for end in ends], "#333333")
        picture.text(116, top + 10, own if len(own) <= 18 else own[:17] + "…", "end")
    picture.text(206, below + 29, title, "middle")
    return str(picture)
