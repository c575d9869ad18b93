"""The store: one table, one short transaction a record, in SQLite or PostgreSQL through the same code."""

from __future__ import annotations

import os
import time
import uuid
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sqlalchemy import (
    URL,
    BigInteger,
    Column,
    Connection,
    Engine,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    cast,
    create_engine,
    event,
    insert,
    inspect,
    make_url,
    select,
)
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError

from outspan import __version__
from outspan.errors import InputError, NotInstalled
from outspan.ledger.chain import (
    FORMAT,
    GENESIS,
    Artefact,
    Entry,
    Head,
    Stored,
    Verification,
    Walk,
    make_entry,
    now,
)

BUSY_SECONDS = 60.0
"""How long a writer waits for its turn before it gives up."""
_PAGE = 500
_SCHEMA_LOCK = 7_215_604_301_118_245  # any number that no other program takes; two creators would collide

METADATA = MetaData()
LEDGER = Table(
    "outspan_ledger",
    METADATA,
    Column("seq", BigInteger().with_variant(Integer(), "sqlite"), primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("key", Text),
    Column("digest", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Index("outspan_ledger_key", "key", "kind"),
)

_APPEND_ONLY = "the ledger is append-only"
_SQLITE_GUARDS = (
    f"CREATE TRIGGER IF NOT EXISTS outspan_ledger_no_update BEFORE UPDATE ON outspan_ledger "
    f"BEGIN SELECT RAISE(ABORT, '{_APPEND_ONLY}'); END",
    f"CREATE TRIGGER IF NOT EXISTS outspan_ledger_no_delete BEFORE DELETE ON outspan_ledger "
    f"BEGIN SELECT RAISE(ABORT, '{_APPEND_ONLY}'); END",
    "CREATE TRIGGER IF NOT EXISTS outspan_ledger_no_gap BEFORE INSERT ON outspan_ledger "
    "WHEN NEW.seq IS NOT (SELECT COALESCE(MAX(seq), 0) + 1 FROM outspan_ledger) "
    f"BEGIN SELECT RAISE(ABORT, '{_APPEND_ONLY}: a row goes behind the last'); END",
)
_POSTGRES_GUARDS = (
    "CREATE OR REPLACE FUNCTION outspan_ledger_refuse() RETURNS trigger LANGUAGE plpgsql AS "
    f"$$ BEGIN RAISE EXCEPTION '{_APPEND_ONLY}'; END $$",
    "CREATE OR REPLACE FUNCTION outspan_ledger_next() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN IF NEW.seq IS DISTINCT FROM (SELECT COALESCE(MAX(seq), 0) + 1 FROM outspan_ledger) THEN "
    f"RAISE EXCEPTION '{_APPEND_ONLY}: a row goes behind the last'; END IF; RETURN NEW; END $$",
    "CREATE OR REPLACE TRIGGER outspan_ledger_no_change BEFORE UPDATE OR DELETE ON outspan_ledger "
    "FOR EACH ROW EXECUTE FUNCTION outspan_ledger_refuse()",
    "CREATE OR REPLACE TRIGGER outspan_ledger_no_truncate BEFORE TRUNCATE ON outspan_ledger "
    "FOR EACH STATEMENT EXECUTE FUNCTION outspan_ledger_refuse()",
    "CREATE OR REPLACE TRIGGER outspan_ledger_no_gap BEFORE INSERT ON outspan_ledger "
    "FOR EACH ROW EXECUTE FUNCTION outspan_ledger_next()",
)
_GUARD_COUNT = 3


class Ledger:
    """A ledger in a file, or in PostgreSQL.

    Parameters
    ----------
    place : a path, for SQLite with no set-up; or a URL such as ``postgresql://user@host/database``.
    create : make it if it is not there; without, a missing ledger is an error.

    May be shared by threads, and be opened by many processes at once: writers take turns.

    Raises
    ------
    InputError
        For a place that holds no ledger, or cannot be reached.
    NotInstalled
        For PostgreSQL without its driver.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> ledger = Ledger(pathlib.Path(tempfile.mkdtemp()) / "ledger.db")
    >>> entry = ledger.append("decision", {"energy": 0.1 + 0.2})
    >>> ledger.verify().ok
    True
    """

    def __init__(self, place: Path | str, *, create: bool = True) -> None:
        url = _url(place)
        self.name = url.database or "" if _is_sqlite(url) else url.render_as_string(hide_password=True)
        self._sqlite = _is_sqlite(url)
        if self._sqlite and not create and not Path(self.name).is_file():
            raise InputError("there is no such ledger", path=self.name, remedy="Check the name")
        self._url = url
        self._engine = self._open(url)
        self._inherited: list[Engine] = []
        self._pid = os.getpid()
        self._held: set[str] = set()
        with self._told():
            if create:
                self._create()
            elif not inspect(self._engine).has_table(LEDGER.name):
                raise InputError("is not a ledger of outspan", path=self.name, remedy="Check the name")

    def close(self) -> None:
        """Give the connections back; the ledger can still be used and will open new ones."""
        self._engine.dispose()

    def append(
        self,
        kind: str,
        content: Mapping[str, object],
        *,
        key: str | None = None,
        artefacts: Sequence[Artefact] = (),
        moment: str | None = None,
    ) -> Entry:
        """Append one entry; when this returns, the entry is on disk.

        Parameters
        ----------
        kind : ``decision`` or ``amendment``.
        content : any JSON object.
        key : what to find the entry by.
        artefacts : what the entry names by digest; those not yet stored are appended before it, in the same
            transaction.
        moment : the time to record; now, by default.

        Raises
        ------
        ValueError
            For content that JSON does not have, such as NaN: nothing is written.
        InputError
            If the store cannot be written: nothing is written then.
        """
        named = [
            (artefact.digest, artefact) for artefact in artefacts
        ]  # before the others have to wait for us
        with self._told(), self._writing() as connection:
            tip = self._tip(connection)
            if tip.count == 0:
                opened = {"ledger": str(uuid.uuid4()), "format": FORMAT, "outspan": __version__}
                tip = _add(connection, make_entry(tip, "opened", opened, key=None, moment=moment or now()))
            for digest, artefact in named:
                if digest not in self._held and not _is_stored(connection, digest):
                    value = {"name": artefact.name, "value": artefact.value}
                    made = make_entry(tip, "artefact", value, key=digest, moment=moment or now())
                    tip = _add(connection, made)
            entry = make_entry(tip, kind, content, key=key, moment=moment or now())
            _add(connection, entry)
        # Only now: had the transaction failed, they would not be there.
        self._held.update(digest for digest, _ in named)
        return entry

    def head(self) -> Head:
        """Where the ledger ends; keep it elsewhere to notice a tail that was cut off."""
        with self._told(), self._reading() as connection:
            return self._tip(connection)

    def entries(self, *, kind: str | None = None, after: int = 0) -> Iterator[Entry]:
        """Entries in order, read a page at a time, so that writers are never held up by a reader."""
        while True:
            query = select(LEDGER).where(LEDGER.c.seq > after).order_by(LEDGER.c.seq).limit(_PAGE)
            if kind is not None:
                query = query.where(LEDGER.c.kind == kind)
            with self._told(), self._reading() as connection:
                page = [_entry(row) for row in connection.execute(query)]
            if not page:
                return
            yield from page
            after = page[-1].seq

    def get(self, seq: int) -> Entry | None:
        """The entry at a place, or None."""
        with self._told(), self._reading() as connection:
            row = connection.execute(select(LEDGER).where(LEDGER.c.seq == seq)).first()
        return None if row is None else _entry(row)

    def find(self, key: str, *, kind: str | None = None) -> list[Entry]:
        """Every entry with the key, in order."""
        query = select(LEDGER).where(LEDGER.c.key == key).order_by(LEDGER.c.seq)
        if kind is not None:
            query = query.where(LEDGER.c.kind == kind)
        with self._told(), self._reading() as connection:
            return [_entry(row) for row in connection.execute(query)]

    def artefact(self, digest: str) -> dict[str, Any] | None:
        """The value of a stored artefact, or None."""
        found = self.find(digest, kind="artefact")
        if not found:
            return None
        value: dict[str, Any] = found[0].content["value"]
        return value

    def verify(self, head: Head | None = None) -> Verification:
        """Walk the whole ledger and recompute every digest.

        Parameters
        ----------
        head : kept elsewhere; without it, rows cut off at the end cannot be seen.
        """
        walk = Walk(head)
        notes: list[str] = []
        try:
            with self._reading() as connection:
                walk.rows(self._stored(connection))
                guards = self._guards(connection)
                if guards < _GUARD_COUNT:
                    notes.append("triggers that keep rows from being changed are missing from the database")
                for trouble in self._integrity(connection):
                    walk.note(None, "database", f"the database file is damaged: {trouble}")
        except DBAPIError as error:
            walk.note(None, "database", f"the database cannot be read on: {error.orig}")
        return walk.result(notes)

    def _stored(self, connection: Connection) -> Iterator[Stored]:
        columns = [LEDGER.c.kind, LEDGER.c.key, LEDGER.c.digest]
        if self._sqlite:
            # As bytes, since a damaged file may hold what is no text; and the place as it lies in the table.
            columns = [cast(column, LargeBinary) for column in columns]  # type: ignore[misc]
        query = select(LEDGER.c.seq, *columns, LEDGER.c.body).order_by(LEDGER.c.seq)
        streamed = connection.execution_options(yield_per=_PAGE).execute(query)
        for row in streamed:
            yield Stored(row[0], row[1], row[2], row[3], row[4])

    def _guards(self, connection: Connection) -> int:
        if self._sqlite:
            text = "SELECT count(*) FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'outspan_ledger'"
        else:
            text = (
                "SELECT count(*) FROM pg_trigger WHERE tgrelid = 'outspan_ledger'::regclass "
                "AND NOT tgisinternal AND tgenabled <> 'D'"
            )
        return int(connection.exec_driver_sql(text).scalar_one())

    def _integrity(self, connection: Connection) -> list[str]:
        if not self._sqlite:
            return []
        found = connection.exec_driver_sql("PRAGMA integrity_check(5)").scalars().all()
        return [str(line) for line in found if line != "ok"]

    def _tip(self, connection: Connection) -> Head:
        query = select(LEDGER.c.seq, LEDGER.c.digest).order_by(LEDGER.c.seq.desc()).limit(1)
        row = connection.execute(query).first()
        return Head(count=0, digest=GENESIS) if row is None else Head(count=row.seq, digest=row.digest)

    def _create(self) -> None:
        if self._sqlite:
            others = inspect(self._engine).get_table_names()
            if others and LEDGER.name not in others:
                raise InputError(
                    "is a database of something else", path=self.name, remedy="Name a file of its own"
                )
            self._use_wal()
        with self._writing(lock=False) as connection:
            if not self._sqlite:
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_SCHEMA_LOCK})")
            METADATA.create_all(connection)
            for statement in _SQLITE_GUARDS if self._sqlite else _POSTGRES_GUARDS:
                connection.exec_driver_sql(statement)

    def _use_wal(self) -> None:
        """Let readers and a writer work at once; several creators may ask for it at the same moment."""
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            with self._engine.connect().execution_options(outspan_plain=True) as connection:
                try:
                    if connection.exec_driver_sql("PRAGMA journal_mode=WAL").scalar_one() == "wal":
                        return
                except OperationalError as error:
                    # The switch does not wait for its turn as other statements do.
                    if "locked" not in str(error.orig) or time.monotonic() > deadline:
                        raise
            if time.monotonic() > deadline:
                raise InputError("cannot be switched to WAL mode", path=self.name, remedy="Use a local disk")
            time.sleep(0.01)

    @contextmanager
    def _writing(self, *, lock: bool = True) -> Iterator[Connection]:
        """A transaction that holds the only right to write from its first statement on."""
        self._own()
        with self._engine.connect().execution_options(outspan_writes=True) as connection, connection.begin():
            if lock and not self._sqlite:
                # Readers go on; a second writer waits here, and then sees our row.
                connection.exec_driver_sql("LOCK TABLE outspan_ledger IN SHARE ROW EXCLUSIVE MODE")
            yield connection

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        self._own()
        with self._engine.connect() as connection:
            yield connection

    def _open(self, url: URL) -> Engine:
        """An engine whose connections are closed with the ledger, by the process that opened them."""
        engine = _engine(url)
        weakref.finalize(self, _dispose, engine, os.getpid())
        return engine

    def _own(self) -> None:
        """After a fork, leave the parent's connections to the parent."""
        if os.getpid() != self._pid:
            # Kept, not closed: closing the parent's connection would speak to the database on its behalf.
            self._inherited.append(self._engine)
            self._engine = self._open(self._url)
            self._pid = os.getpid()

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Errors of the database, in the words of this package."""
        try:
            yield
        except DBAPIError as error:
            raise InputError(
                f"the ledger cannot be used: {str(error.orig).strip()}",
                path=self.name,
                remedy="Check the place, the permissions, the free space, and whether it is a ledger",
            ) from error
        except SQLAlchemyError as error:
            raise InputError(f"the ledger cannot be used: {error}", path=self.name) from error


def _dispose(engine: Engine, pid: int) -> None:
    if os.getpid() == pid:
        engine.dispose()


def _url(place: Path | str) -> URL:
    if isinstance(place, str) and "://" in place:
        try:
            url = make_url(place)
        except SQLAlchemyError as error:
            raise InputError(f"{place.split('@')[-1]} is no address of a ledger") from error
        if _is_sqlite(url):
            return url
        if url.get_backend_name() != "postgresql":
            raise InputError(
                f"a ledger cannot live in {url.get_backend_name()}", remedy="Give a path, or postgresql://…"
            )
        if find_spec("psycopg") is None:
            raise NotInstalled("psycopg", "postgres", "A ledger in PostgreSQL")
        return url.set(drivername="postgresql+psycopg")
    return URL.create("sqlite", database=str(place))


def _is_sqlite(url: URL) -> bool:
    return url.get_backend_name() == "sqlite"


def _engine(url: URL) -> Engine:
    if not _is_sqlite(url):
        return create_engine(url, pool_pre_ping=True)
    engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS})

    @event.listens_for(engine, "connect")
    def _on_connect(connection: Any, _record: object) -> None:
        # The driver would open transactions late and of its own accord; ours begin where we say.
        connection.isolation_level = None
        connection.execute("PRAGMA synchronous=FULL")  # an acknowledged row survives a loss of power

    @event.listens_for(engine, "begin")
    def _on_begin(connection: Connection) -> None:
        options = connection.get_execution_options()
        if not options.get("outspan_plain"):  # the journal mode is set outside a transaction
            connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get("outspan_writes") else "BEGIN")

    return engine


def _add(connection: Connection, entry: Entry) -> Head:
    connection.execute(
        insert(LEDGER).values(
            seq=entry.seq, kind=entry.kind, key=entry.key, digest=entry.digest, body=entry.body
        )
    )
    return Head(count=entry.seq, digest=entry.digest)


def _is_stored(connection: Connection, digest: str) -> bool:
    query = select(LEDGER.c.seq).where(LEDGER.c.key == digest, LEDGER.c.kind == "artefact").limit(1)
    return connection.execute(query).first() is not None


def _entry(row: Any) -> Entry:
    return Entry(seq=row.seq, kind=row.kind, key=row.key, digest=row.digest, body=bytes(row.body))
