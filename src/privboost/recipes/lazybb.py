"""LazyBB: smooth boosting, in which weak learners are selected privately and cast a vote each.

In each round rows are weighted by the votes cast on them so far, with a bound on every weight; a
rule or a small tree that is right about the weighted rows is selected; it votes. The weights never
leave the mechanism: it reads counts of rows by votes, and releases its choice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from privboost._core.checks import check_choice, check_count
from privboost._core.grid import VOTE
from privboost._core.progress import Track
from privboost.accounting.calibration import by_shares
from privboost.accounting.events import Planned, Relation, Selection
from privboost.accounting.formulas import gdp_mu
from privboost.accounting.noisy_sums import GaussianRelease, LaplaceRelease, NoisySums
from privboost.data.encoding import Encoder
from privboost.engine.queries import VoteCounts
from privboost.engine.updates import AddTreeValues, Start
from privboost.mechanisms.curator import Curator
from privboost.mechanisms.utilities import (
    MOST_DECAY,
    MOST_NODES,
    MOST_VOTES,
    GiniGain,
    LeafClass,
    RuleError,
    Smoothing,
)
from privboost.models.votes import VoteScores
from privboost.recipes.common.candidates import (
    check_candidates,
    count_cells,
    even_thresholds,
    splits_of,
)
from privboost.recipes.common.parameters import (
    Constraint,
    Parameters,
    count,
    options,
    parameter,
    part,
    share,
    size,
)
from privboost.recipes.common.plan import (
    Budget,
    Plan,
    PlanBasis,
    PublicRows,
    ReleaseShare,
    Task,
    counts_release,
)
from privboost.recipes.common.probability_calibration import WHAT, calibrate_votes
from privboost.trees.splits import Splits, join_splits
from privboost.trees.tree import Tree, stump

MOST_SPLITS = MOST_NODES - 1
MOST_DEPTH = 10
"""Depth at which leaves are not split any more: trees are kept complete."""
_REPLACED = Relation.REPLACE_ONE
_OF_PURE = ("pure", "advanced")
"""Accountants of pure releases only."""
_MOST_COUNTS = 2**28
"""Most counts of one query, of 8 bytes each."""

Voter = tuple[Tree, np.ndarray]
"""A tree, and the votes of its leaves."""


def _check_criterion(name: str, criterion: Any) -> str:
    if isinstance(criterion, str) and criterion == "entropy":
        raise ValueError(
            f'{name}: "entropy" is not offered: the first row of its class in a leaf moves it by '
            "the logarithm of the leaf's rows, so that its choices would be far noisier than those "
            'of "gini", which moves by 4 at most'
        )
    return check_choice(name, criterion, ("gini",))


@dataclass(frozen=True, kw_only=True)
class LazyBBParameters(Parameters):
    """Parameters of LazyBB."""

    n_estimators: int = parameter(
        None,
        count(most=MOST_VOTES),
        "Votes (for each class beyond two classes). By default as many as the budget affords for "
        "the number of rows, from 5 to 99 and odd. If it is even, a tie is a vote for the first "
        "class.",
    )
    learning_rate: float = parameter(
        None,
        size(),
        "λ: how fast rows lose weight that are voted on rightly. By default 1.6 over the root of "
        "the number of votes.",
    )
    density: float = parameter(
        None,
        part(or_else=1),
        "κ: smallest part of the rows over which the weight is spread, in (0, 1]. A row's weight "
        "is at most one over `density` times the number of rows: the larger, the less noise. By "
        "default it falls from 0.5 to 0.15 with what the budget affords for the number of rows.",
    )
    learner: str = parameter(
        "rule",
        options("rule", "tree"),
        "Weak learner: one feature's value (DP-1R), or a tree (DP-TopDown).",
    )
    n_splits: int = parameter(
        3,
        count(most=MOST_SPLITS),
        f"Inner nodes of a tree: at most {MOST_SPLITS}, and no leaf is more than ten splits deep.",
    )
    label_share: float = parameter(
        0.5, share(), "Share of a tree's budget (on μ²) of the classes of its leaves."
    )
    n_candidates: int = parameter(
        31,
        count(),
        "Thresholds of a number, evenly spread: at most 191, or as many as its given edges.",
    )
    literals: str = parameter(
        "thresholds",
        options("thresholds", "intervals"),
        "Literals of a number: whether it is above a threshold, or whether it lies between two "
        "neighbouring thresholds (as one-hot coding of bins has it).",
    )
    criterion: str = parameter(
        "gini",
        Constraint(_check_criterion, '{"gini"}'),
        "Impurity that splits of a tree lower. Entropy is refused: it has no useful range.",
    )
    calibration_share: float = parameter(
        0.04,
        share(or_else=0),
        "Share of the budget (of ε where delta is 0, else on μ²) of the counts of rows by votes "
        "and class, which calibrate the log-odds of a vote and give probabilities. 0 leaves a "
        "plain majority vote.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.learning_rate * self.n_estimators > MOST_DECAY:
            raise ValueError(f"learning_rate * n_estimators must be at most {MOST_DECAY:g}")

    @property
    def smoothing(self) -> Smoothing:
        """Rule from margins to weights."""
        return Smoothing(self.density, self.learning_rate)


_SHARPNESS = 60.0
_SHARPEST = 1e100
"""Finite stand-in for an infinite ε, so that its product with no rows is 0."""
_FEWEST, _MOST = 5, 99


def density_for(budget: Budget, n_rows: int, n_outputs: int) -> float:
    """Return the default density: the larger the budget, the fewer rows may carry the weight.

    A density of κ keeps boosting from the part κ of the rows that are hardest, whatever the number
    of votes; a small one makes every choice noisier. Measured on three data sets, at budgets from
    0.1 to 3: 0.8·Q^−0.2, with Q the sharpness of 75 choices among all rows.
    """
    sharpness = _epsilon_of_a_vote(budget, 75 * n_outputs) * n_rows / 2
    return float(min(max(round(0.8 * max(sharpness, 1.0) ** -0.2, 3), 0.15), 0.5))


def votes_for(budget: Budget, n_rows: int, density: float, n_outputs: int) -> int:
    """Return the default number of votes: odd, so that there are no ties of two classes.

    A vote is worth casting while the selection of its rule is sharp: P ∝ exp(η · accuracy), with
    η = ε₀κn/2. The number of votes is the largest for which η is at least `_SHARPNESS`.
    """
    affordable = [
        votes
        for votes in range(_FEWEST, _MOST + 1, 2)
        if _epsilon_of_a_vote(budget, votes * n_outputs) * density * n_rows / 2 >= _SHARPNESS
    ]
    return max(affordable, default=_FEWEST)


def rate_for(votes: int) -> float:
    """Return the default learning rate: the more votes, the less each should change weights.

    Measured as the density: 1.6/√τ is near the best from 5 votes to 99.
    """
    return round(1.6 / math.sqrt(votes), 3)


def votes_of_theory(advantage: float, density: float) -> int:
    """Return the votes for which margins are proved: 16·ln(1/κ)/γ² or more, and odd.

    If each vote is right about ½ + γ of the weight and λ = γ/4, the share of rows whose margin,
    over the votes, is γ or less is then κ at most.
    """
    votes = max(1, math.ceil(16 * math.log(1 / density) / advantage**2))
    return votes + 1 - votes % 2


def _epsilon_of_a_vote(budget: Budget, choices: int) -> float:
    """Return the approximate ε of each of so many selections: ε/k, or 2μ/√k where δ allows it."""
    if isinstance(budget, PublicRows):
        return _SHARPEST
    pure = budget.epsilon / choices
    if budget.delta == 0:
        return pure
    return max(pure, 2 * gdp_mu(budget.epsilon, budget.delta) / math.sqrt(choices))


@dataclass(frozen=True, eq=False)
class LazyBBPlan(Plan):
    """Plan of smooth boosting.

    The choice of a rule, or of one split of a tree; the choice of the classes of a tree's leaves;
    and the release of counts by votes and class at the end.
    """

    _hashed: ClassVar[tuple[str, ...]] = ("task", "settings", "contribution", "budget")

    settings: LazyBBParameters
    choice: Selection
    labels: Selection | None
    calibration_release: NoisySums | None

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters for reports."""
        of_trees = ("n_splits", "label_share", "criterion")
        unused = () if self.settings.learner == "tree" else of_trees
        return {k: v for k, v in self.settings.chosen().items() if k not in unused}

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Facts that are assumed to be public, besides the domain."""
        if self.encoder.domain.unit is not None:
            return (
                "the number of units is public: neighbours replace one, none is added or removed",
            )
        return (
            "the number of rows that can be read is public: neighbours replace a row, none is "
            "added or removed; defaults of n_estimators and density follow it",
        )


def plan_lazybb(
    given: Mapping[str, Any], encoder: Encoder, budget: Budget, n_rows: int | None = None
) -> LazyBBPlan:
    """Return the plan of a run of smooth boosting.

    It has shares for the selections of all votes and for the calibration, with noise that costs the
    budget. `given` has the estimator's parameters, and `n_rows` is the public number of rows, where
    defaults follow it.
    """
    if encoder.domain.unit is not None and encoder.domain.unit.max_rows > 1:
        raise ValueError(
            "units of several rows: smooth boosting protects the replacement of one row; give the "
            "domain a unit with max_rows 1, or none"
        )
    basis = PlanBasis(encoder, None, budget, given["accountant"])
    settings = _read(given, encoder, budget, n_rows)
    check_candidates(settings.n_candidates, encoder)
    nodes = settings.n_splits + 1 if settings.learner == "tree" else 1
    cells = count_cells(encoder, settings.n_candidates)
    if 2 * nodes * (cells + 1) * (settings.n_estimators + 1) > _MOST_COUNTS:
        raise ValueError(
            "the counts of a round would be too large: lower n_estimators, n_splits or n_candidates"
        )
    made = basis.calibrate(_wanted(basis, settings))
    return LazyBBPlan(
        **made.fields_with("choice", "labels", "calibration_release"), settings=settings
    )


def _read(
    given: Mapping[str, Any], encoder: Encoder, budget: Budget, n_rows: int | None
) -> LazyBBParameters:
    """Read the parameters; defaults follow the budget and the number of rows."""
    if n_rows is not None and encoder.domain.unit is not None:
        raise ValueError(
            "n_estimators and density must be given: their defaults follow the number of rows, "
            "and with a unit column only the number of units is public"
        )
    outputs = Task.of(encoder.domain.target).n_outputs
    density, votes = given["density"], given["n_estimators"]
    if density is None:
        density = density_for(budget, n_rows or 0, outputs)
    if votes is None:
        density = part(or_else=1).check("density", density)
        votes = votes_for(budget, n_rows or 0, density, outputs)
    defaults = {"density": density, "n_estimators": votes}
    if given["learning_rate"] is None:
        defaults["learning_rate"] = rate_for(check_count("n_estimators", votes))
    return LazyBBParameters.read(given, "classes", **defaults)


def _wanted(basis: PlanBasis, settings: LazyBBParameters) -> list[tuple[str, Planned]]:
    """List all releases in order: the selections of votes, then counts of rows by votes."""
    outputs, share = basis.task.n_outputs, settings.calibration_share
    votes = settings.n_estimators * outputs
    if settings.learner == "rule":
        rule = Selection("a rule: a feature, its values, and a class", 1.0, relation=_REPLACED)
        choices: list[ReleaseShare] = [("choice", Planned(rule, votes), 1.0)]
    else:
        what, part = "a split of a tree: a leaf, a feature, its values", settings.label_share
        split = Selection(what, 1.0, relation=_REPLACED)
        label = Selection("the classes of all leaves of a tree", 1.0, relation=_REPLACED)
        choices = [
            ("choice", Planned(split, settings.n_splits), 1 - part),
            ("labels", Planned(label, 1), part),
        ] * votes
    named = basis.accountant if isinstance(basis.accountant, str) else ""  # it is judged later
    pure = basis.budget.delta == 0 or named in _OF_PURE
    if share > 0 and not pure:
        counts = counts_release(GaussianRelease, WHAT, basis.bound, relation=_REPLACED)
        whole = sum(weight for _, _, weight in choices)
        choices = [
            *choices,
            ("calibration_release", Planned(counts, outputs), whole * share / (1 - share)),
        ]
    names = [name for name, _, _ in choices]
    noisy = by_shares([(planned, weight) for _, planned, weight in choices])
    if share > 0 and pure:
        epsilon = sum(planned.count / planned.event.noise for planned in noisy)
        noise = outputs * (1 - share) / (share * epsilon)
        counts = counts_release(LaplaceRelease, WHAT, basis.bound, noise, _REPLACED)
        names, noisy = [*names, "calibration_release"], (*noisy, Planned(counts, outputs))
    return list(zip(names, noisy, strict=True))


def boost_lazybb(curator: Curator, plan: LazyBBPlan, track: Track = iter) -> VoteScores:
    """Return a majority vote trained on the rows; `track` follows the rounds.

    Privacy
    -------
    Spends exactly `plan.releases`, whatever the rows: for each round and output one selection of a
    rule, or `n_splits` selections of splits and one of the leaves' classes; and at last the counts
    by votes and class of each output.
    """
    settings, outputs = plan.settings, plan.task.n_outputs
    splits = literals_of(plan.encoder, settings.n_candidates, settings.literals)
    vote = choose_rule if settings.learner == "rule" else grow_tree
    model = VoteScores.of(np.zeros(outputs, dtype=np.int32), plan.encoder.layout.n_codes)

    curator.publish(Start(None, outputs))
    for round_ in track(range(settings.n_estimators)):
        for output in range(outputs):
            tree, votes = vote(curator, plan, splits, round_, output)
            curator.publish(AddTreeValues((tree,), votes[None], output))
            model = model.with_voter(tree, votes, output)
    if plan.calibration_release is None:
        return model
    return calibrate_votes(curator, plan, plan.calibration_release, model)


def literals_of(encoder: Encoder, n_candidates: int, kind: str) -> Splits:
    """Return the literals of all features; see `LazyBBParameters.literals`.

    An interval is true in one cell of a number, as a category's literal is in one of its codes.
    """
    thresholds = even_thresholds(encoder, n_candidates)
    features = tuple(range(len(encoder.domain.features)))
    splits = splits_of(encoder, thresholds, features)
    if kind == "thresholds":
        return splits
    parts = zip(splits.cells.parts, splits.missing.tolist(), strict=True)
    return join_splits([(part.features[0], part.cell_of[0], True, own) for part, own in parts])


def choose_rule(
    curator: Curator, plan: LazyBBPlan, splits: Splits, votes: int, output: int
) -> Voter:
    """Select the literal, or its negation, or a constant, that errs least (DP-1R).

    Privacy
    -------
    Spends `plan.choice`.
    """
    query = VoteCounts(stump(), np.zeros(1, dtype=np.uint16), splits.cells, votes, output)
    utility = RuleError(splits, plan.settings.smoothing)
    literal, opposite = divmod(int(curator.select(query, utility, plan.choice)[0]), 2)
    rule = stump().with_level([splits.goes_right(literal)])
    where_true = -VOTE if opposite else VOTE
    return rule, np.array([-where_true, where_true], dtype=np.int32)


def grow_tree(curator: Curator, plan: LazyBBPlan, splits: Splits, votes: int, output: int) -> Voter:
    """Grow a tree: split one leaf after the other where impurity falls most (DP-TopDown).

    Privacy
    -------
    Spends `plan.choice` for each split, and `plan.labels`.
    """
    smoothing = plan.settings.smoothing
    tree = _GrowingTree(splits)
    for _ in range(plan.settings.n_splits):
        query = VoteCounts(*tree.complete(), splits.cells, votes, output)
        utility = GiniGain(splits, smoothing, tree.open_reach)
        chosen = int(curator.select(query, utility, plan.choice)[0])
        tree.split(*divmod(chosen, splits.total))
    assert plan.labels is not None
    grown, node_of_leaf = tree.complete()
    query = VoteCounts(grown, node_of_leaf, splits.cells, votes, output)
    classes = curator.select(query, LeafClass(splits, smoothing), plan.labels)
    return grown, np.where(classes, VOTE, -VOTE).astype(np.int32)[node_of_leaf]


class _GrowingTree:
    """Tree that is grown leaf by leaf; nodes are numbered as in a complete tree.

    `reach` has the cells that the path to each leaf leaves open.
    """

    def __init__(self, splits: Splits) -> None:
        self._splits = splits
        self._chosen: dict[int, int] = {}
        self._leaves = [0]
        self.reach = splits.start_reach()

    @property
    def open_reach(self) -> np.ndarray:
        """The same, without the cells of leaves that may not be split."""
        depth = np.array([(node + 1).bit_length() - 1 for node in self._leaves])
        reach: np.ndarray = self.reach & (depth < MOST_DEPTH)[:, None]
        return reach

    def split(self, leaf: int, candidate: int) -> None:
        """Replace a leaf by two; candidate 0 splits nothing."""
        if candidate == 0:
            return
        node = self._leaves[leaf]
        self._chosen[node] = candidate
        children = self._splits.follow(self.reach[[leaf]], np.array([candidate]))
        self._leaves[leaf : leaf + 1] = [2 * node + 1, 2 * node + 2]
        self.reach = np.concatenate([self.reach[:leaf], children, self.reach[leaf + 1 :]])

    def complete(self) -> tuple[Tree, np.ndarray]:
        """Return the complete tree, and the grown leaf that each of its leaves belongs to."""
        depth = max((node + 1).bit_length() for node in self._leaves) - 1
        tree, width = stump(), self._splits.width
        for level in range(depth):
            nodes = range(2**level - 1, 2 ** (level + 1) - 1)
            split_bits = [self._splits.goes_right(self._chosen.get(node, 0)) for node in nodes]
            tree = tree.with_level(split_bits, width)
        number_of = {node: number for number, node in enumerate(self._leaves)}
        own = np.empty(2**depth, dtype=np.uint16)
        for leaf in range(2**depth):
            node = 2**depth - 1 + leaf
            while node not in number_of:
                node = (node - 1) // 2
            own[leaf] = number_of[node]
        return tree, own


PUBLISHED: dict[str, dict[float, tuple[float, float, int]]] = {
    "adult": {
        0.05: (0.5, 0.5, 5),
        0.1: (0.45, 0.5, 5),
        0.15: (0.5, 0.4, 5),
        0.2: (0.5, 0.3, 5),
        0.25: (0.35, 0.5, 9),
        0.3: (0.4, 0.4, 19),
        0.35: (0.3, 0.45, 9),
        0.4: (0.35, 0.5, 9),
        0.45: (0.4, 0.45, 25),
        0.5: (0.35, 0.5, 15),
        1.0: (0.35, 0.45, 39),
        3.0: (0.35, 0.45, 99),
        5.0: (0.35, 0.45, 75),
    },
    "cod_rna": {
        0.05: (0.5, 0.5, 9),
        0.1: (0.5, 0.35, 19),
        0.15: (0.5, 0.5, 29),
        0.2: (0.4, 0.5, 25),
        0.25: (0.5, 0.45, 25),
        0.3: (0.5, 0.45, 25),
        0.35: (0.45, 0.35, 49),
        0.4: (0.45, 0.45, 39),
        0.45: (0.5, 0.4, 65),
        0.5: (0.45, 0.5, 49),
        1.0: (0.4, 0.5, 99),
        3.0: (0.3, 0.4, 99),
        5.0: (0.35, 0.4, 99),
    },
    "mushroom": {
        0.05: (0.45, 0.5, 5),
        0.1: (0.5, 0.4, 9),
        0.15: (0.5, 0.45, 9),
        0.2: (0.5, 0.4, 15),
        0.25: (0.3, 0.4, 9),
        0.3: (0.35, 0.5, 9),
        0.35: (0.4, 0.35, 15),
        0.4: (0.45, 0.4, 19),
        0.45: (0.35, 0.2, 19),
        0.5: (0.45, 0.25, 25),
        1.0: (0.25, 0.3, 29),
        3.0: (0.2, 0.2, 75),
        5.0: (0.2, 0.5, 29),
    },
}
"""κ, λ and τ of the thesis' rules by table and ε, chosen by cross-validation."""

_ONE_HOT = {
    "delta": 0.0,
    "learner": "rule",
    "literals": "intervals",
    "n_candidates": 9,
    "calibration_share": 0.0,
}
"""Pure ε; numbers are cut into ten intervals, and each has a literal."""

PRESETS: dict[str, dict[str, Any]] = {
    f"{table}_{epsilon:g}": _ONE_HOT
    | {"epsilon": epsilon, "density": kappa, "learning_rate": rate, "n_estimators": votes}
    for table, settings in PUBLISHED.items()
    for epsilon, (kappa, rate, votes) in settings.items()
}
PRESETS["figure_5.3"] = _ONE_HOT | {"density": 0.25, "learning_rate": 0.25, "n_estimators": 99}
