"""Documents of headed sections that render themselves as stand-alone HTML and as Markdown.

HTML has inline style and SVG drawings, no script and no external resource. Every text is escaped
in both formats: names of columns, classes and models may hold anything.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from html import escape

_SPECIAL = re.compile(r"([\\`*_\[\]<>|~&$#@^])")
_LEADING = re.compile(r"^(\d+)([.)])(?=\s|$)|^([-+=:])")
_LINK = re.compile(r"(?i)(://|\bwww\.)")
_WARNING = "**⚠ NO PRIVACY GUARANTEE**"
_BAR_CHARACTERS = 40
"""Length of a whole bar in Markdown."""

_COLOURS = ("#1b4965", "#c8553d", "#588157", "#7b4b94", "#b08900", "#3a86a8", "#6c757d")
"""Colours of a bar's parts: distinguishable in print and for colour-blind readers."""
MAX_PARTS = len(_COLOURS)
_WIDTH, _HEIGHT = 640, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 74, 18, 16, 56
_LEAST_WIDTH = 1e-6
"""Least length of the ε axis."""

_STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 54rem; margin: 0 auto; padding: 1rem;
       color: #1a1a1a; background: #fff; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: .5rem 0 0; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; padding-bottom: .2rem;
     border-bottom: 2px solid #1b4965; }
