"""Vectors of rows: sums against plain arithmetic, and sensitivities as claimed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from privboost._core.grid import CLIP_STEPS, FACTOR_STEPS, VECTOR_STEPS, WEIGHT_STEPS
from privboost.data.design_matrix import Terms
from privboost.data.encoding import Encoder
from privboost.data.rows import initial_states
from privboost.engine.backend import LocalBackend
from privboost.engine.queries import GramSums, LinearSums
from privboost.engine.updates import SetLinearScores, SetTerms, Start
from privboost.losses.base import UNKNOWN_LABEL, loss_of
from privboost.recipes.common.coordinates import design
from tests.hostile import HostileBackend
from tests.tables import CLASSES, NUMBER, THREE, encode_training, make_domain, make_frame

DESIGNS = {
    "plain": {},
    "short": {"norm_bound": 0.7},
    "bins": {"bins": 5, "intercept": False},
    "products": {"products": [("age", "job"), ("gain", "age"), ("flag", "job")]},
}
LOSSES = {
    "low/high": (("classes", "hinge"), CLASSES),
    "three": (("classes", "logistic"), THREE),
    "number": (("number", "squared"), NUMBER),
}


def coded(target, rows, seed=0, weighted=False):
    encoder = Encoder.of(make_domain(target))
    frame = make_frame(rows, seed, target)
    weights = "weight" if weighted else None
    found = encode_training(encoder, frame, weights=weights, weight_bound=2.0, block_rows=90)
    return encoder, found.blocks


def vectors(block, terms):
    """Plain vectors of a block's rows, not shortened."""
    out = np.zeros((len(block), terms.n_coordinates), dtype=np.int64)
    rows = np.arange(len(block))
    for (first, second), column, value in zip(
        terms.features, terms.coordinate, terms.value, strict=True
    ):
        ids = block.column(first).astype(int)
        if second >= 0:
            ids = ids * block.layout.n_codes[second] + block.column(second)
        out[rows, column[ids]] += value[ids]
    return out


def started(blocks, terms, loss, outputs, kind=LocalBackend, **how):
    backend = kind(blocks, **how)
    backend.apply(Start(loss, outputs))
    backend.apply(SetTerms(terms))
    rng = np.random.default_rng(5)
    for output in range(outputs):
        coefficients = rng.integers(-(2**17), 2**17, terms.n_coordinates).astype(np.int32)
        backend.apply(SetLinearScores(coefficients, output))
    return backend


