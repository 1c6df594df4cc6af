"""The tutorial, as it stands in the documentation."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

from privboost import load_model

PAGE = Path(__file__).parents[2] / "docs" / "three_hospitals.md"


def free_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


def test_three_hospitals(tmp_path):
    page = PAGE.read_text(encoding="utf-8")
    script = "\n".join(re.findall(r"```bash\n(.*?)```", page, re.DOTALL))
    done = subprocess.run(
        ["bash", "-e", "-c", script.replace("8470", str(port := free_port()))],
        cwd=tmp_path,
        env=os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    shown = re.findall(r"```\n(north/north.db: .*?)```", page, re.DOTALL)
    for line in "".join(shown).replace("8470", str(port)).splitlines():
        assert line in done.stdout
    assert shown
    assert "model.pvb: (1, 1e-06)-differential privacy" in done.stdout
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 16282
    assert not load_model(tmp_path / "model.pvb").privacy.seeded
