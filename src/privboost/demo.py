"""The demonstration: what each privacy budget buys on the Adult data set."""

from __future__ import annotations

import time

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.metrics import accuracy_score, roc_auc_score

from privboost.datasets import load_adult
from privboost.estimators.privboost import PrivBoostClassifier

BUDGETS = (0.1, 0.5, 1.0, 4.0)
DELTA = 1e-6


def run_demo() -> None:
    """Train at several budgets and print a table, then one privacy report."""
    console = Console()
    adult = load_adult()
    truth = np.asarray(adult.test["income"])
    table = Table(title="Adult (census income), canonical test part, delta = 1e-6")
    for heading in ("epsilon", "AUC", "accuracy", "seconds"):
        table.add_column(heading, justify="right")
    console.print("Training on 32,561 public rows with secure noise; the first run compiles …")
    for epsilon in BUDGETS:
        model = PrivBoostClassifier(epsilon, DELTA, adult.domain)
        start = time.perf_counter()
        model.fit(adult.train)
        seconds = time.perf_counter() - start
        auc = roc_auc_score(truth == ">50K", model.decision_function(adult.test))
        accuracy = accuracy_score(truth, model.predict(adult.test))
        table.add_row(f"{epsilon:g}", f"{auc:.4f}", f"{accuracy:.4f}", f"{seconds:.2f}")
    console.print(table)
    console.print(f"The last model: {model.privacy_.guarantee}")
    console.print("For the whole statement: model.privacy_, or `privboost report` on a model file.")
