"""Where the words of what is embedded stand in the text as it was written.

What is embedded (``core``) has lost citation markers, inline markup and folded white space. A word of it is
looked up in the written text by aligning both word by word; a word that has no counterpart there (an entity
that was read, say) has no place, and is never given a guessed one.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import islice

from outspan.claims import Claim

_UNIT = re.compile(r"[^\W_]+|[^\s\w]|_")
_TARGET = re.compile(r"\]\([^()\s]{0,2000}\)|</?[a-zA-Z][^<>]{0,500}>|<!--[^<>]{0,2000}-->")
_MOST_UNITS = 320
"""Words and marks of what is embedded that are aligned at most: about what an embedder reads, and a bound on
the time that a hostile text can cost. A word behind them has no place."""

_MOST_WRITTEN = 960
"""The same for the text as it was written, which holds more marks."""


def place_in_text(claim: Claim, start: int, end: int) -> tuple[int, int] | None:
    """Offsets in ``claim.text`` of ``claim.core[start:end]``; None where it does not stand there verbatim."""
    if claim.core == claim.text:
        return start, end
    begins = tuple((mark.start - claim.start, mark.end - claim.start) for mark in claim.citations)
    places = _aligned(claim.text, claim.core, begins)
    found = [places.get(i) for i in range(start, end)]
    first, last = found[0], found[-1]
    if first is None or last is None or claim.text[first : last + 1] != claim.core[start:end]:
        return None
    return first, last + 1


@lru_cache(maxsize=64)
def _aligned(text: str, core: str, hidden: tuple[tuple[int, int], ...]) -> dict[int, int]:
    """Character of ``core`` to its character in ``text``, for what stands in both in the same order."""
    shown = _blanked(text, hidden)
    at = shown.find(core)
    if at >= 0 and shown.find(core, at + 1) < 0:
        return {i: at + i for i in range(len(core))}
    ours = [match.span() for match in islice(_UNIT.finditer(core), _MOST_UNITS)]
    theirs = [match.span() for match in islice(_UNIT.finditer(shown), _MOST_WRITTEN)]
    matcher = SequenceMatcher(
        None, [core[a:b] for a, b in ours], [shown[a:b] for a, b in theirs], autojunk=False
    )
    return {
        i: theirs[match.b + k][0] + (i - ours[match.a + k][0])
        for match in matcher.get_matching_blocks()
        for k in range(match.size)
        for i in range(*ours[match.a + k])
    }


def _blanked(text: str, hidden: tuple[tuple[int, int], ...]) -> str:
    """The text with citation markers, link targets and tags overwritten, so that no word is found there."""
    spans = [*hidden, *(match.span() for match in _TARGET.finditer(text))]
    characters = list(text)
    for start, end in spans:
        characters[start:end] = " " * (end - start)
    return "".join(characters)
