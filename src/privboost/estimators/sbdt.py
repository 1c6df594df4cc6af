"""Estimators that boost random trees: S-BDT, and the totally random trees of Maddock et al."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, Self

from privboost.boosting.checks import check_number
from privboost.boosting.initial_score import start_boosting
from privboost.boosting.plan import Budget, NewtonStep
from privboost.boosting.sbdt import PRESETS, boost_trees
from privboost.boosting.structures import RandomTrees, public_generator
from privboost.boosting.tree_plan import TreePlan, TreeSettings, plan_trees
from privboost.domain import ClassTarget
from privboost.encoding import Encoder
from privboost.engine.backend import RecordingBackend
from privboost.estimators.base import PrivateEstimator, PrivateRegressor, Run
from privboost.estimators.parameters import BUDGET_PARAMETERS, RUN_PARAMETERS, keep_parameters
from privboost.estimators.stream_checks import STREAM_PARAMETERS
from privboost.estimators.streams import RowStream, load_stream, save_stream
from privboost.estimators.trees import TreeClassifier, TreeEstimator
from privboost.models.model import Model
from privboost.models.trees import TreeScores
from privboost.privacy.keystream import KeyStream
from privboost.privacy.mechanisms import Curator
from privboost.progress import rounds_bar

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
        so that leaves which noise alone could explain stay near zero.
    leaf_clip : float
        A tree's values are clipped to ± this before the learning rate.
    init_share : float, optional
        The share of the budget (on μ²) that the initial score takes; 0 for none. Default 0.02 for
        classes, 0.1 for a number.
    init_noise : {"gaussian", "laplace"}
        The noise of the initial score.
    boosting : {"newton", "gradient"}
        Whether leaves divide by sums of Hessians, or count rows.
    features : "cyclical", "uniform" or int
        One feature a tree, in turn (the model is then additive); any feature at each node; or any
        of so many features drawn for each tree (all, if there are fewer).
    candidates : {"grid", "all", "hessian"}
        Where numbers may be split: at `n_candidates` evenly spread edges; at all fine edges; or at
        edges that follow released Hessians, refined in the first `candidate_rounds` updates.
    n_candidates : int
        Split candidates of a number: at most 191, or as many as its given edges.
    candidate_rounds : int
        Releases that refine "hessian" candidates.
    candidate_share : float
        The share of the budget (on μ², after the initial score) that refining takes.
    category_splits : {"one", "subset"}
        Whether a node on a category singles one out, or sends a random half right.
    extra_estimators : int
        Trees beyond `n_estimators` at no further cost: rows pay for what they contribute, and go
        on while their own budget lasts.
    batch_size : int
        Trees that are released together, before rows follow; their values are averaged."""
    + RUN_PARAMETERS.replace("{ACCOUNTANTS}", '{"auto", "gdp", "pld", "rdp"}')
)


_UNSAVED = ("_stream", "_training")
"""What no copy of an estimator has: private rows, and who is training."""


