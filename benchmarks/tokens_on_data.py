"""The sensor ``tokens`` and attribution on labelled data: ranking, pointing at words, finding support, cost.

    python benchmarks/tokens_on_data.py DATA_DIR [-o ROWS.jsonl] [--wice-sources 150]

Everything is measured in the default regime. Four tables:

* ranking      AUC with unsupported as positive; an example with several sentences has their mean. Intervals
               are 95 % percentile intervals of a bootstrap over sources (1,000 draws), differences paired.
               *words not in the evidence* is the share of content words that the evidence does not hold
               verbatim, *length* the number of content words: what plain counting gives.
* words        each content word of a claim against human spans: AUC, and F1 at the cut that does best on one
               half of the sources, reported on the other half. *every word listed* is the F1 of no choice.
* support      the sentences that WiCE's annotators named, in the ranking of each way to attribute: MRR of the
               first, recall among the first k. Where several sets were annotated, the best one counts.
* citations    each supported WiCE claim as if it cited its own page, and as if it cited the other of two.
* cost         processor seconds of the energy alone and with the sensor, nothing cached, in turns.

WiCE is measured on a sample of its sources, drawn with a fixed seed, since its evidence is large; the row
says how many. Printed and written as JSON Lines.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from labelled import (
    Array,
    Dataset,
    Vectors,
    auc,
    bootstrap_auc,
    chooses,
    read_dataset,
    read_faithbench_sentences,
    read_rows,
    say,
    source_resamples,
    with_foreign_abstracts,
)
from outspan.claims import Claim, split_claims, whole_claim
from outspan.embedders import VectorCache, embed_checked, load_embedder
from outspan.evidence import EvidenceSentence, EvidenceSet
from outspan.measurement import Measurement
from outspan.sensors.attribution import AttributionSensor, Support, rank_support
from outspan.sensors.energy import EnergySensor
from outspan.sensors.inspection import inspect_claim
from outspan.sensors.reading import SensorContext
from outspan.sensors.token_store import TokenStore
from outspan.sensors.tokens import TokenSensor, content_words
from outspan.texts import Citation, Kind

Row: TypeAlias = dict[str, Any]
Spans: TypeAlias = list[tuple[int, int]]

DRAWS, SEED = 1000, 0
KEPT = 3 * 1024**3
CUTS = np.arange(0.05, 0.95, 0.05)
SCORES = ("tokens", "energy", "max_cosine", "words not in the evidence", "length")


class Instrument:
    """The default regime with the sensor beside it, and every content word listed."""

    def __init__(self) -> None:
        self.embedder = load_embedder()
        self._folder = tempfile.TemporaryDirectory()
        self._cache = VectorCache(Path(self._folder.name) / "vectors.sqlite3")
        self.sensor = EnergySensor(
            self.embedder,
            proxies=["max_cosine"],
            sensors=[TokenSensor(outside_from=0.0)],
            cache=self._cache,
        )
        # Several tables look at the same evidence: here it is kept in memory as a whole.
        self.store = TokenStore(self.embedder, max_bytes=KEPT)
        self.sensor._token_store = self.store

    def context(self, evidence: EvidenceSet, claims: Sequence[Claim]) -> SensorContext:
        """What a sensor would be given."""
        texts = list(dict.fromkeys([*(c.core for c in claims), *(e.core for e in evidence.sentences)]))
        found = embed_checked(self.store, texts, cache=self._cache)
        vectors = dict(zip(texts, found.vectors, strict=True))
        return SensorContext(self.embedder, vectors=vectors, tokens=self.store)


def as_claim(core: str) -> Claim:
    """A sentence that was split already."""
    return Claim(
        text=core,
        core=core,
        start=0,
        end=len(core),
        kind=Kind.SENTENCE,
        context="",
        citations=(),
        unmeasured=None,
    )


def as_evidence(cores: Iterable[str]) -> EvidenceSet:
    """Sentences that were split already, as one set."""
    sentences = tuple(
        EvidenceSentence(
            id=f"0#{i}", item_id="0", start=0, end=len(core), text=core, core=core, multiplicity=1
        )
        for i, core in enumerate(cores)
    )
    return EvidenceSet(sentences=sentences, supplied=1, found=len(sentences), items=("0",))


def sampled(dataset: Dataset, sources: int) -> Dataset:
    """The examples of some sources."""
    names = sorted({example.group for example in dataset.examples})
    kept = set(random.Random(SEED).sample(names, min(sources, len(names))))
    return replace(dataset, examples=tuple(one for one in dataset.examples if one.group in kept))


# ranking


def rank_scores(dataset: Dataset, instrument: Instrument) -> dict[str, Array]:
    """For each example the mean over its sentences of every score, larger meaning further outside."""
    scores: dict[str, list[float]] = {name: [] for name in SCORES}
    for example in dataset.examples:
        claims = [as_claim(core) for core in example.claim]
        measured = instrument.sensor.measure(claims, as_evidence(example.evidence))
        held = {text[a:b].lower() for text in example.evidence for a, b in content_words(text)}
        for name, value in sentence_scores(example.claim, measured, held).items():
            scores[name].append(value)
    return {name: np.asarray(values) for name, values in scores.items()}


def sentence_scores(cores: Sequence[str], measured: Sequence[Measurement], held: set[str]) -> Row:
    """Means over the sentences of one example that have the score."""
    words = [core[a:b].lower() for core in cores for a, b in content_words(core)]
    tokens = [one.sensors["tokens"].score for one in measured]
    given = [score for score in tokens if score is not None]
    energies = [one.energy for one in measured if one.energy is not None]
    cosines = [one.proxies["max_cosine"] for one in measured]
    return {
        "tokens": float(np.mean(given)) if given else 0.0,
        "energy": float(np.mean(energies)),
        "max_cosine": -float(np.mean([c for c in cosines if c is not None])),
        "words not in the evidence": float(np.mean([word not in held for word in words])) if words else 0.0,
        "length": float(len(words)),
    }


def ranking_rows(dataset: Dataset, instrument: Instrument) -> Iterator[Row]:
    """A row for each score."""
    scores = rank_scores(dataset, instrument)
    unsupported = np.array([example.unsupported for example in dataset.examples])
    weights = source_resamples([example.group for example in dataset.examples], DRAWS, SEED)
    draws = {name: bootstrap_auc(values, unsupported, weights) for name, values in scores.items()}
    for name, values in scores.items():
        row: Row = {
            "table": "ranking",
            "set": dataset.name,
            "score": name,
            "n": len(unsupported),
            "unsupported": int(unsupported.sum()),
            "sources": len({example.group for example in dataset.examples}),
            "digest": dataset.digest,
            "auc": auc(values, unsupported),
            "interval": interval(draws[name]),
        }
        for other in ("energy", "max_cosine"):
            if name != other:
                row[f"above {other}"] = auc(values, unsupported) - auc(scores[other], unsupported)
                row[f"above {other}, interval"] = interval(draws[name] - draws[other])
        yield row


def interval(values: Array) -> list[float]:
    """95 % percentile interval."""
    return [float(value) for value in np.nanpercentile(values, [2.5, 97.5])]


# words


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Content words of the claims of a set."""

    group: NDArray[np.str_]
    claim: NDArray[np.str_]
    value: Array
    absent: Array
    """1.0 where the evidence does not hold the word verbatim."""
    marked: NDArray[np.bool_]
    """Whether a human span touches it."""


