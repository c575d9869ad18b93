"""Rows in, rows out: nothing lost, every bad row accounted for, every state visible."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from outspan.bulk import RunSummary, measure_file
from outspan.bulk.rows import EvidenceShelf
from outspan.checker import check
from outspan.errors import InputError
from outspan.measurement import Regime
from outspan.sensors.energy import EnergySensor
from outspan.testing import FakeEmbedder

GOLDEN = Path(__file__).parent / "golden" / "bulk_rows.jsonl"
EVIDENCE = ["The bridge opened in 1932.", {"id": "b", "text": "Trams were withdrawn in 1961. Buses run now."}]
GOOD = {"id": "a", "claim": "The bridge opened in 1932.", "evidence": EVIDENCE}


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., tuple[RunSummary, list[dict[str, Any]], list[dict[str, Any]]]]:
    """Measures lines, given as JSON values or raw bytes; returns the summary, the rows and the bad rows."""

    def measured(
        *lines: object, sensor: EnergySensor | None = None, **options: Any
    ) -> tuple[RunSummary, list[dict[str, Any]], list[dict[str, Any]]]:
        source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
        source.write_bytes(
            b"".join(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines)
        )
        summary = measure_file(source, out, sensor or EnergySensor(FakeEmbedder()), overwrite=True, **options)
        assert sorted(path.name for path in tmp_path.iterdir() if "partial" in path.name) == []
        return summary, read(out), read(tmp_path / "out.errors.jsonl")

    return measured


def read(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    return [json.loads(line, parse_constant=pytest.fail) for line in path.read_bytes().split(b"\n") if line]


def test_row_is_what_check_says(run: Any) -> None:
    claim = "# Notes\nThe bridge opened in 1932 [2]. Hi there! Ships sank."
    sensor = EnergySensor(FakeEmbedder(), proxies=["max_cosine"])
    summary, (row,), _ = run({"claim": claim, "evidence": EVIDENCE}, sensor=sensor)
    record = check(claim, EVIDENCE, sensor).to_dict()
    assert row["sentences"] == json.loads(json.dumps(record["claims"]))
    assert row["fingerprint"] == record["fingerprint"]
    assert row["proxy_fingerprints"] == record["proxy_fingerprints"]
    energies = [one["energy"] for one in row["sentences"] if one["energy"] is not None]
    assert row["energy"] == max(energies)
    assert row["energy_mean"] == pytest.approx(math.fsum(energies) / len(energies))
    assert (row["measured"], row["sentences_total"]) == (len(energies), len(row["sentences"]))
    assert sum(row["states"].values()) == row["sentences_total"]
    assert (summary.counts.measured, summary.counts.sentences) == (len(energies), len(row["sentences"]))
    for one in row["sentences"]:
        assert claim[one["start"] : one["end"]] == one["text"]


def test_golden_rows(run: Any) -> None:
    """The format of a row. To write it anew: OUTSPAN_WRITE_GOLDEN=1, and look at the difference."""
    _, rows, errors = run(
        {
            **GOOD,
            "claim": "The trams opened the bridge in 1932 [2].",
            "group": "g",
            "label": "supported",
            "meta": [1],
        },
        {"id": "b", "claim": "It sank. Hi there!", "source": "The bridge opened in 1932.\nIt stands."},
        {"id": "c", "claim": "It sank.", "evidence": None, "source": None},
        {"id": "d", "claim": "", "evidence": []},
        {"id": "e"},
    )
    found = [*rows, *errors]
    if "OUTSPAN_WRITE_GOLDEN" in os.environ:
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in found))
    expected = read(GOLDEN)
    assert [list(row) for row in found] == [list(row) for row in expected]
    for row, wanted in zip(found, expected, strict=True):
        assert_alike(row, wanted)


def assert_alike(found: Any, wanted: Any, where: str = "") -> None:
    """Equal, up to the last digits of a float: those depend on the machine's linear algebra."""
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys(), where
        for name in wanted:
            if name not in ("fingerprint", "identity_error"):  # the regime's own tests hold it
                assert_alike(found[name], wanted[name], f"{where}.{name}")
    elif isinstance(wanted, list):
        assert len(found) == len(wanted), where
        for place, (one, other) in enumerate(zip(found, wanted, strict=True)):
            assert_alike(one, other, f"{where}[{place}]")
    elif isinstance(wanted, float):
        assert found == pytest.approx(wanted, abs=1e-9), where
    else:
        assert found == wanted, where


