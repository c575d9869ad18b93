"""The ledger, in SQLite and in PostgreSQL: what was appended stays, and whatever was changed is found."""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledger_helpers import cluster, direct, fill, in_child, new_database, tamper
from outspan.canonical import canonical_json
from outspan.errors import InputError, NotInstalled
from outspan.ledger import (
    Artefact,
    Head,
    Ledger,
    amend,
    amendments,
    export_jsonl,
    export_labelled,
    export_parquet,
)
from outspan.ledger.chain import GENESIS, Stored, Walk

THRESHOLD = Artefact(name="threshold", value={"accept": 0.25})


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    with cluster() as address:
        yield address


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "ledger.db")
    return new_database(request.getfixturevalue("postgres"))


@pytest.fixture
def ledger(place: str) -> Iterator[Ledger]:
    made = Ledger(place)
    yield made
    made.close()


def kinds(ledger: Ledger, head: Head | None = None) -> list[tuple[int | None, str]]:
    return [(problem.row, problem.kind) for problem in ledger.verify(head).problems]


# Appending and reading


def test_what_is_appended_is_read_back_in_order(ledger: Ledger) -> None:
    first = ledger.append("decision", {"a": 1}, key="x", artefacts=[THRESHOLD])
    second = ledger.append("decision", {"a": 2}, key="x", artefacts=[THRESHOLD])
    entries = list(ledger.entries())
    assert [(one.seq, one.kind) for one in entries] == [
        (1, "opened"), (2, "artefact"), (3, "decision"), (4, "decision"),
    ]  # fmt: skip
    assert (first, second) == (entries[2], entries[3])
    assert ledger.get(3) == first
    assert ledger.get(99) is None
    assert ledger.find("x") == [first, second]
    assert ledger.artefact(THRESHOLD.digest) == {"accept": 0.25}
    assert ledger.artefact("sha256:none") is None
    assert list(ledger.entries(kind="decision", after=3)) == [second]
    assert ledger.head() == Head(count=4, digest=second.digest)
    assert ledger.verify(ledger.head()).to_dict()["decisions"] == 2


def test_the_chain_is_over_exactly_the_stored_bytes(ledger: Ledger) -> None:
    fill(ledger, 3)
    entries = list(ledger.entries())
    assert entries[0].to_dict()["previous"] == GENESIS
    for before, entry in pairwise(entries):
        assert entry.to_dict()["previous"] == before.digest
    for entry in entries:
        assert entry.digest == "sha256:" + sha256(entry.body).hexdigest()
        assert canonical_json(json.loads(entry.body)) == entry.body


def test_nanoseconds_and_floats_survive_the_store(ledger: Ledger) -> None:
    moment = "2026-01-31T12:00:00.123456789Z"
    content = {
        "energy": 0.1 + 0.2,
        "tiny": 5e-324,
        "large": 1e21,
        "zero": -0.0,
        "text": "line one\u2028\u0085two",
    }
    ledger.append("decision", content, moment=moment)
    assert ledger.verify().ok
    read = list(ledger.entries())[-1].to_dict()
    assert read["time"] == moment
    assert read["content"] == content
    assert b"0.30000000000000004" in list(ledger.entries())[-1].body


def test_what_json_does_not_have_is_refused_and_nothing_is_written(ledger: Ledger) -> None:
    fill(ledger, 1)
    head = ledger.head()
    for value in (float("nan"), float("inf"), 2**53 + 1, b"bytes", "\ud800"):
        with pytest.raises(ValueError, match="canonical JSON"):
            ledger.append("decision", {"value": value}, artefacts=[THRESHOLD])
    assert ledger.head() == head
    ledger.append("decision", {}, artefacts=[THRESHOLD])
    assert ledger.artefact(THRESHOLD.digest) is not None
    assert ledger.verify().ok


