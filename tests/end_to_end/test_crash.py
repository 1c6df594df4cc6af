"""A process that is killed loses no charge."""

import json
import subprocess
import sys
import textwrap

import pytest

SCRIPT = textwrap.dedent("""
    import os, sys
    from privboost import PrivBoostClassifier
    from privboost.engine.backend import LocalBackend
    from tests.tables import make_domain, make_frame, opens

    class Dies(LocalBackend):
        asked = 0
        def sum(self, query):
            Dies.asked += 1
            if Dies.asked == 5:
                os.kill(os.getpid(), 9)
            return super().sum(query)

    PrivBoostClassifier(
        1.0, 1e-6, make_domain(), n_estimators=20, backend=opens(Dies), ledger=sys.argv[1]
    ).fit(make_frame(100))
""")


def test_the_reservation_and_every_charge_survive(tmp_path):
    ledger = tmp_path / "ledger.jsonl"
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(ledger)], check=False, timeout=300)
    assert done.returncode == -9
    entries = [json.loads(line) for line in ledger.read_text().splitlines()]
    assert entries[0]["entry"] == "reserve"
    assert sum(part["count"] for part in entries[0]["plan"]) == 3  # start, all answers, scores
    assert entries[0]["epsilon"] > 0.99
    # The fifth sum was asked for, so its charge stands, though its value was never released.
    assert [entry["entry"] for entry in entries[1:]] == ["charge", "exchange"] + ["charge"] * 4
    instead = entries[2]
    assert sum(part["count"] for part in instead["plan"]) == 20
    assert instead["instead_of"] in [part["what"] for part in entries[0]["plan"]]
    assert entries[0]["epsilon"] == pytest.approx(instead["epsilon"], rel=1e-6)
