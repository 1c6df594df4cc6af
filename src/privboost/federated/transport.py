"""Transports of messages between the coordinator and the parties: in one process, or over gRPC.

Messages are sealed by the ends, so a transport is trusted with nothing. Over a network the
coordinator is a gRPC server with TLS, and each party opens one bidirectional stream to it:

1. The party names itself in the stream's metadata.
2. The server sends a challenge that only the party of that name can open, and counts the stream
   as that party's once the reply shows its key. Otherwise it ends the stream.
3. From then on the server sends requests, one at a time, and the party replies to each.
4. Status OK at the end of a stream means that the federation has ended; after any other status
   the party connects again.

Messages travel in chunks of at most `CHUNK_BYTES`, which is also gRPC's limit: a stream that has
not shown a key can make the server receive two chunks, no more.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Condition, Timer
from typing import Any, Protocol

from privboost._core.errors import FederationError
from privboost.federated.crypto import COORDINATOR, KeyPair, open_reply, random_bytes, seal_letter
from privboost.federated.messages import PRESENT, byte_array
from privboost.federated.party import Party

PATIENCE = 600.0
"""Seconds that an end waits for another; a party takes longest to load its rows."""
MAX_BYTES = 2**28
"""The longest message: 32 million sums."""
CHUNK_BYTES = 2**18
"""The longest chunk of a message."""
_MORE, _LAST = b"\0", b"\1"
"""First byte of a chunk: whether the message goes on in the next one."""
_POLL = 0.2
"""Seconds between two looks for an interruption: signals can arrive in a thread of gRPC's."""
_RECONNECT = 10.0
"""Seconds that a party has to come back once its connection is broken."""
_PROOF = 10.0
"""Seconds that a new connection has to answer the challenge."""
_GRACE = 3.0
"""Seconds that the server waits for streams to end before it cancels them."""
_RETRY = 1.0
"""Seconds between two attempts of a party to reach the coordinator."""
_SPARE = 8
"""Streams the server accepts beyond two for each party: its own, and one that replaces it."""
_SERVICE, _METHOD, _NAME = "privboost.Federation", "Join", "party-bin"
_OPTIONS = [
    ("grpc.max_receive_message_length", CHUNK_BYTES),
    ("grpc.max_send_message_length", CHUNK_BYTES),
    ("grpc.so_reuseport", 0),  # an address that is taken is an error
    # Both ends notice within 80 s that the other one is gone without a word.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 30_000),
]


class Transport(Protocol):
    """Carries requests to parties, and their replies back."""

    def gather(self, requests: Mapping[str, bytes]) -> Iterable[tuple[str, bytes]]:
        """Send each named party its request; yield names and replies until no more are awaited.

        A reply may be missing, late, doubled or forged: the caller checks its seal.
        """


class InProcess:
    """Transport to parties of this process."""

    def __init__(self, parties: Sequence[Party]) -> None:
        self._parties = {party.name: party for party in parties}

    def gather(self, requests: Mapping[str, bytes]) -> Iterable[tuple[str, bytes]]:
        """Yield the reply of one party after the other."""
        for name, request in requests.items():
            yield name, self._parties[name].receive(request)


class Challenge:
    """A sealed letter that only one party can open, made for one connection."""

    def __init__(self, key: bytes, name: str) -> None:
        self._key, self._name, self._nonce = key, name, byte_array(random_bytes())
        body = {"stage": PRESENT, "nonce": self._nonce}
        self.letter = seal_letter(key, COORDINATOR, name, body)

    def is_met_by(self, reply: bytes) -> bool:
        """Return whether a reply is the party's, to this challenge."""
        body = open_reply(self._key, COORDINATOR, self._name, reply, self._nonce)
        return body is not None and body.get("stage") == PRESENT


@dataclass(frozen=True, eq=False)
class _Request:
    """A request to one party, and the queue that takes the reply."""

    data: bytes
    replies: SimpleQueue[tuple[str, bytes]]


class _Connection:
    """A party's stream: requests for it wait in a queue, and None ends it."""

    def __init__(self, context: Any) -> None:
        self.context, self.requests = context, SimpleQueue[_Request | None]()


