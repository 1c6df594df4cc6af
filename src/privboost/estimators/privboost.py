"""Estimators of the default recipe: effects, pairs and trees at the resolution noise allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from privboost.data.domain import Domain
from privboost.data.encoding import Encoder
from privboost.data.features import NumericFeature
from privboost.domain_inference.within_fit import DomainInference
from privboost.estimators.base import LogisticClassifier, PrivateRegressor, PrivateSurvival
from privboost.estimators.mixins import MonotoneEstimator
from privboost.estimators.parameters import (
    ClassWeightArguments,
    RunArguments,
    accountants,
    constructor,
    documented,
)
from privboost.estimators.preparation import FitArguments, MakePlan
from privboost.mechanisms.curator import Curator
from privboost.models.additive import AdditiveScores
from privboost.models.interactions import InteractionScores
from privboost.randomness.keystream import KeyStream, public_generator
from privboost.recipes.common.allowed_interactions import named_in
from privboost.recipes.common.exposure import check_exposure_feature
from privboost.recipes.common.plan import Budget
from privboost.recipes.common.target_range import TargetRange
from privboost.recipes.privboost import (
    PrivBoostParameters,
    PrivBoostPlan,
    boost_privboost,
    plan_privboost,
)


@dataclass(frozen=True, kw_only=True)
class PrivBoostArguments(PrivBoostParameters, ClassWeightArguments, RunArguments):
    """Arguments of PrivBoost's estimators."""

    accountant: str = accountants("gdp", "pld", "rdp")


class PrivBoostEstimator(MonotoneEstimator):
    """Classifier and regressor of PrivBoost: constructor, plan and boosting."""

    @constructor(PrivBoostArguments)
    def __init__(self) -> None: ...

    def _plan(self, encoder: Encoder, weight_bound: float | None, budget: Budget) -> PrivBoostPlan:
        return plan_privboost(self.get_params(deep=False), encoder, weight_bound, budget)

    def _named_features(self) -> list[str]:
        return [
            *super()._named_features(),
            *named_in(self.interactions, self.interaction_constraints),
            *self._named_exposure(),
        ]

    def _named_exposure(self) -> list[str]:
        name = getattr(self, "exposure", None)  # classes and survival times have none
        return [name] if isinstance(name, str) and name else []

    def _stand_in(self) -> Domain:
        spare = super()._stand_in()
        for name in self._named_exposure():
            others = tuple(each for each in spare.features if each.name != name)
            others = others or (NumericFeature(f"not {name}", (0, 1)),)
            spare = Domain((*others, NumericFeature(name, (0.5, 1))), spare.target)
        return spare

    def _inference(
        self, given: FitArguments, make_plan: MakePlan, budget: Budget
    ) -> tuple[DomainInference, Any]:
        inference, plan = super()._inference(given, make_plan, budget)
        for name in self._named_exposure():
            check_exposure_feature(*inference.given_feature("exposure", name))
        return inference, plan

    def _boost(
        self,
        curator: Curator,
        plan: PrivBoostPlan,
        target_range: TargetRange,
        public_choices: KeyStream,
        track: Any,
    ) -> AdditiveScores | InteractionScores:
        return boost_privboost(curator, plan, public_generator(public_choices), track, target_range)


@documented
class PrivBoostClassifier(PrivBoostEstimator, LogisticClassifier):
    """A differentially private boosted classifier.

    Examples
    --------
    >>> from privboost import PrivBoostClassifier
    >>> from privboost.datasets import load_adult
    >>> adult = load_adult()
    >>> clf = PrivBoostClassifier(epsilon=1.0, delta=1e-6, domain=adult.domain)
    >>> clf = clf.fit(adult.train)
    >>> clf.predict_proba(adult.test).shape
    (16281, 2)
    >>> clf.privacy_.guarantee
    '(1, 1e-06)-differential privacy'
    """

    def predict_set(self, X: Any, coverage: float = 0.9) -> np.ndarray:
        """Predict a set of classes for each row. Costs no privacy.

        Needs a `conformal_fraction` above 0. See `Model.predict_set`.

        Parameters
        ----------
        X : data frame, array, or path of a file
            The rows.
        coverage : float
            The fraction of rows whose class the set should hold.

        Returns
        -------
        bool array of shape (rows, classes)
            Whether each class is in the set, in the order of `classes_`.
        """
        sets: np.ndarray = self._fitted().predict_set(X, coverage, self.n_jobs)
        return sets


@documented
class PrivBoostRegressor(PrivBoostEstimator, PrivateRegressor):
    """A differentially private boosted regressor, with prediction intervals on request.

    Examples
    --------
    >>> import numpy as np
    >>> from privboost import PrivBoostRegressor
    >>> domain = {"version": 1,
    ...           "features": {"x": {"kind": "numeric", "bounds": [0, 1]}},
    ...           "target": {"name": "y", "bounds": [0, 1]}}
    >>> x = np.linspace(0, 1, 10_000)
    >>> model = PrivBoostRegressor(epsilon=3.0, delta=1e-6, domain=domain).fit(x[:, None], x**2)
    >>> bool(abs(model.predict([[0.5]])[0] - 0.25) < 0.2)
    True
    """

    def predict_rate(self, X: Any) -> Any:
        """Predict the number of each row for an exposure of 1. Costs no privacy.

        See `Model.predict_rate`; AttributeError where the model was trained without an `exposure`.
        """
        return self._fitted().predict_rate(X, self.n_jobs)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> np.ndarray:
        """Predict an interval for the number of each row. Costs no privacy.

        Needs a `conformal_fraction` above 0. See `Model.predict_interval`.

        Parameters
        ----------
        X : data frame, array, or path of a file
            The rows.
        coverage : float
            The fraction of rows whose number the interval should contain.

        Returns
        -------
        float64 array of shape (rows, 2)
            The lower and the upper end.
        """
        ends: np.ndarray = self._fitted().predict_interval(X, coverage, self.n_jobs)
        return ends


@documented
class PrivBoostSurvival(PrivBoostEstimator, PrivateSurvival):
    """A differentially private boosted survival model, of right-censored times until an event.

    An accelerated failure time model: the logarithm of a time is a sum of effects, plus logistic
    noise, so that effects are factors of times, and predictions median times. The domain's target
    names the column of times, with positive public bounds, and that of events: {"name": "time",
    "bounds": [1, 3650], "event": "died"}. `fit(X, y)` takes `y` as scikit-survival has it, a
    structured array of events and times, or a frame of both; it is left out where `X` has both
    columns. Clips are in units of log times.

    Examples
    --------
    >>> import numpy as np
    >>> from privboost import PrivBoostSurvival
    >>> domain = {"version": 1,
    ...           "features": {"x": {"kind": "numeric", "bounds": [0, 1]}},
    ...           "target": {"name": "time", "bounds": [0.1, 10], "event": "failed"}}
    >>> rng = np.random.default_rng(0)
    >>> x, ends = rng.uniform(0, 1, 10_000), rng.uniform(1, 10, 10_000)
    >>> fails = np.exp(2 * x) * rng.exponential(1.0, 10_000)
    >>> y = np.empty(10_000, dtype=[("failed", bool), ("time", float)])
    >>> y["failed"], y["time"] = fails <= ends, np.minimum(fails, ends)
    >>> model = PrivBoostSurvival(epsilon=3.0, delta=1e-6, domain=domain).fit(x[:, None], y)
    >>> early, late = model.predict([[0.1], [0.9]])
    >>> bool(2 < late / early < 10)
    True
    >>> model.predict_survival_function([[0.5]], [1.0, 5.0]).shape
    (1, 2)
    """
