"""What each idea of the flagship brings, as tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.page.markdown import budget, figure, number, table
from bench.utility.scores import MAIN
from bench.utility.tables import kind, title


def ideas(folder: Path) -> str:
    """Return a table for each ε, and one of log-losses; nothing if there are no measurements."""
    path = folder / "ablation.json"
    if not path.exists():
        return ""
    found = json.loads(path.read_text(encoding="utf-8"))["results"]
    epsilons = sorted({one["epsilon"] for one in found})
    return "\n\n".join(_changes(found, epsilon) for epsilon in epsilons)


def _changes(found: list[dict[str, Any]], epsilon: float) -> str:
    own = [one for one in found if one["epsilon"] == epsilon]
    names = list(dict.fromkeys(one["table"] for one in own))
    columns = [(name, MAIN[kind(name)]) for name in names]
    columns += [(name, "log-loss") for name in names if kind(name) == "two"]
    by_idea: dict[str, dict[str, Any]] = {}
    for one in own:
        by_idea.setdefault(one["idea"], {})[one["table"]] = one["scores"]
    rows = [
        [idea, *(_change(idea, of_table.get(name), measure) for name, measure in columns)]
        for idea, of_table in by_idea.items()
    ]
    head = [f"without, ε = {budget(epsilon)}"]
    return table(head + [f"{title(name)}, {measure}" for name, measure in columns], rows)


def _change(idea: str, scores: dict[str, Any] | None, measure: str) -> str:
    if scores is None:
        return ""
    if idea == "nothing":
        return number(scores[measure]["mean"])
    change, error = scores[measure]["change"]
    if change == 0 and not error:
        return ""
    return ("+" if change > 0 else "") + figure((change, error)).replace("-", "−")