def test_an_empty_ledger_holds_and_a_missing_one_is_refused(ledger: Ledger, tmp_path: Path) -> None:
    assert ledger.verify(Head(count=0, digest=GENESIS)).ok
    assert ledger.head().count == 0
    with pytest.raises(InputError, match="no such ledger"):
        Ledger(tmp_path / "nowhere.db", create=False)
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE t (a)")
    before = other.read_bytes()
    with pytest.raises(InputError, match="not a ledger"):
        Ledger(other, create=False)
    with pytest.raises(InputError, match="something else"):
        Ledger(other)
    assert other.read_bytes() == before
    text = tmp_path / "text.db"
    text.write_text("no database at all, but a text that is long enough to be read as one" * 20)
    with pytest.raises(InputError, match="cannot be used"):
        Ledger(text, create=False)
    with pytest.raises(InputError, match="cannot live in mysql"):
        Ledger("mysql://user@host/db")
    with pytest.raises(InputError, match=r"cannot be used"):
        Ledger(tmp_path / "no folder" / "ledger.db")


def test_postgresql_without_its_driver_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outspan.ledger.store.find_spec", lambda name: None)
    with pytest.raises(NotInstalled, match=r"outspan\[postgres\]"):
        Ledger("postgresql://user@host/database")


def test_an_address_is_named_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        Ledger(f"postgresql://user:s3cret@/db?host={tmp_path}")
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE outspan_ledger SET kind = 'x' WHERE seq = 2",
        "DELETE FROM outspan_ledger WHERE seq = 2",
        "DELETE FROM outspan_ledger",
        "INSERT INTO outspan_ledger (seq, kind, digest, body) VALUES (99, 'a', 'b', '')",
        "INSERT INTO outspan_ledger (seq, kind, digest, body) VALUES (0, 'a', 'b', '')",
    ],
)
def test_the_database_itself_refuses_to_change_a_row(ledger: Ledger, statement: str) -> None:
    fill(ledger, 3)
    before = list(ledger.entries())
    with pytest.raises(Exception, match="append-only"):
        direct(ledger, statement)
    assert list(ledger.entries()) == before
    assert not ledger.verify().notes


def test_replacing_and_emptying_are_refused_too(ledger: Ledger) -> None:
    fill(ledger, 3)
    statement = (
        "TRUNCATE outspan_ledger" if "://" in ledger.name
        else "INSERT OR REPLACE INTO outspan_ledger VALUES (2, 'a', 'b', 'c', x'00')"
    )  # fmt: skip
    with pytest.raises(Exception, match="append-only"):
        direct(ledger, statement)
    assert ledger.verify().ok


# Tampering


def test_a_changed_text_is_a_content_mismatch_in_its_row(ledger: Ledger) -> None:
    fill(ledger, 9)
    entry = ledger.get(5)
    assert entry is not None
    tamper(ledger, "UPDATE outspan_ledger SET body = ? WHERE seq = 5", entry.body.replace(b"row", b"RoW"))
    assert kinds(ledger) == [(5, "content mismatch")]


def test_a_consistent_forgery_breaks_the_chain_at_the_next_row(ledger: Ledger) -> None:
    fill(ledger, 9)
    entry = ledger.get(5)
    assert entry is not None
    body = entry.body.replace(b"row", b"RoW")
    digest = "sha256:" + sha256(body).hexdigest()
    tamper(ledger, "UPDATE outspan_ledger SET body = ?, digest = ? WHERE seq = 5", body, digest)
    assert kinds(ledger) == [(6, "chain break")]


def test_columns_that_do_not_say_what_the_bytes_say(ledger: Ledger) -> None:
    fill(ledger, 3)
    tamper(ledger, "UPDATE outspan_ledger SET key = 'other' WHERE seq = 3")
    assert kinds(ledger) == [(3, "content mismatch")]


def test_a_deleted_row_is_missing(ledger: Ledger) -> None:
    fill(ledger, 9)
    tamper(ledger, "DELETE FROM outspan_ledger WHERE seq = 4")
    assert kinds(ledger) == [(4, "missing row")]
    tamper(ledger, "DELETE FROM outspan_ledger WHERE seq = 5")
    assert "rows 4 to 5 are missing" in ledger.verify().problems[0].message


