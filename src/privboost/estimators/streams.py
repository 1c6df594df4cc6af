"""Streams: rows that arrive in batches, each with its own budget for life.

What goes on from batch to batch is private: the coded rows, and what they were told. From both a
backend rebuilds every row's score and what is left of its budget. It stays in the estimator's
memory, or in a file of its own; a model, a pickle or a report never holds it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from privboost import codec
from privboost.boosting.checks import check_scores
from privboost.boosting.sbdt_plan import SBDTPlan
from privboost.engine.commands import from_bytes, to_bytes
from privboost.engine.updates import Update
from privboost.errors import BudgetError, DomainError, ModelFileError, SchemaError
from privboost.estimators.preparation import Run
from privboost.estimators.stream_checks import (
    ROW_ARRAYS,
    check_ids,
    check_log,
    read_budget,
    read_names,
    read_parameters,
    read_rows,
)
from privboost.files import UNREADABLE, FileKind, compress, decompress, write_file
from privboost.grid import MAX_SCORE
from privboost.models.checks import (
    need,
    need_array,
    need_flag,
    need_keys,
    need_list,
    need_number,
    need_text,
    need_whole,
    read_report,
)
from privboost.models.files import model_bytes, read_model
from privboost.models.model import Model
from privboost.models.trees import TreeScores
from privboost.privacy.budgets.life import LifeBudget
from privboost.privacy.statements import join_reports
from privboost.reports.report import PrivacyReport
from privboost.tables.encoding import Encoder
from privboost.tables.loader import RowLoader
from privboost.tables.loading import Coded, Load
from privboost.tables.remote import RemoteTable, refuse_mixture
from privboost.tables.rows import Rows, join

STREAM_FILE = FileKind(b"PVBSTRM", 3, "the state of a stream")
_MAGIC = b"PVBSTATE"
_MOST_ROWS = 2**31
"""Rows that a stream may have had when its file is read; as many more still have ids of 32 bits."""
_ONE_BATCH = (
    "every protected unit is in one batch of the stream (with a unit column, rows of a unit that "
    "came before are left out), batches were formed without looking at the rows, and no state of "
    "the stream, saved or copied with its process, was continued twice"
)


_HERE = "on this machine"


@dataclass(frozen=True, eq=False)
class Cohort:
    """The rows of one batch.

    Attributes
    ----------
    rows : Coded or Load
        The rows, none once they are forgotten, and the names of their units. Where they lie with a
        cluster: how its workers load them again.
    budget : LifeBudget
        The budget of each row, for life.
    used : int
        How many releases were made within it.
    report : PrivacyReport
        What its rows' budgets are worth, and what else they paid for.
    """

    rows: Coded | Load
    budget: LifeBudget
    used: int
    report: PrivacyReport

    @property
    def blocks(self) -> tuple[Rows, ...]:
        """The rows that are on this machine."""
        return self.rows.blocks if isinstance(self.rows, Coded) else ()

    def load(self, loader: RowLoader) -> Load:
        """Return what a backend is opened with; rows that are coded already need no loader."""
        return Load(loader, self.rows) if isinstance(self.rows, Coded) else self.rows

    def without_rows(self) -> Cohort:
        """Return the cohort with the names of its units alone."""
        rows = self.rows
        if isinstance(rows, Coded):
            return replace(self, rows=replace(rows, blocks=()))
        loader = rows.loader
        assert isinstance(loader, RowLoader)
        if loader.unit is None:
            return replace(self, rows=Coded(()))
        names_only = replace(loader, unit=replace(loader.unit, max_rows=0))
        return replace(self, rows=Load(names_only, rows.source))


@dataclass(frozen=True, eq=False, repr=False)
class RowStream:
    """The private state of a stream after some batches, and the parameters of the last.

    `learned` says that the domain was learned from the first batch: later ones did not pay for it.
    """

    encoder: Encoder | None = None
    weight_bound: float | None = None
    clips: tuple[float, float] = (0.0, 0.0)
    next_id: int = 0
    most_score: float = 0.0
    cohorts: tuple[Cohort, ...] = ()
    log: tuple[Update, ...] = ()
    parameters: dict[str, Any] = field(default_factory=dict)
    learned: bool = False
    unit_kind: str = "any"

    @property
    def n_batches(self) -> int:
        """How many batches there were."""
        return len(self.cohorts)

    @property
    def blocks(self) -> list[Rows]:
        """The rows of all batches."""
        return [block for cohort in self.cohorts for block in cohort.blocks]

    @property
    def place(self) -> str | None:
        """Where the rows lie, or the names of their units; None if there are none."""
        for cohort in self.cohorts:
            if isinstance(cohort.rows, Load):
                return place_of(cohort.rows.source)
            if cohort.rows.blocks or cohort.rows.units is not None:
                return _HERE
        return None

    @property
    def budgets(self) -> list[tuple[LifeBudget, int]]:
        """The budget of each cohort, and how many releases it has seen."""
        return [(cohort.budget, cohort.used) for cohort in self.cohorts]

    def check(self, plan: SBDTPlan) -> None:
        """Raise before anything is spent if a plan does not continue this stream."""
        if not self.cohorts:
            return
        if plan.weight_bound != self.weight_bound:
            raise ValueError(
                "sample_weight must be given to every batch of a stream or to none, with the same "
                "sample_weight_bound"
            )
        if _clips(plan) != self.clips:
            raise ValueError("gradient_clip and hessian_clip stay as they were at the first batch")
        check_scores(self.most_score + _most_score(plan))
        count = plan.settings.n_updates * plan.task.n_outputs + plan.settings.refinements
        for budget, used in self.budgets:
            for event in filter(None, (plan.leaf, plan.hessian)):
                budget.check(event, count, used)

    def entry_in(self, rows: str) -> str:
        """Return the entry that earlier batches have in an account; empty before the first.

        Raises
        ------
        BudgetError
            If they were charged to another account, or to none: no account would know all cohorts.
        """
        if not self.cohorts:
            return ""
        report = self.cohorts[-1].report
        if report.rows != rows:
            raise BudgetError(
                "budget: all batches of a stream are charged to the account that the first one was "
                "charged to, or to none"
            )
        return report.entry

    def check_place(self, table: Any) -> None:
        """Raise before anything is spent if a batch lies elsewhere than earlier ones."""
        if self.place not in (None, place_of(table)):
            refuse_mixture()

    def check_unit(self, kind: str) -> None:
        """Raise before anything is spent if a batch's unit column is of another kind."""
        if "any" not in (kind, self.unit_kind) and kind != self.unit_kind:
            raise SchemaError(
                f"the unit column holds values of kind {kind!r}, but earlier batches of the stream "
                f"had {self.unit_kind!r}: the same units must be written in the same way"
            )

    def extended(
        self,
        run: Run,
        rows: Coded | Load,
        n_read: int,
        log: Sequence[Update],
        parameters: dict[str, Any],
    ) -> RowStream:
        """Return the stream with one more batch: its run, its rows, and all that was told."""
        plan = run.plan
        assert isinstance(plan, SBDTPlan)
        assert plan.life is not None
        count = run.ledger.used(plan.life)
        before = [replace(cohort, used=cohort.used + count) for cohort in self.cohorts]
        newest = Cohort(rows, plan.life, count, run.report())
        return replace(
            self,
            encoder=plan.encoder,
            weight_bound=plan.weight_bound,
            clips=_clips(plan),
            next_id=self.next_id + n_read,
            most_score=self.most_score + _most_score(plan),
            cohorts=(*before, newest),
            log=tuple(log),
            parameters=parameters,
            unit_kind=run.unit_kind if self.unit_kind == "any" else self.unit_kind,
        )

    def without_rows(self) -> RowStream:
        """Return the stream with no rows of its past batches: later ones train alone."""
        return replace(self, cohorts=tuple(cohort.without_rows() for cohort in self.cohorts))

    def report(self) -> PrivacyReport:
        """State what holds for every unit of every batch."""
        return join_reports([cohort.report for cohort in self.cohorts], _ONE_BATCH)


