"""What a claim rests on, and whether it cites that. With a fake embedder, whose words are alike or not."""

from __future__ import annotations

from typing import Any

import pytest

from outspan.checker import check
from outspan.evidence import EvidenceSet
from outspan.measurement import Reading, State
from outspan.sensors.attribution import AttributionSensor, _labels
from outspan.sensors.energy import EnergySensor
from outspan.sensors.reading import make_sensor
from outspan.testing import FakeEmbedder

BRIDGE, TRAMS = "The bridge opened in 1932 near the quay.", "Trams were withdrawn from the centre in 1961."


def readings(answer: str, evidence: Any, **options: Any) -> list[Reading]:
    sensor = EnergySensor(FakeEmbedder(), sensors=[AttributionSensor(**options)])
    return [one.measurement.sensors["attribution"] for one in check(answer, evidence, sensor).claims]


def test_a_claim_that_cites_what_it_rests_on_has_score_nought() -> None:
    (one,) = readings("The bridge opened in 1932 [1].", [BRIDGE, TRAMS])
    assert one.state is State.MEASURED
    assert one.score == 0.0
    assert one.findings == ()
    assert one.flags == ()


def test_a_claim_that_cites_another_item_than_it_rests_on_is_flagged_at_its_marker() -> None:
    answer = "It rained all day. The bridge opened in 1932 [2]."
    _, one = readings(answer, [BRIDGE, TRAMS])
    assert one.flags == ("citation_mismatch",)
    (finding,) = one.findings
    assert (finding.kind, finding.text, finding.expected) == ("citation_mismatch", "[2]", "0")
    assert (finding.evidence_id, finding.found) == ("0#0", BRIDGE)
    assert one.score is not None
    assert one.score > 0.3


def test_a_claim_without_a_citation_is_not_judged() -> None:
    (one,) = readings("The bridge opened in 1932.", [BRIDGE, TRAMS])
    assert (one.state, one.reason) == (State.NO_CLAIM, "it cites nothing")


def test_a_sentence_that_two_items_hold_counts_for_both() -> None:
    (one,) = readings("The bridge opened in 1932 near the quay [2].", [BRIDGE, BRIDGE + " " + TRAMS])
    assert one.score == 0.0


def test_blank_items_keep_their_number() -> None:
    (one,) = readings("Trams were withdrawn in 1961 [3].", [BRIDGE, "", TRAMS])
    assert one.score == 0.0
    assert EvidenceSet.of([BRIDGE, "", TRAMS]).items == ("0", "1", "2")


def test_an_id_of_one_s_own_goes_before_the_position() -> None:
    named = [{"id": "2", "text": BRIDGE}, {"id": "1", "text": TRAMS}]
    assert readings("The bridge opened in 1932 [2].", named)[0].score == 0.0
    lettered = [{"id": "A", "text": TRAMS}, {"id": "B", "text": BRIDGE}]
    assert readings("The bridge opened in 1932 [B].", lettered)[0].score == 0.0
    assert readings("The bridge opened in 1932 [2].", lettered)[0].score == 0.0


def test_a_mapping_says_what_a_label_means() -> None:
    (one,) = readings("The bridge opened in 1932 [7].", [TRAMS, BRIDGE], sources={"7": "1"})
    assert one.score == 0.0
    assert AttributionSensor(sources={"7": "1"}).contract != AttributionSensor().contract


def test_a_marker_that_names_no_item_is_said_and_never_a_mismatch() -> None:
    (one,) = readings("The bridge opened in 1932 [9].", [BRIDGE, TRAMS])
    assert (one.state, one.reason) == (State.NO_CLAIM, "no marker names an evidence item")
    (two,) = readings("The bridge opened in 1932 [2][9].", [BRIDGE, TRAMS])
    assert two.flags == ("citation_unresolved",)
    assert two.findings == ()


def test_one_of_several_cited_items_is_enough() -> None:
    assert readings("The bridge opened in 1932 [1, 2].", [BRIDGE, TRAMS])[0].score == 0.0
    assert readings("The bridge opened in 1932 [1-2].", [TRAMS, BRIDGE])[0].score == 0.0


@pytest.mark.parametrize(
    ("marker", "labels"),
    [
        ("[2]", ["2"]),
        ("[1, 3]", ["1", "3"]),
        ("[1–3]", ["1", "2", "3"]),
        ("[A1]", ["A1"]),
        ("[2a]", ["2a"]),
        ("[source 4]", ["4"]),
        ("(doc 4)", ["4"]),
        ("【3†source】", ["3"]),
        ("[^note-x]", ["note-x"]),
        ("²", ["2"]),
        ("[1-9999]", []),
        ("[2](https://example.org/7)", ["2"]),
        ("<sup>[3]</sup>", ["3"]),
    ],
)
def test_what_a_marker_names(marker: str, labels: list[str]) -> None:
    assert list(_labels(marker)) == labels


def test_a_failed_claim_has_no_score() -> None:
    embedder = FakeEmbedder(failing=["The bridge opened in 1932."])
    sensor = EnergySensor(embedder, sensors=["attribution"])
    one = check("The bridge opened in 1932 [1].", [BRIDGE], sensor).claims[0].measurement
    assert one.sensors["attribution"].state is State.FAILED


def test_the_name_makes_it() -> None:
    made = make_sensor("attribution(margin=0.1)")
    assert str(made.contract) == "attribution(margin=0.1)"
    with pytest.raises(ValueError, match="margin must lie in"):
        AttributionSensor(margin=2.0)
