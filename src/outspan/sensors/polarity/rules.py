"""The turns between a claim and one evidence sentence: pure functions on two strings.

Each content word gets a scale and a side: its stem, or the scale of opposites that it lies on; a negation
before it, or a prefix in it, changes the side. The same scale with other sides on the two texts is a turn. So
"did not rise" agrees with "fell", and "is not unlawful" with "is lawful".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from outspan.sensors.overlap import STOP, content, folded, stem
from outspan.sensors.polarity.lexicon import (
    ALLOWED,
    ANY_CONDITION,
    COMPARATIVE,
    DIRECTIONS,
    EPISTEMIC,
    EXCLUSIVE,
    LIGHT,
    NEGATING_VERBS,
    NEGATORS,
    NO_PREFIX,
    NOT_NEGATING,
    OBLIGED,
    ONLY,
    ONLY_IF,
    PLANNED,
    POSSIBLE,
    PREFIXES,
    QUANTIFIER_RANK,
    QUANTITY_OF,
    SIGNS,
    STRICT_CONDITION,
    UNCONDITIONAL,
)

_TOKEN = re.compile(r"[^\W\d_]+|[,;:.!?()]")
_CONTRACTED = re.compile(r"n['’]t\b", re.IGNORECASE)
REACH = 6
"""Tokens behind a negation within which the word that it negates is looked for."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A place where the claim says the reverse, or more, than the evidence sentence does."""

    kind: str
    """``negation``, ``prefix``, ``opposite``, ``comparative``, ``order``, ``quantifier``, ``exclusive``,
    ``condition``, ``modality``, ``direction``."""
    start: int
    end: int
    """Offsets in the claim."""
    found: str
    """The words of the evidence that it was held against."""
    weight: float


@dataclass(frozen=True, slots=True)
class Signed:
    """A content word with the side on which it stands."""

    key: str
    sign: int
    start: int
    end: int
    word: str
    how: str
    """What gave the side: ``plain``, ``negation``, ``prefix`` or ``opposite``."""


def signed_words(text: str) -> list[Signed]:
    """Every content word of ``text``, once for each scale that it lies on."""
    # one letter for one letter, so that offsets stay
    lowered = text.lower() if len(text.lower()) == len(text) else text
    opened = _CONTRACTED.sub(lambda match: " no" + " " * (len(match[0]) - 3), lowered)
    blanked = NOT_NEGATING.sub(lambda match: " " * len(match[0]), opened)
    tokens = [(match[0], *match.span()) for match in _TOKEN.finditer(blanked)]
    negated = _negated([word for word, _, _ in tokens])
    found = [
        Signed("±still", -1, match.start(), match.end(), match[0], "negation")
        for match in re.finditer(r"\bno longer\b", lowered)
    ]
    for i, (word, start, end) in enumerate(tokens):
        if not word[0].isalpha():
            continue
        side = -1 if negated[i] % 2 else 1
        found += _scales(word, side, start, end)
    return found


def _scales(word: str, side: int, start: int, end: int) -> Iterator[Signed]:
    root = stem(folded(word))
    how = "negation" if side < 0 else "plain"
    if word not in STOP or root in ("befor", "after", "not"):
        yield Signed(root, side, start, end, word, how)
        for prefix in PREFIXES:
            if root.startswith(prefix) and len(root) - len(prefix) >= 3 and root not in NO_PREFIX:
                yield Signed(root[len(prefix) :], -side, start, end, word, "prefix")
    for key, sign in SIGNS.get(root, ()):
        yield Signed(key, side * sign, start, end, word, "negation" if side < 0 else "opposite")


def _negated(words: list[str]) -> list[int]:
    """How many negations reach each token: the first content word behind each of them."""
    reach = [0] * len(words)
    for i, word in enumerate(words):
        negator = word in NEGATORS or (
            stem(word) in NEGATING_VERBS and i + 1 < len(words) and words[i + 1] in ("to", "in")
        )
        if word == "free" and words[i + 1 : i + 2] in (["of"], ["from"]):
            _mark_next(words, i + 1, reach)
            continue
        if not negator or (word == "no" and i + 1 < len(words) and words[i + 1] == "one"):
            if word == "no":
                _mark_next(words, i + 1, reach)
            continue
        _mark_next(words, i, reach)
    return reach


