import numpy as np
import pytest
from scipy.special import expit

from privboost.boosting.candidates import uniform_grid
from privboost.boosting.newton import NewtonStep
from privboost.boosting.plan import Budget
from privboost.boosting.privboost import boost_privboost
from privboost.boosting.privboost_plan import plan_privboost
from privboost.engine.backend import LocalBackend
from privboost.grid import CLIP_STEPS, SCORE_STEPS, WEIGHT_STEPS
from privboost.tables.encoding import Encoder
from privboost.tables.rows import join
from tests.tables import CLASSES, NUMBER, THREE, encode_training, make_domain, make_frame

STEP = NewtonStep(0.8, 0.25, 0.1, 1.0, 2.0, 0.3)


class Tell:
    """A curator without noise, for tests only: it tells exact sums."""

    def __init__(self, blocks):
        self.backend, self.asked = LocalBackend(blocks), []

    def gaussian(self, query, event):
        self.asked.append(event)
        return self.backend.sum(query)

    def publish(self, update):
        self.backend.apply(update)


def plan_for(domain, weight_bound=None, rounds=18, step=STEP):
    return plan_privboost(
        Encoder.of(domain), step, rounds, 16, weight_bound, Budget(1.0, 1e-6), "auto"
    )


def reference(encoder, block, weight, outputs, rounds):
    """The same algorithm on floating-point numbers, without tables and without noise."""
    cells = [uniform_grid(encoder, f, 16) for f in range(6)]
    columns = [cells[f].cell_of[block.column(f)] for f in range(6)]
    known = block.label != 255
    scores = np.zeros((outputs, len(block)))
    pooled = {}
    for t in range(rounds):
        f, n = t % 6, t // 6 + 1
        for k in range(outputs):
            if block.start is None:
                p = expit(scores[k])
                g = p - (block.label == (1 if outputs == 1 else k))
                h = p * (1 - p)
            else:
                g = scores[k] + block.start / SCORE_STEPS
                h = np.ones(len(block))
            g = np.clip(g, -STEP.gradient_clip, STEP.gradient_clip) * weight * known
            h = np.clip(h, 0, STEP.hessian_clip) * weight * known
            total_g = np.bincount(columns[f], g, cells[f].n_cells)
            total_h = np.bincount(columns[f], h, cells[f].n_cells)
            pooled[f, k] = pooled.get((f, k), 0) + total_h
            v = np.clip(-total_g / (pooled[f, k] / n + STEP.reg_lambda), -2, 2)
            scores[k] += (v * STEP.learning_rate * cells[f].learned)[columns[f]]
    return scores


@pytest.mark.parametrize("target", [CLASSES, THREE, NUMBER])
@pytest.mark.parametrize("weighted", [False, True])
def test_without_noise_it_is_plain_boosting(target, weighted):
    domain = make_domain(target)
    encoder = Encoder.of(domain)
    bound = 2.0 if weighted else None
    rows = encode_training(
        encoder, make_frame(600, target=target), None, "weight" if weighted else None, bound
    )
    block = join(rows.blocks)
    weight = block.weight * bound / WEIGHT_STEPS if weighted else np.ones(len(block))
    plan = plan_for(domain, bound)
    model = boost_privboost(Tell(rows.blocks), plan)
    expected = reference(encoder, block, weight, plan.task.n_outputs, plan.n_estimators)
    np.testing.assert_allclose(model.scores(block.codes) / SCORE_STEPS, expected, atol=0.02)


@pytest.mark.parametrize(("target", "outputs"), [(CLASSES, 1), (THREE, 3), (NUMBER, 1)])
def test_it_releases_exactly_its_plan(target, outputs):
    domain = make_domain(target)
    rows = encode_training(Encoder.of(domain), make_frame(50, target=target))
    plan = plan_for(domain, rounds=20)
    tell = Tell(rows.blocks)
    boost_privboost(tell, plan)
    assert len(tell.asked) == 20 * outputs
    for planned in plan.releases:
        assert tell.asked.count(planned.event) == planned.count


def test_fewer_rounds_than_features():
    plan = plan_for(make_domain(), rounds=2)
    assert [planned.count for planned in plan.releases] == [1, 1]
    rows = encode_training(plan.encoder, make_frame(50))
    boost_privboost(Tell(rows.blocks), plan)


def test_missing_values_have_an_effect_only_where_they_are_declared():
    plan = plan_for(make_domain())
    rows = encode_training(plan.encoder, make_frame(800))
    values = boost_privboost(Tell(rows.blocks), plan).values
    assert values[0][0, -1] != 0
    assert values[1][0, -1] == 0


def test_grids_are_even_parts_of_the_fine_bins():
    encoder = Encoder.of(make_domain())
    cells = uniform_grid(encoder, 0, 32)
    assert (np.bincount(cells.cell_of) == [6] * 32 + [1]).all()
    assert uniform_grid(encoder, 2, 32).cell_of.tolist() == [0, 1, 2, 3, 4, 5]
    assert uniform_grid(encoder, 5, 32).n_cells == 302


def test_the_noise_of_a_plan_is_leaf_balanced():
    """σ_g = g-clip · z/√(1−r₁) and σ_h = h-clip · z/√r₁, on the grid and per unit of weight."""
    plain = plan_for(make_domain()).releases[0].event
    z = plain.noise
    np.testing.assert_allclose(plain.sigmas, CLIP_STEPS * z / np.sqrt([0.9, 0.1]))
    heavy = plan_for(make_domain(unit={"column": "person", "max_rows": 3}), 2.0).releases[0].event
    np.testing.assert_allclose(heavy.sigmas / plain.sigmas, 3 * WEIGHT_STEPS, rtol=1e-5)


def test_the_digest_follows_everything_in_the_plan():
    domain = make_domain()
    base = plan_for(domain).digest
    assert plan_for(domain).digest == base
    others = [
        plan_for(domain, rounds=19),
        plan_for(domain, weight_bound=1.0),
        plan_for(make_domain(THREE)),
        plan_for(domain, step=NewtonStep(0.8, 0.25, 0.1, 1.0, 2.0, 0.31)),
    ]
    assert len({base, *(plan.digest for plan in others)}) == 5
