"""The handshake: who can play whom with which stolen key, and what is sent before it is over."""

import hashlib

import numpy as np
import pytest

from privboost import Federation, FederationError, Party, SBDTClassifier
from privboost.federated import crypto, handshake
from privboost.federated.agreement import Agreement
from privboost.federated.coordinator import Session
from privboost.federated.crypto import (
    KeyPair,
    commit_to,
    extract,
    open_letter,
    pair_key,
    random_bytes,
    seal_letter,
    session_name,
)
from privboost.federated.handshake import Handshake
from privboost.federated.messages import byte_array, read_bytes, write_bytes
from privboost.federated.transport import Challenge, InProcess
from tests.federated.parties import (
    ALLOWED,
    SECURE,
    agree,
    bring,
    entries,
    make_parties,
    open_account,
    same_model,
)
from tests.tables import make_domain, make_frame

FRAME = make_frame(200)


def make(seed=None):
    settings = {"n_estimators": 3, "max_depth": 2, "calibration_share": 0}
    return SBDTClassifier(1.0, 1e-6, make_domain(), random_state=seed, **settings)


class Stolen(KeyPair):
    """An identity as a thief plays it: without its private key, but with some of others'.

    A product of which the thief has neither secret is a guess, on which all whom it plays agree.
    """

    def __init__(self, public, known):
        self.public, self._known = public, known

    def shared(self, public):
        if public in self._known:
            return self._known[public].shared(self.public)
        return hashlib.sha256(b"".join(sorted((self.public, public)))).digest()


class Impostor(Party):
    """A party that the thief plays: its fresh keys are the thief's own."""

    def _accept(self, body):
        reply = super()._accept(body)
        fresh = list(self._accepted.values())[-1].fresh
        self.identity._known[fresh.public] = fresh
        return reply


class Watched(Party):
    """A party whose words are kept."""

    def __init__(self, *own, **how):
        super().__init__(*own, **how)
        self.sent = []

    def _reply(self, act):
        self.sent.append(super()._reply(act))
        return self.sent[-1]


def without_crossed_products(name, identity, fresh, other, session):
    """The broken twin: identities and fresh keys are multiplied with their like alone."""
    return extract(session, identity.shared(other.identity) + fresh.shared(other.fresh))


def attacked(victim, lead):
    """A federation in which everybody but the victim is played by whoever has stolen its key.

    With a `lead` the thief is the coordinator, else it plays that one too.
    """
    true = {name: KeyPair().public for name in ("p1", "p2", "coordinator")}
    if lead is not None:
        true["coordinator"] = lead.public
    known = {key.public: key for key in (victim.identity, lead) if key is not None}
    secure = victim.budget is not None
    consent = (SECURE if secure else ALLOWED) | {"least_parties": 2}
    fakes = [
        Impostor(
            name,
            FRAME.iloc[:0],  # what is opened is the victim's alone
            open_account() if secure else None,
            identity=Stolen(true[name], known),
            **consent,
        )
        for name in ("p1", "p2")
    ]
    keys = {party.name: party.identity.public for party in (victim, *fakes)}
    for party in (victim, *fakes):
        party.pin(keys | {"coordinator": true["coordinator"]})
    own = Stolen(true["coordinator"], known) if lead is None else lead
    federation = Federation(own, keys, InProcess([victim, *fakes]), 0, trust="server")

    def session(agreement):
        federation.last = Session(own, federation._transport, agreement)
        fresh = federation.last._fresh
        known[fresh.public] = fresh
        return federation.last

    federation.session = session
    return federation


