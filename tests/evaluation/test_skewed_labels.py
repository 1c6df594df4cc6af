"""What is stated of a number is true where labels are skewed, on private and on public rows."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score

from privboost import Evaluation, PrivBoostRegressor, Sweep, evaluate
from privboost.accounting.ledger import Ledger
from privboost.data.loading import Load, load_rows
from privboost.data.sources import open_table
from privboost.engine.backend import LocalBackend
from privboost.engine.queries import COUNT, CellSums
from privboost.engine.updates import Start
from privboost.evaluation import number_measures
from privboost.evaluation.evaluate import measure
from privboost.evaluation.model_card import evaluation_section
from privboost.evaluation.number_sums import RESIDUAL_CELLS, Clip, Tail, choose_clip
from privboost.evaluation.numbers import (
    NUMBER_CODES,
    _code_number,
    cells_of_codes,
    clip_of_scores,
    middles_of_codes,
)
from privboost.evaluation.outcomes import OutcomeLoader, open_groups, table_of
from privboost.evaluation.plan import plan_evaluation, plan_score
from privboost.evaluation.result import BoundedValue
from privboost.mechanisms.curator import Curator
from privboost.randomness.keystream import KeyStream
from privboost.recipes.common.plan import Budget

ROWS = 4000
BOUNDS = {"lognormal": (0, 1_000_000), "zeros": (0, 100_000), "counts": (0, 1000)}
MEASURES = ("rmse", "mae", "bias", "r2")


def labels_of(kind, x, rng):
    if kind == "lognormal":
        return np.exp(rng.normal(5 + 2 * x, 1.5))
    if kind == "zeros":
        amounts = np.exp(rng.normal(5 + x, 1.2))
        return np.where(rng.random(len(x)) < 0.7, 0.0, amounts)
    return rng.poisson(np.exp(x - 1) * rng.gamma(0.5, 2, len(x))).astype(float)


def frame_of(kind, rows=ROWS, seed=1):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 1, rows)
    job = rng.choice(["a", "b"], rows)
    return pd.DataFrame({"x": x, "job": job, "y": labels_of(kind, x, rng)})


def domain_of(bounds):
    features = {
        "x": {"kind": "numeric", "bounds": [0, 1]},
        "job": {"kind": "categorical", "categories": ["a", "b"]},
    }
    return {"version": 1, "features": features, "target": {"name": "y", "bounds": list(bounds)}}


def fitted(frame, bounds):
    return PrivBoostRegressor(3.0, 1e-6, domain_of(bounds), n_estimators=8, random_state=0).fit(
        frame
    )


@pytest.fixture(scope="module", params=sorted(BOUNDS))
def skewed(request):
    """A model, its rows, and what is true of them."""
    kind = request.param
    frame = frame_of(kind)
    model = fitted(frame, BOUNDS[kind])
    assert frame["y"].between(*BOUNDS[kind]).all()
    return model, frame, truth(model, frame)


def truth(model, frame):
    """What scikit-learn says of exact predictions."""
    y, said = frame["y"], model.predict(frame)
    return {
        "rmse": mean_squared_error(y, said) ** 0.5,
        "mae": mean_absolute_error(y, said),
        "bias": float((y - said).mean()),
        "r2": r2_score(y, said),
    }


def exactly(model, frame, **how):
    return evaluate(model, frame, epsilon=math.inf, public_rows=True, **how)


def values_of(found):
    return {name: found[name].value for name in MEASURES}


def test_public_rows_are_exact(skewed):
    model, frame, exact = skewed
    found = exactly(model, frame, by="job")
    assert values_of(found) == pytest.approx(exact, rel=1e-9)
    assert found["rows"].value == ROWS
    for group in found.groups[:2]:
        part = frame[frame["job"] == group.value]
        assert values_of(group) == pytest.approx(truth(model, part), rel=1e-9)
        assert group["rows"].value == len(part)
    assert found.residuals.clip is None
    assert not any(isinstance(value, BoundedValue) for value in found.measures.values.values())


@pytest.mark.parametrize(
    ("bounds", "middle", "width"),
    [((-1e9, 1e9), 0, 1), ((0, 1e12), 7e11, 100), ((-1e300, 1e300), 3e299, 1e299), ((0, 1), 0, 1)],
)
def test_public_rows_are_exact_within_any_bounds(bounds, middle, width):
    frame = frame_of("lognormal", 500)
    frame["y"] = np.clip(middle + width * np.random.default_rng(2).normal(size=500), *bounds)
    model = fitted(frame, bounds)
    said = model.predict(frame) / width
    y = frame["y"] / width  # numbers that scikit-learn can square
    found = exactly(model, frame)
    assert found["rmse"].value / width == pytest.approx(mean_squared_error(y, said) ** 0.5, 1e-6)
    assert found["mae"].value / width == pytest.approx(mean_absolute_error(y, said), 1e-6)
    assert 1 - found["r2"].value == pytest.approx(1 - r2_score(y, said), 1e-6)


def test_labels_beyond_the_bounds_are_said_to_be_clipped(skewed):
    model, frame, _ = skewed
    low, high = model.model_.domain.target.bounds
    wild = frame.copy()
    wild.loc[:4, "y"] = [-1.0, 2 * high, math.inf, -math.inf, math.nan]
    found = exactly(model, wild)
    rest = wild.drop(index=4)
    clipped = rest.assign(y=rest["y"].clip(low, high))
    assert values_of(found) == pytest.approx(truth(model, clipped), rel=1e-9)
    assert found.residuals.labels_outside == 4
    assert f"4 labels beyond {low:.6g} and {high:.6g} were clipped to them" in str(found)


def open_rows(model, frame, budget, by=()):
    plan = plan_evaluation(model.model_, open_groups(by, model.model_), budget)
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
    """Whether what is printed of a value is true."""
    above = value.lower is None or value.lower <= exact
    below = value.upper is None or exact <= value.upper
    return {"at least": above, "at most": below, None: above and below}[value.one_sided]


RUNS = 60


@pytest.mark.parametrize(("epsilon", "delta"), [(0.3, 1e-6), (1.0, 0.0), (8.0, 1e-6)])
def test_what_is_stated_is_true(skewed, epsilon, delta):
    model, frame, exact = skewed
    plan, backend = open_rows(model, frame, Budget(epsilon, delta))
    found = [release(plan, backend, seed).whole for seed in range(RUNS)]
    for name in MEASURES:
        assert sum(holds(own[name], exact[name]) for own in found) >= 0.95 * RUNS, name
        between = [(own[name].lower, own[name].upper) for own in found]
        inside = [(a is None or a <= exact[name]) and exact[name] <= b for a, b in between]
        assert sum(inside) >= 0.95 * RUNS, name
    if epsilon >= 1:  # it is no empty statement: most of the error is seen
        assert np.median([own["mae"].lower for own in found]) > 0.5 * exact["mae"]
        assert np.median([own["rmse"].lower for own in found]) > 0.25 * exact["rmse"]


def test_what_is_stated_of_groups_is_true(skewed):
    model, frame, _ = skewed
    plan, backend = open_rows(model, frame, Budget(2.0, 1e-6), "job")
    exact = {job: truth(model, frame[frame["job"] == job]) for job in ("a", "b")}
    held = dict.fromkeys(MEASURES, 0)
    for seed in range(30):
        for group in release(plan, backend, seed).groups[:2]:
            for name in MEASURES:
                held[name] += holds(group[name], exact[group.value][name])
    assert min(held.values()) >= 0.95 * 60, held


def test_a_clip_that_hides_what_lies_beyond_is_caught(monkeypatch):
    """The twin states an interval of clipped residuals alone."""
    frame = frame_of("lognormal")
    model = fitted(frame, BOUNDS["lognormal"])
    exact = truth(model, frame)
    monkeypatch.setattr(Tail, "of", classmethod(lambda cls, *_: cls(0.0, 0.0, 0.0)))
    plan, backend = open_rows(model, frame, Budget(1.0, 0.0))
    found = [release(plan, backend, seed).whole for seed in range(20)]
    assert sum(holds(own["rmse"], exact["rmse"]) for own in found) < 0.5 * 20


def test_the_counts_have_the_noise_that_is_charged():
    """Of no rows at all, noise is all that is told."""
    model = fitted(frame_of("counts", 300), BOUNDS["counts"])
    for delta in (0.0, 1e-6):
        plan, backend = open_rows(model, frame_of("counts", 0), Budget(2.0, delta), "job")
        event = plan.releases[1].event
        told = []
        for seed in range(60):
            ledger = Ledger(2.0, delta, plan.accountant)
            ledger.reserve(plan.releases)
            curator = Curator(backend, ledger, KeyStream.seeded(seed), plan.contribution)
            curator.publish(Start(table_of(np.zeros(NUMBER_CODES), np.zeros(NUMBER_CODES))))
            told.append(curator.sums(CellSums(plan.maps[1], statistics=COUNT), event))
        counts = np.concatenate(told)
        assert counts.std() == pytest.approx(event.deviations[0], rel=0.05)
        assert abs(counts.mean()) < 0.1 * counts.std()


def test_the_cost_does_not_depend_on_the_clip():
    model = fitted(frame_of("counts", 300), BOUNDS["counts"]).model_
    chosen, given = (
        plan_evaluation(model, None, Budget(1.0, 1e-6), clip=clip) for clip in (None, 7.0)
    )
    assert chosen.releases == given.releases
    assert chosen.digest != given.digest


def test_a_clip_that_is_given_is_kept():
    frame = frame_of("counts")
    model = fitted(frame, BOUNDS["counts"])
    exact = truth(model, frame)["rmse"]
    for clip in (0.75, 5.0, 1000.0, 1e6):
        found = evaluate(model, frame, epsilon=50.0, clip=clip)
        assert found.residuals.clip == min(clip, 1000.0)
        residual = np.clip(frame["y"] - model.predict(frame), -clip, clip)
        within = np.sqrt((residual**2).mean())
        assert found["rmse"].value == pytest.approx(within, rel=0.02, abs=4 * found["rmse"].std)
        assert holds(found["rmse"], exact)
        assert found.privacy.parameters["clip"] == min(clip, 1000.0)


def test_the_clip_follows_clear_counts():
    how = {"noise": 10.0, "sum_noise": 8.0, "otherwise": 17}
    rng = np.random.default_rng(3)
    empty = rng.normal(0, 10, RESIDUAL_CELLS).clip(-29, 29)
    assert choose_clip(empty, 0.0, **how) == 17
    bulk = empty.copy()
    bulk[5:9] += [500, 3000, 3000, 400]
    assert choose_clip(bulk, 7000.0, **how) in (7, 8)
    assert choose_clip(bulk, 20_000.0, **how) == 17  # most rows are nowhere clearly
    bulk[14] += 300  # a second bulk, far away
    assert choose_clip(bulk, 7000.0, **how) in (13, 14)


def test_scores_of_a_search_have_a_clip_that_follows_from_the_model():
    """With clips of their own, the run with the smallest clip would win."""
    model = fitted(frame_of("counts", 300), BOUNDS["counts"]).model_
    assert clip_of_scores(model) == model.middle_and_half_of_labels[1]
    budget = Budget(1.0, 1e-6)
    plan = plan_evaluation(
        model, None, budget, clip=clip_of_scores(model), gaussian=True, only_score=True
    )
    assert plan.releases == plan_score(plan.encoder, budget)


def test_codes_of_numbers():
    rng = np.random.default_rng(4)
    sizes = np.concatenate([np.exp(-rng.uniform(0, 30, 5000)), [0, 1, 0.5, 0.25, 2.0**-24, 1e-300]])
    middles, cells = middles_of_codes(), cells_of_codes()
    assert len(middles) == len(cells) == NUMBER_CODES
    assert (np.diff(middles) > 0).all()
    for sign in (-1, 1):
        codes = _code_number(3 * sign * sizes, 3.0)
        near = np.abs(middles[codes] - sign * sizes)
        assert (near <= np.maximum(sizes / 512, 2.0**-40)).all()
        ends = 2.0 ** (cells[codes] - (RESIDUAL_CELLS - 1.0))
        assert (sizes <= ends).all()
        assert (sizes >= np.where(cells[codes] > 0, ends / 2, 0)).all()


def test_no_table_has_an_r2_beyond_its_end():
    """Without noise: labels and residuals of any size, clipped anywhere."""
    rng = np.random.default_rng(5)
    for _ in range(400):
        n, half = int(rng.integers(2, 40)), float(rng.choice([0.02, 0.3, 1.0, 5.0]))
        said = rng.uniform(-half, half, n)
        far = rng.random(n) < rng.choice([0.05, 0.3])
        labels = np.clip(said + rng.normal(0, 0.3 * half, n) + far * rng.normal(0, 30, n), -64, 64)
        residuals = labels - said
        reach = 64 + half
        clip = Clip.at(int(rng.integers(12, 25)), reach, half, 64.0, reach)
        one, widest = clip.residual, clip.label
        within, inside = np.clip(residuals, -one, one), np.clip(labels, -widest, widest)
        ends = np.concatenate([[1.0], clip.ends])
        cell = np.searchsorted(ends, np.abs(residuals) / one, side="left")
        counts = np.bincount(cell, minlength=len(ends))[1:]
        tail = Tail.of(counts, 0.0, clip.ends, n)
        assert (residuals**2).mean() <= (within**2).mean() + tail.squares * one**2 + 1e-9
        assert np.abs(residuals).mean() <= np.abs(within).mean() + tail.excess * one + 1e-9
        assert labels.var() >= inside.var() - 1e-9
        end = number_measures._most_r2(
            (within**2).mean() / one**2,
            inside.var() / one**2,
            tail,
            (widest + abs(inside.mean())) / one,
        )
        assert 1 - (residuals**2).mean() / labels.var() <= end + 1e-9


def test_what_is_printed_and_written(skewed, tmp_path):
    model, frame, _ = skewed
    found = evaluate(model, frame, epsilon=1.0, by="job", random_state=1)
    clip = found.residuals.clip
    section = evaluation_section(model.privacy_, [found])
    for text in (str(found), found._repr_html_(), str(section)):
        assert f"residuals clipped at {clip:.6g}" in text
        assert "at least" in text
        assert "narrower bounds of the target" in text
        assert "at most" in text
    form = json.loads(found.to_json(tmp_path / "found.json"))
    assert form["residuals"]["clip"] == clip
    for own in (form["all"], *form["groups"]):
        for name in MEASURES:
            assert {"lower", "upper", "one_sided"} < set(own[name])
        assert set(own["rows"]) == {"value", "std", "width"}
    assert form["all"]["rmse"]["one_sided"] == "at least"
    assert form["all"]["rmse"]["lower"] <= found["rmse"].value <= form["all"]["rmse"]["upper"]
    assert Evaluation.from_json(tmp_path / "found.json") == found
    line = found.to_table().to_pylist()[0]
    assert (line["rmse_lower"], line["r2_upper"]) == (found["rmse"].lower, found["r2"].upper)
    sweep = Sweep()
    sweep.add(model, found)
    assert str(found["rmse"]) in sweep.to_text("rmse")
    assert Sweep.from_dict(sweep.to_dict()).points[0].evaluation == found


@pytest.mark.parametrize(
    ("where", "wrong"),
    [
        (("all", "rmse", "lower"), "low"),
        (("all", "rmse", "upper"), True),
        (("all", "rmse", "one_sided"), "about"),
        (("all", "rmse", "most"), 3),
        (("residuals", "clip"), "far"),
        (("residuals", "bounds"), [0]),
        (("residuals", "bounds"), [0, None]),
        (("residuals", "labels_outside"), -1),
        (("residuals", "labels_outside"), 1.5),
        (("residuals", "more"), 1),
        (("residuals",), None),
    ],
)
def test_what_is_no_evaluation_is_refused(where, wrong):
    model = fitted(frame_of("counts", 300), BOUNDS["counts"])
    form = evaluate(model, frame_of("counts", 300), epsilon=1.0).to_dict()
    Evaluation.from_dict(form)
    place = form
    for key in where[:-1]:
        place = place[key]
    place[where[-1]] = wrong
    with pytest.raises(ValueError, match="an evaluation has"):
        Evaluation.from_dict(form)


def test_evaluations_without_these_facts_are_read():
    model = fitted(frame_of("counts", 300), BOUNDS["counts"])
    form = evaluate(model, frame_of("counts", 300), epsilon=1.0).to_dict()
    del form["residuals"]
    for name in MEASURES:
        for key in ("lower", "upper", "one_sided"):
            del form["all"][name][key]
    old = Evaluation.from_dict(form)
    assert old.residuals is None
    assert not isinstance(old["rmse"], BoundedValue)
    assert "±" in str(old["rmse"])
