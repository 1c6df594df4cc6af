"""What every command has: examples, statuses, JSON, completion, progress, and rows in a stream."""

import json
import os
import pty
import shlex
import signal
import sqlite3
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer

from privboost import Domain, load_model
from privboost._core.progress import reading, send_message, waiting
from privboost.accounts import database
from privboost.cli import prediction
from privboost.cli.exits import Status
from privboost.cli.main import app
from privboost.cli.output import save_paid
from privboost.cli.prediction import file_writer
from privboost.cli.registry import COMMANDS as REGISTERED
from privboost.data.files import open_file
from privboost.estimators import streaming
from tests.cli.test_commands import command, run, trained  # noqa: F401  # fixtures
from tests.tables import make_domain, make_frame

# ruff: noqa: F811  # fixtures


def commands_of(group, before=()):
    """Yield the words of each command with itself."""
    for name, each in group.commands.items():
        words = (*before, name)
        if hasattr(each, "commands"):
            yield from commands_of(each, words)
        else:
            yield " ".join(words), each


COMMANDS = dict(commands_of(typer.main.get_command(app)))


def test_every_command_has_examples_that_can_be_typed():
    assert set(REGISTERED) == set(COMMANDS)
    for name, registered in REGISTERED.items():
        assert registered.examples
        for line in registered.examples:
            words = shlex.split(line)
            assert words[: 1 + len(name.split())] == ["privboost", *name.split()]
            made = COMMANDS[name].make_context(name, words[1 + len(name.split()) :])
            assert made.params
            assert line in COMMANDS[name].epilog


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {"domain skeleton", "federation join"}))
def test_every_command_speaks_json(name):
    """But for a sketch, which is JSON in any case, and a party, which tells nobody anything."""
    assert any("--json" in option.opts for option in COMMANDS[name].params)


def test_help_says_how_it_ends_and_stands_in_order(run):
    said = run("--help").stdout
    places = [
        said.index(f"│ {name} ") for name in ("recommend", "train", "predict", "domain", "budget")
    ]
    assert places == sorted(places)
    words = " ".join(said.split())
    for status in Status:
        assert f"{status.value}, " in words
    assert "privboost train visits.parquet --domain" in run("train", "--help").stdout
    page = (Path(__file__).parents[2] / "docs" / "command_line.md").read_text()
    for status in Status:
        assert f"| {status.value} | {status.meaning} |\n" in page
    for name in {words.split()[0] for words in COMMANDS}:
        assert f"| `{name}` | " in page


def test_completion_knows_commands_options_and_values():
    def complete(line, shell="bash"):
        words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
        asked = os.environ | {"_PRIVBOOST_COMPLETE": f"complete_{shell}"} | words
        done = subprocess.run(
            [sys.executable, "-m", "privboost"],
            env=asked,
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        )
        return done.stdout.split()

    assert complete("privboost tr") == ["train"]
    assert {"privboost", "sbdt", "auto"} <= set(complete("privboost train --recipe "))
    assert "--epsilon" in complete("privboost train --eps")


def test_rows_go_through_with_their_ids(trained, run):
    folder, _ = trained
    frame = make_frame(300)
    frame.insert(0, "id", [f"{k:05d}" for k in range(300)])
    frame.to_csv(folder / "new.csv", index=False)
    frame.to_parquet(folder / "new.parquet")
    expected = load_model(folder / "m").predict(frame)
    for out in ("p.csv", "p.parquet", "p.jsonl"):
        source = folder / ("new.parquet" if out == "p.parquet" else "new.csv")
        how = ("--keep", "id", "--keep", "age", "--out", folder / out)
        said = run("predict", folder / "m", source, *how).stdout
        assert said.startswith(f"{folder / out}: 300 rows of id, age, prediction")
    columns = [
        pd.read_csv(folder / "p.csv", dtype={"id": str}),
        pd.read_parquet(folder / "p.parquet"),
        pd.read_json(folder / "p.jsonl", lines=True, dtype={"id": str}),
    ]
    for found in columns:
        assert list(found["id"]) == list(frame["id"])
        assert list(found["prediction"]) == list(expected)
    lines = run("predict", folder / "m", folder / "new.csv", "--keep", "id", "--json").stdout
    assert [json.loads(line)["id"] for line in lines.splitlines()] == list(frame["id"])
    assert "no column 'ID'" in run("predict", folder / "m", source, "--keep", "ID", code=4).stderr


