"""What threads bring: rounds on coded rows, coding, predictions, whole fits; by rows and threads.

Rounds are the engine's own, without noise: what a recipe asks of rows, and what it tells them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

from bench.papers import peers
from bench.speed.clock import Act, Timing, compare
from bench.speed.growth import made_up
from privboost import Domain, PrivBoostClassifier
from privboost._core.threads import count_threads
from privboost.data.encoding import Encoder
from privboost.data.loading import Load, RowLoader, load_rows, open_source
from privboost.engine.backend import Backend, LocalBackend
from privboost.engine.queries import CellSums, NodeHistograms, TreeSums
from privboost.engine.updates import AddCellValues, AddTreeValues, Start
from privboost.losses.base import loss_of
from privboost.trees.cell_map import CellMap
from privboost.trees.tree import Tree, stump

ROWS = (10_000, 100_000, 1_000_000, 10_000_000)
THREADS = (1, 2, 4, 8, 16)
COLUMNS, DEPTH, BINS = 20, 6, 64
TREES = 100
FEW, PREDICTED = 50_000, 2_000_000
"""Rows on which the model is trained that predicts, and rows that it predicts."""
LARGE, MANY = 10_000_000, 1_000_000
"""From so many rows on there is one whole fit, beside peers; so many rows are predicted then."""


def threads_here() -> list[int]:
    """Return the numbers of threads that there are cores for."""
    return [count for count in THREADS if count <= count_threads(None)]


def measure(rows: list[int], threads: list[int], turns: int) -> list[Timing]:
    """Return the times of everything, for each number of rows and threads."""
    return [timing for count in rows for timing in _measure(count, threads, turns)]


def _measure(rows: int, threads: list[int], turns: int) -> list[Timing]:
    table, label, form = made_up(rows, COLUMNS)
    case = f"{rows:,} rows × {COLUMNS}"
    timings = compare(case, _rounds(table, label, form, threads), turns)
    predicted = table[:PREDICTED]
    fit = PrivBoostClassifier(1.0, 1e-9, form).fit(table[:FEW], label[:FEW])
    acts: dict[tuple[str, int], Act] = {}
    for count in threads:
        named = f"predict {len(predicted):,} rows"
        acts[named, count] = partial(fit.model_.predict_proba, predicted, n_jobs=count)
        if rows < LARGE:
            how: dict[str, Any] = {"n_estimators": 400, "interactions": False, "n_jobs": count}
            rounds = PrivBoostClassifier(1.0, 1e-9, form, **how)
            acts["400 histogram rounds, a whole fit", count] = partial(rounds.fit, table, label)
    timings += compare(case, acts, turns)
    if rows >= LARGE:
        timings += _beside_peers(case, table, label, form, max(threads))
    return timings


def _rounds(
    table: np.ndarray, label: np.ndarray, form: dict[str, Any], threads: list[int]
) -> dict[tuple[str, int], Act]:
    """Return coding, and the engine's own rounds on what was coded."""
    encoder = Encoder.of(Domain.from_dict(form))
    source, roles = open_source(encoder.domain, table, label, None)
    loads = [Load(RowLoader(encoder, roles), source)]
    blocks = [block for each in load_rows(loads, max(threads)) for block in each.blocks]
    acts: dict[tuple[str, int], Act] = {}
    for count in threads:
        backend = LocalBackend(blocks, count)
        backend.apply(Start(loss_of("classes", "logistic").table(1.0, 0.25)))
        for who, act in ROUNDS.items():
            acts[who, count] = partial(act, backend, encoder)
        acts["coding", count] = partial(load_rows, loads, count)
    return acts


