"""The whole search is one event; its runs, and whoever lost, are nowhere to be seen."""

import json
import math
import warnings

import numpy as np
import pytest

from privboost import (
    BoostedAdaSSPClassifier,
    BudgetError,
    BudgetStore,
    Domain,
    FitWarning,
    LazyBBClassifier,
    PrivateSearchCV,
    PrivBoostClassifier,
    PrivBoostRegressor,
    SBDTClassifier,
    evaluate,
)
from privboost import search as task
from privboost.models.model import model_bytes
from privboost.randomness.sampling import draw_run_count
from tests.hostile import HostileBackend
from tests.tables import CLASSES, NUMBER, THREE, make_domain, make_frame, opens

CANDIDATES = [{"n_estimators": 3}, {"n_estimators": 6}]


def base(kind=PrivBoostClassifier, target=CLASSES, unit=None, **how):
    how = {"interactions": False} | how if kind.__name__.startswith("PrivBoost") else how
    return kind(domain=make_domain(target, unit=unit), **how)


def seeded(estimator=None, candidates=CANDIDATES, frame=None, **how):
    how = {"expected_runs": 3.0, "random_state": 7} | how
    search = PrivateSearchCV(estimator or base(), candidates, 1.0, 1e-6, **how)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return search.fit(make_frame(400) if frame is None else frame)


@pytest.mark.parametrize(
    ("kind", "target", "candidates", "scoring"),
    [
        (PrivBoostClassifier, CLASSES, CANDIDATES, None),
        (PrivBoostClassifier, THREE, CANDIDATES, "log_loss"),
        (PrivBoostRegressor, NUMBER, CANDIDATES, None),
        (SBDTClassifier, CLASSES, [{"max_depth": 1}, {"max_depth": 2}], "accuracy"),
        (BoostedAdaSSPClassifier, CLASSES, [{"n_estimators": 2}], "brier"),
    ],
)
def test_recipes_and_targets(kind, target, candidates, scoring):
    frame = make_frame(400, target=target)
    how = {"n_estimators": 3} if kind is SBDTClassifier else {}
    found = seeded(base(kind, target, **how), candidates, frame, scoring=scoring)
    assert found.best_params_ in candidates
    assert np.isfinite(found.best_score_)
    assert len(found.predict(frame)) == 400
    assert found.best_estimator_.privacy_ == found.privacy_
    assert found.best_estimator_.model_.privacy == found.privacy_
    assert found.privacy_.epsilon <= 1.0
    assert [release.count for release in found.privacy_.releases] == [1]


def counts_frame(rows=600):
    rng = np.random.default_rng(3)
    frame = make_frame(rows, target=NUMBER)
    return frame.assign(income=np.minimum(rng.poisson(2, rows), 40).astype(float))


def base_of_counts(bounds=(0, 40), **how):
    form = make_domain(NUMBER).to_dict()
    form["target"] = {"name": "income", "bounds": list(bounds)}
    return PrivBoostRegressor(domain=form, interactions=False, **how)


@pytest.mark.parametrize(
    ("how", "candidates", "scoring", "own"),
    [
        ({"loss": "poisson"}, CANDIDATES, None, "deviance"),
        ({"loss": "tweedie", "power": 1.2}, CANDIDATES, "deviance", "deviance"),
        ({"loss": "quantile", "quantile": 0.8}, CANDIDATES, None, "pinball"),
        ({"loss": "absolute"}, CANDIDATES, "mae", "mae"),
        ({}, [{"loss": "poisson"}, {"loss": "squared"}], None, "rmse"),
        ({}, [{"loss": "poisson"}, {"loss": "poisson", "n_estimators": 3}], None, "deviance"),
        ({"loss": "quantile"}, [{"quantile": 0.5}, {"quantile": 0.9}], None, "rmse"),
        ({"loss": "gamma"}, CANDIDATES, None, "rmse"),
    ],
)
def test_numbers_are_scored_by_the_loss_of_all_candidates(how, candidates, scoring, own):
    planned = []
    estimator = base_of_counts(**{"n_estimators": 3} | how)
    with pytest.MonkeyPatch.context() as patch:
        honest = task.plan_evaluation

        def plan(*given, **more):
            planned.append(honest(*given, **more))
            return planned[-1]

        patch.setattr(task, "plan_evaluation", plan)
        found = seeded(estimator, candidates, counts_frame(), scoring=scoring)
    assert found.scoring_ == found.privacy_.parameters["scoring"] == own
    assert np.isfinite(found.best_score_)
    assert found.privacy_.epsilon <= 1.0
    whats = {release.event.what for plan in planned for release in plan.releases}
    assert any("deviance" in what for what in whats) == (own == "deviance")
    assert any("at most the prediction" in what for what in whats) == (own == "pinball")
    loss = found.best_estimator_.loss
    assert found.privacy_.parameters.get("loss") == (None if loss == "squared" else loss)
    # An evaluation of the winner follows its loss, which the report names.
    measures = evaluate(
        found.best_estimator_, counts_frame(), epsilon=math.inf, public_rows=True
    ).measures.values
    assert ("deviance" in measures) == (loss in ("poisson", "tweedie"))
    assert ("pinball" in measures) == (loss in ("quantile", "absolute"))


