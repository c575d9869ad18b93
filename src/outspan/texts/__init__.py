"""Text → spans with character offsets into the original; nothing is dropped in silence.

    document ─► blocks (headings, paragraphs, items, rows, code) ─► sentences ─► spans
                                                                                  └─ core: what is embedded

Every character that is not white space lies in exactly one span. What is not to be measured (a heading, code,
a rule) is a span all the same and says why.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .blocks import Block, scan, split_row
from .markup import blank_tags, clean, has_words, is_blank, looks_marked_up
from .sentences import find_cuts
from .spans import Citation, Kind, Span
from .speech import no_claim_reason

__all__ = [
    "SEGMENTER",
    "SEGMENTER_VERSION",
    "Citation",
    "Kind",
    "Span",
    "is_blank",
    "no_claim_reason",
    "segment",
]

SEGMENTER = "outspan-rules"
"""Name of the rules; part of the regime fingerprint."""
SEGMENTER_VERSION = "1"
"""Raised with any change that can move a boundary or change a core; part of the regime fingerprint."""

_NOT_BREAK = re.compile(r"[^\n\r]")
_SAMPLE = 5000


def segment(text: str, *, markdown: bool | None = None) -> list[Span]:
    r"""Split a document into spans.

    Parameters
    ----------
    text : any string, of any length, script and line ending.
    markdown : True reads Markdown and simple HTML, False reads plain text (bullets and numbered items are
        still items), None looks for their signs first.

    Returns
    -------
    list[Span] : in order, disjoint, ``text[s.start:s.end] == s.text``; together they hold every
        character that is not white space. Empty for an empty or blank text.

    Notes
    -----
    Time is linear in the length of the text; no limit on it is set. Text with no stop in it comes back as one
    span, however long: the embedder says where it cuts.

    Examples
    --------
    >>> [span.core for span in segment("The dam was finished in 1936.[4] It is 221 m high.[5]")]
    ['The dam was finished in 1936.', 'It is 221 m high.']
    """
    marked_up = looks_marked_up(text) if markdown is None else markdown
    sample = text[:_SAMPLE]
    lower = sum(map(str.isupper, sample)) * 1000 <= len(sample)
    spans: list[Span] = []
    for block in scan(text, markdown=marked_up):
        if block.kind is Kind.ROW:
            spans.append(_row(text, block))
        elif block.kind in (Kind.SENTENCE, Kind.ITEM):
            spans.extend(_sentences(text, block, lower=lower, markdown=marked_up))
        else:
            spans.append(_whole(text, block))
    return spans


def _sentences(text: str, block: Block, *, lower: bool, markdown: bool) -> Iterator[Span]:
    content = _content(text, block)
    visible = blank_tags(content) if markdown else content
    cuts = find_cuts(visible, lower=lower)
    for start, end in zip([0, *cuts], [*cuts, len(content)], strict=True):
        words, markers = clean(content[start:end], markdown=markdown)
        at = block.start + start
        citations = _citations(text, at, markers)
        yield _span(text, at, block.start + end, block, core=words, citations=citations)


def _content(text: str, block: Block) -> str:
    """Return the block with the marks at the head of its lines blanked; all else stays at its place."""
    if block.parts == ((block.start, block.end),):
        return text[block.start : block.end]
    pieces: list[str] = []
    at = block.start
    for start, end in block.parts:
        pieces.append(_NOT_BREAK.sub(" ", text[at:start]))
        pieces.append(text[start:end])
        at = end
    return "".join(pieces)


def _row(text: str, block: Block) -> Span:
    content = _content(text, block)
    cells: list[str] = []
    for index, cell in enumerate(split_row(content)):
        words = clean(cell, markdown=True)[0]
        name = block.header[index] if index < len(block.header) else ""
        if words:
            cells.append(f"{name}: {words}" if name and has_words(words) else words)
    markers = clean(content, markdown=True)[1]
    citations = _citations(text, block.start, markers)
    return _span(text, block.start, block.end, block, core="; ".join(cells), citations=citations)


def _whole(text: str, block: Block) -> Span:
    words = ""
    if block.kind is Kind.HEADING:
        words = clean(text[block.start : block.end].strip("#=->\t \r\n"), markdown=True)[0]
    return _span(text, block.start, block.end, block, core=words, citations=())


def _citations(text: str, at: int, markers: list[tuple[int, int]]) -> tuple[Citation, ...]:
    return tuple(
        Citation(start=at + start, end=at + end, text=text[at + start : at + end]) for start, end in markers
    )


def _span(
    text: str, start: int, end: int, block: Block, *, core: str, citations: tuple[Citation, ...]
) -> Span:
    raw = text[start:end]
    written = raw.strip()
    start += len(raw) - len(raw.lstrip())
    kind, reason = block.kind, block.reason
    if reason is None and not has_words(core):
        kind, reason = Kind.OTHER, "citation only" if citations and not core else "no words"
    return Span(
        start=start,
        end=start + len(written),
        text=written,
        kind=kind,
        core=core,
        citations=citations,
        context=block.context,
        unmeasured=reason,
    )
