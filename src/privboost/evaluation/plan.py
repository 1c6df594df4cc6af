"""The plan of an evaluation: its releases, decided before a row is read."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from privboost._core.checks import check_count, check_flag, check_number
from privboost._core.grid import CLIP_STEPS, SCORE_STEPS
from privboost.accounting.events import Planned
from privboost.accounting.noisy_sums import GaussianRelease, LaplaceRelease
from privboost.data.encoding import Encoder
from privboost.data.targets import ClassTarget
from privboost.evaluation.outcomes import (
    QUANTITIES,
    RESIDUAL_CELLS,
    ClassOutcomes,
    ExactNumberOutcomes,
    NumberOutcomes,
    Outcomes,
    cells_of_codes,
)
from privboost.models.model import Model, model_bytes
from privboost.models.scores import VOTES, Scores
from privboost.recipes.common.plan import Budget, Draft, Made, Plan, PublicRows, Shared
from privboost.recipes.common.probability_calibration import ScoreCells
from privboost.trees.cell_map import CellMap

_CELLS = ((60.0, 12), (8.0, 16), (4.0, 24), (0.0, 32))
"""Number of cells, by the least standard deviation of a count's noise, in rows."""
_EXACT_CELLS, _LEAST_EXACT = 1024, 64
"""Cells without noise: of all outputs together, and of each at least."""
MOST_CELLS = 4096
_REACH, _EXACT_REACH = 5.0, 12.0
"""Lower end of the last cell, in log-odds."""
_REACH_OF_MEDIAN = 1.6
"""The same, at least, relative to the median distance of scores from 0: most scores of a rare class
lie far below 0, and cells must separate them."""
_REACH_OF_MARGINS = 2.0
"""The same for scores whose targets are −1 and 1."""
_VOTES = 3.0
"""The same for votes, relative to the square root of their number."""
_BEYOND = 1.15
"""Assumed score of the last cell, relative to its lower end."""
MOST_CURVES = 10
"""Largest number of classes that each have a curve by default: each has a price."""
_MOST_SUMS = 2**24
_CHIEF = "chief"
"""The release by which kinds of noise are compared."""
_SHARES: tuple[tuple[str, str, float, tuple[float, ...]], ...] = (
    ("rows", "the number of rows", 0.08, (1.0,)),
    ("cells", "rows by the size of their residual", 0.17, (1.0,)),
    (_CHIEF, "sums of residuals and their squares", 0.3, (0.2, 0.8)),
    ("sizes", "sums of absolute residuals and their fourth powers", 0.15, (0.85, 0.15)),
    ("labels", "sums of labels and their squares", 0.3, (0.35, 0.65)),
)
"""The releases of a number: their shares of μ², and those of their statistics. Most goes to
squares, which RMSE and R² need; fourth powers only serve the error bar of an RMSE. The counts
choose the clip, and their noise bounds what may lie beyond it."""


@dataclass(frozen=True)
class EvaluationSettings:
    """Parameters of an evaluation, for reports and the plan's hash.

    Attributes
    ----------
    by : tuple of str
        Features that have groups.
    touched : int
        Number of cells that one row touches: of the whole table, and of each feature of `by`.
    score_cells : int or None
        Number of cells of scores; None for a number.
    curves : bool
        Whether each class has cells of scores.
    clip : float or None
        Clip of residuals, if it was given.
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
    """Plan of an evaluation.

    Attributes
    ----------
    model : Model
        The model.
    outcomes : ClassOutcomes, NumberOutcomes or ExactNumberOutcomes
        Outcomes of a row.
    groups : Encoder or None
        Features that have groups.
    cells : ScoreCells or None
        Cells of scores.
    settings : EvaluationSettings
        Parameters.
    """

    _hashed: ClassVar[tuple[str, ...]] = ("settings", "group_form")

    model: Model
    outcomes: Outcomes
    groups: Encoder | None
    cells: ScoreCells | None
    settings: EvaluationSettings

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters that the report lists."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self.settings).items()
            if value is not None
        }

    @property
    def group_form(self) -> Any:
        """Features of groups, as in JSON."""
        return None if self.groups is None else self.groups.domain.to_dict()["features"]

    @cached_property
    def map(self) -> CellMap:
        """Cells of all sums: of the whole table, then of the groups of each feature."""
        return _cell_map(self.outcomes, self.model, self.groups)

    @cached_property
    def residual_map(self) -> CellMap:
        """Cells of residuals by size: of the whole table, then within each group."""
        sizes = CellMap.of_feature(0, cells_of_codes(), RESIDUAL_CELLS)
        of_groups = _group_maps(self.outcomes, self.model, self.groups)
        return CellMap.side_by_side([sizes, *(CellMap.joint([own, sizes]) for own in of_groups)])


_SCORE_COLUMNS = 2
"""Most columns that one score of a search touches: predictions, and cells of scores."""


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
    """Plan the releases of an evaluation, and calibrate their noise.

    Parameters
    ----------
    model : Model
        The model.
    groups : Encoder or None
        Features that have groups.
    budget : Budget
        The privacy budget.
    score_cells, curves, clip
        See `evaluate`.
    gaussian : bool
        Whether noise must be Gaussian, so that it composes by μ² with other releases.
    only_score : bool
        Whether the releases must be those of `plan_score`, whatever the model.
    """
    domain = model.domain
    public = isinstance(budget, PublicRows)
    if public:  # nobody is protected: no row is left out
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

    Rows of one unit are not independent, and nothing released measures how much they depend on
    each other: error bars would be too small by a factor of up to the root of `max_rows`.
    """
    domain = encoder.domain
    if domain.unit is not None:
        domain = replace(domain, unit=replace(domain.unit, max_rows=1))
    return Draft(Encoder(domain, encoder.edges), None, budget, "auto")


