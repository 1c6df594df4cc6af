"""The estimator base class: `fit` from parameters and a table to a model with its report.

`fit` prepares a run (`estimators.preparation`: domain, plan, noise, reservation), then trains on
its rows (`_train`: backend, curator, the recipe's rounds). A subclass provides the recipe's `_plan`
and `_boost`. Below are classifiers and regressors, with their predictions.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from privboost._core.checks import check_choice, check_flag, check_path, check_size
from privboost._core.compilation import announce_compilation
from privboost._core.errors import DomainError
from privboost._core.progress import messages_printed, reading, rounds_bar, waiting
from privboost._core.threads import count_threads
from privboost._core.warnings import delayed_warnings
from privboost.accounts.account import check_account
from privboost.data.domain import Domain
from privboost.data.encoding import Encoder
from privboost.data.features import NumericFeature
from privboost.data.sources import count_rows
from privboost.data.table import RemoteTable
from privboost.data.targets import ClassTarget, NumberTarget, SurvivalTarget
from privboost.domain_inference.partial_domain import (
    check_classes,
    check_same_classes,
    load_partial_domain,
    target_name_of,
    with_classes,
)
from privboost.domain_inference.within_fit import DomainInference
from privboost.estimators.class_weights import check_class_weight, weights_in_order
from privboost.estimators.foreign_parameters import (
    answers_foreign_names,
    foreign_loss_hint,
    foreign_name_hint,
)
from privboost.estimators.parameters import check_arguments
from privboost.estimators.preparation import (
    FitArguments,
    MakePlan,
    Preparation,
    Run,
    failures_of,
    open_table,
    remembering_failure,
)
from privboost.estimators.preview import Preview, price_preview, stated_rows
from privboost.estimators.public_rows import PublicPreparation
from privboost.estimators.run_settings import RunSettings, budget_of, choose_backend, ledger_path
from privboost.estimators.sklearn_wrappers import warn_of_score
from privboost.explanations.explanation import Explanation, LocalExplanation
from privboost.losses.base import losses_of
from privboost.mechanisms.curator import Curator
from privboost.models.findings import find_defects, warn_of_defects
from privboost.models.model import Model, save_model
from privboost.randomness.keystream import KeyStream
from privboost.recipes import ESTIMATORS
from privboost.recipes.common.intervals import put_units_aside, release_nonconformity
from privboost.recipes.common.plan import Budget, PublicRows, within_account
from privboost.recipes.common.target_range import TargetRange, find_target_range

_ANY_FEATURE = (NumericFeature("x", (0, 1)),)
_ANY_DOMAIN = {
    "classes": Domain(_ANY_FEATURE, ClassTarget("y", (0, 1))),
    "number": Domain(_ANY_FEATURE, NumberTarget("y", (0, 1))),
    "survival": Domain(_ANY_FEATURE, SurvivalTarget("y", (1, 2), event="event")),
}
"""Stand-ins for a domain that is not learned yet: parameters are checked with them."""


class PrivateEstimator(BaseEstimator, ABC):
    """Base class of all estimators; a recipe provides `_plan` and `_boost`.

    `fit` changes no parameter, and the estimator keeps nothing of the rows.
    """

    _task: str
    """Kind of target: "classes", "number" or "survival"."""

    def __new__(cls, *by_place: Any, **by_name: Any) -> Self:
        """Refuse arguments that the constructor does not have."""
        check_arguments(cls, by_place, by_name)
        made: Self = super().__new__(cls)
        return made

    if not TYPE_CHECKING:  # a type checker would accept any name

        def __getattr__(self, name: str) -> Any:
            """Name the estimators that have `partial_fit`."""
            if name == "partial_fit":
                raise AttributeError(
                    f"{type(self).__name__} has no partial_fit: only SBDTClassifier and "
                    "SBDTRegressor take streams of batches"
                )
            return super().__getattribute__(name)  # raises AttributeError

    @answers_foreign_names
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Train a private model.

        Parameters
        ----------
        X : data frame, array, sparse matrix, dataset, or path of a Parquet or CSV file
            The rows; the files of a folder, or a list of paths, are one table. A frame may have
            more columns than the domain; an array has exactly the domain's features, in order. A
            lazy frame of polars and a dataset of arrow are read in a stream, and a sparse matrix
            is written out a few rows at a time. The rows of a Dask or Spark frame stay with its
            workers.
        y : one-dimensional or str, optional
            The target; by default the column of `X` that the domain names. Without a domain, the
            name of that column may be given.
        sample_weight : one-dimensional or str, optional
            Weights, or the column of `X` that holds them; `sample_weight_bound` must be given.
            A weight that is negative or no number counts as 0, silently: an error would depend on
            the rows.

        Returns
        -------
        self

        Privacy
        -------
        Spends the whole budget (`epsilon`, `delta`) on these rows; `privacy_` itemises it. Nothing
        is read before it is reserved; without a domain, inference is reserved and made first, and
        training is planned after it. A second `fit` on the same rows spends the budget again, even
        if the first one failed after its reservation: `privacy_` then names that one too. Steps
        that were fitted to the rows before (a scaler, an imputer), and parameters that were chosen
        by exact scores on them (a grid search), are not covered at any ε. With `public_rows=True`
        it spends nothing and protects nothing.

        Warns
        -----
        FitWarning
            If released values show that labels match no class, that there are hardly any rows, or
            that a column is empty. It costs nothing, and comes when the model is complete: the
            model is kept even if the warning is raised as an exception.
        """
        shown = check_flag("verbose", self.verbose)
        with delayed_warnings() as held, announce_compilation(shown), remembering_failure(self):
            stage = "calibrating the noise" if self.domain is not None else "learning the domain"
            with messages_printed(shown), waiting(shown, stage):
                run = self._prepare(X, y, sample_weight).run()
            self._keep(self._train(run))
        held.say()
        self._warn_of_defects()
        return self

    def set_params(self, **params: Any) -> Self:
        """Set parameters of this estimator, as scikit-learn does."""
        known = self.get_params(deep=False)
        for name, value in params.items():
            hint = "" if name in known else foreign_name_hint(name, known, value=value)
            if hint:
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}; {hint}")
        set_: Self = super().set_params(**params)
        return set_

    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> Preparation:
        """Open the table, and choose the kind of preparation that it needs."""
        self._budget()  # the first parameter that is checked
        self._check_loss()
        X = open_table(X, self.backend)
        kind = X.preparation(self) if isinstance(X, RemoteTable) else None
        return self._stages(X, y, sample_weight, partial(count_rows, X), kind)

    def _check_loss(self) -> None:
        """Refuse another library's name of a loss with the right one, or with a reason."""
        loss = getattr(self, "loss", None)
        if hint := foreign_loss_hint(loss, losses_of(self._task)):
            raise ValueError(f"loss: {loss!r} is not known; {hint}")

    def _stages(
        self, X: Any, y: Any, sample_weight: Any, count: Callable[[], int], kind: Any = None
    ) -> Preparation:
        """Check the arguments, and collect them in a preparation.

        `count` returns the number of rows, for a recipe to which it is public.
        """
        bound = self._weight_bound(sample_weight)
        given = FitArguments(X, y, sample_weight, bound, self._class_weight(), self._classes())
        if kind is None:
            kind = PublicPreparation if isinstance(self._budget(), PublicRows) else Preparation
        make_plan = self._planner(count)
        inference = partial(self._inference, given, make_plan)
        prepared: Preparation = kind(self._run_settings(), given, make_plan, inference)
        return prepared

    def _train(self, run: Run) -> Model:
        """Train on the rows of a prepared run."""
        with reading(bool(self.verbose), run.load.source):
            backend = run.run_settings.open_backend([run.load])
        try:
            curator = run.curator(backend)
            put_units_aside(curator, run.plan)
            target_range = find_target_range(curator, run.plan)
            public_choices = run.public_choices()
            bar = rounds_bar(bool(self.verbose))
            scores = self._boost(curator, run.plan, target_range, public_choices, bar)
            nonconformity = release_nonconformity(curator, run.plan, scores, target_range.ends)
        finally:
            backend.close()
        about = curator.target_range, nonconformity, run.plan.link, run.plan.exposure_name
        return Model(run.plan.encoder, scores, run.report(), *about)

    def _keep(self, model: Model) -> None:
        self.model_ = model
        self.privacy_ = model.privacy
        self.domain_ = model.domain
        self.n_features_in_ = len(model.domain.features)
        self.feature_names_in_ = np.array(model.domain.feature_names, dtype=object)

    def _warn_of_defects(self) -> None:
        """Warn of defects that released values show, once the model is complete and kept."""
        warn_of_defects(self.model_, find_defects(self.model_))

    @abstractmethod
    def _plan(self, encoder: Encoder, weight_bound: float | None, budget: Budget) -> Any:
        """Plan all releases, and calibrate the noise."""

    @abstractmethod
    def _boost(
        self,
        curator: Curator,
        plan: Any,
        target_range: TargetRange,
        public_choices: KeyStream,
        track: Any,
    ) -> Any:
        """Train on released values; `public_choices` is the randomness of public choices.

        `target_range` has the noisy counts of a number's labels, if any were released.
        """

    def preview(self, *, weighted: bool = False, n_rows: int | None = None) -> Preview:
        """Return the guarantee and price of a `fit`, without any row.

        Warns and refuses as `fit` would. The domain must be complete: what is learned of one,
        and the noise that is left for training then, depend on rows. Batches of a stream
        (`partial_fit`) are not priced.

        Parameters
        ----------
        weighted : bool
            Whether rows will have a `sample_weight`.
        n_rows : int, optional
            The number of rows, where it is public and defaults follow it (LazyBB's).

        Returns
        -------
        Preview
            The privacy report, and the balance of the account of `budget`.

        Privacy
        -------
        Spends and records nothing: it follows from parameters and the domain alone.

        Examples
        --------
        >>> from privboost import Domain, PrivBoostClassifier
        >>> domain = {"version": 1, "features": {"age": {"kind": "numeric", "bounds": [0, 100]}},
        ...           "target": {"name": "ill", "classes": ["no", "yes"]}}
        >>> preview = PrivBoostClassifier(epsilon=0.5, delta=1e-6, domain=domain).preview()
        >>> preview.privacy.epsilon <= 0.5
        True
        >>> preview.left is None  # no account was named
        True
        """
        check_flag("weighted", weighted)
        weights = "weight" if weighted else None
        return price_preview(self._stages(None, None, weights, partial(stated_rows, n_rows)))

    @property
    def feature_importances_(self) -> np.ndarray:
        """Importance of each feature, from released values. Costs no privacy.

        See `Model.feature_importances`; AttributeError where released values contain none.
        """
        found: np.ndarray = self._fitted().feature_importances()
        return found

    def explain_global(self) -> Explanation:
        """Explain the model. Costs no privacy; see `Model.explain_global`."""
        return self._fitted().explain_global()

    def explain_local(self, X: Any) -> LocalExplanation:
        """Explain the scores of rows. Costs no privacy; see `Model.explain_local`."""
        return self._fitted().explain_local(X)

    def save(self, path: str | Path) -> None:
        """Write the model to a file that `privboost.load_model` reads."""
        save_model(self._fitted(), path)

    def _fitted(self) -> Model:
        check_is_fitted(self, "model_")
        return self.model_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.sparse = True
        return tags

    def _budget(self) -> Budget:
        return budget_of(self.epsilon, self.delta, self.public_rows)

    def _run_settings(self) -> RunSettings:
        """Check the parameters that every run has."""
        check_choice("domain_rows", self.domain_rows, ("same", "other"))
        check_flag("verbose", self.verbose)
        if self.domain is not None and self.domain_given is not None:
            raise ValueError(
                "domain_given is the known part of a domain whose rest is learned: give it, or "
                "domain, not both"
            )
        account = check_account("budget", self.budget, self.random_state)
        return RunSettings(
            self._budget() if account is None else within_account(self._budget(), account),
            self.random_state,
            KeyStream.of(self.random_state),
            choose_backend(self.backend, count_threads(self.n_jobs)),
            ledger_path(self.ledger),
            account,
            type(self).__name__,
            None if self.domain is None else self._domain(),
            self.domain_rows,
            failures_of(self),
        )

    def _inference(
        self, given: FitArguments, make_plan: MakePlan, budget: Budget
    ) -> tuple[DomainInference, Any]:
        """Return the domain inference of this run, and a plan of training on a stand-in domain.

        All parameters are checked with that plan before anything is spent.
        """
        seeded = self.random_state is not None
        backend = choose_backend(self.backend, count_threads(self.n_jobs))
        part = with_classes(load_partial_domain("domain_given", self.domain_given), given.classes)
        y = target_name_of(part) if given.y is None else given.y
        own = (given.X, y, self._task, self.domain_share, budget, given.sample_weight)
        account = check_account("budget", self.budget, self.random_state)
        threshold_delta = math.inf if account is None else account.balance().threshold_delta_left
        inference = DomainInference(*own, seeded, backend, part, threshold_delta)
        spare = inference.stand_in(self._stand_in())
        self._check_target(spare)
        stand_in = make_plan(Encoder.of(spare), given.row_bound(spare), inference.rest)
        inference.check_label_type(self._counterpart())
        inference.check_features(self._named_features())
        inference.check_weights()
        if given.class_weight is not None:
            weights_in_order(given.class_weight, inference.given_classes("class_weight"))
        return inference, stand_in

    def _planner(self, count: Callable[[], int]) -> MakePlan:
        """Return the planning function, which may `count` rows if defaults depend on them."""
        return self._plan

    def _stand_in(self) -> Domain:
        """Return a domain to check parameters with before the real one is learned."""
        return _ANY_DOMAIN[self._task]

    def _named_features(self) -> Sequence[str]:
        """Return features that parameters refer to."""
        return ()

    def _domain(self) -> Domain:
        domain = self.domain
        if isinstance(domain, str | Path):
            check_path("domain", domain)
            domain = Domain.from_json(domain)
        elif isinstance(domain, dict):
            domain = Domain.from_dict(domain)
        elif not isinstance(domain, Domain):
            raise TypeError("domain must be a Domain, its dict, or the path of its JSON file")
        self._check_target(domain)
        return domain

    def _check_target(self, domain: Domain) -> None:
        """Refuse a domain with the other kind of target."""

    def _classes(self) -> tuple[Any, ...] | None:
        """Return the checked classes of the parameter `classes`."""
        classes = getattr(self, "classes", None)  # not every regressor has the parameter
        return None if classes is None else check_classes(classes, self._task)

    def _counterpart(self) -> str:
        """Return the name of the estimator for the other kind of target."""
        own, other = ("Classifier", "Regressor")[:: 1 if self._task == "classes" else -1]
        name = type(self).__name__.replace(own, other)
        return name if name in ESTIMATORS and other in name else f"PrivBoost{other}"

    def _weight_bound(self, sample_weight: Any) -> float | None:
        bound: float | None = self.sample_weight_bound
        if bound is not None:
            bound = check_size("sample_weight_bound", bound)
        if sample_weight is None:
            return None
        if bound is None:
            raise ValueError(
                "sample_weight needs sample_weight_bound: the largest weight a row may have, "
                "from public knowledge (larger ones are clipped to it). Wrappers of scikit-learn "
                "that draw rows again or weigh them (BaggingClassifier, AdaBoostClassifier) hand "
                "over weights of their own; after those there is no privacy guarantee"
            )
        return bound

    def _class_weight(self) -> Mapping[Any, float] | None:
        """Return the checked weights of classes by which rows are loaded, if there are any."""
        given = getattr(self, "class_weight", None)  # not every recipe has the parameter
        return None if given is None else check_class_weight(given, self._task)


