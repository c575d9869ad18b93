"""``attribution``: which evidence a claim rests on, and whether that is what it cites.

    claim, evidence ─► support by each sentence ─► ranked ─► the best against the best of the cited items

Support is the mean of two views: the cosine of the sentence vectors, and how well the claim's content words
are covered by the word pieces of that one sentence. Without token vectors it is the cosine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from outspan.claims import Claim
from outspan.evidence import EvidenceSentence, EvidenceSet
from outspan.measurement import Finding, Reading, State
from outspan.sensors.reading import SensorContext, SensorContract, failed
from outspan.sensors.tokens import cover_words
from outspan.texts import Citation

MARGIN = 0.05
"""How much better an item that is not cited must support the claim, before the citation is called in
question."""

MOST_NUMBERS = 50
"""Items that one marker may name; ``[1-9999]`` names nothing in particular."""

_NUMBERS = re.compile(r"(\d{1,4})(?:\s?[–-]\s?(\d{1,4}))?")
_LABEL = re.compile(r"[\[(【]\^?(?P<label>[^\[\]()【】†:]{1,40})")
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """How much one evidence sentence supports one claim."""

    sentence: EvidenceSentence
    support: float
    """In [0, 1]: mean of the two below, a negative one counting as 0."""
    similarity: float
    """Cosine of the sentence vectors, in [-1, 1]."""
    coverage: float | None
    """Mean over the claim's content words of their largest cosine within this sentence, in [0, 1]; None
    where there are no token vectors."""


def rank_support(
    claims: Sequence[Claim], evidence: EvidenceSet, context: SensorContext
) -> list[list[Support]]:
    """For each claim every evidence sentence by how much it supports it, best first, ties by cosine.

    Empty where the embedder gave no vector for the claim, or for any sentence.
    """
    covered: list[NDArray[np.float64] | None] = [None for _ in claims]
    if context.tokens is not None:
        cores = [one.core for one in evidence.sentences]
        covered = cover_words([claim.core for claim in claims], cores, context.tokens)
    return [
        _ranked(context.ranked(claim, evidence), evidence, values)
        for claim, values in zip(claims, covered, strict=True)
    ]


def _ranked(
    similar: Sequence[tuple[EvidenceSentence, float]],
    evidence: EvidenceSet,
    covered: NDArray[np.float64] | None,
) -> list[Support]:
    at = {one.id: i for i, one in enumerate(evidence.sentences)}
    coverage = [None if covered is None else float(covered[at[one.id]]) for one, _ in similar]
    supports = [
        Support(sentence=one, support=_mean(cosine, cover), similarity=cosine, coverage=cover)
        for (one, cosine), cover in zip(similar, coverage, strict=True)
    ]
    return sorted(supports, key=lambda one: -one.support)


def _mean(similarity: float, coverage: float | None) -> float:
    parts = [similarity] if coverage is None else [similarity, coverage]
    return min(1.0, sum(max(0.0, part) for part in parts) / len(parts))


class AttributionSensor:
    """Whether a claim rests on the evidence that it cites.

    The score of a claim with citations is how much better the best sentence of all evidence supports it than
    the best sentence of the cited items: 0 where it rests on what it cites.

    ``[2]`` is the second item that was handed in, unless the items have ids of their own and one of them is
    called ``2``; ``[A]`` is the item with that id. ``sources`` says it where neither holds. A sentence that
    several items hold counts for each of them.

    Parameters
    ----------
    margin : a finding ``citation_mismatch`` needs a score above this, in [0, 1].
    sources : label in a marker, such as ``2`` or ``Brandt``, to the id of an evidence item.
    """

    name: ClassVar[str] = "attribution"

    def __init__(self, *, margin: float = MARGIN, sources: Mapping[str, str] | None = None) -> None:
        if not 0.0 <= margin <= 1.0:
            raise ValueError(f"attribution: margin must lie in [0, 1], not {margin!r}")
        self.margin = float(margin)
        self.sources = dict(sources or {})

    @property
    def contract(self) -> SensorContract:
        """What the score claims to be."""
        return SensorContract(
            name=self.name,
            measures=(
                "support of a claim by its best evidence sentence minus that by the best sentence of the "
                "items it cites; support is the mean of cosine and coverage of content words"
            ),
            unit="cited_claim_vs_evidence_set",
            range=(0.0, 1.0),
            direction="higher_means_less_contained",
            blind_spots=(
                "claim_without_citation",
                "claim_supported_by_nothing_at_all",
                "citation_of_several_items_of_which_one_supports",
                "items_that_say_nearly_the_same",
                "sentence_in_the_cited_item_that_is_about_the_claim_and_denies_it",
            ),
            parameters=(("margin", self.margin), *self._sources()),
            uses=("sentence_vectors", "token_vectors"),
            version=1,
        )

    def read(
        self, claims: Sequence[Claim], evidence: EvidenceSet, context: SensorContext, /
    ) -> list[Reading]:
        """One reading a claim, in order; NO_CLAIM where the claim cites nothing."""
        citing = [claim for claim in claims if claim.citations]
        ranked = iter(rank_support(citing, evidence, context) if citing else ())
        holders = _holders(evidence)
        return [
            self._reading(claim, evidence.items, next(ranked), holders)
            if claim.citations
            else self._without("it cites nothing")
            for claim in claims
        ]

    def _reading(
        self,
        claim: Claim,
        items: Sequence[str],
        ranked: Sequence[Support],
        holders: Mapping[str, frozenset[str]],
    ) -> Reading:
        named = [self._items(mark, items) for mark in claim.citations]
        cited = {item for one in named for item in one}
        unresolved = not all(named)
        flags = ("citation_unresolved",) if unresolved else ()
        if not cited:
            return self._without("no marker names an evidence item")
        if not ranked:
            return failed(
                self.name, "the embedder gave no vector for the claim, or for any evidence sentence"
            )
        best = ranked[0]
        within = [one.support for one in ranked if holders[one.sentence.id] & cited]
        score = best.support - max(within, default=0.0)
        mismatch = score > self.margin and not unresolved
        return Reading(
            sensor=self.name,
            state=State.MEASURED,
            reason=None,
            score=score,
            findings=tuple(_mismatch(claim, best) for _ in range(mismatch)),
            flags=(*flags, *(("citation_mismatch",) if mismatch else ())),
        )

    def _sources(self) -> tuple[tuple[str, str], ...]:
        """The mapping as a parameter, where one was given: another mapping may give another score."""
        return (("sources", json.dumps(self.sources, sort_keys=True)),) if self.sources else ()

    def _without(self, reason: str) -> Reading:
        return Reading(sensor=self.name, state=State.NO_CLAIM, reason=reason, score=None)

    def _items(self, mark: Citation, items: Sequence[str]) -> tuple[str, ...]:
        """Ids of the evidence items that a marker names."""
        labels = list(_labels(mark.text))
        found = (_item(label, items, self.sources) for label in labels)
        return tuple(item for item in found if item is not None)


def _mismatch(claim: Claim, best: Support) -> Finding:
    mark = claim.citations[0]
    start, end = mark.start - claim.start, mark.end - claim.start
    return Finding(
        start=start,
        end=end,
        text=claim.text[start:end],
        kind="citation_mismatch",
        found=best.sentence.text,
        expected=best.sentence.item_id,
        evidence_id=best.sentence.id,
        note="another item supports the claim better than the cited one",
    )


def _labels(marker: str) -> Iterator[str]:
    """The labels in a marker: each number of it, ranges written out, or its name."""
    marker = marker.translate(_RAISED).removeprefix("<sup>").removesuffix("</sup>")
    inside = _LABEL.match(marker)
    name = marker.strip() if inside is None else inside["label"].strip()
    numbers = list(_NUMBERS.finditer(name.partition("†")[0]))
    rest = _NUMBERS.sub("", name).strip(" ,;–-")
    if not numbers or (rest and not rest.isalpha()):
        yield name
        return
    if rest.isalpha() and len(rest) == 1:  # "[A1]" and "[2a]" are names
        yield name
        return
    for match in numbers:
        first, last = int(match[1]), int(match[2] or match[1])
        if last - first < MOST_NUMBERS:
            yield from (str(number) for number in range(first, last + 1))


def _item(label: str, items: Sequence[str], sources: Mapping[str, str]) -> str | None:
    if label in sources:
        return sources[label]
    # Ids that were not given are the positions from 0: nobody who writes "[2]" means those.
    own = list(items) != [str(position) for position in range(len(items))]
    if own and label in items:
        return label
    if label.isascii() and label.isdigit() and 1 <= int(label) <= len(items):
        return items[int(label) - 1]
    return None


def _holders(evidence: EvidenceSet) -> dict[str, frozenset[str]]:
    """Evidence sentence to the items that hold it, those of its exact repeats included."""
    holders = {one.id: {one.item_id} for one in evidence.sentences}
    for entry in evidence.left_out:
        first = entry.reason.removeprefix("repeats ")
        if first != entry.reason and first in holders:
            holders[first].add(entry.id.rpartition("#")[0])
    return {name: frozenset(items) for name, items in holders.items()}
