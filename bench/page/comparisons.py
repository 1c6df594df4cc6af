"""What summaries say of methods beside each other: ranks, losses, ε for the same score."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from bench.utility.methods import FLAGSHIP, METHODS
from bench.utility.plan import Point
from bench.utility.scores import BEST_IS_MOST
from bench.utility.store import COMPARED, Summary, point_of
from bench.utility.tables import TABLES, kind

Points = Mapping[Point, Summary]


def by_point(summaries: Iterable[Summary]) -> Points:
    """Return summaries by the point they are of."""
    return {point_of(one): one for one in summaries}


def value(one: Summary | None, measure: str) -> float | None:
    """Return the mean of a score, if there is one."""
    return None if one is None or measure not in one["scores"] else one["scores"][measure][0]


def better(a: float, b: float, measure: str) -> bool:
    """Return whether a is a better score than b."""
    return a > b if measure in BEST_IS_MOST else a < b


class Ranks(NamedTuple):
    """Mean ranks by method, over so many tables."""

    tables: int
    ranks: dict[str, float]


def ranks(points: Points, of: str, measure: str, epsilon: float, delta: float) -> Ranks | None:
    """Return the mean ranks of private methods on tables of a kind, 1 the best.

    Only tables count on which all methods that have the score anywhere have it.
    """
    cells: dict[str, dict[str, float]] = {}
    for point, one in points.items():
        found = value(one, measure)
        here = (point.epsilon, point.delta) == (epsilon, delta) and point.table in TABLES
        if here and found is not None and kind(point.table) == of:
            cells.setdefault(point.table, {})[point.method] = found
    methods = {method for row in cells.values() for method in row}
    whole = [row for row in cells.values() if set(row) == methods]
    if len(methods) < 2 or not whole:
        return None
    mean = {
        method: float(np.mean([_rank(row, method, measure) for row in whole]))
        for method in METHODS
        if method in methods
    }
    return Ranks(len(whole), mean)


def _rank(row: dict[str, float], method: str, measure: str) -> float:
    """Return a method's place among others; equals share the mean of theirs."""
    own = row[method]
    before = sum(better(other, own, measure) for other in row.values())
    return before + (1 + sum(other == own for other in row.values())) / 2


class Loss(NamedTuple):
    """A point at which another private method is better than the flagship."""

    point: Point
    measure: str
    flagship: float
    other: float
    errors: float
    """By how many standard errors of the difference."""


def losses(points: Points, most: float = 2.0) -> tuple[list[Loss], int]:
    """Return where other private methods are better by more than so many standard errors.

    Beside them, of how many comparisons: those whose standard error is known.
    """
    found, compared = [], 0
    for point, one in points.items():
        flagship = points.get(point._replace(method=FLAGSHIP))
        if flagship is None or point.method == FLAGSHIP:
            continue
        for measure in COMPARED:
            mine, other = value(flagship, measure), value(one, measure)
            if mine is None or other is None:
                continue
            gap, error = _margin(one, flagship, measure)
            if error is None:
                continue
            compared += 1
            if better(gap, 0, measure) and abs(gap) > most * error:
                errors = abs(gap) / error if error else math.inf
                found.append(Loss(point, measure, mine, other, errors))
    return found, compared


def _margin(one: Summary, flagship: Summary, measure: str) -> tuple[float, float | None]:
    """Return the difference of two means and its standard error, run by run where that is known."""
    if measure in one["margins"]:
        return tuple(one["margins"][measure])
    (a, e), (b, f) = one["scores"][measure], flagship["scores"][measure]
    return a - b, None if e is None or f is None else math.hypot(e, f)


class SameScore(NamedTuple):
    """The ε at which the flagship has a score; `sign` is "<" or ">" where its curve ends before."""

    epsilon: float
    sign: str = ""


def curve(points: Points, table: str, delta: float, measure: str) -> dict[float, float]:
    """Return the flagship's scores on a table by ε, at one δ."""
    return {
        point.epsilon: found
        for point, one in sorted(points.items(), key=lambda item: item[0].epsilon or math.inf)
        if (point.table, point.method, point.delta) == (table, FLAGSHIP, delta)
        and point.epsilon is not None
        and (found := value(one, measure)) is not None
    }


def same_score(known: Mapping[float, float], score: float, measure: str) -> SameScore:
    """Return the ε at which a curve reaches a score, interpolated in log ε.

    More ε counts as never worse: a dip by chance is passed over.
    """
    sign = 1 if measure in BEST_IS_MOST else -1
    epsilons = sorted(known)
    height = np.maximum.accumulate([sign * known[epsilon] for epsilon in epsilons])
    if sign * score <= height[0]:
        return SameScore(epsilons[0], "" if sign * score == height[0] else "<")
    if sign * score > height[-1]:
        return SameScore(epsilons[-1], ">")
    k = int(np.searchsorted(height, sign * score))
    part = (sign * score - height[k - 1]) / (height[k] - height[k - 1])
    low, high = math.log(epsilons[k - 1]), math.log(epsilons[k])
    return SameScore(math.exp(low + part * (high - low)))


def versions(summaries: Iterable[Summary]) -> dict[str, list[str]]:
    """Return what was measured, by method."""
    found: dict[str, set[str]] = {}
    for one in summaries:
        found.setdefault(one["method"], set()).update(one["versions"])
    return {method: sorted(found[method]) for method in METHODS if method in found}


def runs(summaries: Iterable[Summary]) -> list[Any]:
    """Return the numbers of runs that points have, without repeats."""
    return sorted({one["runs"] for one in summaries})
