"""How fast a device is: single commands, and training alone.

    python -m bench.gpu                                     # 100,000,000 rows × 30 numbers
    python -m bench.gpu commands --rows 1000000
    python -m bench.gpu streamed --rows 50000000            # none of the rows lies on the device
    python -m bench.gpu coding                              # float32 in this machine's memory
    python -m bench.gpu fits --case "random trees"
    python -m bench.gpu adult                               # a small table, whole fits

Rows are made up, coded already and repeated: what is measured is what a device does with them, from
the first command to the last, without reading, coding and bringing them there, but for `coding`.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bench import runner
from privboost import Domain, DPXGBClassifier, PrivBoostClassifier, SBDTClassifier
from privboost._core.grid import BLOCK_ROWS, VECTOR_STEPS
from privboost.cuda.backend import CudaBackend, open_cuda
from privboost.cuda.device import find_devices, open_device
from privboost.cuda.rows import leave_numbers
from privboost.data.encoding import Encoder
from privboost.data.loading import Load, RowLoader, load_rows, open_source
from privboost.data.rows import Codes, Rows
from privboost.datasets import load_adult
from privboost.engine.backend import LocalBackend
from privboost.engine.queries import (
    GRADIENT_COUNT,
    CellSums,
    GramSums,
    LinearSums,
    NodeHistograms,
    Query,
    TreeSums,
)
from privboost.engine.updates import AddCellValues, AddTreeValues, SetTerms, Start, Update
from privboost.losses.base import loss_of
from privboost.randomness.sampling import Sample
from privboost.recipes.common.coordinates import design
from privboost.trees.cell_map import CellMap
from privboost.trees.tree import Tree, stump

PARTS = ("commands", "streamed", "coding", "fits", "adult")
_DISTINCT = 64
"""Blocks that are made up; the others are the same again, with ids of their own."""
FITS: dict[str, tuple[Any, dict[str, Any]]] = {
    "1,000 histogram rounds": (PrivBoostClassifier, {"n_estimators": 1000, "interactions": False}),
    "1,000 random trees of depth 6": (
        SBDTClassifier,
        {"n_estimators": 1000, "max_depth": 6, "features": "uniform"},
    ),
    "1,000 random trees on samples": (
        SBDTClassifier,
        {"n_estimators": 1000, "max_depth": 6, "features": "uniform", "subsample": 0.1},
    ),
    "50 greedy trees of depth 6": (DPXGBClassifier, {"n_estimators": 50, "max_depth": 6}),
    "the flagship's defaults": (PrivBoostClassifier, {}),
}


def domain(columns: int) -> Domain:
    numbers = {f"x{k}": {"kind": "numeric", "bounds": [0, 1]} for k in range(columns)}
    target = {"name": "y", "classes": [0, 1]}
    return Domain.from_dict({"version": 1, "features": numbers, "target": target})


def make_blocks(encoder: Encoder, rows: int) -> list[Rows]:
    """Return rows whose labels follow two columns."""
    rng, layout = np.random.default_rng(0), encoder.layout
    distinct = []
    for _ in range(min(_DISTINCT, -(-rows // BLOCK_ROWS))):
        narrow = rng.integers(0, min(layout.n_codes), (layout.n_narrow, BLOCK_ROWS), dtype=np.uint8)
        wide = np.zeros((0, BLOCK_ROWS), dtype=np.uint16)
        score = narrow[0].astype(float) - narrow[1] + rng.normal(0, 50, BLOCK_ROWS)
        distinct.append(Rows(Codes(layout, narrow, wide), (score > 0).astype(np.uint8)))
    blocks = []
    for k, first in enumerate(range(0, rows, BLOCK_ROWS)):
        block = distinct[k % len(distinct)]
        if first + BLOCK_ROWS > rows:
            block = block.take(np.arange(rows - first))
        blocks.append(replace(block, ids=range(first, first + len(block))))
    return blocks


def random_tree(encoder: Encoder, depth: int, seed: int) -> Tree:
    rng, codes = np.random.default_rng(seed), max(encoder.layout.n_codes)
    feature = rng.integers(0, len(encoder.layout.n_codes), 2**depth - 1).astype(np.uint16)
    cut = rng.integers(codes // 4, 3 * codes // 4, len(feature))
    return Tree(feature, (np.arange(codes) >= cut[:, None]).astype(np.uint8))


def commands(encoder: Encoder) -> Iterator[tuple[str, Query | Update]]:
    """Yield what is timed, with what to call it."""
    codes, columns = encoder.layout.n_codes, len(encoder.layout.n_codes)
    rng = np.random.default_rng(1)
    whole = [CellMap.of_feature(f, np.arange(n)) for f, n in enumerate(codes)]
    coarse = [CellMap.of_feature(f, np.arange(n) * 32 // n, 32) for f, n in enumerate(codes)]
    key = Sample(np.arange(32, dtype=np.uint8), 0.1)
    for f in range(4):  # states that lie apart, as in a fit
        values = rng.integers(-30_000, 30_000, whole[f].n_cells).astype(np.int32)
        yield f"add values of {whole[f].n_cells} cells", AddCellValues(whole[f], values)
    yield f"histogram of {whole[2].n_cells} cells", CellSums(whole[2])
    yield "the same, of a sample", CellSums(whole[2], sample=key)
    yield (
        "histogram of 8 cells",
        CellSums(CellMap.of_feature(3, np.arange(codes[3]) * 8 // codes[3], 8)),
    )
    yield "8 histograms at once", CellSums(CellMap.side_by_side(whole[:8]))
    yield "joint histogram of 32 × 32 cells", CellSums(CellMap.joint(coarse[:2]))
    yield "joint histogram of 192 × 192 cells", CellSums(CellMap.joint(whole[:2]))
    yield "sums of all rows", TreeSums((stump(),))
    tree = random_tree(encoder, 6, 2)
    for each in (random_tree(encoder, 6, 3), random_tree(encoder, 6, 4), tree):
        yield "leaves and sums of a random tree", TreeSums((each,))
    yield "sums of the same tree", TreeSums((tree,), 0, GRADIENT_COUNT)
    values = rng.integers(-3000, 3000, (1, 64)).astype(np.int32)
    yield "add values of the same tree", AddTreeValues((tree,), values)
    batch = tuple(random_tree(encoder, 6, seed) for seed in range(3, 11))
    yield "leaves and sums of 8 trees", TreeSums(batch)
    cells = CellMap.side_by_side(
        CellMap.of_feature(f, np.arange(n) * 64 // n, 64) for f, n in enumerate(codes)
    )
    for depth in (*range(6), *range(6)):  # once to compile
        title = f"node histograms, {2**depth} × {columns} × 64 cells"
        yield title, NodeHistograms(tree.top(depth), cells, 0, GRADIENT_COUNT)


def vectors(encoder: Encoder) -> Iterator[tuple[str, Query | Update]]:
    terms = design(encoder).terms
    yield "lengths of vectors", SetTerms(terms)
    yield "sum of vectors times gradients", LinearSums.of(terms)
    yield "products of vectors", GramSums.of(terms, np.full(2, VECTOR_STEPS))


def measure_commands(blocks: list[Rows], encoder: Encoder) -> list[dict[str, Any]]:
    """Return the milliseconds of each command: of the first, and the median of five more."""
    start = time.perf_counter()
    backend = CudaBackend(blocks)
    wait = _wait()
    wait()
    results = [{"case": "bring rows to the card", "first_ms": _ms(start)}]
    return results + _measure(backend, [*commands(encoder), *vectors(encoder)])


def measure_streamed(blocks: list[Rows], encoder: Encoder) -> list[dict[str, Any]]:
    """Return the same where all rows are brought to the device for every command."""
    device: Any = open_device(find_devices()[0]).with_new_stream()
    device.free = lambda: 0
    tree, after = random_tree(encoder, 6, 2), random_tree(encoder, 6, 3)
    codes = encoder.layout.n_codes
    cells = CellMap.side_by_side(
        CellMap.of_feature(f, np.arange(n) * 64 // n, 64) for f, n in enumerate(codes)
    )
    values = np.ones((1, tree.n_leaves), dtype=np.int32)
    asked: list[tuple[str, Query | Update]] = [
        (f"histogram of {codes[0]} cells", CellSums(CellMap.of_feature(0, np.arange(codes[0])))),
        ("leaves and sums of a random tree", TreeSums((after,))),
        ("leaves and sums of a random tree", TreeSums((tree,))),
        ("sums of the same tree", TreeSums((tree,), 0, GRADIENT_COUNT)),
        ("add values of the same tree", AddTreeValues((tree,), values)),
    ]
    for depth in range(3):
        query = NodeHistograms(after.top(depth), cells, 0, GRADIENT_COUNT)
        asked.append((f"node histograms, {2**depth} × {len(codes)} × 64 cells", query))
    start = time.perf_counter()
    backend = CudaBackend(blocks, [device])
    results = [{"case": "bring rows to pinned memory", "first_ms": _ms(start)}]
    return results + _measure(backend, asked)


def _measure(
    backend: CudaBackend, asked: Sequence[tuple[str, Query | Update]]
) -> list[dict[str, Any]]:
    wait, results = _wait(), []
    backend.apply(Start(loss_of("classes", "logistic").table(1.0, 0.25)))
    for title, command in asked:
        act = backend.apply if isinstance(command, Update) else backend.sum
        alone = title.startswith(("node", "leaves"))  # asked again, rows are there already
        times = [_time(act, command, wait) for _ in range(1 if alone else 6)]
        ms = {"first_ms": times[0], "median_ms": float(np.median(times[1:] or times))}
        results.append({"case": title} | ms)
    for each in results:
        print(f"  {each['case']:40} {each['first_ms']:9.3f} {each.get('median_ms', 0):9.3f}")
    backend.close()
    return results


def measure_coding(encoder: Encoder, rows: int) -> list[dict[str, Any]]:
    """Return the seconds from numbers in ordinary memory to coded rows on the device.

    Labels are read by the processor first. Beside them stands what it takes to copy as many bytes
    from pinned memory, and to code a million rows by the processor.
    """
    columns, threads = len(encoder.layout.n_codes), os.cpu_count() or 1
    some = np.random.default_rng(0).random((min(rows, 2**20), columns), dtype=np.float32)
    table = np.empty((rows, columns), dtype=np.float32)
    for first in range(0, rows, len(some)):
        table[first : first + len(some)] = some[: rows - first]
    label = np.resize((some[:, 0] > some[:, 1]).astype(np.uint8), rows)
    copy = _time_copies(table.nbytes)
    results = [{"case": "copy as many bytes from pinned memory", "seconds": copy}]
    for jobs in (1, threads):
        open_cuda(jobs)([_load_of(encoder, some, label[: len(some)])]).close()  # compiled
        start = time.perf_counter()
        left, block = leave_numbers([_load_of(encoder, table, label)])
        (loaded,) = load_rows(left, jobs, block)
        middle = time.perf_counter()
        backend = CudaBackend(loaded.blocks, n_threads=jobs)
        _wait()()
        end = time.perf_counter()
        backend.close()
        case = f"{jobs} threads"
        results.append({"case": f"read labels, {case}", "seconds": middle - start})
        results.append({"case": f"bring and code numbers, {case}", "seconds": end - middle})
    for _ in range(2):  # once to compile
        start = time.perf_counter()
        load_rows([_load_of(encoder, some, label[: len(some)])], threads)
        seconds = (time.perf_counter() - start) * rows / len(some)
    case = f"code by the processor, {threads} threads, from {len(some):,} rows"
    results.append({"case": case, "seconds": seconds})
    for result in results:
        print(f"  {result['case']:60} {result['seconds']:9.3f} s", flush=True)
    return results


def _load_of(encoder: Encoder, table: np.ndarray, label: np.ndarray) -> Load:
    source, roles = open_source(encoder.domain, table, label, None)
    return Load(RowLoader(encoder, roles), source)


def _time_copies(size: int, piece: int = 2**26) -> float:
    """Return the seconds that copies of pinned memory to the device take."""
    device = open_device(find_devices()[0])
    memory = device.pinned_zeros(min(piece, size), np.uint8)
    with device.activated():
        there = device.copy_to_device(memory)
        device.synchronize()
        start = time.perf_counter()
        for _ in range(-(-size // len(memory))):
            there.data.copy_from_host_async(memory.ctypes.data, len(memory))
        device.synchronize()
    return time.perf_counter() - start


class _Held:
    """Rows on a device, or with the processor, and a clock from the first command to the last."""

    def __init__(self, blocks: list[Rows], kind: Any = CudaBackend) -> None:
        self._blocks, self._kind, self.seconds = blocks, kind, 0.0

    def __call__(self, loads: Any) -> _Held:
        self._backend = self._kind(self._blocks)
        _wait()()
        self.sum, self.apply = map(self._timed, (self._backend.sum, self._backend.apply))
        self.commands = 0.0
        self._start = time.perf_counter()
        return self

    def _timed(self, act: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def timed(command: Any) -> Any:
            start = time.perf_counter()
            answer = act(command)
            self.commands += time.perf_counter() - start
            return answer

        return timed

    def close(self) -> None:
        _wait()()
        self.seconds = time.perf_counter() - self._start
        self._backend.close()


def measure_fits(blocks: list[Rows], encoder: Encoder, words: str) -> list[dict[str, Any]]:
    """Return the seconds of training alone; a fit of one block goes before: all is compiled."""
    results = []
    table = np.random.default_rng(0).random((1000, len(encoder.layout.n_codes))).astype(np.float32)
    label = (table[:, 0] > table[:, 1]).astype(int)
    for title, (kind, how) in FITS.items():
        if words not in title:
            continue
        few, here = _Held(blocks[:1]), _Held(blocks[:1], LocalBackend)
        all_rows = _Held(blocks)
        for each in (few, few, here, here, all_rows):
            kind(1.0, 1e-9, encoder.domain, backend=each, **how).fit(table, label)
        print(
            f"  {title:40} {all_rows.seconds:9.2f} s, of which commands {all_rows.commands:.2f} s; "
            f"one block {few.seconds:.2f} s, on the processor {here.seconds:.2f} s",
            flush=True,
        )
        seconds = {"training": all_rows.seconds, "commands": all_rows.commands}
        block = {"card": few.seconds, "processor, one thread": here.seconds}
        results.append({"case": title, "seconds": seconds, "seconds_of_one_block": block})
    return results


def measure_adult(turns: int = 5) -> list[dict[str, Any]]:
    """Return the seconds of whole fits of a small table, on the device and on the processor."""
    adult, results = load_adult(), []
    for kind, how in ((PrivBoostClassifier, {}), (SBDTClassifier, {}), (DPXGBClassifier, {})):
        seconds: dict[str, float] = {}
        for who in ("cuda", "auto") * (turns + 1):
            model = kind(1.0, 1e-6, adult.domain, random_state=1, n_jobs=1, backend=who, **how)
            start = time.perf_counter()
            model.fit(adult.train)
            took = time.perf_counter() - start
            seconds[who] = min(seconds.get(who, took), took)
        name = kind.__name__
        print(f"  Adult, {name}: {seconds['cuda']:.3f} s, on the processor {seconds['auto']:.3f} s")
        results.append({"case": name, "card": seconds["cuda"], "processor": seconds["auto"]})
    return results


def _wait() -> Callable[[], None]:
    import cupy

    return cupy.cuda.Device().synchronize


def _name() -> str:
    import cupy

    return str(cupy.cuda.runtime.getDeviceProperties(0)["name"].decode())


def _time(act: Callable[[Any], Any], command: Any, wait: Callable[[], None]) -> float:
    start = time.perf_counter()
    act(command)
    wait()
    return _ms(start)


def _ms(start: float) -> float:
    return (time.perf_counter() - start) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu", description=__doc__)
    parser.add_argument("parts", nargs="*", default=PARTS, help=", ".join(PARTS))
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--columns", type=int, default=30)
    parser.add_argument("--case", default="", help="words in the title of fits")
    asked = parser.parse_args()
    encoder = Encoder.of(domain(asked.columns))
    blocks = make_blocks(encoder, asked.rows)
    settings = {"rows": asked.rows, "columns": asked.columns, "card": _name()}
    print(f"{asked.rows:,} rows × {asked.columns}", flush=True)
    if "commands" in asked.parts:
        runner.write("gpu_commands", settings, measure_commands(blocks, encoder))
    if "streamed" in asked.parts:
        runner.write("gpu_streamed", settings, measure_streamed(blocks, encoder))
    if "coding" in asked.parts:
        runner.write("gpu_coding", settings, measure_coding(encoder, asked.rows))
    if "fits" in asked.parts:
        runner.write("gpu_fits", settings, measure_fits(blocks, encoder, asked.case))
    if "adult" in asked.parts:
        runner.write("gpu_adult", {"card": _name()}, measure_adult())


if __name__ == "__main__":
    main()
