"""Links of the pages lead to files and headings that are there; on a package index too."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\((?!https?:)([^)\s#]*)(?:#([^)\s]*))?\)")


def written(page):
    """The text of a page without its code, in which brackets mean something else."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`", lambda code: code[0] if "](" not in code[0] else "", text)


def anchors(page):
    """The headings of a page as links name them."""
    headings = re.findall(r"^#+ (.*)$", written(page), flags=re.M)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    for path, anchor in LINK.findall(written(page)):
        target = (page.parent / path) if path else page
        assert target.exists(), path
        if anchor:
            assert anchor in anchors(target), f"{path}#{anchor}"


def test_the_readme_has_links_and_a_picture():
    readme = written(ROOT / "README.md")
    assert len(LINK.findall(readme)) > 20
    assert readme.count("![") == 1


def test_no_link_of_the_readme_needs_files_on_a_package_index():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for rule in project["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(rule["pattern"], rule["replacement"], text)
    assert not LINK.search(text)
    assert "the threat model (`docs/threat_model.md`)" in text
