"""Which recipe to begin with, on the command line."""

from __future__ import annotations

from typing import Annotated

import typer

from privboost.cli.options import AsJson, Delta, DomainFile, Epsilon
from privboost.cli.printing import print_json


def recommend(
    domain: DomainFile,
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-6,
    rows: Annotated[
        int | None, typer.Option(help="About how many rows there are, if that may be known.")
    ] = None,
    streams: Annotated[
        bool, typer.Option("--streams", help="Rows come later, and are to be added.")
    ] = False,
    readable: Annotated[
        bool, typer.Option("--readable", help="People are to read the model as a whole.")
    ] = False,
    pure: Annotated[
        bool, typer.Option("--pure", help="The guarantee is to have no delta.")
    ] = False,
    parties: Annotated[
        bool, typer.Option("--parties", help="Parties keep their rows: no machine may see them.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Pick a recipe from public facts, and say why. No row is looked at."""
    from privboost.recommendation import recommend

    found = recommend(
        domain,
        epsilon,
        delta,
        rows=rows,
        streams=streams,
        readable=readable,
        pure=pure,
        trusted_server=not parties,
    )
    if as_json:
        print_json(found.to_dict())
    else:
        typer.echo(found.to_text())
