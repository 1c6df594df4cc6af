"""Rows on a device, or coded there, leave nothing of themselves with a caller."""

from functools import partial

import pytest

from privboost import PrivBoostClassifier, SBDTClassifier
from privboost.cuda.backend import CudaBackend
from privboost.cuda.rows import leave_numbers
from privboost.cuda.shard import DeviceShard
from privboost.data.loading import load_rows
from tests.cuda.conftest import crowd
from tests.non_interference import check, make_tables, silence
from tests.tables import make_domain


def coded_there(devices, loads):
    left, rows = leave_numbers(loads)
    blocks = [block for each in load_rows(left, rows=rows) for block in each.blocks]
    return CudaBackend(blocks, devices, most_rows=200, least_rows=1)


@pytest.mark.parametrize("kind", [PrivBoostClassifier, SBDTClassifier])
def test_devices(device, kind, tmp_path, monkeypatch):
    silence(monkeypatch, DeviceShard)

    def run(table):
        how = {"n_estimators": 4, "random_state": 5, "verbose": True}
        backend = partial(coded_there, crowd(device))
        estimator = kind(1.0, 1e-6, make_domain(), backend=backend, **how)
        return estimator.fit(table).set_params(backend="auto")

    check(run, make_tables(tmp_path, long=3000), tmp_path, exports=())
