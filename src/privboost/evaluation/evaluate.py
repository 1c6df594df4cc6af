"""`evaluate`: measures of a model on private rows, with a budget, ledger and report.

Releases of an evaluation: queries to the curator, and noisy sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from privboost._core.grid import CLIP_STEPS
from privboost._core.pickling import fresh_copy
from privboost._core.threads import count_threads
from privboost._core.unit import unit_assumptions
from privboost.accounts.account import BudgetAccount, check_account
from privboost.data.attached_columns import open_source
from privboost.data.loading import Loader, UnitRule
from privboost.data.sources import check_columns_present
from privboost.data.table import Table
from privboost.engine.queries import COUNT, GRADIENT_HESSIAN, CellSums
from privboost.engine.updates import AddCellValues, Start, UseLoss
from privboost.estimators.base import PrivateEstimator
from privboost.estimators.preparation import (
    DomainAndBudget,
    FitArguments,
    Preparation,
    Run,
    RunSettings,
    budget_of,
    choose_backend,
    ledger_path,
    open_table,
)
from privboost.estimators.public_rows import PublicPreparation, check_no_ledger
from privboost.evaluation.class_measures import ClassCounts, measure_classes
from privboost.evaluation.number_measures import Clip, choose_clip, measure_exactly, measure_number
from privboost.evaluation.outcomes import (
    NUMBER_CODES,
    QUANTITIES,
    RESIDUAL_CELLS,
    STEPS,
    ClassOutcomes,
    ExactNumberOutcomes,
    OutcomeLoader,
    exact_power,
    group_labels,
    label_reach,
    middles_of_codes,
    open_groups,
)
from privboost.evaluation.plan import EvaluationPlan, plan_evaluation
from privboost.evaluation.result import Evaluation, Group, Measures, Residuals
from privboost.losses.base import LossTable, class_indicator
from privboost.mechanisms.curator import Curator
from privboost.models.findings import warn_of_defects
from privboost.models.model import Model
from privboost.randomness.keystream import KeyStream
from privboost.recipes.common.plan import Budget, Plan, PublicRows, within_account
from privboost.trees.cell_map import CellMap


@dataclass(frozen=True, eq=False)
class Part:
    """Noisy sums of the whole table, or of the groups of one feature.

    Attributes
    ----------
    sums : tuple of float arrays
        For classes, counts of rows by each column of outcomes, of shape (groups, codes). For a
        number, one array for each release, of shape (groups, statistics): sums of numbers from −1
        to 1; the second has rows by cell of the residual's size, of shape (groups, cells).
    noise : tuple of float arrays
        Standard deviation of each statistic's noise.
    """

    sums: tuple[np.ndarray, ...]
    noise: tuple[np.ndarray, ...]


def release_classes(curator: Curator, plan: EvaluationPlan) -> list[Part]:
    """Release rows by outcome: of the whole table, then of the groups of each feature.

    Privacy
    -------
    Spends the plan's one release. Every row adds `CLIP_STEPS` to one cell of each column of
    outcomes, once for the whole table and once for each feature: `settings.touched` cells.
    """
    curator.publish(Start(class_indicator()))
    event = plan.releases[0].event
    counts = curator.sums(CellSums(plan.map, statistics=COUNT), event)[:, 0] / CLIP_STEPS  # type: ignore[arg-type]
    sizes = plan.outcomes.sizes(plan.model)
    noise = _deviations(event)
    found = [
        sums.reshape(-1, sizes[number % len(sizes)])
        for number, sums in enumerate(plan.map.split(counts))
    ]
    columns = len(sizes)
    return [
        Part(tuple(found[at : at + columns]), (noise,) * columns)
        for at in range(0, len(found), columns)
    ]


def release_number(curator: Curator, plan: EvaluationPlan) -> tuple[list[Part], Clip]:
    """Release sums of residuals and labels: of the whole table, then of each feature's groups.

    Rows are counted by the size of their residual first. These noisy counts choose the clips of
    residuals and labels in the sums, unless the plan has a clip.

    Privacy
    -------
    Spends the plan's releases, once each, whatever the clip. A row adds at most `CLIP_STEPS` of
    each statistic to one cell of the whole table, and to one of each feature.
    """
    events = [planned.event for planned in plan.releases]
    noise = [_deviations(event) for event in events]
    released: list[np.ndarray] = []

    def release(query: CellSums) -> None:
        released.append(curator.sums(query, events[len(released)]) / CLIP_STEPS)  # type: ignore[arg-type]

    curator.publish(Start(table_of(np.zeros(NUMBER_CODES), np.zeros(NUMBER_CODES))))
    release(CellSums(plan.map, statistics=COUNT))
    release(CellSums(plan.residual_map, statistics=COUNT))
    of_all = released[1][:RESIDUAL_CELLS, 0]
    clip = _clip(plan, of_all, float(released[0][0, 0]), (float(noise[1][0]), float(noise[2][1])))
    _use_column(curator, 0)
    reach = plan.outcomes.reach  # type: ignore[union-attr]
    residuals = np.clip(middles_of_codes() * (reach / clip.residual), -1, 1)
    labels = np.clip(middles_of_codes() * (label_reach(plan.model) / clip.label), -1, 1)
    both = CellSums(plan.map, 0, GRADIENT_HESSIAN)
    curator.publish(UseLoss(table_of(residuals, residuals**2)))
    release(both)
    curator.publish(UseLoss(table_of(np.abs(residuals), residuals**4)))
    release(both)
    curator.publish(Start(table_of(labels, labels**2)))
    _use_column(curator, 1)
    release(both)
    split = [plan.map.split(sums) for sums in released]
    split[1] = [
        sums.reshape(-1, RESIDUAL_CELLS) for sums in plan.residual_map.split(released[1][:, 0])
    ]
    return [Part(tuple(sums), tuple(noise)) for sums in zip(*split, strict=True)], clip


def _clip(
    plan: EvaluationPlan, counts: np.ndarray, rows: float, noise: tuple[float, float]
) -> Clip:
    """Return the clip of the plan, or one that noisy counts of all rows choose."""
    reach, model = plan.outcomes.reach, plan.model  # type: ignore[union-attr]
    _, half = model.middle_and_half_of_labels
    given = half if plan.settings.clip is None else plan.settings.clip
    cell = RESIDUAL_CELLS - 1 + math.ceil(math.log2(given / reach) - 1e-9)
    cell = min(max(cell, 0), RESIDUAL_CELLS - 1)
    if plan.settings.clip is None:
        cell = choose_clip(counts, rows, *noise, cell)
    low, high = model.domain.target.bounds  # type: ignore[union-attr]
    return Clip.at(cell, reach, half, label_reach(model), high - low)


ExactSums = tuple[dict[str, tuple[int, int]], int]
"""Signed and unsigned sum of each quantity, and the number of rows."""


def release_exactly(curator: Curator, plan: EvaluationPlan) -> list[list[ExactSums]]:
    """Return exact sums of public rows: of the whole table, then of each feature's groups.

    Privacy
    -------
    None: it needs the exact event of public rows, which only their curator makes.
    """
    event: Any = plan.releases[0].event
    digits = np.arange(STEPS)
    table = LossTable(_rows_by_label(digits, -digits), _rows_by_label(digits, digits), shift=0)
    curator.publish(Start(table))
    count = curator.sums(CellSums(plan.map, statistics=COUNT), event)[:, 0] // CLIP_STEPS
    sums: dict[str, Any] = {}
    column = 0
    for name, n_digits in QUANTITIES.items():
        total = np.zeros((plan.map.n_cells, 2), dtype=object)  # of any size
        for _ in range(n_digits):
            curator.publish(Start(table))
            _use_column(curator, column, STEPS)
            own = curator.sums(CellSums(plan.map, 0, GRADIENT_HESSIAN), event)
            total = total * STEPS + own.astype(object)
            column += 1
        sums[name] = total
    cells = [
        ({name: (int(total[k, 0]), int(total[k, 1])) for name, total in sums.items()}, int(rows))
        for k, rows in enumerate(count)
    ]
    starts = (*plan.map.first, plan.map.n_cells)
    return [cells[a:b] for a, b in pairwise(starts)]


def _use_column(curator: Curator, column: int, codes: int = NUMBER_CODES) -> None:
    """Look rows up by one of their columns."""
    states = np.arange(codes, dtype=np.int32) - np.int32(codes // 2)
    curator.publish(AddCellValues(CellMap.of_feature(column, np.arange(codes)), states))


def table_of(first: np.ndarray, second: np.ndarray) -> LossTable:
    """Return a table of two statistics by code, at most 1 in size, for rows with a known label."""
    one, other = (np.trunc(values * CLIP_STEPS) for values in (first, second))
    return LossTable(_rows_by_label(one, one), _rows_by_label(other, other), shift=0)


def _rows_by_label(positive: np.ndarray, negative: np.ndarray) -> np.ndarray:
    """Return a loss table by label: rows of both labels, and rows without one."""
    return np.stack([positive, negative, np.zeros_like(positive)]).astype(np.int32)


def _deviations(event: object) -> np.ndarray:
    found: np.ndarray = event.deviations / CLIP_STEPS  # type: ignore[attr-defined]
    return found


def evaluate(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    epsilon: float,
    delta: float = 1e-6,
    by: Any = (),
    score_cells: int | None = None,
    curves: bool | None = None,
    clip: float | None = None,
    sample_weight: Any = None,
    public_rows: bool = False,
    random_state: int | None = None,
    n_jobs: int | None = None,
    backend: Any = "auto",
    ledger: str | Path | None = None,
    budget: BudgetAccount | None = None,
) -> Evaluation:
    """Measure how good a model is on private rows, at a stated price.

    Parameters
    ----------
    model : fitted estimator or Model
        The model, fitted or loaded.
    X : data frame, array, or path of a Parquet or CSV file
        The rows, as `fit` takes them; those of a Dask or Spark frame stay with their workers. The
        model's domain applies to them. Where it names a unit, one row of each unit is used, drawn
        at random.
    y : one-dimensional or str, optional
        The target; by default the column of `X` that the domain names.
    epsilon, delta : float
        The budget of this evaluation. Where a row touches few cells, and with a delta of 0, the
        noise is Laplace: the guarantee is pure then, and delta is not spent.
    by : sequence of str and features
        Features whose groups are measured too, each feature by itself. A name is one of the
        model's; numbers without edges are cut into four intervals. A `CategoricalFeature` or a
        `NumericFeature` (whose edges delimit its intervals) may be any other column. Each feature
        costs as much as the whole table.
    score_cells : int, optional
        Number of cells of scores in which rows are counted, an even number. By default it depends
        on the noise.
    curves : bool, optional
        Beyond two classes: whether each class has an AUC and a reliability table of its own. They
        cost one touched cell for each class. Default: up to ten classes.
    clip : float, optional
        For a number on private rows: the clip of residuals, from public knowledge. By default it
        is chosen from noisy counts of residuals by size, within the budget. Estimates are of
        clipped residuals; their intervals allow for what may lie beyond the clip.
    sample_weight : None
        Not supported: rows count alike.
    public_rows : bool
        With an infinite epsilon, declares that every row is public: exact and free. Residuals are
        not clipped then. Labels beyond the target's bounds are clipped to them in any case, as in
        training; for public rows the evaluation reports their number.
    random_state : int, optional
        A seed, for tests; it takes the guarantee away.
    n_jobs : int, optional
        Largest number of threads; by default as many as pay.
    backend : "auto", "cuda" or callable
        Backend that holds the rows.
    ledger : path, optional
        A file that records the charges.
    budget : BudgetAccount, optional
        The account of these rows, which is charged first.

    Returns
    -------
    Evaluation
        Values with error bars; its attribute `privacy` is the privacy report.

    Privacy
    -------
    Spends (epsilon, delta) on these rows, in addition to all else that was spent on them, training
    included. All is reserved before a row is read. No value raises or warns, and a group without
    rows has measures like any other.

    Warns
    -----
    FitWarning
        If the noisy number of rows does not exceed its noise: labels match no class, or there are
        hardly any rows. Raised as an exception it has the evaluation as `result`.

    Examples
    --------
    >>> from privboost import PrivBoostClassifier, evaluate
    >>> from privboost.datasets import load_adult
    >>> adult = load_adult()
    >>> clf = PrivBoostClassifier(epsilon=1.0, delta=1e-6, domain=adult.domain).fit(adult.train)
    >>> found = evaluate(clf, adult.test, epsilon=1.0, by=["sex"])
    >>> bool(abs(found["auc"].value - 0.9) < 0.03)
    True
    >>> [group.value for group in found.groups]
    ['Female', 'Male', 'other', 'missing']
    """
    own = model_of(model)
    if sample_weight is not None:
        raise ValueError("sample_weight: rows of an evaluation count alike; leave it out")
    account = check_account("budget", budget, random_state)
    limit, gaussian = budget_of(epsilon, delta, public_rows), False
    if account is not None:
        limit, gaussian = within_account(limit, account), account.takes_gaussian_only
    table, groups = open_table(X, backend), open_groups(by, own)
    plan = plan_evaluation(own, groups, limit, score_cells, curves, clip, gaussian)
    setting = RunSettings(
        plan.budget,
        random_state,
        KeyStream.of(random_state),
        choose_backend(backend, count_threads(n_jobs)),
        ledger_path(ledger),
        account,
        "evaluate",
        own.domain,
        "other",
    )
    kind = PublicEvaluation if isinstance(limit, PublicRows) else EvaluationPreparation
    given = FitArguments(table, y, None, None)
    found, run = run_evaluation(kind, setting, given, plan)
    name = own.domain.target.name
    result = Evaluation(name, found.whole, found.groups, run.report(), found.residuals)
    warn_of_defects(result, result.findings())
    return result


class EvaluationPreparation(Preparation):
    """Preparation of an evaluation: that of a fit, with another loader and no domain inference."""

    def ground(self) -> DomainAndBudget:
        """Return the model's domain, whose price was paid by the rows of training."""
        assert self.setting.domain is not None
        return DomainAndBudget(self.setting.domain, self.setting.budget)

    def rows(self, plan: Plan) -> tuple[Loader, Table]:
        """Return the loader of rows, and the table."""
        assert isinstance(plan, EvaluationPlan)
        domain = plan.encoder.domain
        source, roles = open_source(domain, self.given.X, self.given.y, None)
        if plan.groups is not None:
            check_columns_present(source, plan.groups.domain.feature_names)
        rule = UnitRule.of(domain.unit, self.keys.child("units"))
        model = fresh_copy(plan.model)  # the caller's own never sees a private row
        return OutcomeLoader(model, plan.outcomes, plan.groups, roles.target, rule), source

    def alone(self) -> str:
        """Return the assumption about other releases of the same rows."""
        if self.setting.account is not None:
            return super().alone()
        return (
            "this is the price of the evaluation alone: training on the same rows, another "
            "evaluation, or any other release of them adds to it"
        )

    def assumptions(self, ground: DomainAndBudget, plan: Plan) -> tuple[str, ...]:
        """Return the assumptions of the guarantee."""
        texts = [
            "all parameters of the evaluation were chosen without these rows or exact scores on "
            "them",
            self.alone(),
        ]
        if ground.domain.unit is not None:
            texts += unit_assumptions(ground.domain.unit)
        return tuple(texts)


