"""Ratios, deviances, quantiles and calibration of a number, of public and of private rows."""

import json
import math
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import (
    mean_gamma_deviance,
    mean_pinball_loss,
    mean_poisson_deviance,
    mean_tweedie_deviance,
)

from privboost import Evaluation, PrivateSearchCV, PrivBoostRegressor, evaluate, load_model
from privboost.accounting.ledger import Ledger
from privboost.data.loading import Load, load_rows, read_loader
from privboost.data.sources import open_table
from privboost.engine.backend import LocalBackend
from privboost.evaluation import prediction_groups
from privboost.evaluation.deviances import largest_deviance, least_prediction, unit_deviance
from privboost.evaluation.evaluate import measure
from privboost.evaluation.model_card import evaluation_section
from privboost.evaluation.number_measures import MEASURES
from privboost.evaluation.number_sums import Tail, last_clear_cell
from privboost.evaluation.outcomes import OutcomeLoader, open_groups
from privboost.evaluation.plan import loss_measures, plan_evaluation
from privboost.evaluation.prediction_groups import (
    Grouping,
    PredictionGrid,
    count_groups,
    gini_of,
)
from privboost.mechanisms.curator import Curator
from privboost.randomness.keystream import KeyStream
from privboost.recipes.common.plan import Budget
from tests.hostile import HostileBackend

ROWS = 4000
NEW = ("mean_ratio", "gini", "deviance", "pinball", "share_below")
LEVEL = 0.7


def frame_of(kind, rows=ROWS, seed=1):
    rng = np.random.default_rng(seed)
    x, job = rng.uniform(0, 1, rows), rng.choice(["a", "b"], rows)
    mean = np.exp(1.5 * x - 0.5 + 0.4 * (job == "b"))
    if kind == "counts":
        y = np.minimum(rng.poisson(mean), 20).astype(float)
    elif kind == "amounts":
        y = np.minimum(np.where(rng.random(rows) < 0.6, 0, 100 * mean * rng.gamma(1, 1, rows)), 5e3)
    else:
        y = np.clip(mean * rng.gamma(2, 0.5, rows), 0.1, 20)
    return pd.DataFrame({"x": x, "job": job, "y": y})


BOUNDS = {"counts": (0, 20), "amounts": (0, 5000), "positive": (0.1, 20)}
DEVIANCES = {
    "counts": ({"deviance": "poisson"}, mean_poisson_deviance),
    "amounts": (
        {"deviance": "tweedie", "power": 1.3},
        lambda y, p: mean_tweedie_deviance(y, p, power=1.3),
    ),
    "positive": ({"deviance": "gamma"}, mean_gamma_deviance),
}


def domain_of(bounds):
    features = {
        "x": {"kind": "numeric", "bounds": [0, 1]},
        "job": {"kind": "categorical", "categories": ["a", "b"]},
    }
    return {"version": 1, "features": features, "target": {"name": "y", "bounds": list(bounds)}}


def fitted(kind, frame):
    how = {"n_estimators": 8, "random_state": 0}
    return PrivBoostRegressor(8.0, 1e-6, domain_of(BOUNDS[kind]), **how).fit(frame)


@pytest.fixture(scope="module", params=sorted(BOUNDS))
def case(request):
    """A model, its rows, and how they are evaluated."""
    kind = request.param
    frame = frame_of(kind)
    return kind, fitted(kind, frame), frame, DEVIANCES[kind][0] | {"quantile": LEVEL}


def gini_by_rank(y, predicted):
    """Twice the covariance of labels and ranks over the mean: ties have their mean rank."""
    rank = (pd.Series(predicted).rank().to_numpy() - 0.5) / len(y)
    return float((y * (2 * rank - 1)).sum() / y.sum())


def truth(kind, model, frame):
    y, said = frame["y"].to_numpy(), model.predict(frame)
    least = least_prediction(model.domain_.target.bounds)
    return {
        "mean_ratio": said.mean() / y.mean(),
        "gini": gini_by_rank(y, said),
        "deviance": DEVIANCES[kind][1](y, np.maximum(said, least)),
        "pinball": mean_pinball_loss(y, said, alpha=LEVEL),
        "share_below": (y <= said).mean(),
    }


def exactly(model, frame, **how):
    return evaluate(model, frame, epsilon=math.inf, public_rows=True, **how)


