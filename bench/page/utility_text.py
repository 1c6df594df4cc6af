"""How good models are, in words and tables, made of summaries alone."""

from __future__ import annotations

from bench.page.comparisons import (
    Loss,
    Points,
    SameScore,
    better,
    by_point,
    curve,
    losses,
    ranks,
    runs,
    same_score,
    value,
    versions,
)
from bench.page.markdown import budget, figure, number, table
from bench.papers.sbdt import SBDT
from bench.papers.sbdt_points import METRICS as SBDT_METRICS
from bench.papers.sbdt_points import ROWS as SBDT_ROWS
from bench.utility.methods import CEILING, FLAGSHIP, METHODS
from bench.utility.plan import (
    CURVE_DELTA,
    EPSILONS,
    FIVE,
    LARGE,
    LARGE_EPSILON,
    Point,
    delta_of,
)
from bench.utility.scores import MAIN
from bench.utility.store import Summary
from bench.utility.tables import TABLES, kind, title

RANKED = (("two", "AUC"), ("two", "log-loss"), ("several", "log-loss"), ("number", "RMSE"))
SHOWN = (*RANKED[:2], ("two", "calibration"), *RANKED[2:], ("number", "R²"))
MOST_ERRORS = 50
"""Beyond so many standard errors a number says nothing more."""
KINDS = {"two": "Two classes", "several": "Several classes", "number": "Numbers"}
MEASURES = {"calibration": "calibration error"}


def what_was_run(summaries: list[Summary]) -> str:
    """Return how much the page rests on, and of which versions."""
    measured = versions(summaries)
    lines = [
        f"- {METHODS[method].title}: {', '.join(found)}"
        + (" (points of several states)" if len(found) > 1 else "")
        for method, found in measured.items()
    ]
    counts = run_counts(summaries)
    tables = sum(any(one["table"] == name for one in summaries) for name in TABLES)
    first = (
        f"{len(summaries)} points, {counts} runs each, on {tables} of {len(TABLES)} tables. "
        "With few runs, standard errors are rough themselves. What was measured:"
    )
    return "\n".join([first, "", *lines])


def mean_ranks(summaries: list[Summary]) -> str:
    """Return the table of mean ranks."""
    points = by_point(summaries)
    methods = [name for name, method in METHODS.items() if method.private]
    rows = []
    for of, measure in RANKED:
        for epsilon in EPSILONS:
            found = ranks(points, of, measure, epsilon, delta_of(epsilon))
            if found is None:
                continue
            best = min(found.ranks.values())
            cells = [
                "" if name not in found.ranks else _rank(found.ranks[name], best)
                for name in methods
            ]
            rows.append(
                [f"{KINDS[of].lower()}, {measure}", budget(epsilon), str(found.tables), *cells]
            )
    return table(["by", "ε", "tables", *(METHODS[name].title for name in methods)], rows)


def _rank(found: float, best: float) -> str:
    return f"**{found:.1f}**" if found == best else f"{found:.1f}"


def scores(summaries: list[Summary]) -> str:
    """Return a table of every score that is compared."""
    points = by_point(summaries)
    parts = []
    for of, measure in SHOWN:
        names = [name for name in TABLES if kind(name) == of]
        others = {point.table for point in points if point.table not in TABLES}
        names += sorted(name for name in others if kind(name) == of and _in_grid(points, name))
        rows = [row for name in names for row in _rows(points, name, measure)]
        if rows:
            head = ["table", "ε", *(method.title for method in METHODS.values())]
            heading = f"### {KINDS[of]}: {MEASURES.get(measure, measure)}"
            parts.append(f"{heading}\n\n{table(head, rows)}")
    return "\n\n".join(parts)


def _in_grid(points: Points, name: str) -> bool:
    """Return whether more than the flagship's curve was measured on a table."""
    return any(point.table == name and point.method != FLAGSHIP for point in points)


def _rows(points: Points, name: str, measure: str) -> list[list[str]]:
    """Return a line for each ε of a table, the best private figure in bold."""
    rows = []
    epsilons = {
        point.epsilon
        for point in points
        if point.table == name and point.epsilon is not None and _is_grid(point)
    }
    for epsilon in sorted(epsilons):
        cells, best = [], None
        for method in METHODS:
            budgets = (epsilon, delta_of(epsilon)) if METHODS[method].private else (None, None)
            one = points.get(Point(name, method, *budgets))
            found = value(one, measure)
            cells.append((method, None if one is None or found is None else one["scores"][measure]))
            if METHODS[method].private and found is not None:
                best = found if best is None or better(found, best, measure) else best
        if best is None:
            continue
        said = [
            "" if cell is None else figure(cell, bold=METHODS[method].private and cell[0] == best)
            for method, cell in cells
        ]
        rows.append([title(name) if not rows else "", budget(epsilon), *said])
    return rows


