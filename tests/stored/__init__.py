"""Model files of every version, with what their models say: later versions must say the same.

A folder for each version holds a file for each model, the rows that they were asked about, and
their answers. `python -m tests.stored` writes the folder of this version, once.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

import privboost
from privboost import Domain
from privboost.models.model import Model
from privboost.recipes import RECIPES
from tests.tables import CLASSES, FEATURES, NUMBER, SURVIVAL, THREE, make_frame

FOLDER = Path(__file__).parent
MOST_BYTES = 30_000
_DOMAIN = {
    "age": {"kind": "numeric", "bounds": [17, 90], "edges": [25, 32.5, 40, 55], "missing": True},
    "gain": {"kind": "numeric", "bounds": [0, 100000], "edges": [1, 10, 100, 500, 2000]},
    "step": FEATURES["step"],
    "job": FEATURES["job"],
    "flag": FEATURES["flag"],
}
_TARGETS = {"classes": (CLASSES, THREE), "number": (NUMBER,), "survival": (SURVIVAL,)}
_SETTINGS: dict[str, dict[str, Any]] = {
    "privboost": {"epsilon": 10.0, "n_estimators": 10},
    "privboost additive": {"n_estimators": 10, "interactions": False},
    "sbdt": {"n_estimators": 4, "max_depth": 3},
    "sbdt squared": {"n_estimators": 4, "max_depth": 3, "loss": "squared"},
    "dpxgb": {"n_estimators": 4, "max_depth": 3},
    "sarus": {"n_estimators": 4, "max_depth": 3},
    "lazybb": {"n_estimators": 7},
    "lazybb uncalibrated": {"n_estimators": 7, "calibration_share": 0},
    "adassp": {"n_estimators": 4},
    "adassp products": {"n_estimators": 4, "products": True},
}
"""By recipe; a further word tells apart what a recipe can be besides."""


def write(folder: Path) -> None:
    """Train a small model of every kind and write it down, with its answers about some rows."""
    if folder.exists():
        raise FileExistsError(f"{folder} is there: what a version has stored stays as it is")
    with TemporaryDirectory(dir=folder.parent) as place:
        _write(Path(place))
        Path(place).chmod(0o755)
        shutil.copytree(place, folder)


def _write(folder: Path) -> None:
    rows = _rows(make_frame(60, seed=3))
    (folder / "rows.json").write_text(json.dumps(rows, indent=0) + "\n")
    for name, settings in _SETTINGS.items():
        for task, estimator in RECIPES[name.split()[0]].estimators.items():
            for target in _TARGETS[task] if "loss" not in settings or task == "classes" else ():
                form = {"version": 1, "features": _DOMAIN, "target": target}
                own = {"epsilon": 5.0, "random_state": 1} | settings
                fitted = getattr(privboost, estimator)(domain=Domain.from_dict(form), **own)
                fitted.fit(make_frame(300, target=target))
                what = "times" if task == "survival" else len(target.get("classes", [0]))
                path = folder / f"{name.replace(' ', '_')}_{what}.model"
                fitted.save(path)
                if path.stat().st_size > MOST_BYTES:
                    raise ValueError(f"{path.name} is too large to be kept")
                answers = json.dumps(answers_of(fitted.model_, table_of(rows)))
                path.with_suffix(".json").write_text(f"{answers}\n")


def answers_of(model: Model, table: pd.DataFrame) -> dict[str, Any]:
    """Return what a model says of rows: scores, predictions, and probabilities if it has them."""
    said = {"scores": model.decision_function(table), "predictions": model.predict(table)}
    if model.has_probabilities:
        said["chances"] = model.predict_proba(table)
    return {name: np.asarray(own).tolist() for name, own in said.items()}


def table_of(rows: dict[str, list[Any]]) -> pd.DataFrame:
    """Return stored rows as a table."""
    return pd.DataFrame({name: np.array(own, dtype=object) for name, own in rows.items()})


def _rows(frame: pd.DataFrame) -> dict[str, list[Any]]:
    """Return rows as JSON holds them: null is missing, numbers that are not finite are texts."""
    plain = frame[list(_DOMAIN)].astype(object).where(frame[list(_DOMAIN)].notna(), None)
    return {
        name: [str(v) if isinstance(v, float) and np.isinf(v) else v for v in plain[name]]
        for name in plain
    }
