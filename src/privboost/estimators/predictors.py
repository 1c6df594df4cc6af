"""What estimators predict: classes, chances or a number."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin

from privboost.errors import DomainError
from privboost.estimators.base import PrivateEstimator
from privboost.learning.given import need_same_classes
from privboost.tables.domain import Domain
from privboost.tables.features import ClassTarget, NumberTarget


class PrivateClassifier(ClassifierMixin, PrivateEstimator):
    """Adds classes."""

    _task = "classes"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # on toy tables, which noise drowns
        return tags

    @property
    def classes_(self) -> np.ndarray:
        """The domain's classes, sorted."""
        return self._fitted().classes

    def predict(self, X: Any) -> np.ndarray:
        """Predict the class of each row. Costs no privacy."""
        predicted: np.ndarray = self._fitted().predict(X, n_jobs=self.n_jobs)
        return predicted

    def score(
        self, X: Any, y: Any, sample_weight: Any = None, *, public_rows: bool | None = None
    ) -> float:
        """Return the exact accuracy on some rows, which must be public.

        Parameters
        ----------
        X, y, sample_weight
            As scikit-learn's classifiers take them.
        public_rows : bool, optional
            Your word that every row is public. By default the estimator's own `public_rows`.

        Privacy
        -------
        None: it is exact, without any noise, and not private. An exact score tells about every row
        in it, at any ε, and so does whatever is chosen by it. Use public or synthetic rows; for
        private ones there is `privboost.evaluate`, which has a price and keeps to it.

        Warns
        -----
        PrivacyWarning
            Unless the rows were declared public.
        """
        self._warn_of_score(public_rows)
        return float(super().score(X, y, sample_weight))

    def decision_function(self, X: Any, return_std: bool = False) -> Any:
        """Return scores: one for each row, or one for each class beyond two. Costs no privacy.

        With `return_std`, the standard error that the noise of training gives to each comes with
        them, where the recipe tells it: see `Model.decision_function`.
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
    """Adds probabilities: scores are log-odds."""

    def predict_proba(self, X: Any, return_std: bool = False) -> Any:
        """Return class probabilities, in the order of `classes_`. Costs no privacy.

        With `return_std`, the standard error that the noise of training gives to each comes with
        them, where the recipe tells it: see `Model.predict_proba`.
        """
        return self._fitted().predict_proba(X, return_std, self.n_jobs)


class PrivateRegressor(RegressorMixin, PrivateEstimator):
    """Predicts a number within public bounds."""

    _task = "number"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # on toy tables, which noise drowns
        return tags

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict the number of each row. Costs no privacy.

        With `return_std`, the standard error that the noise of training gives to each comes with
        them, where the recipe tells it: see `Model.predict`.
        """
        return self._fitted().predict(X, return_std, self.n_jobs)

    def score(
        self, X: Any, y: Any, sample_weight: Any = None, *, public_rows: bool | None = None
    ) -> float:
        """Return the exact R² on rows that must be public.

        Parameters
        ----------
        X, y, sample_weight
            As scikit-learn's regressors take them.
        public_rows : bool, optional
            Your word that every row is public. By default the estimator's own `public_rows`.

        Privacy
        -------
        None: it is exact, without any noise, and not private; for private rows there is
        `privboost.evaluate`. See `PrivateClassifier.score`.

        Warns
        -----
        PrivacyWarning
            Unless the rows were declared public.
        """
        self._warn_of_score(public_rows)
        return float(super().score(X, y, sample_weight))

    def _check_target(self, domain: Domain) -> None:
        if not isinstance(domain.target, NumberTarget):
            raise DomainError(
                'target: a regressor needs "bounds"; this target has classes '
                '(Domain.learn takes task="number")'
            )