def wice_spans(row: Row) -> Spans:
    """Runs of tokens that the annotators found unsupported."""
    return [(start, end) for start, end in row["meta"]["unsupported_spans"]]


def faithbench_spans(row: Row) -> Spans:
    """Spans that some annotator called unwanted."""
    return [(span["start"], span["end"]) for span in row["meta"]["spans"] if span["fine"] == "unwanted"]


def words_of(rows: Iterable[Row], spans: Callable[[Row], Spans], instrument: Instrument) -> Words:
    """Every content word that could be placed in its claim."""
    found: list[tuple[str, str, float, float, bool]] = []
    for row in rows:
        evidence = EvidenceSet.of(row["evidence"] if row["evidence"] is not None else row["source"])
        claims = split_claims(row["claim"])
        marked = spans(row)
        held = {e.core[a:b].lower() for e in evidence.sentences for a, b in content_words(e.core)}
        for claim, one in zip(claims, instrument.sensor.measure(claims, evidence), strict=True):
            for finding in one.sensors["tokens"].findings:
                start, end = finding.start + claim.start, finding.end + claim.start
                touched = any(start < b and a < end for a, b in marked)
                assert finding.value is not None
                absent = float(finding.text.lower() not in held)
                found.append((row["group"], row["id"], finding.value, absent, touched))
    groups, names, values, absences, touches = zip(*found, strict=True)
    return Words(
        group=np.array(groups),
        claim=np.array(names),
        value=np.array(values),
        absent=np.array(absences),
        marked=np.array(touches),
    )


