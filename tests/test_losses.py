import numpy as np
import pytest
from scipy.special import expit

from privboost.grid import SCORE_UNITS, UNIT
from privboost.losses import (
    OTHER_CLASS,
    OWN_CLASS,
    UNKNOWN,
    LossTable,
    logistic,
    squared,
    within_units,
)


def scores_of(table):
    half = table.size // 2
    return (np.arange(table.size) - half + 0.5) * 2**table.shift / SCORE_UNITS


@pytest.mark.parametrize("table", [logistic(0.3, 0.1), squared(0.5, 1.0), logistic(2.0, 0.01)])
def test_no_entry_exceeds_one_unit_and_unknown_rows_are_zero(table):
    assert np.abs(table.gradient).max() <= UNIT
    assert table.hessian.min() >= 0
    assert table.hessian.max() <= UNIT
    assert not table.gradient[UNKNOWN].any()
    assert not table.hessian[UNKNOWN].any()


def test_logistic_values():
    table = logistic(1.0, 0.25)
    p = expit(scores_of(table))
    assert np.allclose(table.gradient[OTHER_CLASS] / UNIT, p, atol=1 / UNIT)
    assert np.allclose(table.gradient[OWN_CLASS] / UNIT, p - 1, atol=1 / UNIT)
    assert np.allclose(table.hessian[OWN_CLASS] / UNIT * 0.25, p * (1 - p), atol=1 / UNIT)


def test_rounding_is_toward_zero():
    table = logistic(0.3, 0.1)
    exact = np.clip((expit(scores_of(table)) - 1) / 0.3, -1, 1) * UNIT
    assert (np.abs(table.gradient[OWN_CLASS]) <= np.abs(exact)).all()


def test_squared_values_are_clipped():
    table = squared(0.5, 1.0)
    assert np.allclose(
        table.gradient[OTHER_CLASS] / UNIT * 0.5, np.clip(scores_of(table), -0.5, 0.5), atol=1e-5
    )
    assert (table.hessian[OTHER_CLASS] == UNIT).all()


def test_a_gradient_without_its_count_is_refused():
    """The range of a split rests on it: such a row would move scores without bound."""
    table = logistic(1.0, 0.25)
    nobody = np.zeros(table.gradient.shape, dtype=np.uint8)
    assert within_units(table)
    assert not within_units(LossTable(table.gradient, table.hessian, table.shift, nobody))
