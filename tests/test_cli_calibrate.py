"""The commands calibrate and drift, on files that the measuring run wrote with the fake embedder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from outspan.bulk import measure_file
from outspan.calibration import read_threshold
from outspan.cli.calibrate import calibrate_command
from outspan.cli.drift import drift
from outspan.errors import InputError, NotInstalled, OutspanError, RegimeMismatch
from outspan.sensors.energy import EnergySensor
from outspan.testing import FakeEmbedder

WORDS = [
    "pier",
    "harbour",
    "mayor",
    "autumn",
    "vessel",
    "contract",
    "ferry",
    "bridge",
    "tariff",
    "council",
    "stone",
    "water",
    "salt",
    "winter",
]


def sentence(rng: np.random.Generator) -> str:
    return "The " + " ".join(rng.choice(WORDS, 6)) + " was closed."


def write_rows(path: Path, n: int, *, seed: int = 0, **more: Any) -> None:
    """Half of the claims are sentences of their evidence, the others are not."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        evidence = [sentence(rng) for _ in range(3)]
        supported = i % 2 == 0
        rows.append(
            {
                "id": f"r{i}",
                "group": f"g{i // 2}",
                "claim": evidence[0] if supported else sentence(rng),
                "evidence": evidence,
                "label": "supported" if supported else "unsupported",
                **more,
            }
        )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("measured")
    write_rows(folder / "in.jsonl", 240)
    out = folder / "measured.jsonl"
    measure_file(folder / "in.jsonl", out, EnergySensor(FakeEmbedder(), proxies=["max_cosine"]))
    return out


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def rewritten(measured: Path, tmp_path: Path, change: Any) -> Path:
    """A copy of the measured file with each row changed; None drops it."""
    path = tmp_path / "changed.jsonl"
    rows = [change(i, row) for i, row in enumerate(rows_of(measured))]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows if row is not None))
    return path


def run(command: Any, *arguments: object) -> Result:
    return CliRunner().invoke(command, [str(one) for one in arguments], catch_exceptions=True)


def calibrated(path: Path, out: Path, *more: object) -> Result:
    return run(calibrate_command, path, "--alpha", 0.05, "--delta", 0.05, "-o", out, *more)


def refused(result: Result, kind: type[OutspanError] = InputError) -> str:
    assert isinstance(result.exception, kind), result.output or repr(result.exception)
    return str(result.exception)


def test_json_is_one_document_and_the_file_is_the_threshold(measured: Path, tmp_path: Path) -> None:
    out = tmp_path / "t.json"
    result = calibrated(measured, out, "--beta", 0.1, "--json")
    assert result.exit_code == 0, result.exception
    document = json.loads(result.stdout)
    threshold = read_threshold(out)
    assert document["threshold"] == json.loads(json.dumps(threshold.to_dict()))
    assert document["digest"] == threshold.digest
    assert threshold.accept_bound.sources == 120
    assert threshold.regime["rank_policy"] == "cap:64"
    assert threshold.data_digest.startswith("sha256:")
    assert document["operating_point"]["coverage"]["rate"] == 1.0
    assert len(document["curve"]) > 10
    threshold.require(EnergySensor(FakeEmbedder()).fingerprint)
    other = EnergySensor(FakeEmbedder(), rank="cap:4")
    with pytest.raises(RegimeMismatch, match="rank_policy was 'cap:64', is 'cap:4'"):
        threshold.require(other.fingerprint, other.regime.to_dict())


def test_people_see_the_budget(measured: Path, tmp_path: Path) -> None:
    result = calibrated(measured, tmp_path / "t.json", "--beta", 0.1)
    for part in (
        "Error budget",
        "false_acceptance ≤ 0.05",
        "Clopper–Pearson",
        "coverage",
        "measured 240 of 240",
    ):
        assert part in result.stdout, part


def test_a_threshold_is_not_replaced_unasked(measured: Path, tmp_path: Path) -> None:
    out = tmp_path / "t.json"
    assert calibrated(measured, out).exit_code == 0
    assert "exists already" in refused(calibrated(measured, out))
    assert calibrated(measured, out, "--overwrite").exit_code == 0
    assert "its folder does not exist" in refused(calibrated(measured, tmp_path / "no" / "t.json"))


def test_a_similarity_is_accepted_above(measured: Path, tmp_path: Path) -> None:
    out = tmp_path / "t.json"
    assert calibrated(measured, out, "--score", "max_cosine").exit_code == 0
    threshold = read_threshold(out)
    assert not threshold.higher_is_outside
    assert threshold.side(1.0) == "accept"
    assert (
        threshold.fingerprint
        == EnergySensor(FakeEmbedder(), proxies=["max_cosine"]).proxy_fingerprints["max_cosine"]
    )
    assert threshold.regime["proxy"] == "max_cosine"
    assert "was not measured" in refused(calibrated(measured, tmp_path / "u.json", "--score", "cone"))
    assert calibrated(measured, tmp_path / "u.json", "--score", "nonsense").exit_code == 2


