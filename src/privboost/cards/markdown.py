"""A card as Markdown: what a repository or a wiki shows."""

from __future__ import annotations

import re

from privboost.cards.blocks import Bar, Block, Listing, Page, Plot, Section, Table, Text, Tone

_SPECIAL = re.compile(r"([\\`*_\[\]<>|~&$#@^])")
_LEADING = re.compile(r"^(\d+)([.)])(?=\s|$)|^([-+=:])")
_LINK = re.compile(r"(?i)(://|\bwww\.)")
_ALARM = "**⚠ NO PRIVACY GUARANTEE**"
_PLACES = 40
"""How many signs a whole bar has."""


def to_markdown(page: Page) -> str:
    """Return a card as Markdown; what comes from people is text there, whatever it holds."""
    parts = [f"# {plain(page.title)}", plain(page.subtitle)]
    parts += [part for section in page.sections for part in _section(section)]
    return "\n\n".join(parts) + "\n"


def plain(text: str) -> str:
    """Write a text so that Markdown takes no sign of it for its own."""
    text = _SPECIAL.sub(r"\\\1", text)
    text = _LINK.sub(lambda found: found[0][:-1] + "\\" + found[0][-1], text)
    return _LEADING.sub(lambda found: _behind(found[1] or "", found[2] or found[3]), text)


def _behind(number: str, sign: str) -> str:
    return f"{number}\\{sign}"


def _section(section: Section) -> list[str]:
    return [f"## {plain(section.title)}", *map(_block, section.blocks)]


def _block(block: Block) -> str:
    match block:
        case Text(words, Tone.alarm):
            return f"> {_ALARM}\n>\n> {plain(words)}"
        case Text(words, Tone.promise):
            return f"> **{plain(words)}**"
        case Text(words):
            return plain(words)
        case Listing(items):
            return "\n".join(f"- {plain(item)}" for item in items)
        case Table():
            return _table(block)
        case Bar(caption, parts):
            drawn = tuple(
                (name, f"{share:.1%}", "█" * round(share * _PLACES)) for name, share in parts
            )
            return _table(Table(caption, drawn, ("Part", "Share", ""), frozenset({1})))
        case Plot(_, _, (epsilon, delta)):
            said = f"Epsilon {epsilon:.6g} at delta {delta:.6g} is stated;"
            return plain(f"{said} the same releases have others at other deltas:")


def _table(table: Table) -> str:
    head = table.head or ("", "")
    rule = ["---:" if column in table.numbers else "---" for column in range(len(head))]
    lines = [_line(tuple(map(plain, head))), _line(tuple(rule))]
    lines += [_line(tuple(map(plain, row))) for row in table.rows]
    return "\n".join([f"*{plain(table.caption)}*", "", *lines])


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"