def test_a_kept_column_has_a_name_of_its_own(trained, run):
    folder, _ = trained
    make_frame(3).assign(prediction=1).to_csv(folder / "new.csv", index=False)
    refused = run("predict", folder / "m", folder / "new.csv", "--keep", "prediction", code=2)
    assert "--keep prediction: a column of predictions has this name" in refused.stderr


def test_parts_of_a_table_are_written_as_they_come(trained, run, monkeypatch):
    folder, _ = trained
    frame = make_frame(300)
    frame.to_parquet(folder / "new.parquet")
    whole = run("predict", folder / "m", folder / "new.parquet", "--std").stdout
    monkeypatch.setattr("privboost.cli.prediction._ROWS", 7)
    monkeypatch.setattr("privboost.cli.prediction._GROUP_ROWS", 50)
    assert run("predict", folder / "m", folder / "new.parquet", "--std").stdout == whole
    out = folder / "p.parquet"
    run("predict", folder / "m", folder / "new.parquet", "--out", out)
    assert pq.ParquetFile(out).num_row_groups == 6  # 300 rows in groups of 7 × 8
    assert pq.read_table(out).num_rows == 300


def test_an_empty_table_has_columns(trained, run):
    folder, _ = trained
    make_frame(0).to_parquet(folder / "none.parquet")
    out = folder / "p.parquet"
    run("predict", folder / "m", folder / "none.parquet", "--out", out, "--keep", "age")
    assert pq.read_schema(out).names[:2] == ["age", "prediction"]


def test_a_writer_that_fails_leaves_nothing(tmp_path):
    schema = pa.schema([("x", pa.int64())])
    for suffix in (".csv", ".jsonl", ".parquet"):
        with suppress(RuntimeError), file_writer(tmp_path / f"t{suffix}", schema) as write:
            write(pa.table({"x": [1]}))
            raise RuntimeError
    assert not list(tmp_path.iterdir())


def test_every_training_command_prints_json(trained, run, tmp_path):
    folder, base = trained
    form = json.loads(run(*base, folder / "j", "--json").stdout)
    assert (form["model"], form["recipe"]) == (str(folder / "j"), "privboost")
    assert form["privacy"]["guarantee"] == "(1, 1e-06)-differential privacy"
    stream = ("--recipe", "sbdt", "--stream", folder / "s", "--json")
    assert json.loads(run(*base, folder / "k", *stream).stdout)["stream"] == str(folder / "s")
    late = ("extend", folder / "s", folder / "t.csv", "--epsilon", 1, "--json", "--model")
    assert json.loads(run(*late, folder / "l").stdout)["model"] == str(folder / "l")
    asked = ("calibrate", "--epsilon", 1, "--delta", 1e-5, "--rounds", 100, "--json")
    form = json.loads(run(*asked).stdout)
    assert form["releases"][0]["leaf_sigma"] == pytest.approx(52.7591, abs=1e-4)
    assert form["epsilon_by_accountant"]["gdp"] <= 1
    learned = ("domain", "learn", folder / "t.csv", "--target", "income", "--epsilon", 9)
    out = folder / "learned.json"
    form = json.loads(run(*learned, "--out", out, "--json").stdout)
    assert form["out"] == str(out)
    assert form["privacy"]["epsilon"] <= 9


def test_auto_picks_a_recipe_and_says_why(trained, run):
    folder, base = trained
    done = run(*base, folder / "a", "--recipe", "auto", "--json")
    assert json.loads(done.stdout)["recipe"] == "privboost"
    assert done.stderr.startswith("privboost: --recipe privboost: ")
    done = run(*base, folder / "b", "--recipe", "auto", "--stream", folder / "s", "--json")
    assert json.loads(done.stdout)["recipe"] == "sbdt"
    said = run("recommend", folder / "d.json", "--readable").stdout
    assert said.startswith("PrivBoostClassifier(")
    form = json.loads(run("recommend", folder / "d.json", "--streams", "--json").stdout)
    assert form["estimator"] == "SBDTClassifier"
    whole = ("train", folder / "t.csv", "--target", "income", "--epsilon", 1)
    refused = run(*whole, "--model", folder / "c", "--recipe", "auto", code=2)
    assert "--recipe auto needs --domain" in refused.stderr


