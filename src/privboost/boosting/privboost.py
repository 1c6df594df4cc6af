"""Full-batch cyclical boosting over whole-feature histograms.

Releasing a feature's whole histogram costs no more than releasing the leaves of one tree, because
a row lies in one bin. Round by round: the next feature's histogram of gradients and Hessians is
released, each bin takes a Newton step, and the rows follow. A feature's Hessians change little
from one of its rounds to the next, so all that were released are averaged: that is free.
"""

from __future__ import annotations

import numpy as np

from privboost.boosting.candidates import Cells, uniform_grid
from privboost.boosting.newton import released_mass
from privboost.boosting.privboost_plan import PrivBoostPlan
from privboost.engine.queries import CellSums
from privboost.engine.updates import AddCellValues, Start
from privboost.models.additive import AdditiveScores
from privboost.privacy.curator import Curator
from privboost.progress import Track


def boost_privboost(curator: Curator, plan: PrivBoostPlan, track: Track = iter) -> AdditiveScores:
    """Train an additive model.

    Parameters
    ----------
    curator : Curator
        Who releases.
    plan : PrivBoostPlan
        What was decided; its releases are reserved.
    track : callable
        Wraps the rounds, to show progress.

    Returns
    -------
    AdditiveScores
        For each feature and code, the sum of its released values.

    Privacy
    -------
    Spends exactly `plan.releases`: one histogram for each round and output, whatever the data.
    """
    outputs = range(plan.task.n_outputs)
    n_features = len(plan.encoder.domain.features)
    cells = [uniform_grid(plan.encoder, f, plan.max_bins) for f in range(n_features)]
    turns = [len(range(f, plan.n_estimators, n_features)) for f in range(n_features)]
    hessians = [
        np.zeros((t, len(outputs), c.n_cells), dtype=np.int64)
        for t, c in zip(turns, cells, strict=True)
    ]
    values = [np.zeros((len(outputs), len(c.cell_of)), dtype=np.int32) for c in cells]

    curator.publish(
        Start(plan.task.table(plan.step.gradient_clip, plan.step.hessian_clip), len(outputs))
    )
    for round_ in track(range(plan.n_estimators)):
        feature = round_ % n_features
        own = cells[feature]
        event, turn = plan.release(feature), round_ // n_features
        so_far = hessians[feature]
        for output in outputs:
            sums = curator.gaussian(CellSums(own.map, output), event)
            so_far[turn, output] = sums[:, 1] + (so_far[turn - 1, output] if turn else 0)
            mean_hessian = so_far[turn, output] / (turn + 1)
            step = plan.step.values(sums[:, 0], mean_hessian, plan.weight_bound)
            step *= own.learned
            curator.publish(AddCellValues(own.map, step, output))
            values[feature][output] += step[own.cell_of]
    told = [_mass_and_noise(plan, f, cells[f], hessians[f]) for f in range(n_features)]
    mass, noise = zip(*told, strict=True)
    return AdditiveScores(tuple(values), mass, noise)


def _mass_and_noise(
    plan: PrivBoostPlan, feature: int, cells: Cells, hessians: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return for each code the released mass, and what noise alone gives to its value.

    Noise adds up over steps. Later steps take some of it back, as the rows follow; how much is not
    known where gradients are clipped, and is left out.

    Parameters
    ----------
    hessians : int64 array of shape (steps, outputs, cells)
        The sums of all Hessians released up to each step.
    """
    steps, outputs, n_cells = hessians.shape
    if steps == 0:
        nothing = np.zeros((outputs, len(cells.cell_of)))
        return nothing, nothing
    means = hessians / np.arange(1, steps + 1)[:, None, None]
    sigma = float(plan.release(feature).sigmas[0])
    own = plan.step.noise(means, sigma, plan.weight_bound) * cells.learned
    codes = np.bincount(cells.cell_of, minlength=n_cells)
    mass = released_mass(means[-1], plan.weight_bound) / np.maximum(codes, 1)
    return mass[:, cells.cell_of], np.sqrt((own**2).sum(axis=0))[:, cells.cell_of]