def test_public_rows_are_exact(case):
    kind, model, frame, how = case
    found = exactly(model, frame, by="job", **how)
    parts = [(found, frame)]
    parts += [(group, frame[frame["job"] == group.value]) for group in found.groups[:2]]
    for own, rows in parts:
        exact = truth(kind, model, rows)
        for name in NEW:
            assert own[name].std > 0, name
            if name == "gini":
                assert abs(own[name].value - exact[name]) <= own[name].width + 1e-12
                assert own[name].width < 0.01
            else:
                assert own[name].value == pytest.approx(exact[name], rel=1e-7), name
    assert all(own["gini"].value == 0 for own in found.groups[2:])


def inside(tenth, said, last):
    """Rows of a tenth: its lower end is one of them, the upper end only the last one's."""
    return (said >= tenth.low) & ((said < tenth.high) | last)


def test_tenths_of_public_rows_are_exact(case):
    _, model, frame, _ = case
    found = exactly(model, frame, by="job")
    parts = [(found.measures, frame)]
    parts += [(group.measures, frame[frame["job"] == group.value]) for group in found.groups[:2]]
    for own, rows in parts:
        said, y = model.predict(rows), rows["y"].to_numpy()
        assert sum(tenth.rows.value for tenth in own.calibration) == len(rows)
        for tenth in own.calibration:
            these = inside(tenth, said, tenth is own.calibration[-1])
            assert tenth.rows.value == these.sum()
            if these.any():
                assert tenth.predicted == pytest.approx(said[these].mean(), rel=1e-9)
                assert tenth.observed.value == pytest.approx(y[these].mean(), rel=1e-9, abs=1e-9)
                gap = (y - said)[these].mean()
                assert tenth.residual.value == pytest.approx(gap, rel=1e-6, abs=1e-9)
    sizes = [tenth.rows.value for tenth in found.calibration]
    assert len(sizes) == 10
    assert max(sizes) < 0.2 * ROWS  # of a number of distinct predictions
    assert found.calibration_table().num_rows == 10 * 3  # groups without rows have none


def open_rows(model, frame, how, epsilon, by=()):
    groups = open_groups(by, model.model_)
    plan = plan_evaluation(model.model_, groups, Budget(epsilon, 1e-6), **how)
    loader = OutcomeLoader(plan.model, plan.outcomes, plan.groups, "y", None)
    load = Load(loader, open_table(frame, plan.model.domain.feature_names))
    return plan, LocalBackend([block for each in load_rows([load]) for block in each.blocks], 1)


def release(plan, backend, seed):
    ledger = Ledger(plan.budget.epsilon, plan.budget.delta, plan.accountant)
    ledger.reserve(plan.releases)
    curator = Curator(backend, ledger, KeyStream.seeded(seed), plan.contribution)
    found = measure(curator, plan)
    assert {planned.event for planned in ledger.spent} == {p.event for p in plan.releases}
    return found


def holds(value, exact):
    return (value.lower is None or value.lower <= exact) and (
        value.upper is None or exact <= value.upper
    )


RUNS = 40


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 20.0])
def test_intervals_hold(case, epsilon):
    kind, model, frame, how = case
    exact = truth(kind, model, frame)
    plan, backend = open_rows(model, frame, how, epsilon)
    held, bins = dict.fromkeys(NEW, 0), []
    said, y = model.predict(frame), frame["y"].to_numpy()
    for seed in range(RUNS):
        found = release(plan, backend, seed).whole
        for name in NEW:
            held[name] += holds(found[name], exact[name])
        for tenth in found.calibration:
            these = inside(tenth, said, tenth is found.calibration[-1])
            if tenth.known and these.any():
                gap = (y - said)[these].mean()
                bins.append((holds(tenth.residual, gap), holds(tenth.observed, y[these].mean())))
    assert min(held.values()) >= 0.95 * RUNS, held
    assert np.mean(bins, axis=0).min() >= 0.95
    if epsilon == 20.0:  # and they are not empty
        assert abs(found["mean_ratio"].upper - found["mean_ratio"].lower) < 0.5
        assert found["share_below"].upper - found["share_below"].lower < 0.05
        assert kind == "amounts" or found["deviance"].upper < 2 * exact["deviance"]
        assert found["gini"].upper - found["gini"].lower < 0.5
        assert len(found.calibration) in (9, 10)  # cells of predictions have a size