def test_a_dry_run_tells_the_price_and_pays_nothing(trained, run):
    folder, base = trained
    before = {path: path.read_bytes() for path in folder.iterdir()}
    said = run(*base, folder / "n", "--dry-run").stdout
    assert "1 × reserve for all questions, divided once rows are counted" in said
    assert said.startswith("Nothing was spent, and no row was read")
    assert "(1, 1e-06)-differential privacy" in said
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    about = ("--budget", folder / "s.db", "--dataset", "people")
    limits = ("--limit-epsilon", 3, "--limit-delta", 1e-5)
    refused = run(*base, folder / "n", "--dry-run", *about, *limits, code=2)
    assert "opens no account" in refused.stderr
    assert not (folder / "s.db").exists()
    run("budget", "open", *about[1::2], *limits)
    form = json.loads(run(*base, folder / "n", "--dry-run", "--json", *about).stdout)
    assert form["before"]["runs"] == []
    assert 0 < form["after"]["spent"]["epsilon"] < form["privacy"]["epsilon"] <= 1  # of more delta
    assert json.loads(run("budget", "show", about[1], "--json").stdout)[0]["runs"] == []
    votes = run(*base, folder / "n", "--dry-run", "--recipe", "lazybb", "--rows", 40).stdout
    assert "replace one" in votes


def test_a_dry_run_checks_what_a_run_would(trained, run, monkeypatch):
    folder, base = trained
    make_frame(40).drop(columns="age").to_csv(folder / "less.csv", index=False)
    make_frame(40).assign(age=[[1]] * 40).to_parquet(folder / "lists.parquet")
    (folder / "letter").write_text("Dear all")

    def tried(data, *more, code):
        line = (*base[:1], folder / data, *base[2:], folder / "n", *more)
        said = [run(*line, *dry, code=code).stderr for dry in (("--dry-run",), ())]
        assert said[0] == said[1]
        return said[0]

    assert "no column 'age'" in tried("less.csv", code=Status.table)
    assert "age" in tried("lists.parquet", code=Status.table)
    weights = ("--weight-bound", 2, "--weights")
    make_frame(40).assign(words="a").to_parquet(folder / "words.parquet")
    assert "holds text" in tried("words.parquet", *weights, "words", code=Status.table)
    assert "no column 'heavy'" in tried("t.csv", *weights, "heavy", code=Status.table)
    assert "is no ledger" in tried("t.csv", "--ledger", folder / "letter", code=Status.usage)
    said = tried("t.csv", "--ledger", folder / "none" / "l", code=Status.file)
    assert said == f"privboost: ledger: no such folder: {folder / 'none'}\n"
    real = os.access  # who runs as root may write anywhere
    monkeypatch.setattr(os, "access", lambda path, how: path != folder and real(path, how))
    assert "cannot be written" in tried("t.csv", "--ledger", folder / "l", code=Status.file)
    assert not (folder / "l").exists()


def test_who_waits_for_a_store_says_so(tmp_path, run, monkeypatch):
    store = tmp_path / "s.db"
    limits = ("--limit-epsilon", 3, "--limit-delta", 1e-6)
    run("budget", "open", store, "people", *limits)
    held = sqlite3.connect(store, isolation_level=None)
    held.execute("BEGIN EXCLUSIVE")

    def heard(text):
        send_message(text)
        held.execute("COMMIT")

    monkeypatch.setattr(database, "_SOON", 0.1)
    monkeypatch.setattr(database, "send_message", heard)
    done = run("budget", "close", store, "people", "--yes")
    assert done.stderr == f"privboost: waiting for {store}: another process is writing\n"
    assert "closed" in done.stdout


def test_who_is_protected_is_said(trained, run):
    folder, base = trained
    assert "protects one row: " in run(*base, folder / "a").stdout
    make_domain(unit={"column": "person", "max_rows": 2}).to_json(folder / "d.json")
    assert "protects" not in run(*base, folder / "b").stdout