def test_columns_are_kept_in_order(run: Any) -> None:
    given = {
        "zeta": [1, {"ä": None}],
        **GOOD,
        "Id": 7,
        "big": 2**70,
        "text": "line\u2028sep\u0085",
        "float": 0.1,
    }
    _, (row,), _ = run(given)
    assert list(row)[: len(given)] == list(given)
    assert {name: row[name] for name in given} == given


def test_columns_with_the_names_of_results_are_renamed(run: Any) -> None:
    given = {
        "energy": 0.5,
        "input.energy": "mine",
        "state": "old",
        **GOOD,
        "input.state": 1,
        "input.input.state": 2,
    }
    _, (row,), _ = run(given)
    assert row["input.energy"] == "mine"
    assert row["input.input.energy"] == 0.5
    assert row["input.state"] == 1
    assert row["input.input.input.state"] == "old"
    assert row["state"] == "MEASURED"


def test_output_can_be_measured_again(run: Any) -> None:
    _, (first,), _ = run(GOOD)
    _, (second,), errors = run(first)
    assert errors == []
    assert second["energy"] == first["energy"]
    assert second["input.sentences"] == first["sentences"]


@pytest.mark.parametrize(
    "row",
    [
        {"evidence": []},
        {"evidence": None},
        {"source": None},
        {"source": ""},
        {"evidence": None, "source": None},
        {"evidence": [""]},
        {"evidence": ["  \n"]},
        {"evidence": [None]},
        {"evidence": ["\u200b"]},
        {"evidence": [{"id": "x", "text": None}]},
        {"evidence": [], "source": "\ufeff"},
    ],
)
def test_no_evidence_is_one_state(run: Any, row: dict[str, Any]) -> None:
    _, (found,), errors = run({"claim": "The ferry holds 90 cars.", **row})
    assert errors == []
    assert (found["state"], found["energy"], found["measured"]) == ("NO_EVIDENCE", None, 0)
    assert found["reason"]


@pytest.mark.parametrize(
    "claim", ["", "  \n", "\u200b", "Hi there! Happy to help.", "## Only a heading", "👍"]
)
@pytest.mark.parametrize("evidence", [EVIDENCE, []])
def test_no_claim(run: Any, claim: str, evidence: list[Any]) -> None:
    _, (found,), _ = run({"claim": claim, "evidence": evidence})
    assert (found["state"], found["energy"], found["measured"]) == ("NO_CLAIM", None, 0)
    assert found["reason"]


def test_failed_sentences_are_in_sight(run: Any) -> None:
    broken = EnergySensor(FakeEmbedder(failing=["Ships sank."]))
    summary, (some, all_of_it), _ = run(
        {"claim": "The bridge opened. Ships sank.", "evidence": EVIDENCE},
        {"claim": "Hi there! Ships sank.", "evidence": EVIDENCE},
        sensor=broken,
    )
    assert (some["state"], some["states"]) == ("MEASURED", {"MEASURED": 1, "FAILED": 1})
    assert (some["measured"], some["sentences_total"]) == (1, 2)
    assert (all_of_it["state"], all_of_it["states"]) == ("FAILED", {"NO_CLAIM": 1, "FAILED": 1})
    assert "fake failure" in all_of_it["reason"]
    assert summary.counts.sentence_states == {"FAILED": 2, "MEASURED": 1, "NO_CLAIM": 1}


def test_an_embedder_that_raises_fails_its_texts_only(run: Any) -> None:
    sensor = EnergySensor(FakeEmbedder(raising=["Ships sank."]))
    _, rows, _ = run(GOOD, {"claim": "Ships sank.", "evidence": EVIDENCE}, GOOD, sensor=sensor)
    assert [row["state"] for row in rows] == ["MEASURED", "FAILED", "MEASURED"]


