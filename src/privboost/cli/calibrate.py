"""How much noise a budget needs, on the command line."""

from __future__ import annotations

from typing import Annotated

import typer

from privboost.cli.options import AsJson, Delta, Epsilon
from privboost.cli.printing import is_watched, print_json


def calibrate(
    epsilon: Epsilon,
    delta: Delta = 1e-6,
    rounds: Annotated[int, typer.Option(help="Releases with Gaussian noise.")] = 0,
    sampling_rate: Annotated[
        float, typer.Option(help="The chance of a row to be used in a round.")
    ] = 1.0,
    selections: Annotated[int, typer.Option(help="Choices by the exponential mechanism.")] = 0,
    selection_share: Annotated[
        float, typer.Option(help="The part of the budget, on mu squared, that selections have.")
    ] = 0.7,
    laplace: Annotated[int, typer.Option(help="Releases with Laplace noise.")] = 0,
    accountant: Annotated[
        str, typer.Option(help="auto, gdp, game, pld, rdp, pure or advanced.")
    ] = "auto",
    as_json: AsJson = False,
) -> None:
    """Say how much noise a budget needs, before any data are touched."""
    from privboost.privacy.calibration import calibrate_releases
    from privboost.progress import waiting

    with waiting(is_watched(), "calibrating the noise"):
        found = calibrate_releases(
            epsilon,
            delta,
            rounds=rounds,
            sampling_rate=sampling_rate,
            selections=selections,
            selection_share=selection_share,
            laplace=laplace,
            accountant=accountant,
        )
    if as_json:
        print_json(found.to_dict())
    else:
        typer.echo(found.to_text())
