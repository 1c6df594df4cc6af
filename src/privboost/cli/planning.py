"""Commands that need no rows: `recommend` and `calibrate`."""

from __future__ import annotations

from typing import Annotated

import privboost
from privboost.cli.options import AsJson, Delta, DomainFile, Epsilon
from privboost.cli.output import is_terminal, print_result
from privboost.cli.registry import BEGIN, command, option
from privboost.progress import waiting


@command("privboost recommend d.json --epsilon 0.5 --rows 30000 --readable", panel=BEGIN)
def recommend(
    domain: DomainFile,
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-6,
    rows: Annotated[int | None, option("About how many rows there are, if that is public.")] = None,
    streams: Annotated[
        bool, option("Rows come later, and are to be added.", name="--streams")
    ] = False,
    readable: Annotated[
        bool, option("People are to read the model as a whole.", name="--readable")
    ] = False,
    pure: Annotated[bool, option("The guarantee is to have no delta.", name="--pure")] = False,
    parties: Annotated[
        bool, option("Parties keep their rows: no machine may see them.", name="--parties")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Pick a recipe from public facts, and say why. No row is read."""
    found = privboost.recommend(
        domain,
        epsilon,
        delta,
        rows=rows,
        streams=streams,
        readable=readable,
        pure=pure,
        trusted_server=not parties,
    )
    print_result(found, as_json)


@command(
    "privboost calibrate --epsilon 1 --delta 1e-6 --rounds 100",
    "privboost calibrate --epsilon 1 --rounds 100 --sampling-rate 0.1 --json",
    panel=BEGIN,
)
def calibrate(
    epsilon: Epsilon,
    delta: Delta = 1e-6,
    rounds: Annotated[int, option("Releases with Gaussian noise.")] = 0,
    sampling_rate: Annotated[
        float, option("The probability that a row is sampled in a round.")
    ] = 1.0,
    selections: Annotated[int, option("Selections by the exponential mechanism.")] = 0,
    selection_share: Annotated[
        float, option("The share of the budget, on mu squared, for selections.")
    ] = 0.7,
    laplace: Annotated[int, option("Releases with Laplace noise.")] = 0,
    accountant: Annotated[str, option("auto, gdp, game, pld, rdp, pure or advanced.")] = "auto",
    as_json: AsJson = False,
) -> None:
    """Compute how much noise a budget needs, before any data are read."""
    from privboost.privacy.calibration import calibrate_releases

    with waiting(is_terminal(), "calibrating the noise"):
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
    print_result(found, as_json)
