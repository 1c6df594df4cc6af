"""The flagship's estimators: effects, pairs and trees, asked at the resolution noise allows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from privboost.boosting.plan import Budget
from privboost.boosting.privboost import boost_privboost
from privboost.boosting.privboost_plan import (
    PURE_HESSIAN_SHARE,
    PURE_SWEEPS,
    SWEEPS,
    PrivBoostPlan,
    PrivBoostSettings,
    plan_privboost,
)
from privboost.estimators.base import PrivateEstimator
from privboost.estimators.class_weights import (
    CLASS_WEIGHT_PARAMETER,
    CLASSES_PARAMETER,
    WeighedClasses,
)
from privboost.estimators.parameters import (
    BUDGET_PARAMETERS,
    CLIPS_OF_A_NUMBER,
    RUN_PARAMETERS,
    SPAN_PARAMETER,
    TaskDefaults,
    keep_parameters,
)
from privboost.estimators.predictors import LogisticClassifier, PrivateRegressor
from privboost.estimators.preparation import Given, MakePlan
from privboost.learning.lesson import Lesson
from privboost.models.additive import AdditiveScores
from privboost.models.compound import CompoundScores
from privboost.privacy.curator import Curator
from privboost.randomness.keystream import KeyStream
from privboost.randomness.public_choices import public_generator
from privboost.tables.domain import Domain
from privboost.tables.encoding import Encoder
from privboost.tables.features import NumericFeature

_PARAMETERS = (
    BUDGET_PARAMETERS.rstrip()
    + """
    n_estimators : int, optional
        Answers about one feature (for each class beyond two classes), rounded up to whole rounds
        (`at_once`). Default 12 times the number of features, 3 times where delta is 0. Pairs and
        trees are asked about in rounds beside these, which the bar of `verbose` counts as well.
    interactions : bool
        Whether features are asked about together as well, where the released number of rows says
        that it pays: in pairs, and by random trees. If not, and where delta is 0, the model is
        purely additive.
    at_once : int
        How many features one round asks about, at most, or how many pairs or trees: fewer rounds
        for the same budget, where a round is dear. It costs accuracy, since those that are asked
        about together do not yet know of each other.
    monotone : mapping, optional
        From names of numeric features to 1 (predictions never fall as it grows), -1 (never rise)
        or 0 (any way): known facts, not read off the rows. Such features take no part in pairs
        and trees; a missing value is free. For two classes or a number.
    gradient_clip : float, optional
        What a row's gradient is clipped to; a smaller clip means less noise and more bias. By
        default it follows the released number of rows (0.25 to 1) for classes, and is 0.3 for a
        number.
    hessian_clip : float, optional
        The same for the Hessian. By default a third of the gradient's, at most 0.25, for classes,
        and 1 for a number.
    hessian_share : float, optional
        The share of the Hessian in an answer. Default 0.04 for classes, 0.1 for a number; 0.2 where
        delta is 0.
    init_share : float
        What the start has of the budget (of μ²): the mean label, and the number of rows.
    calibration_share : float, optional
        What the counts by score and class have of it, which make probabilities honest; 0 leaves
        them out. Default 0.04 for classes; a number has none."""
    + SPAN_PARAMETER.replace("{SHARE}", "0.05")
    + CLASS_WEIGHT_PARAMETER
    + CLASSES_PARAMETER
    + RUN_PARAMETERS.replace("{ACCOUNTANTS}", '{"auto", "gdp", "pld", "rdp"}')
)


class PrivBoostEstimator(WeighedClasses, TaskDefaults, PrivateEstimator):
    """What the classifier and the regressor share: parameters, plan and recipe."""

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        domain: Any = None,
        *,
        n_estimators: int | None = None,
        interactions: bool = True,
        at_once: int = 1,
        monotone: Mapping[str, int] | None = None,
        gradient_clip: float | None = None,
        hessian_clip: float | None = None,
        hessian_share: float | None = None,
        init_share: float = 0.02,
        calibration_share: float | None = None,
        span_share: float | None = None,
        classes: Any = None,
        domain_given: Any = None,
        domain_share: float = 0.1,
        domain_rows: str = "same",
        public_rows: bool = False,
        sample_weight_bound: float | None = None,
        class_weight: Mapping[Any, float] | None = None,
        accountant: str = "auto",
        random_state: int | None = None,
        n_jobs: int | None = None,
        backend: Any = "auto",
        ledger: Any = None,
        budget: Any = None,
        verbose: bool = False,
    ) -> None:
        keep_parameters(self, locals())

    def _plan(
        self,
        encoder: Encoder,
        weight_bound: float | None,
        budget: Budget,
    ) -> PrivBoostPlan:
        pure, rounds, share = budget.delta == 0, self.n_estimators, self.hessian_share
        sweeps = PURE_SWEEPS if pure else SWEEPS
        if share is None:
            share = PURE_HESSIAN_SHARE if pure else self._or_default("hessian_share")
        settings = PrivBoostSettings(
            n_estimators=sweeps * len(encoder.domain.features) if rounds is None else rounds,
            interactions=self.interactions,
            at_once=self.at_once,
            monotone=self.monotone,
            gradient_clip=self.gradient_clip,
            hessian_clip=self.hessian_clip,
            hessian_share=share,
            init_share=self.init_share,
            calibration_share=self._or_default("calibration_share"),
            span_share=self._or_default("span_share"),
        )
        return plan_privboost(encoder, settings, weight_bound, budget, self.accountant)

    def _stand_in(self) -> Domain:
        spare, named = super()._stand_in(), self._named_features()
        more = tuple(NumericFeature(name, (0, 1)) for name in named if name != "x")
        target = replace(spare.target, name="y".join(["", *named, ""]))  # unlike any of them
        return Domain((*spare.features, *more), target) if named else spare

    def _named_features(self) -> list[str]:
        return [str(name) for name in self.monotone] if isinstance(self.monotone, Mapping) else []

    def _lesson(self, given: Given, make_plan: MakePlan, budget: Budget) -> tuple[Lesson, Any]:
        lesson, plan = super()._lesson(given, make_plan, budget)
        if plan.settings.monotone:
            lesson.check_numbers("monotone", self._named_features())
            lesson.check_two_classes("monotone")
        return lesson, plan

    def _boost(
        self, curator: Curator, plan: PrivBoostPlan, structures: KeyStream, track: Any
    ) -> AdditiveScores | CompoundScores:
        return boost_privboost(curator, plan, public_generator(structures), track)


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
        "hessian_share": 0.04,
        "calibration_share": 0.04,
        "span_share": 0.0,
    }


class PrivBoostRegressor(PrivBoostEstimator, PrivateRegressor):  # noqa: D101
    __doc__ = f"""A differentially private boosted regressor.

    {CLIPS_OF_A_NUMBER}
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
        "hessian_share": 0.1,
        "calibration_share": 0.0,
        "span_share": 0.05,
    }
