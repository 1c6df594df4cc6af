"""Streams: rows that arrive in batches, each with its own budget for life.

What goes on from batch to batch is private: the coded rows, and what they were told. From both a
backend rebuilds every row's score and what is left of its budget. It stays in the estimator's
memory, or in a file of its own; a model, a pickle or a report never holds it.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privboost import codec
from privboost.boosting.checks import check_scores
from privboost.boosting.tree_plan import TreePlan
from privboost.domain import Domain
from privboost.encoding import Encoder, TrainingRows
from privboost.engine.block import Block, join
from privboost.engine.commands import Update, from_bytes, to_bytes
from privboost.errors import ModelFileError, SchemaError
from privboost.grid import BLOCK_ROWS
from privboost.models.files import model_bytes, read_model
from privboost.models.model import Model
from privboost.privacy.budgets import LifeBudget, budget_from_dict
from privboost.privacy.report import PrivacyReport, join_reports

_MAGIC = b"PVBSTR\x00\x02"
_ONE_BATCH = (
    "every protected unit is in one batch of the stream (with a unit column, rows of a unit that "
    "came before are left out), batches were formed without looking at the rows, and no saved "
    "state of the stream was continued twice"
)


@dataclass(frozen=True, eq=False)
class Cohort:
    """The rows of one batch.

    Attributes
    ----------
    blocks : tuple of Block
        The rows; none once they are forgotten.
    budget : LifeBudget
        The budget of each row, for life.
    used : int
        How many releases were made within it.
    report : PrivacyReport
        What its rows' budgets are worth, and what else they paid for.
    units : pyarrow.Array or None
        The names of its units, where the domain names a unit column.
    """

    blocks: tuple[Block, ...]
    budget: LifeBudget
    used: int
    report: PrivacyReport
    units: pa.Array | None


@dataclass(frozen=True, eq=False, repr=False)
class RowStream:
    """The private state of a stream after some batches, and the parameters of the last."""

    encoder: Encoder | None = None
    weight_bound: float | None = None
    clips: tuple[float, float] = (0.0, 0.0)
    next_id: int = 0
    most_score: float = 0.0
    cohorts: tuple[Cohort, ...] = ()
    log: tuple[Update, ...] = ()
    parameters: dict[str, Any] = field(default_factory=dict)
    unit_kind: str = "any"

    @property
    def n_batches(self) -> int:
        """How many batches there were."""
        return len(self.cohorts)

    @property
    def blocks(self) -> list[Block]:
        """The rows of all batches."""
        return [block for cohort in self.cohorts for block in cohort.blocks]

    @property
    def budgets(self) -> list[tuple[LifeBudget, int]]:
        """The budget of each cohort, and how many releases it has seen."""
        return [(cohort.budget, cohort.used) for cohort in self.cohorts]

    def check(self, plan: TreePlan) -> None:
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

    def check_unit(self, kind: str) -> None:
        """Raise before anything is spent if a batch's unit column is of another kind."""
        if "any" not in (kind, self.unit_kind) and kind != self.unit_kind:
            raise SchemaError(
                f"the unit column holds values of kind {kind!r}, but earlier batches of the stream "
                f"had {self.unit_kind!r}: the same units must be written in the same way"
            )

    def newcomers(self, rows: TrainingRows) -> np.ndarray:
        """Return the unit of each row, negative for units that came with an earlier batch."""
        assert rows.unit is not None
        unit = rows.unit.copy()
        for cohort in self.cohorts:
            known = pc.is_in(rows.unit_names, value_set=cohort.units).to_numpy(zero_copy_only=False)
            unit[(unit >= 0) & np.append(known, False)[unit]] = -1
        return unit

    def extended(
        self,
        plan: TreePlan,
        rows: TrainingRows,
        report: PrivacyReport,
        count: int,
        log: Sequence[Update],
        parameters: dict[str, Any],
    ) -> RowStream:
        """Return the stream with one more batch, after so many releases."""
        assert plan.life is not None
        before = [replace(cohort, used=cohort.used + count) for cohort in self.cohorts]
        newest = Cohort(tuple(rows.blocks), plan.life, count, report, rows.unit_names)
        return RowStream(
            plan.encoder,
            plan.weight_bound,
            _clips(plan),
            self.next_id + rows.n_read,
            self.most_score + _most_score(plan),
            (*before, newest),
            tuple(log),
            parameters,
            rows.unit_kind if self.unit_kind == "any" else self.unit_kind,
        )

    def without_rows(self) -> RowStream:
        """Return the stream with no rows of its past batches: later ones train alone."""
        return replace(self, cohorts=tuple(replace(cohort, blocks=()) for cohort in self.cohorts))

    def report(self) -> PrivacyReport:
        """State what holds for every unit of every batch."""
        return join_reports([cohort.report for cohort in self.cohorts], _ONE_BATCH)


