"""Citation markers: where they stand in a text."""

from __future__ import annotations

import re
from collections.abc import Iterator

_NUMBER = r"\d{1,4}[a-z]?"
_LETTER = r"[A-Z]\d{0,3}"
_NUMBERED = rf"\[{_NUMBER}(?:\s?[,;–-]\s?{_NUMBER}){{0,30}}+\]"
# "[T]he" is an edited word and "x[A]" an index, no markers
_LETTERED = rf"(?<!\w)\[{_LETTER}(?:\s?[,;–-]\s?{_LETTER}){{0,30}}+\](?!\w)"
_NAMED = (
    r"\[(?:\^[\w-]{1,30}|(?i:(?:note|n|nb|ref|source|doc|document|chunk|passage|context)[ _#]{0,2}\d{1,4})"
    r"|(?i:citation needed))\]"
)
_NAMED_ROUND = r"\((?i:source|doc|document|chunk|passage|ref)[ #]{1,2}\d{1,4}\)"
_DAGGER = r"【\d{1,4}(?::\d{1,4})?(?:†[^【】\n]{0,80})?】"
_NAME = r"(?:(?:van|von|de|der|den|di|du|la|le|al) ){0,2}[A-ZÀ-ÖØ-Þ][\w'’-]{1,40}"
_YEAR = r"(?:1[5-9]|20)\d\d[a-z]?(?:, ?(?:pp?\. ?)?\d{1,4}(?:[–-]\d{1,4})?)?"
# A lone name needs its comma: "(Brandt 2019)" is as often an event and its year.
_AUTHOR_DATE_ITEM = (
    rf"(?:{_NAME}(?:(?: et al\.?)|(?: (?:and|&|und|et|y) {_NAME})),? {_YEAR}"
    rf"|(?:{_NAME}, ){{1,4}}(?:(?:and|&) {_NAME},? )?{_YEAR})"
)
_AUTHOR_DATE = rf"\((?:(?:see|cf\.|e\.g\.,?) )?{_AUTHOR_DATE_ITEM}(?:; {_AUTHOR_DATE_ITEM}){{0,20}}\)"
_TARGET = r"(?:\([^()\s]{1,2000}+\))?"  # "[2](https://…)": the link belongs to the marker
_SUP = r"<sup>\[?\d{1,4}\]?</sup>"
_RAISED = r"(?<=[.,;:!?)\]”\"'’])[⁰¹²³⁴-⁹]{1,4}"

_MARKER = re.compile(
    rf"(?:{_NUMBERED}|{_LETTERED}|{_NAMED}){_TARGET}|{_NAMED_ROUND}|{_DAGGER}|{_AUTHOR_DATE}"
    rf"|(?<=et al\. )\((?:1[5-9]|20)\d\d[a-z]?\)|{_SUP}|{_RAISED}"
)
_MONTH = re.compile(
    r"\((?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec|spring|summer|autumn|fall|winter)[a-z]*,",
    re.IGNORECASE,
)
# "in [0, 1]" is an interval. The words before it, and a zero in it, tell it from "[1, 2]" as two sources.
_INTERVAL_LEAD = re.compile(
    r"(?:\b(?:in|interval|range|between|from|on)|[∈=×\w\]](?<=[∈=×]))\s?\Z", re.IGNORECASE
)
_INTERVAL = re.compile(r"\[\d+\s?[,;]\s?\d+\]")
_HAS_ZERO = re.compile(r"\[(?:.*\D)?0(?!\d)")

MAY_HOLD_MARKER = re.compile(r"[\[(【⁰¹²³⁴-⁹]|<sup>")
"""A quick test: a text in which this finds nothing holds no marker."""


def find_markers(text: str) -> Iterator[tuple[int, int]]:
    """Yield the offsets ``(start, end)`` of the citation markers in a text, in order.

    Linear in the length of the text: each repetition in the pattern is bounded.
    """
    for match in _MARKER.finditer(text):
        marker = match[0]
        if marker.startswith("[") and _is_interval(marker, text[max(0, match.start() - 12) : match.start()]):
            continue
        if marker.startswith("(") and _MONTH.match(marker):
            continue
        yield match.span()


def _is_interval(marker: str, before: str) -> bool:
    if _HAS_ZERO.match(marker):
        return True
    return bool(_INTERVAL.fullmatch(marker) and _INTERVAL_LEAD.search(before))
