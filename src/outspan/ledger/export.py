"""A ledger for other tools: its bytes as JSON Lines, a table as Parquet, labelled rows for calibration."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from outspan.canonical import digest_json
from outspan.errors import InputError, NotInstalled
from outspan.ledger.chain import Entry
from outspan.ledger.store import Ledger
from outspan.measurement import State

ROWS_PER_GROUP = 1000
LABELS = {"accepted": "supported", "rejected": "unsupported"}
"""What a person's verdict on a claim says about it."""
_EXPLAINING = (State.FAILED, State.DEGENERATE, State.NO_EVIDENCE, State.NO_CLAIM)


def export_jsonl(ledger: Ledger, out: Path | BinaryIO) -> int:
    """One line an entry, ``{"digest", "entry"}``; ``entry`` is the stored bytes, so the chain can be redone.

    Returns
    -------
    int
        How many lines were written.

    Raises
    ------
    InputError
        If the file cannot be written; an earlier one of that name is then untouched.
    """
    count = 0
    with _whole(out) as stream:
        for entry in ledger.entries():
            stream.write(b'{"digest":"' + entry.digest.encode() + b'","entry":' + entry.body + b"}\n")
            count += 1
    return count


def export_parquet(ledger: Ledger, out: Path) -> int:
    """One row a decision: what people group and filter by in columns, the whole entry in ``entry`` as JSON.

    Returns
    -------
    int
        How many rows were written.

    Raises
    ------
    NotInstalled
        Without pyarrow.
    InputError
        If the file cannot be written; an earlier one of that name is then untouched.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise NotInstalled("pyarrow", "parquet", "Parquet output") from error
    text, whole, real = pa.string(), pa.int64(), pa.float64()
    columns = {"seq": whole, "time": text, "id": text, "group": text, "fingerprint": text}
    columns |= {"threshold": text, "policy": text, "outcome": text, "reason": text}
    columns |= {"accept": whole, "review": whole, "reject": whole, "no_claim": whole}
    columns |= {"claims": whole, "measured": whole, "energy_max": real, "answer": text}
    columns |= {"verdict": text, "digest": text, "entry": text}
    schema = pa.schema(list(columns.items()))
    verdicts = _verdicts(ledger)
    count = 0
    with _whole(out) as stream, pq.ParquetWriter(stream, schema, compression="zstd") as writer:
        for group in _groups(ledger.entries(kind="decision")):
            rows = [_flat(entry, verdicts.get((entry.seq, None))) for entry in group]
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))
            count += len(rows)
    return count


def _groups(entries: Iterator[Entry]) -> Iterator[list[Entry]]:
    group: list[Entry] = []
    for entry in entries:
        group.append(entry)
        if len(group) >= ROWS_PER_GROUP:
            yield group
            group = []
    if group:
        yield group


def _flat(entry: Entry, amended: Mapping[str, Any] | None) -> dict[str, Any]:
    record = entry.to_dict()
    content: Mapping[str, Any] = record["content"]
    decision = content.get("decision", {})
    claims = content.get("claims", [])
    energies = [one["energy"] for one in claims if one.get("energy") is not None]
    return {
        "seq": entry.seq,
        "time": record["time"],
        **{name: _text(content.get(name)) for name in ("id", "group", "fingerprint", "threshold", "policy")},
        "outcome": decision.get("outcome"),
        "reason": decision.get("reason"),
        **{name: decision.get("counts", {}).get(name) for name in ("accept", "review", "reject", "no_claim")},
        "claims": len(claims),
        "measured": len(energies),
        "energy_max": max(energies, default=None),
        "answer": content.get("answer", {}).get("text"),
        "verdict": None if amended is None else amended["verdict"],
        "digest": entry.digest,
        "entry": entry.body.decode("utf-8"),
    }


def _text(value: object) -> str | None:
    return None if value is None else value if isinstance(value, str) else json.dumps(value)


def export_labelled(ledger: Ledger, out: Path | BinaryIO) -> int:
    """Amended decisions as labelled rows, in the shape that ``measure`` writes and ``calibrate`` reads.

    The last verdict on an answer, or on a sentence of it, labels it; notes label nothing. A sentence becomes
    a row of its own. ``group`` is the decision's, or the digest of its evidence, so that rows that rest on
    one source are known to. Of private decisions the numbers are exported; ``claim`` and ``evidence`` are
    null.

    Returns
    -------
    int
        How many rows were written.

    Raises
    ------
    InputError
        If the file cannot be written; an earlier one of that name is then untouched.
    """
    count = 0
    with _whole(out) as stream:
        for (seq, claim), amended in sorted(
            _verdicts(ledger).items(), key=lambda item: (item[0][0], -1 if item[0][1] is None else item[0][1])
        ):
            entry = ledger.get(seq)
            if entry is None or amended["verdict"] not in LABELS:
                continue
            row = _labelled(entry, claim, amended)
            stream.write(json.dumps(row, ensure_ascii=False, allow_nan=False).encode("utf-8") + b"\n")
            count += 1
    return count


def _verdicts(ledger: Ledger) -> dict[tuple[int, int | None], Mapping[str, Any]]:
    """Decision and number of the claim (None: the answer) to the last amendment that gives a verdict."""
    found: dict[tuple[int, int | None], Mapping[str, Any]] = {}
    for entry in ledger.entries(kind="amendment"):
        content = entry.content
        if content["verdict"] in LABELS:
            found[content["of"], content["claim"]] = content
    return found


def _labelled(entry: Entry, number: int | None, amended: Mapping[str, Any]) -> dict[str, Any]:
    content = entry.content
    claims = [_undecided(one) for one in content["claims"]]
    claim = content["answer"]["text"]
    name = str(entry.seq if content.get("id") is None else content["id"])
    if number is not None:
        claims = [claims[number]]
        name = f"{name} sentence {number}"
        if claim is not None:
            start, end = claims[0]["start"], claims[0]["end"]
            claim = claim[start:end]
            claims = [_moved(claims[0], -start)]
    energies = [one["energy"] for one in claims if one["energy"] is not None]
    states = [one["state"] for one in claims]
    hidden = claim is None
    evidence = [{"id": one["id"], "text": one["text"]} for one in content["evidence"]]
    row = {
        "id": name,
        "group": content["group"] if content["group"] is not None else digest_json(_sources(content)),
        "claim": claim,
        "evidence": None if hidden else evidence,
        "label": LABELS[amended["verdict"]],
        "decision": entry.seq,
        "outcome": content["decision"]["outcome"],
        "labelled_by": amended["by"],
        "state": _state(states),
        "reason": None,
        "energy": max(energies, default=None),
        "energy_mean": sum(energies) / len(energies) if energies else None,
        "measured": len(energies),
        "sentences_total": len(claims),
        "states": {state: states.count(state) for state in dict.fromkeys(states)},
        "sentences": claims,
        "fingerprint": content["fingerprint"],
    }
    if content["proxy_fingerprints"]:
        row["proxy_fingerprints"] = content["proxy_fingerprints"]
    return row


def _sources(content: Mapping[str, Any]) -> list[str]:
    return sorted(one["digest"] for one in content["evidence"])


def _undecided(claim: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in claim.items() if name != "decision"}


def _moved(claim: dict[str, Any], by: int) -> dict[str, Any]:
    """The claim with its offsets, and those of its citations, in a text that begins elsewhere."""
    marks = [
        {**mark, "start": mark["start"] + by, "end": mark["end"] + by} for mark in claim.get("citations", [])
    ]
    return {**claim, "start": claim["start"] + by, "end": claim["end"] + by, "citations": marks}


def _state(states: list[str]) -> str:
    if State.MEASURED in states:
        return str(State.MEASURED)
    return next((str(state) for state in _EXPLAINING if state in states), str(State.NO_CLAIM))


@contextmanager
def _whole(out: Path | BinaryIO) -> Iterator[BinaryIO]:
    """A stream whose file appears under its name when all of it is written, or not at all."""
    if not isinstance(out, Path):
        yield out
        return
    partial = out.with_name(out.name + ".partial")
    try:
        with partial.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(out)
    except OSError as error:
        raise InputError(
            f"cannot be written: {error.strerror}", path=out, remedy="Name a file in a folder that exists"
        ) from error
    finally:
        partial.unlink(missing_ok=True)


FORMATS: Mapping[str, Callable[[Ledger, Path], int]] = {".jsonl": export_jsonl, ".parquet": export_parquet}
"""Ending of the file to how it is written."""