def save_stream(stream: RowStream, model: Model, path: str | Path) -> None:
    """Write the private state of a stream, and its model, to a file only its owner may read."""
    path, content = Path(path), _to_bytes(stream, model)
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def load_stream(path: str | Path) -> tuple[RowStream, Model]:
    """Read the private state of a stream, and its model."""
    data = Path(path).read_bytes()
    try:
        form = codec.load(zlib.decompress(data), _MAGIC)
        return _from_form(form), read_model(form["model"].tobytes(), str(path))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, zlib.error):
        raise ModelFileError(f"{path} is not the state of a stream, or it is damaged") from None


def _to_bytes(stream: RowStream, model: Model) -> bytes:
    assert stream.encoder is not None
    messages = [to_bytes(update) for update in stream.log]
    form = {
        "model": np.frombuffer(model_bytes(model), dtype=np.uint8),
        "domain": stream.encoder.domain.to_dict(),
        "edges": list(stream.encoder.edges),
        "weight_bound": stream.weight_bound,
        "clips": list(stream.clips),
        "next_id": stream.next_id,
        "most_score": stream.most_score,
        "cohorts": [_cohort_form(cohort) for cohort in stream.cohorts],
        "parameters": stream.parameters,
        "unit_kind": stream.unit_kind,
        "lengths": [len(message) for message in messages],
        "log": np.frombuffer(b"".join(messages), dtype=np.uint8),
    }
    return zlib.compress(codec.dump(form, _MAGIC), 1)


def _cohort_form(cohort: Cohort) -> dict[str, Any]:
    rows = join(cohort.blocks) if cohort.blocks else None
    return {
        "rows": None if rows is None else {name: getattr(rows, name) for name in _ARRAYS},
        "budget": cohort.budget.to_dict(),
        "used": cohort.used,
        "report": cohort.report.to_dict(),
        "units": None if cohort.units is None else _names_form(cohort.units.to_pylist()),
    }


def _names_form(names: list[bytes]) -> dict[str, np.ndarray]:
    return {
        "ends": np.cumsum([len(name) for name in names], dtype=np.int64),
        "bytes": np.frombuffer(b"".join(names), dtype=np.uint8),
    }


def _names(form: dict[str, np.ndarray]) -> pa.Array:
    text = form["bytes"].tobytes()
    spans = pairwise([0, *form["ends"].tolist()])
    return pa.array([text[start:end] for start, end in spans], pa.large_binary())


_ARRAYS = ("narrow", "wide", "label", "weight", "start", "ids")


def _from_form(form: dict[str, Any]) -> RowStream:
    encoder = Encoder(Domain.from_dict(form["domain"]), tuple(form["edges"]))
    cohorts = []
    for number, each in enumerate(form["cohorts"]):
        blocks = () if each["rows"] is None else _cut(encoder, each["rows"], number)
        report = PrivacyReport.from_dict(each["report"])
        units = None if each["units"] is None else _names(each["units"])
        budget = budget_from_dict(each["budget"])
        cohorts.append(Cohort(blocks, budget, each["used"], report, units))
    ends = np.cumsum([0, *form["lengths"]])
    log = form["log"].tobytes()
    return RowStream(
        encoder,
        form["weight_bound"],
        (form["clips"][0], form["clips"][1]),
        form["next_id"],
        form["most_score"],
        tuple(cohorts),
        tuple(from_bytes(log[a:b]) for a, b in pairwise(ends)),
        form["parameters"],
        form["unit_kind"],
    )


def _cut(encoder: Encoder, arrays: dict[str, Any], cohort: int) -> tuple[Block, ...]:
    """Cut the rows of a cohort into blocks."""
    rows = Block(encoder.layout, **arrays, cohort=cohort)
    starts = range(0, len(rows), BLOCK_ROWS)
    return tuple(rows.take(np.arange(at, min(at + BLOCK_ROWS, len(rows)))) for at in starts)


def _clips(plan: TreePlan) -> tuple[float, float]:
    return plan.step.gradient_clip, plan.step.hessian_clip


def _most_score(plan: TreePlan) -> float:
    trees = plan.settings.n_estimators + plan.settings.extra_estimators
    return trees * plan.step.leaf_clip * plan.step.learning_rate
