"""`privboost federation`: keys, a coordinator, and parties that join it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from privboost.cli.accounts import account_of
from privboost.cli.estimators import kind_of, read_parameters, set_weights, spending
from privboost.cli.exits import Status, fail
from privboost.cli.files import check_files, open_rows, save_paid
from privboost.cli.options import (
    ACCOUNT,
    FIRST_RECIPE,
    AsJson,
    DataFile,
    Delta,
    Epsilon,
    Force,
    Jobs,
    LedgerFile,
    Missing,
    NewDelta,
    NewModel,
    OfRecipe,
    Parameters,
    Quiet,
    Seed,
    Separator,
    Strict,
    Trust,
    WeightBound,
    Weights,
)
from privboost.cli.printing import is_watched, print_json, print_model, warnings_held_back

if TYPE_CHECKING:
    from privboost.federated.transport import FederationServer

federation_app = typer.Typer(
    no_args_is_help=True, help="Train across parties, each of which keeps its rows."
)

Pins = Annotated[
    Path,
    typer.Option(help="Folder with the public keys (.pub) of the coordinator and all parties."),
]
OwnKey = Annotated[Path, typer.Option(help="This end's private key (.key).")]
Patience = Annotated[
    float, typer.Option(help="Seconds to wait for the other ends, and then for each reply.")
]


@federation_app.command()
def keys(
    name: Annotated[str, typer.Argument(help='Name of a party, or "coordinator".')],
    folder: Annotated[Path, typer.Option(help="Folder to write the keys to.")] = Path(),
    host: Annotated[
        list[str] | None,
        typer.Option(help="Host name or address of the coordinator; repeatable."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make the keys of a party or of the coordinator.

    NAME.key stays where it is made. NAME.pub goes to all others over a channel on which nobody can
    replace it; so does coordinator.crt, which parties need for TLS.
    """
    from privboost.federation.key_files import (
        CERTIFICATE,
        CERTIFICATE_KEY,
        PRIVATE,
        PUBLIC,
        write_certificate,
        write_keys,
    )
    from privboost.federation.keys import COORDINATOR

    leads = name == COORDINATOR
    if leads != bool(host):
        raise ValueError("--host is for the coordinator, which needs one: parties connect to it")
    ends = [PRIVATE, PUBLIC, *([CERTIFICATE, CERTIFICATE_KEY] if leads else [])]
    folder.mkdir(parents=True, exist_ok=True)
    for path in [folder / f"{name}{end}" for end in ends]:
        if path.exists():
            raise FileExistsError(f"{path} exists already, and keys are not replaced: move it away")
    made = write_keys(name, folder)
    made += write_certificate(host or [], folder) if leads else []
    secret = {path for path in made if path.name.endswith(".key")}
    if as_json:
        print_json({str(path): "secret" if path in secret else "public" for path in made})
        return
    for path in made:
        typer.echo(f"{path}: {'keep it secret' if path in secret else 'give it to all others'}")


@federation_app.command()
def coordinate(
    model: NewModel,
    domain: Annotated[Path, typer.Option(help="Public domain of the tables (JSON).")],
    epsilon: Epsilon,
    key: OwnKey = Path("coordinator.key"),
    pins: Pins = Path("pins"),
    listen: Annotated[
        str, typer.Option(help="Address to listen on, as host:port.")
    ] = "0.0.0.0:8470",
    certificate: Annotated[
        Path | None,
        typer.Option(
            help="TLS certificate; its key lies next to it (.key added).",
            show_default="coordinator.crt next to --key",
        ),
    ] = None,
    delta: Delta = 1e-6,
    recipe: OfRecipe = FIRST_RECIPE,
    trust: Annotated[
        Trust, typer.Option(help="Who adds noise; a server that does sees exact totals.")
    ] = Trust.distributed,
    colluders: Annotated[
        int, typer.Option(help="Number of parties that may collude with the coordinator.")
    ] = 1,
    dropouts: Annotated[
        int, typer.Option(help="Number of parties that may be lost after the beginning.")
    ] = 0,
    set_: Parameters = None,
    weights: Weights = None,
    weight_bound: WeightBound = None,
    ledger: LedgerFile = None,
    seed: Seed = None,
    patience: Patience = 600.0,
    as_json: AsJson = False,
    strict: Strict = False,
    quiet: Quiet = False,
    force: Force = False,
) -> None:
    """Wait for all parties, train with them, and write the model. Spends the budget."""
    from privboost.federated.transport import FederationServer
    from privboost.federation.federation import Federation
    from privboost.federation.key_files import CERTIFICATE, read_pins, read_private, read_secret
    from privboost.federation.keys import COORDINATOR
    from privboost.tables.domain import Domain
    from privboost.tables.features import ClassTarget

    public = Domain.from_json(domain)
    kind = kind_of(recipe, isinstance(public.target, ClassTarget))
    estimator = kind(epsilon=epsilon, delta=delta, domain=public, random_state=seed)
    estimator.set_params(ledger=ledger, verbose=is_watched() and not quiet)
    columns = set_weights(estimator, recipe, weights, weight_bound)
    estimator.set_params(**read_parameters(set_ or [], estimator.get_params()))
    name, identity = read_private(key)
    parties = read_pins(pins)
    if name != COORDINATOR or parties.pop(COORDINATOR) != identity.public:
        raise ValueError(f"--key: {key} is not the private half of {COORDINATOR}.pub in {pins}")
    shown = key.with_name(f"{COORDINATOR}{CERTIFICATE}") if certificate is None else certificate
    tls = shown.read_bytes(), read_secret(shown.with_name(f"{shown.name}.key"))
    check_files((domain, ledger, key, shown), [model], [model] if force else ())
    with FederationServer(listen, *tls, identity, parties, patience) as server:
        federation = Federation(identity, parties, server, colluders, dropouts, trust.value)
        federation.check(estimator, weights)
        _wait_for_all(server, list(parties), quiet)
        with spending(epsilon, estimator.delta, others_pay=True), warnings_held_back():
            estimator.fit(federation, **columns)
            save_paid(estimator.save, model)
    print_model(model, estimator.model_, as_json, strict, parties=list(parties))


