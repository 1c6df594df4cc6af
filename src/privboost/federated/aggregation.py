"""Secure aggregation with dropout recovery (Bonawitz et al. 2017).

Each party adds masks to its sums: random words modulo 2⁶⁴, a pairwise mask with every other party,
which cancels in the total, and one of its own. Seeds of masks are derived for one round from keys
of one session: those that are opened reveal nothing of another round.

A party deals secret shares of the seeds of a few rounds at once. Then each round has three stages.
The party masks its sums, and sends every other party a tag of its query and of the parties it
masks with. It confirms a set of survivors, if all of them had the same query. It opens, for the set
that enough parties have confirmed, a share of a survivor's own seed, or of the key that encrypts a
dropped party's pairwise seeds (its envelope key), never both. Rounds only go up: earlier ones are
forgotten, and cannot be opened.

The server adds up masked sums, and removes the masks with the seeds that parties open.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from privboost._core.errors import FederationError
from privboost.federated.crypto import (
    SECRET_BYTES,
    SHARE_BYTES,
    Reconstruction,
    derive,
    split_secret,
)
from privboost.federated.messages import pack
from privboost.randomness.keystream import KeyStream, fixed_generator

MOST_PARTIES = 2**12
"""The noise of so many parties, and the largest sums of rows, fit int64 together."""


@dataclass(frozen=True)
class Quorum:
    """Of k parties, c may collude with the server, and d may drop out, at any stage."""

    parties: int
    colluders: int = 0
    dropouts: int = 0

    def __post_init__(self) -> None:
        for name in ("parties", "colluders", "dropouts"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise ValueError(f"{name} must be an integer of at least 0")
        if not 2 <= self.parties <= MOST_PARTIES:
            raise ValueError(f"a federation has between 2 and {MOST_PARTIES} parties")
        if self.threshold <= self.colluders:
            raise ValueError(
                f"{self.colluders} colluders of {self.parties} parties could open masks by "
                f"themselves, if {self.dropouts} may be lost: allow fewer dropouts or colluders"
            )
        if 2 * self.threshold <= self.parties + self.colluders:
            raise ValueError(
                f"with {self.dropouts} dropouts and {self.colluders} colluders of {self.parties} "
                "parties, a server that shows two sets of survivors could open a party's masks: "
                "2(k - d) must exceed k + c"
            )

    @property
    def threshold(self) -> int:
        """t = k − d, the number of parties needed at every stage, and of shares of a seed."""
        return self.parties - self.dropouts

    @property
    def honest(self) -> int:
        """k − c − d, the least number of honest parties in every sum."""
        return self.threshold - self.colluders


def pair_seed(key: bytes, round_: int) -> bytes:
    """Return the seed of a mask that one of two parties adds and the other subtracts."""
    return derive(key, "pair", round_)


def own_seed(secret: bytes, round_: int) -> bytes:
    """Return the seed of the mask that a party alone adds; those of survivors are opened."""
    return derive(secret, "own", round_)


def envelope_key(secret: bytes, round_: int) -> bytes:
    """Return the key that encrypts a party's pair seeds; those of lost parties are opened."""
    return derive(secret, "lid", round_)


def add_masks(sums: np.ndarray, seeds: Iterable[tuple[bytes, bool]]) -> None:
    """Add (True) or subtract (False) the mask of each seed, in place."""
    for seed, add in seeds:
        words = KeyStream(seed).words(len(sums))
        if add:
            np.add(sums, words, out=sums)
        else:
            np.subtract(sums, words, out=sums)


