"""The picture of a tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from privboost.explanations.axes import BLUE, GREY, ORANGE, new_axes
from privboost.explanations.tree_cards import Leaf, Split, TreeCard

_MOST_LEAVES = 16
"""Levels below those that fit are left out: what a leaf of them says could not be read."""


def draw_tree(card: TreeCard, ax: Any = None) -> Any:
    """Draw a tree from the top down; what goes left is written at each split."""
    levels = _levels_that_fit(card.root)
    leaves = _width(card.root, levels)
    ax = new_axes(ax, max(5.0, 1.3 * leaves), 1.2 + 1.1 * (1 + levels))
    _draw(card.root, 0.0, float(leaves), 0, levels, ax)
    ax.set_axis_off()
    ax.margins(0.06)
    ax.set_title(card.name, pad=14)
    return ax


def _levels_that_fit(root: Split | Leaf) -> int:
    levels = 0
    while levels < _depth(root) and _width(root, levels + 1) <= _MOST_LEAVES:
        levels += 1
    return levels


def _depth(node: Split | Leaf) -> int:
    return 0 if isinstance(node, Leaf) else 1 + max(map(_depth, node.below))


def _width(node: Split | Leaf, levels: int) -> int:
    """Return how many ends a tree has that is cut below some levels."""
    if isinstance(node, Leaf) or levels == 0:
        return 1
    return sum(_width(below, levels - 1) for below in node.below)


def _draw(
    node: Split | Leaf, left: float, width: float, depth: int, levels: int, ax: Any
) -> tuple[float, float]:
    """Draw a node in the middle of its room, and what lies below; return where it is."""
    place = (left + width / 2, -float(depth))
    if isinstance(node, Leaf) or levels == 0:
        words, colour = _end(node)
        _write(ax, place, words, colour)
        return place
    for below, words in zip(node.below, ("", "else"), strict=True):
        room = width * _width(below, levels - 1) / _width(node, levels)
        child = _draw(below, left, room, depth + 1, levels - 1, ax)
        left += room
        ax.plot(*zip(place, child, strict=True), color=GREY, linewidth=1, zorder=1)
        middle = [(a + b) / 2 for a, b in zip(place, child, strict=True)]
        ax.text(*middle, words or "yes", fontsize=7, color=GREY, ha="center", zorder=3)
    _write(ax, place, "\n".join(_wrapped(node.left)), "black")
    return place


def _end(node: Split | Leaf) -> tuple[str, str]:
    if isinstance(node, Split):
        return "…", GREY
    error = "" if node.std is None else f"\n± {node.std:.2g}"
    return f"{node.effect:+.3g}{error}", BLUE if node.effect >= 0 else ORANGE


def _write(ax: Any, place: tuple[float, float], words: str, colour: str) -> None:
    box = {"boxstyle": "round", "facecolor": "white", "edgecolor": colour}
    ax.text(*place, words, fontsize=8, color=colour, ha="center", va="center", bbox=box, zorder=2)


def _wrapped(words: str, most: int = 18) -> Iterator[str]:
    """Break a condition at its words; what takes too long is cut."""
    line, count = "", 0
    for word in words.split(" "):
        if line and len(line) + len(word) > most:
            yield line
            line, count = "", count + 1
        if count == 3:
            yield "…"
            return
        line = f"{line} {word}".strip()
    yield line
