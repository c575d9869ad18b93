"""The programme from file to report, the loaders by format, and the energy against the instrument's own."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from click.testing import CliRunner

from outspan.cli import cli
from outspan.errors import InputError
from outspan.lab import findings, report
from outspan.lab.datasets import read_dataset
from outspan.lab.features import SUMMARY, Measurer, Vectors, tabulate
from outspan.lab.reproduce import reproduce_halueval
from outspan.lab.run import evaluate
from outspan.sensors.energy import EnergySensor
from outspan.testing import FakeEmbedder

THINGS = [
    "kiln",
    "orchard",
    "harbour",
    "pier",
    "museum",
    "bridge",
    "river",
    "frost",
    "bowls",
    "vessel",
    "school",
    "engine",
]


def _rows(n=60):
    rng = np.random.default_rng(0)
    for i in range(n):
        a, b, c = (THINGS[int(k)] for k in rng.permutation(len(THINGS))[:3])
        source = f"The {a} was closed in {1900 + i}. The {b} stayed open all year."
        for claim, label in (
            (f"The {a} was closed.", "supported"),
            (f"A {c} burnt down twice.", "unsupported"),
        ):
            yield {
                "id": f"{i}-{label}",
                "group": f"s{i}",
                "claim": claim,
                "source": source,
                "label": label,
                "meta": {"generator": "one" if i % 2 else "two", "detectors": {"other": float(i % 3)}},
            }


@pytest.fixture
def data(tmp_path):
    return _write(tmp_path / "own.jsonl", list(_rows()))


def _write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_the_programme_writes_rows_and_a_report_from_them(data, tmp_path):
    out = tmp_path / "out"
    evaluate([read_dataset(data)], out, FakeEmbedder(), draws=50, command="outspan evaluate own.jsonl")
    rows = findings.read(out)
    tables = {row["table"] for row in rows}
    assert {
        "probe",
        "singles",
        "bundles",
        "ablations",
        "operating",
        "ranks",
        "segmentation",
        "importance",
    } <= tables
    for row in rows:
        assert row["dataset_digest"].startswith("sha256:")
        assert row["code"]
        if row["metric"] == "auc":
            assert 0 <= row["value"] <= 1
            assert row["low"] <= row["high"]
            assert 0 < row["n"] <= row["of"]
    energy = next(
        r for r in rows if r["table"] == "singles" and r["name"].startswith("energy (default regime, max")
    )
    assert energy["value"] > 0.9
    page, text = report.render(out)
    html = page.read_text(encoding="utf-8")
    assert not re.search(r"(src|href)=['\"](https?:|//)", html)
    assert "Not run, and why" in html
    assert text.read_text(encoding="utf-8").index("Shortcuts") < text.read_text(encoding="utf-8").index(
        "## own"
    )
    before = (out / findings.FILE).read_bytes()
    evaluate([read_dataset(data)], out, FakeEmbedder(), draws=50)
    assert (out / findings.FILE).read_bytes() == before  # finished by this code on these bytes


def test_a_run_that_was_not_finished_does_not_count():
    rows = [{"set": "a", "run": "1", "table": "singles"}, {"set": "a", "run": "1", "table": "done"}]
    assert findings.latest([*rows, {"set": "a", "run": "2", "table": "singles"}]) == rows[:1]


def test_a_set_with_one_class_is_listed_as_not_run(tmp_path):
    path = _write(tmp_path / "one.jsonl", [r for r in _rows(8) if r["label"] == "supported"])
    evaluate([read_dataset(path)], tmp_path / "out", FakeEmbedder(), draws=20)
    (row,) = [row for row in findings.read(tmp_path / "out") if row["table"] == "not_run"]
    assert "one class" in row["note"]


def test_energies_are_those_of_the_sensor_with_little_and_much_evidence(tmp_path):
    rows = list(_rows(40))
    long = {"id": "l", "group": "l", "label": "supported", "claim": "The pier shut. A school rose.",
            "evidence": [f"The {a} met the {b} in {i}." for i, a in enumerate(THINGS) for b in THINGS if a != b]}  # fmt: skip
    dataset = read_dataset(_write(tmp_path / "d.jsonl", [*rows[:6], long]))
    embedder = FakeEmbedder()
    measure = Measurer(Vectors(embedder, None), {})
    measure.vectors.learn(measure.texts(dataset.records))
    sensor = EnergySensor(embedder)
    for record in dataset.records:
        found = measure(record).energy
        sentences = record.claim.replace(". ", ".|").split("|")
        expected = [m.energy for m in sensor.measure(sentences, list(record.evidence))]
        np.testing.assert_allclose(found, expected, atol=1e-9)


def test_the_columns_are_the_published_ones_and_entailment_is_missing(data):
    dataset = read_dataset(data)
    measure = Measurer(Vectors(FakeEmbedder(), None), {})
    measure.vectors.learn(measure.texts(dataset.records))
    table = tabulate(dataset.records, measure)
    assert len(SUMMARY) == 19  # with the label, the twenty of the published table
    assert set(SUMMARY) <= set(table.columns)
    assert np.isnan(table.columns["max_entailment"]).all()
    assert (table.columns["energy_gap"] == 0).all()


FORMATS = {
    "halueval_summarization": ({"document": "d", "right_summary": "r\n", "hallucinated_summary": "h"}, 2),
    "halueval_qa": ({"knowledge": "k", "question": "q", "right_answer": "r", "hallucinated_answer": "h"}, 2),
    "halueval_dialogue": (
        {"knowledge": "k", "dialogue_history": "q", "right_response": "r", "hallucinated_response": "h"}, 2),
    "halueval_general": ({"ID": "1", "user_query": "q", "chatgpt_response": "a", "hallucination": "yes"}, 1),
    "pubmedqa": ({"QUESTION": "q", "CONTEXTS": ["a", "b"], "LONG_ANSWER": "c", "final_decision": "no"}, 1),
    "qags": ({"article": "a", "summary_sentences": [
        {"sentence": "s", "responses": [{"worker_id": 1, "response": r} for r in ("yes", "no", "yes")]}]}, 1),
    "wice": ({"claim": "c", "evidence": ["e"], "label": "partially_supported", "supporting_sentences": [[0]]}, 1),
    "faithbench": ({"source": "s", "summary": "t", "metadata": {"summarizer": "m"}, "annotations": [
        {"label": ["Unwanted.Intrinsic"]}, {"label": ["Benign"]}]}, 1),
    "llm_aggrefact": ({"dataset": "X", "doc": "d", "claim": "c", "label": 1}, 1),
    "casehold": ({"citing_prompt": "p", **{f"holding_{i}": str(i) for i in range(5)}, "label": "2"}, 5),
    "hotpotqa": ({"_id": "1", "question": "q", "answer": "a", "supporting_facts": [["T", 0]],
                  "context": [["T", ["x."]], ["U", ["y."]]]}, 2),
}  # fmt: skip
LABELS = {
    "qags": "supported",
    "wice": "unsupported",
    "faithbench": "unsupported",
    "llm_aggrefact": "supported",
}


@pytest.mark.parametrize("name", FORMATS)
def test_a_published_format_is_told_and_read(name, tmp_path):
    row, count = FORMATS[name]
    dataset = read_dataset(_write(tmp_path / "x.jsonl", [row]))
    assert (dataset.format, len(dataset.records)) == (name, count)
    assert len({record.group for record in dataset.records}) == 1
    assert all(record.claim == record.claim.strip() for record in dataset.records)
    if name in LABELS:
        assert dataset.records[0].label == LABELS[name]


def test_ragtruth_is_joined_with_its_sources(tmp_path):
    row = {
        "id": "1",
        "source_id": "9",
        "model": "m",
        "response": "r",
        "labels": [{"label_type": "Subtle Conflict"}],
    }
    path = _write(tmp_path / "response.jsonl", [row])
    with pytest.raises(InputError, match="source_info"):
        read_dataset(path)
    _write(tmp_path / "source_info.jsonl", [{"source_id": "9", "task_type": "QA", "source_info": "text"}])
    (record,) = read_dataset(path).records
    assert (record.label, record.evidence, record.domain) == ("unsupported", ("text",), "QA")


def test_an_unknown_label_or_column_is_refused_with_its_line(tmp_path):
    rows = [
        {"claim": "c", "evidence": ["e"], "label": "supported"},
        {"claim": "c", "evidence": ["e"], "label": "yes"},
    ]
    with pytest.raises(InputError, match=r"line 2: unknown label 'yes'"):
        read_dataset(_write(tmp_path / "x.jsonl", rows))
    with pytest.raises(InputError, match="no known format"):
        read_dataset(_write(tmp_path / "y.jsonl", [{"a": 1}]))


def test_csv_and_parquet_are_read_by_a_mapping(tmp_path):
    (tmp_path / "x.csv").write_text("hyp,prem,label\nc,e,supported\n", encoding="utf-8")
    columns = {"claim": "hyp", "evidence": "prem"}
    (one,) = read_dataset(tmp_path / "x.csv", columns=columns).records
    assert (one.claim, one.evidence) == ("c", ("e",))
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(
        pa.table({"hyp": ["c"], "prem": [["e", "f"]], "label": ["unsupported"]}), tmp_path / "x.parquet"
    )
    (one,) = read_dataset(tmp_path / "x.parquet", columns=columns).records
    assert one.evidence == ("e", "f")


def test_the_published_recipe_stands_beside_its_numbers(tmp_path):
    rows = [
        {
            "document": f"The {THINGS[i % 12]} was sold in {i}.",
            "right_summary": f"The {THINGS[i % 12]} was sold.",
            "hallucinated_summary": f"A {THINGS[(i + 5) % 12]} fell.",
        }
        for i in range(60)
    ]
    dataset = read_dataset(_write(tmp_path / "s.json", rows), "halueval_summarization")
    lines = reproduce_halueval(dataset, FakeEmbedder(), draws=50)
    assert [line.published for line in lines[:5]] == [0.7120, 0.7284, 0.7284, 0.7271, 0.7271]
    assert all(line.ours.value is not None for line in lines)


def test_the_report_command_names_a_folder_without_findings(tmp_path):
    shown = CliRunner().invoke(cli, ["report", str(tmp_path)])
    assert isinstance(shown.exception, InputError)
