"""The layering rule: which package may import which, imports inside functions counted."""

import ast
import re
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "privboost"
MAP = ROOT / "docs" / "architecture.md"
MODULES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts): path
    for path in sorted(SOURCE.rglob("*.py"))
}
LAYERS = [
    {"_core"},
    {"randomness", "losses", "explanations", "audit"},
    {"accounting"},
    {"reports"},
    {"accounts", "data"},
    {"trees", "datasets"},
    {"engine"},
    {"distributed", "cuda", "mechanisms"},
    {"models", "dask"},
    {"recipes", "export"},
    {"domain_inference"},
    {"estimators"},
    {"evaluation", "federated", "spark"},
    {"search"},
    {"cli"},
]
"""From the lowest to the highest; a package imports from lower layers and from itself."""
LAYER = {package: number for number, packages in enumerate(LAYERS) for package in packages}
TOP = {"__init__", "__main__"}
LAZY_IMPORTS = 40
"""Imports inside functions: for optional dependencies and for start-up time alone."""


@cache
def tree_of(module):
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


@cache
def imports_of(module):
    """Modules of the package that a module imports anywhere, by statement or `import_module`."""
    found = set()
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "privboost":
            above = (node.module or "").removeprefix("privboost").lstrip(".")
            for alias in node.names:
                below = f"{above}.{alias.name}".lstrip(".")
                found.add(below if below in MODULES else above or "__init__")
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            found |= {name[10:] for name in names if name.startswith("privboost.")}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):  # import_module
            found |= set(re.findall(r"^privboost\.([a-z_.]+[a-z_])$", node.value))
    found = {f"{each}.__init__" if f"{each}.__init__" in MODULES else each for each in found}
    package = f"{module.rpartition('.')[0]}.__init__"  # losses are discovered in their package
    return found & MODULES.keys() - {module, package}


def package_of(module):
    return module.split(".")[0]


@pytest.mark.parametrize("module", MODULES)
def test_a_package_imports_from_lower_layers(module):
    own = package_of(module)
    for other in imports_of(module):
        there = package_of(other)
        if own not in TOP and there != own and other != "__init__":
            assert LAYER[there] < LAYER[own], f"{module} imports {other}"


def test_no_cycle_between_modules():
    """Imports inside functions count: a module can be read once those it imports are."""
    graph = {
        module: {each for each in imports_of(module) if each != "__init__"} for module in MODULES
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_few_imports_inside_functions():
    inside = [
        f"{module}:{node.lineno}"
        for module in MODULES
        for function in ast.walk(tree_of(module))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert len(set(inside)) <= LAZY_IMPORTS, sorted(set(inside))


def importers_of(module):
    return {each for each in MODULES if module in imports_of(each)}


def test_only_the_curator_joins_sums_and_noise():
    outside = {
        each for each in importers_of("randomness.noise") if package_of(each) != "randomness"
    }
    assert outside == {"mechanisms.curator"}


def test_only_the_curator_selects():
    outside = {
        each for each in importers_of("randomness.selection") if package_of(each) != "randomness"
    }
    assert outside == {"mechanisms.curator"}


ROWS = re.compile(r"(backend|session|shard|worker|_held\(\))$", re.IGNORECASE)
"""Expressions that stand for what holds rows."""
BACKENDS = {"engine", "cuda", "distributed"}
"""Packages of backends, which pass the curator's queries on."""


def asks_rows(tree):
    """Whether code uses `sum` or `tally` of what holds rows: their exact answers."""
    return any(
        isinstance(node, ast.Attribute)
        and node.attr in ("sum", "tally")
        and ROWS.search(ast.unparse(node.value))
        for node in ast.walk(tree)
    )


def test_only_curators_ask_rows():
    """The federation's curator asks its parties, and a party's curator the party's own rows."""
    asking = {module for module in MODULES if asks_rows(tree_of(module))}
    curators = {"mechanisms.curator", "mechanisms.public_curator"}
    federated = {"federated.coordinator", "federated.party_curator"}
    outside = {module for module in asking if package_of(module) not in BACKENDS}
    assert outside == curators | federated
    assert {package_of(module) for module in asking - outside} == BACKENDS


@pytest.mark.parametrize(
    "code", ["curator._backend.sum(query)", "ask = run.backend.tally", "held.shard.sum(query)"]
)
def test_a_recipe_that_asked_rows_would_be_found(code):
    assert asks_rows(ast.parse(code))
    assert not asks_rows(ast.parse("curator.sums(query, event), counts.sum(axis=0)"))


def test_one_way_leads_to_sums_without_noise():
    assert importers_of("mechanisms.public_curator") == {"estimators.public_rows"}


def test_kernels_know_nothing_but_numbers():
    kernels = [module for module in MODULES if module.endswith("kernels")]
    assert len(kernels) >= 6
    allowed = {"_core.addresses", "_core.compilation", "_core.threads", *kernels}
    for module in kernels:
        assert imports_of(module) <= allowed, module


def test_no_recipe_imports_another():
    recipes = {"privboost", "sbdt", "dpxgb", "sarus", "lazybb", "adassp"}
    for module in MODULES:
        own = module.removeprefix("recipes.").split("_")[0]
        if module.startswith("recipes.") and own in recipes:
            others = {each.removeprefix("recipes.").split("_")[0] for each in imports_of(module)}
            assert others & recipes <= {own}, module


def test_the_map_names_every_package():
    text = MAP.read_text(encoding="utf-8")
    table = re.findall(r"^\| `(\w+)(?:/|\.py)` \|", text, re.MULTILINE)
    assert table == sorted(table, key=LAYER.__getitem__)
    assert set(table) == LAYER.keys()


def paths_in(text):
    """Paths of files and folders in the text of a page, as they are written there."""
    return set(re.findall(r"`([\w./]+/|[\w./]+\.(?:py|svg))`", text))


def test_the_map_names_files_that_exist():
    for path in paths_in(MAP.read_text(encoding="utf-8")):
        found = any((root / path).exists() for root in (SOURCE, SOURCE / "recipes", ROOT))
        assert found, path


def test_each_walk_of_the_map_is_of_few_files():
    _, *walks = MAP.read_text(encoding="utf-8").partition("## Four walks")[2].split("\n**")
    for walk in walks:
        assert 0 < len(paths_in(walk.partition("\n## ")[0])) <= 25
    assert len(walks) == 4
