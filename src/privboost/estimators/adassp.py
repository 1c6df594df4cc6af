"""Estimators of boosted linear models: BoostedAdaSSP."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.utils.metaestimators import available_if

from privboost.data.domain import Domain
from privboost.data.encoding import Encoder
from privboost.data.features import NumericFeature
from privboost.data.targets import ClassTarget
from privboost.estimators.base import PrivateRegressor
from privboost.estimators.class_weights import weights_in_order
from privboost.estimators.mixins import AnyLossClassifier, PresetEstimator, has_log_odds
from privboost.estimators.parameters import (
    RunArguments,
    WeightArguments,
    accountants,
    classes_argument,
    constructor,
    documented,
)
from privboost.mechanisms.curator import Curator
from privboost.models.linear import LinearScores, loss_curve
from privboost.randomness.keystream import KeyStream
from privboost.recipes.adassp import (
    CLASS_PRESETS,
    NUMBER_PRESETS,
    TWO_CLASSES,
    AdaSSPParameters,
    AdaSSPPlan,
    boost_adassp,
    plan_adassp,
)
from privboost.recipes.common.coordinates import named_features
from privboost.recipes.common.plan import Budget
from privboost.recipes.common.target_range import TargetRange


@dataclass(frozen=True, kw_only=True)
class AdaSSPArguments(AdaSSPParameters, WeightArguments, RunArguments):
    """Arguments of BoostedAdaSSP's estimators."""

    classes: Any = classes_argument(tasks=("classes",))
    accountant: str = accountants("gdp", "rdp")


def _has_stages(estimator: Any) -> bool:
    if not estimator.keep_stages:
        raise AttributeError("stages need keep_stages=True when the model is fitted")
    return True


def _has_staged_probabilities(estimator: Any) -> bool:
    return _has_stages(estimator) and has_log_odds(estimator)


class AdaSSPEstimator(PresetEstimator):
    """Classifier and regressor of BoostedAdaSSP: plan, boosting, coefficients and stages."""

    @constructor(AdaSSPArguments)
    def __init__(self) -> None: ...

    def coefficients(self) -> pa.Table:
        """Return the coefficients on the features' own scales: see `Model.coefficients`."""
        return self._fitted().coefficients()

    @available_if(_has_stages)
    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """Yield predictions after each round, as if it were the last. Costs no privacy.

        To pick a stage by its exact errors on private rows does, and no ε covers it: use public or
        synthetic rows, or keep to the last stage.
        """
        return self._fitted().staged_predict(X)

    @available_if(_has_stages)
    def loss_curve(self, X: Any, y: Any = None) -> np.ndarray:
        """Return the mean loss on some rows after each round; the rows must be public.

        Of several classes it is the sum over all, each against the rest; of a number, half the
        squared error in parts of half the width of the target clipping range. Rows of an unknown
        target are left out.

        Parameters
        ----------
        X : data frame, array, or path of a file
            Public rows, as for `fit`.
        y : one-dimensional or str, optional
            Their target; by default the column of `X` that the domain names.

        Privacy
        -------
        None: an exact loss reveals information about every row in it, at any ε, and so does a
        number of rounds that is chosen by it. It is for public or synthetic rows, never for those
        of `fit`.
        """
        return loss_curve(self._fitted(), X, y)

    def _class_weight(self) -> None:
        """Return None: the plan weighs classes, some of them by released counts."""

    def _plan(self, encoder: Encoder, weight_bound: float | None, budget: Budget) -> AdaSSPPlan:
        given = self.get_params(deep=False)
        weight = given.get("class_weight")
        if isinstance(weight, Mapping):
            given["class_weight"] = weights_in_order(weight, encoder.domain.target)
            if len(given["class_weight"]) != 2:
                raise ValueError(TWO_CLASSES)
        return plan_adassp(given, encoder, weight_bound, budget)

    def _stand_in(self) -> Domain:
        names = dict.fromkeys(["x", *self._named_features()])
        features = tuple(NumericFeature(name, (0, 1)) for name in names)
        target = super()._stand_in().target
        weight = getattr(self, "class_weight", None)
        if isinstance(weight, Mapping) and len(weight) > 1:
            target = ClassTarget("y", tuple(weight))
        return Domain(features, target)

    def _named_features(self) -> list[str]:
        return named_features(self.products)

    def _boost(
        self,
        curator: Curator,
        plan: AdaSSPPlan,
        target_range: TargetRange,
        public_choices: KeyStream,
        track: Any,
    ) -> LinearScores:
        return boost_adassp(curator, plan, track)  # which has no random structure


@documented
class BoostedAdaSSPClassifier(AdaSSPEstimator, AnyLossClassifier):
    """A private linear classifier, boosted from noisy sufficient statistics.

    Examples
    --------
    >>> from privboost import BoostedAdaSSPClassifier
    >>> from privboost.datasets import load_adult
    >>> adult = load_adult()
    >>> clf = BoostedAdaSSPClassifier(epsilon=1.0, delta=1e-6, domain=adult.domain)
    >>> clf = clf.fit(adult.train)
    >>> clf.predict_proba(adult.test).shape
    (16281, 2)
    >>> clf.coefficients().column_names
    ['feature', 'value', 'coefficient']
    """

    _presets = CLASS_PRESETS

    @available_if(_has_stages)
    def staged_decision_function(self, X: Any) -> Iterator[np.ndarray]:
        """Yield scores after each round, as if it were the last. Costs no privacy.

        To pick a stage by its exact errors on private rows does: see `staged_predict`.
        """
        return self._fitted().staged_decision_function(X)

    @available_if(_has_staged_probabilities)
    def staged_predict_proba(self, X: Any) -> Iterator[np.ndarray]:
        """Yield class probabilities after each round, as if it were the last. Costs no privacy.

        To pick a stage by its exact errors on private rows does: see `staged_predict`.
        """
        return self._fitted().staged_predict_proba(X)


@documented
class BoostedAdaSSPRegressor(AdaSSPEstimator, PrivateRegressor):
    """A private linear regressor, boosted from noisy sufficient statistics.

    Examples
    --------
    >>> import numpy as np
    >>> from privboost import BoostedAdaSSPRegressor
    >>> domain = {"version": 1,
    ...           "features": {"x": {"kind": "numeric", "bounds": [0, 1]}},
    ...           "target": {"name": "y", "bounds": [0, 1]}}
    >>> x = np.linspace(0, 1, 10_000)
    >>> model = BoostedAdaSSPRegressor(epsilon=1.0, delta=1e-6, domain=domain)
    >>> model = model.fit(x[:, None], 0.2 + 0.5 * x)
    >>> bool(abs(model.predict([[0.5]])[0] - 0.45) < 0.1)
    True
    """

    _presets = NUMBER_PRESETS
