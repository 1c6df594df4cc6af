"""The flagship: ask at the resolution the noise allows, and keep every answer.

Each round asks for the sums of one feature's gradients and Hessians in a few cells. All answers
about a feature are pooled in the posterior of its effect, and the rows follow its mean. First every
feature has its turns, then those come more often whose effect, or the doubt about it, is large: all
that is read off released values, so it is free, and the noise of every answer is the same. At last
rows are counted by score and class, and two numbers make probabilities honest.
"""

from __future__ import annotations

import numpy as np

from privboost.boosting.effects import VARIANCES, Effect, shared_belief
from privboost.boosting.privboost_plan import PrivBoostPlan
from privboost.boosting.probabilities import EDGES, centres, fit_line
from privboost.boosting.questions import Bins, moving_cells
from privboost.engine.queries import GRADIENT_COUNT, CellSums, ScoreCounts, TreeSums
from privboost.engine.updates import AddCellValues, AddTreeValues, Start
from privboost.grid import MAX_SCORE, SCORE_STEPS
from privboost.losses import loss_of
from privboost.models.additive import AdditiveScores
from privboost.privacy.curator import Curator
from privboost.progress import Track
from privboost.trees.tree import stump

TURNS = 4
"""How often each feature is asked about before some come more often."""

FOCUS = 0.7
"""The part of later rounds that follows the size of effects; the rest is shared evenly."""


_DRAWN = 4096
"""Rows that are drawn from what was released, to see where scores lie."""

_LARGEST = (MAX_SCORE - 64) * SCORE_STEPS
"""What all effects of a row may add up to, in score steps."""


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
    start, rows = _release_start(curator, plan)
    clip = plan.clip_for(float(rows.max()))
    curator.publish(Start(plan.task.table(clip, plan.hessian_clip_for(clip)), len(outputs)))
    known = []
    for output in outputs:
        curator.publish(AddTreeValues((stump(),), start[output].reshape(1, 1), output))
        known.append(
            Knowledge(plan, clip, plan.weight_of(float(rows[output]), start[output], clip))
        )
    for round_ in track(range(plan.settings.n_estimators)):
        for output in outputs:
            _ask(curator, plan, known[output], round_, output, generator)
    for output in outputs:
        if plan.scores is not None:
            start[output] = _release_line(
                curator, plan, known[output], start[output], output, generator
            )
    return _model(known, start)


