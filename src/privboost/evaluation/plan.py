"""What an evaluation releases, decided before a row is read."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from privboost.boosting.checks import check_count, check_flag, check_number
from privboost.boosting.draft import Draft, Made, Shared
from privboost.boosting.plan import Budget, Plan, PublicRows
from privboost.boosting.probabilities import ScoreCells
from privboost.evaluation.outcomes import (
    QUANTITIES,
    RESIDUAL_CELLS,
    ClassOutcomes,
    ExactNumberOutcomes,
    NumberOutcomes,
    Outcomes,
    cells_of_codes,
)
from privboost.evaluation.score_cells import MOST_CELLS, cells_of_scores, count_cells
from privboost.grid import CLIP_STEPS
from privboost.models.files import model_bytes
from privboost.models.model import Model
from privboost.privacy.events.event import Planned
from privboost.privacy.events.sums import GaussianRelease, LaplaceRelease
from privboost.tables.encoding import Encoder
from privboost.tables.features import ClassTarget
from privboost.trees.cell_map import CellMap

MOST_CURVES = 10
"""Classes beyond which no class has a curve of its own, unless asked for: each has a price."""
_MOST_SUMS = 2**24
_CHIEF = "chief"
"""The release by which kinds of noise are compared: the one that matters most."""
_SHARES: tuple[tuple[str, str, float, tuple[float, ...]], ...] = (
    ("rows", "the number of rows", 0.08, (1.0,)),
    ("cells", "rows by the size of their residual", 0.17, (1.0,)),
    (_CHIEF, "sums of residuals and their squares", 0.3, (0.2, 0.8)),
    ("sizes", "sums of absolute residuals and their fourth powers", 0.15, (0.85, 0.15)),
    ("labels", "sums of labels and their squares", 0.3, (0.35, 0.65)),
)
"""The releases of a number: their parts of μ², and those of their statistics. Most is for the
squares, which RMSE and R² are made of; fourth powers only say how far rows move an RMSE. The counts
choose the clip, and their noise bounds what may lie beyond it."""


@dataclass(frozen=True)
class EvaluationSettings:
    """What was chosen, for reports and the plan's hash.

    Attributes
    ----------
    by : tuple of str
        The features that have groups.
    touched : int
        How many cells one row touches: of the whole table, and of each feature of `by`.
    score_cells : int or None
        How many cells scores have; a number has none.
    curves : bool
        Whether each class has cells of scores.
    clip : float or None
        What residuals are clipped to, where it was given.
    model : str
        SHA-256 of the model's file.
    """

    by: tuple[str, ...]
    touched: int
    score_cells: int | None
    curves: bool
    clip: float | None
    model: str


@dataclass(frozen=True, eq=False)
class EvaluationPlan(Plan):
    """Everything about an evaluation that is decided before data are touched.

    Attributes
    ----------
    model : Model
        What is evaluated.
    outcomes : ClassOutcomes, NumberOutcomes or ExactNumberOutcomes
        What rows are told apart by.
    groups : Encoder or None
        The features that have groups.
    cells : ScoreCells or None
        The cells of scores.
    settings : EvaluationSettings
        What was chosen.
    """

    _hashed: ClassVar[tuple[str, ...]] = ("settings", "group_form")

    model: Model
    outcomes: Outcomes
    groups: Encoder | None
    cells: ScoreCells | None
    settings: EvaluationSettings

    @property
    def parameters(self) -> dict[str, Any]:
        """What was chosen, for reports."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self.settings).items()
            if value is not None
        }

    @property
    def group_form(self) -> Any:
        """What groups are, as they stand in JSON."""
        return None if self.groups is None else self.groups.domain.to_dict()["features"]

    @cached_property
    def map(self) -> CellMap:
        """The cells of all sums: of the whole table, then of the groups of each feature."""
        return _cell_map(self.outcomes, self.model, self.groups)

    @cached_property
    def residual_map(self) -> CellMap:
        """The cells of residuals by size: of the whole table, then within each group."""
        sizes = CellMap.of_feature(0, cells_of_codes(), RESIDUAL_CELLS)
        of_groups = _group_maps(self.outcomes, self.model, self.groups)
        return CellMap.side_by_side([sizes, *(CellMap.joint([own, sizes]) for own in of_groups)])


_SCORE_COLUMNS = 2
"""Columns that one score of a search touches, at most: predictions, and cells of scores."""


