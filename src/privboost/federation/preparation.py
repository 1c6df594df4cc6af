"""In the stages of a fit, all parties agree before the budget is reserved."""

from __future__ import annotations

import warnings
from typing import Any

from privboost import __version__
from privboost.boosting.plan import Plan, PublicRows
from privboost.engine.backend import Backend
from privboost.errors import BudgetError, DomainError, FederationError, PrivacyWarning
from privboost.estimators.preparation import Ground, Preparation, Run
from privboost.federation.agreement import DISTRIBUTED, Agreement, shared_parameters
from privboost.federation.backend import FederatedBackend
from privboost.federation.curator import FederatedCurator, RelayCurator
from privboost.federation.distributed import SLACK, check_distributed
from privboost.federation.quorum import Quorum
from privboost.federation.rows import FederatedRows
from privboost.privacy.curator import Curator
from privboost.privacy.ledger import Ledger
from privboost.randomness.keystream import KeyStream
from privboost.reports.report import PrivacyReport
from privboost.tables.loader import Loader, Roles, RowLoader
from privboost.tables.sources import Table


class FederatedRun(Run):
    """A fit across parties that is ready to train."""

    def curator(self, backend: Backend) -> Curator:
        """Return the curator that sends the recipe's queries to the parties."""
        assert isinstance(backend, FederatedBackend)
        assert isinstance(self.load.source, FederatedRows)
        trust = self.load.source.agreement.trust
        kind = RelayCurator if trust == DISTRIBUTED else FederatedCurator
        return kind(backend, self.ledger, self.keys.child("releases"), self.plan.contribution)

    def structures(self) -> KeyStream:
        """Return randomness for public choices: the joint one, except in seeded runs."""
        assert isinstance(self.load.source, FederatedRows)
        return super().structures() if self.seeded else KeyStream(self.load.source.session.joint)

    def report(self) -> PrivacyReport:
        """Return the report, and warn of parties that were lost."""
        assert isinstance(self.load.source, FederatedRows)
        for name, why in self.load.source.session.lost.items():
            warnings.warn(f"{name!r} was lost on the way: {why}", PrivacyWarning, stacklevel=5)
        return super().report()


class FederatedPreparation(Preparation):
    """The stages of a fit across parties.

    Parameters
    ----------
    federation : Federation
        The parties.
    estimator : estimator
        The estimator.
    stages
        As for `Preparation`.
    """

    _run = FederatedRun

    def __init__(self, federation: Any, estimator: Any, *stages: Any) -> None:
        super().__init__(*stages)
        self._federation, self._estimator = federation, estimator

    def ground(self) -> Ground:
        """Check the domain, which must be written: there is no inference across parties."""
        if isinstance(self.setting.budget, PublicRows):
            raise BudgetError("public_rows: parties of a federation protect their rows")
        if self._estimator.backend != "auto":
            raise ValueError('backend must be "auto" in a federation: parties hold the rows')
        if self.setting.account is not None:
            raise BudgetError("budget: parties keep account of their rows themselves")
        domain = self.setting.domain
        if domain is None:
            raise DomainError("domain: a federation learns none; write it")
        if self.paid_before(domain) is not None:
            raise DomainError(
                "domain: it was learned from the same rows, and parties cannot add its price; "
                "write it, or say that it was learned from other rows (domain_rows)"
            )
        for name, value in (("y", self.given.y), ("sample_weight", self.given.sample_weight)):
            if value is not None and not isinstance(value, str):
                raise FederationError(f"{name}: it lies with the parties; name its column")
        if self.given.y not in (None, domain.target.name):
            raise FederationError("y: the domain names the target")
        return super().ground()

    def plan(self, ground: Ground) -> Plan:
        """Return the plan; refuse noise that parties cannot add, unless the server adds it."""
        plan = super().plan(ground)
        if self._federation.trust == DISTRIBUTED:
            check_distributed(plan, self._federation.quorum)
        return plan

    def rows(self, plan: Plan) -> tuple[Any, Table]:
        """Return the loader, and the rows of a new session with the parties."""
        domain, given = plan.encoder.domain, self.given
        roles = Roles(domain.target.name, given.sample_weight)
        agreement = self._agreement(plan)
        self._session = self._federation.session(agreement)
        source: Any = FederatedRows(self._session, agreement, plan.releases)
        return RowLoader(plan.encoder, roles, given.weight_bound), source

    def _agreement(self, plan: Plan) -> Agreement:
        """Return the offer to the parties."""
        federation, seed = self._federation, self.setting.random_state
        return Agreement(
            version=__version__,
            estimator=type(self._estimator).__name__,
            parameters=shared_parameters(self._estimator.get_params(deep=False)),
            domain=plan.encoder.domain.to_dict(),
            weight=self.given.sample_weight,
            n_rows=federation.n_rows,
            plan=plan.digest,
            trust=federation.trust,
            parties=federation.parties,
            colluders=federation.quorum.colluders,
            dropouts=federation.quorum.dropouts,
            seed=None if seed is None else int(seed),
        )

    def judge_schema(self, loader: Loader, table: Table) -> str:
        """Return "any": each party checks the schema of its own table."""
        return "any"

    def reserve(self, ground: Ground, plan: Plan) -> Ledger:
        """Reserve the whole plan, once all parties have accepted it and confirmed their keys."""
        try:
            self._session.offer()
            self._session.begin()
            return super().reserve(ground, plan)
        except BaseException:
            self._session.end(False)
            raise

    def assumptions(self, ground: Ground, plan: Plan) -> tuple[str, ...]:
        """Return the assumptions of the guarantee, trust among them."""
        quorum, trust = self._federation.quorum, self._federation.trust
        return (*federation_assumptions(quorum, trust), *super().assumptions(ground, plan))


def federation_assumptions(quorum: Quorum, trust: str) -> tuple[str, ...]:
    """Return the assumptions that a federation adds to a guarantee."""
    k, c, d = quorum.parties, quorum.colluders, quorum.dropouts
    lines = [
        f"a federation of k = {k} parties, of which up to d = {d} may be lost and up to c = {c} "
        "may collude with the server; all rows of a protected unit lie with one party",
        "masks hide each party's sums: X25519, HKDF-SHA256 and AES-256 are taken to be secure, and "
        "the public keys that parties pinned to be those of the parties",
    ]
    if trust == DISTRIBUTED:
        lines.append(
            f"each party added discrete Gaussian noise of 1/{quorum.honest} of the variance "
            f"(k - c - d = {quorum.honest}): the guarantee holds against the server and {c} "
            "parties that collude with it, whether or not the server follows the rules; that "
            f"noise is a sum of discrete Gaussians costs less than {SLACK:g} of epsilon"
        )
    else:
        lines.append(
            "the server is trusted with exact totals, and added the noise: the guarantee is about "
            "what it releases"
        )
    return tuple(lines)
