"""A run that is stopped anywhere, in any way, ends in the same bytes as one that is not."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from outspan.bulk import Progress, journal, measure_file
from outspan.bulk.journal import FileDestination, Names
from outspan.errors import InputError, ResumeError
from outspan.sensors.energy import EnergySensor
from outspan.testing import FakeEmbedder

ROWS = 60


def write_input(folder: Path, rows: int = ROWS) -> Path:
    """Rows with shared sources, blank lines and every fifth one bad."""
    source = folder / "in.jsonl"
    with source.open("w", encoding="utf-8") as stream:
        for i in range(rows):
            row: dict[str, object] = {
                "id": i,
                "claim": f"Ship {i} sank. Hi there!",
                "source": f"Ship {i // 3} met fog.",
            }
            if i % 5 == 4:
                row["claim"] = None
            stream.write(json.dumps(row) + ("\n\n" if i % 7 == 0 else "\n"))
    return source


def measure(folder: Path, out: str = "out.jsonl", **options: Any) -> Any:
    sensor = options.pop("sensor", None) or EnergySensor(FakeEmbedder(dimension=8))
    return measure_file(folder / "in.jsonl", folder / out, sensor, batch_texts=6, **options)


def contents(folder: Path) -> dict[str, bytes]:
    # A lock file that a killed process left behind is no harm, and the next run removes it.
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".lock"}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("expected")
    write_input(folder)
    measure(folder)
    found = contents(folder)
    assert sorted(found) == ["in.jsonl", "out.errors.jsonl", "out.jsonl", "out.jsonl.regime.json"]
    assert found["out.jsonl"].count(b"\n") == 48
    assert found["out.errors.jsonl"].count(b"\n") == 12
    return found


class Stopped(BaseException):
    """As abrupt as it can be inside one process: nothing that catches errors catches it."""


def stop_at(monkeypatch: pytest.MonkeyPatch, moment: int) -> None:
    """Raise at the ``moment``-th contact with the file system, before it or, for writes, half way through."""
    count = 0

    def contact() -> bool:
        nonlocal count
        count += 1
        return count == moment

    def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
        def around(*arguments: Any, **options: Any) -> Any:
            if contact():
                raise Stopped
            return function(*arguments, **options)

        return around

    whole = journal._write_all

    def torn(stream: Any, data: bytes) -> None:
        if contact():
            whole(stream, data[: len(data) // 2])
            raise Stopped
        whole(stream, data)

    monkeypatch.setattr(journal, "_write_all", torn)
    monkeypatch.setattr(os, "fsync", wrapped(os.fsync))
    for name in ("replace", "unlink"):
        monkeypatch.setattr(Path, name, wrapped(getattr(Path, name)))


@pytest.mark.parametrize("out", ["out.jsonl", "out.parquet"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_stopped_at_every_contact_with_the_file_system(tmp_path: Path, out: str, overwrite: bool) -> None:
    write_input(tmp_path, rows=13)
    measure(tmp_path, out)
    wanted = contents(tmp_path)
    moment = 0
    while True:
        moment += 1
        for left in tmp_path.glob("out*"):
            left.unlink()
        if overwrite:
            (tmp_path / out).write_bytes(b"old")
        with pytest.MonkeyPatch.context() as patch:
            stop_at(patch, moment)
            try:
                measure(tmp_path, out, overwrite=overwrite)
            except Stopped:
                pass
            else:
                break
        # A reader never finds a part of the output under its name.
        found = (tmp_path / out).read_bytes() if (tmp_path / out).exists() else b"old"
        assert found in (b"old", wanted[out])
        if (tmp_path / f"{out}.progress.json").exists():
            measure(tmp_path, out)
        elif found == b"old":
            measure(tmp_path, out, overwrite=overwrite)
        assert contents(tmp_path) == wanted, f"stopped at contact {moment}"
    assert moment > 20


def test_stopped_again_and_again(tmp_path: Path, expected: dict[str, bytes]) -> None:
    write_input(tmp_path)
    chance = random.Random(7)
    stops = 0
    while True:
        with pytest.MonkeyPatch.context() as patch:
            stop_at(patch, chance.randrange(6, 40))
            try:
                measure(tmp_path)
            except Stopped:
                stops += 1
            else:
                break
    assert stops > 5
    assert contents(tmp_path) == expected


CHILD = """
import sys, time
from pathlib import Path
from outspan.bulk import measure_file
from outspan.sensors.energy import EnergySensor
from outspan.testing import FakeEmbedder