class PublicEvaluation(EvaluationPreparation, PublicPreparation):
    """Preparation of an evaluation on public rows: nothing is reserved."""

    def __init__(self, setting: RunSettings, *stages: Any) -> None:
        check_no_ledger(setting)
        Preparation.__init__(self, setting, *stages)

    def assumptions(self, ground: DomainAndBudget, plan: Plan) -> tuple[str, ...]:
        """Return the declaration by which no noise was added."""
        return PublicPreparation.assumptions(self, ground, plan)


@dataclass(frozen=True)
class Found:
    """Measures of the whole table and of each group, and how residuals were clipped."""

    whole: Measures
    groups: tuple[Group, ...]
    residuals: Residuals | None = None


def run_evaluation(
    kind: type[Preparation],
    setting: RunSettings,
    given: FitArguments,
    plan: EvaluationPlan,
    select: Callable[[Run], Run] = lambda run: run,
) -> tuple[Found, Run]:
    """Reserve a plan, release what it lists, and return the measures with the run.

    `select` may restrict the run to some of the rows before they are loaded.
    """
    run = select(kind(setting, given, lambda *_: plan, _no_inference).run())
    opened = run.setting.open_backend([run.load])
    try:
        return measure(run.curator(opened), plan), run
    finally:
        opened.close()