def test_parquet_gives_the_same(measured: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    write_rows(tmp_path / "in.jsonl", 240)
    sensor = EnergySensor(FakeEmbedder(), proxies=["max_cosine"])
    measure_file(tmp_path / "in.jsonl", tmp_path / "m.parquet", sensor)
    for score in ("energy", "max_cosine"):
        a, b = tmp_path / f"a-{score}.json", tmp_path / f"b-{score}.json"
        assert calibrated(measured, a, "--score", score).exit_code == 0
        assert calibrated(tmp_path / "m.parquet", b, "--score", score).exit_code == 0
        one, other = read_threshold(a), read_threshold(b)
        assert (one.accept, one.accept_bound, one.regime) == (other.accept, other.accept_bound, other.regime)
    (tmp_path / "bad.parquet").write_text("no")
    assert "not Parquet" in refused(calibrated(tmp_path / "bad.parquet", tmp_path / "t.json"))


def test_infeasible_says_how_many_labels(measured: Path, tmp_path: Path) -> None:
    """18 labels at 0.05: no clipped quantile, no file, exit code 2 and the number."""
    few = rewritten(measured, tmp_path, lambda i, row: row if i < 36 else None)
    out = tmp_path / "t.json"
    result = calibrated(few, out, "--json")
    assert json.loads(result.stdout)["infeasible"]["needed"] == 59
    message = refused(result)
    assert "at least 59 sources" in message
    assert "there are 18" in message
    assert not out.exists()


def test_selective_risk_is_named_as_such(measured: Path, tmp_path: Path) -> None:
    out = tmp_path / "t.json"
    result = run(
        calibrate_command, measured, "--alpha", 0.3, "--delta", 0.2, "--risk", "selective", "-o", out
    )
    if result.exit_code == 0:
        assert read_threshold(out).accept_bound.risk.name == "selective"
    else:
        assert "selective" in refused(result)


def test_rows_of_several_regimes(measured: Path, tmp_path: Path) -> None:
    mixed = rewritten(
        measured, tmp_path, lambda i, row: {**row, "fingerprint": "sha256:other"} if i >= 200 else row
    )
    message = refused(calibrated(mixed, tmp_path / "t.json"), RegimeMismatch)
    assert "200 rows from line 1 on" in message
    assert "40 rows from line 201 on have sha256:other" in message


def test_unmeasured_and_unlabelled_rows_are_counted(measured: Path, tmp_path: Path) -> None:
    def change(i: int, row: dict[str, Any]) -> dict[str, Any]:
        if i in (0, 1):
            dead = {**row["sentences"][0], "state": "NO_EVIDENCE", "energy": None}
            return {**row, "state": "NO_EVIDENCE", "energy": None, "sentences": [dead]}
        return {**row, "label": None} if i in (2, 3, 4) else row

    out = tmp_path / "t.json"
    result = calibrated(rewritten(measured, tmp_path, change), out)
    counts = read_threshold(out).counts
    assert (counts["unmeasured"], counts["unlabelled"], counts["units"]) == (2, 3, 240)
    assert "measured 238 of 240" in result.stdout
    assert "NOTE" in result.stdout  # no regime beside the copy


def test_hardly_anything_measured(measured: Path, tmp_path: Path) -> None:
    def change(i: int, row: dict[str, Any]) -> dict[str, Any]:
        dead = {**row["sentences"][0], "state": "FAILED", "energy": None}
        return {**row, "state": "FAILED", "energy": None, "sentences": [dead]} if i < 216 else row

    path = rewritten(measured, tmp_path, change)
    assert "only 24 of 240 labelled units" in refused(calibrated(path, tmp_path / "t.json"))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda i, row: {**row, "label": "true"}, "line 1: the label is 'true'"),
        (lambda i, row: {**row, "label": ["supported"]}, "the label is"),
        (
            lambda i, row: {**row, "group": None if i == 7 else row["group"]},
            "line 8: some rows have a 'group'",
        ),
        (lambda i, row: {**row, "id": "same", "group": "one"}, "occurs twice"),
        (lambda i, row: {k: v for k, v in row.items() if k != "fingerprint"}, "has no 'fingerprint'"),
        (lambda i, row: [row], "not a JSON object"),
        (lambda i, row: {**row, "sentences": None}, "no list of measured sentences"),
        (lambda i, row: {**row, "sentences": [{"state": "MEASURED"}]}, "no list of measured sentences"),
        (lambda i, row: None, "holds no rows"),
        (
            lambda i, row: {**row, "sentences": [{**row["sentences"][0], "energy": 1.5}]},
            r"line 1: energy is 1.5, not in \[0, 1\]",
        ),
    ],
)
def test_unusable_rows(measured: Path, tmp_path: Path, change: Any, problem: str) -> None:
    result = calibrated(rewritten(measured, tmp_path, change), tmp_path / "t.json")
    with pytest.raises(InputError, match=problem):
        raise result.exception


