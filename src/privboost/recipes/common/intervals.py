"""Prediction intervals and sets: units put aside, and two histograms of their nonconformity.

Split conformal prediction. Before training a secret coin puts each unit aside; after it, units put
aside are counted by nonconformity, which is the residual of a number (absolute, or relative with a
log link), and minus the score of the row's own class: first in a few cells of geometric width,
which tell roughly where most rows lie, then in cells that follow from the first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby, islice
from typing import Any

import numpy as np

from privboost._core.grid import FULL_RANGE, SCORE_STEPS
from privboost.accounting.events import Event, Planned
from privboost.accounting.noisy_sums import (
    LaplaceRelease,
    ParallelLaplaceRelease,
    ParallelRelease,
)
from privboost.data.rows import LARGEST_RESIDUAL
from privboost.data.targets import NumberTarget
from privboost.engine.look_ups import NO_EDGES
from privboost.engine.queries import ScoreCounts
from privboost.engine.updates import AddCellValues, AddTreeValues, SetLabelBins
from privboost.losses.base import LogLink
from privboost.mechanisms.curator import Curator
from privboost.models.intervals import Nonconformity, RelativeScale
from privboost.models.parts import ScoreParts
from privboost.models.scores import Scores
from privboost.recipes.common.initial_score import publish_initial_scores
from privboost.recipes.common.plan import Plan, PlannedReleases, PublicRows
from privboost.trees.cell_map import CellMap, CellPart
from privboost.trees.tree import Tree

_ROUGH_PART = 0.1
"""Part of the first histogram in what both may spend (of μ²)."""

_FINEST = 2.0**-9
"""Smallest residual that the first histogram tells from 0, in halves of the clipping range."""

_PER_DOUBLING = 1
"""Cells of the first histogram for each doubling of the residual."""

_POSITIVE_EDGES = SCORE_STEPS * 2.0 ** np.arange(-3, 5)
_CLASS_EDGES = np.concatenate([-_POSITIVE_EDGES[::-1], [0], _POSITIVE_EDGES]).astype(np.int32)
"""Edges of the first histogram of classes: of minus the score of the row's own class."""

_RELATIVE_EDGES = (2 ** np.arange(10, 31)).astype(np.int32)
"""Edges of the first histogram of relative residuals: from 1/64 on, each twice the last."""

_RESOLUTION = 1.0
"""Width of a cell of the second histogram, in shares of the units: it grows with this factor.

The cell beyond which a share a of the units lies has the width (factor · √a · σ/n)^(2/3): the noise
of all cells beyond is then about as large as a cell."""

_NARROWEST, _WIDEST = 0.004, 0.1
"""Least and largest share of the units in a cell of the second histogram, as far as is known."""

_TREES = 32
"""Trees whose values rows get at once."""

_LEAST_SHARE = 0.05
"""Share beyond a cell, at least, for its width."""


def plan_intervals(made: PlannedReleases, covered_by: str, fraction: float) -> dict[str, Any]:
    """Return the fields of a plan whose units put aside pay in parallel to a release.

    `covered_by` is the name of that release, which uses all other units and is made after they are
    put aside; with pure ε all of its copies pay. Without a `fraction` no unit is put aside.
    """
    if fraction == 0:
        return {}
    basis = made.basis
    if basis.contribution.rows > 1:
        raise ValueError(
            "conformal_fraction: units of several rows would be put aside in part; declare "
            "max_rows=1, or leave it 0"
        )
    rough, fine = "units put aside by residual, roughly", "units put aside by residual"
    parts = [(rough, _ROUGH_PART), (fine, 1 - _ROUGH_PART)]
    events: list[Event]
    if isinstance(basis.budget, PublicRows):
        exact = made[covered_by]
        events = [type(exact)(what, 0.0, 1) for what, _ in parts]
    else:
        covering: Any = made[covered_by]
        copies = made.planned(covered_by).count
        steps = basis.contribution.row_steps
        if isinstance(covering, LaplaceRelease):
            own = ParallelLaplaceRelease
            events = [own.of(w, covering, copies, p, fraction, steps) for w, p in parts]
        else:
            events = [ParallelRelease.of(w, covering, p, fraction, steps) for w, p in parts]
    return {
        "releases": (*made.releases, *(Planned(event, 1) for event in events)),
        "conformal_releases": tuple(events),
        "conformal_fraction": fraction,
    }


def put_units_aside(curator: Curator, plan: Plan) -> None:
    """Put units aside, if the plan does; from now on only the others count.

    Privacy
    -------
    Spends nothing: coins are secret, and do not depend on the rows.
    """
    for event in plan.conformal_releases[:1]:
        curator.put_aside(plan.conformal_fraction, event)


def release_nonconformity(
    curator: Curator, plan: Plan, scores: Scores, span: tuple[int, int]
) -> Nonconformity | None:
    """Return the noisy histogram of the nonconformity of units put aside, if there are any.

    `scores` are those of the finished model, and `span` is the clipping range of labels.

    Privacy
    -------
    Spends `plan.conformal_releases`, each once, on units put aside, which took part in no release
    since. Cells follow from released values. A unit has one row, and a row lies in one cell.
    """
    if not plan.conformal_releases:
        return None
    parts, scale = scores.parts(), None
    if plan.task.loss_instance.log_link:
        scale = relative_scale(curator, plan, parts)
        curator.publish(SetLabelBins(NO_EDGES))
    publish_scores(curator, plan, parts)
    target = plan.encoder.domain.target
    if scale is None or not isinstance(target, NumberTarget):
        curator.use_aside()
    else:
        curator.use_aside(scale.residuals(target))
    rough, fine = plan.conformal_releases
    if scale is not None:
        edges = _RELATIVE_EDGES
    else:
        edges = _CLASS_EDGES if plan.task.target == "classes" else rough_edges(span)
    counts, _ = _release(curator, plan, rough, edges)
    sigma = float(fine.deviations[0]) * plan.count_step
    edges = fine_edges(edges, counts, sigma)
    return Nonconformity(edges, *_release(curator, plan, fine, edges), scale)


