"""What stands beside an energy: the shape of the spectrum, similarities, what the claim leans on.

None of these is a second opinion on support; they say how far the number can be trusted and where it
comes from.

Sources: participation ratio (Σλ)²/Σλ² with λ = σ²; effective rank exp(H(p)), p = σ/Σσ: Roy & Vetterli,
EUSIPCO 2007. The leave-one-out identity is the partial-correlation form of the inverse Gram matrix.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from outspan.geometry.energy import Energies
from outspan.geometry.subspace import RANK_TOLERANCE, Array, RankPolicy, Subspace, spectrum

UNSTABLE_GAP = 0.01
"""A relative spectral gap at the cutoff below this makes the retained subspace ``unstable``."""

LEAVE_ONE_OUT_LIMIT = 128
"""Above this many rows, leave-one-out is given only where a closed form exists: it costs n factorisations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spectrum:
    """Facts about the evidence alone."""

    sigma1_ratio: float
    """σ₁/Σσ in (0, 1]: near 1 when the evidence says one thing."""
    sigma2_ratio: float
    """σ₂/Σσ in [0, 1/2]."""
    participation_ratio: float
    """(Σσ²)²/Σσ⁴ in [1, n]: the number of directions that carry the mass."""
    entropy_rank: float
    """exp(−Σ p ln p), p = σ/Σσ, in [1, n]."""
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
    nearest: Array
    """(m,) index of the row with the largest cosine."""
    alignment: Array
    """(m,) |v₁ᵀc| in [0, 1]."""
    energy_half_rank: Array
    """(m,) energy at max(1, r // 2)."""
    energy_double_rank: Array
    """(m,) energy at 2r."""
    energy_uncapped: Array
    """(m,) energy with every direction of numeric rank."""


def describe_spectrum(subspace: Subspace, policy: RankPolicy) -> Spectrum:
    """The spectrum's shape; needs at least one row."""
    sigma = subspace.singular_values
    total = float(sigma.sum())
    power = sigma * sigma
    mass = float(power.sum())
    share = sigma[sigma > 0.0] / total
    r = policy.retained(sigma, subspace.numeric_rank)
    gap = None if r >= subspace.numeric_rank else float((sigma[r - 1] - sigma[r]) / sigma[0])
    return Spectrum(
        sigma1_ratio=float(sigma[0]) / total,
        sigma2_ratio=float(sigma[1]) / total if sigma.size > 1 else 0.0,
        participation_ratio=mass * mass / float(power @ power),
        entropy_rank=float(np.exp(-(share @ np.log(share)))),
        spectral_gap=gap,
        unstable=gap is not None and gap < UNSTABLE_GAP,
    )


def describe_claims(subspace: Subspace, measured: Energies) -> ClaimDiagnostics:
    """Similarities, alignment, and the energy at other ranks, for all claims at once."""
    similarities = measured.similarities
    m = similarities.shape[0]
    nearest = similarities.argmax(axis=1)
    top1 = similarities[np.arange(m), nearest]
    top2 = None if subspace.n < 2 else np.partition(similarities, subspace.n - 2, axis=1)[:, -2]
    mass = np.cumsum(measured.coordinates**2, axis=1)  # (m, ρ): the energy at rank k is 1 − column k
    rho, r = subspace.numeric_rank, measured.rank
    return ClaimDiagnostics(
        sim_top1=top1,
        sim_top2=top2,
        nearest=nearest,
        alignment=np.abs(measured.coordinates[:, 0]),
        energy_half_rank=_energy_at(mass, max(1, r // 2)),
        energy_double_rank=_energy_at(mass, min(2 * r, rho)),
        energy_uncapped=_energy_at(mass, rho),
    )


def _energy_at(mass: Array, rank: int) -> Array:
    return np.clip(1.0 - mass[:, rank - 1], 0.0, 1.0)


def energy_by_rank(measured: Energies) -> Array:
    """(m, ρ) energy at every rank 1 … ρ; never rises along a row."""
    return np.clip(1.0 - np.cumsum(measured.coordinates**2, axis=1), 0.0, 1.0)


def leave_one_out(
    subspace: Subspace, measured: Energies, policy: RankPolicy, *, tolerance: float = RANK_TOLERANCE
) -> Array | None:
    """(m, n) energy without row i minus energy: how much the claim leans on each evidence row.

    Where the rows are independent (ρ = n) and no direction is cut, removing row i raises the energy by
    ``(G⁻¹b)ᵢ² / (G⁻¹)ᵢᵢ`` with b = E c, so all n values cost one product. Elsewhere the definition is
    applied anew to each reduced set, in one batch of n eigenproblems: a cut basis turns when a row goes,
    so that a value can then be negative. None above ``LEAVE_ONE_OUT_LIMIT`` rows of that second kind.
    """
    if subspace.whitener is not None and subspace.numeric_rank == subspace.n and not measured.cap_bound:
        inverse_diagonal = np.einsum("ij,ij->i", subspace.whitener, subspace.whitener)
        weights = measured.coordinates @ subspace.whitener.T  # (m, n): G⁻¹ b
        return weights**2 / inverse_diagonal
    if subspace.n > LEAVE_ONE_OUT_LIMIT:
        return None
    return _leave_one_out_anew(subspace, measured, policy, tolerance)


def _leave_one_out_anew(
    subspace: Subspace, measured: Energies, policy: RankPolicy, tolerance: float
) -> Array:
    n = subspace.n
    keep = 1.0 - np.eye(n)
    # Zeroing row and column i of G leaves the spectrum of the reduced set and one more zero.
    eigenvalues, vectors = np.linalg.eigh(subspace.gram * keep[:, :, None] * keep[:, None, :])
    result = np.empty((measured.energy.shape[0], n))
    for i in range(n):
        sigma, rank = spectrum(eigenvalues[i], tolerance)
        r = policy.retained(sigma[: n - 1], min(rank, n - 1))
        strongest = vectors[i][:, ::-1][:, :r]
        coordinates = (measured.similarities * keep[i]) @ strongest / sigma[:r]
        result[:, i] = np.clip(1.0 - np.einsum("ij,ij->i", coordinates, coordinates), 0.0, 1.0)
    return result - measured.energy[:, None]
