"""What runs gave, one line of JSON each, and what is made of them: means and standard errors.

Lines are only added. A folder may hold files of several machines; of two runs of one point and
seed the later counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from bench import runner
from bench.utility.methods import FLAGSHIP, METHODS
from bench.utility.plan import Point
from bench.utility.tables import TABLES

Run = dict[str, Any]
"""A point's fields, a seed, scores by name, seconds, the method's version and when it was run."""
Summary = dict[str, Any]
"""A point's fields, scores as mean and standard error, how many runs, and their versions."""

FOLDER = runner.RESULTS / "runs"
COMPARED = ("AUC", "log-loss", "calibration", "RMSE")
"""The scores that methods are compared by, point by point."""
SUMMARY = runner.RESULTS / "utility.json"


def point_of(form: dict[str, Any]) -> Point:
    """Return the point that a run or a summary is of."""
    return Point(*(form[field] for field in Point._fields))


def read_runs(folder: Path = FOLDER) -> dict[tuple[Point, int], Run]:
    """Return the last run of each point and seed."""
    lines = [
        line
        for path in sorted(folder.glob("*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    runs = sorted((run for line in lines if (run := _parsed(line))), key=lambda run: run["when"])
    return {(point_of(run), run["seed"]): run for run in runs}


def _parsed(line: str) -> Run | None:
    """Return a line's run; None of a line that was cut off when its writer was stopped."""
    try:
        return json.loads(line)
    except ValueError:
        return None


def add_run(run: Run, folder: Path = FOLDER) -> None:
    """Add a run to the folder's file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "utility.jsonl"
    whole = not path.exists() or path.read_bytes()[-1:] in (b"", b"\n")
    with path.open("a", encoding="utf-8") as file:
        file.write(("" if whole else "\n") + json.dumps(run, ensure_ascii=False) + "\n")


def summarise(runs: dict[tuple[Point, int], Run]) -> list[Summary]:
    """Return a summary of each point.

    Beside a score stands the margin: how much more it is than the flagship's at the same table
    and ε, on average over the seeds that both have, and its standard error. The splits are the
    same, so that is told more sharply than by the two means.
    """
    points: dict[Point, dict[int, Run]] = {}
    for (point, seed), run in sorted(runs.items(), key=lambda item: item[0][1]):
        points.setdefault(point, {})[seed] = run
    found = []
    for point, own in points.items():
        flagship = points.get(point._replace(method=FLAGSHIP), {})
        both = [seed for seed in own if seed in flagship]
        names = next(iter(own.values()))["scores"]
        margins = {
            name: _mean([own[k]["scores"][name] - flagship[k]["scores"][name] for k in both])
            for name in names
            if both
            and point.method != FLAGSHIP
            and name in COMPARED
            and name in flagship[both[0]]["scores"]
        }
        found.append(
            point._asdict()
            | {
                "scores": {
                    name: _mean([run["scores"][name] for run in own.values()]) for name in names
                },
                "margins": margins,
                "seconds": _mean([run["seconds"] for run in own.values()])[0],
                "runs": len(own),
                "versions": sorted({run["version"] for run in own.values()}),
            }
        )
    return found


def _mean(values: list[float]) -> tuple[float, float | None]:
    """Return the mean and its standard error, rounded to what is ever shown of them."""
    made = runner.summarise(values)
    error = made["standard_error"]
    return round(made["mean"], 4), None if error is None else round(error, 4)


def merge(old: Iterable[Summary], new: Iterable[Summary]) -> list[Summary]:
    """Return all points, the new ones in the place of old ones, in one order.

    A margin to runs of the flagship that were replaced is forgotten.
    """
    fresh = {point_of(one): one for one in new}
    kept = {point_of(one): one for one in old}
    for point, one in kept.items():
        if point._replace(method=FLAGSHIP) in fresh:
            kept[point] = one | {"margins": {}}
    return [one for _, one in sorted((kept | fresh).items(), key=lambda item: _order(item[0]))]


def _order(point: Point) -> tuple[Any, ...]:
    tables, methods = list(TABLES), list(METHODS)
    known = tables.index(point.table) if point.table in tables else len(tables)
    return known, point.table, methods.index(point.method), point.epsilon or np.inf, point.delta


def write_summary(points: list[Summary], path: Path = SUMMARY) -> None:
    """Write summaries as JSON, a line each, so that changes can be read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(one, ensure_ascii=False, separators=(",", ":")) for one in points)
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def read_summary(path: Path = SUMMARY) -> list[Summary]:
    """Return the summaries that are written down; none where there is no file."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
