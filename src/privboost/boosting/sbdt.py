"""S-BDT: boosting with random trees, leaf-balanced noise, sampling and individual budgets.

Trees are drawn before anything is known of the rows, so that only their leaves cost privacy. The
totally random trees of Maddock et al. are the same recipe with other settings (`sbdt_presets`).
"""

from __future__ import annotations

import numpy as np

from privboost.boosting.candidates import HessianThresholds, Thresholds, even_thresholds
from privboost.boosting.newton import released_mass
from privboost.boosting.sbdt_plan import SBDTPlan
from privboost.boosting.structures import RandomTrees
from privboost.engine.queries import HESSIAN, NodeHistograms, TreeSums
from privboost.engine.updates import AddTreeValues
from privboost.models.trees import Forest, TreeScores
from privboost.privacy.curator import Curator
from privboost.progress import Track
from privboost.trees.tree import Tree, stump


def boost_sbdt(
    curator: Curator,
    plan: SBDTPlan,
    structures: RandomTrees,
    before: TreeScores,
    track: Track = iter,
) -> TreeScores:
    """Add random trees to a model that has been started.

    Parameters
    ----------
    curator : Curator
        Who releases.
    plan : SBDTPlan
        What was decided; its releases are reserved.
    structures : RandomTrees
        Draws the trees.
    before : TreeScores
        The model so far.
    track : callable
        Wraps the updates, to show progress.

    Returns
    -------
    TreeScores
        The model with the new trees.

    Privacy
    -------
    Spends what `plan.releases` holds beside the initial score: the leaves of each batch of trees
    for each output, and the refinements of candidates; or, where rows have budgets for life, the
    budgets. The number of updates is fixed, whoever is still active.
    """
    settings = plan.settings
    if plan.life is not None:
        curator.open_budget(plan.life)
    thresholds: Thresholds = even_thresholds(
        plan.encoder, None if settings.candidates == "all" else settings.n_candidates
    )
    refined = HessianThresholds(plan.encoder, settings.n_candidates, rule=settings.candidate_rule)
    total = settings.n_estimators + settings.extra_estimators
    trees: list[Tree] = []
    values: list[np.ndarray] = []
    hessians: list[np.ndarray] = []
    updates = []
    for update in track(range(settings.n_updates)):
        if plan.hessian is not None and update < settings.refinements:
            thresholds = _refine(curator, plan, refined, update)
        batch = tuple(
            structures.draw(number, thresholds)
            for number in range(len(trees), min(len(trees) + settings.batch_size, total))
        )
        steps = np.empty((plan.task.n_outputs, len(batch), batch[0].n_leaves), dtype=np.int32)
        bends = np.empty(steps.shape, dtype=np.int64)
        for output in range(plan.task.n_outputs):
            query = TreeSums(batch, output, settings.statistics)
            sums = curator.sums(query, plan.leaf)
            bends[output] = sums[..., 1]
            leaves = plan.step.values(sums[..., 0], sums[..., 1], plan.weight_bound)
            leaves[settings.left_at_zero(sums[..., 1])] = 0
            steps[output] = np.rint(leaves / len(batch))  # trees of one batch are averaged
            curator.publish(AddTreeValues(batch, steps[output], output))
        trees += batch
        values += list(steps.transpose(1, 0, 2))
        hessians += list(bends.transpose(1, 0, 2))
        updates.append(len(batch))
    released = np.stack(hessians)
    noise = plan.step.noise(released, float(plan.leaf.sigmas[0]), plan.weight_bound)
    noise /= np.repeat(updates, updates)[:, None, None]
    noise[settings.left_at_zero(released)] = 0
    mass = released_mass(released, plan.weight_bound)
    return before.extended(Forest.of(trees, values, mass, noise), updates)


def _refine(
    curator: Curator, plan: SBDTPlan, refined: HessianThresholds, update: int
) -> Thresholds:
    """Release where the Hessians lie, of one output after the other, and move the thresholds."""
    assert plan.hessian is not None
    output = update % plan.task.n_outputs
    query = NodeHistograms(stump(), refined.cells(), output, HESSIAN)
    refined.refine(curator.sums(query, plan.hessian)[0, :, 0])
    return refined.thresholds