def _beside_peers(
    case: str, table: np.ndarray, label: np.ndarray, form: dict[str, Any], threads: int
) -> list[Timing]:
    """Return the times of one whole fit of each with all threads, and of predictions with one."""
    made: dict[str, Any] = {
        "PrivBoost's defaults": PrivBoostClassifier(1.0, 1e-9, form, n_jobs=threads),
        f"HistGradientBoosting, {TREES} trees": HistGradientBoostingClassifier(
            max_iter=TREES, early_stopping=False
        ),
    }
    if find_spec("lightgbm"):
        how = {"n_estimators": TREES, "num_leaves": 31, "n_jobs": threads}
        domain = Domain.from_dict(form)
        made[f"LightGBM, {TREES} trees"] = peers.build("lightgbm", how, domain, 0)[0]
    made["PrivBoost's defaults"].fit(table[:FEW], label[:FEW])  # compiled, as the others are
    fits: dict[tuple[str, int], Act] = {}
    predictions: dict[tuple[str, int], Act] = {}
    some = table[:MANY]
    for who, model in made.items():
        fits[who, threads] = partial(_with_openmp, threads, partial(model.fit, table, label))
        act = partial(_predict_alone, model, some)
        predictions[f"{who}: predict {MANY:,} rows", 1] = partial(_with_openmp, 1, act)
    timings = compare(case, fits, 1, warm_up=False)
    return timings + compare(case, predictions, 1, warm_up=False)


def _predict_alone(model: Any, table: np.ndarray) -> None:
    """Predict in one thread, whatever a model was trained with."""
    if isinstance(model, PrivBoostClassifier):
        model.model_.predict_proba(table, n_jobs=1)
    elif isinstance(model, HistGradientBoostingClassifier):
        model.predict_proba(table)
    else:
        model.predict_proba(table, num_threads=1)


def _with_openmp(count: int, act: Act) -> None:
    with threadpool_limits(count, "openmp"):
        act()


def histogram_rounds(backend: Backend, encoder: Encoder, rounds: int) -> None:
    """Ask about one feature after the other, and tell rows what came of it."""
    values = np.ones(BINS, dtype=np.int32)
    for number in range(rounds):
        cells = _cells(encoder, number % COLUMNS)
        backend.sum(CellSums(cells))
        backend.apply(AddCellValues(cells, values * (-1) ** number))


def random_trees(backend: Backend, encoder: Encoder, trees: int) -> None:
    """Ask for the leaves of trees that look anywhere."""
    for number, tree in enumerate(_drawn(max(encoder.layout.n_codes), trees)):
        backend.sum(TreeSums((tree,)))
        values = np.full((1, tree.n_leaves), (-1) ** number, dtype=np.int32)
        backend.apply(AddTreeValues((tree,), values))


def greedy_trees(backend: Backend, encoder: Encoder, trees: int) -> None:
    """Ask for the histograms of all features in all nodes, level by level."""
    rng = np.random.default_rng(0)
    cells = CellMap.side_by_side([_cells(encoder, feature) for feature in range(COLUMNS)])
    for number in range(trees):
        tree = stump()
        for _ in range(DEPTH):
            backend.sum(NodeHistograms(tree, cells))
            tree = _deeper(tree, max(encoder.layout.n_codes), rng)
        values = np.full((1, tree.n_leaves), (-1) ** number, dtype=np.int32)
        backend.apply(AddTreeValues((tree,), values))


ROUNDS: dict[str, Callable[[Backend, Encoder], None]] = {
    "100 histogram rounds": partial(histogram_rounds, rounds=100),
    "20 random trees": partial(random_trees, trees=20),
    "2 greedy trees": partial(greedy_trees, trees=2),
}


def _cells(encoder: Encoder, feature: int) -> CellMap:
    codes = np.arange(encoder.layout.n_codes[feature])
    return CellMap.of_feature(feature, np.minimum(codes * BINS // len(codes), BINS - 1), BINS)


@cache
def _drawn(codes: int, trees: int) -> list[Tree]:
    """Return trees that look anywhere: drawn once, which is no part of a round."""
    rng, drawn = np.random.default_rng(0), [stump()] * trees
    for _ in range(DEPTH):
        drawn = [_deeper(tree, codes, rng) for tree in drawn]
    return drawn


def _deeper(tree: Tree, codes: int, rng: np.random.Generator) -> Tree:
    """Split every leaf somewhere."""
    splits = [
        (int(rng.integers(COLUMNS)), (np.arange(codes) > rng.integers(codes)).astype(np.uint8))
        for _ in range(tree.n_leaves)
    ]
    return tree.with_level(splits, codes)