@pytest.mark.usefixtures("eager_threads")
@pytest.mark.parametrize("columns", DESIGNS)
@pytest.mark.parametrize("task", LOSSES)
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_are_those_of_single_rows(columns, task, weighted):
    name, target = LOSSES[task]
    encoder, blocks = coded(target, 400, weighted=weighted)
    terms = design(encoder, **DESIGNS[columns]).terms
    terms.check()
    outputs = 3 if target is THREE else 1
    loss = loss_of(*name).gradient_table(0.6, (1.0, 0.5))
    factor = np.array([VECTOR_STEPS, 20000])
    queries = [LinearSums.of(terms, outputs - 1), GramSums.of(terms, factor)]
    plain = started(blocks, terms, loss, outputs)
    answers = [plain.sum(query) for query in queries]
    for other in (
        started(blocks, terms, loss, outputs, n_threads=2),
        started(blocks, terms, loss, outputs, HostileBackend, seed=4),
    ):
        for query, answer in zip(queries, answers, strict=True):
            np.testing.assert_array_equal(other.sum(query), answer)
    # The same in plain arithmetic: scores, gradients, and vectors that are shortened.
    rng = np.random.default_rng(5)
    drawn = [rng.integers(-(2**17), 2**17, terms.n_coordinates) for _ in range(outputs)]
    gradients = np.zeros(terms.n_coordinates)
    products = np.zeros((terms.n_coordinates, terms.n_coordinates))
    for block in blocks:
        own = vectors(block, terms)
        score = _scores(own, terms, drawn[-1])
        score = score + (0 if block.minus_label is None else initial_states(block.minus_label))
        kind = np.where(block.label == (1 if outputs == 1 else outputs - 1), 1, 0)
        kind[block.label == UNKNOWN_LABEL] = 2
        cell = np.clip((score >> loss.shift) + loss.size // 2, 0, loss.size - 1)
        gradient = np.trunc(loss.gradient[kind, cell] * (FACTOR_STEPS / CLIP_STEPS))
        norm = np.sqrt((own.astype(float) ** 2).sum(axis=1))
        scale = np.minimum(1, VECTOR_STEPS / np.maximum(norm, 1))
        weight = 1.0 if block.weight is None else block.weight / WEIGHT_STEPS
        gradients += (own * (gradient * scale * weight)[:, None]).sum(axis=0)
        first = 1 if outputs == 1 else 0
        of_label = np.where(block.label == first, factor[1], factor[0]) / VECTOR_STEPS
        of_label = np.where(block.label == UNKNOWN_LABEL, 0, of_label)
        longer = own * (scale * of_label * np.sqrt(weight))[:, None]
        products += longer.T @ longer
    rows = 400
    assert np.abs(answers[0] - gradients).max() <= rows * 3 * VECTOR_STEPS
    assert np.abs(answers[1] - products).max() <= rows * 8 * VECTOR_STEPS
    assert np.abs(gradients).max() > rows * 10 * VECTOR_STEPS
    assert terms.shortens == (columns != "bins")
    if columns == "bins" and not weighted:
        np.testing.assert_array_equal(answers[0], np.rint(gradients).astype(np.int64))


def _scores(own, terms, coefficients):
    """Scores as shards round them: feature by feature."""
    total = np.zeros(len(own), dtype=np.int64)
    for column in terms.coordinate:
        places = np.unique(column)
        total += ((own[:, places] * coefficients[places]).sum(axis=1) + VECTOR_STEPS // 2) >> 15
    return total


def test_threads_of_linear_algebra_change_no_sum():
    """The tests leave it one; elsewhere it has as many as there are cores."""
    encoder, blocks = coded(NUMBER, 1000)
    terms = design(encoder, **DESIGNS["products"]).terms
    rows = started(blocks, terms, loss_of("number", "squared").gradient_table(0.6, (1.0, 0.5)), 1)
    query, answers = GramSums.of(terms, np.array([VECTOR_STEPS, 20000])), []
    for threads in (1, 2):
        with threadpool_limits(threads, "blas"):
            answers.append(rows.sum(query))
    np.testing.assert_array_equal(*answers)


def length(matrix):
    """The length of a symmetric matrix whose triangle is told, off the diagonal √2 times."""
    return np.sqrt((matrix.astype(float) ** 2).sum())


@given(
    columns=st.sampled_from(sorted(DESIGNS)),
    task=st.sampled_from(sorted(LOSSES)),
    rows=st.integers(1, 20),
    seed=st.integers(0, 10_000),
    weighted=st.booleans(),
)
@settings(max_examples=40)
def test_a_row_moves_a_vector_and_a_matrix_by_what_is_claimed(columns, task, rows, seed, weighted):
    name, target = LOSSES[task]
    encoder, blocks = coded(target, rows, seed, weighted)
    terms = design(encoder, **DESIGNS[columns]).terms
    fewer = [
        block.take(np.arange(1 if k == 0 else 0, len(block))) for k, block in enumerate(blocks)
    ]
    outputs = 3 if target is THREE else 1
    loss = loss_of(*name).gradient_table(0.3, (1.0, 1.0))
    query = GramSums.of(terms, np.full(2, VECTOR_STEPS))
    more, less = (started(each, terms, loss, outputs) for each in (blocks, fewer))
    for output in range(outputs):
        vector = LinearSums.of(terms, output)
        change = more.sum(vector) - less.sum(vector)
        assert np.sqrt((change.astype(float) ** 2).sum()) <= FACTOR_STEPS * VECTOR_STEPS * (
            1 + 1e-12
        )
    change = more.sum(query) - less.sum(query)
    assert length(change) <= VECTOR_STEPS**2 * (1 + 1e-12)
    eigenvalues = [np.linalg.eigvalsh(b.sum(query).astype(float))[0] for b in (more, less)]
    assert -1 <= eigenvalues[0] - eigenvalues[1] <= VECTOR_STEPS**2 + 2**10 * terms.n_coordinates


def test_a_broken_twin_that_forgets_to_shorten_is_caught(monkeypatch):
    encoder, blocks = coded(CLASSES, 20, 3)
    terms = design(encoder, norm_bound=0.7).terms
    monkeypatch.setattr(Terms, "shortens", property(lambda terms: False))
    query = GramSums.of(terms, np.full(2, VECTOR_STEPS))
    fewer = [blocks[0].take(np.arange(1, len(blocks[0])))]
    loss = loss_of("classes", "hinge").gradient_table(1.0, (1.0, 1.0))
    more, less = (started(each, terms, loss, 1) for each in (blocks, fewer))
    assert length(more.sum(query) - less.sum(query)) > 1.5 * VECTOR_STEPS**2


def test_terms_that_share_a_coordinate_are_refused():
    one = np.zeros(2, dtype=np.int32)
    with pytest.raises(ValueError, match="coordinates of their own"):
        Terms(((0, -1), (1, -1)), (one, one), (one, one), 1).check()


def test_entries_whose_squares_would_overflow_are_refused():
    large = np.full(2, 2**30, dtype=np.int32)
    columns = tuple(np.full(2, k, dtype=np.int32) for k in range(9))
    features = tuple((k, -1) for k in range(9))
    with pytest.raises(ValueError, match="too large"):
        Terms(features, columns, (large,) * 9, 9).check()


def test_terms_made_for_other_columns_are_refused():
    encoder, blocks = coded(CLASSES, 5)
    terms = design(encoder).terms
    short = Terms(terms.features, terms.coordinate, (terms.value[0][1:], *terms.value[1:]), 311)
    with pytest.raises(ValueError, match="each code"):
        LocalBackend(blocks).apply(SetTerms(short))


def test_a_shard_without_terms_refuses():
    _, blocks = coded(CLASSES, 5)
    backend = LocalBackend(blocks)
    backend.apply(Start(loss_of("classes", "hinge").gradient_table(1.0, (1.0, 1.0))))
    with pytest.raises(RuntimeError, match="SetTerms"):
        backend.sum(LinearSums(3, 3))
