"""What it takes to add a thing: each is added to a copy of the package, used, and counted.

`docs/architecture.md` has a row for each under "Where a new thing goes", which must name exactly
the files that were touched.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

import pytest

from tests.project.test_layers import MAP, SOURCE

NAME = "mine"
"""Name of everything new, and of files that have no other."""


def write(path, text):
    assert not path.exists()
    path.write_text(dedent(text).lstrip(), encoding="utf-8")


def insert(path, before, text):
    """Insert text before the only place that is this."""
    whole, text = path.read_text(encoding="utf-8"), dedent(text) if "\n\n" in text else text
    assert whole.count(before) == 1, f"{path.name} has {whole.count(before)} × {before!r}"
    path.write_text(whole.replace(before, text.lstrip("\n") + before), encoding="utf-8")


def append(path, text):
    path.write_text(path.read_text(encoding="utf-8") + "\n\n" + dedent(text), encoding="utf-8")


def add_loss(package):
    write(
        package / "losses" / f"{NAME}.py",
        '''
        """Squared hinge loss of classes −1 and 1."""

        import numpy as np

        from privboost.losses.base import Loss


        class SquaredHinge(Loss):
            """Loss max(1 − yF, 0)² of labels y = ±1."""

            target, name = "classes", "mine"
            limit, curvature, label_clip = 8, 1.0, 2.0

            def value(self, scores, label, offset=0.0):
                return np.maximum(1 - (2 * label - 1) * (scores + offset), 0) ** 2

            def gradient(self, scores, label, offset=0.0):
                sign = 2 * label - 1
                return -2 * sign * np.maximum(1 - sign * (scores + offset), 0)

            def inverse_link(self, score):
                return score

            def link(self, mean):
                return float(np.clip(mean, -1, 1))


        SQUARED_HINGE = SquaredHinge()
        ''',
    )


USE_LOSS = """
from privboost import BoostedAdaSSPClassifier
how = {"n_estimators": 2, "calibration_share": 0.0, "domain": DOMAIN, "random_state": 0}
model = BoostedAdaSSPClassifier(5.0, 1e-6, loss="mine", **how).fit(TABLE)
assert model.score(TABLE, LABELS) > 0.6
"""


def add_feature_kind(package):
    path = package / "data" / "features.py"
    percent = '''
    class PercentFeature(NumericFeature):
        """A percentage, as a string such as "12 %"."""

        kind: ClassVar[str] = "mine"
        example: ClassVar[str] = '"bounds": [0, 100], in percent'
        column_type: ClassVar[str] = ""
        reads_plain_numbers: ClassVar[bool] = False

        def read(self, column):
            """Return numbers of percent."""
            texts = [None if each is None else each.rstrip(" %") for each in column.to_pylist()]
            return super().read(pa.array(texts, pa.string()))

        def format_value(self, value):
            """Format a percentage."""
            return f"{value:g} %"


    '''
    insert(path, "FEATURE_KINDS: dict", percent)
    insert(path, "DurationFeature,\n    )\n", "PercentFeature,\n        ")
    insert(path, "import numpy as np\n", "import pyarrow as pa\n")


USE_FEATURE_KIND = """
import numpy as np, pyarrow as pa
from privboost import PrivBoostClassifier
payload = {
    "version": 1,
    "features": {"x": {"kind": "mine", "bounds": [0, 100], "edges": [10, 50]}},
    "target": {"name": "y", "classes": ["no", "yes"]},
}
values = np.arange(400) % 100
table = pa.table({"x": [f"{v} %" for v in values], "y": np.where(values > 50, "yes", "no")})
model = PrivBoostClassifier(50.0, 1e-6, payload, interactions=False, random_state=0).fit(table)
assert model.score(table, table["y"]) > 0.9
assert "50 %" in str(model.explain_global())
"""


def add_recipe(package):
    """A copy of DP-XGB: of the files that are named for it, where it is registered."""
    for path in sorted(package.rglob("dpxgb.py")):
        text = path.read_text(encoding="utf-8").replace("dpxgb", NAME).replace("DPXGB", "Mine")
        write(path.with_name(f"{NAME}.py"), text)
    classes = f"from privboost.estimators.{NAME} import MineClassifier, MineRegressor\n    "
    for path, beside, line in (
        (
            "recipes/__init__.py",
            'Recipe("dpxgb", "DPXGB"),',
            f'Recipe("{NAME}", "Mine"),\n        ',
        ),
        ("__init__.py", "from privboost.estimators.dpxgb import (", classes),
    ):
        if beside in (package / path).read_text(encoding="utf-8"):  # it need not be listed there
            insert(package / path, beside, line)


USE_RECIPE = """
from privboost import MineClassifier, load_model
from privboost.recipes import RECIPES
from privboost.cli.options import Recipe
assert "mine" in RECIPES and Recipe.mine
how = {"n_estimators": 2, "max_depth": 2, "domain": DOMAIN, "random_state": 0}
model = MineClassifier(9.0, 1e-6, accountant="rdp", **how).fit(TABLE)
model.model_.save("mine.model")
assert load_model("mine.model").score(TABLE, LABELS) > 0.6
"""


def add_accountant(package):
    path = package / "accounting" / "accountants.py"
    insert(
        path,
        "ACCOUNTANTS: dict",
        '''
        class GaussianOrders(RdpAccountant):
            """Rényi differential privacy of Gaussian releases alone."""

            name = "mine"
            theory = "Rényi divergences of Gaussian noise"

            def covers(self, event: Event) -> bool:
                """Whether an event is a Gaussian release of all rows."""
                return event.mu is not None


        ''',
    )
    insert(path, "        PureAccountant,\n", "        GaussianOrders,\n")


USE_ACCOUNTANT = """
from privboost import BoostedAdaSSPClassifier
how = {"n_estimators": 2, "domain": DOMAIN}
plain, own = (
    BoostedAdaSSPClassifier(2.0, 1e-6, accountant=name, **how).preview().privacy
    for name in ("gdp", "mine")
)
assert "mine" in str(own.to_json()) and own.epsilon <= 2.0
"""


def add_noise(package):
    """Two draws of Laplace noise: as private as one of them, for the other is independent of it."""
    insert(
        package / "randomness" / "noise.py",
        "SAMPLERS = {",
        '''
        def double_laplace(scale: np.ndarray, stream: KeyStream) -> np.ndarray:
            """Draw the sum of two discrete Laplace variables for each scale."""
            draws = (discrete_laplace(scale, stream.child(part)) for part in "ab")
            return sum(draws, np.zeros(len(scale), dtype=np.int64))


        ''',
    )
    samplers = package / "randomness" / "noise.py"
    insert(samplers, '"discrete_laplace": discrete_laplace}', '"mine": double_laplace, ')
    append(
        package / "accounting" / "noisy_sums.py",
        '''
        @dataclass(frozen=True)
        class DoubleLaplaceRelease(LaplaceRelease):
            """A vector of integer sums with the sum of two discrete Laplace variables."""

            kind: ClassVar[str] = "mine"
            sampler: ClassVar[str] = "mine"
            deviation_of_unit_scale: ClassVar[float] = 2.0

            @property
            def mechanism(self) -> str:
                """Description of the mechanism."""
                return "twice " + super().mechanism
        ''',
    )


USE_NOISE = """
import numpy as np
from privboost._core.grid import CLIP_STEPS, Contribution
from privboost.accounting.accountants import PureAccountant
from privboost.accounting.events import Planned
from privboost.accounting.ledger import Ledger
from privboost.accounting.noisy_sums import DoubleLaplaceRelease
from privboost.engine.queries import GRADIENT_COUNT, CellSums
from privboost.mechanisms.curator import Curator
from privboost.randomness.keystream import KeyStream
from privboost.trees.cell_map import CellMap