.subtitle { margin: .2rem 0 1rem; color: #444; }
.guarantee, .warning { font-size: 1.15rem; padding: .8rem 1rem; border-left: .4rem solid; }
.guarantee { border-color: #2a6f4e; background: #eef6f1; }
.warning { border-color: #b3261e; background: #fbeceb; color: #8c1d18; font-weight: 600; }
table { border-collapse: collapse; width: 100%; margin: .8rem 0 1.2rem; font-size: .92rem; }
caption { text-align: left; font-weight: 600; padding: .2rem 0; }
th, td { text-align: left; padding: .3rem .5rem; border-bottom: 1px solid #d5d5d5;
         vertical-align: top; }
th { font-weight: 600; } tbody th { font-weight: 400; color: #333; }
table.facts th { width: 32%; }
th:first-child { min-width: 7.5em; }
thead th { border-bottom: 2px solid #888; overflow-wrap: normal; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
figure { margin: .8rem 0 1.2rem; } figcaption { font-weight: 600; padding: .2rem 0; }
svg.bar { display: block; width: 100%; height: 2.5rem; }
svg.plot { display: block; width: 100%; max-width: 40rem; height: auto; }
svg.swatch { width: .8em; height: .8em; margin-right: .4em; }
ul { padding-left: 1.2rem; margin: .5rem 0; } ul.legend { list-style: none; padding: 0; }
li { margin: .2rem 0; }
@media (max-width: 30rem) {
  body { padding: .7rem; } table { font-size: .85rem; } th, td { padding: .3rem .25rem; }
}
@media (max-width: 22rem) { table { font-size: .78rem; } th, td { padding: .25rem .15rem; } }
@media print {
  body { max-width: none; padding: 0; font-size: 10.5pt; }
  .guarantee, .warning, svg { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  h2, caption, figcaption { break-after: avoid; }
  tr, figure, .guarantee, .warning { break-inside: avoid; }
  svg.plot { max-width: 12cm; }
}
"""


class Tone(StrEnum):
    """Role of a paragraph."""

    plain = "plain"
    guarantee = "guarantee"
    warning = "warning"


class Block(ABC):
    """A part of a section that renders itself."""

    @abstractmethod
    def to_html(self) -> str:
        """Return the block as HTML."""

    @abstractmethod
    def to_markdown(self) -> str:
        """Return the block as Markdown."""


@dataclass(frozen=True)
class Text(Block):
    """A paragraph."""

    text: str
    tone: Tone = Tone.plain

    def to_html(self) -> str:
        return f'<p class="{self.tone}">{escape(self.text)}</p>'

    def to_markdown(self) -> str:
        text = escape_markdown(self.text)
        if self.tone == Tone.warning:
            return f"> {_WARNING}\n>\n> {text}"
        return f"> **{text}**" if self.tone == Tone.guarantee else text


@dataclass(frozen=True)
class BulletList(Block):
    """A list of sentences."""

    items: tuple[str, ...]

    def to_html(self) -> str:
        return f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in self.items)}</ul>"

    def to_markdown(self) -> str:
        return "\n".join(f"- {escape_markdown(item)}" for item in self.items)


@dataclass(frozen=True)
class Table(Block):
    """A table; the first cell of each row is its header.

    Attributes
    ----------
    caption : str
        Caption.
    rows : tuple of tuple of str
        Cells.
    head : tuple of str
        Names of columns; empty for a two-column list of facts.
    numbers : frozenset of int
        Columns that are aligned as numbers.
    """

    caption: str
    rows: tuple[tuple[str, ...], ...]
    head: tuple[str, ...] = ()
    numbers: frozenset[int] = frozenset()

    def to_html(self) -> str:
        kind = "" if self.head else ' class="facts"'
        head = "".join(
            f'<th scope="col"{self._alignment(column)}>{escape(name)}</th>'
            for column, name in enumerate(self.head)
        )
        rows = "".join(f"<tr>{self._cells(row)}</tr>" for row in self.rows)
        return (
            f"<table{kind}><caption>{escape(self.caption)}</caption>"
            f"{f'<thead><tr>{head}</tr></thead>' if head else ''}<tbody>{rows}</tbody></table>"
        )

    def _cells(self, row: tuple[str, ...]) -> str:
        first, *others = row
        cells = f'<th scope="row"{self._alignment(0)}>{escape(first)}</th>'
        return cells + "".join(
            f"<td{self._alignment(column)}>{escape(cell)}</td>"
            for column, cell in enumerate(others, 1)
        )

    def _alignment(self, column: int) -> str:
        return ' class="number"' if column in self.numbers else ""

    def to_markdown(self) -> str:
        head = self.head or ("", "")
        rule = tuple("---:" if column in self.numbers else "---" for column in range(len(head)))
        escaped = [tuple(map(escape_markdown, row)) for row in (head, *self.rows)]
        lines = [f"| {' | '.join(row)} |" for row in (escaped[0], rule, *escaped[1:])]
        return "\n".join([f"*{escape_markdown(self.caption)}*", "", *lines])


@dataclass(frozen=True)
class StackedBar(Block):
    """A whole and its parts: names with shares that add up to 1, at most `MAX_PARTS`."""

    caption: str
    parts: tuple[tuple[str, float], ...]

    def to_html(self) -> str:
        label = "; ".join(f"{name} {share:.1%}" for name, share in self.parts)
        bars, legend, start = [], [], 0.0
        for (name, share), colour in zip(self.parts, _COLOURS, strict=False):
            bars.append(
                f'<rect x="{start * 1000:.2f}" y="0" width="{share * 1000:.2f}" height="48" '
                f'fill="{colour}" stroke="#fff" stroke-width="2">'
                f"<title>{escape(name)}: {share:.1%}</title></rect>"
            )
            legend.append(
                '<li><svg class="swatch" viewBox="0 0 10 10" aria-hidden="true">'
                f'<rect width="10" height="10" fill="{colour}"/></svg>'
                f"{escape(name)}: {share:.1%}</li>"
            )
            start += share
        return _figure(
            self.caption,
            '<svg class="bar" viewBox="0 0 1000 48" preserveAspectRatio="none" role="img" '
            f'aria-label="{escape(label)}">{"".join(bars)}</svg>'
            f'<ul class="legend">{"".join(legend)}</ul>',
        )

    def to_markdown(self) -> str:
        rows = tuple(
            (name, f"{share:.1%}", "█" * round(share * _BAR_CHARACTERS))
            for name, share in self.parts
        )
        return Table(self.caption, rows, ("Part", "Share", ""), frozenset({1})).to_markdown()


@dataclass(frozen=True)
class PrivacyCurvePlot(Block):
    """Plot of δ, on a logarithmic axis, against ε.

    Attributes
    ----------
    caption : str
        Caption.
    points : tuple of (float, float)
        ε and δ, δ above 0, sorted by δ.
    mark : (float, float)
        The stated ε and δ.
    """

    caption: str
    points: tuple[tuple[float, float], ...]
    mark: tuple[float, float]

    def to_html(self) -> str:
        epsilon, delta = self.mark
        curve = [(e, math.log10(d)) for e, d in self.points]
        low = math.floor(min([y for _, y in curve] + [-1.0]))
        most = max([e for e, _ in curve] + [epsilon, _LEAST_WIDTH])
        step = _tick_step(most)
        right = step * math.ceil(most / step)

        def position(e: float, y: float) -> str:
            x = _LEFT + (_WIDTH - _LEFT - _RIGHT) * e / right
            down = _TOP + (_HEIGHT - _TOP - _BOTTOM) * y / low
            return f"{x:.1f},{down:.1f}"

        mark_y = max(low, math.log10(delta)) if delta > 0 else float(low)
        x, y = position(epsilon, mark_y).split(",")
        path = " ".join(position(e, y) for e, y in curve)
        label = f"delta against epsilon; epsilon {epsilon:.3g} at delta {delta:.3g} is stated"
        return _figure(
            self.caption,
            f'<svg class="plot" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}">'
            f"{''.join(_axes(low, right, step))}"
            f'<polyline points="{path}" fill="none" stroke="#1b4965" stroke-width="3"/>'
            f'<circle cx="{x}" cy="{y}" r="7" fill="#c8553d" stroke="#fff" stroke-width="2"/>'
            "</svg>",
        )

    def to_markdown(self) -> str:
        """Return the stated point; a table of the curve follows in every document."""
        epsilon, delta = self.mark
        return escape_markdown(
            f"Epsilon {epsilon:.6g} at delta {delta:.6g} is stated; the same releases have other "
            "epsilons at other deltas:"
        )


@dataclass(frozen=True)
class Section:
    """Blocks under a heading."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Document:
    """A title, a subtitle and sections."""

    title: str
    subtitle: str
    sections: tuple[Section, ...]

    def to_html(self) -> str:
        """Return a stand-alone HTML page."""
        title = escape(self.title)
        sections = "".join(
            f"<section><h2>{escape(section.title)}</h2>\n"
            + "\n".join(block.to_html() for block in section.blocks)
            + "\n</section>\n"
            for section in self.sections
        )
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{title}</title><style>{_STYLE}</style></head>\n<body><main>\n"
            f'<h1>{title}</h1>\n<p class="subtitle">{escape(self.subtitle)}</p>\n'
            f"{sections}</main></body></html>\n"
        )

    def to_markdown(self) -> str:
        """Return Markdown."""
        parts = [f"# {escape_markdown(self.title)}", escape_markdown(self.subtitle)]
        for section in self.sections:
            parts.append(f"## {escape_markdown(section.title)}")
            parts += [block.to_markdown() for block in section.blocks]
        return "\n\n".join(parts) + "\n"


def escape_markdown(text: str) -> str:
    """Return a text in which Markdown finds no syntax."""
    text = _SPECIAL.sub(r"\\\1", text)
    text = _LINK.sub(lambda found: found[0][:-1] + "\\" + found[0][-1], text)
    return _LEADING.sub(lambda found: f"{found[1] or ''}\\{found[2] or found[3]}", text)


def _figure(caption: str, content: str) -> str:
    return f"<figure><figcaption>{escape(caption)}</figcaption>{content}</figure>"


def _axes(low: int, right: float, step: float) -> Iterator[str]:
    """Yield grid lines with tick labels, and the names of both axes."""
    base = _HEIGHT - _BOTTOM
    every = max(1, math.ceil(-low / 6))
    for power in range(0, low - 1, -every):
        y = _TOP + (base - _TOP) * power / low
        yield _grid_line(_LEFT, y, _WIDTH - _RIGHT, y)
        tens = f'10<tspan dy="-6" font-size="12">−{-power}</tspan>'
        yield _tick_label(_LEFT - 8, y + 5, "end", tens if power else "1")
    for number in range(round(right / step) + 1):
        x = _LEFT + (_WIDTH - _LEFT - _RIGHT) * number * step / right
        yield _grid_line(x, _TOP, x, base)
        yield _tick_label(x, base + 20, "middle", f"{number * step:.6g}")
    yield _tick_label((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 8, "middle", "epsilon")
    middle = (_TOP + base) / 2
    yield (
        f'<text x="16" y="{middle:.1f}" text-anchor="middle" font-size="16" fill="#333" '
        f'transform="rotate(-90 16 {middle:.1f})">delta</text>'
    )


def _grid_line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="#ddd"/>'


def _tick_label(x: float, y: float, anchor: str, text: str) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="16" fill="#333">'
        f"{text}</text>"
    )


def _tick_step(most: float) -> float:
    """Return a round number that fits four to ten times into the axis."""
    power = 10.0 ** math.floor(math.log10(most / 4))
    return next(power * each for each in (1, 2, 2.5, 5, 10) if most / (power * each) <= 6)
