"""`Federation`: the argument of `fit`, in place of a table, where parties keep their rows.

A fit across parties has the stages of any other; all parties agree before the budget is reserved.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from privboost import __version__
from privboost._core.checks import check_choice
from privboost._core.errors import BudgetError, DomainError, FederationError, PrivacyWarning
from privboost.accounting.ledger import Ledger
from privboost.data.loading import Loader, Roles, RowLoader
from privboost.data.table import Table
from privboost.engine.backend import Backend
from privboost.estimators.preparation import DomainAndBudget, Preparation, Run
from privboost.federated.aggregation import Quorum
from privboost.federated.agreement import (
    DISTRIBUTED,
    SERVER,
    AgreedRows,
    Agreement,
    shared_parameters,
)
from privboost.federated.coordinator import FederatedCurator, RelayCurator, Session
from privboost.federated.crypto import COORDINATOR, KeyPair, open_reply, random_bytes, seal_letter
from privboost.federated.messages import byte_array, printable, text, whole
from privboost.federated.party import Party
from privboost.federated.party_curator import SLACK, check_distributed
from privboost.federated.transport import InProcess, Transport
from privboost.mechanisms.curator import Curator
from privboost.randomness.keystream import KeyStream
from privboost.recipes.common.plan import Plan, PublicRows
from privboost.reports.report import PrivacyReport


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
            prepared.plan(prepared.domain_and_budget())

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
            reply = open_reply(secrets[name], COORDINATOR, name, data, nonce)
            if reply is None:
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
        """Return a new session."""
        self.last = Session(self._identity, self._transport, agreement)
        return self.last

    def __repr__(self) -> str:
        return f"Federation({list(self.parties)}, trust={self.trust!r})"


class FederatedRows(AgreedRows):
    """The rows of the parties of a session, which is also the backend that holds them."""

    def __init__(self, session: Session) -> None:
        super().__init__(session.agreement.n_rows)
        self.session = session

    def open_backend(self, loads: Sequence[Any]) -> Session:
        """Return the session; the parties load their rows."""
        return self.session


class FederatedRun(Run):
    """A fit across parties that is ready to train."""

    @property
    def _session(self) -> Session:
        assert isinstance(self.load.source, FederatedRows)
        return self.load.source.session

    def curator(self, backend: Backend) -> Curator:
        """Return the curator that sends the recipe's queries to the parties."""
        assert isinstance(backend, Session)
        kind = RelayCurator if backend.agreement.trust == DISTRIBUTED else FederatedCurator
        return kind(backend, self.ledger, self.keys.child("releases"), self.plan.contribution)

    def public_choices(self) -> KeyStream:
        """Return randomness for public choices: the joint one, except in seeded runs."""
        return (
            super().public_choices() if self.run_settings.seeded else KeyStream(self._session.joint)
        )

    def report(self) -> PrivacyReport:
        """Return the report, and warn of parties that were lost."""
        for name, why in self._session.lost.items():
            warnings.warn(f"{name!r} was lost on the way: {why}", PrivacyWarning, stacklevel=5)
        return super().report()


class FederatedPreparation(Preparation):
    """The stages of an estimator's fit across the parties of a federation."""

    _run_type = FederatedRun

    def __init__(self, federation: Any, estimator: Any, *stages: Any) -> None:
        super().__init__(*stages)
        self._federation, self._estimator = federation, estimator

    def domain_and_budget(self) -> DomainAndBudget:
        """Check the domain, which must be written: there is no inference across parties."""
        if isinstance(self.run_settings.budget, PublicRows):
            raise BudgetError("public_rows: parties of a federation protect their rows")
        if self._estimator.backend != "auto":
            raise ValueError('backend must be "auto" in a federation: parties hold the rows')
        if self.run_settings.account is not None:
            raise BudgetError("budget: parties keep account of their rows themselves")
        domain = self.run_settings.domain
        if domain is None:
            raise DomainError("domain: a federation learns none; write it")
        if self.inference_before(domain) is not None:
            raise DomainError(
                "domain: it was learned from the same rows, and parties cannot add its price; "
                "write it, or say that it was learned from other rows (domain_rows)"
            )
        for name, value in (("y", self.given.y), ("sample_weight", self.given.sample_weight)):
            if value is not None and not isinstance(value, str):
                raise FederationError(f"{name}: it lies with the parties; name its column")
        if self.given.y not in (None, domain.target.name):
            raise FederationError("y: the domain names the target")
        return super().domain_and_budget()

    def plan(self, domain_and_budget: DomainAndBudget) -> Plan:
        """Return the plan; refuse noise that parties cannot add, unless the server adds it."""
        plan = super().plan(domain_and_budget)
        if self._federation.trust == DISTRIBUTED:
            check_distributed(plan, self._federation.quorum)
        return plan

    def rows(self, plan: Plan) -> tuple[Any, Table]:
        """Return the loader, and the rows of a new session with the parties."""
        domain, given = plan.encoder.domain, self.given
        roles = Roles(domain.target.name, given.sample_weight, domain.target.event_column)
        federation, seed = self._federation, self.run_settings.random_state
        agreement = Agreement(
            version=__version__,
            estimator=type(self._estimator).__name__,
            parameters=shared_parameters(self._estimator.get_params(deep=False)),
            domain=domain.to_dict(),
            weight=given.sample_weight,
            n_rows=federation.n_rows,
            plan=plan.digest,
            trust=federation.trust,
            parties=federation.parties,
            colluders=federation.quorum.colluders,
            dropouts=federation.quorum.dropouts,
            seed=None if seed is None else int(seed),
        )
        self._session = federation.session(agreement)
        self._session.catalogue.add(plan.releases)
        source: Any = FederatedRows(self._session)
        return RowLoader(plan.encoder, roles, given.weight_bound), source

    def check_table(self, plan: Plan, loader: Loader, table: Table) -> str:
        """Return "any": each party checks the schema of its own table."""
        return "any"

    def reserve(self, domain_and_budget: DomainAndBudget, plan: Plan) -> Ledger:
        """Reserve the whole plan, once all parties have accepted it and confirmed their keys."""
        try:
            self._session.offer()
            self._session.begin()
            return super().reserve(domain_and_budget, plan)
        except BaseException:
            self._session.end(False)
            raise

    def assumptions(self, domain_and_budget: DomainAndBudget, plan: Plan) -> tuple[str, ...]:
        """Return the assumptions of the guarantee, trust among them."""
        quorum, trust = self._federation.quorum, self._federation.trust
        k, c, d = quorum.parties, quorum.colluders, quorum.dropouts
        parties = (
            f"a federation of k = {k} parties, of which up to d = {d} may be lost and up to c = "
            f"{c} may collude with the server; all rows of a protected unit lie with one party"
        )
        masks = (
            "masks hide each party's sums: X25519, HKDF-SHA256 and AES-256 are taken to be secure, "
            "and the public keys that parties pinned to be those of the parties"
        )
        noise = (
            "the server is trusted with exact totals, and added the noise: the guarantee is about "
            "what it releases"
        )
        if trust == DISTRIBUTED:
            noise = (
                f"each party added discrete Gaussian noise of 1/{quorum.honest} of the variance "
                f"(k - c - d = {quorum.honest}): the guarantee holds against the server and {c} "
                "parties that collude with it, whether or not the server follows the rules; that "
                f"noise is a sum of discrete Gaussians costs less than {SLACK:g} of epsilon"
            )
        return (parties, masks, noise, *super().assumptions(domain_and_budget, plan))
