"""``polarity``: does the claim say the reverse, or more, than the evidence sentence that speaks of the same?

Negation, prefixes, opposites, comparatives, before and after, only, if, all and some, may and will. English,
by a small lexicon; reads texts only, in time linear in their length. Rules and limits: decision 0016.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from outspan.claims import Claim
from outspan.evidence import EvidenceSentence, EvidenceSet
from outspan.measurement import Finding, Reading, State
from outspan.sensors.literals import visible
from outspan.sensors.overlap import content, rarity, weight_of
from outspan.sensors.polarity.lexicon import SIGNS
from outspan.sensors.polarity.rules import Turn, find_turns
from outspan.sensors.reading import SensorContext, SensorContract

__all__ = ["CONTRACT", "PolaritySensor"]

CONTRACT = SensorContract(
    name="polarity",
    measures="weight of the heaviest turn (negation, opposite, order, quantifier, condition, modality) "
    "between "
    "the claim and the evidence sentence that shares most content words with it, times how much it shares",
    unit="claim_vs_aligned_evidence_sentence",
    range=(0.0, 1.0),
    direction="higher_means_less_contained",
    blind_spots=(
        "opposites_that_are_not_in_the_lexicon",
        "turns_spread_over_several_evidence_sentences",
        "role_inversion_without_a_comparative",
        "irony_and_reported_speech",
        "languages_other_than_english",
    ),
    parameters=(),
    uses=(),
    version=1,
)

LIMIT = 4_000
"""Characters of a sentence that are read."""
LEAST_SHARED = 0.34
"""Share of the claim's content, by weight, that a sentence must hold to be compared with it."""


class PolaritySensor:
    """Turns between a claim and its best aligned evidence sentence.

    Where no evidence sentence shares a third of the claim's content words, the sentence nearest by embedding
    is taken if the context offers vectors; else the score is 0 with the flag ``not_aligned``.
    """

    name: ClassVar[str] = "polarity"

    @property
    def contract(self) -> SensorContract:
        """The contract; this sensor has no parameters."""
        return CONTRACT

    def read(
        self, claims: Sequence[Claim], evidence: EvidenceSet, context: SensorContext | None = None, /
    ) -> list[Reading]:
        """One reading a claim, in order."""
        sentences = evidence.sentences
        keys = [_keys(one.core[:LIMIT]) for one in sentences]
        weights = rarity(keys)
        return [self._read(claim, evidence, keys, weights, context) for claim in claims]

    def _read(
        self,
        claim: Claim,
        evidence: EvidenceSet,
        keys: Sequence[frozenset[str]],
        weights: Mapping[str, float],
        context: SensorContext | None,
    ) -> Reading:
        text = visible(claim)[:LIMIT]
        mine = _keys(text)
        shares = [weight_of(mine & theirs, weights) for theirs in keys]
        total = weight_of(mine, weights) or 1.0
        best = max(shares, default=0.0) / total
        flags = []
        if best >= LEAST_SHARED:
            aligned = [
                one for one, share in zip(evidence.sentences, shares, strict=True) if share / total >= best
            ]
        else:
            nearest = None if context is None else context.nearest(claim, evidence)
            aligned = [] if nearest is None else [nearest]
            flags.append("not_aligned" if nearest is None else "aligned_by_embedding")
        if len(claim.text) > LIMIT:
            flags.append("truncated")
        return _reading(claim, text, aligned, max(best, 0.25), flags)


def _keys(text: str) -> frozenset[str]:
    """Stems, with each opposite under the name of its scale, so that rise and fall align."""
    return frozenset(SIGNS[word][0][0] if word in SIGNS else word for word in content(text))


def _reading(
    claim: Claim, text: str, aligned: Sequence[EvidenceSentence], share: float, flags: list[str]
) -> Reading:
    """The turns against the aligned sentence; among equals, one that agrees takes precedence, and "
    "is reported.
    """
    turns: list[tuple[EvidenceSentence, list[Turn]]] = [
        (one, find_turns(text, one.core[:LIMIT])) for one in aligned[:8]
    ]
    agreeing = [one for one, found in turns if not found]
    if agreeing and len(agreeing) < len(turns):
        flags.append("evidence_disagrees")
    sentence, found = (None, []) if agreeing or not turns else turns[0]
    findings = tuple(
        Finding(
            start=turn.start,
            end=turn.end,
            text=claim.text[turn.start : turn.end],
            kind=turn.kind,
            found=turn.found or None,
            expected=None,
            evidence_id=None if sentence is None else sentence.id,
            note="the claim turns what the evidence sentence says",
            value=turn.weight,
        )
        for turn in found
    )
    score = max((turn.weight for turn in found), default=0.0) * (0.5 + 0.5 * min(share, 1.0))
    return Reading(
        sensor=CONTRACT.name,
        state=State.MEASURED,
        reason=None,
        score=score,
        findings=findings,
        flags=tuple(flags),
    )
