"""Runs points in many processes; what is done is written at once, and not done again."""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import Executor, as_completed
from datetime import UTC, datetime
from pathlib import Path

from threadpoolctl import threadpool_limits

from bench.papers.protocol import split
from bench.utility.methods import METHODS
from bench.utility.plan import Point
from bench.utility.scores import MAIN, score
from bench.utility.store import FOLDER, Run, add_run, read_runs
from bench.utility.tables import kind, load

SHARE = 0.8
"""Of rows to fit."""


def run(point: Point, seed: int) -> Run:
    """Return one run: the table split by the seed, one fit, all scores on the rest."""
    method = METHODS[point.method]
    frame, domain = load(point.table, seed)
    rows, rest = split(frame, seed, SHARE)
    start = time.perf_counter()
    with threadpool_limits(1):  # each process has one thread, whatever is fitted
        model = method.fit(rows, domain, point.epsilon, point.delta, seed)
    seconds = time.perf_counter() - start
    return point._asdict() | {
        "seed": seed,
        "scores": score(model, rest, domain),
        "seconds": seconds,
        "version": method.version,
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def to_do(
    points: Iterable[Point], seeds: Iterable[int], again: bool = False, folder: Path = FOLDER
) -> list[tuple[Point, int]]:
    """Return the runs that are not there yet (or all), seed by seed, the largest tables first."""
    done = {} if again else read_runs(folder)
    ordered = list(points)[::-1]
    return [(point, seed) for seed in seeds for point in ordered if (point, seed) not in done]


def measure(tasks: list[tuple[Point, int]], pool: Executor, folder: Path = FOLDER) -> int:
    """Run tasks, tell of each and write it down; return how many failed."""
    start, failed = time.perf_counter(), 0
    futures = {pool.submit(run, *task): task for task in tasks}
    for number, future in enumerate(as_completed(futures), 1):
        point, seed = futures[future]
        if error := future.exception():
            failed, said = failed + 1, f"failed: {error!r}"
        else:
            add_run(future.result(), folder)
            said = _in_words(future.result())
        spent = time.perf_counter() - start
        left = spent / number * (len(tasks) - number)
        epsilon = "" if point.epsilon is None else f"ε {point.epsilon:g}"
        where = f"{point.table:18} {METHODS[point.method].title:13} {epsilon:7} seed {seed:<3}"
        print(f"[{number}/{len(tasks)}, {left / 60:.0f} min left] {where} {said}", flush=True)
    return failed


def _in_words(done: Run) -> str:
    name = MAIN[kind(done["table"])]
    shown = name if name in done["scores"] else "accuracy"
    return f"{shown} {done['scores'][shown]:.4f}, {done['seconds']:.1f} s"
