"""What people type, for each command: it stands under its help, and the tests read it."""

from __future__ import annotations

EXAMPLES = {
    "train": (
        "privboost train visits.parquet --domain d.json --epsilon 1 --model m.privboost",
        "privboost train visits.csv --target readmitted --epsilon 1 --model m.privboost",
        "privboost train v.csv --domain d.json --epsilon 1 --model m --recipe auto --dry-run",
    ),
    "extend": (
        "privboost extend rows.stream june.parquet --epsilon 0.5 --model m.privboost --force",
    ),
    "search": (
        "privboost search v.csv --candidates tried.json --domain d.json --epsilon 2 --model m",
    ),
    "recommend": ("privboost recommend d.json --epsilon 0.5 --rows 30000 --readable",),
    "calibrate": (
        "privboost calibrate --epsilon 1 --delta 1e-6 --rounds 100",
        "privboost calibrate --epsilon 1 --rounds 100 --sampling-rate 0.1 --json",
    ),
    "predict": (
        "privboost predict m.privboost new.parquet --keep id --out predicted.parquet",
        "privboost predict m.privboost new.csv --json",
    ),
    "evaluate": (
        "privboost evaluate m.privboost later.parquet --epsilon 0.5 --by sex",
        "privboost evaluate m.privboost later.parquet --epsilon 0.5 --json --out found.json",
    ),
    "explain": (
        "privboost explain m.privboost",
        "privboost explain m.privboost --plot shapes.png",
    ),
    "report": (
        "privboost report m.privboost",
        "privboost report m.privboost --format html --evaluation found.json --out card.html",
    ),
    "export": (
        "privboost export m.privboost m.onnx",
        "privboost export m.privboost m.sql",
    ),
    "demo": ("privboost demo --out demo/report.html",),
    "domain skeleton": (
        "privboost domain skeleton v.parquet --target readmitted --leave-out id --out d.json",
    ),
    "domain learn": ("privboost domain learn v.parquet --target cost --epsilon 0.2 --out d.json",),
    "domain check": ("privboost domain check d.json v.parquet",),
    "domain show": ("privboost domain show d.json",),
    "budget open": (
        "privboost budget open budgets.db visits --limit-epsilon 3 --limit-delta 1e-5",
    ),
    "budget show": ("privboost budget show budgets.db visits --json",),
    "budget limit": ("privboost budget limit budgets.db visits --limit-epsilon 4",),
    "budget unit": ("privboost budget unit budgets.db visits patient",),
    "budget close": ("privboost budget close budgets.db visits --yes",),
    "federation keys": (
        "privboost federation keys coordinator --host train.example.org",
        "privboost federation keys north",
    ),
    "federation coordinate": (
        "privboost federation coordinate --domain d.json --epsilon 1 --model m.privboost",
    ),
    "federation join": (
        "privboost federation join v.csv --at train.example.org:8470 --domain d.json "
        "--key north.key --limit-epsilon 3 --limit-delta 1e-5",
    ),
}


def epilog_of(command: str) -> str:
    """Return what stands under a command's help: a line for each example."""
    return "\n\n".join(("Examples:", *EXAMPLES[command]))
