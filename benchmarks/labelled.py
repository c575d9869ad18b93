"""Labelled claims with their evidence as vectors, for the benchmarks that look at proxies.

One reader for the record shape of the data folder (``id, group, claim, evidence | source, label, meta``), one
embedding pass, one vector cache. Nothing of the texts leaves this module but their vectors and counts.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from outspan.claims import split_claims
from outspan.embedders import VectorCache, embed_checked, load_embedder
from outspan.evidence import EvidenceSet

Array: TypeAlias = NDArray[np.float64]

FILES = ("qags_cnndm", "qags_xsum", "wice_claims", "faithbench", "pubmedqa")


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """What is ranked as one: one or more claim sentences against one evidence set."""

    group: str
    unsupported: bool
    claim: tuple[str, ...]
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A table's worth of examples."""

    name: str
    examples: tuple[Example, ...]
    digest: str
    """Digest of the file that they come from."""
    left_out: int
    """Rows, or sentences where those are ranked, that have no label, no claim or no evidence."""


class Vectors:
    """Vectors by text, float64, each text embedded once."""

    def __init__(self, cache: Path | None) -> None:
        self.embedder = load_embedder()
        self._cache = VectorCache(cache)
        self._row: dict[str, int] = {}
        self._vectors = np.zeros((0, self.embedder.identity.dimension), dtype=np.float32)

    def learn(self, texts: Sequence[str]) -> None:
        """Embed what is not known yet; raises when a text has no vector, since a gap would bias a
        comparison."""
        fresh = [text for text in dict.fromkeys(texts) if text not in self._row]
        found = embed_checked(self.embedder, fresh, cache=self._cache)
        if found.failures:
            raise RuntimeError(f"{len(found.failures)} texts have no vector: {set(found.failures.values())}")
        self._row.update({text: len(self._row) + i for i, text in enumerate(fresh)})
        self._vectors = np.vstack([self._vectors, found.vectors])

    def of(self, texts: Sequence[str]) -> Array:
        """(len(texts), d)."""
        return np.asarray(self._vectors[[self._row[text] for text in texts]], dtype=np.float64)


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The records of one file."""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def evidence_of(row: dict[str, Any]) -> tuple[str, ...]:
    """Distinct evidence sentences, as the checker would see them."""
    given = row["evidence"] if row["evidence"] is not None else row["source"]
    return tuple(sentence.core for sentence in EvidenceSet.of(given).sentences)


def claims_of(text: str) -> list[tuple[int, int, str]]:
    """Start, end and embedded form of every span that claims something."""
    return [(c.start, c.end, c.core) for c in split_claims(text) if c.unmeasured is None]


def read_dataset(folder: Path, name: str) -> Dataset:
    """All rows of a file as one example each, labelled as the file says; PubMedQA has supported rows only."""
    path = folder / f"{name}.jsonl"
    examples, left_out = [], 0
    for row in read_rows(path):
        claim = tuple(core for _, _, core in claims_of(row["claim"]))
        evidence = evidence_of(row)
        if row["label"] is None or not claim or not evidence:
            left_out += 1
            continue
        examples.append(
            Example(
                group=row["group"], unsupported=row["label"] == "unsupported", claim=claim, evidence=evidence
            )
        )
    return Dataset(name=name, examples=tuple(examples), digest=file_digest(path), left_out=left_out)


def read_faithbench_sentences(folder: Path) -> Dataset:
    """Every summary sentence: unsupported where it overlaps an unwanted span, supported where it overlaps no
    other.

    Sentences that overlap a questionable or ungraded span and no unwanted one are left out, as are rows on
    which the corpus contradicts itself.
    """
    path = folder / "faithbench.jsonl"
    examples, left_out = [], 0
    for row in read_rows(path):
        evidence = evidence_of(row)
        for start, end, core in claims_of(row["claim"]):
            fine = {
                span["fine"] for span in row["meta"]["spans"] if span["start"] < end and start < span["end"]
            }
            unwanted = "unwanted" in fine
            if row["meta"]["fine"] == "conflict" or (not unwanted and fine - {"benign"}):
                left_out += 1
                continue
            examples.append(
                Example(group=row["group"], unsupported=unwanted, claim=(core,), evidence=evidence)
            )
    return Dataset(
        name="faithbench_sentences", examples=tuple(examples), digest=file_digest(path), left_out=left_out
    )


def with_foreign_abstracts(dataset: Dataset, vectors: Vectors) -> Dataset:
    """Each PubMedQA conclusion again, against the foreign abstract whose centroid is nearest to its own
    abstract's."""
    centroids = np.array([vectors.of(example.evidence).mean(axis=0) for example in dataset.examples])
    centroids /= np.linalg.norm(centroids, axis=1, keepdims=True)
    cosines = centroids @ centroids.T
    groups = np.array([example.group for example in dataset.examples])
    cosines[groups[:, None] == groups[None, :]] = -np.inf
    foreign = [
        Example(
            group=example.group,
            unsupported=True,
            claim=example.claim,
            evidence=dataset.examples[int(nearest)].evidence,
        )
        for example, nearest in zip(dataset.examples, cosines.argmax(axis=1), strict=True)
    ]
    return Dataset(
        name=dataset.name,
        examples=(*dataset.examples, *foreign),
        digest=dataset.digest,
        left_out=dataset.left_out,
    )