def test_a_score_that_is_not_the_loss_of_all_candidates_is_refused(tmp_path):
    path = tmp_path / "ledger"
    for how, candidates, scoring in (
        ({}, [{}], "deviance"),
        ({"loss": "poisson"}, [{}, {"loss": "gamma"}], "deviance"),
        ({"loss": "poisson"}, [{}], "pinball"),
        ({"loss": "poisson", "bounds": (-1, 40)}, [{}], "deviance"),
        ({"loss": "quantile"}, [{"quantile": 0.5}, {"quantile": 0.6}], "pinball"),
    ):
        search = PrivateSearchCV(
            base_of_counts(**how), candidates, 1.0, 1e-6, scoring=scoring, ledger=path
        )
        with pytest.raises(ValueError, match="scoring must be one of"):
            search.fit(counts_frame(50))
    assert not path.exists()


def test_a_score_that_was_not_planned_is_not_released(monkeypatch):
    more = {"deviance": "poisson", "quantile": 0.5}
    monkeypatch.setattr(task._Measured, "arguments", lambda own, scoring: more)
    with pytest.raises(BudgetError, match="not charged"):
        seeded(base_of_counts(loss="poisson", n_estimators=3), [{}], counts_frame())


def test_a_seed_gives_the_same_winner_wherever_rows_lie():
    one = seeded()
    two = seeded(base(backend=opens(HostileBackend)))
    assert model_bytes(one.best_estimator_.model_) == model_bytes(two.best_estimator_.model_)
    assert one.best_score_ == two.best_score_
    assert "seeded" in one.privacy_.guarantee


