"""``tokens``: which words of a claim have nothing like them in the evidence.

A sentence vector says how near two sentences are as wholes. Its word pieces have vectors too, from the same
forward pass, each coloured by its sentence. A content word whose vector is near that of some evidence word is
contained; one that is far from all of them is outside, and can be pointed to.

    claim word ─► its pieces ─► 1 − largest cosine to any evidence piece, each ─► mean ─► the word's value
    words ─► content words ─► mean of their values ─► score
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from outspan.claims import Claim
from outspan.evidence import EvidenceSentence, EvidenceSet
from outspan.measurement import Finding, Reading, State
from outspan.sensors.places import place_in_text
from outspan.sensors.reading import SensorContext, SensorContract, failed
from outspan.sensors.token_store import Pieces, TokenStore

OUTSIDE_FROM = 0.25
"""A word is listed from this value on. It decides what is shown and nothing else: no score depends on it."""

PIECES_AT_ONCE = 16_384
"""Evidence word pieces that are compared at a time: bounds memory. Where a block ends depends on the evidence
alone, so that a claim's numbers do not depend on its neighbours."""

TEXTS_AT_ONCE = 512
"""Evidence texts that are asked of the store at a time."""

WORD = re.compile(
    r"\d[\d.,:]*\d"  # a number keeps its separators
    r"|[\u3040-\u30ff\u3400-\u9fff]"  # no spaces between the words of these scripts
    r"|[^\W_]+(?:['’][^\W_]+)*"
)

_FUNCTION_WORDS = """
a about after against all also although am among an and any are as at be because been before being
both but by can could did do does doing done down during each either every for from had has have
having he her here hers him his how however i if in into is it it's its just least less may me might
more most must my neither no nor not of off on once only onto or our out over own per same shall she
should since so some such than that the their them then there these they this those though through
to under until up upon us very via was we were what when where whether which while who whom whose
why will with within without would you your
"""

FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
"""Words that hold a sentence together and are in all evidence: they say nothing about containment. That
leaves negation to a sensor of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WordValue:
    """A content word of an embedded text, and how far it is from the evidence."""

    start: int
    end: int
    """Character offsets in the embedded text."""
    value: float
    """In [0, 1]: mean over its word pieces of 1 − largest cosine, a negative cosine counting as 0."""
    sentence: int | None
    """Number of the evidence text that holds what is nearest to its farthest piece; None where no evidence
    piece has a positive cosine to it."""
    found: str | None
    """The evidence word there."""


class TokenSensor:
    """Containment of each content word of a claim among the contextual word pieces of its evidence.

    Parameters
    ----------
    outside_from : findings list the words whose value reaches this, in [0, 1]; 0 lists every content word.
    """

    name: ClassVar[str] = "tokens"

    def __init__(self, *, outside_from: float = OUTSIDE_FROM) -> None:
        if not 0.0 <= outside_from <= 1.0:
            raise ValueError(f"tokens: outside_from must lie in [0, 1], not {outside_from!r}")
        self.outside_from = float(outside_from)

    @property
    def contract(self) -> SensorContract:
        """What the score claims to be."""
        return SensorContract(
            name=self.name,
            measures=(
                "mean over the content words of a claim of 1 − the largest cosine of their word pieces to "
                "any word piece of the evidence, in the embedder's last layer"
            ),
            unit="claim_vs_evidence_set",
            range=(0.0, 1.0),
            direction="higher_means_less_contained",
            blind_spots=(
                "relation_or_role_inversion",
                "polarity_change",
                "words_of_different_evidence_sentences_recombined",
                "numbers_and_names_whose_vectors_are_close",
                "paraphrase_in_other_words_looks_outside",
                "bad_or_false_evidence",
            ),
            parameters=(("outside_from", self.outside_from),),
            uses=("token_vectors",),
            version=1,
        )

    def read(
        self, claims: Sequence[Claim], evidence: EvidenceSet, context: SensorContext, /
    ) -> list[Reading]:
        """One reading a claim, in order."""
        if context.tokens is None:
            reason = f"the embedder {context.embedder.identity.name} gives no token vectors"
            return [failed(self.name, reason) for _ in claims]
        compared = compare_words(
            [claim.core for claim in claims], [one.core for one in evidence.sentences], context.tokens
        )
        return [
            self._reading(claim, words, evidence.sentences, compared.flags)
            for claim, words in zip(claims, compared.words, strict=True)
        ]

    def _reading(
        self,
        claim: Claim,
        words: ReadWords | str,
        sentences: Sequence[EvidenceSentence],
        evidence_flags: tuple[str, ...],
    ) -> Reading:
        if isinstance(words, str):
            return failed(self.name, words)
        if not words.values:
            reason = "no content word that the embedder can read"
            return Reading(sensor=self.name, state=State.NO_CLAIM, reason=reason, score=None)
        outside = [one for one in words.values if one.value >= self.outside_from]
        findings = [self._finding(claim, one, sentences) for one in outside]
        located = tuple(finding for finding in findings if finding is not None)
        unplaced = ("words_not_located",) if len(located) < len(outside) else ()
        return Reading(
            sensor=self.name,
            state=State.MEASURED,
            reason=None,
            score=float(np.mean([one.value for one in words.values])),
            findings=located,
            flags=(*words.flags, *evidence_flags, *unplaced),
        )

    def _finding(
        self, claim: Claim, word: WordValue, sentences: Sequence[EvidenceSentence]
    ) -> Finding | None:
        place = place_in_text(claim, word.start, word.end)
        if place is None:
            return None
        return Finding(
            start=place[0],
            end=place[1],
            text=claim.text[place[0] : place[1]],
            kind="word",
            found=word.found,
            expected=None,
            evidence_id=None if word.sentence is None else sentences[word.sentence].id,
            value=word.value,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadWords:
    """The content words of one text."""

    values: tuple[WordValue, ...]
    flags: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Texts held against evidence, word by word."""

    words: tuple[ReadWords | str, ...]
    """For each text its words, or why there are none."""
    flags: tuple[str, ...]
    """About the evidence: they hold for every text."""


