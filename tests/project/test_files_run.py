"""How many files a reader has to open to follow what users do: see `tests/files_run.py`."""

import pytest

from tests.files_run import ACTIONS, possible

MOST = {
    "fit": 80,
    "predict_proba": 17,
    "second partial_fit": 70,
    "Dask fit": 90,
    "federated release": 33,
}


@pytest.mark.parametrize("name", ACTIONS)
def test_few_files_run(name):
    if not possible(name):
        pytest.skip("Dask is not installed")
    files = ACTIONS[name]()
    assert 5 < len(files) <= MOST[name], files
