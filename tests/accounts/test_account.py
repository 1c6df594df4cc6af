"""A store keeps what was charged, whatever happens to the process, the file and the clock."""

import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from privboost import BudgetAccount, BudgetError, BudgetStore, StoreError
from privboost._core.progress import message_listener, messages_printed, send_message
from privboost.accounts import account as account_module
from privboost.accounts import database
from privboost.accounts import database as places
from privboost.accounts.filters import Price


@pytest.fixture
def store(tmp_path):
    return BudgetStore(tmp_path / "store.db")


def charge(account, size, what="a run", **how):
    return account.charge(Price(size), what, 0.1, 1e-7, **how)


def test_what_is_charged_stays_and_the_limit_holds(store):
    account = store.open("patients", 3.0, 1e-5)
    headroom = account.balance().rules.filter.headroom(3.0, 0.9e-5)
    keys = [charge(account, headroom / 4) for _ in range(3)]
    assert [entry.key for entry in store.account("patients").balance().entries] == keys
    assert account.has(keys[0])
    assert not account.has("")
    before = account.balance()
    with pytest.raises(
        BudgetError, match=r"'patients' does not cover this: .* epsilon 3\.\d+ of 3"
    ):
        charge(account, headroom / 3)
    assert account.balance() == before
    charge(account, headroom / 4.001)
    assert account.balance().epsilon <= 3.0
    assert account.balance().left < 0.2


def test_accounts_have_entries_of_their_own(store):
    one, two = store.open("a", 1.0, 1e-6), store.open("b", 1.0, 1e-6, filter="renyi")
    charge(one, 1e-3)
    assert store.datasets() == ["a", "b"]
    assert [len(statement.entries) for statement in store.balances()] == [1, 0]
    assert one.rows != two.rows


def test_an_account_is_opened_once(store):
    store.open("a", 1.0, 1e-6)
    with pytest.raises(BudgetError, match="already"):
        store.open("a", 2.0, 1e-6)
    with pytest.raises(StoreError, match="no account of 'b'"):
        store.account("b")


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0},
        {"epsilon": float("nan")},
        {"epsilon": float("inf")},
        {"epsilon": True},
        {"delta": 0},
        {"delta": 1.0},
        {"dataset": ""},
        {"dataset": "a\nb"},
        {"dataset": 3},
        {"unit": ""},
        {"relation": "add"},
        {"filter": "pld"},
        {"order": 8},
        {"filter": "renyi", "order": 1},
        {"filter": "renyi", "epsilon": 1e-9},
    ],
)
def test_what_no_account_can_be(store, wrong):
    with pytest.raises(ValueError, match=r"\w"):
        store.open(**{"dataset": "a", "epsilon": 1.0, "delta": 1e-6} | wrong)
    assert not store.path.exists()


def test_a_lowered_limit_lets_nothing_more_be_spent(store):
    account = store.open("a", 3.0, 1e-5)
    charge(account, 0.2)
    account.set_limit(0.5, 1e-5)
    statement = account.balance()
    assert statement.epsilon > 0.5
    assert statement.left == 0
    assert "lowered below what is spent" in str(statement)
    with pytest.raises(BudgetError, match="does not cover"):
        charge(account, 1e-9)
    account.set_limit(5.0, 1e-5)
    charge(account, 1e-9)


def test_a_closed_account_is_closed(store):
    account = store.open("a", 3.0, 1e-5)
    account.close()
    for act in (account.close, lambda: charge(account, 1e-9), lambda: account.set_limit(9, 1e-5)):
        with pytest.raises(BudgetError, match="closed"):
            act()
    assert account.balance().left == 0


def test_a_stream_is_one_entry_of_its_dearest_batch(store):
    account = store.open("a", 3.0, 1e-5)
    key = charge(account, 0.02, batch=1)
    assert charge(account, 0.05, stream=key, batch=2) == key
    assert charge(account, 0.01, stream=key, batch=3) == key
    (entry,) = account.balance().entries
    assert (entry.price, entry.batches) == (Price(0.05), 3)
    with pytest.raises(BudgetError, match="another account"):
        charge(account, 0.01, stream="0" * 16, batch=2)


