"""What a party allows all runs together, in a file that outlives the process."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import IO, Any

from privboost.boosting.checks import check_number, check_size
from privboost.boosting.plan import Budget
from privboost.errors import BudgetError
from privboost.privacy.ledger import checked_ledger

_RUN = "run"


class Limit:
    """ε and δ of runs add up. A run costs all that it was planned with, however it ends.

    What its releases turn out to be may follow from earlier ones, so only the whole of its budget
    bounds every path.

    Parameters
    ----------
    epsilon, delta : float
        What all runs together may cost.
    path : path, optional
        A file with a line for each run, beside those of its ledger. It is this process's alone as
        long as it lives; a line that was cut off by a crash never took effect, and is skipped.

    Attributes
    ----------
    spent : tuple of float
        ε and δ of all runs so far.
    known : bool
        Whether there was a file already, if there is one at all.
    """

    def __init__(self, epsilon: float, delta: float, path: str | Path | None = None) -> None:
        self.epsilon = check_size("limit_epsilon", epsilon)
        self.delta = 0.0 if delta == 0 else check_number("limit_delta", delta, 0, 1)
        self.path = None if path is None else Path(path)
        self.spent = (0.0, 0.0)
        self.known = self.path is None or self.path.exists()
        self._file = None if self.path is None else _open(checked_ledger(self.path))
        if self._file is not None:
            self.spent = _spent_before(self._file)

    def allowed(self, budget: Budget) -> float:
        """Return the ε that a run of this budget may have; refuse one that is over the limit."""
        epsilon, delta = self.epsilon - self.spent[0], self.delta - self.spent[1]
        # What was subtracted is rounded: a limit of three runs holds three.
        if budget.delta > delta + 1e-12 * self.delta or epsilon <= 0:
            raise BudgetError(
                f"limit: the plan's epsilon {budget.epsilon:g} or delta {budget.delta:g} exceeds "
                f"what is left of this party's, epsilon {max(epsilon, 0):g} and delta "
                f"{max(delta, 0):g}"
            )
        room = epsilon + 1e-12 * self.epsilon
        return budget.epsilon if budget.epsilon <= room else epsilon

    def spend(self, epsilon: float, delta: float) -> None:
        """Count a run, for good."""
        if self._file is not None:
            line = json.dumps({"entry": _RUN, "epsilon": epsilon, "delta": delta}).encode()
            _end_line(self._file)
            self._file.write(line + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        self.spent = (self.spent[0] + epsilon, self.spent[1] + delta)

    def close(self) -> None:
        """Let others use the file."""
        if self._file is not None:
            self._file.close()


def _open(path: Path) -> IO[bytes]:
    """Open a file for this process alone."""
    file = open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), "a+b")  # noqa: SIM115
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise ValueError(f"ledger: {path} is in use by another process") from None
    folder = os.open(path.resolve().parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # or the file may be gone after a power cut
    finally:
        os.close(folder)
    return file


def _end_line(file: IO[bytes]) -> None:
    """End a line that a write cut short, so that the next one stands by itself."""
    size = file.seek(0, os.SEEK_END)
    if size:
        file.seek(size - 1)
        if file.read(1) != b"\n":
            file.write(b"\n")


def _spent_before(file: IO[bytes]) -> tuple[float, float]:
    """Add up the runs of a file."""
    file.seek(0)
    runs = [entry for line in file if (entry := _read_line(line)).get("entry") == _RUN]
    return sum(run["epsilon"] for run in runs), sum(run["delta"] for run in runs)


def _read_line(line: bytes) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except ValueError:
        return {}
    return entry if isinstance(entry, dict) else {}