@pytest.mark.parametrize("leads", [True, False], ids=["coordinator", "network"])
def test_a_stolen_key_lets_nobody_play_others_to_its_owner(leads, monkeypatch):
    """The thief has p0's identity; it is the coordinator, or plays that one too."""
    loaded = []
    monkeypatch.setattr(handshake, "open_local", lambda *how: loaded.append(how))
    victim = Watched("p0", FRAME, open_account(), **SECURE | {"least_parties": 2})
    federation = attacked(victim, KeyPair() if leads else None)
    refused = "'p0': keys: 'p1' has not confirmed" if leads else "'p0': no answer came that it can"
    with pytest.raises(FederationError, match=refused):
        make().fit(federation)
    # Keys and hashes are all that it said; no row was loaded, and nothing is spent.
    assert [said["stage"] for said in victim.sent] == ["accepted", "ready", "refused"][: 2 + leads]
    assert set(victim.sent[1]) == {"stage", "part", "confirmations", "rows"}
    assert victim.sent[1]["rows"] is None
    assert entries(victim) == 0
    assert loaded == []
    assert victim._session is None


@pytest.mark.parametrize("leads", [True, False], ids=["coordinator", "network"])
def test_the_broken_twin_gives_the_thief_all_sums_of_one_party(leads, monkeypatch):
    """Without the products of identities and fresh keys the same thief opens p0's masks."""
    for place in (
        "privboost.federated.handshake.pair_key",
        "privboost.federated.coordinator.pair_key",
    ):
        monkeypatch.setattr(place, without_crossed_products)
    victim = Watched("p0", FRAME, **ALLOWED | {"least_parties": 2})
    model = make(7).fit(attacked(victim, KeyPair() if leads else None)).model_
    assert same_model(make(7).fit(FRAME).model_, model)


def changed_opening(change):
    """Have a coordinator change what parties are told of each other's confirmations."""
    plain = Session.begin

    def lying(self):
        plain(self)
        said = {n: read_bytes(body["confirmations"]) for n, body in self._first_deal.items()}
        change(said)
        for name, tags in said.items():
            self._first_deal[name]["confirmations"] = write_bytes(tags)

    return lying


def from_itself(said):
    said["p0"][1] = said["p1"][0]


def from_another(said):
    said["p0"][1], said["p0"][2] = said["p0"][2], said["p0"][1]


def left_out(said):
    del said["p0"][2]


def cut_short(said):
    said["p0"] = {party: tag[:31] for party, tag in said["p0"].items()}


@pytest.mark.parametrize("change", [from_itself, from_another, left_out, cut_short])
def test_a_confirmation_is_of_one_party_for_one_other(change, monkeypatch):
    """One's own sent back, one of somebody else, or none: refused, and p0 spends nothing."""
    parties = make_parties(FRAME, 3, {})
    federation = bring(parties)
    monkeypatch.setattr(Session, "begin", changed_opening(change))
    with pytest.raises(FederationError, match=r"'p0': keys: 'p[12]' has not confirmed"):
        make().fit(federation)
    assert entries(parties[0]) == 0


def test_confirmations_of_another_session_are_none(monkeypatch):
    parties, kept = make_parties(FRAME, 3, {}), []
    federation = bring(parties)
    plain = Session.begin

    def replaying(self):
        plain(self)
        kept.append({name: body["confirmations"] for name, body in self._first_deal.items()})
        for name, old in kept[0].items():
            self._first_deal[name]["confirmations"] = old

    monkeypatch.setattr(Session, "begin", replaying)
    make().fit(federation)
    with pytest.raises(FederationError, match="'p0': keys: 'p1' has not confirmed"):
        make().fit(federation)
    assert [entries(party) for party in parties] == [1, 1, 1]


def without_parts(body):
    del body["parts"]


def without_one_part(body):
    body["parts"] = {name: part for name, part in body["parts"].items() if name != "p1"}


def with_another_part(body):
    body["parts"] = body["parts"] | {"p1": body["parts"]["p2"]}


def with_too_many_rounds(body):
    body["count"] = 65


def with_rounds_that_have_been(body):
    body["first"] = -1


def with_rounds_beyond_all(body):
    body["first"] = 2**200


def without_a_number(body):
    body["first"] = None


