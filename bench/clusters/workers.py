"""How time shrinks with workers: many rows made in Dask's workers of one thread.

No files, and no package but Dask and, where it is there, LightGBM, so that it runs wherever there
are many cores.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

from bench.clusters.peers import fit_lightgbm
from bench.clusters.places import dask_workers
from bench.clusters.tables import dask_frame, domain, part
from bench.clusters.watching import fit
from privboost import PrivBoostClassifier, SarusXGBClassifier, SBDTClassifier

PARTS_EACH = 4
FEW_ROWS = 2000


def measure(
    workers: tuple[int, ...] = (16, 8, 4, 2, 1),
    rows: int = 10_000_000,
    columns: int = 20,
    rounds: int = 60,
    greedy_trees: int = 5,
    peer_trees: int = 16,
    seconds: int = 330,
) -> Iterator[dict[str, Any]]:
    """Yield the times of each contender for each number of workers, until so many seconds went."""
    end = time.monotonic() + seconds
    acts = _contenders(columns, rounds, greedy_trees)
    for act in acts.values():
        act(part(FEW_ROWS, columns))  # compiles, once for all processes
    if _has_lightgbm():
        acts["LightGBM"] = partial(fit_lightgbm, peer_trees)
    for count in workers:
        with dask_workers(count) as client:
            few = dask_frame(FEW_ROWS, columns, PARTS_EACH * count)
            for act in acts.values():
                act(few)  # processes load their compiled code
            start = time.perf_counter()
            many = client.persist(dask_frame(rows, columns, PARTS_EACH * count))
            _wait(many)
            made = time.perf_counter() - start
            yield {"workers": count, "who": "rows made", "seconds": round(made, 3)}
            for who, act in acts.items():
                for size, table in ((FEW_ROWS, few), (rows, many)):
                    if time.monotonic() > end:
                        return
                    yield {"workers": count, "who": who, "rows": size} | act(table)


def _contenders(
    columns: int, rounds: int, greedy_trees: int
) -> dict[str, Callable[[Any], dict[str, Any]]]:
    """Return who is fitted, by name: how a frame becomes times."""
    public = {"epsilon": 1.0, "domain": domain(columns)}
    gaussian = public | {"delta": 1e-9, "n_estimators": rounds}
    ours = {
        "PrivBoost": (PrivBoostClassifier, gaussian | {"interactions": False}),
        "S-BDT": (SBDTClassifier, gaussian),
        "Sarus": (SarusXGBClassifier, public | {"n_estimators": greedy_trees}),
    }
    return {who: partial(_fit, kind, how) for who, (kind, how) in ours.items()}


def _fit(kind: Any, how: dict[str, Any], frame: Any) -> dict[str, Any]:
    return fit(kind, how, [frame])


def _has_lightgbm() -> bool:
    """Whether it is installed, and what it needs of the system is."""
    try:
        import_module("lightgbm.dask")
    except (ImportError, OSError):
        return False
    return True


def _wait(frame: Any) -> None:
    from distributed import wait

    wait(frame)