def test_a_deleted_row_is_missing_though_the_others_move_up(ledger: Ledger) -> None:
    fill(ledger, 9)
    tamper(ledger, "DELETE FROM outspan_ledger WHERE seq = 4")
    for seq in range(5, 11):
        tamper(ledger, "UPDATE outspan_ledger SET seq = ? WHERE seq = ?", seq - 1, seq)
    found = kinds(ledger)
    assert found[0] == (4, "order")
    assert (4, "chain break") in found


def test_exchanged_rows_are_out_of_order(ledger: Ledger) -> None:
    fill(ledger, 9)
    for old, new in ((4, 99), (5, 4), (99, 5)):
        tamper(ledger, "UPDATE outspan_ledger SET seq = ? WHERE seq = ?", new, old)
    found = kinds(ledger)
    assert {(4, "order"), (5, "order")} <= set(found)


def test_an_inserted_row_is_found(ledger: Ledger) -> None:
    fill(ledger, 5)
    forged = canonical_json({"format": 1, "seq": 4, "previous": "x", "time": "", "kind": "decision", "key": None, "content": {}})  # fmt: skip
    for seq in range(6, 3, -1):
        tamper(ledger, "UPDATE outspan_ledger SET seq = ? WHERE seq = ?", seq + 1, seq)
    tamper(
        ledger, "INSERT INTO outspan_ledger (seq, kind, digest, body) VALUES (?, ?, ?, ?)",
        4, "decision", "sha256:" + sha256(forged).hexdigest(), forged,
    )  # fmt: skip
    assert (4, "chain break") in kinds(ledger)
    assert (5, "order") in kinds(ledger)


def test_a_cut_tail_is_found_with_a_head_kept_elsewhere(ledger: Ledger) -> None:
    fill(ledger, 9)
    early, head = Head(count=4, digest=ledger.get(4).digest), ledger.head()  # type: ignore[union-attr]
    assert ledger.verify(early).ok
    tamper(ledger, "DELETE FROM outspan_ledger WHERE seq > 7")
    assert ledger.verify().ok, "nothing in the ledger itself can show it"
    assert kinds(ledger, head) == [(None, "tail cut")]
    assert "the last 3 rows are gone" in ledger.verify(head).problems[0].message
    fill(ledger, 5)
    assert kinds(ledger, head) == [(10, "head mismatch")]
    tamper(ledger, "DELETE FROM outspan_ledger")
    assert kinds(ledger, head) == [(None, "tail cut")]


def test_missing_triggers_are_told(ledger: Ledger) -> None:
    fill(ledger, 1)
    names = {"sqlite": "outspan_ledger_no_update", "postgresql": "outspan_ledger_no_change ON outspan_ledger"}
    direct(ledger, f"DROP TRIGGER {names['postgresql' if '://' in ledger.name else 'sqlite']}")
    found = ledger.verify()
    assert found.ok
    assert "triggers" in found.notes[0]


# Every byte


