"""The coordinator's transport by Flower: a server that parties connect to."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from queue import Empty, SimpleQueue
from threading import Event
from types import TracebackType
from typing import Any

from privboost.errors import FederationError
from privboost.federation.flower import LOOK, MOST_BYTES, PATIENCE, check_address, open_flower
from privboost.federation.flower_meeting import Meeting
from privboost.federation.keys import KeyPair
from privboost.federation.presence import Presence


class FlowerServer:
    """The coordinator's transport: parties connect to it, each under its name.

    Whoever connects may say any name. A name is not believed: a connection counts once it has
    answered a challenge that only the party of that name can read.

    Parameters
    ----------
    address : str
        Where to listen, as in "0.0.0.0:8470".
    certificate, certificate_key : bytes
        What TLS shows to parties, and the key to it (PEM).
    identity : KeyPair
        The coordinator's long-lived key, which the parties have pinned.
    parties : mapping from str to bytes
        The public key of each party.
    patience : float
        Seconds to wait for an answer.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from privboost.federation.key_files import write_certificate
    >>> from privboost.federation.keys import KeyPair
    >>> with TemporaryDirectory() as folder:
    ...     tls = [path.read_bytes() for path in write_certificate(["localhost"], Path(folder))]
    >>> FlowerServer("localhost:8470", *tls, KeyPair(), {"north": KeyPair().public})
    FlowerServer('localhost:8470')
    """

    def __init__(
        self,
        address: str,
        certificate: bytes,
        certificate_key: bytes,
        identity: KeyPair,
        parties: Mapping[str, bytes],
        patience: float = PATIENCE,
    ) -> None:
        check_address(address)
        self._address, self._patience = address, patience
        self._certificates = certificate, certificate, certificate_key
        self._meeting = Meeting(Presence(identity, parties))
        self._server: Any = None

    def __enter__(self) -> FlowerServer:
        open_flower()
        from flwr.proto.transport_pb2_grpc import add_FlowerServiceServicer_to_server
        from flwr.supercore.grpc import generic_create_grpc_server

        _try_to_listen(self._address)
        self._server = generic_create_grpc_server(
            (self._meeting.servicer(), add_FlowerServiceServicer_to_server),
            self._address,
            max_message_length=MOST_BYTES,
            certificates=self._certificates,
        )
        self._server.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._meeting.dismiss()
        self._server.stop(grace=1).wait()

    def wait_for(self, names: Iterable[str], tell: Callable[[str], None] | None = None) -> None:
        """Wait until all these parties have connected and shown their keys.

        It refuses to go on without one.

        Parameters
        ----------
        names : iterable of str
            The parties.
        tell : callable, optional
            Is told of each that comes.
        """
        missing, until = set(names), time.monotonic() + self._patience
        while missing and time.monotonic() < until:
            there = self._meeting.wait_for_any(missing, min(until - time.monotonic(), LOOK))
            for name in sorted(there):
                if tell is not None:
                    tell(f"{name} is here")
            missing -= there
        if missing:
            words = f"parties: {', '.join(map(repr, sorted(missing)))} did not come"
            if unproved := sorted(missing & self._meeting.unproved):
                words += (
                    f"; somebody said to be {', '.join(map(repr, unproved))}, and did not show the "
                    "key: is it the one pinned here?"
                )
            raise FederationError(words)

    def gather(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
        """Send each party its request; yield replies as they come, until patience ends."""
        if self._server is None:
            raise FederationError("the server is not started: use it in a with statement")
        until = time.monotonic() + self._patience
        replies: SimpleQueue[tuple[str, bytes] | None] = SimpleQueue()
        over = Event()
        for name, request in requests.items():
            self._meeting.ask(name, request, until, over, replies.put)
        awaited = len(requests)
        try:
            # Until patience ends: whoever is missing then is lost.
            while awaited and (left := until - time.monotonic()) > 0:
                try:
                    reply = replies.get(timeout=min(left, LOOK))
                except Empty:
                    continue
                if reply is None:
                    awaited -= 1
                else:
                    yield reply
        finally:
            over.set()
            self._meeting.wake()

    def __repr__(self) -> str:
        return f"FlowerServer({self._address!r})"


def _try_to_listen(address: str) -> None:
    """Refuse an address that is taken or not this machine's, in words of our own."""
    host, port = check_address(address)
    try:
        family, kind, *_, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as held:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind(place)
    except OSError as error:
        raise FederationError(
            f"address: {address} cannot be listened on: {error.strerror}"
        ) from None
