"""Parts of messages as they travel, and how an end that does not trust the sender reads them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from privboost._core.errors import FederationError
from privboost.accounting.events import Event, Planned, SampledGroup
from privboost.accounting.individual_budgets import IndividualBudget
from privboost.accounting.noisy_sums import GaussianRelease, Parallel
from privboost.federated.crypto import KEY_BYTES

_MAX_PRINTED = 1000
PRESENT = "present"
"""The stage of a connection's challenge, and of the reply to it."""


def byte_array(data: bytes) -> np.ndarray:
    """Return bytes as an array, which messages can hold."""
    return np.frombuffer(data, dtype=np.uint8)


def key_bytes(body: Mapping[str, Any], name: str) -> bytes:
    """Return a key of a message."""
    value = body.get(name)
    if not isinstance(value, np.ndarray) or value.dtype != np.uint8 or len(value) != KEY_BYTES:
        raise FederationError("messages: not one of this version")
    return value.tobytes()


def whole(body: Mapping[str, Any], name: str) -> int:
    """Return an integer of a message."""
    value = body.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise FederationError(f"messages: {name} must be an integer")
    return value


def text(body: Mapping[str, Any], name: str) -> str:
    """Return a string of a message."""
    value = body.get(name)
    if not isinstance(value, str):
        raise FederationError(f"messages: {name} must be a string")
    return value


def pack(rows: Sequence[bytes]) -> np.ndarray:
    """Return byte strings of one length as the rows of an array."""
    size = len(rows[0]) if rows else 0
    return np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(len(rows), size)


def write_bytes(by_party: Mapping[int, bytes]) -> dict[str, Any]:
    """Return byte strings by party, all of one length, as a part of a message."""
    parties = np.array(list(by_party), dtype=np.int32)
    return {"of": parties, "bytes": pack(list(by_party.values()))}


def read_bytes(part: Any) -> dict[int, bytes]:
    """Return the byte strings by party that `write_bytes` wrote."""
    of, rows = (part.get("of"), part.get("bytes")) if isinstance(part, dict) else (None, None)
    if not (
        isinstance(of, np.ndarray)
        and isinstance(rows, np.ndarray)
        and (of.dtype, rows.dtype) == (np.int32, np.uint8)
        and rows.ndim == 2
        and of.shape == rows.shape[:1]
    ):
        raise FederationError("messages: not one of this version")
    return {party: row.tobytes() for party, row in zip(of.tolist(), rows, strict=True)}


def printable(message: str) -> str:
    """Return text of another end without control characters, cut to a printable length."""
    return "".join(c if c.isprintable() else "?" for c in message[:_MAX_PRINTED])


class Catalogue:
    """The events of a plan, numbered alike by every end: a query names the one that pays for it."""

    def __init__(self, releases: Sequence[Planned]) -> None:
        self._events: list[Event] = []
        self.add(releases)

    def add(self, releases: Sequence[Planned]) -> None:
        """Number further events: exchanged ones, and those that rows pay for themselves.

        A number permits nothing: ledgers decide.
        """
        for planned in releases:
            inner = planned.event.inner if isinstance(planned.event, SampledGroup) else ()
            for event in (planned.event, *(each.event for each in inner)):
                if event not in self._events:
                    self._events.append(event)

    def __contains__(self, event: Event) -> bool:
        return event in self._events

    def number(self, event: Event) -> int:
        """Return the number of an event."""
        return self._events.index(event)

    def __getitem__(self, number: Any) -> Event:
        if not isinstance(number, int) or not 0 <= number < len(self._events):
            raise FederationError("plan: it has no such release")
        return self._events[number]

    @property
    def life(self) -> IndividualBudget:
        """The individual privacy filter of the rows."""
        found = [event for event in self._events if isinstance(event, IndividualBudget)]
        if len(found) != 1:
            raise FederationError("plan: rows have no budgets in it")
        return found[0]

    @property
    def parallel(self) -> Parallel:
        """A release of units put aside."""
        for event in self._events:
            if isinstance(event, Parallel):
                return event
        raise FederationError("plan: no units are put aside")


def asked_digest(query: bytes, event: Event) -> bytes:
    """Return SHA-256 of a query and of the event that it is charged to, with its noise."""
    return hashlib.sha256(_event_digest(event) + query).digest()


@lru_cache(maxsize=64)
def _event_digest(event: Event) -> bytes:
    return hashlib.sha256(json.dumps(event.to_dict(), sort_keys=True).encode()).digest()


def write_releases(releases: Sequence[Planned]) -> list[dict[str, Any]]:
    """Return Gaussian releases as a part of a message."""
    return [{"count": p.count, "event": p.event.to_dict()} for p in releases]


def read_releases(part: Any) -> list[Planned]:
    """Return the releases that `write_releases` wrote."""
    try:
        return [Planned(_read_event(dict(each["event"])), each["count"]) for each in part]
    except (LookupError, TypeError, ValueError):
        raise FederationError("plan: these are no releases") from None


def _read_event(event: dict[str, Any]) -> GaussianRelease:
    if event.pop("kind") != GaussianRelease.kind:
        raise ValueError("only Gaussian releases are exchanged")
    return GaussianRelease(**event | {"shares": tuple(event["shares"])})
