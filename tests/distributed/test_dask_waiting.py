"""Waiting for Dask: what ends while somebody looks whether workers are there is not lost."""

import pytest

pytest.importorskip("distributed", reason="Dask is not installed: extra 'dask'")

from privboost.distributed.dask_backend import DaskCluster


class EndsMeanwhile:
    """A future that is done just after waiting for it came to an end."""

    status = "pending"

    def result(self, timeout):
        if self.status == "pending":
            self.status = "finished"
            raise TimeoutError
        return "rows"


def test_a_task_that_ends_while_workers_are_looked_for_is_not_lost(monkeypatch):
    cluster = DaskCluster(None)
    monkeypatch.setattr(cluster, "threads", lambda: {"worker": 1})
    assert cluster.wait(EndsMeanwhile(), [], "worker") == "rows"
