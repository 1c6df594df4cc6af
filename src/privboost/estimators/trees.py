"""Staged predictions of estimators whose models are trees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if

from privboost.estimators.any_loss import AnyLossClassifier, has_log_odds
from privboost.estimators.predictors import LogisticClassifier
from privboost.estimators.presets import PresetEstimator


class TreeEstimator(PresetEstimator):
    """Adds staged predictions."""

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """Yield predictions after each update of training. Costs no privacy.

        To pick a stage by its exact errors on private rows does, and no ε covers it: use public or
        synthetic rows, or keep to the last stage.
        """
        return self._fitted().staged_predict(X)


class TreeClassifier(LogisticClassifier):
    """Adds staged probabilities."""

    def staged_predict_proba(self, X: Any) -> Iterator[np.ndarray]:
        """Yield class probabilities after each update of training. Costs no privacy.

        To pick a stage by its exact errors on private rows does: see `staged_predict`.
        """
        return self._fitted().staged_predict_proba(X)


class AnyLossTreeClassifier(AnyLossClassifier):
    """Adds staged probabilities where the loss gives log-odds."""

    @available_if(has_log_odds)
    def staged_predict_proba(self, X: Any) -> Iterator[np.ndarray]:
        """Yield class probabilities after each update of training. Costs no privacy.

        To pick a stage by its exact errors on private rows does: see `staged_predict`.
        """
        return self._fitted().staged_predict_proba(X)
