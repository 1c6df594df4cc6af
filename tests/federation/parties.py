"""Federations of one process, made from one table."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from privboost import Federation, Party
from privboost.models.files import model_bytes

ALLOWED = {"accept_seed": True, "tell_rows": True, "trust_server": True, "colluders": 0}
"""What parties must allow to take part in everything."""


def cut(frame, parties):
    """Cut a table into the rows of parties, in order; the second has none."""
    ends = np.linspace(0, len(frame), parties).astype(int)
    ends = np.insert(ends, 1, ends[1])
    return [frame.iloc[first:last] for first, last in pairwise(ends)]


def make_parties(frame, parties, epsilon=100.0, delta=1e-3, **how):
    """Parties that take part in everything; tests of what they refuse say so."""
    how = ALLOWED | {"weight": "weight", "least_parties": 2} | how
    rows = frame if isinstance(frame, list) else cut(frame, parties)
    return [Party(f"p{k}", own, epsilon, delta, **how) for k, own in enumerate(rows)]


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