class FederationServer:
    """The coordinator's transport over a network: a gRPC server that parties connect to.

    A name is not believed: a connection counts as a party's once it has answered a challenge that
    only the owner of the party's key can open. The newest connection of a party replaces others.

    Parameters
    ----------
    address : str
        Where to listen, as in "0.0.0.0:8470"; port 0 leaves the choice to the operating system.
    certificate, certificate_key : bytes
        TLS certificate and its private key (PEM).
    identity : KeyPair
        The coordinator's long-lived key, which the parties have pinned.
    parties : mapping from str to bytes
        The public key of each party.
    patience : float
        Seconds to wait for all parties, and then for each reply.

    Attributes
    ----------
    address : str
        Where it listens, with the port that was chosen.
    unproved : set of str
        Names of parties under which a connection did not show the key.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from privboost.federated.key_files import write_certificate
    >>> from privboost.federated.crypto import KeyPair
    >>> with TemporaryDirectory() as folder:
    ...     tls = [path.read_bytes() for path in write_certificate(["localhost"], Path(folder))]
    >>> FederationServer("localhost:8470", *tls, KeyPair(), {"north": KeyPair().public})
    FederationServer('localhost:8470')
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
        self.address, self._patience = address, patience
        self._tls = certificate_key, certificate
        self._keys = {name: identity.shared(key) for name, key in parties.items()}
        self.unproved = set[str]()
        self._changed = Condition()
        self._connections: dict[str, _Connection] = {}
        self._pending: dict[str, _Request] = {}
        self._server: Any = None

    def __enter__(self) -> FederationServer:
        grpc = _import_grpc()
        most = 2 * len(self._keys) + _SPARE
        self._server = grpc.server(
            ThreadPoolExecutor(max_workers=most, thread_name_prefix="privboost"),
            options=_OPTIONS,
            maximum_concurrent_rpcs=most,
        )
        handler = grpc.stream_stream_rpc_method_handler(self._serve)
        handlers = grpc.method_handlers_generic_handler(_SERVICE, {_METHOD: handler})
        self._server.add_generic_rpc_handlers((handlers,))
        try:
            port = self._server.add_secure_port(
                self.address, grpc.ssl_server_credentials([self._tls])
            )
        except RuntimeError:
            port = 0
        if not port:
            raise FederationError(
                f"address: cannot listen on {self.address}: it is in use, or not this machine's"
            )
        self.address = f"{self.address.rpartition(':')[0]}:{port}"
        self._server.start()
        return self

    def __exit__(self, *error: object) -> None:
        with self._changed:
            for connection in self._connections.values():
                connection.requests.put(None)
        self._server.stop(_GRACE).wait()

    def wait_for(self, names: Iterable[str], tell: Callable[[str], None] | None = None) -> None:
        """Wait until all these parties have connected and shown their keys.

        Parameters
        ----------
        names : iterable of str
            The parties.
        tell : callable, optional
            Called with a line of text for each party that has connected.

        Raises
        ------
        FederationError
            If one of them has not connected within `patience`.
        """
        missing, until = set(names), time.monotonic() + self._patience
        while missing and (left := until - time.monotonic()) > 0:
            with self._changed:
                if missing.isdisjoint(self._connections):
                    self._changed.wait(min(left, _POLL))
                connected = missing & set(self._connections)
            for name in sorted(connected):
                if tell is not None:
                    tell(f"{name} is connected")
            missing -= connected
        if missing:
            text = f"parties: {', '.join(map(repr, sorted(missing)))} did not connect"
            if unproved := sorted(missing & self.unproved):
                text += (
                    f"; a connection as {', '.join(map(repr, unproved))} did not show the key: is "
                    "it the one pinned here?"
                )
            raise FederationError(text)

    def gather(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
        """Send each party its request; yield replies as they come.

        A request whose connection breaks is sent again over the party's next one. Ends when each
        party has replied, was gone for 10 seconds, or has used up `patience`.
        """
        if self._server is None:
            raise FederationError("the server is not started: use it in a with statement")
        replies = SimpleQueue[tuple[str, bytes]]()
        sent = {name: _Request(data, replies) for name, data in requests.items()}
        with self._changed:
            self._pending |= sent
            for name, request in sent.items():
                if name in self._connections:
                    self._connections[name].requests.put(request)
        now = time.monotonic()
        until, seen = now + self._patience, dict.fromkeys(sent, now)
        try:
            while seen and now < until:
                try:
                    name, reply = replies.get(timeout=min(until - now, _POLL))
                except Empty:
                    pass
                else:
                    if seen.pop(name, None) is not None:
                        yield name, reply
                now = time.monotonic()
                with self._changed:
                    seen |= dict.fromkeys(set(seen) & set(self._connections), now)
                seen = {name: last for name, last in seen.items() if now - last <= _RECONNECT}
        finally:
            with self._changed:
                for name, request in sent.items():
                    if self._pending.get(name) is request:
                        del self._pending[name]

    def _serve(self, chunks: Iterator[bytes], context: Any) -> Iterator[bytes]:
        """Yield the chunks that a stream sends, and read its replies in between."""
        import grpc

        name = dict(context.invocation_metadata()).get(_NAME, b"").decode(errors="replace")
        if name not in self._keys:
            context.set_code(grpc.StatusCode.UNAUTHENTICATED)
            return
        challenge = Challenge(self._keys[name], name)
        deadline = Timer(_PROOF, context.cancel)
        deadline.start()
        context.add_callback(deadline.cancel)
        yield from _chunks(challenge.letter)
        reply = _read(chunks, CHUNK_BYTES)
        deadline.cancel()
        if reply is None or not challenge.is_met_by(reply):
            with self._changed:
                self.unproved.add(name)
            context.set_code(grpc.StatusCode.UNAUTHENTICATED)
            return
        connection = self._register(name, context)
        while (request := connection.requests.get()) is not None:
            if self._pending.get(name) is not request:
                continue  # nobody waits for its reply any more
            yield from _chunks(request.data)
            reply = _read(chunks, MAX_BYTES)
            if reply is None:
                context.set_code(grpc.StatusCode.INVALID_ARGUMENT)
                return
            with self._changed:
                if self._pending.get(name) is request:
                    del self._pending[name]
            request.replies.put((name, reply))

    def _register(self, name: str, context: Any) -> _Connection:
        """Make a connection the party's own; it begins with the request that has no reply yet."""
        connection = _Connection(context)
        with self._changed:
            former = self._connections.get(name)
            self._connections[name] = connection
            if name in self._pending:
                connection.requests.put(self._pending[name])
            self._changed.notify_all()
        if former is not None:
            former.context.cancel()

        def leave() -> None:
            with self._changed:
                if self._connections.get(name) is connection:
                    del self._connections[name]
            connection.requests.put(None)

        if not context.add_callback(leave):  # it has ended already
            leave()
        return connection

    def __repr__(self) -> str:
        return f"FederationServer({self.address!r})"


