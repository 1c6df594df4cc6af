"""Databases to run exported queries in: DuckDB, SQLite, and a PostgreSQL server of our own."""

import contextlib
import csv
import io
import os
import pwd
import shutil
import sqlite3
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest


def in_duckdb(query, frame):
    duckdb = pytest.importorskip("duckdb")
    floats = {
        n: pa.array(frame[n].to_numpy(), from_pandas=False)
        for n in frame
        if frame[n].dtype.kind == "f"
    }
    texts = {n: pa.array(frame[n], pa.string()) for n in frame if n not in floats}
    with duckdb.connect() as connection:
        return in_order(connection, query, pa.table({n: (floats | texts)[n] for n in frame}))


def in_order(connection, query, table):
    """Run a query in DuckDB, which may return rows in any order; bring them into their own."""
    connection.execute("SET threads = 1")
    connection.register("given", table)
    connection.execute(
        "CREATE TEMP VIEW rows AS SELECT row_number() OVER () AS __place, * FROM given"
    )
    return connection.sql(query).df().sort_values("__place", ignore_index=True).iloc[:, 1:]


def in_sqlite(query, frame):
    connection = sqlite3.connect(":memory:")
    frame.to_sql("rows", connection, index=False)
    try:
        return pd.read_sql_query(query, connection)
    finally:
        connection.close()


class Postgres:
    """A server on a socket in a folder of its own, which no other user can enter; no port."""

    def __init__(self):
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        own = shutil.which("initdb")
        if not (found or own):
            pytest.skip("no PostgreSQL: initdb is not on this machine")
        self._programs = found[-1].parent if found else Path(own).resolve().parent
        self._user = self._unprivileged()
        self._folder = Path(tempfile.mkdtemp(prefix="pb", dir="/tmp"))  # sockets have short paths
        try:
            if self._user:
                os.chown(self._folder, self._user["user"], self._user["group"])
            data = self._folder / "data"
            self._run("initdb", "-D", data, "-U", "tests", "-A", "trust", "-E", "UTF8", "-N")
            where = f"-k {self._folder} -c listen_addresses='' -c fsync=off"
            self._run("pg_ctl", "-D", data, "-o", where, "-l", self._folder / "log", "-w", "start")
        except BaseException as error:
            shutil.rmtree(self._folder, ignore_errors=True)
            if isinstance(error, OSError | subprocess.CalledProcessError):
                pytest.skip(f"no PostgreSQL: its server does not start here ({error})")
            raise

    @staticmethod
    def _unprivileged():
        """Return who runs the server, where we are root, whom it refuses to serve."""
        if os.getuid():
            return {}
        for name in ("postgres", "nobody"):
            try:
                found = pwd.getpwnam(name)
            except KeyError:
                continue
            return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}
        pytest.skip("no PostgreSQL: this is root, and there is no other user to run its server")

    def _run(self, program, *arguments):
        subprocess.run(
            [self._programs / program, *arguments],
            check=True,
            cwd="/",
            env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=60,
            **self._user,
        )

    def stop(self):
        self._run("pg_ctl", "-D", self._folder / "data", "-m", "immediate", "-w", "stop")
        shutil.rmtree(self._folder)

    def execute(self, statements):
        """Run statements in a transaction of their own that leaves nothing; return the last."""
        done = subprocess.run(
            [
                *(self._programs / "psql", "-h", self._folder, "-U", "tests", "-d", "postgres"),
                *("-X", "-q", "--csv", "-P", "null=<NULL>", "-v", "ON_ERROR_STOP=1"),
            ],
            input=f"BEGIN;\nSET LOCAL client_min_messages = error;\n{statements};\nROLLBACK;\n",
            capture_output=True,
            encoding="utf-8",
            env={"PATH": os.environ["PATH"], "PGCLIENTENCODING": "UTF8"},
            timeout=60,
        )
        if done.returncode:
            raise RuntimeError(done.stderr)
        header, *lines = csv.reader(io.StringIO(done.stdout, newline=""))
        return pd.DataFrame(
            [[None if cell == "<NULL>" else cell for cell in line] for line in lines],
            columns=header,
        )

    def __call__(self, query, frame, kinds=None):
        """Run a query on rows, which come back in their order."""
        kinds = {n: "double precision" if frame[n].dtype.kind == "f" else "text" for n in frame} | (
            kinds or {}
        )
        declared = "".join(f', "{n.replace(chr(34), 2 * chr(34))}" {kinds[n]}' for n in frame)
        lines = [
            f"({place}{''.join(f', {_literal(value)}' for value in row)})"
            for place, row in enumerate(_rows(frame))
        ]
        filled = f"INSERT INTO rows VALUES {', '.join(lines)};" if lines else ""
        made = f"CREATE TABLE rows (__place int{declared}); {filled}"
        found = self.execute(f"{made}\n{query}")
        order = np.argsort(found["__place"].astype(int).to_numpy(), kind="stable")
        return _read(found.iloc[order, 1:].reset_index(drop=True))


def _rows(frame):
    """Return rows with None for what is missing; NaN is a number."""
    columns = [
        frame[n]
        if frame[n].dtype.kind == "f"
        else frame[n].astype(object).where(frame[n].notna(), None)
        for n in frame
    ]
    return zip(*columns, strict=True)


def _literal(value):
    if value is None:
        return "NULL"
    return "'" + str(value).replace("'", "''") + "'"


def _read(frame):
    """Return columns as numbers or truths, where all their texts are."""
    columns = []
    for place in range(frame.shape[1]):
        column = frame.iloc[:, place]
        if len(column) and set(column) <= {"t", "f"}:
            column = column == "t"
        else:
            with contextlib.suppress(ValueError):
                column = column.astype(float)
        columns.append(column)
    return pd.concat(columns, axis=1)
