"""Labelled measurements as the statistics see them: units, their sources, one draw a source."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from outspan.calibration.binomial import wilson_interval
from outspan.canonical import length_prefixed


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """One unit, a row or a sentence, that is accepted, reviewed or rejected as one."""

    key: str
    """Names the unit within its source; together they decide the draw."""
    source: str
    """What makes units dependent: the document that they rest on."""
    unsupported: bool | None
    """The label; None where there is none."""
    value: float | None
    """The score as measured; None where there is none, which can never be accepted."""
    evidence_rows: int | None = None
    """Distinct evidence sentences that were handed in for it; None where that is not known."""

    @property
    def measured(self) -> bool:
        """Whether there is a finite value."""
        return self.value is not None and math.isfinite(self.value)


def count_units(units: Iterable[Labelled]) -> dict[str, int]:
    """How many units there are, of each label, measured and not, and how large their evidence was at most.

    A threshold is calibrated on evidence of some size, and the energy falls with more: ``evidence_rows_max``,
    where it is known, is how far the calibration speaks.
    """
    counts: Counter[str] = Counter(units=0, supported=0, unsupported=0, unlabelled=0, unmeasured=0)
    for one in units:
        name = {True: "unsupported", False: "supported", None: "unlabelled"}[one.unsupported]
        counts["units"] += 1
        counts[name] += 1
        if not one.measured:
            counts["unmeasured"] += 1
            counts[f"unmeasured_{name}"] += 1
        elif one.evidence_rows is not None:
            counts["evidence_rows_max"] = max(counts["evidence_rows_max"], one.evidence_rows)
    return dict(counts)


def draw_one_a_source(units: Sequence[Labelled], seed: int) -> list[Labelled]:
    """One unit of each source, uniformly at random, whatever the order of the units.

    The draw is the least SHA-256 over seed, source and key: it depends on nothing that was measured, and
    sorting the file does not change it. One unit a source makes independent trials out of dependent units.

    Raises
    ------
    ValueError
        If two units of a source have one key, since they could not be told apart in the draw.
    """
    chosen: dict[str, tuple[bytes, Labelled]] = {}
    seen: set[tuple[str, str]] = set()
    for one in units:
        if (one.source, one.key) in seen:
            raise ValueError(f"the key {one.key!r} occurs twice in the source {one.source!r}")
        seen.add((one.source, one.key))
        parts = (str(seed), one.source, one.key)
        ticket = hashlib.sha256(
            length_prefixed(part.encode("utf-8", errors="surrogatepass") for part in parts)
        ).digest()
        if one.source not in chosen or ticket < chosen[one.source][0]:
            chosen[one.source] = (ticket, one)
    return [one for _, one in chosen.values()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """How many of some units something holds for."""

    hits: int
    units: int
    sources: int
    low: float | None
    high: float | None
    """95 % interval of the rate, over sources (approximate); None where there are no units."""

    @property
    def rate(self) -> float | None:
        """Hits per unit in [0, 1]; None where there are no units."""
        return self.hits / self.units if self.units else None

    def to_dict(self) -> dict[str, object]:
        """The counts, the rate and its interval, as JSON."""
        return {
            "hits": self.hits,
            "units": self.units,
            "sources": self.sources,
            "rate": self.rate,
            "low": self.low,
            "high": self.high,
        }


def share_of(units: Sequence[Labelled], holds: Callable[[Labelled], bool]) -> Share:
    """The share of units for which ``holds``, with an interval that knows which of them share a source.

    The variance of the pooled rate is that of a ratio over sources, Σ(h_s − p m_s)²·S/(S − 1)/M² for h_s hits
    in the m_s units of source s; p(1 − p) over it is the effective number of trials of a Wilson interval. It
    is never taken larger than the number of units, and is the number of sources where the variance is zero.

    Source
    ------
    Cochran, Sampling Techniques, 3rd ed., §9A.1 (ratio to size); see :func:`wilson_interval`.
    """
    hits, sizes = Counter[str](), Counter[str]()
    for one in units:
        sizes[one.source] += 1
        hits[one.source] += bool(holds(one))
    total, sources = sizes.total(), len(sizes)
    if not total:
        return Share(hits=0, units=0, sources=0, low=None, high=None)
    rate = hits.total() / total
    off = np.array([hits[name] - rate * size for name, size in sizes.items()])
    variance = float(off @ off) * sources / max(1, sources - 1) / total**2
    effective = float(sources) if variance <= 0.0 else min(float(total), rate * (1.0 - rate) / variance)
    low, high = wilson_interval(rate, effective)
    return Share(hits=hits.total(), units=total, sources=sources, low=low, high=high)