def chooses(group: str) -> bool:
    """Whether a source belongs to the half on which forms and parameters are chosen; the other half only
    reports."""
    return hashlib.sha256(group.encode()).digest()[0] % 2 == 0


def half(dataset: Dataset, *, choosing: bool) -> Dataset:
    """One half of a set, by hash of the source."""
    kept = tuple(example for example in dataset.examples if chooses(example.group) == choosing)
    name = f"{dataset.name}/{'choose' if choosing else 'report'}"
    return Dataset(name=name, examples=kept, digest=dataset.digest, left_out=dataset.left_out)


def file_digest(path: Path) -> str:
    """``sha256:`` and the digest of the file's bytes."""
    return "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()


def say(message: str) -> None:
    """Progress goes to standard error: standard output is for tables."""
    print(message, file=sys.stderr, flush=True)


def auc(scores: Array, unsupported: NDArray[np.bool_]) -> float:
    """Probability that an unsupported example scores above a supported one, ties counting half."""
    return float(_wins(scores, unsupported).mean())


def _wins(scores: Array, unsupported: NDArray[np.bool_]) -> NDArray[np.float32]:
    """(P, N) 1, ½ or 0 for each pair of an unsupported and a supported example."""
    above, below = scores[unsupported][:, None], scores[~unsupported][None, :]
    return np.asarray((above > below) + 0.5 * (above == below), dtype=np.float32)


def bootstrap_auc(scores: Array, unsupported: NDArray[np.bool_], weights: Array) -> Array:
    """AUC (draws,) in resamples that give each example a weight (draws, n).

    A resample that lacks one of the classes gives NaN.
    """
    up = weights[:, unsupported].astype(np.float32)
    down = weights[:, ~unsupported].astype(np.float32)
    won = np.einsum("bn,bn->b", up @ _wins(scores, unsupported), down, dtype=np.float64)
    pairs = up.sum(axis=1, dtype=np.float64) * down.sum(axis=1, dtype=np.float64)
    return np.asarray(np.where(pairs > 0, won / np.where(pairs > 0, pairs, 1.0), np.nan))


def source_resamples(groups: Sequence[str], draws: int, seed: int) -> Array:
    """(draws, n) how often each example occurs when whole sources are drawn with replacement."""
    names, index = np.unique(np.array(groups), return_inverse=True)
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(len(names), np.full(len(names), 1.0 / len(names)), size=draws)
    return np.asarray(counts[:, index], dtype=np.float64)
