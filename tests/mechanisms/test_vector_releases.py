"""Releases of vectors and matrices: the noise, the charge, and what the curator refuses."""

from dataclasses import replace

import numpy as np
import pytest

from privboost import BudgetError
from privboost._core.grid import CLIP_STEPS, FACTOR_STEPS, VECTOR_STEPS, Contribution
from privboost.accounting.accountants import GdpAccountant, PureAccountant
from privboost.accounting.events import Planned, Relation, Selection
from privboost.accounting.ledger import Ledger
from privboost.accounting.noisy_sums import GaussianRelease, GramRelease, VectorRelease
from privboost.data.design_matrix import Terms
from privboost.engine.queries import GramSums, LinearSums, TreeSums, VoteCounts
from privboost.engine.updates import SetTerms, Start, UseLoss
from privboost.losses.base import LossTable, loss_of
from privboost.mechanisms.curator import Curator
from privboost.mechanisms.sensitivity import EIGENVALUE_STEPS
from privboost.mechanisms.utilities import LeafClass, RuleError, Smoothing
from privboost.randomness.keystream import KeyStream
from privboost.trees.splits import join_splits
from privboost.trees.tree import stump
from tests.mechanisms.largest_cell import LargestCell

COORDINATES = 4
TERMS = Terms(
    tuple((k, -1) for k in range(COORDINATES)),
    tuple(np.full(2, k, dtype=np.int32) for k in range(COORDINATES)),
    tuple(np.full(2, 2**13, dtype=np.int32) for _ in range(COORDINATES)),
    COORDINATES,
)
VECTOR, MATRIX = LinearSums.of(TERMS), GramSums.of(TERMS, np.full(2, VECTOR_STEPS))
ONE = {"cells": 1, "rows": 1, "shares": (1.0,)}
GRADIENTS = VectorRelease("g", 50.0, FACTOR_STEPS * VECTOR_STEPS, coordinates=COORDINATES, **ONE)
GRAM = GramRelease("xx", 50.0, VECTOR_STEPS**2, coordinates=10, **ONE)
LEAST = VectorRelease("least", 50.0, VECTOR_STEPS**2 + EIGENVALUE_STEPS * COORDINATES, **ONE)


class Rows:
    """A backend of fixed sums that notes when it is asked."""

    def __init__(self):
        self.asked = 0
        self.told = []

    def sum(self, query):
        self.asked += 1
        if isinstance(query, GramSums):
            return np.diag(np.arange(1, COORDINATES + 1)) * 2**40
        return np.zeros(query.shape, dtype=np.int64)

    def apply(self, update):
        self.told.append(update)


def curator_for(*planned, contribution=None, accountant=None, terms=TERMS):
    ledger = Ledger(1e6, 0.0 if accountant else 1e-6, accountant or GdpAccountant())
    ledger.reserve(planned)
    rows = Rows()
    curator = Curator(rows, ledger, KeyStream.seeded(1), contribution or Contribution())
    if terms is not None:
        curator.publish(SetTerms(terms))
    return curator, rows


def test_entries_off_the_diagonal_have_less_noise_by_a_root_of_two():
    runs = 1500
    curator, _ = curator_for(Planned(GRAM, runs))
    noise = np.stack([curator.gram(MATRIX, GRAM) for _ in range(runs)]).astype(float)
    noise -= np.diag(np.arange(1, COORDINATES + 1)) * 2**40
    assert (noise == noise.transpose(0, 2, 1)).all()
    diagonal = np.diagonal(noise, axis1=1, axis2=2).std()
    rows, columns = np.triu_indices(COORDINATES, 1)
    off = noise[:, rows, columns].std()
    sigma = 50.0 * VECTOR_STEPS**2
    assert diagonal == pytest.approx(sigma, rel=0.04)
    assert off == pytest.approx(sigma / np.sqrt(2), rel=0.04)
    # One triangle is drawn, so that its entries are independent.
    assert np.abs(np.corrcoef(noise[:, rows, columns].T)[np.triu_indices(6, 1)]).max() < 0.12


