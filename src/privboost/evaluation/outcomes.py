"""Outcomes: what an evaluation records of a row; its plan, and its loader of rows.

Each kind of target has a class: `classes.ClassOutcomes`, `numbers.NumberOutcomes` and
`exact_numbers.ExactNumberOutcomes`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from privboost._core import codec
from privboost._core.checks import did_you_mean, shown
from privboost._core.grid import CLIP_STEPS
from privboost._core.hooks import resolve
from privboost.accounting.events import Planned
from privboost.accounting.noisy_sums import GaussianRelease, LaplaceRelease
from privboost.data.contribution_bound import UnitRule
from privboost.data.domain import Domain
from privboost.data.encoding import Encoder
from privboost.data.features import Feature
from privboost.data.rows import Codes, Layout, Rows
from privboost.data.table import Batch, Column
from privboost.data.unit_names import read_unit_names
from privboost.evaluation.result import Measures, Residuals
from privboost.losses.base import LossTable
from privboost.mechanisms.curator import Curator
from privboost.models.model import Model, model_bytes, read_model
from privboost.recipes.common.plan import Plan, PlanBasis, ReleaseShare
from privboost.trees.cell_map import CellMap

CHIEF = "chief"
"""The release by which kinds of noise are compared."""
NoiseKind = type[GaussianRelease] | type[LaplaceRelease]


class Outcomes(ABC):
    """Integers that follow from one row and a model; the loader codes rows by them."""

    kind: ClassVar[str]

    @abstractmethod
    def sizes(self, model: Model) -> tuple[int, ...]:
        """Return the number of codes of each column."""

    @abstractmethod
    def code(
        self, model: Model, codes: Codes, column: Column, event: Column | None = None
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the label of each row (`UNKNOWN_LABEL` where it is), and its columns.

        Outcomes of survival times need the column of events as well as that of times.
        """

    @abstractmethod
    def maps(self, model: Model, groups: list[CellMap]) -> tuple[CellMap, ...]:
        """Return the cells of each kind of sum: of the whole table, then of each feature."""

    @abstractmethod
    def measure(
        self, curator: Curator, plan: EvaluationPlan
    ) -> tuple[list[list[Measures]], Residuals | None]:
        """Release what a plan lists; return the measures of the whole table and of all groups.

        Privacy
        -------
        Spends the plan's releases, once each, whatever is released. Neighbours: add or remove one
        unit. Sensitivity: one row adds at most `CLIP_STEPS` of each statistic to each of the cells
        that it touches, once for the whole table and once for each feature. Mechanism: discrete
        Laplace or Gaussian noise. Event: `LaplaceRelease` or `GaussianRelease`.
        """

    def to_dict(self) -> dict[str, Any]:
        """Return the outcomes for the constructor of their kind."""
        return {"kind": self.kind, **vars(self)}


@dataclass(frozen=True, eq=False)
class EvaluationPlan(Plan):
    """Plan of an evaluation: the model, the outcomes of its rows, and the features of groups.

    `settings` are for reports and the plan's hash: the features of groups ("by"), the number of
    cells that one row touches, the number of cells of scores, whether each class has them
    ("curves"), the clip of residuals if it was given, and the SHA-256 of the model's file.
    """

    _hashed: ClassVar[tuple[str, ...]] = ("settings", "group_form")

    model: Model
    outcomes: Outcomes
    groups: Encoder | None
    settings: dict[str, Any]

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters that the report lists."""
        copied = deepcopy(self.settings)  # a caller's changes must not reach the hashed plan
        return {name: value for name, value in copied.items() if value is not None}

    @property
    def group_form(self) -> Any:
        """Features of groups, as in JSON."""
        return None if self.groups is None else self.groups.domain.to_dict()["features"]

    @cached_property
    def maps(self) -> tuple[CellMap, ...]:
        """Cells of the sums; see `Outcomes.maps`."""
        return self.outcomes.maps(self.model, self.group_maps)

    @property
    def group_maps(self) -> list[CellMap]:
        """The groups of each feature."""
        first = len(self.outcomes.sizes(self.model))
        sizes = () if self.groups is None else self.groups.layout.n_codes
        return [CellMap.of_feature(k, np.arange(size)) for k, size in enumerate(sizes, first)]


def release(
    kind: NoiseKind,
    basis: PlanBasis,
    what: str,
    cells: int,
    shares: tuple[float, ...] = (1.0,),
    count: int = 1,
) -> Planned:
    """Return a release of sums by cell, of which one row touches so many, before calibration."""
    return Planned(kind(what, 1.0, cells=cells, shares=shares, **basis.bound), count)


Releases = Callable[[NoiseKind], list[ReleaseShare]]
"""Releases of an evaluation for a kind of noise."""


def deviations(event: Any) -> np.ndarray:
    """Return the standard deviation of each statistic's noise, in rows."""
    found: np.ndarray = event.deviations / CLIP_STEPS
    return found


def table_of(first: np.ndarray, second: np.ndarray) -> LossTable:
    """Return a table of two statistics by code, at most 1 in size, for rows with a known label."""
    one, other = (np.trunc(values * CLIP_STEPS) for values in (first, second))
    return LossTable(lines_of(one, one), lines_of(other, other), shift=0)


