"""What fits are made of: noise, exact products, predictions; beside what the machine can do."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np

from bench.papers import peers
from bench.speed.clock import Act, Timing, compare
from bench.speed.growth import made_up
from privboost import Domain, SBDTClassifier
from privboost._core.grid import VECTOR_STEPS
from privboost.data.encoding import Encoder
from privboost.data.loading import Load, RowLoader, open_source
from privboost.engine.backend import open_local
from privboost.engine.queries import GramSums
from privboost.engine.updates import SetTerms, Start
from privboost.losses.base import loss_of
from privboost.randomness.keystream import KeyStream
from privboost.randomness.noise import discrete_gaussian
from privboost.recipes.common.coordinates import design

VECTORS, COORDINATES = 1000, 128
ROWS, COLUMNS = 1_000_000, 100
TREES = 200


def measure(turns: int) -> list[Timing]:
    """Return the times of all three."""
    return noise(turns) + products(turns) + predictions(turns)


def noise(turns: int) -> list[Timing]:
    """Exact discrete Gaussian samples, in vectors."""
    scales = np.full(COORDINATES, 2.0**20)
    stream = KeyStream.secure()
    count = iter(range(10**9))

    def draw() -> None:
        for _ in range(VECTORS):
            discrete_gaussian(scales, stream.child(str(next(count))))

    title = f"exact noise, {VECTORS:,} vectors of {COORDINATES}"
    return compare(title, {("discrete Gaussian", 1): draw}, turns)


def products(turns: int) -> list[Timing]:
    """The products of all pairs of columns, against BLAS on a float64 matrix."""
    table, label, form = made_up(ROWS, COLUMNS)
    encoder = Encoder.of(Domain.from_dict(form))
    source, roles = open_source(encoder.domain, table, label, None)
    terms = design(encoder, intercept=False).terms
    backend = open_local([Load(RowLoader(encoder, roles), source)])
    backend.apply(Start(loss_of("classes", "logistic").gradient_table(1.0, (1.0, 1.0))))
    backend.apply(SetTerms(terms))
    query = GramSums.of(terms, np.full(2, VECTOR_STEPS))
    plain = table.astype(np.float64)
    acts: dict[tuple[str, int], Act] = {
        ("privboost, exact, from codes", 1): lambda: backend.sum(query),
        ("BLAS, from float64", 1): lambda: plain.T @ plain,
    }
    return compare(f"products of {COLUMNS} columns of {ROWS:,} rows", acts, turns)


def predictions(turns: int) -> list[Timing]:
    """Scores of many rows by trees of depth 6, coding included."""
    table, label, form = made_up(ROWS, 20)
    few = slice(0, 50_000)
    how = {"n_estimators": TREES, "max_depth": 6}
    ours = SBDTClassifier(1.0, 1e-6, form, features="uniform", n_jobs=1, **how)
    ours.fit(table[few], label[few])
    acts: dict[tuple[str, int], Act] = {("S-BDT", 1): lambda: ours.predict_proba(table)}
    for who, name, more in (
        ("LightGBM", "lightgbm", {"num_leaves": 63, "n_jobs": 1}),
        ("XGBoost", "xgboost", {"n_jobs": 1}),
    ):
        if find_spec(name):
            model, _ = peers.build(name, how | more, Domain.from_dict(form), 0)
            model.fit(table[few], label[few])
            acts[who, 1] = lambda model=model: model.predict_proba(table)
    return compare(f"predictions of {ROWS:,} rows × 20 by {TREES} trees of depth 6", acts, turns)
