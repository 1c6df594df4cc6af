"""Release of calibrated probabilities, the last step of recipes whose scores are log-odds.

Rows are counted by score and class, and scores are mapped by the line that fits the counts best:
one small release, whose post-processing is free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from privboost.boosting.newton import grid_step
from privboost.boosting.plan import Plan
from privboost.boosting.probabilities import (
    ScoreCells,
    cells_for,
    fit_line,
    slope_error,
    worth_of_vote,
)
from privboost.engine.queries import ScoreCounts
from privboost.engine.updates import UseLoss
from privboost.losses import loss_of
from privboost.models.told_rows import pool_counts
from privboost.models.votes import OddsVotes, VoteScores
from privboost.privacy.curator import Curator
from privboost.privacy.events.event import Relation
from privboost.privacy.events.sums import GaussianRelease, LaplaceRelease, NoisySums

_WHAT = "rows by score and class"


class Lineable(Protocol):
    """Scores of a model that can be mapped by lines."""

    def typical(self) -> np.ndarray:
        """Return the scores of rows drawn from noisy counts: shape (outputs, rows)."""

    def on_lines(self, lines: np.ndarray) -> Self:
        """Return the model with a slope and a shift of each output's scores."""


_Model = TypeVar("_Model", bound=Lineable)


def counts_release(
    kind: type[GaussianRelease] | type[LaplaceRelease],
    bound: Mapping[str, Any],
    noise: float = 1.0,
    relation: Relation = Relation.ADD_REMOVE,
) -> GaussianRelease | LaplaceRelease:
    """Return the release of one output's counts; `bound` is `Draft.bound`.

    A unit that is replaced changes two cells: that of the old unit and that of the new one.
    """
    cells = 2 if relation == Relation.REPLACE_ONE else 1
    return kind(_WHAT, noise, cells=cells, shares=(1.0,), relation=relation, **bound)


def check_calibration(share: float, target: str, loss: str) -> None:
    """Refuse to calibrate scores that are no log-odds."""
    if share == 0:
        return
    if target == "number":
        raise ValueError("calibration_share must be 0 for a number: it has no probabilities")
    if not loss_of(target, loss).log_odds:
        raise ValueError(
            f'calibration_share must be 0 with loss="{loss}": its scores are no log-odds'
        )


def release_line(
    curator: Curator, plan: Plan, scores: NoisySums, output: int, cells: ScoreCells
) -> tuple[tuple[float, float], float]:
    """Release counts by score and class; return slope and shift, and the slope's relative error.

    Parameters
    ----------
    curator : Curator
        Releases noisy counts.
    plan : Plan
        Plan, for the weights of rows.
    scores : GaussianRelease or LaplaceRelease
        Reserved release.
    output : int
        Number of the score of a row.
    cells : ScoreCells
        Cells of scores; whatever they are, a row lies in one.

    Privacy
    -------
    Spends `scores` once. Cells follow from released values and public ones, and so does the line.
    """
    counts, sigma = _release_counts(curator, plan, scores, output, cells)
    line = fit_line(counts, sigma, cells.at)
    return line, slope_error(counts, sigma, cells.at, line)


def _release_counts(
    curator: Curator, plan: Plan, scores: NoisySums, output: int, cells: ScoreCells
) -> tuple[np.ndarray, float]:
    """Release counts by score and class, with their standard deviation.

    Both are in rows of the largest weight.
    """
    step = _step(plan)
    counts = curator.sums(ScoreCounts(cells.edges, 2, output), scores)[:, :, 0] * step
    return counts, float(scores.deviations[0]) * step


def _step(plan: Plan) -> float:
    """Return the value of one grid step of a count, in rows of the largest weight."""
    return grid_step(None if plan.weight_bound is None else 1.0)


def calibrate_votes(
    curator: Curator, plan: Plan, scores: NoisySums, votes: VoteScores
) -> OddsVotes:
    """Calibrate votes: find the line from their sum to log-odds that fits the rows.

    Privacy
    -------
    Spends `scores` once for each output.
    """
    curator.publish(UseLoss(plan.task.table(1.0, 1.0)))
    count = votes.n_trees // votes.n_outputs
    cells, worth = ScoreCells.of_votes(count), worth_of_vote(count)
    released = [
        _release_counts(curator, plan, scores, output, cells) for output in range(votes.n_outputs)
    ]
    lines = [fit_line(*own, cells.at) for own in released]
    rows = pool_counts(
        [own.sum() for own, _ in released], released[0][1] * np.sqrt(released[0][0].size)
    )
    return OddsVotes.worth_of(votes, np.array(lines) * [worth, 1.0], rows)


def calibrate_scores(
    curator: Curator,
    plan: Plan,
    scores: NoisySums | None,
    model: _Model,
    rows: Sequence[float] | None = None,
) -> _Model:
    """Map the scores of a model by the line that fits the rows, where counts are planned.

    All rows count, also those that training left out: rows whose gradient was filtered, or that
    have spent their individual budgets, are the ones that fit the model worst.

    Parameters
    ----------
    curator : Curator
        Releases noisy counts.
    plan : Plan
        Plan, for the weights of rows.
    scores : GaussianRelease or LaplaceRelease, optional
        Reserved release; without it the model is returned unchanged.
    model : Lineable
        Model whose scores the rows have.
    rows : sequence of float, optional
        Noisy count of rows of each output: where they are few, so are cells.

    Privacy
    -------
    Spends `scores` once for each output, in addition to individual budgets where rows have some.
    """
    if scores is None:
        return model
    typical = model.typical()
    curator.close_budgets()
    curator.publish(UseLoss(plan.task.table(1.0, 1.0)))
    sigma = float(scores.deviations[0]) * _step(plan)
    counts = [None] * len(typical) if rows is None else [cells_for(own, sigma) for own in rows]
    cells = [ScoreCells.around(*own) for own in zip(typical, counts, strict=True)]
    lines = [
        release_line(curator, plan, scores, output, own)[0] for output, own in enumerate(cells)
    ]
    return model.on_lines(np.array(lines))
