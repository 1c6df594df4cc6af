"""The demonstration: what each privacy budget buys on the Adult data set."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import accuracy_score, roc_auc_score

from privboost.datasets import Dataset, load_adult
from privboost.estimators.privboost import PrivBoostClassifier
from privboost.tables.encoding import Encoder

BUDGETS = (0.1, 0.5, 1.0, 4.0)
DELTA = 1e-6


def run_demo() -> None:
    """Train at several budgets and print a table, beside a model without privacy."""
    console = Console()
    adult = load_adult()
    truth = np.asarray(adult.test["income"])
    table = Table(title="Adult (census income), canonical test part, delta = 1e-6")
    for heading in ("epsilon", "AUC", "accuracy", "seconds"):
        table.add_column(heading, justify="right")
    console.print("Training on 32,561 public rows with secure noise …")
    PrivBoostClassifier(1.0, DELTA, adult.domain, n_estimators=1).fit(adult.train)  # compiles
    for epsilon in BUDGETS:
        model = PrivBoostClassifier(epsilon, DELTA, adult.domain)
        start = time.perf_counter()
        model.fit(adult.train)
        seconds = time.perf_counter() - start
        auc = roc_auc_score(truth == ">50K", model.decision_function(adult.test))
        accuracy = accuracy_score(truth, model.predict(adult.test))
        table.add_row(f"{epsilon:g}", f"{auc:.4f}", f"{accuracy:.4f}", f"{seconds:.2f}")
    auc, accuracy, seconds = _without_privacy(adult, truth)
    table.add_row("none", f"{auc:.4f}", f"{accuracy:.4f}", f"{seconds:.2f}")
    console.print(table)
    console.print('"none": scikit-learn\'s HistGradientBoostingClassifier, which promises nothing.')
    console.print(f"The last model: {model.privacy_.guarantee}")
    console.print(
        "For the whole statement: an estimator's `privacy_`, or `privboost report` on a model file."
    )


def _without_privacy(adult: Dataset, truth: np.ndarray) -> tuple[float, float, float]:
    """Return AUC, accuracy and seconds of a model that is not private, on the same codes."""
    encoder = Encoder.of(adult.domain)
    train, test = (_codes(encoder, table) for table in (adult.train, adult.test))
    start = time.perf_counter()
    model = HistGradientBoostingClassifier(random_state=0)
    model.fit(train, np.asarray(adult.train["income"]))
    seconds = time.perf_counter() - start
    auc = roc_auc_score(truth == ">50K", model.decision_function(test))
    return auc, accuracy_score(truth, model.predict(test)), seconds


def _codes(encoder: Encoder, table: pa.Table) -> np.ndarray:
    features = range(len(encoder.domain.features))
    parts = encoder.feature_codes(table)
    return np.concatenate([np.stack([p.column(f) for f in features], axis=1) for p in parts])