def word_rows(name: str, words: Words) -> Iterator[Row]:
    """AUC by word, pooled and within claims, and F1 at a cut chosen on the other half of the sources."""
    weights = source_resamples(list(words.group), 200, SEED)
    choosing = np.array([chooses(group) for group in words.group])
    for label, values in (("tokens", words.value), ("not in the evidence", words.absent)):
        on_half = [f1(values[choosing] >= cut, words.marked[choosing]) for cut in CUTS]
        cut = float(CUTS[int(np.argmax(on_half))])
        report = ~choosing
        yield {
            "table": "words",
            "set": name,
            "score": label,
            "words": len(values),
            "marked": int(words.marked.sum()),
            "sources": len(set(words.group)),
            "auc": auc(values, words.marked),
            "interval": interval(weighted_auc(values, words.marked, weights)),
            "within": within_claims(values, words),
            "cut": cut,
            "f1": f1(values[report] >= cut, words.marked[report]),
            "every word listed": f1(np.ones(int(report.sum()), bool), words.marked[report]),
        }


def weighted_auc(values: Array, marked: NDArray[np.bool_], weights: Array) -> Array:
    """AUC (draws,) with a weight for each word; by ranks, since pairs of words are too many to list."""
    order = np.argsort(values, kind="stable")
    ordered, up = values[order], weights[:, order] * marked[order]
    down = weights[:, order] * ~marked[order]
    first = np.searchsorted(ordered, ordered, side="left")
    last = np.searchsorted(ordered, ordered, side="right")
    below = np.concatenate([np.zeros((len(weights), 1)), np.cumsum(down, axis=1)], axis=1)
    won = (up * 0.5 * (below[:, first] + below[:, last])).sum(axis=1)
    pairs = up.sum(axis=1) * down.sum(axis=1)
    return np.asarray(np.where(pairs > 0, won / np.where(pairs > 0, pairs, 1.0), np.nan))


def within_claims(values: Array, words: Words) -> float:
    """AUC over pairs of words of one claim: how a claim as a whole lies plays no part."""
    won = pairs = 0.0
    for name in np.unique(words.claim):
        own = words.claim == name
        up, down = int(words.marked[own].sum()), int((~words.marked[own]).sum())
        if up and down:
            won += auc(values[own], words.marked[own]) * up * down
            pairs += up * down
    return won / pairs


def f1(listed: NDArray[np.bool_], marked: NDArray[np.bool_]) -> float:
    """Harmonic mean of precision and recall of the listed words."""
    return float(2 * (listed & marked).sum() / max(1, listed.sum() + marked.sum()))


# support

WAYS = ("cosine", "leave-one-out", "share of the projection", "coverage", "support")
AT = (1, 3, 5, 10)


def support_rows(rows: Sequence[Row], instrument: Instrument) -> Iterator[Row]:
    """MRR and recall@k of the annotated sentences, with differences to the cosine over sources."""
    found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    groups: list[str] = []
    for row in rows:
        first = firsts(EvidenceSet.of(row["evidence"]))
        named = [one for one in row["meta"]["supporting_sentences"] if one]
        annotated = [{first.get(i, i) for i in one} for one in named]
        if annotated:
            groups.append(row["group"])
            for way, ranking in rankings(row, instrument).items():
                found[way].append(retrieval(ranking, annotated))
    weights = source_resamples(groups, DRAWS, SEED)
    weights /= weights.sum(axis=1, keepdims=True)
    for way in WAYS:
        row = {"table": "support", "set": "wice_claims", "score": way, "n": len(groups)}
        for measure in found[way][0]:
            values = np.array([one[measure] for one in found[way]])
            plain = np.array([one[measure] for one in found["cosine"]])
            row[measure] = float(values.mean())
            row[f"{measure} above cosine"] = float((values - plain).mean())
            row[f"{measure} above cosine, interval"] = interval(weights @ (values - plain))
        yield row