class RandomTreeBooster(TreeEstimator):
    """What the classifier and the regressor share: parameters, plan, recipe and streams."""

    _presets = PRESETS
    _defaults: ClassVar[dict[str, Any]]
    """What a parameter left at None means for the task."""

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
        boosting: str = "newton",
        features: str | int = "cyclical",
        candidates: str = "grid",
        n_candidates: int = 32,
        candidate_rounds: int = 5,
        candidate_share: float = 0.1,
        category_splits: str = "one",
        extra_estimators: int = 0,
        batch_size: int = 1,
        domain_share: float = 0.1,
        domain_rows: str = "same",
        sample_weight_bound: float | None = None,
        accountant: str = "auto",
        random_state: int | None = None,
        n_jobs: int | None = None,
        backend: Any = "local",
        ledger: Any = None,
        verbose: bool = False,
    ) -> None:
        keep_parameters(self, locals())

    def partial_fit(
        self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None
    ) -> Self:
        """Train on the next batch of a stream; rows of earlier batches go on contributing.

        The first call begins a stream. Each later one adds `n_estimators` trees, with noise that is
        calibrated for the new rows. A row of an earlier batch takes part as long as its own budget,
        which it got for life when it came, lasts.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`.
        classes : sequence, optional
            As other estimators take it; if given, it must be the domain's classes.

        Returns
        -------
        self

        Privacy
        -------
        Every protected unit of every batch has the guarantee (`epsilon`, `delta`) for the whole
        stream, if it is in one batch only; rows of a unit that came with an earlier batch are left
        out. Without a unit column every row given is a new unit: give no row twice. The estimator
        keeps the coded rows: see `save_stream` and `forget_rows`. What was fitted to the rows
        before, and parameters that exact scores on them chose, are not covered. A batch that fails
        after it has released anything ends the stream, for what its rows paid is not given back.
        """
        with self._alone():
            stream = self._stream_to_continue()
            self._check_classes(classes)
            make_plan = partial(self._plan, batch=stream.n_batches)
            run = self._prepare(X, y, sample_weight, make_plan, stream)
            self._stream = None  # until all is done: what rows pay in vain is paid all the same
            backend = RecordingBackend(run.open_backend([*stream.blocks, *run.blocks]))
            try:
                scores = self._continue(run, stream, backend)
            finally:
                backend.close()
            used = run.ledger.used(run.plan.life)
            given = self.get_params()
            own = {name: given[name] for name in given if name in STREAM_PARAMETERS}
            grown = stream.extended(run.plan, run.rows, run.report(), used, backend.log, own)
            self._keep(Model(run.encoder, scores, grown.report()))
            self._stream = grown
        return self

    def _stream_to_continue(self) -> RowStream:
        stream = getattr(self, "_stream", None)
        if stream is not None:
            return stream
        if hasattr(self, "model_") or "_stream" in self.__dict__:
            raise ValueError(
                "this model's rows are not there to go on with: fit spends the whole budget "
                "and keeps no rows, copies have none, and a batch that failed midway ends a "
                "stream. Begin one with a new estimator's partial_fit, or load_stream one"
            )
        return RowStream(learned=self.domain is None)

    def _continue(self, run: Run, stream: RowStream, backend: RecordingBackend) -> TreeScores:
        """Boost on the rows of all batches, on top of what they were told before."""
        curator = run.curator(backend)
        if stream.n_batches:
            curator.resume(stream.log, stream.budgets)
            before = self._trees()
        else:
            before = start_boosting(curator, run.plan)
        structures = self._structures(run.plan, run.keys.child("structures"))
        return boost_trees(curator, run.plan, structures, before, rounds_bar(bool(self.verbose)))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let one thread train at a time: two must not go on from the same state."""
        lock = self.__dict__.setdefault("_training", Lock())
        if not lock.acquire(blocking=False):
            raise RuntimeError("this estimator is being trained in another thread")
        try:
            yield
        finally:
            lock.release()

    @property
    def n_batches_(self) -> int:
        """How many batches the stream has that `partial_fit` would continue; 0 without one."""
        stream: RowStream | None = getattr(self, "_stream", None)
        return 0 if stream is None else stream.n_batches

    def save_stream(self, path: str | Path) -> None:
        """Write the private state of a stream: coded rows, what they have spent, and the model.

        The file is as secret as the table itself; a model's own file (see `save`) never holds any
        of it. Keep the newest only: rows that go on from an older state spend their budgets twice.
        """
        save_stream(self._need_stream(), self._fitted(), path)

    def load_stream(self, path: str | Path) -> Self:
        """Go on with a stream that `save_stream` wrote, from the model it had then.

        This estimator's own parameters count for the batches to come.
        """
        stream, model = load_stream(path)
        self._check_target(model.domain)
        self._stream = stream
        self._keep(model)
        return self

    def forget_rows(self) -> Self:
        """Let go of all rows of a stream; later batches train alone, on top of the model.

        That is the naive stream: nothing keeps the model from unlearning what old rows taught it.
        """
        self._stream = self._need_stream().without_rows()
        return self

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name not in _UNSAVED}

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:  # noqa: D102
        with self._alone():
            self.__dict__.pop("_stream", None)
            super().fit(X, y, sample_weight)
        return self

    fit.__doc__ = PrivateEstimator.fit.__doc__

    def _trees(self) -> TreeScores:
        scores = self._fitted().scores
        assert isinstance(scores, TreeScores)
        return scores

    def _need_stream(self) -> RowStream:
        stream: RowStream | None = getattr(self, "_stream", None)
        if stream is None or not stream.n_batches:
            raise ValueError("there is no stream: begin one with partial_fit")
        return stream

    def _check_classes(self, classes: Any) -> None:
        if classes is None or self.domain is None:
            return
        target = self._domain().target
        if not isinstance(target, ClassTarget) or set(target.classes) != set(classes):
            raise ValueError("classes must be those of the domain")

    def _plan(
        self,
        encoder: Encoder,
        weight_bound: float | None,
        budget: Budget,
        batch: int | None = None,
    ) -> TreePlan:
        settings = TreeSettings(
            n_estimators=self._or_default("n_estimators"),
            max_depth=self._or_default("max_depth"),
            subsample=self.subsample,
            boosting=self.boosting,
            init_share=self._or_default("init_share"),
            init_noise=self.init_noise,
            features=self.features,
            candidates=self.candidates,
            n_candidates=self.n_candidates,
            candidate_rounds=self.candidate_rounds,
            candidate_share=self.candidate_share,
            category_splits=self.category_splits,
            extra_estimators=self.extra_estimators,
            batch_size=self.batch_size,
        )
        gradient_clip = check_number("gradient_clip", self.gradient_clip, above=0)
        hessian_clip = check_number("hessian_clip", self._or_default("hessian_clip"), above=0)
        if self.boosting == "gradient":
            hessian_clip = 1.0  # the leaves count rows
        share = self.hessian_share
        if share is None:
            typical = self._defaults["typical_value"][self.boosting]
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
        return plan_trees(
            encoder, step, settings, weight_bound, budget, self.accountant, batch, noise_lambda
        )

    def _boost(
        self, curator: Curator, plan: TreePlan, structures: KeyStream, track: Any
    ) -> TreeScores:
        before = start_boosting(curator, plan)
        return boost_trees(curator, plan, self._structures(plan, structures), before, track)

    def _structures(self, plan: TreePlan, keys: KeyStream) -> RandomTrees:
        settings = plan.settings
        return RandomTrees(
            plan.encoder,
            settings.max_depth,
            settings.features,
            settings.category_splits,
            public_generator(keys),
        )

    def _or_default(self, name: str) -> Any:
        value = getattr(self, name)
        return self._defaults[name] if value is None else value


class SBDTClassifier(RandomTreeBooster, TreeClassifier):  # noqa: D101
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
    _defaults: ClassVar[dict[str, Any]] = {
        "n_estimators": 300,
        "max_depth": 6,
        "hessian_clip": 0.1,
        "noise_lambda": 0.5,
        "init_share": 0.02,
        "typical_value": {"newton": 1 / 8, "gradient": 1 / 50},
    }


class SBDTRegressor(RandomTreeBooster, PrivateRegressor):  # noqa: D101
    __doc__ = f"""A private regressor of boosted random trees (S-BDT).

    Clips are in units of half the width of the target's bounds.
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
    _defaults: ClassVar[dict[str, Any]] = {
        "n_estimators": 100,
        "max_depth": 2,
        "hessian_clip": 1.0,
        "noise_lambda": 1.0,
        "init_share": 0.1,
        "typical_value": {"newton": 1 / 8, "gradient": 1 / 8},
    }
