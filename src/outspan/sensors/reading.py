"""Sensors beside the energy: what each is asked, what it may answer, and how it is held to that.

A sensor answers with one :class:`Reading` a claim. It never touches the energy: it has a name, a contract and
a fingerprint of its own, and where it fails only its own reading says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import cached_property
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from outspan.canonical import digest_json
from outspan.claims import Claim
from outspan.embedders import Embedder
from outspan.evidence import EvidenceSentence, EvidenceSet
from outspan.geometry.proxies.contract import format_parameter, split_text_form
from outspan.measurement import Finding, Reading, State

if TYPE_CHECKING:
    from outspan.sensors.token_store import TokenStore

__all__ = [
    "SENSORS",
    "ClaimSensor",
    "Finding",
    "Reading",
    "SensorContext",
    "SensorContract",
    "make_sensor",
    "read_claims",
    "sensor_fingerprint",
]

Parameter: TypeAlias = int | float | str | None
Use: TypeAlias = Literal["sentence_vectors", "token_vectors"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorContract:
    """What a sensor's score claims to be. Two scores compare only under equal contracts.

    ``str`` gives name and parameters, as ``--sensor`` takes them; the rest follows from the name.
    """

    name: str
    """Name in records, policies and on the command line."""
    measures: str
    """What the score is, in a sentence."""
    unit: str
    """What one score belongs to."""
    range: tuple[float, float]
    """Smallest and largest possible score."""
    direction: Literal["higher_means_less_contained"]
    blind_spots: tuple[str, ...]
    """What a low score does not rule out."""
    parameters: tuple[tuple[str, Parameter], ...]
    """Every parameter with its value, in the order of definition."""
    uses: tuple[Use, ...]
    """What it takes from the embedder; empty for a sensor that reads texts only."""
    version: int
    """Counts up whenever the same texts may get another score."""

    def __str__(self) -> str:
        given = ", ".join(f"{key}={format_parameter(value)}" for key, value in self.parameters)
        return f"{self.name}({given})" if given else self.name

    def to_dict(self) -> dict[str, object]:
        """Every field by name, as JSON."""
        record: dict[str, object] = {f.name: getattr(self, f.name) for f in fields(self)}
        lists = {name: list(value) for name, value in record.items() if isinstance(value, tuple)}
        return {**record, **lists, "parameters": dict(self.parameters)}


@dataclass(frozen=True)
class SensorContext:
    """What is known already when a sensor is asked, so that nothing is computed twice."""

    embedder: Embedder
    vectors: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    """Embedded text (``core``) of a claim or an evidence sentence to its unit vector (d,); a text for which
    the embedder failed is missing."""
    tokens: TokenStore | None = None
    """Token vectors by text; None where the embedder has none."""

    def nearest(self, claim: Claim, evidence: EvidenceSet) -> EvidenceSentence | None:
        """The evidence sentence with the largest cosine to the claim; None where vectors are missing."""
        ranked = self.ranked(claim, evidence)
        return ranked[0][0] if ranked else None

    def ranked(self, claim: Claim, evidence: EvidenceSet) -> list[tuple[EvidenceSentence, float]]:
        """Evidence sentences with their cosine to the claim, largest first.

        Ties keep the order of the evidence; empty where the claim, or every sentence, lacks a vector.
        """
        vector = self.vectors.get(claim.core)
        sentences, rows = self._rows(evidence)
        if vector is None or not sentences:
            return []
        cosines = rows @ vector
        order = np.argsort(-cosines, kind="stable")
        return [(sentences[i], float(cosines[i])) for i in order]

    def _rows(self, evidence: EvidenceSet) -> tuple[list[EvidenceSentence], NDArray[np.float32]]:
        # One evidence set serves all claims of a request: its rows are gathered once.
        kept: tuple[EvidenceSet, list[EvidenceSentence], NDArray[np.float32]] | None
        kept = self._gathered.get("rows")
        if kept is None or kept[0] is not evidence:
            sentences = [one for one in evidence.sentences if one.core in self.vectors]
            rows = [self.vectors[one.core] for one in sentences]
            kept = evidence, sentences, np.stack(rows) if rows else np.zeros((0, 0), np.float32)
            self._gathered["rows"] = kept
        return kept[1], kept[2]

    @cached_property
    def _gathered(self) -> dict[str, Any]:
        return {}


class ClaimSensor(Protocol):
    """A sensor beside the energy. It is made once, and may be asked from several threads."""

    name: ClassVar[str]

    @property
    def contract(self) -> SensorContract:
        """What the score claims to be, with the parameters of this object."""
        ...

    def read(
        self, claims: Sequence[Claim], evidence: EvidenceSet, context: SensorContext, /
    ) -> list[Reading]:
        """One reading a claim, in order.

        Only claims that claim something, and evidence that holds a sentence, are handed in;
        :func:`read_claims` gives the others their state.
        """
        ...


def read_claims(
    sensor: ClaimSensor, claims: Sequence[Claim], evidence: EvidenceSet, context: SensorContext
) -> list[Reading]:
    """Ask one sensor about all claims, and hold it to its contract.

    A sensor that raises, answers with the wrong count or with something that is no reading of these claims
    has FAILED for them, with the reason: nothing of that may become a score that looks measured.
    """
    name = sensor.contract.name
    asked = [i for i, claim in enumerate(claims) if claim.unmeasured is None and evidence.sentences]
    told = dict(zip(asked, _answers(sensor, [claims[i] for i in asked], evidence, context), strict=True))
    return [told[i] if i in told else _not_asked(name, claim) for i, claim in enumerate(claims)]


def _not_asked(name: str, claim: Claim) -> Reading:
    if claim.unmeasured is not None:
        return Reading(sensor=name, state=State.NO_CLAIM, reason=claim.unmeasured, score=None)
    reason = "no evidence sentence was supplied"
    return Reading(sensor=name, state=State.NO_EVIDENCE, reason=reason, score=None)


def _answers(
    sensor: ClaimSensor, claims: list[Claim], evidence: EvidenceSet, context: SensorContext
) -> list[Reading]:
    if not claims:
        return []
    name = sensor.contract.name
    try:
        readings = list(sensor.read(claims, evidence, context))
    except Exception as error:  # noqa: BLE001  whatever a sensor raises is its own failure, not the energy's
        return [failed(name, f"{type(error).__name__}: {error}") for _ in claims]
    if len(readings) != len(claims):
        reason = f"the sensor gave {len(readings)} readings for {len(claims)} claims"
        return [failed(name, reason) for _ in claims]
    return [_held(name, reading, claim) for reading, claim in zip(readings, claims, strict=True)]


def _held(name: str, reading: Reading, claim: Claim) -> Reading:
    """The reading, or a failure where it is none of this sensor or points outside the claim."""
    if not isinstance(reading, Reading) or reading.sensor != name:
        return failed(name, f"the sensor answered with {type(reading).__name__}, no reading of its own")
    for finding in reading.findings:
        if claim.text[finding.start : finding.end] != finding.text:
            return failed(
                name,
                f"a finding at {finding.start} to {finding.end} does not quote the claim: {finding.text!r}",
            )
    return reading


def failed(name: str, reason: str) -> Reading:
    """A reading that says why there is none."""
    return Reading(sensor=name, state=State.FAILED, reason=reason, score=None)


def sensor_fingerprint(sensor: ClaimSensor, *, embedder: Embedder, segmenter: str) -> str:
    """``sha256:`` over everything that a sensor's score depends on besides the texts.

    It is no part of the energy's fingerprint: a sensor beside it changes nothing about the energy.
    """
    contract = sensor.contract
    parts: dict[str, object] = {"sensor": contract.to_dict(), "segmenter": segmenter}
    if contract.uses:
        parts["embedder"] = embedder.identity.to_dict()
    return digest_json(parts)


def _at_home(module: str, kind: str) -> Callable[..., ClaimSensor]:
    """What makes a sensor, and imports its module only then."""

    def make(**parameters: Any) -> ClaimSensor:
        made: ClaimSensor = getattr(import_module(f"outspan.sensors.{module}"), kind)(**parameters)
        return made

    return make


SENSORS: Mapping[str, Callable[..., ClaimSensor]] = MappingProxyType(
    {
        "tokens": _at_home("tokens", "TokenSensor"),
        "literals": _at_home("literals", "LiteralSensor"),
        "polarity": _at_home("polarity", "PolaritySensor"),
        "attribution": _at_home("attribution", "AttributionSensor"),
    }
)
"""Every sensor beside the energy by name; each is imported when it is first made."""


def make_sensor(text: str) -> ClaimSensor:
    """The sensor that ``tokens`` or ``tokens(outside_from=0)`` names.

    Raises
    ------
    ValueError
        For an unknown name, an unknown parameter or a value out of range; the message says what there is.
    """
    try:
        name, parameters = split_text_form(text)
    except ValueError as error:
        raise ValueError(f"sensor {text!r}: write name or name(parameter=value)") from error
    factory = SENSORS.get(name)
    if factory is None:
        near = get_close_matches(name, SENSORS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(SENSORS)}"
        raise ValueError(f"unknown sensor {name!r}: {hint}")
    known = [key for key, _ in factory().contract.parameters]
    for key in parameters:
        if key not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise ValueError(f"sensor {name} has no parameter {key!r}: {has}")
    return factory(**parameters)


def named(sensors: Iterable[ClaimSensor]) -> dict[str, ClaimSensor]:
    """Sensors by name; one that is asked for twice is asked once.

    Raises
    ------
    ValueError
        If two that differ have one name: a record could hold only one of them.
    """
    found: dict[str, ClaimSensor] = {}
    for sensor in sensors:
        name = sensor.contract.name
        if name in found and found[name].contract != sensor.contract:
            raise ValueError(
                f"{found[name].contract} and {sensor.contract} would share one place in a record"
            )
        found.setdefault(name, sensor)
    return found
