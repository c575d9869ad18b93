"""From a file to a data set: the format is named, or told from the columns of the first row."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from outspan.canonical import digest_bytes
from outspan.errors import InputError, NotInstalled
from outspan.files import iter_json_lines
from outspan.lab.datasets.formats import FORMATS, Format, Row
from outspan.lab.datasets.record import Dataset, Record


def read_dataset(
    path: Path | str, format: str | None = None, *, columns: Mapping[str, str] | None = None
) -> Dataset:
    """Read a file of labelled claims.

    Parameters
    ----------
    path : JSON Lines, a JSON list, CSV or Parquet.
    format : one of ``FORMATS``; by default told from the columns of the first row.
    columns : names of the record shape to the file's own, such as ``{"claim": "hypothesis"}``; implies the
        format ``outspan``.

    Raises
    ------
    InputError
        For a file of no known format, a row without its columns, or a label that the format does not know.
    """
    path = Path(path)
    rows = list(_rows(path))
    if not rows:
        raise InputError("holds no row", path=path, remedy="Give a file with labelled rows")
    if columns:
        rows = [(line, _renamed(row, columns, path, line)) for line, row in rows]
        format = "outspan"
    kind = _told(rows[0][1], path) if format is None else _named(format)
    records: list[Record] = []
    for line, row in rows:
        try:
            records += kind.read(row, line, path)
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise InputError(
                f"is no row of the format {kind.name}: {type(error).__name__} {error}",
                remedy="Name the format, or map the columns",
                path=path,
                line=line,
            ) from error
    return Dataset(
        name=path.stem,
        format=kind.name,
        records=tuple(records),
        digest=digest_bytes(path.read_bytes()),
        licence=kind.licence,
        labels={key: value or "undecided" for key, value in kind.labels.items()},
        caveat=kind.caveat,
    )


def _named(name: str) -> Format:
    if name not in FORMATS:
        raise InputError(f"there is no format {name!r}", remedy=f"Known: {', '.join(FORMATS)}")
    return FORMATS[name]


def _told(row: Row, path: Path) -> Format:
    """The one format whose columns the row has; several that fit are decided by the most columns."""
    fitting = [kind for kind in FORMATS.values() if kind.columns <= row.keys()]
    if not fitting:
        raise InputError(
            f"has columns of no known format: {', '.join(sorted(row))[:200]}",
            remedy=f"Name one with --format ({', '.join(FORMATS)}), or map columns with --column",
            path=path,
            line=1,
        )
    return max(fitting, key=lambda kind: len(kind.columns))


def _renamed(row: Row, columns: Mapping[str, str], path: Path, line: int) -> Row:
    missing = [theirs for theirs in columns.values() if theirs not in row]
    if missing:
        raise InputError(f"has no column {missing[0]!r}", path=path, line=line, remedy="Check the mapping")
    return {**row, **{ours: row[theirs] for ours, theirs in columns.items()}}


def _rows(path: Path) -> Iterator[tuple[int, Row]]:
    """Each row with its line, from 1."""
    ending = path.suffix.lower()
    if ending == ".csv":
        with path.open(encoding="utf-8-sig", newline="") as lines:
            yield from enumerate(csv.DictReader(lines), start=2)
    elif ending == ".parquet":
        yield from enumerate(_parquet(path), start=1)
    elif ending == ".json" and path.read_text(encoding="utf-8").lstrip().startswith(("[", "{\n", "{\r")):
        yield from enumerate(_document(path), start=1)
    else:
        for line in iter_json_lines(path):
            if line.error is not None:
                raise line.error
            if not isinstance(line.value, dict):
                raise InputError("is no JSON object", path=path, line=line.number)
            yield line.number, line.value


def _document(path: Path) -> list[Row]:
    """Rows of one JSON document: a list of objects, or an object of objects by their id."""
    try:
        value: Any = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise InputError(f"is not JSON: {error.msg}", path=path, line=error.lineno) from error
    if isinstance(value, dict):
        return [{"_key": key, **row} for key, row in value.items()]
    return list(value)


def _parquet(path: Path) -> list[Row]:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise NotInstalled("pyarrow", "parquet", "A Parquet file") from error
    rows: list[Row] = parquet.read_table(path).to_pylist()
    return rows