def test_intervals_of_groups_hold(case):
    kind, model, frame, how = case
    plan, backend = open_rows(model, frame, how, 4.0, "job")
    parts = {job: frame[frame["job"] == job] for job in ("a", "b")}
    exact = {job: truth(kind, model, part) for job, part in parts.items()}
    held, bins = dict.fromkeys(NEW, 0), []
    for seed in range(20):
        for group in release(plan, backend, seed).groups[:2]:
            for name in NEW:
                held[name] += holds(group[name], exact[group.value][name])
            said, y = model.predict(parts[group.value]), parts[group.value]["y"].to_numpy()
            tenths = group.measures.calibration
            for tenth in tenths:
                these = inside(tenth, said, tenth is tenths[-1])
                if tenth.known and these.any():
                    bins.append(holds(tenth.observed, y[these].mean()))
    assert min(held.values()) >= 0.95 * 40, held
    assert np.mean(bins) >= 0.95


def test_intervals_hold_for_other_rows_of_the_same_kind():
    """They have sampling errors too: tables are drawn again, and the truth is of many rows."""
    frame = frame_of("counts")
    model = fitted("counts", frame)
    exact = truth("counts", model, frame_of("counts", 100_000, 7))
    how, held = {"deviance": "poisson", "quantile": LEVEL}, dict.fromkeys(NEW, 0)
    for seed in range(120):
        plan, backend = open_rows(model, frame_of("counts", 1500, 100 + seed), how, 20.0)
        found = release(plan, backend, seed).whole
        for name in NEW:
            held[name] += holds(found[name], exact[name])
    assert min(held.values()) >= 0.9 * 120, held


def test_what_lies_beyond_the_clip_is_part_of_intervals(monkeypatch):
    """The twin states intervals of clipped deviances and residuals alone."""
    frame = frame_of("amounts")
    model = fitted("amounts", frame)
    exact = truth("amounts", model, frame)
    monkeypatch.setattr(Tail, "of", classmethod(lambda cls, *_: cls(0.0, 0.0, 0.0)))
    plan, backend = open_rows(model, frame, {"deviance": "poisson", "clip": 60.0}, 4.0)
    found = [release(plan, backend, seed).whole for seed in range(20)]
    assert sum(holds(own["mean_ratio"], exact["mean_ratio"]) for own in found) < 0.5 * 20


def test_noise_in_sums_of_groups_is_part_of_intervals(monkeypatch):
    """The twin takes noisy sums of residuals for exact ones."""
    frame = frame_of("counts")
    model = fitted("counts", frame)
    said, y = model.predict(frame), frame["y"].to_numpy()
    honest = prediction_groups.GroupSums

    def twin(*parts):
        grouping, rows, residuals, squares, noise, *others = parts
        return honest(grouping, rows, residuals, squares, (noise[0], 0.0, 0.0), *others)

    monkeypatch.setattr("privboost.evaluation.numbers.GroupSums", twin)
    plan, backend = open_rows(model, frame, {}, 0.5)
    held = []
    for seed in range(10):
        tenths = release(plan, backend, seed).whole.calibration
        for tenth in tenths:
            these = inside(tenth, said, tenth is tenths[-1])
            if tenth.known and these.any():
                two = 2 * tenth.residual.std
                held.append(abs(tenth.residual.value - (y - said)[these].mean()) <= two)
    assert np.mean(held) < 0.8


def test_which_measures_there_are():
    names = ["rows", "rmse", "mae", "bias", "r2"]
    frame = frame_of("counts", 300)
    model = fitted("counts", frame)
    for how, more in (
        ({}, ["mean_ratio", "gini"]),
        ({"curves": False}, ["mean_ratio"]),
        ({"curves": False, "deviance": "poisson"}, ["mean_ratio", "deviance"]),
        ({"quantile": 0.5}, ["mean_ratio", "gini", "pinball", "share_below"]),
    ):
        for found in (evaluate(model, frame, epsilon=3.0, **how), exactly(model, frame, **how)):
            assert list(found.measures.values) == names + more
            assert bool(found.calibration) == how.get("curves", True)
    wide = domain_of((-5, 20))
    model = PrivBoostRegressor(3.0, 1e-6, wide, n_estimators=2).fit(frame)
    assert list(evaluate(model, frame, epsilon=3.0).measures.values) == names
    with pytest.raises(ValueError, match="lower bound is at least 0"):
        evaluate(model, frame, epsilon=3.0, deviance="poisson")


