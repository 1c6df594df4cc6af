"""The handshake: who can play whom with which stolen key, and what is sent before it is over."""

import hashlib

import numpy as np
import pytest

from privboost import Federation, FederationError, Party, SBDTClassifier
from privboost.federation import channels, party_beginning
from privboost.federation.channels import seal_letter
from privboost.federation.keys import KeyPair, extract
from privboost.federation.messages import read_bytes, write_bytes
from privboost.federation.presence import Presence
from privboost.federation.session import Session
from privboost.federation.transports import InProcess
from tests.federation.parties import (
    ALLOWED,
    SECURE,
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

    def _judge(self, body):
        reply = super()._judge(body)
        fresh = list(self._accepted.values())[-1].fresh
        self.identity._known[fresh.public] = fresh
        return reply


class Watched(Party):
    """A party whose words are kept."""

    def __init__(self, *own, **how):
        super().__init__(*own, **how)
        self.sent = []

    def _say(self, act):
        self.sent.append(super()._say(act))
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
    monkeypatch.setattr(party_beginning, "open_local", lambda *how: loaded.append(how))
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
    for module in ("party_beginning", "session"):
        monkeypatch.setattr(f"privboost.federation.{module}.pair_key", without_crossed_products)
    victim = Watched("p0", FRAME, **ALLOWED | {"least_parties": 2})
    model = make(7).fit(attacked(victim, KeyPair() if leads else None)).model_
    assert same_model(make(7).fit(FRAME).model_, model)


def changed_opening(change):
    """Have a coordinator change what parties are told of each other's confirmations."""
    plain = Session.begin

    def lying(self):
        plain(self)
        said = {n: read_bytes(body["confirmations"]) for n, body in self._openings.items()}
        change(said)
        for name, tags in said.items():
            self._openings[name]["confirmations"] = write_bytes(tags)

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
        kept.append({name: body["confirmations"] for name, body in self._openings.items()})
        for name, old in kept[0].items():
            self._openings[name]["confirmations"] = old

    monkeypatch.setattr(Session, "begin", replaying)
    make().fit(federation)
    with pytest.raises(FederationError, match="'p0': keys: 'p1' has not confirmed"):
        make().fit(federation)
    assert [entries(party) for party in parties] == [1, 1, 1]


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
    session._ask({n: {"stage": "sum", "round": 0} for n in session._there}, lambda *_: None)
    assert set(said.values()) == {"session: there is none"}
    session.end(False)
    assert [party._beginning for party in parties] == [None] * 3
    assert [entries(party) for party in parties] == [0, 0, 0]


def test_words_of_an_earlier_version_are_not_read(monkeypatch):
    """Its handshake was another one: nobody can ask for it."""
    parties = make_parties(FRAME, 2)
    federation = bring(parties)
    key = federation._identity.shared(parties[0].identity.public)
    with monkeypatch.context() as patch:
        patch.setattr(channels, "_MAGIC", b"PVBFED01")
        old = seal_letter(key, "coordinator", "p0", {"stage": "rows"})
    assert parties[0].receive(old) == b""
    assert parties[0].receive(seal_letter(key, "coordinator", "p0", {"stage": "rows"}))


def test_whoever_says_a_name_shows_its_key():
    parties = make_parties(FRAME, 2)
    lead, other = KeyPair(), KeyPair()
    keys = {party.name: party.identity.public for party in parties}
    for party in parties:
        party.pin(keys | {"coordinator": lead.public})
    presence = Presence(lead, keys)
    assert presence.challenge("stranger") is None
    first, second = presence.challenge("p0"), presence.challenge("p0")
    answer = parties[0].receive(first.letter)
    assert first.is_met_by(answer)
    assert not second.is_met_by(answer)  # of another connection
    assert not presence.challenge("p1").is_met_by(answer)
    assert not Presence(other, keys).challenge("p0").is_met_by(answer)
    # What a stranger may answer: nothing, noise, the question itself, words under its own key.
    own = seal_letter(other.shared(lead.public), "p0", "coordinator", {"stage": "present"})
    for odd in (b"", b"x" * 99, first.letter, answer[:-1], own):
        assert not first.is_met_by(odd)
    assert parties[1].receive(first.letter) == b""
    # An answer to something else is no proof.
    letter = seal_letter(lead.shared(keys["p0"]), "coordinator", "p0", {"stage": "rows"})
    assert not first.is_met_by(parties[0].receive(letter))
