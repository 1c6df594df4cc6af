"""The package as a user meets it: imports, examples, shipped data, the benchmark's domains."""

import doctest
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import privboost
from privboost import Domain, PrivBoostRegressor
from privboost.datasets import load_abalone, load_adult
from privboost.recipes import ESTIMATORS

ROOT = Path(__file__).parents[2]
TUTORIALS = (ROOT / "docs" / "tutorials").glob("*.md")
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)


def test_importing_is_quick_because_nothing_heavy_is_loaded():
    code = "import sys, privboost; print(*{m.split('.')[0] for m in sys.modules})"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert not set(loaded.stdout.split()) & {"numpy", "numba", "sklearn", "scipy", "pyarrow"}


def test_there_is_one_version():
    for name, line in {
        "pyproject.toml": f'version = "{privboost.__version__}"',
        "CITATION.cff": f"version: {privboost.__version__}",
    }.items():
        assert line in (ROOT / name).read_text(encoding="utf-8").splitlines()


def test_every_public_name_exists_and_has_a_docstring():
    for name in privboost.__all__:
        assert getattr(privboost, name).__doc__
        assert name in dir(privboost)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        privboost.nonsense  # noqa: B018


def test_only_public_names_are_listed():
    assert {*dir(privboost)} == {*privboost.__all__, "__version__"}


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
        "docs/domain.md",
        "docs/evaluation.md",
        "docs/federation.md",
        "docs/explain.md",
        "docs/export.md",
        "docs/guide.md",
        "docs/report.md",
        "docs/sharp_edges.md",
        "docs/recipes.md",
        "docs/scikit_learn.md",
        *(f"docs/tutorials/{path.name}" for path in sorted(TUTORIALS)),
    ],
)
def test_examples_of_the_pages_run(page, tmp_path, monkeypatch, capsys):
    """The Python blocks of a page, in order, in one session; a tutorial shows what they print."""
    for needed in ("onnx", "onnxruntime", "duckdb") if page == "docs/export.md" else ():
        pytest.importorskip(needed)
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = [part.split("```")[0] for part in text.split("```python\n")[1:]]
    assert blocks
    monkeypatch.chdir(tmp_path)
    exec("\n".join(blocks), {})
    printed = capsys.readouterr().out
    for kind, shown in FENCED.findall(text) if "tutorials" in page else ():
        assert kind or shown.startswith("privboost ") or shown in printed


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


def test_abalone_is_the_known_data_set():
    """Sizes, rings and means are those of UCI's code book."""
    abalone = load_abalone()
    assert (abalone.train.num_rows, abalone.test.num_rows) == (3133, 1044)
    assert set(abalone.train.column_names) == {*abalone.domain.feature_names, "rings"}
    frame = pa.concat_tables([abalone.train, abalone.test]).to_pandas()
    assert not frame.isna().any(axis=None)
    assert frame["sex"].value_counts().to_dict() == {"M": 1528, "I": 1342, "F": 1307}
    assert (frame["rings"].min(), frame["rings"].max()) == (1, 29)
    assert (frame["rings"] == 9).sum() == 689
    means = frame[["length", "height", "whole_weight", "shell_weight", "rings"]].mean().round(3)
    assert means.tolist() == [0.524, 0.140, 0.829, 0.239, 9.934]


def test_a_number_is_learned_from_abalone():
    abalone = load_abalone()
    model = PrivBoostRegressor(3.0, 1e-6, abalone.domain, random_state=1).fit(abalone.train)
    rings = abalone.test["rings"].to_numpy()
    errors = model.predict(abalone.test) - rings
    assert np.sqrt(np.mean(errors**2)) < 0.95 * rings.std()


DOMAINS = sorted((ROOT / "bench" / "domains").glob("*.json"))


@pytest.mark.parametrize("path", DOMAINS, ids=lambda path: path.stem)
def test_the_benchmarks_domains_give_their_reasons(path):
    domain = Domain.from_json(path)
    for part in (*domain.features, domain.target):
        assert part.reason, part.name


def test_the_shipped_domains_are_the_benchmarks():
    """But for Abalone's rings: the benchmark has the published range, as the papers have."""
    assert len(DOMAINS) == 13
    adult, abalone = (
        Domain.from_json(ROOT / "bench" / "domains" / name)
        for name in ("adult.json", "abalone.json")
    )
    assert adult == load_adult().domain
    assert abalone.features == load_abalone().domain.features


@pytest.mark.parametrize("load", [load_adult, load_abalone])
def test_the_shipped_domains_give_their_reasons(load):
    domain = load().domain
    for part in (*domain.features, domain.target):
        assert part.reason, part.name
