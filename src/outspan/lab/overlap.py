"""Word overlap of a claim with its evidence: the baseline that an embedding has to beat.

All are precision-like: shares of the claim that the evidence holds. Tokens are lower-cased runs of letters
and digits, unstemmed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Sequence

_TOKEN = re.compile(r"[^\W_]+", re.UNICODE)
_NAME = re.compile(r"(?<![.!?]\s)(?<!^)\b[A-Z][\w-]+")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_SMALL = 3
"""Words up to this length mostly bind others; content words are longer."""

OVERLAP = ("rouge1", "rouge2", "rougeL", "content_in", "numbers_in", "names_in", "longest_copy")
"""Names of the overlap features, in order; all in [0, 1], missing where the claim has none of the kind."""


def tokens(text: str) -> list[str]:
    """Lower-cased words."""
    return _TOKEN.findall(text.lower())


def overlap(claim: str, evidence: str) -> dict[str, float | None]:
    """Every feature of ``OVERLAP``; None where the claim has nothing of the kind."""
    c, e = tokens(claim), tokens(evidence)
    known = set(e)
    content = [word for word in c if len(word) > _SMALL]
    return {
        "rouge1": ngram_precision(c, e, 1),
        "rouge2": ngram_precision(c, e, 2),
        "rougeL": None if not c else common_subsequence(c, e) / len(c),
        "content_in": _share([word in known for word in content]),
        "numbers_in": _share([n in set(_NUMBER.findall(evidence)) for n in _NUMBER.findall(claim)]),
        "names_in": _share([name.lower() in known for name in _NAME.findall(claim)]),
        "longest_copy": None if not c else longest_copy(c, e) / len(c),
    }


def _share(found: Sequence[bool]) -> float | None:
    return sum(found) / len(found) if found else None


def ngram_precision(claim: Sequence[str], evidence: Sequence[str], n: int) -> float | None:
    """Clipped share of the claim's n-grams that the evidence holds; None where it has no n-gram."""
    ours, theirs = _ngrams(claim, n), _ngrams(evidence, n)
    total = sum(ours.values())
    return sum((ours & theirs).values()) / total if total else None


def _ngrams(words: Sequence[str], n: int) -> Counter[Hashable]:
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def common_subsequence(a: Sequence[str], b: Sequence[str]) -> int:
    """Length of the longest common subsequence.

    Source
    ------
    Bit-parallel form of Hyyrö, "Bit-parallel LCS-length computation revisited" (2004): one addition of
    ``len(a)`` bits for each word of ``b``.
    """
    places: dict[str, int] = {}
    for i, word in enumerate(a):
        places[word] = places.get(word, 0) | (1 << i)
    full = (1 << len(a)) - 1
    row = full
    for word in b:
        hit = row & places.get(word, 0)
        row = ((row + hit) | (row - hit)) & full
    return len(a) - row.bit_count()


def longest_copy(a: Sequence[str], b: Sequence[str]) -> int:
    """Length of the longest run of words that both hold."""
    before: dict[int, int] = {}
    best = 0
    at: dict[str, list[int]] = {}
    for j, word in enumerate(b):
        at.setdefault(word, []).append(j)
    for word in a:
        now = {j: before.get(j - 1, 0) + 1 for j in at.get(word, ())}
        best = max(best, max(now.values(), default=0))
        before = now
    return best
