"""Full-batch cyclical boosting over whole-feature histograms.

Releasing a feature's whole histogram costs no more than releasing the leaves of one tree, because
a row lies in one bin. Round by round: the next feature's histogram of gradients and Hessians is
released, each bin takes a Newton step, and the rows follow. A feature's Hessians change little
from one of its rounds to the next, so all that were released are averaged: that is free.
"""

from __future__ import annotations

import numpy as np

from privboost.boosting.candidates import uniform_grid
from privboost.boosting.histogram_plan import HistogramPlan
from privboost.engine.commands import AddFeatureValues, FeatureSums, Start
from privboost.models.additive import AdditiveScores
from privboost.privacy.mechanisms import Curator
from privboost.progress import Track


def boost_histograms(curator: Curator, plan: HistogramPlan, track: Track = iter) -> AdditiveScores:
    """Train an additive model.

    Parameters
    ----------
    curator : Curator
        Who releases.
    plan : HistogramPlan
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
    hessians = [np.zeros((len(outputs), c.n_cells), dtype=np.int64) for c in cells]
    values = [np.zeros((len(outputs), len(c.cell_of)), dtype=np.int32) for c in cells]

    curator.publish(Start(plan.task.table(plan.step), len(outputs)))
    for round_ in track(range(plan.n_estimators)):
        feature = round_ % n_features
        cell_of, n_cells = cells[feature].cell_of, cells[feature].n_cells
        event = plan.release(feature)
        for output in outputs:
            sums = curator.gaussian(FeatureSums(feature, cell_of, n_cells, output), event)
            hessians[feature][output] += sums[:, 1]
            mean_hessian = hessians[feature][output] / (round_ // n_features + 1)
            step = plan.step.values(sums[:, 0], mean_hessian, plan.weight_bound)
            step *= cells[feature].learned
            step_of_code = step[cell_of]
            curator.publish(AddFeatureValues(feature, step_of_code, output))
            values[feature][output] += step_of_code
    return AdditiveScores(tuple(values))
