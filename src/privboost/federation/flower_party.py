"""How a party joins its coordinator by Flower, and stays."""

from __future__ import annotations

import time
from queue import SimpleQueue
from threading import Thread
from typing import Any

from privboost.errors import FederationError
from privboost.federation.flower import LOOK, MOST_BYTES, PATIENCE, check_address, open_flower
from privboost.federation.party import Party

_PAUSE = 1.0
"""Seconds between two attempts to reach the coordinator."""


def join_federation(
    party: Party, address: str, certificate: bytes | None = None, patience: float = PATIENCE
) -> None:
    """Connect a party to its coordinator, and answer until the coordinator says that it is over.

    A connection that breaks is made again, and a coordinator that is not there yet is waited for.

    Parameters
    ----------
    party : Party
        The party.
    address : str
        The coordinator's, as in "hospital.example:8470".
    certificate : bytes, optional
        The coordinator's certificate, or that of who signed it (PEM); by default it must be one
        that this machine trusts anyway.
    patience : float
        Seconds without a coordinator after which the party gives up.

    Privacy
    -------
    Spends what the party's limit allows, and no more.
    """
    check_address(address)
    if not isinstance(certificate, bytes | None):
        raise TypeError("certificate must be the bytes of a PEM file")
    line = _party_client(open_flower(), party)
    ended: SimpleQueue[BaseException | None] = SimpleQueue()

    def stay() -> None:
        try:
            _stay(line, party, address, certificate, patience)
            ended.put(None)
        except BaseException as error:
            ended.put(error)

    # Beside the main thread, since Flower's connections cannot always be interrupted; and the main
    # thread looks up again and again, since a signal may have come to another one.
    joined = Thread(target=stay, daemon=True)
    joined.start()
    while joined.is_alive():
        joined.join(LOOK)
    error = ended.get()
    if error is not None:
        raise error


def _stay(
    line: Any, party: Party, address: str, certificate: bytes | None, patience: float
) -> None:
    """Keep a party connected until the coordinator says that it is over."""
    import grpc
    from flwr.client import start_client

    since, said = time.monotonic(), ""
    while True:
        began = time.monotonic()
        try:
            start_client(
                server_address=address,
                client=line,
                grpc_max_message_length=MOST_BYTES,
                root_certificates=certificate,
                insecure=False,
            )
            return
        except (grpc.RpcError, StopIteration) as error:
            # Words of the connection: nobody has been believed yet. A server that has too many
            # connections ends this one without a word.
            words = "" if isinstance(error, StopIteration) else str(error.details())
            if "SSL" in words or "Ssl" in words or "ssl" in words:
                raise FederationError(
                    f"certificate: {address} shows another one than this party knows"
                ) from None
            words = f"nobody answers at {address} yet; trying for {patience:g} s"
            if line.heard > began:
                since = time.monotonic()
                words = (
                    "the connection ended, and is made again; if that goes on: is the key of this "
                    "party the one pinned there?"
                )
            if time.monotonic() - since > patience:
                raise FederationError(f"coordinator: nobody answers at {address}") from None
            if words != said:
                party.say(words)
                said = words
            time.sleep(_PAUSE)


def _party_client(flwr: Any, party: Party) -> Any:
    """Return a party as Flower's client."""
    from flwr.common import Code, FitRes, GetPropertiesRes, Parameters, Status

    done = Status(Code.OK, "")

    class PartyClient(flwr.client.Client):  # type: ignore[misc]
        heard = -1.0

        def get_properties(self, ins: Any) -> Any:
            if self.heard < 0:
                party.say("connected; the coordinator waits until all have come")
            self.heard = time.monotonic()
            return GetPropertiesRes(done, {"name": party.name})

        def fit(self, ins: Any) -> Any:
            tensors = ins.parameters.tensors
            reply = party.receive(tensors[0]) if len(tensors) == 1 else b""
            return FitRes(done, Parameters([reply], ""), 0, {})

    return PartyClient()
