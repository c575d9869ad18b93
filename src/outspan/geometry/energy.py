"""Hallucination Energy: the squared residual of a claim after projection on the evidence subspace.

For a unit claim ``c`` and an orthonormal basis ``B`` (d, r) of the retained subspace

    explained = ‖Bᵀ c‖²        energy = clip(1 − explained, 0, 1) = ‖c − B Bᵀ c‖²

The energy is a squared magnitude: √energy is the distance from the claim to the subspace. One evidence
vector gives sin²θ.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outspan.geometry.subspace import (
    HUGE_NORM,
    ZERO_NORM,
    Array,
    RankPolicy,
    Subspace,
    as_rows,
    factor,
    row_norms,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Energies:
    """The energies of m claims against one subspace.

    A claim without direction (norm < 1e-12) is ``degenerate``: its numbers are zero and mean nothing.
    """

    energy: Array
    """(m,) in [0, 1]."""
    explained: Array
    """(m,) ‖Bᵀc‖², in [0, 1] up to rounding."""
    rank: int
    """r, the number of retained directions."""
    cap_bound: bool
    """Whether the rank policy left out directions that are numerically there (r < ρ)."""
    identity_error: Array
    """(m,) |‖c − BBᵀc‖² + ‖Bᵀc‖² − 1|, which exact arithmetic makes 0."""
    coordinates: Array
    """(m, ρ) Vᵀc along every direction of numeric rank, retained or not."""
    energy_at: Array
    """(m, 4) energy in [0, 1] at the ranks max(1, r // 2), r, min(2r, ρ) and ρ."""
    degenerate: NDArray[np.bool_]
    """(m,) claims that have no direction."""
    subspace: Subspace
    """What was projected on."""
    known_similarities: Array | None
    """(m, n) cosines for n ≤ d, where they are an intermediate result; None elsewhere."""
    claims: Array
    """(m, d) claims, at any length."""
    scales: Array
    """(m,) factors that make them unit vectors; 0 for a degenerate claim."""

    @property
    def unit_claims(self) -> Array:
        """(m, d) claims at unit length."""
        return self.claims * self.scales[:, None]

    @property
    def similarities(self) -> Array:
        """(m, n) cosines between claims and evidence rows; m · n numbers, so not for 100,000 rows."""
        if self.known_similarities is not None:
            return self.known_similarities
        return np.hstack(list(self.subspace.similarity_blocks(self.unit_claims)))


def energies(claims: ArrayLike, subspace: Subspace, policy: RankPolicy) -> Energies:
    """Energies of ``claims`` (m, d), all projected in one matrix product.

    Raises
    ------
    ValueError
        When the dimensions differ or a claim holds NaN or infinity.
    """
    C = as_rows(claims, "claims")
    if C.shape[1] != subspace.dimension:
        evidence = (subspace.n, subspace.dimension)
        raise ValueError(f"claims have shape {C.shape} and evidence {evidence}: the dimensions d differ")
    C, scales, degenerate = _scaled(C)
    similarities = None
    if subspace.whitener is not None:
        assert subspace.vectors is not None
        # Scaling the m × n cosines is cheaper than scaling claims and rows, and the same number.
        similarities = C @ subspace.vectors.T
        similarities *= scales[:, None]
        similarities /= subspace.lengths
    if subspace.directions is not None:
        coordinates = (C @ subspace.directions) * scales[:, None]
    else:
        assert similarities is not None
        assert subspace.whitener is not None
        coordinates = similarities @ subspace.whitener
    rho = subspace.numeric_rank
    rank = policy.retained(subspace.singular_values, rho)
    explained_at = (coordinates * coordinates) @ _first_directions(rank, rho)
    explained = explained_at[:, 1]
    energy_at = (1.0 - explained_at).clip(0.0, 1.0)
    return Energies(
        energy=energy_at[:, 1],
        explained=explained,
        rank=rank,
        cap_bound=rank < rho,
        identity_error=np.abs(_projected_norms(subspace, coordinates[:, :rank]) - explained),
        coordinates=coordinates,
        energy_at=energy_at,
        degenerate=degenerate,
        subspace=subspace,
        known_similarities=similarities,
        claims=C,
        scales=scales,
    )


def _scaled(C: Array) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Claims (m, d), the factors (m,) that make them unit vectors, and which of them have no direction."""
    norms = row_norms(C, "claims")
    degenerate = norms < ZERO_NORM
    if norms.max(initial=0.0) > HUGE_NORM:  # a product with the rows could overflow: scale first
        C = C / np.maximum(norms, ZERO_NORM)[:, None]
        norms = np.where(degenerate, 0.0, 1.0)
    if np.count_nonzero(degenerate):
        norms = np.where(degenerate, np.inf, norms)
    return C, 1.0 / norms, degenerate


@lru_cache(maxsize=256)
def _first_directions(rank: int, numeric_rank: int) -> Array:
    """(ρ, 4) zeros and ones that sum over the first r/2, r, 2r and all directions."""
    ranks = np.array([min(max(1, rank // 2), rank), rank, min(2 * rank, numeric_rank), numeric_rank])
    chosen = np.asarray(np.arange(numeric_rank)[:, None] < ranks, dtype=np.float64)
    chosen.flags.writeable = False
    return chosen


def _projected_norms(subspace: Subspace, a: Array) -> Array:
    """(m,) ‖B a‖² for coordinates a (m, r).

    Expanding ‖c − Ba‖² for a = Bᵀc leaves 1 − 2‖a‖² + ‖Ba‖²: the identity fails exactly as far as B fails
    to keep lengths, that is, to be orthonormal. On the Gram path Ba = Eᵀw with w = Wa, so ‖Ba‖² = wᵀGw
    and no vector of d numbers is formed.
    """
    m, r = a.shape
    if subspace.directions is not None:
        B = subspace.directions[:, :r]
        if m <= r:
            images = a @ B.T
            return np.asarray(np.vecdot(images, images))
        product = B.T @ B
    else:
        assert subspace.whitener is not None
        W = subspace.whitener[:, :r]
        if m <= r:
            weights = a @ W.T
            return np.asarray(np.vecdot(weights @ subspace.gram, weights))
        product = W.T @ (subspace.gram @ W)
    return np.asarray(np.vecdot(a @ product, a))


def hallucination_energy(
    claim_vec: ArrayLike, evidence_vecs: ArrayLike, rank_r: int = 8
) -> dict[str, object]:
    """Energy of one claim vector against evidence vectors, for people who bring their own.

    Parameters
    ----------
    claim_vec : (d,) claim.
    evidence_vecs : (n, d) evidence, or (d,) for a single row; empty means that there is none.
    rank_r : cap on the number of retained directions. The default is that of the first published
        implementation; the sensor's own is 64, so that a row of the evidence stays at 0.

    Returns
    -------
    dict
        ``state`` (``MEASURED``, ``NO_EVIDENCE`` or ``DEGENERATE``), ``energy`` and ``explained`` in [0, 1],
        or None where nothing was measured, so that nobody averages it; ``effective_rank`` (the
        numeric rank ρ, counted before the cap), ``rank`` (r), ``cap_bound``, and ``operational_energy``:
        the energy where measured and 1.0 otherwise, for code that needs a number in every row and knows
        what it does.

    Raises
    ------
    ValueError
        For shapes that do not fit (the message names them) or entries that are not finite.

    Examples
    --------
    >>> hallucination_energy([0.8, 0.6], [[1.0, 0.0]])["energy"]
    0.36
    """
    if isinstance(claim_vec, np.ma.MaskedArray) or isinstance(evidence_vecs, np.ma.MaskedArray):
        raise ValueError("masked arrays are not measured: fill or drop what is masked first")
    claim = np.asarray(claim_vec)
    if claim.ndim != 1 or claim.size == 0:
        raise ValueError(f"claim_vec must be a non-empty vector (d,); its shape is {claim.shape}")
    evidence = np.asarray(evidence_vecs)
    if evidence.size == 0:
        return _without_energy("NO_EVIDENCE", 0)
    if evidence.ndim == 1:
        evidence = evidence[None, :]
    subspace = factor(evidence)
    if subspace.dimension != claim.shape[0]:
        raise ValueError(f"claim_vec has shape {claim.shape} and evidence_vecs {evidence.shape}: d differs")
    measured = energies(claim[None, :], subspace, RankPolicy("cap", rank_r))
    if measured.degenerate[0]:
        return _without_energy("DEGENERATE", subspace.numeric_rank)
    if subspace.n == 0:
        return _without_energy("NO_EVIDENCE", 0)
    energy = round(float(measured.energy[0]), 15)  # 0.36, not 0.35999999999999988: below that is rounding
    return {
        "state": "MEASURED",
        "energy": energy,
        "explained": float(measured.explained[0]),
        "effective_rank": subspace.numeric_rank,
        "rank": measured.rank,
        "cap_bound": measured.cap_bound,
        "operational_energy": energy,
    }


def _without_energy(state: str, numeric_rank: int) -> dict[str, object]:
    return {
        "state": state,
        "energy": None,
        "explained": None,
        "effective_rank": numeric_rank,
        "rank": 0,
        "cap_bound": False,
        "operational_energy": 1.0,
    }
