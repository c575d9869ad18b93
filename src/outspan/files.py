r"""Reading what people hand in: text, evidence, JSON Lines. A refusal names the file, the place, the remedy.

Line ends are kept as they are, since offsets are offsets in the text as it was read, and records are split on
``\n`` only: U+2028, U+2029 and U+0085 are ordinary characters of a JSON string.
"""

from __future__ import annotations

import difflib
import json
import math
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from outspan.errors import InputError
from outspan.evidence import TEXT_KEYS, EvidenceItem

STANDARD_INPUT = "-"
MAX_TEXT_BYTES = 256 * 1024 * 1024
"""Largest text that is read into memory as one."""
MAX_LINE_BYTES = 32 * 1024 * 1024
"""Longest line of JSON Lines; a longer one is skipped, without being held in memory, and reported."""

_BOM = b"\xef\xbb\xbf"
_EXCERPT = 200
_EXCERPT_BYTES = 4 * _EXCERPT  # a character has at most four
_CHUNK = 1 << 20
_BLANK = b" \t\r\n"
_JSON_LINES = (".jsonl", ".ndjson")
_UTF_16 = re.compile(
    rb"\A(?:\xff\xfe|\xfe\xff|[\t\n\r -~]\x00[\t\n\r -~]\x00|\x00[\t\n\r -~]\x00[\t\n\r -~])"
)
_UTF_32 = re.compile(rb"\A(?:\xff\xfe\x00\x00|\x00\x00\xfe\xff|[\t\n\r -~]\x00{3}|\x00{3}[\t\n\r -~])")
_MAGIC = (
    (b"%PDF-", "a PDF", "Extract its text first, for example with pdftotext"),
    (b"PK\x03\x04", "a ZIP container, as .docx and .xlsx are", "Save it as plain text first"),
    (b"\x1f\x8b", "compressed with gzip", "Unpack it first, for example with gunzip"),
    (b"PAR1", "a Parquet file", "Write it as JSON Lines first"),
)


