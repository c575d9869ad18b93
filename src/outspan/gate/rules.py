"""The kinds of rules a policy is made of, and how each looks at a claim.

A rule looks at one claim record, as ``check`` and ``measure`` write it, and answers yes, no, or that it
cannot be evaluated. It never guesses: a missing field, another type or a number that is not finite is the
third answer, and the gate makes a review of it.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Protocol, TypeAlias

from outspan.calibration import Threshold
from outspan.measurement import Diagnostics, EvidenceUse, State

Claim: TypeAlias = Mapping[str, object]
"""A claim record: one of ``claims`` of a check, or of ``sentences`` of a measured row."""


class Outcome(StrEnum):
    """What becomes of a claim or an answer. ``no_claim`` is none of the three: nothing was claimed."""

    ACCEPT = "accept"
    REVIEW = "review"
    REJECT = "reject"
    NO_CLAIM = "no_claim"


SIDES = ("accept", "review", "reject")

KNOWN_FLAGS = frozenset(
    {
        "truncated",
        "evidence_truncated",
        "evidence_incomplete",
        "approximate",
        "cap_bound",
        "unstable_subspace",
    }
)
"""Flags of the energy sensor. One that is not listed is a warning that this version cannot read."""

_TOP_NUMBERS = ("energy", "explained", "rank", "numeric_rank")
_NUMBERS = frozenset(
    [*_TOP_NUMBERS, "nearest.similarity"]
    + [f"diagnostics.{f.name}" for f in fields(Diagnostics) if f.name != "leans_on"]
    + [f"evidence.{f.name}" for f in fields(EvidenceUse) if f.name != "left_out"]
)
_OPEN_PREFIXES = ("proxies.", "sensors.")
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")
"""A word; in scripts that put no space between words, a letter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a rule saw."""

    matched: bool | None
    """None where the rule could not be evaluated."""
    inputs: Mapping[str, object]
    """What it looked at, as JSON; never NaN."""
    reason: str


class Kind(Protocol):
    """One kind of rule: built from the table of a policy file, then asked about claims."""

    def look(self, claim: Claim, threshold: Threshold) -> Finding:
        """Whether the rule matches, what it looked at, and why."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A named rule and the outcome it leads to."""

    name: str
    kind: str
    then: Outcome
    test: Kind


class Table:
    """The keys of one rule while it is read; what is left over at the end is an error."""

    def __init__(
        self,
        values: Mapping[str, object],
        parameters: Mapping[str, float],
        percentile: Callable[[float], float],
    ) -> None:
        self._values = dict(values)
        self._parameters = parameters
        self.percentile = percentile

    def text(self, key: str, default: str | None = None) -> str:
        """A string that is not empty."""
        value = self._values.pop(key, default)
        if not isinstance(value, str) or not value.strip():
            raise ValueError(f"{key} must be a text")
        return value

    def names(self, key: str, known: Collection[str] | None = None) -> tuple[str, ...]:
        """A list of strings that is not empty; with ``known``, of these and no others."""
        value = self._values.pop(key, None)
        if not (isinstance(value, list) and value and all(isinstance(one, str) for one in value)):
            raise ValueError(f"{key} must be a list of texts with at least one in it")
        unknown = [] if known is None else [one for one in value if one not in known]
        if unknown:
            raise ValueError(f"{key} names {unknown[0]!r}; known are {', '.join(sorted(known or ()))}")
        return tuple(value)

    def number(self, key: str) -> float | None:
        """A finite number, or the value of the parameter that is named in its place; None if absent."""
        value = self._values.pop(key, None)
        if isinstance(value, str):
            if value not in self._parameters:
                raise ValueError(
                    f"{key} names the parameter {value!r}, which has no value. Give it one under "
                    f"[parameters], or with --set {value}=NUMBER: the package ships none"
                )
            value = self._parameters[value]
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError(f"{key} must be a finite number or the name of a parameter, not {value!r}")
        return float(value)

    def has(self, key: str) -> bool:
        """Whether the key is there and not yet read."""
        return key in self._values

    def finish(self) -> None:
        """Refuse keys that nobody read: a misspelt condition would silently never hold."""
        if self._values:
            raise ValueError(f"does not know the key {', '.join(map(repr, sorted(self._values)))}")


def number_at(record: Mapping[str, object], path: str) -> float | str:
    """The finite number at a dotted path, or in words why there is none."""
    value: object = record
    # Names of proxies can hold dots (``local_span(k=0.5)``), so the rest of the path is tried as one name.
    rest = path
    while rest:
        if not isinstance(value, Mapping):
            return f"{path} is missing"
        if rest in value:
            value, rest = value[rest], ""
            continue
        head, dot, rest = rest.partition(".")
        if not dot or head not in value:
            return f"{path} is missing"
        value = value[head]
    if value is None:
        return f"{path} has no value"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"{path} is not a number"
    return float(value) if math.isfinite(value) else f"{path} is not finite"


