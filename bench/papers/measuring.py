"""Measures the points of a figure in many processes, and tells them as a table and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from concurrent.futures import Executor
from typing import Any

import numpy as np

from bench import runner
from bench.papers.figure import Figure, Point
from bench.papers.peers import missing

Result = dict[str, Any]
"""A point's arm, panel, x and published figure; its mean, standard error and single runs."""


_FOUND: dict[str, Any] = {}
"""What runs gave, by measure, settings and seed: points and figures may share runs."""


def measure(figure: Figure, runs: int, pool: Executor) -> list[Result]:
    """Return a figure's points, measured; of several of one place, the best or the mean."""
    points = [point for point in figure.points if not missing(point)]
    tasks = {_key(point, seed): (point, seed) for point in points for seed in range(runs)}
    fresh = {key: task for key, task in tasks.items() if key not in _FOUND}
    _FOUND.update(zip(fresh, pool.map(_one, fresh.values()), strict=True))
    results = []
    for point in points:
        found = [_FOUND[_key(point, seed)] for seed in range(runs)]
        values = [float(one[point.of] if point.of else one) for one in found]
        place = {"arm": point.arm, "panel": point.panel, "x": point.x}
        results.append(
            place | {"published": point.published, "how": point.how} | runner.summarise(values)
        )
    if figure.average:
        return _average(results)
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


def _key(point: Point, seed: int) -> str:
    where = f"{point.measure.__module__}.{point.measure.__qualname__}"
    return f"{where} {json.dumps(point.how, sort_keys=True)} {seed}"


def _one(task: tuple[Point, int]) -> float | dict[str, float]:
    point, seed = task
    return point.measure(**point.how, seed=seed)


def _average(results: list[Result]) -> list[Result]:
    """Put the means of one place, run by run, in the stead of its points."""
    places: dict[tuple[Any, ...], list[Result]] = {}
    for one in results:
        places.setdefault((one["panel"], one["arm"], one["x"]), []).append(one)
    return [
        many[0]
        | {"how": [one["how"] for one in many]}
        | runner.summarise(np.mean([one["runs"] for one in many], axis=0).tolist())
        for many in places.values()
    ]


def _best(results: list[Result], most: bool) -> list[Result]:
    """Keep, of the settings of one point, the one of the best mean."""
    kept: dict[tuple[Any, ...], Result] = {}
    for one in results:
        key = (one["panel"], one["arm"], one["x"])
        before = kept.get(key)
        if before is None or (one["mean"] > before["mean"]) == most:
            kept[key] = one
    return list(kept.values())
