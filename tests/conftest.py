"""Every run of the tests is the same run."""

import hashlib
import os
import signal
from itertools import count
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings

from privboost.randomness import keystream

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

_CACHE = TemporaryDirectory(prefix="privboost-tests-")
os.environ["PRIVBOOST_CACHE"] = _CACHE.name  # no calibration of an earlier run, or of a user's

# A shell that starts the tests in the background has them, and all they start, ignore Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


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
