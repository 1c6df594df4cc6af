"""Put the pages of the site together: docs/, pages of the root folder, and a reference.

    python website/pages.py FOLDER

Links to what the site does not have (source, data) become the words they stand under; a link to
nothing at all is left, for Sphinx to complain of.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import sys
from pathlib import Path

import privboost
from privboost.recipes import ESTIMATORS

ROOT = Path(__file__).parents[1]
NAMES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CODE_OF_CONDUCT.md": "code_of_conduct.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
"""Pages of the root folder, and what they are called on the site."""

CONTENTS = {
    "Start": "guide tutorials/hospital tutorials/credit tutorials/epsilon tutorials/domain "
    "tutorials/preprocessing tutorials/evaluating tutorials/tuning tutorials/streams "
    "tutorials/report three_hospitals",
    "Use": "command_line domain recipes scikit_learn evaluation explain report export accounts "
    "composition clusters federation gpu",
    "Trust": "threat_model sharp_edges guarantees/* security",
    "Measured": "results performance scale papers papers/*",
    "Inside": "method architecture design_notes contributing support code_of_conduct changelog",
    "Reference": "reference/estimators reference/functions reference/others reference/errors",
}
"""The pages in the order in which they are read; one that is not named here comes under "Use"."""

MODULES = tuple(
    f"privboost.{name}" for name in ("audit.audit", "datasets.load_abalone", "datasets.load_adult")
)
"""What users import from modules rather than from the package."""

LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#:]+)(#[^)\s]*)?\)")


def gather(into: Path) -> None:
    """Write all pages into a folder, which is emptied first."""
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    pages = {path: path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.*")}
    pages |= {ROOT / name: Path(place) for name, place in NAMES.items()}
    for path, place in pages.items():
        there = into / place
        there.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            text = _moved(path.read_text(encoding="utf-8"), path, pages)
            there.write_text(text, encoding="utf-8")
        else:
            shutil.copy(path, there)
    for name, text in _reference().items():
        (into / "reference").mkdir(exist_ok=True)
        (into / "reference" / f"{name}.md").write_text(text, encoding="utf-8")
    with (into / "index.md").open("a", encoding="utf-8") as index:
        index.writelines(_contents(into))


def _moved(text: str, page: Path, pages: dict[Path, Path]) -> str:
    """Return a page's text with links as they are on the site."""

    def link(found: re.Match[str]) -> str:
        mark, words, path, place = found.groups(default="")
        target = (page.parent / path).resolve()
        if target in pages:
            there = os.path.relpath(pages[target], pages[page].parent)
            return f"{mark}[{words}]({there}{place})"
        return words if target.exists() else found[0]

    return LINK.sub(link, text)


def _contents(pages: Path) -> list[str]:
    """Return the contents, which stand at the side of every page and are hidden on the first."""
    names = [path.relative_to(pages).with_suffix("").as_posix() for path in pages.rglob("*.md")]
    patterns = {title: words.split() for title, words in CONTENTS.items()}
    named = {
        name
        for words in patterns.values()
        for each in words
        for name in fnmatch.filter(names, each)
    }
    patterns["Use"] += sorted(set(names) - named - {"index"})
    return [
        f"\n```{{toctree}}\n:caption: {title}\n:hidden:\n:glob:\n\n" + "\n".join(words) + "\n```\n"
        for title, words in patterns.items()
    ]


def _reference() -> dict[str, str]:
    """Return the pages of the reference: every public name under one heading or another."""
    names = [f"privboost.{name}" for name in privboost.__all__] + list(MODULES)
    groups: dict[str, list[str]] = {"estimators": [], "functions": [], "others": [], "errors": []}
    for name in names:
        short = name.rpartition(".")[2]
        if short in ESTIMATORS:
            group = "estimators"
        elif short.endswith(("Error", "Warning")):
            group = "errors"
        else:
            group = "functions" if short[0].islower() else "others"
        groups[group].append(name)
    titles = {"others": "Domains, models and reports", "errors": "Errors and warnings"}
    return {
        group: f"# {titles.get(group, group.capitalize())}\n"
        + "".join(_entry(name, group == "functions") for name in names)
        for group, names in groups.items()
    }


def _entry(name: str, function: bool) -> str:
    directive = "autofunction" if function else "autoclass"
    options = "" if function else "   :members:\n   :inherited-members: BaseEstimator, Exception\n"
    text = f".. {directive}:: {name}\n{options}"
    return f"\n## {name.rpartition('.')[2]}\n\n```{{eval-rst}}\n{text}```\n"


if __name__ == "__main__":
    gather(Path(sys.argv[1]))