LOSSES = [
    ({"loss": "poisson"}, "counts", "poisson", {}),
    ({"loss": "tweedie", "power": 1.3}, "amounts", "tweedie", {"power": 1.3}),
    ({"loss": "gamma"}, "positive", "gamma", {}),
    ({"loss": "quantile", "quantile": 0.8}, "counts", None, {"quantile": 0.8}),
    ({"loss": "absolute"}, "counts", None, {"quantile": 0.5}),
]


def trained_with(loss, kind, frame, bounds=None):
    domain = domain_of(BOUNDS[kind] if bounds is None else bounds)
    how = {"n_estimators": 4, "interactions": False, "random_state": 0}
    return PrivBoostRegressor(8.0, 1e-6, domain, **how, **loss).fit(frame)


@pytest.mark.parametrize(("loss", "kind", "deviance", "more"), LOSSES)
def test_by_default_measures_follow_the_loss_of_the_model(loss, kind, deviance, more, tmp_path):
    frame = frame_of(kind, 800)
    model = trained_with(loss, kind, frame)
    model.save(tmp_path / "model")
    for own in (model, load_model(tmp_path / "model")):
        for find in (exactly, partial(evaluate, epsilon=8.0, random_state=1)):
            found, named = find(own, frame), find(own, frame, deviance=deviance, **more)
            assert found.measures == named.measures
            assert ("deviance" in found.measures.values) == (deviance is not None)
            assert ("pinball" in found.measures.values) == ("quantile" in more)
            privacy = found.privacy.to_dict()
            assert privacy["releases"] == named.privacy.to_dict()["releases"]
            assert privacy["parameters"] == named.privacy.to_dict()["parameters"]


def test_measures_that_are_named_come_before_those_of_the_loss():
    frame = frame_of("amounts", 800)
    model = trained_with({"loss": "tweedie", "power": 1.3}, "amounts", frame)
    own, other, named, left_out = (
        exactly(model, frame, **how)
        for how in ({}, {"power": 1.7}, {"deviance": "poisson"}, {"deviance": "none"})
    )
    values = [found["deviance"].value for found in (own, other, named)]
    assert len(set(values)) == 3
    y, said = frame["y"].to_numpy(), model.predict(frame)
    said = np.maximum(said, least_prediction(BOUNDS["amounts"]))
    assert values[1] == pytest.approx(mean_tweedie_deviance(y, said, power=1.7), rel=1e-7)
    assert "deviance" not in left_out.measures.values
    both = exactly(model, frame, quantile=0.9)
    assert {"deviance", "pinball"} < set(both.measures.values)
    with pytest.raises(ValueError, match="power"):
        exactly(model, frame, deviance="none", power=1.5)
    with pytest.raises(ValueError, match="power"):
        exactly(model, frame, power=3)


def test_a_deviance_that_labels_do_not_have_is_left_out():
    frame = frame_of("counts", 300)
    model = trained_with({"loss": "gamma"}, "counts", frame)
    assert "deviance" not in exactly(model, frame).measures.values
    with pytest.raises(ValueError, match="lower bound is above 0"):
        exactly(model, frame, deviance="gamma")


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"loss": None},
        {"loss": ["poisson"]},
        {"loss": "squared"},
        {"loss": "quantile"},
        {"loss": "quantile", "quantile": 2},
        {"loss": "quantile", "quantile": True},
        {"loss": "quantile", "quantile": "0.5"},
        {"loss": "quantile", "quantile": math.nan},
    ],
)
def test_a_report_that_names_no_loss_asks_for_nothing(said):
    assert loss_measures(said) == (None, None, None)


def test_without_curves_nothing_is_paid_for_them():
    """The releases of a score of a search, and of an evaluation without curves, are the same."""
    model = fitted("counts", frame_of("counts", 300)).model_
    whats = [
        [
            planned.event.what
            for planned in plan_evaluation(model, None, Budget(1.0, 1e-6), **how).releases
        ]
        for how in ({"curves": False}, {"only_score": True}, {"deviance": "poisson"})
    ]
    assert whats[0] == whats[1]
    assert len(whats[0]) == 5
    assert len(whats[2]) == 10