def _mark_next(words: list[str], at: int, reach: list[int]) -> None:
    for k in range(at + 1, min(at + 1 + REACH, len(words))):
        if not words[k][0].isalpha():
            return
        if words[k] in LIGHT or words[k].endswith("ly") or words[k] in NEGATORS:
            continue
        reach[k] += 1
        return


def find_turns(claim: str, evidence: str) -> list[Turn]:
    """Every turn between the two texts, in the order of the claim, at most one at a place."""
    turns = [
        *_sides(claim, evidence),
        *_quantifiers(claim, evidence),
        *_exclusive(claim, evidence),
        *_directions(claim, evidence),
    ]
    turns += [*_conditions(claim, evidence), *_modality(claim, evidence)]
    kept: dict[int, Turn] = {}
    for turn in turns:
        if turn.start not in kept:
            kept[turn.start] = turn
    return sorted(kept.values(), key=lambda turn: turn.start)


RELATIONAL = {"±before": "order"}


def _sides(claim: str, evidence: str) -> Iterator[Turn]:
    if _exclusive_twice(claim, evidence):
        return
    evidence = _THEN.sub(" before", evidence)
    ours, theirs = signed_words(claim), signed_words(evidence)
    parity = _parity(claim) != _parity(evidence)
    counted = _negations(claim) == _negations(evidence) > 0
    of_claim, of_evidence = _by_key(ours), _by_key(theirs)
    swapped = _compares_swapped(claim, evidence)
    done: set[int] = set()
    for one in ours:
        if one.key not in of_evidence or one.start in done:
            continue
        others = of_evidence[one.key]
        mine = {word.sign for word in of_claim[one.key]}
        signs = {word.sign for word in others}
        if one.how == "prefix" and all(other.how == "prefix" for other in others):
            continue
        relation = _relation(one, claim, evidence, swapped)
        if relation == "turned":
            mine = {-sign for sign in mine}
        elif relation is None:
            continue
        if mine & signs:
            continue
        other = others[0]
        kind = _kind(one, other, relation)
        if kind == "negation" and counted:
            continue  # one negation each, in other places: "neither was checked", "they were not checked"
        if kind == "opposite" and parity:
            continue  # an opposite and a negation elsewhere: "small firms do not", "large firms only"
        done.add(one.start)
        yield Turn(kind, one.start, one.end, other.word, 1.0)


_THEN = re.compile(r",? (?:and )?then\b")
_OTHERWISE = re.compile(r"\b(?:unless|without|except|otherwise)\b", re.IGNORECASE)


def _exclusive_twice(claim: str, evidence: str) -> bool:
    """Whether one text says "only if" and the other "not unless": two negations that make one condition."""
    for one, other in ((claim, evidence), (evidence, claim)):
        if ONLY_IF.search(one) and _OTHERWISE.search(other):
            return True
    return False


def _parity(text: str) -> int:
    return _negations(text) % 2


def _negations(text: str) -> int:
    plain = NOT_NEGATING.sub(" ", _CONTRACTED.sub(" not", text.lower()))
    return sum(word in NEGATORS for word in re.findall(r"[a-z]+", plain))


def _by_key(words: list[Signed]) -> Mapping[str, list[Signed]]:
    found: dict[str, list[Signed]] = {}
    for word in words:
        found.setdefault(word.key, []).append(word)
    return found


def _kind(one: Signed, other: Signed, relation: str | None) -> str:
    if one.key == "±before":
        return "order"
    if relation == "turned" or (one.word.endswith("er") and one.how == "opposite"):
        return "comparative"
    for how in ("negation", "prefix"):
        if how in (one.how, other.how):
            return how
    return "opposite"


