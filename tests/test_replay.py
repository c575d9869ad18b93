"""Replay: the same number from the same texts, and a plain word where it is not the same."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from gate_helpers import decided, shared_of, threshold
from outspan.checker import CheckedClaim
from outspan.claims import whole_claim
from outspan.embedders.protocol import Embeddings
from outspan.evidence import EvidenceItem
from outspan.gate import DecisionRecord, decide_answer, decision_record, load_policy, parse_policy
from outspan.ledger import Entry, Ledger
from outspan.replay import replay, replay_many
from outspan.sensors.energy import EnergySensor
from outspan.testing import FakeEmbedder

if TYPE_CHECKING:
    from outspan.embedders.onnx_runtime import OnnxEmbedder

EVIDENCE = [
    "The ferry holds ninety cars.",
    "It was built in Gdansk and painted green.",
    "Ice stopped it in March.",
]
ANSWER = "The ferry holds ninety cars. It was painted red by a giant. Thanks for asking!"


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.db")


def keep(ledger: Ledger, record: DecisionRecord) -> Entry:
    return ledger.append("decision", record.content, artefacts=shared_of(record))


class Jittered(FakeEmbedder):
    """The same weights on another machine: every vector a little off."""

    def __init__(self, size: float) -> None:
        super().__init__()
        self._size = size

    def embed(self, texts: Sequence[str], /) -> Embeddings:
        made = super().embed(texts)
        noise = np.random.default_rng(5).standard_normal(made.vectors.shape).astype(np.float32)
        return Embeddings(
            vectors=made.vectors + self._size * noise, tokens=made.tokens, failures=made.failures
        )


def test_on_the_machine_that_wrote_it_a_replay_is_identical(ledger: Ledger) -> None:
    sensor = EnergySensor(FakeEmbedder(), proxies=["max_cosine"])
    decision, record = decided(ANSWER, EVIDENCE, sensor)
    assert [one.outcome for one in decision.claims] == ["accept", "reject", "no_claim"]
    found = replay(keep(ledger, record), sensor, ledger.artefact)
    assert (found.status, found.largest_difference) == ("identical", 0.0), found.reason


def test_within_the_tolerance_it_is_equivalent_and_says_what_is_not_the_same(ledger: Ledger) -> None:
    _, record = decided(ANSWER, EVIDENCE, EnergySensor(FakeEmbedder()))
    found = replay(keep(ledger, record), EnergySensor(Jittered(1e-7)), ledger.artefact)
    assert found.status == "equivalent", found.reason
    assert "energy" in found.reason
    assert 0.0 < (found.largest_difference or 0.0) < 1e-5


def test_beyond_the_tolerance_it_drifted(ledger: Ledger) -> None:
    _, record = decided(ANSWER, EVIDENCE, EnergySensor(FakeEmbedder()))
    found = replay(keep(ledger, record), EnergySensor(Jittered(1e-3)), ledger.artefact)
    assert found.status == "drifted"
    assert "further apart than 1e-05" in found.reason


def test_within_the_tolerance_of_a_threshold_no_rounding_decides(ledger: Ledger) -> None:
    """Case 48: an energy 1e-6 from the threshold is a review, before and after a change in the last bits."""
    sensor = EnergySensor(FakeEmbedder())
    energy = sensor.measure(["It was painted red by a giant."], EVIDENCE)[0].energy
    assert energy is not None
    for cut in (energy - 1e-6, energy + 1e-6):
        decision, record = decided(
            "It was painted red by a giant.", EVIDENCE, sensor, accept=cut, reject=cut + 2e-5
        )
        assert decision.outcome == "review"
        assert (
            replay(keep(ledger, record), EnergySensor(Jittered(1e-7)), ledger.artefact).status == "equivalent"
        )


def test_a_changed_outcome_is_a_drift_though_the_numbers_agree(ledger: Ledger) -> None:
    sensor = EnergySensor(FakeEmbedder())
    _, record = decided(ANSWER, EVIDENCE, sensor)
    claims: Any = [dict(one) for one in record.content["claims"]]  # type: ignore[attr-defined]
    claims[1]["decision"] = {**claims[1]["decision"], "outcome": "accept"}
    entry = ledger.append("decision", {**record.content, "claims": claims}, artefacts=shared_of(record))
    found = replay(entry, sensor, ledger.artefact)
    assert (found.status, found.reason) == ("drifted", "sentence 1 was accept, is reject")


def test_another_embedder_of_the_same_name_drifted_and_the_difference_is_listed(ledger: Ledger) -> None:
    """Case 50: equal name and dimension, other weights."""
    _, record = decided(ANSWER, EVIDENCE, EnergySensor(FakeEmbedder()))
    entry = keep(ledger, record)
    found = replay(entry, EnergySensor(FakeEmbedder(seed=1)), ledger.artefact)
    assert found.status == "drifted"
    assert "embedder.weights_digest was" in found.reason
    assert (
        "rank_policy was 'cap:64', is 'cap:1'"
        in replay(entry, EnergySensor(FakeEmbedder(), rank="cap:1"), ledger.artefact).reason
    )
    other = replay(entry, EnergySensor(FakeEmbedder(), proxies=["max_cosine"]), ledger.artefact)
    assert (other.status, other.reason) == ("drifted", "the proxies differ: recorded were none")


def test_a_failing_embedder_is_a_drift_of_the_state(ledger: Ledger) -> None:
    _, record = decided(ANSWER, EVIDENCE, EnergySensor(FakeEmbedder()))
    broken = EnergySensor(FakeEmbedder(failing=["It was painted red by a giant."]))
    found = replay(keep(ledger, record), broken, ledger.artefact)
    assert found.status == "drifted"
    assert "sentence 1 was MEASURED, is FAILED" in found.reason


def changed_text(content: Mapping[str, Any]) -> dict[str, Any]:
    return {"answer": {**content["answer"], "text": "Another answer. It is not the one that was measured."}}


def changed_offsets(content: Mapping[str, Any]) -> dict[str, Any]:
    return {"offsets": [[0, 3], *content["offsets"][1:]]}


def lost_policy(_content: Mapping[str, Any]) -> dict[str, Any]:
    return {"policy": "sha256:lost"}


@pytest.mark.parametrize(
    ("change", "status", "reason"),
    [
        (changed_text, "drifted", "not the one of its digest"),
        (changed_offsets, "drifted", "split into other sentences"),
        (lost_policy, "not_replayable", "not in the ledger"),
    ],
)
def test_what_does_not_fit_together_is_said(
    ledger: Ledger, change: Callable[[Mapping[str, Any]], dict[str, Any]], status: str, reason: str
) -> None:
    sensor = EnergySensor(FakeEmbedder())
    _, record = decided(ANSWER, EVIDENCE, sensor)
    entry = ledger.append(
        "decision", {**record.content, **change(record.content)}, artefacts=shared_of(record)
    )
    found = replay(entry, sensor, ledger.artefact)
    assert found.status == status
    assert reason in found.reason


def test_private_entries_hold_no_text_and_say_that_they_cannot_be_replayed(
    ledger: Ledger, tmp_path: Path
) -> None:
    secret = "The zeppelin of Umbertide carries marmalade."
    answer = f"# Umbertide\n\n{secret} See [1]. Umbertide sails on."
    sensor = EnergySensor(FakeEmbedder(raising=["Umbertide sails on."]), proxies=["max_cosine"])
    quoting = parse_policy(
        'name = "q"\n[[rule]]\nname = "r"\nkind = "field"\nfield = "reason"\nnot_in = ["x"]\nthen = "review"\n'
    )
    items = [secret, "Marmalade comes from oranges."]
    keep(ledger, decided(answer, items, sensor, private=True, policy=quoting)[1])
    decision, record = decided(answer, items, sensor, private=True)
    assert "FAILED" in [step.inputs.get("state") for one in decision.claims for step in one.trace]
    entry = keep(ledger, record)
    found = replay(entry, sensor, ledger.artefact)
    assert (found.status, found.reason) == ("not_replayable", "not replayable: texts are not stored")
    ledger.close()
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir()).lower()
    for word in (b"umbertide", b"zeppelin", b"marmalade", b"oranges"):
        assert word not in stored
    assert ledger.verify().ok


def test_a_text_that_utf8_cannot_hold_is_kept_by_its_digest(ledger: Ledger) -> None:
    sensor = EnergySensor(FakeEmbedder())
    _, record = decided("The ferry \ud800 holds ninety cars.", EVIDENCE, sensor)
    found = replay(keep(ledger, record), sensor, ledger.artefact)
    assert found.reason == "not replayable: the text is not Unicode that can be stored"
    assert ledger.verify().ok


def test_an_answer_that_was_measured_whole_is_replayed_whole(ledger: Ledger) -> None:
    sensor = EnergySensor(FakeEmbedder())
    text = "The ferry holds ninety cars. It was painted red."
    claim = whole_claim(text)
    records = [CheckedClaim(claim=claim, measurement=sensor.measure([claim], EVIDENCE)[0]).to_dict()]
    at = threshold(fingerprint=sensor.fingerprint)
    policy = load_policy("energy")
    record = decision_record(
        answer=text, evidence=[EvidenceItem(id=str(i), text=one) for i, one in enumerate(EVIDENCE)], claims=records,
        decision=decide_answer(records, at, policy), threshold=at, policy=policy, fingerprint=sensor.fingerprint,
    )  # fmt: skip
    assert (record.content["unit"], "regime" in record.shared) == ("whole", False)
    assert replay(keep(ledger, record), sensor, ledger.artefact).status == "identical"


def test_what_is_no_decision_is_not_replayed(ledger: Ledger) -> None:
    entry = ledger.append("decision", {"something": "else"})
    assert replay(entry, EnergySensor(FakeEmbedder()), ledger.artefact).status == "not_replayable"
    with pytest.raises(ValueError, match="at least 1"):
        list(replay_many([entry], EnergySensor(FakeEmbedder()), ledger.artefact, batch=0))


SUBJECTS = ("The ferry", "A tram", "The old bridge", "Our council", "The harbour")
VERBS = ("carries", "repairs", "closed", "sold")
OBJECTS = ("ninety cars", "the pier", "two wooden boats", "a crane", "the winter timetable")


def answers(count: int) -> list[tuple[str, list[str]]]:
    sentences = [f"{s} {v} {o}." for s, v, o in itertools.product(SUBJECTS, VERBS, OBJECTS)]
    return [
        (
            f"{sentences[i % 97]} {sentences[(i * 7 + 3) % 100]}",
            [sentences[(i * k + 11) % 100] for k in (1, 3)],
        )
        for i in range(count)
    ]


def replayed_at_every_batch(ledger: Ledger, sensor: EnergySensor, count: int) -> None:
    for answer, evidence in answers(count):
        keep(ledger, decided(answer, evidence, sensor)[1])
    for batch in (1, 7, 32):
        found = [
            one.status
            for one in replay_many(ledger.entries(kind="decision"), sensor, ledger.artefact, batch=batch)
        ]
        assert found == ["identical"] * count, batch


def test_a_thousand_decisions_are_identical_at_every_batch_size(ledger: Ledger) -> None:
    replayed_at_every_batch(ledger, EnergySensor(FakeEmbedder()), 1000)


def test_with_the_real_model_too(ledger: Ledger, embedder: OnnxEmbedder) -> None:
    replayed_at_every_batch(ledger, EnergySensor(embedder, proxies=["max_cosine"]), 100)