def measure(curator: Curator, plan: EvaluationPlan) -> Found:
    """Release what a plan lists; return the measures of the whole table and of each group."""
    if isinstance(plan.outcomes, ClassOutcomes):
        parts, residuals = _measure_classes(curator, plan), None
    else:
        parts, residuals = _measure_number(curator, plan)
    whole, *by_feature = parts
    groups = [
        Group(feature, value, own)
        for (feature, labels), found in zip(group_labels(plan.groups), by_feature, strict=True)
        for value, own in zip(labels, found, strict=True)
    ]
    return Found(whole[0], tuple(groups), residuals)


def _measure_number(
    curator: Curator, plan: EvaluationPlan
) -> tuple[list[list[Measures]], Residuals]:
    """Return the measures of each group of each part."""
    low, high = plan.model.domain.target.bounds  # type: ignore[union-attr]
    if isinstance(plan.outcomes, ExactNumberOutcomes):
        exact, power = release_exactly(curator, plan), exact_power(plan.model)
        measures = [
            [measure_exactly(sums, rows, power, high - low) for sums, rows in part]
            for part in exact
        ]
        outside = exact[0][0][0]["outside"][1]
        return measures, Residuals(None, (low, high), outside)
    parts, clip = release_number(curator, plan)
    measures = [
        [measure_number(sums, part.noise, clip) for sums in zip(*part.sums, strict=True)]
        for part in parts
    ]
    return measures, Residuals(clip.residual, (low, high))


def _measure_classes(curator: Curator, plan: EvaluationPlan) -> list[list[Measures]]:
    """Return the measures of each group of each part."""
    model, cells = plan.model, plan.cells
    assert cells is not None
    names = tuple(map(str, model.classes))
    return [
        [
            measure_classes(
                ClassCounts.of(names, sums, float(part.noise[0][0]), cells, model.has_probabilities)
            )
            for sums in zip(*part.sums, strict=True)
        ]
        for part in release_classes(curator, plan)
    ]


def _no_inference(budget: Budget) -> Any:
    raise AssertionError("a model has its domain: none is learned")


def model_of(model: Any) -> Model:
    """Return the model of a fitted estimator, or the model itself."""
    if isinstance(model, PrivateEstimator):
        return model._fitted()
    if isinstance(model, Model):
        return model
    raise TypeError(
        "model must be a fitted estimator of privboost, or a Model; a "
        f"{type(model).__name__} is neither"
    )
