"""Classifiers whose loss is a parameter: without log-odds there are no probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if

from privboost.estimators.predictors import PrivateClassifier
from privboost.losses import loss_of, losses_of


def has_log_odds(estimator: Any) -> bool:
    """Whether a classifier's scores are log-odds; else raise an error that lists such losses."""
    known = [name for name in losses_of("classes") if loss_of("classes", name).log_odds]
    if estimator.loss not in (None, *known):  # None is the default, which does
        named = " or ".join(f'loss="{name}"' for name in known)
        raise AttributeError(f"probabilities need {named}; see decision_function")
    return True


class AnyLossClassifier(PrivateClassifier):
    """Adds probabilities where the loss gives log-odds."""

    @available_if(has_log_odds)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return class probabilities, in the order of `classes_`. Costs no privacy."""
        probabilities: np.ndarray = self._fitted().predict_proba(X, n_jobs=self.n_jobs)
        return probabilities
