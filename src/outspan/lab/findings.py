"""Findings: one row a number, appended and never changed; reports are made from these rows alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import outspan
from outspan.errors import InputError
from outspan.files import iter_json_lines
from outspan.lab.metrics import Estimate

FILE = "findings.jsonl"
_SHOWS_ONLY = ("report.py", "reproduce.py")
"""Files of the lab that make no row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What every row of one set and one run shares."""

    set: str
    dataset_digest: str
    format: str
    licence: str
    regime: str
    """Fingerprint of the regime of the energy."""
    seed: int
    draws: int
    code: str
    command: str

    @property
    def run(self) -> str:
        """Key of the run: rows with one key were made from the same bytes by the same code."""
        parts = (self.dataset_digest, self.regime, str(self.seed), str(self.draws), self.code)
        return sha256("\n".join(parts).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One number, or the reason why there is none."""

    table: str
    """Where it stands: ``probe``, ``singles``, ``bundles``, ``operating``, ``not_run``, …"""
    name: str
    metric: str
    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0
    """Rows measured."""
    of: int = 0
    """Rows with a label."""
    sources: int = 0
    split: str = "none"
    """How training and test rows were parted; ``none`` where nothing was trained."""
    form: str = "single"
    """``single`` scalar, ``bundle`` of features, ``text`` alone, or ``recorded`` by another detector."""
    note: str = ""
    points: Sequence[Sequence[float]] = field(default=())
    """A curve, where the row is one."""


def row_of(finding: Finding, context: Context) -> dict[str, Any]:
    """The row as it is written."""
    about = asdict(context) | {"run": context.run}
    return about | asdict(finding) | {"points": [list(point) for point in finding.points]}


def from_estimate(one: Estimate, **about: Any) -> Finding:
    """A finding with the estimate's value and interval."""
    return Finding(value=one.value, low=one.low, high=one.high, **about)


@lru_cache(maxsize=1)
def code_version() -> str:
    """The package's version and a digest of its sources: code makes a figure, not a version number."""
    root = Path(outspan.__file__).parent
    found = sha256()
    for part in ("lab", "geometry", "texts"):
        for path in sorted((root / part).rglob("*.py")):
            if path.name in _SHOWS_ONLY:
                continue
            found.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return f"{outspan.__version__}+src.{found.hexdigest()[:12]}"


def append(folder: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Add rows to the folder's file, all at once; NaN is refused."""
    lines = "".join(json.dumps(row, allow_nan=False, sort_keys=True) + "\n" for row in rows)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / FILE).open("a", encoding="utf-8") as out:
        out.write(lines)


def read(folder: Path) -> list[dict[str, Any]]:
    """Every row of the folder, oldest first.

    Raises
    ------
    InputError
        When the folder has no findings, or a line of them cannot be read.
    """
    rows = []
    for line in iter_json_lines(folder / FILE):
        if line.error is not None:
            raise line.error
        if not isinstance(line.value, dict) or "run" not in line.value or "table" not in line.value:
            raise InputError("is no finding", path=folder / FILE, line=line.number)
        rows.append(line.value)
    return rows


def latest(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Rows of the last run of each set; runs that were not finished do not count."""
    last = {row["set"]: row["run"] for row in rows if row["table"] == "done"}
    return [row for row in rows if last.get(row["set"]) == row["run"] and row["table"] != "done"]
