"""The page of results, and what the README has of it: written by a script, never by hand."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from bench import runner
from bench.page import ablation_text, speed_text, utility_text
from bench.page.comparisons import better, by_point, value
from bench.page.markdown import figure, table
from bench.utility.methods import CEILING, FLAGSHIP, METHODS
from bench.utility.plan import Point, delta_of
from bench.utility.scores import MAIN
from bench.utility.store import Summary, read_summary
from bench.utility.tables import kind, title

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "results.md"
README = ROOT / "README.md"
PICTURES = ROOT / "docs" / "pictures"
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"

README_TABLES = ("adult", "telco_churn", "spambase", "cardio", "cod_rna", "covtype:two", "abalone")
README_EPSILON = 1.0

_TEMPLATE = Path(__file__).parent / "results.md"

_NOT_YET = "*Not measured yet.*"


def digest(folder: Path = runner.RESULTS) -> str:
    """Return what tells one state of the scores' summaries from another."""
    return sha256((folder / "utility.json").read_bytes()).hexdigest()[:16]


def page(folder: Path = runner.RESULTS) -> str:
    """Return the whole page."""
    summaries = read_summary(folder / "utility.json")
    speed = [
        speed_text.fits(folder),
        speed_text.growth(folder),
        speed_text.cores(folder),
        speed_text.primitives(folder),
        speed_text.scale(folder),
    ]
    parts = {
        "run": utility_text.what_was_run(summaries),
        "ranks": utility_text.mean_ranks(summaries),
        "scores": utility_text.scores(summaries),
        "same": utility_text.same_score_table(summaries),
        "large": utility_text.large_table(summaries),
        "losses": utility_text.losses_table(summaries),
        "ideas": ablation_text.ideas(folder),
        "speed": "\n\n".join(part for part in speed if part),
        "accounting": speed_text.accounting(folder),
    }
    template = _TEMPLATE.read_text(encoding="utf-8")
    return template.format(**{name: part or _NOT_YET for name, part in parts.items()})


def readme_block(folder: Path = runner.RESULTS) -> str:
    """Return what stands between the README's marks."""
    summaries = read_summary(folder / "utility.json")
    counts = utility_text.run_counts(summaries)
    found, compared = utility_text.all_losses(summaries)
    lost = f"in {len(found)} of {compared} comparisons"
    return "\n\n".join(
        [
            BEGIN,
            "![What each ε buys, table by table](docs/pictures/in_short.svg)",
            f"Held-out scores at ε = {README_EPSILON:g}, δ = 10⁻⁶, means ± standard errors of "
            f"{counts} runs, nothing set\nbut ε and δ (AUC; RMSE for Abalone):",
            _readme_scores(summaries) or _NOT_YET,
            "Another private method is better than PrivBoost by more than two standard errors\n"
            f"{lost} (all tables, ε and scores): [which, and all else](docs/results.md).",
            speed_text.ratios(folder) or _NOT_YET,
            END,
        ]
    )


def _readme_scores(summaries: list[Summary]) -> str:
    """Return the flagship beside the best other recipe here, DP-EBM and LightGBM."""
    points = by_point(summaries)
    budgets = (README_EPSILON, delta_of(README_EPSILON))
    rows = []
    for name in README_TABLES:
        measure = MAIN[kind(name)]
        own = points.get(Point(name, FLAGSHIP, *budgets))
        if own is None:
            continue
        best, whose = None, ""
        for method in METHODS:
            one = points.get(Point(name, method, *budgets))
            found = value(one, measure)
            if method in (FLAGSHIP, "dp_ebm") or one is None or found is None:
                continue
            if best is None or better(found, best[0], measure):
                best, whose = one["scores"][measure], METHODS[method].title
        peers = [
            points.get(Point(name, "dp_ebm", *budgets)),
            points.get(Point(name, CEILING, None, None)),
        ]
        rows.append(
            [
                title(name),
                figure(own["scores"][measure]),
                "" if best is None else f"{figure(best)} ({whose})",
                *("" if one is None else figure(one["scores"][measure]) for one in peers),
            ]
        )
    head = ["table", "PrivBoost", "best of the other recipes", "DP-EBM", "LightGBM, no privacy"]
    return table(head, rows)


def with_block(readme: str, block: str) -> str:
    """Return the README with a new block between its marks."""
    before, _, rest = readme.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise ValueError(f"README.md has no {BEGIN} … {END}")
    return before + block + after
