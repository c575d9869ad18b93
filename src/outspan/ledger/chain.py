"""The chain: how an entry becomes bytes, and how stored rows are checked. No database in sight."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from outspan.canonical import canonical_json, digest_bytes, digest_json
from outspan.errors import InputError

FORMAT = 1
GENESIS = "sha256:" + "0" * 64
"""What the first entry names as the digest before it."""

ProblemKind: TypeAlias = Literal[
    "content mismatch", "chain break", "missing row", "order", "tail cut", "head mismatch", "database"
]
MAX_PROBLEMS = 100
"""Problems that are listed; one is enough to distrust a ledger."""


class Stored(NamedTuple):
    """A row as it lies in the database; bytes where a damaged database may hold no text."""

    seq: object
    kind: object
    key: object
    digest: object
    body: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Artefact:
    """A value that many entries share, stored once under its digest: a threshold, a policy, a regime."""

    name: str
    value: Mapping[str, object]
    digest: str = ""
    """``sha256:`` over the canonical form of the value; computed where the caller has not done so."""

    def __post_init__(self) -> None:
        if not self.digest:
            object.__setattr__(self, "digest", digest_json(self.value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """Where a ledger ends. Kept elsewhere, it finds a tail that was cut off."""

    count: int
    """Entries, ≥ 0."""
    digest: str
    """Of the last entry; of nothing, sixty-four zeros."""

    def to_dict(self) -> dict[str, object]:
        """Both fields, as JSON."""
        return {"count": self.count, "digest": self.digest}

    @classmethod
    def read(cls, path: Path | str) -> Head:
        """A head from a file.

        Raises
        ------
        InputError
            For a file that cannot be read or holds no head.
        """
        remedy = "Write one with outspan ledger head LEDGER -o FILE"
        try:
            record = json.loads(Path(path).read_bytes())
            count, digest = record["count"], record["digest"]
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", path=path, remedy=remedy) from error
        except (ValueError, KeyError, TypeError) as error:
            raise InputError("is no head of a ledger", path=path, remedy=remedy) from error
        if not isinstance(count, int) or isinstance(count, bool) or count < 0 or not isinstance(digest, str):
            raise InputError("is no head of a ledger", path=path, remedy=remedy)
        return cls(count=count, digest=digest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry, as it was read."""

    seq: int
    """Its place, from 1."""
    kind: str
    """``opened``, ``artefact``, ``decision`` or ``amendment``."""
    key: str | None
    """What it is found by: an artefact's digest, a decision's row id, the entry that an amendment is on."""
    digest: str
    body: bytes
    """The bytes that are hashed."""

    def to_dict(self) -> dict[str, Any]:
        """The body as JSON: format, seq, previous, time, kind, key, content."""
        loaded: dict[str, Any] = json.loads(self.body)
        return loaded

    @property
    def content(self) -> dict[str, Any]:
        """What was appended."""
        content: dict[str, Any] = self.to_dict()["content"]
        return content


def now() -> str:
    """The time in UTC with nanoseconds, as RFC 3339 writes it: 2026-01-31T12:00:00.123456789Z."""
    seconds, nanoseconds = divmod(time.time_ns(), 10**9)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{nanoseconds:09d}Z"


