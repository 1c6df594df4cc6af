"""Whole fits on neighbours: with one transcript, no release moves by more than its event says.

A fit runs on one table, and all that it tells and asks is told to and asked of its neighbour too.
"""

import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from privboost import (
    BoostedAdaSSPClassifier,
    BoostedAdaSSPRegressor,
    Domain,
    DPXGBClassifier,
    DPXGBRegressor,
    LazyBBClassifier,
    PrivBoostClassifier,
    PrivBoostRegressor,
    PrivBoostSurvival,
    SarusXGBClassifier,
    SarusXGBRegressor,
    SBDTClassifier,
    SBDTRegressor,
)
from privboost._core import codec
from privboost._core.grid import WEIGHT_STEPS, Contribution
from privboost.accounting.events import Relation
from privboost.data import contribution_bound
from privboost.data.loading import Load
from privboost.data.sources import open_table
from privboost.domain_inference.within_fit import DomainInference
from privboost.engine.backend import open_local
from privboost.engine.queries import Bound
from privboost.estimators import privboost
from privboost.mechanisms import sensitivity
from privboost.mechanisms.curator import Curator
from privboost.recipes import lazybb, sarus
from privboost.recipes.common.plan import PlanBasis, counts_release
from privboost.recipes.common.target_range import PASSES, find_target_range
from privboost.recipes.privboost import boost_privboost
from tests.tables import CLASSES, FEATURES, NUMBER, SURVIVAL, THREE, make_frame

OTHERS = 25
"""Rows that both tables have."""


class Neighbours:
    """Answers for one table, and remembers what its neighbour would have answered."""

    def __init__(self, loads, neighbour):
        (load,) = loads
        source = open_table(neighbour, ())
        self._both = open_local(loads), open_local([Load(load.loader, source)])

    def sum(self, query):
        self.answers = [own.sum(query) for own in self._both]
        return self.answers[0]

    def apply(self, update):
        for own in self._both:
            own.apply(update)

    def close(self):
        for own in self._both:
            own.close()


def gaussian(curator, change, event):
    return np.sqrt(((change / event.scales) ** 2).sum())


def laplace(curator, change, event):
    return (np.abs(change) / np.ceil(event.scales)).sum()


def gram(curator, change, event):
    whole = np.triu(change, 1) * np.sqrt(2) + np.diag(np.diag(change))
    return gaussian(curator, whole, event)


def moved(name, curator, arguments, answers):
    """How far the neighbour's answer is, in what the release claims: ε, μ, or a range of ε."""
    *before, event = arguments
    if name == "laplace_means":
        answers, name = [sensitivity.exact_means(sums, *before) for sums in answers], "laplace"
    if name == "select":
        (utility,) = before
        one, other = (utility.scores(sums, curator._contribution) for sums in answers)
        allowed = np.ones(one.shape, bool) if utility.allowed is None else utility.allowed
        change = (one - other).astype(float)
        spread = [np.ptp(own[kept]) for own, kept in zip(change, allowed, strict=True)]
        return sum(spread) / utility.range(curator._contribution) / event.noise
    if name == "least_eigenvalue":
        answers, name = [np.linalg.eigvalsh(sums.astype(float))[0] for sums in answers], "linear"
    kinds = {"laplace": laplace, "gram": gram}
    measure = kinds.get(name, gaussian)
    return measure(curator, (answers[0] - answers[1]).astype(float), event)


RELEASES = ("sums", "laplace_means", "select", "linear", "gram", "least_eigenvalue")


@pytest.fixture
def transcript(monkeypatch):
    """All releases that are made: name, how far the neighbour is, and what was claimed."""
    made = []

    def watched(name, release):
        def method(curator, query, *arguments):
            out = release(curator, query, *arguments)
            answers = curator._backend.answers
            kind = arguments[-1].kind if name == "sums" else name
            far = moved(kind, curator, arguments, answers)
            made.append((kind, float(far), 1 / arguments[-1].noise))
            return out

        return method

    for name in RELEASES:
        monkeypatch.setattr(Curator, name, watched(name, getattr(Curator, name)))
    return made