def relative_scale(curator: Curator, plan: Plan, parts: ScoreParts) -> RelativeScale:
    """Return the scale of residuals with a log link, from released values.

    Its unit is the model's start, at the largest exposure if there is one.
    """
    target, loss = plan.encoder.domain.target, plan.task.loss_instance
    assert isinstance(target, NumberTarget)
    assert isinstance(loss, LogLink)
    start = int(parts.start[0])
    if plan.exposure_name is not None:
        start += int(
            parts.tables[plan.encoder.domain.feature_names.index(plan.exposure_name)].max()
        )
    middle, half = target.middle_and_half(curator.target_range)
    return RelativeScale.of(loss.variance_power, start, middle + half)


def publish_scores(curator: Curator, plan: Plan, parts: ScoreParts) -> None:
    """Set the rows' scores to those of a finished model, to the last bit.

    During training rows follow each update; what a last release changes, such as a calibration of
    all scores, they learn here.
    """
    publish_initial_scores(curator, plan.task.table(1.0, 1.0), parts.start.astype(np.int32))
    for output in range(parts.n_outputs):
        moved = [(k, own[output]) for k, own in enumerate(parts.tables) if own[output].any()]
        if moved:
            codes = [CellMap.of_feature(k, np.arange(len(own)), len(own)) for k, own in moved]
            values = np.concatenate([own for _, own in moved])
            _add_cell_values(curator, CellMap.side_by_side(codes), values, output)
        for pair in parts.pairs:
            own = pair.values[output]
            if own.any():
                cells = CellMap((CellPart(pair.features, pair.cell_of, own.shape),))
                _add_cell_values(curator, cells, own.reshape(-1), output)
        for _, trees in groupby(parts.trees, lambda tree: tree.tree.depth):
            while batch := tuple(islice(trees, _TREES)):
                values = np.stack([tree.values[output] for tree in batch]).astype(np.int32)
                bare = tuple(_trimmed(tree.tree, plan.encoder.layout.n_codes) for tree in batch)
                curator.publish(AddTreeValues(bare, values, output))


def _trimmed(tree: Tree, n_codes: Sequence[int]) -> Tree:
    """Return a tree without the spare bits that it has in a model file."""
    width = max((n_codes[feature] for feature in tree.feature), default=0)
    return Tree(tree.feature, tree.goes_right[:, :width])


def _add_cell_values(curator: Curator, cells: CellMap, values: np.ndarray, output: int) -> None:
    curator.publish(AddCellValues(cells, values.astype(np.int32), output))


def _release(
    curator: Curator, plan: Plan, event: Any, edges: np.ndarray
) -> tuple[np.ndarray, float]:
    """Release counts by residual, in rows of the largest weight, with their standard deviation."""
    counts = curator.sums(ScoreCounts(edges, 1), event)[:, 0, 0] * plan.count_step
    return counts, float(event.deviations[0]) * plan.count_step


def rough_edges(span: tuple[int, int]) -> np.ndarray:
    """Return the edges of the first histogram: of geometric width, up to the width of the bounds.

    A residual is in halves of the clipping range, whose width may be far below that of the bounds.
    """
    widest = 2 * (FULL_RANGE[1] - FULL_RANGE[0]) / (span[1] - span[0])
    doublings = math.log2(widest / _FINEST)
    powers = np.arange(math.floor(doublings * _PER_DOUBLING) + 1) / _PER_DOUBLING
    edges = np.rint(widest * 2.0**-powers * SCORE_STEPS)
    return np.unique(np.clip(edges, 1, LARGEST_RESIDUAL)).astype(np.int32)


def fine_edges(edges: np.ndarray, counts: np.ndarray, sigma: float) -> np.ndarray:
    """Return the edges of the second histogram, from the first, for noise of this deviation."""
    masses = project_to_simplex(counts)
    total = masses.sum()
    # Shares beyond each edge, from 0 (of scores, from the least edge) on, beyond which all are.
    ends = np.concatenate([[min(0.0, edges[0] - 1.0)], edges])
    beyond = masses[::-1].cumsum()[::-1] / total
    tails = _tail_shares(sigma / total)
    found = np.interp(-tails, -beyond, ends)
    cells = np.unique(np.clip(np.rint(found), min(edges[0], 1), LARGEST_RESIDUAL))
    return cells.astype(np.int32)


def _tail_shares(noise: float) -> np.ndarray:
    """Return shares of units beyond the cells, for noise of a cell in shares of the units."""
    shares: list[float] = []
    share = 0.0
    while True:
        own = max(share, _LEAST_SHARE)
        width = (_RESOLUTION * math.sqrt(own) * noise) ** (2 / 3)
        share += min(max(width, _NARROWEST), _WIDEST)
        if share >= 1:
            return np.array(shares)
        shares.append(share)


def project_to_simplex(counts: np.ndarray) -> np.ndarray:
    """Return the nearest counts that are not negative and have the same sum, at least 1."""
    total = max(float(counts.sum()), 1.0)
    down = np.sort(counts)[::-1]
    excess = (down.cumsum() - total) / np.arange(1, len(down) + 1)
    last = np.flatnonzero(down > excess)[-1]
    projected: np.ndarray = np.maximum(counts - excess[last], 0.0)
    return projected
