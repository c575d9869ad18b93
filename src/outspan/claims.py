"""From an answer to the claims in it: which spans claim something, and what of them is embedded."""

from __future__ import annotations

from dataclasses import dataclass

from outspan.texts import Citation, Kind, no_claim_reason, segment


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A stretch of an answer that is measured as one, or the reason why it is not."""

    text: str
    """As written; ``answer[start:end]``."""
    core: str
    """What is embedded: without citation markers and markup; empty where nothing is to be measured."""
    start: int
    end: int
    """Character offsets in the answer, end exclusive."""
    kind: Kind
    context: str
    """Heading, lead-in of a list or header of a table that the claim stands under; not embedded."""
    citations: tuple[Citation, ...]
    unmeasured: str | None
    """Why it claims nothing (``heading``, ``courtesy``, ``refusal``, …); None if it is to be measured."""


def split_claims(answer: str, *, markdown: bool | None = None) -> list[Claim]:
    """Every span of ``answer`` in order; spans that claim nothing come with their reason.

    An answer without a visible character is one claim that claims nothing, so that it has a state too.
    """
    spans = segment(answer, markdown=markdown)
    if not spans:
        return [_nothing(answer)]
    return [
        Claim(
            text=span.text,
            core=span.core,
            start=span.start,
            end=span.end,
            kind=span.kind,
            context=span.context,
            citations=span.citations,
            unmeasured=span.unmeasured or no_claim_reason(span.core),
        )
        for span in spans
    ]


def _nothing(answer: str) -> Claim:
    return Claim(
        text=answer,
        core="",
        start=0,
        end=len(answer),
        kind=Kind.OTHER,
        context="",
        citations=(),
        unmeasured="empty",
    )


def whole_claim(text: str) -> Claim:
    """The whole of ``text`` as one claim; its sentences that claim nothing are not embedded."""
    spans = split_claims(text)
    told = [span for span in spans if span.unmeasured is None]
    reasons = {span.unmeasured for span in spans if span.unmeasured is not None}
    return Claim(
        text=text,
        core=" ".join(span.core for span in told),
        start=0,
        end=len(text),
        kind=told[0].kind if len(told) == 1 else Kind.SENTENCE,
        context=told[0].context if told else "",
        citations=tuple(citation for span in spans for citation in span.citations),
        unmeasured=None if told else " and ".join(sorted(reasons)) or "empty",
    )
