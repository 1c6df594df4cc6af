"""Servers and parties over gRPC with TLS on localhost, in threads of one process."""

import os
import threading
import time
from contextlib import contextmanager, suppress

import grpc
import pytest

from privboost import Federation, FederationError, FederationServer, SBDTClassifier, join_federation
from privboost.federated import transport
from privboost.federated.crypto import KeyPair
from privboost.federated.key_files import write_certificate
from privboost.federated.transport import Challenge, _chunks, _read
from tests.federated.parties import agree, entries, make_parties
from tests.tables import make_domain, make_frame

FRAME = make_frame(300)


def make():
    return SBDTClassifier(1.0, 1e-6, make_domain(), n_estimators=4, max_depth=2)


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    return [path.read_bytes() for path in write_certificate(["localhost"], folder)]


@pytest.fixture
def serve(tls):
    """Servers at a port that the operating system has chosen."""
    return lambda identity, keys, patience=60, at="localhost:0": FederationServer(
        at, *tls, identity, keys, patience
    )


def join_all(parties, server, certificate, patience=60):
    """Let parties join, each in a thread."""

    def join(party):
        with suppress(FederationError):  # a stranger is not told that it is over
            join_federation(party, server.address, certificate, patience)

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


@contextmanager
def stream(server, certificate, name, requests=()):
    """A bare stream to a server, as anybody can open one."""
    credentials = grpc.ssl_channel_credentials(certificate)
    with grpc.secure_channel(server.address, credentials) as channel:
        join = channel.stream_stream("/privboost.Federation/Join")
        call = join(iter(requests), metadata=(("party-bin", name.encode()),))
        yield call
        call.cancel()


def wait_until(condition, seconds=30):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 18, 19, 100])
def test_messages_travel_in_chunks(monkeypatch, size):
    monkeypatch.setattr(transport, "CHUNK_BYTES", 10)
    message = os.urandom(size)
    chunks = list(_chunks(message))
    assert max(map(len, chunks)) <= 10
    rest = iter([*chunks, *_chunks(b"next")])
    assert _read(rest, 2 * size + 10) == message
    assert _read(rest, 10) == b"next"
    assert _read(rest, 10) is None


def test_messages_that_are_too_long_or_malformed_are_not_read():
    def send(*chunks):
        for chunk in chunks:
            taken.append(chunk)
            yield chunk

    for chunks in ([b""], [b"\2abc"], [b"\0abc", b"\0def", b"\0ghi", b"\1"], [b"\0"] * 20):
        taken = []
        assert _read(send(*chunks), 9) is None
        assert sum(map(len, taken)) <= 12


def test_whoever_refuses_is_named_with_the_rule_and_nobody_spends(serve, tls):
    parties = make_parties(FRAME, 3, {})
    said = []
    agree(parties[1], domain=make_domain({"name": "income", "classes": ["low", "top"]}))
    parties[1]._listener = said.append
    identity, keys = pinned(parties)
    with serve(identity, keys) as server:
        joining = join_all(parties, server, tls[0])
        server.wait_for(keys)
        with pytest.raises(FederationError, match="'p1': domain: the offer has another one"):
            make().fit(Federation(identity, keys, server, 0))
        make().fit(Federation(identity, {n: keys[n] for n in ("p0", "p2")}, server, 0))
    end(joining)
    assert said[-1] == "refused: domain: the offer has another one than this party: target"
    assert said[0].startswith("connected; ")
    assert [entries(party) for party in parties] == [1, 0, 1]


class Mute:
    """Has a party's name, and gives every request a reply of its own."""

    def __init__(self, name, reply):
        self.name, self._reply, self.say = name, reply, print

    def receive(self, data):
        return self._reply()


def test_a_connection_under_anothers_name_does_not_count(serve, tls):
    """Impostors come first, with nonsense or silence; only a party's key makes a party."""
    parties = make_parties(FRAME, 3, {})
    identity, keys = pinned(parties)
    over = threading.Event()
    impostors = [Mute("p1", lambda: os.urandom(99)), Mute("p2", lambda: bytes(over.wait(60)))]
    with serve(identity, keys) as server:
        strange = join_all(impostors, server, tls[0], patience=0.1)
        joining = join_all(parties[:1], server, tls[0])
        server.wait_for(["p0"])
        wait_until(lambda: "p1" in server.unproved)
        server._patience = 1.0
        with pytest.raises(
            FederationError, match=r"'p1', 'p2' did not connect; a connection as 'p1'"
        ):
            server.wait_for(keys)
        assert set(server._connections) == {"p0"}
        server._patience = 60.0
        joining += join_all(parties[1:], server, tls[0])
        server.wait_for(keys)
        model = make().fit(Federation(identity, keys, server, 0))
        over.set()
    end([*joining, *strange])
    assert "p1" not in model.privacy_.to_json()
    assert [entries(party) for party in parties] == [1, 1, 1]