def lines_of(of_label_0: np.ndarray, of_label_1: np.ndarray) -> np.ndarray:
    """Return the lines of a statistic of a `LossTable`: of rows coded with the label 0 and with the
    label 1, and zeros for rows without a label.

    Here the label tells nothing of a class; of a number all rows may have the label 0.
    """
    return np.stack([of_label_0, of_label_1, np.zeros_like(of_label_0)]).astype(np.int32)


_INTERVALS = 4
"""Intervals of a number whose feature has no edges."""


def open_groups(by: Any, model: Model) -> Encoder | None:
    """Return the encoder of the features of `by`; None without any.

    They are named, if they are the model's; features that are given may be other columns.
    """
    if isinstance(by, str | Feature):
        by = (by,)
    if not isinstance(by, Sequence):
        raise TypeError(f"by must be names of features, or features; {shown(by)} is not")
    known = {feature.name: feature for feature in model.domain.features}
    features = tuple(_feature(each, known).with_bins(_INTERVALS) for each in by)
    names = [feature.name for feature in features]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"by: {name!r} is given twice")
        if name == model.domain.target.name:
            raise ValueError(f"by: {name!r} is the target")
    return Encoder.of(Domain(features, model.domain.target)) if features else None


def group_labels(groups: Encoder | None) -> list[tuple[str, list[str]]]:
    """Return the name of each feature, with the labels of its codes."""
    if groups is None:
        return []
    found = []
    for k, (feature, n_codes) in enumerate(
        zip(groups.domain.features, groups.layout.n_codes, strict=True)
    ):
        labels = [label for label, _ in groups.spans(k, np.arange(n_codes))]
        found.append((feature.name, labels))
    return found


def _feature(each: Any, known: dict[str, Feature]) -> Feature:
    if isinstance(each, Feature):
        return each
    if not isinstance(each, str):
        raise TypeError(f"by must be names of features, or features; {shown(each)} is neither")
    if each not in known:
        listed = ", ".join(map(repr, list(known)[:20])) + (" …" if len(known) > 20 else "")
        hint = did_you_mean(each, list(known)) or (
            f"it has {listed}; in Python another column is given as a CategoricalFeature or a "
            "NumericFeature"
        )
        raise ValueError(f"by: the model has no feature {each!r}; {hint}")
    return known[each]


@dataclass(frozen=True, eq=False)
class OutcomeLoader:
    """Codes rows as outcomes of a model; of the features only those of groups are kept.

    The first columns of codes are the outcomes, those after them the features of groups. `target`
    is the column of labels, `unit` the rule that bounds the rows of one unit, and `event` the
    column of events of survival times.
    """

    magic: ClassVar[bytes] = b"PVBEVAL1"
    by_place: ClassVar[bool] = False

    model: Model
    outcomes: Outcomes
    groups: Encoder | None
    target: str
    unit: UnitRule | None
    event: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that are read."""
        names = [*self.model.domain.feature_names, self.target]
        names += [] if self.event is None else [self.event]
        names += [] if self.groups is None else self.groups.domain.feature_names
        names += [] if self.unit is None else [self.unit.column]
        return tuple(dict.fromkeys(names))

    @property
    def layout(self) -> Layout:
        """Number of codes of each column."""
        groups = () if self.groups is None else self.groups.layout.n_codes
        return Layout((*self.outcomes.sizes(self.model), *groups))

    def read(self, batch: Batch, first: int) -> Rows:
        """Code some rows; they have no ids, since they are not sampled."""
        coded = self.model.encoder.code(batch)
        event = None if self.event is None else batch[self.event]
        label, columns = self.outcomes.code(self.model, coded, batch[self.target], event)
        if self.groups is not None:
            groups = self.groups.code(batch)
            columns += [groups.column(k) for k in range(len(self.groups.domain.features))]
        codes = Codes.empty(self.layout, len(label))
        for number, column in enumerate(columns):
            codes.column(number)[:] = column
        return Rows(codes, label)

    def name_units(self, batch: Batch) -> pa.Array:
        """Return the canonical name of each row's unit, null where there is none."""
        assert self.unit is not None
        return read_unit_names(batch[self.unit.column], self.unit.column)

    def to_bytes(self) -> bytes:
        """Write the loader for another process."""
        parts = {
            "model": np.frombuffer(model_bytes(self.model), dtype=np.uint8),
            "outcomes": self.outcomes.to_dict(),
            "groups": None if self.groups is None else self.groups.domain.to_dict(),
            "edges": [] if self.groups is None else list(self.groups.edges),
            "target": self.target,
            "unit": None if self.unit is None else self.unit.to_dict(),
            "event": self.event,
        }
        return codec.dump(parts, self.magic)

    @classmethod
    def from_bytes(cls, data: bytes) -> OutcomeLoader:
        """Read what `to_bytes` wrote."""
        parts = codec.load(data, cls.magic)
        groups, outcomes = parts["groups"], dict(parts["outcomes"])
        return cls(
            read_model(parts["model"].tobytes(), "the model that is evaluated"),
            resolve(f"outcomes {outcomes.pop('kind')}")(**outcomes),
            None if groups is None else Encoder(Domain.from_dict(groups), tuple(parts["edges"])),
            parts["target"],
            None if parts["unit"] is None else UnitRule(**parts["unit"]),
            parts["event"],
        )
