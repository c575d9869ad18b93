"""Where a run writes, and how it goes on after it was killed; see ``docs/decisions/0010-resumable-runs.md``.

Rows go to ``OUT.partial`` and bad rows to ``OUT.errors.partial``. After each batch both are forced to disk,
and then ``OUT.progress.json`` is replaced in one step: it says how much of the input is done and how long the
two files were at that point. What a killed run wrote behind that point is cut off before the next goes on.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Protocol, Self

from filelock import FileLock, Timeout

from outspan.errors import InputError, ResumeError
from outspan.files import STANDARD_INPUT
from outspan.measurement import Regime

STANDARD_OUTPUT = "-"
JSON_LINES = (".jsonl", ".ndjson")
PARQUET = ".parquet"

_FORMAT = 1
_NO_BYTES = f"sha256:{sha256().hexdigest()}"
_FULL = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file may not grow further",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What a run has done since its first row, over all its sessions."""

    rows: int = 0
    """Rows written."""
    bad_rows: int = 0
    """Lines that are no usable row."""
    row_states: Mapping[str, int] = field(default_factory=dict)
    """State to count of rows."""
    sentences: int = 0
    """N, sentences of the claims of all rows."""
    measured: int = 0
    """n of N that carry an energy."""
    sentence_states: Mapping[str, int] = field(default_factory=dict)
    """State to count of sentences."""

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            rows=self.rows + other.rows,
            bad_rows=self.bad_rows + other.bad_rows,
            row_states=_sum(self.row_states, other.row_states),
            sentences=self.sentences + other.sentences,
            measured=self.measured + other.measured,
            sentence_states=_sum(self.sentence_states, other.sentence_states),
        )


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in sorted({*one, *other})}


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """How far a run has come."""

    lines: int = 0
    """Lines of the input that are done, blank ones included."""
    input_bytes: int = 0
    """Bytes of the input that are done."""
    input_digest: str = _NO_BYTES
    """Digest of those bytes, by which a changed input is noticed."""
    complete: bool = False
    """Whether that was all of it; what is left is to give the files their names."""
    counts: Counts = field(default_factory=Counts)


class Destination(Protocol):
    """Where rows go."""

    def begin(self) -> Checkpoint:
        """Where to start."""
        ...

    def commit(self, rows: bytes, errors: bytes, reached: Checkpoint) -> None:
        """Keep a batch; after it returns, the batch is never measured again."""
        ...

    def publish(self) -> None:
        """The run is complete: give the result its name."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The files of a run, all in the folder of its output."""

    out: Path

    @classmethod
    def of(cls, out: Path | str) -> Names:
        """The names for an output; a symbolic link is followed, so that it stays one."""
        path = Path(out)
        return cls(out=path.resolve() if path.is_symlink() else path)

    @property
    def errors(self) -> Path:
        """The bad rows, once the run is complete: ``OUT.errors.jsonl`` for ``OUT.jsonl``."""
        return self.out.with_name(f"{self.out.stem}.errors.jsonl")

    @property
    def regime(self) -> Path:
        """What the rows were measured with, part by part: a fingerprint alone cannot say what differs."""
        return self._with(".regime.json")

    @property
    def partial(self) -> Path:
        """The rows while the run goes on, as JSON Lines whatever the output's format."""
        return self._with(".partial")

    @property
    def errors_partial(self) -> Path:
        """The bad rows while the run goes on."""
        return self._with(".errors.partial")

    @property
    def journal(self) -> Path:
        """How far the run has come; its presence means that the run is not complete."""
        return self._with(".progress.json")

    @property
    def lock(self) -> Path:
        """Held by the process that writes."""
        return self._with(".lock")

    def all(self) -> tuple[Path, ...]:
        """Every file that a run may write."""
        result = (self.out, self.errors, self.regime)
        return (*result, self.partial, self.errors_partial, self.journal, self.lock)

    def _with(self, ending: str) -> Path:
        return self.out.with_name(self.out.name + ending)


def check_output(source: Path | str, out: Path | str, *, overwrite: bool = False) -> None:
    """Refuse an output that could not be written in the end, before any work is done for it.

    Raises
    ------
    InputError
        If the output is a folder or no regular file, its folder is missing or closed, its ending names no
        known format, it is the input, or it exists already and ``overwrite`` is false.
    """
    if str(out) == STANDARD_OUTPUT:
        return
    names = Names.of(out)
    path = names.out
    if path.is_dir():
        raise InputError("is a folder, not a file", remedy="Name a file in it", path=path)
    if path.exists() and not path.is_file():
        raise InputError("is not a regular file", remedy="Use -o - to write to a pipe", path=path)
    if path.suffix.lower() not in (*JSON_LINES, PARQUET):
        raise InputError(
            f"its ending {path.suffix!r} names no format", remedy="Name it .jsonl or .parquet", path=path
        )
    if not path.parent.is_dir():
        raise InputError("its folder does not exist", remedy=f"Make it: mkdir -p {path.parent}", path=path)
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise InputError("its folder may not be written to", remedy="Choose another folder", path=path)
    if str(source) != STANDARD_INPUT:
        given = Path(source).resolve()
        if any(given == name.resolve() for name in names.all()):
            raise InputError("would be written over the input", remedy="Choose another output", path=path)
    if not overwrite:
        _refuse_to_replace(names)


