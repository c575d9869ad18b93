"""The threshold artefact: two cuts, what was promised of them, on what evidence, in which regime.

A threshold is worth what its provenance is worth. The artefact is a value with a digest, so that a decision
can name the one that it was made with, and it refuses another regime than its own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeAlias

from outspan.canonical import canonical_json, digest_json
from outspan.errors import InputError, RegimeMismatch
from outspan.measurement import Regime

KIND = "outspan.threshold"
VERSION = 1
TOLERANCE = 1e-5
"""A value nearer to a threshold than this is a review: no decision hangs on the rounding of one machine."""

RiskName: TypeAlias = Literal["false_acceptance", "selective"]
Unit: TypeAlias = Literal["row", "sentence"]
Side: TypeAlias = Literal["accept", "review", "reject"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Risk:
    """A rate that is bounded: how often the event happens, given the condition."""

    name: str
    event: str
    condition: str
    words: str
    """The promise as a sentence."""

    def to_dict(self) -> dict[str, object]:
        """Every field by name, as JSON."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


FALSE_ACCEPTANCE = Risk(
    name="false_acceptance",
    event="accepted",
    condition="unsupported and measured",
    words=(
        "Take a new source that holds an unsupported, measured claim, and one such claim of it at random: "
        "the chance that it is accepted is at most α, with confidence 1 − δ in the calibration."
    ),
)
SELECTIVE = Risk(
    name="selective",
    event="unsupported",
    condition="accepted",
    words=(
        "Take a new source and one labelled, measured claim of it at random: if it is accepted, the chance "
        "that it is unsupported is at most α, with confidence 1 − δ in the calibration, and only while the "
        "share of unsupported claims stays what it was in the calibration data."
    ),
)
FALSE_REJECTION = Risk(
    name="false_rejection",
    event="rejected",
    condition="supported and measured",
    words=(
        "Take a new source that holds a supported, measured claim, and one such claim of it at random: "
        "the chance that it is rejected is at most β, with confidence 1 − δ in the calibration."
    ),
)
RISKS: Mapping[str, Risk] = {risk.name: risk for risk in (FALSE_ACCEPTANCE, SELECTIVE, FALSE_REJECTION)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What one cut is promised to keep, and the evidence for it."""

    risk: Risk
    budget: float
    """α or β, in (0, 1): the largest rate that is allowed."""
    rows: int
    """Labelled, measured units of the class that the condition names."""
    sources: int
    """Their sources; one unit of each was drawn, and these are the trials of the test."""
    trials: int
    """At the chosen cut: all sources, or, for the selective risk, those whose drawn unit is accepted."""
    events: int
    """Trials at which the event happened."""
    level: float
    """Level of the test at this cut, in (0, 1): δ, or a share of it where several cuts were tried at once."""
    p_value: float
    """Chance of so few events if the rate were the budget: P[Bin(trials, budget) ≤ events]."""
    upper: float
    """Clopper–Pearson upper bound at confidence 1 − level, in (0, 1]."""

    @property
    def observed(self) -> float | None:
        """Events per trial; None without a trial."""
        return self.events / self.trials if self.trials else None

    def to_dict(self) -> dict[str, object]:
        """Every field by name, as JSON."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        return {**plain, "risk": self.risk.to_dict()}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Bound:
        """The inverse of :meth:`to_dict`."""
        given = {f.name: record[f.name] for f in fields(cls)}
        for name in ("budget", "level", "p_value", "upper"):
            given[name] = float(given[name])
        return cls(**{**given, "risk": Risk(**record["risk"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """Where acceptance ends and rejection begins, for one score in one regime.

    Raises
    ------
    ValueError
        For cuts that are not finite, cross each other, or a negative tolerance.
    """

    score: str
    """``energy`` or the name of a proxy, as in a measurement's ``proxies``."""
    higher_is_outside: bool
    """True for energy-like scores; False for similarities, whose accepted side is the upper one."""
    unit: Unit
    """``row``: the value is the outermost of a row's sentences; ``sentence``: of the sentence itself."""
    accept: float | None
    """Values inside it by more than the tolerance are accepted; None accepts nothing."""
    reject: float | None
    """Values outside it by more than the tolerance are rejected; None rejects nothing."""
    delta: float
    """In (0, 1): how often a calibration may break its promise; each of the two promises by itself."""
    accept_bound: Bound | None
    reject_bound: Bound | None
    fingerprint: str
    """Of the regime in which the score was measured."""
    regime: Mapping[str, object]
    """The regime's parts; empty where the measured file did not come with them."""
    data_digest: str
    """``sha256:`` over the bytes of the measured file."""
    counts: Mapping[str, int]
    """Rows and units of the file, by what became of them."""
    seed: int
    """Of the draw of one unit a source."""
    package: str
    """Version of outspan that made it."""
    created: str
    """UTC, ISO 8601."""
    tolerance: float = TOLERANCE
    notes: tuple[str, ...] = field(default=())
    """What a reader must know before using it."""

    def __post_init__(self) -> None:
        for name, cut in (("accept", self.accept), ("reject", self.reject)):
            if cut is not None and not math.isfinite(cut):
                raise ValueError(f"{name} is {cut}, not a finite number")
        if not 0.0 <= self.tolerance < math.inf:
            raise ValueError(f"tolerance must be finite and not negative, not {self.tolerance}")
        accept, reject = self.accept, self.reject
        if accept is not None and reject is not None and self._outward(reject) < self._outward(accept):
            raise ValueError(f"reject {self.reject} lies on the accepted side of accept {self.accept}")

    def _outward(self, value: float) -> float:
        """The value, turned so that larger is further outside the evidence."""
        return value if self.higher_is_outside else -value

    def side(self, value: float | None) -> Side:
        """``accept``, ``review`` or ``reject``: the rule whose error rates were calibrated, in one place.

        Accepted is what lies inside ``accept`` by more than the tolerance, rejected what lies outside
        ``reject`` by more than it. No value, or one that is not finite, is a review.
        """
        if value is None or not math.isfinite(value):
            return "review"
        outward = self._outward(value)
        if self.accept is not None and outward < self._outward(self.accept) - self.tolerance:
            return "accept"
        if self.reject is not None and outward > self._outward(self.reject) + self.tolerance:
            return "reject"
        return "review"

    def near(self, value: float) -> bool:
        """Whether the value lies within the tolerance of one of the cuts."""
        return any(
            cut is not None and abs(value - cut) <= self.tolerance for cut in (self.accept, self.reject)
        )

    def require(self, fingerprint: str, regime: Mapping[str, object] | None = None) -> None:
        """Refuse another regime than the one of the calibration.

        Raises
        ------
        RegimeMismatch
            With every part that differs, as far as the parts of both are known.
        """
        if fingerprint == self.fingerprint:
            return
        raise RegimeMismatch(
            f"the threshold on {self.score} was calibrated in another regime: "
            f"{describe_difference(self.regime, regime, self.fingerprint, fingerprint)}. "
            "Measure with the settings of the calibration, or calibrate anew"
        )

    @property
    def digest(self) -> str:
        """``sha256:`` over the canonical form of :meth:`to_dict`."""
        return digest_json(self.to_dict())

    def to_dict(self) -> dict[str, object]:
        """The artefact with JSON types; :meth:`from_dict` gives an equal object back."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        return {
            "kind": KIND,
            "version": VERSION,
            **plain,
            "accept_bound": None if self.accept_bound is None else self.accept_bound.to_dict(),
            "reject_bound": None if self.reject_bound is None else self.reject_bound.to_dict(),
            "regime": Regime(self.regime).to_dict(),
            "counts": dict(self.counts),
            "notes": list(self.notes),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Threshold:
        """The inverse of :meth:`to_dict`; a ``digest`` that is there must agree.

        Raises
        ------
        ValueError
            For another kind or version, a missing field, or a digest that is not that of the content.
        """
        if record.get("kind") != KIND or record.get("version") != VERSION:
            raise ValueError(f"is no threshold of version {VERSION}: its kind is {record.get('kind')!r}")
        names = {f.name for f in fields(cls)}
        missing = names - record.keys()
        if missing:
            raise ValueError(f"lacks {', '.join(sorted(missing))}")
        given = {name: record[name] for name in names}
        for name in ("accept", "reject", "delta", "tolerance"):
            given[name] = None if given[name] is None else float(given[name])
        for name in ("accept_bound", "reject_bound"):
            given[name] = None if given[name] is None else Bound.from_dict(given[name])
        made = cls(**{**given, "notes": tuple(given["notes"])})
        if "digest" in record and record["digest"] != made.digest:
            raise ValueError("was changed after it was written: its digest is not that of its content")
        return made


def describe_difference(
    ours: Mapping[str, object], theirs: Mapping[str, object] | None, our_name: str, their_name: str
) -> str:
    """Where two regimes part, in one clause; their fingerprints where the parts are not known."""
    if ours and theirs:
        parts = Regime(ours).difference(Regime(theirs))
        if parts:
            return "; ".join(f"{name} was {one!r}, is {other!r}" for name, (one, other) in parts.items())
    return f"its fingerprint is {our_name}, not {their_name} (the parts of one of them are not known)"


def write_threshold(threshold: Threshold, path: Path | str) -> None:
    """Write the artefact with its digest, as canonical JSON and a line end.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    try:
        Path(path).write_bytes(canonical_json({**threshold.to_dict(), "digest": threshold.digest}) + b"\n")
    except OSError as error:
        raise InputError(
            f"cannot be written: {error.strerror}", path=path, remedy="Name a file in a folder that exists"
        ) from error


def read_threshold(path: Path | str) -> Threshold:
    """The artefact in a file.

    Raises
    ------
    InputError
        For a file that cannot be read, is no threshold, or was changed since it was written.
    """
    remedy = "Make it with outspan calibrate"
    try:
        record = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path, remedy=remedy) from error
    except ValueError as error:  # no JSON, or no UTF-8
        raise InputError(f"is not JSON: {error}", path=path, remedy=remedy) from error
    if not isinstance(record, dict):
        raise InputError("is not a JSON object", path=path, remedy=remedy)
    try:
        return Threshold.from_dict(record)
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(str(error), path=path, remedy=remedy) from error
