"""Planning of an evaluation: its releases and cells, decided before a row is read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from privboost._core.checks import check_count, check_flag, check_number
from privboost.accounting.events import Planned
from privboost.accounting.noisy_sums import GaussianRelease, LaplaceRelease
from privboost.data.encoding import Encoder
from privboost.data.targets import ClassTarget, SurvivalTarget
from privboost.evaluation.classes import (
    ClassOutcomes,
    cells_of_scores,
    class_releases,
    count_cells,
)
from privboost.evaluation.deviances import GAMMA, POISSON, open_deviance
from privboost.evaluation.exact_numbers import ExactNumberOutcomes, exact_releases
from privboost.evaluation.number_sums import Wanted
from privboost.evaluation.numbers import NumberOutcomes, bounds_of, number_releases, wanted_of
from privboost.evaluation.outcomes import (
    CHIEF,
    EvaluationPlan,
    Outcomes,
    Releases,
    deviations,
)
from privboost.evaluation.survival import SurvivalOutcomes, survival_releases
from privboost.models.model import Model, model_bytes
from privboost.recipes.common.plan import Budget, PlanBasis, PlannedReleases, PublicRows

MOST_CELLS = 4096
MOST_CURVES = 10
"""Largest number of classes that each have a curve by default: each has a price."""
_MOST_SUMS = 2**24
_SCORE_COLUMNS = 2
"""Most columns that one score of a search touches: predictions, and cells of scores."""


def plan_score(
    encoder: Encoder, budget: Budget, power: float | None = None, quantile: float | None = None
) -> tuple[Planned, ...]:
    """Return the releases of `plan_evaluation(…, only_score=True)` for any model of an encoder.

    Of a number, `power` is that of the deviance that scores are, and `quantile` the level of their
    pinball loss, if they are one of these.
    """
    basis = _basis(encoder, budget)
    target = encoder.domain.target
    if isinstance(target, ClassTarget):
        releases = class_releases(basis, _SCORE_COLUMNS)
    elif isinstance(target, SurvivalTarget):
        releases = survival_releases(basis, 1)
    else:
        wanted = Wanted(target.bounds[0], deviance=power, quantile=quantile)
        releases = number_releases(basis, 1, wanted)
    return _quietest(basis, releases, gaussian=True)[0].releases


def plan_evaluation(
    model: Model,
    groups: Encoder | None,
    budget: Budget,
    score_cells: Any = None,
    curves: Any = None,
    clip: Any = None,
    deviance: Any = None,
    power: Any = None,
    quantile: Any = None,
    gaussian: bool = False,
    only_score: bool = False,
    horizon: Any = None,
) -> EvaluationPlan:
    """Plan the releases of an evaluation, and calibrate their noise; see `evaluate`.

    Gaussian noise composes by μ² with other releases. With `only_score` the releases are those of
    `plan_score`, whatever the model.
    """
    domain, public = model.domain, isinstance(budget, PublicRows)
    if public:  # nobody is protected: no row is left out
        domain = replace(domain, unit=None)
    basis = _basis(Encoder(domain, model.encoder.edges), budget)
    parts = _n_parts(groups)
    n_cells, own, width = None, False, None
    more: dict[str, Any] = {}
    outcomes: Outcomes
    if not isinstance(domain.target, SurvivalTarget):
        _refuse("horizon", horizon, "it is for survival times")
    else:
        for name, value in (("score_cells", score_cells), ("curves", curves), ("clip", clip)):
            _refuse(name, value, "the target is a survival time")
        for name, value in (("deviance", deviance), ("power", power), ("quantile", quantile)):
            _refuse(name, value, "it is for a number, and the target is a survival time")
    if isinstance(domain.target, SurvivalTarget):
        touched = parts
        made, _ = _quietest(basis, survival_releases(basis, touched), gaussian)
        found_times = SurvivalOutcomes.of(model, horizon)
        outcomes, more = found_times, {"horizon": found_times.time_at(model)}
    elif isinstance(domain.target, ClassTarget):
        _refuse("clip", clip, "classes have no residuals")
        for name, value in (("deviance", deviance), ("power", power), ("quantile", quantile)):
            _refuse(name, value, "it is for a number, and the target is a class")
        cells = None if score_cells is None else _check_cells(score_cells)
        own = _has_curves(curves, model)
        columns = len(ClassOutcomes(np.zeros(1, dtype=np.int32), own).sizes(model))
        touched = max(columns, _SCORE_COLUMNS if only_score else 0) * parts
        made, noise = _quietest(basis, class_releases(basis, touched), gaussian)
        found = cells_of_scores(model, cells or count_cells(noise, model.scores.n_outputs), public)
        outcomes, n_cells = ClassOutcomes(found.edges, own, found.at), len(found.at)
    else:
        _refuse("score_cells", score_cells, "a number has residuals instead")
        own = not only_score if curves is None else check_flag("curves", curves)
        if not only_score:
            deviance, power, quantile = _filled(model, deviance, power, quantile)
        variance_power = open_deviance(deviance, power, bounds_of(model), model.bounds)
        level = None if quantile is None else check_number("quantile", quantile, 0.0, 1.0)
        wanted = wanted_of(model, own, variance_power, level)
        more = {"deviance": deviance, "power": variance_power, "quantile": level}
        touched = parts
        if public:
            _refuse("clip", clip, "residuals of public rows are not clipped")
            made, _ = _quietest(basis, exact_releases(basis, touched), gaussian)
            outcomes = ExactNumberOutcomes(own, variance_power, level)
        else:
            made, _ = _quietest(basis, number_releases(basis, touched, wanted), gaussian)
            outcomes, width = NumberOutcomes.clipped(model, clip, wanted)
    settings = {
        "by": [] if groups is None else list(groups.domain.feature_names),
        "touched": touched,
        "score_cells": n_cells,
        "curves": own,
        "clip": width,
        "model": digest_of(model),
        **more,
    }
    plan = EvaluationPlan(
        **made.fields, model=model, outcomes=outcomes, groups=groups, settings=settings
    )
    if max(cells.n_cells for cells in plan.maps) > _MOST_SUMS:
        raise ValueError("by: there are too many groups for so many classes and cells of scores")
    return plan


def _filled(
    model: Model, deviance: Any, power: Any, quantile: Any
) -> tuple[str | None, float | None, float | None]:
    """Return a deviance with its power, and a quantile: those of the model's loss unless given.

    A deviance that labels within the target's bounds do not have is left out.
    """
    own, own_power, level = loss_measures(model.privacy.parameters)
    if deviance is None and own is not None and (power is None or own == "tweedie"):
        own_power = own_power if power is None else power
        try:
            open_deviance(own, own_power, bounds_of(model), model.bounds)
        except ValueError:
            if power is not None:
                raise
        else:
            deviance, power = own, own_power
    return deviance, power, level if quantile is None else quantile


def loss_measures(said: Mapping[str, Any]) -> tuple[str | None, float | None, float | None]:
    """Return what the loss of a number asks to be measured, by the parameters of its training.

    It is the deviance and its power, and the quantile; each may be None. A model's file may say
    anything: what is no loss with a parameter in its range counts as none.
    """
    match said.get("loss"):
        case "poisson" | "gamma" as loss:
            return loss, None, None
        case "tweedie":
            return "tweedie", _within(said.get("power"), POISSON, GAMMA), None
        case "absolute":
            return None, None, 0.5
        case "quantile":
            return None, None, _within(said.get("quantile"), 0.0, 1.0)
    return None, None, None


def _within(value: Any, low: float, high: float) -> float | None:
    """Return a number that lies between two others, and None for anything else."""
    number = isinstance(value, float | int) and not isinstance(value, bool)
    return float(value) if number and low < value < high else None


def _basis(encoder: Encoder, budget: Budget) -> PlanBasis:
    """Begin a plan that uses one row of each unit, drawn at random.

    Rows of one unit are not independent, and nothing released measures how much they depend on
    each other: error bars would be too small by a factor of up to the root of `max_rows`.
    """
    domain = encoder.domain
    if domain.unit is not None:
        domain = replace(domain, unit=replace(domain.unit, max_rows=1))
    return PlanBasis(Encoder(domain, encoder.edges), None, budget, "auto")


def _quietest(
    basis: PlanBasis, releases: Releases, gaussian: bool
) -> tuple[PlannedReleases, float]:
    """Return releases with the smaller kind of noise, and its standard deviation in rows.

    A unit moves a few cells by the same amount. Up to about ten cells Laplace noise is smaller than
    Gaussian noise with any small δ, and its guarantee is pure: δ is not spent then. The choice
    depends on the budget and the number of cells alone.
    """
    tried = []
    if not gaussian:
        pure = replace(basis, budget=replace(basis.budget, delta=0.0))
        tried.append(pure.calibrate_by_shares(releases(LaplaceRelease)))
    if gaussian or basis.budget.delta > 0:
        tried.append(basis.calibrate_by_shares(releases(GaussianRelease)))
    noise = [float(deviations(made[CHIEF])[-1]) for made in tried]
    return min(zip(tried, noise, strict=True), key=lambda pair: pair[1])


def digest_of(model: Model) -> str:
    """Return the SHA-256 of a model's file, which identifies the model of an evaluation."""
    return hashlib.sha256(model_bytes(model)).hexdigest()


def _n_parts(groups: Encoder | None) -> int:
    """Return how often a row counts: in the whole table, and in a group of each feature."""
    return 1 if groups is None else 1 + len(groups.domain.features)


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
