"""A party: it keeps its rows, its key and its account, and answers what it has agreed to."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from privboost.accounts.account import BudgetAccount
from privboost.accounts.given import check_account
from privboost.crew import count_threads
from privboost.errors import BudgetError, DomainError, FederationError, SchemaError, StoreError
from privboost.federation.agreement import COORDINATOR
from privboost.federation.channels import Channel, open_letter, seal_letter
from privboost.federation.consent import Consent
from privboost.federation.keys import KeyPair
from privboost.federation.messages import PRESENT, key_bytes, printable
from privboost.federation.party_beginning import Beginning
from privboost.federation.party_offers import Accepted, Member, OwnReason, accept_offer
from privboost.federation.party_session import PartySession
from privboost.privacy.ledger import checked_ledger
from privboost.tables.beside import open_source
from privboost.tables.domain import Domain
from privboost.tables.encoding import Encoder
from privboost.tables.loader import RowLoader
from privboost.tables.loading import check_schema
from privboost.tables.sources import count_rows

_SAYABLE = (FederationError, BudgetError, DomainError)
"""Errors that name a rule of the message, no value, and nothing of the account or the table."""
_FIRST_WORDS = '{"entry"'
"""What every line of a ledger begins with."""
_KEPT = 64
"""Offers and answers that are remembered: an old letter that comes again pushes out no new one."""


def _tell_nobody(words: str) -> None:
    """Say nothing."""


class Party:
    """One party of a federation. Its rows never leave it; its sums do, under masks.

    Parameters
    ----------
    name : str
        What it is called.
    rows : data frame, array, or path of a Parquet or CSV file
        Its rows, labels among them.
    budget : BudgetAccount, optional
        The account of its rows. Every run is charged to it before a row is read; a plan that it
        does not cover, computed here, is refused. Without one the party takes part in seeded runs
        alone (`accept_seed`).
    identity : KeyPair, optional
        Its long-lived key; a fresh one by default.
    pins : mapping from str to bytes, optional
        The public keys of the coordinator (under that name) and of all other parties.
    domain : Domain, optional
        What is public, as this party sees it: an offer with another domain is refused. Without one
        the coordinator decides, also on whom the guarantee protects (the unit).
    weight : str, optional
        The column of sample weights; an offer that names another one is refused.
    ledger : path, optional
        A file that records every reservation and charge. It is a record; what may be spent is the
        account's to say.
    colluders : int
        Of how many other parties that tell what they know this one wants to be safe, at least. One
        party knows its own noise: with 0 it sees more than the guarantee says.
    least_parties : int, optional
        With how many parties it takes part, itself among them; all that are pinned by default.
    trust_server : bool
        Whether it also takes part where the server sees exact totals, and adds the noise.
    accept_seed : bool
        Whether it takes part in runs with a seed, which protect nobody: no account can be charged
        with them, so it does not go with `budget`. In a seeded run the party tells the coordinator
        how many rows it has, whatever `tell_rows` says: rows are numbered as on one machine.
    tell_rows : bool
        Whether the number of its rows is public. Recipes that need it are refused without.
    n_jobs : int, optional
        How many threads may work at once; by default as many as pay.
    tell : callable, optional
        Is told, in words without private values, what was accepted, refused, begun and ended.

    Attributes
    ----------
    budget : BudgetAccount or None
        Its account.
    finished : int
        How many runs came to their end.
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
        tell: Callable[[str], None] = _tell_nobody,
    ) -> None:
        if not isinstance(name, str) or not name or name == COORDINATOR:
            raise ValueError(f"a party has a name, and it is not {COORDINATOR!r}")
        self.name, self._rows = name, rows
        self._consent = Consent(
            domain, weight, colluders, least_parties, trust_server, accept_seed, tell_rows
        )
        if domain is not None:  # what cannot work is said at once
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
        self._wondered = False
        self._accepted: dict[bytes, Accepted] = {}
        self._answered: dict[bytes, bytes] = {}
        self._last = (b"", b"")
        self._channel: Channel | None = None
        self._beginning: Beginning | None = None
        self._session: PartySession | None = None

    def pin(self, pins: Mapping[str, bytes]) -> None:
        """Take the public keys of all others, from whoever is trusted to know them.

        Its own may be among them.
        """
        self._pins = {name: key for name, key in pins.items() if name != self.name}

    def receive(self, data: bytes) -> bytes:
        """Answer a request; nothing at all where it is not the coordinator's, or not new."""
        digest = hashlib.sha256(data).digest()
        if digest == self._last[0]:  # its answer was lost on the way
            return self._last[1]
        if self._channel is not None:
            body = self._channel.open(data)
            if body is not None:
                reply = self._channel.close(self._say(lambda: self._follow(body)))
                self._last = digest, reply
                if body.get("stage") == "end":  # the keys of the session are forgotten
                    self._channel = None
                return reply
        if digest in self._answered:  # a letter that comes twice has one answer
            return self._answered[digest]
        reply = self._answer_letter(data)
        if reply:
            self._answered[digest] = reply
            while len(self._answered) > _KEPT:
                self._answered.pop(next(iter(self._answered)))
        return reply

    def _answer_letter(self, data: bytes) -> bytes:
        pinned = self._pins.get(COORDINATOR)
        if pinned is None:
            return b""
        key = self.identity.shared(pinned)
        body = open_letter(key, self.name, COORDINATOR, data)
        if body is None:
            if not self._wondered:
                self.say(
                    "something came that is not sealed for this party: is its key pinned there?"
                )
            self._wondered = True
            return b""
        reply = self._say(lambda: self._read_letter(body))
        if reply["stage"] == "ready" and self._channel is not None:
            return self._channel.close(reply)
        return seal_letter(key, self.name, COORDINATOR, {"to": body.get("nonce"), **reply})

    def close(self) -> None:
        """Let go of the rows of a session, if there is one, and of all that was agreed."""
        self._leave()
        self._channel = None
        self._accepted, self._answered, self._last = {}, {}, (b"", b"")

    def _leave(self) -> None:
        """Let go of the session, or of its beginning."""
        if self._session is not None:
            self._session.close()
        self._session = self._beginning = None

    def _say(self, act: Any) -> dict[str, Any]:
        """Return what is done, or why not, in words that name no value."""
        try:
            said: dict[str, Any] = act()
        except OwnReason as error:
            rule = str(error)
            self.say(f"refused: {error.own}")
            return {"stage": "refused", "rule": rule}
        except _SAYABLE as error:
            rule = str(error)
        except (StoreError, SchemaError) as error:  # of this machine's files: its owner's to know
            rule = f"failure: {type(error).__name__}"
            self.say(str(error))
        except Exception as error:
            rule = f"failure: {type(error).__name__}"
        else:
            return said
        self.say(f"refused: {rule}")
        return {"stage": "refused", "rule": rule}

    def say(self, words: str) -> None:
        """Say something to whoever listens; whether somebody does changes nothing."""
        with suppress(Exception):
            self._listener(printable(words))

    def _read_letter(self, body: Mapping[str, Any]) -> dict[str, Any]:
        if body.get("stage") == PRESENT:  # that it was read, and answered, is the proof
            return {"stage": PRESENT}
        if body.get("stage") == "rows":
            self._consent.check_rows()
            return {"stage": "rows", "rows": count_rows(self._rows)}
        if body.get("stage") == "offer":
            return self._judge(body)
        if body.get("stage") == "begin":
            return self._begin(body)
        raise FederationError("messages: an unknown stage")

    def _follow(self, body: Mapping[str, Any]) -> dict[str, Any]:
        stage = body.get("stage")
        if self._session is None and (self._beginning is None or stage not in ("deal", "end")):
            raise FederationError("session: there is none")
        if stage == "end":
            whole_run = body.get("whole") is True and self._session is not None
            self._leave()
            self.finished += whole_run
            self.say("the run is over" if whole_run else "the run was given up")
            return {"stage": "end"}
        try:
            if self._beginning is not None:
                self._open(self._beginning, body)
            assert self._session is not None
            return self._session.follow(body)
        except BaseException:  # what is half followed must not be asked again
            self._leave()
            raise

    def _judge(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Accept an offer, or refuse it by a rule; nothing is spent."""
        accepted = accept_offer(self._member, body)
        self._accepted[accepted.coordinator.nonce] = accepted
        while len(self._accepted) > _KEPT:
            self._accepted.pop(next(iter(self._accepted)))
        self.say(f"accepted: {accepted.agreement.words}")
        return accepted.reply()

    def _begin(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Confirm the keys of a session; nothing is spent."""
        accepted = self._accepted.pop(key_bytes(body, "nonce"), None)
        if accepted is None:
            raise FederationError("session: nothing was agreed")
        beginning = Beginning(self._member, accepted, body.get("ends"))
        reply = beginning.reply()
        self._leave()
        self._beginning, self._channel = beginning, beginning.channel
        return reply

    def _open(self, beginning: Beginning, body: Mapping[str, Any]) -> None:
        """Begin a session, once the others have confirmed their keys: the plan is charged here."""
        self._session, ledger = beginning.open(body, self._threads)
        self._beginning = None
        self.say(f"begun: epsilon {ledger.epsilon:g} and delta {ledger.delta:g} are spent here")

    @property
    def _member(self) -> Member:
        own = self.name, self._rows, self.identity, self._pins
        return Member(*own, self._consent, self.budget, self._ledger)

    def __repr__(self) -> str:
        return f"Party({self.name!r})"

    def __reduce__(self) -> str:
        raise TypeError("a party cannot be pickled: its rows and keys must not leave the process")


def checked_record(path: Path) -> Path:
    """Return the file of a ledger; refuse one that counts runs, as parties did before accounts."""
    lines = checked_ledger(path).read_bytes().split(b"\n") if path.is_file() else ()
    entries = [_entry(path, number, line) for number, line in enumerate(lines, 1)]
    runs = [entry for entry in entries if entry.get("entry") == "run"]
    if runs:
        epsilon, delta = (sum(_number(run.get(x)) for run in runs) for x in ("epsilon", "delta"))
        raise BudgetError(
            f"ledger: {path} counts runs of an earlier version, of epsilon {epsilon:g} and delta "
            f"{delta:g} together: open an account with so much less than these rows may cost, and "
            "move the file away"
        )
    return checked_ledger(path)


def _entry(path: Path, number: int, line: bytes) -> dict[str, Any]:
    """Read a line of a ledger; refuse one that cannot be read, for it may have counted a run.

    A line that a crash cut short never took effect. It stays where it is when others follow.
    """
    try:
        entry = json.loads(line.decode())
    except ValueError:
        entry = {} if _is_cut_short(line.decode("ascii", "replace")) else None
    if not isinstance(entry, dict):
        raise BudgetError(
            f"ledger: line {number} of {path} cannot be read, and may count a run of an earlier "
            "version: mend it by hand, or move the file away and count what it says"
        )
    return entry


def _is_cut_short(words: str) -> bool:
    """Say whether a line that is no JSON can be the beginning of an entry, and nothing else."""
    begins = words.startswith(_FIRST_WORDS) or _FIRST_WORDS.startswith(words)
    if not begins or not words.isascii() or not words.isprintable() or words.endswith("}"):
        return False
    try:
        json.JSONDecoder().raw_decode(words)
    except ValueError:
        return True
    return False  # a whole entry, with something after it


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else math.nan
