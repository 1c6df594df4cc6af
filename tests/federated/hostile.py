"""A network that does all it can: it delays, doubles, reorders, forges and drops messages."""

from __future__ import annotations

import random


class HostileNetwork:
    """Carries messages between a coordinator and parties of one process.

    Parameters
    ----------
    parties : sequence of Party
        The parties.
    seed : int
        Of all mischief.
    losses : dict from (int, str) to str
        Who is lost in which exchange: the "request" does not arrive, or the "reply".
    """

    def __init__(self, parties, seed=0, losses=None):
        self._parties = {party.name: party for party in parties}
        self._rng = random.Random(seed)
        self._losses = losses or {}
        self._gone = set()
        self._old = [(name, b"junk") for name in self._parties]
        self.exchanges = 0

    def gather(self, requests):
        """Deliver requests in any order, old and forged ones among them; the same with replies."""
        rng, number = self._rng, self.exchanges
        self.exchanges += 1
        replies = []
        mail = [*requests.items(), *rng.sample(self._old, min(4, len(self._old)))]
        mail += [(name, self._bent(data)) for name, data in requests.items() if rng.random() < 0.3]
        mail += [item for item in requests.items() if rng.random() < 0.3]
        rng.shuffle(mail)
        for name, data in mail:
            lost = self._losses.get((number, name))
            if lost is not None:
                self._gone.add(name)
            if name in self._gone and not (lost == "reply" and requests.get(name) == data):
                continue
            reply = self._parties[name].receive(data)
            if lost is None:
                replies.append((name, reply))
            self._old.append((name, reply))
        self._old += requests.items()
        replies += [(name, self._bent(data)) for name, data in replies if rng.random() < 0.3]
        replies += rng.sample(self._old, min(4, len(self._old)))  # also sent back to whoever asked
        replies += [("nobody", b""), *(item for item in replies if rng.random() < 0.3)]
        rng.shuffle(replies)
        return replies

    def _bent(self, data):
        """Change a bit, or cut something off."""
        if not data or self._rng.random() < 0.2:
            return data[:-1]
        at = self._rng.randrange(len(data))
        return data[:at] + bytes([data[at] ^ 1 << self._rng.randrange(8)]) + data[at + 1 :]
