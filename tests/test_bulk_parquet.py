"""Parquet output holds the rows of JSON Lines output, in order, and loses nothing on the way into columns."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

from outspan.bulk import columns, measure_file
from outspan.errors import NotInstalled
from outspan.sensors.energy import EnergySensor
from outspan.testing import FakeEmbedder

ROWS: list[dict[str, Any]] = [
    {
        "id": "a",
        "claim": "Ship 1 sank [2]. Fog came.",
        "evidence": ["Ship 1 met fog.", {"id": "x", "text": "It is."}],
    },
    {
        "id": "b",
        "claim": "Hi there!",
        "source": "Ship 2 met fog.",
        "label": "supported",
        "score": 1,
        "ok": True,
    },
    {"id": "c", "claim": "Ship 3 sank.", "evidence": [], "score": 0.5, "meta": {"votes": [1, 2]}, "n": 7},
    {
        "id": "d",
        "claim": "Fails here. Ship 4 sank.",
        "source": "Fog. Fog. Fog.",
        "n": 2**53 + 1,
        "mixed": "1",
    },
    {"id": "e", "claim": "Ship 5 sank.", "source": "x\u2028y", "mixed": 1, "big": 2**70, "half": "\udc00"},
    {"id": "f", "claim": "", "source": "x", "energy": "mine", "exact": 2**53 + 1},
    {"id": "g", "claim": "So.", "source": "x", "exact": 0.5, "nothing": None},
]


@pytest.fixture
def both(tmp_path: Path) -> tuple[Path, Path]:
    """The same rows as JSON Lines and as Parquet."""
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in ROWS) + "{}\n")
    sensor = EnergySensor(FakeEmbedder(failing=["Fails here."]), proxies=["max_cosine", "mean_cosine"])
    for ending in ("jsonl", "parquet"):
        summary = measure_file(source, tmp_path / f"{ending}.{ending}", sensor)
        assert (summary.counts.rows, summary.counts.bad_rows) == (len(ROWS), 1)
    return tmp_path / "jsonl.jsonl", tmp_path / "parquet.parquet"


def plain(value: Any, field: Any) -> Any:
    """A value of a column as it stands in JSON Lines."""
    if value is None:
        return None
    if field.metadata and field.metadata.get(b"encoding") == b"json":
        return json.loads(value)
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return dict(value)
    return value


def unmapped(sentence: dict[str, Any]) -> dict[str, Any]:
    evidence = {**sentence["evidence"], "left_out": dict(sentence["evidence"]["left_out"])}
    proxies = {} if sentence["proxies"] is None else {"proxies": sentence["proxies"]}
    return {
        **{name: value for name, value in sentence.items() if name != "proxies"},
        "evidence": evidence,
        **proxies,
    }


def test_same_rows_in_the_same_order(both: tuple[Path, Path]) -> None:
    expected = [json.loads(line) for line in both[0].read_bytes().split(b"\n") if line]
    table = pq.read_table(both[1])
    assert table.num_rows == len(ROWS)
    for row, wanted in zip(table.to_pylist(), expected, strict=True):
        found = {name: plain(value, table.schema.field(name)) for name, value in row.items()}
        found["sentences"] = [unmapped(one) for one in found["sentences"]]
        found["states"] = {name: count for name, count in found["states"].items() if count is not None}
        for name, value in found.items():
            # A column has a place in every row; where JSON Lines has none, it is null.
            assert value == wanted.get(name), (wanted["id"], name)
        assert wanted.keys() <= found.keys()


def test_types_of_columns(both: tuple[Path, Path]) -> None:
    schema = pq.read_schema(both[1])
    given = {
        "id": "string",
        "label": "string",
        "score": "double",
        "ok": "bool",
        "n": "int64",
        "nothing": "string",
        "energy": "double",
        "measured": "int64",
    }
    assert {name: str(schema.field(name).type) for name in given} == given
    as_json = {"evidence", "meta", "mixed", "big", "half", "exact"}
    assert {field.name for field in schema if field.metadata} == as_json


def test_pandas_reads_it(both: tuple[Path, Path]) -> None:
    frame = pd.read_parquet(both[1])
    assert list(frame["id"]) == [row["id"] for row in ROWS]
    assert frame["state"].tolist().count("NO_EVIDENCE") == 1
    assert frame["energy"].isna().sum() == (frame["state"] != "MEASURED").sum() > 0
    assert frame["sentences"][0][0]["proxies"]["max_cosine"] <= 1.0


def test_schema_does_not_depend_on_the_rows(tmp_path: Path) -> None:
    sensor = EnergySensor(FakeEmbedder())
    schemas = []
    for name, row in (
        ("a", {"claim": "", "source": ""}),
        ("b", {"claim": "Ship 1 sank.", "source": "Fog came."}),
    ):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(row))
        measure_file(tmp_path / f"{name}.jsonl", tmp_path / f"{name}.parquet", sensor)
        schemas.append(pq.read_schema(tmp_path / f"{name}.parquet"))
    assert schemas[0].equals(schemas[1])


def test_row_groups_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "ROWS_PER_GROUP", 3)
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    measure_file(tmp_path / "in.jsonl", tmp_path / "out.parquet", EnergySensor(FakeEmbedder()))
    assert pq.ParquetFile(tmp_path / "out.parquet").metadata.num_row_groups == 3


def test_a_member_without_a_column_is_an_error(tmp_path: Path, both: tuple[Path, Path]) -> None:
    row = json.loads(both[0].read_text(encoding="utf-8").split("\n")[0])
    row["sentences"][0]["surprise"] = 1
    changed = tmp_path / "changed.jsonl"
    changed.write_text(json.dumps(row) + "\n")
    with pytest.raises(TypeError, match="surprise"):
        columns.write_parquet(changed, tmp_path / "x.parquet", proxies=["max_cosine", "mean_cosine"])


def test_without_pyarrow_nothing_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in.jsonl").write_text(json.dumps(ROWS[0]))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    embedder = FakeEmbedder()
    with pytest.raises(NotInstalled, match=r"outspan\[parquet\]"):
        measure_file(tmp_path / "in.jsonl", tmp_path / "out.parquet", EnergySensor(embedder))
    assert embedder.calls == []
    assert list(tmp_path.iterdir()) == [tmp_path / "in.jsonl"]
