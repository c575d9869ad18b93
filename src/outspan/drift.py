"""Does a calibration still speak for the traffic? Two files of measurements, feature by feature.

A threshold was calibrated on sources of one kind. When retrieval, writers or subjects change, so do evidence,
similarities and energies, and the promise was made about something else. Drift is found without labels, so
it can say that the promise has lost its ground, never that it holds: that claims are wrong in a new way, with
the same energies, leaves no trace here.

Every feature is compared by the largest difference of two distribution functions (numbers) or the total
variation (categories), both in [0, 1], with a permutation test that exchanges whole sources between the two
files, since sentences of one source are not independent. Holm's correction covers the features.

Source
------
Good, Permutation, Parametric and Bootstrap Tests of Hypotheses, 3rd ed., ch. 3; Holm, Scand. J. Statist. 6
(1979), 65–70; population stability index as in Yurdakul & Naranjo, J. Risk Model Validation 14 (2020).
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from outspan.measurement import State

Array: TypeAlias = NDArray[np.float64]
Value: TypeAlias = float | str | None
Verdict: TypeAlias = Literal["no_drift_found", "drift", "undecided"]

NUMBERS = {
    "energy": "energy of the measured sentences",
    "sim_top1": "cosine with the nearest evidence sentence",
    "evidence_size": "evidence sentences that span the subspace",
    "rank": "directions kept",
    "claim_length": "characters of the sentence",
}
CATEGORIES = {
    "state": "what became of the sentence",
    "cap_bound": "whether the rank cap cut directions off",
    "truncated": "whether the claim, or some evidence, was too long for the embedder",
    "script": "writing system of the sentence; languages that share one are not told apart",
}
GRID = 128
"""Most points at which two distribution functions are compared: quantiles of both files together."""
PERMUTATIONS = 1999
LEVEL = 0.01
LIMIT = 0.1
"""An effect below it is no drift: the share of sentences under *any* cut on the number moved by less."""
_CHUNK = 4_000_000
_SHARE_OF_ONE_SCRIPT = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What is compared of one sentence."""

    source: str
    values: Mapping[str, Value]
    """Feature to number or category; None where the sentence has none."""


def observe(sentence: Mapping[str, Any], source: str) -> Observation:
    """The features of a sentence as ``outspan measure`` writes it."""
    measured = sentence["state"] == State.MEASURED
    diagnostics = sentence.get("diagnostics") or {}
    flags = sentence.get("flags") or ()
    values: dict[str, Value] = {
        "energy": sentence["energy"] if measured else None,
        "sim_top1": diagnostics.get("sim_top1") if measured else None,
        "evidence_size": sentence["evidence"]["used"] if measured else None,
        "rank": sentence["rank"] if measured else None,
        "claim_length": len(sentence["text"]),
        "state": str(sentence["state"]),
        "cap_bound": _word(sentence["cap_bound"]) if measured else None,
        "truncated": _word("truncated" in flags or "evidence_truncated" in flags) if measured else None,
        "script": script_of(sentence["text"]),
    }
    return Observation(source=source, values=values)


def _word(value: object) -> str:
    return "yes" if value else "no"


def script_of(text: str) -> str:
    """The writing system of most letters, by their Unicode names: ``latin``, ``cyrillic``, ``cjk``, …

    ``mixed`` where no one has three fifths of the letters, ``none`` where there is no letter.
    """
    counts = Counter(_script_of_letter(character) for character in text if character.isalpha())
    if not counts:
        return "none"
    name, most = counts.most_common(1)[0]
    return name if most >= _SHARE_OF_ONE_SCRIPT * counts.total() else "mixed"


@lru_cache(maxsize=65_536)
def _script_of_letter(character: str) -> str:
    words = unicodedata.name(character, "UNNAMED").replace("-", " ").split()
    first = next((word for word in words if word not in ("FULLWIDTH", "HALFWIDTH", "MODIFIER")), "UNNAMED")
    # Japanese mixes three scripts in one sentence; it is told apart from Chinese by none of its ideographs.
    return "cjk" if first in ("CJK", "HIRAGANA", "KATAKANA", "IDEOGRAPHIC") else first.lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One feature in both files."""

    feature: str
    meaning: str
    statistic: Literal["largest difference of distribution functions", "total variation"]
    reference_n: int
    live_n: int
    """Sentences that have the feature."""
    effect: float | None
    """In [0, 1]; None where one file has no sentence with the feature."""
    psi: float | None
    """Population stability index ≥ 0, over tenths of the reference or categories, half a count added to
    each."""
    p_value: float | None
    """Of the permutation test, in (0, 1]."""
    adjusted: float | None
    """The same after Holm's correction over the features."""
    visible: float | None
    """Effect that chance alone exceeds with the test's level: smaller ones cannot be told from none."""
    reference: Mapping[str, float]
    live: Mapping[str, float]
    """Quantiles 0.05, 0.25, 0.5, 0.75, 0.95 of a number, or shares of categories."""
    finding: Literal["drift", "moved", "none", "undecided", "not compared"]
    """``moved``: told from chance, but smaller than the limit. ``undecided``: an effect as large as the
    limit could not have been told from chance."""

    def to_dict(self) -> dict[str, object]:
        """Every field by name, as JSON."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        return {**plain, "reference": dict(self.reference), "live": dict(self.live)}


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftReport:
    """All features, and what they say together."""

    verdict: Verdict
    """``drift`` if a feature drifted; else ``undecided`` if one is; else ``no_drift_found``."""
    comparisons: tuple[Comparison, ...]
    reference_sentences: int
    live_sentences: int
    reference_sources: int
    live_sources: int
    level: float
    limit: float
    permutations: int
    seed: int

    def to_dict(self) -> dict[str, object]:
        """Every field by name, as JSON."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        return {**plain, "comparisons": [one.to_dict() for one in self.comparisons]}