def _refuse_to_replace(names: Names) -> None:
    if names.journal.exists():
        return  # an interrupted run: it is looked at when its journal is read
    remedy = "Choose another name, or start over with --overwrite"
    if names.out.exists():
        raise InputError("exists already and is complete", remedy=remedy, path=names.out)
    for left in (names.partial, names.errors_partial):
        if left.exists():
            raise InputError(
                "is in the way, and belongs to no run that could be resumed", remedy=remedy, path=left
            )
    siblings = (names.out.with_suffix(ending) for ending in (*JSON_LINES, PARQUET))
    if names.errors.exists() and any(sibling.exists() for sibling in siblings):
        raise InputError("belongs to another output of this name", remedy=remedy, path=names.errors)


class FileDestination:
    """Rows into a file that appears under its name only when it is whole; resumable until then.

    Parameters
    ----------
    out : the output.
    run : what must be the same for a run to be continued: JSON, with the regime under ``regime``.
    overwrite : forget an interrupted run, and replace a complete output at the end.
    proxies, sensors : names of those that are asked for, for the schema of a Parquet output.
    """

    def __init__(
        self,
        out: Path | str,
        run: Mapping[str, Any],
        *,
        overwrite: bool = False,
        proxies: tuple[str, ...] = (),
        sensors: tuple[str, ...] = (),
    ) -> None:
        self.names = Names.of(out)
        self._run = json.loads(json.dumps(run))  # as it reads after a round trip through the journal
        self._overwrite = overwrite
        self._proxies = proxies
        self._sensors = sensors
        self._replaces = False
        self._rows: BinaryIO | None = None
        self._errors: BinaryIO | None = None
        self._lock = FileLock(self.names.lock, timeout=0)

    def __enter__(self) -> Self:
        with _explained(self.names.out):
            while True:
                try:
                    self._lock.acquire()
                except Timeout as error:
                    raise InputError(
                        "another process is writing to it",
                        remedy="Wait for it to end, or choose another output",
                        path=self.names.out,
                    ) from error
                if self.names.lock.exists():
                    return self
                # The process that held it has just finished and removed the file under our hands.
                self._lock.release()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for stream in (self._rows, self._errors):
                if stream is not None:
                    stream.close()
            if sys.platform != "win32":  # there, an open file cannot be removed
                self.names.lock.unlink(missing_ok=True)
        finally:
            self._lock.release()

    def begin(self) -> Checkpoint:
        """Continue the interrupted run if there is one, else start a new one.

        Raises
        ------
        ResumeError
            If the interrupted run had other settings, or its files are not as it left them.
        """
        names = self.names
        with _explained(names.out):
            if self._overwrite:
                for old in (names.journal, names.partial, names.errors_partial):
                    old.unlink(missing_ok=True)
            if names.journal.exists():
                return self._resume()
            if not self._overwrite:
                _refuse_to_replace(names)  # again, now that nobody else can write
            self._replaces = names.out.exists()
            self._write_journal(Checkpoint(), 0, 0)
            self._open(0, 0)
            return Checkpoint()

    def commit(self, rows: bytes, errors: bytes, reached: Checkpoint) -> None:
        """Write a batch and, once it is on the disk, the journal that says so.

        Raises
        ------
        InputError
            If the disk is full or fails; what was committed before is safe.
        """
        if self._rows is None or self._errors is None:
            raise RuntimeError("begin comes before commit")
        with _explained(self.names.out):
            lengths = []
            for stream, data in ((self._rows, rows), (self._errors, errors)):
                _write_all(stream, data)
                os.fsync(stream.fileno())
                lengths.append(stream.tell())
            self._write_journal(reached, *lengths)

    def publish(self) -> None:
        """Give the files their names; can be done again after it was interrupted at any point."""
        names = self.names
        for stream in (self._rows, self._errors):
            if stream is not None:
                stream.close()
        with _explained(names.out):
            if names.errors_partial.exists():
                if names.errors_partial.stat().st_size:
                    names.errors_partial.replace(names.errors)
                else:
                    # No bad rows: a report of an earlier run must not be taken for one of this run.
                    names.errors_partial.unlink()
                    names.errors.unlink(missing_ok=True)
            if names.partial.exists():
                self._publish_rows()
            _sync_folder(names.out.parent)
            names.journal.unlink(missing_ok=True)

    def discard(self) -> None:
        """The run is complete and held no usable row: leave the report of the bad rows, and no output."""
        if self._rows is not None:
            self._rows.close()
        with _explained(self.names.out):
            self.names.partial.unlink(missing_ok=True)
        self.publish()

    def _publish_rows(self) -> None:
        names = self.names
        self._replace(names.regime, self._run)  # before the rows, so that no rows are without it
        if names.out.suffix.lower() == PARQUET:
            from outspan.bulk.columns import write_parquet

            columns = names.out.with_name(names.out.name + ".columns.partial")
            write_parquet(names.partial, columns, proxies=self._proxies, sensors=self._sensors)
            columns.replace(names.out)
            names.partial.unlink()
        else:
            names.partial.replace(names.out)

    def _resume(self) -> Checkpoint:
        names = self.names
        saved = self._read_journal()
        self._same_run(saved["run"])
        self._replaces = bool(saved["replaces"])
        reached = Checkpoint(**{**saved["reached"], "counts": Counts(**saved["reached"]["counts"])})
        if names.out.exists() and not self._replaces and not reached.complete:
            raise ResumeError(
                f"{names.out} exists, and so does an interrupted run of that name. "
                "Remove the one that you do not want, or start over with --overwrite"
            )
        if not reached.complete:
            self._open(saved["output_bytes"], saved["errors_bytes"])
        elif not names.partial.exists() and not names.out.exists() and reached.counts.rows:
            raise ResumeError(f"{names.partial} is missing. Start over with --overwrite")
        return reached

    def _read_journal(self) -> dict[str, Any]:
        try:
            saved = json.loads(self.names.journal.read_bytes())
            if saved["format"] != _FORMAT or not isinstance(saved["reached"]["input_bytes"], int):
                raise ValueError("another format")
        except (ValueError, KeyError, TypeError) as error:
            raise ResumeError(
                f"{self.names.journal} cannot be read ({error}). Start over with --overwrite"
            ) from error
        return dict(saved)

    def _same_run(self, theirs: Mapping[str, Any]) -> None:
        ours = self._run
        if theirs == ours:
            return
        changed = Regime(theirs).difference(Regime(ours))
        listed = "; ".join(f"{name}: then {then}, now {now}" for name, (then, now) in changed.items())
        raise ResumeError(
            f"{self.names.journal} belongs to an interrupted run with other settings ({listed}). "
            "Run with those settings to resume it, or start over with --overwrite"
        )

    def _open(self, rows: int, errors: int) -> None:
        self._rows = _open_at(self.names.partial, rows)
        self._errors = _open_at(self.names.errors_partial, errors)

    def _write_journal(self, reached: Checkpoint, rows: int, errors: int) -> None:
        record = {
            "format": _FORMAT,
            "run": self._run,
            "replaces": self._replaces,
            "output_bytes": rows,
            "errors_bytes": errors,
            "reached": asdict(reached),
        }
        self._replace(self.names.journal, record)
        _sync_folder(self.names.journal.parent)

    @staticmethod
    def _replace(path: Path, record: Mapping[str, Any]) -> None:
        """Write a record in one step, so that a reader finds the old one or the new one."""
        fresh = path.with_name(path.name + ".partial")
        with fresh.open("wb") as stream:
            stream.write(json.dumps(record, ensure_ascii=True, allow_nan=False).encode() + b"\n")
            stream.flush()
            os.fsync(stream.fileno())
        fresh.replace(path)


