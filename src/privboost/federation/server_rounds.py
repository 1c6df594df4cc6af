"""The server adds up masked sums, and removes the masks with the seeds that parties open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from privboost.errors import FederationError
from privboost.federation.masks import add_masks, crypt_seeds
from privboost.federation.party_rounds import TAG_BYTES, Dealt, commit
from privboost.federation.quorum import Quorum
from privboost.federation.shares import SECRET_BYTES, SHARE_BYTES, Reconstruction
from privboost.randomness.public_choices import fixed_generator

_MOST_TRIES = 3000
"""Sets of shares that are tried where some were forged, before a round is given up: with one of
ten parties to spare, a set without three forgers is among them nine times out of ten."""


class ServerRounds:
    """The server's side of the rounds of a session.

    A batch of rounds is begun and dealt; then each round takes masked sums, fixes the survivors,
    takes confirmations and shares, and has a total. Input that is out of order, a second one, or
    of another shape raises, and changes nothing.

    Parameters
    ----------
    quorum : Quorum
        Numbers of parties.
    names : mapping from int to str
        Names of the parties in the session, by number.
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
    def next_round(self) -> int:
        """The first round that has not begun."""
        return self._round + 1

    @property
    def is_dealt(self) -> bool:
        """Whether the next round has seeds."""
        return self.next_round in self._batch

    def begin_batch(self, count: int) -> int:
        """Begin a batch of rounds; return the first of them."""
        first = max(self.next_round, self._batch.stop)
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
        self._round, self._length = self.next_round, length
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

    def _need_tags(self, party: int, tags: Mapping[int, bytes]) -> None:
        whole = set(tags) == set(self._dealt) - {party}
        if not whole or any(len(tag) != TAG_BYTES for tag in tags.values()):
            raise FederationError("tags: of a wrong shape")

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
