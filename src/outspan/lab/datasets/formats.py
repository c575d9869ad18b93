"""Published formats, one reader each: a row of the corpus to one or more records.

A format is told by its columns. Labels are mapped by name; one that is not named here is an error. Where a
corpus has a correct and a wrong text in a row, both become records of one group, so that a split by source
never parts them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from outspan.canonical import digest_text
from outspan.errors import InputError
from outspan.lab.datasets.record import Record, make_record, map_label

Row: TypeAlias = dict[str, Any]

OWN: Mapping[str, str | None] = {
    "supported": "supported",
    "unsupported": "unsupported",
    "None": None,
    "": None,
}
MADE = "Made by a model that was asked for errors: a set of one author's habits. Read the probe first."


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """How one corpus writes its rows."""

    name: str
    columns: frozenset[str]
    """Columns by which a row is known."""
    licence: str
    labels: Mapping[str, str | None]
    rows: Callable[[Row, int, Format, Path], Iterable[Record]]
    caveat: str = ""

    def read(self, row: Row, line: int, path: Path) -> list[Record]:
        """The records of one row."""
        return list(self.rows(row, line, self, path))

    def label(self, value: object, path: Path, line: int) -> str | None:
        """The record's label for the corpus's own."""
        return map_label(value, self.labels, path=path, line=line)


def source_of(*texts: str) -> str:
    """A group's name for corpora that name no document: the digest of its text."""
    return digest_text("\n".join(texts))[7:23]