class StreamDestination:
    """Rows to standard output, bad rows to standard error; nothing is kept, so nothing can be resumed."""

    def __init__(self, rows: BinaryIO, errors: BinaryIO) -> None:
        self._rows = rows
        self._errors = errors

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def begin(self) -> Checkpoint:
        """Always from the start."""
        return Checkpoint()

    def commit(self, rows: bytes, errors: bytes, reached: Checkpoint) -> None:  # noqa: ARG002  part of the protocol
        """Pass the batch on."""
        self._rows.write(rows)
        self._rows.flush()
        self._errors.write(errors)
        self._errors.flush()

    def publish(self) -> None:
        """Everything has been passed on already."""

    def discard(self) -> None:
        """Nothing was kept."""


def _open_at(path: Path, length: int) -> BinaryIO:
    """Open for writing behind the first ``length`` bytes; what lies behind them was never committed.

    Raises
    ------
    ResumeError
        If there are not so many.
    """
    held = path.stat().st_size if path.exists() else 0
    if held < length:
        raise ResumeError(
            f"{path} holds {held} bytes, and the interrupted run had written {length}. "
            "Start over with --overwrite"
        )
    stream = path.open("r+b" if path.exists() else "w+b", buffering=0)
    stream.truncate(length)
    stream.seek(length)
    return stream


def _write_all(stream: BinaryIO, data: bytes) -> None:
    # An unbuffered write may take only a part, as it does just before a disk is full.
    view = memoryview(data)
    while view:
        view = view[stream.write(view) :]


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn a failure of the file system into a message that says what is lost: nothing."""
    try:
        yield
    except OSError as error:
        full = _FULL.get(error.errno or 0)
        if full:
            raise InputError(
                f"{full}; the rows done so far are kept",
                remedy="Make room, and run the same command again to go on from there",
                path=path,
            ) from error
        raise InputError(
            f"cannot be written: {error.strerror or error}", path=error.filename or path
        ) from error


def _sync_folder(folder: Path) -> None:
    """Make renames in a folder last through a power cut, where the system can."""
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