def compare_words(texts: Sequence[str], evidence: Sequence[str], store: TokenStore) -> Compared:
    """Values of the content words of ``texts`` against all word pieces of ``evidence``."""
    read = store.get(texts)
    best = [_Best(one) for one in read if isinstance(one, Pieces)]
    flags: set[str] = set()
    failures = 0
    for block in _blocks(evidence, store):
        lacking = sum(isinstance(one, str) for _, one in block)
        failures += lacking
        if lacking:
            flags.add("evidence_incomplete")
        if any(isinstance(one, Pieces) and one.truncated for _, one in block):
            flags.add("evidence_truncated")
        rows = _rows(block)
        if rows is not None:
            for claim in best:
                claim.update(rows)
    if failures == len(evidence):
        reason = "the embedder gave no token vectors for any evidence sentence"
        return Compared(words=tuple(reason for _ in texts), flags=())
    done = iter(best)
    return Compared(
        words=tuple(
            next(done).words(text, evidence) if isinstance(one, Pieces) else one
            for text, one in zip(texts, read, strict=True)
        ),
        flags=tuple(sorted(flags)),
    )


def cover_words(
    texts: Sequence[str], evidence: Sequence[str], store: TokenStore
) -> list[NDArray[np.float64] | None]:
    """How well each single evidence text covers the content words of each of ``texts``.

    Shapes
    ------
    For each text (len(evidence),) float64 in [0, 1]: mean over its content words of the mean over their
    pieces of the largest cosine within that evidence text, a negative one counting as 0; None for a text
    without a readable content word.
    """
    read = [
        (one, [known for _, known in _known_pieces(text, one) if known]) if isinstance(one, Pieces) else None
        for text, one in zip(texts, store.get(texts), strict=True)
    ]
    covered = [np.zeros(len(evidence)) if one is not None and one[1] else None for one in read]
    for block in _blocks(evidence, store):
        rows = _rows(block)
        if rows is None:
            continue
        # Pieces of one text stand together: where each begins, and the largest cosine in between.
        numbers, begins = np.unique(rows.texts, return_index=True)
        for one, values in zip(read, covered, strict=True):
            if one is None or values is None:
                continue
            cosines = np.maximum.reduceat(one[0].vectors @ rows.vectors.T, begins, axis=1)
            cosines = np.clip(cosines.astype(np.float64), 0.0, 1.0)
            values[numbers] = np.mean([cosines[known].mean(axis=0) for known in one[1]], axis=0)
    return covered


