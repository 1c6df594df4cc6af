"""Secure aggregation: totals are exact, losses are survived, and nothing opens twice."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from privboost import FederationError
from privboost.federated.aggregation import (
    Dealt,
    PartyRounds,
    Quorum,
    ServerRounds,
    add_masks,
    crypt_seeds,
    own_seed,
    pair_seed,
)
from privboost.federated.crypto import SHARE_BYTES, Reconstruction, derive


def make_parties(quorum, seed=0):
    """Parties that share keys, as a session would leave them."""

    def key(a, b):
        return hashlib.sha256(f"{seed} {min(a, b)} {max(a, b)}".encode()).digest()

    k = range(quorum.parties)
    secrets = [hashlib.sha256(f"{seed} {own}".encode()).digest() for own in k]
    return [
        PartyRounds(own, quorum, {p: key(own, p) for p in k if p != own}, secrets[own]) for own in k
    ]


def make_server(quorum):
    return ServerRounds(quorum, {k: f"p{k}" for k in range(quorum.parties)})


def deal(server, parties, count, there):
    first = server.begin_batch(count)
    for k in there:
        server.take_dealt(k, parties[k].deal(first, count))
    for k in there:
        parties[k].hold(server.shares_for(k))


def masked(party, round_, sums, asked=b"asked"):
    party.begin(round_)
    return party.mask(sums, asked)


def confirm(server, parties, round_, there):
    survivors = server.survivors()
    for k in there:
        server.take_confirmed(k, parties[k].confirm(round_, survivors, server.asked_tags(k)))


def run_round(server, parties, sums, masking, confirming, opening):
    round_ = server.begin(sums.shape[1])
    for k in masking:
        server.take_masked(k, *masked(parties[k], round_, sums[k]))
    confirm(server, parties, round_, confirming)
    for k in opening:
        server.take_opened(k, parties[k].open(round_, server.confirmed_tags(k)))
    return server.total()


@st.composite
def quorums(draw):
    k = draw(st.integers(2, 7))
    made = []
    for c in range(k):
        for d in range(k):
            if k - d > c and 2 * (k - d) > k + c:
                made.append(Quorum(k, c, d))
    return draw(st.sampled_from(made))


@settings(max_examples=60)
@given(st.data(), quorums())
def test_totals_are_exact_whoever_is_lost_at_whatever_stage(data, quorum):
    everybody = list(range(quorum.parties))
    server, parties = make_server(quorum), make_parties(quorum)

    def left_of(these):
        lost = quorum.dropouts - (quorum.parties - len(these))
        gone = data.draw(st.sets(st.sampled_from(these), max_size=max(lost, 0)))
        return data.draw(st.permutations([k for k in these if k not in gone]))

    dealing = left_of(everybody)
    deal(server, parties, 2, dealing)
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    there = dealing
    for _ in range(2):
        sums = rng.integers(-(2**62), 2**62, (quorum.parties, 5)) // quorum.parties
        masking = left_of(there)
        confirming = left_of(masking)
        opening = left_of(confirming)
        found = run_round(server, parties, sums, masking, confirming, opening)
        np.testing.assert_array_equal(found, sums[sorted(masking)].sum(axis=0))
        there = opening


@settings(max_examples=30)
@given(st.data(), quorums(), st.sampled_from(["deal", "mask", "confirm", "open"]))
def test_more_losses_than_planned_end_a_round(data, quorum, stage):
    server, parties = make_server(quorum), make_parties(quorum)
    few = data.draw(st.permutations(range(quorum.parties)))[: quorum.threshold - 1]
    everybody = range(quorum.parties)
    sums = np.ones((quorum.parties, 3), dtype=np.int64)
    stages = dict.fromkeys(("mask", "confirm", "open"), everybody) | {stage: few}

    def run():
        deal(server, parties, 1, few if stage == "deal" else everybody)
        run_round(server, parties, sums, stages["mask"], stages["confirm"], stages["open"])

    with pytest.raises(FederationError, match=r"are left|too few"):
        run()


class OneParty(RuleBasedStateMachine):
    """A server that asks one party for anything in any order never gets a seed twice over."""

    QUORUM = Quorum(5, 1, 1)

    def __init__(self):
        super().__init__()
        self.others = make_parties(self.QUORUM)
        self.party = self.others[0]
        self.dealt, self.masked, self.confirmed, self.opened = {}, [], {}, []

    @rule(first=st.integers(0, 9), count=st.integers(0, 4))
    def deal(self, first, count):
        try:
            self.party.deal(first, count)
        except FederationError:
            return
        for round_ in range(first, first + count):
            assert round_ not in self.dealt, "the seeds of a round are dealt once"
            self.dealt[round_] = (first, count)

    @precondition(lambda self: self.dealt)
    @rule(who=st.sets(st.integers(1, 4)), forged=st.booleans())
    def hold(self, who, forged):
        first, count = list(self.dealt.values())[-1]
        sealed = {k: make_parties(self.QUORUM)[k].deal(first, count).sealed[0] for k in who}
        if forged and sealed:
            k = min(sealed)
            sealed[k] = bytes(len(sealed[k]))
        try:
            self.party.hold(sealed)
        except FederationError:
            return
        assert len(who) + 1 >= self.QUORUM.threshold

    @rule(round_=st.integers(0, 9))
    def begin(self, round_):
        try:
            self.party.begin(round_)
        except FederationError:
            return
        assert round_ not in self.masked
        assert round_ not in self.opened
        self.begun = round_

    @rule(value=st.integers(-5, 5))
    def mask(self, value):
        try:
            self.party.mask(np.array([value]), b"asked")
        except FederationError:
            return
        self.masked.append(self.begun)

    def tags(self, round_, what, said, who):
        """What others would say: the keys are shared."""
        return {p: self.party._tag(p, 0, round_, what, said) for p in who}

    @rule(
        round_=st.integers(0, 9),
        survivors=st.lists(st.integers(0, 5), max_size=6),
        honest=st.booleans(),
    )
    def confirm(self, round_, survivors, honest):
        others = set(survivors) - {0, 5}
        tags = self.tags(round_, "asked", self.party._claim if honest else b"else", others)
        try:
            self.party.confirm(round_, survivors, tags)
        except FederationError:
            return
        assert honest
        assert round_ == self.masked[-1]
        assert round_ not in self.confirmed
        assert 0 in survivors
        assert self.QUORUM.threshold <= len(set(survivors)) == len(survivors)
        self.confirmed[round_] = sorted(survivors)

    @rule(round_=st.integers(0, 9), who=st.sets(st.integers(1, 4)), honest=st.booleans())
    def open(self, round_, who, honest):
        said = np.array(self.confirmed.get(round_, [0]), dtype="<u4").tobytes()
        try:
            self.party.open(round_, self.tags(round_, "survivors", said if honest else b"", who))
        except FederationError:
            return
        assert honest
        assert len(who) + 1 >= self.QUORUM.threshold
        assert round_ in self.confirmed
        assert round_ not in self.opened, "masks open once"
        self.opened.append(round_)

    @invariant()
    def rounds_go_up(self):
        for done in (self.masked, list(self.confirmed), self.opened):
            assert done == sorted(set(done))


OneParty.TestCase.settings = settings(max_examples=200, stateful_step_count=30)
TestOneParty = OneParty.TestCase


def unchecked(k, c, d):
    """A quorum that is not looked at: the broken twin of one that is refused."""
    quorum = object.__new__(Quorum)
    for name, value in (("parties", k), ("colluders", c), ("dropouts", d)):
        object.__setattr__(quorum, name, value)
    return quorum


def all_masked(quorum, sums):
    """Parties that have masked their sums in one round, with what the server has by then."""
    parties, k = make_parties(quorum), range(quorum.parties)
    dealt = [party.deal(0, 1) for party in parties]
    for number, party in enumerate(parties):
        party.hold({p: dealt[p].sealed[number] for p in k if p != number})
    sent = [masked(party, 0, own) for party, own in zip(parties, sums, strict=True)]
    return parties, dealt, [words for words, _ in sent], [tags for _, tags in sent]


def lie(quorum, parties, tags, sets):
    """Show each honest party a set of survivors of its own; return the shares that come back.

    The last c parties collude: they say and open whatever is wanted.
    """
    honest = range(quorum.parties - quorum.colluders)
    colluders = range(quorum.parties - quorum.colluders, quorum.parties)
    shares = {"own": {}, "lid": {}}

    def take(holder, target, kind, share):
        shares[kind].setdefault(target, {})[holder] = share

    for k in colluders:
        for target, held in parties[k]._held.items():
            take(k, target, "own", held[:SHARE_BYTES])
            take(k, target, "lid", held[SHARE_BYTES : 2 * SHARE_BYTES])
    confirmed = {}
    for k in honest:
        said = {p: tags[p][k] for p in sets[k] if p != k}
        confirmed[k] = parties[k].confirm(0, sets[k], said)
    for k in honest:
        theirs = {p: confirmed[p][k] for p in honest if p != k}
        listed = np.array(sorted(sets[k]), dtype="<u4").tobytes()
        theirs |= {p: parties[p]._tag(p, k, 0, "survivors", listed) for p in colluders}
        try:
            opened = parties[k].open(0, theirs)
        except FederationError:
            continue
        for target, share in opened.items():
            take(k, target, "own" if target in sets[k] else "lid", share)
    return shares


def joined(quorum, shares):
    """The seeds that enough shares tell, by kind and party."""
    t = quorum.threshold
    return {
        kind: {
            p: Reconstruction(sorted(of)[:t]).secret(of) for p, of in found.items() if len(of) >= t
        }
        for kind, found in shares.items()
    }


@pytest.mark.parametrize(
    ("k", "c", "d", "wins"), [(5, 0, 2, False), (5, 1, 1, False), (5, 1, 2, True), (4, 0, 2, True)]
)
def test_two_sets_of_survivors_win_just_where_a_quorum_is_refused(k, c, d, wins):
    """The broken twin is a federation that runs although 2(k − d) ≤ k + c."""
    if wins:
        with pytest.raises(ValueError, match="two sets of survivors"):
            Quorum(k, c, d)
    quorum, sums = unchecked(k, c, d), np.arange(3 * k).reshape(k, 3)
    parties, dealt, words, tags = all_masked(quorum, sums)
    everybody = list(range(k))
    some = everybody[1 : 1 + quorum.threshold - c]
    sets = [everybody[1:] if p in some else everybody for p in everybody]
    seeds = joined(quorum, lie(quorum, parties, tags, sets))
    own, lid = (seeds[kind].get(0) for kind in ("own", "lid"))
    assert (own is not None and lid is not None) == wins
    if wins:
        pairs = crypt_seeds(lid, dealt[0].envelopes[0].tobytes())
        add_masks(words[0], [(own, False)])
        add_masks(words[0], [(pairs[32 * p : 32 * p + 32], False) for p in everybody[1:]])
        assert (words[0].view(np.int64) == sums[0]).all()


@pytest.mark.parametrize("twin", [False, True])
def test_a_set_of_survivors_for_each_party_tells_nothing(twin, monkeypatch):
    """Ten parties, of which four may be lost, are shown ten sets, all of them with the first four.

    Each set is allowed, and no two seeds of one party would open. But if parties do not look for
    others that confirmed the same set (the broken twin), the total of four is told where at least
    six are promised: with noise of the parties, too little of it.
    """
    if twin:
        plain = PartyRounds._is_tag
        monkeypatch.setattr(
            PartyRounds,
            "_is_tag",
            lambda self, p, round_, what, *said: (
                what == "survivors" or plain(self, p, round_, what, *said)
            ),
        )
    quorum, sums = Quorum(10, 0, 4), np.arange(30).reshape(10, 3)
    parties, dealt, words, tags = all_masked(quorum, sums)
    # Each of the other six is in few sets; a party is always in its own.
    sets = [[0, 1, 2, 3, 4 + k % 6, 4 + (k + 1) % 6] for k in range(4)]
    sets += [[0, 1, 2, 3, k, 4 + (k - 3) % 6] for k in range(4, 10)]
    seeds = joined(quorum, lie(quorum, parties, tags, sets))
    if not twin:
        assert seeds == {"own": {}, "lid": {}}
        return
    assert set(seeds["own"]) == set(range(4))
    assert set(seeds["lid"]) == set(range(4, 10))
    total = words[0] + words[1] + words[2] + words[3]
    add_masks(total, [(seed, False) for seed in seeds["own"].values()])
    for lost, key in seeds["lid"].items():
        pairs = crypt_seeds(key, dealt[lost].envelopes[0].tobytes())
        add_masks(total, [(pairs[32 * p : 32 * p + 32], False) for p in range(4)])
    np.testing.assert_array_equal(total.view(np.int64), sums[:4].sum(axis=0))


@pytest.mark.parametrize("difference", ["question", "parties"])
def test_no_survivor_was_asked_something_else_or_masks_with_others(difference):
    quorum = Quorum(4, 0, 1)
    parties = make_parties(quorum)
    dealt = [party.deal(0, 1) for party in parties]
    for k, party in enumerate(parties):
        those = [0, 1, 2] if difference == "parties" and k == 0 else [0, 1, 2, 3]
        party.hold({p: dealt[p].sealed[k] for p in those if p != k})
    asked = [
        b"something else" if difference == "question" and k == 0 else b"asked" for k in range(4)
    ]
    sent = [masked(party, 0, np.ones(2), asked[k])[1] for k, party in enumerate(parties)]
    for k in range(3):
        said = {p: sent[p][k] for p in range(3) if p != k}
        with pytest.raises(FederationError, match="had another query, or other parties"):
            parties[k].confirm(0, [0, 1, 2], said)
    with pytest.raises(FederationError, match="too few"):
        parties[1].confirm(0, [1, 2], {2: sent[2][1]})
    parties[1].confirm(0, [1, 2, 3], {p: sent[p][1] for p in (2, 3)})


@pytest.mark.parametrize("twin", [False, True])
def test_a_confirmation_counts_in_its_own_round_alone(twin, monkeypatch):
    """In round 0 only the first party is shown a set without the last; in round 1 all are.

    What the others confirm in round 1 must not open round 0 at the first. In the broken twin a tag
    is of the round that was masked last, and a round that lies behind can be opened.
    """
    if twin:
        plain = PartyRounds._tag
        monkeypatch.setattr(
            PartyRounds,
            "_tag",
            lambda self, sender, reader, round_, *said: plain(
                self, sender, reader, self._masked, *said
            ),
        )
    quorum, sums = Quorum(4, 0, 1), np.arange(12).reshape(4, 3)
    parties = make_parties(quorum)
    dealt = [party.deal(0, 2) for party in parties]
    for k, party in enumerate(parties):
        party.hold({p: dealt[p].sealed[k] for p in range(4) if p != k})
    few, everybody = [0, 1, 2], [0, 1, 2, 3]
    said = {}
    for round_ in (0, 1):
        asked = [masked(parties[k], round_, sums[k])[1] for k in everybody]
        for k in everybody if round_ == 0 else (1, 2):
            shown = few if k == 0 or round_ == 1 else everybody
            theirs = {p: asked[p][k] for p in shown if p != k}
            said[round_, k] = parties[k].confirm(round_, shown, theirs)
    first = parties[0]
    listed = np.array(few, dtype="<u4").tobytes()
    later = {p: said[1, p][0] for p in (1, 2)}
    assert [first._is_tag(p, 0, "survivors", listed, tag) for p, tag in later.items()] == [twin] * 2
    assert all(first._is_tag(p, 1, "survivors", listed, tag) for p, tag in later.items())
    if twin:
        first._begun = 0  # as if it did not lie behind
        assert set(first.open(0, later)) == set(everybody)
        return
    with pytest.raises(FederationError, match="cannot be opened"):
        first.open(0, later)
    first._begun = 0  # what the tags say is enough
    with pytest.raises(FederationError, match="too few parties have confirmed the same"):
        first.open(0, later)


def test_a_round_that_lies_behind_is_neither_confirmed_nor_opened():
    quorum, sums = Quorum(3), np.arange(9).reshape(3, 3)
    parties, everybody = make_parties(quorum), [0, 1, 2]
    dealt = [party.deal(0, 3) for party in parties]
    for k, party in enumerate(parties):
        party.hold({p: dealt[p].sealed[k] for p in everybody if p != k})
    asked = [masked(parties[k], 0, sums[k])[1] for k in everybody]

    def of(tags, k):
        return {p: tags[p][k] for p in everybody if p != k}

    parties[0].begin(1)
    with pytest.raises(FederationError, match="cannot be confirmed"):
        parties[0].confirm(0, everybody, of(asked, 0))
    asked = [masked(parties[k], 2, sums[k])[1] for k in everybody]
    confirmed = [parties[k].confirm(2, everybody, of(asked, k)) for k in everybody]
    parties[0].deal(3, 1)
    with pytest.raises(FederationError, match="cannot be opened"):
        parties[0].open(2, of(confirmed, 0))
    assert parties[1].open(2, of(confirmed, 1))


def test_colluders_alone_are_refused():
    with pytest.raises(ValueError, match="by themselves"):
        Quorum(3, 2, 1)
    for odd in ((1, 0, 0), (3, -1, 0), (3, 0, True), (2**13, 0, 0)):
        with pytest.raises(ValueError, match=r"must be|between"):
            Quorum(*odd)


def test_what_is_opened_in_one_round_tells_nothing_of_another():
    """The broken twin opens a key of the session: with it every round's masks are known."""
    key, secret = derive(b"k" * 32, "session"), derive(b"s" * 32, "session")
    seeds = {pair_seed(key, r) for r in range(50)} | {own_seed(secret, r) for r in range(50)}
    assert len(seeds) == 100
    opened = pair_seed(key, 3)
    assert all(pair_seed(opened, r) not in seeds for r in range(50))
    assert pair_seed(key, 7) in seeds


