"""Real Flower connections, their ends in threads of one process."""

import os
import threading
from contextlib import suppress
from types import SimpleNamespace

import pytest

pytest.importorskip("flwr", reason="Flower has an environment of its own: make test-distributed")

from privboost import Federation, FederationError, SBDTClassifier
from privboost.federation import flower_meeting
from privboost.federation.flower_meeting import Incoming, Meeting
from privboost.federation.flower_party import join_federation
from privboost.federation.flower_server import FlowerServer
from privboost.federation.key_files import write_certificate
from privboost.federation.keys import KeyPair
from privboost.federation.presence import Presence
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


def join_all(parties, address, certificate, patience=60):
    """Let parties join, each in a thread."""

    def join(party):
        with suppress(FederationError):  # a stranger is not told when it is over
            join_federation(party, address, certificate, patience)

    joining = [threading.Thread(target=join, args=(party,)) for party in parties]
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
        strange = join_all(impostors, address, tls[0], patience=0.1)
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


class Stranger:
    """A connection as Flower tells of it."""

    def __init__(self, name, answer=b""):
        self.cid, self.closed = f"{id(self)}", 0
        self._name, self._answer, self.bridge = name, answer, self
        self.incoming = Incoming(iter(()))

    def close(self):
        self.closed += 1

    def get_properties(self, *how):
        return SimpleNamespace(properties={"name": self._name})

    def fit(self, *how):
        return SimpleNamespace(parameters=SimpleNamespace(tensors=[self._answer]))


class Later:
    """Calls that are made when a test says so."""

    def __init__(self):
        self.calls = []

    def submit(self, call, *how):
        self.calls.append((call, how))

    def run(self):
        while self.calls:
            call, how = self.calls.pop(0)
            call(*how)


def test_a_connection_without_a_key_is_let_go_and_few_are_held(monkeypatch):
    keys = {name: KeyPair().public for name in ("p0", "p1")}
    meeting = Meeting(Presence(KeyPair(), keys))
    meeting._calls, manager = Later(), meeting.manager()
    wrong = [Stranger("x" * 10**6), Stranger(3), Stranger("p0"), Stranger("p1", b"y" * 10**6)]
    for line in wrong:
        assert manager.register(line)
    meeting._calls.run()
    assert [line.closed for line in wrong] == [1] * 4
    assert meeting._connected == []
    assert meeting._lines == {}
    assert meeting.unproved == {"p0", "p1"}
    monkeypatch.setattr(flower_meeting, "_SPARE", 3)
    crowd = [Stranger("p0") for _ in range(9)]
    for line in crowd:
        manager.register(line)
    assert len(meeting._connected) == len(meeting._calls.calls) == 2 + 3
    assert [line.closed for line in crowd] == [0] * 5 + [1] * 4
    meeting._calls.run()
    assert meeting._connected == []


class Sent:
    """A message of some length."""

    def __init__(self, length):
        self.ByteSize = lambda: length


def test_little_is_read_of_a_connection_that_has_shown_no_key():
    """Two short messages; what is beyond waits until the key was shown, or is never read."""
    read = []

    def send(*lengths):
        for length in lengths:
            read.append(length)
            yield Sent(length)

    with pytest.raises(ValueError, match="too long"):
        next(Incoming(send(2**15)))
    for trusted in (True, False):
        read.clear()
        incoming, taken = Incoming(send(9, 2**14, 2**27, 2**27)), []
        reading = threading.Thread(target=lambda own=(taken, incoming): own[0].extend(own[1]))
        reading.start()
        reading.join(0.2)
        assert reading.is_alive()
        assert read == [9, 2**14]
        incoming.judge(trusted)
        reading.join(10)
        assert len(taken) == len(read) == (4 if trusted else 2)


class Endless(Mute):
    """Says a name that is as long as a message can be."""

    name = "x" * 2**22

    def __init__(self):
        self.say, self.asked = print, 0


def test_a_long_name_is_dropped_with_its_connection(address, tls):
    parties = make_parties(FRAME, 2, {})
    identity, keys = pinned(parties)
    with FlowerServer(address, *tls, identity, keys, patience=60) as server:
        strange = join_all([Endless()], address, tls[0], patience=0.1)
        joining = join_all(parties, address, tls[0])
        server.wait_for(keys)
        make().fit(Federation(identity, keys, server, 0))
    end([*joining, *strange])
    assert server._meeting.unproved == set()
    assert [entries(party) for party in parties] == [1, 1]


def test_connections_that_have_shown_their_keys_are_not_counted_among_strangers(monkeypatch):
    parties = make_parties(FRAME, 2)
    identity, keys = pinned(parties)
    meeting = Meeting(Presence(identity, keys))
    meeting._calls, manager = Later(), meeting.manager()
    monkeypatch.setattr(flower_meeting, "_SPARE", 1)

    class Known(Stranger):
        def fit(self, ins, *how):
            self._answer = parties[0].receive(ins.parameters.tensors[0])
            return super().fit()

    known = [Known("p0") for _ in range(9)]
    for line in known:
        manager.register(line)
        meeting._calls.run()
    assert [line.closed for line in known] == [0] * 9
    assert meeting._lines == {"p0": known}


def test_a_party_that_is_let_go_comes_again(address, tls, monkeypatch):
    """There is no place for it while strangers have theirs; it tries again, and is taken."""
    parties = make_parties(FRAME, 2, {})
    identity, keys = pinned(parties)
    plain, left = Meeting._let_in, [2]

    def full(self, line):
        left[0] -= 1
        if left[0] >= 0:
            line.incoming.judge(False)
            line.bridge.close()
            return False
        return plain(self, line)

    monkeypatch.setattr(Meeting, "_let_in", full)
    with FlowerServer(address, *tls, identity, keys, patience=60) as server:
        joining = join_all(parties, address, tls[0])
        server.wait_for(keys)
        make().fit(Federation(identity, keys, server, 0))
    end(joining)
    assert left[0] < 0
    assert [entries(party) for party in parties] == [1, 1]


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