def test_what_was_paid_for_is_kept_elsewhere(trained, run, tmp_path, monkeypatch):
    folder, base = trained
    spare = tmp_path / "spare"
    spare.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(spare))
    real, full = os.fsync, [folder / "n"]

    def sync(descriptor):
        if os.readlink(f"/proc/self/fd/{descriptor}").startswith(f"{folder}/.privboost"):
            raise OSError(28, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    refused = run(*base, full[0], code=Status.file)
    (kept,) = spare.glob("privboost-*/n")
    assert refused.stderr == (
        f"privboost: {full[0]}: No space left on device; what was paid for is in {kept}: move it\n"
    )
    assert not full[0].exists()
    assert load_model(kept).privacy.epsilon <= 1
    assert kept.parent.stat().st_mode & 0o777 == 0o700
    both = ("--recipe", "sbdt", "--set", "n_estimators=2", "--stream", folder / "s")
    said = run(*base, folder / "o", *both, code=Status.file).stderr
    for name in ("s", "o"):  # the one is not lost, or left unsaid, with the other
        (own,) = spare.glob(f"privboost-*/{name}")
        assert f"what was paid for is in {own}: move it" in said
    monkeypatch.setattr("privboost.cli.output.mkdtemp", lambda prefix: str(tmp_path / "no"))
    with pytest.raises(OSError, match="what it cost is spent"):
        save_paid(load_model(kept).save, full[0])


@pytest.mark.parametrize(("what", "place"), [("evaluate", "full"), ("learn", "nobody")])
def test_what_was_paid_for_and_cannot_be_printed_is_kept(trained, tmp_path, what, place):
    folder, _ = trained
    spare = tmp_path / "spare"
    spare.mkdir()
    rows = folder / "many.parquet"
    make_frame(3000).to_parquet(rows)
    asked = {
        "evaluate": ("evaluate", folder / "m", rows),
        "learn": ("domain", "learn", rows, "--target", "income"),
    }[what]
    reader, out = os.pipe() if place == "nobody" else (None, os.open("/dev/full", os.O_WRONLY))
    if reader is not None:
        os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "privboost", *map(str, asked), "--epsilon", "9"],
        stdout=out,
        stderr=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(spare)},
        text=True,
        check=False,
        timeout=300,
    )
    os.close(out)
    (kept,) = spare.glob("privboost-*/*")
    said = done.stderr.splitlines()[-1]
    assert (done.returncode, said.split("; ")[1]) == (3, f"what was paid for is in {kept}: move it")
    assert kept.stat().st_size > 100


def test_a_model_that_is_written_is_done_whoever_reads(trained):
    folder, base = trained
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "privboost", *map(str, base), str(folder / "n")],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=300,
        )
    assert done.returncode == 0
    assert done.stderr.startswith(f"privboost: {folder / 'n'} is written")
    assert load_model(folder / "n").privacy.epsilon <= 1


def test_a_stream_that_cannot_be_written_keeps_its_model(trained, run, tmp_path, monkeypatch):
    folder, base = trained
    spare, state, save = tmp_path / "spare", folder / "s", streaming.save_stream
    spare.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(spare))
    run(*base, folder / "k", "--recipe", "sbdt", "--stream", state)

    def refuse(stream, model, path):
        if path == state:
            raise OSError(28, "No space left on device")
        return save(stream, model, path)

    monkeypatch.setattr(streaming, "save_stream", refuse)
    late = ("extend", state, folder / "t.csv", "--epsilon", 1, "--model", folder / "l")
    said = run(*late, code=Status.file).stderr
    (kept,) = spare.glob("privboost-*/s")
    assert f"what was paid for is in {kept}: move it" in said
    assert load_model(folder / "l").scores.n_trees == 4
    begun = (*base, folder / "j", "--recipe", "sbdt", "--stream", state, "--force")
    assert "begin the stream under another name" in run(*begun, code=Status.file).stderr
    assert not (folder / "j").exists()  # nor was anything spent
    (folder / "s.taken").unlink()
    run(*begun, code=Status.file)
    assert load_model(folder / "j").scores.n_trees == 2


