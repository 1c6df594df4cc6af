"""Presets, and what estimators share whose models are trees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.metaestimators import available_if

from privboost.boosting.checks import check_choice
from privboost.estimators.base import LogisticClassifier, PrivateEstimator
from privboost.losses import loss_of, losses_of


class PresetEstimator(PrivateEstimator):
    """Adds presets."""

    _presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    @classmethod
    def from_preset(cls, name: str, **parameters: Any) -> Self:
        """Return an estimator with the settings of a published variant.

        Parameters
        ----------
        name : str
            The variant; an unknown one is told with those that there are.
        **parameters
            Any other parameter; they come before the preset's.
        """
        if not cls._presets:
            raise ValueError(f"{cls.__name__} has no presets")
        check_choice("preset", name, tuple(cls._presets))
        return cls(**(dict(cls._presets[name]) | parameters))


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


def newton_losses(target: str) -> tuple[str, ...]:
    """Return the losses of a target that have a Hessian."""
    return tuple(name for name in losses_of(target) if loss_of(target, name).hessian is not None)


def _has_log_odds(estimator: Any) -> bool:
    if estimator.loss not in (None, "logistic"):
        raise AttributeError('probabilities need loss="logistic"; see decision_function')
    return True


class AnyLossClassifier(TreeClassifier):
    """Has probabilities only where its loss, a parameter, gives log-odds."""

    @available_if(_has_log_odds)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return class probabilities, in the order of `classes_`. Costs no privacy."""
        return self._fitted().predict_proba(X)

    @available_if(_has_log_odds)
    def staged_predict_proba(self, X: Any) -> Iterator[np.ndarray]:
        """Yield class probabilities after each update of training. Costs no privacy.

        To pick a stage by its exact errors on private rows does: see `staged_predict`.
        """
        return self._fitted().staged_predict_proba(X)