def code_of(call):
    """How a stream ends, once it does."""
    with suppress(grpc.RpcError):
        for _ in call:
            pass
    return call.code()


def test_strangers_are_disconnected_and_make_the_server_receive_little(serve, tls, monkeypatch):
    party = make_parties(FRAME, 2)[0]
    identity, keys = pinned([party])
    monkeypatch.setattr(transport, "_PROOF", 1.0)
    code = grpc.StatusCode
    with serve(identity, keys) as server:
        with stream(server, tls[0], "nobody") as call:
            assert code_of(call) is code.UNAUTHENTICATED
        assert server.unproved == set()
        with stream(server, tls[0], "p0", [b"\1forged"]) as call:
            assert code_of(call) is code.UNAUTHENTICATED
        assert server.unproved == {"p0"}
        # Longer than a chunk: gRPC itself refuses it.
        with stream(server, tls[0], "p0", [b"\1" + bytes(transport.CHUNK_BYTES)]) as call:
            assert code_of(call) in (code.RESOURCE_EXHAUSTED, code.UNAUTHENTICATED)
        with stream(server, tls[0], "p0", [b"\0" + bytes(10**5)] * 9) as call:
            assert code_of(call) is code.UNAUTHENTICATED
        # It neither replies nor leaves.
        silent = threading.Event()
        with stream(server, tls[0], "p0", iter(silent.wait, True)) as call:
            assert code_of(call) is code.CANCELLED
        silent.set()
        assert server._connections == {}


def test_a_reply_to_another_challenge_is_no_proof(serve, tls):
    party = make_parties(FRAME, 2)[0]
    identity, keys = pinned([party])
    old = party.receive(Challenge(identity.shared(keys["p0"]), "p0").letter)
    with serve(identity, keys) as server:
        with stream(server, tls[0], "p0", _chunks(old)) as call:
            assert code_of(call) is grpc.StatusCode.UNAUTHENTICATED
        assert server._connections == {}


def test_a_party_waits_while_strangers_hold_all_streams(serve, tls, monkeypatch):
    parties = make_parties(FRAME, 2, {})
    identity, keys = pinned(parties)
    monkeypatch.setattr(transport, "_SPARE", 0)
    monkeypatch.setattr(transport, "_PROOF", 2.0)
    silent = threading.Event()
    with serve(identity, keys) as server:
        held = []
        for _ in range(2 * len(keys)):
            opened = stream(server, tls[0], "p0", iter(silent.wait, True))
            held.append(opened)
            next(opened.__enter__())  # the challenge
        with stream(server, tls[0], "p0") as call:
            assert code_of(call) is grpc.StatusCode.RESOURCE_EXHAUSTED
        joining = join_all(parties, server, tls[0])
        server.wait_for(keys)
        make().fit(Federation(identity, keys, server, 0))
        silent.set()
        for opened in held:
            opened.__exit__(None, None, None)
    end(joining)
    assert [entries(party) for party in parties] == [1, 1]


def test_the_newest_connection_of_a_party_replaces_others(serve, tls):
    """What is asked goes to it alone: an older one may be dead without the server's notice."""
    party = make_parties(FRAME, 2)[0]
    identity, keys = pinned([party])
    with serve(identity, keys) as server:
        replies = [threading.Event(), []]

        def prove():
            replies[0].wait(30)
            yield from replies[1]
            silent.wait(30)

        silent = threading.Event()
        with stream(server, tls[0], "p0", prove()) as call:
            replies[1] = list(_chunks(party.receive(_read(call, 10**6))))
            replies[0].set()
            server.wait_for(["p0"])
            first = server._connections["p0"]
            joining = join_all([party], server, tls[0])
            wait_until(lambda: server._connections.get("p0", first) is not first)
            assert code_of(call) is grpc.StatusCode.CANCELLED
            silent.set()
            key = identity.shared(keys["p0"])
            challenge = Challenge(key, "p0")
            ((name, reply),) = server.gather({"p0": challenge.letter})
            assert name == "p0"
            assert challenge.is_met_by(reply)
    end(joining)


class Cutting:
    """A party whose connection breaks after some of its replies, so that they are lost."""

    def __init__(self, party, server, after):
        self._party, self._server, self._after = party, server, set(after)
        self.name, self.say, self.asked = party.name, print, 0

    def receive(self, data):
        reply = self._party.receive(data)
        connection = self._server._connections.get(self.name)
        if connection is None:
            return reply  # to the challenge
        self.asked += 1
        if self.asked in self._after:
            connection.context.cancel()
            wait_until(lambda: self._server._connections.get(self.name) is not connection)
        return reply