def test_rows_without_groups_are_their_own_sources_and_it_is_said(measured: Path, tmp_path: Path) -> None:
    path = rewritten(
        measured, tmp_path, lambda i, row: {k: v for k, v in row.items() if k not in ("group", "id")}
    )
    out = tmp_path / "t.json"
    assert calibrated(path, out).exit_code == 0
    assert "No row names its source" in read_threshold(out).notes[0]


def test_a_row_label_is_no_sentence_label(measured: Path, tmp_path: Path) -> None:
    assert calibrated(measured, tmp_path / "one.json", "--unit", "sentence").exit_code == 0
    assert read_threshold(tmp_path / "one.json").unit == "sentence"
    double = rewritten(measured, tmp_path, lambda i, row: {**row, "sentences": row["sentences"] * 2})
    message = refused(calibrated(double, tmp_path / "two.json", "--unit", "sentence"))
    assert "one label and 2 sentences" in message
    assert calibrated(double, tmp_path / "two.json").exit_code == 0


@pytest.mark.parametrize("name", ["alpha", "delta", "beta"])
def test_budgets_out_of_range_are_usage(measured: Path, tmp_path: Path, name: str) -> None:
    result = calibrated(measured, tmp_path / "t.json", f"--{name}", 1.5)
    assert result.exit_code == 2
    assert f"--{name} must lie between 0 and 1" in result.stderr


def test_plots(measured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    assert (
        calibrated(measured, tmp_path / "t.json", "--beta", 0.1, "--plot", tmp_path / "c.svg").exit_code == 0
    )
    assert run(drift, "--reference", measured, measured, "--plot", tmp_path / "d.png").exit_code == 0
    assert (tmp_path / "c.svg").stat().st_size > 1000 < (tmp_path / "d.png").stat().st_size
    assert calibrated(measured, tmp_path / "u.json", "--plot", tmp_path / "c.txt").exit_code == 2
    assert run(drift, "--reference", measured, measured, "--plot", tmp_path / "c.txt").exit_code == 2
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    assert "outspan[plots]" in refused(
        calibrated(measured, tmp_path / "u.json", "--plot", tmp_path / "c.svg"), NotInstalled
    )


def test_drift_against_itself_and_against_other_traffic(measured: Path, tmp_path: Path) -> None:
    same = run(drift, "--reference", measured, measured, "--json", "--fail-on", "drift")
    assert same.exit_code == 0
    assert json.loads(same.stdout)["verdict"] in ("no_drift_found", "undecided")
    write_rows(tmp_path / "in.jsonl", 240, seed=1, claim="Причал был закрыт осенью.")
    sensor = EnergySensor(FakeEmbedder(), proxies=["max_cosine"])
    measure_file(tmp_path / "in.jsonl", tmp_path / "live.jsonl", sensor)
    other = run(drift, "--reference", measured, tmp_path / "live.jsonl", "--fail-on", "drift")
    assert other.exit_code == 1
    assert "DRIFT: the calibration does not speak" in other.stdout
    assert run(drift, "--reference", measured, tmp_path / "live.jsonl").exit_code == 0


def test_drift_refuses_another_regime_by_its_parts(measured: Path, tmp_path: Path) -> None:
    write_rows(tmp_path / "in.jsonl", 10)
    measure_file(tmp_path / "in.jsonl", tmp_path / "live.jsonl", EnergySensor(FakeEmbedder(), rank="cap:2"))
    message = refused(run(drift, "--reference", measured, tmp_path / "live.jsonl"), RegimeMismatch)
    assert "rank_policy was 'cap:64', is 'cap:2'" in message
    (tmp_path / "live.jsonl.regime.json").unlink()
    message = refused(run(drift, "--reference", measured, tmp_path / "live.jsonl"), RegimeMismatch)
    assert "parts of one of them are not known" in message
    (tmp_path / "live.jsonl.regime.json").write_text("[]")
    assert "does not describe a regime" in refused(
        run(drift, "--reference", measured, tmp_path / "live.jsonl")
    )


def test_drift_reads_parquet_too(measured: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    write_rows(tmp_path / "in.jsonl", 240)
    sensor = EnergySensor(FakeEmbedder(), proxies=["max_cosine"])
    measure_file(tmp_path / "in.jsonl", tmp_path / "m.parquet", sensor)
    result = run(drift, "--reference", measured, tmp_path / "m.parquet", "--json")
    assert result.exit_code == 0, result.exception
    assert all(one["effect"] == 0.0 for one in json.loads(result.stdout)["comparisons"])


def test_standard_input_is_refused(tmp_path: Path) -> None:
    assert "standard input" in refused(calibrated(Path("-"), tmp_path / "t.json"))


def test_drift_usage(measured: Path, tmp_path: Path) -> None:
    assert run(drift, "--reference", measured, measured, "--level", 2).exit_code == 2
    empty = rewritten(measured, tmp_path, lambda i, row: {**row, "sentences": []})
    assert "no sentence" in refused(run(drift, "--reference", measured, empty))
    assert run(drift, "--reference", measured, measured, "--fail-on", "undecided").exit_code in (0, 1)
