"""The rows of a federation as a table of which nothing is here but the way to ask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from privboost.federation.agreement import Agreement
from privboost.federation.backend import FederatedBackend
from privboost.federation.plans import AgreedRows
from privboost.federation.session import Session
from privboost.privacy.events.event import Planned


class FederatedRows(AgreedRows):
    """What a backend is opened with.

    Parameters
    ----------
    session : Session
        The parties.
    agreement : Agreement
        What they are asked to agree on.
    releases : sequence of Planned
        What the plan reserves.
    """

    def __init__(self, session: Session, agreement: Agreement, releases: Sequence[Planned]) -> None:
        super().__init__(agreement.n_rows)
        self.session, self.agreement, self._releases = session, agreement, releases

    def open_backend(self, loads: Sequence[Any]) -> FederatedBackend:
        """Have the parties load their rows."""
        return FederatedBackend(self.session, self._releases)
