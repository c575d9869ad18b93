"""Is a literal of the claim in the evidence, and in the sentence that speaks of the same thing?"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal as Choice

from outspan.sensors.literals.dates import agree
from outspan.sensors.literals.extract import Literal, LiteralKind, find_literals, plain
from outspan.sensors.literals.names import evidence_names, name_known
from outspan.sensors.overlap import content, rarity, weight_of

Outcome = Choice["supported", "ambiguous", "mismatch", "misplaced", "absent"]

MOST = 64
"""Literals of a claim, and 256 of an evidence sentence, that are compared: a text with more of them is a list
of numbers, and time must not grow with the product of two such lists."""

LOOKED_AT = 32
"""Evidence sentences, of those that share most words with the claim, in which a comparable value "
"is looked for."""

COVERED = 0.6
"""Share of what the claim says about a literal, by weight, that a sentence with another value in its place
must say too before the literal is taken for misplaced."""

_APART = re.compile(r"(?<=\d) ?([.,]) ?(?=\d)")

NUMERIC = frozenset(
    {LiteralKind.NUMBER, LiteralKind.QUANTITY, LiteralKind.MONEY, LiteralKind.PERCENTAGE, LiteralKind.ORDINAL}
)


@dataclass(frozen=True, slots=True)
class Place:
    """A sentence of evidence, or a clause of one, with what it holds."""

    evidence_id: str
    text: str
    words: frozenset[str]
    literals: tuple[Literal, ...]
    folded_words: frozenset[str]
    initials: frozenset[str]
    row: bool
    """Whether it is a row of a table, whose numbers carry their unit in the header or nowhere."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one literal."""

    literal: Literal
    outcome: Outcome
    place: Place | None = None
    expected: Literal | None = None
    """The nearest comparable value of the evidence."""


def make_place(evidence_id: str, text: str, *, row: bool) -> Place:
    """Read one evidence sentence."""
    literals = tuple(find_literals(text)[: 4 * MOST])
    words, initials = evidence_names(text)
    return Place(evidence_id, text, frozenset(content(text)), literals, words, initials, row)


class Claimed:
    """The literals of one claim, and what of a place none of them states; worked out once for each place."""

    def __init__(self, literals: Sequence[Literal]) -> None:
        self._literals = literals
        self._free: dict[tuple[str, str], list[Literal]] = {}

    def free(self, place: Place) -> list[Literal]:
        """The literals of ``place`` that the claim does not state."""
        key = (place.evidence_id, place.text)
        if key not in self._free:
            self._free[key] = [
                other
                for other in place.literals
                if not any(_stated(mine, other, place) for mine in self._literals)
            ]
        return self._free[key]


