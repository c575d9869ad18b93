"""A small table of units: what dimension each measures, and how large it is in that dimension's base.

Kept by hand: the libraries that were looked at are larger than the whole sensor (decision 0016).
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Unit(NamedTuple):
    """A unit, as one word of its dimension."""

    name: str
    dimension: str
    factor: float
    offset: float = 0.0
    """base = (value + offset) · factor."""


_TABLE = """
time      second  1          s sec secs second seconds sekunden
time      millisecond 0.001  ms millisecond milliseconds
time      minute  60         min mins minute minutes minuten
time      hour    3600       h hr hrs hour hours hourly stunden heures horas
time      day     86400      day days daily tage tag jours días dias
time      night   86400      night nights
time      week    604800     week weeks weekly wochen semaines semanas
time      fortnight 1209600  fortnight fortnights
time      month   2629746    month months monthly monate mois meses
time      quarter 7889238    quarters
time      year    31556952   yr yrs year years annual jahre ans años anos
time      decade  315569520  decade decades
time      century 3155695200 century centuries
length    millimetre 0.001   mm millimetre millimetres millimeter millimeters
length    centimetre 0.01    cm centimetre centimetres centimeter centimeters
length    metre   1          m metre metres meter meters mètres
length    kilometre 1000     km kilometre kilometres kilometer kilometers kilómetros
length    micrometre 0.000001 µm μm micron microns micrometre micrometres micrometer
length    nanometre 0.000000001 nm nanometre nanometres nanometer nanometers
length    inch    0.0254     inch inches
length    foot    0.3048     ft foot feet
length    yard    0.9144     yd yard yards
length    mile    1609.344   mi mile miles
length    nautical_mile 1852 nmi
mass      microgram 0.000001 µg μg mcg microgram micrograms
mass      milligram 0.001    mg milligram milligrams
mass      gram    1          g gram grams gramme grammes
mass      kilogram 1000      kg kilo kilos kilogram kilograms
mass      tonne   1000000    t tonne tonnes ton tons
mass      pound_mass 453.59237 lb lbs
mass      ounce   28.349523  oz ounce ounces
volume    millilitre 0.001   ml millilitre millilitres milliliter milliliters
volume    centilitre 0.01    cl centilitre centilitres
volume    litre   1          l litre litres liter liters
volume    hectolitre 100     hl hectolitre hectolitres
volume    cubic_metre 1000   m³ m3
volume    gallon  3.785412   gal gallon gallons
volume    pint    0.568261   pint pints
area      square_metre 1     m² m2 sqm
area      hectare 10000      ha hectare hectares
area      square_kilometre 1000000 km² km2
area      acre    4046.8564  acre acres
speed     kilometre_per_hour 0.2777778 km/h kmh kph
speed     metre_per_second 1 m/s
speed     mile_per_hour 0.44704 mph
speed     knot    0.5144444  knot knots
energy    joule   1          j joule joules
energy    kilojoule 1000     kj kilojoule kilojoules
energy    calorie 4184       kcal kilocalorie kilocalories calorie calories
energy    kilowatt_hour 3600000 kwh
energy    megawatt_hour 3600000000 mwh
power     watt    1          w watt watts
power     kilowatt 1000      kw kilowatt kilowatts
power     megawatt 1000000   mw megawatt megawatts
power     gigawatt 1000000000 gw gigawatt gigawatts
power     horsepower 745.7   hp horsepower
pressure  pascal  1          pa pascal pascals
pressure  kilopascal 1000    kpa kilopascal kilopascals
pressure  bar     100000     bar bars
pressure  psi     6894.757   psi
voltage   volt    1          v volt volts
voltage   kilovolt 1000      kv kilovolt kilovolts
voltage   millivolt 0.001    mv millivolt millivolts
current   ampere  1          amp amps ampere amperes
current   milliampere 0.001  ma milliamp milliamps
frequency hertz   1          hz hertz
frequency kilohertz 1000     khz kilohertz
frequency megahertz 1000000  mhz megahertz
frequency gigahertz 1000000000 ghz gigahertz
data      byte    1          byte bytes
data      kilobyte 1000      kb kilobyte kilobytes
data      megabyte 1000000   mb megabyte megabytes
data      gigabyte 1000000000 gb gigabyte gigabytes
data      terabyte 1000000000000 tb terabyte terabytes
sound     decibel 1          db decibel decibels
angle     degree  1          ° degree degrees
"""

_MONEY = {
    "EUR": "€ eur euro euros",
    "USD": "$ usd us$ dollar dollars",
    "GBP": "£ gbp sterling pound pounds",
    "JPY": "¥ jpy yen",
    "CHF": "chf franc francs",
    "SEK": "sek krona kronor",
    "NOK": "nok krone kroner",
    "DKK": "dkk",
    "INR": "₹ inr rupee rupees",
    "CNY": "cny yuan renminbi",
    "cent": "cent cents",
}


def _build() -> dict[str, Unit]:
    known: dict[str, Unit] = {}
    for line in _TABLE.strip().splitlines():
        dimension, name, factor, *spellings = line.split()
        for spelling in spellings:
            known[spelling] = Unit(name, dimension, float(factor))
    for code, written in _MONEY.items():
        for spelling in written.split():
            known[spelling] = Unit(code, f"money {code}", 1.0)
    known |= {
        "°c": Unit("degree_celsius", "temperature", 1.0, 273.15),
        "celsius": Unit("degree_celsius", "temperature", 1.0, 273.15),
        "°f": Unit("degree_fahrenheit", "temperature", 5 / 9, 459.67),
        "fahrenheit": Unit("degree_fahrenheit", "temperature", 5 / 9, 459.67),
        "kelvin": Unit("kelvin", "temperature", 1.0),
        "%": Unit("percent", "share", 1.0),
        "percent": Unit("percent", "share", 1.0),
        "prozent": Unit("percent", "share", 1.0),
        "percentage": Unit("percentage_point", "share points", 1.0),
        "‰": Unit("permille", "share", 0.1),
    }
    return known


UNITS = _build()
"""Spelling in lower case to unit."""

CASED = {"M": None, "T": None, "H": None, "S": None, "L": UNITS["l"], "W": UNITS["w"], "V": UNITS["v"]}
"""Single letters where case tells a unit from something else."""

MIXED = {"MW": "mw", "mW": None, "MB": "mb", "mb": None, "MHz": "mhz", "mA": "ma", "MA": None}

PHRASES = (
    (re.compile(r"(?:degrees? |° ?)(?:c|celsius)\b", re.I), UNITS["°c"]),
    (re.compile(r"(?:degrees? |° ?)(?:f|fahrenheit)\b", re.I), UNITS["°f"]),
    (re.compile(r"per ?cent\b", re.I), UNITS["%"]),
    (re.compile(r"(?:percentage|per ?cent|%)[- ]points?\b", re.I), UNITS["percentage"]),
    (re.compile(r"(?:kilomet(?:re|er)s?|km) (?:per|an) hour\b", re.I), UNITS["km/h"]),
    (re.compile(r"miles (?:per|an) hour\b", re.I), UNITS["mph"]),
    (re.compile(r"met(?:re|er)s (?:per|a) second\b", re.I), UNITS["m/s"]),
    (re.compile(r"square kilomet(?:re|er)s?\b", re.I), UNITS["km²"]),
    (re.compile(r"square met(?:re|er)s?\b", re.I), UNITS["m²"]),
    (re.compile(r"square (?:feet|foot)\b", re.I), Unit("square_foot", "area", 0.092903)),
    (re.compile(r"square miles?\b", re.I), Unit("square_mile", "area", 2589988.1)),
    (re.compile(r"cubic met(?:re|er)s?\b", re.I), UNITS["m³"]),
    (re.compile(r"kilowatt[- ]hours?\b", re.I), UNITS["kwh"]),
    (re.compile(r"megawatt[- ]hours?\b", re.I), UNITS["mwh"]),
    (re.compile(r"nautical miles?\b", re.I), UNITS["nmi"]),
    (re.compile(r"(?:us|american) dollars?\b", re.I), UNITS["usd"]),
    (re.compile(r"swiss francs?\b", re.I), UNITS["chf"]),
    (re.compile(r"swedish kron(?:a|or)\b", re.I), UNITS["sek"]),
    (re.compile(r"danish kroner?\b", re.I), UNITS["dkk"]),
    (re.compile(r"(?:norwegian )kroner?\b", re.I), UNITS["nok"]),
    (re.compile(r"pounds sterling\b", re.I), UNITS["gbp"]),
    (re.compile(r"indian rupees?\b", re.I), UNITS["inr"]),
    (re.compile(r"japanese yen\b", re.I), UNITS["jpy"]),
)
PHRASE_START = re.compile(r"[dDpP°kKmMsScCnNuUaA%iIjJ]")
_TOKEN = re.compile(r"[A-Za-zÀ-ÿµμ]{1,20}(?:/[a-z]{1,3}\b|[²³23](?!\d))?|[%‰€$£¥₹°]")
_GAP = re.compile(r"[ \u00a0\u202f-]?")


def unit_after(text: str, at: int) -> tuple[Unit, int] | None:
    """The unit that follows position ``at``, past at most one space or hyphen, and where it ends."""
    gap = _GAP.match(text, at)
    begin = gap.end() if gap else at
    if PHRASE_START.match(text, begin):
        for pattern, unit in PHRASES:
            if match := pattern.match(text, begin):
                return unit, match.end()
    token = _TOKEN.match(text, begin)
    if token is None:
        return None
    written = token[0]
    if written in CASED:
        unit_or_none = CASED[written]
        return None if unit_or_none is None else (unit_or_none, token.end())
    if written in MIXED:
        key = MIXED[written]
        return None if key is None else (UNITS[key], token.end())
    found = UNITS.get(written.lower())
    return None if found is None else (found, token.end())


_BEFORE = re.compile(r"(US\$|[€$£¥₹]|\b(?:EUR|USD|GBP|CHF|SEK|NOK|DKK|JPY|INR|CNY))[ \u00a0]?$")


def currency_before(text: str, at: int) -> tuple[Unit, int] | None:
    """The currency that ends at position ``at``, and where it starts."""
    begin = max(0, at - 5)
    match = _BEFORE.search(text[begin:at])
    return None if match is None else (UNITS[match[1].lower()], begin + match.start())
