"""DP-XGBoost of Sarus, made sound: greedy trees under pure ε.

Split candidates follow a noisy histogram of each number, released once. A tree is grown and its
leaves are released on one Poisson sample; sums of gradients and counts have noise each.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import replace

import numpy as np

from privboost.boosting.candidates import HessianThresholds, even_thresholds, splits_of
from privboost.boosting.greedy import grow, of_each
from privboost.boosting.newton import grid_step, released_mass
from privboost.boosting.sarus_plan import SarusPlan
from privboost.engine.queries import COUNT, GRADIENT_COUNT, NodeHistograms, TreeSums
from privboost.engine.updates import AddTreeValues
from privboost.grid import SCORE_STEPS
from privboost.models.trees import Forest, TreeScores
from privboost.privacy.curator import Curator
from privboost.progress import Track
from privboost.trees.tree import stump


def boost_sarus(
    curator: Curator, plan: SarusPlan, before: TreeScores, track: Track = iter
) -> TreeScores:
    """Add greedy trees to a model that has been started.

    Parameters
    ----------
    curator : Curator
        Who chooses and releases.
    plan : SarusPlan
        What was decided; its releases are reserved.
    before : TreeScores
        The model so far.
    track : callable
        Wraps the rounds, to show progress.

    Privacy
    -------
    Spends what `plan.releases` holds beside the initial score: one sketch, and for each round and
    output a choice for each level and a release of leaves, whatever the rows.
    """
    settings, outputs = plan.settings, plan.task.n_outputs
    thresholds = even_thresholds(plan.encoder, settings.n_candidates)
    if plan.sketch is not None:
        sketch = HessianThresholds(plan.encoder, settings.n_candidates)
        spans = NodeHistograms(stump(), sketch.cells(), 0, COUNT)
        sketch.refine(curator.laplace(spans, plan.sketch)[0, :, 0])
        thresholds = sketch.thresholds
    splits = splits_of(plan.encoder, thresholds, tuple(range(len(plan.encoder.domain.features))))
    trees, values, counts, noise = [], [], [], []
    for round_ in track(range(settings.n_estimators)):
        for output in range(outputs):
            with nullcontext() if plan.group is None else curator.sampling(plan.group):
                tree = grow(
                    curator,
                    splits,
                    settings.max_depth,
                    settings.split_lambda,
                    plan.selection,
                    output,
                )
                query = TreeSums((tree,), output, GRADIENT_COUNT)
                sums = curator.laplace(query, plan.leaf)[0]
            leaves = np.zeros((outputs, tree.n_leaves), dtype=np.int32)
            leaves[output], doubt = _leaf_values(plan, sums, round_)
            curator.publish(AddTreeValues((tree,), leaves[output][None], output))
            trees.append(tree)
            values.append(leaves)
            counts.append(sums[:, 1])
            noise.append(doubt)
    mass = of_each(released_mass(np.stack(counts), plan.weight_bound), outputs)
    forest = Forest.of(trees, values, mass, of_each(np.stack(noise), outputs))
    return before.extended(forest, [outputs] * settings.n_estimators)


def _leaf_values(plan: SarusPlan, sums: np.ndarray, round_: int) -> tuple[np.ndarray, np.ndarray]:
    """Turn noisy sums and counts into values, beside what noise alone gives them.

    Later trees may do less, and thin leaves nothing.
    """
    settings, step = plan.settings, plan.step
    if settings.geometric_clip:
        clip = step.leaf_clip * max((1 - step.learning_rate) ** round_, 2 / SCORE_STEPS)
        step = replace(step, leaf_clip=clip)
    values = step.values(sums[:, 0], sums[:, 1], plan.weight_bound)
    noise = step.noise(sums[:, 1], math.sqrt(2) * float(plan.leaf.scales[0]), plan.weight_bound)
    thin = sums[:, 1] * grid_step(plan.weight_bound) < settings.min_child_weight
    return np.where(thin, 0, values).astype(np.int32), np.where(thin, 0.0, noise)