def _relation(one: Signed, claim: str, evidence: str, swapped: bool | None) -> str | None:
    """``plain``, ``turned`` where the two sides of the relation changed places, None where it is not one."""
    if one.key == "±before":
        ours, theirs = _order_sides(claim), _order_sides(evidence)
        if ours is None or theirs is None:
            return None
        turned = _crossed(ours, theirs)
        return None if turned is None else "turned" if turned else "plain"
    if swapped and _in_comparison(one, claim):
        return "turned"
    return "plain"


def _in_comparison(one: Signed, claim: str) -> bool:
    match = COMPARATIVE.search(claim)
    if match is None or not match.start() <= one.start < match.end():
        return False
    scaled = any(stem(word) in SIGNS for word in match[0].lower().split())
    compares = one.word.endswith("er") or one.word in COMPARING or match[0].lower().startswith("not ")
    return compares and (one.key.startswith("±") or not scaled)


COMPARING = frozenset(
    (
        "more",
        "less",
        "worse",
        "ahead",
        "behind",
        "exceed",
        "exceeds",
        "exceeded",
        "surpassed",
        "above",
        "below",
    )
)


def _compares_swapped(claim: str, evidence: str) -> bool | None:
    ours, theirs = COMPARATIVE.search(claim), COMPARATIVE.search(evidence)
    if ours is None or theirs is None:
        return None
    mine = (claim[: ours.end()], claim[ours.end() :])
    other = (evidence[: theirs.end()], evidence[theirs.end() :])
    return _crossed(mine, other)


def _crossed(ours: tuple[str, str], theirs: tuple[str, str]) -> bool | None:
    """Whether the two sides of a relation changed places; None where the words do not say."""
    left, right = set(content(ours[0])), set(content(ours[1]))
    other_left, other_right = set(content(theirs[0])), set(content(theirs[1]))
    left, right = left - right, right - left
    # what stands left in both may be said of both: only a right side tells which is which
    straight = len(right & other_right)
    crossed = len(left & other_right) + len(right & other_left)
    return None if straight == crossed else crossed > straight


def _order_sides(text: str) -> tuple[str, str] | None:
    """What stands before and behind a word of time; turned where the word opens the sentence."""
    match = re.search(r"\b(?:before|after)\b", text, re.IGNORECASE)
    if match is None:
        return None
    head, tail = text[: match.start()], text[match.end() :]
    if len(head.split()) >= 2 or "," not in tail:
        return head, tail
    inner, _, outer = tail.partition(",")
    return outer, inner


def _quantifiers(claim: str, evidence: str) -> Iterator[Turn]:
    ours, theirs = _quantified(claim), _quantified(evidence)
    if not ours or not theirs:
        return
    ranks = {name for name, _, _, _ in theirs}
    for name, nouns, start, end in ours:
        against = [entry for entry in theirs if not nouns or not entry[1] or nouns & entry[1]]
        if not against or name in ranks:
            continue
        other = against[0]
        if "none" in (name, other[0]) and _parity(claim) == _parity(evidence):
            continue  # "no one was hurt", "all came away without a wound": the negation moved to the verb
        mine, his = QUANTIFIER_RANK[name], QUANTIFIER_RANK[other[0]]
        if {name, other[0]} == {"few", "some"} or {name, other[0]} == {"few", "none"}:
            continue
        if mine != his:
            yield Turn("quantifier", start, end, evidence[other[2] : other[3]], 0.9)


def _quantified(text: str) -> list[tuple[str, frozenset[str], int, int]]:
    """Quantifiers of ``text`` with the stems of the next content words."""
    found = []
    tokens = list(re.finditer(r"[A-Za-z]+", text))
    for i, token in enumerate(tokens):
        word = token[0].lower()
        name = QUANTITY_OF.get(word)
        if name is None or (
            i and tokens[i - 1][0].lower() in ("at", "not", "after", "the") and word in ("all", "most")
        ):
            continue
        before = tokens[i - 1][0].lower() if i else ""
        following = [other[0].lower() for other in tokens[i + 1 : i + 6]]
        if (
            word in ("most", "part", "number", "half", "few")
            and before in ("the", "as", "take", "in", "this")
        ) or (word == "number" and following[:1] != ["of"]):
            continue
        if word == "most" and following and following[0] not in ("of",) and not following[0].endswith("s"):
            continue  # "the most useful" is a superlative
        if word == "no" and following[:1] in (["longer"], ["more"], ["later"], ["one"], ["fewer"], ["less"]):
            continue
        nouns = frozenset(stem(other) for other in following if other not in STOP)
        found.append((name, nouns, token.start(), token.end()))
    return found


