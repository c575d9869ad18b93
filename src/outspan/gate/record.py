"""The decision record: everything that a reader needs months later, as one JSON value.

What many records share (threshold, policy with its text, regime, contract) is named by its digest and
handed along once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from outspan import __version__
from outspan.calibration import Threshold
from outspan.canonical import digest_json, digest_text
from outspan.claims import split_claims
from outspan.evidence import EvidenceItem
from outspan.gate.decide import AnswerDecision
from outspan.gate.policy import Policy
from outspan.measurement import ENERGY_CONTRACT, Contract, Regime

_EXACT = 2**53
_NO_TEXTS = ("state", "kind", "flags", "evidence_id", "leans_on")
PRIVATE = "texts are not stored"
UNSTORABLE = "the text is not Unicode that can be stored"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRecord:
    """A record and the values that it names by digest."""

    content: Mapping[str, object]
    shared: Mapping[str, Mapping[str, object]]
    """``threshold``, ``policy``, ``contract`` and, where it is known, ``regime``; ``content`` has the digest
    of each under its name."""


def decision_record(
    *,
    answer: str,
    evidence: Iterable[EvidenceItem],
    claims: Sequence[Mapping[str, object]],
    decision: AnswerDecision,
    threshold: Threshold,
    policy: Policy,
    fingerprint: str,
    proxy_fingerprints: Mapping[str, str] | None = None,
    sensor_fingerprints: Mapping[str, str] | None = None,
    regime: Mapping[str, object] | None = None,
    row_id: object = None,
    group: object = None,
    contract: Contract = ENERGY_CONTRACT,
    private: bool = False,
) -> DecisionRecord:
    """The record of one answer's decision.

    Parameters
    ----------
    answer, evidence : as they were measured.
    claims, decision : the claim records and what was decided on them, in the same order.
    regime : the parts of the fingerprint; taken from the threshold where it is None and they agree.
    row_id, group : the caller's own names for the row.
    private : keep digests in place of every text.
    """
    known = regime or _regime_of(threshold, fingerprint)
    items = list(evidence)
    reason = PRIVATE if private else None if _storable(answer, items) else UNSTORABLE
    hidden = reason is not None
    shared: dict[str, Mapping[str, object]] = {
        "contract": contract.to_dict(),
        "threshold": threshold.to_dict(),
        "policy": policy.to_dict(),
    }
    if known:
        shared["regime"] = known
    content: dict[str, object] = {
        "id": _name(row_id),
        "group": _name(group),
        "outspan": __version__,
        "texts": reason or "stored",
        "fingerprint": fingerprint,
        "proxy_fingerprints": dict(proxy_fingerprints or {}),
        # Only where sensors were asked: an entry that was written before there were any reads the same.
        **({"sensor_fingerprints": dict(sensor_fingerprints)} if sensor_fingerprints else {}),
        **{name: digest_json(value) for name, value in shared.items()},
        "answer": _text(answer, hidden),
        "evidence": [{"id": item.id, "weight": item.weight, **_text(item.text, hidden)} for item in items],
        "unit": _unit(answer, claims),
        "offsets": [[one.get("start"), one.get("end")] for one in claims],
        "claims": [
            {
                **(_without_texts(one) if hidden else one),
                "decision": _quoting_nothing(decided.to_dict()) if hidden else decided.to_dict(),
            }
            for one, decided in zip(claims, decision.claims, strict=True)
        ],
        "decision": decision.to_dict(),
    }
    return DecisionRecord(content=content, shared=shared)


def _regime_of(threshold: Threshold, fingerprint: str) -> Mapping[str, object] | None:
    """The energy's regime, from a threshold on the energy or on a proxy of it; None where it is not there."""
    regime = Regime({**threshold.regime, "proxy": "energy"})
    return regime.to_dict() if regime.fingerprint == fingerprint else None


def _unit(answer: str, claims: Sequence[Mapping[str, object]]) -> str:
    """``whole`` where the answer was measured as one claim, though it has several sentences."""
    if len(claims) != 1 or (claims[0].get("start"), claims[0].get("end")) != (0, len(answer)):
        return "sentences"
    spans = [(span.start, span.end) for span in split_claims(answer)]
    return "sentences" if spans == [(0, len(answer))] else "whole"


def _text(text: str, hidden: bool) -> dict[str, object]:
    kept = None if hidden else text
    return {"text": kept, "digest": digest_text(text), "characters": len(text)}


def _storable(answer: str, items: Sequence[EvidenceItem]) -> bool:
    """Whether UTF-8 can hold the texts: a lone surrogate, which JSON lets in, has no canonical form."""
    return not any(
        "\ud800" <= letter <= "\udfff" for text in (answer, *(i.text for i in items)) for letter in text
    )


def _without_texts(value: Mapping[str, object]) -> dict[str, object]:
    """A claim record in which every text, wherever it stands, is a digest; names and states stay.

    A reason keeps what stands before its first colon, which is ours; what follows may quote the text.
    """
    kept: dict[str, object] = {}
    for name, one in value.items():
        if name == "reason" and isinstance(one, str):
            kept[name] = one.partition(":")[0]
        elif name in _NO_TEXTS:
            kept[name] = one
        else:
            kept[name] = _hide(one)
    return kept


def _quoting_nothing(decision: dict[str, Any]) -> dict[str, Any]:
    """A decision whose trace repeats no text that a ``field`` rule looked at."""
    steps = [
        step
        if step["kind"] != "field" or step["inputs"]["value"] is None
        else {
            **step,
            "inputs": {**step["inputs"], "value": digest_text(step["inputs"]["value"])},
            "reason": f"{step['inputs']['field']} {'matches' if step['matched'] else 'does not match'}",
        }
        for step in decision["trace"]
    ]
    return {**decision, "reason": steps[-1]["reason"], "trace": steps}


def _hide(value: object) -> object:
    if isinstance(value, str):
        return digest_text(value)
    if isinstance(value, Mapping):
        return _without_texts(value)
    if isinstance(value, list | tuple):
        return [_hide(one) for one in value]
    return value


def _name(value: object) -> object:
    """An id as it was given, where JSON can hold it exactly; its text otherwise."""
    if value is None or isinstance(value, bool | str):
        return value
    return value if isinstance(value, int) and abs(value) <= _EXACT else str(value)
