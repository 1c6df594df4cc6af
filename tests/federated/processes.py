"""Coordinator and parties as processes of their own, started and stopped by tests."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time

from privboost import BudgetStore

COMMAND = [sys.executable, "-m", "privboost", "federation"]
NAMES = ("east", "north", "south")


def prepare(folder, frame, domain):
    """Make the keys and tables of three parties and a coordinator in one folder.

    Each party has a third of the rows, in order.
    """
    pins = folder / "pins"
    pins.mkdir()
    for name in NAMES:
        make_keys(folder, name)
    make_keys(folder, "coordinator", "--host", "localhost")
    for path in [*folder.glob("*.pub"), folder / "coordinator.crt"]:
        shutil.copy(path, pins)
    domain.to_json(folder / "domain.json")
    size = -(-len(frame) // len(NAMES))
    for k, name in enumerate(NAMES):
        frame[k * size : (k + 1) * size].to_parquet(folder / f"{name}.parquet")


def make_keys(folder, *arguments):
    command = [*COMMAND, "keys", *arguments, "--folder", str(folder)]
    subprocess.run(command, check=True, capture_output=True)


class Ends:
    """Processes of parties and a coordinator.

    Parameters
    ----------
    folder : path
        The folder that `prepare` has filled.
    """

    def __init__(self, folder):
        self.folder, self.port = folder, 0
        self._running = []

    def start(self, *arguments, log):
        """Start a process that prints to a file."""
        with (self.folder / log).open("w") as file:
            running = subprocess.Popen(
                [*COMMAND, *map(str, arguments)],
                cwd=self.folder,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=os.environ | {"PYTHONUNBUFFERED": "1", "COLUMNS": "200"},
            )
        self._running.append(running)
        return running

    def join(self, name, *more, domain="domain.json"):
        """Start a party."""
        limits = () if "--accept-seed" in more else ("--limit-epsilon", 5, "--limit-delta", 1e-4)
        return self.start(
            *("join", f"{name}.parquet", "--at", f"localhost:{self.port}", "--domain", domain),
            *("--key", f"{name}.key", *limits, *more),
            log=f"{name}.log",
        )

    def join_all(self, *more):
        return [self.join(name, *more) for name in NAMES]

    def coordinate(self, *more, model="model.pvb"):
        """Start the coordinator, and wait until it listens.

        The operating system chooses the port of the first one; those after it have the same.
        """
        running = self.start(
            *("coordinate", "--model", model, "--domain", "domain.json", "--epsilon", 1),
            *("--listen", f"127.0.0.1:{self.port}", *more),
            log="coordinator.log",
        )
        self.wait_until_said("coordinator", "waiting at")
        self.port = int(re.search(r"waiting at 127.0.0.1:(\d+)", self.said("coordinator"))[1])
        return running

    def said(self, name):
        return (self.folder / f"{name}.log").read_text()

    def wait_until_said(self, name, words, seconds=300):
        until = time.monotonic() + seconds
        while words not in self.said(name):
            assert time.monotonic() < until, f"{name} said: {self.said(name)}"
            time.sleep(0.05)

    def runs(self, name):
        """How many runs were charged to a party's account."""
        store = BudgetStore(self.folder / f"{name}.db")
        return len(store.account(name).balance().entries)

    def stop(self):
        for running in self._running:
            if running.poll() is None:
                running.send_signal(signal.SIGKILL)
            running.wait()
