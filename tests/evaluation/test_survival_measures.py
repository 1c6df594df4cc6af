"""Measures of survival times: near the exact ones, with intervals that hold."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from privboost import Evaluation, PrivBoostSurvival, evaluate, load_model, model_card
from privboost.evaluation import survival
from privboost.evaluation.survival import SurvivalCounts
from privboost.models.survival import concordance
from tests.hostile import HostileBackend
from tests.recipes.test_survival import DOMAIN, structured, table

PUBLIC = {"epsilon": np.inf, "public_rows": True}
HORIZON = 3.0


@pytest.fixture(scope="module")
def model():
    frame, _ = table(4000, seed=5)
    return PrivBoostSurvival(3.0, 1e-6, DOMAIN, random_state=1).fit(frame).model_


@pytest.fixture(scope="module")
def rows():
    return table(2500, seed=6)[0]


def exact_concordance(model, rows):
    times, events = rows["days"].to_numpy(), rows["died"].to_numpy()
    return concordance(times, events, model.decision_function(rows))


def test_measures_of_public_rows(model, rows):
    found = evaluate(model, rows, horizon=HORIZON, **PUBLIC)
    exact = exact_concordance(model, rows)
    own = found["concordance"]
    assert own.value == pytest.approx(exact, abs=0.003)
    assert own.lower < exact < own.upper
    assert own.upper - own.lower < 0.06
    died = rows["died"] & (rows["days"] <= HORIZON)
    alive = rows["days"] > HORIZON
    assert found["rows"].value == len(rows)
    assert found["events"].value == pytest.approx(rows["died"].mean())
    assert found["survival"].value == pytest.approx(alive.sum() / (alive | died).sum())
    assert found["censored_before"].value == pytest.approx(1 - (alive | died).mean())
    promised = model.predict_survival_function(rows[alive | died], [HORIZON])[:, 0]
    assert found["predicted_survival"].value == pytest.approx(promised.mean(), abs=0.01)
    assert found["calibration_error"].value < 0.06
    assert found.privacy.parameters["horizon"] == pytest.approx(HORIZON)
    bins = found.reliability
    assert 5 <= len(bins) <= 10
    assert bins[0].of == "days > 3"
    assert all(one.low <= one.predicted <= one.high for one in bins)
    assert sum(one.rows.value for one in bins) == (alive | died).sum()
    observed = [one.observed.value for one in bins]
    assert np.corrcoef(observed, [one.predicted for one in bins])[0, 1] > 0.95
    assert Evaluation.from_dict(found.to_dict()).measures == found.measures
    assert "concordance" in str(found)
    assert found.to_table().num_rows == 1
    assert found.reliability_table().num_rows == len(bins)
    found.plot()


def test_texts_and_cards_say_at_which_time(model, rows):
    found = evaluate(model, rows, by=["job"], horizon=HORIZON, **PUBLIC)
    assert found.horizon == pytest.approx(HORIZON)
    for at in ("survival at 3", "predicted survival at 3", "censored before 3"):
        assert at in str(found)
        assert at in found._repr_html_()
    card = model_card(model, evaluations=[found]).to_markdown()
    assert "| survival at 3 |" in card
    assert "; calibration error at 3 " in card
    assert Evaluation.from_dict(found.to_dict()).horizon == found.horizon


def test_a_default_horizon_lies_within_the_times(model, rows):
    found = evaluate(model, rows, **PUBLIC)
    low, high = DOMAIN["target"]["bounds"]
    assert low < found.privacy.parameters["horizon"] < high
    assert 0.1 < found["survival"].value < 0.9


def coverage(model, rows, runs, epsilon):
    """How often the interval of a concordance has the exact one, and of a share the true one."""
    exact = exact_concordance(model, rows)
    share = rows["died"].mean()
    inside = []
    for seed in range(runs):
        found = evaluate(model, rows, epsilon=epsilon, random_state=seed)
        own, events = found["concordance"], found["events"]
        near = abs(events.value - share) <= 2 * events.std
        inside.append((own.lower <= exact <= own.upper, near))
    return np.mean(inside, axis=0)


@pytest.mark.parametrize("epsilon", [0.2, 2.0])
def test_intervals_hold(model, rows, epsilon):
    assert (coverage(model, rows, 30, epsilon) >= 0.9).all()


def test_a_twin_that_forgets_the_noise_is_caught(model, rows, monkeypatch):
    whole = SurvivalCounts.concordance

    def forgetful(counts):
        return whole(replace(counts, noise=0.0))

    monkeypatch.setattr(SurvivalCounts, "concordance", forgetful)
    monkeypatch.setattr(survival, "ERRORS", 2.0)
    exact = exact_concordance(model, rows)
    few = rows[:300]
    exact, inside = exact_concordance(model, few), []
    for seed in range(20):
        own = evaluate(model, few, epsilon=0.2, random_state=seed)["concordance"]
        inside.append(own.lower <= exact <= own.upper)
    assert np.mean(inside) < 0.8


def test_standard_errors_are_those_of_other_rows_and_noise(model):
    found = []
    for seed in range(25):
        frame, _ = table(1500, seed=100 + seed)
        found.append(evaluate(model, frame, epsilon=1.0, random_state=seed)["concordance"])
    spread = np.std([own.value for own in found])
    assert np.mean([own.std for own in found]) == pytest.approx(spread, rel=0.5)


def test_groups_and_any_rows(model, rows):
    found = evaluate(model, rows, epsilon=1.0, by=["job"], random_state=1)
    assert [group.value for group in found.groups] == ["a", "b", "other", "missing"]
    assert found.groups[0]["concordance"].value == pytest.approx(0.8, abs=0.15)
    odd = pd.DataFrame({"age": [np.nan, 7.0], "job": [None, "c"], "days": [np.inf, np.nan]})
    for died in (True, None):
        found = evaluate(model, odd.assign(died=died), epsilon=1.0, random_state=1)
        for name in found.measures.values:
            assert np.isfinite(found[name].value)
            assert found[name].std >= 0


def test_labels_apart_and_other_backends(model, rows):
    how = {"epsilon": 1.0, "random_state": 2, "horizon": HORIZON}
    first = evaluate(model, rows, **how)
    apart = evaluate(model, rows[["age", "job"]], structured(rows), **how)
    assert apart.measures == first.measures
    hostile = evaluate(model, rows, **how, backend=lambda loads: HostileBackend(loads, 3))
    assert hostile.measures == first.measures


@pytest.mark.parametrize(
    ("how", "about"),
    [
        ({"clip": 1.0}, "clip"),
        ({"curves": True}, "curves"),
        ({"score_cells": 8}, "score_cells"),
        ({"deviance": "poisson"}, "deviance"),
        ({"quantile": 0.5}, "quantile"),
        ({"horizon": 0.0}, "horizon"),
        ({"horizon": 1e9}, "horizon"),
        ({"horizon": "late"}, "horizon"),
    ],
)
def test_what_has_no_meaning_is_refused(model, rows, how, about):
    with pytest.raises((ValueError, TypeError), match=about):
        evaluate(model, rows, epsilon=1.0, **how)


def test_a_saved_model_is_evaluated_alike(model, rows, tmp_path):
    model.save(tmp_path / "m")
    how = {"epsilon": 1.0, "random_state": 2}
    loaded = load_model(tmp_path / "m")
    assert evaluate(loaded, rows, **how).measures == evaluate(model, rows, **how).measures