def test_units_are_on_one_side(monkeypatch):
    frame = make_frame(400).assign(person=[k // 4 for k in range(400)])
    seen = []
    load = task.Load
    monkeypatch.setattr(task, "Load", lambda *own: seen.append(own) or load(*own))
    seeded(base(unit={"column": "person", "max_rows": 4}), frame=frame)
    sides = []
    for loader, source in seen[:2]:
        names = [loader.name_units(batch) for batch in source.batches(loader.columns, 1000)]
        sides.append({name for part in names for name in part.to_pylist()})
    assert sides[0].isdisjoint(sides[1])
    assert len(sides[0] | sides[1]) == 100
    assert 10 < len(sides[1]) < 45  # a quarter, about


def test_nothing_tells_how_many_runs_there_were(tmp_path, recwarn, capfd):
    records = []
    for seed in range(6):
        path = tmp_path / f"ledger {seed}"
        found = seeded(random_state=seed, ledger=path)
        lines = [json.loads(line)["entry"] for line in path.read_text().splitlines()]
        assert lines == ["reserve", "charge"]
        own = {name for name in vars(found) if name.endswith("_")}
        told = {"best_estimator_", "best_params_", "best_score_", "best_score_std_"}
        assert own == told | {"privacy_", "scoring_"}
        records.append(found.privacy_.to_dict())
    assert all(record == records[0] for record in records)
    assert not recwarn.list
    assert capfd.readouterr() == ("", "")


def test_losers_are_not_heard(monkeypatch):
    def shout(*_):
        warnings.warn("a loser speaks", stacklevel=1)
        return draw(*_)

    draw = task.draw_below
    monkeypatch.setattr(task, "draw_below", shout)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        PrivateSearchCV(base(), CANDIDATES, 1.0, 1e-6, expected_runs=2, random_state=1).fit(
            make_frame(300)
        )
    assert ["random_state" in str(one.message) for one in heard] == [True, False]
    assert heard[1].category is FitWarning  # of the winner, which has hardly any rows


def test_more_runs_leave_less_to_each():
    spent = [
        seeded(expected_runs=runs).privacy_.parameters["epsilon_of_a_run"]
        for runs in (1.5, 3.0, 10.0)
    ]
    assert 0.9 > spent[0] > spent[1] > spent[2] > 0.4


def test_a_search_is_one_entry_of_a_renyi_account(tmp_path):
    store = BudgetStore(tmp_path / "store.db")
    gaussian, renyi = store.open("a", 3.0, 1e-5), store.open("b", 3.0, 1e-5, filter="renyi")
    how = {"expected_runs": 2}
    with pytest.raises(BudgetError, match="need an account with the filter 'renyi'"):
        PrivateSearchCV(base(), CANDIDATES, 1.0, 1e-6, budget=gaussian, **how).fit(make_frame(300))
    found = PrivateSearchCV(base(), CANDIDATES, 1.0, 1e-6, budget=renyi, **how)
    found.fit(make_frame(300))
    (entry,) = renyi.balance().entries
    assert (entry.what, entry.key) == ("PrivateSearchCV", found.privacy_.entry)
    assert not gaussian.balance().entries
    again = PrivBoostClassifier(0.3, 1e-6, make_domain(), n_estimators=3, budget=renyi)
    together = found.privacy_ + again.fit(make_frame(300)).privacy_
    assert found.privacy_.epsilon < together.epsilon < found.privacy_.epsilon + 0.3


def test_a_learned_domain_adds_its_price(tmp_path):
    account = BudgetStore(tmp_path / "store.db").open("a", 5.0, 1e-5, filter="renyi")
    frame = make_frame(2000)
    domain = Domain.learn(frame, "income", 1.0, 1e-6, budget=account)
    estimator = PrivBoostClassifier(domain=domain, interactions=False)
    found = PrivateSearchCV(estimator, CANDIDATES, 1.0, 1e-6, expected_runs=2, budget=account)
    report = found.fit(frame).privacy_
    assert len(account.balance().entries) == 2
    assert report.epsilon == pytest.approx(domain.privacy.epsilon + 1.0, abs=0.01)
    assert [part.what for part in report.parts] == ["learning the domain", "the search"]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"candidates": []}, "candidates"),
        ({"candidates": {"n_estimators": 3}}, r"such as \{\"n_estimators\": \[10, 30\]\}"),
        ({"candidates": 3}, "candidates must be a list"),
        ({"candidates": [{"epsilon": 3.0}]}, "give it to PrivateSearchCV itself"),
        ({"candidates": [{"no_such": 3}]}, "no_such"),
        ({"candidates": {"n_estimator": [3]}}, "did you mean 'n_estimators'"),
        ({"candidates": [{"domain_rows": "other"}, {}]}, "give it to the estimator"),
        ({"expected_runs": 1.0}, "expected_runs"),
        ({"validation_share": 0.0}, "validation_share"),
        ({"scoring": "rmse"}, "scoring"),
        ({"delta": 0}, "delta above 0"),
        ({"epsilon": 1e-3}, "too small"),
        ({"estimator": base(random_state=3)}, "random_state to the search"),
        ({"estimator": base(ledger="x")}, "ledger to the search"),
        ({"estimator": PrivBoostClassifier()}, "needs a domain"),
        ({"estimator": base(LazyBBClassifier)}, "replaced"),
    ],
)
def test_what_cannot_be_searched_is_refused_before_anything_is_spent(wrong, words, tmp_path):
    path = tmp_path / "ledger"
    how = {"estimator": base(), "candidates": [{}], "epsilon": 1.0, "delta": 1e-6} | wrong
    with pytest.raises(ValueError, match=words):
        PrivateSearchCV(**how, ledger=path).fit(make_frame(50))
    assert not path.exists()
    with pytest.raises(TypeError, match="estimator of privboost"):
        PrivateSearchCV(object(), [{}], 1.0, 1e-6).fit(make_frame(50))


def test_a_table_that_does_not_fit_is_refused_before_anything_is_spent(tmp_path):
    path = tmp_path / "ledger"
    with pytest.raises(ValueError, match="age"):
        PrivateSearchCV(base(), CANDIDATES, 1.0, 1e-6, ledger=path).fit(
            make_frame(50).drop(columns="age")
        )
    assert not path.exists()
    assert draw_run_count is task.draw_run_count


def test_a_mapping_of_lists_is_all_its_combinations():
    found = task._check_candidates({"n_estimators": [10, 30], "at_once": (1,)})
    assert found == ({"at_once": 1, "n_estimators": 10}, {"at_once": 1, "n_estimators": 30})
