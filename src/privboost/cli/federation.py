"""Commands of federations: `federation keys`, `coordinate` and `join`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

import privboost
from privboost.cli.exits import Status, fail
from privboost.cli.options import (
    ACCOUNT,
    DEFAULT_RECIPE,
    AsJson,
    DataFile,
    Delta,
    Epsilon,
    Jobs,
    LimitDelta,
    NewModel,
    OfRecipe,
    Parameters,
    ResultOptions,
    RunOptions,
    TableOptions,
    WeightOptions,
    Weights,
    open_account,
    unit_column,
)
from privboost.cli.output import (
    check_files,
    print_json,
    print_model,
    save_paid,
    spending,
    warnings_delayed,
)
from privboost.cli.registry import command, option
from privboost.cli.training import estimator_class, read_parameters

Trust = StrEnum("Trust", ["server", "distributed"])

Pins = Annotated[Path, "Folder with the public keys (.pub) of the coordinator and all parties."]
OwnKey = Annotated[Path, "This end's private key (.key)."]
Patience = Annotated[float, "Seconds to wait for the other ends, and then for each reply."]


@command(
    "privboost federation keys coordinator --host train.example.org",
    "privboost federation keys north",
)
def keys(
    *,
    name: Annotated[str, typer.Argument(help='Name of a party, or "coordinator".')],
    folder: Annotated[Path, "Folder to write the keys to."] = Path(),
    host: Annotated[
        list[str] | None, "Host name or address of the coordinator; repeatable."
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make the keys of a party or of the coordinator.

    NAME.key stays where it is made. NAME.pub goes to all others over a channel on which nobody can
    replace it; so does coordinator.crt, which parties need for TLS.
    """
    from privboost.federated import crypto, key_files

    leads = name == crypto.COORDINATOR
    if leads != bool(host):
        raise ValueError("--host is for the coordinator, which needs one: parties connect to it")
    ends = [key_files.PRIVATE, key_files.PUBLIC]
    ends += [key_files.CERTIFICATE, key_files.CERTIFICATE_KEY] if leads else []
    folder.mkdir(parents=True, exist_ok=True)
    for path in [folder / f"{name}{end}" for end in ends]:
        if path.exists():
            raise FileExistsError(f"{path} exists already, and keys are not replaced: move it away")
    made = key_files.write_keys(name, folder)
    made += key_files.write_certificate(host or [], folder) if leads else []
    secret = {path for path in made if path.name.endswith(".key")}
    if as_json:
        print_json({str(path): "secret" if path in secret else "public" for path in made})
        return
    for path in made:
        typer.echo(f"{path}: {'keep it secret' if path in secret else 'give it to all others'}")


def _read_keys(key: Path, pins: Path, leads: bool) -> tuple[str, Any, dict[str, bytes]]:
    """Return the name and key pair of this end, and the public keys of all ends."""
    from privboost.federated import crypto, key_files

    name, identity = key_files.read_private(key)
    known = key_files.read_pins(pins)
    if name == crypto.COORDINATOR and not leads:
        raise ValueError("--key: this is the coordinator's; a party joins with its own")
    expected = crypto.COORDINATOR if leads else name
    if name != expected or known.get(expected) != identity.public:
        raise ValueError(f"--key: {key} is not the private half of {expected}.pub in {pins}")
    return name, identity, known


@command("privboost federation coordinate --domain d.json --epsilon 1 --model m.privboost")
def coordinate(
    *,
    model: NewModel,
    domain: Annotated[Path, "Public domain of the tables (JSON)."],
    epsilon: Epsilon,
    key: OwnKey = Path("coordinator.key"),
    pins: Pins = Path("pins"),
    listen: Annotated[str, "Address to listen on, as host:port."] = "0.0.0.0:8470",
    certificate: Annotated[
        Path | None,
        option(
            "TLS certificate; its key lies next to it (.key added).",
            show_default="coordinator.crt next to --key",
        ),
    ] = None,
    delta: Delta = 1e-6,
    recipe: OfRecipe = DEFAULT_RECIPE,
    trust: Annotated[
        Trust, "Who adds noise; a server that does sees exact totals."
    ] = Trust.distributed,
    colluders: Annotated[int, "Number of parties that may collude with the coordinator."] = 1,
    dropouts: Annotated[int, "Number of parties that may be lost after the beginning."] = 0,
    set_: Parameters = None,
    weights: WeightOptions,
    run: RunOptions,
    patience: Patience = 600.0,
    output: ResultOptions,
) -> None:
    """Wait for all parties, train with them, and write the model. Spends the budget."""
    from privboost.federated import crypto, key_files

    public = privboost.Domain.from_json(domain)
    kind = estimator_class(recipe, public.target.task)
    estimator = kind(epsilon=epsilon, delta=delta, domain=public, random_state=run.seed)
    estimator.set_params(ledger=run.ledger, verbose=output.verbose)
    fit_arguments = weights.apply(estimator, recipe)
    estimator.set_params(**read_parameters(set_, estimator))
    _, identity, parties = _read_keys(key, pins, leads=True)
    parties.pop(crypto.COORDINATOR)
    default_certificate = key.with_name(f"{crypto.COORDINATOR}{key_files.CERTIFICATE}")
    shown = default_certificate if certificate is None else certificate
    tls = shown.read_bytes(), key_files.read_secret(shown.with_name(f"{shown.name}.key"))
    output.check((domain, run.ledger, key, shown), model)
    with privboost.FederationServer(listen, *tls, identity, parties, patience) as server:
        how = (colluders, dropouts, trust.value)
        federation = privboost.Federation(identity, parties, server, *how)
        federation.check(estimator, weights.weights)
        _wait_for_all(server, list(parties), output.quiet)
        with spending(epsilon, estimator.delta, others_pay=True), warnings_delayed():
            estimator.fit(federation, **fit_arguments)
            save_paid(estimator.save, model)
    names = list(parties)
    print_model(model, estimator.model_, output.as_json, output.strict, parties=names)


