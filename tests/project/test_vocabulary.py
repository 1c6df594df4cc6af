"""The field's own words: terms that no reader outside could search for are not used."""

import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src" / "privboost").rglob("*.py"))
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]

IDENTIFIERS = {
    "thread pool": r"[Cc]rew|[Mm]ailbox|watchman|stand_watch",
    "device, model card or summary": r"CardError|[Tt]ree_?[Cc]ard|[Vv]ote_?[Cc]ard|card_of_vote",
    "domain inference": r"[Ll]esson\w*|taught",
    "noise replay": r"[Ee]choes|echo_\w+",
    "published, update": r"told|told_\w+|\w+_told|hear|heed|_said|say_\w+",
    "posterior": r"[Kk]nowledge",
    "step damping": r"[Pp]ace|pace_\w+",
    "schema, payload": r"to_form|from_form|_form|form_of|write_form|read_form",
    "warning": r"[Cc]autions?",
    "sensitivity check": r"[Pp]romise[sd]?|check_promise",
    "balance, charge": r"[Pp]osting|[Ss]tatement|statements",
    "scikit-learn compatibility, attached columns": r"[Mm]anners|[Bb]eside",
    "individual privacy filter": r"[Bb]udget_?[Ff]or_?[Ll]ife",
    "target clipping range": r"[Tt]arget_?[Ss]pan|[Ss]et_?[Ss]pan",
    "split bitmask, code intervals, unique splits": r"turns|turn_\w+|tree_lines|line_kernels",
    "leaf assignment": r"[Rr]outes",
    "probabilities": r"chances|has_chances",
    "booleans, Hessians": r"truths?|bends?",
    "additive model with interactions": r"[Cc]ompound\w*",
    "noisy count": r"released_mass|told_rows",
    "layer, package": r"[Rr]ooms?|[Ww]alls?",
}
"""Names in code, with what they are called now."""

PHRASES = {
    "observed": r"came true|share that came|probability promised",
    "published": r"what is told|rows are told|was told|were told|is told|are told",
    "participants": r"who takes part|that which",
    "individual privacy filter": r"budgets? for life",
    "booleans": r"truth values?",
    "noisy count": r"released mass",
    "noise replay": r"\bechoe[sd]\b",
    "domain inference": r"\blessons?\b",
    "GPU, device": r"graphics card|on a card|the card's|cards' memory",
    "thread pool": r"\bcrew\b",
    "scikit-learn compatibility": r"\bmanners\b",
    "package, layer": r"\bthe house\b|\brooms\b",
    "to do": r"is worth a look|have a look",
}
"""Phrases in docstrings, comments, messages and pages."""


STORED = ("in lesson ", '"lessons"', "child('lesson')", "were told, ", "truth values by its type")
"""Strings that are part of files, reports or random streams of 0.1.0, and stay."""


def names_of(path):
    with path.open("rb") as file:
        return {
            token.string: token.start[0]
            for token in tokenize.tokenize(file.readline)
            if token.type == tokenize.NAME
        }


@pytest.mark.parametrize("term", IDENTIFIERS)
def test_identifiers(term):
    pattern = re.compile(rf"_*({IDENTIFIERS[term]})")
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in SOURCES
        for name, line in names_of(path).items()
        if pattern.fullmatch(name)
    ]
    assert not found, f"say {term}: " + "; ".join(found)


@pytest.mark.parametrize("term", PHRASES)
def test_phrases(term):
    pattern = re.compile(PHRASES[term], re.IGNORECASE)
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in [*SOURCES, *PAGES]
        if path.name != "CHANGELOG.md"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line) and not any(each in line for each in STORED)
    ]
    assert not found, f"say {term}: " + "; ".join(found)