def domain_of(target, rows, without=("place",), weighting="rows"):
    features = {name: form for name, form in FEATURES.items() if name not in without}
    form = {"version": 1, "features": features, "target": target}
    unit = {"column": "person", "max_rows": rows, "weighting": weighting}
    unit = {"unit": unit} if rows > 1 else {}
    return Domain.from_dict(form | unit)


def neighbours(target, rows, seed, replaced):
    """A table whose last person has some rows, and the same with that person gone or another."""
    frame = make_frame(OTHERS + rows, seed, target)
    frame["person"] = [f"p{k // 2}" for k in range(OTHERS)] + ["last"] * rows
    other = make_frame(rows if replaced else 0, seed + 1, target)
    return frame, pd.concat([frame.iloc[:OTHERS], other], ignore_index=True)


def check(transcript, kind, target, rows, weighted, how, seeds=(1, 2), weighting="rows"):
    weights = {"sample_weight": "weight"} if weighted else {}
    for seed in seeds:
        frame, other = neighbours(target, rows, seed, kind is LazyBBClassifier)
        model = kind(
            domain=domain_of(target, rows, weighting=weighting),
            random_state=seed,
            backend=lambda loads, other=other: Neighbours(loads, other),
            **({"sample_weight_bound": 2.0} if weighted else {}),
            **({"epsilon": 1.0, "delta": 1e-6, "n_estimators": 3} | how),
        )
        model.fit(frame, **weights)
    for name, far, claim in transcript:
        assert far <= claim * (1 + 1e-9), name


