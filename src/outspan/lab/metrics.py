"""Scores of a ranking and of probabilities, with intervals from resamples of whole sources.

Unsupported is positive, and a larger score means further outside. Everything is weighted, so that a resample
is a vector of counts and nothing is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]

DRAWS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A number with its interval."""

    value: float | None
    """None where it is not defined: a class is missing."""
    low: float | None
    high: float | None
    """Bounds of the 95 % percentile interval over sources."""


def auc(scores: Array, positive: Flags, weights: Array | None = None) -> float:
    """Chance that a positive scores above a negative, ties counting half; NaN without both classes."""
    w = np.ones((1, len(scores))) if weights is None else np.atleast_2d(weights)
    return float(aucs(scores, positive, w)[0])


def aucs(scores: Array, positive: Flags, weights: Array) -> Array:
    """(draws,) AUC under each row of weights (draws, n); NaN where a resample lacks a class."""
    order = np.argsort(scores, kind="stable")
    s, up = scores[order], positive[order].astype(np.float64)
    w = weights[:, order]
    starts = np.flatnonzero(np.r_[True, s[1:] != s[:-1]])
    above = np.add.reduceat(w * up, starts, axis=1)
    below = np.add.reduceat(w * (1.0 - up), starts, axis=1)
    seen = np.cumsum(below, axis=1) - 0.5 * below  # negatives under each tie group, its own counting half
    pairs = above.sum(axis=1) * below.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(pairs > 0, (above * seen).sum(axis=1) / pairs, np.nan))


def average_precision(scores: Array, positive: Flags) -> float:
    """Σ (recall step) · precision over the distinct scores, highest first; NaN without a positive."""
    if not positive.any():
        return float("nan")
    order = np.argsort(-scores, kind="stable")
    s, up = scores[order], positive[order]
    ends = np.flatnonzero(np.r_[s[1:] != s[:-1], True])
    hits = np.cumsum(up)[ends]
    precision = hits / (ends + 1)
    return float(np.sum(np.diff(np.r_[0, hits]) * precision) / up.sum())


def brier(probabilities: Array, positive: Flags) -> float:
    """Mean squared distance of the probability from what happened."""
    return float(np.mean((probabilities - positive) ** 2))


def roc_points(scores: Array, positive: Flags, most: int = 60) -> list[tuple[float, float]]:
    """(share of supported flagged, share of unsupported flagged) over the cuts, thinned to ``most``."""
    order = np.argsort(-scores, kind="stable")
    s, up = scores[order], positive[order]
    ends = np.flatnonzero(np.r_[s[1:] != s[:-1], True])
    hit = np.cumsum(up)[ends] / max(1, up.sum())
    false = np.cumsum(~up)[ends] / max(1, (~up).sum())
    points = [(0.0, 0.0), *zip(false.tolist(), hit.tolist(), strict=True)]
    return _thinned(points, most)


def pr_points(scores: Array, positive: Flags, most: int = 60) -> list[tuple[float, float]]:
    """(recall, precision) over the cuts, thinned to ``most``."""
    order = np.argsort(-scores, kind="stable")
    s, up = scores[order], positive[order]
    ends = np.flatnonzero(np.r_[s[1:] != s[:-1], True])
    hits = np.cumsum(up)[ends]
    points = list(zip((hits / max(1, up.sum())).tolist(), (hits / (ends + 1)).tolist(), strict=True))
    return _thinned(points, most)


def _thinned(points: list[tuple[float, float]], most: int) -> list[tuple[float, float]]:
    if len(points) <= most:
        return points
    return [points[i] for i in np.linspace(0, len(points) - 1, most).round().astype(int)]


def calibration_points(p: Array, positive: Flags, bins: int = 10) -> list[tuple[float, float, int]]:
    """(mean probability, share that happened, count) in bins of equal counts."""
    parts = np.array_split(np.argsort(p, kind="stable"), min(bins, len(p)))
    return [(float(p[part].mean()), float(positive[part].mean()), len(part)) for part in parts]


def acceptance_at(scores: Array, positive: Flags, budget: float) -> tuple[float, float]:
    """(share of supported, share of unsupported) accepted by the widest cut within ``budget`` of unsupported.

    The cut is chosen on these very rows, so the first number is an upper limit and no promise.
    """
    candidates = np.r_[-np.inf, np.unique(scores)]
    false = (scores[positive][None, :] <= candidates[:, None]).mean(axis=1)
    good = (scores[~positive][None, :] <= candidates[:, None]).mean(axis=1)
    best = int(np.flatnonzero(false <= budget).max())
    return float(good[best]), float(false[best])


def source_weights(groups: Sequence[str], draws: int = DRAWS, seed: int = 0) -> Array:
    """(draws, n) how often each row occurs when whole sources are drawn with replacement."""
    names, index = np.unique(np.asarray(groups), return_inverse=True)
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(len(names), np.full(len(names), 1.0 / len(names)), size=draws)
    return np.asarray(counts[:, index], dtype=np.float64)


def interval(draws: Array) -> tuple[float | None, float | None]:
    """95 % percentile interval; resamples without both classes do not count."""
    there = draws[np.isfinite(draws)]
    if not len(there):
        return None, None
    return float(np.percentile(there, 2.5)), float(np.percentile(there, 97.5))


def estimate_auc(scores: Array, positive: Flags, weights: Array) -> Estimate:
    """AUC with its interval over sources."""
    point = auc(scores, positive)
    low, high = interval(aucs(scores, positive, weights))
    return Estimate(value=finite(point), low=low, high=high)


def estimate_difference(one: Array, other: Array, positive: Flags, weights: Array) -> Estimate:
    """AUC of ``one`` minus that of ``other`` on the same rows, paired in every resample."""
    point = auc(one, positive) - auc(other, positive)
    low, high = interval(aucs(one, positive, weights) - aucs(other, positive, weights))
    return Estimate(value=finite(point), low=low, high=high)


def estimate(
    measure: Callable[[Array, Flags], float], scores: Array, positive: Flags, weights: Array, draws: int = 200
) -> Estimate:
    """Any other measure with its interval, from the first ``draws`` resamples."""
    found = []
    for row in weights[:draws]:
        chosen = np.repeat(np.arange(len(scores)), row.astype(int))
        if positive[chosen].any() and not positive[chosen].all():
            found.append(measure(scores[chosen], positive[chosen]))
    low, high = interval(np.asarray(found, dtype=np.float64))
    return Estimate(value=finite(measure(scores, positive)), low=low, high=high)


def finite(value: float) -> float | None:
    """The number, or None for what is none: JSON has no NaN."""
    return float(value) if np.isfinite(value) else None
