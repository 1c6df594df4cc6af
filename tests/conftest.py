"""Every run of the tests is the same run."""

import os
from tempfile import TemporaryDirectory

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

_CACHE = TemporaryDirectory(prefix="privboost-tests-")
os.environ["PRIVBOOST_CACHE"] = _CACHE.name  # no calibration of an earlier run, or of a user's
