"""How messages get to parties and back. Who carries them is trusted with nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from privboost.federation.party import Party


class Transport(Protocol):
    """Carries requests to parties, and their replies back."""

    def gather(self, requests: Mapping[str, bytes]) -> Iterable[tuple[str, bytes]]:
        """Send each named party its request; yield names and replies until no more are awaited.

        A reply may be missing, late, doubled or forged: whoever asked finds out.
        """


class InProcess:
    """Parties that live in this process.

    Parameters
    ----------
    parties : sequence of Party
        The parties.
    """

    def __init__(self, parties: Sequence[Party]) -> None:
        self._parties = {party.name: party for party in parties}

    def gather(self, requests: Mapping[str, bytes]) -> Iterable[tuple[str, bytes]]:
        """Ask one party after the other."""
        for name, request in requests.items():
            yield name, self._parties[name].receive(request)
