"""Evidence that is not held in memory: 5,000 to millions of rows for one check.

Three ways were weighed (docs/decisions/0007-large-evidence.md):

* ``factor_stream``: ``EᵀE`` (d × d) summed block by block, in float64. Exact, one pass, d² numbers of memory.
  The way to take.
* ``factor_compressed``: only k directions are kept and each block is merged into them. For dimensions whose
  d × d matrix does not fit, and for parts that are factored apart. An approximation, with a guaranteed error.
* A randomized SVD is not offered: at d = 384 it took four times as long as the exact way and was wrong by
  0.02 for random claims; the power iterations that mend this make it slower still.

A source of rows is an array, a path to an ``.npy`` file (mapped, never loaded), or an iterable of blocks
(k, d); a list of blocks can be read again, a generator only once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outspan.geometry.energy import energies
from outspan.geometry.subspace import (
    BLOCK_ROWS,
    RANK_TOLERANCE,
    ZERO_NORM,
    Array,
    Nearest,
    RankPolicy,
    Subspace,
    add_covariance,
    as_rows,
    principal_directions,
    real_matrix,
    scale_to_unit,
    unit_rows,
)

Source: TypeAlias = "str | Path | NDArray[Any] | Iterable[NDArray[Any]]"


@dataclass(slots=True)
class _Pass:
    """One pass over a source; collects what every path needs besides the factors."""

    source: Source
    claims: Array | None
    """(m, d) unit claims whose nearest rows are looked for on the way."""
    norms: list[Array] = field(default_factory=list)
    nearest: Nearest | None = None
    seen: int = 0
    """Rows with a direction so far."""

    def blocks(self) -> Iterator[Array]:
        """Blocks (k, d) of at most ``BLOCK_ROWS`` rows, float64 and free to be changed."""
        d = None
        for block in _read(self.source):
            d = block.shape[1] if d is None else d
            if block.shape[1] != d:
                raise ValueError(f"evidence: a block of shape {block.shape} follows blocks of dimension {d}")
            for start in range(0, len(block), BLOCK_ROWS):
                yield np.array(block[start : start + BLOCK_ROWS], dtype=np.float64, order="C")
        if d is None:
            raise ValueError("evidence: the source holds no block, so that not even its dimension is known")

    def note(self, rows: Array, norms: Array) -> Array:
        """Book a block of unit rows; returns those that have a direction."""
        self.norms.append(norms)
        kept = norms >= ZERO_NORM
        rows = rows if kept.all() else rows[kept]
        if self.claims is not None and len(rows):
            if self.claims.shape[1] != rows.shape[1]:
                raise ValueError(f"claims have shape {self.claims.shape} and evidence (…, {rows.shape[1]})")
            part = Nearest.among(self.claims @ rows.T, self.seen)
            self.nearest = part if self.nearest is None else self.nearest.merged(part)
        self.seen += len(rows)
        return rows

    def recall(self, claims: Array) -> Nearest | None:
        """The nearest rows of claims that were known during the pass; None for others."""
        if self.claims is None or self.claims.shape != claims.shape:
            return None
        return self.nearest if np.allclose(self.claims, claims, rtol=0.0, atol=1e-14) else None

    def again(self) -> Iterator[Array]:
        """The unit rows once more."""
        for block in _Pass(self.source, None).blocks():
            yield unit_rows(block, "evidence")[0]


def _read(source: Source) -> Iterable[NDArray[Any]]:
    if isinstance(source, str | Path):
        source = np.load(source, mmap_mode="r", allow_pickle=False)
    if isinstance(source, np.ndarray):
        return (real_matrix(source, "evidence"),)
    assert not isinstance(source, Path)
    return (real_matrix(block, "evidence") for block in source)


def _repeatable(source: Source) -> bool:
    return isinstance(source, str | Path | np.ndarray | Sequence)


def _begin(source: Source, claims: ArrayLike | None) -> _Pass:
    if claims is None:
        return _Pass(source, None)
    C = as_rows(claims, "claims")
    norms = np.linalg.norm(C, axis=1)
    return _Pass(
        source, C * np.divide(1.0, norms, out=np.zeros_like(norms), where=norms >= ZERO_NORM)[:, None]
    )


def factor_stream(
    source: Source, *, claims: ArrayLike | None = None, tolerance: float = RANK_TOLERANCE
) -> Subspace:
    """Factor rows that stream past: exact, in one pass, with d² numbers and one block in memory.

    Parameters
    ----------
    source : array (n, d), path to an ``.npy`` file, or iterable of blocks (k, d).
    claims : (m, d) claims to be measured. Given here, their nearest rows are found in the same pass; else
        the diagnostics read the source a second time, which a generator does not allow.
    tolerance : relative size below which a singular value counts as zero.

    Returns
    -------
    Subspace
        Path ``streamed_covariance``, approximation ``exact``; its rows are not in memory.

    Raises
    ------
    ValueError
        For a wrong shape, blocks of different dimensions, an empty iterable, or entries that are not finite.

    Source: the sum over blocks is ``EᵀE`` itself, so nothing is approximated beyond float64.
    """
    reading = _begin(source, claims)
    covariance = None
    for rows in reading.blocks():
        if covariance is None:
            covariance = np.zeros((rows.shape[1],) * 2)
        reading.note(rows, add_covariance(covariance, rows))
    assert covariance is not None
    sigma, rank, directions = principal_directions(covariance, reading.seen, tolerance)
    return _streamed(reading, sigma, rank, directions, "exact")


def factor_compressed(
    source: Source,
    policy: RankPolicy,
    *,
    directions: int = 128,
    claims: ArrayLike | None = None,
    tolerance: float = RANK_TOLERANCE,
) -> Subspace:
    """Factor rows that stream past with ``directions`` · d numbers in memory: an approximation, and marked.

    The factor so far, ``F = ΣVᵀ`` (k, d), and the next block are stacked and factored anew, and all but
    the k strongest directions are dropped. What is dropped is positive semidefinite, so that with
    δ = Σ σ²_{k+1} over all merges the exact ``EᵀE`` is between ``FᵀF`` and ``FᵀF + δ·I``.

    By Davis and Kahan the retained subspace turns by no more than sin θ ≤ δ / (λ_r − λ_{r+1} − δ), and no
    energy then changes by more than sin θ: this is ``approximation_error``. It is 1 where δ closes the gap or
    leaves the numeric rank open; take more directions then. The guarantee is far wider than the error met
    in practice, which :func:`measured_error` finds where the exact way can be afforded as well.

    Parameters
    ----------
    source, claims, tolerance : as in :func:`factor_stream`.
    policy : the rank policy that the energies will be read with; the error holds for it.
    directions : k ≥ 1, the directions carried from block to block.

    Raises
    ------
    ValueError
        As :func:`factor_stream`, and for k < 1.

    Source: M. Brand, ECCV 2002 (incremental SVD); C. Davis & W. M. Kahan, SIAM J. Numer. Anal. 7 (1970).
    """
    if directions < 1:
        raise ValueError(f"directions must be at least 1, not {directions}")
    reading = _begin(source, claims)
    factors, dropped = None, 0.0
    for block in reading.blocks():
        rows = reading.note(block, scale_to_unit(block))
        stacked = rows if factors is None else np.vstack([factors, rows])
        factors, lost = _strongest(stacked, directions)
        dropped += lost
    assert factors is not None
    sigma = np.linalg.norm(factors, axis=1)
    rank = 0 if not sigma.size else int(np.count_nonzero(sigma > tolerance * sigma[0]))
    V = np.ascontiguousarray((factors[:rank] / sigma[:rank, None]).T)
    subspace = _streamed(reading, sigma, rank, V, "compressed" if dropped else "exact")
    return replace(
        subspace,
        path="compressed",
        approximation_error=_energy_error(sigma, rank, policy, dropped, tolerance),
    )


def measured_error(
    approximate: Subspace, exact: Subspace, policy: RankPolicy, probes: ArrayLike | None = None
) -> float:
    """The largest difference of energies between two factorisations of the same evidence, in [0, 1].

    Parameters
    ----------
    probes : (m, d) claims to compare on. By default the exact directions on both sides of the cutoff, where
        a wrong subspace shows first, and as many random mixtures of all of them, drawn with a fixed seed.
    """
    if probes is None:
        V = exact.basis.T
        probes = np.vstack([V, np.random.default_rng(0).standard_normal((len(V), len(V))) @ V])
    one, other = (energies(probes, subspace, policy).energy for subspace in (approximate, exact))
    return float(np.abs(one - other).max(initial=0.0))


def _strongest(stacked: Array, k: int) -> tuple[Array, float]:
    """``ΣVᵀ`` (≤ k, d) of the k strongest directions, and the largest σ² that was dropped.

    From the smaller of the two squared matrices, as in ``factor``.
    """
    if len(stacked) <= stacked.shape[1]:
        eigenvalues, U = np.linalg.eigh(stacked @ stacked.T)
        kept = np.ascontiguousarray(U[:, ::-1][:, :k].T @ stacked)
    else:
        eigenvalues, V = np.linalg.eigh(stacked.T @ stacked)
        scale = np.sqrt(np.maximum(eigenvalues[::-1][:k], 0.0))
        kept = np.ascontiguousarray((V[:, ::-1][:, :k] * scale).T)
    return kept, max(0.0, float(eigenvalues[-1 - k])) if len(eigenvalues) > k else 0.0


def _energy_error(sigma: Array, rank: int, policy: RankPolicy, dropped: float, tolerance: float) -> float:
    """The most that an energy at the policy's rank differs when ``EᵀE`` differs by ``dropped``."""
    if dropped == 0.0 or rank == 0:
        return 0.0
    r = policy.retained(sigma, rank)
    if policy.kind != "cap" or r < int(policy.value):
        return 1.0  # the exact set may have more directions than were carried
    power = sigma**2
    beyond = float(power[r]) if r < sigma.size else 0.0
    distance = float(power[r - 1]) - beyond - dropped
    if power[r - 1] <= tolerance**2 * (power[0] + dropped) or dropped >= distance:
        return 1.0
    return dropped / distance


def _streamed(reading: _Pass, sigma: Array, rank: int, directions: Array, approximation: str) -> Subspace:
    norms = np.concatenate(reading.norms)
    kept = norms >= ZERO_NORM
    return Subspace(
        vectors=None,
        lengths=norms[kept],
        kept=kept,
        singular_values=sigma,
        numeric_rank=rank,
        dimension=directions.shape[0],
        path="streamed_covariance",
        directions=directions,
        read_blocks=reading.again if _repeatable(reading.source) else None,
        seen_nearest=reading.recall,
        approximation=approximation,
    )
