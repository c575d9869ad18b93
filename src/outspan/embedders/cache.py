"""Vectors on disk, so that the same text is embedded once; see ``docs/decisions/0005-vector-cache.md``.

The key is a SHA-256 over the embedder's whole identity and the text's digest, each with its length. The texts
themselves are never stored. Each row carries a checksum over key and value, so a damaged row is a row that is
not there. A cache that cannot be used says so once, in the log, and the run goes on without it: it can cost
time, never a number.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sqlite3
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from outspan.canonical import canonical_json, length_prefixed
from outspan.embedders.fetch import cache_folder
from outspan.embedders.protocol import EmbedderIdentity

DEFAULT_MAX_BYTES = 512 * 1024 * 1024
"""Some 260,000 vectors of 384 dimensions."""

_log = logging.getLogger(__name__)
_BUSY_SECONDS = 5.0
_ROWS_PER_STATEMENT = 500  # SQLite's oldest limit on parameters is 999
_ROWS_PER_TRANSACTION = 2048
_CHECK = 16  # bytes of checksum
_SCHEMA = """
CREATE TABLE IF NOT EXISTS vectors_v1 (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key BLOB NOT NULL UNIQUE,
    value BLOB NOT NULL
)
"""


class VectorCache:
    """A bounded store of vectors, safe for several threads and processes.

    Parameters
    ----------
    path : the SQLite file; by default ``vectors.sqlite3`` in the cache folder.
    max_bytes : bound on the file's size; when it is passed, the rows that were written first go.
    """

    def __init__(self, path: Path | None = None, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        if max_bytes < 1:
            raise ValueError(f"max_bytes must be positive, not {max_bytes}")
        self.path = Path(path) if path is not None else cache_folder() / "vectors.sqlite3"
        self.max_bytes = max_bytes
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = None
        self._pid = os.getpid()
        self._abandoned: list[object] = []
        self._closed = False
        self._unusable = False
        self._warned = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def get_many(
        self, identity: EmbedderIdentity, texts: Sequence[str]
    ) -> dict[int, tuple[NDArray[np.float32], int]]:
        """Those of ``texts`` that are known: position to (vector (d,) float32, token count).

        A row whose checksum or length is wrong is not known.
        """
        keys = _keys(identity, texts)
        places: dict[bytes, list[int]] = {}
        for place, key in enumerate(keys):
            places.setdefault(key, []).append(place)
        found: dict[int, tuple[NDArray[np.float32], int]] = {}
        for key, value in self._select(list(places)):
            row = _unpack(key, value, identity.dimension)
            if row is not None:
                found.update(dict.fromkeys(places[key], row))
        return found

    def put_many(
        self,
        identity: EmbedderIdentity,
        texts: Sequence[str],
        vectors: NDArray[np.float32],
        tokens: NDArray[np.int64],
    ) -> None:
        """Keep vectors (n, d) and token counts (n,) for ``texts``.

        Raises
        ------
        ValueError
            If the shapes do not fit, or a vector is not finite or has no direction: such a vector is never
            stored.
        """
        vectors = np.ascontiguousarray(vectors, dtype="<f4")
        if vectors.shape != (len(texts), identity.dimension) or np.shape(tokens) != (len(texts),):
            raise ValueError(
                f"vectors {vectors.shape} and tokens {np.shape(tokens)} do not fit {len(texts)} texts of "
                f"dimension {identity.dimension}"
            )
        if not np.isfinite(vectors).all() or not vectors.any(axis=1).all():
            raise ValueError("a failed vector (not finite, or zero) must not be stored")
        keys = _keys(identity, texts)
        rows = [
            (key, _pack(key, vector.tobytes(), int(count)))
            for key, vector, count in zip(keys, vectors, tokens, strict=True)
        ]
        for start in range(0, len(rows), _ROWS_PER_TRANSACTION):
            self._insert(rows[start : start + _ROWS_PER_TRANSACTION])

    def close(self) -> None:
        """Close the file; the object cannot be used afterwards."""
        self._after_fork()
        with self._lock:
            self._closed = True
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _select(self, keys: list[bytes]) -> Iterator[tuple[bytes, bytes]]:
        rows: list[tuple[bytes, bytes]] = []
        self._after_fork()
        with self._lock:
            try:
                connection = self._open()
                for start in range(0, len(keys), _ROWS_PER_STATEMENT) if connection else ():
                    part = keys[start : start + _ROWS_PER_STATEMENT]
                    marks = ",".join("?" * len(part))
                    query = f"SELECT key, CAST(value AS BLOB) FROM vectors_v1 WHERE key IN ({marks})"
                    rows.extend(connection.execute(query, part) if connection else ())
            except (sqlite3.Error, OSError) as error:
                self._degrade(error)
        return iter(rows)

    def _insert(self, rows: list[tuple[bytes, bytes]]) -> None:
        self._after_fork()
        with self._lock:
            try:
                connection = self._open()
                if connection is None:
                    return
                with connection:  # one short transaction: rolled back if anything fails
                    connection.execute("BEGIN IMMEDIATE")
                    connection.executemany(
                        "INSERT OR REPLACE INTO vectors_v1 (key, value) VALUES (?, ?)", rows
                    )
                    self._evict(connection)
            except (sqlite3.Error, OSError) as error:
                self._degrade(error)

    def _evict(self, connection: sqlite3.Connection) -> None:
        """Delete the oldest rows until the used pages are 10 % below the bound; freed pages are written
        again.
        """
        pages, free, size = (
            int(connection.execute(f"PRAGMA {name}").fetchone()[0])
            for name in ("page_count", "freelist_count", "page_size")
        )
        used = (pages - free) * size
        if used <= self.max_bytes:
            return
        count = int(connection.execute("SELECT count(*) FROM vectors_v1").fetchone()[0])
        surplus = min(count, int(count * (1 - 0.9 * self.max_bytes / used)) + 1)
        connection.execute(
            "DELETE FROM vectors_v1 WHERE id IN (SELECT id FROM vectors_v1 ORDER BY id LIMIT ?)", (surplus,)
        )

    def _open(self) -> sqlite3.Connection | None:
        """The connection of this process, or None where the cache turned out to be unusable."""
        if self._closed:
            raise ValueError(f"the vector cache {self.path} is closed")
        if self._unusable or self._connection is not None:
            return self._connection
        self.path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(
            self.path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            # A commit lost with the power costs an embedding, and a torn page fails its rows' checksums.
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute(_SCHEMA)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _after_fork(self) -> None:
        """In a forked child: forget the parent's connection and lock without closing them."""
        if os.getpid() != self._pid:
            self._abandoned.extend((self._connection, self._lock))
            self._connection, self._lock, self._pid = None, Lock(), os.getpid()

    def _degrade(self, error: sqlite3.Error | OSError) -> None:
        """Say once what is wrong and go on without; a cache that is only busy is asked again the next
        time.
        """
        busy = isinstance(error, sqlite3.OperationalError) and "locked" in str(error)
        if not busy:
            self._unusable = True
            if self._connection is not None:
                self._connection.close()
                self._connection = None
        if not self._warned:
            self._warned = True
            remedy = (
                "another process holds it"
                if busy
                else "delete it, or set OUTSPAN_CACHE_DIR to another folder"
            )
            _log.warning(
                "the vector cache %s cannot be used (%s): %s. Going on without it", self.path, error, remedy
            )


def _keys(identity: EmbedderIdentity, texts: Sequence[str]) -> list[bytes]:
    who = canonical_json(identity.to_dict())
    return [
        hashlib.sha256(
            length_prefixed((who, hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()))
        ).digest()
        for text in texts
    ]


def _pack(key: bytes, vector: bytes, tokens: int) -> bytes:
    body = struct.pack("<q", tokens) + vector
    return _checksum(key, body) + body


def _unpack(key: bytes, value: object, dimension: int) -> tuple[NDArray[np.float32], int] | None:
    if not isinstance(value, bytes) or len(value) != _CHECK + 8 + 4 * dimension:
        return None
    check, body = value[:_CHECK], value[_CHECK:]
    if check != _checksum(key, body):
        return None
    vector = np.frombuffer(body, dtype="<f4", offset=8).astype(np.float32)
    return vector, int(struct.unpack_from("<q", body)[0])


def _checksum(key: bytes, body: bytes) -> bytes:
    return hashlib.blake2b(key + body, digest_size=_CHECK).digest()
