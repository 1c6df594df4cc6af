"""What text is let through to terminals and spreadsheets."""

import csv
import io
import sys
import warnings

import pandas as pd
import pyarrow as pa
import pytest

from privboost import Domain, DomainError
from privboost._core.checks import is_writable, printable
from privboost.cli.exits import notify
from privboost.cli.main import main
from privboost.cli.prediction import file_writer, output_writer
from privboost.federated.messages import printable as printable_message
from tests.export.models import made_model

BIDI = [
    chr(code) for code in (0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
]


@pytest.mark.parametrize("mark", BIDI, ids=ascii)
def test_marks_that_turn_the_direction_of_writing_are_not_printable(mark):
    name = f"a{mark}b"
    assert not is_writable(name)
    assert printable(f"{name}\nא") == "a?b\nא"
    assert printable_message(name) == "a?b"
    target = {"name": "y", "classes": ["no", name]}
    form = {"version": 1, "features": {"x": {"kind": "boolean"}}, "target": target}
    with pytest.raises(DomainError, match="control characters"):
        Domain.from_dict(form)


def test_what_commands_say_is_printable(capsys):
    notify("no such column: \x1b[31ma\u202eb")
    assert capsys.readouterr().err == "privboost: no such column: ?[31ma?b\n"


CELLS = [
    "=1+1",
    "+1+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(A1)",
    "\tx",
    "\r=x",
    "＝1",
    "-",
    "--1",
    "-1e",
]
PLAIN = [
    "a=1",
    "-1.5",
    "+7",
    "-1e-3",
    ".5",
    "-.5",
    "007",
    "",
    None,
    "<=50K",
    "'=x",
    "é",
    "1-2",
]


def table():
    texts, rows = [*CELLS, *PLAIN], len(CELLS) + len(PLAIN)
    columns = {
        "=name": pa.array(texts),
        "large": pa.array(texts, pa.large_string()),
        "words": pa.array(texts).dictionary_encode(),
        "-1.5": pa.array([-1.5] * rows),
        "whole": pa.array([-3] * rows),
    }
    return pa.table(columns)


def read(text):
    return list(csv.reader(io.StringIO(text, newline="")))


def test_csv_holds_nothing_that_a_spreadsheet_runs(tmp_path, capfdbinary):
    given = table()
    with file_writer(tmp_path / "t.csv", given.schema) as write:
        write(given)
    text = (tmp_path / "t.csv").read_bytes().decode()
    header, *rows = read(text)
    assert header == ["'=name", "large", "words", "-1.5", "whole"]
    escaped = [f"'{cell}" for cell in CELLS] + [cell or "" for cell in PLAIN]
    for place in range(3):
        assert [row[place] for row in rows] == escaped
    assert {tuple(row[3:]) for row in rows} == {("-1.5", "-3")}
    with output_writer(given.schema, as_json=False) as write:
        write(given)
    assert capfdbinary.readouterr().out.decode() == text


def test_bytes_and_texts_after_blanks_are_escaped_too(tmp_path):
    """Parquet files without a logical type hold bytes, which CSV writes as texts."""
    runs = [b"=1+1", b"\n=1+1", b" =1+1", b"\xef\xbb\xbf=1", b"\x00=1", b"\n", b"@a"]
    stays = [b"-12", b"a=1", b"\xff", None]
    cells = pa.array([*runs, *stays], pa.binary())
    given = pa.table({"bytes": cells, "coded": cells.dictionary_encode()})
    with file_writer(tmp_path / "t.csv", given.schema) as write:
        write(given)
    text = (tmp_path / "t.csv").read_bytes()
    for cell in runs:
        assert text.count(b"\"'" + cell + b'"') == 2, cell
    assert text.count(b"'") == 2 * len(runs)


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.jsonl"])
def test_texts_can_be_left_as_they_are(name, tmp_path):
    """Only CSV is escaped, and only if nobody asks for the texts as they are."""
    given = table()
    with file_writer(tmp_path / name, given.schema, raw_text=name == "t.csv") as write:
        write(given)
    if name == "t.csv":
        header, *rows = read((tmp_path / name).read_bytes().decode())
        found = pd.DataFrame(rows, columns=header)
    else:
        reader = (
            pd.read_parquet
            if name == "t.parquet"
            else lambda p: pd.read_json(p, lines=True, dtype=False)
        )
        found = reader(tmp_path / name)
    assert found["=name"].fillna("").tolist() == [cell or "" for cell in [*CELLS, *PLAIN]]


def test_predict_escapes_ids_and_classes_unless_told_not_to(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # main sets its own
    model = made_model({"x": {"kind": "boolean"}}, {"name": "y", "classes": ["@a", "@b"]})
    model.save(tmp_path / "m")
    (tmp_path / "t.csv").write_text("@id,x\n=A1,1\n-12,0\n+49 30,1\n")

    def run(*more):
        line = ["privboost", "predict", tmp_path / "m", tmp_path / "t.csv", "--keep", "@id", *more]
        monkeypatch.setattr(sys, "argv", [*map(str, line)])
        with pytest.raises(SystemExit):
            main()
        return read(capsys.readouterr().out)

    for mark, more in (("'", ()), ("", ("--raw-text",))):
        header, *rows = run(*more)
        assert header[:2] == [f"{mark}@id", "prediction"]
        assert [row[0] for row in rows] == [f"{mark}=A1", "-12", f"{mark}+49 30"]
        assert {row[1] for row in rows} <= {f"{mark}@a", f"{mark}@b"}
