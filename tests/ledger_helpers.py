"""Places for ledgers, in both stores, and ways to tamper with them that their own triggers would refuse."""

from __future__ import annotations

import os
import pwd
import shutil
import sqlite3
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from outspan.ledger import Ledger

GUARDS = ("outspan_ledger_no_update", "outspan_ledger_no_delete", "outspan_ledger_no_gap")


def fill(ledger: Ledger, count: int) -> None:
    """Decisions of a few hundred bytes."""
    for number in range(count):
        ledger.append(
            "decision",
            {"id": f"row {number}", "energy": number / 7, "text": "ä" * (number % 5)},
            key=f"k{number}",
        )


def tamper(ledger: Ledger, statement: str, *values: Any) -> None:
    """Change the stored rows as somebody with all rights on the database could."""
    if "://" not in ledger.name:
        with closing(sqlite3.connect(ledger.name)) as connection:
            for guard in GUARDS:
                connection.execute(f"DROP TRIGGER IF EXISTS {guard}")
            connection.execute(statement, values)
            connection.commit()
        return
    import psycopg

    with psycopg.connect(
        ledger.name.replace("postgresql+psycopg", "postgresql"), autocommit=True
    ) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute(statement.replace("?", "%s"), values)


def direct(ledger: Ledger, statement: str) -> None:
    """Run a statement as any client of the database could."""
    if "://" not in ledger.name:
        with closing(sqlite3.connect(ledger.name)) as connection:
            connection.execute(statement)
            connection.commit()
        return
    import psycopg

    with psycopg.connect(
        ledger.name.replace("postgresql+psycopg", "postgresql"), autocommit=True
    ) as connection:
        connection.execute(statement)


def in_child(work: Callable[[], None]) -> int:
    """Run ``work`` in a fork of this process; a new interpreter would cost a second. Returns its id."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # later Pythons warn of threads; the child uses none
        child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return child


def binaries() -> Path:
    """The folder of PostgreSQL's programs, installed from Debian's package if they are not here."""
    for attempt in range(2):
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        on_path = shutil.which("initdb")
        if found or on_path:
            return (found[-1] if found else Path(str(on_path)).resolve()).parent
        if attempt == 0 and shutil.which("apt-get") and os.getuid() == 0:
            environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            for command in (["apt-get", "update"], ["apt-get", "install", "-y", "postgresql"]):
                subprocess.run(command, env=environment, capture_output=True, check=False)
    pytest.skip("PostgreSQL is not here and cannot be installed: its ledger was not tested")


@contextmanager
def cluster() -> Iterator[str]:
    """A throw-away PostgreSQL on a Unix socket; yields the address of its databases without a name."""
    programs = binaries()
    folder = Path(tempfile.mkdtemp(prefix="outspan-pg-"))
    user: dict[str, Any] = {}
    if os.getuid() == 0:  # the server refuses to run as root
        account = pwd.getpwnam("postgres")
        os.chown(folder, account.pw_uid, account.pw_gid)
        user = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    name = "postgres"

    def run(*command: str) -> None:
        subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL, **user)

    data = folder / "data"
    options = f"-k {folder} -c listen_addresses='' -c fsync=off -c max_connections=50"
    try:
        run(str(programs / "initdb"), "-D", str(data), "-U", name, "-A", "trust", "-E", "UTF8", "--no-sync")
        run(
            str(programs / "pg_ctl"), "-D", str(data), "-w", "-l", str(folder / "log"), "-o", options, "start"
        )
        try:
            yield f"postgresql://{name}@/%s?host={folder}"
        finally:
            run(str(programs / "pg_ctl"), "-D", str(data), "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def new_database(address: str) -> str:
    """The address of a fresh database."""
    import psycopg

    name = f"t{time.time_ns()}"
    with psycopg.connect(address % "postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return address % name