def _directions(claim: str, evidence: str) -> Iterator[Turn]:
    """``for`` the same noun in one text and ``against`` it in the other; ``to`` and ``from`` likewise."""
    for pair in DIRECTIONS:
        for small, opposite in (pair, pair[::-1]):
            agreeing = {noun for noun, _, _ in _after(small, evidence)}
            turned = {noun for noun, _, _ in _after(opposite, evidence)}
            for noun, start, end in _after(small, claim):
                if noun in turned and noun not in agreeing:
                    yield Turn("direction", start, end, opposite, 0.9)


def _after(small: str, text: str) -> list[tuple[str, int, int]]:
    pattern = rf"\b({small}) (?:(?:the|a|an|its|his|her|their) )?([^\W\d_]+)"
    return [(stem(folded(m[2])), *m.span(1)) for m in re.finditer(pattern, text, re.IGNORECASE)]


def _exclusive(claim: str, evidence: str) -> Iterator[Turn]:
    """``only`` in one of the two, and nothing like it in the other."""
    mine, his = ONLY.search(claim), ONLY.search(evidence)
    if his is not None and EXCLUSIVE.search(claim) is None and not _negative(claim):
        yield Turn("exclusive", 0, _first_word(claim), his[0], 0.9)
    elif mine is not None and EXCLUSIVE.search(evidence) is None and not _negative(evidence):
        yield Turn("exclusive", mine.start(), mine.end(), "", 0.9)


def _negative(text: str) -> bool:
    return any(word in NEGATORS for word in re.findall(r"[a-z]+", text.lower())) or "n't" in text


def _first_word(text: str) -> int:
    match = re.match(r"\s*\w+", text)
    return match.end() if match else len(text)


def _conditions(claim: str, evidence: str) -> Iterator[Turn]:
    his = STRICT_CONDITION.search(evidence)
    mine = UNCONDITIONAL.search(claim)
    if his is not None and mine is not None and UNCONDITIONAL.search(evidence) is None:
        yield Turn("condition", mine.start(), mine.end(), his[0], 0.9)
    elif his is not None and ANY_CONDITION.search(claim) is None:
        yield Turn("condition", 0, _first_word(claim), his[0], 0.8)


def _modality(claim: str, evidence: str) -> Iterator[Turn]:
    possible, obliged = POSSIBLE.search(evidence), OBLIGED.search(evidence)
    hedged = POSSIBLE.search(claim) or PLANNED.search(claim)
    if possible is not None and hedged is None:
        will = re.search(r"\b(?:will|is|are|was|were|has|have|does|did)\b", claim)
        start, end = will.span() if will else (0, _first_word(claim))
        yield Turn("modality", start, end, possible[0], 0.7)
    elif possible is None and not PLANNED.search(evidence) and (mine := EPISTEMIC.search(claim)):
        yield Turn("modality", mine.start(), mine.end(), "", 0.6)
    allowed = ALLOWED.search(claim)
    if (
        obliged
        and allowed
        and not OBLIGED.search(claim)
        and not ALLOWED.search(evidence)
        and not _negative(claim)
    ):
        yield Turn("modality", allowed.start(), allowed.end(), obliged[0], 0.8)
    mine_obliged, his_allowed = OBLIGED.search(claim), ALLOWED.search(evidence)
    if mine_obliged and his_allowed and not obliged and not _negative(evidence) and not ALLOWED.search(claim):
        yield Turn("modality", mine_obliged.start(), mine_obliged.end(), his_allowed[0], 0.8)