@pytest.mark.parametrize(
    "change",
    [
        without_parts,
        without_one_part,
        with_another_part,
        with_too_many_rounds,
        with_rounds_that_have_been,
        with_rounds_beyond_all,
        without_a_number,
    ],
)
def test_a_first_deal_that_is_none_costs_nothing(change, monkeypatch):
    parties = make_parties(FRAME, 3, {})
    plain = Party._follow

    def follow(self, body):
        body = dict(body)
        if body["stage"] == "deal" and self.name == "p0":
            change(body)
        return plain(self, body)

    monkeypatch.setattr(Party, "_follow", follow)
    with pytest.raises(FederationError, match=r"'p0': (joint randomness|rounds|messages): "):
        make().fit(bring(parties))
    assert [entries(party) for party in parties] == [0, 1, 1]


def test_a_party_pays_once_all_others_have_confirmed_to_it(monkeypatch):
    """One whose confirmation for p0 is wrong: p0 spends nothing, though others have paid."""
    parties = make_parties(FRAME, 3, {})
    plain = Handshake.begin

    def lying(self, ends):
        reply = plain(self, ends)
        if self.member.name == "p2":
            said = read_bytes(reply["confirmations"]) | {0: bytes(32)}
            reply["confirmations"] = write_bytes(said)
        return reply

    monkeypatch.setattr(Handshake, "begin", lying)
    with pytest.raises(FederationError, match="'p0': keys: 'p2' has not confirmed"):
        make().fit(bring(parties))
    assert [entries(party) for party in parties] == [0, 1, 1]


class Thief(InProcess):
    """Plays p0 to the coordinator with letters alone: it has the coordinator's long-lived key."""

    def __init__(self, parties):
        super().__init__(parties)
        self.fresh, self.part = KeyPair(), random_bytes()

    def gather(self, requests):
        yield from super().gather({n: data for n, data in requests.items() if n != "p0"})
        body = open_letter(self.key, "p0", "coordinator", requests.get("p0", b""))
        if body is None:
            return
        if body["stage"] == "offer":
            reply = {
                "stage": "accepted",
                "agreed": Agreement.from_dict(body["agreement"]).digest,
                "fresh": byte_array(self.fresh.public),
                "own_nonce": byte_array(random_bytes()),
                "commitment": byte_array(commit_to(self.part)),
            }
        else:
            confirmations = write_bytes({1: bytes(32), 2: bytes(32)})
            reply = {"stage": "ready", "part": byte_array(self.part), "rows": None}
            reply |= {"confirmations": confirmations}
        yield "p0", seal_letter(self.key, "p0", "coordinator", {"to": body["nonce"], **reply})


def test_a_beginning_is_answered_under_the_keys_of_the_session():
    """A letter, which the coordinator's own stolen key can write, confirms nothing to it."""
    parties = make_parties(FRAME, 3, {})
    federation = bring(parties, transport=Thief)
    federation._transport.key = federation._identity.shared(parties[0].identity.public)
    with pytest.raises(FederationError, match=r"2 of 3 .* 3 .*'p0': no answer came that it can"):
        make().fit(federation)
    assert [entries(party) for party in parties] == [0, 0, 0]


class Recording(InProcess):
    """Keeps what is carried to and from p0, and the fresh keys of the coordinator."""

    def __init__(self, parties):
        super().__init__(parties)
        self.replies = []

    def gather(self, requests):
        for name, reply in super().gather(requests):
            self.replies.append((name, reply))
            yield name, reply


def test_the_keys_of_a_session_are_forgotten_with_it(monkeypatch):
    """With what both ends have afterwards, nothing that was recorded can be read."""
    parties = make_parties(FRAME, 3, {})
    federation, before = bring(parties, transport=Recording), []
    plain = Session._send_end

    def watched(self, whole_run):
        before.append((self._fresh, dict(self._ends), self.agreement.digest))
        plain(self, whole_run)

    monkeypatch.setattr(Session, "_send_end", watched)
    make().fit(federation)
    (fresh, ends, agreed), session = before[0], federation.last
    name = session_name(agreed, [session._own_end, *ends.values()])

    def read_with(own):
        key = pair_key("coordinator", federation._identity, own, ends["p0"], name)
        channel = crypto.Channel(key, "coordinator", "p0")
        recorded = federation._transport.replies
        return sum(channel.open(reply) is not None for who, reply in recorded if who == "p0")

    assert read_with(fresh) > 10
    assert read_with(session._fresh) == 0
    kept = (
        session._channels,
        session._ends,
        session._letter_keys,
        session._first_deal,
        session._parts,
    )
    assert not any(kept)
    assert [party._channel for party in parties] == [None] * 3
    make().fit(federation)


