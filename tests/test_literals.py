"""Literals: what is read from a text, what agrees with what, and what a finding says."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outspan.claims import Claim, split_claims, whole_claim
from outspan.evidence import EvidenceSet
from outspan.measurement import Reading, State
from outspan.sensors.literals import CONTRACT, LiteralSensor
from outspan.sensors.literals.dates import find_moments
from outspan.sensors.literals.extract import find_literals
from outspan.sensors.literals.numbers import find_numbers, read_digits
from outspan.sensors.literals.units import UNITS

TABLE = "| city | people |\n| Oslo | 709,037 |\n| Bergen | 291,189 |"


def read(claim: str | Claim, *evidence: str) -> Reading:
    one = whole_claim(claim) if isinstance(claim, str) else claim
    (reading,) = LiteralSensor().read([one], EvidenceSet.of(list(evidence)))
    return reading


@pytest.mark.parametrize(
    ("claim", "evidence"),
    [
        ("The maximum rate is 1.5%.", "La tasa máxima es 1,5 %."),
        ("Bergen has 291,189 people.", TABLE),
        ("Oslo has 709037 inhabitants.", TABLE),
        ("The dam opened on 5 March 2024.", "The dam opened on 2024-03-05."),
        ("The dam opened on March 5th, 2024.", "Der Damm wurde am 5. März 2024 eröffnet."),
        ("The dam opened in 2024.", "The dam opened on 5 March 2024."),
        ("The walk is about 8 km long.", "The walk is 5 miles long."),
        ("It holds 250 people.", "It holds two hundred and fifty people."),
        ("The project cost $1.2 million.", "The project cost $1,200,000."),
        ("The project cost 1,2 Mio €.", "Das Projekt hat 1.200.000 € gekostet."),
        ("Half of the ships sank.", "50 % of the ships sank."),
        ("The shop opens at 3 p.m.", "The shop opens at 15:00."),
        ("The rate is 37 %.", "The rate is 36.8 %."),
        ("The load is between 10 and 15 kg.", "The load is 10 to 15 kilograms."),
        ("It was built in 1962.", "It was built in the 1960s: in 1962, to be exact."),
        ("The WHO met in Geneva.", "The World Health Organization met in Geneva."),
        ("Smith resigned.", "On Monday, John Smith resigned."),
        ("He said “we will not pay”.", "He said that the union knew that we will not pay."),
        ("The A320 is flown by SAS.", "SAS flies the A320 and the A330."),
    ],
)
def test_the_same_value_written_otherwise_is_supported(claim: str, evidence: str) -> None:
    reading = read(claim, evidence)
    assert reading.score == 0.0, reading.findings
    assert not reading.findings


@pytest.mark.parametrize(
    ("claim", "evidence", "text", "expected"),
    [
        ("The trial ran for 18 weeks.", "The trial ran for 18 months.", "18 weeks", "18 months"),
        ("Bergen has 709,037 people.", TABLE, "709,037", "291,189"),
        ("Bergen has 709,037 people.", "Oslo has 709,037 people and Bergen has 291,189 people.", "709,037", "291,189"),
        ("The ward has 30 nurses.", "The ward has 12 nurses and 30 doctors.", "30", "12"),
        ("The dam opened on 5 March 2023.", "The dam opened on 2024-03-05.", "5 March 2023", "2024-03-05"),
        ("The dose is 20 g.", "The dose is 20 mg.", "20 g", "20 mg"),
        ("The fee is £40.", "The fee is €40.", "£40", "€40"),
        ("The line closed in 1961.", "The line opened in 1961 and closed in 1987.", "1961", "1987"),
        ("It starts at 8 p.m.", "It starts at 18:00.", "8 p.m.", "18:00"),
        ("The form is TX-240.", "The form is TX-204.", "TX-240", "TX-204"),
        ("Bruno Lang founded Corvex.", "Alice Brandt founded Corvex.", "Bruno Lang", "Alice Brandt"),
    ],
)  # fmt: skip
def test_a_finding_names_the_span_and_what_the_evidence_has_instead(
    claim: str, evidence: str, text: str, expected: str
) -> None:
    reading = read(claim, evidence)
    found = {finding.text: finding for finding in reading.findings}
    assert text in found
    assert found[text].expected == expected
    assert claim[found[text].start : found[text].end] == text
    assert found[text].evidence_id is not None


@pytest.mark.parametrize("evidence", ["1.500 €", "The fee is 1.500 €.", "Der Preis beträgt 1.500 €."])
def test_a_number_with_two_readings_is_reported_and_not_guessed(evidence: str) -> None:
    reading = read("The fee is 1.5 €.", evidence)
    assert reading.flags == ("ambiguous_literal",)
    assert reading.score == 0.5
    assert reading.findings[0].expected is None


def test_the_same_ambiguous_form_on_both_sides_agrees() -> None:
    assert read("The fee is 1.500 €.", "1.500 €").score == 0.0


def test_a_bare_number_is_no_support_for_one_with_another_unit() -> None:
    assert read("The ward has 18 beds.", "The trial ran for 18 months.").score == 1.0


def test_a_mention_is_not_support() -> None:
    reading = read("Lima is the capital of Peru.", "We changed planes in Lima on Tuesday.")
    assert [finding.text for finding in reading.findings] == ["Peru"]


def test_a_claim_without_literals_is_measured_and_says_so() -> None:
    reading = read("The bread was warm.", "The soup was cold.")
    assert (reading.state, reading.score, reading.flags) == (State.MEASURED, 0.0, ("no_literals",))


def test_offsets_hold_behind_citations_and_list_markers() -> None:
    answer = "Notes:\n1. The dam [2] is 30 m high.[4]\n2. It has 9 gates."
    evidence = EvidenceSet.of(["The dam is 40 m high.", "It has 9 gates."])
    claims = [claim for claim in split_claims(answer) if claim.unmeasured is None]
    readings = LiteralSensor().read(claims, evidence)
    told = [
        (claim.text[f.start : f.end], f.expected)
        for claim, r in zip(claims, readings, strict=True)
        for f in r.findings
    ]
    assert told == [("30 m", "40 m")]


def test_a_copied_sentence_is_supported_whatever_stands_beside_it() -> None:
    sentence = "On 3 May 1932 Clara Voss paid 4,500 kroner for 12 acres near Holm."
    others = [
        f"On {day} June 1932 Clara Voss paid {day},500 kroner for {day + 20} acres." for day in range(1, 20)
    ]
    assert read(sentence, sentence, *others).score == 0.0


@pytest.mark.parametrize(
    ("written", "values"),
    [
        ("1,234.56", (1234.56,)),
        ("1.234,56", (1234.56,)),
        ("1.234.567", (1234567.0,)),
        ("0.125", (0.125,)),
        ("1.500", (1500.0, 1.5)),
        ("12 345", (12345.0,)),
        ("−4,5", (-4.5,)),
        ("1'000", (1000.0,)),
    ],
)
def test_digits_are_read_with_every_reading_that_they_have(written: str, values: tuple[float, ...]) -> None:
    assert read_digits(written, None) == values


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("twenty-one", 21),
        ("three hundred and five", 305),
        ("two million", 2e6),
        ("a dozen eggs", 12),
        ("4 thousand", 4000),
    ],
)
def test_number_words(text: str, value: float) -> None:
    assert find_numbers(text)[0].values == (value,)


def test_one_as_a_pronoun_is_no_number() -> None:
    assert find_numbers("one of them, and no one else") == []


def test_a_slashed_date_keeps_both_readings() -> None:
    (moment,) = find_moments("on 05/03/2024")
    assert moment.readings == ((2024, 3, 5), (2024, 5, 3))
    assert read("It fell on 5 March 2024.", "It fell on 05/03/2024.").flags == ("ambiguous_literal",)


def test_every_unit_has_a_positive_size() -> None:
    assert all(unit.factor > 0 for unit in UNITS.values())


def test_the_contract_names_blind_spots() -> None:
    assert CONTRACT.name == "literals"
    assert CONTRACT.blind_spots
    assert not CONTRACT.uses


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet="0123456789.,-–/:%€$ AbcInMay[]()\"“”'’\n", max_size=200))
def test_any_text_is_read_and_every_span_quotes_it(text: str) -> None:
    for literal in find_literals(text):
        assert literal.text == text[literal.start : literal.end]
    if text.strip():
        reading = read(whole_claim(text), text + " x")
        assert reading.score is not None
        assert 0.0 <= reading.score <= 1.0


@pytest.mark.parametrize(
    "piece", ["1", "1,", "1.", "[120 ", "(", '"', "“", "1 000 ", "A", "A ", "a-1", "1-", "hundred and ", "1/", "May 1", "x@", "://", "in 1999 ", "$1 ", "of "]
)  # fmt: skip
def test_hostile_text_takes_linear_time(piece: str) -> None:
    def seconds(length: int) -> float:
        text = (piece * length)[:length]
        best = 9.0
        for _ in range(2):
            begin = time.perf_counter()
            find_literals(text)
            best = min(best, time.perf_counter() - begin)
        return best

    assert seconds(16_000) < max(12 * seconds(4_000), 0.5)


@pytest.mark.parametrize("piece", ["{i} ", "Ab{i} ", "{i} kg ", "Nam{i}x Foo ", "{i}, ", "$1{i} and "])
def test_lists_of_values_against_each_other_take_no_product_of_time(piece: str) -> None:
    claim = "".join(piece.format(i=i) for i in range(3000))
    evidence = "".join(piece.format(i=i + 5000) for i in range(3000))
    begin = time.perf_counter()
    reading = read(claim, evidence)
    assert time.perf_counter() - begin < 5.0
    assert "truncated" in reading.flags


def test_many_sentences_with_numbers_are_read_in_time() -> None:
    draw = random.Random(7)
    evidence = [f"Ship {i} carried {draw.randint(2, 9999)} crates to port {i % 40}." for i in range(2000)]
    begin = time.perf_counter()
    read("Ship 77 carried 12345 crates to port 3.", *evidence)
    assert time.perf_counter() - begin < 8.0
