"""The flagship's plan: where to begin, what answers may cost together, calibrated scores.

How many answers there are, and of which kind, is decided once the number of rows is released: a
fixed sum of μ² is reserved for them, and exchanged for what follows from released values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from privboost.boosting.answers import Answers, Rule
from privboost.boosting.calibrated import check_calibration, counts_release
from privboost.boosting.checks import (
    check_count,
    check_flag,
    check_grid,
    check_monotone,
    check_rest,
    check_share,
    check_size,
    check_slopes,
    keep_checked,
)
from privboost.boosting.draft import Draft
from privboost.boosting.effects import Noise, largest_value
from privboost.boosting.initial_score import initial_release
from privboost.boosting.interactions import Interactions
from privboost.boosting.knowledge import Knowledge
from privboost.boosting.newton import grid_step
from privboost.boosting.plan import Budget, Plan, PublicRows, listed
from privboost.boosting.questions import BINS, FINE_BINS
from privboost.boosting.target_span import plan_span
from privboost.grid import SCORE_STEPS
from privboost.privacy.events.event import Planned
from privboost.privacy.events.sums import GaussianRelease, LaplaceRelease, NoisySums
from privboost.tables.encoding import Encoder

SWEEPS, PURE_SWEEPS = 12, 3
"""How often a feature is asked about, on average; the latter with pure ε.

There each answer has a part of ε, not of μ²: twice as many are twice as loud."""

PURE_HESSIAN_SHARE = 0.2
"""The Hessian's share of an answer with pure ε, where noise goes with 1/share, not its root."""

FEWEST_CELLS = 4
"""Cells of one answer; the most are half of a number's bins, or as many where bins are finer.

Fine bins that share cells would be told apart by differences of answers from different rounds. All
else moves in between, and where noise is too small to hide that, bins fly apart."""

_FINE = 4.0
"""Where an answer could have so many cells for each bin, numbers have finer bins."""

_ALL = "reserve for all questions, divided once rows are counted"
"""What is reserved for answers, in words; what is made of it has words of its own."""

_TYPICAL = {"classes": 0.5, "number": 0.15}
"""The size of an effect that an answer should be able to tell, by the target."""

_SPREAD = {"classes": 1.0, "number": 0.05}
"""The variance of gradients, for a sum of Hessians of 1."""

_CLEAR = 4.0
"""In how many deviations of the noise a cell should show a typical effect."""

_CLIP, _STRENGTH, _GROWTH = 0.3, 50.0, 0.2
"""The clip of gradients, at which strength of a feature it is that, and how it grows with it."""

_NARROWEST, _WIDEST = 0.25, 1.0
"""Between these it stays."""

_LEAST_BEND, _MOST_BEND = 0.1, 0.25
"""Between these the clip of a class' Hessians stays; the latter is the largest there is."""

MOST_CODES = 512
"""Codes of a feature that takes part in interactions: a tree keeps them all at every node."""

MOST_LEAVES = 256
"""Leaves of a tree."""

_MOST_HESSIAN = 1e3
"""Of its clip: no Hessian is above 1, and noise that is far larger drowns what is known in it."""


