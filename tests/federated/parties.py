"""Federations of one process, made from one table."""

from __future__ import annotations

from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from privboost import BudgetStore, Federation, Party
from privboost.models.model import model_bytes

ALLOWED = {"accept_seed": True, "tell_rows": True, "trust_server": True, "colluders": 0}
"""What parties must allow to take part in everything seeded."""
SECURE = ALLOWED | {"accept_seed": False}
"""The same of runs that are charged to an account."""
_FOLDER = TemporaryDirectory()
_STORE = BudgetStore(Path(_FOLDER.name) / "store.db")
_NUMBERS = count()


def open_account(epsilon=100.0, delta=1e-3, store=_STORE, **kind):
    """A new account, of a name that no other has."""
    return store.open(f"rows {next(_NUMBERS)}", epsilon, delta, **kind)


def entries(party):
    """How many runs were charged to a party's account."""
    return len(party.budget.balance().entries)


def cut(frame, parties):
    """Cut a table into the rows of parties, in order; the second has none."""
    ends = np.linspace(0, len(frame), parties).astype(int)
    ends = np.insert(ends, 1, ends[1])
    return [frame.iloc[first:last] for first, last in pairwise(ends)]


def make_parties(frame, parties, account=None, **how):
    """Parties that take part in everything seeded; tests of what they refuse say so.

    With an account (what it is opened with) they take part in everything else instead.
    """
    allowed = ALLOWED if account is None else SECURE
    how = allowed | {"weight": "weight", "least_parties": 2} | how
    rows = frame if isinstance(frame, list) else cut(frame, parties)
    return [
        Party(f"p{k}", own, None if account is None else open_account(**account), **how)
        for k, own in enumerate(rows)
    ]


def bring(parties, colluders=0, trust="server", **quorum):
    """Bring parties together; a trusted server, so that one seed has one model."""
    return Federation.of(parties, colluders, trust=trust, **quorum)


def federate(frame, parties, how=None, **quorum):
    return bring(make_parties(frame, parties, **(how or {})), **quorum)


def agree(party, **how):
    """Have a party change what it allows."""
    party._consent = replace(party._consent, **how)


def same_model(one, other):
    """Whether two models are the same file, but for what their reports say of a federation."""
    told = [replace(model, privacy=one.privacy) for model in (one, other)]
    return model_bytes(told[0]) == model_bytes(told[1])