class Zeros:
    def sum(self, query):
        return np.zeros(query.shape, dtype=np.int64)

event = DoubleLaplaceRelease("sums", 50.0, CLIP_STEPS, 1, 1, (0.5, 0.5))
ledger = Ledger(1.0, 0.0, PureAccountant())
ledger.reserve([Planned(event, 1)])
query = CellSums(CellMap.of_feature(0, np.arange(4000)))
curator = Curator(Zeros(), ledger, KeyStream.seeded(0), Contribution())
noise = curator.sums(query, event).reshape(-1, 2)
np.testing.assert_allclose(noise.std(axis=0), event.deviations, rtol=0.1)
"""


def add_export(package):
    write(
        package / "export" / f"{NAME}.py",
        '''
        """Export of a model as a text."""

        from privboost.models.model import Model


        def export(model: Model) -> bytes:
            """Return a text that describes a model."""
            return model.to_text().encode()
        ''',
    )
    path = package / "export" / "export.py"
    insert(path, '".sql": ', f'".txt": "privboost.export.{NAME}", ')


USE_EXPORT = """
from pathlib import Path
from privboost import SBDTClassifier, export_model
model = SBDTClassifier(9.0, 1e-6, DOMAIN, n_estimators=2, max_depth=2, random_state=0).fit(TABLE)
export_model(model, "model.txt")
assert Path("model.txt").read_text() == model.model_.to_text()
"""


def add_backend(package):
    """Outside of the package: an estimator takes any callable."""
    write(
        package.parent / f"{NAME}.py",
        '''
        """A backend of two shards."""

        from privboost.data.loading import load_rows
        from privboost.engine.backend import LocalBackend, add_sums, add_tallies


        class TwoShards:
            """Holds every other block of rows in a shard of its own."""

            def __init__(self, loads):
                blocks = [block for each in load_rows(loads, rows=50) for block in each.blocks]
                self.shards = [LocalBackend(blocks[k::2]) for k in range(2)]

            def sum(self, query):
                return add_sums(shard.sum(query) for shard in self.shards)

            def apply(self, update):
                for shard in self.shards:
                    shard.apply(update)

            def tally(self):
                return add_tallies(shard.tally() for shard in self.shards)

            def close(self):
                for shard in self.shards:
                    shard.close()
        ''',
    )


USE_BACKEND = """
from mine import TwoShards
from privboost import SBDTClassifier
how = {"domain": DOMAIN, "n_estimators": 2, "max_depth": 2, "random_state": 0}
here, there = (
    SBDTClassifier(9.0, 1e-6, backend=each, **how).fit(TABLE) for each in ("auto", TwoShards)
)
assert here.model_.to_text() == there.model_.to_text()
"""


def add_command(package):
    append(
        package / "cli" / "models.py",
        '''
        @command("privboost mine 3", panel=USE)
        def mine(number: int) -> None:
            """Print a number."""
            typer.echo(number)
        ''',
    )


USE_COMMAND = """
import sys
from privboost.cli.main import main
sys.argv = ["privboost", "mine", "42"]
try:
    main()
