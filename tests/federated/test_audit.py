"""An audit of federated releases, by a server that eight of nine parties tell what they drew."""

import numpy as np
import pandas as pd
import pytest

from privboost import SBDTClassifier
from privboost.audit import audit
from privboost.engine.queries import CellSums
from privboost.engine.updates import Start
from privboost.federated import handshake
from privboost.federated.aggregation import PartyRounds
from privboost.trees.cell_map import CellMap
from tests.audit.test_audit import claim_of
from tests.federated.parties import federate

PARTIES, DELTA, RUNS = 9, 0.02, 1000
DOMAIN = {
    "version": 1,
    "features": {"x": {"kind": "categorical", "categories": ["a", "b"]}},
    "target": {"name": "y", "classes": [0, 1]},
}
QUERY = CellSums(CellMap.of_feature(0, np.zeros(4, dtype=np.uint16)))


def releases(canary):
    """Make many releases in one session; return what colluders cannot explain, and the event."""
    rows = [pd.DataFrame({"x": [], "y": []}, dtype=object)] * (PARTIES - 1)
    rows.append(pd.DataFrame({"x": ["a"] * (3 + canary), "y": [0, 1, 0] + [1] * canary}))
    account = {"account": {"epsilon": 1e4, "delta": 0.1, "filter": "renyi", "order": 2}}
    federation = federate(rows, PARTIES, account, colluders=PARTIES - 1, trust="distributed")
    model = SBDTClassifier(700.0, DELTA, DOMAIN, n_estimators=RUNS, init_share=0)
    run = model.set_params(calibration_share=0)._prepare(federation, None, None).run()
    backend = run.load.source.open_backend([])
    backend.apply(Start(run.plan.loss, 1))
    drawn = []
    mask = PartyRounds.mask

    def tell(self, sums, asked):
        if self._own < PARTIES - 1:
            drawn.append(sums[0])
        return mask(self, sums, asked)

    left = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PartyRounds, "mask", tell)
        for _ in range(RUNS):
            drawn.clear()
            left.append(backend.sum(QUERY, run.plan.leaf)[0] - sum(drawn))
    return np.array(left) / run.plan.leaf.sigmas, run.plan.leaf


def find():
    """Audit one release: of a row that is there, the gradient is −1 clip and the Hessian 1."""
    (there, event), (not_there, _) = releases(1), releases(0)
    towards = np.array([-1, 1]) / event.sigmas
    scores = {canary: iter(left @ towards) for canary, left in ((True, there), (False, not_there))}
    found = audit(lambda canary, seed: next(scores[canary]), float, DELTA, RUNS)
    return found.epsilon, claim_of(event, DELTA)


@pytest.mark.slow
def test_releases_stay_within_their_claim_and_forgotten_colluders_do_not(monkeypatch):
    found, claim = find()
    assert 0.1 < found <= claim
    monkeypatch.setattr(handshake, "noise_part", lambda quorum: quorum.parties**-0.5)
    found, claim = find()
    assert found > claim
