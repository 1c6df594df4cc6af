"""Flower carries the messages: parties call the coordinator, over gRPC with TLS, and stay.

Flower's newer runtime starts a process for each message and looks for one every three seconds; a
model takes thousands. So this uses its older servers and clients, which keep one connection open.
"""

from __future__ import annotations

import logging
import os
from typing import Any

from privboost.errors import FederationError

PATIENCE = 600.0
"""Seconds that an end waits for another; loading rows is the longest that a party may take."""
LOOK = 0.2
"""Seconds after which an interruption is noticed."""
MOST_BYTES = 2**28
"""The longest message: 32 million sums."""
_MISSING = "a federation over a network needs Flower: pip install 'privboost[federated]'"


def open_flower() -> Any:
    """Import Flower, which is to call nobody and say nothing."""
    os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
    os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        import flwr
        import flwr.client
        import flwr.server
    except ImportError:
        raise FederationError(_MISSING) from None
    logging.getLogger("flwr").setLevel(logging.CRITICAL)
    return flwr


def check_address(address: str) -> tuple[str, int]:
    """Return the host and the port of an address; refuse what is none."""
    host, colon, port = address.rpartition(":")
    if not (host and colon and port.isdecimal() and 0 < int(port) < 2**16):
        raise ValueError(f"{address}: an address is host:port, as in hospital.example:8470")
    return host.strip("[]"), int(port)