except SystemExit as end:
    assert not end.code
"""


class Extension(NamedTuple):
    """A thing to add, how to use it, and into how many files of the package it may go."""

    add: Callable[[Path], None]
    use: str
    most: int


EXTENSIONS = {
    "a loss of classes": Extension(add_loss, USE_LOSS, 1),
    "a kind of feature": Extension(add_feature_kind, USE_FEATURE_KIND, 2),
    "a recipe": Extension(add_recipe, USE_RECIPE, 4),
    "an accountant": Extension(add_accountant, USE_ACCOUNTANT, 2),
    "a noise distribution": Extension(add_noise, USE_NOISE, 3),
    "an export": Extension(add_export, USE_EXPORT, 2),
    "a backend": Extension(add_backend, USE_BACKEND, 2),
    "a command": Extension(add_command, USE_COMMAND, 1),
}

PREPARE = """
import json, sys, traceback, warnings
import numpy as np, pandas as pd
warnings.simplefilter("ignore")
DOMAIN = {
    "version": 1,
    "features": {"x": {"kind": "numeric", "bounds": [0, 1], "edges": [0.2, 0.5, 0.8]}},
    "target": {"name": "y", "classes": ["no", "yes"]},
}
X = np.linspace(0, 1, 400)
LABELS = np.where(X > 0.5, "yes", "no")
TABLE = pd.DataFrame({"x": X, "y": LABELS})
failed = {}
for what, use in json.load(sys.stdin).items():
    try:
        exec(use, {"DOMAIN": DOMAIN, "LABELS": LABELS, "TABLE": TABLE})
    except BaseException:
        failed[what] = traceback.format_exc()
print(json.dumps(failed))
"""


class Extended(NamedTuple):
    """Files that each thing touched, and the traceback of each whose use failed."""

    touched: dict[str, set[str]]
    failed: dict[str, str]


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.py")}


@pytest.fixture(scope="module")
def extended(tmp_path_factory):
    """Add everything to one copy of the package, and use it all in one process."""
    folder = tmp_path_factory.mktemp("copy")
    package = folder / "privboost"
    shutil.copytree(SOURCE, package)  # compiled kernels, too
    touched, before = {}, contents(folder)
    for what, extension in EXTENSIONS.items():
        extension.add(package)
        after = contents(folder)
        assert before.keys() <= after.keys()
        touched[what] = {
            str(path.relative_to("privboost")) if path.parts[0] == "privboost" else str(path)
            for path, text in after.items()
            if before.get(path) != text
        }
        before = after
    ran = subprocess.run(
        [sys.executable, "-c", PREPARE],
        input=json.dumps({what: each.use for what, each in EXTENSIONS.items()}),
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder)},
    )
    assert ran.returncode == 0, ran.stderr
    return Extended(touched, json.loads(ran.stdout.splitlines()[-1]))


@pytest.mark.parametrize("what", EXTENSIONS)
def test_a_new_thing_works(extended, what):
    assert not extended.failed.get(what), extended.failed[what]


@pytest.mark.parametrize("what", EXTENSIONS)
def test_a_new_thing_goes_into_few_files(extended, what):
    assert len(extended.touched[what]) <= EXTENSIONS[what].most


@pytest.mark.parametrize("what", EXTENSIONS)
def test_the_map_names_these_files(extended, what):
    """A row of its table: paths in the package, with <name> for the new thing's."""
    page = MAP.read_text(encoding="utf-8").partition("## Where a new thing goes")[2]
    (row,) = re.findall(rf"^\| {re.escape(what)} \| (.*) \|$", page, re.MULTILINE)
    named = set(re.findall(r"`([\w<>/]+\.py)`", row))
    assert named == {path.replace(f"{NAME}.py", "<name>.py") for path in extended.touched[what]}
