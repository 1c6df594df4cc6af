"""Estimators of boosted random trees: S-BDT, and the totally random trees of Maddock et al."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from privboost._core.progress import rounds_bar
from privboost.data.encoding import Encoder
from privboost.estimators.base import PrivateRegressor
from privboost.estimators.mixins import AnyLossClassifier, MonotoneEstimator, TreeClassifier
from privboost.estimators.parameters import (
    ClassWeightArguments,
    RunArguments,
    accountants,
    constructor,
    documented,
)
from privboost.estimators.preparation import Run
from privboost.estimators.streaming import StreamEstimator
from privboost.mechanisms.curator import Curator
from privboost.models.trees import TreeScores
from privboost.randomness.keystream import KeyStream, public_generator
from privboost.recipes.common.newton import start_boosting
from privboost.recipes.common.plan import Budget
from privboost.recipes.common.target_range import TargetRange
from privboost.recipes.sbdt import (
    CLASS_PRESETS,
    NUMBER_PRESETS,
    SBDTParameters,
    SBDTPlan,
    add_trees,
    boost_sbdt,
    plan_sbdt,
)


@dataclass(frozen=True, kw_only=True)
class SBDTArguments(SBDTParameters, ClassWeightArguments, RunArguments):
    """Arguments of S-BDT's estimators."""

    accountant: str = accountants("gdp", "pld", "rdp")


class SBDTEstimator(MonotoneEstimator, StreamEstimator):
    """Classifier and regressor of S-BDT: constructor, plan, boosting and streams."""

    @constructor(SBDTArguments)
    def __init__(self) -> None: ...

    def _plan(
        self,
        encoder: Encoder,
        weight_bound: float | None,
        budget: Budget,
        batch: int | None = None,
    ) -> SBDTPlan:
        return plan_sbdt(self.get_params(deep=False), encoder, weight_bound, budget, batch)

    def _boost(
        self,
        curator: Curator,
        plan: SBDTPlan,
        target_range: TargetRange,
        public_choices: KeyStream,
        track: Any,
    ) -> TreeScores:
        return boost_sbdt(curator, plan, public_generator(public_choices), track, target_range)

    def _plan_batch(
        self, batch: int, encoder: Encoder, weight_bound: float | None, budget: Budget
    ) -> SBDTPlan:
        return self._plan(encoder, weight_bound, budget, batch)

    def _begin(self, run: Run, curator: Curator) -> TreeScores:
        assert isinstance(run.plan, SBDTPlan)
        return start_boosting(curator, run.plan, run.plan.settings.init_clip)

    def _go_on(self, run: Run, curator: Curator, before: TreeScores) -> TreeScores:
        assert isinstance(run.plan, SBDTPlan)
        generator = public_generator(run.public_choices())
        return add_trees(curator, run.plan, generator, before, rounds_bar(bool(self.verbose)))


@documented
class SBDTClassifier(SBDTEstimator, TreeClassifier, AnyLossClassifier):
    """A private classifier of boosted random trees (S-BDT).

    Examples
    --------
    >>> from privboost import SBDTClassifier
    >>> from privboost.datasets import load_adult
    >>> adult = load_adult()
    >>> clf = SBDTClassifier(epsilon=0.5, delta=1e-6, domain=adult.domain, extra_estimators=100)
    >>> clf = clf.fit(adult.train)
    >>> clf.predict_proba(adult.test).shape
    (16281, 2)
    >>> clf.privacy_.guarantee
    '(0.5, 1e-06)-differential privacy'

    A stream: later rows are added, and earlier ones go on contributing.

    >>> clf = SBDTClassifier(epsilon=0.5, delta=1e-6, domain=adult.domain, n_estimators=50)
    >>> clf = clf.partial_fit(adult.train).partial_fit(adult.test)
    >>> clf.model_.scores.n_trees
    100
    """

    _presets = CLASS_PRESETS


@documented
class SBDTRegressor(SBDTEstimator, PrivateRegressor):
    """A private regressor of boosted random trees (S-BDT).

    Examples
    --------
    >>> import numpy as np
    >>> from privboost import SBDTRegressor
    >>> domain = {"version": 1,
    ...           "features": {"x": {"kind": "numeric", "bounds": [0, 1]}},
    ...           "target": {"name": "y", "bounds": [0, 1]}}
    >>> x = np.linspace(0, 1, 10_000)
    >>> model = SBDTRegressor(epsilon=1.0, delta=1e-6, domain=domain).fit(x[:, None], x**2)
    >>> bool(abs(model.predict([[0.5]])[0] - 0.25) < 0.2)
    True
    """

    _presets = NUMBER_PRESETS
