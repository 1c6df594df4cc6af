"""Commands of federations: `federation keys`, `coordinate` and `join`."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

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


class Trust(StrEnum):
    """End that adds the noise."""

    server = "server"
    distributed = "distributed"


Pins = Annotated[
    Path, option("A folder with the public keys (.pub) of all, coordinator and parties.")
]
OwnKey = Annotated[Path, option("This end's private key (.key).")]
Patience = Annotated[float, option("Seconds to wait: for all to come, and then for an answer.")]


@command(
    "privboost federation keys coordinator --host train.example.org",
    "privboost federation keys north",
)
def keys(
    name: Annotated[str, typer.Argument(help='Who the keys are for: a party, or "coordinator".')],
    folder: Annotated[Path, option("Where to write them.")] = Path(),
    host: Annotated[
        list[str] | None, option("For the coordinator: a name or address it has; repeatable.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make the keys of one end.

    NAME.key stays where it is made. NAME.pub goes to everybody, by a way on which nobody can
    replace it; so does coordinator.crt, which parties need for TLS.
    """
    from privboost.federation import key_files

    leads = name == key_files.COORDINATOR
    if leads != bool(host):
        raise ValueError("--host is for the coordinator, which needs one: parties call it there")
    ends = [key_files.PRIVATE, key_files.PUBLIC]
    ends += [key_files.CERTIFICATE, key_files.CERTIFICATE_KEY] if leads else []
    folder.mkdir(parents=True, exist_ok=True)
    for path in [folder / f"{name}{end}" for end in ends]:
        if path.exists():
            raise FileExistsError(f"{path} exists already: keys are not replaced; move it away")
    made = key_files.write_keys(name, folder)
    made += key_files.write_certificate(host or [], folder) if leads else []
    secret = {path for path in made if path.name.endswith(".key")}
    if as_json:
        print_json({str(path): "secret" if path in secret else "public" for path in made})
        return
    for path in made:
        typer.echo(f"{path}: {'keep it secret' if path in secret else 'give it to everybody'}")


@command("privboost federation coordinate --domain d.json --epsilon 1 --model m.privboost")
def coordinate(
    *,
    model: NewModel,
    domain: Annotated[Path, option("What is public about the tables (JSON).")],
    epsilon: Epsilon,
    key: OwnKey = Path("coordinator.key"),
    pins: Pins = Path("pins"),
    listen: Annotated[str, option("Where to listen, as host:port.")] = "0.0.0.0:8470",
    certificate: Annotated[
        Path | None,
        option(
            "For TLS, with its key beside it (.key added).",
            show_default="coordinator.crt beside --key",
        ),
    ] = None,
    delta: Delta = 1e-6,
    recipe: OfRecipe = DEFAULT_RECIPE,
    trust: Annotated[
        Trust, option("Who adds noise; a server that does sees exact totals.")
    ] = Trust.distributed,
    colluders: Annotated[
        int, option("How many parties may tell the coordinator all they know.")
    ] = 1,
    dropouts: Annotated[int, option("How many parties may be lost, once all have come.")] = 0,
    set_: Parameters = None,
    weights: WeightOptions,
    run: RunOptions,
    patience: Patience = 600.0,
    output: ResultOptions,
) -> None:
    """Wait for all parties, train with them, and write the model. Spends the budget."""
    from privboost.federation.key_files import (
        CERTIFICATE,
        COORDINATOR,
        read_pins,
        read_private,
        read_secret,
    )

    public = privboost.Domain.from_json(domain)
    kind = estimator_class(recipe, isinstance(public.target, privboost.ClassTarget))
    estimator = kind(epsilon=epsilon, delta=delta, domain=public, random_state=run.seed)
    estimator.set_params(ledger=run.ledger, verbose=output.verbose)
    fit_arguments = weights.apply(estimator, recipe)
    estimator.set_params(**read_parameters(set_ or [], estimator.get_params()))
    name, identity = read_private(key)
    parties = read_pins(pins)
    if name != COORDINATOR or parties.pop(COORDINATOR) != identity.public:
        raise ValueError(f"--key: {key} is not the private half of {COORDINATOR}.pub in {pins}")
    shown = key.with_name(f"{COORDINATOR}{CERTIFICATE}") if certificate is None else certificate
    tls = shown.read_bytes(), read_secret(shown.with_name(f"{shown.name}.key"))
    output.check((domain, run.ledger, key, shown), model)
    with privboost.FlowerServer(listen, *tls, identity, parties, patience) as server:
        federation = privboost.Federation(
            identity, parties, server, colluders, dropouts, trust.value
        )
        federation.check(estimator, weights.weights)
        _wait_for_all(server, list(parties), listen, output.quiet)
        with spending(epsilon, estimator.delta, others_pay=True), warnings_delayed():
            estimator.fit(federation, **fit_arguments)
            save_paid(estimator.save, model)
    print_model(model, estimator.model_, output.as_json, output.strict, parties=list(parties))


