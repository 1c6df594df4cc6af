"""PrivBoost, the default recipe: queries at the resolution that noise allows, pooled posteriors.

Each round measures the sums of gradients and Hessians in a few cells: first of one feature, then of
a pair of features or by leaf of a random tree. All measurements of a feature, or a pair, are pooled
in the posterior of its effect, whose mean updates the rows' scores. First every feature is measured
in turn, then those more often whose effect, or its uncertainty, is large; pairs and trees are drawn
where effects are large. These choices follow from released values, so they are free. At last rows
are counted by score and class, and two numbers calibrate probabilities.
"""

from __future__ import annotations

from itertools import islice

import numpy as np

from privboost._core.grid import SCORE_STEPS
from privboost._core.progress import Track
from privboost.engine.queries import CellSums, TreeSums
from privboost.engine.updates import AddCellValues, AddTreeValues
from privboost.mechanisms.curator import Curator
from privboost.models.additive import AdditiveScores
from privboost.models.forest import Forest
from privboost.models.interactions import InteractionScores, PairValues
from privboost.models.trees import TreeScores
from privboost.recipes.common.feature_posteriors import FeaturePosteriors
from privboost.recipes.common.interactions import Interactions
from privboost.recipes.common.newton import count_rows, publish_start, release_start
from privboost.recipes.common.noise_replay import NoiseReplay
from privboost.recipes.common.probability_calibration import calibrate_scores
from privboost.recipes.privboost_plan import Measurements, PrivBoostPlan
from privboost.trees.cell_map import CellMap


def boost_privboost(
    curator: Curator,
    plan: PrivBoostPlan,
    generator: np.random.Generator,
    track: Track = iter,
) -> AdditiveScores | InteractionScores:
    """Train a model of effects, pairs and trees.

    Parameters
    ----------
    curator : Curator
        Releases noisy sums, and updates the rows' scores.
    plan : PrivBoostPlan
        Plan whose releases are reserved.
    generator : numpy.random.Generator
        Public randomness: where cells begin, which rare categories share one, pairs and trees.
    track : callable
        Progress bar around the rounds.

    Returns
    -------
    AdditiveScores or InteractionScores
        Initial score, effect of each feature by code, and interactions where they were measured.

    Privacy
    -------
    Spends `plan.releases`: the initial score, the counts by score, and between them measurements
    that cost at most the reserve together; their number and noise follow from the released number
    of rows (with pure ε both are fixed beforehand). Which features and which cells a query has
    follows from earlier measurements; a row lies in one cell of each query, whichever they are.
    """
    outputs = range(plan.task.n_outputs)
    start, counts = release_start(curator, plan, plan.init)
    rows = np.maximum(counts * plan.step, 1.0)
    clip = plan.clip_for(float(rows.max()))
    publish_start(curator, plan.task.table(clip, plan.hessian_clip_for(clip)), start)
    weights = [plan.weight_of(float(rows[output]), start[output], clip) for output in outputs]
    measured = plan.measurements_for(float(np.mean(weights)), clip)
    if plan.is_exchanged:
        curator.exchange(plan.reserve, measured.planned(len(outputs)))

    posteriors = [plan.posteriors(measured, weight, clip) for weight in weights]
    rounds = iter(track(range(measured.n_single + measured.n_joint)))
    for _ in islice(rounds, measured.n_single):
        for output in outputs:
            _measure_features(curator, measured, posteriors[output], output, generator)
    interactions = [
        plan.interactions(measured, own, weight, clip)
        for own, weight in zip(posteriors, weights, strict=True)
        if measured.joint is not None
    ]
    for _ in rounds:
        for output in outputs:
            _measure_interactions(curator, measured, interactions[output], output, generator)
    replays = [
        NoiseReplay(
            posteriors[output],
            interactions[output] if interactions else None,
            start[output] / SCORE_STEPS,
            plan.start_noise(start[output], counts[output]),
            plan.response(rows[output], clip),
        )
        for output in outputs
    ]
    noisy_rows = count_rows(plan, plan.init, counts)
    model = pack_model(plan, posteriors, interactions, start, replays, noisy_rows)
    return calibrate_scores(curator, plan, plan.scores, model, list(rows))


def _measure_features(
    curator: Curator,
    measured: Measurements,
    posteriors: FeaturePosteriors,
    output: int,
    generator: np.random.Generator,
) -> None:
    """Measure one feature, or several, update their posteriors, and the rows' scores."""
    queries = posteriors.next_queries(measured.single_queries, generator)
    cells = CellMap.side_by_side(posteriors.cells_of(query) for query in queries)
    sums = curator.sums(CellSums(cells, output), measured.single)
    changes = posteriors.observe(queries, cells.split(sums))
    moved = CellMap.side_by_side(posteriors.bins[query.feature].map for query in queries)
    curator.publish(AddCellValues(moved, np.concatenate(changes), output))


def _measure_interactions(
    curator: Curator,
    measured: Measurements,
    interactions: Interactions,
    output: int,
    generator: np.random.Generator,
) -> None:
    """Measure a pair or a tree, or several, update their posteriors, and the rows' scores."""
    release, queries = measured.joint, measured.joint_queries
    assert release is not None
    pairs = interactions.next_pairs(queries, generator)
    if pairs:
        cells = CellMap.side_by_side(pair.cells for pair in pairs)
        sums = curator.sums(CellSums(cells, output), release)
        changes = interactions.observe_pairs(pairs, cells.split(sums))
        curator.publish(AddCellValues(cells, np.concatenate(changes), output))
    else:
        trees = interactions.next_trees(queries, generator)
        sums = curator.sums(TreeSums(trees, output), release)
        curator.publish(AddTreeValues(trees, interactions.observe_trees(trees, sums), output))


def pack_model(
    plan: PrivBoostPlan,
    posteriors: list[FeaturePosteriors],
    interactions: list[Interactions],
    start: np.ndarray,
    replays: list[NoiseReplay],
    rows: np.ndarray,
) -> AdditiveScores | InteractionScores:
    """Return the released model, with noisy counts and standard deviations of its values."""
    by_code = [[one.by_code(feature) for one in posteriors] for feature in range(plan.n_features)]
    parts = [[np.stack(part) for part in zip(*outputs, strict=True)] for outputs in by_code]
    values, mass = zip(*parts, strict=True)
    noise = tuple(
        np.stack(
            [
                (replay.effects[feature] * SCORE_STEPS)[one.bins[feature].of_code]
                for one, replay in zip(posteriors, replays, strict=True)
            ]
        )
        for feature in range(plan.n_features)
    )
    together = np.array([replay.together for replay in replays])
    missing = np.sum([one.missing for one in posteriors], axis=0)  # noise of outputs is independent
    missing[:, 2] = np.sqrt(missing[:, 2])
    single = AdditiveScores(start, values, mass, noise, together, rows, missing)
    if not interactions:
        return single
    pairs = [
        PairValues.of(output, pair.cells, pair.published, pair.effect.rows, moved * SCORE_STEPS)
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
