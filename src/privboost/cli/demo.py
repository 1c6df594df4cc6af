"""The demonstration on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privboost.cli.files import check_files
from privboost.cli.options import AsJson, Force
from privboost.cli.printing import print_json

PAGE = Path("demo") / "report.html"


def demo(
    out: Annotated[Path, typer.Option(help="Where to write a page with plots.")] = PAGE,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Train on the Adult data set at several budgets: a table and a page of what each buys."""
    out.parent.mkdir(parents=True, exist_ok=True)
    check_files((), [out], [out] if force else ())
    from privboost.demo.run import print_results, run_demo

    results = run_demo(out)
    if as_json:
        print_json({"out": str(out), "results": [result.to_dict() for result in results]})
    else:
        print_results(results, out)
