"""Dates and times of day in the usual formats; a field that was not written stays open."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from outspan.sensors.overlap import words

_MONTHS = {
    spelling: number
    for number, spellings in enumerate(
        (
            "january jan januar janvier enero jänner",
            "february feb februar février febrero",
            "march mar märz mars marzo",
            "april apr avril abril",
            "may mai mayo",
            "june jun juni juin junio",
            "july jul juli juillet julio",
            "august aug août agosto",
            "september sep sept septembre septiembre",
            "october oct oktober octobre octubre",
            "november nov novembre noviembre",
            "december dec dezember décembre diciembre",
        ),
        start=1,
    )
    for spelling in spellings.split()
}
_NAMES = "|".join(sorted(_MONTHS, key=len, reverse=True))
WEEKDAYS = {
    day: number
    for number, day in enumerate(words("monday tuesday wednesday thursday friday saturday sunday"), start=1)
}

_DAY_MONTH = re.compile(
    rf"(?<![\w.,])(?P<day>[0-3]?\d)(?:st|nd|rd|th|\.)? (?:of |de )?(?P<month>{_NAMES})\b\.?"
    r"(?:,? (?:de )?(?P<year>[12]\d{3})(?!\d))?",
    re.IGNORECASE,
)
_MONTH_DAY = re.compile(
    rf"\b(?P<month>{_NAMES})\b\.? (?P<day>[0-3]?\d)(?:st|nd|rd|th)?(?![\d:%])(?:,? "
    rf"(?P<year>[12]\d{{3}})(?!\d))?",
    re.IGNORECASE,
)
_MONTH_YEAR = re.compile(
    rf"\b(?P<month>{_NAMES})\b\.?,? (?:of |de )?(?P<year>[12]\d{{3}})(?!\d)", re.IGNORECASE
)
_ISO = re.compile(r"(?<![\w.-])(?P<year>[12]\d{3})([-/.])(?P<month>[01]?\d)\2(?P<day>[0-3]?\d)(?![\w-])")
_SLASHED = re.compile(
    r"(?<![\w./-])(?P<a>[0-3]?\d)(?P<mark>[/.-])(?P<b>[0-3]?\d)(?P=mark)(?P<year>[12]\d{3})(?![\w-])"
)
# month names that are English words too count only as written in dates: with a capital
_MONTH = re.compile(
    r"\b(?:January|February|March|April|May|June|July|August|September|October|November|December)\b"
)
_MONTH_CUE = re.compile(
    r"\b(?:in|since|until|by|from|to|of|during|after|before|last|next|this|early|late|mid|through|"
    r"and|between)[ -]$",
    re.I,
)
_WEEKDAY = re.compile(r"\b(Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days?\b")
_DECADE = re.compile(r"(?<![\w.,])(?P<year>[12]\d{2}0)s\b")
_CLOCK = re.compile(
    r"(?<![\w.:])(?P<hour>[0-2]?\d)(?:[:.](?P<minute>[0-5]\d))? ?(?P<half>[ap]\.?m\b\.?)"
    r"|(?<![\w.:])(?P<hour24>[0-2]?\d):(?P<minute24>[0-5]\d)(?![\d:])"
    r"|\b(?P<word>noon|midnight|midday)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A date or time of day as far as it was written."""

    start: int
    end: int
    readings: tuple[tuple[int | None, int | None, int | None], ...] = ()
    """(year, month, day); two where ``05/03/2024`` may be May or March."""
    form: str = "date"
    """``date``, ``weekday``, ``decade`` or ``clock``."""
    value: int = 0
    """Number of the weekday, first year of the decade, minutes after midnight."""


def find_moments(text: str) -> list[Moment]:
    """Dates and times in ``text``, longest pattern first, disjoint, in order."""
    found: list[Moment] = []
    covered = bytearray(len(text))
    for moment in (*_written_dates(text), *_digit_dates(text), *_clocks(text), *_coarse(text)):
        if not any(covered[moment.start : moment.end]):
            covered[moment.start : moment.end] = b"\1" * (moment.end - moment.start)
            found.append(moment)
    return sorted(found, key=lambda moment: moment.start)


def _written_dates(text: str) -> Iterator[Moment]:
    for pattern in (_DAY_MONTH, _MONTH_DAY, _MONTH_YEAR):
        for match in pattern.finditer(text):
            parts = match.groupdict()
            day = int(parts["day"]) if parts.get("day") else None
            if day is not None and not 1 <= day <= 31:
                continue
            month = _MONTHS[parts["month"].lower()]
            year = int(parts["year"]) if parts.get("year") else None
            yield Moment(start=match.start(), end=match.end(), readings=((year, month, day),))


def _digit_dates(text: str) -> Iterator[Moment]:
    for match in _ISO.finditer(text):
        month, day = int(match["month"]), int(match["day"])
        if 1 <= month <= 12 and 1 <= day <= 31:
            yield Moment(start=match.start(), end=match.end(), readings=((int(match["year"]), month, day),))
    for match in _SLASHED.finditer(text):
        a, b, year = int(match["a"]), int(match["b"]), int(match["year"])
        orders = [(b, a)] if match["mark"] == "." else [(b, a), (a, b)]
        readings = tuple(
            dict.fromkeys((year, month, day) for month, day in orders if 1 <= month <= 12 and 1 <= day <= 31)
        )
        if readings:
            yield Moment(start=match.start(), end=match.end(), readings=readings)


def _clocks(text: str) -> Iterator[Moment]:
    for match in _CLOCK.finditer(text):
        if match["word"]:
            minutes = 0 if match["word"].lower() == "midnight" else 720
        elif match["half"]:
            hour = int(match["hour"]) % 12 + (12 if match["half"][0] in "pP" else 0)
            minutes = 60 * hour + int(match["minute"] or 0)
        else:
            minutes = 60 * int(match["hour24"]) + int(match["minute24"])
        yield Moment(start=match.start(), end=match.end(), form="clock", value=minutes)


def _coarse(text: str) -> Iterator[Moment]:
    for match in _WEEKDAY.finditer(text):
        value = WEEKDAYS[match[1].lower() + "day"]
        yield Moment(start=match.start(), end=match.end(), form="weekday", value=value)
    for match in _DECADE.finditer(text):
        yield Moment(start=match.start(), end=match.end(), form="decade", value=int(match["year"]))
    for match in _MONTH.finditer(text):
        before = text[max(0, match.start() - 9) : match.start()]
        if _MONTH_CUE.search(before) or match[0] not in ("May", "March", "August"):
            readings = ((None, _MONTHS[match[0].lower()], None),)
            yield Moment(start=match.start(), end=match.end(), readings=readings)


def agree(claim: Moment, evidence: Moment) -> bool:
    """Whether some reading of the evidence gives every field that the claim gives, with the same value."""
    if "date" not in (claim.form, evidence.form) or claim.form == evidence.form != "date":
        return claim.form == evidence.form and claim.value == evidence.value
    if claim.form == "decade":
        return any(year is not None and year // 10 * 10 == claim.value for year, _, _ in evidence.readings)
    return any(
        all(mine is None or mine == theirs for mine, theirs in zip(ours, others, strict=True))
        for ours in claim.readings
        for others in evidence.readings
    )
