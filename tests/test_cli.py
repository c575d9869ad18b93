"""The command line, run as a person or a script runs it: in a process of its own, with the real model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from outspan import ENERGY_CONTRACT, __version__

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
EXAMPLE = ["check", str(EXAMPLES / "answer.md"), "--evidence", str(EXAMPLES / "report.md")]


def run(
    *arguments: str, stdin: bytes | None = None, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "outspan", *arguments],
        input=stdin if stdin is not None else b"",
        capture_output=True,
        env={**os.environ, **(env or {})},
        timeout=120,
        check=False,
    )


def refused(*arguments: str, stdin: bytes | None = None, env: dict[str, str] | None = None) -> str:
    """Standard error of a run that must end with exit code 2, say something and print nothing."""
    shown = run(*arguments, stdin=stdin, env=env)
    message = shown.stderr.decode()
    assert shown.returncode == 2, message
    assert shown.stdout == b""
    assert "Traceback" not in message
    return message


def document(*arguments: str, stdin: bytes | None = None) -> dict:  # type: ignore[type-arg]  # any JSON
    shown = run(*arguments, "--json", stdin=stdin)
    assert shown.returncode == 0, shown.stderr.decode()
    return json.loads(shown.stdout)  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def example() -> dict:  # type: ignore[type-arg]
    return document(*EXAMPLE, "--evidence", str(EXAMPLES / "minutes.txt"))


def test_the_record_is_the_one_of_the_contract(example: dict) -> None:  # type: ignore[type-arg]
    assert example["contract"] == ENERGY_CONTRACT.to_dict()
    assert example["fingerprint"].startswith("sha256:")
    assert example["summary"]["measured"] == 6
    assert example["summary"]["states"] == {"MEASURED": 6, "NO_CLAIM": 2}
    needed = {
        "text", "start", "end", "state", "energy", "explained", "rank", "numeric_rank", "cap_bound", "nearest",
        "diagnostics", "flags",
    }  # fmt: skip
    for claim in example["claims"]:
        assert needed <= claim.keys()
        assert (claim["energy"] is None) == (claim["state"] != "MEASURED")
    assert {"evidence_id", "text", "similarity"} <= example["claims"][1]["nearest"].keys()


def test_offsets_are_offsets_in_the_answer(example: dict) -> None:  # type: ignore[type-arg]
    answer = (EXAMPLES / "answer.md").read_bytes().decode()
    for claim in example["claims"]:
        assert answer[claim["start"] : claim["end"]] == claim["text"]


def test_what_is_in_the_evidence_lies_further_inside_than_what_is_not(example: dict) -> None:  # type: ignore[type-arg]
    energies = {claim["text"]: claim["energy"] for claim in example["claims"]}
    inside = next(e for text, e in energies.items() if text.startswith("It made more than five thousand"))
    outside = next(e for text, e in energies.items() if text.startswith("The captain was awarded"))
    assert inside < 0.3 < 0.6 < outside


def test_the_example_that_fools_it_does(example: dict) -> None:  # type: ignore[type-arg]
    """The evidence says that Alba acquired Norda. The README shows this case, so it has to stay one."""
    turned = next(claim for claim in example["claims"] if claim["text"] == "Norda acquired Alba in August.")
    assert turned["energy"] < 0.3


def test_a_second_run_gives_the_same_bytes() -> None:
    assert run(*EXAMPLE, "--json").stdout == run(*EXAMPLE, "--json", "--no-cache").stdout


def test_the_table_says_what_it_shows() -> None:
    shown = run(*EXAMPLE).stdout.decode()
    assert "nearest evidence" in shown
    assert "measured 6 of 8 sentences (6 MEASURED, 2 NO_CLAIM)" in shown
    assert "█" in shown


def test_answer_and_evidence_from_standard_input(tmp_path: Path) -> None:
    source = tmp_path / "source.txt"
    source.write_text("The kiln was fired on Monday.", encoding="utf-8")
    piped = document("check", "-", "--evidence", str(source), stdin=b"The kiln was fired on Monday.")
    assert piped["claims"][0]["energy"] == pytest.approx(0.0, abs=1e-6)
    answer = tmp_path / "answer.txt"
    answer.write_text("The kiln was fired on Monday.", encoding="utf-8")
    piped = document("check", str(answer), "--evidence", "-", stdin=b"The kiln was fired on Monday.")
    assert piped["claims"][0]["nearest"]["text"] == "The kiln was fired on Monday."


def test_passages_as_json_lines_keep_their_ids(tmp_path: Path) -> None:
    passages = tmp_path / "passages.jsonl"
    passages.write_text(
        '{"id": "p7", "text": "Rye was sown late."}\n"Barley was sown early."\n', encoding="utf-8"
    )
    answer = tmp_path / "answer.txt"
    answer.write_text("Rye was sown late.", encoding="utf-8")
    record = document("check", str(answer), "--evidence", str(passages))
    assert record["claims"][0]["nearest"]["evidence_id"] == "p7#0"
    assert record["claims"][0]["evidence"]["supplied"] == 2


@pytest.mark.parametrize("nothing", ["", "  \n", "\u200b"])
def test_no_evidence_is_a_state(tmp_path: Path, nothing: str) -> None:
    source, answer = tmp_path / "source.txt", tmp_path / "answer.txt"
    source.write_text(nothing, encoding="utf-8")
    answer.write_text("Rye was sown late. Hello!", encoding="utf-8")
    record = document("check", str(answer), "--evidence", str(source))
    assert record["summary"]["states"] == {"NO_EVIDENCE": 1, "NO_CLAIM": 1}
    assert record["summary"]["energy_max"] is None


def test_an_empty_answer_measures_nothing_and_says_so(tmp_path: Path) -> None:
    answer = tmp_path / "answer.txt"
    answer.write_text("", encoding="utf-8")
    record = document("check", str(answer), "--evidence", str(EXAMPLES / "report.md"))
    assert [(c["state"], c["reason"]) for c in record["claims"]] == [("NO_CLAIM", "empty")]
    assert record["summary"]["measured"] == 0
    assert (
        "measured 0 of 1"
        in run("check", str(answer), "--evidence", str(EXAMPLES / "report.md")).stdout.decode()
    )


BAD_FILES = {
    "utf16.txt": "Zürich has trams.".encode("utf-16"),
    "binary.txt": bytes(range(256)) * 4,
    "latin1.txt": "Zürich".encode("latin-1"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_that_is_not_text_is_refused_by_name(tmp_path: Path, name: str) -> None:
    bad = tmp_path / name
    bad.write_bytes(BAD_FILES[name])
    assert name in refused("check", str(bad), "--evidence", str(EXAMPLES / "report.md"))
    assert name in refused("check", str(EXAMPLES / "answer.md"), "--evidence", str(bad))


def test_a_missing_file_a_folder_and_a_cut_off_line(tmp_path: Path) -> None:
    report = str(EXAMPLES / "report.md")
    assert "nowhere.md" in refused("check", str(tmp_path / "nowhere.md"), "--evidence", report)
    assert str(tmp_path) in refused("check", str(tmp_path), "--evidence", report)
    cut = tmp_path / "cut.jsonl"
    cut.write_text('{"text": "whole"}\n{"text": "cut o', encoding="utf-8")
    assert "line 2" in refused("check", str(EXAMPLES / "answer.md"), "--evidence", str(cut))


def test_byte_order_mark_and_crlf_read_the_same(tmp_path: Path) -> None:
    source = str(EXAMPLES / "report.md")
    plain, marked = tmp_path / "plain.txt", tmp_path / "marked.txt"
    text = "The ferry carries 180 passengers.\nIce closed the harbour."
    plain.write_bytes(text.encode())
    marked.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    ours, theirs = (document("check", str(path), "--evidence", source) for path in (plain, marked))
    assert [c["energy"] for c in ours["claims"]] == [c["energy"] for c in theirs["claims"]]


@pytest.mark.parametrize(
    "options",
    [
        ["--rank", "cap:0"], ["--rank", "most"], ["--select", "closest"], ["--proxy", "cosine"], ["--evidence", "-"],
        ["--model", "no/such-model"], ["--nonsense"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_usage_that_cannot_be_meant_is_refused(options: list[str]) -> None:
    if options == ["--evidence", "-"]:
        options = ["--evidence", "-", "--evidence", "-"]
    assert refused(*EXAMPLE, *options).strip()


def test_no_network_and_no_model_names_the_remedy(tmp_path: Path) -> None:
    message = refused(*EXAMPLE, env={"OUTSPAN_CACHE_DIR": str(tmp_path), "OUTSPAN_OFFLINE": "1"})
    assert "outspan models fetch" in message or "OUTSPAN_MODEL_DIR" in message


def test_other_proxies_come_from_the_same_vectors() -> None:
    record = document(
        *EXAMPLE, "--proxy", "max_cosine", "--proxy", "background_adjusted", "--proxy", "local_span(k=2)"
    )
    for claim in record["claims"]:
        if claim["state"] == "MEASURED":
            assert claim["proxies"]["max_cosine"] == pytest.approx(claim["nearest"]["similarity"], abs=1e-9)
            assert 0.0 <= claim["proxies"]["background_adjusted"] <= 1.0
            assert claim["energy"] <= claim["proxies"]["local_span"] + 1e-9
    assert record["proxy_fingerprints"].keys() == {"max_cosine", "background_adjusted", "local_span"}
    assert record["fingerprint"] == document(*EXAMPLE)["fingerprint"]


def test_contract_models_version_and_help() -> None:
    assert document("contract")["contract"] == ENERGY_CONTRACT.to_dict()
    assert "blind spots" in run("contract").stdout.decode().lower()
    listed = document("models", "list")["models"]
    assert listed[0]["weights_digest"].endswith(
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
    )
    assert document("models", "verify")["ok"] is True
    assert run("--version").stdout.decode().strip().endswith(__version__)


@pytest.mark.parametrize(
    "command", [[], ["check"], ["measure"], ["inspect"], ["contract"], ["models"], ["models", "fetch"]]
)
def test_every_help_shows_an_example(command: list[str]) -> None:
    shown = run(*command, "--help")
    assert shown.returncode == 0
    assert "Example: outspan" in " ".join(shown.stdout.decode().split())


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = f"{sys.executable} -m outspan contract | head -1"
    shown = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=True)
    assert "Traceback" not in shown.stderr


def piped(
    command: str, folder: Path, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """A command line in bash, with ``outspan`` as this environment has it, and the exit code of that command."""
    (folder / "a.md").write_text("The pier was closed. The door says [/red] push.", encoding="utf-8")
    (folder / "e.md").write_text(
        "The pier was closed all autumn. The [bold]door[/bold] is red.", encoding="utf-8"
    )
    line = command.replace("outspan", f"{sys.executable} -m outspan") + "; exit ${PIPESTATUS[0]}"
    return subprocess.run(
        ["bash", "-c", line],
        cwd=folder,
        capture_output=True,
        env={**os.environ, **(env or {})},
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    "command",
    [
        "outspan check a.md --evidence e.md | true",
        "outspan check a.md --evidence e.md --json | true",
        "outspan contract | head -1",
    ],
)
def test_a_closed_pipe_is_not_a_failed_check(command: str, tmp_path: Path) -> None:
    shown = piped(command, tmp_path)
    assert (shown.returncode, shown.stderr) == (0, b"")


@pytest.mark.parametrize("where", [">/dev/full", ">&-"])
@pytest.mark.parametrize("options", ["", "--json"])
def test_output_that_cannot_be_written_is_a_message(where: str, options: str, tmp_path: Path) -> None:
    shown = piped(f"outspan check a.md --evidence e.md {options} {where}", tmp_path)
    assert shown.returncode == 2
    assert shown.stderr.startswith(b"outspan: ")
    assert b"Traceback" not in shown.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_output_is_utf_8_whatever_the_locale_says(encoding: str, tmp_path: Path) -> None:
    env = {"PYTHONIOENCODING": encoding, "LC_ALL": "C", "PYTHONUTF8": "0"}
    for command in ("outspan check a.md --evidence e.md", "outspan inspect a.md --evidence e.md --claim 1"):
        assert piped(command, tmp_path, env).returncode == 0
    shown = piped("outspan check a.md --evidence e.md --json", tmp_path, env)
    assert json.loads(shown.stdout)["summary"]["measured"] == 2


def test_texts_are_shown_as_they_are_and_steer_nothing(tmp_path: Path) -> None:
    shown = piped("outspan inspect a.md --evidence e.md --claim 2", tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert b"The [bold]door[/bold] is red." in shown.stdout
    (tmp_path / "p.jsonl").write_text(
        json.dumps({"id": "\x1b[31mred", "text": "The pier was closed."}), encoding="utf-8"
    )
    for command in ("check a.md --evidence p.jsonl", "inspect a.md --evidence p.jsonl --claim 1"):
        assert b"\x1b[31mred" not in piped(f"outspan {command}", tmp_path).stdout


def test_two_evidence_files_of_one_name_keep_their_sentences_apart(tmp_path: Path) -> None:
    for name, text in (("one", "Rye was sown late."), ("two", "Barley was sown early.")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "e.md").write_text(text, encoding="utf-8")
    files = [str(tmp_path / name / "e.md") for name in ("one", "two")]
    answer = tmp_path / "answer.txt"
    answer.write_text("Rye was sown late. Barley was sown early.", encoding="utf-8")
    record = document("check", str(answer), "--evidence", files[0], "--evidence", files[1])
    assert [claim["nearest"]["evidence_id"] for claim in record["claims"]] == [f"{path}#0" for path in files]


def test_weights_of_passages_count_in_check_too(tmp_path: Path) -> None:
    passages = tmp_path / "p.jsonl"
    passages.write_text(
        '{"text": "Rye was sown late.", "weight": 0}\n"Fog closed the port."\n', encoding="utf-8"
    )
    answer = tmp_path / "answer.txt"
    answer.write_text("Rye was sown late.", encoding="utf-8")
    record = document("check", str(answer), "--evidence", str(passages))
    assert record["claims"][0]["energy"] > 0.5
    assert record["evidence"]["left_out"] == [{"id": "p.jsonl:1", "reason": "weight 0"}]


def test_measure_refuses_a_pipe_under_a_path_and_reads_standard_input(tmp_path: Path) -> None:
    row = '{"claim": "Rye was sown late.", "evidence": ["Rye was sown late."]}'
    shown = piped(f"outspan measure <(echo '{row}') -o out.jsonl", tmp_path)
    assert shown.returncode == 2
    assert b"Give '-'" in shown.stderr
    assert piped(f"outspan measure - -o out.jsonl < <(echo '{row}')", tmp_path).returncode == 0


def test_a_row_with_a_weight_beyond_all_bounds_is_a_bad_row_and_a_lone_surrogate_is_none(
    tmp_path: Path,
) -> None:
    rows = tmp_path / "rows.jsonl"
    good = {
        "claim": "A lone \ud800 pier.",
        "evidence": [{"id": "\udfff", "text": "The pier \ud800 closed."}],
        "\ud801": 1,
    }
    bad = '{"claim": "x y", "evidence": [{"text": "x", "weight": ' + "9" * 400 + "}]}"
    rows.write_text(json.dumps(good) + "\n" + bad + "\n", encoding="utf-8")
    shown = run("measure", str(rows), "-o", str(tmp_path / "out.parquet"))
    assert shown.returncode == 0, shown.stderr.decode()
    assert (tmp_path / "out.parquet").read_bytes()[:4] == b"PAR1"
    assert json.loads((tmp_path / "out.errors.jsonl").read_text())["line"] == 2


def test_a_decision_with_other_sensors_is_replayed_with_them(tmp_path: Path) -> None:
    labelled, calibration = str(EXAMPLES / "labelled.jsonl"), str(tmp_path / "calibration.jsonl")
    at, ledger = str(tmp_path / "threshold.json"), str(tmp_path / "ledger.db")
    assert run("measure", labelled, "-o", calibration).returncode == 0
    budget = ("--alpha", "0.2", "--delta", "0.2")
    assert run("calibrate", calibration, *budget, "-o", at).returncode == 0
    sensors = ("--sensor", "tokens", "--sensor", "literals", "--proxy", "max_cosine")
    assert run(*EXAMPLE, *sensors, "--threshold", at, "--ledger", ledger).returncode == 0
    shown = run("ledger", "replay", ledger)
    assert b"replayed 1 of 1: 1 identical" in shown.stderr, shown.stdout + shown.stderr