SKETCH = {"delta": 0.0, "n_candidates": 5, "sketch_each_tree": True, "max_depth": 2}
MEANS = SKETCH | {"leaves": "means", "reg_lambda": 0.1}
OWN = {"init_noise": "laplace", "init_epsilon": 0.1, "init_count_epsilon": 0.02, "max_depth": 2}
OWN |= {"accountant": "rdp"}
FOLLOW = {"candidates": "hessian", "n_candidates": 4, "max_depth": 2}
MERGE = FOLLOW | {"candidate_rule": "merge", "negative_hessian": "zero"}
ALL = FOLLOW | {"candidate_rounds": "all", "sketch_bins": 9, "leaf_clip": None, "accountant": "rdp"}
PRINTED = {"ridge": "adassp", "ratio": (1, 1, 1), "norm_bound": "longest", "intercept": False}
VOTES = {"density": 0.3, "n_candidates": 4, "delta": 0.0}
COUNTED = {"calibration_share": 0.3, "max_depth": 2}
RISING = {"monotone": {"age": 1, "gain": -1}}
PAIRS = {"interactions": ["age*job", "gain*age"], "at_once": 2, "n_estimators": 12} | RISING
GROUPS = {"interaction_constraints": [["age", "gain"], ["age", "job", "flag"]]} | RISING
WIDE = NUMBER | {"bounds": [-50, 900]}
CASES = [
    (SarusXGBClassifier, CLASSES, 1, False, MEANS | {"loss": "squared", "subsample": 0.6}),
    (SarusXGBClassifier, THREE, 3, False, MEANS | {"gradient_filter": 0.4}),
    (SarusXGBRegressor, NUMBER, 2, False, MEANS | {"sketch_weights": "hessian"}),
    (SarusXGBClassifier, CLASSES, 2, True, SKETCH | {"loss": "squared", "sketch_bins": 7}),
    (SBDTClassifier, THREE, 2, False, OWN),
    (SBDTRegressor, NUMBER, 1, True, OWN | {"init_clip": 0.3, "subsample": 0.5}),
    (SBDTRegressor, NUMBER, 3, False, OWN | {"init_clip": 0.3, "extra_estimators": 9}),
    (SBDTClassifier, CLASSES, 1, True, MERGE),
    (DPXGBClassifier, CLASSES, 2, True, ALL),
    (BoostedAdaSSPClassifier, CLASSES, 2, False, PRINTED | {"loss": "squared"}),
    (BoostedAdaSSPRegressor, NUMBER, 1, True, PRINTED | {"keep_stages": True}),
    (DPXGBRegressor, WIDE, 2, True, {"span_share": 0.4, "max_depth": 2, "accountant": "rdp"}),
    (SarusXGBRegressor, WIDE, 3, True, SKETCH | {"span_share": 0.4}),
    (BoostedAdaSSPRegressor, WIDE, 2, False, {"span_share": 0.4}),
    (SBDTRegressor, WIDE, 2, False, {"span_share": 0.4, "extra_estimators": 9, "max_depth": 2}),
    (LazyBBClassifier, THREE, 1, False, VOTES | {"literals": "intervals"}),
    (LazyBBClassifier, CLASSES, 1, False, VOTES | {"learner": "tree", "n_splits": 30}),
    (SBDTClassifier, CLASSES, 3, True, COUNTED | {"extra_estimators": 9}),
    (SBDTClassifier, THREE, 1, False, COUNTED | {"extra_estimators": 9, "subsample": 0.5}),
    (SarusXGBClassifier, CLASSES, 2, True, COUNTED | {"delta": 0.0, "gradient_filter": 0.4}),
    (DPXGBClassifier, THREE, 1, False, COUNTED | {"accountant": "rdp"}),
    (BoostedAdaSSPClassifier, THREE, 2, False, {"calibration_share": 0.3}),
    (LazyBBClassifier, THREE, 1, False, VOTES | {"delta": 1e-6, "calibration_share": 0.3}),
    (PrivBoostClassifier, CLASSES, 2, True, {"epsilon": 3e3, "at_once": 3, "n_estimators": 12}),
    (PrivBoostRegressor, NUMBER, 1, False, {"epsilon": 3e3, "at_once": 99, "n_estimators": 12}),
    (PrivBoostClassifier, THREE, 2, True, {"delta": 0.0, "at_once": 4, "n_estimators": 8}),
    (PrivBoostRegressor, WIDE, 3, False, {"delta": 0.0, "n_estimators": 4}),
    (PrivBoostClassifier, CLASSES, 2, True, PAIRS),
    (PrivBoostRegressor, NUMBER, 3, False, {"epsilon": 3e3, "interactions": 4, "n_estimators": 12}),
    (PrivBoostRegressor, NUMBER, 1, True, {"epsilon": 3e3, "n_estimators": 12} | GROUPS),
    (SBDTClassifier, CLASSES, 2, True, {"features": "uniform", "extra_estimators": 9} | RISING),
    (PrivBoostRegressor, NUMBER, 2, True, {"loss": "poisson", "epsilon": 3e3, "n_estimators": 8}),
    (PrivBoostRegressor, WIDE, 1, False, {"loss": "tweedie", "delta": 0.0, "n_estimators": 8}),
    (PrivBoostRegressor, NUMBER, 1, True, {"loss": "gamma", "exposure": "age", "at_once": 2}),
    (PrivBoostRegressor, WIDE, 3, False, {"loss": "quantile", "quantile": 0.8, "n_estimators": 8}),
    (SBDTRegressor, NUMBER, 2, True, {"loss": "poisson", "extra_estimators": 9, "max_depth": 2}),
    (SBDTRegressor, WIDE, 1, False, {"loss": "tweedie", "subsample": 0.5, "max_depth": 2}),
    (SBDTRegressor, WIDE, 3, True, {"loss": "quantile", "quantile": 0.8, "max_depth": 2}),
    (DPXGBRegressor, NUMBER, 2, False, {"loss": "gamma", "max_depth": 2}),
    (DPXGBRegressor, WIDE, 1, True, {"loss": "absolute", "max_depth": 2}),
    (PrivBoostSurvival, SURVIVAL, 2, True, {"epsilon": 3e3, "n_estimators": 12}),
    (PrivBoostSurvival, SURVIVAL, 1, False, {"delta": 0.0, "scale": 0.3, "n_estimators": 8}),
    (PrivBoostClassifier, THREE, 1, False, {"conformal_fraction": 0.5, "n_estimators": 8}),
    (PrivBoostRegressor, WIDE, 1, True, {"conformal_fraction": 0.5, "n_estimators": 8}),
    (PrivBoostRegressor, WIDE, 1, True, {"loss": "tweedie", "conformal_fraction": 0.5}),
    (PrivBoostRegressor, NUMBER, 1, False, {"loss": "absolute", "conformal_fraction": 0.5}),
    (PrivBoostClassifier, CLASSES, 1, True, {"delta": 0.0, "conformal_fraction": 0.5}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].__name__)
