"""The flagship's model: all that rows were told, packed."""

from __future__ import annotations

import numpy as np

from privboost.boosting.echoes import Echoes
from privboost.boosting.interactions import Interactions
from privboost.boosting.knowledge import Knowledge
from privboost.boosting.privboost_plan import PrivBoostPlan
from privboost.grid import SCORE_STEPS
from privboost.models.additive import AdditiveScores
from privboost.models.compound import CompoundScores
from privboost.models.pairs import PairValues
from privboost.models.trees import Forest, TreeScores


def pack_model(
    plan: PrivBoostPlan,
    known: list[Knowledge],
    joined: list[Interactions],
    start: np.ndarray,
    echoes: list[Echoes],
    rows: np.ndarray,
) -> AdditiveScores | CompoundScores:
    """Return all that rows were told, with the released mass and how far noise moved it."""
    told = [[one.by_code(feature) for one in known] for feature in range(plan.n_features)]
    parts = [[np.stack(part) for part in zip(*outputs, strict=True)] for outputs in told]
    values, mass = zip(*parts, strict=True)
    noise = tuple(
        np.stack(
            [
                (echo.effects[feature] * SCORE_STEPS)[one.bins[feature].of_code]
                for one, echo in zip(known, echoes, strict=True)
            ]
        )
        for feature in range(plan.n_features)
    )
    together = np.array([echo.together for echo in echoes])
    missing = np.sum([one.missing for one in known], axis=0)  # noise of outputs is independent
    missing[:, 2] = np.sqrt(missing[:, 2])
    alone = AdditiveScores(start, values, mass, noise, together, rows, missing)
    if not joined:
        return alone
    pairs = [
        PairValues.of(output, pair.cells, pair.told, pair.effect.rows, moved * SCORE_STEPS)
        for output, (own, echo) in enumerate(zip(joined, echoes, strict=True))
        for pair, moved in zip(own.pairs.values(), echo.pairs, strict=True)
    ]
    nothing = np.zeros(len(known), dtype=np.int32)
    trees = TreeScores.of(nothing, plan.encoder.layout.n_codes)
    for output, (own, echo) in enumerate(zip(joined, echoes, strict=True)):
        if own.trees:
            forest = _forest(own, echo, output, len(known))
            trees = trees.extended(forest, [1] * len(own.trees))
    return CompoundScores(alone, tuple(pairs), trees)


def _forest(own: Interactions, echo: Echoes, output: int, outputs: int) -> Forest:
    """Pack the trees of one output."""
    count, leaves = len(own.trees), own.trees[0].tree.n_leaves
    values, mass, noise = (np.zeros((count, outputs, leaves)) for _ in range(3))
    for number, grown in enumerate(own.trees):
        values[number, output], mass[number, output] = grown.told, np.rint(grown.mass)
        noise[number, output] = echo.trees[number] * SCORE_STEPS
    trees = [grown.tree for grown in own.trees]
    return Forest.of(trees, list(values.astype(np.int32)), mass.astype(np.int32), noise)
