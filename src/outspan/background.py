"""Sentences that have nothing to do with the evidence at hand: what an unrelated claim looks like.

A bank is what ``background_adjusted`` compares with and what ``whitened`` may be fitted on. The one that
ships is of our own writing, in plain text, one declarative sentence a line, over some fifteen subjects; a
bank drawn from the corpus at hand speaks its style and knows the source of each sentence, so that a claim is
never compared with its own document.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from outspan.canonical import digest_bytes, length_prefixed

SIZE = 300
"""Sentences drawn from a corpus unless told otherwise, about as many as ship."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bank:
    """Background claims."""

    texts: tuple[str, ...]
    """Distinct sentences."""
    groups: tuple[str, ...]
    """Source of each sentence; the empty string for those that ship, which belong to no document."""
    digest: str
    """``sha256:`` and 64 hex digits over texts and groups in their order; part of the regime."""

    @classmethod
    def of(cls, texts: Iterable[str], groups: Iterable[str]) -> Bank:
        """A bank of these sentences.

        Raises
        ------
        ValueError
            When texts and groups differ in number.
        """
        kept_texts, kept_groups = tuple(texts), tuple(groups)
        if len(kept_texts) != len(kept_groups):
            raise ValueError(
                f"a bank needs one group for each text: {len(kept_texts)} texts, {len(kept_groups)} groups"
            )
        parts = [
            part.encode("utf-8", errors="surrogatepass")
            for pair in zip(kept_texts, kept_groups, strict=True)
            for part in pair
        ]
        return cls(texts=kept_texts, groups=kept_groups, digest=digest_bytes(length_prefixed(parts)))

    def __len__(self) -> int:
        return len(self.texts)


@cache
def shipped() -> Bank:
    """The bank that comes with the package."""
    text = files("outspan").joinpath("background.txt").read_text(encoding="utf-8")
    lines = tuple(line for line in text.splitlines() if line)
    return Bank.of(lines, ("",) * len(lines))


def draw(sentences: Iterable[tuple[str, str]], *, size: int = SIZE, seed: int = 0) -> Bank:
    """A bank from the corpus at hand, spread over its sources.

    The choice depends on texts, groups and seed alone, not on the order in which the corpus was read:
    sentences are ranked by a hash, and sources take turns. A sentence that occurs in several sources is
    boilerplate or shared text, and would leak past the exclusion of a single source; it is left out.

    Parameters
    ----------
    sentences : pairs of group (source id) and text.
    size : sentences wanted; fewer come back from a small corpus.
    seed : another seed, another draw.

    Raises
    ------
    ValueError
        When there is no usable sentence.
    """
    sources: dict[str, set[str]] = {}
    for group, text in sentences:
        if text.strip():
            sources.setdefault(text, set()).add(group)
    by_group: dict[str, list[tuple[bytes, str]]] = {}
    for text, groups in sources.items():
        if len(groups) == 1:
            by_group.setdefault(next(iter(groups)), []).append((_rank(seed, text), text))
    turns = [
        (turn, rank, group, text)
        for group, ranked in by_group.items()
        for turn, (rank, text) in enumerate(sorted(ranked))
    ]
    if not turns:
        raise ValueError(
            "no sentence of the corpus can serve as background: it has none, or all are shared by sources"
        )
    chosen = sorted(turns)[:size]
    return Bank.of([text for *_, text in chosen], [group for *_, group, _ in chosen])


def _rank(seed: int, text: str) -> bytes:
    parts = [str(seed).encode(), text.encode("utf-8", errors="surrogatepass")]
    return hashlib.sha256(length_prefixed(parts)).digest()
