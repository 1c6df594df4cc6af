"""Estimators that boost random trees: S-BDT, and the totally random trees of Maddock et al."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from privboost.boosting.calibrated import calibrate_scores
from privboost.boosting.checks import check_choice, check_size
from privboost.boosting.initial_score import start_boosting
from privboost.boosting.newton import NewtonStep
from privboost.boosting.plan import Budget
from privboost.boosting.sbdt import boost_sbdt
from privboost.boosting.sbdt_plan import SBDTPlan, SBDTSettings, plan_sbdt
from privboost.boosting.sbdt_presets import CLASS_PRESETS, NUMBER_PRESETS
from privboost.boosting.structures import RandomTrees
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
from privboost.estimators.predictors import PrivateRegressor
from privboost.estimators.preparation import Run
from privboost.estimators.streaming import StreamEstimator
from privboost.estimators.trees import AnyLossTreeClassifier
from privboost.losses import newton_losses
from privboost.models.trees import TreeScores
from privboost.privacy.curator import Curator
from privboost.progress import rounds_bar
from privboost.randomness.keystream import KeyStream
from privboost.randomness.public_choices import public_generator
from privboost.tables.encoding import Encoder

_PARAMETERS = (
    BUDGET_PARAMETERS.rstrip()
    + """
    n_estimators : int, optional
        Trees (for each class beyond two classes). Default 300 for classes, 100 for a number.
    max_depth : int, optional
        Depth of the trees, at most 12; they are complete. Default 6 for classes, 2 for a number.
    learning_rate : float
        What each tree's values are multiplied by.
    subsample : float
        The chance of a row to be used for a tree. Below 1 the noise of the accounted release is
        smaller, but so is the sum; it regularises (like a larger `reg_lambda`) and seldom helps.
    gradient_clip : float
        What a row's gradient is clipped to; a smaller clip means less noise.
    hessian_clip : float, optional
        The same for the Hessian. Default 0.1 for classes, 1 for a number.
    hessian_share : float, optional
        The share r₁ of the Hessian in a leaf's release. By default it balances the errors of both
        for values of a typical size.
    reg_lambda : float, optional
        λ, added to every sum of Hessians. By default it follows the noise, which is public: half
        a standard deviation of the noise in a leaf's sum for classes, a whole one for a number,
        so that leaves which noise alone could explain stay near zero; 1 without noise.
    leaf_clip : float
        A tree's values are clipped to ± this before the learning rate.
    init_share : float, optional
        The share of the budget (on μ²) that the initial score takes; 0 for none. Default 0.02 for
        classes, 0.1 for a number.
    init_noise : {"gaussian", "laplace"}
        The noise of the initial score.
    init_clip : float, optional
        m*, what labels of a number are clipped to for the initial score, in half widths of the
        target's bounds around their middle; at most 1, which is no clip and the default.
    init_epsilon, init_count_epsilon : float, optional
        ε_init and ε_ds: an ε of their own for the initial score's sum of labels and for its count
        of rows, instead of `init_share`. They are part of `epsilon`, and of Laplace noise.
    calibration_share : float, optional
        The share of the budget (on μ²) of the counts of rows by score and class, which make
        probabilities honest; 0 leaves them out. Default 0.04 for classes with the logistic loss;
        a number, the squared loss and streams have none.
    boosting : {"newton", "gradient"}
        Whether leaves divide by sums of Hessians, or count rows. For a number, whose loss is
        squared, both are the same; for classes "gradient" keeps the gradients of the loss.
    loss : str, optional
        For classes "logistic", the default, or "squared" on labels −1 and 1, which gives no
        probabilities and no streams; its leaves count rows, whatever `boosting` says. A number has
        the squared loss alone.
    features : "cyclical", "uniform" or int
        One feature a tree, in turn (the model is then additive); any feature at each node; or any
        of so many features drawn for each tree (all, if there are fewer).
    candidates : {"grid", "all", "hessian"}
        Where numbers may be split: at `n_candidates` evenly spread edges; anywhere within the
        bounds, on the finest grid that codes have (191 places on the feature's scale, or its given
        edges); or at edges that follow released Hessians, refined in the first `candidate_rounds`
        updates.
    n_candidates : int
        Split candidates of a number: at most 191, or as many as its given edges.
    candidate_rounds : int
        Releases that refine "hessian" candidates.
    candidate_share : float, optional
        The share of the budget (on μ², after the initial score) that refining takes. None gives
        each feature's histogram as much as a tree.
    candidate_rule : {"quantiles", "merge"}
        How "hessian" candidates follow: at quantiles of the density that all releases show, or by
        joining spans of little mass and dividing the others (Maddock et al.).
    category_splits : {"one", "subset"}
        Whether a node on a category singles one out, or sends a random half right.
    extra_estimators : int
        Trees beyond `n_estimators` at no further cost: rows pay for what they contribute, and go
        on while their own budget lasts.
    batch_size : int
        Trees that are released together, before rows follow; their values are averaged.
    negative_hessian : {"floor", "zero"}
        What a leaf is worth where noise leaves its sum of Hessians (or its count) below 0: "floor"
        takes the sum as 0, "zero" makes the leaf's value 0, as S-BDT's authors do."""
    + SPAN_PARAMETER.replace("{SHARE}", "0.05")
    + CLASS_WEIGHT_PARAMETER
    + CLASSES_PARAMETER
    + RUN_PARAMETERS.replace("{ACCOUNTANTS}", '{"auto", "gdp", "pld", "rdp"}')
)


class SBDTEstimator(WeighedClasses, TaskDefaults, StreamEstimator):
    """What the classifier and the regressor share: parameters, plan, recipe and streams."""

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        domain: Any = None,
        *,
        n_estimators: int | None = None,
        max_depth: int | None = None,
        learning_rate: float = 0.1,
        subsample: float = 1.0,
        gradient_clip: float = 0.3,
        hessian_clip: float | None = None,
        hessian_share: float | None = None,
        reg_lambda: float | None = None,
        leaf_clip: float = 2.0,
        init_share: float | None = None,
        init_noise: str = "gaussian",
        init_clip: float | None = None,
        init_epsilon: float | None = None,
        init_count_epsilon: float | None = None,
        calibration_share: float | None = None,
        boosting: str = "newton",
        loss: str | None = None,
        features: str | int = "cyclical",
        candidates: str = "grid",
        n_candidates: int = 32,
        candidate_rounds: int = 5,
        candidate_share: float | None = 0.1,
        candidate_rule: str = "quantiles",
        category_splits: str = "one",
        extra_estimators: int = 0,
        batch_size: int = 1,
        negative_hessian: str = "floor",
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
        batch: int | None = None,
    ) -> SBDTPlan:
        loss = check_choice("loss", self._or_default("loss"), newton_losses(self._task))
        own_start = self.init_epsilon is not None or self.init_count_epsilon is not None
        countable = loss == "logistic" and batch is None
        settings = SBDTSettings(
            n_estimators=self._or_default("n_estimators"),
            max_depth=self._or_default("max_depth"),
            subsample=self.subsample,
            boosting=self.boosting,
            init_share=self._share("init_share", not own_start),
            init_noise=self.init_noise,
            init_clip=self.init_clip,
            init_epsilon=self.init_epsilon,
            init_count_epsilon=self.init_count_epsilon,
            calibration_share=self._share("calibration_share", countable),
            features=self.features,
            candidates=self.candidates,
            n_candidates=self.n_candidates,
            candidate_rounds=self.candidate_rounds,
            candidate_share=self.candidate_share,
            candidate_rule=self.candidate_rule,
            category_splits=self.category_splits,
            extra_estimators=self.extra_estimators,
            batch_size=self.batch_size,
            negative_hessian=self.negative_hessian,
            span_share=self._or_default("span_share"),
        )
        gradient_clip = check_size("gradient_clip", self.gradient_clip)
        hessian_clip = check_size("hessian_clip", self._or_default("hessian_clip"))
        squared = self._task == "classes" and loss == "squared"
        if squared or self.boosting == "gradient":
            hessian_clip = 1.0  # the leaves count rows
        share = self.hessian_share
        if share is None:
            typical = self._defaults["typical_value"]["squared" if squared else self.boosting]
            share = NewtonStep.balanced_share(gradient_clip, hessian_clip, typical)
        step = NewtonStep(
            gradient_clip=gradient_clip,
            hessian_clip=hessian_clip,
            hessian_share=share,
            reg_lambda=1.0 if self.reg_lambda is None else self.reg_lambda,
            leaf_clip=self.leaf_clip,
            learning_rate=self.learning_rate,
        )
        noise_lambda = self._defaults["noise_lambda"] if self.reg_lambda is None else None
        return plan_sbdt(
            encoder,
            step,
            settings,
            weight_bound,
            budget,
            self.accountant,
            batch,
            noise_lambda,
            loss,
        )

    def _boost(
        self, curator: Curator, plan: SBDTPlan, structures: KeyStream, track: Any
    ) -> TreeScores:
        before = start_boosting(curator, plan, plan.settings.init_clip)
        model = boost_sbdt(curator, plan, self._structures(plan, structures), before, track)
        return calibrate_scores(curator, plan, plan.scores, model)

    def _plan_batch(
        self, batch: int, encoder: Encoder, weight_bound: float | None, budget: Budget
    ) -> SBDTPlan:
        return self._plan(encoder, weight_bound, budget, batch)

    def _begin(self, run: Run, curator: Curator) -> TreeScores:
        assert isinstance(run.plan, SBDTPlan)
        return start_boosting(curator, run.plan, run.plan.settings.init_clip)

    def _go_on(self, run: Run, curator: Curator, before: TreeScores) -> TreeScores:
        assert isinstance(run.plan, SBDTPlan)
        structures = self._structures(run.plan, run.keys.child("structures"))
        return boost_sbdt(curator, run.plan, structures, before, rounds_bar(bool(self.verbose)))

    def _structures(self, plan: SBDTPlan, keys: KeyStream) -> RandomTrees:
        settings = plan.settings
        return RandomTrees(
            plan.encoder,
            settings.max_depth,
            settings.features,
            settings.category_splits,
            public_generator(keys),
        )


class SBDTClassifier(SBDTEstimator, AnyLossTreeClassifier):  # noqa: D101
    __doc__ = f"""A private classifier of boosted random trees (S-BDT).
{_PARAMETERS}
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

    A stream: rows that come later are added, and earlier ones go on contributing.

    >>> clf = SBDTClassifier(epsilon=0.5, delta=1e-6, domain=adult.domain, n_estimators=50)
    >>> clf = clf.partial_fit(adult.train).partial_fit(adult.test)
    >>> clf.model_.scores.n_trees
    100
    """
    _presets = CLASS_PRESETS
    _defaults: ClassVar[Mapping[str, Any]] = {
        "n_estimators": 300,
        "max_depth": 6,
        "hessian_clip": 0.1,
        "noise_lambda": 0.5,
        "init_share": 0.02,
        "calibration_share": 0.04,
        "loss": "logistic",
        "typical_value": {"newton": 1 / 8, "gradient": 1 / 50, "squared": 1 / 8},
        "span_share": 0.0,
    }


class SBDTRegressor(SBDTEstimator, PrivateRegressor):  # noqa: D101
    __doc__ = f"""A private regressor of boosted random trees (S-BDT).

    {CLIPS_OF_A_NUMBER}
{_PARAMETERS}
    Examples
    --------
    >>> import numpy as np
    >>> from privboost import SBDTRegressor
    >>> domain = {{"version": 1,
    ...           "features": {{"x": {{"kind": "numeric", "bounds": [0, 1]}}}},
    ...           "target": {{"name": "y", "bounds": [0, 1]}}}}
    >>> x = np.linspace(0, 1, 10_000)
    >>> model = SBDTRegressor(epsilon=1.0, delta=1e-6, domain=domain).fit(x[:, None], x**2)
    >>> bool(abs(model.predict([[0.5]])[0] - 0.25) < 0.2)
    True
    """
    _presets = NUMBER_PRESETS
    _defaults: ClassVar[Mapping[str, Any]] = {
        "n_estimators": 100,
        "max_depth": 2,
        "hessian_clip": 1.0,
        "noise_lambda": 1.0,
        "init_share": 0.1,
        "calibration_share": 0.0,
        "loss": "squared",
        "typical_value": {"newton": 1 / 8, "gradient": 1 / 8},
        "span_share": 0.05,
    }
