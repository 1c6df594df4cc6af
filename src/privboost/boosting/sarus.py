"""DP-XGBoost of Sarus, made sound: greedy trees under pure ε.

Split candidates follow noisy histograms of each number, released once or for each tree. A tree is
grown and its leaves are released on one Poisson sample: sums of gradients and counts have noise
each, or their quotients have.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from privboost.boosting.candidates import HessianThresholds, splits_of
from privboost.boosting.greedy import grow, of_each
from privboost.boosting.newton import NewtonStep, grid_step, released_mass
from privboost.boosting.sarus_plan import SarusPlan
from privboost.engine.queries import COUNT, GRADIENT_COUNT, HESSIAN, NodeHistograms, TreeSums
from privboost.engine.updates import AddTreeValues
from privboost.grid import SCORE_STEPS
from privboost.models.trees import Forest, TreeScores
from privboost.privacy.curator import Curator
from privboost.privacy.leaf_means import MEAN_STEPS, lambda_steps
from privboost.progress import Track
from privboost.trees.splits import Splits
from privboost.trees.tree import Tree, stump

PRESETS: dict[str, dict[str, Any]] = {
    "DP_XGBoost": {
        "loss": "squared",
        "n_estimators": 20,
        "learning_rate": 0.3,
        "subsample": 0.1,
        "gradient_clip": 1.0,
        "reg_lambda": 0.1,
        "split_lambda": 0.1,
        "leaf_clip": 1.0,
        "init_share": 0.0,
        "calibration_share": 0.0,
        "span_share": 0.0,
        "shares": (1 / 3, 1 / 3, 1 / 3),
        "n_candidates": 50,
        "sketch_weights": "hessian",
        "sketch_each_tree": True,
    },
}
"""The published settings; depth, of which the paper says nothing, is the default."""


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
    Spends what `plan.releases` holds beside the initial score: one sketch (or one a tree), and for
    each round and output a choice for each level and a release of leaves, whatever the rows.
    """
    settings, outputs = plan.settings, plan.task.n_outputs
    candidates = _Candidates(plan)
    if not settings.sketch_each_tree:
        candidates.refine(curator, 0)
    trees, values, counts, noise = [], [], [], []
    for round_ in track(range(settings.n_estimators)):
        for output in range(outputs):
            with nullcontext() if plan.group is None else curator.sampling(plan.group):
                if settings.sketch_each_tree:
                    candidates.refine(curator, output)
                tree = grow(
                    curator,
                    candidates.splits(),
                    settings.max_depth,
                    settings.split_lambda,
                    plan.selection,
                    output,
                )
                sums = _released_leaves(curator, plan, tree, output)
            leaves = np.zeros((outputs, tree.n_leaves), dtype=np.int32)
            leaves[output], doubt = _leaf_values(plan, sums, round_)
            curator.publish(AddTreeValues((tree,), leaves[output][None], output))
            trees.append(tree)
            values.append(leaves)
            counts.append(sums[:, -1])
            noise.append(doubt)
    if settings.leaves == "means":  # which say nothing of how many rows there are
        forest = Forest.of(trees, values)
    else:
        mass = of_each(released_mass(np.stack(counts), plan.weight_bound), outputs)
        forest = Forest.of(trees, values, mass, of_each(np.stack(noise), outputs))
    return before.extended(forest, [outputs] * settings.n_estimators)


class _Candidates:
    """Where numbers may be split: evenly, until a sketch is released."""

    def __init__(self, plan: SarusPlan) -> None:
        settings = plan.settings
        self._plan = plan
        self._sketch = HessianThresholds(plan.encoder, settings.n_candidates, settings.sketch_bins)
        self._statistics = HESSIAN if settings.sketch_weights == "hessian" else COUNT

    def refine(self, curator: Curator, output: int) -> None:
        """Release a sketch, where there is one, and follow it."""
        if self._plan.sketch is not None:
            spans = NodeHistograms(stump(), self._sketch.cells(), output, self._statistics)
            self._sketch.refine(curator.sums(spans, self._plan.sketch)[0, :, 0])

    def splits(self) -> Splits:
        """Return all split candidates."""
        encoder = self._plan.encoder
        features = tuple(range(len(encoder.domain.features)))
        return splits_of(encoder, self._sketch.thresholds, features)


def _released_leaves(curator: Curator, plan: SarusPlan, tree: Tree, output: int) -> np.ndarray:
    """Release what a tree's leaves are made of: sums and counts, or means, by leaf."""
    query = TreeSums((tree,), output, GRADIENT_COUNT)
    if plan.settings.leaves == "sums":
        sums: np.ndarray = curator.sums(query, plan.leaf)[0]
        return sums
    means = curator.laplace_means(query, lambda_steps(plan.step.reg_lambda), plan.leaf)
    return means.reshape(-1, 1)


def _leaf_values(plan: SarusPlan, sums: np.ndarray, round_: int) -> tuple[np.ndarray, np.ndarray]:
    """Turn what was released into values, beside what noise alone gives them.

    Later trees may do less, and thin leaves nothing.
    """
    settings, step = plan.settings, plan.step
    if settings.geometric_clip:
        clip = step.leaf_clip * max((1 - step.learning_rate) ** round_, 2 / SCORE_STEPS)
        step = replace(step, leaf_clip=clip)
    sigma = math.sqrt(2) * float(plan.leaf.scales[0])
    if settings.leaves == "means":
        return _mean_values(step, sums[:, 0], sigma)
    values = step.values(sums[:, 0], sums[:, 1], plan.weight_bound)
    noise = step.noise(sums[:, 1], sigma, plan.weight_bound)
    thin = sums[:, 1] * grid_step(plan.weight_bound) < settings.min_child_weight
    return np.where(thin, 0, values).astype(np.int32), np.where(thin, 0.0, noise)


def _mean_values(
    step: NewtonStep, means: np.ndarray, sigma: float
) -> tuple[np.ndarray, np.ndarray]:
    """Turn noisy means into values, beside what noise alone gives them."""
    size, most = step.gradient_clip / MEAN_STEPS, step.leaf_clip
    rate = step.learning_rate * SCORE_STEPS
    values = np.rint(np.clip(-means * size, -most, most) * rate).astype(np.int32)
    return values, np.full(len(means), min(sigma * size, most) * rate)