def test_a_state_that_was_gone_on_from_before_pays_for_the_whole_stream_again(store):
    account = store.open("a", 3.0, 1e-5)
    key = charge(account, 0.05, batch=1)
    assert charge(account, 0.02, stream=key, batch=2) == key
    other = charge(account, 0.02, stream=key, batch=2)  # a copy, or a batch that failed
    assert other != key
    assert [entry.price for entry in account.balance().entries] == [Price(0.05)] * 2
    assert charge(account, 0.03, stream=other, batch=3) == other
    assert [entry.batches for entry in account.balance().entries] == [2, 3]


def test_what_is_no_stream_is_not_gone_on_with(store):
    account = store.open("a", 3.0, 1e-5)
    key = charge(account, 0.05)
    with pytest.raises(BudgetError, match="another account"):
        charge(account, 0.02, stream=key, batch=1)


@pytest.mark.parametrize("size", [-0.1, float("nan"), float("inf")])
def test_prices_are_prices(store, size):
    account = store.open("a", 3.0, 1e-5)
    with pytest.raises(ValueError, match="a price must be finite"):
        charge(account, size)


def test_thresholds_have_a_part_of_delta_and_noise_the_rest(store):
    """Else whoever sees releases could choose between them: each path within delta, all not."""
    account = store.open("a", 1.0, 1e-6)
    headroom = account.balance().rules.filter.headroom(1.0, 1e-6)
    with pytest.raises(BudgetError, match="does not cover"):
        charge(account, headroom)  # with all of delta: a twin would take it
    with pytest.raises(BudgetError, match="leave nothing of delta"):
        account.charge(Price(1e-3, delta=2e-7), "words", 0.1, 1e-7)
    account.charge(Price(1e-3, delta=1e-7), "words", 0.1, 1e-7)
    before = account.balance()
    assert before.threshold_delta_left < 1e-20
    charge(account, before.rules.filter.headroom(1.0, 0.9e-6) - 1.1e-3)


def test_dates_are_words(store, monkeypatch):
    account = store.open("a", 3.0, 1e-5)
    dates = iter(["2031-01-01 00:00:00", "1970-01-01 00:00:00", "2026-01-01 00:00:00"])
    monkeypatch.setattr(account_module, "now", lambda: next(dates))
    keys = [charge(account, 0.01) for _ in range(3)]
    assert [entry.key for entry in account.balance().entries] == keys


def test_an_account_travels(store):
    import copy
    import pickle

    account = store.open("a", 3.0, 1e-5).named("first try")
    for twin in (copy.deepcopy(account), pickle.loads(pickle.dumps(account))):
        charge(twin, 0.01)
    assert [entry.name for entry in account.balance().entries] == ["first try"] * 2
    with pytest.raises(ValueError, match="name"):
        account.named("")


def test_a_store_that_was_put_in_the_place_of_another_is_refused(store):
    account = store.open("a", 3.0, 1e-5)
    store.path.unlink()
    with pytest.raises(StoreError, match="no such store"):
        charge(account, 0.01)
    store.open("a", 3.0, 1e-5)
    with pytest.raises(StoreError, match="another store"):
        charge(account, 0.01)


def test_files_that_are_no_store(tmp_path):
    path = tmp_path / "words.db"
    path.write_text("these are words, and more of them than a header has bytes" * 9)
    with pytest.raises(StoreError, match=r"words\.db is damaged, or no store"):
        BudgetStore(path).datasets()
    with pytest.raises(StoreError, match=r"words\.db"):
        BudgetStore(path).open("a", 1.0, 1e-6)
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE t (x)")
    with pytest.raises(StoreError, match="no store of privboost"):
        BudgetStore(other).open("a", 1.0, 1e-6)
    with pytest.raises(StoreError, match="cannot be written"):
        BudgetStore(tmp_path / "none" / "store.db").open("a", 1.0, 1e-6)


def test_another_version_is_refused(store):
    store.open("a", 1.0, 1e-6)
    with sqlite3.connect(store.path) as connection:
        connection.execute("PRAGMA user_version = 9")
    with pytest.raises(StoreError, match="version 9"):
        store.datasets()


