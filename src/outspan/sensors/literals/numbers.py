"""Written numbers and what they may mean: digits with separators, number words, fractions.

A number such as ``1.500`` is one thousand five hundred in Berlin and one and a half in London. Where the text
itself does not settle it, both readings are kept; choosing one would be a guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from outspan.sensors.overlap import words

SPACES = "\u00a0\u202f\u2009'’"
DIGITS = re.compile(
    r"(?<![\w.,])[+\-−]?(?:"
    rf"\d{{1,3}}(?:[ {SPACES}]\d{{3}})++(?![\d])(?:[.,]\d++)?+"  # groups set apart by spaces
    r"|\d++(?:[.,]\d++)*+"
    r")"
)
"""Possessive throughout: a long run of digits and separators is read once."""

_UNITS = {
    word: value
    for value, word in enumerate(
        words(
            "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
            "fifteen sixteen "
            "seventeen eighteen nineteen"
        )
    )
}
_TENS = {
    word: 10 * value
    for value, word in enumerate(words("twenty thirty forty fifty sixty seventy eighty ninety"), start=2)
}
SCALES: dict[str, float] = {
    "hundred": 1e2,
    "thousand": 1e3,
    "million": 1e6,
    "millions": 1e6,
    "billion": 1e9,
    "billions": 1e9,
    "trillion": 1e12,
    "mn": 1e6,
    "bn": 1e9,
    "mio": 1e6,
    "mrd": 1e9,
}
_ALONE = {"dozen": 12.0, "twice": 2.0, "thrice": 3.0}
_ORDINALS = {
    word: float(value)
    for value, word in enumerate(
        words("first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"), start=1
    )
}
_FRACTIONS = {
    "half": 50.0,
    "one-third": 100 / 3,
    "two-thirds": 200 / 3,
    "a third": 100 / 3,
    "one third": 100 / 3,
    "two thirds": 200 / 3,
    "one quarter": 25.0,
    "a quarter": 25.0,
    "three quarters": 75.0,
    "three-quarters": 75.0,
    "a fifth": 20.0,
    "one fifth": 20.0,
    "two fifths": 40.0,
    "one in ten": 10.0,
    "one in five": 20.0,
    "one in four": 25.0,
    "one in three": 100 / 3,
    "one in two": 50.0,
    "a tenth": 10.0,
}
_FRACTION = re.compile(
    rf"\b(?:{'|'.join(re.escape(f) for f in sorted(_FRACTIONS, key=len, reverse=True))})\b", re.IGNORECASE
)
_WORD = re.compile(r"[A-Za-z]+")
_FOREIGN = frozenset(
    words(
        "der die das und ist eine einen mit für von beträgt el los las una es más máxima tasa le "
        "les des une est "
        "avec sont il di del della è uma são não het een van zijn och är som er og"
    )
)
_ENGLISH = frozenset(words("the of and is are was were to in has have had for that this with by at from it"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number as it stands in a text."""

    start: int
    end: int
    values: tuple[float, ...]
    """Every reading, likeliest first; more than one where the separator decides and nothing decides it."""
    form: str = "digits"
    """``digits``, ``words``, ``ordinal`` or ``fraction`` (its value is then in per cent)."""
    digits: int = 0
    """Significant digits as written; 0 for words."""
    scaled: bool = False
    """Whether a scale word (million) took part, which means rounding more often than not."""


def comma_is_decimal(text: str) -> bool | None:
    """Whether ``text`` writes decimals with a comma: True, False, or None where it does not say.

    Other numbers of the text say it best; failing that, its small words. A currency sign behind a number is
    no English habit, and so leaves the question open.
    """
    dot = re.search(r"\d,\d{3}[.,]\d|(?<![\d.,])\d++\.(?:\d\d?|\d{4,})(?![\d.,])", text)
    comma = re.search(r"\d\.\d{3}[.,]\d|(?<![\d.,])\d++,(?:\d\d?|\d{4,})(?![\d.,])", text)
    if bool(dot) != bool(comma):
        return comma is not None
    words = set(text.lower().split())
    foreign, english = len(words & _FOREIGN), len(words & _ENGLISH)
    if foreign > english:
        return True
    return False if english or not re.search(r"\d\s?€", text) else None


def read_digits(written: str, comma_decimal: bool | None) -> tuple[float, ...]:
    """The readings of digits with separators, likeliest first.

    Examples
    --------
    >>> read_digits("1.234,5", None), read_digits("1,5", None), read_digits("1.500", None)
    ((1234.5,), (1.5,), (1500.0, 1.5))
    """
    sign = -1.0 if written[0] in "-−" else 1.0
    bare = written.lstrip("+-−")
    for space in f" {SPACES}":
        bare = bare.replace(space, "")
    dots, commas = bare.count("."), bare.count(",")
    if not dots and not commas:
        return (sign * _float(bare),)
    if dots and commas:
        decimal = "." if bare.rfind(".") > bare.rfind(",") else ","
        other = "," if decimal == "." else "."
        whole = bare.replace(other, "")
        plain = whole.replace(decimal, "." if whole.count(decimal) == 1 else "")
        return (sign * _float(plain),)
    mark = "." if dots else ","
    if dots + commas > 1:
        return (sign * _float(bare.replace(mark, "")),)
    head, _, tail = bare.partition(mark)
    as_decimal, as_group = sign * _float(f"{head}.{tail}"), sign * _float(head + tail)
    if len(tail) != 3 or len(head) > 3 or head.startswith("0"):
        return (as_decimal,)
    if mark == "," and not comma_decimal:
        # a comma before three digits groups them in English, and in a table without any words
        return (as_group,) if comma_decimal is False else (as_group, as_decimal)
    # "1.500" stays open in every language: engineers and Germans write it too
    return (as_group, as_decimal)


