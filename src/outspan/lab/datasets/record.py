"""The one record shape of the lab, and the cleaning that every text goes through."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from outspan.errors import InputError

Label = Literal["supported", "unsupported"]

_BLANK_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*)+")
_EDGES = re.compile(r"[ \t]*\n[ \t]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One labelled claim and what it should rest on."""

    id: str
    group: str
    """The source document; rows that share it are never on both sides of a split."""
    claim: str
    """Cleaned by :func:`clean`."""
    raw_claim: str
    """As the file has it, for the probe alone: formatting can give a label away."""
    evidence: tuple[str, ...]
    """Passages, cleaned; one for a whole source text."""
    label: Label | None
    """None where the annotation does not decide."""
    domain: str = ""
    generator: str = ""
    """Who wrote the claim; empty where unknown."""
    detectors: Mapping[str, float] = field(default_factory=dict)
    """Scores that the corpus recorded for other detectors, 1 = consistent."""
    flagged: bool = False
    """The annotators disagreed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A file of records, and what a reader of a number on them has to know."""

    name: str
    format: str
    records: tuple[Record, ...]
    digest: str
    """``sha256:`` of the file's bytes."""
    licence: str
    labels: Mapping[str, str]
    """How the corpus's own labels were read."""
    caveat: str = ""
    """What to know before a number on this set is believed."""

    @property
    def decided(self) -> tuple[Record, ...]:
        """Records with a label."""
        return tuple(record for record in self.records if record.label is not None)

    def counts(self) -> dict[str, int]:
        """Rows by label, and sources."""
        found: Counter[str] = Counter(record.label or "undecided" for record in self.records)
        wanted = ("supported", "unsupported", "undecided")
        sources = len({record.group for record in self.records})
        return {"rows": len(self.records), "sources": sources} | {name: found[name] for name in wanted}


def clean(text: str) -> str:
    """``text`` without formatting that could tell classes apart: edges, line ends, runs of blank lines.

    Paragraphs stay paragraphs, since their number is a feature that a report names.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _EDGES.sub("\n", _BLANK_LINES.sub("\n\n", text)).strip()


def make_record(
    *, id: str, group: str, claim: str, evidence: Sequence[str], label: str | None, **more: object
) -> Record:
    """A record with cleaned texts; ``label`` is of the record's own two names, or None."""
    return Record(
        id=id,
        group=group,
        claim=clean(claim),
        raw_claim=claim,
        evidence=tuple(clean(text) for text in evidence),
        label=label,  # type: ignore[arg-type]  # map_label gives no other
        **more,  # type: ignore[arg-type]
    )


def map_label(value: object, mapping: Mapping[str, str | None], *, path: object, line: int) -> str | None:
    """The record's label for a corpus label.

    Raises
    ------
    InputError
        For a label that the mapping does not know: a guess would turn into a figure.
    """
    key = str(value)
    if key not in mapping:
        raise InputError(
            f"unknown label {key[:60]!r}",
            remedy=f"Known: {', '.join(sorted(mapping))}",
            path=str(path),
            line=line,
        )
    return mapping[key]