def _known_pieces(text: str, pieces: Pieces) -> Iterator[tuple[tuple[int, int], list[int]]]:
    """Offsets of each content word that was read, and its pieces that stand for something."""
    for start, end in content_words(text):
        at = [i for i, (a, b) in enumerate(pieces.offsets) if a < end and start < b]
        if at:  # else the embedder stopped reading before it
            yield (start, end), [i for i in at if pieces.known[i]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """Word pieces of some evidence texts, one under the other."""

    vectors: NDArray[np.float32]
    """(p, d)."""
    texts: NDArray[np.intp]
    """(p,) number of the text that each piece stands in."""
    places: NDArray[np.intp]
    """(p,) character in that text at which it begins."""


def _blocks(evidence: Sequence[str], store: TokenStore) -> Iterator[list[tuple[int, Pieces | str]]]:
    """Evidence texts with their numbers, some ``PIECES_AT_ONCE`` word pieces at a time."""
    block: list[tuple[int, Pieces | str]] = []
    size = 0
    for start in range(0, len(evidence), TEXTS_AT_ONCE):
        for number, one in enumerate(store.get(evidence[start : start + TEXTS_AT_ONCE]), start):
            block.append((number, one))
            size += len(one.pieces) if isinstance(one, Pieces) else 0
            if size >= PIECES_AT_ONCE:
                yield block
                block, size = [], 0
    if block:
        yield block


def _rows(block: Sequence[tuple[int, Pieces | str]]) -> _Rows | None:
    """The readable pieces of a block; None where there is none."""
    readable = [(number, one) for number, one in block if isinstance(one, Pieces) and one.pieces]
    if not readable:
        return None
    known = np.concatenate([one.known for _, one in readable])
    numbers = np.concatenate([np.full(len(one.pieces), number) for number, one in readable])
    starts = np.concatenate([one.starts for _, one in readable])
    vectors = np.concatenate([one.vectors for _, one in readable])
    if not known.all():
        vectors, numbers, starts = vectors[known], numbers[known], starts[known]
    return _Rows(vectors=vectors, texts=numbers, places=starts) if len(vectors) else None


class _Best:
    """For each piece of one text the nearest evidence piece so far."""

    def __init__(self, pieces: Pieces) -> None:
        self.pieces = pieces
        t = len(pieces.pieces)
        self.cosine = np.zeros(t, dtype=np.float32)  # a negative cosine is no containment either
        self.text = np.zeros(t, dtype=np.intp)
        self.place = np.full(t, -1, dtype=np.intp)

    def update(self, rows: _Rows) -> None:
        cosines = self.pieces.vectors @ rows.vectors.T
        nearest = cosines.argmax(axis=1)
        largest = cosines[np.arange(len(nearest)), nearest]
        better = largest > self.cosine  # strictly: of equals the first in the evidence stays
        self.cosine[better] = largest[better]
        self.text[better] = rows.texts[nearest[better]]
        self.place[better] = rows.places[nearest[better]]

    def words(self, text: str, evidence: Sequence[str]) -> ReadWords:
        """The content words of ``text``, which the pieces belong to."""
        pieces = self.pieces
        values = np.clip(1.0 - self.cosine.astype(np.float64), 0.0, 1.0)
        flags = {"truncated"} if pieces.truncated else set()
        found = []
        for (start, end), known in _known_pieces(text, pieces):
            if not known:
                flags.add("unknown_words")
                continue
            farthest = max(known, key=lambda i: (values[i], -i))
            found.append(
                WordValue(
                    start=start,
                    end=end,
                    value=float(values[known].mean()),
                    sentence=int(self.text[farthest]) if self.place[farthest] >= 0 else None,
                    found=self._word_at(farthest, evidence),
                )
            )
        return ReadWords(values=tuple(found), flags=tuple(sorted(flags)))

    def _word_at(self, piece: int, evidence: Sequence[str]) -> str | None:
        """The evidence word around what is nearest to a piece; None where every cosine is negative."""
        place = int(self.place[piece])
        if place < 0:
            return None
        text = evidence[int(self.text[piece])]
        around = (match for match in WORD.finditer(text) if match.start() <= place < match.end())
        word = next(around, None)
        return text[place] if word is None else word[0]


def content_words(text: str) -> Iterator[tuple[int, int]]:
    """Offsets of the words of ``text`` that are no function words, in order."""
    for match in WORD.finditer(text):
        if match[0].lower().replace("’", "'") not in FUNCTION_WORDS:
            yield match.span()
