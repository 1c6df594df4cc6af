"""The walls of the house: who may import whom, functions' own imports among them."""

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "privboost"
PLAN = Path(__file__).parents[1] / "docs" / "architecture.md"
LEVELS = [
    {"errors", "grid", "codec", "addresses", "compiling", "pickling", "progress", "recipes"},
    {"watch", "cautions", "files", "forms"},
    {"crew", "unit"},
    {"randomness", "losses", "vectors"},
    {"reports", "explanations"},
    {"tables"},
    {"trees"},
    {"engine"},
    {"clusters", "cuda"},
    {"privacy", "models"},
    {"accounts"},
    {"boosting"},
    {"learning"},
    {"estimators"},
    {"federation"},
    {"evaluation"},
    {"cards"},
    {"search"},
    {"export"},
    {"datasets", "audit", "dask", "spark", "recommendation"},
    {"demo"},
    {"cli", "__init__", "__main__"},
]
"""From the ground up: a room imports from rooms below it, and from itself."""
UPWARD = {
    ("data.domain", "domain_inference.inference"),  # Domain.learn, for convenience
    ("reports.report", "reports.report"),  # report_a + report_b; a curve beside its epsilon
    ("reports.report", "cards.card"),  # report.to_html, for convenience
    ("data.loading", "evaluation.outcomes"),  # a loader that travels as bytes holds a model
}
LEVEL = {room: level for level, rooms in enumerate(LEVELS) for room in rooms}
MODULES = sorted(SOURCE.rglob("*.py"))


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts)


def imports_of(path: Path) -> set[str]:
    """The modules of the package that a file imports anywhere, without the package's name."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "privboost":
            found |= {alias.name for alias in node.names if alias.name != "__version__"}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("privboost."):
            found.add(node.module.removeprefix("privboost."))
    return found


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_room_imports_from_below(path):
    own = name_of(path)
    room = own.split(".")[0]
    for other in imports_of(path):
        there = other.split(".")[0]
        if there != room and (own, other) not in UPWARD and room not in ("__init__", "__main__"):
            assert LEVEL[there] < LEVEL[room], f"{own} imports {other}"


def test_every_way_up_is_used():
    used = {(name_of(path), other) for path in MODULES for other in imports_of(path)}
    assert used >= UPWARD


def test_only_the_curator_joins_sums_and_noise():
    noisy = {name_of(path) for path in MODULES if "randomness.noise" in imports_of(path)}
    assert {name for name in noisy if not name.startswith("randomness.")} == {"mechanisms.curator"}


def test_one_way_leads_to_sums_without_noise():
    used = [name_of(path) for path in MODULES if "mechanisms.public_curator" in imports_of(path)]
    assert used == ["estimators.public_rows"]
    budget, exact = (
        [name_of(path) for path in MODULES if word in path.read_text()]
        for word in (" PublicRows(delta", "Exact.of(")
    )
    assert budget == ["estimators.public_rows"]
    assert exact == ["recipes.common.plan"]


def test_kernels_know_nothing_but_numbers():
    kernels = [path for path in MODULES if path.stem.endswith("kernels")]
    assert len(kernels) >= 5
    for path in kernels:
        assert imports_of(path) <= {
            "compiling",
            "addresses",
            "engine.kernels",
            "engine.block_kernels",
            "trees.kernels",
            "watch",
        }, path


def test_no_recipe_imports_another():
    recipes = {"privboost", "sbdt", "dpxgb", "sarus", "lazybb", "adassp"}
    for path in (SOURCE / "boosting").glob("*.py"):
        own = path.stem.removesuffix("_plan").removesuffix("_terms")
        for other in imports_of(path):
            named = other.removeprefix("boosting.").removesuffix("_plan").removesuffix("_terms")
            if own in recipes and other.startswith("boosting.") and named in recipes:
                assert named == own, f"{path.stem} imports {other}"


def rooms_of_the_plan():
    """Yield each module that the plan of the house names, by its path, with what is said of it."""
    text = PLAN.read_text(encoding="utf-8").split("\n## Rooms\n")[1].split("\n## ")[0]
    folder = ""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) == 3 and "`" in cells[1]:
            if cells[0]:  # an empty one is the room above; words name no folder
                folder = cells[0].strip("`") if cells[0].startswith("`") else ""
            for name in re.findall(r"`([^`]+)`", cells[1]):
                yield folder + name, cells[2]


def test_the_plan_of_the_house_names_every_module_once():
    """From the ground up: in the order of the levels above."""
    named = list(rooms_of_the_plan())
    there = [path for path in MODULES if path.stem not in ("__init__", "__main__")]
    names = [name for name, _ in named]
    assert sorted(names) == sorted(path.relative_to(SOURCE).as_posix() for path in there)
    levels = [LEVEL[name.split("/")[0].removesuffix(".py")] for name in names]
    assert levels == sorted(levels)
    for name, said in named:
        assert 0 < len(said) <= 100, name