def make_entry(
    before: Head, kind: str, content: Mapping[str, object], *, key: str | None, moment: str
) -> Entry:
    """The entry that follows ``before``.

    Raises
    ------
    ValueError
        For content that JSON does not have: NaN, infinities, integers beyond 2**53.
    """
    seq = before.count + 1
    body = canonical_json(
        {
            "format": FORMAT,
            "seq": seq,
            "previous": before.digest,
            "time": moment,
            "kind": kind,
            "key": key,
            "content": content,
        }
    )
    return Entry(seq=seq, kind=kind, key=key, digest=digest_bytes(body), body=body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something that an untouched ledger does not show."""

    row: int | None
    """Place of the row; None where it is about the whole."""
    kind: ProblemKind
    message: str

    def to_dict(self) -> dict[str, object]:
        """Every field by name, as JSON."""
        return {"row": self.row, "kind": self.kind, "message": self.message}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What was found on a walk over the whole ledger."""

    head: Head
    kinds: Mapping[str, int]
    """Entries by kind."""
    problems: tuple[Problem, ...]
    """In the order of the rows, at most :data:`MAX_PROBLEMS`."""
    against_head: Head | None = None
    """The head kept elsewhere that the ledger was held against; without one, a cut tail cannot be seen."""
    notes: tuple[str, ...] = field(default=())

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.problems

    def to_dict(self) -> dict[str, object]:
        """Every field by name, as JSON, with the counts that people ask for."""
        return {
            "ok": self.ok,
            "entries": self.head.count,
            "decisions": self.kinds.get("decision", 0),
            "kinds": dict(self.kinds),
            "head": self.head.to_dict(),
            "against_head": None if self.against_head is None else self.against_head.to_dict(),
            "problems": [problem.to_dict() for problem in self.problems],
            "notes": list(self.notes),
        }


class Walk:
    """Checks rows in the order of their places; each is judged against the row before it."""

    def __init__(self, head: Head | None = None) -> None:
        self._expected = head
        self._at_head: str | None = None
        self._last = Head(count=0, digest=GENESIS)
        self._read = 0
        self._kinds: Counter[str] = Counter()
        self.problems: list[Problem] = []

    def note(self, row: int | None, kind: ProblemKind, message: str) -> None:
        """Add a problem, unless enough are listed."""
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(Problem(row=row, kind=kind, message=message))

    def rows(self, stored: Iterable[Stored]) -> None:
        """Take rows in ascending place."""
        for row in stored:
            self._row(row)

    def _row(self, row: Stored) -> None:
        self._read += 1
        seq, digest = row.seq, as_text(row.digest)
        if not isinstance(seq, int):
            self.note(None, "content mismatch", f"a row has the place {seq!r}, which is no number")
            return
        after = self._last.count + 1
        if seq > after:
            gone = f"row {after} is" if seq == after + 1 else f"rows {after} to {seq - 1} are"
            self.note(after, "missing row", f"{gone} missing: row {self._last.count} is followed by {seq}")
        elif seq < after:
            self.note(seq, "order", f"row {seq} comes after row {self._last.count}")
        body = bytes(row.body) if isinstance(row.body, bytes | memoryview) else b""
        if digest_bytes(body) != digest:
            self.note(
                seq,
                "content mismatch",
                f"row {seq}: the digest of its bytes is not the one stored with it: one of them was changed",
            )
        self._body(seq, row, body, gap=seq != after)
        self._kinds[as_text(row.kind) or "unreadable"] += 1
        self._last = Head(count=seq, digest=digest or "")
        if self._expected is not None and seq == self._expected.count:
            self._at_head = digest

    def _body(self, seq: int, row: Stored, body: bytes, *, gap: bool) -> None:
        try:
            record = json.loads(body)
            said = (record["seq"], record["kind"], record["key"], record["previous"], record["format"])
        except (ValueError, KeyError, TypeError):
            self.note(seq, "content mismatch", f"row {seq}: its bytes are no entry of a ledger")
            return
        if said[4] != FORMAT:
            self.note(seq, "content mismatch", f"row {seq}: format {said[4]!r} is not known")
        if said[0] != seq:
            self.note(seq, "order", f"row {seq} holds the entry that was written as number {said[0]!r}")
        key = None if row.key is None else as_text(row.key)
        if (said[1], said[2]) != (as_text(row.kind), key) or (row.key is not None and key is None):
            self.note(seq, "content mismatch", f"row {seq}: its columns do not say what its bytes say")
        if said[3] != self._last.digest and not gap:
            self.note(
                seq,
                "chain break",
                f"row {seq} was written after another row {self._last.count} than the one that is there now",
            )

    def result(self, notes: Iterable[str] = ()) -> Verification:
        """What was found, the head kept elsewhere included."""
        expected = self._expected
        if expected is not None and expected.count > self._last.count:
            lost = expected.count - self._last.count
            self.note(
                None,
                "tail cut",
                f"the ledger ends at row {self._last.count}; the head kept elsewhere says {expected.count}: "
                f"the last {lost} rows are gone",
            )
        elif expected is not None and expected.count and self._at_head != expected.digest:
            self.note(
                expected.count,
                "head mismatch",
                f"row {expected.count} is not the one that the head kept elsewhere was taken from",
            )
        return Verification(
            head=Head(count=self._read, digest=self._last.digest),
            kinds=dict(self._kinds),
            problems=tuple(self.problems),
            against_head=expected,
            notes=tuple(notes),
        )


def as_text(value: object) -> str | None:
    """Text of a column that may have come as bytes; None where it is not UTF-8."""
    if isinstance(value, str):
        return value
    if not isinstance(value, bytes | memoryview):
        return None
    try:
        return bytes(value).decode("utf-8")
    except UnicodeDecodeError:
        return None
