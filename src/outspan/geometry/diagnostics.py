"""What stands beside an energy: the shape of the spectrum, similarities, what the claim leans on.

None of these is a second opinion on support; they say how far the number can be trusted and where it
comes from.

Sources: participation ratio (Σλ)²/Σλ² with λ = σ²; effective rank exp(H(p)), p = σ/Σσ: Roy & Vetterli,
EUSIPCO 2007. The leave-one-out identity is the partial-correlation form of the inverse Gram matrix.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from outspan.geometry.energy import Energies, energies
from outspan.geometry.subspace import (
    RANK_TOLERANCE,
    SQUARING_LIMIT,
    Array,
    Nearest,
    RankPolicy,
    Subspace,
    factor,
    spectrum,
)

UNSTABLE_GAP = 1e-3
"""A relative spectral gap (σ_r − σ_{r+1})/σ₁ below this makes the retained subspace ``unstable``.

Rows that move by half the gap can, by Wedin's bound, exchange the last direction kept for the first one cut
(``geometry.perturbation``). For 64 sentences σ₁ lies between 1 and 8, so that 1e-3 is a move of 0.0005 to
0.004 in all: more than the 2e-7 a row by which two runtimes of one embedder differ, and less than any change
of wording makes. A cutoff in the middle of a spectrum usually has a gap of some 4e-3. The flag
speaks of the subspace: an energy moves much less, unless the claim lies along the exchanged directions."""

LEAVE_ONE_OUT_LIMIT = 128
"""Above this many rows, leave-one-out is given only where a closed form exists: it costs n factorisations."""

POLE_DISTANCE = 1e-11
"""A downdated eigenvalue closer to an old one than this share of λ₁ is not resolved by the closed form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spectrum:
    """Facts about the evidence alone, from its ρ numerically non-zero singular values."""

    sigma1_ratio: float
    """σ₁/Σσ in (0, 1]: near 1 when the evidence says one thing."""
    sigma2_ratio: float
    """σ₂/Σσ in [0, 1/2]."""
    participation_ratio: float
    """(Σσ²)²/Σσ⁴ in [1, ρ]: the number of directions that carry the mass."""
    entropy_rank: float
    """exp(−Σ p ln p), p = σ/Σσ, in [1, ρ]."""
    spectral_gap: float | None
    """(σ_r − σ_{r+1})/σ₁ in [0, 1] where the cap binds; None elsewhere, since nothing is cut."""
    unstable: bool
    """Whether the gap is below ``UNSTABLE_GAP``: a small change of evidence could turn the subspace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimDiagnostics:
    """Facts about m claims against one evidence set; every array has m rows."""

    sim_top1: Array
    """(m,) largest cosine with an evidence row."""
    sim_top2: Array | None
    """(m,) second largest; None for a single row."""
    nearest: NDArray[np.intp]
    """(m,) index of the row with the largest cosine; the first of equals."""
    alignment: Array
    """(m,) |v₁ᵀc| in [0, 1]."""
    energy_half_rank: Array
    """(m,) energy at max(1, r // 2)."""
    energy_double_rank: Array
    """(m,) energy at 2r."""
    energy_uncapped: Array
    """(m,) energy with every direction of numeric rank."""

    @property
    def rank_spread(self) -> Array:
        """(m,) in [0, 1]: how far the energies at r/2, r, 2r and without cap lie apart."""
        return self.energy_half_rank - self.energy_uncapped  # the energy never rises with the rank


def nearest_rows(subspace: Subspace, measured: Energies) -> Nearest:
    """The two largest cosines of each claim, without m · n numbers at once where the rows are many."""
    if measured.known_similarities is not None:
        return Nearest.among(measured.known_similarities)
    claims = measured.unit_claims
    found = None if subspace.seen_nearest is None else subspace.seen_nearest(claims)
    start = 0
    for similarities in subspace.similarity_blocks(claims) if found is None else ():
        part = Nearest.among(similarities, start)
        found = part if found is None else found.merged(part)
        start += similarities.shape[1]
    assert found is not None
    return found


def describe_spectrum(subspace: Subspace, policy: RankPolicy) -> Spectrum:
    """The spectrum's shape; needs at least one row.

    Sums run over the numerically non-zero σ: the others are rounding noise of a size that depends on the
    numeric path, and would otherwise reach the record.
    """
    rho = subspace.numeric_rank
    sigma = subspace.singular_values[:rho]
    power = sigma * sigma
    total = float(np.add.reduce(sigma))
    mass = float(np.add.reduce(power))
    first = float(sigma[0])
    r = policy.retained(subspace.singular_values, rho)
    gap = None if r >= rho else float(sigma[r - 1] - sigma[r]) / first
    return Spectrum(
        sigma1_ratio=first / total,
        sigma2_ratio=float(sigma[1]) / total if rho > 1 else 0.0,
        participation_ratio=mass * mass / float(power.dot(power)),
        # −Σ p ln p with p = σ/S is ln S − Σ σ ln σ / S.
        entropy_rank=total * math.exp(-float(sigma.dot(np.log(sigma))) / total),
        spectral_gap=gap,
        unstable=gap is not None and gap < UNSTABLE_GAP,
    )


def describe_claims(subspace: Subspace, measured: Energies) -> ClaimDiagnostics:
    """Similarities, alignment, and the energy at other ranks, for all claims at once."""
    nearest = nearest_rows(subspace, measured)
    energy_at = measured.energy_at
    return ClaimDiagnostics(
        sim_top1=nearest.top1,
        sim_top2=None if subspace.n < 2 else nearest.top2,
        nearest=nearest.index,
        alignment=np.abs(measured.coordinates[:, 0]),
        energy_half_rank=energy_at[:, 0],
        energy_double_rank=energy_at[:, 2],
        energy_uncapped=energy_at[:, 3],
    )


def energy_by_rank(measured: Energies) -> Array:
    """(m, ρ) energy at every rank 1 … ρ; never rises along a row."""
    return np.asarray((1.0 - np.cumsum(measured.coordinates**2, axis=1)).clip(0.0, 1.0))


def leave_one_out(
    subspace: Subspace, measured: Energies, policy: RankPolicy, *, tolerance: float = RANK_TOLERANCE
) -> Array | None:
    """(m, n) energy without row i minus energy, in [−1, 1]: how much the claim leans on each evidence row.

    * Rows independent (ρ = n), nothing cut: removing row i raises the energy by ``(G⁻¹b)ᵢ² / (G⁻¹)ᵢᵢ``
      with b = E c, so all n values cost one product. They are never negative.
    * The cap binds: each reduced spectrum is a rank-one downdate of the whole one, see
      :func:`_downdated_energies`. A cut basis turns when a row goes, so a value can be negative: the
      directions that are left may suit the claim better.
    * Dependent rows, or ``variance:q``, which may retain another number of directions each time: the
      definition is applied anew to each reduced set, in one batch of n eigenproblems.

    Without its only row a set spans nothing and leaves the whole claim outside: energy 1.0, so the value is
    the explained share. (A caller that measures such a set gets the state NO_EVIDENCE instead.)

    Returns None above ``LEAVE_ONE_OUT_LIMIT`` rows of the last two kinds, which cost n factorisations, and
    for rows that were streamed.

    Source: Golub, *Some modified matrix eigenvalue problems*, SIAM Review 15 (1973), §5.
    """
    full_rank = subspace.numeric_rank == subspace.n
    if subspace.whitener is not None and full_rank and not measured.cap_bound:
        inverse_diagonal = np.vecdot(subspace.whitener, subspace.whitener)
        weights = measured.coordinates @ subspace.whitener.T  # (m, n): G⁻¹ b
        return np.asarray(weights**2 / inverse_diagonal)
    if subspace.n > LEAVE_ONE_OUT_LIMIT or subspace.vectors is None:
        return None
    if measured.cap_bound and policy.kind == "cap" and subspace.path == "gram":
        without = _downdated_energies(subspace.gram, measured.similarities, measured.rank)
        unresolved = np.flatnonzero(np.isnan(without[0])) if without.size else np.empty(0, np.intp)
    else:
        without = np.empty_like(measured.similarities)
        unresolved = np.arange(subspace.n)
    without[:, unresolved] = _recomputed_energies(subspace, measured, policy, tolerance, unresolved)
    return without - measured.energy[:, None]


def _downdated_energies(gram: Array, similarities: Array, r: int) -> Array:
    """(m, n) energy at rank r without row i; NaN in column i where the formula would lose digits.

    With G = U Λ Uᵀ, taking row i out turns Λ into Λ − zzᵀ, z = Σ Uᵢ. To its eigenvalue μ belongs the
    eigenvector (Λ − μ)⁻¹z, along which the claim has the squared coordinate N²/D with

        N = Σₖ Uᵢₖ (Uᵀb)ₖ / (λₖ − μ)        D = Σₖ λₖ Uᵢₖ² / (λₖ − μ)²

    No σ is divided by, so directions that are numerically zero do no harm. The μ come from eigenvalue-only
    problems, which cost a third of those with vectors. They interlace: λⱼ ≥ μⱼ ≥ λⱼ₊₁, so the reduced set
    still has r directions of numeric rank where the cap r binds. Only a μ that all but meets a λ is a
    problem, since λ − μ is then rounding: such rows are left to the caller.
    """
    n = gram.shape[0]
    eigenvalues, U = np.linalg.eigh(gram)
    largest = eigenvalues[-1]
    reduced = np.linalg.eigvalsh(_reduced_grams(gram, np.arange(n)))
    strongest = reduced[:, : n - 1 - r : -1]  # (n, r): μ₁ ≥ … ≥ μᵣ for each missing row
    distance = eigenvalues - strongest[:, :, None]  # (n, r, n): λₖ − μᵢⱼ
    clear = np.abs(distance).min(axis=(1, 2)) > POLE_DISTANCE * largest
    distance[~clear] = 1.0
    vectors = U[:, None, :] / distance
    D = (vectors * vectors) @ eigenvalues
    N = vectors @ (similarities @ U).T  # (n, r, m)
    explained = np.einsum("ijm,ijm,ij->mi", N, N, 1.0 / D)
    return np.where(clear, (1.0 - explained).clip(0.0, 1.0), np.nan)


def _reduced_grams(gram: Array, missing: NDArray[np.intp]) -> Array:
    """(k, n, n) Gram matrices with one row and column set to zero: the reduced spectrum and one more 0."""
    keep = np.ones((missing.size, gram.shape[0]))
    keep[np.arange(missing.size), missing] = 0.0
    return np.asarray(gram * keep[:, :, None] * keep[:, None, :])


def _recomputed_energies(
    subspace: Subspace, measured: Energies, policy: RankPolicy, tolerance: float, missing: NDArray[np.intp]
) -> Array:
    """(m, k) energy without each of the k ``missing`` rows, by the definition."""
    n = subspace.n
    result = np.empty((measured.energy.shape[0], missing.size))
    if subspace.path != "gram":
        for k, row in enumerate(missing):
            result[:, k] = _energy_without(subspace, measured, policy, tolerance, row)
        return result
    eigenvalues, vectors = np.linalg.eigh(_reduced_grams(subspace.gram, missing))
    for k, row in enumerate(missing):
        sigma, rank = spectrum(eigenvalues[k], tolerance)
        rank = min(rank, n - 1)
        if rank and sigma[rank - 1] < SQUARING_LIMIT * sigma[0]:
            result[:, k] = _energy_without(subspace, measured, policy, tolerance, row)
            continue
        r = policy.retained(sigma[: n - 1], rank)
        # The missing row's own entry in a vector with σ > 0 is zero, so its similarity has no part in this.
        coordinates = measured.similarities @ vectors[k][:, ::-1][:, :r] / sigma[:r]
        result[:, k] = 1.0 - np.vecdot(coordinates, coordinates)
    return result.clip(0.0, 1.0)


def _energy_without(
    subspace: Subspace, measured: Energies, policy: RankPolicy, tolerance: float, row: int
) -> Array:
    """(m,) energy after a factorisation without ``row``; the claims need their components outside E too."""
    reduced = factor(np.delete(subspace.rows, row, axis=0), tolerance=tolerance)
    return energies(measured.claims, reduced, policy).energy
