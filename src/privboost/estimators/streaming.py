"""Streams: `partial_fit` on batches of rows, each with an individual privacy filter."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from threading import Lock
from typing import Any, Self

from privboost._core.errors import BudgetError, DomainError
from privboost._core.progress import counting_charges, messages_printed
from privboost._core.threads import count_threads
from privboost._core.unit import Unit
from privboost._core.warnings import delayed_warnings
from privboost.accounts.account import PendingCharge
from privboost.data.encoding import Encoder
from privboost.data.loading import Load, RowLoader, load_rows
from privboost.data.table import RemoteTable, Table
from privboost.data.targets import ClassTarget
from privboost.domain_inference.partial_domain import check_classes, check_same_classes
from privboost.engine.backend import RecordingBackend
from privboost.estimators.base import PrivateEstimator
from privboost.estimators.foreign_parameters import answers_foreign_names
from privboost.estimators.mixins import TreeEstimator
from privboost.estimators.preparation import (
    DomainAndBudget,
    FitArguments,
    Preparation,
    Run,
    open_table,
    remembering_failure,
)
from privboost.estimators.stream_files import load_stream, save_stream
from privboost.estimators.stream_format import STREAM_PARAMETERS
from privboost.estimators.stream_state import RowStream
from privboost.mechanisms.curator import Curator
from privboost.models.model import Model
from privboost.models.trees import TreeScores
from privboost.randomness.keystream import KeyStream
from privboost.recipes.common.plan import Budget, Plan, PublicRows
from privboost.recipes.common.target_range import find_target_range
from privboost.reports.report import PrivacyReport


class BatchPreparation(Preparation):
    """Preparation of a batch: its plan continues the stream."""

    def __init__(self, stream: RowStream, *stages: Any) -> None:
        super().__init__(*stages)
        self._stream = stream

    @cached_property
    def keys(self) -> KeyStream:
        """The randomness of this batch."""
        return self.run_settings.keys.child(f"batch {self._stream.n_batches + 1}")

    def domain_and_budget(self) -> DomainAndBudget:
        """Return the domain, which stays that of the first batch."""
        if self._stream.encoder is None:
            return super().domain_and_budget()
        domain = self._stream.encoder.domain
        said = self.run_settings.domain
        if said is not None and (said, said.privacy) != (domain, domain.privacy):
            raise DomainError(
                "domain: it must equal the first batch's, with its price; a domain that was "
                "learned again costs these rows, and is not needed"
            )
        earlier = None if self._stream.learned else self.inference_before(domain)
        return DomainAndBudget(domain, self.run_settings.budget, earlier)

    def pending_charge(
        self, unit: Unit | None, inference: PrivacyReport | None = None
    ) -> PendingCharge | None:
        """Return this batch's charge to the stream's entry in the account."""
        pending_charge = super().pending_charge(unit, inference)
        entry = self._stream.entry_in("" if pending_charge is None else pending_charge.rows)
        if pending_charge is None:
            return None
        return replace(pending_charge, stream=entry, batch=self._stream.n_batches + 1)

    def rows(self, plan: Plan) -> tuple[RowLoader, Table]:
        """Return the loader of rows, with their own ids and cohort, and the table."""
        loader, table = super().rows(plan)
        stream = self._stream
        return replace(loader, first_id=stream.next_id, cohort=stream.n_batches), table

    def check_table(self, plan: Any, loader: Any, table: Table) -> str:
        """Refuse a table that does not fit the domain, and a plan that does not continue."""
        unit_kind = super().check_table(plan, loader, table)
        self._stream.check(plan)
        self._stream.check_unit(unit_kind)
        return unit_kind


class StreamEstimator(TreeEstimator):
    """Base class of estimators with `partial_fit`.

    A recipe provides `_plan_batch`, `_begin` (the initial model) and `_go_on` (more trees).
    """

    @abstractmethod
    def _plan_batch(
        self, batch: int, encoder: Encoder, weight_bound: float | None, budget: Budget
    ) -> Plan:
        """Plan the releases of a batch; `batch` is the number of earlier ones."""

    @abstractmethod
    def _begin(self, run: Run, curator: Curator) -> TreeScores:
        """Return the model before its first tree."""

    @abstractmethod
    def _go_on(self, run: Run, curator: Curator, before: TreeScores) -> TreeScores:
        """Add the trees of a batch."""

    @answers_foreign_names
    def partial_fit(
        self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None
    ) -> Self:
        """Train on the next batch of a stream; rows of earlier batches go on contributing.

        The first call begins a stream. Each later one adds `n_estimators` trees, with noise that is
        calibrated for the new rows. A row of an earlier batch takes part until its own budget, an
        individual privacy filter, is spent.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`.
        classes : sequence, optional
            The classes, as in scikit-learn: the same as the parameter `classes`. They must be the
            domain's where there is one, and those of the first batch later on.

        Returns
        -------
        self

        Privacy
        -------
        Every protected unit of every batch has the guarantee (`epsilon`, `delta`) for the whole
        stream, if it is in one batch only; rows of a unit that came with an earlier batch are left
        out. Without a unit column every row given is a new unit: give no row twice. The estimator
        keeps the coded rows (of a cluster's frames: the frames, which must not change): see
        `save_stream` and `forget_rows`. Steps that were fitted to the rows before, and parameters
        that were chosen by exact scores on them, are not covered. A batch that fails after its
        budget was reserved ends the stream, the first one too: its charge is not refunded. A batch
        that is refused before leaves the stream unchanged.

        Warns
        -----
        FitWarning
            As `fit` does, once the batch is complete: the stream can go on.
        """
        with (
            delayed_warnings() as held,
            self._alone(),
            self._ending_stream(),
            remembering_failure(self),
        ):
            stream = self._stream_to_continue()
            self._stream = None  # until all is done: a reservation is not refunded
            known = self._classes_of_batch(stream, classes)
            with messages_printed(bool(self.verbose)):
                run = self._prepare_batch(stream, X, y, sample_weight, known).run()
            loads = self._loads(stream, run)
            backend = RecordingBackend(run.run_settings.open_backend(loads))
            try:
                scores, target_range = self._continue(run, stream, backend)
            finally:
                backend.close()
            given = self.get_params()
            own = {name: given[name] for name in given if name in STREAM_PARAMETERS}
            grown = stream.extended(run, loads[-1], backend.log, own)
            self._keep(Model(run.plan.encoder, scores, grown.report(), target_range))
            self._stream = grown
        held.say()
        self._warn_of_defects()
        return self

    def _prepare_batch(
        self, stream: RowStream, X: Any, y: Any, sample_weight: Any, classes: Any = None
    ) -> BatchPreparation:
        if isinstance(self._budget(), PublicRows):
            raise BudgetError(
                "public_rows: a stream keeps a privacy filter for each row, and public rows have "
                "none; give all rows to fit"
            )
        if self._class_weight() is not None:
            raise ValueError(
                "class_weight: a stream takes none; give its rows public weights one by one, as "
                "sample_weight"
            )
        X = open_table(X, self.backend)
        stream.check_place(X)
        bound = self._weight_bound(sample_weight)
        given = FitArguments(X, y, sample_weight, bound, classes=classes)
        make_plan = partial(self._plan_batch, stream.n_batches)
        inference = partial(self._inference, given, make_plan)
        return BatchPreparation(stream, self._run_settings(), given, make_plan, inference)

    def _loads(self, stream: RowStream, run: Run) -> list[Load]:
        """Return the loads of all batches; rows of this machine are coded, to be kept."""
        loader = run.load.loader
        assert isinstance(loader, RowLoader)
        before = [cohort.load(loader) for cohort in stream.cohorts]
        if isinstance(run.load.source, RemoteTable):
            return [*before, run.load]
        rows = load_rows([*before, run.load], count_threads(self.n_jobs))[-1]
        return [*before, Load(loader, rows)]

    def _stream_to_continue(self) -> RowStream:
        stream: RowStream | None = getattr(self, "_stream", None)
        if stream is not None:
            return stream
        if hasattr(self, "model_") or "_stream" in self.__dict__:
            raise ValueError(
                "this estimator has no stream to continue: fit spends the whole budget and keeps "
                "no rows, copies have none, and a batch that failed midway ends a stream. Begin "
                "one with a new estimator's partial_fit, or load_stream one"
            )
        return RowStream(learned=self.domain is None)

    def _continue(
        self, run: Run, stream: RowStream, backend: RecordingBackend
    ) -> tuple[TreeScores, tuple[int, int]]:
        """Boost on the rows of all batches, after a replay of the update log.

        Returns the trees, and the clipping range of a number, which is that of the first batch.
        """
        curator = run.curator(backend)
        if stream.n_batches:
            curator.resume(stream.log, stream.budgets)
            before = self._fitted()
            assert isinstance(before.scores, TreeScores)
            return self._go_on(run, curator, before.scores), before.span
        target_range = find_target_range(curator, run.plan)
        return self._go_on(run, curator, self._begin(run, curator)), target_range.ends

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Allow one thread at a time: two must not continue from the same state."""
        lock = self.__dict__.setdefault("_training", Lock())
        if not lock.acquire(blocking=False):
            raise RuntimeError("this estimator is being trained in another thread")
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def _ending_stream(self) -> Iterator[None]:
        """End the stream until the block sets its new state.

        The old state is restored if the block fails before anything was reserved.
        """
        own = self.__dict__
        before = {"_stream": own["_stream"]} if "_stream" in own else {}
        with counting_charges() as charges:
            try:
                yield
            except BaseException:
                if not charges.count:
                    own.pop("_stream", None)
                    own.update(before)
                raise

    @property
    def n_batches_(self) -> int:
        """Number of batches of the stream that `partial_fit` would continue; 0 without one."""
        stream: RowStream | None = getattr(self, "_stream", None)
        return 0 if stream is None else stream.n_batches

    def save_stream(self, path: str | Path) -> None:
        """Write the private state of a stream: coded rows, what they have spent, and the model.

        The file is as secret as the table itself; a model's own file (see `save`) never holds any
        of it. Keep only the newest: rows that continue from an older state spend their budgets
        twice. A stream with rows of a cluster is refused: the driver does not hold them.
        """
        save_stream(self._need_stream(), self._fitted(), path)

    def load_stream(self, path: str | Path) -> Self:
        """Load a stream that `save_stream` wrote, with its model.

        Later batches use this estimator's own parameters.
        """
        stream, model = load_stream(path)
        self._check_target(model.domain)
        with self._alone():
            self._stream = stream
            self._keep(model)
        return self

    def forget_rows(self) -> Self:
        """Forget all rows of a stream; later batches train alone, on top of the model.

        The model may then drift away from what the old rows taught it.
        """
        with self._alone():
            self._stream = self._need_stream().without_rows()
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the lock and the rows; a stream has ended in the copy."""
        state = {**super().__getstate__()}
        state.pop("_training", None)
        return state | ({"_stream": None} if "_stream" in state else {})

    @answers_foreign_names
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:  # noqa: D102
        with self._alone(), self._ending_stream():
            self._stream = None
            super().fit(X, y, sample_weight)
        return self

    fit.__doc__ = PrivateEstimator.fit.__doc__

    def _need_stream(self) -> RowStream:
        stream: RowStream | None = getattr(self, "_stream", None)
        if stream is None or not stream.n_batches:
            raise ValueError("there is no stream: begin one with partial_fit")
        return stream

    def _classes_of_batch(self, stream: RowStream, classes: Any) -> tuple[Any, ...] | None:
        """Return the classes of the arguments; refuse any that contradict the domain."""
        own = self._classes()
        given = own if classes is None else check_classes(classes, self._task)
        if given is None:
            return None
        known = None if self.domain is None else self._domain()
        known = known if stream.encoder is None else stream.encoder.domain
        if known is not None and isinstance(known.target, ClassTarget):
            check_same_classes(given, known.target)
        if own is not None:
            check_same_classes(given, ClassTarget("y", own))
        return given
