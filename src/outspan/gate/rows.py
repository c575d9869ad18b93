"""Measured rows, as ``outspan measure`` writes them, read for a decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from outspan.calibration import Threshold
from outspan.errors import InputError
from outspan.evidence import EvidenceItem
from outspan.files import json_name

_REMEDY = "Measure the file first: outspan measure IN.jsonl -o MEASURED.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRow:
    """A row with its texts and its measured sentences."""

    id: object
    """As the row has it; None where it has none."""
    group: object
    answer: str
    evidence: tuple[EvidenceItem, ...]
    claims: tuple[Mapping[str, object], ...]
    """The sentences, each a claim record."""
    fingerprint: str
    proxy_fingerprints: Mapping[str, str] = field(default_factory=dict)
    sensor_fingerprints: Mapping[str, str] = field(default_factory=dict)
    regime: Mapping[str, object] = field(default_factory=dict)
    """Parts of the regime; empty where the row does not hold them."""

    def require(self, threshold: Threshold) -> None:
        """Refuse a threshold that was calibrated in another regime.

        Raises
        ------
        RegimeMismatch
            With what differs.
        InputError
            If the threshold is on a proxy that was not measured.
        """
        require_regime(threshold, self.fingerprint, self.proxy_fingerprints, self.regime)


def require_regime(
    threshold: Threshold,
    fingerprint: str,
    proxy_fingerprints: Mapping[str, str],
    regime: Mapping[str, object] | None,
) -> None:
    """Refuse a threshold on another regime, or on a proxy not measured; see :meth:`MeasuredRow.require`."""
    if threshold.score == "energy":
        threshold.require(fingerprint, regime)
        return
    if threshold.score not in proxy_fingerprints:
        raise InputError(
            f"the threshold is on {threshold.score}, which was not measured",
            remedy=f"Measure it too: --proxy {threshold.score}",
        )
    # The regimes of an energy and of its proxies differ in this one part, and only the energy's is at hand.
    theirs = {**regime, "proxy": threshold.regime.get("proxy", threshold.score)} if regime else None
    threshold.require(proxy_fingerprints[threshold.score], theirs)


def read_measured_row(record: object) -> MeasuredRow:
    """A measured row.

    Raises
    ------
    InputError
        For what is not one: it says which field is missing, and that the file has to be measured first.
    """
    if not isinstance(record, Mapping):
        raise InputError("is not a JSON object", remedy=_REMEDY)
    answer, fingerprint = record.get("claim"), record.get("fingerprint")
    if not isinstance(answer, str):
        raise InputError("has no 'claim'", remedy=_REMEDY)
    if not isinstance(fingerprint, str):
        raise InputError("has no 'fingerprint' of a measurement", remedy=_REMEDY)
    proxies, sensors, regime = (
        _object(record, name) for name in ("proxy_fingerprints", "sensor_fingerprints", "regime")
    )
    return MeasuredRow(
        id=record.get("id"),
        group=record.get("group"),
        answer=answer,
        evidence=_evidence(record),
        claims=_claims(record, answer),
        fingerprint=fingerprint,
        proxy_fingerprints={str(name): str(value) for name, value in proxies.items()},
        sensor_fingerprints={str(name): str(value) for name, value in sensors.items()},
        regime=regime,
    )


def _object(record: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = record.get(name) or {}
    if not isinstance(value, Mapping):
        raise InputError(f"has a {name!r} that is not an object", remedy=_REMEDY)
    return value


def _claims(record: Mapping[str, object], answer: str) -> tuple[Mapping[str, object], ...]:
    claims, total = record.get("sentences"), record.get("sentences_total")
    if not isinstance(claims, list) or not all(isinstance(one, Mapping) for one in claims):
        raise InputError("has no list of measured 'sentences'", remedy=_REMEDY)
    if total != len(claims):
        # A denominator that shrank on the way would make an answer look better than it is.
        raise InputError(f"says {total!r} sentences and holds {len(claims)}", remedy=_REMEDY)
    for number, one in enumerate(claims):
        start, end = one.get("start"), one.get("end")
        placed = isinstance(start, int) and isinstance(end, int) and 0 <= start <= end <= len(answer)
        if not placed or one.get("text") != answer[start:end]:
            raise InputError(
                f"sentence {number} is not the text of 'claim' at its offsets: the text was changed after it "
                "was measured",
                remedy=_REMEDY,
            )
    return tuple(claims)


def _evidence(record: Mapping[str, object]) -> tuple[EvidenceItem, ...]:
    evidence, source = record.get("evidence"), record.get("source")
    given = evidence or source or []
    listed: Sequence[object] = [given] if isinstance(given, str) else given if isinstance(given, list) else []
    if not isinstance(given, str | list):
        raise InputError(f"has 'evidence' that is {json_name(given)}", remedy=_REMEDY)
    try:
        return tuple(EvidenceItem.of(one, place) for place, one in enumerate(listed))  # type: ignore[arg-type]  # it checks
    except ValueError as error:
        raise InputError(str(error), remedy=_REMEDY) from error
