"""Real Flower connections, their ends in threads of one process."""

import os
import threading

import pytest

pytest.importorskip("flwr", reason="Flower has an environment of its own: make test-distributed")

from privboost import Federation, FederationError, SBDTClassifier
from privboost.federation.flower_party import join_federation
from privboost.federation.flower_server import FlowerServer
from privboost.federation.key_files import write_certificate
from privboost.federation.keys import KeyPair
from tests.federation.parties import agree, entries, make_parties
from tests.flower.processes import free_port
from tests.tables import make_domain, make_frame

FRAME = make_frame(300)


def make():
    return SBDTClassifier(1.0, 1e-6, make_domain(), n_estimators=4, max_depth=2)


@pytest.fixture
def tls(tmp_path):
    return [path.read_bytes() for path in write_certificate(["localhost"], tmp_path)]


@pytest.fixture
def address():
    return f"localhost:{free_port()}"


def join_all(parties, address, certificate):
    """Let parties join, each in a thread."""
    joining = [
        threading.Thread(target=join_federation, args=(party, address, certificate, 60))
        for party in parties
    ]
    for each in joining:
        each.start()
    return joining


def pinned(parties):
    """Have parties pin each other; return the coordinator's key, and theirs."""
    identity, keys = KeyPair(), {party.name: party.identity.public for party in parties}
    for party in parties:
        party.pin({"coordinator": identity.public, **keys})
    return identity, keys


def end(joining):
    for each in joining:
        each.join(60)
    assert not any(each.is_alive() for each in joining)


def test_whoever_refuses_is_named_with_the_rule_and_nobody_spends(address, tls):
    parties = make_parties(FRAME, 3, {})
    said = []
    agree(parties[1], domain=make_domain({"name": "income", "classes": ["low", "top"]}))
    parties[1]._listener = said.append
    identity, keys = pinned(parties)
    with FlowerServer(address, *tls, identity, keys, patience=60) as server:
        joining = join_all(parties, address, tls[0])
        server.wait_for(keys)
        with pytest.raises(FederationError, match="'p1': domain: the offer has another one"):
            make().fit(Federation(identity, keys, server, 0))
        make().fit(Federation(identity, {n: keys[n] for n in ("p0", "p2")}, server, 0))
    end(joining)
    assert said[-1] == "refused: domain: the offer has another one than this party: target"
    assert said[0].startswith("connected; ")
    assert [entries(party) for party in parties] == [1, 0, 1]


class Mute:
    """Says a party's name, and takes every question without an answer of its own."""

    def __init__(self, name, answer):
        self.name, self._answer, self.say = name, answer, print

    def receive(self, data):
        return self._answer()


def test_somebody_who_says_anothers_name_is_nobody(address, tls):
    """They come first, answer nonsense or never, and do not count: only a party's key does."""
    parties = make_parties(FRAME, 3, {})
    identity, keys = pinned(parties)
    over = threading.Event()
    impostors = [Mute("p1", lambda: os.urandom(99)), Mute("p2", lambda: bytes(over.wait(60)))]
    with FlowerServer(address, *tls, identity, keys, patience=60) as server:
        strange = join_all(impostors, address, tls[0])
        joining = join_all(parties[:1], address, tls[0])
        server.wait_for(["p0"])
        server._patience = 3.0
        with pytest.raises(
            FederationError, match=r"'p1', 'p2' did not come; somebody said to be 'p1'"
        ):
            server.wait_for(keys)
        assert set(server._meeting._lines) == {"p0"}
        server._patience = 60.0
        joining += join_all(parties[1:], address, tls[0])
        server.wait_for(keys)
        model = make().fit(Federation(identity, keys, server, 0))
        over.set()
    end([*joining, *strange])
    assert "p1" not in model.privacy_.to_json()
    assert [entries(party) for party in parties] == [1, 1, 1]


class Cutting:
    """A party whose connection breaks after some of its answers, so that they are lost."""

    def __init__(self, party, server, after):
        self._party, self._server, self._after = party, server, set(after)
        self.name, self.say, self.asked = party.name, print, 0

    def receive(self, data):
        reply = self._party.receive(data)
        if self.name not in self._server._meeting._lines:
            return reply  # it shows its key
        self.asked += 1
        if self.asked in self._after:
            for line in self._server._meeting._lines[self.name]:
                line.bridge.close()
        return reply


def test_a_connection_that_breaks_is_made_again(address, tls):
    """What was answered is asked once more, and answered the same, and charged once."""
    parties = make_parties(FRAME, 3, {})
    identity, keys = pinned(parties)
    with FlowerServer(address, *tls, identity, keys, patience=60) as server:
        cut = Cutting(parties[1], server, after=(1, 2, 5))
        joining = join_all([parties[0], cut, parties[2]], address, tls[0])
        server.wait_for(keys)
        federation = Federation(identity, keys, server, 0)
        make().fit(federation)
        assert federation.last.lost == {}
    end(joining)
    assert cut.asked > 3 + 1
    assert [entries(party) for party in parties] == [1, 1, 1]


def test_who_does_not_come_is_named(address, tls):
    own = KeyPair(), {"north": KeyPair().public}
    with (
        FlowerServer(address, *tls, *own, patience=0.1) as server,
        pytest.raises(FederationError, match="'north' did not come"),
    ):
        server.wait_for(["north"])
    with (
        FlowerServer(address, *tls, *own),
        pytest.raises(FederationError, match="cannot be listened on: Address already in use"),
        FlowerServer(address, *tls, *own),
    ):
        pass
    for wrong in ("localhost", "8470", "localhost:", "localhost:99999"):
        with pytest.raises(ValueError, match="an address is host:port"):
            FlowerServer(wrong, *tls, *own)
    with pytest.raises(FederationError, match="the server is not started"):
        next(FlowerServer(address, *tls, *own).gather({"north": b""}))
    with pytest.raises(FederationError, match="nobody answers at localhost"):
        join_federation(make_parties(FRAME, 2)[0], address, tls[0], patience=0.1)
