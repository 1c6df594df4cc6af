"""The scikit-learn interface of a trained model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NoReturn, Self

import numpy as np
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import ClassifierTags, InputTags, RegressorTags, Tags, TargetTags

from privboost._core.warnings import warn_of_exact_score
from privboost.data.domain import Domain
from privboost.data.targets import ClassTarget

_NO_FIT = (
    "fit: a trained model cannot be trained again: fit an estimator instead; to pass the model as "
    "it is to a tool that fits, wrap it in sklearn.frozen.FrozenEstimator"
)


class TrainedModel(ABC):
    """A fitted estimator without parameters."""

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """The public description of the table."""

    @property
    @abstractmethod
    def classes(self) -> np.ndarray:
        """Sorted class labels."""

    @abstractmethod
    def predict(self, data: Any, return_std: bool = False, n_jobs: int | None = None) -> Any:
        """Predict."""

    @property
    def classes_(self) -> np.ndarray:
        """Sorted class labels."""
        return self.classes

    @property
    def n_features_in_(self) -> int:
        """Number of features."""
        return len(self.domain.features)

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the features."""
        return np.array(self.domain.feature_names, dtype=object)

    def fit(self, X: Any, y: Any = None, **more: Any) -> NoReturn:
        """Raise TypeError: tools that fit, such as cross-validation, need an estimator."""
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
            Declares that every row is public.

        Privacy
        -------
        None: the score is exact. For private rows use `privboost.evaluate`.

        Warns
        -----
        PrivacyWarning
            Unless the rows were declared public.
        """
        warn_of_exact_score(public_rows)
        measure = accuracy_score if isinstance(self.domain.target, ClassTarget) else r2_score
        return float(measure(y, self.predict(X), sample_weight=sample_weight))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return an empty dict: a trained model has no parameters."""
        return {}

    def set_params(self, **parameters: Any) -> Self:
        """Refuse any parameter: a trained model has none."""
        if parameters:
            raise ValueError("set_params: a trained model has no parameters")
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> Self:
        return self

    def __sklearn_tags__(self) -> Any:
        classes = isinstance(self.domain.target, ClassTarget)
        return Tags(
            estimator_type="classifier" if classes else "regressor",
            target_tags=TargetTags(required=False),
            classifier_tags=ClassifierTags() if classes else None,
            regressor_tags=None if classes else RegressorTags(),
            input_tags=InputTags(allow_nan=True, categorical=True, string=True),
        )