def _is_grid(point: Point) -> bool:
    """Return whether a point belongs to tables of scores: curves and large ε have their own."""
    return point.delta == delta_of(point.epsilon or 0) and point.epsilon != LARGE_EPSILON


def same_scores(summaries: list[Summary]) -> list[tuple[str, str, float, float, SameScore]]:
    """Return for other methods' points: whose, table, ε, score, and the flagship's ε for it."""
    points = by_point(summaries)
    found = []
    for name, row in SBDT_ROWS.items():
        measure = SBDT_METRICS[name]
        if known := curve(points, row, CURVE_DELTA, measure):
            for epsilon, score in SBDT[name].items():
                ours = same_score(known, score, measure)
                found.append(("S-BDT, published", row, epsilon, score, ours))
    for name in FIVE:
        measure = MAIN[kind(name)]
        known = curve(points, name, CURVE_DELTA, measure)
        for epsilon in EPSILONS if known else ():
            one = points.get(Point(name, "dp_ebm", epsilon, CURVE_DELTA))
            if (score := value(one, measure)) is not None:
                ours = same_score(known, score, measure)
                found.append(("DP-EBM, measured", name, epsilon, score, ours))
    return found


def same_score_table(summaries: list[Summary]) -> str:
    """Return the same as a table, with the ratio of both ε."""
    rows = []
    for whose, name, epsilon, score, ours in same_scores(summaries):
        ratio = epsilon / ours.epsilon
        times = {"": f"{ratio:.1f}", "<": f"> {ratio:.1f}", ">": f"< {ratio:.1f}"}[ours.sign]
        own = f"{ours.sign} {budget(float(f'{ours.epsilon:.2g}'))}".strip()
        measure = MAIN[kind(name)]
        rows.append(
            [whose, f"{title(name)}, {measure}", budget(epsilon), number(score), own, times]
        )
    return table(
        ["method", "table", "its ε", "score", "PrivBoost's ε", "its ε / PrivBoost's"], rows
    )


def large_table(summaries: list[Summary]) -> str:
    """Return the flagship at a large ε beside LightGBM."""
    points = by_point(summaries)
    rows = []
    for name in LARGE:
        measures = {"two": ("AUC", "log-loss"), "several": ("log-loss", "accuracy")}
        for measure in measures[kind(name)]:
            cells = [
                points.get(Point(name, FLAGSHIP, epsilon, delta_of(epsilon)))
                for epsilon in (EPSILONS[-1], LARGE_EPSILON)
            ]
            cells.append(points.get(Point(name, CEILING, None, None)))
            said = [
                ""
                if one is None or measure not in one["scores"]
                else figure(one["scores"][measure])
                for one in cells
            ]
            if said[1]:
                rows.append([f"{title(name)}, {measure}", *said])
    head = ["table", f"PrivBoost, ε = {budget(EPSILONS[-1])}", "ε = 100", "LightGBM, no privacy"]
    return table(head, rows)


def all_losses(summaries: list[Summary]) -> tuple[list[Loss], int]:
    """Return where another private method is better, and of how many comparisons."""
    return losses({point: one for point, one in by_point(summaries).items() if _is_grid(point)})


def losses_table(summaries: list[Summary]) -> str:
    """Return the same as a table."""
    found, compared = all_losses(summaries)
    rows = [
        [
            title(loss.point.table),
            MEASURES.get(loss.measure, loss.measure),
            budget(loss.point.epsilon or 0),
            METHODS[loss.point.method].title,
            number(loss.other),
            number(loss.flagship),
            f"{loss.errors:.1f}" if loss.errors < MOST_ERRORS else f"> {MOST_ERRORS}",
        ]
        for loss in sorted(found, key=_place)
    ]
    head = ["table", "score", "ε", "better", "its figure", "PrivBoost", "standard errors"]
    first = f"By more than two standard errors, in {len(found)} of {compared} comparisons."
    return f"{first}\n\n{table(head, rows)}".rstrip()


def _place(loss: Loss) -> tuple[int, float, str]:
    """Return where a loss stands in the list: by table, ε and score."""
    names = list(TABLES)
    known = names.index(loss.point.table) if loss.point.table in names else len(names)
    return known, loss.point.epsilon or 0, loss.measure


def run_counts(summaries: list[Summary]) -> str:
    """Say how many runs a point has: one number, or from the fewest to the most."""
    counts = sorted(runs(summaries))
    return " to ".join(map(str, dict.fromkeys((*counts[:1], *counts[-1:]))))
