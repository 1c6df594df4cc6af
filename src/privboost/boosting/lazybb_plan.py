"""The plan of smooth boosting: votes of rules or small trees that are chosen privately."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, ClassVar, cast

from privboost.boosting.calibrated import counts_release
from privboost.boosting.checks import (
    check_candidates,
    check_choice,
    check_count,
    check_part,
    check_share,
    check_size,
    count_cells,
    keep_checked,
)
from privboost.boosting.draft import Draft, Shared
from privboost.boosting.plan import Budget, Plan, PublicRows, contribution_of
from privboost.privacy.calibration import by_shares
from privboost.privacy.events.event import Planned, Relation, Selection
from privboost.privacy.events.sums import GaussianRelease, LaplaceRelease
from privboost.privacy.formulas import gdp_mu
from privboost.privacy.utilities.smooth import (
    MOST_DECAY,
    MOST_NODES,
    MOST_VOTES,
    Smoothing,
)
from privboost.tables.domain import Domain
from privboost.tables.encoding import Encoder

MOST_SPLITS = MOST_NODES - 1
_REPLACED = Relation.REPLACE_ONE
_OF_PURE = ("pure", "advanced")
"""Accountants that know pure releases only."""
_MOST_COUNTS = 2**28
"""Counts of one query, of 8 bytes each."""


@dataclass(frozen=True)
class LazyBBSettings:
    """What votes, how often, and how rows are weighted.

    Parameters
    ----------
    n_estimators : int
        τ: votes on each output.
    learning_rate : float
        λ: how fast rows that are voted on rightly lose weight.
    density : float
        κ: the part of the rows that the weight is spread over at least.
    learner : {"rule", "tree"}
        What votes: a literal, or a tree.
    n_splits : int
        Inner nodes of a tree.
    label_share : float
        The share of a tree's budget (on μ²) that the classes of its leaves have.
    n_candidates : int
        Thresholds of a number.
    literals : {"thresholds", "intervals"}
        What is asked of a number: whether it is above a threshold, or between two next to each
        other.
    criterion : {"gini"}
        What splits of a tree lower.
    calibration_share : float
        What the counts of rows by votes and class have: of ε where it adds up, else of μ².
    """

    n_estimators: int
    learning_rate: float
    density: float
    learner: str
    n_splits: int
    label_share: float
    n_candidates: int
    literals: str = "thresholds"
    criterion: str = "gini"
    calibration_share: float = 0.0

    def __post_init__(self) -> None:
        keep_checked(
            self,
            n_estimators=partial(check_count, most=MOST_VOTES),
            learning_rate=check_size,
            density=partial(check_part, or_else=1),
            learner=partial(check_choice, choices=("rule", "tree")),
            n_splits=partial(check_count, most=MOST_SPLITS),
            label_share=check_share,
            n_candidates=check_count,
            literals=partial(check_choice, choices=("thresholds", "intervals")),
            criterion=_check_criterion,
            calibration_share=partial(check_share, or_else=0),
        )
        if self.learning_rate * self.n_estimators > MOST_DECAY:
            raise ValueError(f"learning_rate * n_estimators must be at most {MOST_DECAY:g}")

    @property
    def smoothing(self) -> Smoothing:
        """How margins become weights."""
        return Smoothing(self.density, self.learning_rate)


def _check_criterion(name: str, criterion: Any) -> str:
    if isinstance(criterion, str) and criterion == "entropy":
        raise ValueError(
            f'{name}: "entropy" is not offered: the first row of its class in a leaf moves it by '
            "the logarithm of the leaf's rows, so that its choices would be far noisier than those "
            'of "gini", which moves by 4 at most'
        )
    return check_choice(name, criterion, ("gini",))


_SHARPNESS = 60.0
_SHARPEST = 1e100
"""Stands for an infinite ε: a number, so that no rows at all stay nothing."""
_FEWEST, _MOST = 5, 99


def density_for(budget: Budget, n_rows: int, n_outputs: int) -> float:
    """Return a density: the more a budget affords, the fewer rows the weight may be spread over.

    A density of κ keeps boosting from the part κ of the rows that are hardest, whatever the number
    of votes; a small one makes every choice noisier. Measured on three data sets, at budgets from
    0.1 to 3: 0.8·Q^−0.2, with Q the sharpness of 75 choices among all rows.
    """
    sharpness = _epsilon_of_a_vote(budget, 75 * n_outputs) * n_rows / 2
    return float(min(max(round(0.8 * max(sharpness, 1.0) ** -0.2, 3), 0.15), 0.5))


def votes_for(budget: Budget, n_rows: int, density: float, n_outputs: int) -> int:
    """Return how many votes a budget affords: an odd number, so that votes on two classes differ.

    A vote is worth casting while the choice of its rule is sharp: P ∝ exp(η · accuracy), with
    η = ε₀κn/2. The number of votes is the largest for which η is at least `_SHARPNESS`.
    """
    affordable = [
        votes
        for votes in range(_FEWEST, _MOST + 1, 2)
        if _epsilon_of_a_vote(budget, votes * n_outputs) * density * n_rows / 2 >= _SHARPNESS
    ]
    return max(affordable, default=_FEWEST)


def rate_for(votes: int) -> float:
    """Return a learning rate: the more votes there are, the less each should change weights.

    Measured as the density: 1.6/√τ is near the best from 5 votes to 99.
    """
    return round(1.6 / math.sqrt(votes), 3)


def votes_of_theory(advantage: float, density: float) -> int:
    """Return the votes for which theory promises margins: 16·ln(1/κ)/γ² or more, and odd.

    If each vote is right about ½ + γ of the weight and λ = γ/4, the share of rows whose margin,
    over the votes, is γ or less is then κ at most.
    """
    votes = max(1, math.ceil(16 * math.log(1 / density) / advantage**2))
    return votes + 1 - votes % 2


def _epsilon_of_a_vote(budget: Budget, choices: int) -> float:
    """Return about what each of so many choices may cost: ε/k, or 2μ/√k where δ allows it."""
    if isinstance(budget, PublicRows):
        return _SHARPEST
    pure = budget.epsilon / choices
    if budget.delta == 0:
        return pure
    return max(pure, 2 * gdp_mu(budget.epsilon, budget.delta) / math.sqrt(choices))


@dataclass(frozen=True, eq=False)
class LazyBBPlan(Plan):
    """The plan of smooth boosting; its releases are in the order in which choices are made.

    Attributes
    ----------
    settings : LazyBBSettings
        The votes.
    """

    _hashed: ClassVar[tuple[str, ...]] = ("task", "settings", "contribution", "budget")

    settings: LazyBBSettings

    @property
    def choice(self) -> Selection:
        """The choice of a rule, or of one split of a tree."""
        return self._selection(0)

    @property
    def labels(self) -> Selection:
        """The choice of the classes of a tree's leaves."""
        return self._selection(1)

    @property
    def scores(self) -> GaussianRelease | LaplaceRelease | None:
        """The release of rows by votes and class, at the end, if there is one."""
        if self.settings.calibration_share == 0:
            return None
        return cast(GaussianRelease, self.releases[-1].event)

    def _selection(self, place: int) -> Selection:
        return cast(Selection, self.releases[place].event)  # or, of public rows, Exact

    @property
    def parameters(self) -> dict[str, Any]:
        """What was chosen, for reports."""
        of_trees = ("n_splits", "label_share", "criterion")
        unused = () if self.settings.learner == "tree" else of_trees
        return {k: v for k, v in asdict(self.settings).items() if k not in unused}

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What is taken to be public beside the domain."""
        if self.encoder.domain.unit is not None:
            return (
                "the number of units is public: neighbours replace one, none is added or removed",
            )
        return (
            "the number of rows that can be read is public: neighbours replace a row, none is "
            "added or removed; defaults of n_estimators and density follow it",
        )


def check_single_rows(domain: Domain) -> None:
    """Refuse a domain in which a unit has several rows."""
    if contribution_of(domain, None).rows > 1:
        raise ValueError(
            "units of several rows: smooth boosting protects the replacement of one row; give the "
            "domain a unit with max_rows 1, or none"
        )


def plan_lazybb(
    encoder: Encoder, settings: LazyBBSettings, budget: Budget, accountant: str
) -> LazyBBPlan:
    """Decide everything about a run of smooth boosting, and calibrate its choices."""
    check_candidates(settings.n_candidates, encoder)
    check_single_rows(encoder.domain)
    draft = Draft(encoder, None, budget, accountant)
    nodes = settings.n_splits + 1 if settings.learner == "tree" else 1
    cells = count_cells(encoder, settings.n_candidates)
    if 2 * nodes * (cells + 1) * (settings.n_estimators + 1) > _MOST_COUNTS:
        raise ValueError(
            "the counts of a round would be too large: lower n_estimators, n_splits or n_candidates"
        )
    made = draft.scale(_wanted(draft, settings))
    return LazyBBPlan(**made.fields, settings=settings)


def _wanted(draft: Draft, settings: LazyBBSettings) -> list[tuple[str, Planned]]:
    """List all releases in their order: the choices of votes, then counts of rows by votes."""
    outputs, share = draft.task.n_outputs, settings.calibration_share
    choices = _choices(settings, settings.n_estimators * outputs)
    names = [name for name, _, _ in choices] + ["scores"] * (share > 0)
    parts = [(planned, part) for _, planned, part in choices]
    named = draft.accountant if isinstance(draft.accountant, str) else ""  # it is judged later
    pure = draft.budget.delta == 0 or named in _OF_PURE
    if share > 0 and not pure:
        counts = counts_release(GaussianRelease, draft.bound, relation=_REPLACED)
        whole = sum(part for _, part in parts)
        parts.append((Planned(counts, outputs), whole * share / (1 - share)))
    noisy = by_shares(parts)
    if share > 0 and pure:
        epsilon = sum(planned.count / planned.event.noise for planned in noisy)
        noise = outputs * (1 - share) / (share * epsilon)
        counts = counts_release(LaplaceRelease, draft.bound, noise, _REPLACED)
        noisy = (*noisy, Planned(counts, outputs))
    return list(zip(names, noisy, strict=True))


def _choices(settings: LazyBBSettings, votes: int) -> list[Shared]:
    """List the choices of all votes in their order, each with its share of μ²."""
    if settings.learner == "rule":
        rule = Selection("a rule: a feature, its values, and a class", 1.0, relation=_REPLACED)
        return [("choice", Planned(rule, votes), 1.0)]
    what = "a split of a tree: a leaf, a feature, its values"
    split = Selection(what, 1.0, relation=_REPLACED)
    label = Selection("the classes of all leaves of a tree", 1.0, relation=_REPLACED)
    share = settings.label_share
    return [
        ("choice", Planned(split, settings.n_splits), 1 - share),
        ("labels", Planned(label, 1), share),
    ] * votes