def crypt_seeds(key: bytes, seeds: bytes) -> bytes:
    """Encrypt or decrypt pair seeds under a key that is used once."""
    words = KeyStream(key).words(len(seeds) // 8)
    changed: np.ndarray = np.frombuffer(seeds, dtype="<u8") ^ words
    return changed.tobytes()


TAG_BYTES = 16
MOST_ROUNDS = 64
"""The most rounds whose seeds are dealt at once."""
LAST_ROUND = 2**32
"""Bound of the first round of a batch."""


@dataclass(frozen=True, eq=False)
class Dealt:
    """A party's seeds of several rounds, as it sends them."""

    # Hashes of its own seed and of its envelope key: uint8 of shape (rounds, 2, 32).
    commitments: np.ndarray
    # Its pair seeds, encrypted under the envelope key: uint8 of shape (rounds, parties, 32).
    envelopes: np.ndarray
    # For each other party its shares of both, encrypted for that party.
    sealed: dict[int, bytes]


class PartyRounds:
    """A party's side: its number, its pair key with each other party, and a secret of its own."""

    def __init__(
        self, own: int, quorum: Quorum, pair_keys: Mapping[int, bytes], secret: bytes
    ) -> None:
        self._own, self._quorum, self._secret = own, quorum, secret
        self._pair_keys = dict(pair_keys)
        self._batch = range(0)  # the rounds whose seeds are dealt
        self._dealers: frozenset[int] = frozenset()
        self._held: dict[int, bytes] = {}  # shares of each dealer's seeds
        self._next = 0
        self._begun = self._masked = self._confirmed = self._opened = -1
        self._claim = b""
        self._survivors: tuple[int, ...] = ()

    def check_batch(self, first: int, count: int) -> None:
        """Refuse rounds whose seeds cannot be dealt now."""
        new = self._next <= first < LAST_ROUND and self._batch.stop <= first
        if not (new and 1 <= count <= MOST_ROUNDS):
            raise FederationError("rounds: they only go up, a few at a time")

    def deal(self, first: int, count: int) -> Dealt:
        """Return the seeds of some rounds; those of earlier rounds are forgotten."""
        self.check_batch(first, count)
        self._batch, self._next, self._begun = range(first, first + count), first, -1
        self._dealers, self._held = frozenset(), {}
        shares: list[list[bytes]] = [[] for _ in range(self._quorum.parties)]
        commitments, envelopes = [], []
        for round_ in self._batch:
            own, key = own_seed(self._secret, round_), envelope_key(self._secret, round_)
            commitments += [commit(own), commit(key)]
            seeds = [
                pair_seed(self._pair_keys[party], round_)
                if party in self._pair_keys
                else bytes(SECRET_BYTES)
                for party in range(self._quorum.parties)
            ]
            envelopes.append(crypt_seeds(key, b"".join(seeds)))
            for secret, kind in ((own, "own"), (key, "lid")):
                stream = KeyStream(derive(self._secret, "shares", kind, round_))
                dealt = split_secret(secret, self._quorum.threshold, len(shares), stream)
                for mine, share in zip(shares, dealt, strict=True):
                    mine.append(share)
        self._held[self._own] = b"".join(shares[self._own])
        sealed = {party: self._seal(party, b"".join(shares[party])) for party in self._pair_keys}
        return Dealt(
            pack(commitments).reshape(count, 2, -1),
            pack(envelopes).reshape(count, self._quorum.parties, -1),
            sealed,
        )

    def hold(self, sealed: Mapping[int, bytes]) -> None:
        """Store the shares that others dealt: they are the parties of these rounds.

        A share that cannot be decrypted counts as none, and its dealer takes part all the same.
        But enough must be decrypted: they prove the dealers' pair keys.
        """
        if self._dealers or not self._batch:
            raise FederationError("shares: they are taken once, after the party has dealt its own")
        dealers = frozenset(sealed) | {self._own}
        if self._own in sealed or not set(sealed) <= set(self._pair_keys):
            raise FederationError("shares: they are of the other parties of this session")
        if len(dealers) < self._quorum.threshold:
            raise FederationError("parties: too few are left")
        opened = {party: self._unseal(party, data) for party, data in sealed.items()}
        read = {party: shares for party, shares in opened.items() if shares is not None}
        if len(read) + 1 < self._quorum.threshold:
            raise FederationError("shares: too few can be read")
        self._dealers = dealers
        self._held |= read

    def begin(self, round_: int) -> None:
        """Begin a round; earlier ones are over."""
        if not self._dealers or round_ not in self._batch or round_ < self._next:
            raise FederationError("rounds: this one is not dealt, or is over")
        self._next, self._begun = round_ + 1, round_

    def mask(self, sums: np.ndarray, asked: bytes) -> tuple[np.ndarray, dict[int, bytes]]:
        """Return the masked int64 sums (uint64), once a round, and a tag for each other party.

        A tag authenticates the round, the query's digest `asked` and the parties of the masks; only
        the two parties can make or check it.
        """
        round_ = self._begun
        if not self._masked < round_ or round_ <= self._opened:
            raise FederationError("rounds: this one has its sums, or was opened")
        self._masked = round_
        masked = np.ascontiguousarray(sums, dtype=np.int64).reshape(-1).view(np.uint64).copy()
        add_masks(masked, [(own_seed(self._secret, round_), True)])
        others = self._dealers - {self._own}
        add_masks(masked, [(pair_seed(self._pair_keys[p], round_), self._own < p) for p in others])
        self._claim = hashlib.sha256(asked + _listed(self._dealers)).digest()
        return masked, self._tags(round_, "asked", self._claim)

    def confirm(
        self, round_: int, survivors: Sequence[int], tags: Mapping[int, bytes]
    ) -> dict[int, bytes]:
        """Confirm the parties whose sums are added up, once a round; return a tag for each other.

        `tags` are the other survivors' tags of their queries, which must all be the same.
        """
        if not round_ == self._masked == self._begun or round_ <= self._confirmed:
            raise FederationError("rounds: this one cannot be confirmed now")
        present = set(survivors)
        own_set = self._own in present and present <= self._dealers
        if not own_set or len(present) != len(survivors):
            raise FederationError("survivors: they are parties of this round, this one among them")
        if len(present) < self._quorum.threshold:
            raise FederationError("survivors: too few to hide a party in the sum")
        for party in present - {self._own}:
            if not self._is_tag(party, round_, "asked", self._claim, tags.get(party)):
                raise FederationError("survivors: one had another query, or other parties")
        self._confirmed, self._survivors = round_, tuple(sorted(present))
        return self._tags(round_, "survivors", _listed(present))

    def open(self, round_: int, tags: Mapping[int, bytes]) -> dict[int, bytes]:
        """Return a share for each party: of its own seed if it survived, else of its envelope key.

        Shares are opened once a round, before a later one has begun, for the set of survivors that
        as many parties as the threshold have confirmed in this round, by their tags: there cannot
        be two.
        """
        if not round_ == self._confirmed == self._begun or round_ <= self._opened:
            raise FederationError("rounds: the masks of this one cannot be opened now")
        claim, others = _listed(self._survivors), self._dealers - {self._own}
        agree = [p for p in others if self._is_tag(p, round_, "survivors", claim, tags.get(p))]
        if len(agree) + 1 < self._quorum.threshold:
            raise FederationError("survivors: too few parties have confirmed the same")
        self._opened, self._next = round_, max(self._next, round_ + 1)
        at = 2 * SHARE_BYTES * (round_ - self._batch.start)
        opened = {}
        for party, shares in self._held.items():
            begin = at if party in self._survivors else at + SHARE_BYTES
            opened[party] = shares[begin : begin + SHARE_BYTES]
            gone = at + 2 * SHARE_BYTES  # shares that were not opened are forgotten too
            self._held[party] = bytes(gone) + shares[gone:]
        return opened

    def _tags(self, round_: int, what: str, claim: bytes) -> dict[int, bytes]:
        """Return a tag of a claim for each other party of a round."""
        others = self._dealers - {self._own}
        return {party: self._tag(self._own, party, round_, what, claim) for party in others}

    def _is_tag(self, party: int, round_: int, what: str, claim: bytes, tag: bytes | None) -> bool:
        own = self._tag(party, self._own, round_, what, claim)
        return tag is not None and hmac.compare_digest(own, tag)

    def _tag(self, sender: int, reader: int, round_: int, what: str, claim: bytes) -> bytes:
        key = self._pair_keys[reader if sender == self._own else sender]
        return derive(key, "tag", what, sender, reader, round_, claim.hex())[:TAG_BYTES]

    def _seal(self, party: int, shares: bytes) -> bytes:
        """Encrypt shares for another party; the nonce is the batch's first round, used once."""
        key = AESGCM(derive(self._pair_keys[party], "shares", self._own, party))
        return key.encrypt(self._batch.start.to_bytes(12, "big"), shares, None)

    def _unseal(self, party: int, data: bytes) -> bytes | None:
        key = AESGCM(derive(self._pair_keys[party], "shares", party, self._own))
        try:
            shares = key.decrypt(self._batch.start.to_bytes(12, "big"), data, None)
        except InvalidTag:
            return None
        return shares if len(shares) == 2 * SHARE_BYTES * len(self._batch) else None


def _listed(parties: Iterable[int]) -> bytes:
    """Return a set of parties as bytes."""
    return np.array(sorted(parties), dtype="<u4").tobytes()


def commit(secret: bytes) -> bytes:
    """Return the commitment to a secret of 32 random bytes."""
    return hashlib.sha256(b"privboost seed" + secret).digest()


_MOST_TRIES = 3000
"""Sets of shares that are tried where some were forged, before a round is given up: with one of
ten parties to spare, a set without three forgers is among them nine times out of ten."""


class ServerRounds:
    """The server's side of the rounds of a session, of parties with these numbers and names.

    A batch of rounds is begun and dealt; then each round takes masked sums, fixes the survivors,
    takes confirmations and shares, and has a total. Input that is out of order, a second one, or
    of another shape raises, and changes nothing.
    """

    def __init__(self, quorum: Quorum, names: Mapping[int, str]) -> None:
        self._quorum, self._names = quorum, dict(names)
        self._batch = range(0)
        self._dealt: dict[int, Dealt] = {}
        self._round = -1
        self._length = 0
        self._masked: dict[int, np.ndarray] = {}
        self._asked: dict[int, dict[int, bytes]] = {}
        self._confirmed: dict[int, dict[int, bytes]] = {}
        self._survivors: tuple[int, ...] | None = None
        self._opened: dict[int, dict[int, bytes]] = {}

    @property
    def is_dealt(self) -> bool:
        """Whether the next round has seeds."""
        return self._round + 1 in self._batch

    def begin_batch(self, count: int) -> int:
        """Begin a batch of rounds; return the first of them."""
        first = max(self._round + 1, self._batch.stop)
        self._batch, self._dealt, self._round = range(first, first + count), {}, first - 1
        return first

    def take_dealt(self, party: int, dealt: Dealt) -> None:
        """Store the seeds that a party dealt."""
        self._need_party(party, self._dealt)
        rounds, others = len(self._batch), set(self._names) - {party}
        shapes = (rounds, 2, 32), (rounds, self._quorum.parties, SECRET_BYTES)
        for array, shape in zip((dealt.commitments, dealt.envelopes), shapes, strict=True):
            need_array("shares", array, np.uint8, shape)
        size = 2 * SHARE_BYTES * rounds + 16
        if set(dealt.sealed) != others or any(len(x) != size for x in dealt.sealed.values()):
            raise FederationError("shares: of a wrong shape")
        self._dealt[party] = dealt

    def shares_for(self, party: int) -> dict[int, bytes]:
        """Return the shares that others dealt to a party."""
        return {dealer: d.sealed[party] for dealer, d in self._dealt.items() if dealer != party}

    def begin(self, length: int) -> int:
        """Begin the next round, of `length` sums; return its number."""
        if not self.is_dealt:
            raise FederationError("rounds: the seeds of this one were not dealt")
        self._need_enough(self._dealt)
        self._round, self._length = self._round + 1, length
        self._masked, self._asked, self._confirmed, self._opened = {}, {}, {}, {}
        self._survivors = None
        return self._round

    def take_masked(self, party: int, sums: np.ndarray, tags: Mapping[int, bytes]) -> None:
        """Store the masked sums of a party, and its tags for others."""
        self._need_party(party, self._masked)
        if party not in self._dealt or self._survivors is not None:
            raise FederationError("sums: out of turn")
        need_array("sums", sums, np.uint64, (self._length,))
        self._need_tags(party, tags)
        self._masked[party], self._asked[party] = sums, dict(tags)

    def survivors(self) -> list[int]:
        """Return the parties whose sums are added up; from now on no others are taken."""
        self._need_enough(self._masked)
        if self._survivors is None:
            self._survivors = tuple(sorted(self._masked))
        return list(self._survivors)

    def asked_tags(self, party: int) -> dict[int, bytes]:
        """Return the other survivors' tags of their queries, for a party."""
        return {p: self._asked[p][party] for p in self.survivors() if p != party}

    def take_confirmed(self, party: int, tags: Mapping[int, bytes]) -> None:
        """Store a party's tags of the survivors."""
        self._need_party(party, self._confirmed)
        if self._survivors is None or party not in self._survivors:
            raise FederationError("survivors: out of turn")
        self._need_tags(party, tags)
        self._confirmed[party] = dict(tags)

    def confirmed_tags(self, party: int) -> dict[int, bytes]:
        """Return the others' tags of the survivors, for a party."""
        self._need_enough(self._confirmed)
        return {p: tags[party] for p, tags in self._confirmed.items() if p != party}

    def take_opened(self, party: int, opened: Mapping[int, bytes]) -> None:
        """Store the shares that a party opens."""
        self._need_party(party, self._opened)
        if party not in self._confirmed:
            raise FederationError("shares: out of turn")
        known = set(opened) <= set(self._dealt)
        if not known or any(len(share) != SHARE_BYTES for share in opened.values()):
            raise FederationError("shares: of a wrong shape")
        self._opened[party] = dict(opened)

    def total(self) -> np.ndarray:
        """Return the total of the survivors' sums."""
        self._need_enough(self._opened)
        assert self._survivors is not None
        at = self._round - self._batch.start
        total = np.zeros(self._length, dtype=np.uint64)
        for masked in self._masked.values():
            np.add(total, masked, out=total)
        known: dict[tuple[int, ...], Reconstruction] = {}
        for party, dealt in self._dealt.items():
            own, envelope = dealt.commitments[at]
            if party in self._survivors:
                seed = self._open(party, own.tobytes(), known)
                add_masks(total, [(seed, False)])
                continue
            key = self._open(party, envelope.tobytes(), known)
            seeds = crypt_seeds(key, dealt.envelopes[at].tobytes())
            # A survivor added the mask where its number is the smaller one.
            pairs = {s: seeds[SECRET_BYTES * s :][:SECRET_BYTES] for s in self._survivors}
            add_masks(total, [(seed, s > party) for s, seed in pairs.items()])
        self._opened = {}
        return total.view(np.int64)

    def _open(
        self, party: int, commitment: bytes, known: dict[tuple[int, ...], Reconstruction]
    ) -> bytes:
        """Return the secret that a party committed to, from its shares."""
        shares = {h: opened[party] for h, opened in self._opened.items() if party in opened}
        if len(shares) >= self._quorum.threshold:
            for holders in self._sets_of_holders(sorted(shares), known):
                if holders not in known:
                    known[holders] = Reconstruction(holders)
                secret = known[holders].secret(shares)
                if secret is not None and commit(secret) == commitment:
                    known[holders] = known.pop(holders)  # the last one is tried first
                    return secret
        raise FederationError(f"shares: those of {self._names[party]!r} do not open its masks")

    def _sets_of_holders(
        self, present: list[int], known: dict[tuple[int, ...], Reconstruction]
    ) -> Iterator[tuple[int, ...]]:
        """Yield sets of parties whose shares are tried: those that were right before, then any."""
        yield from [holders for holders in reversed(known) if set(holders) <= set(present)]
        draws = fixed_generator()  # a forger who knows the order can only end the run
        for _ in range(_MOST_TRIES):
            chosen = draws.choice(present, self._quorum.threshold, replace=False)
            yield tuple(sorted(chosen.tolist()))

    def _need_party(self, party: int, taken: Mapping[int, object]) -> None:
        if party not in self._names or party in taken:
            raise FederationError("messages: of no party here, or a second one")

    def _need_tags(self, party: int, tags: Mapping[int, bytes]) -> None:
        whole = set(tags) == set(self._dealt) - {party}
        if not whole or any(len(tag) != TAG_BYTES for tag in tags.values()):
            raise FederationError("tags: of a wrong shape")

    def _need_enough(self, present: Mapping[int, object]) -> None:
        if len(present) < self._quorum.threshold:
            raise FederationError(
                f"parties: {len(present)} of {self._quorum.parties} are left, and "
                f"{self._quorum.threshold} are needed"
            )


def need_array(what: str, array: object, kind: type[np.generic], shape: tuple[int, ...]) -> None:
    """Refuse anything but an array of a dtype and shape."""
    if not isinstance(array, np.ndarray) or array.dtype != kind or array.shape != shape:
        raise FederationError(f"{what}: of a wrong shape")
