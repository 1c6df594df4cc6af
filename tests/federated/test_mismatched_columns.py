"""What does not fit a party's columns is refused alike, whatever rows it has."""

from dataclasses import replace

import numpy as np
import pytest

from privboost import BoostedAdaSSPClassifier, FederationError, SBDTClassifier
from privboost.data.design_matrix import Terms
from privboost.data.encoding import Encoder
from privboost.engine.queries import CellSums, LinearSums, NodeHistograms, TreeSums, VoteCounts
from privboost.engine.updates import (
    AddCellValues,
    AddTreeValues,
    SetClippingRange,
    SetLinearScores,
    SetTerms,
    Start,
    UseLoss,
)
from privboost.federated.party_session import CommandChecker
from privboost.losses.logistic import LOGISTIC
from privboost.randomness.sampling import Sample
from privboost.trees.cell_map import CellMap
from privboost.trees.tree import Tree, stump
from tests.federated.parties import federate
from tests.tables import make_domain, make_frame

LAYOUT = Encoder.of(make_domain()).layout
SIZE = LAYOUT.n_codes[0]
LOSS = LOGISTIC.table(0.3, 0.1)
CELLS = CellMap.of_feature(0, np.arange(SIZE) % 5)
SHORT = CellMap.of_feature(0, np.arange(SIZE - 1) % 5)
ELSEWHERE = CellMap.of_feature(9, np.arange(SIZE) % 5)
VALUES = np.zeros(5, dtype=np.int32)
LARGE = np.full(5, 2**30, dtype=np.int32)
NARROW = Tree(np.zeros(1, dtype=np.uint16), np.zeros((1, 3), dtype=np.uint8))
FAR = Tree(np.full(1, 9, dtype=np.uint16), np.zeros((1, SIZE), dtype=np.uint8))
TURNS = Tree(np.zeros(1, dtype=np.uint16), np.full((1, SIZE), 2, dtype=np.uint8))
GOOD = Tree(np.zeros(1, dtype=np.uint16), np.zeros((1, SIZE), dtype=np.uint8))
TERMS = Terms(
    ((0, -1),),
    (np.zeros(SIZE, dtype=np.int32),),
    (np.full(SIZE, 9, dtype=np.int32),),
    1,
)

QUERIES = [
    CellSums(SHORT),
    CellSums(ELSEWHERE),
    CellSums(CELLS, output=1),
    CellSums(CELLS, output=-1),
    CellSums(CELLS, sample=Sample(np.zeros(3, dtype=np.uint8), 0.5)),
    CellSums(CELLS, sample=Sample(np.zeros(32, dtype=np.uint8), 0.0)),
    TreeSums((NARROW,)),
    TreeSums((FAR,)),
    TreeSums((TURNS,)),
    TreeSums((stump(), GOOD)),
    NodeHistograms(NARROW, CELLS),
    NodeHistograms(stump(), SHORT),
    VoteCounts(GOOD, np.zeros(1, dtype=np.uint16), CELLS, 0),
    LinearSums(1, 1),
]
UPDATES = [
    Start(LOSS, 2),
    Start(replace(LOSS, hessian=LOSS.hessian[:, :5]), 1),
    Start(replace(LOSS, gradient=LOSS.gradient[:2]), 1),
    Start(replace(LOSS, shift=40), 1),
    UseLoss(replace(LOSS, taking_part=np.ones(3, dtype=np.uint8))),
    UseLoss(None),
    AddCellValues(SHORT, VALUES),
    AddCellValues(ELSEWHERE, VALUES),
    AddCellValues(CELLS, VALUES, 1),
    AddTreeValues((NARROW,), np.zeros((1, 2), dtype=np.int32)),
    AddTreeValues((GOOD,), np.zeros((1, 3), dtype=np.int32)),
    AddTreeValues((), np.zeros((0, 1), dtype=np.int32)),
    SetTerms(replace(TERMS, features=((9, -1),))),
    SetTerms(replace(TERMS, features=((0, 1),))),
    SetTerms(replace(TERMS, value=(np.zeros(3, dtype=np.int32),))),
    SetTerms(replace(TERMS, n_coordinates=0)),
    SetLinearScores(np.zeros(1, dtype=np.int32)),
]


def started():
    checker = CommandChecker(LAYOUT, 1)
    checker.check_update(Start(LOSS, 1))
    return checker


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: type(query).__name__)
def test_queries_that_do_not_fit(query):
    with pytest.raises(FederationError, match="messages: "):
        started().check_query(query)


@pytest.mark.parametrize("update", UPDATES, ids=lambda update: type(update).__name__)
def test_updates_that_do_not_fit(update):
    with pytest.raises(FederationError, match="messages: "):
        started().check_update(update)


def test_what_fits_goes_through():
    checker = started()
    checker.check_query(CellSums(CELLS, sample=Sample(np.zeros(32, dtype=np.uint8), 0.5)))
    checker.check_query(TreeSums((GOOD, GOOD)))
    checker.check_update(SetTerms(TERMS))
    checker.check_query(LinearSums(1, 1))
    checker.check_update(SetLinearScores(np.full(1, 7, dtype=np.int32)))
    checker.check_update(SetClippingRange(-2, 2))
    with pytest.raises(FederationError, match="rows begin before"):
        CommandChecker(LAYOUT, 1).check_query(CellSums(CELLS))
    silent = CommandChecker(LAYOUT, 1)
    silent.check_update(Start(None, 1))
    with pytest.raises(FederationError, match="no loss yet"):
        silent.check_query(CellSums(CELLS))


def test_scores_never_overflow():
    checker = started()
    checker.check_update(AddCellValues(CELLS, LARGE))
    with pytest.raises(FederationError, match="overflow"):
        checker.check_update(AddCellValues(CELLS, LARGE))
    linear = started()
    linear.check_update(SetTerms(replace(TERMS, value=(np.full(SIZE, 2**29, dtype=np.int32),))))
    with pytest.raises(FederationError, match="overflow"):
        linear.check_update(SetLinearScores(np.full(1, 2**30, dtype=np.int32)))


@pytest.mark.parametrize("number", range(len(QUERIES)))
def test_a_party_without_rows_says_what_others_say(number):
    """Or else a server could find out whether a party has any."""
    frame = make_frame(60)
    kind = SBDTClassifier if number else BoostedAdaSSPClassifier
    federation = federate([frame, frame.iloc[:0]], 2, {"account": {}}, trust="distributed")
    run = kind(1.0, 1e-6, make_domain(), n_estimators=2)._prepare(federation, None, None).run()
    backend = run.load.source.open_backend([])
    backend.apply(Start(LOSS, 1))
    with pytest.raises(FederationError):
        backend.sum(QUERIES[number], run.plan.releases[0].event)
    said = set(run.load.source.session.lost.values())
    assert len(run.load.source.session.lost) == 2
    assert len(said) == 1
    assert not any("failure" in word for word in said)