@pytest.mark.parametrize("rows", [0, 1, 3])
@pytest.mark.parametrize("how", [{"epsilon": 0.5}, {"epsilon": math.inf, "public_rows": True}])
def test_hardly_any_rows_are_no_error(case, rows, how):
    _, model, frame, wanted = case
    found = evaluate(model, frame.iloc[:rows], by="job", **how, **wanted)
    for own in (found.measures, *(group.measures for group in found.groups)):
        for value in own.values.values():
            assert all(map(math.isfinite, (value.value, value.std, value.width)))
    assert Evaluation.from_dict(json.loads(found.to_json())) == found


@pytest.mark.parametrize("labels", [0.0, 20.0])
def test_equal_labels_are_no_error(labels):
    frame = frame_of("counts", 400).assign(y=labels)
    model = fitted("counts", frame)
    for how in ({"epsilon": 5.0}, {"epsilon": math.inf, "public_rows": True}):
        found = evaluate(model, frame, deviance="poisson", quantile=0.5, **how)
        for value in found.measures.values.values():
            assert all(map(math.isfinite, (value.value, value.std, value.width)))


def test_every_backend_releases_the_same(case):
    _, model, frame, how = case
    frame = frame[:1000]
    one, other = (
        evaluate(model, frame, epsilon=2.0, by="job", random_state=4, backend=backend, **how)
        for backend in ("auto", lambda loads: HostileBackend(loads, 3))
    )
    assert one == other
    few = frame[:200]
    assert exactly(model, few, **how) == exactly(
        model, few, backend=lambda loads: HostileBackend(loads, 5), **how
    )


def test_loaders_are_read_as_written(case):
    _, model, _, how = case
    for budget in (Budget(1.0, 1e-6),):
        plan = plan_evaluation(model.model_, None, budget, **how)
        loader = OutcomeLoader(plan.model, plan.outcomes, plan.groups, "y", None)
        again = read_loader(loader.to_bytes())
        assert again.to_bytes() == loader.to_bytes()
        assert again.outcomes.to_dict() == plan.outcomes.to_dict()


def test_what_is_printed_written_and_drawn(tmp_path):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    frame = frame_of("counts")
    model = fitted("counts", frame)
    for found in (
        evaluate(model, frame, epsilon=3.0, quantile=0.5, by="job", random_state=2),
        exactly(model, frame, quantile=0.5),
    ):
        for text in (str(found), found._repr_html_()):
            assert "mean ratio" in text
            assert "share below" in text
        section = str(evaluation_section(model.privacy_, [found]))
        assert "calibration by tenths of the prediction" in section
        found.to_json(tmp_path / "found.json")
        assert Evaluation.from_json(tmp_path / "found.json") == found
        ax = found.plot()
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("mean prediction", "mean label")
        ax = found.plot(residuals=True)
        assert ax.get_ylabel() == "mean residual"
        pyplot.close("all")
        table = found.calibration_table().to_pylist()
        own = found.calibration[4]
        assert table[4]["predicted"] == own.predicted
        assert table[4]["observed"] == own.observed.value
        assert table[4]["residual_std"] == own.residual.std
        assert (table[4]["observed_lower"] is None) == found.privacy.public_rows
    with pytest.raises(ValueError, match="no probabilities to draw"):
        exactly(model, frame, curves=False).plot()
    with pytest.raises(ValueError, match="residuals: this evaluation has no calibration"):
        exactly(model, frame, curves=False).plot(residuals=True)


def test_a_search_scores_by_what_the_measures_declare():
    frame = frame_of("counts", 300)
    base = PrivBoostRegressor(domain=domain_of(BOUNDS["counts"]), n_estimators=2)

    def search(scoring):
        return PrivateSearchCV(base, [{}], 2.0, 1e-6, expected_runs=1.1, scoring=scoring)

    assert search("mae").fit(frame).scoring_ == "mae"
    listed = [name for name in ("rmse", "mae", "r2") if MEASURES[name].better]
    for scoring in ("bias", "gini", "mean_ratio", "deviance"):
        with pytest.raises(ValueError, match=", ".join(map(repr, listed))):
            search(scoring).fit(frame)


# Parts


