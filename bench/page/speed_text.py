"""Speed and accounting in tables, made of what was measured last."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench import runner
from bench.page.markdown import number, table

BASE = "LightGBM"
SHORT = ("PrivBoost", "S-BDT", "DP-EBM")
"""Whom the README's sentence has."""


def read(name: str, folder: Path = runner.RESULTS) -> dict[str, Any] | None:
    """Return a measurement, if it was made."""
    path = folder / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def machine(form: dict[str, Any]) -> str:
    """Return where a measurement was made, and whether other work was going on."""
    cores, busy = form["machine"]["cores"], form["settings"]["load_before"]
    where = f"Measured on {form['machine']['processor']}, {cores} cores"
    if busy > 0.3 * cores:
        where += f", **while they were busy with other work** (load {busy:g}): ratios are rough"
    return where


def fits(folder: Path = runner.RESULTS) -> str:
    """Return seconds of whole fits, and their ratio to LightGBM's with as many threads."""
    form = read("speed_fits", folder)
    if form is None:
        return ""
    threads, cases = _by_case(form)
    rows = [
        [case if k == 0 else "", who, *(_beside(seconds, who, count) for count in threads)]
        for case, seconds in cases.items()
        for k, who in enumerate(dict.fromkeys(who for who, _ in seconds))
    ]
    first = f"{machine(form)}. In brackets the ratio to {BASE}'s time."
    return f"{first}\n\n{table(_head(threads), rows)}"


def ratios(folder: Path = runner.RESULTS) -> str:
    """Return, for the README, ratios to LightGBM in the first case, of those readers look for."""
    form = read("speed_fits", folder)
    if form is None:
        return ""
    threads, cases = _by_case(form)
    case, seconds = next(iter(cases.items()))
    count = threads[0]
    shown = [who for who in SHORT if {(who, count), (BASE, count)} <= set(seconds)]
    if not shown:
        return ""
    parts = [f"{who} {number(seconds[who, count] / seconds[BASE, count])}" for who in shown]
    table_name = case.split(",")[0]
    ratio = f"Time of a whole fit on {table_name}, as a ratio to {BASE}'s: {', '.join(parts)}."
    return f"{ratio}\n{machine(form)}."


def _by_case(form: dict[str, Any]) -> tuple[list[int], dict[str, dict[tuple[str, int], float]]]:
    """Return the numbers of threads, and seconds by case, contender and threads."""
    cases: dict[str, dict[tuple[str, int], float]] = {}
    for one in form["results"]:
        cases.setdefault(one["case"], {})[one["who"], one["threads"]] = one["seconds"]
    return sorted({one["threads"] for one in form["results"]}), cases


def _head(threads: list[int]) -> list[str]:
    return ["fit", "", *(f"{count} thread{'s' * (count > 1)}" for count in threads)]


def _beside(seconds: dict[tuple[str, int], float], who: str, threads: int) -> str:
    own, base = seconds[who, threads], seconds.get((BASE, threads))
    return f"{number(own)} s" + ("" if base is None else f" ({number(own / base)})")


def growth(folder: Path = runner.RESULTS) -> str:
    """Return seconds as it is, and how many times that is with each size doubled."""
    form = read("speed_growth", folder)
    if form is None:
        return ""
    cases = list(dict.fromkeys(one["case"] for one in form["results"]))
    seconds = {(one["who"], one["case"]): one["seconds"] for one in form["results"]}
    rows = [
        [
            who,
            f"{number(seconds[who, cases[0]])} s",
            *(f"× {seconds[who, case] / seconds[who, cases[0]]:.2f}" for case in cases[1:]),
        ]
        for who in dict.fromkeys(who for who, _ in seconds)
    ]
    return table(["one thread", *cases], rows)


def cores(folder: Path = runner.RESULTS) -> str:
    """Return seconds of one thread, and how many times as fast more of them are."""
    forms = [read(name, folder) for name in ("speed_cores_few_rows", "speed_cores")]
    return "\n\n".join(_cores(form) for form in forms if form is not None)


def _cores(form: dict[str, Any]) -> str:
    threads, cases = _by_case(form)
    rows = [
        [case if k == 0 else "", who, *(_times(seconds, who, count, threads) for count in threads)]
        for case, seconds in cases.items()
        for k, who in enumerate(dict.fromkeys(who for who, _ in seconds))
    ]
    first = f"{machine(form)}. Beside the first, how many times as fast."
    return f"{first}\n\n{table(_head(threads), rows)}"


def _times(seconds: dict[tuple[str, int], float], who: str, count: int, threads: list[int]) -> str:
    own, first = seconds.get((who, count)), seconds.get((who, threads[0]))
    if own is None:  # whole fits of large tables are not measured with each number of threads
        return ""
    if first is None or count == threads[0]:
        return f"{number(own)} s"
    return f"{number(own)} s (× {first / own:.2f})"


def primitives(folder: Path = runner.RESULTS) -> str:
    """Return seconds of noise, products and predictions."""
    form = read("speed_primitives", folder)
    rows = [
        [one["case"], one["who"], f"{number(one['seconds'])} s"]
        for one in (form["results"] if form else ())
    ]
    return table(["one thread", "", "time"], rows)


def scale(folder: Path = runner.RESULTS) -> str:
    """Return time and memory of large tables."""
    form = read("speed_scale", folder)
    rows = [
        [
            one["case"],
            one["who"],
            f"{number(one['seconds'])} s",
            f"{one['peak_bytes'] / 1e9:.2f} GB ({one['codes'] / 1e9:.2f} GB)",
        ]
        for one in (form["results"] if form else ())
    ]
    return table(["table", "", "time", "peak memory (codes, labels and scores alone)"], rows)


def accounting(folder: Path = runner.RESULTS) -> str:
    """Return the noise, or ε, that the same guarantee needs under each accounting."""
    form = read("accounting", folder)
    rows = [
        [name, *(f"{value:.4g}" for value in values)]
        for name, *values in (form["results"] if form else ())
    ]
    return table(["setting", "paper", "plain composition", "tight"], rows)
