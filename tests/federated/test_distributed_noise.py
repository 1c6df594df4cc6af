"""Noise that parties add together: its size, its law, its slack, and who may be asked for it."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from mpmath import mp, mpf

from privboost import (
    BoostedAdaSSPClassifier,
    BoostedAdaSSPRegressor,
    DPXGBClassifier,
    FederationError,
    LazyBBClassifier,
    PrivBoostClassifier,
    PrivBoostRegressor,
    SarusXGBClassifier,
    SBDTClassifier,
    SBDTRegressor,
)
from privboost.engine.queries import CellSums, TreeSums
from privboost.engine.updates import Start
from privboost.federated import aggregation
from privboost.federated.aggregation import Quorum
from privboost.federated.coordinator import Session
from privboost.federated.messages import asked_digest
from privboost.federated.party_curator import LEAST_SCALE, SLACK, noise_part, sum_slack
from privboost.trees.cell_map import CellMap
from privboost.trees.tree import stump
from tests.federated.hostile import HostileNetwork
from tests.federated.parties import entries, federate, same_model
from tests.tables import CLASSES, NUMBER, THREE, make_domain, make_frame

FRAME = make_frame(600)
CELLS = CellMap.of_feature(5, np.arange(302))
QUORUM = {"colluders": 1, "dropouts": 1}


RENYI = {"filter": "renyi"}


def make(kind=SBDTClassifier, target=CLASSES, **how):
    settings = {"n_estimators": 6, "random_state": None} | how
    return kind(**{"epsilon": 1.0, "delta": 1e-6} | settings, domain=make_domain(target))


WORKING = [
    (SBDTClassifier, CLASSES, {}),
    (SBDTClassifier, THREE, {"subsample": 0.5, "candidates": "hessian", "features": 2}),
    (SBDTClassifier, CLASSES, {"extra_estimators": 4}),
    (SBDTClassifier, CLASSES, {"extra_estimators": 4, "subsample": 0.5}),
    (SBDTRegressor, NUMBER, {}),
    (PrivBoostClassifier, CLASSES, {"epsilon": 3.0}),
    (PrivBoostRegressor, NUMBER, {}),
    (PrivBoostRegressor, NUMBER, {"conformal_fraction": 0.3}),
    (BoostedAdaSSPClassifier, CLASSES, {"class_weight": "balanced"}),
    (BoostedAdaSSPRegressor, NUMBER, {"ratio": (1, 1, 0)}),
]


@pytest.mark.parametrize(("kind", "target", "how"), WORKING)
def test_recipes_of_gaussian_releases_need_no_trusted_server(kind, target, how):
    frame = make_frame(600, target=target)
    federation = federate(frame, 5, {"account": RENYI}, trust="distributed", **QUORUM)
    model = make(kind, target, **how).fit(federation)
    report = model.privacy_
    said = " ".join(report.assumptions)
    assert "k = 5 parties, of which up to d = 1 may be lost and up to c = 1 may collude" in said
    assert "1/3 of the variance" in said
    assert f"less than {SLACK:g} of epsilon" in said
    assert not report.seeded
    assert report.epsilon <= how.get("epsilon", 1.0)
    assert np.isfinite(model.model_.decision_function(frame) if target is not NUMBER else 0.0).all()


REFUSED = [
    (DPXGBClassifier, {"max_depth": 2, "accountant": "rdp"}, "exponential mechanism"),
    (SarusXGBClassifier, {"max_depth": 2, "delta": 0.0}, "needs a server"),
    (LazyBBClassifier, {"delta": 0.0}, "exponential mechanism"),
    (PrivBoostClassifier, {"delta": 0.0}, "Laplace"),
    (SBDTClassifier, {"init_noise": "laplace"}, "Laplace"),
    (BoostedAdaSSPClassifier, {"ratio": (1, 1, 1)}, "smallest eigenvalue"),
    (SBDTClassifier, {"epsilon": 1e5, "delta": 1e-3}, "too little to be divided"),
]


@pytest.mark.parametrize(("kind", "how", "why"), REFUSED)
def test_others_are_refused_before_anything_is_spent(kind, how, why):
    federation = federate(FRAME, 5, {"account": {}}, trust="distributed", **QUORUM)
    with pytest.raises(FederationError, match=f"trust: .*{why}"):
        make(kind, **how).fit(federation)
    assert all(entries(party) == 0 for party in federation._transport._parties.values())


@pytest.mark.parametrize(("kind", "how", "why"), REFUSED[:-1])
def test_parties_refuse_them_too(kind, how, why, monkeypatch):
    """The broken twin is a coordinator that does not look."""
    monkeypatch.setattr("privboost.federated.federation.check_distributed", lambda *_: None)
    federation = federate(FRAME, 5, {"account": {}}, trust="distributed", **QUORUM)
    with pytest.raises(FederationError, match=f"'p0': trust: .*{why}"):
        make(kind, **how).fit(federation)


def noise_of(quorum, rounds=12, transport=None, parties=6):
    """Totals of parties without rows are noise: return it, whitened."""
    more = {} if transport is None else {"transport": transport}
    empty = [FRAME.iloc[:0]] * parties
    federation = federate(empty, parties, {"account": {}}, trust="distributed", **quorum, **more)
    run = make(init_share=0, n_estimators=rounds)._prepare(federation, None, None).run()
    backend = run.load.source.open_backend([])
    backend.apply(Start(run.plan.loss, 1))
    sums = [backend.sum(CellSums(CELLS), run.plan.leaf) for _ in range(rounds)]
    return np.stack(sums) / run.plan.leaf.scales, federation, run.plan.leaf.scales


def looks_like(noise, variance):
    """Whether noise has a variance, to three standard deviations of what is measured."""
    return abs((noise**2).mean() / variance - 1) < 3 * math.sqrt(2 / noise.size)


def test_parts_add_up_to_what_was_promised():
    """With everybody there noise is larger by k/(k − c − d); twins forget c, d, or both."""
    noise, *_ = noise_of({"colluders": 1, "dropouts": 1})
    assert looks_like(noise, 6 / 4)
    assert not any(looks_like(noise, twin) for twin in (1, 6 / 5, 6))
    assert abs(noise.mean()) < 4 * math.sqrt(1.5 / noise.size)


def test_what_is_left_without_the_lost_and_the_colluders_is_the_promise(monkeypatch):
    """Colluders tell what they drew; one party is lost. The rest has the variance promised."""
    drawn = []
    plain = aggregation.PartyRounds.mask

    def spy(self, sums, asked):
        drawn.append((self._own, sums.copy()))
        return plain(self, sums, asked)

    monkeypatch.setattr(aggregation.PartyRounds, "mask", spy)
    lossy = partial(HostileNetwork, losses={(2, "p2"): "request"})
    noise, federation, sigmas = noise_of(QUORUM, transport=lossy)
    assert list(federation.last.lost) == ["p2"]
    told = np.stack([sums for own, sums in drawn if own == 0])
    assert looks_like(noise, 5 / 4)
    assert looks_like(noise - told / sigmas, 1)


def test_parties_draw_noise_of_their_own(monkeypatch):
    """Also in seeded runs, which are the same each time; the twin draws the same noise k times."""
    drawn = {}
    plain = aggregation.PartyRounds.mask

    def spy(self, sums, asked):
        drawn.setdefault(self._own, []).append(sums.copy())
        return plain(self, sums, asked)

    monkeypatch.setattr(aggregation.PartyRounds, "mask", spy)
    models = [
        make(random_state=7).fit(federate(FRAME, 5, trust="distributed", **QUORUM)).model_
        for _ in range(2)
    ]
    assert same_model(*models)
    first = [drawn[k][0].tobytes() for k in range(5)]
    assert len(set(first)) == 5


def exact_law(scale, parties, most):
    """The law of a sum of discrete Gaussians at 0 … most, and that of one of the same variance."""
    mp.dps = 60
    reach = int(14 * scale * math.sqrt(parties)) + most + 4
    one = [mp.exp(-(mpf(k) ** 2) / (2 * mpf(scale) ** 2)) for k in range(-reach, reach + 1)]
    total = sum(one)
    one = [p / total for p in one]
    law = {k - reach: p for k, p in enumerate(one) if p > mpf(10) ** -50}
    own = dict(law)
    for _ in range(parties - 1):
        grown = {}
        for a, p in law.items():
            for b, q in own.items():
                if abs(a + b) <= reach:
                    grown[a + b] = grown.get(a + b, 0) + p * q
        law = grown
    whole = [mp.exp(-(mpf(k) ** 2) / (2 * parties * mpf(scale) ** 2)) for k in range(-reach, reach)]
    norm = sum(whole)
    return [
        (law[k], mp.exp(-(mpf(k) ** 2) / (2 * parties * mpf(scale) ** 2)) / norm)
        for k in range(most + 1)
    ]


@pytest.mark.parametrize(("scale", "parties"), [(0.5, 2), (0.7, 3), (1.0, 2), (1.0, 4), (1.5, 3)])
def test_a_sum_of_discrete_gaussians_is_within_its_slack(scale, parties):
    """The twin takes each party's own scale: it forgets that γ² = s²·j/(j + 1) is smaller."""
    worst = max(abs(mp.log(p / q)) for p, q in exact_law(scale, parties, int(4 * scale) + 2))
    assert worst <= sum_slack(scale, parties)
    twin = 10 * (parties - 1) * math.exp(-2 * math.pi**2 * scale**2)
    assert worst > twin