def test_a_damaged_store_is_refused(store):
    account = store.open("a", 1.0, 1e-6)
    for _ in range(60):
        charge(account, 1e-5)
    data = bytearray(store.path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 3000] = os.urandom(3000)
    store.path.write_bytes(data)
    with pytest.raises(StoreError, match=r"is damaged \(the table of entries\)") as error:
        charge(account, 1e-5)
    assert "\n" not in str(error.value)
    assert "go back to a copy" in str(error.value)
    assert store.path.read_bytes() == data


@pytest.mark.parametrize(
    ("harm", "what"),
    [
        ("DROP TABLE entries", "the table of entries is missing"),
        ("DELETE FROM store", "its own name is missing"),
        ("ALTER TABLE entries RENAME COLUMN size TO width", "its tables are not those of a store"),
        ("UPDATE accounts SET filter = 'renyi', \"order\" = 0", "a line of the account of 'a'"),
        ("UPDATE accounts SET relation = 'cousins'", "a line of the account of 'a'"),
        ("UPDATE entries SET size = -1", "a line of the account of 'a'"),
        ("UPDATE entries SET far_delta = 9e999", "a line of the account of 'a'"),
    ],
)
def test_what_is_damaged_is_said_in_a_line(store, harm, what):
    charge(store.open("a", 1.0, 1e-6), 1e-5)
    with closing(sqlite3.connect(store.path)) as connection, connection:
        connection.execute(harm)
    with pytest.raises(StoreError, match=what) as error:
        charge(store.account("a"), 1e-5)
    assert "\n" not in str(error.value)
    assert "nothing was spent now" in str(error.value)


