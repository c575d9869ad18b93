"""The cache of vectors: never a wrong number, whatever happens to its file."""

from __future__ import annotations

import dataclasses
import logging
import os
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from outspan.embedders import VectorCache, embed_checked
from outspan.embedders.cache import _keys
from outspan.testing import FakeEmbedder

WHO = FakeEmbedder(dimension=8).identity


def some_vectors(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, 8)).astype(np.float32)


def put(cache: VectorCache, texts: list[str], seed: int = 0) -> np.ndarray:
    vectors = some_vectors(len(texts), seed)
    cache.put_many(WHO, texts, vectors, np.arange(len(texts)) + 3)
    return vectors


def test_what_was_put_is_got_bit_for_bit(tmp_path: Path) -> None:
    texts = ["a", "b\nc", "", "\ud800", "中" * 5000, *(f"t{i}" for i in range(1200))]
    with VectorCache(tmp_path / "v.sqlite3") as cache:
        assert cache.get_many(WHO, texts) == {}
        vectors = put(cache, texts)
    with VectorCache(tmp_path / "v.sqlite3") as cache:
        found = cache.get_many(WHO, ["unknown", *texts, "a"])
        assert set(found) == set(range(1, len(texts) + 2))
        assert all(np.array_equal(found[i + 1][0], vectors[i]) for i in range(len(texts)))
        assert [found[i + 1][1] for i in range(3)] == [3, 4, 5]
        assert np.array_equal(found[len(texts) + 1][0], vectors[0])


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(WHO)])
def test_every_part_of_the_identity_is_part_of_the_key(field: str) -> None:
    value = getattr(WHO, field)
    other = dataclasses.replace(WHO, **{field: value + 1 if isinstance(value, int) else value + "x"})
    assert _keys(WHO, ["a"]) != _keys(other, ["a"])


def test_fields_cannot_run_into_each_other() -> None:
    one = dataclasses.replace(WHO, name="ab", runtime="c")
    two = dataclasses.replace(WHO, name="a", runtime="bc")
    assert _keys(one, ["x"]) != _keys(two, ["x"])


def test_texts_are_not_stored(tmp_path: Path) -> None:
    path = tmp_path / "v.sqlite3"
    with VectorCache(path) as cache:
        put(cache, ["the secret harbour"])
    assert all(b"harbour" not in file.read_bytes() for file in tmp_path.iterdir())


@pytest.mark.parametrize("bad", [np.full((1, 8), np.nan), np.zeros((1, 8)), np.full((1, 8), np.inf)])
def test_a_failed_vector_is_never_stored(tmp_path: Path, bad: np.ndarray) -> None:
    with VectorCache(tmp_path / "v.sqlite3") as cache:
        with pytest.raises(ValueError, match="must not be stored"):
            cache.put_many(WHO, ["a"], bad.astype(np.float32), np.asarray([3]))
        with pytest.raises(ValueError, match="do not fit"):
            cache.put_many(WHO, ["a", "b"], some_vectors(1), np.asarray([3]))
        assert cache.get_many(WHO, ["a"]) == {}


def change_values(path: Path, change: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(change)
    connection.close()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE vectors_v1 SET value = substr(value, 1, 30) || x'ff' || substr(value, 32) WHERE id = 1",
        "UPDATE vectors_v1 SET value = substr(value, 1, 20) WHERE id = 1",
        "UPDATE vectors_v1 SET value = 'text' WHERE id = 1",
        "UPDATE vectors_v1 SET value = x'' WHERE id = 1",
        "UPDATE vectors_v1 SET value = (SELECT value FROM vectors_v1 WHERE id = 2) WHERE id = 1",
    ],
)
def test_a_damaged_row_is_a_row_that_is_not_there(tmp_path: Path, change: str) -> None:
    path = tmp_path / "v.sqlite3"
    with VectorCache(path) as cache:
        put(cache, ["a", "b"])
    change_values(path, change)
    with VectorCache(path) as cache:
        assert set(cache.get_many(WHO, ["a", "b"])) == {1}
        vectors = put(cache, ["a"], seed=5)
        assert np.array_equal(cache.get_many(WHO, ["a"])[0][0], vectors[0])


@pytest.mark.parametrize("kind", ["no database", "a folder", "parent is a file", "another schema"])
def test_an_unusable_file_is_said_once_and_costs_only_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    path = tmp_path / "v.sqlite3"
    if kind == "no database":
        path.write_bytes(b"this is no database" * 100)
    elif kind == "a folder":
        path.mkdir()
    elif kind == "parent is a file":
        path.write_bytes(b"")
        path = path / "below"
    else:
        change_values(path, "CREATE TABLE vectors_v1 (something TEXT)")
    fake = FakeEmbedder(dimension=8)
    with caplog.at_level(logging.WARNING), VectorCache(path) as cache:
        for _ in range(3):
            answer = embed_checked(fake, ["a", "b"], cache=cache)
            assert answer.failures == {}
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == 1
    assert str(path) in warnings[0]
    assert "OUTSPAN_CACHE_DIR" in warnings[0]


