"""Train on Adult (a table of the 1994 US census) at three privacy budgets, and compare the models.

    python examples/adult.py [FOLDER]

prints a table of AUC and accuracy on the test rows, which are public, and writes to FOLDER (by
default `demo`) the plots `budgets.png` and `effects-<ε>.png`, and a model card for each budget.
It needs matplotlib: `pip install 'privboost[plot]'`.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from matplotlib import pyplot as plt
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import accuracy_score, roc_auc_score

from privboost import CategoricalFeature, PrivBoostClassifier, Sweep, evaluate, model_card
from privboost.datasets import Dataset, load_adult

BUDGETS = (0.1, 1.0, 3.0)
DELTA = 1e-6


def main(folder: Path, data: Dataset, n_estimators: int | None = None) -> Sweep:
    """Train, evaluate, print and draw; return the comparison."""
    plt.switch_backend("agg")  # no screen is needed
    folder.mkdir(parents=True, exist_ok=True)
    sweep = Sweep()
    for epsilon in BUDGETS:
        clf = PrivBoostClassifier(epsilon, DELTA, data.domain, n_estimators=n_estimators)
        clf.fit(data.train)  # the first fit on a machine compiles
        found = evaluate(clf, data.test, epsilon=math.inf, public_rows=True)
        sweep.add(clf, found)
        clf.explain_global().plot()[0].figure.savefig(folder / f"effects-{epsilon:g}.png", dpi=120)
        card = model_card(clf.model_, name=f"Adult, ε = {epsilon:g}", evaluations=[found])
        (folder / f"card-{epsilon:g}.html").write_text(card.to_html(), encoding="utf-8")
    sweep.refer("without privacy", **without_privacy(data))
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for measure, ax in zip(("auc", "accuracy"), axes, strict=True):
        print(sweep.to_text(measure), end="\n\n")
        sweep.plot(measure, ax)
    figure.savefig(folder / "budgets.png", dpi=120)
    plt.close("all")
    print(f"Plots and model cards: {folder}")
    return sweep


def without_privacy(data: Dataset) -> dict[str, float]:
    """Return AUC and accuracy of scikit-learn's gradient boosting on the same rows."""
    target = data.domain.target.name
    truth = np.asarray(data.test[target])
    model = HistGradientBoostingClassifier(random_state=0)
    model.fit(as_numbers(data, data.train), np.asarray(data.train[target]))
    features = as_numbers(data, data.test)
    scores = model.decision_function(features)
    return {
        "auc": float(roc_auc_score(truth == model.classes_[1], scores)),
        "accuracy": float(accuracy_score(truth, model.predict(features))),
    }


def as_numbers(data: Dataset, table: pa.Table) -> np.ndarray:
    """Return the features of a table as an array, categories by their index."""
    columns = [
        pc.index_in(table[feature.name], pa.array(feature.categories))
        if isinstance(feature, CategoricalFeature)
        else table[feature.name]
        for feature in data.domain.features
    ]
    return np.column_stack([np.asarray(column.cast(pa.float64())) for column in columns])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=Path("demo"))
    main(parser.parse_args().folder, load_adult())