def test_a_vector_has_the_noise_of_its_length():
    runs = 1500
    curator, _ = curator_for(Planned(GRADIENTS, runs))
    noise = np.stack([curator.linear(VECTOR, GRADIENTS) for _ in range(runs)])
    assert noise.std() == pytest.approx(50.0 * FACTOR_STEPS * VECTOR_STEPS, rel=0.03)


def test_the_smallest_eigenvalue_is_noisy():
    curator, _ = curator_for(Planned(LEAST, 800))
    found = np.array([curator.least_eigenvalue(MATRIX, LEAST) for _ in range(800)], dtype=float)
    sigma = LEAST.scales[0]
    assert found.std() == pytest.approx(sigma, rel=0.08)
    assert found.mean() == pytest.approx(2**40, abs=4 * sigma / np.sqrt(800))


def test_noise_that_is_too_large_is_refused_before_the_rows_are_asked():
    vast = replace(LEAST, noise=2.0**15)
    curator, rows = curator_for(Planned(vast, 1))
    with pytest.raises(ValueError, match="noise scales"):
        curator.least_eigenvalue(MATRIX, vast)
    assert rows.asked == 0


def test_all_is_charged_once_and_before():
    curator, rows = curator_for(Planned(GRADIENTS, 1), Planned(GRAM, 1))
    curator.linear(VECTOR, GRADIENTS)
    curator.gram(MATRIX, GRAM)
    for again in (
        lambda: curator.linear(VECTOR, GRADIENTS),
        lambda: curator.gram(MATRIX, GRAM),
        lambda: curator.least_eigenvalue(MATRIX, LEAST),
    ):
        with pytest.raises(BudgetError):
            again()
    assert rows.asked == 2


@pytest.mark.parametrize(
    ("act", "event"),
    [
        ("linear", replace(GRADIENTS, steps=FACTOR_STEPS * VECTOR_STEPS - 1)),
        ("linear", replace(GRADIENTS, coordinates=COORDINATES - 1)),
        ("linear", replace(GRADIENTS, relation=Relation.REPLACE_ONE)),
        ("gram", replace(GRAM, steps=VECTOR_STEPS**2 - 1)),
        ("gram", replace(GRAM, coordinates=9)),
        ("gram", VectorRelease("xx", 50.0, VECTOR_STEPS**2, coordinates=10, **ONE)),
        ("least_eigenvalue", replace(LEAST, steps=VECTOR_STEPS**2)),
    ],
)
def test_understated_events_are_refused(act, event):
    curator, rows = curator_for(Planned(event, 1))
    query = VECTOR if act == "linear" else MATRIX
    with pytest.raises(ValueError, match=r"understates|needs the event"):
        getattr(curator, act)(query, event)
    assert rows.asked == 0


def test_units_of_several_rows_multiply_the_sensitivity():
    curator, rows = curator_for(Planned(GRADIENTS, 1), contribution=Contribution(rows=3))
    with pytest.raises(ValueError, match="understates"):
        curator.linear(VECTOR, GRADIENTS)
    assert rows.asked == 0


def test_other_misuse_is_refused():
    curator, rows = curator_for(Planned(GRADIENTS, 1), terms=None)
    with pytest.raises(ValueError, match="SetTerms"):
        curator.linear(VECTOR, GRADIENTS)
    curator, rows = curator_for(Planned(GRAM, 1))
    with pytest.raises(ValueError, match="factor"):
        curator.gram(GramSums.of(TERMS, np.full(2, VECTOR_STEPS + 1)), GRAM)
    honest = loss_of("classes", "hinge").gradient_table(1.0, (1.0, 1.0))
    loud = LossTable(honest.gradient * 2, honest.hessian, honest.shift)
    with pytest.raises(ValueError, match="undercharged"):
        curator.publish(UseLoss(loud))
    with pytest.raises(ValueError, match="between 0 and 1"):
        loss_of("classes", "hinge").gradient_table(1.0, (1.0, 1.5))
    assert rows.asked == 0