class Slow(FakeEmbedder):
    def embed(self, texts, /):
        time.sleep(0.03)
        return super().embed(texts)

folder = Path(sys.argv[1])
sensor = EnergySensor(Slow(dimension=8))
print("ready", flush=True)
measure_file(folder / "in.jsonl", folder / "out.jsonl", sensor, batch_texts=6)
"""


def test_kill_9_at_random_moments(tmp_path: Path, expected: dict[str, bytes]) -> None:
    write_input(tmp_path)
    chance = random.Random(3)
    kills = 0
    for _ in range(60):
        child = subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        with child.stdout:
            child.stdout.readline()
            time.sleep(chance.uniform(0.0, 0.12))
            # The first tries are killed at random moments, the last ones are let go.
            if kills < 12:
                child.kill()
            code = child.wait()
        kills += code == -signal.SIGKILL
        if code == 0 or set(contents(tmp_path)) == set(expected):
            break  # or killed when all was done
        assert code == -signal.SIGKILL
        assert (
            not (tmp_path / "out.jsonl").exists()
            or (tmp_path / "out.jsonl").read_bytes() == expected["out.jsonl"]
        )
    assert kills >= 5
    assert contents(tmp_path) == expected


def stopped_run(folder: Path, **options: Any) -> None:
    """Leave a run that stopped behind its second batch."""
    seen = 0

    def stop(progress: Progress) -> None:
        nonlocal seen
        seen += 1
        if seen == 2:
            raise Stopped

    with pytest.raises(Stopped):
        measure(folder, on_progress=stop, **options)
    assert not (folder / "out.jsonl").exists()


def test_resuming_does_not_embed_again_what_is_done(tmp_path: Path) -> None:
    write_input(tmp_path)
    stopped_run(tmp_path)
    embedder = FakeEmbedder(dimension=8)
    summary = measure(tmp_path, sensor=EnergySensor(embedder))
    asked = {text for call in embedder.calls for text in call}
    assert "Ship 0 sank." not in asked
    assert "Ship 58 sank." in asked
    assert summary.resumed_rows > 0
    assert summary.counts.rows + summary.counts.bad_rows == ROWS


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"unit": "whole"}, "unit: then sentences, now whole"),
        (
            {"sensor": EnergySensor(FakeEmbedder(dimension=8), rank="cap:4")},
            "regime.rank_policy: then cap:64, now cap:4",
        ),
        ({"sensor": EnergySensor(FakeEmbedder(dimension=8, seed=1))}, "regime.embedder.weights_digest"),
        ({"sensor": EnergySensor(FakeEmbedder(dimension=8), proxies=["max_cosine"])}, "proxies.max_cosine"),
    ],
)
def test_other_settings_are_named(tmp_path: Path, options: dict[str, Any], named: str) -> None:
    write_input(tmp_path)
    stopped_run(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(ResumeError, match=rf"{named}.*--overwrite"):
        measure(tmp_path, **options)
    assert contents(tmp_path) == before
    measure(tmp_path, overwrite=True, **options)
    assert (tmp_path / "out.jsonl").read_bytes().count(b"\n") == 48


def test_changed_input_is_noticed(tmp_path: Path) -> None:
    source = write_input(tmp_path)
    stopped_run(tmp_path)
    text = source.read_text()
    for changed in (text.replace("Ship 0", "Boat 0"), text[:20], "\n" + text):
        source.write_text(changed)
        with pytest.raises(ResumeError, match="not the input of the interrupted run"):
            measure(tmp_path)


def test_input_that_has_grown_is_fine(tmp_path: Path, expected: dict[str, bytes]) -> None:
    source = write_input(tmp_path)
    stopped_run(tmp_path)
    with source.open("a") as stream:
        stream.write('{"id": "late", "claim": "It is late.", "source": "Ship 1 met fog."}\n')
    measure(tmp_path)
    rows = (tmp_path / "out.jsonl").read_bytes()
    assert rows.startswith(expected["out.jsonl"])
    assert rows.count(b"\n") == 49


@pytest.mark.parametrize("name", ["out.jsonl.partial", "out.jsonl.errors.partial"])
def test_lost_partial_file(tmp_path: Path, name: str) -> None:
    write_input(tmp_path)
    stopped_run(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(ResumeError, match=rf"{name} holds 0 bytes.*--overwrite"):
        measure(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 99}', '{"format": 1}', "\ud800"])
def test_damaged_journal(tmp_path: Path, text: str) -> None:
    write_input(tmp_path)
    stopped_run(tmp_path)
    (tmp_path / "out.jsonl.progress.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(ResumeError, match=r"progress\.json cannot be read.*--overwrite"):
        measure(tmp_path)


def test_complete_output_is_not_replaced(tmp_path: Path, expected: dict[str, bytes]) -> None:
    write_input(tmp_path)
    measure(tmp_path)
    embedder = FakeEmbedder(dimension=8)
    with pytest.raises(InputError, match="exists already and is complete.*--overwrite"):
        measure(tmp_path, sensor=EnergySensor(embedder))
    assert embedder.calls == []
    assert contents(tmp_path) == expected
    measure(tmp_path, overwrite=True)
    assert contents(tmp_path) == expected


def test_the_old_output_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    write_input(tmp_path)
    (tmp_path / "out.jsonl").write_text("old\n")
    with pytest.raises(Stopped):
        measure(tmp_path, overwrite=True, on_progress=lambda _: (_ for _ in ()).throw(Stopped()))
    assert (tmp_path / "out.jsonl").read_text() == "old\n"
    summary = measure(tmp_path)  # goes on; what was agreed to need not be agreed to again
    assert summary.resumed_rows > 0
    assert (tmp_path / "out.jsonl").read_bytes().count(b"\n") == 48


def test_output_that_appeared_beside_an_interrupted_run(tmp_path: Path) -> None:
    write_input(tmp_path)
    stopped_run(tmp_path)
    (tmp_path / "out.jsonl").write_text("from elsewhere\n")
    with pytest.raises(ResumeError, match="exists, and so does an interrupted run"):
        measure(tmp_path)
    assert (tmp_path / "out.jsonl").read_text() == "from elsewhere\n"


def test_stray_partial_file_is_not_ours_to_remove(tmp_path: Path) -> None:
    write_input(tmp_path)
    (tmp_path / "out.jsonl.partial").write_text("mine")
    with pytest.raises(InputError, match="in the way"):
        measure(tmp_path)
    assert (tmp_path / "out.jsonl.partial").read_text() == "mine"


def test_second_writer_is_refused(tmp_path: Path, expected: dict[str, bytes]) -> None:
    write_input(tmp_path)
    refused: list[str] = []

    def second(_: Progress) -> None:
        if not refused:
            with pytest.raises(InputError, match="another process is writing to it") as caught:
                measure(tmp_path, overwrite=True)
            refused.append(str(caught.value))

    measure(tmp_path, on_progress=second)
    assert refused
    assert contents(tmp_path) == expected


def test_lock_is_free_after_a_refusal(tmp_path: Path) -> None:
    write_input(tmp_path)
    for _ in range(2):
        with FileDestination(tmp_path / "out.jsonl", {}):
            assert Names.of(tmp_path / "out.jsonl").lock.exists()
    assert list(tmp_path.iterdir()) == [tmp_path / "in.jsonl"]


LIMITED = """
import resource, sys
from pathlib import Path
from outspan.bulk import measure_file
from outspan.errors import InputError
from outspan.sensors.energy import EnergySensor
from outspan.testing import FakeEmbedder

resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
folder = Path(sys.argv[1])
try:
    measure_file(folder / "in.jsonl", folder / "out.jsonl", EnergySensor(FakeEmbedder(dimension=8)), batch_texts=6)
except InputError as error:
    print(error)
    sys.exit(2)
"""


@pytest.mark.skipif(os.name == "nt", reason="no limits there")
def test_no_room_on_the_disk(tmp_path: Path, expected: dict[str, bytes]) -> None:
    write_input(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "may not grow further; the rows done so far are kept" in done.stdout
    assert "run the same command again" in done.stdout
    assert not (tmp_path / "out.jsonl").exists()
    assert measure(tmp_path).resumed_rows > 0
    assert contents(tmp_path) == expected


def test_full_disk_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: dict[str, bytes]
) -> None:
    write_input(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(InputError, match="the disk is full; the rows done so far are kept"):
            measure(tmp_path)
    measure(tmp_path)
    assert contents(tmp_path) == expected


def test_unexpected_error_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_input(tmp_path)
    sensor = EnergySensor(FakeEmbedder(dimension=8))
    monkeypatch.setattr(sensor, "measure_many", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError) as caught:
        measure(tmp_path, sensor=sensor)
    assert any("lines 1 to" in note for note in caught.value.__notes__)
    measure(tmp_path)
