"""Replay: a stored decision, measured and decided once more from its own texts.

entry ─► texts, threshold, policy ─► measure ─► decide ─► identical | equivalent | drifted, and why
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from outspan.calibration import Threshold
from outspan.calibration.artefact import describe_difference
from outspan.canonical import canonical_json, digest_text
from outspan.checker import CheckedClaim
from outspan.claims import Claim, split_claims, whole_claim
from outspan.evidence import EvidenceItem
from outspan.gate import Policy, decide_answer, score_of
from outspan.ledger import Entry
from outspan.measurement import Measurement
from outspan.sensors.energy import EnergySensor

Artefacts: TypeAlias = Callable[[str], Mapping[str, Any] | None]
"""Finds a stored value by its digest, as ``Ledger.artefact`` does."""

BATCH = 32
_NEEDED = frozenset(
    {"texts", "fingerprint", "proxy_fingerprints", "threshold", "policy", "answer", "evidence", "unit"}
    | {"offsets", "claims", "decision"}
)


class Replayed(StrEnum):
    """How a replay compares with what was recorded."""

    IDENTICAL = "identical"
    EQUIVALENT = "equivalent"
    DRIFTED = "drifted"
    NOT_REPLAYABLE = "not_replayable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What came of replaying one decision."""

    seq: int
    status: Replayed
    reason: str
    largest_difference: float | None
    """Of the score that was decided on, over the claims; None where it was not measured again."""

    def to_dict(self) -> dict[str, object]:
        """Every field by name, as JSON."""
        return {
            "seq": self.seq,
            "status": str(self.status),
            "reason": self.reason,
            "largest_difference": self.largest_difference,
        }


def replay(entry: Entry, sensor: EnergySensor, artefacts: Artefacts) -> Replay:
    """Replay one decision.

    Parameters
    ----------
    entry : a decision of a ledger.
    sensor : measures again.
    artefacts : finds the threshold and the policy by digest, as ``Ledger.artefact`` does.

    Returns
    -------
    Replay
        ``identical``: every number, state, flag and outcome is the same to the last bit. ``equivalent``: the
        scores agree within the threshold's tolerance, and states and outcomes are the same. ``drifted``: it
        says what is not. ``not_replayable``: the texts are not stored.
    """
    return next(replay_many([entry], sensor, artefacts))


def replay_many(
    entries: Iterable[Entry],
    sensor: EnergySensor,
    artefacts: Artefacts,
    *,
    batch: int = BATCH,
) -> Iterator[Replay]:
    """Replay decisions in order, ``batch`` of them in one embedding pass; the batch changes no result."""
    for group in _batches(entries, batch):
        prepared = [_Prepared.of(entry, sensor, artefacts) for entry in group]
        asked = [one for one in prepared if isinstance(one, _Prepared)]
        measured = iter(sensor.measure_many([(one.claims, one.evidence) for one in asked]))
        for one in prepared:
            yield one if isinstance(one, Replay) else one.compare(next(measured), artefacts)