def _wait_for_all(server: Any, names: list[str], quiet: bool) -> None:
    """Wait for all parties, and print the name of each that has connected."""

    def show(line: str) -> None:
        if not quiet:
            typer.echo(line, err=True)

    show(f"waiting at {server.address} for {', '.join(names)}")
    try:
        server.wait_for(names, show)
    except KeyboardInterrupt:
        fail("interrupted while waiting for parties; nothing was spent", Status.interrupted)


@dataclass(frozen=True)
class PartyAccountOptions:
    """The account of a party's rows."""

    panel: ClassVar[str] = ACCOUNT

    budget: Annotated[
        Path | None,
        option(
            "Budget store; every run is charged to its account of --dataset.",
            ACCOUNT,
            show_default="NAME.db next to --key",
        ),
    ] = None
    dataset: Annotated[
        str | None, option("Data set that the rows belong to.", ACCOUNT, show_default="NAME")
    ] = None
    limit_epsilon: Annotated[
        float | None, "Open the account if there is none: epsilon of all runs."
    ] = None
    limit_delta: LimitDelta = None

    def open(self, store: Path, name: str, unit: str | None, accept_seed: bool) -> Any:
        """Return the account in a store; None for a party that accepts seeded runs only."""
        if not accept_seed:
            limit = self.limit_epsilon, self.limit_delta
            return open_account(store, self.dataset or name, limit, None, unit)
        if (self.budget, self.dataset, self.limit_epsilon, self.limit_delta) != (None,) * 4:
            raise ValueError(
                "--accept-seed goes with no account: a seeded run protects nobody, and has no "
                "guarantee to charge"
            )
        return None


@dataclass(frozen=True)
class ConsentOptions:
    """Conditions under which a party takes part."""

    colluders: Annotated[int, "Refuse runs that protect from fewer colluding parties."] = 1
    least_parties: Annotated[
        int | None, option("Refuse runs with fewer parties.", show_default="all pinned")
    ] = None
    trust_server: Annotated[bool, "Accept runs in which the server sees exact totals."] = False
    tell_rows: Annotated[bool, "The number of rows is public (LazyBB needs it)."] = False
    accept_seed: Annotated[
        bool, "Accept seeded runs only: they protect nobody, and charge no account."
    ] = False


@command(
    "privboost federation join v.csv --at train.example.org:8470 --domain d.json "
    "--key north.key --limit-epsilon 3 --limit-delta 1e-5",
)
def join(
    *,
    data: DataFile,
    at: Annotated[str, "Address of the coordinator, as host:port."],
    domain: Annotated[Path, "Public domain of the table (JSON); offers with another are refused."],
    key: OwnKey,
    charges: PartyAccountOptions,
    pins: Pins = Path("pins"),
    certificate: Annotated[
        Path | None,
        option(
            "The coordinator's certificate, or its authority's (PEM).",
            show_default="coordinator.crt in --pins",
        ),
    ] = None,
    ledger: Annotated[
        Path | None,
        option(
            "File that records every reservation and charge.",
            show_default="NAME.ledger next to --key",
        ),
    ] = None,
    weights: Weights = None,
    consent: ConsentOptions,
    table: TableOptions,
    jobs: Jobs = None,
    patience: Patience = 600.0,
) -> None:
    """Take part in a run with the rows of a table, which stay on this machine.

    Every run is charged to the account before a row is read; a run that it does not cover is
    refused.
    """
    from privboost.federated import crypto, key_files
    from privboost.federated.party import checked_record

    name, identity, known = _read_keys(key, pins, leads=False)
    pinned = pins / f"{crypto.COORDINATOR}{key_files.CERTIFICATE}"
    shown = pinned if certificate is None else certificate
    rows = table.open(data)
    kept = key.with_suffix(".ledger") if ledger is None else ledger
    store = key.with_suffix(".db") if charges.budget is None else charges.budget
    tls = shown.read_bytes() if shown.exists() or certificate is not None else None
    check_files((data, domain, key, kept, store), [])
    checked_record(kept)  # before an account is opened that lacks the runs it counts
    public = privboost.Domain.from_json(domain)
    account = charges.open(store, name, unit_column(public, None), consent.accept_seed)

    def show(line: str) -> None:
        typer.echo(f"{name}: {line}", err=True)

    party = privboost.Party(
        name,
        rows,
        account,
        identity=identity,
        pins=known,
        domain=public,
        weight=weights,
        ledger=kept,
        n_jobs=jobs,
        tell=show,
        **asdict(consent),
    )
    show(f"joining {at}; the rows stay here, the ledger is {kept}")
    if account is not None:
        show(f"runs are charged to the account of {account.dataset!r} in {store}")
    try:
        privboost.join_federation(party, at, tls, patience)
    except KeyboardInterrupt:
        show("interrupted")
    if account is not None:
        _show_balance(account, show)
    party.close()
    if not party.finished:
        fail(f"{name}: no run was completed", Status.failed)


def _show_balance(account: Any, show: Callable[[str], None]) -> None:
    from privboost.accounting.formulas import round_up

    balance = account.balance()
    spent, limit = round_up(balance.epsilon), balance.rules
    show(f"epsilon {spent} of {limit.epsilon:g} is spent in all, at delta {limit.delta:g}")
