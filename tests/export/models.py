"""Models to export: the stored ones, and some that nobody would train."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

import privboost
from privboost import Domain, load_model
from privboost._core.grid import SCORE_STEPS
from privboost.data.encoding import Encoder
from privboost.models.additive import AdditiveScores
from privboost.models.intervals import Nonconformity, RelativeScale
from privboost.models.model import Model, model_bytes, read_model
from tests.stored import FOLDER, table_of
from tests.tables import make_frame

_VERSION = FOLDER / privboost.__version__
STORED = sorted(path.stem for path in _VERSION.glob("*.model"))


def stored_model(name: str) -> Model:
    return load_model(_VERSION / f"{name}.model")


def rows_of(model: Model) -> pd.DataFrame:
    """Return rows with everything that can be in a cell."""
    stored = table_of(json.loads((_VERSION / "rows.json").read_text()))
    stored = stored.assign(**{n: stored[n].astype(float) for n in stored if n != "job"})
    edges = pd.DataFrame({"age": [25, np.nextafter(25, 26), np.nextafter(25, 24), 40.0]})
    drawn = make_frame(150, seed=11)[list(stored)]
    return pd.concat([stored, drawn, edges.reindex(columns=list(stored))], ignore_index=True)


def made_model(features: dict[str, Any], target: dict[str, Any], flat: bool = False) -> Model:
    """Return a model whose every code has a value of its own, or none has (flat)."""
    form = {"version": 1, "features": features, "target": target}
    encoder, generator = Encoder.of(Domain.from_dict(form)), np.random.default_rng(1)
    classes = len(target.get("classes", "1"))
    outputs = classes if classes > 2 else 1
    values = tuple(
        generator.integers(-50000, 50000, (outputs, codes), dtype=np.int32) * (not flat)
        for codes in encoder.layout.n_codes
    )
    start = np.arange(1, outputs + 1, dtype=np.int32)
    return Model(encoder, AdditiveScores(start, values), stored_model("sbdt_2").privacy)


ODD_NAMES = {
    "prediction": {"kind": "numeric", "bounds": [0, 1], "edges": [0.5]},
    'a "b" c': {"kind": "categorical", "categories": ["it's", "", "x -- y", "%d"]},
    "gather_1": {"kind": "categorical", "categories": [1, 2.5, -3]},
    "score": {"kind": "categorical", "categories": ["1", "2.5", "true", "é"]},
}
ODD_ROWS = pd.DataFrame(
    {
        "prediction": [0.5, 0.6, np.nan, np.inf, -np.inf, 0.5, 0.0, 1.0],
        'a "b" c': ["it's", "", None, "x -- y", "%d", "its", "'", '"'],
        "gather_1": [1.0, 2.5, -3.0, np.nan, 7.0, -0.0, np.inf, 2.0],
        "score": ["1", "2.5", "true", "é", None, "zz", "1.0", "TRUE"],
    }
)


def models_with_intervals() -> dict[str, Model]:
    """Return models of numbers with prediction intervals: finite, and of the bounds."""
    edges = np.array([20_000, 40_000], dtype=np.int32)
    made = {}
    for scale, bounds in (("linear", [0, 10]), ("log", [1, 10]), ("log", [-5, 5])):
        target = {"name": "lower", "bounds": bounds, "scale": scale}
        model = made_model({"upper": {"kind": "numeric", "bounds": [0, 1]}}, target)
        for last in (0.0, 900.0):
            residuals = Nonconformity(edges, np.array([5000.0, 100.0, last]), 1.0)
            made[f"{scale} {bounds} {last:g}"] = replace(model, nonconformity=residuals)
    for power, bounds in ((1.0, [-2, 10]), (1.5, [0, 1e6]), (2.0, [0.1, 3])):
        target = {"name": "lower", "bounds": bounds}
        model = made_model({"upper": {"kind": "numeric", "bounds": [0, 1]}}, target)
        scale_ = RelativeScale(power, -(2**15), round(math.log(bounds[1]) * SCORE_STEPS))
        for last in (0.0, 900.0):
            residuals = Nonconformity(edges, np.array([5000.0, 100.0, last]), 1.0, scale_)
            own = replace(model, nonconformity=residuals, link="log")
            made[f"power {power} {bounds} {last:g}"] = read_model(model_bytes(own), "")
    return made


def models_with_sets() -> dict[str, Model]:
    """Return models of classes with prediction sets: of some, of the best alone, and of all."""
    made = {}
    for classes in (["a", "b"], ["it's", "b", "c d"], [0, 1, 2, 3]):
        target = {"name": "in_set", "classes": classes}
        model = made_model({"in set b": {"kind": "numeric", "bounds": [0, 1]}}, target)
        for edge in (-(2**30), -30_000, 0, 20_000):
            for last in (0.0, 900.0):
                edges = np.array([edge], dtype=np.int32)
                found = Nonconformity(edges, np.array([5000.0, last]), 1.0)
                made[f"{len(classes)} classes {edge} {last:g}"] = replace(
                    model, nonconformity=found
                )
    return made
