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

from privboost.boosting.answers import Answers
from privboost.boosting.calibrated import calibrate_scores
from privboost.boosting.echoes import Echoes
from privboost.boosting.initial_score import count_rows, release_start, tell_start
from privboost.boosting.interactions import Interactions
from privboost.boosting.knowledge import Knowledge
from privboost.boosting.privboost_model import pack_model
from privboost.boosting.privboost_plan import PrivBoostPlan
from privboost.engine.queries import CellSums, TreeSums
from privboost.engine.updates import AddCellValues, AddTreeValues
from privboost.grid import SCORE_STEPS
from privboost.models.additive import AdditiveScores
from privboost.models.compound import CompoundScores
from privboost.privacy.curator import Curator
from privboost.progress import Track
from privboost.trees.cell_map import CellMap


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
    of rows (with pure ε both are fixed beforehand). Which features and which cells an answer is
    about follows from earlier answers; a row lies in one cell of each question, whichever they are.
    """
    outputs = range(plan.task.n_outputs)
    start, counts = release_start(curator, plan, plan.init)
    rows = np.maximum(counts * plan.step, 1.0)
    clip = plan.clip_for(float(rows.max()))
    tell_start(curator, plan.task.table(clip, plan.hessian_clip_for(clip)), start)
    weights = [plan.weight_of(float(rows[output]), start[output], clip) for output in outputs]
    answers = plan.answers_for(float(np.mean(weights)), clip)
    if plan.is_exchanged:
        curator.exchange(plan.answers, answers.planned(len(outputs)))

    known = [plan.knowledge(answers, weight, clip) for weight in weights]
    rounds = iter(track(range(answers.n_alone + answers.n_joint)))
    for _ in islice(rounds, answers.n_alone):
        for output in outputs:
            _ask_alone(curator, answers, known[output], output, generator)
    joined = [
        plan.interactions(answers, own, weight, clip)
        for own, weight in zip(known, weights, strict=True)
        if answers.joint is not None
    ]
    for _ in rounds:
        for output in outputs:
            _ask_jointly(curator, answers, joined[output], output, generator)
    echoes = [
        Echoes(
            known[output],
            joined[output] if joined else None,
            start[output] / SCORE_STEPS,
            plan.start_noise(start[output], counts[output]),
            plan.response(rows[output], clip),
        )
        for output in outputs
    ]
    told = count_rows(plan, plan.init, counts)
    model = pack_model(plan, known, joined, start, echoes, told)
    return calibrate_scores(curator, plan, plan.scores, model, list(rows))


def _ask_alone(
    curator: Curator,
    answers: Answers,
    known: Knowledge,
    output: int,
    generator: np.random.Generator,
) -> None:
    """Ask about one feature, or several, learn from the answer, and tell the rows."""
    questions = known.next_questions(answers.questions_alone, generator)
    cells = CellMap.side_by_side(known.cells_of(question) for question in questions)
    sums = curator.sums(CellSums(cells, output), answers.alone)
    changes = known.hear(questions, cells.split(sums))
    moved = CellMap.side_by_side(known.bins[question.feature].map for question in questions)
    curator.publish(AddCellValues(moved, np.concatenate(changes), output))


def _ask_jointly(
    curator: Curator,
    answers: Answers,
    joined: Interactions,
    output: int,
    generator: np.random.Generator,
) -> None:
    """Ask about a pair or a tree, or several, learn from the answer, and tell the rows."""
    answer, questions = answers.joint, answers.questions_joint
    assert answer is not None
    pairs = joined.next_pairs(questions, generator)
    if pairs:
        cells = CellMap.side_by_side(pair.cells for pair in pairs)
        sums = curator.sums(CellSums(cells, output), answer)
        changes = joined.hear_pairs(pairs, cells.split(sums))
        curator.publish(AddCellValues(cells, np.concatenate(changes), output))
    else:
        trees = joined.next_trees(questions, generator)
        sums = curator.sums(TreeSums(trees, output), answer)
        curator.publish(AddTreeValues(trees, joined.hear_trees(trees, sums), output))