def plan_score(encoder: Encoder, budget: Budget) -> tuple[Planned, ...]:
    """Return the releases of `plan_evaluation(…, only_score=True)` for any model of an encoder."""
    draft = _draft(encoder, budget)
    classes = isinstance(encoder.domain.target, ClassTarget)
    releases = _class_releases(draft, _SCORE_COLUMNS) if classes else _number_releases(draft, 1)
    made, _ = _quietest(draft, releases, gaussian=True)
    planned: tuple[Planned, ...] = made.fields["releases"]
    return planned


def plan_evaluation(
    model: Model,
    groups: Encoder | None,
    budget: Budget,
    score_cells: Any = None,
    curves: Any = None,
    clip: Any = None,
    gaussian: bool = False,
    only_score: bool = False,
) -> EvaluationPlan:
    """Decide everything about an evaluation, and calibrate its noise.

    Parameters
    ----------
    model : Model
        What is evaluated.
    groups : Encoder or None
        The features that have groups.
    budget : Budget
        What may be spent.
    score_cells, curves, clip
        See `evaluate`.
    gaussian : bool
        Whether noise must be Gaussian, so that it adds up by μ² with what else was spent.
    only_score : bool
        Whether the releases must be those of `plan_score`, whatever the model.
    """
    domain = model.domain
    public = isinstance(budget, PublicRows)
    if public:  # nobody is protected, so that no row is left out
        domain = replace(domain, unit=None)
    draft = _draft(Encoder(domain, model.encoder.edges), budget)
    outcomes: Outcomes
    if isinstance(domain.target, ClassTarget):
        _refuse("clip", clip, "classes have no residuals")
        cells = None if score_cells is None else _check_cells(score_cells)
        own = _has_curves(curves, model)
        columns = len(ClassOutcomes(np.zeros(1, dtype=np.int32), own).sizes(model))
        touched = max(columns, _SCORE_COLUMNS if only_score else 0) * (1 + _n_features(groups))
        made, noise = _quietest(draft, _class_releases(draft, touched), gaussian)
        found = cells_of_scores(model, cells or count_cells(noise, model.scores.n_outputs), public)
        outcomes = ClassOutcomes(found.edges, own)
        settings = _settings(model, groups, touched, outcomes.n_cells, own, None)
    else:
        _refuse("score_cells", score_cells, "a number has residuals instead")
        _refuse("curves", curves, "a number has none")
        touched, found = 1 + _n_features(groups), None
        if public:
            _refuse("clip", clip, "residuals of public rows are not clipped")
            made, _ = _quietest(draft, _exact_releases(draft, touched), gaussian)
            outcomes, width = ExactNumberOutcomes(), None
        else:
            made, _ = _quietest(draft, _number_releases(draft, touched), gaussian)
            outcomes, width = _number_outcomes(domain.target.bounds, clip)
        settings = _settings(model, groups, touched, None, False, width)
    plan = EvaluationPlan(
        **made.fields,
        model=model,
        outcomes=outcomes,
        groups=groups,
        cells=found,
        settings=settings,
    )
    largest = plan.residual_map if isinstance(outcomes, NumberOutcomes) else plan.map
    if largest.n_cells > _MOST_SUMS:
        raise ValueError("by: there are too many groups for so many classes and cells of scores")
    return plan


def _draft(encoder: Encoder, budget: Budget) -> Draft:
    """Begin a plan that uses one row of each unit, drawn at random.

    Rows of one unit are not independent, and nothing that is released tells how much they depend on
    each other. Error bars would be too small by a factor of up to the root of `max_rows`.
    """
    domain = encoder.domain
    if domain.unit is not None:
        domain = replace(domain, unit=replace(domain.unit, max_rows=1))
    return Draft(Encoder(domain, encoder.edges), None, budget, "auto")


_Kind = type[GaussianRelease] | type[LaplaceRelease]
_Releases = Callable[[_Kind], list[Shared]]


def _quietest(draft: Draft, releases: _Releases, gaussian: bool) -> tuple[Made, float]:
    """Return releases with the noise that is smaller, and its deviation in rows.

    A unit moves a few cells by the same amount. For some ten of them Laplace noise is smaller than
    Gaussian noise with any δ that is small, and its guarantee is pure: δ is not spent then. Which
    it is follows from the budget and the number of cells alone.
    """
    tried = []
    if not gaussian:
        tried.append(replace(draft, budget=_pure(draft.budget)).share(releases(LaplaceRelease)))
    if gaussian or draft.budget.delta > 0:
        tried.append(draft.share(releases(GaussianRelease)))
    noise = [float(made[_CHIEF].deviations[-1]) / CLIP_STEPS for made in tried]
    return min(zip(tried, noise, strict=True), key=lambda pair: pair[1])


def _pure(budget: Budget) -> Budget:
    return replace(budget, delta=0.0)