def test_a_session_that_is_refused_keeps_no_keys_either():
    parties = make_parties(FRAME, 3, {})
    agree(parties[1], colluders=2)
    federation = bring(parties)
    with pytest.raises(FederationError, match="'p1': colluders"):
        make().fit(federation)
    session = federation.last
    assert not any((session._channels, session._ends, session._letter_keys))
    assert session._fresh.public != session._own_end.fresh


@pytest.mark.parametrize("what", ["fresh", "nonce", "commitment"])
def test_all_parties_see_the_same_keys_or_none_begins(what, monkeypatch):
    """A coordinator tells p0 of another key of p1's than p1 has: p0 and p1 share none."""
    parties = make_parties(FRAME, 3, {})
    odd = np.frombuffer(KeyPair().public, dtype=np.uint8)
    plain = Party._begin

    def misled(self, body):
        if self.name == "p0":
            forms = [dict(form) for form in body["ends"]]
            forms[1][what] = odd
            body = dict(body) | {"ends": forms}
        return plain(self, body)

    monkeypatch.setattr(Party, "_begin", misled)
    with pytest.raises(FederationError, match="'p0': no answer came that it can have sealed"):
        make().fit(bring(parties))
    assert [entries(party) for party in parties] == [0, 0, 0]


def test_nothing_but_a_deal_or_an_end_follows_a_handshake():
    parties = make_parties(FRAME, 3, {})
    federation = bring(parties)
    make()._prepare(federation, None, None).run()
    session, said = federation.last, {}
    session._lose = said.update
    session._ask({n: {"stage": "sum", "round": 0} for n in session._active}, lambda *_: None)
    assert set(said.values()) == {"session: there is none"}
    session.end(False)
    assert [party._handshake for party in parties] == [None] * 3
    assert [entries(party) for party in parties] == [0, 0, 0]


def test_words_of_an_earlier_version_are_not_read(monkeypatch):
    """Its handshake was another one: nobody can ask for it."""
    parties = make_parties(FRAME, 2)
    federation = bring(parties)
    key = federation._identity.shared(parties[0].identity.public)
    with monkeypatch.context() as patch:
        patch.setattr(crypto, "_MAGIC", b"PVBFED01")
        old = seal_letter(key, "coordinator", "p0", {"stage": "rows"})
    assert parties[0].receive(old) == b""
    assert parties[0].receive(seal_letter(key, "coordinator", "p0", {"stage": "rows"}))


def test_whoever_says_a_name_shows_its_key():
    parties = make_parties(FRAME, 2)
    lead, other = KeyPair(), KeyPair()
    keys = {party.name: party.identity.public for party in parties}
    for party in parties:
        party.pin(keys | {"coordinator": lead.public})
    pair = {name: lead.shared(key) for name, key in keys.items()}
    first, second = Challenge(pair["p0"], "p0"), Challenge(pair["p0"], "p0")
    answer = parties[0].receive(first.letter)
    assert first.is_met_by(answer)
    assert not second.is_met_by(answer)  # of another connection
    assert not Challenge(pair["p1"], "p1").is_met_by(answer)
    assert not Challenge(other.shared(keys["p0"]), "p0").is_met_by(answer)
    # What a stranger may answer: nothing, noise, the question itself, words under its own key.
    own = seal_letter(other.shared(lead.public), "p0", "coordinator", {"stage": "present"})
    for odd in (b"", b"x" * 99, first.letter, answer[:-1], own):
        assert not first.is_met_by(odd)
    assert parties[1].receive(first.letter) == b""
    # An answer to something else is no proof.
    letter = seal_letter(lead.shared(keys["p0"]), "coordinator", "p0", {"stage": "rows"})
    assert not first.is_met_by(parties[0].receive(letter))
