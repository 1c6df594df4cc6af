"""The model of effects, pairs and trees, packed from posteriors and replayed noise."""

from __future__ import annotations

import numpy as np

from privboost._core.grid import SCORE_STEPS
from privboost.models.additive import AdditiveScores
from privboost.models.forest import Forest
from privboost.models.interactions import InteractionScores, PairValues
from privboost.models.trees import TreeScores
from privboost.recipes.common.feature_posteriors import FeaturePosteriors
from privboost.recipes.common.interactions import Interactions
from privboost.recipes.common.noise_replay import NoiseReplay
from privboost.recipes.common.scale import Scale, ScaledPlan


def pack_model(
    plan: ScaledPlan,
    scale: Scale,
    posteriors: list[FeaturePosteriors],
    interactions: list[Interactions],
    replays: list[NoiseReplay],
) -> AdditiveScores | InteractionScores:
    """Return the released model, with noisy counts and standard deviations of its values."""
    features = range(len(plan.encoder.domain.features))
    by_code = [[one.by_code(feature) for one in posteriors] for feature in features]
    parts = [[np.stack(part) for part in zip(*outputs, strict=True)] for outputs in by_code]
    values, mass = zip(*parts, strict=True)
    if plan.exposure is not None:
        known = plan.exposure.values[None] + np.int32(plan.exposure.of_one)
        values = (*values[: plan.exposure.feature], known, *values[plan.exposure.feature + 1 :])
    mass = tuple(own / scale.row_mass for own in mass)
    noise = tuple(
        np.stack(
            [
                (replay.effects[feature] * SCORE_STEPS)[one.bins[feature].of_code]
                for one, replay in zip(posteriors, replays, strict=True)
            ]
        )
        for feature in features
    )
    together = np.array([replay.together for replay in replays])
    missing = np.sum([one.missing for one in posteriors], axis=0)  # noise of outputs is independent
    missing[:, 2] = np.sqrt(missing[:, 2])
    start = scale.start + np.int32(scale.zero)
    single = AdditiveScores(start, values, mass, noise, together, scale.counted, missing)
    if not interactions:
        return single
    pairs = [
        PairValues.of(
            output, pair.cells, pair.effect.published, pair.effect.rows, moved * SCORE_STEPS
        )
        for output, (own, replay) in enumerate(zip(interactions, replays, strict=True))
        for pair, moved in zip(own.pairs.values(), replay.pairs, strict=True)
    ]
    nothing = np.zeros(len(posteriors), dtype=np.int32)
    trees = TreeScores.of(nothing, plan.encoder.layout.n_codes)
    for output, (own, replay) in enumerate(zip(interactions, replays, strict=True)):
        if own.trees:
            forest = _forest(own, replay, output, len(posteriors))
            trees = trees.extended(forest, [1] * len(own.trees))
    return InteractionScores.of(single, tuple(pairs), trees)


def _forest(own: Interactions, replay: NoiseReplay, output: int, outputs: int) -> Forest:
    """Return the trees of one output as a forest."""
    count, leaves = len(own.trees), own.trees[0].tree.n_leaves
    values, mass, noise = (np.zeros((count, outputs, leaves)) for _ in range(3))
    for number, grown in enumerate(own.trees):
        values[number, output], mass[number, output] = grown.published, np.rint(grown.mass)
        noise[number, output] = replay.trees[number] * SCORE_STEPS
    trees = [grown.tree for grown in own.trees]
    return Forest.of(trees, list(values.astype(np.int32)), mass.astype(np.int32), noise)