def test_the_slack_is_no_number_where_noise_is_divided():
    assert sum_slack(LEAST_SCALE, 4096) == 0.0
    # In logarithms: of 2¹⁰⁰ numbers together it is still below what is stated.
    tau = math.log(10 * 4096) - math.pi**2 * LEAST_SCALE**2
    assert tau + 100 * math.log(2) < math.log(SLACK)
    for quorum in (Quorum(3), Quorum(10, 2, 1), Quorum(100, 3, 20)):
        assert noise_part(quorum) ** 2 * quorum.honest >= 1
        assert noise_part(quorum) ** 2 * quorum.honest < 1 + 1e-14


class Lying(Session):
    """Tells most parties that a question is charged to another event, of less noise."""

    def _ask(self, bodies, take):
        if next(iter(bodies.values()))["stage"] == "sum":
            bodies = {
                name: body if name == "p0" else body | {"event": self.less}
                for name, body in bodies.items()
            }

            def all_take(party, reply):
                return take(party, reply | {"asked": self.hex})

            return super()._ask(bodies, all_take)
        return super()._ask(bodies, take)

    def sum(self, query, event):
        self.hex = asked_digest(query.to_bytes(), event).hex()
        return super().sum(query, event)


@pytest.mark.parametrize("twin", [False, True])
def test_a_server_cannot_mix_events(twin, monkeypatch):
    """Party p0 is told that much noise will be there, the others draw little.

    Parties confirm only survivors that were asked what they were. The broken twins do not look:
    the total has far less noise than p0 was promised.
    """
    if twin:
        monkeypatch.setattr(aggregation.PartyRounds, "_is_tag", lambda *_: True)
    federation = federate([FRAME.iloc[:0]] * 5, 5, {"account": {}}, trust="distributed", **QUORUM)
    federation.session = lambda agreement: Lying(
        federation._identity, federation._transport, agreement
    )
    run = make(init_share=0.9, calibration_share=0)._prepare(federation, None, None).run()
    much, less = run.plan.leaf, run.plan.init_release
    assert less.scales.min() * 2 < much.scales.min()
    backend = run.load.source.open_backend([])
    run.load.source.session.less = backend.catalogue.number(less)
    backend.apply(Start(run.plan.loss, 1))
    if twin:
        total = backend.sum(TreeSums((stump(),)), much)
        assert np.abs(total.reshape(-1) / much.scales).max() < 10
    else:
        with pytest.raises(FederationError, match="'p0': survivors: one had another query"):
            backend.sum(TreeSums((stump(),)), much)


def test_the_promise_is_of_all_parties_that_may_be_lost():
    """More noise is divided among fewer: k − c − d, not k."""
    assert noise_part(Quorum(10)) == pytest.approx(math.sqrt(1 / 10))
    assert noise_part(Quorum(10, 2, 3)) == pytest.approx(math.sqrt(1 / 5))
    assert replace(Quorum(10), dropouts=4).honest == 6