def _wait_for_all(server: Any, names: list[str], listen: str, quiet: bool) -> None:
    """Wait for all parties, and print each that joins."""

    def show(line: str) -> None:
        if not quiet:
            typer.echo(line, err=True)

    show(f"waiting at {listen} for {', '.join(names)}")
    try:
        server.wait_for(names, show)
    except KeyboardInterrupt:
        fail("interrupted while waiting for parties; nothing was spent", Status.interrupted)


@command(
    "privboost federation join v.csv --at train.example.org:8470 --domain d.json "
    "--key north.key --limit-epsilon 3 --limit-delta 1e-5",
)
def join(
    *,
    data: DataFile,
    at: Annotated[str, option("The coordinator, as host:port.")],
    domain: Annotated[Path, option("What is public about the table (JSON); others are refused.")],
    key: OwnKey,
    budget: Annotated[
        Path | None,
        option(
            "A store of accounts, of which that of --dataset is charged first.",
            ACCOUNT,
            show_default="NAME.db beside --key",
        ),
    ] = None,
    dataset: Annotated[
        str | None, option("The data set that the rows are of.", ACCOUNT, show_default="NAME")
    ] = None,
    limit_epsilon: Annotated[
        float | None,
        option("Open the account, where there is none: what all runs together may cost.", ACCOUNT),
    ] = None,
    limit_delta: LimitDelta = None,
    pins: Pins = Path("pins"),
    certificate: Annotated[
        Path | None,
        option(
            "The coordinator's certificate, or who signed it (PEM).",
            show_default="coordinator.crt in --pins",
        ),
    ] = None,
    ledger: Annotated[
        Path | None,
        option(
            "A file that records every reservation and charge.",
            show_default="NAME.ledger beside --key",
        ),
    ] = None,
    weights: Weights = None,
    colluders: Annotated[
        int, option("The number of colluding parties to be safe from, at least.")
    ] = 1,
    least_parties: Annotated[
        int | None, option("The least number of parties.", show_default="all pinned")
    ] = None,
    trust_server: Annotated[
        bool, option("Also take part where the server sees exact totals.", name="--trust-server")
    ] = False,
    tell_rows: Annotated[
        bool, option("The number of rows is public (LazyBB needs it).", name="--tell-rows")
    ] = False,
    accept_seed: Annotated[
        bool,
        option(
            "Take part in seeded runs only, which protect nobody: without an account.",
            name="--accept-seed",
        ),
    ] = False,
    table: TableOptions,
    jobs: Jobs = None,
    patience: Patience = 600.0,
) -> None:
    """Take part in a run with the rows of a table, which stay here.

    Every run is charged to the account before a row is read; what it does not cover is refused.
    """
    from privboost.federation.key_files import CERTIFICATE, COORDINATOR, read_pins, read_private
    from privboost.federation.party import checked_record
    from privboost.reports.report import round_up

    name, identity = read_private(key)
    known = read_pins(pins)
    if name == COORDINATOR:
        raise ValueError("--key: this is the coordinator's; a party joins with its own")
    if known.get(name) != identity.public:
        raise ValueError(f"--key: {key} is not the private half of {name}.pub in {pins}")
    shown = pins / f"{COORDINATOR}{CERTIFICATE}" if certificate is None else certificate
    rows = table.open(data)
    kept = key.with_suffix(".ledger") if ledger is None else ledger
    store = key.with_suffix(".db") if budget is None else budget
    tls = shown.read_bytes() if shown.exists() or certificate is not None else None
    check_files((data, domain, key, kept, store), [])
    checked_record(kept)  # before an account is opened that forgets what it counts
    public = privboost.Domain.from_json(domain)
    account = None
    if not accept_seed:
        limit = limit_epsilon, limit_delta
        account = open_account(store, dataset or name, limit, None, unit_column(public, None))
    elif (budget, dataset, limit_epsilon, limit_delta) != (None,) * 4:
        raise ValueError(
            "--accept-seed goes with no account: a run with a seed protects nobody, and nothing "
            "can be charged for it"
        )

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
        colluders=colluders,
        least_parties=least_parties,
        trust_server=trust_server,
        ledger=kept,
        accept_seed=accept_seed,
        tell_rows=tell_rows,
        n_jobs=jobs,
        tell=show,
    )
    show(f"joining {at}; the rows stay here, the ledger is {kept}")
    if account is not None:
        show(f"runs are charged to the account of {account.dataset!r} in {store}")
    try:
        privboost.join_federation(party, at, tls, patience)
    except KeyboardInterrupt:
        show("interrupted")
    if account is not None:
        balance = account.statement()
        spent, most = round_up(balance.epsilon), balance.rules
        show(f"epsilon {spent} of {most.epsilon:g} is spent in all, at delta {most.delta:g}")
    party.close()
    if not party.finished:
        show("no run was completed")
    sys.stderr.flush()
    os._exit(
        Status.done if party.finished else Status.failed
    )  # threads that Flower left running may not end by themselves
