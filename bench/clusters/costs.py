"""What a row costs: seconds of the processor, which a busy machine lengthens little.

One thread, a table in memory. What rounds cost beyond their rows is that of a small table.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from bench.clusters.places import dask_workers
from bench.clusters.tables import dask_frame, domain, part
from bench.clusters.watching import fit
from privboost import PrivBoostClassifier, SarusXGBClassifier, SBDTClassifier

FEW_ROWS = 2000


def measure(
    rows: int = 1_000_000, columns: int = 10, workers: tuple[int, ...] = (1, 2, 4, 8, 16)
) -> Iterator[dict[str, Any]]:
    """Yield what rows cost, and what Dask's workers cost the driver and the scheduler."""
    yield from _of_rows(rows, columns)
    for count in workers:
        yield {"who": "driver and scheduler", "workers": count} | _of_messages(count, columns)


def _of_messages(workers: int, columns: int) -> dict[str, Any]:
    """Return what a round costs the process of the driver, where the scheduler is, too."""
    how = {"epsilon": 1.0, "delta": 1e-9, "domain": domain(columns), "interactions": False}
    with dask_workers(workers):
        frame = dask_frame(FEW_ROWS, columns, workers)
        own = partial(fit, PrivBoostClassifier, how, [frame], clock=time.process_time)
        own()  # processes load their compiled code
        found = own()
        return {"round_ms": round(1e3 * found["all_rounds"] / found["rounds"], 3)}


def _of_rows(rows: int, columns: int) -> Iterator[dict[str, Any]]:
    """Yield nanoseconds a row: of loading, and of the mean round."""
    public = {"epsilon": 1.0, "domain": domain(columns)}
    gaussian = public | {"delta": 1e-9}
    cases = {
        "PrivBoost": (PrivBoostClassifier, gaussian),
        "PrivBoost, at_once a sweep": (PrivBoostClassifier, gaussian | {"at_once": columns}),
        "PrivBoost, no interactions": (PrivBoostClassifier, gaussian | {"interactions": False}),
        "PrivBoost, no interactions, at_once a sweep": (
            PrivBoostClassifier,
            gaussian | {"interactions": False, "at_once": columns},
        ),
        "S-BDT": (SBDTClassifier, gaussian),
        "Sarus": (SarusXGBClassifier, public),
    }
    few, many = part(FEW_ROWS, columns), part(rows, columns)
    for who, (kind, how) in cases.items():
        own = partial(fit, kind, how, clock=time.process_time)
        own([few])  # compiles
        small, large = own([few]), own([many])
        beyond = small["round_ms"] / 1e3
        a_round = large["all_rounds"] / large["rounds"] - beyond
        yield {
            "who": who,
            "rounds": large["rounds"],
            "loading_ns": round(1e9 * (large["loading"] - small["loading"]) / rows, 1),
            "round_ns": round(1e9 * a_round / rows, 2),
            "small_round_ms": round(1e3 * beyond, 3),
            "driver_s": round(large["seconds"] - large["loading"] - large["all_rounds"], 2),
        }
