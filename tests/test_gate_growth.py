"""Evidence that grows with unrelated text must not turn a reject into an accept; with the real model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gate_helpers import claim, threshold
from outspan.background import shipped
from outspan.gate import decide_claim, load_policy
from outspan.sensors.energy import EnergySensor

if TYPE_CHECKING:
    from outspan.embedders.onnx_runtime import OnnxEmbedder

COPIED = "The bridge opened in 1932 after nine years of work."
UNRELATED = (
    "The captain was awarded a medal by the coast guard.",
    "Alba acquired Norda in August.",
    "The warranty lasts two years.",
    "Tensile strength of flax fibre is high.",
    "Basalt weathers faster above forty degrees.",
    "The museum has four floors.",
    "Refunds take five days.",
    "Gift cards are excluded from the offer.",
)
SIZES = (0, 1, 10, 64, 100, 300)


@pytest.fixture(scope="module")
def grown(embedder: OnnxEmbedder) -> dict[int, list[dict[str, object]]]:
    """Claim records by the number of unrelated sentences beside the one that was copied."""
    sensor = EnergySensor(embedder, proxies=["background_adjusted"])
    unrelated = shipped().texts
    return {
        size: [one.to_dict() for one in sensor.measure([COPIED, *UNRELATED], [COPIED, *unrelated[:size]])]
        for size in SIZES
    }


def test_the_energy_falls_as_evidence_grows_and_never_from_reject_to_accept(
    grown: dict[int, list[dict[str, object]]],
) -> None:
    policy = load_policy("energy")
    outcomes = {
        size: [decide_claim(one, threshold(accept=0.3, reject=0.6), policy).outcome for one in records]
        for size, records in grown.items()
    }
    assert {found[0] for found in outcomes.values()} == {"accept"}, "a copied sentence stays accepted"
    assert set(outcomes[0][1:]) == {"reject"}
    assert "accept" not in [one for found in outcomes.values() for one in found[1:]]


def test_on_the_adjusted_proxy_a_reject_stays_a_reject_at_every_size(
    grown: dict[int, list[dict[str, object]]],
) -> None:
    policy = load_policy("energy")
    at = threshold(score="background_adjusted", accept=0.2, reject=0.35)
    for size, records in grown.items():
        found = [decide_claim(one, at, policy).outcome for one in records]
        assert found == ["accept", *["reject"] * len(UNRELATED)], size


def test_past_the_calibrated_sizes_nothing_that_was_rejected_is_accepted(
    grown: dict[int, list[dict[str, object]]],
) -> None:
    """A cut so loose that growth alone would carry a claim over it, and the guard that stops that."""
    policy = load_policy("energy")
    loose, guarded = (
        threshold(accept=0.6, reject=0.75, counts=counts) for counts in ({}, {"evidence_rows_max": 11})
    )
    carried = [decide_claim(one, loose, policy).outcome for one in grown[300][1:]]
    assert "accept" in carried, "without the guard, growth turns a reject into an accept"
    for size, records in grown.items():
        found = [decide_claim(one, guarded, policy) for one in records]
        assert "accept" not in [one.outcome for one in found[1:]], size
        if size > 10:
            assert found[0].outcome == "review"
            assert "none of the calibration's rows had more than 11" in found[0].reason


def test_repeats_of_evidence_do_not_make_it_larger(embedder: OnnxEmbedder) -> None:
    (one,) = EnergySensor(embedder).measure([COPIED], [COPIED, *UNRELATED] * 40)
    at = threshold(counts={"evidence_rows_max": 9})
    assert decide_claim(one.to_dict(), at, load_policy("energy")).outcome == "accept"


def test_a_record_that_does_not_say_how_much_evidence_there_was_is_a_review() -> None:
    at = threshold(counts={"evidence_rows_max": 9})
    decision = decide_claim(claim(0.1), at, load_policy("energy"))
    assert decision.outcome == "review"
    assert decision.trace[-1].rule == "last look before acceptance"
