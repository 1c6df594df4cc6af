"""Numbers and tables as pages have them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def number(value: float) -> str:
    """Return a figure with as many digits as are worth reading: .813, 2.71, 25.1."""
    if abs(value) < 1:
        return f"{value:.3f}".replace("0.", ".", 1)
    return f"{value:.2f}" if abs(value) < 10 else f"{value:,.1f}"


def figure(found: Sequence[float | None], bold: bool = False) -> str:
    """Return a mean and its standard error, where there is one."""
    mean, error = found
    assert mean is not None
    said = f"**{number(mean)}**" if bold else number(mean)
    return said if error is None else f"{said} ± {number(error)}"


def budget(epsilon: float) -> str:
    """Return an ε as pages write it: .1, 1, 100."""
    return f"{epsilon:.3g}".removeprefix("0")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; nothing if it has no rows."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    if not lines:
        return ""
    return "\n".join([f"| {' | '.join(head)} |", "|" + "---|" * len(head), *lines])
