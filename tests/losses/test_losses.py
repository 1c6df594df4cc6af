from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit

from privboost._core.grid import CLIP_STEPS, SCORE_STEPS
from privboost.engine.updates import Start
from privboost.losses import base
from privboost.losses.base import (
    OTHER_CLASS,
    OWN_CLASS,
    UNKNOWN,
    LogLink,
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
TARGETS = ("classes", "number", "survival")
EVERY = [(target, name) for target in TARGETS for name in losses_of(target)]


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
    reach = 3 if loss.log_link else loss.limit  # powers are steep: differences err there
    score = np.linspace(-reach, reach, 4000)
    for label, offset in product(loss.labels, (0.0, 0.5)):
        slope = np.gradient(loss.gradient(score, label, offset), score)
        assert np.allclose(slope[1:-1], loss.hessian(score, label, offset)[1:-1], atol=1e-3)
        slope = np.gradient(loss.value(score, label, offset), score)
        assert np.allclose(slope[1:-1], loss.gradient(score, label, offset)[1:-1], atol=1e-2)


def test_boosting_begins_at_the_mean():
    classes, number = loss_of("classes", "logistic"), loss_of("number", "squared")
    for mean in (0.2, 0.5, 0.9):
        start = classes.initial_score((0.5 - mean) / classes.label_clip)
        assert expit(start) == pytest.approx(mean)
        assert number.initial_score(-mean / number.label_clip) == pytest.approx(mean)
    assert expit(classes.initial_score(5.0)) == pytest.approx(0.01)
    assert number.initial_score(-7.0) == 1.0


LOG_LINKS = [
    loss for name in losses_of("number") if isinstance(loss := loss_of("number", name), LogLink)
]


@pytest.mark.parametrize("loss", LOG_LINKS, ids=lambda loss: loss.name)
def test_lines_of_labels_have_the_gradients_of_their_labels(loss):
    labels = np.array([0.0, 0.5, 1.0, 3.0, 40.0])
    table = loss.label_table(labels, 2.5, 4.0)
    assert within_steps(table)
    assert table.lines == len(labels) + 1
    score = scores_of(table)
    for line, label in enumerate(np.maximum(labels, loss.least_label)):
        for found, exact, clip in (
            (table.gradient, loss.gradient(score, label), 2.5),
            (table.hessian, loss.hessian(score, label), 4.0),
        ):
            wanted = np.clip(exact / clip, -1, 1) * CLIP_STEPS
            assert (np.abs(found[line]) <= np.abs(wanted)).all()  # toward zero
            assert np.allclose(found[line], wanted, atol=1)
    assert not table.gradient[-1].any()


@pytest.mark.parametrize("loss", LOG_LINKS, ids=lambda loss: loss.name)
def test_the_mean_has_the_least_loss(loss):
    """What a log link elicits is the mean, however skewed labels are."""
    labels = np.array([0.5, 0.5, 0.5, 7.0])
    means = np.linspace(0.5, 4, 701)
    total = [sum(loss.value(np.log(mean), label) for label in labels) for mean in means]
    assert means[int(np.argmin(total))] == pytest.approx(labels.mean(), abs=0.01)
    assert loss.inverse_link(loss.link(2.125)) == pytest.approx(2.125)


@pytest.mark.parametrize("loss", LOG_LINKS, ids=lambda loss: loss.name)
def test_sums_of_lines_are_labels_and_exposures(loss):
    table = loss.line_table(np.array([0.0, 0.25, 1.0, 9.0]))
    assert within_steps(table)
    assert (table.gradient[:, 0] == [0, CLIP_STEPS // 4, CLIP_STEPS, CLIP_STEPS, 0]).all()
    wanted = np.minimum(np.exp(scores_of(table)), 1.0) * CLIP_STEPS
    assert np.allclose(table.hessian[0], wanted, atol=1)
    assert table.hessian[0, table.size // 2] == CLIP_STEPS  # a score of 0


@pytest.mark.parametrize("loss", LOG_LINKS, ids=lambda loss: loss.name)
def test_a_twin_that_clips_wider_than_it_claims_is_refused(loss):
    """Lines of gradients beyond one clip would be undercharged."""
    table = loss.label_table(np.array([0.0, 1.0, 40.0]), 1.0, 1.0)
    doubled = LossTable(2 * table.gradient, table.hessian, table.shift)
    assert not within_steps(doubled)
    with pytest.raises(ValueError, match="undercharged"):
        Start(doubled).frozen()
