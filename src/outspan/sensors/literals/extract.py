"""The literals of a text: everything in it that is either the same as in the evidence or not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from outspan.sensors.literals.dates import Moment, find_moments
from outspan.sensors.literals.names import find_names
from outspan.sensors.literals.numbers import Number, find_numbers
from outspan.sensors.literals.units import UNITS, Unit, currency_before, unit_after
from outspan.sensors.overlap import STOP, WORD, folded, stem, words

LIMIT = 20_000
"""Characters of one sentence that are read. A sentence that long is no sentence; the flag says "
"that it was cut."""


class LiteralKind(StrEnum):
    """What a literal is, which decides what it can be compared with."""

    NUMBER = "number"
    ORDINAL = "ordinal"
    QUANTITY = "quantity"
    MONEY = "money"
    PERCENTAGE = "percentage"
    DATE = "date"
    NAME = "name"
    IDENTIFIER = "identifier"
    QUOTATION = "quotation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Literal:
    """A literal, with what it is compared by; which of the last fields are set depends on the kind."""

    start: int
    end: int
    text: str
    kind: LiteralKind
    number: Number | None = None
    unit: Unit | None = None
    nouns: frozenset[str] = frozenset()
    """Stems of the words that the number counts."""
    hedged: bool = False
    """Whether the text says that the number is rounded (about, nearly, more than)."""
    moment: Moment | None = None
    key: str = ""
    """Name, identifier or quotation, folded."""


_QUOTED = re.compile(r"[“„](.{2,600}?)[”“]|«(.{2,600}?)»|(?<!\w)\"([^\"\n]{2,600})\"")
_TOKEN = re.compile(r"(?<![\w/@])[A-Za-z0-9][\w@]*(?:[-./:_+&=?#%][\w@]+)*")
_HEDGE = re.compile(
    r"\b(?:about|around|roughly|nearly|almost|approximately|some|over|circa|ca\.|more than|less "
    r"than|fewer than|"
    r"just under|just over|close to|up to|at least|at most|under|above|below|an estimated|etwa|rund|environ) "
    r"(?:a )?[€$£]?$",
    re.IGNORECASE,
)
_MEASURED_TAIL = re.compile(r"\d[\d.,]*-?([A-Za-zµμ]{1,12})$")
_YEAR_CUE = re.compile(
    r"(?:\b(?:in|since|by|until|till|from|during|after|before|of|to|and|between|early|late|mid|around|circa|"
    r"year|spring|summer|autumn|winter|fall|through|the)[ -]|[(–-])$",
    re.IGNORECASE,
)
_COUNTED_STOP = STOP | frozenset(words("years year later ago times"))


def find_literals(text: str, *, names: bool = True) -> list[Literal]:
    """Literals of ``text`` in order. Only a quotation may overlap others: what it quotes is checked too."""
    text = text[:LIMIT]
    covered = bytearray(len(text))
    found = list(_quotations(text))
    for literal in (*_moments(text), *_identifiers(text), *_numbers(text)):
        if not any(covered[literal.start : literal.end]):
            covered[literal.start : literal.end] = b"\1" * (literal.end - literal.start)
            found.append(literal)
    if names:
        for start, end in find_names(text, covered):
            key = folded(text[start:end]).replace("’", "'").removesuffix("'s").removesuffix("'")
            found.append(Literal(start=start, end=end, text=text[start:end], kind=LiteralKind.NAME, key=key))
    return sorted(found, key=lambda literal: (literal.start, -literal.end))


def _quotations(text: str) -> Iterator[Literal]:
    for match in _QUOTED.finditer(text):
        quoted = match[1] or match[2] or match[3]
        if len(WORD.findall(quoted)) >= 2:
            yield Literal(
                start=match.start(),
                end=match.end(),
                text=match[0],
                kind=LiteralKind.QUOTATION,
                key=plain(quoted),
            )


def plain(text: str) -> str:
    """Words and digits only, folded: what a quotation is compared by."""
    return " ".join(re.findall(r"\w+", folded(text)))


def _moments(text: str) -> Iterator[Literal]:
    for moment in find_moments(text):
        yield Literal(
            start=moment.start,
            end=moment.end,
            text=text[moment.start : moment.end],
            kind=LiteralKind.DATE,
            moment=moment,
        )


def _identifiers(text: str) -> Iterator[Literal]:
    for match in _TOKEN.finditer(text):
        token = match[0].rstrip("-./:_+&=?#%")
        has_digit = any(c.isdigit() for c in token)
        has_letter = any(c.isalpha() for c in token)
        web = "://" in token or "@" in token
        if not web and not (has_digit and has_letter):
            continue
        if not web and _is_measure(token):
            continue
        end = match.start() + len(token)
        yield Literal(
            start=match.start(), end=end, text=token, kind=LiteralKind.IDENTIFIER, key=folded(token)
        )