@dataclass(frozen=True)
class PrivBoostSettings:
    """What can be chosen.

    Attributes
    ----------
    n_estimators : int
        Answers about single features, for each output.
    interactions : bool
        Whether features are asked about jointly, too.
    gradient_clip : float or None
        What a row's gradient is clipped to; None follows the released number of rows.
    hessian_clip : float or None
        The same for the Hessian; None follows the gradient's.
    hessian_share : float
        The Hessian's share of an answer.
    init_share, calibration_share, span_share : float
        What the start, the calibration of scores, and finding a number's span, have of μ².
    at_once : int
        How many questions one round asks, at most.
    monotone : tuple of (str, int)
        Numbers whose effect goes one way: 1 if it never falls, −1 if it never rises.
    """

    n_estimators: int
    interactions: bool
    gradient_clip: float | None
    hessian_clip: float | None
    hessian_share: float
    init_share: float
    calibration_share: float
    span_share: float = 0.0
    at_once: int = 1
    monotone: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        keep_checked(
            self,
            n_estimators=check_count,
            at_once=check_count,
            interactions=check_flag,
            monotone=check_monotone,
            gradient_clip=_check_clip,
            hessian_clip=partial(_check_clip, below=_MOST_HESSIAN),
            hessian_share=check_share,
            init_share=check_share,
            calibration_share=partial(check_share, or_else=0),
            span_share=partial(check_share, or_else=0),
        )
        check_rest(
            init_share=self.init_share,
            calibration_share=self.calibration_share,
            span_share=self.span_share,
        )

    def rounds_alone(self, features: int) -> tuple[int, int]:
        """Return how many rounds ask about single features, and about how many each."""
        questions = min(self.at_once, features)
        return -(-self.n_estimators // questions), questions


def alone_in_words(questions: int) -> str:
    """Say what a round about features releases; which they are is no part of its cost."""
    features = "a feature" if questions == 1 else f"each of {questions} features"
    return f"gradients and Hessians by cell of {features}"


def joint_in_words(questions: int) -> str:
    """Say the same of a round about pairs, or about trees."""
    if questions == 1:
        return "gradients and Hessians by cell of two features, or by leaf of a tree"
    return (
        f"gradients and Hessians by cell of each of {questions} pairs of features, or by leaf of "
        f"each of {questions} trees"
    )


def _check_clip(name: str, value: Any, **bounds: float) -> float | None:
    return None if value is None else check_size(name, value, **bounds)


@dataclass(frozen=True, eq=False)
class PrivBoostPlan(Plan):
    """The flagship's plan.

    Attributes
    ----------
    settings : PrivBoostSettings
        What was chosen.
    init : GaussianRelease or LaplaceRelease
        Where boosting begins, and the number of rows.
    answers : GaussianRelease or LaplaceRelease
        What all answers together may cost: it is never made itself. With pure ε, one round.
    scores : GaussianRelease or LaplaceRelease or None
        Rows by score and class.
    rule : Rule
        How answers are divided.
    """

    _hashed: ClassVar[tuple[str, ...]] = ("task", "settings", "contribution", "budget", "rule")

    settings: PrivBoostSettings
    init: GaussianRelease
    answers: GaussianRelease
    scores: GaussianRelease | None
    rule: Rule = field(default_factory=Rule)

    @property
    def pure(self) -> bool:
        """Whether the budget is pure ε: then noise is Laplace's, and answers are of features."""
        return self.budget.delta == 0

    @property
    def is_exchanged(self) -> bool:
        """Whether answers take the place of what was reserved for them; with pure ε none do."""
        return not self.pure

    @property
    def step(self) -> float:
        """What one step of a sum is worth, in clips of rows of the largest weight."""
        return grid_step(None if self.weight_bound is None else 1.0)

    def worth_of_steps(self, clip: float) -> tuple[float, float]:
        """Return what one step of an answer's gradients and Hessians is worth."""
        return clip * self.step, self.hessian_clip_for(clip) * self.step

    def noise_of(self, answer: NoisySums, clip: float) -> Noise:
        """Return the noise of an answer where gradients are clipped to `clip`."""
        gradient, hessian = answer.deviations * self.worth_of_steps(clip)
        return Noise(float(gradient), float(hessian), _SPREAD[self.task.target])

    def clip_for(self, rows: float) -> float:
        """Return what gradients are clipped to, given the released number of rows.

        For classes it grows slowly with the rows that a feature has, in deviations of the noise
        that all rounds together leave.
        """
        if self.settings.gradient_clip is not None:
            return self.settings.gradient_clip
        if self.task.target == "number":
            return _CLIP
        sigma = self._noise_of_all * self.step
        strength = rows / max(sigma * self.n_features, 1e-300)
        grown = _CLIP * (strength / _STRENGTH) ** _GROWTH
        return float(min(max(grown, _NARROWEST), _WIDEST))

    @property
    def _noise_of_all(self) -> float:
        """The noise in the mean of one output's answers, times the root of their number."""
        noise = float(self.answers.deviations[0])
        if self.pure:
            return noise / math.sqrt(math.prod(self.settings.rounds_alone(self.n_features)))
        return noise * math.sqrt(self.task.n_outputs)

    def hessian_clip_for(self, clip: float) -> float:
        """Return what Hessians are clipped to: a third of the gradients' clip, for classes.

        Both sums then fall short alike. Gradients without and Hessians with a clip would make
        steps too long, and features that say the same would overshoot in turn.
        """
        if self.settings.hessian_clip is not None:
            return self.settings.hessian_clip
        if self.task.target == "number":
            return 1.0
        return min(max(clip / 3, _LEAST_BEND), _MOST_BEND)

    def weight_of(self, rows: float, start: int, clip: float) -> float:
        """Return the sum of all Hessians, about, where scores begin."""
        if self.task.target == "number":
            return rows
        rate = 1 / (1 + math.exp(-start / SCORE_STEPS))
        return rows * min(rate * (1 - rate), self.hessian_clip_for(clip))

    def response_of(self, scores: np.ndarray, clip: float) -> np.ndarray:
        """Return by how much gradients change with scores, about: clipped ones do not.

        Labels are as likely as scores say; a number's residuals are Gaussian.
        """
        if self.task.target == "number":
            inside = math.erf(clip / math.sqrt(2 * _SPREAD["number"]))
            return np.full(len(scores), inside)
        rate = 1 / (1 + np.exp(-scores))
        inside = rate * (1 - rate <= clip) + (1 - rate) * (rate <= clip)
        response: np.ndarray = rate * (1 - rate) * inside
        return response

    def response(self, rows: float, clip: float) -> Callable[[np.ndarray], np.ndarray]:
        """Return the same of so many rows, as a function of scores."""
        return lambda scores: rows * self.response_of(scores, clip)

    def start_noise(self, start: int, count: int) -> float:
        """Return the standard deviation of where scores begin, given what was released."""
        mean = float(self.init.deviations[0]) / max(count, self.contribution.row_steps)
        if self.task.target == "number":
            return mean
        rate = 1 / (1 + math.exp(-start / SCORE_STEPS))
        return mean / (2 * rate * (1 - rate))

    def answers_for(self, weight: float, clip: float) -> Answers:
        """Return what is asked, given the sum of all Hessians, about.

        Interactions have a part that grows with the cells that an answer about them could have.
        """
        if self.pure:
            rounds, questions = self.settings.rounds_alone(self.n_features)
            return Answers(self.answers, None, rounds, 0, questions, 1)
        tried = self.answers.scaled(math.sqrt(2 * self.task.n_outputs * self.rule.tried))
        cells = self._cells(tried, self.rule.tried, weight, clip)
        part, joint = self.rule.divide(cells)
        return self._divided(part, joint) if self._joins and joint else self._divided(0.0, 0)

    @property
    def _joins(self) -> bool:
        """Whether there may be answers about several features."""
        return self.settings.interactions and sum(self.free) > 1

    def _divided(self, part: float, joint: int) -> Answers:
        """Return answers of which so many are about several features, and cost a part of all."""
        outputs, others = self.task.n_outputs, min(self.settings.at_once, max(joint, 1))
        n_alone, features = self.settings.rounds_alone(self.n_features)
        n_joint = -(-joint // others)
        alone = self._answer(alone_in_words(features), features, outputs * n_alone / (1 - part))
        jointly = (
            self._answer(joint_in_words(others), others, outputs * n_joint / part)
            if joint
            else None
        )
        return Answers(alone, jointly, n_alone, n_joint, features, others)

    def check_answers(self) -> None:
        """Refuse a plan whose answers might not fit the grid, or the budget with the grid's slack.

        How many there are is known once the start is paid for; whatever they are, they must do.
        """
        if self.pure or isinstance(self.budget, PublicRows):
            return
        most = [(self.rule.most_part, self.rule.most_count)] if self._joins else []
        others = [planned for planned in self.releases if planned.event is not self.answers]
        for part, joint in [(0.0, 0), *most]:
            made = self._divided(part, joint).planned(self.task.n_outputs)
            check_grid(planned.event for planned in made)
            together = [*self.budget.before, *others, *made]
            if not self.accountant.cost(together, self.budget.delta) <= self.budget.epsilon:
                raise ValueError(
                    "delta is too large for so small an epsilon: what the integer grid adds to the "
                    "cost of many answers would exceed it"
                )

    def _answer(self, what: str, questions: int, times: float) -> GaussianRelease:
        """Return one of so many rounds that cost together what is reserved, of some questions."""
        return replace(self.answers.asking(questions).scaled(math.sqrt(times)), what=what)

    def _cells(self, answer: NoisySums, count: int, weight: float, clip: float) -> float:
        """Return how many cells each of so many questions should have, for an effect to stand out.

        Parameters
        ----------
        weight : float
            The sum of all Hessians, about.
        """
        noise = float(self.noise_of(answer, clip).gradient)
        typical = weight * _TYPICAL[self.task.target] * (count / self.n_features) ** 0.25
        return float(typical / max(_CLEAR * noise, 1e-300))

    def knowledge(self, answers: Answers, weight: float, clip: float) -> Knowledge:
        """Return what is known of one output's features before any answer: nothing."""
        count = answers.n_alone * answers.questions_alone
        wanted = self._cells(answers.alone, count, weight, clip)
        bins, most = (FINE_BINS, FINE_BINS) if wanted > _FINE * BINS else (BINS, BINS // 2)
        cells = int(min(max(wanted, FEWEST_CELLS), most))
        noise, worth = self.noise_of(answers.alone, clip), self.worth_of_steps(clip)
        questions = answers.questions_alone
        return Knowledge(self.encoder, noise, cells, worth, self.slopes, bins, questions)

    def interactions(
        self, answers: Answers, known: Knowledge, weight: float, clip: float
    ) -> Interactions:
        """Return what is known of one output's pairs and trees, once its features are."""
        assert answers.joint is not None
        questions = answers.questions_joint
        count = answers.n_joint * questions
        cells = self._cells(answers.joint, count, weight, clip)
        leaves = int(min(max(cells, FEWEST_CELLS), MOST_LEAVES))
        noise, worth = self.noise_of(answers.joint, clip), self.worth_of_steps(clip)
        most = largest_value(count)
        return Interactions(known.places(), noise, leaves, count, worth, most, self.free, questions)

    @property
    def slopes(self) -> list[int]:
        """Which way the effect of each feature goes, 0 for any."""
        chosen = dict(self.settings.monotone)
        return [chosen.get(name, 0) for name in self.encoder.domain.feature_names]

    @property
    def free(self) -> list[bool]:
        """Which features may act together with others: what they add could break any slope."""
        codes = self.encoder.layout.n_codes
        few = [count <= MOST_CODES for count in codes]
        return [slope == 0 and fits for slope, fits in zip(self.slopes, few, strict=True)]

    @property
    def n_features(self) -> int:
        """How many features there are."""
        return len(self.encoder.domain.features)

    @property
    def parameters(self) -> dict[str, Any]:
        """What was chosen, for reports."""
        return {"loss": self.task.loss, **listed(self.settings)}


def plan_privboost(
    encoder: Encoder,
    settings: PrivBoostSettings,
    weight_bound: float | None,
    budget: Budget,
    accountant: str,
) -> PrivBoostPlan:
    """Decide everything about a run, and calibrate its noise."""
    if budget.delta == 0:
        settings = replace(settings, interactions=False)
    draft = Draft(encoder, weight_bound, budget, accountant)
    outputs, last, span = draft.task.n_outputs, settings.calibration_share, settings.span_share
    check_calibration(last, draft.task.target, draft.task.loss)
    check_slopes(settings.monotone, encoder, outputs)
    shares = (1 - settings.hessian_share, settings.hessian_share)
    kind = LaplaceRelease if budget.delta == 0 else GaussianRelease
    init, scores = initial_release(kind, 1.0, draft.bound), counts_release(kind, draft.bound)
    answer, count = kind(_ALL, 1.0, cells=1, shares=shares, **draft.bound), 1
    if kind is LaplaceRelease:
        rounds, questions = settings.rounds_alone(len(encoder.domain.features))
        answer, count = answer.asking(questions), outputs * rounds
        answer = replace(answer, what=alone_in_words(questions))
    made = draft.share(
        [
            ("span", plan_span(draft, span, kind), span),
            ("init", Planned(init, outputs), settings.init_share),
            ("answers", Planned(answer, count), 1 - settings.init_share - last - span),
            ("scores", Planned(scores, outputs), last),
        ]
    )
    plan = PrivBoostPlan(
        **made.fields,
        settings=settings,
        init=made["init"],
        answers=made["answers"],
        scores=made.get("scores"),
    )
    plan.check_answers()
    return plan
