"""From the rows of a run to Parquet, in two passes over the finished JSON Lines and in bounded memory.

The results have a fixed schema, made from the record types. A column of the input becomes strings, booleans,
integers or floats where every value of it in the file is one (or null), and JSON text everywhere else, marked
as such in the field's metadata (``encoding: json``). So nothing is lost, whatever the rows hold.
"""

from __future__ import annotations

import importlib.util
import json
import os
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from outspan.bulk.rows import RESULT_COLUMNS, encode
from outspan.claims import Claim
from outspan.errors import NotInstalled
from outspan.measurement import Measurement, Reading, State

ROWS_PER_GROUP = 1000
BYTES_PER_GROUP = 8 * 1024 * 1024
JSON_METADATA = {b"encoding": b"json"}
_CLAIM_FIELDS = ("start", "end", "kind", "context", "citations")
_EXACT = 2**53  # integers beyond it would change on their way through a float
_INT64 = 2**63


def require_parquet() -> None:
    """Raise :class:`NotInstalled` without pyarrow; does not import it."""
    if importlib.util.find_spec("pyarrow") is None:
        raise NotInstalled("pyarrow", "parquet", "Parquet output")


def write_parquet(rows: Path, out: Path, *, proxies: Sequence[str] = (), sensors: Sequence[str] = ()) -> None:
    """Write the rows of a finished run as Parquet, in order, and force them to disk.

    Parameters
    ----------
    rows : JSON Lines as :func:`outspan.bulk.measure_file` writes them.
    out : the file to write; the caller gives it its final name.
    proxies : names of the proxies that were measured.
    sensors : names of the sensors that were asked beside the energy.

    Raises
    ------
    NotInstalled
        Without pyarrow.
    """
    require_parquet()
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = _schema(pa, _input_types(rows), proxies, sensors)
    with out.open("wb") as stream:
        with pq.ParquetWriter(stream, schema, compression="zstd") as writer:
            for group in _groups(rows):
                fitted = [{field.name: _fit(row.get(field.name), field) for field in schema} for row in group]
                writer.write_table(pa.Table.from_pylist(fitted, schema=schema))
        stream.flush()
        os.fsync(stream.fileno())


def _row(line: bytes) -> dict[str, Any]:
    """A row as it was written; in what Arrow must hold as text, lone surrogates become their escapes.

    Values of other columns are left alone: those with a lone surrogate become JSON text, which has escapes.
    """
    row: dict[str, Any] = json.loads(line)
    if b"\\ud" not in line:
        return row
    return {
        _escaped(name): _escaped(value) if name in RESULT_COLUMNS else value for name, value in row.items()
    }


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", errors="backslashreplace").decode()
    if isinstance(value, list):
        return [_escaped(one) for one in value]
    if isinstance(value, dict):
        return {_escaped(name): _escaped(one) for name, one in value.items()}
    return value


def _groups(rows: Path) -> Iterator[list[dict[str, Any]]]:
    group: list[dict[str, Any]] = []
    size = 0
    with rows.open("rb") as stream:
        for line in stream:
            group.append(_row(line))
            size += len(line)
            if len(group) >= ROWS_PER_GROUP or size >= BYTES_PER_GROUP:
                yield group
                group, size = [], 0
    if group:
        yield group


def _input_types(rows: Path) -> dict[str, str]:
    """Column of the input to ``string``, ``bool``, ``int64``, ``float64``, ``json`` or ``null``, in order."""
    found: dict[str, str] = {}
    with rows.open("rb") as stream:
        for line in stream:
            for name, value in _row(line).items():
                if name not in RESULT_COLUMNS:
                    found[name] = _join(found.get(name, "null"), _type_name(value))
    return found


