"""`Federation`: the argument of `fit`, in place of a table, where parties keep their rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from privboost.boosting.checks import check_choice
from privboost.errors import FederationError
from privboost.federated.transport import InProcess, Transport
from privboost.federation.agreement import DISTRIBUTED, SERVER, Agreement
from privboost.federation.channels import open_letter, seal_letter
from privboost.federation.keys import COORDINATOR, KeyPair, random_bytes
from privboost.federation.messages import byte_array, printable, text, whole
from privboost.federation.party import Party
from privboost.federation.plans import AgreedRows
from privboost.federation.preparation import FederatedPreparation
from privboost.federation.quorum import Quorum
from privboost.federation.session import Session


class Federation(AgreedRows):
    """Parties that train together, as an argument of an estimator's `fit`.

    Parameters
    ----------
    identity : KeyPair
        The coordinator's long-lived key, which the parties have pinned.
    parties : mapping from str to bytes
        The public key of each party, in the order of their rows.
    transport : Transport
        The transport of messages.
    colluders : int
        c, the number of parties that may collude with the server. With 0 each party, which knows
        its own noise, sees more of the others than the guarantee states.
    dropouts : int
        d, the number of parties that may be lost after the beginning.
    trust : {"distributed", "server"}
        Who adds noise: the parties, or the server, which then learns exact totals.

    Attributes
    ----------
    last : Session or None
        The newest session, with its lost parties and traffic.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from privboost import BudgetStore, Federation, Party, SBDTClassifier
    >>> from privboost.datasets import load_adult
    >>> adult = load_adult()
    >>> rows = adult.train.to_pandas()
    >>> folder = TemporaryDirectory()
    >>> store = BudgetStore(folder.name + "/store.db")
    >>> parties = [
    ...     Party(name, rows[k::3], store.open(name, 2.0, 1e-6), domain=adult.domain)
    ...     for k, name in enumerate(["north", "south", "east"])
    ... ]
    >>> federation = Federation.of(parties)
    >>> clf = SBDTClassifier(1.0, 1e-6, adult.domain, n_estimators=20).fit(federation)
    >>> clf.privacy_.guarantee
    '(1, 1e-06)-differential privacy'
    >>> folder.cleanup()
    """

    def __init__(
        self,
        identity: KeyPair,
        parties: Mapping[str, bytes],
        transport: Transport,
        colluders: int = 1,
        dropouts: int = 0,
        trust: str = DISTRIBUTED,
    ) -> None:
        super().__init__(None)
        self.trust = check_choice("trust", trust, (SERVER, DISTRIBUTED))
        self.quorum = Quorum(len(parties), colluders, dropouts)
        if COORDINATOR in parties:
            raise ValueError(f"a party has a name, and it is not {COORDINATOR!r}")
        self._identity, self._transport = identity, transport
        self.parties = {name: key.hex() for name, key in parties.items()}
        self.last: Session | None = None

    @classmethod
    def of(
        cls,
        parties: Sequence[Party],
        colluders: int = 1,
        dropouts: int = 0,
        trust: str = DISTRIBUTED,
        transport: Callable[[Sequence[Party]], Transport] = InProcess,
    ) -> Federation:
        """Return a federation of parties of this process; each pins the keys of all others."""
        identity = KeyPair()
        keys = {party.name: party.identity.public for party in parties}
        if len(keys) != len(parties):
            raise ValueError("two parties have one name")
        for party in parties:
            party.pin({COORDINATOR: identity.public, **keys})
        return cls(identity, keys, transport(parties), colluders, dropouts, trust)

    def preparation(self, estimator: Any) -> Any:
        """Return the stages of an estimator's fit across the parties."""
        self._n_rows = None
        return partial(FederatedPreparation, self, estimator)

    def check(self, estimator: Any, weight: str | None = None) -> None:
        """Refuse a fit that these parties cannot do, before a message is sent."""
        if self.trust == DISTRIBUTED:
            prepared = estimator._prepare(self, None, weight)
            prepared.plan(prepared.ground())

    @property
    def n_rows(self) -> int | None:
        """Number of rows, once `count_rows` was called."""
        return self._n_rows

    def count_rows(self) -> int:
        """Return the number of rows of all parties, if each of them reveals its own."""
        nonce = byte_array(random_bytes())
        secrets = {n: self._identity.shared(bytes.fromhex(k)) for n, k in self.parties.items()}
        letters = {
            name: seal_letter(key, COORDINATOR, name, {"stage": "rows", "nonce": nonce})
            for name, key in secrets.items()
        }
        counts: dict[str, int] = {}
        for name, data in self._transport.gather(letters):
            if name not in secrets:
                continue
            reply = open_letter(secrets[name], COORDINATOR, name, data) or {}
            if not np.array_equal(reply.get("to", 0), nonce):
                continue  # not the party's, or of another request
            if "rule" in reply:
                raise FederationError(f"{name!r}: {printable(text(reply, 'rule'))}")
            counts[name] = max(whole(reply, "rows"), 0)  # guarantees do not rest on it
            if len(counts) == len(self.parties):
                break
        if len(counts) < len(self.parties):
            raise FederationError("rows: not every party has revealed its number")
        self._n_rows = sum(counts.values())
        return self._n_rows

    def session(self, agreement: Agreement) -> Session:
        """Return a new session, which has not begun."""
        self.last = Session(self._identity, self._transport, agreement)
        return self.last

    def __repr__(self) -> str:
        return f"Federation({list(self.parties)}, trust={self.trust!r})"
