from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit

from privboost._core.grid import CLIP_STEPS, SCORE_STEPS
from privboost.losses import base
from privboost.losses.base import (
    OTHER_CLASS,
    OWN_CLASS,
    UNKNOWN,
    LossTable,
    loss_of,
    losses_of,
    within_steps,
)
from privboost.losses.logistic import LOGISTIC
from privboost.losses.squared import SQUARED_NUMBER


def scores_of(table):
    half = table.size // 2
    return (np.arange(table.size) - half + 0.5) * 2**table.shift / SCORE_STEPS


@pytest.mark.parametrize(
    "table", [LOGISTIC.table(0.3, 0.1), SQUARED_NUMBER.table(0.5, 1.0), LOGISTIC.table(2.0, 0.01)]
)
def test_no_entry_exceeds_one_unit_and_unknown_rows_are_zero(table):
    assert np.abs(table.gradient).max() <= CLIP_STEPS
    assert table.hessian.min() >= 0
    assert table.hessian.max() <= CLIP_STEPS
    assert not table.gradient[UNKNOWN].any()
    assert not table.hessian[UNKNOWN].any()


def test_logistic_values():
    table = LOGISTIC.table(1.0, 0.25)
    p = expit(scores_of(table))
    assert np.allclose(table.gradient[OTHER_CLASS] / CLIP_STEPS, p, atol=1 / CLIP_STEPS)
    assert np.allclose(table.gradient[OWN_CLASS] / CLIP_STEPS, p - 1, atol=1 / CLIP_STEPS)
    assert np.allclose(
        table.hessian[OWN_CLASS] / CLIP_STEPS * 0.25, p * (1 - p), atol=1 / CLIP_STEPS
    )


def test_rounding_is_toward_zero():
    table = LOGISTIC.table(0.3, 0.1)
    exact = np.clip((expit(scores_of(table)) - 1) / 0.3, -1, 1) * CLIP_STEPS
    assert (np.abs(table.gradient[OWN_CLASS]) <= np.abs(exact)).all()


def test_squared_values_are_clipped():
    table = SQUARED_NUMBER.table(0.5, 1.0)
    assert np.allclose(
        table.gradient[OTHER_CLASS] / CLIP_STEPS * 0.5,
        np.clip(scores_of(table), -0.5, 0.5),
        atol=1e-5,
    )
    assert (table.hessian[OTHER_CLASS] == CLIP_STEPS).all()


def test_a_gradient_without_its_count_is_refused():
    """The range of a split rests on it: such a row would move scores without bound."""
    table = LOGISTIC.table(1.0, 0.25)
    nobody = np.zeros(table.gradient.shape, dtype=np.uint8)
    assert within_steps(table)
    assert not within_steps(LossTable(table.gradient, table.hessian, table.shift, nobody))


def test_parts_of_rows_are_refused():
    """Noisy means rest on whole counts: at 0.3 rows and λ = 0.1 one more moves a mean too far."""
    table = SQUARED_NUMBER.table(2.0, 1.0)
    some = np.full(table.gradient.shape, 0.3)
    quiet = [(statistic * some).astype(np.int32) for statistic in (table.gradient, table.hessian)]
    assert not within_steps(LossTable(*quiet, table.shift, some))


FILES = {path.stem for path in Path(base.__file__).parent.glob("*.py")} - {"__init__", "base"}
EVERY = [(target, name) for target in ("classes", "number") for name in losses_of(target)]


def test_a_loss_is_one_file_and_a_file_is_one_loss():
    held = [loss_of(*key) for key in EVERY]
    assert {loss.name for loss in held} == FILES
    assert [(loss.target, loss.name) for loss in held] == EVERY
    assert losses_of("classes") == ("hinge", "logistic", "squared")


@pytest.mark.parametrize("key", EVERY)
def test_every_loss_is_within_the_grid_and_has_its_own_derivative(key):
    """Where there is a Hessian it is the slope of both gradients."""
    loss = loss_of(*key)
    table = loss.gradient_table(1.0, (1.0, 0.5))
    assert within_steps(table)
    assert not loss.gradient_table(1.0, (1.0, 0.0)).gradient[OWN_CLASS].any()
    if not loss.has_hessian:
        with pytest.raises(ValueError, match="no Hessian"):
            loss.table(1.0, 1.0)
        return
    assert within_steps(loss.table(0.5, 0.1))
    score = np.linspace(-loss.limit, loss.limit, 400)
    for label, offset in product(loss.labels, (0.0, 0.5)):
        slope = np.gradient(loss.gradient(score, label, offset), score)
        assert np.allclose(slope[1:-1], loss.hessian(score, label, offset)[1:-1], atol=1e-3)
        slope = np.gradient(loss.value(score, label, offset), score)
        assert np.allclose(slope[1:-1], loss.gradient(score, label, offset)[1:-1], atol=1e-2)


def test_boosting_begins_at_the_mean():
    classes, number = loss_of("classes", "logistic"), loss_of("number", "squared")
    for mean in (0.2, 0.5, 0.9):
        start = classes.start((0.5 - mean) / classes.start_clip)
        assert expit(start) == pytest.approx(mean)
        assert number.start(-mean / number.start_clip) == pytest.approx(mean)
    assert expit(classes.start(5.0)) == pytest.approx(0.01)
    assert number.start(-7.0) == 1.0
