"""A backend that does everything an honest but unlucky cluster could do.

Its parties load their rows themselves, from parts of random sizes, with a loader that travelled as
bytes; some parts are empty, and a party that dies loads its rows again and replays what was
released. It serialises every message and answers in random order.
"""

from __future__ import annotations

import numpy as np

from privboost._core.grid import BLOCK_ROWS
from privboost.data.contribution_bound import bound_units, number_units, without
from privboost.data.loading import Coded, Load, code_piece, read_loader
from privboost.data.rows import join
from privboost.engine.backend import add_sums, add_tallies
from privboost.engine.queries import Query
from privboost.engine.shard import Shard
from privboost.engine.updates import Update

PARTIES = 5


def travelled(loader):
    """The loader as another process reads it."""
    return read_loader(loader.to_bytes())


class HostileBackend:
    def __init__(self, rows, seed=0, death_rate=0.1):
        """Take loads, or blocks of rows that are coded already."""
        self._rng = np.random.default_rng(seed)
        self._death_rate = death_rate
        self._log: list[bytes] = []
        if not all(isinstance(each, Load) for each in rows):
            cohorts = sorted({block.cohort for block in rows})
            rows = [Load(None, Coded(tuple(b for b in rows if b.cohort == k))) for k in cohorts]
        self._loads = rows
        self._deal = int(self._rng.integers(0, 2**31))
        self._shards = [self._load(k) for k in range(PARTIES)]
        self.deaths = 0

    def sum(self, query):
        message = query.to_bytes()
        self._kill_some()
        order = self._rng.permutation(len(self._shards))
        return add_sums([self._shards[k].sum(Query.from_bytes(message)) for k in order])

    def apply(self, update):
        message = update.to_bytes()
        self._log.append(message)
        for k in self._rng.permutation(len(self._shards)):
            self._shards[k].apply(Update.from_bytes(message))

    def tally(self):
        self._kill_some()
        return add_tallies(shard.tally() for shard in self._shards)

    def close(self):
        self._shards, self._loads = [], []

    def _kill_some(self):
        # The longer the log the more rarely: whoever dies is told all of it again.
        rate = self._death_rate * min(1, 10 / (1 + len(self._log)))
        for k in np.flatnonzero(self._rng.random(len(self._shards)) < rate):
            self.deaths += 1
            self._shards[k] = self._load(k)
            for message in self._log:
                self._shards[k].apply(Update.from_bytes(message))

    def _load(self, party):
        """Load what one party holds: the same rows whenever it is asked, cut anew each time."""
        blocks, known = [], []
        for load in self._loads:
            held, names = self._share(load, party, known)
            blocks += self._cut(held)
            known += [] if names is None else [names]
        return Shard(blocks)

    def _share(self, load, party, known):
        """Deal rows to parties at random: by row, or by unit where units must stay together."""
        if isinstance(load.source, Coded):
            held = load.source.blocks
            return [self._mine(join(held), party)] if held else [], load.source.units
        loader = travelled(load.loader)
        size = int(self._rng.integers(60, 1000))
        rows, units = [], []
        for piece in load.source.pieces(loader.columns, size):
            for coded in code_piece(loader, piece):
                rows.append(coded.rows)
                units.append(coded.units)
        if not rows:
            return [], None if loader.unit is None else number_units([])[1]
        if loader.unit is None:
            return [self._mine(join(rows), party)], None
        unit, names = number_units(units)
        unit = without(unit, names, known)
        whole = join(rows)
        mine = self._is_mine(np.where(unit < 0, 0, unit), party)
        own = whole.take(mine)
        return bound_units([own], unit[mine], names, loader.unit), names

    def _is_mine(self, keys, party):
        """Deal keys out; some parties may hold nothing."""
        rng = np.random.default_rng(self._deal)
        parties = int(rng.integers(1, PARTIES + 1))
        owner = rng.integers(0, parties, int(keys.max(initial=0)) + 1)
        return owner[keys] == party

    def _mine(self, rows, party):
        return rows.take(np.flatnonzero(self._is_mine(np.arange(len(rows)), party)))

    def _cut(self, blocks):
        """Cut a party's rows into blocks of random sizes, in random order."""
        out = []
        for block in blocks:
            shuffled = block.take(self._rng.permutation(len(block)))
            at = 0
            while at < len(shuffled):
                size = int(self._rng.integers(1, min(BLOCK_ROWS, len(shuffled)) + 1))
                out.append(shuffled.take(np.arange(at, min(at + size, len(shuffled)))))
                at += size
        return out