def at_a_terminal(*arguments, lines=b"", interrupt_at=None):
    """Run a command whose errors go to a terminal; return its status, output and what it showed."""
    ours, theirs = pty.openpty()
    with TemporaryFile() as output:  # nobody reads it while the terminal is looked at
        process = subprocess.Popen(
            [sys.executable, "-m", "privboost", *map(str, arguments)],
            stdin=theirs,
            stdout=output,
            stderr=theirs,
            env=os.environ | {"COLUMNS": "120", "TERM": "xterm"},
        )
        os.close(theirs)
        os.write(ours, lines)
        shown = b""
        with suppress(OSError):  # closed at the other end
            while got := os.read(ours, 4096):
                shown += got
                if interrupt_at is not None and interrupt_at in shown:
                    process.send_signal(signal.SIGINT)
                    interrupt_at = None
        os.close(ours)
        code = process.wait(300)
        output.seek(0)
        return code, output.read().decode(), shown.decode()


def test_progress_at_a_terminal_counts_rounds_and_bytes(trained):
    folder, base = trained
    code, out, shown = at_a_terminal(*[word for word in base if word != "--quiet"], folder / "n")
    assert code == 0
    assert "calibrating the noise" in shown
    assert "reading" in shown
    assert "2/2" in shown
    assert "differential privacy" in out
    make_frame(20_000).to_csv(folder / "new.csv", index=False)
    code, out, shown = at_a_terminal("predict", folder / "n", folder / "new.csv")
    assert code == 0
    assert "reading" in shown
    assert "MB" in shown or "kB" in shown
    for word in ("/s", "eta", "0:00"):
        assert word not in shown
    quiet = at_a_terminal("predict", folder / "n", folder / "new.csv", "--quiet")
    assert quiet == (0, out, "")


def test_a_second_pass_over_a_file_shows_no_more(tmp_path):
    make_frame(1000).to_csv(tmp_path / "t.csv.gz", index=False)
    make_frame(1000).to_parquet(tmp_path / "t.parquet")
    for name in ("t.csv.gz", "t.parquet"):
        table = open_file(tmp_path / name)
        told = []
        table.watch = told.append
        rows = sum(len(batch["age"]) for batch in table.batches(["age"], 100))
        assert rows == 1000
        assert sum(told) == pytest.approx(table.n_bytes, abs=10)
        assert table.n_bytes == (tmp_path / name).stat().st_size
    with reading(verbose=False, table=table), waiting(verbose=False, what="nothing"):
        pass
    assert table.watch is not None  # nobody looked: it was left alone


def test_an_interruption_before_the_reservation_costs_nothing(trained, run, monkeypatch):
    folder, base = trained

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("privboost.estimators.base.open_table", stop)
    said = run(*base, folder / "n", code=Status.interrupted).stderr
    assert said == "privboost: interrupted before anything was reserved: nothing is spent\n"


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_who_interrupts_the_saving_loses_nothing(trained, run, monkeypatch, sent):
    """Each file that is flushed is one more interruption."""
    folder, base = trained
    state, real, flushed = folder / "s", os.fsync, []

    def sync(descriptor):
        if os.readlink(f"/proc/self/fd/{descriptor}").startswith(f"{folder}/.privboost"):
            flushed.append(descriptor)
            os.kill(os.getpid(), sent)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    begin = (*base, folder / "a", "--recipe", "sbdt", "--stream", state)
    extend = ("extend", state, folder / "t.csv", "--epsilon", 1, "--model", folder / "b", "--quiet")
    learn = ("domain", "learn", folder / "many.parquet", "--target", "income", "--epsilon", 9)
    make_frame(3000).to_parquet(folder / "many.parquet")
    for line in (begin, extend, (*learn, "--out", folder / "c.json", "--quiet")):
        said = run(*line, code=Status.interrupted).stderr
        assert said == "privboost: interrupted; what was paid for is written all the same\n"
    assert len(flushed) == 5
    assert load_model(folder / "b").scores.n_trees == 4
    assert Domain.from_json(folder / "c.json").privacy.epsilon <= 9
    assert not (folder / "s.taken").exists()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_who_interrupts_the_printing_finds_it_elsewhere(trained, run, tmp_path, monkeypatch):
    folder, _ = trained
    spare = tmp_path / "spare"
    spare.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(spare))

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("privboost.cli.output.print", stop, raising=False)
    monkeypatch.setattr("privboost.cli.output.discard_output", lambda: None)
    line = ("evaluate", folder / "m", folder / "t.csv", "--epsilon", 1)
    said = run(*line, code=Status.interrupted).stderr
    (kept,) = spare.glob("privboost-*/evaluation.txt")
    assert f"interrupted; what was paid for is in {kept}: move it" in said
    assert "accuracy" in kept.read_text()