def _as_list(value: object) -> list[str]:
    """Passages from a list, or from a cell that holds a JSON list or one text."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        value = json.loads(value)
    if value is None:
        return []
    if isinstance(value, str):
        return [value]
    assert isinstance(value, list)
    return [str(item["text"]) if isinstance(item, Mapping) else str(item) for item in value]


def _outspan(row: Row, line: int, kind: Format, path: Path) -> Iterable[Record]:
    meta = row.get("meta") or {}
    given = row.get("evidence")
    evidence = _as_list(row.get("source") if given is None else given)
    detectors = {k: float(v) for k, v in (meta.get("detectors") or {}).items() if v is not None}
    votes = meta.get("votes")
    disagreed = len(set(votes or ())) > 1
    worst_and_best = meta.get("worst") is not None and meta.get("worst") != meta.get("best")
    yield make_record(
        id=str(row.get("id", line)),
        group=str(row.get("group") or source_of(*evidence)),
        claim=row["claim"],
        evidence=evidence,
        label=kind.label(row.get("label"), path, line),
        domain=str(row.get("domain") or meta.get("domain") or ""),
        generator=str(row.get("generator") or meta.get("generator") or ""),
        detectors=detectors,
        flagged=disagreed or worst_and_best,
    )


def _pair(right: str, wrong: str, source: Callable[[Row], list[str]]) -> Any:
    """A reader for corpora with a correct and a wrong text in one row."""

    def rows(row: Row, line: int, kind: Format, path: Path) -> Iterable[Record]:  # noqa: ARG001  one shape
        evidence = source(row)
        for column, label in ((right, "supported"), (wrong, "unsupported")):
            yield make_record(
                id=f"{line}-{label}",
                group=source_of(*evidence),
                claim=row[column],
                evidence=evidence,
                label=label,
            )

    return rows


def _halueval_general(row: Row, line: int, kind: Format, path: Path) -> Iterable[Record]:
    # These rows have no evidence: they can be counted and probed, and no energy is defined for them.
    label = kind.label(row["hallucination"], path, line)
    query = str(row["user_query"])
    yield make_record(
        id=str(row.get("ID", line)),
        group=source_of(query),
        claim=row["chatgpt_response"],
        evidence=[],
        label=label,
        generator="ChatGPT",
    )


def _pubmedqa(row: Row, line: int, kind: Format, path: Path) -> Iterable[Record]:  # noqa: ARG001  one shape
    pmid = str(row.get("_key", line))
    # final_decision answers the question and says nothing of support: conclusions are their authors' own.
    yield make_record(
        id=pmid,
        group=pmid,
        claim=row["LONG_ANSWER"],
        evidence=list(row["CONTEXTS"]),
        label="supported",
        generator="human",
    )


def _qags(row: Row, line: int, kind: Format, path: Path) -> Iterable[Record]:
    for number, sentence in enumerate(row["summary_sentences"]):
        votes = [kind.label(answer["response"], path, line) for answer in sentence["responses"]]
        yes = votes.count("supported")
        tie = 2 * yes == len(votes)
        label = None if tie else ("supported" if 2 * yes > len(votes) else "unsupported")
        yield make_record(
            id=f"{line}-{number}",
            group=source_of(row["article"]),
            claim=sentence["sentence"],
            evidence=[row["article"]],
            label=label,
            flagged=len(set(votes)) > 1,
        )


def _wice(row: Row, line: int, kind: Format, path: Path) -> Iterable[Record]:
    meta = row.get("meta") or {}
    yield make_record(
        id=str(meta.get("id", line)),
        group=str(meta.get("claim_title") or source_of(*row["evidence"])),
        claim=row["claim"],
        evidence=row["evidence"],
        label=kind.label(row["label"], path, line),
        generator="human",
    )


def _faithbench(row: Row, line: int, kind: Format, path: Path) -> Iterable[Record]:
    worst = {str(note["label"][0] if isinstance(note["label"], list) else note["label"]).split(".")[0]
             for note in row["annotations"]}  # fmt: skip
    mapped = {kind.label(name, path, line) for name in worst}
    order = ("unsupported", None) if worst else ()
    label = next((one for one in order if one in mapped), "supported")
    meta = row.get("metadata") or {}
    yield make_record(
        id=str(row.get("sample_id", line)),
        group=source_of(row["source"]),
        claim=row["summary"],
        evidence=[row["source"]],
        label=label,
        generator=str(meta.get("summarizer", "")),
        detectors={
            k: float(v) for k, v in meta.items() if isinstance(v, int | float) and k != "raw_sample_id"
        },
        flagged=len(mapped) > 1,
    )


def _ragtruth(row: Row, line: int, kind: Format, path: Path) -> Iterable[Record]:
    # response.jsonl of the corpus, joined with source_info.jsonl beside it.
    source = _ragtruth_sources(path).get(str(row["source_id"]))
    if source is None:
        raise InputError(f"source {row['source_id']} is not in source_info.jsonl", path=path, line=line)
    for span in row["labels"]:
        kind.label(span["label_type"], path, line)
    yield make_record(
        id=str(row.get("id", line)),
        group=str(row["source_id"]),
        claim=row["response"],
        evidence=[source[1]],
        label="unsupported" if row["labels"] else "supported",
        domain=source[0],
        generator=str(row["model"]),
    )


_SOURCES: dict[Path, dict[str, tuple[str, str]]] = {}


def _ragtruth_sources(path: Path) -> dict[str, tuple[str, str]]:
    """Task and text by id, from the file that lies beside the responses; read once."""
    beside = path.with_name("source_info.jsonl")
    if beside not in _SOURCES:
        if not beside.exists():
            raise InputError("there is no such file", path=beside, remedy="Put source_info.jsonl beside it")
        found = {}
        for text in beside.read_text(encoding="utf-8").splitlines():
            row = json.loads(text)
            info = row["source_info"]
            told = info if isinstance(info, str) else json.dumps(info, ensure_ascii=False)
            found[str(row["source_id"])] = (str(row["task_type"]), told)
        _SOURCES[beside] = found
    return _SOURCES[beside]


def _aggrefact(row: Row, line: int, kind: Format, path: Path) -> Iterable[Record]:
    yield make_record(
        id=str(line),
        group=source_of(row["doc"]),
        claim=row["claim"],
        evidence=[row["doc"]],
        label=kind.label(row["label"], path, line),
        domain=str(row["dataset"]),
    )


def _casehold(row: Row, line: int, kind: Format, path: Path) -> Iterable[Record]:
    right = str(row["label"])
    kind.label(right, path, line)
    for number in range(5):
        yield make_record(
            id=f"{row.get('example_id', line)}-{number}",
            group=source_of(row["citing_prompt"]),
            claim=row[f"holding_{number}"],
            evidence=[row["citing_prompt"]],
            label="supported" if str(number) == right.removesuffix(".0") else "unsupported",
        )


def _hotpotqa(row: Row, line: int, kind: Format, path: Path) -> Iterable[Record]:  # noqa: ARG001  one shape
    # The question with its answer is the claim; it rests on the paragraphs that are marked as its support.
    marked = {title for title, _ in row["supporting_facts"]}
    for label, chosen in (("supported", True), ("unsupported", False)):
        evidence = ["".join(parts) for title, parts in row["context"] if (title in marked) == chosen]
        yield make_record(
            id=f"{row['_id']}-{label}",
            group=str(row["_id"]),
            claim=f"{row['question']} {row['answer']}",
            evidence=evidence,
            label=label,
        )


def _format(name: str, columns: str, rows: Any, labels: Mapping[str, str | None], **about: str) -> Format:
    return Format(name=name, columns=frozenset(columns.split()), labels=labels, rows=rows, **about)


_PAIRED = {"right": "supported", "hallucinated": "unsupported"}
_GRADES: Mapping[str, str | None] = {
    "supported": "supported",
    "partially_supported": "unsupported",
    "not_supported": "unsupported",
}
_PLACES = {f"{i}{end}": "supported" for i in range(5) for end in ("", ".0")}
_SPANS = {
    f"{how} {what}": "unsupported" for how in ("Evident", "Subtle") for what in ("Conflict", "Baseless Info")
}
_ALL = (
    _format("outspan", "claim label", _outspan, OWN, licence="see where the file comes from"),
    _format(
        "halueval_summarization",
        "document right_summary hallucinated_summary",
        _pair("right_summary", "hallucinated_summary", lambda row: [row["document"]]),
        _PAIRED,
        licence="MIT",
        caveat=MADE,
    ),
    _format(
        "halueval_qa",
        "knowledge question right_answer hallucinated_answer",
        _pair("right_answer", "hallucinated_answer", lambda row: [row["knowledge"]]),
        _PAIRED,
        licence="MIT",
        caveat=MADE,
    ),
    _format(
        "halueval_dialogue",
        "knowledge dialogue_history right_response hallucinated_response",
        _pair("right_response", "hallucinated_response", lambda row: [row["knowledge"]]),
        _PAIRED,
        licence="MIT",
        caveat=MADE,
    ),
    _format(
        "halueval_general",
        "user_query chatgpt_response hallucination",
        _halueval_general,
        {"yes": "unsupported", "no": "supported"},
        licence="MIT",
        caveat="No evidence in the corpus: containment is not defined, and nothing is measured.",
    ),
    _format(
        "pubmedqa",
        "QUESTION CONTEXTS LONG_ANSWER",
        _pubmedqa,
        {"author's conclusion": "supported"},
        licence="MIT",
        caveat="Supported rows only; nobody checked them sentence by sentence.",
    ),
    _format(
        "qags",
        "article summary_sentences",
        _qags,
        {"yes": "supported", "no": "unsupported"},
        licence="none stated",
        caveat="Labels are majorities of three crowd workers, who often disagreed.",
    ),
    _format(
        "wice",
        "claim evidence label supporting_sentences",
        _wice,
        _GRADES,
        licence="annotations ODC-BY",
        caveat="Most unsupported rows are partially supported.",
    ),
    _format(
        "faithbench",
        "source summary annotations",
        _faithbench,
        {"Unwanted": "unsupported", "Questionable": None, "Benign": "supported"},
        licence="CC BY-NC-SA 4.0",
        caveat="Rows were kept because other detectors disagreed on them.",
    ),
    _format(
        "ragtruth",
        "source_id model labels response",
        _ragtruth,
        _SPANS,
        licence="MIT",
        caveat="Some span labels dispute their passage.",
    ),
    _format(
        "llm_aggrefact",
        "dataset doc claim label",
        _aggrefact,
        {"0": "unsupported", "1": "supported"},
        licence="CC BY-ND 4.0",
        caveat="A collection of corpora; the domain is the corpus.",
    ),
    _format(
        "casehold",
        "citing_prompt holding_0 holding_4 label",
        _casehold,
        _PLACES,
        licence="Apache-2.0",
        caveat="Wrong holdings are real ones of other cases: another subject, not another claim.",
    ),
    _format(
        "hotpotqa",
        "_id question answer context supporting_facts",
        _hotpotqa,
        {"marked paragraphs": "supported", "the other paragraphs": "unsupported"},
        licence="CC BY-SA 4.0",
        caveat="Unsupported rows are the same claim against the distractors.",
    ),
)
FORMATS = {kind.name: kind for kind in _ALL}
"""Formats by name."""