def test_what_was_checked_cannot_be_changed():
    """The curator tells the rows its own copies, whatever a recipe does to the originals."""
    curator, rows = curator_for()
    value = [array.copy() for array in TERMS.value]
    mine = Terms(TERMS.features, TERMS.coordinate, tuple(value), COORDINATES)
    curator.publish(SetTerms(mine))
    loss = loss_of("classes", "hinge").gradient_table(1.0, (1.0, 1.0))
    curator.publish(Start(loss))
    value[0][:] = 2**29
    loss.gradient[:] = 2**20
    told = {type(update): update for update in rows.told}
    assert told[SetTerms].terms.value[0].max() == 2**13
    assert told[Start].loss.gradient.max() == CLIP_STEPS
    with pytest.raises(ValueError, match="read-only"):
        told[Start].loss.gradient[:] = 0


def test_queries_and_utilities_are_about_the_same_coordinates():
    curator, rows = curator_for(Planned(GRADIENTS, 1), Planned(GRAM, 1))
    with pytest.raises(ValueError, match="other coordinates"):
        curator.linear(LinearSums(COORDINATES - 1, COORDINATES), GRADIENTS)
    with pytest.raises(ValueError, match="other coordinates"):
        curator.linear(LinearSums(COORDINATES, COORDINATES - 1), GRADIENTS)  # it would claim less
    with pytest.raises(ValueError, match="other coordinates"):
        curator.gram(GramSums(COORDINATES + 1, COORDINATES, np.full(2, VECTOR_STEPS)), GRAM)
    wider = join_splits([(0, np.arange(4), True, False)])
    for splits in (wider, join_splits([(1, np.arange(3), True, False)])):
        with pytest.raises(ValueError, match="other features"):
            curator.select(VOTES, RuleError(splits, Smoothing(0.5, 0.5)), choice())
    assert rows.asked == 0


def test_the_smallest_integer_is_no_gradient():
    """Its absolute value is itself."""
    honest = loss_of("classes", "hinge").gradient_table(1.0, (1.0, 1.0))
    honest.gradient[0, 0] = np.iinfo(np.int32).min
    curator, _ = curator_for()
    with pytest.raises(ValueError, match="undercharged"):
        curator.publish(Start(honest))


def test_a_vector_is_one_statistic_of_all_rows():
    for wrong in ({"cells": 2}, {"shares": (0.5, 0.5)}, {"sampling_rate": 0.5}):
        with pytest.raises(ValueError, match="one statistic"):
            replace(GRADIENTS, **wrong)


SPLITS = join_splits([(0, np.arange(3), True, False)])
VOTES = VoteCounts(stump(), np.zeros(1, dtype=np.uint16), SPLITS.cells, 0)


def choice(relation=Relation.REPLACE_ONE):
    return Selection("a rule", 1.0, relation=relation)


def test_votes_are_for_choices_between_tables_of_one_size():
    rule = RuleError(SPLITS, Smoothing(0.5, 0.5))
    curator, rows = curator_for(Planned(choice(), 2), accountant=PureAccountant())
    curator.publish(Start(None))
    assert curator.select(VOTES, rule, choice()).shape == (1,)
    leaves = curator.select(VOTES, LeafClass(SPLITS, Smoothing(0.5, 0.5)), choice())
    assert leaves.shape == (1,)
    asked = rows.asked
    with pytest.raises(ValueError, match="neighbours"):
        curator.select(VOTES, rule, replace(choice(), relation="add or remove one protected unit"))
    with pytest.raises(ValueError, match="statistics"):
        curator.select(VOTES, LargestCell(), choice())
    with pytest.raises(ValueError, match="for selections"):
        curator.sums(VOTES, GaussianRelease("votes", 1.0, CLIP_STEPS, 1, 1, (0.5, 0.5)))
    sums = GaussianRelease("s", 1.0, CLIP_STEPS, 1, 1, (0.5, 0.5), relation=Relation.REPLACE_ONE)
    with pytest.raises(ValueError, match="only counts are proved"):
        curator.sums(TreeSums((stump(),)), sums)
    assert rows.asked == asked