def firsts(evidence: EvidenceSet) -> dict[int, int]:
    """Position of a sentence that repeats an earlier one, to that one's: a ranking holds it once."""
    repeats = [one for one in evidence.left_out if one.reason.startswith("repeats ")]
    return {
        int(one.id.partition("#")[0]): int(one.reason.removeprefix("repeats ").partition("#")[0])
        for one in repeats
    }


def rankings(row: Row, instrument: Instrument) -> dict[str, list[int]]:
    """Positions in ``row["evidence"]``, best first, by each way; a position stands once."""
    claim, evidence = whole_claim(row["claim"]), EvidenceSet.of(row["evidence"])
    supports = rank_support([claim], evidence, instrument.context(evidence, [claim]))[0]
    parts = inspect_claim(claim, evidence, instrument.sensor).contributions
    by_rise = sorted(parts, key=lambda part: -(part.energy_rise or 0.0))

    def ids(key: Callable[[Support], float]) -> list[str]:
        return [one.sentence.id for one in sorted(supports, key=key, reverse=True)]

    found = {
        "cosine": ids(lambda one: one.similarity),
        "leave-one-out": [part.evidence_id for part in by_rise],
        "share of the projection": [part.evidence_id for part in parts],
        "coverage": ids(lambda one: one.coverage or 0.0),
        "support": ids(lambda one: one.support),
    }
    return {
        way: list(dict.fromkeys(int(one.partition("#")[0]) for one in names)) for way, names in found.items()
    }


def retrieval(ranking: Sequence[int], annotated: Sequence[set[int]]) -> dict[str, float]:
    """Reciprocal rank of the first annotated sentence, and recall of the best annotated set."""
    wanted = set().union(*annotated)
    first = next((place for place, i in enumerate(ranking, start=1) if i in wanted), None)
    recalls = {f"recall@{k}": max(len(one & set(ranking[:k])) / len(one) for one in annotated) for k in AT}
    return {"mrr": 0.0 if first is None else 1.0 / first, **recalls}


# citations


def citation_rows(rows: Sequence[Row], instrument: Instrument) -> Iterator[Row]:
    """How often a right and a wrong citation is flagged, the claim's own page and another being at hand.

    The next page in the file is an easy wrong one; the page of nearest centroid is the hard one.
    """
    rows = [row for row in rows if row["label"] == "supported"]
    pages = [" ".join(text for text in row["evidence"]) for row in rows]
    means = np.array([page_mean(row, instrument) for row in rows])
    near = means @ means.T
    names = np.array([row["group"] for row in rows])
    near[names[:, None] == names[None, :]] = -np.inf
    sensor = AttributionSensor()
    for label, other_of in (
        ("next page", lambda i: (i + 1) % len(rows)),
        ("nearest page", lambda i: int(near[i].argmax())),
    ):
        flagged: dict[str, list[bool]] = {"right": [], "wrong": []}
        for i, row in enumerate(rows):
            items = [{"id": "own", "text": pages[i]}, {"id": "other", "text": pages[other_of(i)]}]
            evidence = EvidenceSet.of(items)
            for kind, number in (("right", 1), ("wrong", 2)):
                claim = replace(
                    whole_claim(row["claim"]), citations=(Citation(start=0, end=1, text=f"[{number}]"),)
                )
                (reading,) = sensor.read([claim], evidence, instrument.context(evidence, [claim]))
                flagged[kind].append("citation_mismatch" in reading.flags)
        yield {
            "table": "citations",
            "set": f"wice_claims, {label}",
            "n": len(rows),
            "right flagged": float(np.mean(flagged["right"])),
            "wrong flagged": float(np.mean(flagged["wrong"])),
        }