def test_whole_claims(run: Any) -> None:
    claim = "The bridge opened in 1932. Ships sank."
    _, (row, empty), _ = run(
        {"claim": claim, "evidence": EVIDENCE}, {"claim": "", "source": "x"}, unit="whole"
    )
    (one,) = row["sentences"]
    assert (one["start"], one["end"], one["text"]) == (0, len(claim), claim)
    assert row["energy"] == row["energy_mean"] == one["energy"]
    assert empty["state"] == "NO_CLAIM"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ({"id": 1, "evidence": EVIDENCE}, "no 'claim'"),
        ({"claim": None, "evidence": EVIDENCE}, "'claim' is null"),
        ({"claim": 3}, "'claim' is a number"),
        ({"claim": True}, "'claim' is a boolean"),
        ({"claim": ["x"]}, "'claim' is a list"),
        ({"claim": "x", "evidence": "one text"}, "'evidence' is a string, not a list"),
        ({"claim": "x", "evidence": {"text": "a"}}, "'evidence' is an object"),
        ({"claim": "x", "evidence": [3]}, "evidence item 0"),
        ({"claim": "x", "evidence": ["a", ["b"]]}, "evidence item 1"),
        ({"claim": "x", "evidence": [{"text": 3}]}, "evidence item 0"),
        ({"claim": "x", "source": ["a"]}, "'source' is a list"),
        ({"claim": "x", "source": "a", "evidence": ["b"]}, "both 'evidence' and 'source'"),
        (["claim"], "not a JSON object"),
        ("claim", "not a JSON object"),
        (b"null\n", "not a JSON object"),
        (b'{"claim": "x", "evidence": [NaN]}\n', "holds NaN"),
        (b'{"claim": "x", "claim": "y"}\n', "'claim' twice"),
        (b'{"claim": "x"\n', "is not JSON"),
        (b'{"claim": "Z\xfcrich"}\n', "is not UTF-8"),
        (b'{"claim": "x", "a": ' + b'{"b":' * 960 + b"1" + b"}" * 960 + b"}\n", "nested too deeply"),
    ],
)
def test_a_bad_row_is_listed_and_the_run_goes_on(run: Any, line: object, problem: str) -> None:
    summary, rows, (error,) = run(GOOD, b"\n", line, GOOD)
    assert [row["state"] for row in rows] == ["MEASURED", "MEASURED"]
    assert error["line"] == 3
    assert problem in error["error"]
    assert error["remedy"]
    assert error["row"]
    assert (summary.counts.rows, summary.counts.bad_rows) == (2, 1)
    assert summary.errors is not None
    assert summary.errors.endswith("out.errors.jsonl")


def test_cut_off_last_line_is_a_bad_row(run: Any) -> None:
    _, rows, (error,) = run(GOOD, json.dumps(GOOD).encode()[:-20])
    assert len(rows) == 1
    assert error["line"] == 2
    assert "cut off" in error["error"]


def test_spellings_of_a_file_give_the_same_rows(run: Any) -> None:
    plain = json.dumps({**GOOD, "claim": "Zürich has trams.\u2028It has."}, ensure_ascii=False).encode()
    results = [
        run(data)[1]
        for data in (plain + b"\n", b"\xef\xbb\xbf" + plain + b"\n", plain + b"\r\n", plain, b"\n\n" + plain)
    ]
    assert all(rows == results[0] for rows in results)
    assert len(results[0]) == 1


def test_lone_surrogate_survives(run: Any) -> None:
    line = b'{"claim": "Half a pair \\ud83d here.", "source": "A pair. \\ud83d", "note": "\\udc00"}\n'
    _, (row, _), errors = run(line, GOOD)
    assert errors == []
    assert (row["claim"], row["note"]) == ("Half a pair \ud83d here.", "\udc00")
    assert row["state"] == "MEASURED"


def test_three_megabyte_line(run: Any) -> None:
    text = "The bridge opened in 1932. " * 110_000
    summary, (row, _), _ = run({"claim": "The bridge opened in 1932.", "source": text}, GOOD)
    assert row["energy"] == pytest.approx(0.0, abs=1e-9)
    assert row["source"] == text
    assert summary.counts.bad_rows == 0


def test_line_beyond_the_limit_is_a_bad_row(run: Any) -> None:
    _, rows, (error,) = run(GOOD, {**GOOD, "note": "x" * 5000}, GOOD, max_line_bytes=4000)
    assert len(rows) == 2
    assert error["line"] == 2
    assert "more than the limit of 4,000" in error["error"]
    assert len(error["row"]) <= 200


def test_duplicate_ids_are_fine(run: Any) -> None:
    _, rows, _ = run(
        GOOD, GOOD, {**GOOD, "evidence": [{"id": "x", "text": "One."}, {"id": "x", "text": "Two."}]}
    )
    assert [row["id"] for row in rows] == ["a", "a", "a"]