def _class_releases(draft: Draft, touched: int) -> _Releases:
    """Return what makes the counts, all in one release."""
    what = "rows by class and prediction, and by class and score"
    return lambda kind: [
        (_CHIEF, Planned(kind(what, 1.0, cells=touched, shares=(1.0,), **draft.bound), 1), 1.0)
    ]


def _number_releases(draft: Draft, touched: int) -> _Releases:
    """Return what makes the sums: a row adds to one cell of each, for the whole table and each
    feature.
    """
    return lambda kind: [
        (name, Planned(kind(what, 1.0, cells=touched, shares=shares, **draft.bound), 1), part)
        for name, what, part, shares in _SHARES
    ]


def _exact_releases(draft: Draft, touched: int) -> _Releases:
    """Return what tells the exact sums of a number on public rows, digit by digit, and counts."""
    what = "sums of residuals, labels and their powers, by digit"
    count = 1 + sum(QUANTITIES.values())
    return lambda kind: [
        (_CHIEF, Planned(kind(what, 1.0, cells=touched, shares=(1.0,), **draft.bound), count), 1.0)
    ]


def _number_outcomes(bounds: tuple[float, float], clip: Any) -> tuple[NumberOutcomes, float | None]:
    """Return how residuals are coded, and the clip if one is given.

    Codes halve the reach again and again; a clip that is given is one of these halves.
    """
    widest = bounds[1] - bounds[0]
    if clip is None:
        return NumberOutcomes(widest), None
    given = min(check_number("clip", clip, _least_clip(bounds), math.inf), widest)
    return NumberOutcomes(math.ldexp(given, math.ceil(math.log2(widest / given)))), given


def _least_clip(bounds: tuple[float, float]) -> float:
    """Return what a clip has to exceed, so that there is a cell of residuals below it."""
    return math.ldexp(bounds[1] - bounds[0], 1 - RESIDUAL_CELLS)


def clip_of_scores(model: Model) -> float:
    """Return a clip that follows from a model alone: scores of a search compare models.

    With clips that noisy counts choose, the run whose clip came out smallest would look best.
    """
    target: Any = model.domain.target
    return max(model.middle_and_half_of_labels[1], 2 * _least_clip(target.bounds))


def _group_maps(outcomes: Outcomes, model: Model, groups: Encoder | None) -> list[CellMap]:
    """Return the groups of each feature as cells."""
    first = len(outcomes.sizes(model))
    grouped = [] if groups is None else list(enumerate(groups.layout.n_codes, first))
    return [CellMap.of_feature(place, np.arange(size)) for place, size in grouped]


def _cell_map(outcomes: Outcomes, model: Model, groups: Encoder | None) -> CellMap:
    sizes = outcomes.sizes(model)
    of_groups = _group_maps(outcomes, model, groups)
    if not isinstance(outcomes, ClassOutcomes):
        whole = CellMap.of_feature(0, np.zeros(sizes[0], dtype=np.int64), 1)
        return CellMap.side_by_side([whole, *of_groups])
    columns = [CellMap.of_feature(place, np.arange(size)) for place, size in enumerate(sizes)]
    joint = [CellMap.joint([group, column]) for group in of_groups for column in columns]
    return CellMap.side_by_side([*columns, *joint])


def _settings(
    model: Model,
    groups: Encoder | None,
    touched: int,
    score_cells: int | None,
    curves: bool,
    clip: float | None,
) -> EvaluationSettings:
    by = () if groups is None else groups.domain.feature_names
    return EvaluationSettings(by, touched, score_cells, curves, clip, digest_of(model))


def digest_of(model: Model) -> str:
    """Return the SHA-256 of a model's file, by which an evaluation names the model."""
    return hashlib.sha256(model_bytes(model)).hexdigest()


def _n_features(groups: Encoder | None) -> int:
    return 0 if groups is None else len(groups.domain.features)


def _has_curves(curves: Any, model: Model) -> bool:
    """Whether each class has cells of scores: two classes share one column, and always have it."""
    if model.scores.n_outputs == 1:
        if curves is not None and not check_flag("curves", curves):
            raise ValueError("curves: two classes have one in any case; leave it out")
        return True
    return len(model.classes) <= MOST_CURVES if curves is None else check_flag("curves", curves)


def _check_cells(value: Any) -> int:
    cells = check_count("score_cells", value, least=4, most=MOST_CELLS)
    if cells % 2:
        raise ValueError(f"score_cells must be even, as many on each side of 0; {cells} is not")
    return cells


def _refuse(name: str, value: Any, why: str) -> None:
    if value is not None:
        raise ValueError(f"{name}: {why}; leave it out")