def _is_measure(token: str) -> bool:
    """Whether a token of digits and letters is a number after all: 18mm, 3rd, 20-year, 1990s, 5bn."""
    if not token[0].isdigit():
        return False
    if re.fullmatch(r"\d[\d.,]*(?:st|nd|rd|th|s|[kKmM]|bn|mn|[ap]m|x)", token):
        return True
    if re.fullmatch(r"\d[\d.,]*(?:st|nd|rd|th)?(?:-[a-z]+)+", token):
        return True
    tail = _MEASURED_TAIL.match(token)
    if tail is not None and tail[1].lower() in UNITS:
        return True
    return re.fullmatch(r"\d[\d.,]*[a-zA-Zµ]{1,5}/[a-z]{1,2}", token) is not None


def _numbers(text: str) -> Iterator[Literal]:
    numbers = find_numbers(text)
    made: list[Literal] = [_number(text, number) for number in numbers]
    for i, literal in enumerate(made):
        following = made[i + 1] if i + 1 < len(made) else None
        if literal.unit is None and following is not None and following.unit is not None:
            gap = text[literal.end : following.start]
            if gap in ("-", "–", " to ", " and ", " or ", " – "):
                # "10 to 15 kg": the unit of a range stands once
                literal = _with_unit(text, literal, following.unit, literal.end)  # noqa: PLW2901
        yield literal


def _number(text: str, number: Number) -> Literal:
    hedged = _HEDGE.search(text[max(0, number.start - 20) : number.start]) is not None
    if number.form == "fraction":
        return Literal(
            start=number.start,
            end=number.end,
            text=text[number.start : number.end],
            kind=LiteralKind.PERCENTAGE,
            number=number,
            unit=UNITS["%"],
            hedged=True,
        )
    currency = currency_before(text, number.start)
    if currency is not None:
        number, end = _letter_scale(text, number)
        return Literal(
            start=currency[1],
            end=end,
            text=text[currency[1] : end],
            kind=LiteralKind.MONEY,
            number=number,
            unit=currency[0],
            hedged=hedged or _HEDGE.search(text[max(0, currency[1] - 20) : currency[1]]) is not None,
        )
    bare = Literal(
        start=number.start,
        end=number.end,
        text=text[number.start : number.end],
        kind=LiteralKind.ORDINAL if number.form == "ordinal" else LiteralKind.NUMBER,
        number=number,
        hedged=hedged,
    )
    measured = None if number.form == "ordinal" else unit_after(text, number.end)
    if measured is not None:
        return _with_unit(text, bare, measured[0], measured[1])
    return _counted(text, bare)


def _letter_scale(text: str, number: Number) -> tuple[Number, int]:
    factor = {"m": 1e6, "M": 1e6, "k": 1e3, "K": 1e3}.get(text[number.end : number.end + 1])
    if factor is None or text[number.end + 1 : number.end + 2].isalnum():
        return number, number.end
    values = tuple(value * factor for value in number.values)
    scaled = Number(start=number.start, end=number.end + 1, values=values, digits=number.digits, scaled=True)
    return scaled, number.end + 1


def _with_unit(text: str, literal: Literal, unit: Unit, end: int) -> Literal:
    kind = LiteralKind.QUANTITY
    if unit.dimension.startswith("money"):
        kind = LiteralKind.MONEY
    elif unit.dimension.startswith("share"):
        kind = LiteralKind.PERCENTAGE
    return Literal(
        start=literal.start,
        end=end,
        text=text[literal.start : end],
        kind=kind,
        number=literal.number,
        unit=unit,
        hedged=literal.hedged,
        nouns=frozenset(_following(text, end)),
    )


def _counted(text: str, literal: Literal) -> Literal:
    assert literal.number is not None
    number = literal.number
    if _is_year(text, literal):
        moment = Moment(start=literal.start, end=literal.end, readings=((int(number.values[0]), None, None),))
        return Literal(
            start=literal.start,
            end=literal.end,
            text=literal.text,
            kind=LiteralKind.DATE,
            moment=moment,
            number=number,
        )
    return Literal(
        start=literal.start,
        end=literal.end,
        text=literal.text,
        kind=literal.kind,
        number=number,
        hedged=literal.hedged,
        nouns=frozenset(_following(text, literal.end)),
    )


def _is_year(text: str, literal: Literal) -> bool:
    if not re.fullmatch(r"1[1-9]\d\d|20\d\d|2100", literal.text):
        return False
    return _YEAR_CUE.search(text[max(0, literal.start - 9) : literal.start]) is not None


def _following(text: str, at: int) -> Iterator[str]:
    """Stems of at most three words behind a number, up to a mark or a small word."""
    for _ in range(3):
        match = re.compile(r"[ -]").match(text, at)
        word = WORD.match(text, match.end()) if match else None
        if word is None or word[0].lower() in _COUNTED_STOP:
            return
        yield stem(folded(word[0]))
        at = word.end()
