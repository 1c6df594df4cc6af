"""Classifiers and regressors: predictions, and exact scores on public rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin

from privboost.errors import DomainError
from privboost.estimators.base import PrivateEstimator
from privboost.estimators.wrappers import warn_of_score
from privboost.learning.given import need_same_classes
from privboost.tables.domain import Domain
from privboost.tables.features import ClassTarget, NumberTarget


class PublicScoreMixin:
    """Adds `score`, which is exact, to a classifier or regressor of scikit-learn."""

    def score(
        self, X: Any, y: Any, sample_weight: Any = None, *, public_rows: bool | None = None
    ) -> float:
        """Return the exact accuracy, or R² of a number, on rows that must be public.

        Parameters
        ----------
        X, y, sample_weight
            As scikit-learn's estimators take them.
        public_rows : bool, optional
            Declares that every row is public. By default the estimator's own `public_rows`.

        Privacy
        -------
        None: an exact score depends on every row, at any ε, and so does any choice made by it. Use
        public or synthetic rows; for private ones `privboost.evaluate` has a stated price.

        Warns
        -----
        PrivacyWarning
            Unless the rows were declared public.
        """
        own: Any = self
        declared = own.public_rows if public_rows is None else public_rows
        warn_of_score(declared, own.random_state is not None)
        return float(super().score(X, y, sample_weight))  # type: ignore[misc]


class PrivateClassifier(PublicScoreMixin, ClassifierMixin, PrivateEstimator):
    """Base class of classifiers."""

    _task = "classes"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # on toy tables: noise dominates
        return tags

    @property
    def classes_(self) -> np.ndarray:
        """Sorted class labels of the domain."""
        return self._fitted().classes

    def predict(self, X: Any) -> np.ndarray:
        """Predict the class of each row. Costs no privacy."""
        predicted: np.ndarray = self._fitted().predict(X, n_jobs=self.n_jobs)
        return predicted

    def decision_function(self, X: Any, return_std: bool = False) -> Any:
        """Return scores: one for each row, or one for each class beyond two. Costs no privacy.

        With `return_std`, also their standard errors due to the noise of training, where the
        recipe has them: see `Model.decision_function`.
        """
        return self._fitted().decision_function(X, return_std, self.n_jobs)

    def _check_target(self, domain: Domain) -> None:
        if not isinstance(domain.target, ClassTarget):
            raise DomainError(
                'target: a classifier needs "classes"; this target has bounds '
                '(Domain.learn takes task="classes")'
            )
        classes = self._classes()
        if classes is not None:
            need_same_classes(classes, domain.target)


class LogisticClassifier(PrivateClassifier):
    """Base class of classifiers whose scores are log-odds."""

    def predict_proba(self, X: Any, return_std: bool = False) -> Any:
        """Return class probabilities, in the order of `classes_`. Costs no privacy.

        With `return_std`, also their standard errors due to the noise of training, where the
        recipe has them: see `Model.predict_proba`.
        """
        return self._fitted().predict_proba(X, return_std, self.n_jobs)


class PrivateRegressor(PublicScoreMixin, RegressorMixin, PrivateEstimator):
    """Base class of regressors: they predict a number within public bounds."""

    _task = "number"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # on toy tables: noise dominates
        return tags

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict the number of each row. Costs no privacy.

        With `return_std`, also their standard errors due to the noise of training, where the
        recipe has them: see `Model.predict`.
        """
        return self._fitted().predict(X, return_std, self.n_jobs)

    def _check_target(self, domain: Domain) -> None:
        if not isinstance(domain.target, NumberTarget):
            raise DomainError(
                'target: a regressor needs "bounds"; this target has classes '
                '(Domain.learn takes task="number")'
            )