def test_a_locked_cache_is_said_once_and_used_again_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outspan.embedders.cache._BUSY_SECONDS", 0.05)
    path = tmp_path / "v.sqlite3"
    with VectorCache(path) as cache:
        put(cache, ["a"])
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        put(cache, ["b"])
        put(cache, ["c"])
        assert set(cache.get_many(WHO, ["a", "b", "c"])) == {0}
        holder.execute("ROLLBACK")
        holder.close()
        put(cache, ["b"])
        assert set(cache.get_many(WHO, ["a", "b", "c"])) == {0, 1}
    assert len(caplog.records) == 1
    assert "another process holds it" in caplog.text


def test_the_file_stays_within_its_bound_and_the_oldest_go(tmp_path: Path) -> None:
    path = tmp_path / "v.sqlite3"
    bound = 400_000
    with VectorCache(path, max_bytes=bound) as cache:
        for part in range(40):
            put(cache, [f"{part}-{i}" for i in range(200)], seed=part)
        assert len(cache.get_many(WHO, [f"39-{i}" for i in range(200)])) == 200
        assert cache.get_many(WHO, [f"0-{i}" for i in range(200)]) == {}
    assert path.stat().st_size < 1.3 * bound  # a transaction's rows come before the old ones go


def test_a_closed_cache_says_so(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path / "v.sqlite3")
    cache.close()
    cache.close()
    with pytest.raises(ValueError, match="closed"):
        cache.get_many(WHO, ["a"])
    with pytest.raises(ValueError, match="max_bytes"):
        VectorCache(tmp_path / "w.sqlite3", max_bytes=0)


def test_eight_threads_share_one_cache(tmp_path: Path) -> None:
    with VectorCache(tmp_path / "v.sqlite3") as cache:
        wrong: list[str] = []

        def work(number: int) -> None:
            for turn in range(10):
                texts = [f"{number}-{turn}-{i}" for i in range(10)]
                vectors = put(cache, texts, seed=number * 100 + turn)
                found = cache.get_many(WHO, texts)
                if not all(np.array_equal(found[i][0], vectors[i]) for i in range(10)):
                    wrong.append(texts[0])

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        everything = [f"{n}-{turn}-{i}" for n in range(8) for turn in range(10) for i in range(10)]
        assert len(cache.get_many(WHO, everything)) == 800


_WRITER = """
import sys
from pathlib import Path
from outspan.embedders import VectorCache, embed_checked
from outspan.testing import FakeEmbedder
with VectorCache(Path(sys.argv[1])) as cache:
    for turn in range(20):
        texts = [f"shared {turn} {i}" for i in range(10)] + [f"{sys.argv[2]} {turn} {i}" for i in range(10)]
        assert not embed_checked(FakeEmbedder(dimension=8), texts, cache=cache).failures
"""


def test_several_processes_share_one_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "v.sqlite3"
    workers = [
        subprocess.Popen([sys.executable, "-c", _WRITER, str(path), f"p{n}"], stderr=subprocess.PIPE)
        for n in range(4)
    ]
    assert [worker.communicate()[1] for worker in workers] == [b""] * 4
    assert [worker.returncode for worker in workers] == [0] * 4
    fake = FakeEmbedder(dimension=8)
    texts = [f"p{n} {turn} {i}" for n in range(4) for turn in range(20) for i in range(10)]
    texts += [f"shared {turn} {i}" for turn in range(20) for i in range(10)]
    with VectorCache(path) as cache:
        found = cache.get_many(fake.identity, texts)
    assert len(found) == 1000
    expected = embed_checked(fake, texts).vectors
    assert all(np.array_equal(found[i][0], expected[i]) for i in range(1000))


def test_a_killed_writer_loses_nothing_that_was_committed(tmp_path: Path) -> None:
    path = tmp_path / "v.sqlite3"
    script = _WRITER.replace("range(20)", "range(100000)")
    worker = subprocess.Popen([sys.executable, "-c", script, str(path), "p0"])
    deadline = time.monotonic() + 30
    while not (path.is_file() and path.stat().st_size > 20_000) and time.monotonic() < deadline:
        time.sleep(0.02)
    worker.kill()
    worker.wait()
    fake = FakeEmbedder(dimension=8)
    with VectorCache(path) as cache:
        texts = [f"p0 0 {i}" for i in range(10)]
        found = cache.get_many(fake.identity, texts)
        assert len(found) == 10
        assert np.array_equal(found[3][0], embed_checked(fake, texts).vectors[3])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_opens_its_own_connection(tmp_path: Path) -> None:
    with VectorCache(tmp_path / "v.sqlite3") as cache:
        vectors = put(cache, ["a"])
        child = os.fork()
        if child == 0:
            put(cache, ["b"], seed=1)
            same = np.array_equal(cache.get_many(WHO, ["a"])[0][0], vectors[0])
            os._exit(0 if same else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert set(cache.get_many(WHO, ["a", "b"])) == {0, 1}


def test_a_thousand_vectors_cost_far_less_than_embedding_them(tmp_path: Path) -> None:
    """Embedding 1,000 sentences takes some seven seconds; put and get together stay below 5 % of that."""
    who = FakeEmbedder(dimension=384).identity
    vectors = np.random.default_rng(0).standard_normal((1000, 384)).astype(np.float32)
    texts = [f"sentence {i}" for i in range(1000)]
    with VectorCache(tmp_path / "v.sqlite3") as cache:
        start = time.perf_counter()
        cache.put_many(who, texts, vectors, np.full(1000, 34))
        assert len(cache.get_many(who, texts)) == 1000
        assert time.perf_counter() - start < 0.35