class Evidence:
    """All places of one evidence set, read once and asked by every claim."""

    def __init__(self, sentences: Sequence[tuple[str, str, bool]]) -> None:
        self.places = [make_place(name, text, row=row) for name, text, row in sentences]
        self.weights = rarity([place.words for place in self.places])
        self.squeezed = _APART.sub(r"\1", "\n".join(place.text for place in self.places))
        self.quotable = " ".join(plain(place.text) for place in self.places)
        self.words = frozenset[str]().union(*(place.folded_words for place in self.places))
        self.initials = frozenset[str]().union(*(place.initials for place in self.places))

    def judge(self, text: str) -> list[Verdict]:
        """A verdict for each literal of ``text``, in order."""
        literals = find_literals(text)[:MOST]
        claimed = Claimed(literals)
        words = frozenset(content(text))
        return [self._judge(literal, claimed, words) for literal in literals]

    def _judge(self, literal: Literal, claimed: Claimed, words: frozenset[str]) -> Verdict:
        if literal.kind is LiteralKind.QUOTATION:
            known = literal.key in self.quotable
            return Verdict(literal, "supported" if known else "absent")
        if literal.kind is LiteralKind.NAME and not name_known(literal.key, self.words, self.initials):
            return Verdict(literal, "absent", *self._instead(literal, claimed, words))
        anchors = words - frozenset(content(literal.text))
        found = [(place, match) for place in self.places if (match := _held(literal, place))]
        sure = [place for place, match in found if match == "same"]
        if sure:
            return self._placed(literal, sure, anchors, claimed)
        if found:
            return Verdict(literal, "ambiguous", found[0][0], _comparable(literal, found[0][0], None))
        return self._missing(literal, claimed, words)

    def _missing(self, literal: Literal, claimed: Claimed, words: frozenset[str]) -> Verdict:
        """The verdict on a literal that no single place holds."""
        if literal.number is not None and _written_apart(literal.text, self.places, self.squeezed):
            return Verdict(literal, "supported")
        place, expected = self._instead(literal, claimed, words)
        long_name = literal.kind is LiteralKind.NAME and len(literal.key.split()) > 2
        if expected is not None and not long_name:
            return Verdict(literal, "mismatch", place, expected)
        # a name whose words stand in several sentences; "comes first", where nothing is counted
        spoken = literal.kind is LiteralKind.ORDINAL and not literal.text[0].isdigit()
        known = spoken or literal.kind is LiteralKind.NAME
        return Verdict(literal, "supported" if known else "absent", place)

    def _placed(
        self,
        literal: Literal,
        sure: Sequence[Place],
        anchors: frozenset[str],
        claimed: Claimed,
    ) -> Verdict:
        """The verdict on a literal that some places hold: supported, unless it belongs to something else."""
        best = max(sure, key=lambda place: self._overlap(place, anchors))
        other = _wrong_noun(literal, best)
        if other is not None:
            return Verdict(literal, "misplaced", best, other)
        return self._misplaced(literal, best, anchors, claimed) or Verdict(literal, "supported", best)

    def _overlap(self, place: Place, anchors: frozenset[str]) -> float:
        return weight_of(place.words & anchors, self.weights)

    def _ranked(self, anchors: frozenset[str]) -> list[Place]:
        scored = ((self._overlap(place, anchors), -i) for i, place in enumerate(self.places))
        order = heapq.nlargest(LOOKED_AT, scored)
        return [self.places[-i] for score, i in order if score > 0 or len(self.places) == 1]

    def _instead(
        self, literal: Literal, claimed: Claimed, words: frozenset[str]
    ) -> tuple[Place | None, Literal | None]:
        anchors = words - frozenset(content(literal.text))
        ranked = self._ranked(anchors)
        for place in ranked:
            expected = _comparable(literal, place, claimed)
            if expected is not None:
                return place, expected
        return (ranked[0] if ranked else None), None

    def _misplaced(
        self, literal: Literal, held: Place, anchors: frozenset[str], claimed: Claimed
    ) -> Verdict | None:
        """A verdict where another place speaks of all that the holder does and more, with another value.

        That is how "Bergen has 709,037 people" is seen: the number is in the evidence, but in Oslo's row.
        """
        own = held.words & anchors
        # what a pronoun stands for is not among its words: then nothing can be said to be missing
        ranked = [] if ANAPHOR.search(held.text) else self._ranked(anchors)
        others = [place for place in ranked if place is not held and not _held(literal, place)]
        for rival in others[:8]:
            expected = _comparable(literal, rival, claimed)
            if expected is None or not self._dominates(rival.words & anchors, own):
                continue
            if self._overlap(rival, anchors) >= COVERED * weight_of(anchors, self.weights):
                return Verdict(literal, "misplaced", rival, expected)
        for clauses in _clauses(held, literal):
            verdict = self._in_other_clause(literal, clauses, anchors, claimed)
            if verdict is not None:
                return verdict
        return None

    def _in_other_clause(
        self,
        literal: Literal,
        clauses: Sequence[Place],
        anchors: frozenset[str],
        claimed: Claimed,
    ) -> Verdict | None:
        """The same question among the clauses of the sentence that holds the literal."""
        inside = next((clause for clause in clauses if _held(literal, clause)), None)
        if inside is None:
            return None
        for rival in clauses:
            expected = None if _held(literal, rival) else _comparable(literal, rival, claimed)
            if expected is not None and self._dominates(rival.words & anchors, inside.words & anchors):
                return Verdict(literal, "misplaced", rival, expected)
        return None

    def _dominates(self, rival: frozenset[str], own: frozenset[str]) -> bool:
        return own < rival or (
            len(rival) >= 3
            and weight_of(own, self.weights) < 0.5 * weight_of(rival - own, self.weights)
            and weight_of(own - rival, self.weights) < 0.25 * weight_of(rival - own, self.weights)
        )


ANAPHOR = re.compile(
    r"\b(?:it|its|they|them|their|he|him|his|she|her|that of|those of|this|these|there|who|which)\b", re.I
)


