"""The package as a user meets it: imports, examples, shipped data, the benchmark's domains."""

import doctest
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import privboost
from privboost import Domain
from privboost.datasets import load_adult
from privboost.recipes import ESTIMATORS

ROOT = Path(__file__).parent.parent


def test_importing_is_quick_because_nothing_heavy_is_loaded():
    code = "import sys, privboost; print(*{m.split('.')[0] for m in sys.modules})"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert not set(loaded.stdout.split()) & {"numpy", "numba", "sklearn", "scipy", "pyarrow"}


def test_every_public_name_exists_and_has_a_docstring():
    for name in privboost.__all__:
        assert getattr(privboost, name).__doc__
        assert name in dir(privboost)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        privboost.nonsense  # noqa: B018


def test_every_public_name_has_its_type(tmp_path):
    """A type checker sees what `import privboost` gives: no name is Any, unknown ones are wrong.

    Other packages are left out of its sight, which saves it a minute.
    """
    pytest.importorskip("mypy")
    lines = ["import privboost", *(f"reveal_type(privboost.{name})" for name in privboost.__all__)]
    lines += ["reveal_type(privboost.SBDTClassifier(1.0).fit([]))"]
    lines += ["privboost.SBDTClassifier(eps=1.0)", "privboost.nonsense"]
    (tmp_path / "snippet.py").write_text("\n".join(lines))
    apart = ("--config-file", os.devnull, "--cache-dir", str(tmp_path / "cache"))
    apart += ("--ignore-missing-imports", "--no-site-packages")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *apart, "snippet.py"],
        env=os.environ | {"MYPYPATH": str(Path(privboost.__file__).parent.parent)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    said = [line for line in done.stdout.splitlines() if "defined in" not in line]
    for name, line in zip(privboost.__all__, said, strict=False):
        assert re.search(rf"Revealed type is .*privboost\.[a-z_.]+\.{name}\b|def \(", line), line
    assert said[-4].endswith('"privboost.estimators.sbdt.SBDTClassifier"')
    assert 'Unexpected keyword argument "eps" for "SBDTClassifier"' in said[-3]
    assert 'Module has no attribute "nonsense"' in said[-2]
    assert len(said) == len(lines)  # the last line counts errors
    assert (Path(privboost.__file__).parent / "py.typed").exists()


def with_examples():
    """Yield the modules whose text has an example."""
    folder = Path(privboost.__file__).parent
    for path in sorted(folder.rglob("*.py")):
        if ">>> " in path.read_text(encoding="utf-8"):
            yield ".".join(path.relative_to(folder.parent).with_suffix("").parts)


@pytest.mark.parametrize("module", list(with_examples()))
def test_examples_run(module):
    found = doctest.testmod(importlib.import_module(module))
    assert found.attempted > 0
    assert found.failed == 0


def test_every_estimator_has_an_example():
    assert {f"privboost.{module}" for module in ESTIMATORS.values()} <= set(with_examples())


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/accounts.md",
        "docs/composition.md",
        "docs/evaluation.md",
        "docs/sharp_edges.md",
        "docs/recipes.md",
    ],
)
def test_examples_of_the_pages_run(page, tmp_path, monkeypatch):
    """The Python blocks of a page, in order, in one session."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = [part.split("```")[0] for part in text.split("```python\n")[1:]]
    assert blocks
    monkeypatch.chdir(tmp_path)
    exec("\n".join(blocks), {})


def test_links_of_the_pages_lead_somewhere():
    import re

    for page in [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]:
        for link in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
            if not link.startswith("http"):
                assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_adult_is_the_known_data_set():
    adult = load_adult()
    assert (adult.train.num_rows, adult.test.num_rows) == (32561, 16281)
    positives = [
        sum(v == ">50K" for v in t["income"].to_pylist()) for t in (adult.train, adult.test)
    ]
    assert positives == [7841, 3846]
    assert (
        sum(column.null_count for column in adult.train)
        + sum(column.null_count for column in adult.test)
        == 6465
    )
    assert set(adult.train.column_names) == {*adult.domain.feature_names, "income"}


DOMAINS = sorted((ROOT / "bench" / "domains").glob("*.json"))


@pytest.mark.parametrize("path", DOMAINS, ids=lambda path: path.stem)
def test_the_benchmarks_domains_give_their_reasons(path):
    domain = Domain.from_json(path)
    for part in (*domain.features, domain.target):
        assert part.reason, part.name


def test_the_shipped_domain_is_the_benchmarks():
    assert len(DOMAINS) == 13
    assert Domain.from_json(ROOT / "bench" / "domains" / "adult.json") == load_adult().domain