def test_no_release_of_a_fit_moves_by_more_than_it_claims(transcript, case):
    check(transcript, *case)
    assert len(transcript) >= 6


SHARED = [
    (PrivBoostClassifier, CLASSES, 4, False, {"epsilon": 3e3, "at_once": 3, "n_estimators": 12}),
    (PrivBoostClassifier, THREE, 3, True, {"delta": 0.0, "at_once": 4, "n_estimators": 8}),
    (PrivBoostRegressor, WIDE, 5, True, {"epsilon": 3e3, "interactions": 4, "n_estimators": 12}),
    (PrivBoostRegressor, NUMBER, 3, False, {"loss": "poisson", "epsilon": 3e3, "n_estimators": 8}),
    (PrivBoostClassifier, CLASSES, 3, False, {"class_weight": {"low": 1, "high": 3}} | PAIRS),
    (SBDTClassifier, THREE, 3, False, OWN),
    (SBDTRegressor, WIDE, 4, True, {"span_share": 0.4, "extra_estimators": 9, "max_depth": 2}),
    (DPXGBClassifier, CLASSES, 3, True, ALL),
    (DPXGBRegressor, NUMBER, 4, False, {"max_depth": 2, "accountant": "rdp"}),
    (SarusXGBClassifier, CLASSES, 3, False, SKETCH | {"loss": "squared", "sketch_bins": 7}),
    (SarusXGBRegressor, WIDE, 3, True, SKETCH | {"span_share": 0.4}),
    (BoostedAdaSSPClassifier, CLASSES, 3, False, PRINTED | {"loss": "squared"}),
    (BoostedAdaSSPRegressor, WIDE, 4, True, {"span_share": 0.4}),
    (PrivBoostSurvival, SURVIVAL, 4, True, {"n_estimators": 8}),
]
"""Fits of units whose rows share one weight."""


@pytest.mark.parametrize("case", SHARED, ids=lambda case: case[0].__name__)
def test_no_release_moves_by_more_than_it_claims_where_rows_share_a_weight(transcript, case):
    check(transcript, *case, weighting="units")
    assert len(transcript) >= 6
    assert max(far / claim for _, far, claim in transcript) > 0.2  # far below one row of many


def test_rows_that_do_not_share_the_weight_that_they_claim_are_caught(transcript, monkeypatch):
    """The twin leaves each row all of its unit's weight; plan and curator believe in shares."""
    monkeypatch.setattr(
        contribution_bound,
        "weight_shares",
        lambda unit, ranks, keep: np.where(keep, WEIGHT_STEPS, 0).astype(np.uint16),
    )
    with pytest.raises(AssertionError, match="gaussian"):
        check(transcript, *SHARED[0], weighting="units")


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_votes_whose_counts_forget_who_is_replaced_are_caught(transcript, monkeypatch, delta):
    """The twin counts one cell for a row that leaves one and comes to another; all believe it."""
    honest = counts_release
    monkeypatch.setattr(Bound, "of_two", property(lambda own: own))
    monkeypatch.setattr(
        lazybb, "counts_release", lambda *given, **how: replace(honest(*given, **how), cells=1)
    )
    case = (LazyBBClassifier, CLASSES, 1, False, VOTES | {"delta": delta})
    with pytest.raises(AssertionError, match="laplace" if delta == 0 else "gaussian"):
        check(transcript, *case, seeds=range(8))


def lonely(transcript):
    """Fit means to a table of one row, whose neighbour is empty: what moves a mean most."""
    frame, _ = neighbours(NUMBER, 1, 3, False)
    frame = frame.iloc[-1:].assign(income=10.0)
    model = SarusXGBRegressor(
        domain=domain_of(NUMBER, 1),
        random_state=1,
        backend=lambda loads: Neighbours(loads, frame.iloc[:0]),
        **(MEANS | {"n_estimators": 1, "init_share": 0.0}),
    )
    model.fit(frame)
    return next((far, claim) for name, far, claim in transcript if name == "laplace_means")