def kept_of(load: Load) -> tuple[Coded | Load, int]:
    """Return what a stream keeps of a batch once it is loaded, and how many rows were read."""
    source = load.source
    return (source, source.n_read) if isinstance(source, Coded) else (load, source.count_rows())


def place_of(table: Any) -> str:
    """Return where the rows of a table lie."""
    return table.place if isinstance(table, RemoteTable) else _HERE


def save_stream(stream: RowStream, model: Model, path: str | Path) -> None:
    """Write the private state of a stream, and its model, to a file only its owner may read."""
    if stream.place not in (None, _HERE):
        raise ValueError(
            f"the rows of this stream, or the names of their units, lie {stream.place}, and no "
            "file here can hold them: such a stream lives as long as its process"
        )
    write_file(path, _to_bytes(stream, model), mode=0o600)


@contextmanager
def take_stream(path: str | Path, intact: Callable[[], bool]) -> Iterator[Path]:
    """Set the file of a stream aside while a batch goes on from it, so that no other one does.

    Yields where it is meanwhile. A process that dies leaves it there: what its rows paid is not
    given back. Where the new state was written before it died, the old one goes.

    Parameters
    ----------
    path : path
        The file; by the end of the work inside it is to be there anew.
    intact : callable
        Says after an error whether the state is as it was; then the file goes back to its place.
    """
    path = Path(path).resolve()  # behind a link the state itself would stay
    if path.suffix == _TAKEN:
        raise ModelFileError(f"{path.name} was taken by a batch: what its rows paid is not known")
    aside = _aside(path)
    if aside.exists() and path.exists() and _goes_on_from(path, aside):
        aside.unlink(missing_ok=True)
    if path.stat().st_nlink > 1:
        raise ModelFileError(f"{path.name} has another name: the state would stay under that one")
    try:
        os.link(path, aside)  # unlike a move, it replaces nothing
    except FileExistsError:
        raise ModelFileError(
            f"{aside} is there: another batch goes on from this state, or died on the way"
        ) from None
    path.unlink()
    try:
        yield aside
    except BaseException:
        if intact():
            aside.replace(path)
        raise
    aside.unlink(missing_ok=True)


