"""Estimators of boosted greedy trees under (ε, δ): DP-XGB."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from privboost.data.encoding import Encoder
from privboost.estimators.base import LogisticClassifier, PrivateRegressor
from privboost.estimators.mixins import TreeClassifier, TreeEstimator
from privboost.estimators.parameters import (
    ClassWeightArguments,
    RunArguments,
    accountants,
    constructor,
    documented,
)
from privboost.mechanisms.curator import Curator
from privboost.models.trees import TreeScores
from privboost.randomness.keystream import KeyStream, public_generator
from privboost.recipes.common.plan import Budget
from privboost.recipes.common.target_range import TargetRange
from privboost.recipes.dpxgb import PRESETS, DPXGBParameters, DPXGBPlan, boost_dpxgb, plan_dpxgb


@dataclass(frozen=True, kw_only=True)
class DPXGBArguments(DPXGBParameters, ClassWeightArguments, RunArguments):
    """Arguments of DP-XGB's estimators."""

    accountant: str = accountants("game", "rdp")


class DPXGBEstimator(TreeEstimator):
    """Classifier and regressor of DP-XGB: constructor, plan and boosting."""

    _presets = PRESETS

    @constructor(DPXGBArguments)
    def __init__(self) -> None: ...

    def _plan(self, encoder: Encoder, weight_bound: float | None, budget: Budget) -> DPXGBPlan:
        return plan_dpxgb(self.get_params(deep=False), encoder, weight_bound, budget)

    def _boost(
        self,
        curator: Curator,
        plan: DPXGBPlan,
        target_range: TargetRange,
        public_choices: KeyStream,
        track: Any,
    ) -> TreeScores:
        return boost_dpxgb(curator, plan, public_generator(public_choices), track, target_range)


@documented
class DPXGBClassifier(DPXGBEstimator, TreeClassifier, LogisticClassifier):
    """A private classifier of boosted greedy trees (DP-XGB).

    Examples
    --------
    >>> from privboost import DPXGBClassifier
    >>> from privboost.datasets import load_adult
    >>> adult = load_adult()
    >>> clf = DPXGBClassifier(1.0, 1e-6, adult.domain, n_estimators=10, max_depth=3)
    >>> clf = clf.fit(adult.train)
    >>> clf.predict_proba(adult.test).shape
    (16281, 2)
    >>> clf.model_.to_text(most_trees=1).startswith("score at the start")
    True
    """


@documented
class DPXGBRegressor(DPXGBEstimator, PrivateRegressor):
    """A private regressor of boosted greedy trees (DP-XGB).

    Examples
    --------
    >>> import numpy as np
    >>> from privboost import DPXGBRegressor
    >>> domain = {"version": 1,
    ...           "features": {"x": {"kind": "numeric", "bounds": [0, 1]}},
    ...           "target": {"name": "y", "bounds": [0, 1]}}
    >>> x = np.linspace(0, 1, 10_000)
    >>> model = DPXGBRegressor(epsilon=1.0, delta=1e-6, domain=domain, n_estimators=20)
    >>> model = model.fit(x[:, None], x**2)
    >>> bool(abs(model.predict([[0.5]])[0] - 0.25) < 0.2)
    True
    """