@pytest.mark.parametrize("power", [1.0, 1.5, 2.0])
def test_no_deviance_exceeds_the_largest(power):
    rng = np.random.default_rng(3)
    for low, high in ((0.01, 5.0), (1.0, 1e6), (3.0, 3.5)):
        y, said = rng.uniform(low, high, (2, 2000))
        y[:2], said[:2] = (low, high), (high, low)
        found = unit_deviance(y, said, power)
        assert (found >= 0).all()
        assert found.max() <= largest_deviance((low, high), (low, high), power)
        assert unit_deviance(y, y, power).max() < 1e-6 * high
    least = np.array([least_prediction((0.0, 5.0))])
    assert 0 < least < 1e-5
    assert least_prediction((0.5, 4.0)) == 0.5
    assert largest_deviance((0.0, 5.0), (0.0, 4.0), 1.0) >= unit_deviance(5.0 + 0 * least, least, 1)


def test_cells_of_predictions():
    grid = PredictionGrid(-1.0, 3.0, 8)
    assert len(grid.edges) == grid.n_cells + 1
    assert (np.diff(grid.edges) > 0).all()
    assert (grid.edges[0], grid.edges[grid.n_cells // 2], grid.edges[-1]) == (-1.0, 1.0, 3.0)
    at = np.random.default_rng(3).uniform(-1, 3, 1000)
    cells = grid.cells(at)
    assert ((grid.edges[cells] <= at) & (at < grid.edges[cells + 1])).all()
    assert grid.cells(np.array([-9.0, -1.0, 3.0, 9.0])).tolist() == [0, 0, 255, 255]
    assert np.diff(grid.edges)[0] < 2.0**-14


@pytest.mark.parametrize("n_groups", [10, 20, 50])
def test_groups_have_about_as_many_rows(n_groups):
    grid = PredictionGrid(0.0, 1.0, 64)
    at = np.random.default_rng(3).beta(2, 5, 20_000)
    counts = np.bincount(grid.cells(at), minlength=grid.n_cells).astype(float)
    found = Grouping.of(grid, counts, 0.0, n_groups)
    sizes = np.bincount(found.group_of[grid.cells(at)])
    assert len(sizes) == n_groups
    assert abs(sizes * n_groups / 20_000 - 1).max() < 0.6
    tenths = np.bincount(found.tenth_of[found.group_of[grid.cells(at)]])
    assert len(tenths) == 10
    assert abs(tenths / 2000 - 1).max() < 0.2
    assert (np.diff(found.edges) > 0).all()
    assert (found.edges[:-1] <= found.predicted).all()
    assert (found.predicted <= found.edges[1:]).all()
    for k in range(n_groups):
        own = at[found.group_of[grid.cells(at)] == k]
        assert abs(own.mean() - found.predicted[k]) < 0.01


def test_equal_predictions_are_one_group_or_two():
    grid = PredictionGrid(0.0, 1.0, 8)
    counts = np.zeros(grid.n_cells)
    counts[40] = 1000.0
    for noise in (0.0, 5.0):
        found = Grouping.of(grid, counts, noise, 10)
        rows = np.bincount(found.group_of, weights=counts, minlength=len(found.predicted))
        assert (rows > 0).sum() == 1
    none = Grouping.of(grid, np.zeros(grid.n_cells), 3.0, 10)
    assert len(none.tenth_of) <= 10


def test_gini_of_groups_is_that_of_rows_in_a_row_each():
    rng = np.random.default_rng(5)
    y, said = rng.gamma(1, 1, 300), rng.uniform(0, 1, 300)
    order = np.argsort(said)
    (found,), (total,) = gini_of(np.ones((1, 300)), y[order][None])
    assert found == pytest.approx(gini_by_rank(y, said))
    assert total == pytest.approx(y.sum())


def test_noise_makes_groups_fewer():
    few, many = count_groups(1000.0, 500.0, 1.0), count_groups(1e6, 50.0, 1.0)
    assert few == 10
    assert many == 50
    assert count_groups(-3.0, 1.0, 1.0) == count_groups(100.0, 1.0, -1.0) == 10


def test_the_last_clear_cell():
    counts = np.zeros(25)
    assert last_clear_cell(counts, 5.0) == 24
    counts[3:8] = 100
    assert last_clear_cell(counts, 5.0) == 7
