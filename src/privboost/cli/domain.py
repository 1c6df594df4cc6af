"""Commands of domains: `domain skeleton`, `learn`, `check` and `show`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

import privboost
from privboost._core.files import write_file
from privboost._core.progress import reading
from privboost._core.unit import describe_unit
from privboost.cli.exits import Status, notify
from privboost.cli.options import (
    AccountOptions,
    AsJson,
    DataFile,
    Delta,
    DomainFile,
    Epsilon,
    Force,
    Out,
    OutputOptions,
    ProgressOptions,
    RunOptions,
    Separator,
    TableOptions,
    Target,
    Task,
    account_kind,
    known_domain,
    unit_column,
)
from privboost.cli.output import (
    check_standard_output,
    print_json,
    print_paid,
    print_table,
    print_written,
    save_paid,
    spending,
)
from privboost.cli.registry import command, option

LeaveOut = Annotated[list[str] | None, "A column that is no feature, such as an id; repeatable."]
Header = Annotated[bool, "The first line of a CSV file has the names of its columns."]
OfTask = Annotated[Task | None, option("The kind of target.", show_default="by its type")]


@command("privboost domain skeleton v.parquet --target readmitted --leave-out id --out d.json")
def skeleton(
    *,
    data: DataFile,
    target: Target,
    leave_out: LeaveOut = None,
    task: OfTask = None,
    event: Annotated[
        str | None, "For survival times: the column that tells whether the event was observed."
    ] = None,
    unit: Annotated[str | None, "The column that identifies protected units (people)."] = None,
    header: Header = False,
    out: Out = None,
    separator: Separator = None,
    force: Force = False,
) -> None:
    """Sketch a domain from a table's schema: names and types, with null where you must fill in.

    A CSV file has names alone: each column lists the kinds, of which one is to stay.
    No row is read, nor what a schema carries of the rows.
    """
    from privboost.data.features import FEATURE_KINDS
    from privboost.data.schema import make_skeleton

    OutputOptions(force=force).check((data,), out)
    table = TableOptions(separator=separator).open(data)
    kind = None if task is None else task.value
    made = make_skeleton(table, target, leave_out or (), kind, header, unit, event)
    if out is None:
        typer.echo(made.to_json(), nl=False)
    else:
        write_file(out, made.to_json().encode())
    if made.left_out:
        columns = ", ".join(map(repr, made.left_out))
        notify(f"no kind of feature for the types of {columns}: left out")
    if count := made.open_kinds:
        notify(f"the schema has no types for {count} columns: keep one kind each, and add")
        for each in FEATURE_KINDS.values():
            notify(f"  {each.kind:<11}  {each.example}")
    notify(
        f"{made.placeholders} parts hold null: fill them in from public knowledge, never from the "
        "rows; or privboost domain learn --domain-given. What another kind would need may stay null"
    )


@command("privboost domain learn v.parquet --target cost --epsilon 0.2 --out d.json")
def learn(
    *,
    data: DataFile,
    target: Target,
    epsilon: Epsilon,
    delta: Delta = 1e-6,
    out: Out = None,
    domain_given: Annotated[
        Path | None, "The part of it that is known (JSON); a skeleton's null is learned."
    ] = None,
    leave_out: LeaveOut = None,
    task: OfTask = None,
    table: TableOptions,
    run: RunOptions,
    account: AccountOptions,
    output: ProgressOptions,
) -> None:
    """Learn a domain privately. Spends the budget; training on the same rows adds to it."""
    output.check((data, domain_given, run.ledger, account.budget), out)
    known = known_domain(domain_given)
    if leave_out:
        known["leave_out"] = [*known.get("leave_out", ()), *leave_out]
    source = table.open(data)
    charged = account.open(unit_column(None, domain_given), **account_kind("", delta))
    with spending(epsilon, delta):
        with reading(output.verbose, source):
            learned = privboost.Domain.learn(
                source,
                target,
                epsilon,
                delta,
                task=None if task is None else task.value,
                given=known,
                random_state=run.seed,
                ledger=run.ledger,
                budget=charged,
            )
        if out is None:
            print_paid(learned.to_json().rstrip("\n"), "domain.json")
        else:
            save_paid(learned.to_json, out)
    if out is not None:
        privacy = learned.privacy
        assert privacy is not None
        print_written(out, privacy.guarantee, output.as_json, privacy=privacy.to_dict())


def _print_comparison(parts: Any, found: Any, more: Any, complete: bool) -> None:
    lines = [f"open: {hole.place}: {hole.hint}" for hole in parts.holes]
    lines += [f"wrong: {text}" for text in parts.wrong]
    lines += [f"absent: the table has no column {name!r}" for name in found.absent]
    lines += [f"unfit: {text}" for text in found.unfit]
    lines += [f"more: {name!r} is not in the domain, and is not read" for name in more]
    for line in lines:
        typer.echo(line)
    if found.strays:
        headings = ("column", "rows", "missing", "below", "above", "other")
        print_table(headings, [tuple(asdict(each).values()) for each in found.strays])
    for name in found.empty:
        typer.echo(f"empty: {name!r} is missing, or not as the domain says, in over 99% of rows")
    if not found.fits:
        typer.echo("the domain does not fit the table")
    elif not complete:
        typer.echo("the domain is not whole: fill it in from public knowledge, never the rows")
    else:
        typer.echo("the domain fits the table")


@command("privboost domain check d.json v.parquet")
def check(
    *,
    domain: DomainFile,
    data: DataFile,
    header: Header = False,
    public_rows: Annotated[
        bool, "All rows are public: count what would be clipped, exactly."
    ] = False,
    as_json: AsJson = False,
    table: TableOptions,
) -> None:
    """Compare a domain with a table's schema. Exits with 4 if they do not match.

    Lists all that is still to be filled in, all that is wrong, and all that does not match.
    Rows are read, and what would be clipped is counted, only if you declare them public: then a
    column that is missing in more than 99% of rows does not match either.
    """
    from privboost.data.domain_json import read_json, read_parts
    from privboost.data.schema import compare, with_outside_counts

    declared = read_json(domain)
    parts = read_parts(declared)
    source = table.open(data)
    found = compare(parts, source)
    more = found.more if header or not source.is_text else ()
    known = None if parts.holes or parts.wrong else privboost.Domain.from_dict(declared)
    if public_rows and found.fits and known is not None:
        found = with_outside_counts(found, parts, source)
    fits = known is not None and found.fits
    check_standard_output()
    if as_json:
        document: dict[str, Any] = {
            "fits": fits,
            "open": [hole.place for hole in parts.holes],
            "wrong": parts.wrong,
            "absent": found.absent,
            "unfit": found.unfit,
            "more": more,
        }
        if found.strays:
            document |= {"empty": found.empty, "columns": [asdict(each) for each in found.strays]}
        print_json(document)
    else:
        _print_comparison(parts, found, more, known is not None)
    if not fits:
        raise SystemExit(Status.table.value)


@command("privboost domain show d.json")
def show(domain: DomainFile, as_json: AsJson = False) -> None:
    """Print a domain as a table, with its reasons."""
    known = privboost.Domain.from_json(domain)
    check_standard_output()
    if as_json:
        typer.echo(known.to_json(), nl=False)
        return
    rows = [
        (part.name, part.kind, part.range, "expected" if part.missing else "", part.reason)
        for part in known.features
    ]
    print_table(("feature", "kind", "values", "missing", "reason"), rows)
    reason = f" ({known.target.reason})" if known.target.reason else ""
    typer.echo(f"target {known.target.name}: {known.target.describe()}{reason}")
    typer.echo(f"protected unit: {describe_unit(known.unit)}")
    if known.privacy is not None:
        typer.echo(f"learned at: {known.privacy.guarantee}")