def _written_apart(written: str, places: Sequence[Place], squeezed: str) -> bool:
    """Whether a number with separators stands in text that a tokenizer took apart ("3, 800")."""
    match = re.search(r"\d+(?:[.,]\d+)+", written)
    if match is None or any(match[0] in place.text for place in places):
        return False  # written as usual and yet not the same: its unit is another
    return re.search(rf"(?<!\d){re.escape(match[0])}(?!\d)", squeezed) is not None


CLAUSE_MARK = re.compile(r"(?:,|;| and| but| while| whereas) ")


CLAUSED = 2_000
"""Characters of a sentence that is read clause by clause; a longer one is no sentence."""


def _clauses(place: Place, literal: Literal) -> list[list[Place]]:
    """The clauses of a sentence that holds two comparable values or more, each read alone, in two ways.

    What the first clause says before its value may hold for all of them: "the tram line opened in 1961 and
    closed in 1987" speaks of one line. Whether the word next to the value does too ("sells three teas and
    nine coffees") or not ("opened") is not known without a parse, so both are tried.
    """
    peers = [other.start for other in place.literals if _same_group(literal, other)]
    if place.row or len(place.text) > CLAUSED or len(peers) < 2:
        return []
    cuts = _cuts(place.text, peers)
    if len(cuts) < 3:
        return []
    clauses = [
        make_place(place.evidence_id, place.text[start:end].strip(), row=False)
        for start, end in pairwise(cuts)
    ]
    before = content(place.text[: peers[0]])
    ways = [frozenset(before)]
    if ANAPHOR.search(place.text, cuts[1]) is None:
        ways.insert(0, frozenset(before[:-1]))
    return [[replace(clause, words=clause.words | shared) for clause in clauses] for shared in ways]


def _cuts(text: str, peers: Sequence[int]) -> list[int]:
    """Where clauses start, and the end; only cuts that part two of the values at ``peers``."""
    marks = sorted({match.end() - 1 for match in CLAUSE_MARK.finditer(text)})
    kept = [0]
    for mark in marks:
        if any(kept[-1] <= at < mark for at in peers) and peers[-1] >= mark:
            kept.append(mark)
    return [*kept, len(text)]


def _held(literal: Literal, place: Place) -> Choice["same", "maybe", ""]:
    """Whether ``place`` holds the literal, for certain or under one reading of it."""
    if literal.kind is LiteralKind.NAME:
        return "same" if name_known(literal.key, place.folded_words, place.initials) else ""
    best: Choice["same", "maybe", ""] = ""
    for other in place.literals:
        match = _match(literal, other, row=place.row)
        if match == "same":
            return "same"
        best = match or best
    return best


def _match(mine: Literal, theirs: Literal, *, row: bool) -> Choice["same", "maybe", ""]:
    if mine.kind is LiteralKind.IDENTIFIER:
        same = theirs.kind is LiteralKind.IDENTIFIER and _bare(mine.key) == _bare(theirs.key)
        return "same" if same else ""
    if mine.moment is not None and theirs.moment is not None:
        if not agree(mine.moment, theirs.moment):
            return ""
        open_readings = len(mine.moment.readings) > 1 or len(theirs.moment.readings) > 1
        equal = mine.text == theirs.text or set(mine.moment.readings) == set(theirs.moment.readings)
        return "maybe" if open_readings and not equal else "same"
    if mine.number is None or theirs.number is None:
        return ""
    if not _units_agree(mine, theirs, row=row):
        return ""
    return _values_agree(mine, theirs)


def _bare(key: str) -> str:
    return (
        key.replace("-", "")
        .replace(" ", "")
        .replace("_", "")
        .rstrip("/")
        .removeprefix("https://")
        .removeprefix("http://")
    )


def _units_agree(mine: Literal, theirs: Literal, *, row: bool) -> bool:
    if mine.unit is not None and theirs.unit is not None:
        return mine.unit.dimension == theirs.unit.dimension
    if mine.unit is None and theirs.unit is None:
        if (mine.kind is LiteralKind.ORDINAL) is not (theirs.kind is LiteralKind.ORDINAL):
            return False
        return not (_is_year(mine) and theirs.nouns) and not (_is_year(theirs) and mine.nouns)
    with_unit, bare = (mine, theirs) if mine.unit is not None else (theirs, mine)
    if bare.kind is LiteralKind.ORDINAL or _is_year(bare):
        return False
    # the cell of a table has its unit in the header; elsewhere a bare number counts something else
    return row or (bare is mine and not mine.nouns and with_unit.kind is not LiteralKind.PERCENTAGE)


