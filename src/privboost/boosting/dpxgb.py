"""DP-XGB: greedy trees. Splits are chosen privately on exact node histograms, leaves are released.

A tree grows level by level. All nodes of a level are chosen at once, for the price of one choice,
because a row lies in one node. Below `greedy_depth` splits are random, which costs nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from privboost.boosting.candidates import (
    HessianThresholds,
    Thresholds,
    even_thresholds,
    splits_of,
)
from privboost.boosting.dpxgb_plan import DPXGBPlan
from privboost.boosting.greedy import grow, of_each
from privboost.boosting.newton import released_mass
from privboost.boosting.structures import RandomTrees
from privboost.engine.queries import HESSIAN, NodeHistograms, TreeSums
from privboost.engine.updates import AddTreeValues
from privboost.models.trees import Forest, TreeScores
from privboost.privacy.curator import Curator
from privboost.progress import Track
from privboost.trees.tree import stump

_PUBLISHED: dict[str, Any] = {
    "learning_rate": 0.3,
    "reg_lambda": 1.0,
    "split_lambda": 1.0,
    "gradient_clip": 1.0,
    "hessian_clip": 0.25,
    "hessian_share": 1 / 17,  # equal noise for gradients and Hessians
    "leaf_clip": None,
    "init_share": 0.0,
    "calibration_share": 0.0,
    "span_share": 0.0,
}
_UNIFORM = {"candidates": "grid", "shares": (0.0, 0.7, 0.3)}
_ADAPTIVE = {"candidates": "hessian", "candidate_rounds": "all", "shares": (0.1, 0.6, 0.3)}

PRESETS: dict[str, dict[str, Any]] = {
    "XGB": _PUBLISHED | _UNIFORM | {"features": "all"},
    "XGB_cyc": _PUBLISHED | _UNIFORM | {"features": "cyclical"},
    "XGB_ada": _PUBLISHED | _ADAPTIVE | {"features": "all"},
}
"""The published variants; trees and depth, of which the paper searched many, are the defaults."""


def boost_dpxgb(
    curator: Curator,
    plan: DPXGBPlan,
    structures: RandomTrees,
    before: TreeScores,
    track: Track = iter,
) -> TreeScores:
    """Add greedy trees to a model that has been started.

    Parameters
    ----------
    curator : Curator
        Who chooses and releases.
    plan : DPXGBPlan
        What was decided; its releases are reserved.
    structures : RandomTrees
        Draws what is random: features of a tree, and levels below the greedy ones.
    before : TreeScores
        The model so far.
    track : callable
        Wraps the rounds, to show progress.

    Privacy
    -------
    Spends what `plan.releases` holds beside the initial score, whatever the rows: for each round
    and output one choice a greedy level and one release of leaves, and the sketches.
    """
    settings, outputs = plan.settings, plan.task.n_outputs
    sketch = HessianThresholds(plan.encoder, settings.n_candidates, settings.sketch_bins)
    thresholds: Thresholds = even_thresholds(plan.encoder, settings.n_candidates)
    trees, values, hessians = [], [], []
    for round_ in track(range(settings.n_estimators)):
        if plan.sketch is not None and round_ < settings.refinements:
            query = NodeHistograms(stump(), sketch.cells(), round_ % outputs, HESSIAN)
            sketch.refine(curator.sums(query, plan.sketch)[0, :, 0])
            thresholds = sketch.thresholds
        features = structures.features_of(round_)
        splits = splits_of(plan.encoder, thresholds, features)
        for output in range(outputs):
            tree = grow(
                curator,
                splits,
                settings.greedy_depth or 0,
                settings.split_lambda,
                plan.selection,
                output,
            )
            tree = structures.deepen(tree, round_, thresholds, features)
            sums = curator.sums(TreeSums((tree,), output), plan.leaf)[0]
            leaves = np.zeros((outputs, tree.n_leaves), dtype=np.int32)
            leaves[output] = plan.step.values(sums[:, 0], sums[:, 1], plan.weight_bound)
            curator.publish(AddTreeValues((tree,), leaves[output][None], output))
            trees.append(tree)
            values.append(leaves)
            hessians.append(sums[:, 1])
    released = np.stack(hessians)
    noise = plan.step.noise(released, float(plan.leaf.sigmas[0]), plan.weight_bound)
    mass = released_mass(released, plan.weight_bound)
    forest = Forest.of(trees, values, of_each(mass, outputs), of_each(noise, outputs))
    return before.extended(forest, [outputs] * settings.n_estimators)
