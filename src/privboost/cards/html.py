"""A card as one HTML file: inline style and drawings, no script, nothing from elsewhere."""

from __future__ import annotations

from html import escape

from privboost.cards.blocks import Bar, Block, Listing, Page, Plot, Section, Table, Text
from privboost.cards.drawings import draw_bar, draw_plot, draw_swatch

_STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 54rem; margin: 0 auto; padding: 1rem;
       color: #1a1a1a; background: #fff; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: .5rem 0 0; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; padding-bottom: .2rem;
     border-bottom: 2px solid #1b4965; }
.subtitle { margin: .2rem 0 1rem; color: #444; }
.promise, .alarm { font-size: 1.15rem; padding: .8rem 1rem; border-left: .4rem solid; }
.promise { border-color: #2a6f4e; background: #eef6f1; }
.alarm { border-color: #b3261e; background: #fbeceb; color: #8c1d18; font-weight: 600; }
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
  .promise, .alarm, svg { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  h2, caption, figcaption { break-after: avoid; }
  tr, figure, .promise, .alarm { break-inside: avoid; }
  svg.plot { max-width: 12cm; }
}
"""


def to_html(page: Page) -> str:
    """Return a card as a page that stands alone."""
    title = escape(page.title)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{_STYLE}</style></head>\n<body><main>\n"
        f'<h1>{title}</h1>\n<p class="subtitle">{escape(page.subtitle)}</p>\n'
        f"{''.join(map(_section, page.sections))}</main></body></html>\n"
    )


def _section(section: Section) -> str:
    blocks = "\n".join(map(_block, section.blocks))
    return f"<section><h2>{escape(section.title)}</h2>\n{blocks}\n</section>\n"


def _block(block: Block) -> str:
    match block:
        case Text():
            return f'<p class="{block.tone}">{escape(block.words)}</p>'
        case Listing():
            return f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in block.items)}</ul>"
        case Table():
            return _table(block)
        case Bar():
            return _figure(block.caption, draw_bar(block) + _legend(block))
        case Plot():
            return _figure(block.caption, draw_plot(block))


def _figure(caption: str, content: str) -> str:
    return f"<figure><figcaption>{escape(caption)}</figcaption>{content}</figure>"


def _legend(bar: Bar) -> str:
    items = "".join(
        f"<li>{draw_swatch(number)}{escape(name)}: {share:.1%}</li>"
        for number, (name, share) in enumerate(bar.parts)
    )
    return f'<ul class="legend">{items}</ul>'


def _table(table: Table) -> str:
    kind = "" if table.head else ' class="facts"'
    head = "".join(
        f'<th scope="col"{_number(table, column)}>{escape(name)}</th>'
        for column, name in enumerate(table.head)
    )
    rows = "".join(f"<tr>{_cells(table, row)}</tr>" for row in table.rows)
    return (
        f"<table{kind}><caption>{escape(table.caption)}</caption>"
        f"{f'<thead><tr>{head}</tr></thead>' if head else ''}<tbody>{rows}</tbody></table>"
    )


def _cells(table: Table, row: tuple[str, ...]) -> str:
    first, *others = row
    cells = f'<th scope="row"{_number(table, 0)}>{escape(first)}</th>'
    return cells + "".join(
        f"<td{_number(table, column)}>{escape(cell)}</td>" for column, cell in enumerate(others, 1)
    )


def _number(table: Table, column: int) -> str:
    return ' class="number"' if column in table.numbers else ""
