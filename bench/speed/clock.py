"""Times of several contenders who take turns, so that a busy machine is unfair to none."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

from threadpoolctl import threadpool_limits

Act = Callable[[], Any]
Timing = dict[str, Any]
"""A case, who took part in it, with how many threads, and the best of the turns in seconds."""


_REST = 0.03
"""Seconds in which threads of the last act go to sleep: they look for more work for a while."""


def take_turns(acts: dict[Any, Act], turns: int, warm_up: bool = True) -> dict[Any, float]:
    """Return the best time of each in seconds, after a turn that warms up."""
    best = dict.fromkeys(acts, float("inf"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of peers: of names, of few bins
        for act in acts.values() if warm_up else ():
            act()
        for _ in range(turns):
            for name, act in acts.items():
                time.sleep(_REST)
                start = time.perf_counter()
                act()
                best[name] = min(best[name], time.perf_counter() - start)
    return best


def compare(
    case: str, acts: dict[tuple[str, int], Act], turns: int, warm_up: bool = True
) -> list[Timing]:
    """Return and tell the times of a case, contenders by name and number of threads."""
    print(case, flush=True)
    timings = []
    limited = {key: partial(_with_threads, key[1], act) for key, act in acts.items()}
    for (who, threads), seconds in take_turns(limited, turns, warm_up).items():
        print(f"  {who:32} {threads} thread{'s' * (threads > 1)} {seconds:9.3f} s", flush=True)
        timings.append({"case": case, "who": who, "threads": threads, "seconds": round(seconds, 4)})
    return timings


def _with_threads(count: int, act: Act) -> None:
    """Do something with so many threads for linear algebra, which `n_jobs` does not reach."""
    with threadpool_limits(count, "blas"):
        act()