def test_a_connection_that_breaks_is_made_again(serve, tls):
    """The request is sent once more, has the same reply, and is charged once."""
    parties = make_parties(FRAME, 3, {})
    identity, keys = pinned(parties)
    with serve(identity, keys) as server:
        cut = Cutting(parties[1], server, after=(1, 2, 5))
        joining = join_all([parties[0], cut, parties[2]], server, tls[0])
        server.wait_for(keys)
        federation = Federation(identity, keys, server, 0)
        make().fit(federation)
        assert federation.last.lost == {}
    end(joining)
    assert cut.asked > 5
    assert [entries(party) for party in parties] == [1, 1, 1]


def test_a_party_that_stays_away_is_lost(serve, tls, monkeypatch):
    monkeypatch.setattr(transport, "_RECONNECT", 0.5)
    party = make_parties(FRAME, 2)[0]
    identity, keys = pinned([party])
    with serve(identity, keys) as server:
        assert list(server.gather({"p0": b"anything"})) == []
        assert server._pending == {}


def test_a_request_that_nobody_waits_for_is_not_sent(serve, tls):
    party = make_parties(FRAME, 2)[0]
    identity, keys = pinned([party])
    received, go_on = [], threading.Event()

    class Slow(Mute):
        def receive(self, data):
            if len(data) > 9:
                return party.receive(data)  # the challenge
            received.append(data)
            go_on.wait(30)
            return data

    with serve(identity, keys) as server:
        joining = join_all([Slow("p0", None)], server, tls[0])
        server.wait_for(keys)
        server._patience = 0.5
        assert list(server.gather({"p0": b"one"})) == []
        assert list(server.gather({"p0": b"two"})) == []
        go_on.set()
        server._patience = 60.0
        assert list(server.gather({"p0": b"three"})) == [("p0", b"three")]
    end(joining)
    assert received == [b"one", b"three"]


def test_a_party_whose_key_is_not_the_pinned_one_says_so(serve, tls):
    party, other = make_parties(FRAME, 2)
    said = []
    party._listener = said.append
    identity, _ = pinned([party])
    with serve(identity, {"p0": other.identity.public}) as server:
        joining = join_all([party], server, tls[0], patience=5)
        wait_until(lambda: any("refused the key" in line for line in said))
    end(joining)
    # Where it is not known at all, it gives up in the end.
    with (
        serve(identity, {"south": other.identity.public}) as server,
        pytest.raises(FederationError, match="refused the key"),
    ):
        join_federation(party, server.address, tls[0], patience=0.1)


def test_long_messages_arrive_whole(serve, tls):
    sent = os.urandom(3 * transport.CHUNK_BYTES + 5)
    party = make_parties(FRAME, 2)[0]
    identity, keys = pinned([party])

    class Echoing(Mute):
        def receive(self, data):
            return data[::-1] if data == sent else party.receive(data)

    with serve(identity, keys) as server:
        joining = join_all([Echoing("p0", None)], server, tls[0])
        server.wait_for(keys)
        assert list(server.gather({"p0": sent})) == [("p0", sent[::-1])]
    end(joining)


def test_addresses_and_absent_ends(serve, tls):
    own = KeyPair(), {"north": KeyPair().public}
    with (
        serve(*own, patience=0.1) as server,
        pytest.raises(FederationError, match="'north' did not connect"),
    ):
        server.wait_for(["north"])
    with (
        serve(*own) as server,
        pytest.raises(FederationError, match=r"cannot listen on localhost:[1-9]"),
        serve(*own, at=server.address),
    ):
        pass
    for wrong in ("localhost", "8470", "localhost:", "localhost:99999"):
        with pytest.raises(ValueError, match="an address is host:port"):
            serve(*own, at=wrong)
    with pytest.raises(FederationError, match="the server is not started"):
        next(serve(*own).gather({"north": b""}))
    with pytest.raises(FederationError, match="nobody answers at localhost"):
        join_federation(make_parties(FRAME, 2)[0], server.address, tls[0], patience=0.1)


def test_a_certificate_for_another_host_is_refused(serve, tmp_path):
    shown, secret = (path.read_bytes() for path in write_certificate(["other"], tmp_path))
    party = make_parties(FRAME, 2)[0]
    identity, keys = pinned([party])
    with (
        FederationServer("localhost:0", shown, secret, identity, keys) as server,
        pytest.raises(FederationError, match="certificate: the one of localhost"),
    ):
        join_federation(party, server.address, shown, patience=5)