def _wait_for_all(server: FederationServer, names: list[str], quiet: bool) -> None:
    """Wait for all parties, and print the name of each that has connected."""

    def tell(words: str) -> None:
        if not quiet:
            typer.echo(words, err=True)

    tell(f"waiting at {server.address} for {', '.join(names)}")
    try:
        server.wait_for(names, tell)
    except KeyboardInterrupt:
        fail("interrupted while waiting for parties; nothing was spent", Status.interrupted)


@federation_app.command()
def join(
    data: DataFile,
    at: Annotated[str, typer.Option(help="Address of the coordinator, as host:port.")],
    domain: Annotated[
        Path,
        typer.Option(help="Public domain of the table (JSON); offers with another are refused."),
    ],
    key: OwnKey,
    budget: Annotated[
        Path | None,
        typer.Option(
            help="Budget store; every run is charged to its account of --dataset.",
            show_default="NAME.db next to --key",
            rich_help_panel=ACCOUNT,
        ),
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(
            help="Data set that the rows belong to.", show_default="NAME", rich_help_panel=ACCOUNT
        ),
    ] = None,
    limit_epsilon: Annotated[
        float | None,
        typer.Option(
            help="Open the account if there is none: epsilon of all runs together.",
            rich_help_panel=ACCOUNT,
        ),
    ] = None,
    limit_delta: NewDelta = None,
    pins: Pins = Path("pins"),
    certificate: Annotated[
        Path | None,
        typer.Option(
            help="The coordinator's certificate, or its authority's (PEM).",
            show_default="coordinator.crt in --pins",
        ),
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(
            help="File that records every reservation and charge.",
            show_default="NAME.ledger next to --key",
        ),
    ] = None,
    weights: Weights = None,
    colluders: Annotated[
        int, typer.Option(help="Refuse runs that protect from fewer colluding parties.")
    ] = 1,
    least_parties: Annotated[
        int | None,
        typer.Option(help="Refuse runs with fewer parties.", show_default="all pinned"),
    ] = None,
    trust_server: Annotated[
        bool,
        typer.Option("--trust-server", help="Accept runs in which the server sees exact totals."),
    ] = False,
    tell_rows: Annotated[
        bool, typer.Option("--tell-rows", help="The number of rows is public (LazyBB needs it).")
    ] = False,
    accept_seed: Annotated[
        bool,
        typer.Option(
            "--accept-seed",
            help="Accept seeded runs only: they protect nobody, and charge no account.",
        ),
    ] = False,
    missing: Missing = None,
    separator: Separator = None,
    jobs: Jobs = None,
    patience: Patience = 600.0,
) -> None:
    """Take part in a run with the rows of a table, which stay on this machine.

    Every run is charged to the account before a row is read; a run that it does not cover is
    refused.
    """
    from privboost.federated.transport import join_federation
    from privboost.federation.key_files import CERTIFICATE, read_pins, read_private
    from privboost.federation.keys import COORDINATOR
    from privboost.federation.party import Party, checked_record
    from privboost.reports.report import round_up
    from privboost.tables.domain import Domain
    from privboost.unit import column_of

    name, identity = read_private(key)
    known = read_pins(pins)
    if name == COORDINATOR:
        raise ValueError("--key: this is the coordinator's; a party joins with its own")
    if known.get(name) != identity.public:
        raise ValueError(f"--key: {key} is not the private half of {name}.pub in {pins}")
    shown = pins / f"{COORDINATOR}{CERTIFICATE}" if certificate is None else certificate
    rows = open_rows(data, missing, separator)
    kept = key.with_suffix(".ledger") if ledger is None else ledger
    store = key.with_suffix(".db") if budget is None else budget
    tls = shown.read_bytes() if shown.exists() or certificate is not None else None
    check_files((data, domain, key, kept, store), [])
    checked_record(kept)  # before an account is opened that lacks the runs it counts
    public = Domain.from_json(domain)
    account = None
    if not accept_seed:
        limits = limit_epsilon, limit_delta
        account = account_of(store, dataset or name, *limits, None, column_of(public.unit))
    elif (budget, dataset, limit_epsilon, limit_delta) != (None,) * 4:
        raise ValueError(
            "--accept-seed goes with no account: a seeded run protects nobody, and has no "
            "guarantee to charge"
        )

    def tell(words: str) -> None:
        typer.echo(f"{name}: {words}", err=True)

    party = Party(
        name,
        rows,
        account,
        identity=identity,
        pins=known,
        domain=public,
        weight=weights,
        colluders=colluders,
        least_parties=least_parties,
        trust_server=trust_server,
        ledger=kept,
        accept_seed=accept_seed,
        tell_rows=tell_rows,
        n_jobs=jobs,
        tell=tell,
    )
    tell(f"joining {at}; the rows stay here, the ledger is {kept}")
    if account is not None:
        tell(f"runs are charged to the account of {account.dataset!r} in {store}")
    try:
        join_federation(party, at, tls, patience)
    except KeyboardInterrupt:
        tell("interrupted")
    if account is not None:
        said = account.statement()
        spent, most = round_up(said.epsilon), said.rules
        tell(f"epsilon {spent} of {most.epsilon:g} is spent in all, at delta {most.delta:g}")
    party.close()
    if not party.finished:
        fail(f"{name}: no run was completed", Status.failed)
