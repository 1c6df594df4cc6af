"""Large tables are streamed: memory is the codes plus a batch."""

import subprocess
import sys

import pytest

SCRIPT = """
import resource, sys
from pathlib import Path
from bench.speed.scale import domain, write_table
from privboost import PrivBoostClassifier

path = Path(sys.argv[1])
model = PrivBoostClassifier(1.0, 1e-9, domain(), n_estimators=3)
write_table(path, 1000)
model.fit(path)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
model.fit(sys.argv[2])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before)
"""


@pytest.mark.slow
def test_memory_of_ten_million_rows(tmp_path):
    from bench.speed.scale import COLUMNS, write_table

    rows = 10_000_000
    write_table(tmp_path / "large.parquet", rows)
    paths = [str(tmp_path / name) for name in ("small.parquet", "large.parquet")]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *paths], capture_output=True, text=True, check=True
    )
    codes = rows * (COLUMNS + 1 + 4)
    batch = 200e6  # a row group of the file, and what its reader keeps
    assert float(done.stdout) < codes + batch
