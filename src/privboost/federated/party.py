"""`Party`: the owner of rows, a key and an account in a federation."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from privboost._core.errors import (
    BudgetError,
    DomainError,
    FederationError,
    SchemaError,
    StoreError,
)
from privboost._core.threads import count_threads
from privboost.accounting.ledger import checked_ledger
from privboost.accounts.account import BudgetAccount, check_account
from privboost.data.domain import Domain
from privboost.data.encoding import Encoder
from privboost.data.loading import RowLoader, check_schema, open_source
from privboost.data.sources import count_rows
from privboost.federated.agreement import Consent
from privboost.federated.crypto import COORDINATOR, Channel, KeyPair, open_letter, seal_letter
from privboost.federated.handshake import Handshake, Member, PrivateReason
from privboost.federated.messages import PRESENT, key_bytes, printable
from privboost.federated.party_session import PartySession

_PUBLIC_ERRORS = (FederationError, BudgetError, DomainError)
"""Errors that name a rule of the message, no value, and nothing of the account or the table."""
_ENTRY = '{"entry"'
"""The beginning of every line of a ledger."""
_KEPT = 64
"""Offers and replies that are kept: replaying one old letter evicts no new one."""


class Party:
    """One party of a federation. Its rows never leave it; its sums do, under masks.

    Parameters
    ----------
    name : str
        Name of the party.
    rows : data frame, array, or path of a Parquet or CSV file
        Its rows, labels among them.
    budget : BudgetAccount, optional
        The account of its rows. Every run is charged to it before a row is read; a plan, made by
        the party itself, that it does not cover is refused. Without an account the party takes
        part in seeded runs only (`accept_seed`).
    identity : KeyPair, optional
        Its long-lived key; a fresh one by default.
    pins : mapping from str to bytes, optional
        The public keys of the coordinator (under that name) and of all other parties.
    domain : Domain, optional
        The domain, as this party knows it: an offer with another one is refused. Without it the
        coordinator decides, also on whom the guarantee protects (the unit).
    weight : str, optional
        The column of sample weights; an offer that names another one is refused.
    ledger : path, optional
        A file that records every reservation and charge. It limits nothing: the account does.
    colluders : int
        The least number of colluding parties that a run must protect from. Every party knows its
        own noise: with 0 it sees more of the others than the guarantee states.
    least_parties : int, optional
        The least number of parties of a run, itself included; all that are pinned by default.
    trust_server : bool
        Whether to accept runs in which the server sees exact totals, and adds the noise.
    accept_seed : bool
        Whether to accept seeded runs, which protect nobody: no account can be charged with them,
        so it excludes `budget`. In a seeded run the party sends the coordinator its number of
        rows, whatever `tell_rows` is: rows are numbered as on one machine.
    tell_rows : bool
        Whether the number of its rows is public. Otherwise recipes that need it are refused.
    n_jobs : int, optional
        Number of threads; chosen by default.
    tell : callable, optional
        Called with a line of text, without private values, when a run is accepted, refused, begun
        or ended.

    Attributes
    ----------
    budget : BudgetAccount or None
        Its account.
    finished : int
        Number of completed runs.
    """

    def __init__(
        self,
        name: str,
        rows: Any,
        budget: BudgetAccount | None = None,
        *,
        identity: KeyPair | None = None,
        pins: Mapping[str, bytes] | None = None,
        domain: Domain | None = None,
        weight: str | None = None,
        colluders: int = 1,
        least_parties: int | None = None,
        trust_server: bool = False,
        ledger: str | Path | None = None,
        accept_seed: bool = False,
        tell_rows: bool = False,
        n_jobs: int | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        if not isinstance(name, str) or not name or name == COORDINATOR:
            raise ValueError(f"a party has a name, and it is not {COORDINATOR!r}")
        self.name, self._rows = name, rows
        self._consent = Consent(
            domain, weight, colluders, least_parties, trust_server, accept_seed, tell_rows
        )
        if domain is not None:  # a table that lacks columns is refused at once
            source, roles = open_source(domain, rows, None, weight)
            check_schema(
                RowLoader(Encoder.of(domain), roles, None if weight is None else 1.0), source
            )
        self.budget = check_account("budget", budget, None)
        if (budget is None) != accept_seed:
            raise ValueError(
                "a party has an account that runs are charged to (budget), or takes part in seeded "
                "runs, which protect nobody (accept_seed): one of the two"
            )
        self._ledger = None if ledger is None else checked_record(Path(ledger))
        self.identity = KeyPair() if identity is None else identity
        self.pin(pins or {})
        self._threads = count_threads(n_jobs)
        self._listener = tell
        self.finished = 0
        self._warned = False
        self._accepted: dict[bytes, Handshake] = {}
        self._answered: dict[bytes, bytes] = {}
        self._last = (b"", b"")
        self._channel: Channel | None = None
        self._handshake: Handshake | None = None
        self._session: PartySession | None = None

    def pin(self, pins: Mapping[str, bytes]) -> None:
        """Pin the public keys of all others, from a source that is trusted to know them.

        The party's own key may be among them.
        """
        self._pins = {name: key for name, key in pins.items() if name != self.name}

    def receive(self, data: bytes) -> bytes:
        """Return the reply to a request; empty if it is not the coordinator's, or not new."""
        digest = hashlib.sha256(data).digest()
        if digest == self._last[0]:  # the reply was lost
            return self._last[1]
        if self._channel is not None:
            body = self._channel.open(data)
            if body is not None:
                reply = self._channel.close(self._reply(lambda: self._follow(body)))
                self._last = digest, reply
                if body.get("stage") == "end":  # forget the session's keys
                    self._channel = None
                return reply
        if digest in self._answered:  # a letter that is sent again has the same reply
            return self._answered[digest]
        reply = self._answer_letter(data)
        if reply:
            self._answered[digest] = reply
            while len(self._answered) > _KEPT:
                self._answered.pop(next(iter(self._answered)))
        return reply

    def _answer_letter(self, data: bytes) -> bytes:
        """Return the reply to a letter of the coordinator's; empty for anything else."""
        pinned = self._pins.get(COORDINATOR)
        if pinned is None:
            return b""
        key = self.identity.shared(pinned)
        body = open_letter(key, self.name, COORDINATOR, data)
        if body is None:
            if not self._warned:
                self.say("a message is not sealed for this party: is its key pinned there?")
            self._warned = True
            return b""
        reply = self._reply(lambda: self._read_letter(body))
        if reply["stage"] == "ready" and self._channel is not None:
            return self._channel.close(reply)
        return seal_letter(key, self.name, COORDINATOR, {"to": body.get("nonce"), **reply})

    def close(self) -> None:
        """Release the rows of a session, and forget all agreements."""
        self._leave()
        self._channel = None
        self._accepted, self._answered, self._last = {}, {}, (b"", b"")

    def _leave(self) -> None:
        """End the session, or its handshake."""
        if self._session is not None:
            self._session.close()
        self._session = self._handshake = None

    def _reply(self, act: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the reply of an action, or a refusal by a rule that names no value."""
        try:
            return act()
        except PrivateReason as error:
            rule, reason = str(error), error.own
        except _PUBLIC_ERRORS as error:
            rule = reason = str(error)
        except Exception as error:
            if isinstance(error, StoreError | SchemaError):  # about files: for the owner only
                self.say(str(error))
            rule = reason = f"failure: {type(error).__name__}"
        self.say(f"refused: {reason}")
        return {"stage": "refused", "rule": rule}

    def say(self, message: str) -> None:
        """Pass a line of text to `tell`; errors there are ignored."""
        with suppress(Exception):
            if self._listener is not None:
                self._listener(printable(message))

    def _read_letter(self, body: Mapping[str, Any]) -> dict[str, Any]:
        stage = body.get("stage")
        if stage == PRESENT:  # the reply itself proves the key
            return {"stage": PRESENT}
        if stage == "rows":
            self._consent.check_rows()
            return {"stage": "rows", "rows": count_rows(self._rows)}
        if stage == "offer":
            return self._accept(body)
        if stage == "begin":
            return self._begin(body)
        raise FederationError("messages: an unknown stage")

    def _follow(self, body: Mapping[str, Any]) -> dict[str, Any]:
        stage = body.get("stage")
        if self._session is None and (self._handshake is None or stage not in ("deal", "end")):
            raise FederationError("session: there is none")
        if stage == "end":
            whole_run = body.get("whole") is True and self._session is not None
            self._leave()
            self.finished += whole_run
            self.say("the run is over" if whole_run else "the run was given up")
            return {"stage": "end"}
        try:
            if self._handshake is not None:  # the others have confirmed their keys: it pays
                self._session, ledger = self._handshake.open(body, self._threads)
                self._handshake = None
                spent = f"epsilon {ledger.epsilon:g} and delta {ledger.delta:g}"
                self.say(f"begun: {spent} are spent here")
            assert self._session is not None
            return self._session.follow(body)
        except BaseException:  # a request that was followed in part must not be repeated
            self._leave()
            raise

    def _accept(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Accept an offer, or refuse it by a rule; nothing is spent."""
        own = self.name, self._rows, self.identity, self._pins
        member = Member(*own, self._consent, self.budget, self._ledger)
        handshake = Handshake(member, body)
        self._accepted[handshake.coordinator.nonce] = handshake
        while len(self._accepted) > _KEPT:
            self._accepted.pop(next(iter(self._accepted)))
        self.say(f"accepted: {handshake.agreement.describe()}")
        return handshake.accept()

    def _begin(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Confirm the keys of a session; nothing is spent."""
        handshake = self._accepted.pop(key_bytes(body, "nonce"), None)
        if handshake is None:
            raise FederationError("session: nothing was agreed")
        reply = handshake.begin(body.get("ends"))
        self._leave()
        self._handshake, self._channel = handshake, handshake.channel
        return reply

    def __repr__(self) -> str:
        return f"Party({self.name!r})"

    def __reduce__(self) -> str:
        raise TypeError("a party cannot be pickled: its rows and keys must not leave the process")


def checked_record(path: Path) -> Path:
    """Return the path of a ledger; refuse one that counts runs, as parties did before accounts.

    A line that a crash cut short never took effect, and remains when others follow. Any other line
    that cannot be read may count a run.
    """
    runs = []
    lines = checked_ledger(path).read_bytes().split(b"\n") if path.is_file() else ()
    for number, line in enumerate(lines, 1):
        try:
            entry = json.loads(line.decode())
        except ValueError:
            entry = {} if _is_cut_short(line.decode("ascii", "replace")) else None
        if not isinstance(entry, dict):
            raise BudgetError(
                f"ledger: line {number} of {path} cannot be read, and may count a run of an "
                "earlier version: repair it by hand, or move the file away and count its runs"
            )
        if entry.get("entry") == "run":
            runs.append([_number(entry.get(name)) for name in ("epsilon", "delta")])
    if runs:
        epsilon, delta = map(sum, zip(*runs, strict=True))
        raise BudgetError(
            f"ledger: {path} counts runs of an earlier version, of epsilon {epsilon:g} and delta "
            f"{delta:g} together: open an account with so much less than these rows may cost, and "
            "move the file away"
        )
    return checked_ledger(path)


def _is_cut_short(line: str) -> bool:
    """Return whether a line that is not JSON can be the beginning of an entry."""
    begins = line.startswith(_ENTRY) or _ENTRY.startswith(line)
    if not begins or not line.isascii() or not line.isprintable() or line.endswith("}"):
        return False
    try:
        json.JSONDecoder().raw_decode(line)
    except ValueError:
        return True
    return False  # a whole entry, and more after it


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else math.nan
