"""Every run of the tests is the same run."""

import hashlib
import os
import signal
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

# One process a core: libraries of linear algebra that start threads of their own fight over them.
# They read this when they are loaded; processes that tests start find it too.
os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))

import pytest
from hypothesis import settings

from privboost._core import threads
from privboost.data import encoding
from privboost.randomness import keystream
from tests import fits

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

_CACHE = TemporaryDirectory(prefix="privboost-tests-")
os.environ["PRIVBOOST_CACHE"] = _CACHE.name  # no calibration of an earlier run, or of a user's

# A shell that starts the tests in the background has them, and all they start, ignore Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


class _Keys:
    """Stands in for `secrets`: each test has keys of its own, the same in every run.

    They follow from the test's name and parameters, not from its file: a test may be moved.
    """

    def __init__(self) -> None:
        self.start("")

    def start(self, test: str) -> None:
        self._test, self._count = test, count()

    def token_bytes(self, n: int) -> bytes:
        return hashlib.shake_256(f"{self._test} {next(self._count)}".encode()).digest(n)


_KEYS = _Keys()
keystream.secrets = _KEYS


_SLOWEST = (
    "audit/test_audit.py",
    "recipes/test_target_range.py",
    "recipes/test_noise_replay.py",
    "estimators/test_extreme_parameters.py",
    "estimators/test_sklearn_checks.py",
    "project/test_package.py",
    "cli/test_conventions.py",
    "cli/test_commands.py",
    "models/test_forged_files.py",
    "end_to_end/test_identity.py",
    "evaluation/test_evaluate.py",
    "end_to_end/test_feature_kinds.py",
    "search/test_search.py",
    "_core/test_compilation.py",
)


def pytest_collection_modifyitems(items):
    """Start with the files that take longest, so that no core waits for one of them at the end."""
    folder = Path(__file__).parent
    rank = {folder / name: number for number, name in enumerate(_SLOWEST)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    _KEYS.start(item.name)


@pytest.fixture(scope="module")
def eager_threads():
    """Have threads work on few rows, too, and on any machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "LOOK_UPS", 1)
        patch.setattr(threads, "COMPILED_LOOK_UPS", 1)
        patch.setattr(threads, "FEW_ROWS", 1)
        patch.setattr(threads, "_cores", lambda: 4)
        patch.setattr(encoding, "_FEWEST_ROWS", 100)
        yield


def _offered(name):
    """Return a fit, or skip the test where the recipe refuses such fits."""
    if reason := fits.refusal(name):
        pytest.skip(reason)
    return fits.ALL[name]


@pytest.fixture(params=fits.BASIC)
def basic_fit(request):
    """Each recipe on each kind of target, with weights, with units and with pure ε."""
    return _offered(request.param)


@pytest.fixture(params=fits.ALL)
def any_fit(request):
    """The same, and parameters that change what recipes release."""
    return _offered(request.param)
