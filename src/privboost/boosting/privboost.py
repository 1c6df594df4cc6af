"""The flagship: ask at the resolution the noise allows, and keep every answer.

Each round asks for the sums of one feature's gradients and Hessians in a few cells. All answers
about a feature are pooled in the posterior of its effect, and the rows follow its mean. First every
feature has its turns, then those come more often whose effect, or the doubt about it, is large: all
that is read off released values, so it is free, and the noise of every answer is the same. At last
rows are counted by score and class, and two numbers make probabilities honest.
"""

from __future__ import annotations

import numpy as np

from privboost.boosting.calibrated import release_line
from privboost.boosting.initial_score import release_start, tell_start
from privboost.boosting.knowledge import Knowledge
from privboost.boosting.privboost_plan import PrivBoostPlan
from privboost.boosting.probabilities import ScoreCells
from privboost.engine.queries import CellSums
from privboost.engine.updates import AddCellValues
from privboost.grid import SCORE_STEPS
from privboost.models.additive import AdditiveScores
from privboost.privacy.curator import Curator
from privboost.progress import Track


def boost_privboost(
    curator: Curator,
    plan: PrivBoostPlan,
    generator: np.random.Generator,
    track: Track = iter,
) -> AdditiveScores:
    """Train an additive model.

    Parameters
    ----------
    curator : Curator
        Who releases.
    plan : PrivBoostPlan
        What was decided; its releases are reserved.
    generator : numpy.random.Generator
        Public randomness: where cells begin, and which rare categories share one.
    track : callable
        Wraps the rounds, to show progress.

    Returns
    -------
    AdditiveScores
        The start, and for each feature and code its effect.

    Privacy
    -------
    Spends exactly `plan.releases`: the start, one answer for each round and output, and the counts
    by score, whatever the data. Which feature and which cells an answer is about follows from
    earlier answers; a row lies in one cell of them, whichever they are.
    """
    outputs = range(plan.task.n_outputs)
    start, counts = release_start(curator, plan, plan.init)
    rows = np.maximum(counts * plan.step, 1.0)
    clip = plan.clip_for(float(rows.max()))
    tell_start(curator, plan.task.table(clip, plan.hessian_clip_for(clip)), start)
    weights = [plan.weight_of(float(rows[output]), start[output], clip) for output in outputs]
    noise, worth = plan.noise_with(clip), plan.worth_of_steps(clip)
    known = [
        Knowledge(plan.encoder, noise, plan.cells_for(weight, clip), worth) for weight in weights
    ]
    for round_ in track(range(plan.settings.n_estimators)):
        for output in outputs:
            _ask(curator, plan, known[output], round_, output, generator)
    for output in outputs:
        if plan.scores is not None:
            start[output] = _release_line(
                curator, plan, known[output], start[output], output, generator
            )
    return _model(known, start)


def _ask(
    curator: Curator,
    plan: PrivBoostPlan,
    known: Knowledge,
    round_: int,
    output: int,
    generator: np.random.Generator,
) -> None:
    """Ask about one feature, learn from the answer, and tell the rows."""
    feature = known.next_feature(round_)
    cell_of = known.question(feature, generator)
    query = CellSums(known.bins[feature].joined(cell_of), output)
    change = known.hear(feature, cell_of, curator.gaussian(query, plan.question))
    curator.publish(AddCellValues(known.bins[feature].map, change, output))


def _release_line(
    curator: Curator,
    plan: PrivBoostPlan,
    known: Knowledge,
    start: np.int32,
    output: int,
    generator: np.random.Generator,
) -> np.int32:
    """Release rows by score and class; put all values on a line that fits. Return the start."""
    assert plan.scores is not None
    typical = start + known.typical(generator)
    cells = ScoreCells.around(typical)
    slope, shift = release_line(curator, plan, plan.scores, output, cells)
    slope = known.stretch(slope)
    return np.int32(np.rint(slope * start + shift * SCORE_STEPS))


def _model(known: list[Knowledge], start: np.ndarray) -> AdditiveScores:
    """Return for each feature and code its effect, the released mass, and the doubt."""
    told = [[one.by_code(feature) for one in known] for feature in range(len(known[0].bins))]
    parts = [[np.stack(part) for part in zip(*outputs, strict=True)] for outputs in told]
    values, mass, doubt = zip(*parts, strict=True)
    return AdditiveScores(start, values, mass, doubt)
