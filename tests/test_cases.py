"""Kinds of input that broke other tools, through the whole instrument with the real model.

Each test is about a kind; the inputs are examples of it. Parts that are tested nearer to where they live (the
states in test_sensor_energy, embedders that misbehave in test_embedders_guard, files in test_files, sentence
splitting in test_texts) are not repeated here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from outspan import EnergySensor, Measurement, State, check
from outspan.embedders import Embedder, Embeddings
from outspan.testing import FakeEmbedder

FILLER = [
    f"{noun} {verb} {place} {when}."
    for noun in ("The gardener", "A locksmith", "The choir", "Her cousin", "The surveyor", "A beekeeper")
    for verb in (
        "painted a fence",
        "sold two carpets",
        "repaired a clock",
        "mapped a cave",
        "baked rye bread",
    )
    for place in ("near the mill", "in the valley", "behind the school", "on the plateau")
    for when in ("last spring", "on Thursday", "before dawn", "during the fair")
]
"""480 distinct sentences that say nothing about what the tests claim."""


@pytest.fixture(scope="module")
def sensor(embedder: Embedder) -> EnergySensor:
    return EnergySensor(embedder)


def energy(one: Measurement) -> float:
    assert one.state is State.MEASURED, one.reason
    assert one.energy is not None
    return one.energy


def test_a_name_without_a_predicate_and_without_relation_lies_outside(sensor: EnergySensor) -> None:
    (one,) = sensor.measure(["Ada Brook"], ["Tensile strength of flax fibre"])
    assert energy(one) > 0.8


def test_a_word_that_is_mentioned_does_not_make_a_claim_contained(sensor: EnergySensor) -> None:
    mention, copy = (
        sensor.measure(["Lima is the capital of Peru."], [text])[0]
        for text in ("We changed planes in Lima on Tuesday.", "Lima is the capital of Peru.")
    )
    assert energy(mention) > 0.4
    assert energy(copy) < 1e-6


def test_a_claim_at_the_end_of_a_long_document_is_found_and_a_long_sentence_is_flagged(
    sensor: EnergySensor,
) -> None:
    filler = " ".join(FILLER[:60])  # more than 400 words
    (split,) = sensor.measure(["The deposit is refundable."], [f"{filler} The deposit is refundable."])
    assert energy(split) < 1e-6
    assert split.flags == ()
    endless = " ".join(sentence.rstrip(".").lower() for sentence in FILLER[:60])
    (cut,) = sensor.measure(["The deposit is refundable."], [f"{endless} the deposit is refundable"])
    assert "evidence_truncated" in cut.flags
    (long_claim,) = sensor.measure([endless], ["The deposit is refundable."])
    assert "truncated" in long_claim.flags


@pytest.mark.parametrize(
    "claim", ["The moon is made of basalt and regolith.", "Interest is charged monthly."]
)
def test_a_claim_does_not_become_safe_because_the_context_grew(sensor: EnergySensor, claim: str) -> None:
    few, many = (energy(sensor.measure([claim], FILLER[:n])[0]) for n in (3, 300))
    assert many > 0.4
    assert few >= many  # more directions can only explain more; how much more is what the limit bounds


@pytest.mark.parametrize("added", [0, 10, 100, 384])
def test_a_copied_sentence_stays_at_zero_whatever_is_added(sensor: EnergySensor, added: int) -> None:
    evidence = ["The bridge opened in 1932.", "Trams were withdrawn in 1961.", *FILLER[:added]]
    one = sensor.measure(["The bridge opened in 1932."], evidence)[0]
    assert energy(one) < 1e-6
    assert one.nearest is not None
    assert one.nearest.evidence_id == "0#0"
    assert one.evidence.used <= 64


def test_background_adjustment_keeps_an_unrelated_claim_where_it_is(embedder: Embedder) -> None:
    adjusted = EnergySensor(embedder, proxies=["background_adjusted"])
    claim = ["Interest is charged monthly."]
    few, many = (adjusted.measure(claim, FILLER[:n])[0] for n in (12, 384))
    assert energy(few) - energy(many) > 0.15
    values = [one.proxies["background_adjusted"] for one in (few, many)]
    assert values[0] == pytest.approx(values[1], abs=0.08)
    assert min(values) > 0.4  # type: ignore[type-var]  # not None, or the comparison raises


def test_support_in_any_chunk_is_enough(sensor: EnergySensor) -> None:
    chunks = [
        {"id": "A", "text": "The bridge opened in 1932."},
        {"id": "B", "text": "Trams were withdrawn in 1961."},
    ]
    for order in (chunks, chunks[::-1]):
        one = sensor.measure(["The bridge opened in 1932."], order)[0]
        assert energy(one) < 1e-6
        assert one.nearest is not None
        assert one.nearest.evidence_id == "A#0"


def test_a_million_characters_in_one_string() -> None:
    words = EnergySensor(FakeEmbedder(dimension=32))
    text = " ".join(f"Item {i} was counted in row {i % 97}." for i in range(36_000))
    assert len(text) > 1_200_000
    one = words.measure(["Item 35999 was counted in row 12."], [text])[0]
    assert one.state is State.MEASURED
    assert one.evidence.sentences == 36_000
    unbroken = words.measure(["abc"], ["x" * 1_200_000])[0]
    assert unbroken.evidence.sentences == 1


class Numbered(FakeEmbedder):
    """Instant vectors for texts that start with a word and a number: a random direction a number."""

    def embed(self, texts: Sequence[str], /) -> Embeddings:
        rows = np.stack([_DIRECTIONS[int(text.split()[1])] for text in texts])
        return Embeddings(vectors=rows, tokens=np.full(len(texts), 8))


_DIRECTIONS = np.random.default_rng(0).standard_normal((200_000, 16)).astype(np.float32)


def test_two_hundred_thousand_evidence_sentences() -> None:
    many = [f"Entry {i} lists a part." for i in range(200_000)]
    sensor = EnergySensor(Numbered(dimension=16), evidence="nearest:8")
    one = sensor.measure([many[123_456]], many)[0]
    assert energy(one) < 1e-6
    assert one.evidence.left_out["beyond the limit"] == 200_000 - 8


def test_the_same_bits_alone_in_a_crowd_and_beside_a_long_neighbour(sensor: EnergySensor) -> None:
    claim, evidence = "The choir sang in the valley on Thursday.", FILLER[:40]
    alone = sensor.measure([claim], evidence)[0]
    crowd = sensor.measure([*FILLER[100:131], claim], evidence)[-1]
    neighbour = sensor.measure([" ".join(FILLER[:80]), claim], evidence)[-1]
    assert alone == crowd == neighbour


def test_markers_of_citation_are_not_embedded_and_not_lost(sensor: EnergySensor) -> None:
    evidence = ["Basalt weathers fast above forty degrees."]
    marked = check("Basalt weathers fast above forty degrees [2]. (Brandt, 2019)", evidence, sensor)
    assert marked.claims[0].measurement.energy == pytest.approx(0.0, abs=1e-6)
    assert "[2]" in {mark.text for checked in marked.claims for mark in checked.claim.citations}
    assert "".join(c.claim.text for c in marked.claims).replace(" ", "") == (
        "Basaltweathersfastabovefortydegrees[2].(Brandt,2019)"
    )


def test_a_negation_inside_the_span_is_not_seen(sensor: EnergySensor) -> None:
    """The ceiling of the measurement, kept as a fact: whoever lifts it does so with another sensor."""
    (one,) = sensor.measure(["The valve is not pressure-rated."], ["The valve is pressure-rated."])
    assert energy(one) < 0.3


def test_an_answer_in_other_scripts_comes_back_whole(sensor: EnergySensor) -> None:
    for answer in ("水在零度结冰。它在一百度沸腾！", "पानी शून्य पर जमता है। यह सौ पर उबलता है।"):
        record = check(answer, ["Water freezes at zero degrees."], sensor)
        assert len(record.claims) == 2
        assert "".join(c.claim.text for c in record.claims).replace(" ", "") == answer.replace(" ", "")
