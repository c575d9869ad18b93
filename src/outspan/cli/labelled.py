"""The labelled units of a measured file, as the calibration sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from outspan.calibration import Labelled
from outspan.calibration.artefact import Unit
from outspan.cli.measured import OneRegime, iter_measured
from outspan.errors import InputError
from outspan.gate.rules import distinct_evidence
from outspan.geometry.proxies import make_proxy
from outspan.measurement import State

LABELS = {"supported": False, "unsupported": True, None: None}
_ROUNDING = 1e-9


class Sample:
    """The labelled units of a file, and what a reader of it must know."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.units: list[Labelled] = []
        self.fingerprint = ""
        self.grouped = 0
        self.rows = 0

    def require_measured(self, least: float) -> None:
        """Refuse a sample of which too little was measured for a rate to mean anything.

        Raises
        ------
        InputError
            Naming how many of how many were measured.
        """
        labelled = [one for one in self.units if one.unsupported is not None]
        measured = sum(one.measured for one in labelled)
        if measured < least * len(labelled):
            raise InputError(
                f"only {measured} of {len(labelled)} labelled units were measured, less than {least:.0%}",
                path=self.path,
                remedy="Find out why from their states, or lower --min-measured",
            )

    def notes(self) -> list[str]:
        """What belongs into the artefact."""
        if self.grouped or not self.rows:
            return []
        return [
            "No row names its source (group): every row counts as a source of its own. If rows share "
            "sources, the bounds are not valid."
        ]


def read_sample(path: Path, unit: Unit, score: str, *, higher_is_outside: bool) -> Sample:
    """The units of a measured file.

    Raises
    ------
    InputError
        For rows that cannot be read, unknown labels, numbers outside the score's range, groups in some rows
        only, and, for sentences, a labelled row that holds several.
    RegimeMismatch
        For rows of several regimes.
    """
    sample, regime = Sample(path), OneRegime(path, score)
    for line, row in iter_measured(path):
        regime.take(line, row)
        sample.rows += 1
        sample.grouped += row.get("group") is not None
        if sample.grouped not in (0, sample.rows):
            remedy = "Name the source of every row, or of none"
            raise InputError(
                "some rows have a 'group' and some have none", path=path, line=line, remedy=remedy
            )
        label = _label(row, path, line)
        key = f"line {line}" if row.get("id") is None else f"id {row['id']}"
        source = key if row.get("group") is None else str(row["group"])
        found = _scores(row, score, path, line)
        if unit == "row":
            values = {key: _outermost(found, higher_is_outside)}
        else:
            _require_one(found, label, path, line)
            values = {f"{key} sentence {i}": value for i, value in enumerate(found or [None], start=1)}
        rows = max((distinct_evidence(sentence) or 0 for sentence in row["sentences"]), default=0) or None
        sample.units += [
            Labelled(key=name, source=source, unsupported=label, value=value, evidence_rows=rows)
            for name, value in values.items()
        ]
    sample.fingerprint = regime.fingerprint()
    return sample


def _label(row: Mapping[str, Any], path: Path, line: int) -> bool | None:
    label = row.get("label")
    if label is None or (isinstance(label, str) and label in LABELS):
        return LABELS[label]
    raise InputError(
        f"the label is {label!r}", path=path, line=line, remedy='Write "supported", "unsupported" or null'
    )


def _scores(row: Mapping[str, Any], score: str, path: Path, line: int) -> list[float | None]:
    """The score of each sentence that claims something; None where it was not measured."""
    low, high = (0.0, 1.0) if score == "energy" else make_proxy(score).contract.range
    found: list[float | None] = []
    for sentence in row["sentences"]:
        if sentence["state"] == State.NO_CLAIM:
            continue
        given = sentence["energy"] if score == "energy" else (sentence.get("proxies") or {}).get(score)
        if given is None or sentence["state"] != State.MEASURED:
            found.append(None)
        elif isinstance(given, int | float) and low - _ROUNDING <= given <= high + _ROUNDING:
            found.append(float(given))
        else:
            raise InputError(
                f"{score} is {given!r}, not in [{low:g}, {high:g}]",
                path=path,
                line=line,
                remedy="Measure again",
            )
    return found


def _outermost(found: Sequence[float | None], higher_is_outside: bool) -> float | None:
    """Of the measured sentences; those without a value keep a row from being accepted, not from counting."""
    numbers = [value for value in found if value is not None]
    return None if not numbers else max(numbers) if higher_is_outside else min(numbers)


def _require_one(found: Sequence[float | None], label: bool | None, path: Path, line: int) -> None:
    if label is not None and len(found) > 1:
        raise InputError(
            f"the row has one label and {len(found)} sentences, and which of them it means is not known",
            path=path,
            line=line,
            remedy="Give each sentence a row of its own, or calibrate rows with --unit row",
        )
