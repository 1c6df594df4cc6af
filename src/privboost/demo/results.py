"""What is compared: models at several budgets, the majority class, a model without privacy."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import accuracy_score, roc_auc_score
from threadpoolctl import threadpool_limits

from privboost.datasets import Dataset
from privboost.estimators.privboost import PrivBoostClassifier
from privboost.explanations.explanation import Explanation
from privboost.reports.report import PrivacyReport
from privboost.tables.encoding import Encoder

DELTA = 1e-6
POSITIVE = ">50K"


@dataclass(frozen=True)
class Result:
    """How good a way to predict is on the rows of the test part.

    Attributes
    ----------
    name : str
        The way, in words.
    auc, accuracy : float
        How good.
    seconds : float
        How long its training took; the rows are public, so that may be told.
    """

    name: str
    auc: float
    accuracy: float
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return a form for JSON."""
        return {
            "name": self.name,
            "auc": self.auc,
            "accuracy": self.accuracy,
            "seconds": self.seconds,
        }


@dataclass(frozen=True)
class PrivateResult(Result):
    """The same of a private model, with what it says of itself."""

    epsilon: float
    privacy: PrivacyReport
    explanation: Explanation


def compile_flagship(data: Dataset) -> None:
    """Train a model that asks little, so that seconds do not count what is compiled once."""
    PrivBoostClassifier(3.0, DELTA, data.domain, n_estimators=1).fit(data.train)


def private_result(data: Dataset, epsilon: float, n_estimators: int | None) -> PrivateResult:
    """Train the flagship with secure noise; None is its own number of answers."""
    model = PrivBoostClassifier(epsilon, DELTA, data.domain)
    model.set_params(n_estimators=n_estimators)
    start = time.perf_counter()
    model.fit(data.train)
    seconds = time.perf_counter() - start
    return PrivateResult(
        f"epsilon = {epsilon:g}",
        *_measures(data, model.decision_function(data.test), model.predict(data.test)),
        seconds,
        epsilon,
        model.privacy_,
        model.explain_global(),
    )


def majority_result(data: Dataset) -> Result:
    """Predict the class that most rows of the training part have, whatever the row."""
    name = data.domain.target.name
    start = time.perf_counter()
    most = Counter(data.train[name].to_pylist()).most_common(1)[0][0]
    seconds = time.perf_counter() - start
    alike = np.full(data.test.num_rows, most, dtype=object)
    return Result("majority class", *_measures(data, np.zeros(len(alike)), alike), seconds)


def limit_result(data: Dataset) -> Result:
    """Train scikit-learn's gradient boosting on the same codes, without any privacy.

    Fewer and larger steps than its default ones: as good on Adult, and no slower than ours. One
    thread: several wait for each other where other programs are at work.
    """
    encoder = Encoder.of(data.domain)
    train, test = (_codes(encoder, table) for table in (data.train, data.test))
    model = HistGradientBoostingClassifier(
        learning_rate=0.2, max_iter=40, early_stopping=False, random_state=0
    )
    start = time.perf_counter()
    with threadpool_limits(1):
        model.fit(train, _labels(data, data.train))
        seconds = time.perf_counter() - start
        measures = _measures(data, model.decision_function(test), model.predict(test))
    return Result("without privacy", *measures, seconds)


def _labels(data: Dataset, table: pa.Table) -> np.ndarray:
    return np.asarray(table[data.domain.target.name])


def _measures(data: Dataset, scores: np.ndarray, predicted: np.ndarray) -> tuple[float, float]:
    """Return AUC and accuracy on the test part."""
    truth = _labels(data, data.test)
    area = roc_auc_score(truth == POSITIVE, scores)
    return float(area), float(accuracy_score(truth, predicted))


def _codes(encoder: Encoder, table: pa.Table) -> np.ndarray:
    features = range(len(encoder.domain.features))
    parts = encoder.feature_codes(table)
    return np.concatenate([np.stack([p.column(f) for f in features], axis=1) for p in parts])
