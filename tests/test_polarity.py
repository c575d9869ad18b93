"""Polarity: which changes are turns, and which say the same in other words."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outspan.claims import whole_claim
from outspan.evidence import EvidenceSet
from outspan.measurement import Reading, State
from outspan.sensors.polarity import CONTRACT, PolaritySensor
from outspan.sensors.polarity.rules import find_turns


def read(claim: str, *evidence: str) -> Reading:
    (reading,) = PolaritySensor().read([whole_claim(claim)], EvidenceSet.of(list(evidence)))
    return reading


@pytest.mark.parametrize(
    ("kind", "claim", "evidence"),
    [
        ("negation", "The valve is not pressure-rated.", "The valve is pressure-rated."),
        ("negation", "The kit holds a cable.", "The kit holds no cable."),
        ("negation", "The lab repeated the test.", "The lab failed to repeat the test."),
        ("negation", "The dam hasn't leaked.", "The dam has leaked."),
        ("prefix", "The search was lawful.", "The search was unlawful."),
        ("opposite", "Exports rose in June.", "Exports fell in June."),
        ("opposite", "The court granted the motion.", "The court denied the motion."),
        ("comparative", "Alba is smaller than Norda.", "Alba is larger than Norda."),
        ("comparative", "Norda is larger than Alba.", "Alba is larger than Norda."),
        ("order", "The pier opened after the storm.", "The pier opened before the storm."),
        ("quantifier", "All valves failed.", "Some valves failed."),
        ("exclusive", "Entry is allowed if a guard is there.", "Entry is allowed only if a guard is there."),
        ("modality", "The drug will cure the disease.", "The drug may cure the disease."),
        ("condition", "The fee is waived regardless of age.", "The fee is waived if the guest is a child."),
    ],
)
def test_a_turn_is_found_and_named(kind: str, claim: str, evidence: str) -> None:
    reading = read(claim, evidence)
    assert kind in {finding.kind for finding in reading.findings}
    assert reading.score is not None
    assert reading.score > 0.4
    for finding in reading.findings:
        assert claim[finding.start : finding.end] == finding.text


@pytest.mark.parametrize(
    ("claim", "evidence"),
    [
        ("Exports did not rise.", "Exports fell in May."),
        ("Norda is smaller than Alba.", "Alba is larger than Norda."),
        ("The storm came after the pier opened.", "The pier opened before the storm came."),
        ("After the pier opened, the storm came.", "The pier opened before the storm came."),
        ("The lab did not repeat the test.", "The lab failed to repeat the test."),
        ("The search was not unlawful.", "The search was lawful."),
        ("Several valves failed.", "A number of valves failed."),
        ("Not only the pump but also the valve failed.", "The pump and the valve failed."),
        ("Without a guard, entry is not allowed.", "Entry is allowed only if a guard is there."),
        ("The disease was discovered in 1911.", "In 1911 the disease was discovered."),
        ("The ferry runs daily.", "The ferry runs each day."),
    ],
)
def test_the_same_in_other_words_is_no_turn(claim: str, evidence: str) -> None:
    assert read(claim, evidence).score == 0.0, read(claim, evidence).findings


def test_a_text_never_turns_itself() -> None:
    for text in (
        "No valve, unless it is new, may ever be opened before the pump stops.",
        "Some fell, others rose.",
    ):
        assert find_turns(text, text) == []


def test_a_claim_that_no_sentence_speaks_of_is_flagged_and_not_turned() -> None:
    reading = read("The queen did not visit Norway.", "Basalt weathers fast.")
    assert (reading.state, reading.score, reading.flags) == (State.MEASURED, 0.0, ("not_aligned",))


def test_the_best_aligned_sentence_decides_and_others_do_not_cancel_it() -> None:
    reading = read("The north valve is open.", "The north valve is closed.", "Valves can be open or shut.")
    assert reading.findings[0].evidence_id == "0#0"


def test_an_equal_sentence_that_agrees_supports_and_the_other_is_reported() -> None:
    reading = read("The valve is open.", "The valve is closed.", "The valve is open.")
    assert reading.score == 0.0
    assert "evidence_disagrees" in reading.flags


def test_the_contract_names_blind_spots() -> None:
    assert CONTRACT.name == "polarity"
    assert CONTRACT.blind_spots


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=120), st.text(max_size=120))
def test_any_two_texts_are_compared(claim: str, evidence: str) -> None:
    for turn in find_turns(claim, evidence):
        assert 0 <= turn.start <= turn.end <= len(claim)


@pytest.mark.parametrize(
    "piece",
    ["not ", "more ", "than ", "no longer ", "no one ", "only if ", "(", "before ", "un", "x er than"],
)
def test_hostile_text_takes_linear_time(piece: str) -> None:
    text = piece * 700
    begin = time.perf_counter()
    find_turns(text[:4000], text[::-1][:4000])
    assert time.perf_counter() - begin < 2.0