def compare(
    reference: Sequence[Observation],
    live: Sequence[Observation],
    *,
    level: float = LEVEL,
    limit: float = LIMIT,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> DriftReport:
    """Compare the sentences of two files.

    Parameters
    ----------
    reference, live : the sentences that a threshold was calibrated on, and those that it is applied to.
    level : chance, in (0, 1), of finding any difference where there is none.
    limit : effect, in (0, 1), from which a difference that was found is drift.
    permutations : exchanges of sources; the smallest p-value is 1/(permutations + 1).
    seed : of the exchanges.

    Raises
    ------
    ValueError
        For a number out of its range, or a file without sentences.
    """
    if not (0.0 < level < 1.0 and 0.0 < limit < 1.0 and permutations >= 1):
        raise ValueError("level and limit must lie between 0 and 1, and permutations be at least 1")
    if not reference or not live:
        raise ValueError("there is nothing to compare: a file holds no sentence")
    design = _Design.of(reference, live)
    tables = [_Table.of(name, design) for name in (*NUMBERS, *CATEGORIES)]
    present = [table for table in tables if table.comparable]
    null = _permuted(present, design, permutations, seed)
    p_values = {
        table.feature: (1 + int((null[i] >= table.effect() - 1e-12).sum())) / (1 + permutations)
        for i, table in enumerate(present)
    }
    adjusted = _holm(p_values)
    share = level / max(1, len(present))
    visible = {table.feature: float(np.quantile(null[i], 1.0 - share)) for i, table in enumerate(present)}
    comparisons = tuple(table.comparison(p_values, adjusted, visible, level, limit) for table in tables)
    findings = {one.finding for one in comparisons}
    return DriftReport(
        verdict="drift"
        if "drift" in findings
        else "undecided"
        if "undecided" in findings
        else "no_drift_found",
        comparisons=comparisons,
        reference_sentences=len(reference),
        live_sentences=len(live),
        reference_sources=design.reference_sources,
        live_sources=design.sources - design.reference_sources,
        level=level,
        limit=limit,
        permutations=permutations,
        seed=seed,
    )


@dataclass(frozen=True, slots=True)
class _Design:
    """All sentences of both files with the index of their source; those of the reference come first."""

    observations: Sequence[Observation]
    source: NDArray[np.int64]
    sources: int
    reference_sources: int

    @classmethod
    def of(cls, reference: Sequence[Observation], live: Sequence[Observation]) -> _Design:
        index: dict[tuple[bool, str], int] = {}
        source = [
            index.setdefault((is_live, one.source), len(index))
            for is_live, part in ((False, reference), (True, live))
            for one in part
        ]
        first = sum(not is_live for is_live, _ in index)
        return cls([*reference, *live], np.array(source), len(index), first)


@dataclass(frozen=True, slots=True)
class _Table:
    """One feature: what each source adds to each cell of the statistic."""

    feature: str
    values: Sequence[float | str]
    is_live: NDArray[np.bool_]
    cells: NDArray[np.float32]
    """(sources, cells): sentences at or below each point of the grid, or in each category."""
    sizes: NDArray[np.float32]
    """(sources,) sentences that have the feature."""
    split: int
    """Sources of the reference come before it."""

    @classmethod
    def of(cls, feature: str, design: _Design) -> _Table:
        found = [
            (value, source)
            for one, source in zip(design.observations, design.source, strict=True)
            if (value := one.values.get(feature)) is not None
        ]
        values = [value for value, _ in found]
        source = np.array([source for _, source in found], dtype=np.int64)
        if feature in NUMBERS:
            numbers = np.array(values, dtype=np.float64)
            grid = _grid(numbers)
            # Each sentence is counted at the first point that is not below it, and then at all behind it.
            column, width = np.searchsorted(grid, numbers, side="left"), len(grid) + 1
        else:
            kinds, column = np.unique(np.array(values, dtype=str), return_inverse=True)
            width = len(kinds)
        cells = np.zeros((design.sources, width), dtype=np.float32)  # whole numbers: exact below 2^24
        np.add.at(cells, (source, column), 1.0)
        sizes = cells.sum(axis=1)
        if feature in NUMBERS:
            cells = cells.cumsum(axis=1)
        return cls(
            feature, values, source >= design.reference_sources, cells, sizes, design.reference_sources
        )

    @property
    def comparable(self) -> bool:
        return bool(self.is_live.any() and not self.is_live.all())

    def effect(self) -> float:
        weights = np.zeros((1, len(self.sizes)), dtype=np.float32)
        weights[:, : self.split] = 1.0
        return float(self.statistic(weights)[0])

    def statistic(self, reference: NDArray[np.float32]) -> Array:
        """(k,) for k ways to say which sources are the reference, as zeros and ones (k, sources)."""
        ours, n = (np.asarray(reference @ part, dtype=np.float64) for part in (self.cells, self.sizes))
        theirs, m = self.cells.sum(axis=0) - ours, self.sizes.sum() - n
        with np.errstate(invalid="ignore", divide="ignore"):
            gap = np.abs(ours / n[:, None] - theirs / m[:, None])
        found = gap.max(axis=1) if self.feature in NUMBERS else gap.sum(axis=1) / 2.0
        # An exchange that leaves one side empty tells nothing against the observed one: it counts as largest.
        return np.where((n > 0) & (m > 0), found, 1.0)

    def comparison(
        self,
        p_values: Mapping[str, float],
        adjusted: Mapping[str, float],
        visible: Mapping[str, float],
        level: float,
        limit: float,
    ) -> Comparison:
        name, there = self.feature, self.comparable
        effect = self.effect() if there else None
        ours = [value for value, live in zip(self.values, self.is_live, strict=True) if not live]
        theirs = [value for value, live in zip(self.values, self.is_live, strict=True) if live]
        describe = _quantiles if name in NUMBERS else _shares
        return Comparison(
            feature=name,
            meaning={**NUMBERS, **CATEGORIES}[name],
            statistic="largest difference of distribution functions"
            if name in NUMBERS
            else "total variation",
            reference_n=len(ours),
            live_n=len(theirs),
            effect=effect,
            psi=_psi(ours, theirs, numbers=name in NUMBERS) if there else None,
            p_value=p_values.get(name),
            adjusted=adjusted.get(name),
            visible=visible.get(name),
            reference=describe(ours),
            live=describe(theirs),
            finding=_finding(effect, adjusted.get(name), visible.get(name), level, limit),
        )


def _finding(
    effect: float | None, adjusted: float | None, visible: float | None, level: float, limit: float
) -> Literal["drift", "moved", "none", "undecided", "not compared"]:
    if effect is None or adjusted is None or visible is None:
        return "not compared"
    if adjusted <= level:
        return "drift" if effect >= limit else "moved"
    return "undecided" if visible > limit else "none"


def _grid(numbers: Array) -> Array:
    """The distinct values, or as many quantiles of them as the grid has points."""
    distinct = np.unique(numbers)
    if len(distinct) <= GRID:
        return distinct
    return np.unique(np.quantile(numbers, np.linspace(0.0, 1.0, GRID), method="inverted_cdf"))


def _permuted(tables: Sequence[_Table], design: _Design, permutations: int, seed: int) -> Array:
    """(tables, permutations): each statistic under exchanges of sources, the same exchanges for all."""
    rng = np.random.default_rng(seed)
    found = np.empty((len(tables), permutations))
    step = max(1, _CHUNK // design.sources)
    for start in range(0, permutations, step):
        count = min(step, permutations - start)
        reference = np.zeros((count, design.sources), dtype=np.float32)
        reference[:, : design.reference_sources] = 1.0
        reference = rng.permuted(reference, axis=1)
        for i, table in enumerate(tables):
            found[i, start : start + count] = table.statistic(reference)
    return found


def _holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Adjusted so that the chance of any false finding is at most the level."""
    adjusted, largest = {}, 0.0
    for rank, name in enumerate(sorted(p_values, key=lambda one: p_values[one])):
        largest = max(largest, min(1.0, p_values[name] * (len(p_values) - rank)))
        adjusted[name] = largest
    return adjusted


def _quantiles(values: Sequence[Any]) -> dict[str, float]:
    marks = (0.05, 0.25, 0.5, 0.75, 0.95)
    found = np.quantile(np.array(values, dtype=np.float64), marks) if values else ()
    return {str(mark): float(value) for mark, value in zip(marks, found, strict=False)}


def _shares(values: Sequence[Any]) -> dict[str, float]:
    return {str(name): count / len(values) for name, count in sorted(Counter(values).items())}


def _psi(ours: Sequence[Any], theirs: Sequence[Any], *, numbers: bool) -> float:
    if numbers:
        edges = np.unique(np.quantile(np.array(ours, dtype=np.float64), np.linspace(0.1, 0.9, 9)))
        one, other = (
            np.bincount(np.searchsorted(edges, np.array(part, np.float64)), minlength=len(edges) + 1)
            for part in (ours, theirs)
        )
    else:
        kinds = sorted({*ours, *theirs})
        one, other = (np.array([Counter(part)[kind] for kind in kinds]) for part in (ours, theirs))
    p, q = ((counts + 0.5) / (counts + 0.5).sum() for counts in (one, other))
    return float(np.sum((q - p) * np.log(q / p)))
