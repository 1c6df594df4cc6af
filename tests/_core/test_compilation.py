"""Machines that let nothing be written: containers, locked servers, users without a home."""

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numba
import pytest

import privboost
from privboost._core import compilation
from privboost._core.compilation import announce_compilation
from privboost.accounting.accountants import choose_accountant
from privboost.accounting.calibration import calibrate
from privboost.accounting.events import Planned
from privboost.accounting.noisy_sums import GaussianRelease

OURS = ("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR", "PRIVBOOST_CACHE", "PYTHONPATH")
FIT = """
import os, pathlib, sys
import numpy as np
import privboost
from privboost import PrivBoostClassifier, SBDTClassifier  # all kernels, and fewer to compile
here = pathlib.Path(privboost.__file__).parent
for folder in (here, here / "engine", pathlib.Path.home(), pathlib.Path.cwd()):
    try:
        (folder / "probe").touch()
    except OSError:
        continue
    sys.exit(f"the test is void: {folder} can be written")
form = {"version": 1, "features": {"x": {"kind": "numeric", "bounds": [0, 1]}},
        "target": {"name": "y", "classes": [0, 1]}}
model = SBDTClassifier(20.0, 1e-6, form, n_estimators=3, accountant="rdp")
x = np.linspace(0, 1, 100)[:, None]
print(model.fit(x, x[:, 0] > 0.5).predict(x).shape)
"""
COMPILE = """
import numpy as np
from privboost.data.binning import Bins
out = np.zeros(1, dtype=np.uint8)
Bins(np.array([0.5])).code(np.array([0.7]), out)
print(out)
"""


@pytest.fixture
def locked(tmp_path):
    """A copy of the package and a home, in folders that nobody may write to."""
    copy = tmp_path / "site" / "privboost"
    shutil.copytree(
        Path(privboost.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__")
    )
    (tmp_path / "home").mkdir()
    folders = [path for path in tmp_path.rglob("*") if path.is_dir()]
    for folder in folders:
        folder.chmod(0o555)
    yield tmp_path
    for folder in folders:
        folder.chmod(0o755)


def run(locked, code, **environment):
    """Run code with the copy; a superuser gives up the power to write everywhere."""
    command = [sys.executable, "-c", code]
    if os.geteuid() == 0:
        setpriv = shutil.which("setpriv")
        if setpriv is None:
            pytest.skip("a superuser can write everywhere, and there is no setpriv to stop that")
        without = ("--bounding-set=-dac_override", "--inh-caps=-dac_override")
        command = [setpriv, *without, *command]
    kept = {name: value for name, value in os.environ.items() if name not in OURS}
    place = {"HOME": str(locked / "home"), "PYTHONPATH": str(locked / "site")}
    return subprocess.run(
        command,
        env=kept | place | environment,
        cwd=locked / "home",
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_fit_where_nothing_can_be_written(locked):
    done = run(locked, FIT)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "(100,)\n"
    assert done.stderr == ""


def test_a_folder_for_compiled_code_that_the_user_names_is_used(locked):
    named = locked / "compiled"
    named.mkdir()
    done = run(locked, COMPILE, NUMBA_CACHE_DIR=str(named))
    assert done.stdout == "[1]\n", done.stderr
    assert list(named.rglob("*bin_numbers*.nbc"))


def test_calibration_needs_no_home(monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("PRIVBOOST_CACHE", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    plan = [Planned(GaussianRelease("a sum", 1.0, 2**16, 1, 1, (1.0,)), 3)]
    accountant = choose_accountant("rdp", plan, 1e-6)
    assert accountant.cost(calibrate(plan, 1.0, 1e-6, accountant), 1e-6) <= 1.0


def test_that_functions_are_compiled_is_said_before_any_other_is(capsys, monkeypatch):
    """Which of the others are compiled, and when, may depend on rows."""
    monkeypatch.setattr(compilation, "_do_nothing", numba.njit(lambda: 0))
    one = numba.njit(lambda x: x + 1)
    with announce_compilation(True):
        assert capsys.readouterr().err.count("compiling kernels") == 1
        one(1)
    with announce_compilation(True):
        one(1.0)
    monkeypatch.setattr(compilation, "_do_nothing", numba.njit(lambda: 0))
    with announce_compilation(False):
        one(1j)
    assert capsys.readouterr().err == ""


COUNTED = """
from privboost._core.compilation import count_compilations
with count_compilations() as found:
{code}
print(len(found))
"""


def test_compiled_code_is_read_where_it_cannot_be_written(locked):
    named = locked / "compiled"
    named.mkdir()
    code = COUNTED.format(code=textwrap.indent(COMPILE.strip(), "    "))
    first = run(locked, code, NUMBA_CACHE_DIR=str(named))
    assert first.stdout.startswith("[1]\n"), first.stderr
    assert int(first.stdout.split()[-1]) > 0
    for folder in (named, named / "privboost"):
        folder.chmod(0o555)
    second = run(locked, code, NUMBA_CACHE_DIR=str(named))
    for folder in (named, named / "privboost"):
        folder.chmod(0o755)
    assert second.stdout == "[1]\n0\n", second.stderr


MODULE = """
from privboost._core.compilation import compiled, inlined

TWO = {two}

@inlined
def inner(x):
    return x + {one}

@compiled
def outer(x):
    return inner(x) * TWO
"""


def test_the_key_of_compiled_code_is_what_the_code_depends_on():
    def key(one=1, two=2, before=""):
        space = {"__name__": "made_up"}
        exec(before + MODULE.format(one=one, two=two), space)
        return compilation._content_of(space["outer"].py_func)

    assert key() == key() == key(before="# a comment\n\n")
    assert len({key(), key(one=3), key(two=3)}) == 3