def test_a_file_that_was_cut_short_is_refused(store):
    account = store.open("a", 1.0, 1e-6)
    for _ in range(60):
        charge(account, 1e-5)
    data = store.path.read_bytes()
    for size in (len(data) // 2, 4096, 100):
        store.path.write_bytes(data[:size])
        with pytest.raises(StoreError, match="damaged"):
            charge(account, 1e-5)
    store.path.write_bytes(data)
    assert len(account.balance().entries) == 60


def test_names_that_are_near_are_told(store):
    for name in ("patients", "payments"):
        store.open(name, 1.0, 1e-6)
    with pytest.raises(StoreError, match=r"did you mean 'patients'\? it has 'patients', 'paym"):
        store.account("patient")
    with pytest.raises(StoreError, match=r"'x' \(it has 'patients', 'payments'\)"):
        store.account("x")
    for number in range(30):
        store.open(f"d{number}", 1.0, 1e-6)
    with pytest.raises(StoreError, match=r"'d17', …\)"):
        store.account("x")


def test_a_store_that_is_held_is_refused_in_time(store, monkeypatch):
    account = store.open("a", 1.0, 1e-6)
    monkeypatch.setattr(database, "_SOON", 0.05)
    monkeypatch.setattr(database, "_PATIENCE", 0.2)
    holder = sqlite3.connect(store.path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    told = []
    with (
        message_listener(told.append),
        pytest.raises(StoreError, match="held by another process: nothing was spent"),
    ):
        charge(account, 1e-5)
    assert told == [f"waiting for {store.path}: another process is writing"]
    holder.execute("ROLLBACK")
    holder.close()
    charge(account, 1e-5)


@pytest.mark.parametrize("hold", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
def test_a_store_that_is_held_for_a_while_is_waited_for(store, monkeypatch, capfd, hold):
    account = store.open("a", 1.0, 1e-6)
    monkeypatch.setattr(database, "_SOON", 0.05)

    def heard(text):
        send_message(text)
        holder.close()

    monkeypatch.setattr(database, "send_message", heard)
    for verbose in (False, True):
        holder = sqlite3.connect(store.path, isolation_level=None)
        holder.execute(hold)
        with messages_printed(verbose):
            charge(account, 1e-5)
        said = f"waiting for {store.path}: another process is writing\n" if verbose else ""
        assert tuple(capfd.readouterr()) == ("", said)
    assert len(account.balance().entries) == 2


def test_a_full_disk_leaves_all_as_it_was(store, monkeypatch):
    account = store.open("a", 1.0, 1e-6)
    charge(account, 1e-5)
    begun = database._begun

    def full(path, mode, begin):
        connection = begun(path, mode, begin)
        connection.execute("PRAGMA max_page_count = 1")  # no page more than there are
        return connection

    before = account.balance()
    with monkeypatch.context() as patch:
        patch.setattr(database, "_begun", full)
        with pytest.raises(StoreError, match="the disk is full, and nothing was spent"):
            account.charge(Price(1e-5), "x" * 100_000, 0.1, 1e-7)
    assert account.balance() == before
    charge(account, 1e-5)


def test_network_disks_are_refused(store, monkeypatch, tmp_path):
    mounts = tmp_path / "mounts"
    mounts.write_text(f"disk / ext4 rw 0 0\nserver:/x {tmp_path} nfs4 rw 0 0\n")
    monkeypatch.setattr(places, "_MOUNTS", mounts)
    with pytest.raises(StoreError, match=r"network file system \(nfs4\)"):
        store.open("a", 1.0, 1e-6)
    mounts.write_text("disk / ext4 rw 0 0\n")
    store.open("a", 1.0, 1e-6)
    mounts.unlink()
    store.account("a")


def test_a_store_of_two_names_is_refused(store, tmp_path):
    """A journal of one name is not found by the other: a charge would be lost."""
    account = store.open("a", 1.0, 1e-6)
    other = tmp_path / "other.db"
    os.link(store.path, other)
    for path in (store.path, other):
        with pytest.raises(StoreError, match=r"more than one name \(hard links\).* journal"):
            BudgetStore(path).open("b", 1.0, 1e-6)
        with pytest.raises(StoreError, match="more than one name"):
            BudgetStore(path).account("a")
    with pytest.raises(StoreError, match="more than one name"):
        charge(account, 1e-5)
    other.unlink()
    other.symlink_to(store.path)  # a symbolic link stands for the one name
    charge(BudgetStore(other).account("a"), 1e-5)
    assert len(account.balance().entries) == 1


def charge_often(path, times, done):
    account = BudgetStore(path).account("a")
    for _ in range(times):
        try:
            charge(account, 1e-4)
        except BudgetError:
            continue
        done.put(1)


def test_eight_processes_never_spend_what_is_not_there(store):
    account = store.open("a", 1.0, 1e-6)
    limit = account.balance().rules.filter.headroom(1.0, 0.9e-6)
    most = int(limit / 1e-4)
    charge(account, limit - 100.5e-4)  # room for a hundred of them
    assert most > 100
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])  # imported once, not eight times
    done = context.Queue()
    own = [context.Process(target=charge_often, args=(store.path, 20, done)) for _ in range(8)]
    for process in own:
        process.start()
    for process in own:
        process.join()
    assert [process.exitcode for process in own] == [0] * 8
    told = sum(done.get() for _ in range(100))
    assert told == 100
    assert done.empty()
    assert len(account.balance().entries) == 101


CHARGES = """
import os, sys
from privboost import BudgetStore
from privboost.accounts.filters import Price
account = BudgetStore(sys.argv[1]).account("a")
account.balance()
told = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
for _ in sys.stdin:  # a process for each line, which is killed
    child = os.fork()
    while not child:
        os.write(told, account.charge(Price(1e-9), "a run", 0.1, 1e-7).encode() + b"\\n")
    print(child, flush=True)
    os.waitpid(child, 0)
"""


def kill_at_random(store, tmp_path, times):
    """Kill processes in mid charge; what one was told must be there."""
    account, told = store.account("a"), tmp_path / "told"
    moments = np.random.default_rng(5)
    command = [sys.executable, "-c", CHARGES, str(store.path), str(told)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as parent:
        for number in range(1, times + 1):
            print(file=parent.stdin, flush=True)
            child = int(parent.stdout.readline())
            while number == 1 and not (told.exists() and told.stat().st_size):
                os.kill(child, 0)  # it lives: the first is killed once it was told something
                time.sleep(0.01)
            time.sleep(moments.uniform(0, 0.05))
            os.kill(child, signal.SIGKILL)
            if number % 50 and number != times:
                continue
            kept = {entry.key for entry in account.balance().entries}
            said = set(told.read_text().split("\n")[:-1])
            assert said <= kept
            assert len(kept) <= len(said) + number
        parent.stdin.close()
    assert said


def test_a_killed_process_loses_no_charge(store, tmp_path):
    store.open("a", 1.0, 1e-6)
    kill_at_random(store, tmp_path, 20)


@pytest.mark.slow
def test_hundreds_of_killed_processes_lose_no_charge(store, tmp_path):
    """Nearly all of a charge is writing, so that nearly every kill comes in the midst of it."""
    store.open("a", 1.0, 1e-6)
    kill_at_random(store, tmp_path, 300)


def test_an_account_names_its_place(store):
    account = store.open("a", 1.0, 1e-6, unit="patient")
    assert isinstance(account, BudgetAccount)
    assert account.path == Path(store.path).resolve()
    form = account.balance().to_dict()
    assert form["unit"] == "patient"
    assert form["limit"] == {"epsilon": 1.0, "delta": 1e-6}
    assert "all rows of one patient" in str(account.balance())


@pytest.mark.parametrize(
    "alike",
    [
        "Pfl\u00e4ge 1",
        "Pfla\u0308ge 1",
        " Pfläge 1",
        "Pfläge\u00a01",
        "Pfläge  1",
        "Ｐｆläge １\u3000",
    ],
)
def test_names_that_look_alike_are_one_account(store, alike):
    opened = store.open(alike, 3.0, 1e-5)
    assert opened.dataset == "Pfl\u00e4ge 1"
    assert store.account("Pfläge 1") == store.account(alike) == opened
    with pytest.raises(BudgetError, match="already"):
        store.open("Pfläge 1 ", 3.0, 1e-5)
    assert store.datasets() == ["Pfläge 1"]
    assert opened.named(" ﬁrst try ").name == "first try"


def test_accounts_of_earlier_versions_keep_their_names(store):
    """They were written as they were given; none can be opened beside them that looks alike."""
    store.open("b", 3.0, 1e-5)
    with closing(sqlite3.connect(store.path)) as connection:
        connection.execute("UPDATE accounts SET dataset = ' ﬁrst'")
        connection.commit()
    for name in ("first", " ﬁrst", "first "):
        assert store.account(name).dataset == " ﬁrst"
        with pytest.raises(BudgetError, match="already"):
            store.open(name, 3.0, 1e-5)
    assert [statement.dataset for statement in store.balances()] == [" ﬁrst"]


@pytest.mark.parametrize("name", ["", "  ", "a\u202eb", "a\u2066", "\u200fa", "a\nb", 7])
def test_names_that_nobody_can_read(store, name):
    with pytest.raises(ValueError, match="dataset must be a text"):
        store.open(name, 3.0, 1e-5)


@pytest.mark.parametrize(
    "invisible",
    [
        *(0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180E, 0x180F, 0x2800, 0x3164, 0xFE00),
        *(0xFE0F, 0xFFA0, 0xE0001, 0xE0100, 0xE01EF, 0x200B, 0xAD),
    ],
    ids=hex,
)
def test_names_with_what_nobody_can_see(store, invisible):
    """They would look like another account's."""
    for name in ("patients{}", "{}patients", "pat{}ients"):
        with pytest.raises(ValueError, match="dataset must be a text"):
            store.open(name.format(chr(invisible)), 3.0, 1e-5)
    assert not store.path.exists()


def test_accounts_of_earlier_versions_can_have_what_nobody_can_see(store):
    store.open("b", 3.0, 1e-5)
    with closing(sqlite3.connect(store.path)) as connection:
        connection.execute("UPDATE accounts SET dataset = 'b\ufe0f'")
        connection.commit()
    assert [statement.dataset for statement in store.balances()] == ["b\ufe0f"]
