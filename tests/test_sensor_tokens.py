"""Sensors beside the energy: the plumbing, and the words that lie outside. Fake embedder; a few real ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from outspan.checker import check
from outspan.claims import Claim, split_claims, whole_claim
from outspan.cli import cli
from outspan.embedders.protocol import EmbedderIdentity, Embeddings
from outspan.evidence import EvidenceSet
from outspan.measurement import Finding, Reading, State
from outspan.sensors.energy import EnergySensor
from outspan.sensors.places import place_in_text
from outspan.sensors.reading import SENSORS, SensorContext, SensorContract, make_sensor
from outspan.sensors.token_store import Pieces, TokenStore
from outspan.sensors.tokens import TokenSensor, content_words
from outspan.testing import FakeEmbedder

if TYPE_CHECKING:
    from outspan.embedders.onnx_runtime import OnnxEmbedder

EVIDENCE = ["The bridge opened in 1932.", "Trams were withdrawn in 1961.", "A toll paid for the lamps."]


class WithoutTokens:
    """An embedder that has what the protocol asks for, and no more."""

    def __init__(self) -> None:
        self._fake = FakeEmbedder()

    @property
    def identity(self) -> EmbedderIdentity:
        return self._fake.identity

    def embed(self, texts: Sequence[str], /) -> Embeddings:
        return self._fake.embed(texts)


class Says:
    """A sensor that answers as it is told."""

    name: ClassVar[str] = "says"

    def __init__(self, answer: Callable[[Sequence[Claim]], Any]) -> None:
        self._answer = answer

    @property
    def contract(self) -> SensorContract:
        return SensorContract(
            name="says",
            measures="nothing",
            unit="claim_vs_evidence_set",
            range=(0.0, 1.0),
            direction="higher_means_less_contained",
            blind_spots=(),
            parameters=(),
            uses=(),
            version=1,
        )

    def read(
        self, claims: Sequence[Claim], evidence: EvidenceSet, context: SensorContext, /
    ) -> list[Reading]:
        answer: list[Reading] = self._answer(claims)
        return answer


def read(claim: str, evidence: object = EVIDENCE, **options: Any) -> Reading:
    options.setdefault("sensors", ["tokens"])
    sensor = EnergySensor(options.pop("embedder", FakeEmbedder()), **options)
    return sensor.measure([claim], evidence)[0].sensors["tokens"]  # type: ignore[arg-type]


def test_a_claim_made_of_the_evidence_s_words_is_contained_word_by_word() -> None:
    one = read("The bridge opened in 1932.")
    assert one.state is State.MEASURED
    assert one.score == pytest.approx(0.0, abs=1e-6)
    assert one.findings == ()


def test_the_words_outside_are_named_with_offsets_and_with_what_they_were_held_against() -> None:
    claim = "The ferry opened in 1932."
    one = read(claim)
    (found,) = one.findings
    assert (found.kind, found.text, claim[found.start : found.end]) == ("word", "ferry", "ferry")
    assert found.value is not None
    assert found.value > 0.25
    assert found.found is not None
    assert found.evidence_id is not None
    assert one.score == pytest.approx(found.value / 3, abs=1e-6)  # ferry, opened, 1932


def test_more_evidence_never_moves_a_word_further_outside() -> None:
    claim = "The ferry opened near the quay in 1932."
    scores = [read(claim, EVIDENCE[:n]).score for n in (1, 2, 3)]
    assert all(score is not None for score in scores)
    assert scores == sorted(scores, reverse=True)  # type: ignore[type-var]


def test_a_reading_has_the_state_of_its_claim() -> None:
    assert read("Hi there! Happy to help.").state is State.NO_CLAIM
    assert read("It opened.", []).state is State.NO_EVIDENCE
    only_function_words = read("That is what it was about.")
    assert only_function_words.state is State.NO_CLAIM
    assert only_function_words.reason == "no content word that the embedder can read"
    assert read("It opened.", embedder=FakeEmbedder(failing=["It opened."])).state is State.FAILED
    for state in ("Hi there!", "It opened."):
        assert read(state, []).score is None


def test_an_embedder_without_token_vectors_fails_the_sensor_and_not_the_energy() -> None:
    sensor = EnergySensor(WithoutTokens(), sensors=["tokens"])
    (one,) = sensor.measure(["The bridge opened."], EVIDENCE)
    assert one.state is State.MEASURED
    assert one.sensors["tokens"].state is State.FAILED
    assert one.sensors["tokens"].reason == "the embedder fake gives no token vectors"


def test_token_vectors_that_are_not_finite_are_a_failure_and_evidence_without_them_is_flagged() -> None:
    nan = FakeEmbedder(nan=["The bridge opened."])
    assert read("The bridge opened.", embedder=nan).reason == "a token vector is not finite"
    failing = FakeEmbedder(failing=[EVIDENCE[1]])
    one = read("The bridge opened.", embedder=failing)
    assert one.state is State.MEASURED
    assert "evidence_incomplete" in one.flags
    all_failing = FakeEmbedder(failing=EVIDENCE)
    assert read("The bridge opened.", embedder=all_failing).state is State.FAILED


def test_what_is_not_read_is_flagged() -> None:
    short = FakeEmbedder(max_tokens=5)
    assert read("The bridge opened in 1932.", embedder=short).flags == ("truncated", "evidence_truncated")


@pytest.mark.parametrize("sensors", [[], ["tokens"]])
def test_the_energy_and_its_fingerprint_are_the_same_with_and_without_sensors(sensors: list[str]) -> None:
    plain = EnergySensor(FakeEmbedder())
    with_sensors = EnergySensor(FakeEmbedder(), sensors=sensors)
    claims = ["The bridge opened.", "A ferry sank."]
    assert plain.fingerprint == with_sensors.fingerprint
    for one, other in zip(
        plain.measure(claims, EVIDENCE), with_sensors.measure(claims, EVIDENCE), strict=True
    ):
        record = other.to_dict()
        record.pop("sensors", None)
        assert record == one.to_dict()


def test_every_record_of_a_run_has_the_same_keys() -> None:
    record = check("Hi there! The bridge opened. The ferry sank.", EVIDENCE, EnergySensor(FakeEmbedder()))
    assert all("sensors" not in claim for claim in record.to_dict()["claims"])  # type: ignore[attr-defined]
    assert "sensor_contracts" not in record.to_dict()
    asked = check(
        "Hi there! The bridge opened.", EVIDENCE, EnergySensor(FakeEmbedder(), sensors=["tokens"])
    ).to_dict()
    assert [list(claim["sensors"]) for claim in asked["claims"]] == [["tokens"]] * 2  # type: ignore[attr-defined]
    assert json.loads(json.dumps(asked, allow_nan=False)) == asked


def test_one_pass_makes_both_vectors_and_what_is_kept_is_not_asked_for_again() -> None:
    embedder = FakeEmbedder()
    sensor = EnergySensor(embedder, sensors=["tokens"])
    sensor.measure(["The bridge opened."], EVIDENCE)
    assert embedder.calls == []
    seen = [text for call in embedder.token_calls for text in call]
    assert sorted(seen) == sorted([*EVIDENCE, "The bridge opened."])


def test_the_store_keeps_to_its_bytes_and_embeds_again_what_it_dropped() -> None:
    embedder = FakeEmbedder()
    store = TokenStore(embedder, max_bytes=2 * 4 * 64 * 4)  # two texts of four words
    texts = [f"alpha beta gamma delta{i}" for i in range(4)]
    assert all(isinstance(one, Pieces) for one in store.get(texts))
    assert store._bytes <= 2 * 4 * 64 * 4
    store.get(texts[3:])
    assert len(embedder.token_calls) == 1
    store.get(texts[:1])
    assert len(embedder.token_calls) == 2


# A3, A4: a sensor that counts wrongly, raises, or answers with a number that is none


def answers(answer: Callable[[Sequence[Claim]], Any], count: int = 2) -> list[Reading]:
    sensor = EnergySensor(FakeEmbedder(), sensors=[Says(answer)])
    claims = ["The bridge opened.", "The ferry sank."][:count]
    return [one.sensors["says"] for one in sensor.measure(claims, EVIDENCE)]


def score(value: float) -> Reading:
    return Reading(sensor="says", state=State.MEASURED, reason=None, score=value)


def test_a_wrong_count_or_an_exception_is_a_failure_of_every_claim_with_its_reason() -> None:
    (one, other) = answers(lambda claims: [score(0.5)])
    assert one.reason == other.reason == "the sensor gave 1 readings for 2 claims"
    assert one.state is State.FAILED

    def raises(claims: Sequence[Claim]) -> list[Reading]:
        raise OSError("no such model")

    assert [one.reason for one in answers(raises)] == ["OSError: no such model"] * 2


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), float("inf")])
def test_a_score_outside_its_range_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        score(value)
    (one,) = answers(lambda claims: [score(value)], count=1)
    assert one.state is State.FAILED
    assert one.score is None


def test_a_reading_is_a_score_or_a_reason() -> None:
    with pytest.raises(ValueError, match="goes with MEASURED"):
        Reading(sensor="says", state=State.MEASURED, reason=None, score=None)
    with pytest.raises(ValueError, match="goes with MEASURED"):
        Reading(sensor="says", state=State.FAILED, reason="why", score=0.0)
    with pytest.raises(ValueError, match="a reason"):
        Reading(sensor="says", state=State.FAILED, reason=None, score=None)


def test_an_answer_that_is_no_reading_of_these_claims_is_a_failure() -> None:
    assert answers(lambda claims: [0.5], count=1)[0].state is State.FAILED
    elsewhere = Finding(start=0, end=3, text="ship", kind="word", found=None, expected=None, evidence_id=None)
    wrong = Reading(sensor="says", state=State.MEASURED, reason=None, score=0.5, findings=(elsewhere,))
    (one,) = answers(lambda claims: [wrong], count=1)
    assert one.state is State.FAILED
    assert one.reason is not None
    assert "does not quote the claim" in one.reason


def test_names_and_parameters_are_checked() -> None:
    assert str(make_sensor("tokens").contract) == "tokens(outside_from=0.25)"
    assert (
        make_sensor(str(make_sensor("tokens(outside_from=0.5)").contract)).contract
        == make_sensor("tokens(outside_from=0.5)").contract
    )
    for text, problem in (
        ("token", "did you mean tokens"),
        ("tokens(k=1)", "no parameter 'k'"),
        ("tokens(outside_from=2)", "must lie in"),
        ("to kens", "write name"),
    ):
        with pytest.raises(ValueError, match=problem):
            make_sensor(text)
    with pytest.raises(ValueError, match="share one place"):
        EnergySensor(FakeEmbedder(), sensors=["tokens", "tokens(outside_from=0)"])
    for asked in (["tokens", "tokens"], "tokens"):
        assert list(EnergySensor(FakeEmbedder(), sensors=asked).sensors) == ["tokens"]


@pytest.mark.parametrize("name", SENSORS)
def test_every_sensor_is_made_by_its_name_and_answers_in_every_state(name: str) -> None:
    made = make_sensor(name)
    assert made.name == made.contract.name == name
    assert make_sensor(str(made.contract)).contract == made.contract
    assert json.loads(json.dumps(made.contract.to_dict()))["name"] == name
    sensor = EnergySensor(FakeEmbedder(), sensors=[name])
    claims = ["Hi there!", "The ferry was not opened in 1933."]
    states = [one.sensors[name].state for one in sensor.measure(claims, EVIDENCE)]
    assert states[0] is State.NO_CLAIM
    assert states[1] is not State.FAILED
    assert sensor.measure(claims, [])[1].sensors[name].state is State.NO_EVIDENCE


def test_the_contract_goes_into_a_fingerprint_of_its_own() -> None:
    one = EnergySensor(FakeEmbedder(), sensors=["tokens"])
    other = EnergySensor(FakeEmbedder(seed=1), sensors=["tokens"])
    third = EnergySensor(FakeEmbedder(), sensors=["tokens(outside_from=0)"])
    digests = {sensor.sensor_fingerprints["tokens"] for sensor in (one, other, third)}
    assert len(digests) == 3


# where the words stand


@pytest.mark.parametrize(
    "text",
    [
        "The *ferry* sank [2] at **Norda**.",
        "The [ferry](https://example.org/ferry/sank) sank at <b>Norda</b>.",
        "The  ferry\nsank [1, 3] at Norda [2].",
        "The ferry sank at 2 [2].",
    ],
)
def test_offsets_hold_in_the_text_as_it_was_written(text: str) -> None:
    (claim,) = split_claims(text)
    assert claim.core != claim.text
    for start, end in content_words(claim.core):
        place = place_in_text(claim, start, end)
        assert place is not None
        assert claim.text[place[0] : place[1]] == claim.core[start:end]
    two = claim.core.find("2")
    if two >= 0:
        assert place_in_text(claim, two, two + 1) == (text.index("2"), text.index("2") + 1)


def test_a_word_that_is_not_written_so_has_no_place() -> None:
    (claim,) = split_claims("The **ferry** of Caf&eacute; Norda sank.", markdown=True)
    start = claim.core.index("Café")
    assert place_in_text(claim, start, start + 4) is None
    reading = EnergySensor(FakeEmbedder(), sensors=["tokens"]).measure([claim], EVIDENCE)[0].sensors["tokens"]
    assert "words_not_located" in reading.flags
    assert {finding.text for finding in reading.findings} == {"ferry", "Norda", "sank"}


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="ab1 .,*[]()<>_#&;\n'-é", max_size=60))
def test_no_text_gets_an_offset_that_does_not_quote_it(text: str) -> None:
    claim = whole_claim(text)
    for start, end in content_words(claim.core):
        place = place_in_text(claim, start, end)
        assert place is None or text[place[0] : place[1]] == claim.core[start:end]


# the commands


def rows_file(folder: Path) -> Path:
    path = folder / "rows.jsonl"
    rows = [
        {"id": "1", "claim": "The bridge opened. A ferry sank.", "evidence": EVIDENCE},
        {"id": "2", "claim": "Thanks!", "evidence": EVIDENCE},
        {"id": "3", "claim": "A ferry sank.", "evidence": []},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_measure_writes_the_readings_as_lines_and_as_columns(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    from outspan.bulk import measure_file

    source = rows_file(tmp_path)
    sensor = EnergySensor(FakeEmbedder(), sensors=["tokens"])
    measure_file(source, tmp_path / "out.jsonl", sensor)
    measure_file(source, tmp_path / "out.parquet", sensor)
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    table = parquet.read_table(tmp_path / "out.parquet").to_pylist()
    for line, row in zip(lines, table, strict=True):
        assert line["sensor_fingerprints"] == row["sensor_fingerprints"] == sensor.sensor_fingerprints
        assert [one["sensors"] for one in line["sentences"]] == [one["sensors"] for one in row["sentences"]]
    states = [one["sensors"]["tokens"]["state"] for line in lines for one in line["sentences"]]
    assert states == ["MEASURED", "MEASURED", "NO_CLAIM", "NO_EVIDENCE"]


def test_an_unknown_sensor_is_said_before_a_model_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The bridge opened.", encoding="utf-8")
    arguments = ["check", str(tmp_path / "a.txt"), "--evidence", str(tmp_path / "a.txt")]
    shown = CliRunner().invoke(cli, [*arguments, "--model", "no-such-model", "--sensor", "token"])
    assert shown.exit_code == 2
    assert "did you mean tokens" in shown.stderr


def test_check_shows_the_words_and_gives_the_readings(tmp_path: Path, embedder: OnnxEmbedder) -> None:
    answer, report = tmp_path / "answer.md", tmp_path / "report.md"
    answer.write_text("The **zeppelin** opened in 1932.", encoding="utf-8")
    report.write_text("The bridge opened in 1932.", encoding="utf-8")
    arguments = ["check", str(answer), "--evidence", str(report), "--sensor", "tokens"]
    shown = CliRunner().invoke(cli, arguments)
    assert shown.exit_code == 0, shown.stderr
    assert "outside: zeppelin" in " ".join(shown.stdout.split())
    record = json.loads(CliRunner().invoke(cli, [*arguments, "--json"]).stdout)
    (claim,) = record["claims"]
    reading = claim["sensors"]["tokens"]
    assert [finding["text"] for finding in reading["findings"]] == ["zeppelin"]
    assert record["sensor_contracts"]["tokens"]["measures"].startswith("mean over the content words")


# the default model


def test_the_default_model_finds_the_foreign_word_and_keeps_the_energy_s_bits(embedder: OnnxEmbedder) -> None:
    claims = ["The library on Harbour Street lends violins.", "Its hall was rebuilt in 1931 by a choir."]
    evidence = [
        "The library on Harbour Street lends books.",
        "The hall was rebuilt in 1931.",
        "A goat slept.",
    ]
    plain = EnergySensor(embedder).measure(claims, evidence)
    read_too = EnergySensor(embedder, sensors=[TokenSensor()]).measure(claims, evidence)
    assert [one.energy for one in plain] == [one.energy for one in read_too]
    violins = max(read_too[0].sensors["tokens"].findings, key=lambda finding: finding.value or 0.0)
    assert violins.text == "violins"
    assert violins.found is not None


def test_a_claim_has_the_same_bits_whatever_stands_beside_it(embedder: OnnxEmbedder) -> None:
    claims = [
        "The hall was rebuilt by a choir.",
        "A violin was lent.",
        "Trams left in 1961, and a ferry came.",
    ]
    sensor = EnergySensor(embedder, sensors=["tokens"])
    together = [one.sensors["tokens"] for one in sensor.measure(claims, EVIDENCE)]
    fresh = EnergySensor(embedder, sensors=["tokens"])
    alone = [fresh.measure([claim], EVIDENCE)[0].sensors["tokens"] for claim in claims]
    assert together == alone


def test_two_unreadable_characters_do_not_contain_each_other(embedder: OnnxEmbedder) -> None:
    store = TokenStore(embedder)
    (pieces,) = store.get(["The 𐎠 ferry"])
    assert isinstance(pieces, Pieces)
    if "[UNK]" not in pieces.pieces:
        pytest.skip("this tokenizer reads the character")
    sensor = EnergySensor(embedder, sensors=["tokens(outside_from=0)"])
    one = sensor.measure(["The 𐎠 ferry"], ["The 𐎡 ferry"])[0].sensors["tokens"]
    assert "unknown_words" in one.flags
    assert [finding.text for finding in one.findings] == ["ferry"]
    assert np.isclose(one.score or 0.0, one.findings[0].value or 0.0)
