"""``outspan gate``, ``outspan ledger`` and the decisions of ``outspan check``, as a shell sees them."""

from __future__ import annotations

import importlib
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gate_helpers import threshold
from ledger_helpers import tamper
from outspan.bulk import measure_file
from outspan.calibration import write_threshold
from outspan.checker import check
from outspan.cli import main
from outspan.cli.measured import digest_of
from outspan.ledger import Ledger
from outspan.sensors.energy import EnergySensor
from outspan.testing import FakeEmbedder

PIPED = """
import sys
from outspan.cli import main
main()
"""
ROWS: list[dict[str, Any]] = [
    {"id": "same", "group": "g", "claim": "The ferry holds ninety cars.", "evidence": ["The ferry holds ninety cars."]},
    {"id": "other", "group": "g", "claim": "A giant painted it red. Thanks!", "evidence": [{"id": "e", "text": "Ice stopped it."}]},
    {"id": "none", "group": "h", "claim": "The museum has four floors.", "evidence": []},
    {"id": "line\u2028two", "group": "h", "claim": "You are welcome!", "source": "One text. Two text."},
]  # fmt: skip


@dataclass(frozen=True)
class Shown:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture(autouse=True, scope="module")
def _fake_sensor() -> Iterator[None]:
    """The fake embedder in place of the model."""

    def build(**how: Any) -> EnergySensor:
        assert how.pop("model") in ("fake", "sentence-transformers/all-MiniLM-L6-v2"), how
        return EnergySensor(FakeEmbedder(), rank=how["rank"], evidence=how["select"], proxies=how["proxies"])

    with pytest.MonkeyPatch.context() as patch:
        for name in ("outspan.cli.check", "outspan.cli.ledger"):
            patch.setattr(importlib.import_module(name), "build_sensor", build)
        patch.setenv("COLUMNS", "160")
        yield


