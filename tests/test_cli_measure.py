"""``outspan measure`` as a shell sees it: exit codes, standard output, standard error."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from outspan.bulk import Counts, Progress
from outspan.cli.measure import progress_line

# The command line with the fake embedder in place of the model; the first argument says how long a call takes.
DRIVER = """
import sys, time
import outspan.cli.measure as command
from outspan.cli import main
from outspan.sensors.energy import EnergySensor
from outspan.testing import FakeEmbedder

pause = float(sys.argv.pop(1))

class Slow(FakeEmbedder):
    def embed(self, texts, /):
        time.sleep(pause)
        return super().embed(texts)

command.build_sensor = lambda **options: EnergySensor(Slow(), rank=options["rank"], proxies=options["proxies"])
main()
"""
GOOD = {"id": 1, "claim": "The bridge opened in 1932. It stands.", "evidence": ["The bridge opened in 1932."]}


def command(*arguments: str, pause: float = 0.0) -> list[str]:
    return [sys.executable, "-c", DRIVER, str(pause), "measure", *arguments]


def run(*arguments: str, folder: Path, given: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command(*arguments), cwd=folder, input=given, capture_output=True, check=False)


def write(folder: Path, *rows: Any) -> None:
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_file_to_file(tmp_path: Path) -> None:
    write(tmp_path, GOOD, {"id": 2}, GOOD)
    done = run(
        "in.jsonl", "-o", "out.jsonl", "--json", "--proxy", "max_cosine", "--rank", "cap:8", folder=tmp_path
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["rows"], summary["bad_rows"], summary["measured"], summary["sentences"]) == (2, 1, 4, 4)
    assert summary["row_states"] == {"MEASURED": 2}
    assert summary["errors"] == "out.errors.jsonl"
    said = done.stderr.decode()
    assert "measured 4 of 4 sentences (4 MEASURED)" in said
    assert "WARNING: 1 of 3 rows could not be used: listed in out.errors.jsonl" in said
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert rows[0]["sentences"][0]["proxies"].keys() == {"max_cosine"}
    assert json.loads((tmp_path / "out.errors.jsonl").read_text())["line"] == 2


def test_pipe_to_pipe(tmp_path: Path) -> None:
    given = "".join(json.dumps(row) + "\n" for row in (GOOD, {"id": 2}, GOOD)).encode()
    done = run("-", "-o", "-", "--json", folder=tmp_path, given=given)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["state"] for row in rows] == ["MEASURED", "MEASURED"]
    assert b'{"line": 2, "error": "the row has no \'claim\'"' in done.stderr
    assert b"1 of 3 rows could not be used: listed above" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_pipe_to_file_resumes_by_reading_again(tmp_path: Path) -> None:
    write(tmp_path, *[{**GOOD, "id": i, "claim": f"Ship {i} sank."} for i in range(900)])
    data = (tmp_path / "in.jsonl").read_bytes()
    stopped = subprocess.run(
        [sys.executable, "-c", DRIVER.replace("main()", "import os, outspan.bulk.run as r\n"
         "keep = r.FileDestination.commit\n"
         "def commit(*a): keep(*a); os._exit(9)\n"
         "r.FileDestination.commit = commit\nmain()"), "0", "measure", "-", "-o", "out.jsonl"],
        cwd=tmp_path, input=data, capture_output=True, check=False,
    )  # fmt: skip
    assert stopped.returncode == 9, stopped.stderr
    changed = run("-", "-o", "out.jsonl", folder=tmp_path, given=data.replace(b"Ship 0", b"Ship 9"))
    assert changed.returncode == 2
    assert b"stdin is not the input of the interrupted run" in changed.stderr
    done = run("-", "-o", "out.jsonl", folder=tmp_path, given=data)
    assert done.returncode == 0, done.stderr
    assert b"512 rows were done before" in done.stderr
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == list(range(900))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("none.jsonl", "-o", "out.jsonl"), "none.jsonl: there is no such file"),
        (("im.jsonl", "-o", "out.jsonl"), "Did you mean in.jsonl"),
        ((".", "-o", "out.jsonl"), "is a folder"),
        (("in.jsonl", "-o", "none/out.jsonl"), "folder does not exist"),
        (("in.jsonl", "-o", "in.jsonl"), "over the input"),
        (("in.jsonl", "-o", "done.jsonl"), "done.jsonl: exists already and is complete"),
        (("utf16.jsonl", "-o", "out.jsonl"), "looks like UTF-16"),
        (("empty.jsonl", "-o", "out.jsonl"), "holds no rows"),
        (("bad.jsonl", "-o", "out.jsonl"), "none of its 1 rows can be used"),
        (("in.jsonl",), "Missing option '-o'"),
        (("in.jsonl", "-o", "out.jsonl", "--unit", "word"), "Invalid value for '--unit'"),
        (("-", "-o", "out.jsonl"), "holds no rows"),
    ],
)
def test_unusable_input_is_exit_code_2(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    write(tmp_path, GOOD)
    (tmp_path / "done.jsonl").write_text("{}\n")
    (tmp_path / "utf16.jsonl").write_bytes(json.dumps(GOOD).encode("utf-16"))
    (tmp_path / "empty.jsonl").write_bytes(b"")
    (tmp_path / "bad.jsonl").write_text('{"claim": "cut of')
    done = run(*arguments, folder=tmp_path, given=b"")
    assert done.returncode == 2, done.stderr
    assert said in " ".join(done.stderr.decode().split())
    assert done.stdout == b""
    assert b"Traceback" not in done.stderr
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.skipif(os.name == "nt", reason="no such signal there")
def test_interrupt_keeps_what_is_done(tmp_path: Path) -> None:
    write(tmp_path, *[{**GOOD, "id": i, "claim": f"Ship {i} sank."} for i in range(1500)])
    child = subprocess.Popen(
        command("in.jsonl", "-o", "out.jsonl", pause=0.2), cwd=tmp_path, stderr=subprocess.PIPE
    )
    journal = tmp_path / "out.jsonl.progress.json"
    for _ in range(600):
        if journal.exists() and json.loads(journal.read_text())["output_bytes"]:
            break
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    said = child.communicate(timeout=30)[1].decode()
    assert child.returncode == 130, said
    assert "the rows done are kept. Run the same command to go on." in said
    assert "Traceback" not in said
    assert not (tmp_path / "out.jsonl").exists()
    done = run("in.jsonl", "-o", "out.jsonl", folder=tmp_path)
    assert b"rows were done before" in done.stderr
    assert (tmp_path / "out.jsonl").read_bytes().count(b"\n") == 1500


@pytest.mark.skipif(os.name == "nt", reason="no terminal to imitate there")
def test_bar_on_a_terminal(tmp_path: Path) -> None:
    write(tmp_path, *[GOOD] * 3)
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as screen:
        child = subprocess.Popen(
            command("in.jsonl", "-o", "out.jsonl"), cwd=tmp_path, stderr=theirs, stdout=subprocess.PIPE
        )
        os.close(theirs)
        shown = b""
        try:
            while chunk := screen.read(4096):
                shown += chunk
        except OSError:
            pass  # Linux says so when the other side of a terminal is closed
    assert child.communicate()[0] == b""
    assert child.returncode == 0
    assert b"3 rows, 100%" in shown


def test_progress_in_one_line() -> None:
    progress = Progress(
        counts=Counts(rows=1200, bad_rows=34), input_bytes=50, input_size=200, texts=3000, seconds=20.0
    )
    assert progress_line(progress) == "1,234 rows, 25%, 150 sentences/s, 34 bad"


def test_help_shows_an_example(tmp_path: Path) -> None:
    done = run("--help", folder=tmp_path)
    assert done.returncode == 0
    assert b"Example: outspan measure answers.jsonl -o measured.jsonl" in done.stdout