def _batches(entries: Iterable[Entry], size: int) -> Iterator[list[Entry]]:
    if size < 1:
        raise ValueError(f"batch must be at least 1, not {size}")
    group: list[Entry] = []
    for entry in entries:
        group.append(entry)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    """A decision of which everything is there to measure it again."""

    seq: int
    content: Mapping[str, Any]
    claims: Sequence[Claim]
    evidence: Sequence[EvidenceItem]

    @classmethod
    def of(cls, entry: Entry, sensor: EnergySensor, artefacts: Artefacts) -> _Prepared | Replay:
        content = entry.content
        if entry.kind != "decision" or not content.keys() >= _NEEDED:
            return _not_replayable(entry.seq, "not replayable: it is not the record of a decision")
        if content["texts"] != "stored":
            return _not_replayable(entry.seq, f"not replayable: {content['texts']}")
        answer = content["answer"]["text"]
        claims = [whole_claim(answer)] if content["unit"] == "whole" else split_claims(answer)
        changed = _changed(content, claims, sensor, artefacts)
        if changed is not None:
            return _drifted(entry.seq, changed)
        evidence = [
            EvidenceItem(id=one["id"], text=one["text"], weight=float(one["weight"]))
            for one in content["evidence"]
        ]
        return cls(seq=entry.seq, content=content, claims=claims, evidence=evidence)

    def compare(self, measured: Sequence[Measurement], artefacts: Artefacts) -> Replay:
        """Judge what was measured and decided now against what was recorded."""
        found = [artefacts(self.content[name]) for name in ("threshold", "policy")]
        if found[0] is None or found[1] is None:
            return _not_replayable(self.seq, "not replayable: its threshold or policy is not in the ledger")
        threshold, policy = Threshold.from_dict(found[0]), Policy.from_dict(found[1])
        now = [
            CheckedClaim(claim=claim, measurement=one).to_dict()
            for claim, one in zip(self.claims, measured, strict=True)
        ]
        decision = decide_answer(now, threshold, policy)
        before = self.content["claims"]
        then = [{name: value for name, value in one.items() if name != "decision"} for one in before]
        outcomes = [one["decision"]["outcome"] for one in before]
        difference, why = _differences(then, now, threshold)
        for number, (was, made) in enumerate(zip(outcomes, decision.claims, strict=True)):
            if was != made.outcome:
                why.append(f"sentence {number} was {was}, is {made.outcome}")
        if self.content["decision"]["outcome"] != decision.outcome:
            why.append(f"the answer was {self.content['decision']['outcome']}, is {decision.outcome}")
        if why:
            return _drifted(self.seq, "; ".join(why), difference)
        if all(canonical_json(a) == canonical_json(b) for a, b in zip(then, now, strict=True)):
            return Replay(
                seq=self.seq,
                status=Replayed.IDENTICAL,
                reason="every number and every outcome is the same",
                largest_difference=difference,
            )
        names = sorted({name for a, b in zip(then, now, strict=True) for name in a if a[name] != b.get(name)})
        return Replay(
            seq=self.seq,
            status=Replayed.EQUIVALENT,
            reason=f"within {threshold.tolerance:g}, every outcome is the same; not equal to the last bit: "
            f"{', '.join(names) or 'fields that were added or removed'}",
            largest_difference=difference,
        )


def _changed(
    content: Mapping[str, Any], claims: Sequence[Claim], sensor: EnergySensor, artefacts: Artefacts
) -> str | None:
    """Why nothing that is measured now could be compared with the record; None where it can."""
    if content["fingerprint"] != sensor.fingerprint:
        recorded = artefacts(content["regime"]) if "regime" in content else None
        parts = recorded or {}, sensor.regime.to_dict()
        return f"another regime: {describe_difference(*parts, content['fingerprint'], sensor.fingerprint)}"
    if content["proxy_fingerprints"] != sensor.proxy_fingerprints:
        return f"the proxies differ: recorded were {', '.join(content['proxy_fingerprints']) or 'none'}"
    sensors = content.get("sensor_fingerprints") or {}
    if sensors != sensor.sensor_fingerprints:
        return f"the sensors differ: recorded were {', '.join(sensors) or 'none'}"
    if any(digest_text(one["text"]) != one["digest"] for one in (content["answer"], *content["evidence"])):
        return "a stored text is not the one of its digest"
    if [[claim.start, claim.end] for claim in claims] != content["offsets"]:
        return "the answer is split into other sentences"
    return None


def _differences(
    then: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]], threshold: Threshold
) -> tuple[float | None, list[str]]:
    """The largest difference of the scores, and what of the claims is no longer the same."""
    largest: float | None = None
    why = []
    for number, (was, made) in enumerate(zip(then, now, strict=True)):
        if was["state"] != made["state"]:
            why.append(f"sentence {number} was {was['state']}, is {made['state']}")
            continue
        if was["flags"] != made["flags"]:
            why.append(f"sentence {number} had the flags {was['flags']}, has {made['flags']}")
        scores = score_of(was, threshold), score_of(made, threshold)
        if isinstance(scores[0], float) and isinstance(scores[1], float):
            off = abs(scores[0] - scores[1])
            largest = off if largest is None else max(largest, off)
            if off > threshold.tolerance:
                why.append(
                    f"sentence {number}: {threshold.score} was {scores[0]:.9g}, is {scores[1]:.9g}, further "
                    f"apart than {threshold.tolerance:g}"
                )
        elif scores[0] != scores[1]:
            why.append(f"sentence {number}: {threshold.score} was {scores[0]}, is {scores[1]}")
    return largest, why


def _drifted(seq: int, reason: str, difference: float | None = None) -> Replay:
    return Replay(seq=seq, status=Replayed.DRIFTED, reason=reason, largest_difference=difference)


def _not_replayable(seq: int, reason: str) -> Replay:
    return Replay(seq=seq, status=Replayed.NOT_REPLAYABLE, reason=reason, largest_difference=None)