@pytest.fixture(scope="module")
def thousand(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    made = Ledger(tmp_path_factory.mktemp("thousand") / "ledger.db")
    fill(made, 999)
    assert made.head().count == 1000
    return made


def test_every_single_byte_of_a_thousand_rows_is_covered(thousand: Ledger) -> None:
    """Each byte of each column of each row, changed alone; a row is judged against the one before it."""
    rows = [Stored(one.seq, one.kind, one.key, one.digest, one.body) for one in thousand.entries()]
    changed = 0
    before = Head(count=0, digest=GENESIS)
    for row in rows:
        texts = {name: getattr(row, name) for name in ("kind", "key", "digest", "body")}
        for name, value in texts.items():
            data = b"" if value is None else value.encode() if isinstance(value, str) else value
            for at in range(len(data)):
                mask = 1 + (at * 7 + changed) % 255
                damaged = bytes([*data[:at], data[at] ^ mask, *data[at + 1 :]])
                walk = Walk()
                walk._last = before
                walk.rows([row._replace(**{name: damaged})])
                assert walk.problems, (row.seq, name, at)
                changed += 1
        walk = Walk()
        walk._last = before
        walk.rows([row])
        assert not walk.problems
        before = Head(count=row.seq, digest=row.digest)  # type: ignore[arg-type]
    assert changed > 250_000


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seq=st.integers(1, 1000), column=st.sampled_from(["kind", "key", "digest", "body"]), data=st.data())
def test_a_changed_byte_in_the_database_is_found_at_its_row(
    thousand: Ledger, seq: int, column: str, data: Any
) -> None:
    # Undone by a rollback: the reader of the same connection sees the change, the file never does.
    with closing(sqlite3.connect(thousand.name, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.execute("DROP TRIGGER outspan_ledger_no_update")
        query = f"SELECT seq, CAST({column} AS BLOB), typeof({column}) FROM outspan_ledger WHERE seq = ?"
        _, value, kind = connection.execute(query, (seq,)).fetchone()
        if value is None:
            connection.execute("ROLLBACK")
            return
        at = data.draw(st.integers(0, len(value) - 1))
        mask = data.draw(st.integers(1, 255))
        damaged = bytes([*value[:at], value[at] ^ mask, *value[at + 1 :]])
        cast = "CAST(? AS TEXT)" if kind == "text" else "?"
        connection.execute(f"UPDATE outspan_ledger SET {column} = {cast} WHERE seq = ?", (damaged, seq))
        columns = "seq, CAST(kind AS BLOB), CAST(key AS BLOB), CAST(digest AS BLOB), body"
        walk = Walk()
        walk.rows(
            Stored(*row) for row in connection.execute(f"SELECT {columns} FROM outspan_ledger ORDER BY seq")
        )
        connection.execute("ROLLBACK")
    assert walk.problems
    assert walk.problems[0].row in (seq, seq + 1)


def test_a_changed_byte_of_the_file_is_found_or_changes_nothing_that_is_stored(
    thousand: Ledger, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(thousand.name)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    whole = bytearray(Path(thousand.name).read_bytes())
    stored = list(thousand.entries())
    head = thousand.head()
    step = len(whole) // 150
    found = 0
    for number, at in enumerate([*range(0, 100, 7), *range(100, len(whole), step)]):
        copy = tmp_path / f"{number}.db"
        damaged = whole[:]
        damaged[at] ^= 1 + at % 255
        copy.write_bytes(damaged)
        try:
            ledger = Ledger(copy, create=False)
            if ledger.verify(head).ok:
                assert list(ledger.entries()) == stored, f"byte {at} changed what is read, and was not found"
            else:
                found += 1
            ledger.close()
        except InputError:
            found += 1
        copy.unlink()
    assert found > 100


# Many writers, and writers that die


def test_eight_processes_of_two_hundred_decisions(place: str) -> None:
    def work(writer: int) -> Callable[[], None]:
        def run() -> None:
            mine = Ledger(place)
            for number in range(200):
                mine.append("decision", {"writer": writer, "n": number}, artefacts=[THRESHOLD])

        return run

    children = [in_child(work(writer)) for writer in range(8)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 8
    ledger = Ledger(place, create=False)
    found = ledger.verify(ledger.head())
    assert found.ok
    assert found.kinds == {"opened": 1, "artefact": 1, "decision": 1600}
    written = [(one.content["writer"], one.content["n"]) for one in ledger.entries(kind="decision")]
    assert sorted(written) == [(writer, number) for writer in range(8) for number in range(200)]
    for writer in range(8):
        assert [number for one, number in written if one == writer] == list(range(200)), (
            "order of each writer"
        )
    ledger.close()


def test_a_ledger_that_was_open_before_a_fork_can_be_used_on_both_sides(ledger: Ledger) -> None:
    fill(ledger, 2)
    child = in_child(lambda: fill(ledger, 20))
    fill(ledger, 20)
    assert os.waitpid(child, 0)[1] == 0
    fill(ledger, 1)
    found = ledger.verify()
    assert (found.ok, found.kinds["decision"]) == (True, 43)


def test_threads_share_a_ledger(ledger: Ledger) -> None:
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(fill, ledger, 25) for _ in range(8)]:
            done.result()
    found = ledger.verify(ledger.head())
    assert (found.ok, found.kinds["decision"]) == (True, 200)


def test_a_hundred_kills_lose_nothing_that_was_acknowledged(place: str) -> None:
    rounds = 20 if "://" in place else 100
    pauses = random.Random(7)
    acknowledged: dict[int, str] = {}
    for number in range(rounds):
        read, write = os.pipe()

        def work(read: int = read, write: int = write, number: int = number) -> None:
            os.close(read)
            mine = Ledger(place)
            while True:
                entry = mine.append("decision", {"round": number, "text": "x" * 3000}, artefacts=[THRESHOLD])
                os.write(write, f"{entry.seq} {entry.digest}\n".encode())

        child = in_child(work)
        os.close(write)
        if number % 4:  # most are killed while they write, every fourth while it opens or creates the ledger
            select.select([read], [], [], 30.0)
        time.sleep(pauses.choice([0.001, 0.005, 0.02]) * pauses.random())
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with os.fdopen(read, "rb") as stream:
            lines = stream.read().split(b"\n")[:-1]
        for line in lines:
            seq, digest = line.decode().split(" ")
            assert int(seq) not in acknowledged
            acknowledged[int(seq)] = digest
        if number % 10 == 9:
            assert_kept(place, acknowledged)
    assert_kept(place, acknowledged)
    assert len(acknowledged) > rounds


def assert_kept(place: str, acknowledged: dict[int, str]) -> None:
    ledger = Ledger(place)
    assert ledger.verify(ledger.head()).to_dict()["problems"] == []
    stored = {one.seq: one.digest for one in ledger.entries()}
    assert acknowledged.items() <= stored.items()
    ledger.close()


# Amendments and exports


def decision(**changed: Any) -> dict[str, Any]:
    """As much of a decision record as exports look at."""
    claims = [
        {"text": text, "start": start, "end": start + len(text), "state": "MEASURED", "energy": energy, "flags": [],
         "citations": [{"start": start, "end": start + 1, "text": text[0]}], "decision": {"outcome": "review"}}
        for text, start, energy in (("One.", 0, 0.1), ("Two.", 5, 0.5))
    ]  # fmt: skip
    record = {
        "id": "row 7", "group": None, "texts": "stored", "fingerprint": "sha256:f", "proxy_fingerprints": {},
        "answer": {"text": "One. Two.", "digest": "sha256:a"}, "threshold": "sha256:t", "policy": "sha256:p",
        "evidence": [{"id": "e", "text": "One and two.", "digest": "sha256:e"}], "claims": claims,
        "decision": {"outcome": "review", "reason": "r", "counts": {"accept": 0, "review": 2, "reject": 0, "no_claim": 0}},
    }  # fmt: skip
    return record | changed


def test_an_amendment_is_a_further_entry_and_the_first_stays_as_it_was(ledger: Ledger) -> None:
    first = ledger.append("decision", decision())
    said = amend(ledger, first.seq, "rejected", by="A. Reviewer", note="two is wrong", claim=1)
    amend(ledger, first.seq, "note", by="B", note="asked the author")
    assert ledger.get(first.seq) == first
    assert [one.content["verdict"] for one in amendments(ledger, first.seq)] == ["rejected", "note"]
    assert said.content["of_digest"] == first.digest
    assert ledger.verify().ok
    head = ledger.head()
    for wrong, message in (
        ({"seq": 99}, "no such entry"), ({"seq": 1}, "kind 'opened'"), ({"claim": 2}, "no sentence 2"),
        ({"claim": -1}, "no sentence -1"), ({"by": " "}, "needs a name"), ({"verdict": "note"}, "needs a text"),
        ({"verdict": "perhaps"}, "verdict is 'perhaps'"),
    ):  # fmt: skip
        given = {"seq": first.seq, "verdict": "accepted", "by": "A", **wrong}
        with pytest.raises(InputError, match=message):
            amend(ledger, given.pop("seq"), given.pop("verdict"), **given)  # type: ignore[arg-type]
    assert ledger.head() == head


def test_amended_decisions_come_out_as_labelled_rows(ledger: Ledger, tmp_path: Path) -> None:
    first = ledger.append("decision", decision())
    second = ledger.append(
        "decision", decision(id=None, group="g", texts="texts are not stored", answer={"text": None})
    )
    ledger.append("decision", decision())
    amend(ledger, first.seq, "accepted", by="A")
    amend(ledger, first.seq, "rejected", by="B", claim=1)
    amend(ledger, first.seq, "rejected", by="C")
    amend(ledger, first.seq, "note", by="D", note="n")
    amend(ledger, second.seq, "accepted", by="A")
    out = tmp_path / "labelled.jsonl"
    assert export_labelled(ledger, out) == 3
    whole, sentence, private = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert (whole["label"], whole["claim"], whole["labelled_by"]) == ("unsupported", "One. Two.", "C")
    assert (whole["energy"], whole["sentences_total"], whole["states"]) == (0.5, 2, {"MEASURED": 2})
    assert whole["evidence"] == [{"id": "e", "text": "One and two."}]
    assert (sentence["label"], sentence["claim"], sentence["energy"]) == ("unsupported", "Two.", 0.5)
    (only,) = sentence["sentences"]
    assert (only["start"], only["end"], only["citations"][0]["start"]) == (0, 4, 0)
    assert "decision" not in only
    assert sentence["group"] == whole["group"] != private["group"] == "g"
    assert (private["label"], private["claim"], private["evidence"]) == ("supported", None, None)


def test_the_jsonl_export_holds_the_exact_bytes_so_that_the_chain_can_be_redone(
    ledger: Ledger, tmp_path: Path
) -> None:
    ledger.append("decision", decision(id="line\u2028one"), key="line\u2028one")
    fill(ledger, 3)
    out = tmp_path / "ledger.jsonl"
    assert export_jsonl(ledger, out) == ledger.head().count
    previous = GENESIS
    for line in out.read_bytes().split(b"\n")[:-1]:
        digest, body = json.loads(line)["digest"], line.split(b'"entry":', 1)[1][:-1]
        assert digest == "sha256:" + sha256(body).hexdigest()
        assert json.loads(body)["previous"] == previous
        previous = digest
    assert previous == ledger.head().digest


def test_the_parquet_export_has_a_row_a_decision(ledger: Ledger, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    first = ledger.append("decision", decision())
    ledger.append("decision", decision(id=3))
    amend(ledger, first.seq, "rejected", by="A")
    out = tmp_path / "ledger.parquet"
    assert export_parquet(ledger, out) == 2
    one, two = pq.read_table(out).to_pylist()
    assert (one["seq"], one["id"], one["outcome"], one["review"], one["energy_max"]) == (
        2,
        "row 7",
        "review",
        2,
        0.5,
    )
    assert (one["verdict"], two["verdict"], two["id"]) == ("rejected", None, "3")
    assert json.loads(one["entry"])["content"]["answer"]["text"] == "One. Two."
    with pytest.raises(InputError, match="cannot be written"):
        export_parquet(ledger, tmp_path / "nowhere" / "ledger.parquet")


def test_a_head_is_read_back_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "head.json"
    path.write_text(json.dumps(Head(count=3, digest="sha256:a").to_dict()))
    assert Head.read(path) == Head(count=3, digest="sha256:a")
    for wrong in (
        "",
        "{}",
        "[]",
        '{"count": -1, "digest": ""}',
        '{"count": true, "digest": ""}',
        '{"count": 1, "digest": 2}',
    ):
        path.write_text(wrong)
        with pytest.raises(InputError, match="no head"):
            Head.read(path)
    with pytest.raises(InputError, match="cannot be read"):
        Head.read(tmp_path / "none.json")