def _is_year(literal: Literal) -> bool:
    return literal.moment is not None


def _values_agree(mine: Literal, theirs: Literal) -> Choice["same", "maybe", ""]:
    assert mine.number is not None
    assert theirs.number is not None
    if mine.text == theirs.text:
        return "same"
    ours, others = mine.number.values, theirs.number.values
    hits = [_close(a, mine, b, theirs) for a in ours for b in others]
    if not any(hits):
        return ""
    if len(ours) == len(others) == 1 or all(hits) or ours == others:
        return "same"
    return "maybe"


def _close(a: float, mine: Literal, b: float, theirs: Literal) -> bool:
    """Whether two readings are one value: equal, the same in other units, or rounded as the text says."""
    converted = mine.unit is not None and theirs.unit is not None and mine.unit.name != theirs.unit.name
    if converted:
        assert mine.unit is not None
        assert theirs.unit is not None
        b = (b + theirs.unit.offset) * theirs.unit.factor / mine.unit.factor - mine.unit.offset
    if math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12):
        return True
    if converted and math.isclose(a, b, rel_tol=0.016):
        return True
    assert mine.number is not None
    assert theirs.number is not None
    if mine.hedged and math.isclose(a, b, rel_tol=0.06):
        return True
    if theirs.hedged and math.isclose(a, b, rel_tol=0.03):
        return True
    rounds = mine.number.scaled or (b != int(b) if abs(b) < 1e15 else False)
    return rounds and mine.number.digits > 0 and _rounded(b, mine.number.digits) == _rounded(a, 12)


def _rounded(value: float, digits: int) -> float:
    return float(f"{value:.{max(digits, 1) - 1}e}")


def _group(literal: Literal) -> str:
    if literal.moment is not None:
        return "year" if literal.moment.form == "date" else literal.moment.form
    if literal.unit is not None:
        return literal.unit.dimension.split()[0]
    return str(literal.kind)


def _same_group(mine: Literal, theirs: Literal) -> bool:
    return _group(mine) == _group(theirs)


def _comparable(literal: Literal, place: Place, claimed: Claimed | None) -> Literal | None:
    """The value of ``place`` that stands where the literal would, nearest in meaning, then in size.

    Values that the claim states anyway are no candidates.
    """
    candidates = [
        other
        for other in (place.literals if claimed is None else claimed.free(place))
        if (_same_group(literal, other) or _cell_for(literal, other, place))
        and _match(literal, other, row=place.row) != "same"
    ]
    if literal.kind is LiteralKind.NAME:
        candidates = [other for other in candidates if not _shares_word(literal, other)] or []
    return min(candidates, key=lambda other: _distance(literal, other), default=None)


def _cell_for(literal: Literal, other: Literal, place: Place) -> bool:
    return (
        place.row and literal.kind in NUMERIC and other.kind in NUMERIC and None in (literal.unit, other.unit)
    )


def _stated(mine: Literal, other: Literal, place: Place) -> bool:
    if mine.kind is LiteralKind.NAME or other.kind is LiteralKind.NAME:
        return mine.kind is other.kind and _shares_word(mine, other)
    return _match(mine, other, row=place.row) == "same"


def _shares_word(mine: Literal, other: Literal) -> bool:
    ours, theirs = set(mine.key.split()), set(other.key.split())
    return ours <= theirs or theirs <= ours


def _distance(literal: Literal, other: Literal) -> tuple[int, float]:
    apart = 0 if not literal.nouns or literal.nouns & other.nouns else 1
    if literal.number is None or other.number is None:
        return apart, 0.0
    a, b = literal.number.values[0], other.number.values[0]
    return apart, abs(math.log((abs(a) + 1.0) / (abs(b) + 1.0)))


def _wrong_noun(literal: Literal, place: Place) -> Literal | None:
    """The other value of ``place`` that counts what the claim's number counts, if the value itself "
    "counts else.

    "12 nurses and 30 doctors" does not support "30 nurses".
    """
    if not literal.nouns or literal.number is None:
        return None
    same = [other for other in place.literals if _match(literal, other, row=place.row) == "same"]
    if any(not other.nouns or other.nouns & literal.nouns for other in same):
        return None
    return next(
        (other for other in place.literals if _same_group(literal, other) and other.nouns & literal.nouns),
        None,
    )