def _type_name(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "exact" if abs(value) <= _EXACT else "int64" if -_INT64 <= value < _INT64 else "json"
    return (
        "string"
        if isinstance(value, str) and _is_utf8(value)
        else "float64"
        if isinstance(value, float)
        else "json"
    )


def _is_utf8(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _join(one: str, other: str) -> str:
    """The narrowest type that holds both without loss."""
    if other in (one, "null"):
        return one
    if one == "null":
        return other
    pair = {one, other}
    # A row of 1 and 1.0 is one of floats, but an integer that a float cannot hold keeps its digits as text.
    return "int64" if pair == {"exact", "int64"} else "float64" if pair == {"exact", "float64"} else "json"


def _schema(pa: Any, input_types: Mapping[str, str], proxies: Sequence[str], sensors: Sequence[str]) -> Any:
    plain = {"string": pa.string(), "bool": pa.bool_(), "float64": pa.float64(), "null": pa.string()}
    plain |= {"int64": pa.int64(), "exact": pa.int64()}
    ours = {
        "state": pa.string(),
        "reason": pa.string(),
        "energy": pa.float64(),
        "energy_mean": pa.float64(),
        "measured": pa.int64(),
        "sentences_total": pa.int64(),
        "states": pa.struct([(str(state), pa.int64()) for state in State]),
        "sentences": pa.list_(_sentence_type(pa, proxies, sensors)),
        "fingerprint": pa.string(),
    }
    if proxies:
        ours["proxy_fingerprints"] = pa.struct([(name, pa.string()) for name in proxies])
    if sensors:
        ours["sensor_fingerprints"] = pa.struct([(name, pa.string()) for name in sensors])
    given = [
        pa.field(name, pa.string(), metadata=JSON_METADATA) if kind == "json" else pa.field(name, plain[kind])
        for name, kind in input_types.items()
    ]
    return pa.schema([*given, *(pa.field(name, kind) for name, kind in ours.items())])


def _sentence_type(pa: Any, proxies: Sequence[str], sensors: Sequence[str]) -> Any:
    claim, measured = _hints(Claim), _hints(Measurement)
    members = [("text", pa.string())]
    members += [(name, _arrow(pa, claim[name])) for name in _CLAIM_FIELDS]
    for name in measured:
        if name == "proxies":
            if proxies:
                members.append((name, pa.struct([(proxy, pa.float64()) for proxy in proxies])))
        elif name == "sensors":
            if sensors:
                reading = _arrow(pa, Reading)
                members.append((name, pa.struct([(sensor, reading) for sensor in sensors])))
        elif name != "text":
            members.append((name, _arrow(pa, measured[name])))
    return pa.struct(members)


def _hints(record: type) -> dict[str, Any]:
    hints = get_type_hints(record)
    return {field.name: hints[field.name] for field in fields(record)}


def _arrow(pa: Any, hint: Any) -> Any:
    """The Arrow type of an annotation in a record."""
    scalars = {float: pa.float64(), int: pa.int64(), str: pa.string(), bool: pa.bool_()}
    if hint in scalars:
        return scalars[hint]
    origin, arguments = get_origin(hint), [one for one in get_args(hint) if one is not types.NoneType]
    if origin in (Union, types.UnionType):
        return _arrow(pa, arguments[0])
    if origin is tuple:
        return pa.list_(_arrow(pa, arguments[0]))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return pa.string()
    if isinstance(hint, type) and is_dataclass(hint):
        return pa.struct([(name, _arrow(pa, one)) for name, one in _hints(hint).items()])
    if origin is not None and issubclass(origin, Mapping):
        return pa.map_(pa.string(), _arrow(pa, arguments[1]))
    raise TypeError(f"no Arrow type for {hint!r}")


def _fit(value: Any, field: Any) -> Any:
    """A column's value in the shape that Arrow takes."""
    if field.metadata and field.metadata.get(b"encoding") == b"json":
        return None if value is None else encode(value)
    return _shape(value, field.type)


def _shape(value: Any, kind: Any) -> Any:
    """Lists of pairs for maps; a member that the schema does not know is an error rather than a loss."""
    import pyarrow.types as pat

    if value is None:
        return None
    if pat.is_map(kind):
        return list(value.items())
    if pat.is_list(kind):
        return [_shape(one, kind.value_type) for one in value]
    if pat.is_struct(kind):
        types_of = {kind.field(i).name: kind.field(i).type for i in range(kind.num_fields)}
        unknown = value.keys() - types_of.keys()
        if unknown:
            raise TypeError(f"no column for {sorted(unknown)}")
        return {name: _shape(value.get(name), one) for name, one in types_of.items()}
    return value
