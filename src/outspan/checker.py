"""The path as code: an answer and its evidence in, one record out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from outspan.claims import Claim, split_claims
from outspan.evidence import EvidenceSet
from outspan.measurement import Contract, Measurement, State, Tally, tally
from outspan.sensors.energy import EnergySensor, EvidenceInput
from outspan.sensors.reading import SensorContract

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedClaim:
    """A sentence of the answer with its measurement."""

    claim: Claim
    measurement: Measurement

    @property
    def state(self) -> State:
        """The measurement's state."""
        return self.measurement.state

    @property
    def energy(self) -> float | None:
        """The measurement's energy; None unless measured."""
        return self.measurement.energy

    def to_dict(self) -> dict[str, object]:
        """Text, offsets and measurement as one flat JSON object."""
        record = self.measurement.to_dict()
        return {
            "text": record.pop("text"),
            "start": self.claim.start,
            "end": self.claim.end,
            "kind": str(self.claim.kind),
            "context": self.claim.context,
            "citations": [
                {"start": mark.start, "end": mark.end, "text": mark.text} for mark in self.claim.citations
            ],
            **record,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """An answer, sentence by sentence, against its evidence."""

    contract: Contract
    regime: Mapping[str, object]
    fingerprint: str
    proxy_fingerprints: Mapping[str, str]
    evidence: EvidenceSet
    claims: tuple[CheckedClaim, ...]
    sensor_contracts: Mapping[str, SensorContract] = field(default_factory=dict)
    """What the score of each sensor that was asked beside the energy claims to be."""
    sensor_fingerprints: Mapping[str, str] = field(default_factory=dict)
    """Everything that each of these scores depends on besides the texts, as a digest."""

    @property
    def summary(self) -> Tally:
        """States and energies, with n of N."""
        return tally(checked.measurement for checked in self.claims)

    def to_dict(self) -> dict[str, object]:
        """The record that ``outspan check --json`` prints."""
        sensors: dict[str, object] = {}
        if self.sensor_contracts:
            contracts = {name: contract.to_dict() for name, contract in self.sensor_contracts.items()}
            sensors = {"sensor_contracts": contracts, "sensor_fingerprints": dict(self.sensor_fingerprints)}
        return {
            "contract": self.contract.to_dict(),
            "fingerprint": self.fingerprint,
            "proxy_fingerprints": dict(self.proxy_fingerprints),
            **sensors,
            "regime": dict(self.regime),
            "summary": self.summary.to_dict(),
            "evidence": self.evidence.to_dict(),
            "claims": [checked.to_dict() for checked in self.claims],
        }

    def to_json(self, indent: int | None = None) -> str:
        """The record as JSON text; never NaN."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False, indent=indent)

    def to_frame(self) -> pd.DataFrame:
        """One row a sentence, for people who think in tables.

        Raises
        ------
        NotInstalled
            Without pandas (``pip install 'outspan[frames]'``).
        """
        from outspan.frames import frame_of

        return frame_of([checked.to_dict() for checked in self.claims])


def check(answer: str, evidence: EvidenceInput, sensor: EnergySensor | None = None) -> Check:
    """Split ``answer`` into sentences and measure each against ``evidence``.

    Parameters
    ----------
    answer : any text; every sentence of it comes back, those that claim nothing with the reason.
    evidence : strings, objects with ``text`` and perhaps ``id``, or one string.
    sensor : an :class:`EnergySensor`; make it once and pass it in, since loading a model takes a while.
    """
    sensor = EnergySensor() if sensor is None else sensor
    claims = split_claims(answer)
    sentences = EvidenceSet.of(evidence)
    measured = sensor.measure_many([(claims, sentences)])[0]
    return Check(
        contract=sensor.contract,
        regime=sensor.regime.to_dict(),
        fingerprint=sensor.fingerprint,
        proxy_fingerprints=sensor.proxy_fingerprints,
        sensor_contracts=sensor.sensor_contracts,
        sensor_fingerprints=sensor.sensor_fingerprints,
        evidence=sentences,
        claims=tuple(
            CheckedClaim(claim=claim, measurement=one) for claim, one in zip(claims, measured, strict=True)
        ),
    )