_TAKEN = ".taken"


def _aside(path: Path) -> Path:
    return path.with_name(path.name + _TAKEN)


def _goes_on_from(path: Path, aside: Path) -> bool:
    """Whether a state has more batches than the one that was taken."""
    states = [load_stream(each)[0] for each in (path, aside)]
    return states[0].n_batches > states[1].n_batches


def load_stream(path: str | Path) -> tuple[RowStream, Model]:
    """Read the private state of a stream, and its model.

    Whatever the file holds, either `ModelFileError` is raised, or its rows and what they were told
    fit its model.
    """
    path = Path(path).resolve()
    if not path.exists() and _aside(path).exists():
        raise ModelFileError(
            f"{path}: a batch that went on from this state did not come to its end, and what its "
            "rows paid is not given back. The stream is over; its last model is in "
            f"{_aside(path).name}"
        )
    return read_stream(path.read_bytes(), str(path))


def read_stream(data: bytes, path: str) -> tuple[RowStream, Model]:
    """Read the content of a stream's file; errors name the path."""
    content = STREAM_FILE.unseal(data, path)
    try:
        form = need_keys(codec.load(_unpacked(content), _MAGIC), "file", _KEYS)
        held = need_array(form["model"], "model", np.uint8, (None,))
        model = read_model(held.data, "its model")
        return _from_form(form, model), model
    except (DomainError, ModelFileError) as error:
        raise ModelFileError(f"{path} holds no stream: {error}") from None
    except UNREADABLE:
        raise ModelFileError(f"{path} holds no stream: its form is not that of one") from None


_KEYS = (
    "model",
    "weight_bound",
    "clips",
    "next_id",
    "most_score",
    "cohorts",
    "parameters",
    "learned",
    "unit_kind",
    "lengths",
    "log",
)


def _to_bytes(stream: RowStream, model: Model) -> bytes:
    messages = [to_bytes(update) for update in stream.log]
    form = {
        "model": np.frombuffer(model_bytes(model), dtype=np.uint8),
        "weight_bound": stream.weight_bound,
        "clips": list(stream.clips),
        "next_id": stream.next_id,
        "most_score": stream.most_score,
        "cohorts": [_cohort_form(cohort) for cohort in stream.cohorts],
        "parameters": stream.parameters,
        "learned": stream.learned,
        "unit_kind": stream.unit_kind,
        "lengths": [len(message) for message in messages],
        "log": np.frombuffer(b"".join(messages), dtype=np.uint8),
    }
    return STREAM_FILE.seal(_packed(codec.dump(form, _MAGIC)))