def test_masked_sums_say_nothing_of_the_sums():
    """Bits of masked zeros are even, and differ in every round."""
    quorum = Quorum(3)
    server, parties = make_server(quorum), make_parties(quorum)
    deal(server, parties, 2, range(3))
    zeros = np.zeros(4000, dtype=np.int64)
    one, two = (masked(parties[0], r, zeros)[0] for r in range(2))
    assert abs(np.unpackbits(one.view(np.uint8)).mean() - 0.5) < 0.005
    assert (one != two).all()


def test_forged_shares_are_left_out_or_named():
    quorum = Quorum(5, 0, 2)
    server, parties = make_server(quorum), make_parties(quorum)
    deal(server, parties, 2, range(5))
    sums = np.arange(15).reshape(5, 3)
    for liars, opens in (({1}, True), ({1, 2, 3}, False)):
        round_ = server.begin(3)
        for k in range(5):
            server.take_masked(k, *masked(parties[k], round_, sums[k]))
        confirm(server, parties, round_, range(5))
        for k in range(5):
            opened = parties[k].open(round_, server.confirmed_tags(k))
            if k in liars:
                opened = {p: bytes([1]) * SHARE_BYTES for p in opened}
            server.take_opened(k, opened)
        if opens:
            np.testing.assert_array_equal(server.total(), sums.sum(axis=0))
        else:
            with pytest.raises(FederationError, match="'p0' do not open"):
                server.total()


