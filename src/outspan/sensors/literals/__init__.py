"""``literals``: numbers, dates, quantities, names, identifiers and quotations of a claim that its evidence
does not hold, or holds in another place.

Reads texts only; linear in their length. Which rules, and why no library: decision 0016.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from outspan.claims import Claim
from outspan.evidence import EvidenceSet
from outspan.measurement import Finding, Reading, State
from outspan.sensors.literals.compare import MOST, Evidence, Verdict
from outspan.sensors.literals.extract import LIMIT
from outspan.sensors.reading import SensorContext, SensorContract
from outspan.texts import Kind

__all__ = ["CONTRACT", "LiteralSensor"]

CONTRACT = SensorContract(
    name="literals",
    measures="share of the claim's numbers, dates, quantities, names, identifiers and quotations that the "
    "evidence does not hold; one that is ambiguous counts half",
    unit="claim_vs_evidence_set",
    range=(0.0, 1.0),
    direction="higher_means_less_contained",
    blind_spots=(
        "anything_said_without_a_literal",
        "relation_or_role_inversion_of_the_same_names",
        "polarity_change",
        "literal_in_the_right_sentence_with_the_wrong_role",
        "numbers_spelled_out_in_languages_other_than_english",
        "names_written_in_lower_case_or_in_scripts_without_case",
    ),
    parameters=(),
    uses=(),
    version=1,
)

_MARKER = re.compile(r"\s*(?:[-*+•]|\(?\d{1,3}[.)])\s+")
AMBIGUOUS = 0.5


class LiteralSensor:
    """Share of a claim's literals that its evidence does not support.

    A claim without literals is measured, with score 0 and the flag ``no_literals``: nothing in it disagrees.

    Examples
    --------
    >>> from outspan.claims import whole_claim
    >>> from outspan.embedders import Embedder
    >>> evidence = EvidenceSet.of(["The trial ran for 18 months."])
    >>> reading = LiteralSensor().read([whole_claim("The trial ran for 18 weeks.")], evidence, None)[0]
    >>> reading.score, reading.findings[0].text, reading.findings[0].expected
    (1.0, '18 weeks', '18 months')
    """

    name: ClassVar[str] = "literals"

    @property
    def contract(self) -> SensorContract:
        """The contract; this sensor has no parameters."""
        return CONTRACT

    def read(
        self,
        claims: Sequence[Claim],
        evidence: EvidenceSet,
        context: SensorContext | None = None,  # noqa: ARG002  the protocol's; this sensor reads texts only
        /,
    ) -> list[Reading]:
        """One reading a claim, in order; the evidence is taken apart once for all of them."""
        held = Evidence([(one.id, one.core, one.text.lstrip().startswith("|")) for one in evidence.sentences])
        cut = any(len(one.core) > LIMIT for one in evidence.sentences)
        return [_reading(claim, held.judge(visible(claim)), cut=cut) for claim in claims]


def visible(claim: Claim) -> str:
    """The claim's text with citation markers and a list marker blanked: every other offset stays."""
    text = claim.text
    for citation in claim.citations:
        start, end = citation.start - claim.start, citation.end - claim.start
        text = text[:start] + " " * (end - start) + text[end:]
    marker = _MARKER.match(text) if claim.kind is Kind.ITEM else None
    return text if marker is None else " " * marker.end() + text[marker.end() :]


def _reading(claim: Claim, verdicts: Sequence[Verdict], *, cut: bool) -> Reading:
    findings = tuple(_finding(claim, verdict) for verdict in verdicts if verdict.outcome != "supported")
    weight = sum(
        AMBIGUOUS if verdict.outcome == "ambiguous" else 1.0
        for verdict in verdicts
        if verdict.outcome != "supported"
    )
    flags = []
    if not verdicts:
        flags.append("no_literals")
    if any(verdict.outcome == "ambiguous" for verdict in verdicts):
        flags.append("ambiguous_literal")
    if len(claim.text) > LIMIT or len(verdicts) == MOST:
        flags.append("truncated")
    if cut:
        flags.append("evidence_truncated")
    return Reading(
        sensor=CONTRACT.name,
        state=State.MEASURED,
        reason=None,
        score=weight / len(verdicts) if verdicts else 0.0,
        findings=findings,
        flags=tuple(flags),
    )


_NOTES = {
    "ambiguous": "one reading of it agrees with the evidence and another does not",
    "mismatch": "the evidence has another value in its place",
    "misplaced": "it is in the evidence, but of something else",
    "absent": "the evidence does not hold it",
}


def _finding(claim: Claim, verdict: Verdict) -> Finding:
    literal = verdict.literal
    expected = None if verdict.expected is None else verdict.expected.text
    return Finding(
        start=literal.start,
        end=literal.end,
        text=claim.text[literal.start : literal.end],
        kind=str(literal.kind),
        found=expected,
        expected=expected if verdict.outcome != "ambiguous" else None,
        evidence_id=None if verdict.place is None else verdict.place.evidence_id,
        note=_NOTES[verdict.outcome],
        value=AMBIGUOUS if verdict.outcome == "ambiguous" else 1.0,
    )
