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
from privboost.boosting.greedy_plan import GreedyPlan
from privboost.boosting.plan import released_mass
from privboost.boosting.structures import RandomTrees
from privboost.engine.commands import (
    GRADIENT_COUNT,
    HESSIAN,
    AddTreeValues,
    NodeHistograms,
    TreeSums,
)
from privboost.engine.splits import Splits
from privboost.engine.tree import Tree, stump
from privboost.models.trees import Group, TreeScores
from privboost.privacy.events import Selection
from privboost.privacy.mechanisms import Curator
from privboost.privacy.utilities import SplitGain
from privboost.progress import Track

PRESETS: dict[str, dict[str, Any]] = {
    "XGB": {"features": "all", "candidates": "grid"},
    "XGB_cyc": {"features": "cyclical", "candidates": "grid"},
    "XGB_ada": {"features": "all", "candidates": "hessian"},
}
"""The published variants: gradients of the whole range, equal noise for gradients and Hessians."""
for _preset in PRESETS.values():
    _preset |= {"gradient_clip": 1.0, "hessian_clip": 0.25, "hessian_share": 1 / 17}


def boost_greedily(
    curator: Curator,
    plan: GreedyPlan,
    structures: RandomTrees,
    before: TreeScores,
    track: Track = iter,
) -> TreeScores:
    """Add greedy trees to a model that has been started.

    Parameters
    ----------
    curator : Curator
        Who chooses and releases.
    plan : GreedyPlan
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
    sketch = HessianThresholds(plan.encoder, settings.n_candidates)
    thresholds: Thresholds = even_thresholds(plan.encoder, settings.n_candidates)
    trees, values, hessians = [], [], []
    for round_ in track(range(settings.n_estimators)):
        if plan.sketch is not None and round_ < settings.refinements:
            cell_of, n_cells = sketch.cells()
            query = NodeHistograms(
                stump(), sketch.features, cell_of, n_cells, round_ % outputs, HESSIAN
            )
            sketch.refine(curator.gaussian(query, plan.sketch)[0, :, 0])
            thresholds = sketch.thresholds
        splits = splits_of(plan.encoder, thresholds, structures.features_of(round_))
        for output in range(outputs):
            tree = grow(
                curator,
                splits,
                settings.greedy_depth or 0,
                settings.split_lambda,
                plan.selection,
                output,
            )
            tree = structures.deepen(tree, round_, thresholds)
            sums = curator.gaussian(TreeSums((tree,), output), plan.leaf)[0]
            leaves = np.zeros((outputs, tree.n_leaves), dtype=np.int32)
            leaves[output] = plan.step.values(sums[:, 0], sums[:, 1], plan.weight_bound)
            curator.publish(AddTreeValues((tree,), leaves[output][None], output))
            trees.append(tree)
            values.append(leaves)
            hessians.append(sums[:, 1])
    released = np.stack(hessians)
    noise = plan.step.noise(released, float(plan.leaf.sigmas[0]), plan.weight_bound)
    mass = released_mass(released, plan.weight_bound)
    group = Group.of(trees, values, of_each(mass, outputs), of_each(noise, outputs))
    return before.extended(group, [outputs] * settings.n_estimators)


def of_each(leaves: np.ndarray, outputs: int) -> np.ndarray:
    """Spread what belongs to trees of one output after the other; zero in the others' places."""
    spread = np.zeros((len(leaves), outputs, leaves.shape[1]), dtype=leaves.dtype)
    numbers = np.arange(len(leaves))
    spread[numbers, numbers % outputs] = leaves
    return spread


def grow(
    curator: Curator,
    splits: Splits,
    depth: int,
    split_lambda: float,
    event: Selection,
    output: int,
) -> Tree:
    """Choose splits level by level; return the tree.

    A node chooses among the splits that part what its path leaves open; the path is public.

    Privacy
    -------
    Spends `event` once for each level.
    """
    tree, reach = stump(), splits.start_reach()
    width = max(map(len, splits.cell_of))
    for _ in range(depth):
        utility = SplitGain(splits, split_lambda, splits.allowed(reach))
        query = NodeHistograms(
            tree, splits.features, splits.cell_of, splits.n_cells, output, GRADIENT_COUNT
        )
        chosen = curator.select(query, utility, event)
        tree = tree.with_level([splits.turns(int(candidate)) for candidate in chosen], width)
        reach = splits.follow(reach, chosen)
    return tree
