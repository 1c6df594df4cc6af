"""The flagship: ask at the resolution the noise allows, and keep every answer.

Each round asks for the sums of gradients and Hessians in a few cells: first of one feature, then of
a pair of features or by leaf of a random tree. All answers about a feature, or a pair, are pooled
in the posterior of its effect, and the rows follow its mean. First every feature has its turns,
then those come more often whose effect, or the doubt about it, is large; pairs and trees look where
effects are large. All that is read off released values, so it is free. At last rows are counted by
score and class, and two numbers make probabilities honest.
"""

from __future__ import annotations

from itertools import islice

import numpy as np

from privboost.boosting.calibrated import calibrate_scores
from privboost.boosting.echoes import N_ROWS, Echoes
from privboost.boosting.initial_score import release_start, tell_start
from privboost.boosting.interactions import Interactions
from privboost.boosting.knowledge import Knowledge
from privboost.boosting.privboost_plan import PrivBoostPlan
from privboost.engine.queries import CellSums, TreeSums
from privboost.engine.updates import AddCellValues, AddTreeValues
from privboost.grid import SCORE_STEPS
from privboost.models.additive import AdditiveScores
from privboost.models.compound import CompoundScores
from privboost.models.pairs import PairValues
from privboost.models.trees import Forest, TreeScores
from privboost.privacy.curator import Curator
from privboost.privacy.events.sums import GaussianRelease
from privboost.progress import Track


def boost_privboost(
    curator: Curator,
    plan: PrivBoostPlan,
    generator: np.random.Generator,
    track: Track = iter,
) -> AdditiveScores | CompoundScores:
    """Train a model of effects, of pairs and trees.

    Parameters
    ----------
    curator : Curator
        Who releases.
    plan : PrivBoostPlan
        What was decided; its releases are reserved.
    generator : numpy.random.Generator
        Public randomness: where cells begin, which rare categories share one, pairs and trees.
    track : callable
        Wraps the rounds, to show progress.

    Returns
    -------
    AdditiveScores or CompoundScores
        The start, for each feature and code its effect, and what features do together, where that
        could be asked.

    Privacy
    -------
    Spends `plan.releases`: the start, the counts by score, and between them answers that cost at
    most what is reserved for them together; their number and noise follow from the released number
    of rows. Which features and which cells an answer is about follows from earlier answers; a row
    lies in one cell of them, whichever they are.
    """
    outputs = range(plan.task.n_outputs)
    start, counts = release_start(curator, plan, plan.init)
    rows = np.maximum(counts * plan.step, 1.0)
    clip = plan.clip_for(float(rows.max()))
    tell_start(curator, plan.task.table(clip, plan.hessian_clip_for(clip)), start)
    weights = [plan.weight_of(float(rows[output]), start[output], clip) for output in outputs]
    answers = plan.answers_for(float(np.mean(weights)), clip)
    curator.exchange(plan.answers, answers.planned(len(outputs)))

    known = [plan.knowledge(answers, weight, clip) for weight in weights]
    rounds = iter(track(range(answers.n_alone + answers.n_joint)))
    for round_ in islice(rounds, answers.n_alone):
        for output in outputs:
            _ask_alone(curator, answers.alone, known[output], round_, output, generator)
    joined = [
        plan.interactions(answers, own, weight, clip)
        for own, weight in zip(known, weights, strict=True)
        if answers.joint is not None
    ]
    for _ in rounds:
        for output in outputs:
            _ask_jointly(curator, answers.joint, joined[output], output, generator)
    echoes = [
        _echoes(
            plan,
            known[output],
            joined[output] if joined else None,
            start[output],
            counts[output],
            clip,
        )
        for output in outputs
    ]
    return calibrate_scores(curator, plan, _model(plan, known, joined, start, echoes))


def _ask_alone(
    curator: Curator,
    answer: GaussianRelease,
    known: Knowledge,
    round_: int,
    output: int,
    generator: np.random.Generator,
) -> None:
    """Ask about one feature, learn from the answer, and tell the rows."""
    feature = known.next_feature(round_)
    cell_of = known.question(feature, generator)
    query = CellSums(known.bins[feature].joined(cell_of), output)
    change = known.hear(feature, cell_of, curator.gaussian(query, answer))
    curator.publish(AddCellValues(known.bins[feature].map, change, output))


def _ask_jointly(
    curator: Curator,
    answer: GaussianRelease | None,
    joined: Interactions,
    output: int,
    generator: np.random.Generator,
) -> None:
    """Ask about a pair or a tree, learn from the answer, and tell the rows."""
    assert answer is not None
    pair = joined.next_pair(generator)
    if pair is not None:
        sums = curator.gaussian(CellSums(pair.cells, output), answer)
        curator.publish(AddCellValues(pair.cells, joined.hear_pair(pair, sums), output))
    else:
        tree = joined.next_tree(generator)
        sums = curator.gaussian(TreeSums((tree,), output), answer)[0]
        curator.publish(AddTreeValues((tree,), joined.hear_tree(tree, sums)[None], output))


def _echoes(
    plan: PrivBoostPlan,
    known: Knowledge,
    joined: Interactions | None,
    start: int,
    count: int,
    clip: float,
) -> Echoes:
    """Return how far noise moved one output."""
    rows = max(float(count) * plan.step, 1.0) / N_ROWS

    def response(scores: np.ndarray) -> np.ndarray:
        return rows * plan.response_of(scores, clip)

    return Echoes(known, joined, start / SCORE_STEPS, plan.start_noise(start, count), response)


def _model(
    plan: PrivBoostPlan,
    known: list[Knowledge],
    joined: list[Interactions],
    start: np.ndarray,
    echoes: list[Echoes],
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
    alone = AdditiveScores(start, values, mass, noise, together)
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