class PublicScoreMixin:
    """Adds `score`, which is exact, to a classifier or regressor of scikit-learn."""

    def score(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, public_rows: bool | None = None
    ) -> float:
        """Return the exact accuracy, or R² of a number, on rows that must be public.

        Parameters
        ----------
        X, y, sample_weight
            As scikit-learn's estimators take them; `y` may be left out if `X` has the target.
        public_rows : bool, optional
            Declares that every row is public. By default the estimator's own `public_rows`.

        Privacy
        -------
        None: an exact score depends on every row, at any ε, and so does any choice made by it. Use
        public or synthetic rows; for private ones `privboost.evaluate` has a stated price.

        Warns
        -----
        PrivacyWarning
            Unless the rows were declared public.
        """
        own: Any = self
        declared = own.public_rows if public_rows is None else public_rows
        warn_of_score(declared, own.random_state is not None)
        if y is None:
            found: float = own._fitted().score(X, None, sample_weight, public_rows=True)
            return found
        return float(super().score(X, y, sample_weight))  # type: ignore[misc]


class PrivateClassifier(PublicScoreMixin, ClassifierMixin, PrivateEstimator):
    """Base class of classifiers."""

    _task = "classes"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # on toy tables: noise dominates
        return tags

    @property
    def classes_(self) -> np.ndarray:
        """Sorted class labels of the domain."""
        return self._fitted().classes

    def predict(self, X: Any) -> np.ndarray:
        """Predict the class of each row. Costs no privacy."""
        predicted: np.ndarray = self._fitted().predict(X, n_jobs=self.n_jobs)
        return predicted

    def decision_function(self, X: Any, return_std: bool = False) -> Any:
        """Return scores: one for each row, or one for each class beyond two. Costs no privacy.

        With `return_std`, also their standard errors due to the noise of training, where the
        recipe has them: see `Model.decision_function`.
        """
        return self._fitted().decision_function(X, return_std, self.n_jobs)

    def _check_target(self, domain: Domain) -> None:
        if not isinstance(domain.target, ClassTarget):
            raise DomainError(
                'target: a classifier needs "classes"; this target has bounds '
                '(Domain.learn takes task="classes")'
            )
        classes = self._classes()
        if classes is not None:
            check_same_classes(classes, domain.target)