def read_text(path: Path | str, *, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """The text of a file, or of standard input for ``-``; UTF-8, a byte order mark is skipped.

    Raises
    ------
    InputError
        For a file that is missing, a folder, not readable, longer than ``max_bytes``, or not UTF-8 text.
    """
    name = shown_name(path)
    with open_binary(path) as stream:
        data = stream.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise InputError(
            f"holds more than {max_bytes:,} bytes, the most that is read as one text",
            remedy="Split it into several files",
            path=name,
        )
    if not data and str(path) == STANDARD_INPUT:
        raise InputError("standard input is empty", remedy="Pipe a text into it, or name a file", path=name)
    return _decode(data, name)


def read_evidence(path: Path | str, *, label: str | None = None) -> list[EvidenceItem]:
    """Evidence from a file.

    ``label`` stands in ids in place of the file's name, for callers whose files share one.

    ``.jsonl`` and ``.ndjson`` hold one passage a line, ``.json`` a list of passages: each is a string, null
    for nothing, or an object whose text stands under ``text`` (or, failing that, ``content``, ``passage`` or
    ``page_content``) and which may have an ``id``. Without one, the id is the file's name and the line, or
    the place in the list, from 1: ``passages.jsonl:3``. Every other file, and standard input (``-``), is one
    item whose id is the file's name, or ``stdin``.

    Raises
    ------
    InputError
        As :func:`read_text`, and for a line or passage that cannot be used; unlike a row of a bulk run, a
        passage that is left out would change every number, so it stops the work.
    """
    name = shown_name(path)
    label = label or Path(name).name
    suffix = Path(name).suffix.lower()
    if str(path) == STANDARD_INPUT or suffix not in (*_JSON_LINES, ".json"):
        return [EvidenceItem(id=label, text=read_text(path))]
    if suffix == ".json":
        return _json_list(read_text(path), name, label)
    items = []
    for line in iter_json_lines(path):
        if line.error is not None:
            raise line.error
        items.append(_passage(line.value, name, label, line.number, line=line.number))
    return items


def _json_list(text: str, name: str, label: str) -> list[EvidenceItem]:
    value = _parse(text, name, None)
    if not isinstance(value, list):
        raise InputError(
            "is not a list of passages", remedy='Write a list: ["…", {"id": "…", "text": "…"}]', path=name
        )
    return [_passage(passage, name, label, place) for place, passage in enumerate(value, start=1)]


def _passage(value: object, name: str, label: str, place: int, *, line: int | None = None) -> EvidenceItem:
    default = f"{label}:{place}"
    if value is None or isinstance(value, str):
        return EvidenceItem(id=default, text=value or "")
    where = "" if line is not None else f"passage {place} "
    if not isinstance(value, dict):
        raise InputError(
            f"{where}is {json_name(value)}, not a passage",
            remedy="Write a string, or an object with 'text' and perhaps 'id'",
            path=name,
            line=line,
        )
    key = next((key for key in TEXT_KEYS if key in value), None)
    text = None if key is None else value[key]
    if key is None or not (text is None or isinstance(text, str)):
        raise InputError(
            f"{where}has no 'text'" if key is None else f"{where}has a {key!r} that is {json_name(text)}",
            remedy="Put the passage under 'text', as a string",
            path=name,
            line=line,
        )
    try:
        identity = value.get("id")
        return EvidenceItem.of({**value, "id": default if identity is None else identity}, place)
    except ValueError as error:
        raise InputError(
            f"{where}cannot be used: {error}",
            remedy="Write 'id' as a string or a whole number, and 'weight' as a number ≥ 0",
            path=name,
            line=line,
        ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonLine:
    """One line of JSON Lines that is not blank: its value, or why it has none."""

    number: int
    """From 1; blank lines count."""
    value: object
    """What the line says; None where ``error`` is set."""
    error: InputError | None
    excerpt: str
    """The line's first characters, as far as they can be read."""


def iter_json_lines(
    source: Path | str | BinaryIO, *, max_line_bytes: int = MAX_LINE_BYTES
) -> Iterator[JsonLine]:
    """The lines of a file, of standard input (``-``) or of an open binary stream, one at a time.

    Raises
    ------
    InputError
        For a file that cannot be read or is no text at all. What is wrong with one line is in its ``error``.
    """
    if isinstance(source, str | Path):
        with open_binary(source) as stream:
            yield from JsonLineReader(stream, shown_name(source), max_line_bytes=max_line_bytes)
    else:
        yield from JsonLineReader(
            source, str(getattr(source, "name", "input")), max_line_bytes=max_line_bytes
        )


class JsonLineReader:
    r"""Iterates over the lines of a stream and knows how far it came, so that a later reader can go on there.

    Lines end at ``\n`` only. A byte order mark, ``\r\n`` and a last line without its end are fine; blank
    lines are passed over and counted. Memory is bounded by ``max_line_bytes``, whatever the stream holds.

    Raises
    ------
    InputError
        From the first step, if the stream begins as UTF-16, UTF-32, or a well-known binary format.
    """

    def __init__(self, stream: BinaryIO, name: str, *, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._stream = stream
        self._name = name
        self._max = max_line_bytes
        self._buffer = b""
        self._at = 0  # what lies before it in the buffer is passed
        self._ended = False
        self._sha = sha256()
        self.lines = 0
        """Lines passed, blank ones included."""
        self.offset = 0
        """Bytes passed; always behind a ``\\n``, or at the end."""

    @property
    def digest(self) -> str:
        """``sha256:`` and the digest of the bytes passed."""
        return f"sha256:{self._sha.hexdigest()}"

    @property
    def at_end(self) -> bool:
        """Whether the stream was seen to have nothing more; False does not promise more."""
        return self._ended and self._at == len(self._buffer)

    def skip(self, count: int, lines: int) -> bool:
        """Pass ``count`` bytes, known to hold ``lines`` lines, unread; False if the stream is shorter."""
        while self.offset < count:
            chunk = self._stream.read(min(_CHUNK, count - self.offset))
            if not chunk:
                return False
            self._pass(chunk)
        self.lines = lines
        return True

    def __iter__(self) -> Iterator[JsonLine]:
        return self

    def __next__(self) -> JsonLine:
        while True:
            raw, dropped = self._raw_line()
            if not raw:
                raise StopIteration
            if dropped or raw.removeprefix(_BOM).strip(_BLANK):
                return self._read(raw, dropped)

    def _raw_line(self) -> tuple[bytes, int]:
        """The next line with its end; of one that is too long, its head and the number of bytes behind it."""
        searched = self._at
        while (found := self._buffer.find(b"\n", searched)) < 0 and not self._ended:
            held = len(self._buffer) - self._at
            if held > self._max:
                break
            self._fill()
            searched = held
        end = len(self._buffer) if found < 0 else found + 1
        self.lines += end > self._at
        if end - self._at - (found >= 0) > self._max:
            return self._too_long(end)
        return self._take(end), 0

    def _too_long(self, end: int) -> tuple[bytes, int]:
        line = self._take(end)
        head, dropped = line[:_EXCERPT_BYTES], len(line) - _EXCERPT_BYTES
        while not line.endswith(b"\n") and not self._ended:
            self._fill()
            found = self._buffer.find(b"\n")
            line = self._take(len(self._buffer) if found < 0 else found + 1)
            dropped += len(line)
        return head, dropped

    def _take(self, end: int) -> bytes:
        line = self._buffer[self._at : end]
        self._at = end
        if end == len(self._buffer):
            self._buffer, self._at = b"", 0  # a long line is not held while it is worked on
        self._pass(line)
        return line

    def _fill(self) -> None:
        chunk = self._stream.read(_CHUNK)
        if not chunk:
            self._ended = True
        if self.offset == 0 and not self._buffer:
            _refuse_binary(chunk, self._name)
        self._buffer = self._buffer[self._at :] + chunk
        self._at = 0

    def _pass(self, data: bytes) -> None:
        self._sha.update(data)
        self.offset += len(data)

    def _read(self, raw: bytes, dropped: int) -> JsonLine:
        number = self.lines
        data = raw.strip(_BLANK).removeprefix(_BOM)
        excerpt = data[:_EXCERPT_BYTES].decode("utf-8", errors="replace")[:_EXCERPT]
        try:
            if dropped:
                raise InputError(
                    f"the line has {len(raw) + dropped:,} bytes, more than the limit of {self._max:,}",
                    remedy="Split the row, or raise the limit",
                )
            value = _parse(_decode(data, None), None, None, last=not raw.endswith(b"\n"))
        except InputError as error:
            placed = InputError(error.problem, remedy=error.remedy, path=self._name, line=number)
            return JsonLine(number=number, value=None, error=placed, excerpt=excerpt)
        return JsonLine(number=number, value=value, error=None, excerpt=excerpt)


def _parse(text: str, name: str | None, line: int | None, *, last: bool = False) -> object:
    """The value of JSON ``text``, strictly: no NaN, no name twice in an object, nothing behind the value."""
    try:
        return json.loads(
            text, parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_unique_names
        )
    except RecursionError:
        problem, remedy = "the JSON is nested too deeply to be read", "Flatten it"
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}" if "\n" in text else f"character {error.colno}"
        problem, remedy = f"is not JSON: {error.msg} at {where}", "Write one JSON object a line"
        if last and (error.pos >= len(text.rstrip()) - 1 or "Unterminated" in error.msg):
            problem = f"is cut off: {error.msg} at {where}, where the file ends"
            remedy = "The file was not written to its end: restore it, or remove this line"
    except ValueError as error:
        problem, remedy = str(error), "Write null, or the value as a string"
    raise InputError(problem, remedy=remedy, path=name, line=line)


def _no_constant(token: str) -> object:
    raise ValueError(f"holds {token}, which is not JSON")


def _finite(token: str) -> float:
    value = float(token)
    if not math.isfinite(value):
        raise ValueError(f"holds the number {token[:40]}, which is beyond the range of a float")
    return value


def _unique_names(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"holds an object with the name {twice!r} twice, of which one would be lost")
    return value


@contextmanager
def open_binary(path: Path | str) -> Iterator[BinaryIO]:
    """A file, or standard input for ``-``, open for reading bytes.

    Raises
    ------
    InputError
        For a file that is missing (with names that are like it), a folder, or not readable; for standard
        input that is a terminal.
    """
    if str(path) == STANDARD_INPUT:
        if sys.stdin is None or sys.stdin.isatty():
            raise InputError(
                "nothing is piped into standard input",
                remedy="Pipe a text into it, or name a file",
                path="stdin",
            )
        yield sys.stdin.buffer
        return
    if not str(path):
        raise InputError("no file is named", remedy="Give a file, or '-' for standard input")
    path = Path(path)
    try:
        stream = path.open("rb")
    except OSError as error:
        raise _unreadable(path, error) from error
    with stream:
        try:
            yield stream
        except OSError as error:
            raise _unreadable(path, error) from error


def shown_name(path: Path | str) -> str:
    """How a path is named in messages: ``stdin`` for standard input."""
    return "stdin" if str(path) == STANDARD_INPUT else str(path)


def _unreadable(path: Path, error: OSError) -> InputError:
    if isinstance(error, FileNotFoundError):
        near = _near_names(path)
        remedy = f"Did you mean {' or '.join(near)}?" if near else "Check the name and the folder"
        return InputError("there is no such file", remedy=remedy, path=path)
    if isinstance(error, IsADirectoryError) or path.is_dir():
        return InputError("is a folder, not a file", remedy="Name a file in it", path=path)
    if isinstance(error, PermissionError):
        return InputError("may not be read", remedy="Change its permissions, or copy it", path=path)
    return InputError(f"cannot be read: {error.strerror or error}", path=path)


def _near_names(path: Path) -> list[str]:
    try:
        with os.scandir(path.parent) as entries:
            names = [entry.name for entry in islice(entries, 2000)]
    except OSError:
        return []  # the folder is missing too, or closed to us: there is nothing to suggest
    return [str(path.parent / name) for name in difflib.get_close_matches(path.name, names, n=2)]


def _refuse_binary(head: bytes, name: str | None) -> None:
    """Refuse, by name, what is no UTF-8 text from its first bytes on."""
    for pattern, encoding in ((_UTF_32, "UTF-32"), (_UTF_16, "UTF-16")):
        if pattern.match(head):
            raise InputError(
                f"looks like {encoding}, not UTF-8",
                remedy=f"Convert it: iconv -f {encoding} -t UTF-8 {name or 'FILE'} > utf8.txt",
                path=name,
            )
    for magic, kind, remedy in _MAGIC:
        if head.startswith(magic):
            raise InputError(f"is {kind}, not text", remedy=remedy, path=name)


def _decode(data: bytes, name: str | None) -> str:
    """UTF-8 to text; ``name`` is None for one line of a file, whose caller knows the place."""
    if name is not None:
        _refuse_binary(data[:64], name)
    nul = data.find(b"\x00")
    if nul >= 0:
        raise InputError(
            f"is binary: a NUL at {_place(nul, name)}",
            remedy="Give UTF-8 text",
            path=name,
            line=_line_of(data, nul, name),
        )
    try:
        return data.removeprefix(_BOM).decode("utf-8")
    except UnicodeDecodeError as error:
        at = error.start + (len(_BOM) if data.startswith(_BOM) else 0)
        raise InputError(
            f"is not UTF-8: 0x{data[at]:02x} at {_place(at, name)}",
            remedy="Convert it to UTF-8, for example: iconv -f ISO-8859-1 -t UTF-8",
            path=name,
            line=_line_of(data, at, name),
        ) from error


def _place(at: int, name: str | None) -> str:
    return f"byte {at} of the {'line' if name is None else 'file'}"


def _line_of(data: bytes, at: int, name: str | None) -> int | None:
    return None if name is None else data.count(b"\n", 0, at) + 1


def json_name(value: object) -> str:
    """What JSON calls the value."""
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list"}
    return "null" if value is None else names.get(type(value), "an object")
