"""Pictures as SVG, drawn without any other package: a frame, its axes, and marks in it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

Scale = Callable[[float], float]
"""From a value to its place, in the units of the picture."""


def scale(low: float, high: float, first: float, last: float) -> Scale:
    """Return the straight line that takes values from low to high to places from first to last."""
    width = (high - low) or 1.0
    return lambda value: first + (value - low) / width * (last - first)


def even_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return round numbers from low to high, some few."""
    rough = (high - low) / most or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(own * power for own in (1, 2, 5, 10) if own * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(place * step, 10) for place in range(first, last + 1)]


class Picture:
    """An SVG that grows mark by mark.

    Parameters
    ----------
    width, height : float
        Its size; it is as wide as there is room for.
    title : str
        What it shows, for those who cannot see it.
    """

    def __init__(self, width: float, height: float, title: str) -> None:
        self._head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
            f'role="img" font-size="11"><title>{escape(title)}</title>'
        )
        self._marks: list[str] = []

    def line(
        self, points: Sequence[tuple[float, float]], colour: str, wide: float = 1, dash: str = ""
    ) -> None:
        """Draw a line through points."""
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self._marks.append(
            f'<polyline points="{_points(points)}" fill="none" stroke="{colour}" '
            f'stroke-width="{wide:g}"{dashed}/>'
        )

    def area(self, points: Sequence[tuple[float, float]], colour: str) -> None:
        """Fill what lies between points, so that what is below can be seen."""
        self._marks.append(
            f'<polygon points="{_points(points)}" fill="{colour}" fill-opacity="0.2"/>'
        )

    def bar(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        """Fill a rectangle; a width below 0 goes to the left."""
        left = x + min(width, 0)
        self._marks.append(
            f'<rect x="{left:.1f}" y="{y:.1f}" width="{abs(width):.1f}" height="{height:.1f}" '
            f'fill="{colour}"/>'
        )

    def dot(self, x: float, y: float, colour: str) -> None:
        """Draw a dot."""
        self._marks.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>')

    def text(self, x: float, y: float, words: str, anchor: str = "start") -> None:
        """Write words that start, end or have their middle at a place."""
        self._marks.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
        )

    def __str__(self) -> str:
        return "".join([self._head, *self._marks, "</svg>"])


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
