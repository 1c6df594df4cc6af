"""`FederatedRows` is a table whose backend sends queries to the parties."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from privboost.federation.agreement import Agreement
from privboost.federation.backend import FederatedBackend
from privboost.federation.plans import AgreedRows
from privboost.federation.session import Session
from privboost.privacy.events.event import Planned


class FederatedRows(AgreedRows):
    """Rows of the parties of a session.

    Parameters
    ----------
    session : Session
        The session.
    agreement : Agreement
        The offer.
    releases : sequence of Planned
        The plan's releases.
    """

    def __init__(self, session: Session, agreement: Agreement, releases: Sequence[Planned]) -> None:
        super().__init__(agreement.n_rows)
        self.session, self.agreement, self._releases = session, agreement, releases

    def open_backend(self, loads: Sequence[Any]) -> FederatedBackend:
        """Return the backend; the parties load their rows."""
        return FederatedBackend(self.session, self._releases)
