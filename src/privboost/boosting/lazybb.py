"""LazyBB: boosting by smooth re-weighting. Weak learners are chosen privately and cast a vote each.

Round by round: rows are weighted by the votes cast on them so far, so evenly that none counts for
much; a rule or a small tree is chosen that is right about the weighted rows; it votes. The weights
never leave the mechanism: it is told how many rows have which votes, and tells its choice.
"""

from __future__ import annotations

import numpy as np

from privboost.boosting.calibrated import calibrate_votes
from privboost.boosting.candidates import even_thresholds, splits_of
from privboost.boosting.lazybb_plan import LazyBBPlan
from privboost.engine.queries import VoteCounts
from privboost.engine.updates import AddTreeValues, Start
from privboost.grid import VOTE
from privboost.models.votes import VoteScores
from privboost.privacy.curator import Curator
from privboost.privacy.utilities.smooth import GiniGain, LeafClass, RuleError
from privboost.progress import Track
from privboost.tables.encoding import Encoder
from privboost.trees.splits import Splits, join_splits
from privboost.trees.tree import Tree, stump

MOST_DEPTH = 10
"""Leaves so deep are not split: trees are kept complete."""

Voter = tuple[Tree, np.ndarray]
"""A tree, and the votes of its leaves."""


def boost_lazybb(curator: Curator, plan: LazyBBPlan, track: Track = iter) -> VoteScores:
    """Train a majority vote.

    Parameters
    ----------
    curator : Curator
        Who chooses.
    plan : LazyBBPlan
        What was decided; its releases are reserved.
    track : callable
        Wraps the rounds, to show progress.

    Privacy
    -------
    Spends exactly `plan.releases`, whatever the rows: for each round and output one choice of a
    rule, or `n_splits` choices of splits and one of the leaves' classes; and at last the counts by
    votes and class of each output.
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
    return model if plan.scores is None else calibrate_votes(curator, plan, plan.scores, model)


def literals_of(encoder: Encoder, n_candidates: int, kind: str) -> Splits:
    """Return the literals of all features; see `LazyBBSettings`.

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
    """Choose the literal, or its negation, or a constant, that errs least (DP-1R).

    Privacy
    -------
    Spends `plan.choice`.
    """
    query = _query(stump(), np.zeros(1, dtype=np.uint16), splits, votes, output)
    utility = RuleError(splits, plan.settings.smoothing)
    literal, opposite = divmod(int(curator.select(query, utility, plan.choice)[0]), 2)
    rule = stump().with_level([splits.goes_right(literal)])
    where_true = -VOTE if opposite else VOTE
    return rule, np.array([-where_true, where_true], dtype=np.int32)


def grow_tree(curator: Curator, plan: LazyBBPlan, splits: Splits, votes: int, output: int) -> Voter:
    """Split one leaf after the other where it lowers the impurity most (DP-TopDown).

    Privacy
    -------
    Spends `plan.choice` for each split, and `plan.labels`.
    """
    smoothing = plan.settings.smoothing
    tree = _GrowingTree(splits)
    for _ in range(plan.settings.n_splits):
        query = _query(*tree.complete(), splits, votes, output)
        utility = GiniGain(splits, smoothing, tree.open_reach)
        chosen = int(curator.select(query, utility, plan.choice)[0])
        tree.split(*divmod(chosen, splits.total))
    grown, node_of_leaf = tree.complete()
    query = _query(grown, node_of_leaf, splits, votes, output)
    classes = curator.select(query, LeafClass(splits, smoothing), plan.labels)
    return grown, np.where(classes, VOTE, -VOTE).astype(np.int32)[node_of_leaf]


def _query(
    tree: Tree, node_of_leaf: np.ndarray, splits: Splits, votes: int, output: int
) -> VoteCounts:
    return VoteCounts(tree, node_of_leaf, splits.cells, votes, output)


class _GrowingTree:
    """A tree that is grown leaf by leaf; nodes are numbered as in a complete tree.

    Attributes
    ----------
    reach : bool array of shape (leaves, cells)
        Which cells the path to each leaf leaves open.
    """

    def __init__(self, splits: Splits) -> None:
        self._splits = splits
        self._chosen: dict[int, int] = {}
        self._leaves = [0]
        self.reach = splits.start_reach()

    @property
    def open_reach(self) -> np.ndarray:
        """The same of leaves that may be split; nothing of the others."""
        depth = np.array([(node + 1).bit_length() - 1 for node in self._leaves])
        reach: np.ndarray = self.reach & (depth < MOST_DEPTH)[:, None]
        return reach

    def split(self, leaf: int, candidate: int) -> None:
        """Put two leaves in the place of one; candidate 0 splits nothing."""
        if candidate == 0:
            return
        node = self._leaves[leaf]
        self._chosen[node] = candidate
        children = self._splits.follow(self.reach[[leaf]], np.array([candidate]))
        self._leaves[leaf : leaf + 1] = [2 * node + 1, 2 * node + 2]
        self.reach = np.concatenate([self.reach[:leaf], children, self.reach[leaf + 1 :]])

    def complete(self) -> tuple[Tree, np.ndarray]:
        """Return the complete tree around it, and which leaf each of its leaves belongs to."""
        depth = max((node + 1).bit_length() for node in self._leaves) - 1
        tree, width = stump(), self._splits.width
        for level in range(depth):
            nodes = range(2**level - 1, 2 ** (level + 1) - 1)
            turns = [self._splits.goes_right(self._chosen.get(node, 0)) for node in nodes]
            tree = tree.with_level(turns, width)
        number_of = {node: number for number, node in enumerate(self._leaves)}
        own = np.empty(2**depth, dtype=np.uint16)
        for leaf in range(2**depth):
            node = 2**depth - 1 + leaf
            while node not in number_of:
                node = (node - 1) // 2
            own[leaf] = number_of[node]
        return tree, own
