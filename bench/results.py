"""Write the page of results, the README's part of it and the pictures.

    python -m bench.results

Runs that were made here (`python -m bench.utility`) are summed up first: their points take the
place of the committed ones in `bench/results/utility.json`. Pictures need matplotlib; without it
they stay as they are, and are then those of older summaries.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from importlib.util import find_spec

from bench.page.pages import PAGE, README, page, readme_block, with_block
from bench.utility.store import merge, read_runs, read_summary, summarise, write_summary


def main() -> None:
    argparse.ArgumentParser(
        prog="python -m bench.results",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ).parse_args()
    if runs := read_runs():
        write_summary(merge(read_summary(), summarise(runs)))
        print(f"{len(runs)} runs summed up")
    PAGE.write_text(page(), encoding="utf-8")
    README.write_text(
        with_block(README.read_text(encoding="utf-8"), readme_block()), encoding="utf-8"
    )
    if find_spec("matplotlib"):
        import_module("bench.page.pictures").draw()
    else:
        print("matplotlib is not installed: the pictures are as they were")


if __name__ == "__main__":
    main()
