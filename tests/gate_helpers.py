"""Thresholds, claim records and decisions for the tests of the gate, the ledger and the replay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from outspan.calibration import Threshold
from outspan.checker import check
from outspan.evidence import EvidenceItem
from outspan.gate import AnswerDecision, DecisionRecord, Policy, decide_answer, decision_record, load_policy
from outspan.sensors.energy import EnergySensor


def threshold(**changed: Any) -> Threshold:
    values: dict[str, Any] = {
        "score": "energy", "higher_is_outside": True, "unit": "row", "accept": 0.3, "reject": 0.6, "delta": 0.05,
        "accept_bound": None, "reject_bound": None, "fingerprint": "sha256:f", "regime": {}, "data_digest": "sha256:d",
        "counts": {}, "seed": 0, "package": "test", "created": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    return Threshold(**{**values, **changed})


def claim(energy: float | None = 0.1, state: str = "MEASURED", **changed: Any) -> dict[str, Any]:
    """A claim record as far as a gate looks at it."""
    record: dict[str, Any] = {
        "text": "The ferry holds ninety cars.",
        "start": 0,
        "end": 28,
        "state": state,
        "reason": None,
        "energy": energy,
        "explained": None if energy is None else 1.0 - energy,
        "rank": 3,
        "numeric_rank": 3,
        "cap_bound": False,
        "diagnostics": {"participation_ratio": 2.5, "sensitivity": 0.2, "alignment": 0.7, "sim_margin": None},
        "evidence": {"used": 3},
        "flags": [],
    }
    return {**record, **changed}


def decided(
    answer: str, evidence: list[str], sensor: EnergySensor, *, policy: Policy | None = None, private: bool = False,
    **cuts: Any,
) -> tuple[AnswerDecision, DecisionRecord]:  # fmt: skip
    """An answer checked, decided and made into a record."""
    made = check(answer, evidence, sensor)
    at = threshold(fingerprint=made.fingerprint, regime=made.regime, **cuts)
    rules = policy or load_policy("energy")
    claims = made.to_dict()["claims"]
    decision = decide_answer(claims, at, rules)  # type: ignore[arg-type]  # a list of objects
    record = decision_record(
        answer=answer,
        evidence=[EvidenceItem.of(text, place) for place, text in enumerate(evidence)],
        claims=claims,  # type: ignore[arg-type]
        decision=decision,
        threshold=at,
        policy=rules,
        fingerprint=made.fingerprint,
        proxy_fingerprints=made.proxy_fingerprints,
        regime=made.regime,
        private=private,
    )
    return decision, record


def shared_of(record: DecisionRecord) -> list[Any]:
    from outspan.ledger import Artefact

    return [Artefact(name=name, value=value) for name, value in record.shared.items()]


Json = Mapping[str, Any]
