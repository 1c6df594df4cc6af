"""What scikit-learn's tools ask of an estimator, answered by a model that is trained already."""

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
    "fit: a trained model cannot be trained again: fit an estimator instead; where a tool is to "
    "use the model as it is, wrap it in sklearn.frozen.FrozenEstimator"
)


class only_where:
    """Have a method only where a check, which raises `AttributeError`, lets it be.

    Tools ask whether a method is there, and take another one if not.
    """

    def __init__(self, check: Callable[[Any], None]) -> None:
        self._check = check

    def __call__(self, method: Callable[..., Any]) -> Any:
        """Decorate a method."""
        return _Sometimes(method, self._check)


class _Sometimes:
    """A method that is there for some objects of a class."""

    def __init__(self, method: Callable[..., Any], check: Callable[[Any], None]) -> None:
        self._method, self._check = method, check
        self.__doc__, self.__name__ = method.__doc__, method.__name__

    def __get__(self, model: Any, kind: type) -> Any:
        if model is None:
            return self
        self._check(model)
        return MethodType(self._method, model)


class TrainedModel(ABC):
    """A model as scikit-learn sees it: fitted, with nothing to set, and nothing to fit."""

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """What is public about the table."""

    @property
    @abstractmethod
    def classes(self) -> np.ndarray:
        """The classes, sorted."""

    @abstractmethod
    def predict(self, data: Any, return_std: bool = False, n_jobs: int | None = None) -> Any:
        """Predict."""

    @property
    def classes_(self) -> np.ndarray:
        """The same as `classes`, under scikit-learn's name."""
        return self.classes

    @property
    def n_features_in_(self) -> int:
        """How many features there are."""
        return len(self.domain.features)

    @property
    def feature_names_in_(self) -> np.ndarray:
        """The names of the features."""
        return np.array(self.domain.feature_names, dtype=object)

    def fit(self, X: Any, y: Any = None, **more: Any) -> NoReturn:
        """Raise: whatever fits a model anew, such as cross-validation, needs an estimator."""
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
            Your word that every row is public.

        Privacy
        -------
        None: it is exact, without any noise, and not private; for private rows there is
        `privboost.evaluate`.

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
        """Return no parameters: there are none."""
        return {}

    def set_params(self, **parameters: Any) -> Self:
        """Refuse parameters: there are none."""
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