class PrivateSurvival(PrivateEstimator):
    """Base class of survival models: they predict the time until an event."""

    _task = "survival"

    @property
    def scale_(self) -> float:
        """Scale s of log times around medians, which all rows share.

        Survival at t is 1/(1 + (t/median)^(1/s)).
        """
        return self._fitted().scale_

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict the median time of each row, which may lie beyond the bounds. Costs no privacy.

        With `return_std`, also their standard errors due to the noise of training, where the
        recipe has them: see `Model.predict`.
        """
        return self._fitted().predict(X, return_std, self.n_jobs)

    def predict_survival_function(self, X: Any, times: Any) -> np.ndarray:
        """Predict the probability that the event comes after each time. Costs no privacy.

        See `Model.predict_survival_function`.

        Parameters
        ----------
        X : data frame, array, or path of a file
            The rows.
        times : float, or sequence of float
            The times, 0 or more; one alone gives one column.

        Returns
        -------
        float64 array of shape (rows, times)
        """
        return self._fitted().predict_survival_function(X, times, self.n_jobs)

    def score(self, X: Any, y: Any = None, *, public_rows: bool | None = None) -> float:
        """Return Harrell's concordance, exactly, on rows that must be public.

        Parameters
        ----------
        X, y
            As `fit` takes them.
        public_rows : bool, optional
            Declares that every row is public. By default the estimator's own `public_rows`.

        Privacy
        -------
        None: an exact score depends on every row, at any ε, and so does any choice made by it. Use
        public or synthetic rows; for private ones `privboost.evaluate` has a stated price.

        Warns
        -----
        PrivacyWarning
            Unless the rows were declared public.
        """
        declared = self.public_rows if public_rows is None else public_rows
        warn_of_score(declared, self.random_state is not None)
        return self._fitted().score(X, y, public_rows=True)

    def _run_settings(self) -> RunSettings:
        if self.domain is None:
            raise ValueError(
                "domain: a survival model needs one, whose target has the bounds of times and the "
                'column of events: {"name": "time", "bounds": [1, 3650], "event": "died"}'
            )
        return super()._run_settings()

    def _weight_bound(self, sample_weight: Any) -> float | None:
        if isinstance(sample_weight, str) and self.sample_weight_bound is None:
            raise ValueError(
                f"sample_weight: weights need sample_weight_bound; if {sample_weight!r} is the "
                "column of events, the domain's target names it, and fit takes the table alone"
            )
        return super()._weight_bound(sample_weight)

    def _check_target(self, domain: Domain) -> None:
        if not isinstance(domain.target, SurvivalTarget):
            raise DomainError(
                'target: a survival model needs bounds of times above 0, and "event": the column '
                "that tells whether the event was observed"
            )


class LogisticClassifier(PrivateClassifier):
    """Base class of classifiers whose scores are log-odds."""

    def predict_proba(self, X: Any, return_std: bool = False) -> Any:
        """Return class probabilities, in the order of `classes_`. Costs no privacy.

        With `return_std`, also their standard errors due to the noise of training, where the
        recipe has them: see `Model.predict_proba`.
        """
        return self._fitted().predict_proba(X, return_std, self.n_jobs)


class PrivateRegressor(PublicScoreMixin, RegressorMixin, PrivateEstimator):
    """Base class of regressors: they predict a number within public bounds."""

    _task = "number"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # on toy tables: noise dominates
        return tags

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict the number of each row. Costs no privacy.

        With `return_std`, also their standard errors due to the noise of training, where the
        recipe has them: see `Model.predict`.
        """
        return self._fitted().predict(X, return_std, self.n_jobs)

    def _check_target(self, domain: Domain) -> None:
        if isinstance(domain.target, SurvivalTarget):
            raise DomainError(
                "target: it is a time until an event; PrivBoostSurvival predicts it, and a "
                'regressor needs a target without "event"'
            )
        if not isinstance(domain.target, NumberTarget):
            raise DomainError(
                'target: a regressor needs "bounds"; this target has classes '
                '(Domain.learn takes task="number")'
            )
