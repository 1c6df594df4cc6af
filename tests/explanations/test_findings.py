"""Findings follow from released values, and from nothing else."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from privboost import (
    BoostedAdaSSPClassifier,
    Domain,
    DPXGBClassifier,
    LazyBBClassifier,
    PrivBoostClassifier,
    PrivBoostRegressor,
    SarusXGBClassifier,
    SBDTClassifier,
    SBDTRegressor,
    Unit,
)
from privboost.models.model import model_bytes, read_model
from tests.tables import NUMBER, THREE, make_domain, make_frame


def found(estimator):
    return {finding.kind: finding.text for finding in estimator.model_.findings()}


def test_they_are_a_function_of_the_file(fitted):
    """Fits that released the same are told the same: whatever the rows were."""
    model = fitted.estimator.model_
    assert read_model(model_bytes(model), "file").findings() == fitted.explanation.findings
    for finding in fitted.explanation.findings:
        assert str(finding) == f"{finding.kind}: {finding.text}"
        assert "\n" not in finding.text


def test_features_without_signal_are_named():
    frame = pd.DataFrame({"x": np.arange(4000) % 10, "y": np.arange(4000) % 7})
    frame["t"] = (frame["x"] > 4).astype(int)
    domain = numbers(x=(0, 9), y=(0, 6))
    model = PrivBoostClassifier(1.0, domain=domain, interactions=False, random_state=1).fit(frame)
    text = found(model)["no signal"]
    assert "y" in text.split(":")[0]
    assert "x" not in text.split(":")[0]


def numbers(target=None, **bounds):
    features = {name: {"kind": "numeric", "bounds": own} for name, own in bounds.items()}
    target = target or {"name": "t", "classes": [0, 1]}
    return Domain.from_dict({"version": 1, "features": features, "target": target})


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        (PrivBoostClassifier, {}),
        (SBDTClassifier, {"n_estimators": 30}),
        (DPXGBClassifier, {"n_estimators": 10}),
        (SarusXGBClassifier, {"n_estimators": 10}),
        (BoostedAdaSSPClassifier, {}),
    ],
)
def test_a_class_that_matches_nothing_is_named(kind, parameters):
    target = {"name": "income", "classes": ["low", "high", "Mid"]}
    model = kind(5.0, domain=make_domain(target), random_state=1, **parameters)
    text = found(model.fit(make_frame(6000)))["rare class"]
    assert "Mid" in text
    assert "low" not in text


FEW = [
    (PrivBoostClassifier, {"n_estimators": 6, "interactions": False}),
    (PrivBoostClassifier, {"n_estimators": 6, "delta": 0}),
    (SBDTClassifier, {"n_estimators": 20}),
    (SBDTClassifier, {"n_estimators": 20, "init_share": 0}),
    (DPXGBClassifier, {"n_estimators": 5}),
    (SarusXGBClassifier, {"n_estimators": 3}),
    (BoostedAdaSSPClassifier, {}),
    (LazyBBClassifier, {"n_estimators": 5}),
]


@pytest.mark.parametrize(("kind", "how"), FEW, ids=lambda x: getattr(x, "__name__", ""))
def test_labels_that_match_nothing_at_all_leave_no_rows(kind, how):
    target = {"name": "income", "classes": ["LOW", "HIGH"]}
    model = kind(1.0, domain=make_domain(target), random_state=1, **how).fit(make_frame(2000))
    text = found(model)["no rows"]
    assert "labels written as in the table" in text
    assert "weights" not in text
    again = read_model(model_bytes(model.model_), "file")
    assert again.findings() == model.model_.findings()
    model = kind(1.0, domain=make_domain(), random_state=1, **how).fit(make_frame(6000))
    assert "no rows" not in found(model)


def test_weights_that_are_no_numbers_leave_no_rows():
    frame = make_frame(2000).assign(weight=np.nan)
    model = PrivBoostClassifier(1.0, domain=make_domain(), n_estimators=6, random_state=1)
    model.set_params(sample_weight_bound=2.0).fit(frame, sample_weight="weight")
    assert "are weights numbers above 0" in found(model)["no rows"]


def test_few_rows_are_no_missing_ones_where_noise_would_show_more():
    """Masses of 100 rows drown in 300 trees at ε = 8; their number, released once, does not."""
    for seed in (1, 2):
        model = SBDTClassifier(8.0, 1e-6, make_domain(THREE), random_state=seed)
        assert "no rows" not in found(model.fit(make_frame(100, target=THREE)))


def test_noise_that_would_hide_rows_that_matter_says_nothing_of_them():
    model = LazyBBClassifier(1.0, domain=make_domain(), n_estimators=5, random_state=1)
    scores = model.fit(make_frame(300)).model_.scores
    for rows, said in (([0.0, 400.0], True), ([0.0, 600.0], False), ([900.0, 400.0], False)):
        own = replace(model.model_, scores=replace(scores, rows=np.array(rows)))
        assert ("no rows" in {finding.kind for finding in own.findings()}) == said


@pytest.mark.parametrize(("kind", "trees"), [(PrivBoostClassifier, None), (SBDTClassifier, 40)])
def test_bounds_far_wider_than_the_data_are_named(kind, trees):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"wide": rng.uniform(40, 60, 5000), "fits": rng.uniform(0, 9, 5000)})
    frame["t"] = (frame["wide"] + frame["fits"] > 54).astype(int)
    domain = numbers(wide=(0, 1000), fits=(0, 9))
    model = kind(3.0, domain=domain, n_estimators=trees, random_state=1).fit(frame)
    text = found(model)["wide bounds"]
    assert text.startswith("wide: ")
    assert "1000" in text


def test_labels_are_looked_at_where_their_span_was_learned():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.uniform(0, 1, 5000)})
    frame["t"] = frame["x"] * 3
    narrow = numbers({"name": "t", "bounds": [0, 100]}, x=(0, 1))
    model = PrivBoostRegressor(3.0, domain=narrow, random_state=1).fit(frame)
    texts = [finding.text for finding in model.model_.findings() if finding.kind == "label bounds"]
    assert not any("reach" in text for text in texts)  # 0 is a natural bound
    assert any("the bounds are 0 and 100" in text for text in texts)
    fits = PrivBoostRegressor(3.0, domain=narrow, span_share=0.0, random_state=1).fit(frame)
    assert "label bounds" not in found(fits)


@pytest.mark.parametrize(
    "kind", [PrivBoostClassifier, lambda *a, **k: SBDTClassifier(*a, n_estimators=20, **k)]
)
def test_a_delta_near_one_over_the_rows_is_named(kind):
    frame = make_frame(5000)
    large = kind(2.0, 1e-3, make_domain(), random_state=1).fit(frame)
    assert "delta is 0.001" in found(large)["large delta"]
    assert "large delta" not in found(kind(2.0, 1e-9, make_domain(), random_state=1).fit(frame))


def test_units_count_as_many_as_they_are_at_least():
    frame = make_frame(5000)
    frame["person"] = np.arange(5000)
    domain = make_domain(unit=Unit("person", 2).to_dict())
    model = PrivBoostClassifier(5.0, 1e-2, domain, random_state=1).fit(frame)
    assert "protected units" in found(model)["large delta"]


def test_a_share_for_interactions_that_found_none_is_named():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.uniform(0, 1, (3000, 3)), columns=["x", "y", "z"])
    frame["t"] = rng.integers(0, 2, 3000)
    domain = numbers(x=(0, 1), y=(0, 1), z=(0, 1))
    model = PrivBoostClassifier(1.0, domain=domain, random_state=1).fit(frame)
    assert model.model_.scores.kind == "compound"
    assert "interactions=False" in found(model)["wasted share"]
    frame["t"] = ((frame["x"] > 0.5) ^ (frame["y"] > 0.5)).astype(int)
    model = PrivBoostClassifier(5.0, domain=domain, random_state=1).fit(frame)
    assert model.model_.scores.kind == "compound"
    assert "wasted share" not in found(model)


def test_noise_alone_is_no_number_of_rows():
    """Where masses are all noise, nothing is said of δ, whatever they happen to be."""
    for seed in range(3):
        model = SBDTClassifier(0.05, 1e-4, make_domain(), n_estimators=30, random_state=seed)
        assert "large delta" not in found(model.fit(make_frame(200)))


def test_votes_that_cancel_are_named():
    model = LazyBBClassifier(0.05, domain=make_domain(), n_estimators=40, random_state=1)
    model.set_params(n_candidates=1)
    text = found(model.fit(make_frame(300))).get("wasted share")
    cast = 40 - sum(abs(votes) for votes in model.explain()["votes"].to_pylist())
    assert (text is not None) == (cast >= 10)


def test_public_rows_have_no_noise_to_stand_out_from():
    model = SBDTClassifier(
        float("inf"), domain=make_domain(), n_estimators=5, public_rows=True, random_state=1
    ).fit(make_frame(500))
    assert not {"no signal", "no rows", "large delta"} & set(found(model))


def test_a_number_without_bounds_to_doubt_is_left_alone():
    model = PrivBoostRegressor(20.0, domain=make_domain(NUMBER), random_state=1)
    assert "wide bounds" not in found(model.fit(make_frame(1000, target=NUMBER)))


def bounded(labels, high, kind=PrivBoostRegressor, low=0, **more):
    frame = pd.DataFrame({"x": np.arange(len(labels)) % 7 / 6, "t": labels})
    domain = numbers({"name": "t", "bounds": [low, high]}, x=(0, 1))
    how = {"n_estimators": 3, "random_state": 1} | more
    model = kind(2.0, 1e-6, domain, **how).fit(frame).model_
    assert read_model(model_bytes(model), "file").findings() == model.findings()
    return [finding.text for finding in model.findings() if finding.kind == "label bounds"]


COUNTS = np.random.default_rng(5).negative_binomial(1, 0.25, 20_000)  # 3 on average, up to some 40


@pytest.mark.parametrize("more", [{}, {"loss": "poisson"}, {"loss": "quantile"}])
@pytest.mark.parametrize("kind", [PrivBoostRegressor, SBDTRegressor])
def test_counts_that_pile_up_at_a_bound_are_named(kind, more):
    """The range fills both ends of bounds that are too narrow."""
    (text,) = bounded(COUNTS, 5, kind, **more)
    assert 0.2 < int(text.removeprefix("about ")[:2]) / 100 < 0.36  # a log link has wide cells
    assert "at the upper bound 5, or near it: if there are larger labels" in text


@pytest.mark.parametrize("more", [{}, {"loss": "poisson"}, {"loss": "quantile"}])
@pytest.mark.parametrize("high", [30, 60])
def test_bounds_that_hold_all_counts_are_not_named(more, high):
    assert not bounded(COUNTS, high, **more)


@pytest.mark.parametrize(
    "labels",
    [
        np.arange(8000) % 2,
        np.arange(8000) % 6,
        np.random.default_rng(1).uniform(0, 5, 8000),
        np.random.default_rng(1).normal(2.5, 0.8, 8000).clip(0, 5),
    ],
    ids=["two values", "grades", "even", "normal"],
)
def test_labels_that_reach_their_bounds_by_nature_are_not_named(labels):
    assert not bounded(labels, float(labels.max().round()))


def test_labels_that_pile_up_below_are_named():
    labels = np.random.default_rng(1).normal(2, 1, 8000)
    (text,) = bounded(labels, 6, low=1.5)
    assert "at the lower bound 1.5, or near it: if there are smaller labels" in text


@pytest.mark.parametrize("kind", [PrivBoostClassifier, SBDTClassifier])
def test_flags_are_not_said_to_have_wide_bounds(kind):
    """Flags declared as numbers have all they need; bounds of a small share may be too wide."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"flag": rng.binomial(1, 0.08, 8000)})
    frame["share"] = rng.beta(1, 300, 8000)
    frame["t"] = rng.binomial(1, 0.3 + 0.4 * frame["flag"])
    domain = numbers(flag=(0, 1), share=(0, 1))
    model = kind(3.0, 1e-6, domain, n_estimators=40, random_state=1).fit(frame).model_
    wide = [finding.text for finding in model.findings() if finding.kind == "wide bounds"]
    assert all(text.split(":")[0] == "share" or "unless 0 and 1" in text for text in wide)
    if kind is PrivBoostClassifier:
        (text,) = wide
        assert text.startswith("share: ")
