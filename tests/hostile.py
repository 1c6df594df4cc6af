"""A backend that does everything an honest but unlucky cluster could do.

It serialises every message, cuts the rows into random partitions in random order, answers in
random order, and kills shards, which come back with their rows only and replay what was released.
"""

from __future__ import annotations

import numpy as np

from privboost.engine.backend import add_answers
from privboost.engine.block import join
from privboost.engine.commands import from_bytes, to_bytes
from privboost.engine.shard import Shard
from privboost.grid import BLOCK_ROWS


class HostileBackend:
    def __init__(self, blocks, seed=0, death_rate=0.1):
        self._rng = np.random.default_rng(seed)
        self._death_rate = death_rate
        self._log: list[bytes] = []
        self._rows = [self._cut(part) for part in self._partition(blocks)]
        self._shards = [Shard(rows) for rows in self._rows]
        self.deaths = 0

    def sum(self, query):
        message = to_bytes(query)
        self._kill_some()
        order = self._rng.permutation(len(self._shards))
        return add_answers([self._shards[k].sum(from_bytes(message)) for k in order])

    def apply(self, update):
        message = to_bytes(update)
        self._log.append(message)
        for k in self._rng.permutation(len(self._shards)):
            self._shards[k].apply(from_bytes(message))

    def close(self):
        self._shards, self._rows = [], []

    def _kill_some(self):
        for k in np.flatnonzero(self._rng.random(len(self._shards)) < self._death_rate):
            self.deaths += 1
            self._shards[k] = Shard(self._rows[k])
            for message in self._log:
                self._shards[k].apply(from_bytes(message))

    def _partition(self, blocks):
        """Deal the rows out at random; some parties may hold nothing."""
        parties = [[] for _ in range(5)]
        for cohort in sorted({block.cohort for block in blocks}):
            rows = join([block for block in blocks if block.cohort == cohort])
            party = self._rng.integers(0, self._rng.integers(1, 6), len(rows))
            for k, held in enumerate(parties):
                held.append(rows.take(self._rng.permutation(np.flatnonzero(party == k))))
        return parties

    def _cut(self, blocks):
        """Cut a party's rows into blocks of random sizes."""
        out = []
        for block in blocks:
            at = 0
            while at < len(block):
                size = int(self._rng.integers(1, min(BLOCK_ROWS, len(block)) + 1))
                out.append(block.take(np.arange(at, min(at + size, len(block)))))
                at += size
        return out
