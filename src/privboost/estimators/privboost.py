"""The flagship's estimators: cyclical boosting over whole-feature histograms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from privboost.boosting.newton import NewtonStep
from privboost.boosting.plan import Budget
from privboost.boosting.privboost import boost_privboost
from privboost.boosting.privboost_plan import PrivBoostPlan, plan_privboost
from privboost.estimators.base import LogisticClassifier, PrivateEstimator, PrivateRegressor
from privboost.estimators.parameters import (
    BUDGET_PARAMETERS,
    RUN_PARAMETERS,
    TaskDefaults,
    keep_parameters,
)
from privboost.models.additive import AdditiveScores
from privboost.privacy.curator import Curator
from privboost.randomness.keystream import KeyStream
from privboost.tables.encoding import Encoder

_PARAMETERS = (
    BUDGET_PARAMETERS.rstrip()
    + """
    n_estimators : int, optional
        Rounds (for each class beyond two classes); each releases one feature's histogram.
        Default 400 for classes, 100 for a number.
    learning_rate : float
        What each round's values are multiplied by.
    max_bins : int, optional
        Bins of a numeric feature: at most 192, or as many as given edges make. Default 32 for
        classes, 8 for a number.
    gradient_clip : float
        What a row's gradient is clipped to; a smaller clip means less noise.
    hessian_clip : float, optional
        The same for the Hessian. Default 0.1 for classes, 1 for a number.
    hessian_share : float, optional
        The share of the Hessian in a release. Default 0.04 for classes, 0.3 for a number.
    reg_lambda : float, optional
        Added to every sum of Hessians. Default 10 for classes, 100 for a number.
    leaf_clip : float
        A round's values are clipped to ± this before the learning rate."""
    + RUN_PARAMETERS.replace("{ACCOUNTANTS}", '{"auto", "gdp", "pld", "rdp"}')
)


class PrivBoostEstimator(TaskDefaults, PrivateEstimator):
    """What the classifier and the regressor share: parameters, plan and recipe."""

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        domain: Any = None,
        *,
        n_estimators: int | None = None,
        learning_rate: float = 0.1,
        max_bins: int | None = None,
        gradient_clip: float = 0.3,
        hessian_clip: float | None = None,
        hessian_share: float | None = None,
        reg_lambda: float | None = None,
        leaf_clip: float = 2.0,
        domain_given: Any = None,
        domain_share: float = 0.1,
        domain_rows: str = "same",
        public_rows: bool = False,
        sample_weight_bound: float | None = None,
        accountant: str = "auto",
        random_state: int | None = None,
        n_jobs: int | None = None,
        backend: Any = "local",
        ledger: Any = None,
        verbose: bool = False,
    ) -> None:
        keep_parameters(self, locals())

    def _plan(
        self,
        encoder: Encoder,
        weight_bound: float | None,
        budget: Budget,
    ) -> PrivBoostPlan:
        step = NewtonStep(
            gradient_clip=self.gradient_clip,
            hessian_clip=self._or_default("hessian_clip"),
            hessian_share=self._or_default("hessian_share"),
            reg_lambda=self._or_default("reg_lambda"),
            leaf_clip=self.leaf_clip,
            learning_rate=self.learning_rate,
        )
        rounds, bins = self._or_default("n_estimators"), self._or_default("max_bins")
        return plan_privboost(encoder, step, rounds, bins, weight_bound, budget, self.accountant)

    def _boost(
        self, curator: Curator, plan: PrivBoostPlan, structures: KeyStream, track: Any
    ) -> AdditiveScores:
        return boost_privboost(curator, plan, track)  # which has no random structure


class PrivBoostClassifier(PrivBoostEstimator, LogisticClassifier):  # noqa: D101
    __doc__ = f"""A differentially private boosted classifier.
{_PARAMETERS}
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
    _defaults: ClassVar[Mapping[str, Any]] = {
        "n_estimators": 400,
        "max_bins": 32,
        "hessian_clip": 0.1,
        "hessian_share": 0.04,
        "reg_lambda": 10.0,
    }


class PrivBoostRegressor(PrivBoostEstimator, PrivateRegressor):  # noqa: D101
    __doc__ = f"""A differentially private boosted regressor.

    Clips are in parts of half the width of the target's bounds.
{_PARAMETERS}
    Examples
    --------
    >>> import numpy as np
    >>> from privboost import PrivBoostRegressor
    >>> domain = {{"version": 1,
    ...           "features": {{"x": {{"kind": "numeric", "bounds": [0, 1]}}}},
    ...           "target": {{"name": "y", "bounds": [0, 1]}}}}
    >>> x = np.linspace(0, 1, 10_000)
    >>> model = PrivBoostRegressor(epsilon=1.0, delta=1e-6, domain=domain).fit(x[:, None], x**2)
    >>> bool(abs(model.predict([[0.5]])[0] - 0.25) < 0.2)
    True
    """
    _defaults: ClassVar[Mapping[str, Any]] = {
        "n_estimators": 100,
        "max_bins": 8,
        "hessian_clip": 1.0,
        "hessian_share": 0.3,
        "reg_lambda": 100.0,
    }
