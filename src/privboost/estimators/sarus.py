"""Estimators of boosted greedy trees under pure ε: DP-XGBoost of Sarus, made sound."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from privboost.data.encoding import Encoder
from privboost.estimators.base import PrivateRegressor
from privboost.estimators.mixins import AnyLossClassifier, TreeClassifier, TreeEstimator
from privboost.estimators.parameters import (
    ClassWeightArguments,
    RunArguments,
    accountants,
    constructor,
    documented,
)
from privboost.mechanisms.curator import Curator
from privboost.models.trees import TreeScores
from privboost.randomness.keystream import KeyStream
from privboost.recipes.common.parameters import parameter
from privboost.recipes.common.plan import Budget
from privboost.recipes.common.target_range import TargetRange
from privboost.recipes.sarus import PRESETS, SarusParameters, SarusPlan, boost_sarus, plan_sarus


@dataclass(frozen=True)
class SarusArguments(SarusParameters, ClassWeightArguments, RunArguments):
    """Arguments of Sarus' estimators."""

    delta: float = parameter(
        0.0,
        "float",
        "δ of the privacy budget. 0 (the default) is pure DP. Above 0 the same mechanisms are "
        "composed under (ε, δ), with about half the noise.",
    )
    domain: Any = parameter(
        None,
        "Domain, dict or path",
        "Public description of the table. Without it, `fit` infers one privately (see "
        "`domain_share`), where delta is 0 from what `domain_given` declares; then `y` must be "
        "given.",
    )
    _: KW_ONLY
    accountant: str = accountants("pure", "game", "pld", "rdp")


class SarusEstimator(TreeEstimator):
    """Classifier and regressor of Sarus' recipe: constructor, plan and boosting."""

    _presets = PRESETS

    @constructor(SarusArguments)
    def __init__(self) -> None: ...

    def _plan(self, encoder: Encoder, weight_bound: float | None, budget: Budget) -> SarusPlan:
        return plan_sarus(self.get_params(deep=False), encoder, weight_bound, budget)

    def _boost(
        self,
        curator: Curator,
        plan: SarusPlan,
        target_range: TargetRange,
        public_choices: KeyStream,
        track: Any,
    ) -> TreeScores:
        return boost_sarus(curator, plan, track)  # which has no random structure


@documented
class SarusXGBClassifier(SarusEstimator, TreeClassifier, AnyLossClassifier):
    """A classifier of boosted greedy trees under pure ε-DP.

    Leaves move scores by mean gradients, which are at most a half of what Newton steps would be;
    the learning rate and the leaf clip are of that size.

    Examples
    --------
    >>> from privboost import SarusXGBClassifier
    >>> from privboost.datasets import load_adult
    >>> adult = load_adult()
    >>> clf = SarusXGBClassifier(epsilon=2.0, domain=adult.domain).fit(adult.train)
    >>> clf.predict_proba(adult.test).shape
    (16281, 2)
    >>> clf.privacy_.guarantee
    '2-differential privacy (pure)'
    """


@documented
class SarusXGBRegressor(SarusEstimator, PrivateRegressor):
    """A regressor of boosted greedy trees under pure ε-DP.

    Examples
    --------
    >>> import numpy as np
    >>> from privboost import SarusXGBRegressor
    >>> domain = {"version": 1,
    ...           "features": {"x": {"kind": "numeric", "bounds": [0, 1]}},
    ...           "target": {"name": "y", "bounds": [0, 1]}}
    >>> x = np.linspace(0, 1, 10_000)
    >>> model = SarusXGBRegressor(epsilon=2.0, domain=domain).fit(x[:, None], x**2)
    >>> bool(abs(model.predict([[0.5]])[0] - 0.25) < 0.2)
    True
    """
