"""Who is connected to the coordinator by Flower, under which name, and has shown its key."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from threading import Condition, Event
from typing import Any

from privboost.federation.presence import Presence

_RETURN = 10.0
"""Seconds that a party has to come back, once its connection is broken."""
_GREETING = 10.0
"""Seconds that whoever connects has to say a name, and then to show that it has the key."""
_FAREWELL = 3.0
"""Seconds that parties have to go, once they were told that it is over."""
_LONGEST = 2**14
"""Bytes of a message that is taken from a connection which has shown no key."""
_BEFORE = 2
"""Messages that are taken from it: a name, and an answer to a challenge."""
_SPARE = 8
"""Connections without a proof that are held at once, beside one for each party."""
_MOST_CALLS = 2**14
"""Threads that wait for parties: two for each, with room for connections of nobody."""


class Incoming:
    """The messages of one connection: few and short ones, until it has shown a key.

    Flower reads ahead of its questions, as much as comes.

    Parameters
    ----------
    messages : iterator
        The messages.
    """

    def __init__(self, messages: Iterator[Any]) -> None:
        self._messages, self._taken = messages, 0
        self._judged, self._trusted = Event(), False

    def judge(self, trusted: bool) -> None:
        """Let everything in from now on, or nothing more."""
        self._trusted = trusted
        self._judged.set()

    def __iter__(self) -> Incoming:
        return self

    def __next__(self) -> Any:
        if self._taken >= _BEFORE:
            self._judged.wait()
        if self._judged.is_set() and not self._trusted:
            raise StopIteration
        message = next(self._messages)
        self._taken += 1
        if self._taken <= _BEFORE and message.ByteSize() > _LONGEST:
            del message  # the error would keep it
            raise ValueError("a message that is too long")
        return message


class Meeting:
    """Who is connected, under which name. A connection counts once it has shown the party's key.

    One that does not is closed, and so is one that comes while too many have yet to show theirs.

    Parameters
    ----------
    presence : Presence
        Makes a challenge for each connection.

    Attributes
    ----------
    unproved : set of str
        Names that somebody has said without showing the key.
    """

    def __init__(self, presence: Presence) -> None:
        self._presence, self.unproved = presence, set[str]()
        self._changed = Condition()
        self._connected: list[Any] = []
        self._unjudged: dict[Any, float] = {}
        self._lines: dict[str, list[Any]] = {}
        self._calls = ThreadPoolExecutor(max_workers=_MOST_CALLS, thread_name_prefix="privboost")

    def manager(self) -> Any:
        """Return what Flower tells of connections."""
        from flwr.server import SimpleClientManager

        meeting = self

        class Manager(SimpleClientManager):  # type: ignore[misc]
            def register(self, client: Any) -> bool:
                taken: bool = super().register(client)
                if taken and meeting._let_in(client):
                    meeting._calls.submit(meeting._greet, client)
                return taken

            def unregister(self, client: Any) -> None:
                super().unregister(client)
                meeting._leave(client)

        return Manager()

    def servicer(self) -> Any:
        """Return what answers connections: Flower's own, which reads `Incoming`."""
        from flwr.proto.transport_pb2_grpc import FlowerServiceServicer as Answering
        from flwr.server.superlink.fleet.grpc_bidi.flower_service_servicer import (
            FlowerServiceServicer,
        )
        from flwr.server.superlink.fleet.grpc_bidi.grpc_client_proxy import GrpcClientProxy

        manager = self.manager()

        class Servicer(Answering):  # type: ignore[misc]
            def Join(self, request_iterator: Any, context: Any) -> Any:
                incoming = Incoming(request_iterator)

                def line(cid: str, bridge: Any) -> Any:
                    made = GrpcClientProxy(cid, bridge)
                    made.incoming = incoming
                    return made

                flower = FlowerServiceServicer(manager, grpc_client_proxy_factory=line)
                return flower.Join(incoming, context)

        return Servicer()

    def wait_for_any(self, names: set[str], patience: float) -> set[str]:
        """Wait until one of these parties has come; return all that are there."""
        with self._changed:
            self._changed.wait_for(lambda: names & set(self._lines), patience)
            return names & set(self._lines)

    def ask(
        self,
        name: str,
        request: bytes,
        until: float,
        over: Event,
        put: Callable[[tuple[str, bytes] | None], None],
    ) -> None:
        """Ask a party over every connection it has, and over those it makes, until all is over.

        None says that nobody is asked any more, and nobody has come for a while.
        """
        waiting: list[Any] = []

        def call(line: Any) -> None:
            reply = _ask(line, request, until)
            if reply is not None:
                put((name, reply))
            with self._changed:
                waiting.remove(line)
                self._changed.notify_all()

        def follow() -> None:
            asked: list[Any] = []
            last = time.monotonic()
            while not over.is_set() and (now := time.monotonic()) < until:
                with self._changed:
                    new = [line for line in self._lines.get(name, ()) if line not in asked]
                    last = now if new or waiting else last
                    if now - last > _RETURN:
                        break
                    waiting.extend(new)
                    if not new:
                        self._changed.wait(min(until - now, _RETURN / 4))
                for line in new:
                    asked.append(line)
                    self._calls.submit(call, line)
            put(None)

        self._calls.submit(follow)

    def wake(self) -> None:
        """Have whoever waits look whether it is over."""
        with self._changed:
            self._changed.notify_all()

    def dismiss(self) -> None:
        """Tell everybody that it is over, and wait a moment for them to go."""
        from flwr.common import ReconnectIns

        until = time.monotonic() + _FAREWELL

        def tell(line: Any) -> None:
            while line in self._all() and time.monotonic() < until:  # it may be busy
                _quietly(lambda: line.reconnect(ReconnectIns(None), _FAREWELL, None))
                time.sleep(0.05)

        wait([self._calls.submit(tell, line) for line in self._all()], timeout=_FAREWELL)
        self._calls.shutdown(wait=False, cancel_futures=True)

    def _all(self) -> list[Any]:
        with self._changed:
            return list(self._connected)

    def _let_in(self, line: Any) -> bool:
        """Take a connection, or close it where too many are there that have shown no key."""
        now = time.monotonic()
        with self._changed:
            for old, since in self._unjudged.items():
                if now - since > 3 * _GREETING:  # it was gone before Flower could say so
                    old.bridge.close()
            if len(self._unjudged) < self._presence.n_parties + _SPARE:
                self._connected.append(line)
                self._unjudged[line] = now
                return True
        line.incoming.judge(False)
        line.bridge.close()
        return False

    def _greet(self, line: Any) -> None:
        """Have a connection show the key of the party that it says to be; else close it."""
        if self._is_proved(line):
            line.incoming.judge(True)
        else:
            line.bridge.close()
            self._leave(line)

    def _is_proved(self, line: Any) -> bool:
        from flwr.common import GetPropertiesIns

        found = _quietly(lambda: line.get_properties(GetPropertiesIns({}), _GREETING, None))
        name = None if found is None else found.properties.get("name")
        if not isinstance(name, str) or (challenge := self._presence.challenge(name)) is None:
            return False
        answer = _ask(line, challenge.letter, time.monotonic() + _GREETING)
        with self._changed:
            if line not in self._connected:
                return False  # it has left meanwhile
            if answer is None or not challenge.is_met_by(answer):
                self.unproved.add(name)
                return False
            del self._unjudged[line]
            self._lines.setdefault(name, []).append(line)
            self._changed.notify_all()
            return True

    def _leave(self, line: Any) -> None:
        line.incoming.judge(False)
        with self._changed:
            self._unjudged.pop(line, None)
            self._connected = [each for each in self._connected if each is not line]
            for name, lines in list(self._lines.items()):
                self._lines[name] = [each for each in lines if each is not line]
                if not self._lines[name]:
                    del self._lines[name]


def _ask(line: Any, request: bytes, until: float) -> bytes | None:
    """Return what comes back over a line; None where it breaks."""
    from flwr.common import FitIns, Parameters

    ins = FitIns(Parameters([request], ""), {})
    found = _quietly(lambda: line.fit(ins, max(until - time.monotonic(), 0.0), None))
    tensors: list[bytes] = [] if found is None else found.parameters.tensors
    return tensors[0] if len(tensors) == 1 else None


def _quietly(act: Callable[[], Any]) -> Any:
    """Return what an act gives; None where the connection, or what came over it, is broken."""
    try:
        return act()
    except Exception:  # Flower has no common kind of errors for it
        return None