def page_mean(row: Row, instrument: Instrument) -> Array:
    """Unit mean of the vectors of a page."""
    evidence = EvidenceSet.of(row["evidence"])
    mean = np.mean(list(instrument.context(evidence, []).vectors.values()), axis=0)
    return np.asarray(mean / np.linalg.norm(mean))


# cost


def cost_row(rows: Sequence[Row], embedder: Any, rounds: int = 5) -> Row:
    """Processor seconds for the same rows without and with the sensor, nothing cached, in turns; medians.

    Of wall-clock time the fastest rounds are compared, since other work on the machine only ever adds to it.
    """
    requests = [
        (split_claims(row["claim"]), EvidenceSet.of(row["evidence"] or row["source"])) for row in rows
    ]
    seconds: dict[str, list[float]] = {"energy": [], "with tokens": []}
    wall: dict[str, list[float]] = {"energy": [], "with tokens": []}
    for _ in range(rounds):
        for label, sensors in (("energy", []), ("with tokens", ["tokens"])):
            sensor = EnergySensor(embedder, sensors=sensors)
            begun, clock = time.process_time(), time.perf_counter()
            sensor.measure_many(requests)
            seconds[label].append(time.process_time() - begun)
            wall[label].append(time.perf_counter() - clock)
    ratios = [b / a for a, b in zip(seconds["energy"], seconds["with tokens"], strict=True)]
    return {
        "table": "cost",
        "set": rows[0]["id"].partition("-")[0],
        "rows": len(rows),
        "rounds": rounds,
        **{label: statistics.median(values) for label, values in seconds.items()},
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "wall ratio of the fastest": min(wall["with tokens"]) / min(wall["energy"]),
    }


def rows_of(folder: Path, name: str, sources: int | None = None) -> list[Row]:
    """Rows of a file with evidence; of a sample of its sources where it is large."""
    rows = [row for row in read_rows(folder / f"{name}.jsonl") if row["evidence"] or row["source"]]
    if sources is None:
        return rows
    names = sorted({row["group"] for row in rows})
    kept = set(random.Random(SEED).sample(names, min(sources, len(names))))
    return [row for row in rows if row["group"] in kept]


def measure_all(folder: Path, wice_sources: int) -> Iterator[Row]:
    """Every table, row by row."""
    instrument = Instrument()
    yield cost_row(rows_of(folder, "qags_cnndm")[:40], instrument.embedder)
    yield cost_row(rows_of(folder, "wice_claims")[:6], instrument.embedder)
    vectors = Vectors(None)
    pubmedqa = read_dataset(folder, "pubmedqa")
    vectors.learn([text for example in pubmedqa.examples for text in example.evidence])
    for dataset in (
        read_dataset(folder, "qags_cnndm"),
        read_dataset(folder, "qags_xsum"),
        sampled(read_dataset(folder, "wice_claims"), wice_sources),
        read_faithbench_sentences(folder),
        with_foreign_abstracts(pubmedqa, vectors),
    ):
        say(f"ranking: {dataset.name}")
        yield from ranking_rows(dataset, instrument)
    say("words")
    wice_tokens = rows_of(folder, "wice_tokens", wice_sources)
    yield from word_rows("wice_tokens", words_of(wice_tokens, wice_spans, instrument))
    faithbench = [row for row in rows_of(folder, "faithbench") if row["meta"]["fine"] != "conflict"]
    yield from word_rows("faithbench", words_of(faithbench, faithbench_spans, instrument))
    say("support")
    wice_claims = rows_of(folder, "wice_claims", wice_sources)
    yield from support_rows(wice_claims, instrument)
    yield from citation_rows(wice_claims, instrument)


def main() -> None:
    """Measure, print Markdown, write rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("-o", "--out", type=Path, help="JSON Lines of all rows")
    parser.add_argument("--wice-sources", type=int, default=150)
    arguments = parser.parse_args()
    rows = []
    for row in measure_all(arguments.data, arguments.wice_sources):
        rows.append(row)
        print(json.dumps(row), flush=True)
    if arguments.out is not None:
        arguments.out.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
