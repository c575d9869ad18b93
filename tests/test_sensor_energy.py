"""The energy sensor: states, batching, evidence that repeats, grows or fails. With a fake embedder."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outspan.evidence import EvidencePolicy
from outspan.measurement import Measurement, State, tally
from outspan.sensors.energy import EnergySensor
from outspan.testing import FakeEmbedder

EVIDENCE = ["The bridge opened in 1932.", "Trams were withdrawn in 1961.", "A toll paid for the lamps."]
CLAIM = "The bridge opened in 1932."


def sensor(**options: object) -> EnergySensor:
    return EnergySensor(FakeEmbedder(), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("evidence", [[], [""], ["  \n"], [None], ["\u200b"], None], ids=repr)
def test_no_evidence_is_one_state_and_not_an_energy(evidence: object) -> None:
    one = sensor().measure([CLAIM], evidence)[0]  # type: ignore[arg-type]
    assert one.state is State.NO_EVIDENCE
    assert one.energy is None
    assert one.explained is None
    assert one.operational_energy == 1.0
    assert one.evidence.used == 0


@pytest.mark.parametrize("claim", ["", " \n", "👍", "IDK", "Hi there! Happy to help.", "…"])
def test_what_claims_nothing_is_no_claim_with_its_reason(claim: str) -> None:
    one = sensor().measure([claim], EVIDENCE)[0]
    assert one.state is State.NO_CLAIM
    assert one.reason
    assert one.energy is None


def test_support_in_any_evidence_sentence_is_enough() -> None:
    one = sensor().measure([CLAIM], EVIDENCE)[0]
    assert one.state is State.MEASURED
    assert one.energy == pytest.approx(0.0, abs=1e-12)
    assert one.nearest is not None
    assert one.nearest.evidence_id == "0#0"
    assert one.diagnostics is not None
    assert one.diagnostics.leans_on[0].evidence_id == "0#0"


def test_the_embedder_sees_each_text_once_over_all_pairs() -> None:
    embedder = FakeEmbedder()
    EnergySensor(embedder).measure_many([([CLAIM, "New words."], EVIDENCE), ([CLAIM], [*EVIDENCE, "More."])])
    seen = [text for call in embedder.calls for text in call]
    assert sorted(seen) == sorted({*EVIDENCE, CLAIM, "New words.", "More."})


def test_nothing_is_embedded_where_the_state_is_known_without() -> None:
    embedder = FakeEmbedder()
    EnergySensor(embedder).measure_many([([CLAIM], []), (["IDK"], EVIDENCE)])
    assert embedder.calls == []


def test_a_measurement_does_not_depend_on_its_neighbours() -> None:
    alone = sensor().measure(["Lamps were lit."], EVIDENCE)[0]
    crowd = sensor().measure_many([(["Others.", "Lamps were lit.", "IDK"], EVIDENCE), (["x y"], ["z"])])
    assert crowd[0][1] == alone


def test_duplicated_evidence_leaves_the_energy_as_it_was() -> None:
    once = sensor().measure(["Lamps and trams"], EVIDENCE)[0]
    often = sensor().measure(["Lamps and trams"], EVIDENCE * 9)[0]
    shouted = sensor().measure(["Lamps and trams"], EVIDENCE + [text.upper() for text in EVIDENCE])[0]
    assert often.energy == once.energy
    assert often.evidence.merged == 24
    assert shouted.energy == once.energy  # the fake embedder, like the default one, does not see case
    assert shouted.evidence.merged == 3


def unrelated(count: int) -> list[str]:
    return [f"w{i}a w{i}b w{i}c w{i}d." for i in range(count)]


@pytest.mark.parametrize("added", [0, 10, 100, 384])
def test_a_copied_sentence_stays_inside_however_much_is_added(added: int) -> None:
    one = EnergySensor(FakeEmbedder(dimension=384)).measure([CLAIM], EVIDENCE + unrelated(added))[0]
    assert one.energy == pytest.approx(0.0, abs=1e-9)


def test_an_unrelated_claim_is_not_explained_away_by_much_unrelated_evidence() -> None:
    embedder = FakeEmbedder(dimension=384)
    claim = "Quartz hums under pressure."
    limited = EnergySensor(embedder).measure([claim], unrelated(384))[0]
    unlimited = EnergySensor(embedder, evidence="all", rank="cap:384").measure([claim], unrelated(384))[0]
    assert unlimited.energy is not None
    assert unlimited.energy < 0.01  # 384 directions in 384 dimensions explain anything
    assert limited.energy is not None
    assert limited.energy > 0.5
    assert limited.rank == 64
    assert limited.evidence.left_out == {"beyond the limit": 320}


def test_a_failed_claim_is_a_state_of_its_own_and_leaves_the_others() -> None:
    broken = EnergySensor(FakeEmbedder(failing=["bad one"], nan=["worse one"], raising=["worst one"]))
    states = [m.state for m in broken.measure(["bad one", "worse one", "worst one", CLAIM], EVIDENCE)]
    assert states == [State.FAILED, State.FAILED, State.FAILED, State.MEASURED]


def test_a_zero_vector_is_degenerate() -> None:
    one = EnergySensor(FakeEmbedder(zero=["hollow words"])).measure(["hollow words"], EVIDENCE)[0]
    assert one.state is State.DEGENERATE
    assert one.energy is None


def test_evidence_that_failed_is_flagged_and_counted() -> None:
    one = EnergySensor(FakeEmbedder(failing=[EVIDENCE[1]])).measure([CLAIM], EVIDENCE)[0]
    assert "evidence_incomplete" in one.flags
    assert one.evidence.left_out == {"embedder failed": 1}
    none = EnergySensor(FakeEmbedder(failing=EVIDENCE)).measure(["x y"], EVIDENCE)[0]
    assert none.state is State.FAILED


def test_truncation_is_reported() -> None:
    short = EnergySensor(FakeEmbedder(max_tokens=6))
    assert "truncated" in short.measure(["one two three four five six"], ["a b"])[0].flags
    assert "evidence_truncated" in short.measure(["one two"], ["a b", "one two three four five six"])[0].flags
    assert short.measure(["one two"], ["a b"])[0].flags == ()


def test_vectors_of_any_length_give_the_same_energy() -> None:
    for scale in (1e-5, 1e5):
        scaled = EnergySensor(FakeEmbedder(scale=scale)).measure(["lamps here"], EVIDENCE)[0]
        assert scaled.energy == pytest.approx(sensor().measure(["lamps here"], EVIDENCE)[0].energy, abs=1e-6)


def test_a_binding_cap_is_reported() -> None:
    one = sensor(rank="cap:2").measure(["lamps here"], EVIDENCE)[0]
    assert one.cap_bound
    assert (one.rank, one.numeric_rank) == (2, 3)
    assert "cap_bound" in one.flags
    assert one.diagnostics is not None
    assert one.diagnostics.spectral_gap is not None


def test_two_embedders_of_one_name_are_two_regimes() -> None:
    ours, theirs = EnergySensor(FakeEmbedder(seed=1)), EnergySensor(FakeEmbedder(seed=2))
    assert ours.fingerprint != theirs.fingerprint
    assert set(ours.regime.difference(theirs.regime)) == {"embedder.weights_digest"}
    assert ours.regime.difference(EnergySensor(FakeEmbedder(seed=1)).regime) == {}


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"rank": "cap:8"}, "rank_policy"),
        ({"rank": "variance:0.9"}, "rank_policy"),
        ({"evidence": "all"}, "evidence_policy"),
    ],
)
def test_every_option_that_moves_the_number_is_in_the_regime(options: dict[str, object], part: str) -> None:
    assert list(sensor().regime.difference(sensor(**options).regime)) == [part]


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.text(max_size=40), max_size=6),
    st.lists(st.one_of(st.none(), st.text(max_size=60)), max_size=6),
)
def test_any_text_gives_one_record_a_claim_and_json_without_nan(
    claims: list[str], evidence: list[str | None]
) -> None:
    records = sensor().measure(claims, evidence)
    assert [record.text for record in records] == claims
    for record in records:
        assert (record.energy is not None) == (record.state is State.MEASURED)
        assert record.energy is None or 0.0 <= record.energy <= 1.0
        assert (record.reason is None) == (record.state is State.MEASURED)
        _assert_plain(record.to_dict())


def _assert_plain(value: object) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            assert isinstance(key, str)
            _assert_plain(item)
    elif isinstance(value, list):
        for item in value:
            _assert_plain(item)
    else:
        assert value is None or type(value) in (str, int, float, bool), type(value)
        assert not (type(value) is float and not np.isfinite(value))


def test_eight_threads_share_one_sensor() -> None:
    shared = sensor()
    expected = shared.measure(["lamps here", CLAIM], EVIDENCE)
    results: list[list[Measurement]] = []
    threads = [
        threading.Thread(target=lambda: results.append(shared.measure(["lamps here", CLAIM], EVIDENCE)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 8


def test_a_mean_never_averages_what_was_not_measured() -> None:
    broken = EnergySensor(FakeEmbedder(failing=[f"bad {i}" for i in range(9)]))
    records = broken.measure([*(f"bad {i}" for i in range(9)), CLAIM], EVIDENCE)
    summary = tally(records)
    assert (summary.measured, summary.total) == (1, 10)
    assert summary.states == {"MEASURED": 1, "FAILED": 9}
    assert summary.energy_mean == pytest.approx(0.0, abs=1e-9)
    assert tally([]).energy_mean is None


def test_selection_looks_at_each_claim() -> None:
    near = EnergySensor(FakeEmbedder(dimension=384), evidence=EvidencePolicy(limit=2))
    pool = [*EVIDENCE, *unrelated(40)]
    first, last = near.measure([EVIDENCE[0], pool[-1]], pool)
    assert first.energy == pytest.approx(0.0, abs=1e-9)
    assert last.energy == pytest.approx(0.0, abs=1e-9)
    assert first.evidence.used == 2


@pytest.mark.parametrize(
    "claims", [None, 5, b"bytes", {"text": "The pier"}, [None], [5], [b"x"], [{"text": "x"}]]
)
def test_claims_of_another_type_are_refused(claims: object) -> None:
    with pytest.raises(ValueError, match="claim"):
        sensor().measure(claims, EVIDENCE)  # type: ignore[arg-type]


@pytest.mark.parametrize("evidence", [5, b"bytes", [b"x"], object()])
def test_evidence_of_another_type_is_refused(evidence: object) -> None:
    with pytest.raises(ValueError, match="evidence"):
        sensor().measure(["x"], evidence)  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{"rank": 5}, {"rank": None}, {"evidence": 5}])
def test_options_of_another_type_are_refused_when_the_sensor_is_made(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="rank|evidence"):
        sensor(**options)


def test_a_proxy_asked_for_twice_is_measured_once() -> None:
    one = sensor(proxies=["max_cosine", "max_cosine", "local_span", "local_span(k=8)"]).measure(
        ["x"], EVIDENCE
    )[0]
    assert list(one.proxies) == ["max_cosine", "local_span"]
