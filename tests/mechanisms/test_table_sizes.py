"""Scores and eigenvalues of the largest tables for which a range or a sensitivity is proved."""

from fractions import Fraction

import numpy as np
import pytest

from privboost import BoostedAdaSSPClassifier, DPXGBClassifier, SarusXGBClassifier
from privboost._core.grid import CLIP_STEPS, VECTOR_STEPS, WEIGHT_STEPS, Contribution
from privboost.mechanisms.sensitivity import EIGENVALUE_ROWS, EIGENVALUE_STEPS
from privboost.mechanisms.utilities import MAX_SMOOTH_ROWS as MOST_SMOOTH
from privboost.mechanisms.utilities import (
    MAX_SPLIT_ROWS,
    ROUNDING,
    ROW,
    SCORE,
    RuleError,
    Smoothing,
    SplitGain,
)
from privboost.trees.splits import join_splits
from tests.tables import make_domain, make_frame

SPLITS = join_splits([(0, np.arange(8), False, False)])


def exact_gain(g, n, extra, unit):
    """The score of splitting after each cell, in units, as a fraction."""
    whole_g, whole_n = int(g.sum()), int(n.sum())
    scores = []
    for cell in range(len(g) - 2):
        left = [0, 0]
        for k in (*range(cell + 1), len(g) - 1):  # missing values go left
            left[0] += int(g[k])
            left[1] += int(n[k])
        right = whole_g - left[0], whole_n - left[1]
        sides = [Fraction(side[0] ** 2, side[1] + extra) for side in (left, right)]
        scores.append(sum(sides) / unit * SCORE)
    return scores


@pytest.mark.parametrize("weighted", [False, True])
def test_split_scores_of_the_largest_tables_err_by_what_the_range_includes(weighted):
    rng = np.random.default_rng(8)
    unit = CLIP_STEPS * (WEIGHT_STEPS if weighted else 1)
    utility, contribution = SplitGain(SPLITS, 1.0), Contribution(weighted)
    worst = 0.0
    for _ in range(60):
        part = rng.dirichlet(np.ones(8))
        n = (part * (MAX_SPLIT_ROWS - 1) * unit).astype(np.int64)
        g = (n * rng.uniform(0.9, 1.0, 8)).astype(np.int64) * rng.choice([-1, 1])
        found = utility.scores(np.stack([g, n], axis=1)[None], contribution)[0]
        assert found.max() < 2**62
        pairs = zip(found[1:], exact_gain(g, n, unit, unit), strict=True)
        worst = max(worst, *(abs(int(score) - exact) for score, exact in pairs))
    assert 4 * worst <= ROUNDING
    assert 4 * worst > 12  # what would do for 2³¹ rows
    assert utility.range(contribution) == 4 * SCORE + ROUNDING


def smooth_sums(rows, votes=40):
    """Counts of all rows by cell of one feature, sum of votes and class."""
    rng = np.random.default_rng(2)
    shape = (1, SPLITS.cells.n_cells + 1, votes + 1, 2)
    sums = (rng.dirichlet(np.ones(np.prod(shape))) * rows).astype(np.int64).reshape(shape)
    unknown = int(sums[0, -1].sum())
    sums[0, -1] = 0
    sums[0, -1, 0, 0] = unknown
    sums[0, 0, 0, 0] += rows - int(sums.sum())
    return sums


def test_smooth_masses_of_the_largest_tables_err_by_less_than_claimed():
    smoothing = Smoothing(0.3, 0.2)
    sums = smooth_sums(MOST_SMOOTH)
    assert sums.sum() == MOST_SMOOTH
    masses = RuleError(SPLITS, smoothing).masses(sums)
    votes = sums.shape[2] - 1
    rows = {0: int(sums[0, -1, 0, 0])}
    for vote in range(votes + 1):
        for kind, sign in ((0, -1), (1, 1)):
            margin = sign * (2 * vote - votes)
            rows[margin] = rows.get(margin, 0) + int(sums[0, :-1, vote, kind].sum())
    weights = smoothing._project(rows)
    lost = Fraction(0)
    for cell in range(SPLITS.cells.n_cells):
        for kind, sign in ((0, -1), (1, 1)):
            exact = sum(
                int(sums[0, cell, vote, kind]) * weights[sign * (2 * vote - votes)]
                for vote in range(votes + 1)
            )
            lost += abs(exact - Fraction(int(masses[0, cell, kind]), ROW))
    assert lost < Fraction(1, 2**9)


def test_smooth_boosting_refuses_more_rows_which_are_a_public_number():
    sums = smooth_sums(MOST_SMOOTH + 1)
    with pytest.raises(ValueError, match="fewer than 2\\^31 rows"):
        RuleError(SPLITS, Smoothing(0.3, 0.2)).masses(sums)


@pytest.mark.parametrize("columns", [1, 2, 12, 40])
def test_eigenvalues_of_the_largest_tables_err_by_what_the_sensitivity_includes(columns):
    """Conversion, solver and the last rounding together, against 40 digits."""
    mpmath = pytest.importorskip("mpmath")
    rng = np.random.default_rng(columns)
    worst = 0.0
    for _ in range(3):
        turn = np.linalg.qr(rng.normal(size=(columns, columns)))[0]
        spread = rng.dirichlet(np.ones(columns)) * 0.999
        matrix = (turn * spread) @ turn.T * (EIGENVALUE_ROWS * VECTOR_STEPS**2 / 2)
        whole = np.triu(matrix).astype(np.int64) * 2 + 1  # not a number that float64 has
        whole = np.triu(whole) + np.triu(whole, 1).T
        assert sum(map(int, np.diag(whole))) < EIGENVALUE_ROWS * VECTOR_STEPS**2
        found = int(np.rint(np.linalg.eigvalsh(whole.astype(np.float64))[0]))
        with mpmath.workdps(40):
            exact = min(mpmath.eigsy(mpmath.matrix(whole.tolist()), eigvals_only=True))
            worst = max(worst, abs(float(found - exact)))
    assert 2 * worst < EIGENVALUE_STEPS * columns
    assert worst >= 1  # more than the last rounding alone


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        (DPXGBClassifier, {"n_estimators": 1, "max_depth": 2}, "fewer than 2^38 rows"),
        (SarusXGBClassifier, {"n_estimators": 1, "max_depth": 2}, "fewer than 2^38 rows"),
        (BoostedAdaSSPClassifier, {"n_estimators": 1, "ratio": (1, 1, 1)}, "fewer than 2^33 rows"),
        (BoostedAdaSSPClassifier, {"n_estimators": 1}, None),
    ],
)
def test_reports_say_for_which_tables_a_range_or_sensitivity_is_proved(kind, options, said):
    model = kind(epsilon=1.0, domain=make_domain(), random_state=0, **options)
    assumed = [line for line in model.fit(make_frame(60)).privacy_.assumptions if "2^" in line]
    assert assumed == ([] if said is None else [f"the table has {said}"])
