"""What all estimators share: from parameters and a table to a model and its privacy report."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from privboost.boosting.checks import check_choice, check_number
from privboost.boosting.plan import Budget
from privboost.cautions import caution
from privboost.domain import ClassTarget, Domain, NumberTarget, NumericFeature
from privboost.encoding import Encoder, TrainingRows, check_schema, encode_training
from privboost.engine.backend import Backend, LocalBackend, OpenBackend
from privboost.engine.block import Block
from privboost.errors import DomainError
from privboost.estimators.learning import Lesson, learn_apart, learn_within
from privboost.estimators.parameters import check_arguments
from privboost.grid import BLOCK_ROWS
from privboost.models.files import save_model
from privboost.models.model import Model
from privboost.privacy.accountants.gdp import GdpAccountant
from privboost.privacy.keystream import KeyStream
from privboost.privacy.ledger import Ledger
from privboost.privacy.mechanisms import Curator
from privboost.privacy.report import PrivacyReport
from privboost.privacy.statements import add_lesson, check_lesson, write_report
from privboost.privacy.units import bound_units
from privboost.progress import rounds_bar
from privboost.unit import unit_assumptions

_ANY_FEATURE = (NumericFeature("x", (0, 1)),)
_ANY_DOMAIN = {
    "classes": Domain(_ANY_FEATURE, ClassTarget("y", (0, 1))),
    "number": Domain(_ANY_FEATURE, NumberTarget("y", (0, 1))),
}
"""Stand for a domain that is yet to be learned, so that parameters are checked before."""


MakePlan = Callable[[Encoder, float | None, Budget], Any]


@dataclass(frozen=True, eq=False)
class Run:
    """A fit that is ready to train: everything is reserved, the rows are coded."""

    encoder: Encoder
    plan: Any
    digest: str
    ledger: Ledger
    lesson: PrivacyReport | None
    keys: KeyStream
    rows: TrainingRows
    open_backend: OpenBackend
    assumptions: tuple[str, ...]
    seeded: bool

    @property
    def blocks(self) -> list[Block]:
        """The rows."""
        return self.rows.blocks

    def curator(self, backend: Backend) -> Curator:
        """Return who stands between these rows and the recipe."""
        return Curator(backend, self.ledger, self.keys.child("releases"), self.plan.contribution)

    def report(self) -> PrivacyReport:
        """State what the run spends."""
        report = write_report(
            self.ledger,
            self.encoder.domain.unit,
            self.assumptions,
            self.seeded,
            self.plan.parameters,
            self.digest,
        )
        return report if self.lesson is None else add_lesson(self.lesson, report, "training")


class PrivateEstimator(BaseEstimator, ABC):
    """The shared part of `fit`. A recipe provides `_plan` and `_boost`.

    Parameters never change in `fit`; nothing of the rows stays on the estimator afterwards.
    """

    _task: str
    """What the target is: "classes" or "number"."""

    def __new__(cls, *by_place: Any, **by_name: Any) -> Self:
        """Refuse arguments that the constructor does not have."""
        check_arguments(cls, by_place, by_name)
        return super().__new__(cls)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Train a private model.

        Parameters
        ----------
        X : data frame, array, or path of a Parquet or CSV file
            The rows. A frame may have more columns than the domain; an array has exactly the
            domain's features, in order.
        y : one-dimensional or str, optional
            The target; by default the column of `X` that the domain names. Without a domain, the
            name of that column may be given.
        sample_weight : one-dimensional or str, optional
            Weights, or the column of `X` that holds them; `sample_weight_bound` must be given.
            A weight that is negative or no number counts as 0, in silence: a complaint would tell
            about the rows.

        Returns
        -------
        self

        Privacy
        -------
        Spends the whole budget (`epsilon`, `delta`) on these rows; `privacy_` says on what. All
        is reserved before a row is read. A second `fit` on the same rows spends it again. What was
        fitted to the rows before (a scaler, an imputer), and parameters that exact scores on them
        chose (a grid search), are not covered at any ε.
        """
        run = self._prepare(X, y, sample_weight, self._planner(X))
        backend = run.open_backend(run.blocks)
        try:
            curator = run.curator(backend)
            structures = run.keys.child("structures")
            scores = self._boost(curator, run.plan, structures, rounds_bar(bool(self.verbose)))
        finally:
            backend.close()
        self._keep(Model(run.encoder, scores, run.report()))
        return self

    def _prepare(
        self, X: Any, y: Any, sample_weight: Any, make_plan: MakePlan, earlier: Any = None
    ) -> Run:
        """Check everything, reserve the whole plan, and only then read and code the rows.

        `earlier` is the stream that the rows continue (see `streams.RowStream`), if any.
        """
        budget = Budget(self.epsilon, self.delta)
        keys = KeyStream.of(self.random_state)
        caution(budget.epsilon, budget.delta, self.random_state)
        if earlier is not None:
            keys = keys.child(f"batch {earlier.n_batches + 1}")
        threads = self._threads()
        open_backend = self._open_backend(threads)
        weight_bound = self._weight_bound(sample_weight)
        ledger = Ledger(budget.epsilon, budget.delta, GdpAccountant(), self._ledger_path())
        domain, placeholder, paid = None, None, None
        if earlier is not None and earlier.n_batches:
            domain = earlier.encoder.domain
            said = None if self.domain is None else self._domain()
            if said is not None and (said, said.privacy) != (domain, domain.privacy):
                raise DomainError(
                    "domain: a stream goes on with the domain it began with, and with its price; "
                    "one that was learned anew costs these rows, and is not needed"
                )
        elif self.domain is not None:
            domain = self._domain()
        learned = domain is None
        if domain is not None:
            paid = None if earlier is not None and earlier.learned else self._paid_before(domain)
        else:
            lesson = Lesson(
                X, y, self._task, self.domain_share, budget, self.random_state is not None
            )
            stand_in = make_plan(Encoder.of(self._stand_in()), weight_bound, lesson.rest)
            lesson.check_features(self._named_features())
            lesson.check_beside(sample_weight)
            if all(planned.event.mu is not None for planned in stand_in.releases):
                domain, budget, placeholder = learn_within(lesson, ledger, keys)
            else:
                own = lesson.own(stand_in.releases[0].event.relation)
                apart = Ledger(*own, ledger.accountant, self._ledger_path())
                domain, budget = learn_apart(lesson, apart, keys), lesson.rest
                paid = domain.privacy
                ledger = Ledger(
                    budget.epsilon, budget.delta, ledger.accountant, self._ledger_path()
                )
        encoder = Encoder.of(domain)
        try:
            plan = make_plan(encoder, weight_bound, budget)
        except ValueError as error:
            if not learned:
                raise
            raise ValueError(
                f"{error} (the domain was learned, and what that costs is spent: keep to a domain "
                "that you write, or learn it once with Domain.learn)"
            ) from None
        digest = plan.digest
        unit_kind = check_schema(encoder, X, y, sample_weight)
        if earlier is not None:
            earlier.check(plan)
            earlier.check_unit(unit_kind)
        if placeholder is None:
            ledger.accountant = plan.accountant
            ledger.reserve(plan.releases)
        else:
            ledger.exchange(placeholder, plan.releases, plan.accountant)
        rows = encode_training(
            encoder,
            X,
            y,
            sample_weight,
            weight_bound,
            block_rows=_block_rows(X, threads),
            first_id=0 if earlier is None else earlier.next_id,
            cohort=0 if earlier is None else earlier.n_batches,
            n_threads=threads,
        )
        if domain.unit is not None:
            unit = rows.unit if earlier is None else earlier.newcomers(rows)
            assert unit is not None
            bounded = bound_units(rows.blocks, unit, domain.unit.max_rows, keys.child("units"))
            rows = replace(rows, blocks=bounded)
        assumed = (
            *_assumptions(domain, weight_bound, learned, paid is not None),
            *plan.assumptions,
        )
        seeded = self.random_state is not None
        return Run(encoder, plan, digest, ledger, paid, keys, rows, open_backend, assumed, seeded)

    def _paid_before(self, domain: Domain) -> PrivacyReport | None:
        """Return what learning the domain cost these rows, if it was learned from them."""
        check_choice("domain_rows", self.domain_rows, ("same", "other"))
        if self.domain_rows == "other":
            return None
        domain.check_price()
        if domain.privacy is None:
            return None
        check_lesson(domain.privacy, domain.unit)
        return domain.privacy

    def _keep(self, model: Model) -> None:
        self.model_ = model
        self.privacy_ = model.privacy
        self.domain_ = model.domain
        self.n_features_in_ = len(model.domain.features)
        self.feature_names_in_ = np.array(model.domain.feature_names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags

    def predict(self, X: Any) -> np.ndarray:
        """Predict the class, or the number, of each row. Costs no privacy."""
        return self._fitted().predict(X)

    @property
    def feature_importances_(self) -> np.ndarray:
        """How much each feature moves the score, as released values tell. Costs no privacy.

        See `Model.feature_importances`; where released values do not tell, there is none.
        """
        return self._fitted().feature_importances()

    def save(self, path: str | Path) -> None:
        """Write the model to a file that `privboost.load_model` reads."""
        save_model(self._fitted(), path)

    def _fitted(self) -> Model:
        check_is_fitted(self, "model_")
        return self.model_

    def _planner(self, X: Any) -> MakePlan:
        """Return what makes the plan; a recipe may look at what is public about a table."""
        return self._plan

    def _stand_in(self) -> Domain:
        """Return a domain to check parameters with, while the real one is yet to be learned."""
        return _ANY_DOMAIN[self._task]

    def _named_features(self) -> Sequence[str]:
        """Return the features that parameters name."""
        return ()

    @abstractmethod
    def _plan(self, encoder: Encoder, weight_bound: float | None, budget: Budget) -> Any:
        """Decide everything, and calibrate the noise."""

    @abstractmethod
    def _boost(self, curator: Curator, plan: Any, structures: KeyStream, track: Any) -> Any:
        """Train on released values; `structures` is randomness for public choices."""

    def _domain(self) -> Domain:
        domain = self.domain
        if isinstance(domain, str | Path):
            domain = Domain.from_json(domain)
        elif isinstance(domain, dict):
            domain = Domain.from_dict(domain)
        elif not isinstance(domain, Domain):
            raise TypeError("domain must be a Domain, its dict form, or the path of its JSON file")
        self._check_target(domain)
        return domain

    def _check_target(self, domain: Domain) -> None:
        """Refuse a domain whose target is of the other kind."""

    def _threads(self) -> int:
        jobs = 1 if self.n_jobs is None else self.n_jobs
        if not isinstance(jobs, int | np.integer) or isinstance(jobs, bool) or jobs == 0:
            raise ValueError("n_jobs must be a whole number other than 0, or None")
        cores = os.cpu_count() or 1
        return int(jobs) if jobs > 0 else max(1, cores + 1 + int(jobs))

    def _weight_bound(self, sample_weight: Any) -> float | None:
        bound = self.sample_weight_bound
        if bound is not None:
            bound = check_number("sample_weight_bound", bound, above=0)
        if sample_weight is None:
            return None
        if bound is None:
            raise ValueError(
                "sample_weight needs sample_weight_bound: the largest weight a row may have, "
                "from public knowledge (larger ones are clipped to it)"
            )
        return bound

    def _ledger_path(self) -> Path | None:
        if self.ledger is not None and not isinstance(self.ledger, str | Path):
            raise TypeError("ledger must be the path of a file, or None")
        return None if self.ledger is None else Path(self.ledger)

    def _open_backend(self, threads: int) -> OpenBackend:
        if self.backend == "local":
            return partial(LocalBackend, n_threads=threads)
        if callable(self.backend):
            return self.backend
        raise ValueError('backend must be "local" or a callable that takes blocks of rows')


class PrivateClassifier(ClassifierMixin, PrivateEstimator):
    """Adds classes."""

    _task = "classes"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # on toy tables, which noise drowns
        return tags

    @property
    def classes_(self) -> np.ndarray:
        """The domain's classes, sorted."""
        return self._fitted().classes

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the exact accuracy on some rows, which must be public.

        Privacy
        -------
        None: an exact score tells about every row in it, at any ε, and so does whatever is chosen
        by it. Use public or synthetic rows.
        """
        return super().score(X, y, sample_weight)

    def decision_function(self, X: Any) -> np.ndarray:
        """Return scores: one for each row, or one for each class beyond two. Costs no privacy."""
        return self._fitted().decision_function(X)

    def _check_target(self, domain: Domain) -> None:
        if not isinstance(domain.target, ClassTarget):
            raise DomainError(
                'target: a classifier needs "classes"; this target has bounds '
                '(Domain.learn takes task="classes")'
            )


class LogisticClassifier(PrivateClassifier):
    """Adds probabilities: scores are log-odds."""

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return class probabilities, in the order of `classes_`. Costs no privacy."""
        return self._fitted().predict_proba(X)


class PrivateRegressor(RegressorMixin, PrivateEstimator):
    """Predicts a number within public bounds."""

    _task = "number"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # on toy tables, which noise drowns
        return tags

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the exact R² on rows that must be public: see `PrivateClassifier.score`."""
        return super().score(X, y, sample_weight)

    def _check_target(self, domain: Domain) -> None:
        if not isinstance(domain.target, NumberTarget):
            raise DomainError(
                'target: a regressor needs "bounds"; this target has classes '
                '(Domain.learn takes task="number")'
            )


def _block_rows(X: Any, threads: int) -> int:
    """Choose blocks small enough that every thread has one, where the table's length is known."""
    rows = len(X) if hasattr(X, "__len__") and not isinstance(X, str) else BLOCK_ROWS * threads
    return min(BLOCK_ROWS, max(1024, -(-rows // threads)))


def _assumptions(
    domain: Domain, weight_bound: float | None, learned: bool, paid: bool
) -> tuple[str, ...]:
    """Say what was taken to be public, and what else the guarantee rests on.

    `learned` says that the domain was learned in this fit or stream, `paid` that its price is a
    part of the guarantee.
    """
    said = [
        _origin(domain, learned, paid),
        "all parameters of the estimator were chosen, and all that came before it was fitted, "
        "without these rows or exact scores on them",
        "these rows were used in no other release; another one adds to the epsilon stated here",
    ]
    if domain.unit is not None:
        said += unit_assumptions(domain.unit)
    if weight_bound is not None:
        said.append(f"sample weights are clipped to [0, {weight_bound:g}], a public bound")
    named = {part.name: part.reason for part in (*domain.features, domain.target)}
    named = {} if learned or domain.privacy is not None else named
    if domain.unit is not None:
        named[domain.unit.column] = domain.unit.reason
    said += [f"public about {name!r}: {reason}" for name, reason in named.items() if reason]
    return tuple(said)


def _origin(domain: Domain, learned: bool, paid: bool) -> str:
    """Say where the domain comes from."""
    if domain.privacy is None:
        return (
            "the domain is public: names, bounds, categories, classes and edges were not read "
            "off the rows"
        )
    if learned or paid:
        return (
            "the columns of the table and their types are public; bounds, categories and classes "
            "were learned privately, within this epsilon"
        )
    return (
        f"the domain was learned privately ({domain.privacy.guarantee}) from other rows: no "
        "protected unit is among both"
    )
