"""Bars and curves as SVG, without style sheets, scripts or fonts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape

from privboost.cards.blocks import Bar, Plot

COLOURS = ("#1b4965", "#c8553d", "#588157", "#7b4b94", "#b08900", "#3a86a8", "#6c757d")
"""Of a bar's parts: dark enough for white between them, in print and for the colour-blind."""

_WIDTH, _HEIGHT = 640, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 74, 18, 16, 56
_LEAST_WIDTH = 1e-6
"""An axis is at least so long."""


def draw_bar(bar: Bar) -> str:
    """Return a stacked bar; its parts are named beside it, by whoever shows it."""
    said = "; ".join(f"{name} {share:.1%}" for name, share in bar.parts)
    drawn, start = [], 0.0
    for (name, share), colour in zip(bar.parts, COLOURS, strict=False):
        drawn.append(
            f'<rect x="{start * 1000:.2f}" y="0" width="{share * 1000:.2f}" height="48" '
            f'fill="{colour}" stroke="#fff" stroke-width="2">'
            f"<title>{escape(name)}: {share:.1%}</title></rect>"
        )
        start += share
    return (
        '<svg class="bar" viewBox="0 0 1000 48" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(said)}">{"".join(drawn)}</svg>'
    )


def draw_swatch(number: int) -> str:
    """Return the colour of a part."""
    return (
        '<svg class="swatch" viewBox="0 0 10 10" aria-hidden="true">'
        f'<rect width="10" height="10" fill="{COLOURS[number]}"/></svg>'
    )


def draw_plot(plot: Plot) -> str:
    """Return δ, by its logarithm, against ε."""
    epsilon, delta = plot.mark
    curve = [(e, math.log10(d)) for e, d in plot.points]
    low = math.floor(min([y for _, y in curve] + [-1.0]))
    most = max([e for e, _ in curve] + [epsilon, _LEAST_WIDTH])
    step = _round_step(most)
    right = step * math.ceil(most / step)

    def place(e: float, y: float) -> str:
        x = _LEFT + (_WIDTH - _LEFT - _RIGHT) * e / right
        down = _TOP + (_HEIGHT - _TOP - _BOTTOM) * y / low
        return f"{x:.1f},{down:.1f}"

    mark_y = max(low, math.log10(delta)) if delta > 0 else float(low)
    x, y = place(epsilon, mark_y).split(",")
    path = " ".join(place(e, y) for e, y in curve)
    said = f"delta against epsilon; epsilon {epsilon:.3g} at delta {delta:.3g} is stated"
    return (
        f'<svg class="plot" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{said}">'
        f"{''.join(_axes(low, right, step))}"
        f'<polyline points="{path}" fill="none" stroke="#1b4965" stroke-width="3"/>'
        f'<circle cx="{x}" cy="{y}" r="7" fill="#c8553d" stroke="#fff" stroke-width="2"/>'
        "</svg>"
    )


def _axes(low: int, right: float, step: float) -> Iterator[str]:
    """Yield grid lines with their numbers, and the names of both axes."""
    base = _HEIGHT - _BOTTOM
    every = max(1, math.ceil(-low / 6))
    for power in range(0, low - 1, -every):
        y = _TOP + (base - _TOP) * power / low
        yield _line(_LEFT, y, _WIDTH - _RIGHT, y)
        tens = f'10<tspan dy="-6" font-size="12">−{-power}</tspan>'
        yield _label(_LEFT - 8, y + 5, "end", tens if power else "1")
    for number in range(round(right / step) + 1):
        x = _LEFT + (_WIDTH - _LEFT - _RIGHT) * number * step / right
        yield _line(x, _TOP, x, base)
        yield _label(x, base + 20, "middle", f"{number * step:.6g}")
    yield _label((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 8, "middle", "epsilon")
    middle = (_TOP + base) / 2
    yield (
        f'<text x="16" y="{middle:.1f}" text-anchor="middle" font-size="16" fill="#333" '
        f'transform="rotate(-90 16 {middle:.1f})">delta</text>'
    )


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="#ddd"/>'


def _label(x: float, y: float, anchor: str, text: str) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="16" fill="#333">'
        f"{text}</text>"
    )


def _round_step(most: float) -> float:
    """Return a round number that goes four to ten times into a number."""
    power = 10.0 ** math.floor(math.log10(most / 4))
    return next(power * each for each in (1, 2, 2.5, 5, 10) if most / (power * each) <= 6)