def join_federation(
    party: Party, address: str, certificate: bytes | None = None, patience: float = PATIENCE
) -> None:
    """Connect a party to its coordinator, and reply until the coordinator ends the federation.

    A connection that breaks is made again, and the party waits for a coordinator that is not
    running yet.

    Parameters
    ----------
    party : Party
        The party.
    address : str
        The coordinator's address, as in "hospital.example:8470".
    certificate : bytes, optional
        The coordinator's certificate, or that of the authority which signed it (PEM); by default
        one of the authorities that gRPC trusts must have signed it.
    patience : float
        Seconds without a coordinator after which the party gives up.

    Raises
    ------
    FederationError
        If nobody answers at the address, or the certificate is another one.

    Privacy
    -------
    Spends at most what the party's account allows.
    """
    check_address(address)
    if not isinstance(certificate, bytes | None):
        raise TypeError("certificate must be the bytes of a PEM file")
    grpc = _import_grpc()
    credentials = grpc.ssl_channel_credentials(certificate)
    heard, greeted, printed = time.monotonic(), False, ""
    while True:
        began = time.monotonic()
        replies = SimpleQueue[bytes | None]()
        with grpc.secure_channel(address, credentials, _OPTIONS) as channel:
            stream = channel.stream_stream(f"/{_SERVICE}/{_METHOD}")
            chunks = stream(iter(replies.get, None), metadata=((_NAME, party.name.encode()),))
            try:
                while (request := _read(chunks, MAX_BYTES)) is not None:
                    heard = time.monotonic()
                    if not greeted:
                        party.say("connected; the coordinator waits until all parties are")
                        greeted = True
                    for chunk in _chunks(party.receive(request)):
                        replies.put(chunk)
            finally:
                chunks.cancel()  # no-op where the stream has ended
                replies.put(None)
            if chunks.code() is grpc.StatusCode.OK:
                return
        details = str(chunks.details()).lower()
        if "certificate" in details or "hostname" in details:  # of OpenSSL, and of gRPC
            raise FederationError(
                f"certificate: the one of {address} is not the one that this party trusts"
            )
        reason = f"nobody answers at {address}"
        if chunks.code() is grpc.StatusCode.UNAUTHENTICATED:
            reason = "it refused the key of this party: is it the one pinned there?"
        elif heard > began:
            reason = "the connection ended"
        if time.monotonic() - heard > patience:
            raise FederationError(f"coordinator: {reason}")
        if reason != printed:
            party.say(f"coordinator: {reason}; trying again for {patience:g} s")
            printed = reason
        time.sleep(_RETRY)


def check_address(address: str) -> None:
    """Raise ValueError unless an address is host:port."""
    host, _, port = address.rpartition(":")
    if not (host and port.isdecimal() and int(port) < 2**16):
        raise ValueError(f"{address}: an address is host:port, as in hospital.example:8470")


def _import_grpc() -> Any:
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # errors are reported by this module
    try:
        import grpc
    except ImportError:
        raise FederationError(
            "a federation over a network needs grpcio: pip install 'privboost[federated]'"
        ) from None
    return grpc


def _chunks(message: bytes) -> Iterator[bytes]:
    """Yield the chunks of a message."""
    size = CHUNK_BYTES - 1
    for start in range(0, max(len(message), 1), size):
        flag = _LAST if start + size >= len(message) else _MORE
        yield flag + message[start : start + size]


def _read(chunks: Iterable[bytes], limit: int) -> bytes | None:
    """Return the next message of a stream; None where it ends, breaks, or is too long."""
    import grpc

    parts, size = [], 0
    try:
        for chunk in chunks:
            flag = chunk[:1]
            parts.append(chunk[1:])
            size += len(chunk)
            if flag not in (_MORE, _LAST) or size > limit:
                return None
            if flag == _LAST:
                return b"".join(parts)
    except grpc.RpcError:
        pass
    return None