def test_the_claim_of_a_mean_is_attained_and_a_smaller_one_is_caught(transcript, monkeypatch):
    """The twin counts on one row more in every leaf; plan and curator believe it."""
    far, claim = lonely(transcript)
    assert 0.999 * claim < far <= claim
    honest = sensitivity.mean_steps_of_row
    for module in (sensitivity, sarus):
        monkeypatch.setattr(
            module, "mean_steps_of_row", lambda added: honest(added + sensitivity.CLIP_STEPS)
        )
    transcript.clear()
    far, claim = lonely(transcript)
    assert far > 1.5 * claim


LEAVES = {"max_depth": 2, "n_candidates": 5, "subsample": 1.0}
LEARNED = [
    (SarusXGBClassifier, CLASSES, 1, False, LEAVES),
    (SarusXGBClassifier, THREE, 3, True, LEAVES),
    (SarusXGBRegressor, NUMBER, 2, False, LEAVES | {"domain_share": 0.6}),
    (LazyBBClassifier, CLASSES, 1, False, {"density": 0.3, "n_candidates": 4}),
    (LazyBBClassifier, THREE, 1, False, {"density": 0.3, "domain_share": 0.7}),
]


def learned_fit(kind, target, rows, weighted, how, seed):
    """Learn bounds of numbers under pure DP, and train; of the target only what is no number."""
    frame, other = neighbours(target, rows, seed, kind is LazyBBClassifier)
    far = frame.index[OTHERS:]
    frame.loc[far, ["age", "gain", "step", "flag"]] = [1e9, -3.0, 1e-7, 77.0]  # other sizes
    unit = {"unit": {"column": "person", "max_rows": rows}} if rows > 1 else {}
    named = {} if "bounds" in target else {"target": target}
    if not unit:
        frame, other = frame.drop(columns="person"), other.drop(columns="person")
    tables = [table.drop(columns="place") for table in (frame, other)]
    if not weighted:
        tables = [table.drop(columns="weight") for table in tables]
    model = kind(
        2.0,
        0.0,
        domain_given={"features": {"job": FEATURES["job"]}} | named | unit,
        random_state=seed,
        n_estimators=3,
        backend=lambda loads: Neighbours(loads, tables[1]),
        **({"sample_weight_bound": 2.0} if weighted else {}),
        **how,
    )
    return model.fit(tables[0], "income", **({"sample_weight": "weight"} if weighted else {}))


@pytest.mark.parametrize("case", LEARNED, ids=lambda case: case[0].__name__)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_lesson_and_training_move_by_no_more_than_the_report_says(transcript, case, seed):
    """Releases on one transcript add up; a replaced row moves those of the lesson twice."""
    report = learned_fit(*case, seed).privacy_
    assert report.delta == 0
    assert 1.9 < report.epsilon <= 2
    (_, inference, claim), *trained = transcript
    twice = 2 if case[0] is LazyBBClassifier else 1
    assert 0.5 * twice * claim < inference <= twice * claim * (1 + 1e-9)
    assert len(trained) >= 3
    assert sum(far for _, far, _ in transcript) <= report.epsilon


def test_a_lesson_that_forgets_who_is_replaced_is_caught(transcript, monkeypatch):
    """The twin has its whole share of ε before rows that are replaced."""
    honest = DomainInference.own
    monkeypatch.setattr(
        DomainInference, "own", lambda inference, _: honest(inference, Relation.ADD_REMOVE)
    )
    assert learned_fit(*LEARNED[-1], 1).privacy_.epsilon > 3
    assert transcript[0][1] > 0.7 * 2 * 1.5  # more than its share, on these very rows