def _float(digits: str) -> float:
    # a hostile run of digits must not become an infinite number, which no JSON can carry
    value = float(digits[:300] or 0)
    return value if len(digits) <= 300 else 1e300


def find_numbers(text: str) -> list[Number]:
    """Numbers in ``text``, in order, disjoint; linear in its length."""
    comma_decimal = comma_is_decimal(text)
    found = list(_fractions(text))
    covered = bytearray(len(text))
    for number in found:
        covered[number.start : number.end] = b"\1" * (number.end - number.start)
    for number in (*_digit_numbers(text, comma_decimal), *_word_numbers(text)):
        if not covered[number.start]:
            found.append(number)
    return sorted(found, key=lambda number: number.start)


def _fractions(text: str) -> Iterator[Number]:
    for match in _FRACTION.finditer(text):
        written = match[0].lower()
        follows = text[match.end() : match.end() + 6].lower()
        # "a third attempt" counts and "half an hour" measures: only a share of something is a fraction
        if follows.startswith((" of", " the")) or written in ("three quarters", "two thirds", "one in ten"):
            yield Number(
                start=match.start(), end=match.end(), values=(_FRACTIONS[written],), form="fraction", digits=2
            )


def _digit_numbers(text: str, comma_decimal: bool | None) -> Iterator[Number]:
    for match in DIGITS.finditer(text):
        start, end = match.span()
        written = match[0]
        ordinal = re.compile(r"(?:st|nd|rd|th)\b").match(text, end)
        if written[0] in "-−" and start and text[start - 1].isalnum():
            start, written = start + 1, written[1:]
        values = read_digits(written, comma_decimal)
        scale, end = _scale_after(text, end)
        yield Number(
            start=start,
            end=ordinal.end() if ordinal else end,
            values=tuple(value * scale for value in values),
            form="ordinal" if ordinal else "digits",
            digits=len(written.strip("+-−0.,").replace(".", "").replace(",", "")) or 1,
            scaled=scale != 1.0,
        )


_SCALE = re.compile(r"[ \u00a0-]?(hundred|thousand|millions?|billions?|trillion|mio|mrd|mn|bn)\b\.?", re.I)
_LETTER_SCALE = re.compile(r"[mMkK](?![\w])")


def _scale_after(text: str, at: int) -> tuple[float, int]:
    if match := _SCALE.match(text, at):
        return SCALES[match[1].lower()], match.end()
    return 1.0, at


def _word_numbers(text: str) -> Iterator[Number]:
    run: list[tuple[str, int, int]] = []
    for match in _WORD.finditer(text):
        word = match[0].lower()
        joins = run and text[run[-1][2] : match.start()] in (" ", "-")
        is_number = word in _UNITS or word in _TENS or word in SCALES
        if is_number and (joins or not run) and not _after_digits(text, match.start(), word):
            run.append((word, *match.span()))
            continue
        if word == "and" and joins and run[-1][0] in SCALES:
            run.append((word, *match.span()))
            continue
        yield from _close(run)
        run = [(word, *match.span())] if is_number and not _after_digits(text, match.start(), word) else []
        if word in _ALONE:
            yield Number(start=match.start(), end=match.end(), values=(_ALONE[word],), form="words")
        elif word in _ORDINALS:
            yield Number(start=match.start(), end=match.end(), values=(_ORDINALS[word],), form="ordinal")
    yield from _close(run)


def _after_digits(text: str, at: int, word: str) -> bool:
    return word in SCALES and at >= 2 and text[at - 2].isdigit()


def _close(run: list[tuple[str, int, int]]) -> Iterator[Number]:
    while run and run[-1][0] == "and":
        run = run[:-1]
    # "one" alone is a pronoun as often as a number; a scale word alone ("millions of") counts nothing
    if not run or (len(run) == 1 and (run[0][0] == "one" or run[0][0] in SCALES)):
        return
    yield Number(
        start=run[0][1],
        end=run[-1][2],
        values=(_evaluate([word for word, _, _ in run if word != "and"][:20]),),
        form="words",
        scaled=any(word in SCALES and word != "hundred" for word, _, _ in run),
        digits=1,
    )


def _evaluate(words: list[str]) -> float:
    total, part = 0.0, 0.0
    for word in words:
        if word == "hundred":
            part = (part or 1.0) * 100
        elif word in SCALES:
            total, part = total + (part or 1.0) * SCALES[word], 0.0
        else:
            part += _UNITS.get(word, _TENS.get(word, 0))
    return total + part
