"""The command line's words about domains: sketched, learned, checked and shown."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from privboost.cli.accounts import account_of, kind_for, unit_column_of
from privboost.cli.estimators import spending
from privboost.cli.exits import Status, say
from privboost.cli.files import check_output, open_rows, print_paid, save_paid
from privboost.cli.options import (
    AsJson,
    Budget,
    DataFile,
    Delta,
    DomainFile,
    Epsilon,
    Force,
    LedgerFile,
    Missing,
    NewDelta,
    NewEpsilon,
    OfDataset,
    Out,
    Quiet,
    RunName,
    Seed,
    Separator,
    Target,
    Task,
)
from privboost.cli.printing import check_out, is_watched, print_json, print_table, print_written

domain_app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Domains: what is public about a table. Sketch, learn, check and show them.",
)

LeaveOut = Annotated[
    list[str] | None, typer.Option(help="A column that is no feature, such as an id; repeatable.")
]
Header = Annotated[
    bool,
    typer.Option("--header", help="A CSV file's first line names its columns, and is no record."),
]
OfTask = Annotated[
    Task | None, typer.Option(help="What the target is.", show_default="what its type says")
]


@domain_app.command()
def skeleton(
    data: DataFile,
    target: Target,
    leave_out: LeaveOut = None,
    task: OfTask = None,
    unit: Annotated[
        str | None, typer.Option(help="The column that tells protected units (people) apart.")
    ] = None,
    header: Header = False,
    out: Out = None,
    separator: Separator = None,
    force: Force = False,
) -> None:
    """Sketch a domain from a table's schema: names and types, with null where you must fill in.

    A CSV file has names alone: each column lists the kinds, of which one is to stay.
    No row is read, nor what a schema carries of the rows.
    """
    from privboost.tables.features import FEATURE_KINDS
    from privboost.tables.skeletons import make_skeleton

    check_out((data,), out, force)
    table = open_rows(data, None, separator)
    own = None if task is None else task.value
    made = make_skeleton(table, target, leave_out or (), own, header, unit)
    _write(made.to_json(), out)
    if made.left_out:
        listed = ", ".join(map(repr, made.left_out))
        say(f"no kind of feature for the types of {listed}: left out")
    if made.open_kinds:
        say(f"types do not say what {made.open_kinds} columns hold: leave one kind each, and add")
        for kind in FEATURE_KINDS.values():
            say(f"  {kind.kind:<11}  {kind.example}")
    say(
        f"{made.placeholders} parts hold null: fill them in from public knowledge, never from the "
        "rows; or privboost domain learn --domain-given. What another kind would need may stay null"
    )


@domain_app.command()
def learn(
    data: DataFile,
    target: Target,
    epsilon: Epsilon,
    delta: Delta = 1e-6,
    out: Out = None,
    domain_given: Annotated[
        Path | None,
        typer.Option(help="The part of it that is known (JSON); a skeleton's null is learned."),
    ] = None,
    leave_out: LeaveOut = None,
    task: OfTask = None,
    missing: Missing = None,
    separator: Separator = None,
    ledger: LedgerFile = None,
    budget: Budget = None,
    dataset: OfDataset = None,
    limit_epsilon: NewEpsilon = None,
    limit_delta: NewDelta = None,
    name: RunName = None,
    seed: Seed = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    force: Force = False,
) -> None:
    """Learn a domain privately. Spends the budget; training on the same rows adds to it."""
    from privboost.learning.given import open_given
    from privboost.progress import reading
    from privboost.tables.domain import Domain

    check_out((data, domain_given, ledger, budget), out, force)  # before it costs
    given = dict(open_given("--domain-given", domain_given))
    if leave_out:
        given["leave_out"] = [*given.get("leave_out", ()), *leave_out]
    table = open_rows(data, missing, separator)
    column = unit_column_of(None, domain_given)
    account = account_of(
        budget, dataset, limit_epsilon, limit_delta, name, column, **kind_for("", delta)
    )
    with spending(epsilon, delta):
        with reading(is_watched() and not quiet, table):
            learned = Domain.learn(
                table,
                target,
                epsilon,
                delta,
                task=None if task is None else task.value,
                given=given,
                random_state=seed,
                ledger=ledger,
                budget=account,
            )
        if out is None:
            print_paid(learned.to_json().rstrip("\n"), "domain.json")
        else:
            save_paid(learned.to_json, out)
    if out is not None:
        assert learned.privacy is not None
        print_written(out, learned.privacy.guarantee, as_json, privacy=learned.privacy.to_dict())


@domain_app.command()
def check(
    domain: DomainFile,
    data: DataFile,
    header: Header = False,
    public_rows: Annotated[
        bool,
        typer.Option(
            "--public-rows", help="All rows are public: count what would be clipped, exactly."
        ),
    ] = False,
    as_json: AsJson = False,
    missing: Missing = None,
    separator: Separator = None,
) -> None:
    """Compare a domain with a table's schema. Leaves with 4 where they do not go together.

    Lists all that is still to be filled in, all that is wrong, and all that does not fit.
    Rows are read, and what would be clipped is said, only where you declare them public: then a
    column that is missing in more than 99% of rows does not fit either.
    """
    from privboost.tables.comparisons import compare, with_strays
    from privboost.tables.domain import Domain, read_json
    from privboost.tables.domain_forms import read_parts

    form = read_json(domain)
    parts = read_parts(form)
    table = open_rows(data, missing, separator)
    found = compare(parts, table)
    more = found.more if header or not table.is_text else ()
    known = None if parts.holes or parts.wrong else Domain.from_dict(form)
    if public_rows and found.fits and known is not None:
        found = with_strays(found, parts, table)
    fits = known is not None and found.fits
    check_output()
    if as_json:
        told: dict[str, Any] = {
            "fits": fits,
            "open": [hole.place for hole in parts.holes],
            "wrong": parts.wrong,
            "absent": found.absent,
            "unfit": found.unfit,
            "more": more,
        }
        if found.strays:
            told |= {"empty": found.empty, "columns": [asdict(each) for each in found.strays]}
        print_json(told)
    else:
        for hole in parts.holes:
            typer.echo(f"open: {hole.place}: {hole.hint}")
        for text in parts.wrong:
            typer.echo(f"wrong: {text}")
        for name in found.absent:
            typer.echo(f"absent: the table has no column {name!r}")
        for text in found.unfit:
            typer.echo(f"unfit: {text}")
        for name in more:
            typer.echo(f"more: {name!r} is not in the domain, and is not read")
        if found.strays:
            headings = ("column", "rows", "missing", "below", "above", "other")
            print_table(headings, [tuple(asdict(each).values()) for each in found.strays])
        for name in found.empty:
            typer.echo(
                f"empty: {name!r} is missing, or not as the domain says, in over 99% of rows"
            )
        if not found.fits:
            typer.echo("the domain does not fit the table")
        elif known is None:
            typer.echo("the domain is not whole: fill it in from public knowledge, never the rows")
        else:
            typer.echo("the domain fits the table")
    if not fits:
        raise SystemExit(Status.table.value)


@domain_app.command()
def show(domain: DomainFile, as_json: AsJson = False) -> None:
    """Print a domain as a table, with the reasons that it gives."""
    from privboost.tables.domain import Domain
    from privboost.unit import describe_unit

    known = Domain.from_json(domain)
    check_output()
    if as_json:
        typer.echo(known.to_json(), nl=False)
        return
    rows = [
        (part.name, part.kind, part.range, "expected" if part.missing else "", part.reason)
        for part in known.features
    ]
    print_table(("feature", "kind", "values", "missing", "reason"), rows)
    why = f" ({known.target.reason})" if known.target.reason else ""
    typer.echo(f"target {known.target.name}: {known.target.describe()}{why}")
    typer.echo(f"protected unit: {describe_unit(known.unit)}")
    if known.privacy is not None:
        typer.echo(f"learned at: {known.privacy.guarantee}")


def _write(text: str, out: Path | None) -> None:
    from privboost.files import write_file

    if out is None:
        typer.echo(text, nl=False)
    else:
        write_file(out, text.encode())
