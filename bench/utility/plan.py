"""Which points there are: a method on a table at an ε, and why it is measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from bench.papers.sbdt_points import ROWS as SBDT_ROWS
from bench.utility.methods import CEILING, FLAGSHIP, METHODS
from bench.utility.tables import TABLES

EPSILONS = (0.1, 0.5, 1.0, 3.0)
CURVE_DELTA = 5e-8
CURVE_EPSILONS = (0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0)
FIVE = ("adult", "telco_churn", "spambase", "cardio", "abalone")
"""Where DP-EBM's scores are looked for on the flagship's curve; S-BDT's are on its own rows."""
LARGE_EPSILON = 100.0
LARGE = ("adult", "cardio", "covtype:two", "covtype")
PARTS = ("grid", "curve", "large")


class Point(NamedTuple):
    """A method on a table; ε and δ are None where there is no privacy."""

    table: str
    method: str
    epsilon: float | None
    delta: float | None


def delta_of(epsilon: float) -> float:
    """Return the δ that goes with an ε."""
    return 5e-8 if epsilon <= 0.5 else 1e-6


def points(
    parts: Iterable[str],
    tables: Iterable[str] | None = None,
    methods: Iterable[str] | None = None,
    epsilons: Iterable[float] | None = None,
) -> list[Point]:
    """Return the points of some parts, each once; what is named of a part, all of it otherwise.

    The grid takes any table and ε that is named; the curve and large ε only theirs.
    """
    wanted = set(methods or METHODS)
    found: dict[Point, None] = {}
    for part in parts:
        if part == "grid":
            all_of = _grid(tables or TABLES, epsilons or EPSILONS)
        else:
            all_of = (
                point
                for point in (_curve() if part == "curve" else _large())
                if (not tables or point.table in tables)
                and (not epsilons or point.epsilon is None or point.epsilon in epsilons)
            )
        found |= dict.fromkeys(point for point in all_of if point.method in wanted)
    return list(found)


def _grid(tables: Iterable[str], epsilons: Iterable[float]) -> Iterator[Point]:
    epsilons = tuple(epsilons)
    for table in tables:
        for name, method in METHODS.items():
            if not method.takes(table):
                continue
            if not method.private:
                yield Point(table, name, None, None)
                continue
            for epsilon in epsilons:
                yield Point(table, name, epsilon, delta_of(epsilon))


def _curve() -> Iterator[Point]:
    """Points of one δ, that of S-BDT's published figures."""
    for table in dict.fromkeys((*FIVE, *SBDT_ROWS.values())):
        for epsilon in CURVE_EPSILONS:
            yield Point(table, FLAGSHIP, epsilon, CURVE_DELTA)
    for table in FIVE:
        for epsilon in EPSILONS:
            yield Point(table, "dp_ebm", epsilon, CURVE_DELTA)


def _large() -> Iterator[Point]:
    for table in LARGE:
        yield Point(table, FLAGSHIP, LARGE_EPSILON, delta_of(LARGE_EPSILON))
        yield Point(table, CEILING, None, None)
