"""Measures the points of a figure in many processes, and tells them as a table and as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Executor
from typing import Any

from bench import runner
from bench.papers.figure import Figure, Point
from bench.papers.peers import missing

Result = dict[str, Any]
"""A point's arm, panel, x and published figure; its mean, standard error and single runs."""


def measure(figure: Figure, runs: int, pool: Executor) -> list[Result]:
    """Return a figure's points, measured; of several settings of one point, the best."""
    points = [point for point in figure.points if not missing(point)]
    tasks = [(point, seed) for point in points for seed in range(runs)]
    found = list(pool.map(_one, tasks))
    results = []
    for k, point in enumerate(points):
        values = found[k * runs : (k + 1) * runs]
        place = {"arm": point.arm, "panel": point.panel, "x": point.x}
        results.append(
            place | {"published": point.published, "how": point.how} | runner.summarise(values)
        )
    return _best(results, figure.more_is_better) if figure.best else results


def tell(figure: Figure, results: Iterable[Result]) -> None:
    """Print a figure's points, and write them as JSON."""
    print(f"\n{figure.name}: {figure.title} ({figure.y})", flush=True)
    for one in results:
        error = "" if one["standard_error"] is None else f" ± {one['standard_error']:.4f}"
        published = "" if one["published"] is None else f"  published {one['published']:g}"
        at = f"{one['panel']} {one['arm']}".strip()
        print(f"  {at:40} {one['x']!s:>8}  {one['mean']:.4f}{error}{published}", flush=True)
    settings = {"title": figure.title, "x": figure.x, "y": figure.y, "best": figure.best}
    runner.write(f"papers/{figure.name}", settings, list(results))


def _one(task: tuple[Point, int]) -> float:
    point, seed = task
    return float(point.measure(**point.how, seed=seed))


def _best(results: list[Result], most: bool) -> list[Result]:
    """Keep, of the settings of one point, the one of the best mean."""
    kept: dict[tuple[Any, ...], Result] = {}
    for one in results:
        key = (one["panel"], one["arm"], one["x"])
        before = kept.get(key)
        if before is None or (one["mean"] > before["mean"]) == most:
            kept[key] = one
    return list(kept.values())
