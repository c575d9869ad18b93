"""Reading what ``outspan measure`` wrote: rows with their line, and the regime that stands beside them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from hashlib import file_digest
from pathlib import Path
from typing import Any

from outspan.calibration.artefact import describe_difference
from outspan.errors import InputError, NotInstalled, RegimeMismatch
from outspan.files import STANDARD_INPUT, iter_json_lines, open_binary
from outspan.measurement import Regime

REMEDY = "Give a file that outspan measure wrote"
_REQUIRED = ("state", "energy", "sentences", "fingerprint")
_SENTENCE = {"text", "state", "energy", "rank", "cap_bound", "evidence"}


def iter_measured(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line, or row, from 1, and the row; JSON Lines or Parquet by the ending.

    Raises
    ------
    InputError
        For a file that cannot be read, and for a row that ``outspan measure`` did not write.
    NotInstalled
        For Parquet without pyarrow.
    """
    if str(path) == STANDARD_INPUT:
        raise InputError("standard input cannot be used here: the file is read twice", remedy="Name a file")
    for number, row in _parquet_rows(path) if path.suffix.lower() == ".parquet" else _json_rows(path):
        missing = [name for name in _REQUIRED if name not in row]
        if missing:
            raise InputError(
                f"the row has no {', '.join(map(repr, missing))}", path=path, line=number, remedy=REMEDY
            )
        if not _are_sentences(row["sentences"]):
            raise InputError(
                "'sentences' is no list of measured sentences", path=path, line=number, remedy=REMEDY
            )
        yield number, row


def _are_sentences(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, dict) and one.keys() >= _SENTENCE and isinstance(one["evidence"], dict)
        for one in value
    )


def _json_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for line in iter_json_lines(path):
        if line.error is not None:
            raise line.error
        if not isinstance(line.value, dict):
            raise InputError("the line is not a JSON object", path=path, line=line.number, remedy=REMEDY)
        yield line.number, line.value


def _parquet_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise NotInstalled("pyarrow", "parquet", "Reading Parquet") from error
    with open_binary(path) as stream:
        try:
            number = 0
            for batch in pq.ParquetFile(stream).iter_batches(batch_size=500):
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
        except (pa.ArrowInvalid, OSError) as error:
            raise InputError(f"is not Parquet: {error}", path=path, remedy=REMEDY) from error


def digest_of(path: Path) -> str:
    """``sha256:`` over the bytes of the file."""
    with open_binary(path) as stream:
        return f"sha256:{file_digest(stream, 'sha256').hexdigest()}"  # type: ignore[arg-type]  # a file


def fingerprint_of(row: Mapping[str, Any], score: str, path: Path, line: int) -> str:
    """Of the regime in which ``score`` was measured in this row.

    Raises
    ------
    InputError
        Where the row does not hold it.
    """
    found = row["fingerprint"] if score == "energy" else (row.get("proxy_fingerprints") or {}).get(score)
    if isinstance(found, str):
        return found
    measured = ", ".join(["energy", *(row.get("proxy_fingerprints") or {})])
    raise InputError(
        f"{score!r} was not measured in this row (measured: {measured})",
        path=path,
        line=line,
        remedy="Choose one of these, or measure with --proxy" if score != "energy" else REMEDY,
    )


class OneRegime:
    """Holds the rows of a file to one fingerprint."""

    def __init__(self, path: Path, score: str) -> None:
        self._path = path
        self._score = score
        self._seen: Counter[str] = Counter()
        self._first: dict[str, int] = {}

    def take(self, line: int, row: Mapping[str, Any]) -> None:
        """Note the fingerprint of a row."""
        found = fingerprint_of(row, self._score, self._path, line)
        self._seen[found] += 1
        self._first.setdefault(found, line)

    def fingerprint(self) -> str:
        """The one fingerprint.

        Raises
        ------
        InputError
            If there was no row.
        RegimeMismatch
            If there was more than one, with how many rows have which and where each begins.
        """
        if not self._seen:
            raise InputError("holds no rows", path=self._path, remedy=REMEDY)
        if len(self._seen) > 1:
            described = "; ".join(
                f"{count} rows from line {self._first[name]} on have {name}"
                for name, count in self._seen.most_common()
            )
            known = regime_beside(self._path, self._score)
            about = f". {self._path}.regime.json describes {Regime(known).fingerprint}" if known else ""
            raise RegimeMismatch(
                f"{self._path}: rows of several regimes in one file ({described}){about}. "
                "Their numbers do not compare: measure all of them with the same settings"
            )
        return next(iter(self._seen))


def regime_beside(path: Path, score: str) -> dict[str, object]:
    """The parts of the regime of ``score`` from ``FILE.regime.json``; empty where that file is not there.

    Raises
    ------
    InputError
        If the file is there and cannot be read.
    """
    beside = path.with_name(path.name + ".regime.json")
    try:
        record = json.loads(beside.read_bytes())
        parts = dict(record["regime"])
        if score != "energy":
            parts["proxy"] = record["proxy_contracts"][score]
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=beside) from error
    except (ValueError, KeyError, TypeError) as error:
        remedy = "Remove it, or measure again"
        raise InputError(f"does not describe a regime: {error!r}", path=beside, remedy=remedy) from error
    return parts


def known_regime(path: Path, score: str, fingerprint: str) -> dict[str, object]:
    """As :func:`regime_beside`, and empty where what stands there is not the regime of the rows."""
    parts = regime_beside(path, score)
    return parts if parts and Regime(parts).fingerprint == fingerprint else {}


def require_same_regime(reference: Path, live: Path, score: str, ours: str, theirs: str) -> None:
    """Refuse to compare two files from different regimes.

    Raises
    ------
    RegimeMismatch
        Naming the parts that differ, where they are known.
    """
    if ours == theirs:
        return
    difference = describe_difference(
        known_regime(reference, score, ours), known_regime(live, score, theirs), ours, theirs
    )
    raise RegimeMismatch(
        f"{live} was measured in another regime than {reference}: {difference}. "
        "Measure both with the same settings"
    )