def test_batches_do_not_change_a_row(run: Any) -> None:
    lines = [
        {
            "id": i,
            "claim": f"Ship {i % 7} sank. The bridge opened in {1900 + i}.",
            "source": f"Ship {i % 3} sank. So.",
        }
        for i in range(40)
    ]
    one = run(*lines, batch_texts=1)[1]
    assert one == run(*lines, batch_texts=10)[1] == run(*lines)[1]
    assert [row["id"] for row in one] == list(range(40))


def test_a_text_is_embedded_once_a_batch(run: Any) -> None:
    embedder = FakeEmbedder()
    run(*[GOOD] * 30, sensor=EnergySensor(embedder))
    asked = [text for call in embedder.calls for text in call]
    assert len(asked) == len(set(asked))


def test_shelf_gives_the_same_set_back_and_stays_small() -> None:
    shelf = EvidenceShelf(max_sentences=10)
    first = shelf.get(["One. Two."])
    assert shelf.get(["One. Two."]) is first
    assert shelf.get("One. Two.") is not first
    for i in range(20):
        shelf.get([f"Number {i}. Another."])
    assert shelf._held <= 10
    assert shelf.get(["One. Two."]) is not first
    big = [f"Sentence {i}." for i in range(50)]
    assert len(shelf.get(big).sentences) == 50
    assert shelf._held <= 10