def test_forgers_who_come_first_do_not_end_a_larger_run():
    quorum = Quorum(20, 0, 3)
    server, parties = make_server(quorum), make_parties(quorum)
    deal(server, parties, 1, range(20))
    sums = np.arange(60).reshape(20, 3)
    round_ = server.begin(3)
    for k in range(20):
        server.take_masked(k, *masked(parties[k], round_, sums[k]))
    confirm(server, parties, round_, range(20))
    for k in range(20):
        opened = parties[k].open(round_, server.confirmed_tags(k))
        if k in (0, 1):
            opened = {party: bytes(len(share)) for party, share in opened.items()}
        server.take_opened(k, opened)
    np.testing.assert_array_equal(server.total(), sums.sum(axis=0))


def test_shares_that_nobody_could_have_sealed_are_no_parties():
    """A server that puts keys of its own in the place of others' cannot deal in their names."""
    quorum = Quorum(5, 1, 1)
    server, parties = make_server(quorum), make_parties(quorum)
    first = server.begin_batch(1)
    for k in range(5):
        server.take_dealt(k, parties[k].deal(first, 1))
    dealt = server.shares_for(0)
    junk = {k: bytes(len(share)) for k, share in dealt.items()}
    with pytest.raises(FederationError, match="shares: too few can be read"):
        parties[0].hold(dealt | {k: junk[k] for k in (1, 2)})
    parties[0].hold(dealt | {1: junk[1]})


