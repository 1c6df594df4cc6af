"""Every run of the tests is the same run."""

import hashlib
import os
from itertools import count
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings

from privboost import crew
from privboost.randomness import keystream
from privboost.tables import cutting

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

_CACHE = TemporaryDirectory(prefix="privboost-tests-")
os.environ["PRIVBOOST_CACHE"] = _CACHE.name  # no calibration of an earlier run, or of a user's


class _Keys:
    """Stands in for `secrets`: each test has keys of its own, the same in every run."""

    def __init__(self) -> None:
        self.start("")

    def start(self, test: str) -> None:
        self._test, self._count = test, count()

    def token_bytes(self, n: int) -> bytes:
        return hashlib.shake_256(f"{self._test} {next(self._count)}".encode()).digest(n)


_KEYS = _Keys()
keystream.secrets = _KEYS


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    _KEYS.start(item.nodeid)


@pytest.fixture(scope="module")
def eager_threads():
    """Have threads work on few rows, too, and on any machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(crew, "LOOK_UPS", 1)
        patch.setattr(crew, "_cores", lambda: 4)
        patch.setattr(cutting, "_FEWEST_ROWS", 100)
        yield
