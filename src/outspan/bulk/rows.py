"""From a line of the input to what is measured, and from measurements to a row of the output."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal, TypeAlias

from outspan.checker import CheckedClaim
from outspan.claims import Claim, split_claims, whole_claim
from outspan.errors import InputError
from outspan.evidence import EvidenceSet
from outspan.files import JsonLine, json_name
from outspan.measurement import Measurement, State, Tally, tally

Unit: TypeAlias = Literal["sentences", "whole"]

RESULT_COLUMNS = (
    "state",
    "reason",
    "energy",
    "energy_mean",
    "measured",
    "sentences_total",
    "states",
    "sentences",
    "fingerprint",
    "proxy_fingerprints",
    "sensor_fingerprints",
)
"""What a row gets, behind its own columns; the last two only where proxies or sensors were asked for."""

RENAMED = "input."
"""Prefix for a column of the input that has the name of a result, so that neither is lost."""

EXPLAINING = (State.FAILED, State.DEGENERATE, State.NO_EVIDENCE, State.NO_CLAIM)
"""Which state stands for a row without any measured sentence: the first that occurs, gravest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row that can be measured."""

    line: int
    kept: str
    """The columns of the input as the JSON object that will be written; parsed columns are not held."""
    claims: tuple[Claim, ...]
    evidence: EvidenceSet

    def texts(self) -> Iterator[str]:
        """What must be embedded for this row."""
        claims = [claim.core for claim in self.claims if claim.unmeasured is None]
        if claims and self.evidence.sentences:
            yield from claims
            yield from (sentence.core for sentence in self.evidence.sentences)


class EvidenceShelf:
    """Keeps the evidence sets of recent rows, since neighbouring rows often share their source.

    Bounded by the sentences it holds; the least recently used set goes first.
    """

    def __init__(self, max_sentences: int = 20_000) -> None:
        self._max = max_sentences
        self._sets: OrderedDict[bytes, EvidenceSet] = OrderedDict()
        self._held = 0

    def get(self, evidence: Sequence[object] | str) -> EvidenceSet:
        """The evidence set of these items, made only if it is not on the shelf.

        Raises
        ------
        ValueError
            For an item that is no evidence.
        """
        key = sha256(json.dumps(evidence).encode()).digest()
        if key in self._sets:
            self._sets.move_to_end(key)
            return self._sets[key]
        made = EvidenceSet.of(evidence)  # type: ignore[arg-type]  # it checks each item, and says which is wrong
        self._sets[key] = made
        self._held += _size(made)
        while self._held > self._max:
            _, dropped = self._sets.popitem(last=False)
            self._held -= _size(dropped)
        return made


def _size(evidence: EvidenceSet) -> int:
    return 1 + len(evidence.sentences) + len(evidence.left_out)


def read_row(line: JsonLine, *, unit: Unit, shelf: EvidenceShelf) -> Row:
    """What is to be measured in one line.

    Raises
    ------
    InputError
        For a line that is not a row; it carries the problem and the remedy.
    """
    if line.error is not None:
        raise line.error
    record = line.value
    if not isinstance(record, dict):
        # People hand in one JSON array, pretty-printed or not; the remedy for that is always the same.
        array = isinstance(record, list)
        raise InputError(
            "the line is not a JSON object",
            remedy="Write one object a line" + (", for example with: jq -c '.[]'" if array else ""),
        )
    try:
        kept = encode(_renamed(record))
    except RecursionError as error:
        raise InputError("the JSON is nested too deeply to be written back", remedy="Flatten it") from error
    claim = _claim(record)
    evidence = _evidence(record, shelf)
    claims = split_claims(claim) if unit == "sentences" else [whole_claim(claim)]
    return Row(line=line.number, kept=kept, claims=tuple(claims), evidence=evidence)


def _claim(record: Mapping[str, object]) -> str:
    if "claim" not in record:
        raise InputError("the row has no 'claim'", remedy="Put the text to be measured under 'claim'")
    claim = record["claim"]
    if not isinstance(claim, str):
        raise InputError(
            f"'claim' is {json_name(claim)}, not a string",
            remedy='Write a string; "" is a row without a claim',
        )
    return claim


def _evidence(record: Mapping[str, object], shelf: EvidenceShelf) -> EvidenceSet:
    if "evidence" not in record and "source" not in record:
        columns = ", ".join(sorted(record)[:12])
        raise InputError(
            f"the row has neither 'evidence' nor 'source'; its columns are {columns}",
            remedy="Put a list of texts under 'evidence' or one text under 'source'; [] where there is none",
        )
    evidence, source = record.get("evidence"), record.get("source")
    if evidence is not None and not isinstance(evidence, list):
        raise InputError(
            f"'evidence' is {json_name(evidence)}, not a list",
            remedy="Write a list of strings or of objects with 'text'; a single text goes under 'source'",
        )
    if source is not None and not isinstance(source, str):
        raise InputError(
            f"'source' is {json_name(source)}, not a string", remedy="Put a list of texts under 'evidence'"
        )
    if evidence and source:
        raise InputError(
            "both 'evidence' and 'source' are filled",
            remedy="Keep the one that the claim is to be measured against, and set the other to null",
        )
    try:
        return shelf.get(evidence or source or [])
    except ValueError as error:
        raise InputError(
            str(error), remedy="Write a string, or an object with 'text' and perhaps 'id'"
        ) from error


def _renamed(record: Mapping[str, object]) -> dict[str, object]:
    renamed: dict[str, object] = {}
    for name, value in record.items():
        free = name
        while free in RESULT_COLUMNS or free in renamed or (free != name and free in record):
            free = RENAMED + free
        renamed[free] = value
    return renamed


def result_line(
    row: Row,
    measurements: Sequence[Measurement],
    fingerprint: str,
    proxy_fingerprints: Mapping[str, str],
    sensor_fingerprints: Mapping[str, str],
) -> tuple[str, State, Tally]:
    """The row of the output as JSON text, with its state and the tally of its sentences."""
    counted = tally(measurements)
    state, reason = _row_state(measurements)
    checked = [
        CheckedClaim(claim=claim, measurement=one).to_dict()
        for claim, one in zip(row.claims, measurements, strict=True)
    ]
    values = (
        str(state),
        reason,
        counted.energy_max,
        counted.energy_mean,
        counted.measured,
        counted.total,
        dict(counted.states),
        checked,
        fingerprint,
        dict(proxy_fingerprints),
        dict(sensor_fingerprints),
    )
    results = dict(zip(RESULT_COLUMNS, values, strict=True))
    for name in ("proxy_fingerprints", "sensor_fingerprints"):
        if not results[name]:
            del results[name]
    ours = encode(results)
    comma = ", " if len(row.kept) > 2 else ""
    return f"{row.kept[:-1]}{comma}{ours[1:]}\n", state, counted


def _row_state(measurements: Sequence[Measurement]) -> tuple[State, str | None]:
    if not measurements:
        return State.NO_CLAIM, "empty"
    if any(one.state is State.MEASURED for one in measurements):
        return State.MEASURED, None
    first = min(measurements, key=lambda one: EXPLAINING.index(one.state))
    return first.state, first.reason


def error_line(line: JsonLine, error: InputError) -> str:
    """The record of a bad row as JSON text; ``row`` is the beginning of the line, to find it by."""
    return (
        encode({"line": line.number, "error": error.problem, "remedy": error.remedy, "row": line.excerpt})
        + "\n"
    )


def encode(value: object) -> str:
    r"""JSON text without NaN. A lone surrogate, which UTF-8 cannot hold, is written as its ``\u`` escape."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, ensure_ascii=True, allow_nan=False)
    return text