def test_the_server_takes_nothing_out_of_turn_twice_or_in_another_shape():
    quorum = Quorum(3, 0, 1)
    server, parties = make_server(quorum), make_parties(quorum)
    with pytest.raises(FederationError, match="not dealt"):
        server.begin(2)
    first = server.begin_batch(1)
    dealt = parties[0].deal(first, 1)
    twins = (
        Dealt(dealt.commitments[:, :1], dealt.envelopes, dealt.sealed),
        Dealt(dealt.commitments, dealt.envelopes.astype(np.uint16), dealt.sealed),
        Dealt(dealt.commitments, dealt.envelopes, {1: dealt.sealed[1]}),
        Dealt(dealt.commitments, dealt.envelopes, {1: dealt.sealed[1], 2: b""}),
    )
    for twin in twins:
        with pytest.raises(FederationError, match="wrong shape"):
            server.take_dealt(0, twin)
    server.take_dealt(0, dealt)
    for party in (0, 3, -1):
        with pytest.raises(FederationError, match="no party here, or a second"):
            server.take_dealt(party, dealt)
    with pytest.raises(FederationError, match="1 of 3 are left, and 2 are needed"):
        server.begin(2)
    server.take_dealt(1, parties[1].deal(first, 1))
    for k in range(2):
        parties[k].hold(server.shares_for(k))
    round_ = server.begin(2)
    words, tags = masked(parties[0], round_, np.arange(2))
    for odd in (words[:1], words.view(np.int64), None, words.reshape(1, 2)):
        with pytest.raises(FederationError, match="wrong shape"):
            server.take_masked(0, odd, tags)
    for odd in ({}, {1: b"short"}, {1: tags[1], 2: tags[1]}):
        with pytest.raises(FederationError, match="tags: of a wrong shape"):
            server.take_masked(0, words, odd)
    with pytest.raises(FederationError, match="out of turn"):
        server.take_masked(2, words, tags)
    with pytest.raises(FederationError, match="out of turn"):
        server.take_confirmed(0, tags)
    with pytest.raises(FederationError, match="out of turn"):
        server.take_opened(0, {})
    server.take_masked(0, words, tags)
    server.take_masked(1, *masked(parties[1], round_, np.arange(2)))
    survivors = server.survivors()
    with pytest.raises(FederationError, match="no party here, or a second"):
        server.take_masked(1, words, tags)
    with pytest.raises(FederationError, match="are needed"):
        server.confirmed_tags(0)
    for k in range(2):
        server.take_confirmed(k, parties[k].confirm(round_, survivors, server.asked_tags(k)))
    with pytest.raises(FederationError, match="wrong shape"):
        server.take_opened(0, {0: b"short"})
    for k in range(2):
        server.take_opened(k, parties[k].open(round_, server.confirmed_tags(k)))
    np.testing.assert_array_equal(server.total(), [0, 2])
    with pytest.raises(FederationError, match="are needed"):
        server.total()