def test_labels_that_match_nothing_are_said_after_training(trained, run):
    folder, base = trained
    form = json.loads((folder / "d.json").read_text())
    form["target"]["classes"] = ["HIGH", "LOW"]
    (folder / "d.json").write_text(json.dumps(form))
    many = (*base[:1], folder / "many.csv", *base[2:])
    make_frame(3000).to_csv(folder / "many.csv", index=False)
    same = ("--seed", 3)
    assert "written as in the table" in run(*many, folder / "n", *same).stdout
    found = json.loads(run(*many, folder / "o", *same, "--json").stdout)["findings"]
    assert any("written as in the table" in text for text in found)


def test_an_interruption_at_a_terminal(trained):
    folder, base = trained
    words = [*(word for word in base if word != "--quiet"), folder / "n"]
    words += ["--set", "n_estimators=200000"]
    code, out, shown = at_a_terminal(*words, interrupt_at=b"/200000")
    assert (code, out) == (Status.interrupted, "")
    assert "privboost: interrupted; epsilon 1 and delta 1e-06 count as spent" in shown
    assert "Traceback" not in shown


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_of_a_free_command(trained, run, monkeypatch, sent):
    """The signal comes with the first rows, when a file of another name is there already."""
    folder, _ = trained
    write, seen = prediction._csv, []

    def interrupted(table, *how, **more):
        if table.num_rows:
            seen.extend(folder.glob(".privboost-*"))
            os.kill(os.getpid(), sent)
        return write(table, *how, **more)

    monkeypatch.setattr(prediction, "_csv", interrupted)
    out = ("--out", folder / "p.csv")
    done = run("predict", folder / "m", folder / "t.csv", *out, code=Status.interrupted)
    assert (done.stdout, done.stderr) == ("", "privboost: interrupted\n")
    assert len(seen) == 1
    assert not (folder / "p.csv").exists()
    assert not list(folder.glob(".privboost-*"))


def test_a_batch_that_dies_after_its_reservation_leaves_no_state(trained, run, monkeypatch):
    """Put back, the state would be gone on from again, and its report would name one batch."""
    folder, base = trained
    state, ledger = folder / "s", folder / "ledger"
    run(*base, folder / "k", "--recipe", "sbdt", "--stream", state)
    late = ("extend", state, folder / "t.csv", "--epsilon", 1, "--model", folder / "l")
    late = (*late, "--quiet", "--ledger", ledger)
    refused = (*late, "--set", "gradient_clip=0.9")
    assert "must equal those of the first batch" in run(*refused, code=Status.usage).stderr
    assert state.exists()

    def stop(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(streaming, "load_rows", stop)
        said = run(*late, code=Status.interrupted).stderr
    assert "epsilon 1 and delta 1e-06 count as spent" in said
    assert not state.exists()
    written = ledger.read_bytes()
    assert "the stream has ended" in run(*late, code=Status.file).stderr
    assert ledger.read_bytes() == written


def test_closing_an_account_asks(tmp_path, run):
    store = tmp_path / "s.db"
    limits = ("--limit-epsilon", 3, "--limit-delta", 1e-6)
    run("budget", "open", store, "people", *limits)
    code, out, shown = at_a_terminal("budget", "close", store, "people", lines=b"n\n")
    assert (code, out.strip()) == (Status.failed, "")
    assert "Close the account of 'people' for good?" in shown
    code, out, _ = at_a_terminal("budget", "close", store, "people", lines=b"y\n")
    assert code == 0
    assert "closed" in out


def test_numbers_are_written_to_the_last_bit(trained, run):
    folder, _ = trained
    frame = make_frame(50)
    frame.to_parquet(folder / "new.parquet")
    out = folder / "p.csv"
    run("predict", folder / "m", folder / "new.parquet", "--out", out)
    chances = load_model(folder / "m").predict_proba(frame)[:, 0]
    label = load_model(folder / "m").classes[0]
    written = pd.read_csv(out, float_precision="round_trip")[f"probability of {label}"]
    np.testing.assert_array_equal(written, chances)
