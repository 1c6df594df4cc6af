"""Where every answer is zero, nobody in a federation can tell what rows another party has."""

from itertools import count

import pytest

from privboost import PrivBoostClassifier, SBDTRegressor
from privboost.engine.shard import Shard
from privboost.federated.transport import InProcess
from privboost.randomness.keystream import KeyStream
from tests.federated.parties import bring, make_parties
from tests.non_interference import check, make_tables, silence
from tests.tables import CLASSES, NUMBER, make_domain, make_frame

FITS = {
    "effects": (PrivBoostClassifier, CLASSES, {}),
    "filter": (SBDTRegressor, NUMBER, {"extra_estimators": 4}),
}


class Overheard(InProcess):
    """Keeps how long each message is, in either direction: contents are under keys of the run."""

    def __init__(self, parties):
        super().__init__(parties)
        self.lengths = []

    def gather(self, requests):
        for name, reply in super().gather(requests):
            self.lengths.append((name, len(requests[name]), len(reply)))
            yield name, reply


@pytest.mark.parametrize("name", FITS)
def test_other_ends_learn_nothing_of_a_partys_rows(name, tmp_path, monkeypatch):
    kind, target, how = FITS[name]
    silence(monkeypatch, Shard)
    # The same noise each time, in runs that take it for secure: with a seed, which protects nobody,
    # parties tell how many rows they have.
    numbers = [0]
    monkeypatch.setattr(KeyStream, "secure", lambda: KeyStream.seeded(next(numbers[0])))
    settings = {"epsilon": 1.0, "delta": 1e-6, "n_estimators": 4} | how
    rest = [make_frame(50, seed=k, target=target) for k in (1, 2)]

    def run(table):
        said, numbers[0] = [], count()
        parties = make_parties([table, *rest], 3, {}, tell=said.append, tell_rows=False)
        overheard = []

        def transport(own):
            overheard.append(Overheard(own))
            return overheard[0]

        federation = bring(parties, transport=transport)
        model = kind(domain=make_domain(target), **settings).fit(federation)
        assert len(overheard[0].lengths) > 10
        return model, overheard[0].lengths, said

    check(run, make_tables(tmp_path, target), tmp_path, exports=())