def distinct_evidence(claim: Claim) -> int | None:
    """How many different evidence sentences a claim had; None where the record does not say."""
    evidence = claim.get("evidence")
    if not isinstance(evidence, Mapping):
        return None
    found, merged = evidence.get("sentences"), evidence.get("merged")
    if isinstance(found, bool) or isinstance(merged, bool):
        return None
    return found - merged if isinstance(found, int) and isinstance(merged, int) else None


def score_of(claim: Claim, threshold: Threshold) -> float | str:
    """The number that the threshold speaks about, or in words why there is none."""
    name = threshold.score
    found = number_at(claim, "energy" if name == "energy" else f"proxies.{name}")
    if isinstance(found, float) and name == "energy" and not 0.0 <= found <= 1.0:
        return f"energy {found!r} is outside [0, 1]"
    return found


def flags_of(record: Mapping[str, object]) -> list[str] | str:
    """The flags of a claim or of a sensor's result, or in words why they cannot be read."""
    flags = record.get("flags")
    if not isinstance(flags, list) or not all(isinstance(flag, str) for flag in flags):
        return "flags are missing"
    return flags


def _unknown(inputs: Mapping[str, object], why: str) -> Finding:
    return Finding(matched=None, inputs=inputs, reason=why)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRule:
    """The state is one of ``in``, or is none of ``not_in``."""

    among: tuple[str, ...]

    @classmethod
    def read(cls, table: Table) -> StateRule:
        known = [str(state) for state in State]
        if table.has("in") == table.has("not_in"):
            raise ValueError("needs either in or not_in")
        if table.has("in"):
            return cls(among=table.names("in", known))
        other = table.names("not_in", known)
        return cls(among=tuple(state for state in known if state not in other))

    def look(self, claim: Claim, threshold: Threshold) -> Finding:  # noqa: ARG002  one shape for all kinds
        state = claim.get("state")
        if state not in list(State):
            return _unknown({"state": state if isinstance(state, str) else None}, "the state is not known")
        return Finding(matched=state in self.among, inputs={"state": state}, reason=f"the state is {state}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdRule:
    """The score lies on a side of the calibrated threshold; within the tolerance of a cut is review."""

    side: str

    @classmethod
    def read(cls, table: Table) -> ThresholdRule:
        side = table.text("side")
        if side not in SIDES:
            raise ValueError(f"side is {side!r}; known are accept, review, reject")
        return cls(side=side)

    def look(self, claim: Claim, threshold: Threshold) -> Finding:
        score = score_of(claim, threshold)
        inputs: dict[str, object] = {
            "score": threshold.score,
            "value": None if isinstance(score, str) else score,
            "accept": threshold.accept,
            "reject": threshold.reject,
            "tolerance": threshold.tolerance,
        }
        if isinstance(score, str):
            return _unknown(inputs, score)
        side = threshold.side(score)
        return Finding(matched=side == self.side, inputs=inputs, reason=_placed(score, side, threshold))


def _placed(score: float, side: str, threshold: Threshold) -> str:
    value = f"{threshold.score} {score:.6g}"
    if threshold.near(score):
        return f"{value} is within {threshold.tolerance:g} of a threshold: rounding must not decide"
    accept, reject = ("none" if cut is None else f"{cut:.6g}" for cut in (threshold.accept, threshold.reject))
    where = {"accept": "inside accept", "reject": "outside reject"}
    if side == "review":
        return f"{value} is neither inside accept {accept} nor outside reject {reject}"
    return f"{value} is {where[side]} {accept if side == 'accept' else reject}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NearRule:
    """The score lies within ``band`` of the accept or the reject threshold."""

    band: float

    @classmethod
    def read(cls, table: Table) -> NearRule:
        band = table.number("band")
        if band is None or band <= 0.0:
            raise ValueError("band must be a number above 0")
        return cls(band=band)

    def look(self, claim: Claim, threshold: Threshold) -> Finding:
        score = score_of(claim, threshold)
        cuts = [cut for cut in (threshold.accept, threshold.reject) if cut is not None]
        value = None if isinstance(score, str) else score
        inputs = {"score": threshold.score, "value": value, "band": self.band}
        if isinstance(score, str):
            return _unknown(inputs, score)
        if not cuts:
            return _unknown(inputs, "the threshold has no cut to be near to")
        distance = min(abs(score - cut) for cut in cuts)
        reason = f"{threshold.score} {score:.6g} is {distance:.6g} from the nearest threshold"
        return Finding(matched=distance <= self.band, inputs=inputs, reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagRule:
    """One of the flags is raised, by the energy sensor or by the sensor that is named."""

    flags: tuple[str, ...]
    sensor: str | None

    @classmethod
    def read(cls, table: Table) -> FlagRule:
        sensor = table.text("sensor") if table.has("sensor") else None
        return cls(flags=table.names("any", KNOWN_FLAGS if sensor is None else None), sensor=sensor)

    def look(self, claim: Claim, threshold: Threshold) -> Finding:  # noqa: ARG002  one shape for all kinds
        record: object = claim
        if self.sensor is not None:
            sensors = claim.get("sensors")
            record = sensors.get(self.sensor) if isinstance(sensors, Mapping) else None
            if not isinstance(record, Mapping):
                return _unknown({"sensor": self.sensor}, f"the sensor {self.sensor} did not measure")
            if record.get("state", State.MEASURED) != State.MEASURED:
                # No flag from a sensor that failed says nothing about the claim.
                return _unknown({"sensor": self.sensor}, f"the sensor {self.sensor} is not MEASURED")
        flags = flags_of(record) if isinstance(record, Mapping) else "flags are missing"
        inputs: dict[str, object] = {"flags": flags if isinstance(flags, list) else None}
        if self.sensor is not None:
            inputs["sensor"] = self.sensor
        if isinstance(flags, str):
            return _unknown(inputs, flags)
        raised = [flag for flag in self.flags if flag in flags]
        reason = f"flagged {', '.join(raised)}" if raised else f"not flagged {', '.join(self.flags)}"
        return Finding(matched=bool(raised), inputs=inputs, reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueRule:
    """A number of the measurement is below or above a limit."""

    field: str
    below: float | None
    above: float | None

    @classmethod
    def read(cls, table: Table) -> ValueRule:
        field = table.text("field")
        if field not in _NUMBERS and not field.startswith(_OPEN_PREFIXES):
            raise ValueError(
                f"field is {field!r}, which no measurement has; known are {', '.join(sorted(_NUMBERS))}, "
                "proxies.NAME and sensors.NAME.FIELD"
            )
        below, above = table.number("below"), table.number("above")
        if below is None and above is None:
            raise ValueError("needs below or above")
        return cls(field=field, below=below, above=above)

    def look(self, claim: Claim, threshold: Threshold) -> Finding:  # noqa: ARG002  one shape for all kinds
        value = number_at(claim, self.field)
        inputs: dict[str, object] = {"field": self.field, "value": None if isinstance(value, str) else value}
        inputs |= {
            name: limit for name, limit in (("below", self.below), ("above", self.above)) if limit is not None
        }
        if isinstance(value, str):
            return _unknown(inputs, value)
        if self.below is not None and value < self.below:
            reason, matched = f"{self.field} {value:.6g} is below {self.below:g}", True
        elif self.above is not None and value > self.above:
            reason, matched = f"{self.field} {value:.6g} is above {self.above:g}", True
        else:
            reason, matched = f"{self.field} {value:.6g} is within its limits", False
        return Finding(matched=matched, inputs=inputs, reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class PercentileRule:
    """The score lies further outside than a percentile of the scores of the calibration."""

    percentile: float
    limit: float

    @classmethod
    def read(cls, table: Table) -> PercentileRule:
        percentile = table.number("outside")
        if percentile is None or not 0.0 < percentile < 100.0:
            raise ValueError("outside must be a percentile between 0 and 100")
        return cls(percentile=percentile, limit=table.percentile(percentile))

    def look(self, claim: Claim, threshold: Threshold) -> Finding:
        score = score_of(claim, threshold)
        value = None if isinstance(score, str) else score
        inputs = {"score": threshold.score, "value": value, "percentile": self.percentile}
        inputs["limit"] = self.limit
        if isinstance(score, str):
            return _unknown(inputs, score)
        outside = score > self.limit if threshold.higher_is_outside else score < self.limit
        where = "outside" if outside else "not outside"
        reason = (
            f"{threshold.score} {score:.6g} is {where} percentile {self.percentile:g} of the calibration "
            f"scores, {self.limit:.6g}"
        )
        return Finding(matched=outside, inputs=inputs, reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptRule:
    """More than ``share`` of the claim's letters are in scripts outside the calibrated ones."""

    calibrated: frozenset[str]
    share: float

    @classmethod
    def read(cls, table: Table) -> ScriptRule:
        scripts = frozenset(name.upper() for name in table.names("calibrated"))
        share = table.number("share") if table.has("share") else 0.0
        if share is None or not 0.0 <= share < 1.0:
            raise ValueError("share must be a number from 0 to below 1")
        return cls(calibrated=scripts, share=share)

    def look(self, claim: Claim, threshold: Threshold) -> Finding:  # noqa: ARG002  one shape for all kinds
        text = claim.get("text")
        if not isinstance(text, str):
            return _unknown({}, "the text is missing")
        counts = scripts_of(text)
        total = sum(counts.values())
        outside = {name: n for name, n in counts.items() if name not in self.calibrated}
        share = sum(outside.values()) / total if total else 0.0
        inputs = {"scripts": dict(sorted(counts.items())), "share_outside": share, "share": self.share}
        named = ", ".join(sorted(outside)) or "none"
        reason = f"{share:.0%} of the letters are outside the calibrated scripts ({named})"
        return Finding(matched=share > self.share, inputs=inputs, reason=reason)


def scripts_of(text: str) -> dict[str, int]:
    """Letters of each script, by the first word of their Unicode names: ``LATIN``, ``CJK``, ``CYRILLIC``…"""
    counts: dict[str, int] = {}
    for letter in unicodedata.normalize("NFKC", text):
        if letter.isalpha():
            name = unicodedata.name(letter, "UNKNOWN").split(" ")[0]
            counts[name] = counts.get(name, 0) + 1
    return counts


@dataclass(frozen=True, slots=True, kw_only=True)
class WordsRule:
    """The claim has fewer words than a limit: a bare name has an energy, and states nothing."""

    fewer_than: float

    @classmethod
    def read(cls, table: Table) -> WordsRule:
        limit = table.number("fewer_than")
        if limit is None or limit < 1:
            raise ValueError("fewer_than must be a number from 1")
        return cls(fewer_than=limit)

    def look(self, claim: Claim, threshold: Threshold) -> Finding:  # noqa: ARG002  one shape for all kinds
        text = claim.get("text")
        if not isinstance(text, str):
            return _unknown({}, "the text is missing")
        words = len(_WORD.findall(text))
        inputs = {"words": words, "fewer_than": self.fewer_than}
        return Finding(
            matched=words < self.fewer_than, inputs=inputs, reason=f"{words} word{'s' if words != 1 else ''}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldRule:
    """A text of the record, such as a language, is in a list or is not."""

    field: str
    among: tuple[str, ...]
    inside: bool

    @classmethod
    def read(cls, table: Table) -> FieldRule:
        field = table.text("field")
        if field.split(".")[-1] in ("text", "context"):
            raise ValueError(f"field is {field!r}: a trace must not repeat the text of a claim")
        if table.has("in") == table.has("not_in"):
            raise ValueError("needs either in or not_in")
        inside = table.has("in")
        return cls(field=field, among=table.names("in" if inside else "not_in"), inside=inside)

    def look(self, claim: Claim, threshold: Threshold) -> Finding:  # noqa: ARG002  one shape for all kinds
        value: object = claim
        for name in self.field.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        if not isinstance(value, str):
            return _unknown({"field": self.field, "value": None}, f"{self.field} is missing")
        inputs = {"field": self.field, "value": value}
        matched = (value in self.among) is self.inside
        return Finding(matched=matched, inputs=inputs, reason=f"{self.field} is {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AlwaysRule:
    """Matches; for the last rule of a policy that wants another end than review."""

    @classmethod
    def read(cls, table: Table) -> AlwaysRule:  # noqa: ARG003  one shape for all kinds
        return cls()

    def look(self, claim: Claim, threshold: Threshold) -> Finding:  # noqa: ARG002  one shape for all kinds
        return Finding(matched=True, inputs={}, reason="no earlier rule matched")


KINDS: Mapping[str, Callable[[Table], Kind]] = {
    "state": StateRule.read,
    "threshold": ThresholdRule.read,
    "near": NearRule.read,
    "flag": FlagRule.read,
    "value": ValueRule.read,
    "percentile": PercentileRule.read,
    "script": ScriptRule.read,
    "words": WordsRule.read,
    "field": FieldRule.read,
    "always": AlwaysRule.read,
}


def read_rule(table: Table) -> Rule:
    """A rule of a policy file.

    Raises
    ------
    ValueError
        For an unknown kind, key or value, and for an acceptance that is not the threshold's own: the error
        rates were calibrated for that side and for nothing else.
    """
    name = table.text("name")
    kind = table.text("kind")
    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}; known are {', '.join(KINDS)}")
    then = table.text("then")
    if then not in SIDES:
        raise ValueError(f"then is {then!r}; known are accept, review, reject")
    test = KINDS[kind](table)
    table.finish()
    if then == "accept" and not (isinstance(test, ThresholdRule) and test.side == "accept"):
        raise ValueError(
            "accepts by something else than the accepted side of the threshold, for which nothing was "
            'calibrated. Write kind = "threshold", side = "accept", and other rules before it to narrow it'
        )
    return Rule(name=name, kind=kind, then=Outcome(then), test=test)
