"""From records to numbers: sentence measurements, and the columns that a model sees.

    record ─► claim sentences, evidence units ─► vectors ─► energies, cosines, proxies ─► columns

What cannot be measured is NaN in the arrays and stays so until a pipeline imputes it inside a fold; in files
it is null. The energy is the instrument's own: a test holds it to ``EnergySensor``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from outspan.background import shipped
from outspan.claims import split_claims
from outspan.embedders import Embedder, VectorCache, embed_checked
from outspan.errors import EmbedderFailed
from outspan.evidence import EvidencePolicy, EvidenceSet, select_rows
from outspan.geometry.diagnostics import energy_by_rank
from outspan.geometry.energy import energies
from outspan.geometry.proxies import FittedProxy, Proxy, make_proxy
from outspan.geometry.subspace import RankPolicy, Subspace, factor
from outspan.lab.datasets import Record
from outspan.lab.metrics import Array
from outspan.lab.overlap import OVERLAP, overlap, tokens

COVERED = 0.3
"""An evidence unit with a cosine above this covers a sentence."""
HIGH = 0.5
"""A sentence with an energy above this counts as high; a fixed number of the published recipe, not a cut."""
RANKS = (1, 2, 4, 8, 16, 32, 64)
DEFAULT = RankPolicy("cap", 64)
UNCAPPED = RankPolicy("cap", 1_000_000)
EVIDENCE = EvidencePolicy()
ALL_EVIDENCE = EvidencePolicy(select="all")
SEGMENTATIONS = ("sentence", "5 sentences", "paragraph")

COSINE = (
    "mean_sim_top1", "min_sim_top1", "mean_sim_margin", "min_sim_margin", "mean_coverage", "min_coverage"
)  # fmt: skip
ENERGY = (
    "max_energy", "mean_energy", "p90_energy", "frac_above_threshold", "min_energy", "energy_gap",
    "high_energy_count",
)  # fmt: skip
ENTAILMENT = ("max_entailment", "mean_entailment", "min_entailment", "entailment_gap")
STRUCTURE = ("sentence_count", "paragraph_count")
LENGTH = ("claim_words", "evidence_words")
SUMMARY = (*COSINE, *ENERGY, *ENTAILMENT, *STRUCTURE)
"""The published feature table less its label."""

PROXIES = (
    "energy(cap=32)", "energy_variance", "centered_affine", "whitened", "weighted_svd", "convex_hull", "cone",
    "kernel_rbf", "local_span(k=8)", "background_adjusted", "max_cosine", "mean_cosine", "centroid_cosine",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentences:
    """Measurements of the k measurable sentences of one record; k may be 0."""

    energy: Array
    """(k,) in the default regime, in [0, 1]."""
    at_rank: Array
    """(k, len(RANKS)) energy against all evidence with a cap of each rank."""
    top1: Array
    """(k,) largest cosine with an evidence unit."""
    margin: Array
    """(k,) first minus second cosine; NaN where the evidence is one unit."""
    coverage: Array
    """(k,) share of the evidence units with a cosine above ``COVERED``."""
    numeric_rank: int
    """Directions that the whole evidence has; 0 without evidence."""
    units: int
    """Distinct evidence units."""
    proxies: Mapping[str, Array]
    """(k,) by name; larger means further outside."""


class Vectors:
    """Vectors by text, each embedded once; with a cache a run that was stopped goes on where it was."""

    def __init__(self, embedder: Embedder, cache: VectorCache | None) -> None:
        self.embedder = embedder
        self._cache = cache
        self._row: dict[str, int] = {}
        self._vectors = np.zeros((0, embedder.identity.dimension), dtype=np.float32)

    def learn(self, texts: Iterable[str], say: Callable[[str], None] = lambda _: None) -> None:
        """Embed what is not known yet.

        Raises
        ------
        EmbedderFailed
            When a text has no vector: a gap would bias a comparison in silence.
        """
        fresh = [text for text in dict.fromkeys(texts) if text not in self._row]
        parts = [self._vectors]
        for start in range(0, len(fresh), 4096):
            part = fresh[start : start + 4096]
            found = embed_checked(self.embedder, part, cache=self._cache)
            if found.failures:
                reason = next(iter(found.failures.values()))
                raise EmbedderFailed(f"{len(found.failures)} texts have no vector: {reason}")
            self._row.update({text: len(self._row) + i for i, text in enumerate(part)})
            parts.append(found.vectors)
            if len(fresh) > len(part):
                say(f"  vectors: {start + len(part)} of {len(fresh)}")
        self._vectors = np.vstack(parts)

    def of(self, texts: Sequence[str]) -> Array:
        """(len(texts), d) float64."""
        return np.asarray(self._vectors[[self._row[text] for text in texts]], dtype=np.float64)


def claim_sentences(claim: str) -> list[str]:
    """Embedded form of every sentence that claims something."""
    return [one.core for one in split_claims(claim) if one.unmeasured is None]


def evidence_units(evidence: Sequence[str], segmentation: str) -> list[str]:
    """Distinct evidence units: sentences, runs of five of them, or paragraphs.

    Raises
    ------
    ValueError
        For a segmentation that is not one of ``SEGMENTATIONS``.
    """
    if segmentation == "sentence":
        return [sentence.core for sentence in EvidenceSet.of(evidence).sentences]
    if segmentation == "5 sentences":
        found = [sentence.core for sentence in EvidenceSet.of(evidence).sentences]
        return list(dict.fromkeys(" ".join(found[i : i + 5]) for i in range(0, len(found), 5)))
    if segmentation == "paragraph":
        parts = [part.strip() for text in evidence for part in re.split(r"\n\s*\n", text)]
        return list(dict.fromkeys(part for part in parts if tokens(part)))
    raise ValueError(f"segmentation is one of {', '.join(SEGMENTATIONS)}, not {segmentation!r}")


def ready_proxies(vectors: Vectors, names: Sequence[str] = PROXIES) -> dict[str, Proxy]:
    """Proxies by name; those that are fitted, fitted on the shipped background."""
    made: dict[str, Proxy] = {}
    for name in names:
        proxy = make_proxy(name)
        if isinstance(proxy, FittedProxy):
            bank = shipped()
            vectors.learn(bank.texts)
            proxy = proxy.fit(vectors.of(bank.texts), digest=bank.digest)
        made[name] = proxy
    return made


class Measurer:
    """Measures records; evidence that several records share is factored once."""

    def __init__(
        self, vectors: Vectors, proxies: Mapping[str, Proxy], segmentation: str = "sentence"
    ) -> None:
        self.vectors = vectors
        self.proxies = proxies
        self.segmentation = segmentation
        self._last: tuple[tuple[str, ...], tuple[str, ...], Subspace] | None = None

    def texts(self, records: Sequence[Record]) -> list[str]:
        """Every text that measuring the records needs a vector for."""
        found: list[str] = []
        for evidence in dict.fromkeys(record.evidence for record in records):
            found += evidence_units(evidence, self.segmentation)
        return found + [text for record in records for text in claim_sentences(record.claim)]

    def __call__(self, record: Record) -> Sentences:
        """The sentences of one record."""
        claims = claim_sentences(record.claim)
        if self._last is None or self._last[0] != record.evidence:
            units = tuple(evidence_units(record.evidence, self.segmentation))
            if not units:
                return _nothing(self.proxies)
            E = self.vectors.of(units)
            kept = select_rows(ALL_EVIDENCE, E, None).rows
            self._last = (record.evidence, units, factor(E[kept]))
        _, units, subspace = self._last
        if not claims:
            return _nothing(self.proxies)
        C, E = self.vectors.of(claims), self.vectors.of(units)
        cosines = C @ E.T
        ordered = np.sort(cosines, axis=1)[:, ::-1]
        by_rank = energy_by_rank(energies(C, subspace, UNCAPPED))
        values = {}
        for name, proxy in self.proxies.items():
            found = proxy(C, subspace)
            values[name] = found if proxy.direction == "higher_means_less_contained" else -found
        return Sentences(
            energy=_default_energy(C, E, by_rank),
            at_rank=by_rank[:, [min(rank, by_rank.shape[1]) - 1 for rank in RANKS]],
            top1=ordered[:, 0],
            margin=ordered[:, 0] - ordered[:, 1] if len(units) > 1 else np.full(len(claims), np.nan),
            coverage=(cosines > COVERED).mean(axis=1),
            numeric_rank=subspace.numeric_rank,
            units=len(units),
            proxies=values,
        )


def _default_energy(C: Array, E: Array, by_rank: Array) -> Array:
    """(k,) energy as the sensor measures it by default: the 64 nearest rows span the subspace."""
    if len(E) <= EVIDENCE.limit:
        return np.asarray(by_rank[:, min(64, by_rank.shape[1]) - 1])
    found = []
    for claim in C:
        rows = select_rows(EVIDENCE, E, claim).rows
        found.append(float(energies(claim[None, :], factor(E[rows]), DEFAULT).energy[0]))
    return np.asarray(found)


def _nothing(proxies: Iterable[str]) -> Sentences:
    none = np.empty(0)
    return Sentences(
        energy=none, at_rank=np.empty((0, len(RANKS))), top1=none, margin=none, coverage=none,
        numeric_rank=0, units=0, proxies=dict.fromkeys(proxies, none),
    )  # fmt: skip


def summary_columns(one: Sentences, energy: Array | None = None) -> dict[str, float]:
    """Cosine and energy columns of one record, by the published names; NaN where nothing was measured."""
    e = one.energy if energy is None else energy
    if not len(e):
        return dict.fromkeys((*COSINE, *ENERGY), float("nan"))
    return {
        "mean_sim_top1": float(one.top1.mean()),
        "min_sim_top1": float(one.top1.min()),
        "mean_sim_margin": float(one.margin.mean()),
        "min_sim_margin": float(one.margin.min()),
        "mean_coverage": float(one.coverage.mean()),
        "min_coverage": float(one.coverage.min()),
        "max_energy": float(e.max()),
        "mean_energy": float(e.mean()),
        "p90_energy": float(np.percentile(e, 90)),
        "frac_above_threshold": float((e > HIGH).mean()),
        "min_energy": float(e.min()),
        "energy_gap": float(e.max() - e.min()),
        "high_energy_count": float((e > HIGH).sum()),
    }


def text_columns(record: Record) -> dict[str, float]:
    """Overlap, length and structure of one record: what needs no vector."""
    evidence = "\n".join(record.evidence)
    found = {name: _number(value) for name, value in overlap(record.claim, evidence).items()}
    found["claim_words"] = float(len(tokens(record.claim)))
    found["evidence_words"] = float(len(tokens(evidence)))
    found["sentence_count"] = float(len(claim_sentences(record.claim)))
    found["paragraph_count"] = float(len([p for p in record.claim.split("\n\n") if p.strip()]))
    return found


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Columns of n records; entailment columns are NaN throughout, since no entailment model was asked."""

    columns: Mapping[str, Array]
    sentences: tuple[Sentences, ...]

    def matrix(self, names: Sequence[str]) -> Array:
        """(n, k); columns without a single number are left out: nothing can be learnt from them."""
        kept = [self.columns[name] for name in names if np.isfinite(self.columns[name]).any()]
        return np.column_stack(kept) if kept else np.empty((len(self.sentences), 0))


def tabulate(records: Sequence[Record], measure: Measurer) -> Table:
    """Measure records and put them into columns."""
    sentences = tuple(measure(record) for record in records)
    rows = [
        dict.fromkeys(ENTAILMENT, float("nan")) | summary_columns(one) | text_columns(record)
        for record, one in zip(records, sentences, strict=True)
    ]
    names = (*SUMMARY, *OVERLAP, *LENGTH)
    return Table(columns={n: np.array([row[n] for row in rows]) for n in names}, sentences=sentences)


def at_rank(table: Table, place: int) -> Table:
    """The same table with the energies against all evidence at the rank ``RANKS[place]``."""
    rows = [summary_columns(one, one.at_rank[:, place]) for one in table.sentences]
    changed = {name: np.array([row[name] for row in rows]) for name in ENERGY}
    return Table(columns={**table.columns, **changed}, sentences=table.sentences)