_Kind = type[GaussianRelease] | type[LaplaceRelease]
_Releases = Callable[[_Kind], list[Shared]]


def _quietest(draft: Draft, releases: _Releases, gaussian: bool) -> tuple[Made, float]:
    """Return releases with the smaller kind of noise, and its standard deviation in rows.

    A unit moves a few cells by the same amount. Up to about ten cells Laplace noise is smaller than
    Gaussian noise with any small δ, and its guarantee is pure: δ is not spent then. The choice
    depends on the budget and the number of cells alone.
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
    """Return the release of all counts."""
    what = "rows by class and prediction, and by class and score"
    return lambda kind: [
        (_CHIEF, Planned(kind(what, 1.0, cells=touched, shares=(1.0,), **draft.bound), 1), 1.0)
    ]


def _number_releases(draft: Draft, touched: int) -> _Releases:
    """Return the releases of sums: a row adds to one cell of each, for the whole table and each
    feature.
    """
    return lambda kind: [
        (name, Planned(kind(what, 1.0, cells=touched, shares=shares, **draft.bound), 1), part)
        for name, what, part, shares in _SHARES
    ]


def _exact_releases(draft: Draft, touched: int) -> _Releases:
    """Return the release of exact sums of a number on public rows, digit by digit, and counts."""
    what = "sums of residuals, labels and their powers, by digit"
    count = 1 + sum(QUANTITIES.values())
    return lambda kind: [
        (_CHIEF, Planned(kind(what, 1.0, cells=touched, shares=(1.0,), **draft.bound), count), 1.0)
    ]


def _number_outcomes(bounds: tuple[float, float], clip: Any) -> tuple[NumberOutcomes, float | None]:
    """Return the outcomes of a number, and the clip if one is given.

    Codes halve the reach repeatedly; a clip that is given equals one of these halves.
    """
    widest = bounds[1] - bounds[0]
    if clip is None:
        return NumberOutcomes(widest), None
    given = min(check_number("clip", clip, _least_clip(bounds), math.inf), widest)
    return NumberOutcomes(math.ldexp(given, math.ceil(math.log2(widest / given)))), given


def _least_clip(bounds: tuple[float, float]) -> float:
    """Return the lower bound of a clip: a cell of residuals must lie below it."""
    return math.ldexp(bounds[1] - bounds[0], 1 - RESIDUAL_CELLS)


def clip_of_scores(model: Model) -> float:
    """Return a clip that follows from a model alone: scores of a search compare models.

    If noisy counts chose the clip, the run with the smallest clip would look best.
    """
    target: Any = model.domain.target
    return max(model.middle_and_half_of_labels[1], 2 * _least_clip(target.bounds))


def _group_maps(outcomes: Outcomes, model: Model, groups: Encoder | None) -> list[CellMap]:
    """Return the cells of each feature's groups."""
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
    """Return the SHA-256 of a model's file, which identifies the model of an evaluation."""
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


# Cells of scores: from the model and the noise alone, never from rows


def count_cells(noise: float, outputs: int) -> int:
    """Return the number of cells of scores: few where noise is large.

    A wide cell hides the order of its rows, which lowers an AUC; each further cell adds noise.
    `docs/evaluation.md` has the measurements.

    Parameters
    ----------
    noise : float
        Standard deviation of the noise of a count, in rows.
    outputs : int
        Number of outputs that have such cells.
    """
    if noise == 0:
        return max(_EXACT_CELLS // outputs // 2 * 2, _LEAST_EXACT)
    return next(cells for least, cells in _CELLS if noise >= least)


def cells_of_scores(model: Model, count: int, exact: bool = False) -> ScoreCells:
    """Return cells of scores: narrow about 0 and wider towards both ends.

    Predictions change at the middle edge: a score above 0 is of the second class.

    Parameters
    ----------
    model : Model
        The model.
    count : int
        Number of cells, even.
    exact : bool
        Whether there is no noise, so that cells may reach further.
    """
    scores = model.scores
    reach = _EXACT_REACH if exact else _reach_of(scores)
    if not model.has_probabilities:
        reach = _REACH_OF_MARGINS
        if scores.unit == VOTES:
            votes = scores.n_trees // scores.n_outputs
            reach = min(float(votes), _VOTES * math.sqrt(votes))
    ends = reach * np.sinh(np.linspace(-1, 1, count - 1)) / math.sinh(1)
    edges = np.rint(ends * SCORE_STEPS).astype(np.int32)
    edges[len(edges) // 2] = 1  # a score of 0 is of the first class
    middles = (ends[1:] + ends[:-1]) / 2
    at = np.concatenate([[_BEYOND * ends[0]], middles, [_BEYOND * ends[-1]]])
    return ScoreCells(edges, at)


def _reach_of(scores: Scores) -> float:
    """Return the lower end of the last cell, from typical scores of the released values."""
    typical = np.abs(scores.typical()) / SCORE_STEPS
    if not typical.size:
        return _REACH
    median = float(np.median(typical, axis=1).max())
    return min(max(_REACH, _REACH_OF_MEDIAN * median), _EXACT_REACH)