class Knowledge:
    """What is known of one output: the effect of each feature, and whom to ask about next.

    Parameters
    ----------
    plan : PrivBoostPlan
        What was decided.
    clip : float
        What gradients are clipped to.
    weight : float
        The sum of all Hessians, about.
    """

    def __init__(self, plan: PrivBoostPlan, clip: float, weight: float) -> None:
        encoder = plan.encoder
        self.bins = [Bins.of(encoder, f) for f in range(len(encoder.domain.features))]
        self.effects = [
            None if own.too_many else Effect.of(own, len(self.bins)) for own in self.bins
        ]
        self.told = [np.zeros(len(own.learned), dtype=np.int32) for own in self.bins]
        self.noise, self.cells = plan.noise_with(clip), plan.cells_for(weight, clip)
        self.units = plan.units(clip)
        self.slope = 1.0  # what calibration multiplies values by, and their doubt
        self._evidence = np.zeros((len(self.bins), len(VARIANCES)))
        self._weights = np.full_like(self._evidence, 1 / len(VARIANCES))
        self._sizes, self._due = np.zeros(len(self.bins)), np.zeros(len(self.bins))

    def next_feature(self, round_: int) -> int:
        """Return each feature in turn, then those of a large effect or doubt more often."""
        count = len(self.bins)
        if round_ < TURNS * count:
            return round_ % count
        total = float(self._sizes.sum())
        focus = FOCUS if total > 0 else 0.0
        self._due += focus * self._sizes / max(total, 1e-300) + (1 - focus) / count
        feature = int(self._due.argmax())
        self._due[feature] -= 1
        return feature

    def question(self, feature: int, generator: np.random.Generator) -> np.ndarray:
        """Return the cell of each bin that the next answer about a feature is about."""
        effect = self.effects[feature]
        if effect is None:  # which of many categories are frequent is not known yet
            return np.arange(len(self.bins[feature].learned))
        return moving_cells(effect.profile, effect.ordered, self.cells, generator)

    def hear(self, feature: int, cell_of: np.ndarray, sums: np.ndarray) -> np.ndarray:
        """Take in an answer; return by how much the values of the feature's bins change."""
        gradient: np.ndarray = -sums[:, 0] * self.units[0]
        hessian: np.ndarray = sums[:, 1] * self.units[1]
        noise = self.noise
        if self.effects[feature] is None:
            shared = self._share_bins(feature, hessian)
            noise = noise.times(np.sqrt(np.bincount(shared)))
            gradient, hessian = np.bincount(shared, gradient), np.bincount(shared, hessian)
            cell_of = np.arange(len(hessian))
        effect = self.effects[feature]
        assert effect is not None
        effect.hear(cell_of, gradient, hessian, noise, shared_belief(self._evidence, self._weights))
        self._evidence[feature], self._weights[feature] = effect.evidence, effect.weights
        self._sizes[feature] = effect.size
        told = np.rint(effect.values * SCORE_STEPS).astype(np.int32)
        change: np.ndarray = told - self.told[feature]
        self.told[feature] = told
        return change

    def typical(self, generator: np.random.Generator) -> np.ndarray:
        """Return what effects add to the scores of rows drawn from released profiles."""
        scores = np.zeros(_DRAWN, dtype=np.int64)
        for effect, told in zip(self.effects, self.told, strict=True):
            if effect is not None and told.any():
                ends = np.cumsum(effect.profile)
                bins = np.searchsorted(ends, generator.random(_DRAWN) * ends[-1], side="right")
                scores += told[np.minimum(bins, len(told) - 1)]
        return scores

    def by_code(self, feature: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return for each code of a feature its value, its released mass, and its deviation."""
        of, told, effect = self.bins[feature].of_code, self.told[feature], self.effects[feature]
        if effect is None:
            return told[of], np.zeros(len(of)), np.zeros(len(of))
        mass = effect.rows / np.maximum(np.bincount(of, minlength=len(told)), 1)
        doubt = np.sqrt(effect.variances()) * self.slope * SCORE_STEPS
        return told[of], mass[of], doubt[of]

    def _share_bins(self, feature: int, hessian: np.ndarray) -> np.ndarray:
        """Let rare ones of many categories share a bin; return the bin of each."""
        self.bins[feature], shared = self.bins[feature].shared(hessian)
        self.told[feature] = np.zeros(len(self.bins[feature].learned), dtype=np.int32)
        self.effects[feature] = Effect.of(self.bins[feature], len(self.bins))
        return shared


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


def _release_start(curator: Curator, plan: PrivBoostPlan) -> tuple[np.ndarray, np.ndarray]:
    """Release the mean label and the number of rows; return where scores begin, and the number."""
    outputs, loss = range(plan.task.n_outputs), loss_of(plan.task.target, plan.task.loss)
    assert loss.start is not None
    curator.publish(Start(loss.table(loss.start_clip, 1.0), len(outputs)))
    start, rows = np.zeros(len(outputs), dtype=np.int32), np.zeros(len(outputs))
    for output in outputs:
        query = TreeSums((stump(),), output, GRADIENT_COUNT)
        total, count = curator.gaussian(query, plan.init)[0, 0]
        score = loss.start(total / max(count, plan.contribution.row_steps))
        start[output] = int(np.rint(score * SCORE_STEPS))
        rows[output] = max(count * plan.step, 1.0)
    return start, rows


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
    counts = curator.gaussian(ScoreCounts(EDGES, 2, output), plan.scores)[:, :, 0] * plan.step
    at = centres(start + known.typical(generator))
    slope, shift = fit_line(counts, float(plan.scores.sigmas[0]) * plan.step, at)
    slope = min(slope, _LARGEST / max(sum(int(np.abs(told).max()) for told in known.told), 1))
    known.slope = slope
    for feature, told in enumerate(known.told):
        known.told[feature] = np.rint(slope * told).astype(np.int32)
    return np.int32(np.rint(slope * start + shift * SCORE_STEPS))


def _model(known: list[Knowledge], start: np.ndarray) -> AdditiveScores:
    """Return for each feature and code its effect, the released mass, and the doubt."""
    told = [[one.by_code(feature) for one in known] for feature in range(len(known[0].bins))]
    parts = [[np.stack(part) for part in zip(*outputs, strict=True)] for outputs in told]
    values, mass, doubt = zip(*parts, strict=True)
    return AdditiveScores(start, values, mass, doubt)
