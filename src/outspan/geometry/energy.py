"""Hallucination Energy: the squared residual of a claim after projection on the evidence subspace.

For a unit claim ``c`` and an orthonormal basis ``B`` (d, r) of the retained subspace

    explained = ‖Bᵀ c‖²        energy = clip(1 − explained, 0, 1) = ‖c − B Bᵀ c‖²

The energy is a squared magnitude: √energy is the distance from the claim to the subspace. One evidence
vector gives sin²θ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outspan.geometry.subspace import ZERO_NORM, Array, RankPolicy, Subspace, as_rows, factor, row_norms


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
    similarities: Array
    """(m, n) cosines between claims and evidence rows."""
    degenerate: NDArray[np.bool_]
    """(m,) claims that have no direction."""


def energies(claims: ArrayLike, subspace: Subspace, policy: RankPolicy) -> Energies:
    """Energies of ``claims`` (m, d), all projected in one matrix product.

    Raises
    ------
    ValueError
        When the dimensions differ or a claim holds NaN or infinity.
    """
    C = as_rows(claims, "claims")
    if C.shape[1] != subspace.dimension:
        raise ValueError(
            f"claims have shape {C.shape} and evidence {subspace.rows.shape}: the dimensions d differ"
        )
    norms = row_norms(C, "claims")
    degenerate = norms < ZERO_NORM
    inverse = 1.0 / np.where(degenerate, np.inf, norms)
    # Scaling the m × n cosines is cheaper than scaling the m × d claims, and the same number.
    similarities = (C @ subspace.rows.T) * inverse[:, None]
    unit = C if subspace.whitener is not None else C * inverse[:, None]
    coordinates = subspace.coordinates(unit, similarities)
    rank = policy.retained(subspace.singular_values, subspace.numeric_rank)
    retained = coordinates[:, :rank]
    explained = np.einsum("ij,ij->i", retained, retained)
    return Energies(
        energy=np.clip(1.0 - explained, 0.0, 1.0),
        explained=explained,
        rank=rank,
        cap_bound=rank < subspace.numeric_rank,
        identity_error=_identity_error(retained, subspace.basis_defect[:rank, :rank]),
        coordinates=coordinates,
        similarities=similarities,
        degenerate=degenerate,
    )


def _identity_error(retained: Array, defect: Array) -> Array:
    """|‖c − Ba‖² + ‖a‖² − 1| for a = Bᵀc and ‖c‖ = 1.

    Expanding the square leaves aᵀ(BᵀB − I)a: the identity fails exactly as far as the basis fails to be
    orthonormal, and this costs r numbers a claim where the residual itself would cost d.
    """
    return np.abs(np.einsum("ij,ij->i", retained @ defect, retained))


def hallucination_energy(
    claim_vec: ArrayLike, evidence_vecs: ArrayLike, rank_r: int = 8
) -> dict[str, object]:
    """Energy of one claim vector against evidence vectors, for people who bring their own.

    Parameters
    ----------
    claim_vec : (d,) claim.
    evidence_vecs : (n, d) evidence, or (d,) for a single row; empty means that there is none.
    rank_r : cap on the number of retained directions.

    Returns
    -------
    dict
        ``state`` (``MEASURED``, ``NO_EVIDENCE`` or ``DEGENERATE``), ``energy`` and ``explained`` in [0, 1],
        or None where nothing was measured, ``effective_rank`` (the numeric rank ρ), ``rank`` (r),
        ``cap_bound``, and ``operational_energy``: the energy where measured and 1.0 otherwise, for code
        that needs a number in every row and knows what it does.

    Raises
    ------
    ValueError
        For shapes that do not fit (the message names them) or entries that are not finite.

    Examples
    --------
    >>> hallucination_energy([0.8, 0.6], [[1.0, 0.0]])["energy"]
    0.36
    """
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