def test_no_usable_row(tmp_path: Path) -> None:
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text('{"id": 1}\nnot JSON\n')
    for _ in range(2):  # the report of the first run does not stand in the way of the second
        with pytest.raises(InputError, match=r"none of its 2 rows can be used.*out\.errors\.jsonl"):
            measure_file(source, out, EnergySensor(FakeEmbedder()))
        assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "out.errors.jsonl"]
        assert len(read(tmp_path / "out.errors.jsonl")) == 2
    source.write_text(json.dumps(GOOD))
    measure_file(source, out, EnergySensor(FakeEmbedder()))
    names = ["in.jsonl", "out.jsonl", "out.jsonl.regime.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names


@pytest.mark.parametrize("data", [b"", b"\n \n", b"\xef\xbb\xbf"])
def test_no_rows(tmp_path: Path, data: bytes) -> None:
    source = tmp_path / "in.jsonl"
    source.write_bytes(data)
    with pytest.raises(InputError, match="holds no rows"):
        measure_file(source, tmp_path / "out.jsonl", EnergySensor(FakeEmbedder()))
    assert list(tmp_path.iterdir()) == [source]


def test_utf_16_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_bytes(json.dumps(GOOD).encode("utf-16"))
    with pytest.raises(InputError, match="UTF-16.*iconv"):
        measure_file(source, tmp_path / "out.jsonl", EnergySensor(FakeEmbedder()))
    assert list(tmp_path.iterdir()) == [source]


class TestOutputPath:
    """A wrong output is refused before the model is asked for anything."""

    @pytest.mark.parametrize(
        ("name", "problem"),
        [
            (".", "is a folder"),
            ("none/out.jsonl", "folder does not exist.*mkdir"),
            ("out.csv", "names no format"),
            ("out", "names no format"),
            ("in.jsonl", "over the input"),
            ("../{}/in.jsonl", "over the input"),
            ("link.jsonl", "over the input"),
        ],
    )
    def test_refused(self, tmp_path: Path, name: str, problem: str) -> None:
        source = tmp_path / "in.jsonl"
        source.write_text(json.dumps(GOOD))
        (tmp_path / "link.jsonl").symlink_to(source)
        before = sorted(tmp_path.iterdir())
        embedder = FakeEmbedder()
        with pytest.raises(InputError, match=problem):
            measure_file(
                source, tmp_path / name.format(tmp_path.name), EnergySensor(embedder), overwrite=True
            )
        assert embedder.calls == []
        assert sorted(tmp_path.iterdir()) == before

    def test_errors_file_is_not_written_over_the_input(self, tmp_path: Path) -> None:
        source = tmp_path / "out.errors.jsonl"
        source.write_text(json.dumps(GOOD))
        with pytest.raises(InputError, match="over the input"):
            measure_file(source, tmp_path / "out.jsonl", EnergySensor(FakeEmbedder()), overwrite=True)

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
    def test_pipe(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "out.jsonl")
        (tmp_path / "in.jsonl").write_text(json.dumps(GOOD))
        with pytest.raises(InputError, match="not a regular file"):
            measure_file(tmp_path / "in.jsonl", tmp_path / "out.jsonl", EnergySensor(FakeEmbedder()))

    @pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
    def test_closed_folder(self, tmp_path: Path) -> None:
        (tmp_path / "in.jsonl").write_text(json.dumps(GOOD))
        closed = tmp_path / "closed"
        closed.mkdir(mode=0o500)
        with pytest.raises(InputError, match="may not be written"):
            measure_file(tmp_path / "in.jsonl", closed / "out.jsonl", EnergySensor(FakeEmbedder()))

    def test_report_of_a_sibling_is_not_replaced(self, tmp_path: Path) -> None:
        source = tmp_path / "in.jsonl"
        source.write_text(json.dumps(GOOD) + "\n{}\n")
        sensor = EnergySensor(FakeEmbedder())
        measure_file(source, tmp_path / "out.jsonl", sensor)
        with pytest.raises(InputError, match="belongs to another output"):
            measure_file(source, tmp_path / "out.ndjson", sensor)

    def test_symbolic_link_stays_one(self, tmp_path: Path) -> None:
        source, target = tmp_path / "in.jsonl", tmp_path / "elsewhere.jsonl"
        source.write_text(json.dumps(GOOD))
        (tmp_path / "out.jsonl").symlink_to(target)
        measure_file(source, tmp_path / "out.jsonl", EnergySensor(FakeEmbedder()))
        assert (tmp_path / "out.jsonl").is_symlink()
        assert len(read(target)) == 1


MEMORY = """
import json, resource, sys
import numpy as np
from pathlib import Path
from outspan.bulk import measure_file
from outspan.embedders.protocol import Embeddings
from outspan.sensors.energy import EnergySensor
from outspan.testing import FakeEmbedder

class Quick(FakeEmbedder):
    def embed(self, texts, /):
        rows = np.array([[1.0 + hash((text, i)) % 97 for i in range(64)] for text in texts], dtype=np.float32)
        return Embeddings(vectors=rows, tokens=np.ones(len(texts), dtype=np.int64))

folder = Path(sys.argv[1])
sensor = EnergySensor(Quick())
def run(name, rows):
    source = folder / f"{name}.jsonl"
    with source.open("w") as stream:
        for i in range(rows):
            row = {"claim": f"Ship {i} sank.", "source": f"Ship {i} met fog. It sank.", "note": f"{i:05d} " * 4000}
            stream.write(json.dumps(row) + "\\n")
    summary = measure_file(source, folder / f"{name}-out.{sys.argv[2]}", sensor)
    assert summary.counts.rows == rows
    return source.stat().st_size, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
small, first = run("small", 400)
large, second = run("large", 1600)
print(small, large, (second - first) // 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss has another unit elsewhere")
@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, ending: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(tmp_path), ending], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    small, large, grown = map(int, done.stdout.split())
    assert large > 3.9 * small > 3e7
    assert grown < 25  # MiB, for 29 MB more of input


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_the_regime_stands_beside_the_rows_part_by_part(tmp_path: Path, ending: str) -> None:
    source, out = tmp_path / "in.jsonl", tmp_path / f"out.{ending}"
    source.write_text(json.dumps(GOOD))
    sensor = EnergySensor(FakeEmbedder(), proxies=["max_cosine"])
    measure_file(source, out, sensor)
    beside = json.loads((tmp_path / f"out.{ending}.regime.json").read_text())
    assert Regime(beside["regime"]).fingerprint == sensor.fingerprint
    assert beside["unit"] == "sentences"
    for name, contract in beside["proxy_contracts"].items():
        regime = Regime({**beside["regime"], "proxy": contract})
        assert regime.fingerprint == sensor.proxy_fingerprints[name] == beside["proxies"][name]


def test_a_row_that_names_no_evidence_column_is_a_bad_row(run: Any) -> None:
    """A column by another name must not pass for evidence that is not there."""
    _, rows, errors = run(GOOD, {"claim": "It sank.", "contexts": ["It sank."]})
    assert len(rows) == 1
    assert "neither 'evidence' nor 'source'" in errors[0]["error"]
    assert "contexts" in errors[0]["error"]


def test_a_file_without_a_usable_row_says_what_is_wrong_with_the_first(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text('{"text": "It sank."}\n', encoding="utf-8")
    with pytest.raises(InputError, match="line 1: the row has no 'claim'.*Put the text"):
        measure_file(source, tmp_path / "out.jsonl", EnergySensor(FakeEmbedder()))
