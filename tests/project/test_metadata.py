"""What surrounds the package says the same as the package: versions, workflows, pages."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import privboost

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_one_version_everywhere():
    version = PROJECT["project"]["version"]
    assert privboost.__version__ == version
    assert f"version: {version}" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"## {version.removesuffix('.dev0')}" in (ROOT / "CHANGELOG.md").read_text(
        encoding="utf-8"
    )


def test_workflows_run_what_is_declared_to_be_supported():
    declared = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["project"]["classifiers"]))
    test = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())
    assert test["jobs"]["unit"]["strategy"]["matrix"]["python"] == declared
    least = PROJECT["project"]["requires-python"].removeprefix(">=")
    assert least == declared[0]
    assert all(
        f"{each} " in f"{(ROOT / 'Makefile').read_text()} ".replace(";", " ") for each in declared
    )


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_call_targets_that_exist(path):
    """Every step is an action with a version, or a command; `make` targets are in the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for job in yaml.safe_load(path.read_text())["jobs"].values():
        assert job["timeout-minutes"] <= 90
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            if "uses" in step:
                assert re.fullmatch(r"[\w./-]+@[\w./-]+", step["uses"])
            for target in re.findall(r"\bmake ([a-z-]+)", step.get("run", "")):
                assert target in targets