ASKED = {"n_estimators": 40}
QUESTIONS = [
    (PrivBoostClassifier, CLASSES, 1, False, ASKED),
    (PrivBoostClassifier, CLASSES, 3, True, ASKED | {"epsilon": 3e3}),
    (PrivBoostClassifier, THREE, 2, True, ASKED | {"gradient_clip": 0.1, "hessian_clip": 0.01}),
    (PrivBoostClassifier, THREE, 1, False, ASKED | {"calibration_share": 0.0, "epsilon": 1e4}),
    (PrivBoostRegressor, NUMBER, 1, False, ASKED | {"epsilon": 1e-2}),
    (PrivBoostRegressor, NUMBER, 3, True, ASKED | {"hessian_clip": 7.0}),
    (PrivBoostRegressor, NUMBER, 1, False, ASKED | {"epsilon": 3e3}),
]


def ask(kind, target, rows, weighted, how, seed=1):
    """Fit the flagship, to all features: one has more categories than bins."""
    frame, other = neighbours(target, rows, seed, replaced=False)
    frame.loc[frame.index[OTHERS:], "weight"] = 9.0  # clipped to the bound: the most a row is
    model = kind(
        domain=domain_of(target, rows, without=()),
        random_state=seed,
        backend=lambda loads: Neighbours(loads, other),
        **({"sample_weight_bound": 2.0} if weighted else {}),
        **how,
    )
    return model.fit(frame, **({"sample_weight": "weight"} if weighted else {}))


@pytest.mark.parametrize("case", QUESTIONS, ids=lambda case: case[0].__name__)
def test_questions_that_follow_answers_move_by_no_more_than_planned(transcript, case):
    for seed in (1, 2):
        transcript.clear()
        ask(*case, seed)
        last = (case[-1].get("calibration_share") != 0) * (2 if case[1] is THREE else 1)
        looks = PASSES if case[1] is NUMBER else 0
        joint = len(transcript) - looks - (1 + 40 + last)  # each of all classes at once
        assert (joint > 0) == (case[-1].get("epsilon", 1.0) >= 1e3)
        assert {name for name, _, _ in transcript} == {"gaussian"}
        assert all(far <= claim * (1 + 1e-9) for _, far, claim in transcript)
        # The start and both releases that calibrate several classes have equal shares of μ².
        kinds = 2 + (last == 1) + (looks > 0) + (joint > 0)
        assert len({claim for _, _, claim in transcript}) == kinds  # the noise never changes
        assert max(far / claim for _, far, claim in transcript) > 0.3


def test_a_flagship_that_forgets_how_many_rows_a_unit_has_is_caught(transcript, monkeypatch):
    """The twin believes that a person has one row; plan and curator agree."""
    forgets = property(lambda own: Contribution(own.weight_bound is not None))
    monkeypatch.setattr(PlanBasis, "contribution", forgets)
    ask(*QUESTIONS[1])
    assert any(far > 1.5 * claim for _, far, claim in transcript)


class Replay:
    """A curator without rows: it says again what was released."""

    def __init__(self, released):
        self._released = iter(released)

    def sums(self, query, event):
        answer = next(self._released)
        assert answer.shape == query.shape
        return answer

    def publish(self, update):
        pass

    def exchange(self, reserved, releases):
        pass

    def close_budgets(self):
        pass


PURE = [(*QUESTIONS[0][:-1], QUESTIONS[0][-1] | {"delta": 0.0})]


@pytest.mark.parametrize("case", QUESTIONS + PURE, ids=lambda case: case[0].__name__)
def test_the_flagship_is_made_of_released_values_alone(monkeypatch, case):
    """Who has the releases, the plan and public randomness, but no row, makes the same model."""
    released, runs = [], []

    def kept(release):
        def method(curator, query, event):
            released.append(release(curator, query, event))
            return released[-1].copy()

        return method

    def boost(curator, plan, generator, track, target_range):
        runs.append((plan, copy.deepcopy(generator)))
        return boost_privboost(curator, plan, generator, track, target_range)

    monkeypatch.setattr(Curator, "sums", kept(Curator.sums))
    monkeypatch.setattr(privboost, "boost_privboost", boost)
    model = ask(*case).model_
    curator, (plan, generator) = Replay(released), runs[0]
    target_range = find_target_range(curator, plan)
    assert target_range.ends == model.span
    again = boost_privboost(curator, plan, generator, target_range=target_range).to_payload()
    assert codec.dump(model.scores.to_payload(), b"PVBTESTS") == codec.dump(again, b"PVBTESTS")