def _packed(data: bytes) -> bytes:
    """Compress arrays, but no text: once read, that takes many times its size."""
    start = codec.text_end(data)
    return data[:start] + compress(data[start:])


def _unpacked(content: bytes | memoryview) -> bytes:
    start = codec.text_end(content)
    return bytes(content[:start]) + decompress(content[start:])


def _cohort_form(cohort: Cohort) -> dict[str, Any]:
    assert isinstance(cohort.rows, Coded)
    units, blocks = cohort.rows.units, cohort.rows.blocks
    rows = join(blocks) if blocks else None
    return {
        "rows": None if rows is None else _rows_form(rows),
        "budget": cohort.budget.to_dict(),
        "used": cohort.used,
        "report": cohort.report.to_dict(),
        "units": None if units is None else _names_form(units.to_pylist()),
    }


def _rows_form(rows: Rows) -> dict[str, Any]:
    held = vars(rows) | {"narrow": rows.codes.narrow, "wide": rows.codes.wide}
    return {name: held[name] for name in ROW_ARRAYS}


def _names_form(names: list[bytes]) -> dict[str, np.ndarray]:
    return {
        "ends": np.cumsum([len(name) for name in names], dtype=np.int64),
        "bytes": np.frombuffer(b"".join(names), dtype=np.uint8),
    }


def _from_form(form: dict[str, Any], model: Model) -> RowStream:
    encoder, bound = model.encoder, form["weight_bound"]
    need(model.scores.kind == TreeScores.kind, "model", "a stream's model is one of trees")
    need(not model.privacy.public_rows, "model", "a stream's rows are private")
    if bound is not None:
        need_number(bound, "weight_bound", 0, above=True)
    clips = need_list(form["clips"], "clips", 2)
    for clip in clips:
        need_number(clip, "clips", 0, above=True)
    parameters = read_parameters(form["parameters"])
    cohorts = tuple(
        _read_cohort(each, encoder, bound is not None, number)
        for number, each in enumerate(need_list(form["cohorts"], "cohorts"))
    )
    need(len(cohorts) > 0, "cohorts", "a stream has a batch")
    next_id = need_whole(form["next_id"], "next_id", 0, _MOST_ROWS)
    check_ids([cohort.blocks for cohort in cohorts], next_id)
    log = _read_log(form)
    used = [cohort.used for cohort in cohorts]
    check_log(log, encoder, bound is not None, used, model.span)
    most_score = need_number(form["most_score"], "most_score", 0, MAX_SCORE)
    return RowStream(
        encoder,
        bound,
        (clips[0], clips[1]),
        next_id,
        most_score,
        cohorts,
        log,
        parameters,
        need_flag(form["learned"], "learned"),
        need_text(form["unit_kind"], "unit_kind"),
    )


def _read_cohort(form: Any, encoder: Encoder, weighted: bool, number: int) -> Cohort:
    form = need_keys(form, "cohorts", ("rows", "budget", "used", "report", "units"))
    budget = read_budget(form["budget"])
    blocks = read_rows(form["rows"], encoder, weighted, number)
    units = read_names(form["units"], encoder.domain.unit is not None)
    report = read_report(form["report"], "report")
    need(not report.public_rows, "report", "a stream's rows are private")
    return Cohort(
        Coded(blocks, units, sum(map(len, blocks))),
        budget,
        need_whole(form["used"], "used", 0, budget.releases),
        report,
    )


def _read_log(form: dict[str, Any]) -> tuple[Update, ...]:
    log = need_array(form["log"], "log", np.uint8, (None,)).tobytes()
    lengths = need_list(form["lengths"], "lengths")
    for length in lengths:
        need_whole(length, "lengths", 0, len(log))
    need(sum(lengths) == len(log), "lengths", "they must add up to the log")
    ends = accumulate(lengths, initial=0)
    return tuple(from_bytes(log[start:end]) for start, end in pairwise(ends))


def _clips(plan: SBDTPlan) -> tuple[float, float]:
    return plan.step.gradient_clip, plan.step.hessian_clip


def _most_score(plan: SBDTPlan) -> float:
    trees = plan.settings.n_estimators + plan.settings.extra_estimators
    return float(trees * plan.step.leaf_clip * plan.step.learning_rate)