def run(*arguments: str, folder: Path) -> Shown:
    """The command line in this process: a new interpreter would cost a second each time."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    code: Any = 0
    with pytest.MonkeyPatch.context() as patch, chdir(folder), redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["outspan", *arguments])
        try:
            main()
        except SystemExit as ended:
            code = ended.code
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode("utf-8"))  # type: ignore[attr-defined]
    return Shown(code, *texts)


def done(*arguments: str, folder: Path, code: int = 0) -> Shown:
    found = run(*arguments, folder=folder)
    assert found.returncode == code, found.stderr
    assert "Traceback" not in found.stderr
    return found


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with measured rows, a threshold for them, and one for another regime."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    sensor = EnergySensor(FakeEmbedder())
    for name in ("measured.jsonl", "measured.parquet"):
        measure_file(folder / "in.jsonl", folder / name, sensor)
    regime = sensor.regime.to_dict()
    digest = digest_of(folder / "measured.jsonl")
    at = threshold(fingerprint=sensor.fingerprint, regime=regime, data_digest=digest)
    write_threshold(at, folder / "threshold.json")
    other = EnergySensor(FakeEmbedder(seed=1), rank="cap:8")
    write_threshold(
        threshold(fingerprint=other.fingerprint, regime=other.regime.to_dict()), folder / "other.json"
    )
    (folder / "answer.txt").write_text("The ferry holds ninety cars. A giant painted it red. Thanks!")
    (folder / "evidence.txt").write_text("The ferry holds ninety cars. Ice stopped it.")
    return folder


@pytest.fixture(scope="module")
def kept(made: Path) -> Path:
    """A ledger with the four rows and one check."""
    done(
        "gate",
        "measured.jsonl",
        "--threshold",
        "threshold.json",
        "--ledger",
        "l.db",
        "-o",
        "kept.jsonl",
        folder=made,
    )
    done(
        "check",
        "answer.txt",
        "--evidence",
        "evidence.txt",
        "--threshold",
        "threshold.json",
        "--ledger",
        "l.db",
        folder=made,
    )
    return made / "l.db"


def test_file_to_decisions(made: Path, tmp_path: Path) -> None:
    out = tmp_path / "decisions.jsonl"
    shown = done(
        "gate", "measured.jsonl", "--threshold", "threshold.json", "-o", str(out), "--json",
        "--ledger", str(tmp_path / "l.db"), folder=made,
    )  # fmt: skip
    rows = lines(out)
    assert [(row["id"], row["outcome"]) for row in rows] == [
        ("same", "accept"), ("other", "reject"), ("none", "review"), ("line\u2028two", "no_claim"),
    ]  # fmt: skip
    assert [claim["decision"]["outcome"] for claim in rows[1]["claims"]] == ["reject", "no_claim"]
    assert rows[2]["claims"][0]["decision"]["reason"] == "the state is NO_EVIDENCE"
    summary = json.loads(shown.stdout)
    assert summary["answers"] == {"total": 4, "accept": 1, "review": 1, "reject": 1, "no_claim": 1}
    assert summary["claims"] == {
        "total": 5,
        "accept": 1,
        "review": 1,
        "reject": 1,
        "no_claim": 2,
        "measured": 2,
    }
    assert summary["states"] == {"MEASURED": 2, "NO_CLAIM": 2, "NO_EVIDENCE": 1}
    assert "accepted 1 of 3, review 1, rejected 1; 1 that claim nothing stand apart" in shown.stderr
    ledger = Ledger(tmp_path / "l.db", create=False)
    assert summary["ledger"] == ledger.head().to_dict()
    assert rows[-1]["ledger"] == {"seq": ledger.head().count, "digest": ledger.head().digest}


def test_parquet_gives_the_same_decisions_and_the_same_records(
    made: Path, kept: Path, tmp_path: Path
) -> None:
    out = tmp_path / "decisions.jsonl"
    done("gate", "measured.parquet", "--threshold", "threshold.json", "-o", str(out), "--ledger", str(tmp_path / "l.db"), folder=made)  # fmt: skip
    without = [
        {name: value for name, value in row.items() if name != "ledger"} for row in lines(made / "kept.jsonl")
    ]
    assert [{name: value for name, value in row.items() if name != "ledger"} for row in lines(out)] == without
    records = [
        [one.content for one in Ledger(place).entries(kind="decision")][:4]
        for place in (kept, tmp_path / "l.db")
    ]
    assert records[0] == records[1]


def test_standard_input_and_output(made: Path) -> None:
    piped = subprocess.run(
        [sys.executable, "-c", PIPED, "gate", "-", "--threshold", "threshold.json", "-o", "-", "--json"],
        input=(made / "measured.jsonl").read_bytes(), cwd=made, capture_output=True, check=False,
    )  # fmt: skip
    assert piped.returncode == 0, piped.stderr
    assert [json.loads(line)["outcome"] for line in piped.stdout.split(b"\n")[:-1]] == ["accept", "reject", "review", "no_claim"]  # fmt: skip


def test_a_threshold_of_another_regime_is_refused_with_what_differs(made: Path, tmp_path: Path) -> None:
    out = tmp_path / "d.jsonl"
    shown = done("gate", "measured.jsonl", "--threshold", "other.json", "-o", str(out), "--ledger", str(tmp_path / "l.db"), folder=made, code=2)  # fmt: skip
    assert "embedder.weights_digest was" in shown.stderr
    assert "rank_policy was 'cap:8', is 'cap:64'" in shown.stderr
    assert not out.exists()
    assert Ledger(tmp_path / "l.db").head().count == 0
    shown = done(
        "check", "answer.txt", "--evidence", "evidence.txt", "--threshold", "other.json", folder=made, code=2
    )
    assert "rank_policy was 'cap:8', is 'cap:64'" in shown.stderr


@pytest.mark.parametrize(("fail_on", "code"), [("reject", 1), ("review", 1)])
def test_fail_on_of_a_gate(made: Path, tmp_path: Path, fail_on: str, code: int) -> None:
    out = tmp_path / "d.jsonl"
    done("gate", "measured.jsonl", "--threshold", "threshold.json", "-o", str(out), "--fail-on", fail_on, folder=made, code=code)  # fmt: skip
    assert len(lines(out)) == 4
    shown = done(
        "gate", "measured.jsonl", "--threshold", "threshold.json", "-o", str(out), folder=made, code=2
    )
    assert "is there already" in shown.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["in.jsonl", "--threshold", "threshold.json"], "in.jsonl, line 1"),
        (["nowhere.jsonl", "--threshold", "threshold.json"], "no such file"),
        (["measured.jsonl", "--threshold", "in.jsonl"], "outspan calibrate"),
        (["measured.jsonl", "--threshold", "threshold.json", "--policy", "nice"], "Ready to use are"),
        (["measured.jsonl", "--threshold", "threshold.json", "--policy", "margin-band"], "--set band=NUMBER"),
        (["measured.jsonl", "--threshold", "threshold.json", "--private"], "--ledger"),
        (
            ["measured.jsonl", "--threshold", "threshold.json", "--scores", "in.jsonl"],
            "its digest is another",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_remedy(
    made: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    out = tmp_path / "d.jsonl"
    shown = done("gate", *arguments, "-o", str(out), folder=made, code=2)
    assert message in shown.stderr
    assert shown.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_a_policy_with_numbers_and_scores(made: Path, tmp_path: Path) -> None:
    out = tmp_path / "d.jsonl"
    done(
        "gate", "measured.jsonl", "--threshold", "threshold.json", "-o", str(out), "--policy", "adaptive-percentile",
        "--set", "percentile=50", "--scores", "measured.jsonl", folder=made,
    )  # fmt: skip
    assert {row["policy"]["name"] for row in lines(out)} == {"adaptive-percentile"}


def test_an_answer_rule_that_the_calibration_does_not_speak_of_is_noted(made: Path, tmp_path: Path) -> None:
    share = '[answer]\nrule = "share"\nreject_above = 0.5\nreview_above = 0.5\n'
    rule = '[[rule]]\nname = "[/bold] in"\nkind = "threshold"\nside = "accept"\nthen = "accept"\n'
    (tmp_path / "p.toml").write_text(f'name = "p"\n{share}{rule}')
    place = str(tmp_path / "l.db")
    shown = done("gate", "measured.jsonl", "--threshold", "threshold.json", "--policy", str(tmp_path / "p.toml"), "-o", str(tmp_path / "d"), "--ledger", place, folder=made)  # fmt: skip
    assert "NOTE: the threshold was calibrated on whole rows" in shown.stderr
    assert "[/bold] in" in done("ledger", "show", place, "same", folder=made).stdout


def test_check_shows_decisions_and_fails_as_asked(made: Path) -> None:
    given = ["check", "answer.txt", "--evidence", "evidence.txt"]
    plain = json.loads(done(*given, "--json", folder=made).stdout)
    assert plain == check((made / "answer.txt").read_text(), [{"id": "evidence.txt", "text": (made / "evidence.txt").read_text()}], EnergySensor(FakeEmbedder())).to_dict()  # fmt: skip
    shown = done(*given, "--threshold", "threshold.json", "--fail-on", "reject", folder=made, code=1)
    assert "decision: reject" in shown.stdout
    assert "2 reject, by the rule 'outside'" in shown.stdout
    document = json.loads(done(*given, "--threshold", "threshold.json", "--json", folder=made).stdout)
    assert [claim["decision"]["outcome"] for claim in document["claims"]] == ["accept", "reject", "no_claim"]
    assert document["decision"]["counts"] == {"accept": 1, "review": 0, "reject": 1, "no_claim": 1}
    (made / "good.txt").write_text("The ferry holds ninety cars.")
    done("check", "good.txt", "--evidence", "evidence.txt", "--threshold", "threshold.json", "--fail-on", "review", folder=made)  # fmt: skip
    for alone in (["--fail-on", "reject"], ["--policy", "energy"], ["--ledger", "x.db"]):
        assert "--threshold" in done(*given, *alone, folder=made, code=2).stderr
    assert not (made / "x.db").exists()


def test_show(kept: Path) -> None:
    listed = done("ledger", "show", "l.db", folder=kept.parent).stdout
    assert all(word in listed for word in ("accept", "reject", "review", "no_claim", "same", "head sha256:"))
    one = done("ledger", "show", "l.db", "other", folder=kept.parent).stdout
    assert "A giant painted it red." in one
    assert "→ outside: energy" in one
    assert "[e] Ice stopped it." in one
    full = json.loads(done("ledger", "show", "l.db", "other", "--json", folder=kept.parent).stdout)[
        "entries"
    ][0]
    assert full["artefacts"]["policy"]["name"] == "energy"
    assert full["artefacts"]["threshold"]["accept"] == 0.3
    assert full["artefacts"]["regime"]["rank_policy"] == "cap:64"
    assert full["artefacts"]["contract"]["measurement"] == "squared_projection_residual"
    assert (
        "content" in done("ledger", "show", "l.db", full["content"]["threshold"], folder=kept.parent).stdout
    )
    assert len(json.loads(done("ledger", "show", "l.db", "--limit", "2", "--json", folder=kept.parent).stdout)["decisions"]) == 2  # fmt: skip
    assert "no entry 'nobody'" in done("ledger", "show", "l.db", "nobody", folder=kept.parent, code=2).stderr
    assert "no such ledger" in done("ledger", "show", "none.db", folder=kept.parent, code=2).stderr


def test_replay(kept: Path) -> None:
    shown = done("ledger", "replay", "l.db", "--json", "--model", "fake", "--batch", "2", folder=kept.parent)
    assert [json.loads(line)["status"] for line in shown.stdout.splitlines()] == ["identical"] * 5
    assert "replayed 5 of 5: 5 identical" in shown.stderr
    done("ledger", "replay", "l.db", "same", "--fail-on", "equivalent", folder=kept.parent)


def test_private_entries_cannot_be_replayed_and_say_so(made: Path, tmp_path: Path) -> None:
    place = str(tmp_path / "l.db")
    done("gate", "measured.jsonl", "--threshold", "threshold.json", "-o", str(tmp_path / "d.jsonl"), "--ledger", place, "--private", folder=made)  # fmt: skip
    shown = done("ledger", "replay", place, folder=made)
    assert "not replayable: texts are not stored" in shown.stdout
    assert "replayed 0 of 4: 4 not_replayable" in shown.stderr
    done("ledger", "replay", place, "--fail-on", "equivalent", folder=made, code=1)
    assert b"giant" not in b"".join(path.read_bytes() for path in tmp_path.glob("l.db*"))


def test_amend_and_export_to_the_next_calibration(made: Path, tmp_path: Path) -> None:
    place = str(tmp_path / "l.db")
    done("gate", "measured.jsonl", "--threshold", "threshold.json", "-o", str(tmp_path / "d.jsonl"), "--ledger", place, folder=made)  # fmt: skip
    entry = json.loads(done("ledger", "amend", place, "other", "--verdict", "rejected", "--by", "A", "--claim", "1", "--json", folder=made).stdout)  # fmt: skip
    assert entry["content"]["claim"] == 0
    done("ledger", "amend", place, "same", "--verdict", "accepted", "--by", "A", folder=made)
    assert "rejected sentence 1 by A" in done("ledger", "show", place, "other", folder=made).stdout
    done("ledger", "export", place, "-o", str(tmp_path / "labelled.jsonl"), "--labelled", folder=made)
    rows = lines(tmp_path / "labelled.jsonl")
    assert [(row["claim"], row["label"]) for row in rows] == [
        (ROWS[0]["claim"], "supported"), ("A giant painted it red.", "unsupported"),
    ]  # fmt: skip
    # The rows are measured rows: they can be gated as they are, and measured anew to the same numbers.
    done("gate", str(tmp_path / "labelled.jsonl"), "--threshold", "threshold.json", "-o", str(tmp_path / "again.jsonl"), folder=made)  # fmt: skip
    measure_file(tmp_path / "labelled.jsonl", tmp_path / "anew.jsonl", EnergySensor(FakeEmbedder()))
    assert [row["energy"] for row in lines(tmp_path / "anew.jsonl")] == [row["energy"] for row in rows]
    from outspan.cli.labelled import read_sample

    sample = read_sample(tmp_path / "labelled.jsonl", "row", "energy", higher_is_outside=True)
    assert [(one.unsupported, one.source) for one in sample.units] == [(False, "g"), (True, "g")]
    for name, count in (("all.jsonl", 11), ("all.parquet", 4)):
        shown = done("ledger", "export", place, "-o", str(tmp_path / name), "--json", folder=made)
        assert json.loads(shown.stdout)["rows"] == count
    done("ledger", "export", place, "-o", str(tmp_path / "all.csv"), folder=made, code=2)
    done("ledger", "amend", place, "same", "--verdict", "note", "--by", "A", folder=made, code=2)


def test_verify_says_where_the_chain_breaks(made: Path, tmp_path: Path) -> None:
    place = str(tmp_path / "l.db")
    done("gate", "measured.jsonl", "--threshold", "threshold.json", "-o", str(tmp_path / "d.jsonl"), "--ledger", place, folder=made)  # fmt: skip
    head = str(tmp_path / "head.json")
    done("ledger", "head", place, "-o", head, folder=made)
    assert json.loads(done("ledger", "head", place, folder=made).stdout) == json.loads(Path(head).read_text())
    shown = done("ledger", "verify", place, "--head", head, folder=made)
    assert "the chain holds" in shown.stdout
    assert "cannot be seen" in done("ledger", "verify", place, folder=made).stderr
    tamper(Ledger(place), "DELETE FROM outspan_ledger WHERE seq = 9")
    done("ledger", "verify", place, folder=made)
    shown = done("ledger", "verify", place, "--head", head, folder=made, code=2)
    assert "tail cut: the ledger ends at row 8" in shown.stderr
    tamper(Ledger(place), "UPDATE outspan_ledger SET body = x'00' WHERE seq = 7")
    shown = done("ledger", "verify", place, "--json", folder=made, code=2)
    report = json.loads(shown.stdout)
    assert (report["ok"], report["problems"][0]["row"], report["problems"][0]["kind"]) == (
        False,
        7,
        "content mismatch",
    )
    assert "the chain does not hold at row 7: content mismatch" in shown.stderr
    assert "triggers" in shown.stderr
