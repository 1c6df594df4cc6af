"""scikit-learn compatibility of a trained model: a fitted estimator without parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from types import MethodType
from typing import Any, NoReturn, Self

import numpy as np

from privboost.cautions import warn_of_exact_score
from privboost.tables.domain import Domain
from privboost.tables.features import ClassTarget

_NO_FIT = (
    "fit: a trained model cannot be trained again: fit an estimator instead, or wrap the model in "
    "sklearn.frozen.FrozenEstimator for tools that use it as it is"
)


class only_where:
    """Decorator of methods that exist only where a check does not raise `AttributeError`.

    It is sklearn's `available_if` with the message of the check, and without importing sklearn.
    """

    def __init__(self, check: Callable[[Any], None]) -> None:
        self._check = check

    def __call__(self, method: Callable[..., Any]) -> Any:
        """Decorate a method."""
        return _AvailableMethod(method, self._check)


class _AvailableMethod:
    """Descriptor of such a method."""

    def __init__(self, method: Callable[..., Any], check: Callable[[Any], None]) -> None:
        self._method, self._check = method, check
        self.__doc__, self.__name__ = method.__doc__, method.__name__

    def __get__(self, model: Any, kind: type) -> Any:
        if model is None:
            return self
        self._check(model)
        return MethodType(self._method, model)


class TrainedModel(ABC):
    """The interface of a fitted scikit-learn estimator without parameters."""

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """The public description of the table."""

    @property
    @abstractmethod
    def classes(self) -> np.ndarray:
        """The classes, sorted."""

    @abstractmethod
    def predict(self, data: Any, return_std: bool = False, n_jobs: int | None = None) -> Any:
        """Predict."""

    @property
    def classes_(self) -> np.ndarray:
        """The classes, under scikit-learn's name."""
        return self.classes

    @property
    def n_features_in_(self) -> int:
        """The number of features."""
        return len(self.domain.features)

    @property
    def feature_names_in_(self) -> np.ndarray:
        """The names of the features."""
        return np.array(self.domain.feature_names, dtype=object)

    def fit(self, X: Any, y: Any = None, **more: Any) -> NoReturn:
        """Raise TypeError: tools that fit again, such as cross-validation, need an estimator."""
        raise TypeError(_NO_FIT)

    def score(
        self, X: Any, y: Any, sample_weight: Any = None, *, public_rows: bool = False
    ) -> float:
        """Return the exact accuracy, or R² of a number, on rows that must be public.

        Parameters
        ----------
        X, y, sample_weight
            As scikit-learn's estimators take them.
        public_rows : bool
            A declaration that every row is public.

        Privacy
        -------
        None: the score is exact and not private. Use `privboost.evaluate` for private rows.

        Warns
        -----
        PrivacyWarning
            Unless the rows were declared public.
        """
        from sklearn.metrics import accuracy_score, r2_score

        warn_of_exact_score(public_rows)
        measure = accuracy_score if isinstance(self.domain.target, ClassTarget) else r2_score
        return float(measure(y, self.predict(X), sample_weight=sample_weight))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return an empty dict."""
        return {}

    def set_params(self, **parameters: Any) -> Self:
        """Raise ValueError for any parameter."""
        if parameters:
            raise ValueError("set_params: a trained model has no parameters")
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> Self:
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, RegressorTags, Tags, TargetTags

        classes = isinstance(self.domain.target, ClassTarget)
        return Tags(
            estimator_type="classifier" if classes else "regressor",
            target_tags=TargetTags(required=False),
            classifier_tags=ClassifierTags() if classes else None,
            regressor_tags=None if classes else RegressorTags(),
            input_tags=InputTags(allow_nan=True, categorical=True, string=True),
        )
