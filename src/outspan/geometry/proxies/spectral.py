"""Proxies that project on directions of the evidence: energy, energy_variance, centered_affine,
weighted_svd.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from outspan.geometry.energy import energies
from outspan.geometry.proxies.contract import Property, Proxy, clipped, whole, within
from outspan.geometry.subspace import RANK_TOLERANCE, Array, RankPolicy, Subspace


def cap_policy(cap: int | None, dimension: int) -> RankPolicy:
    """``cap:r``, where no cap means the dimension."""
    return RankPolicy("cap", dimension if cap is None else cap)


@dataclass(frozen=True, slots=True, kw_only=True)
class Energy(Proxy):
    """Squared residual of the claim after projection on the span of the evidence, uncentered.

    ``energy(c) = ‖c − B Bᵀ c‖²`` with B the r strongest right-singular directions, r = min(cap, ρ).

    Range
    -----
    [0, 1]. One evidence row gives sin²θ, so a claim opposite to its evidence has energy 0: a span knows no
    sign.

    Source
    ------
    The design's *Hallucination Energy*; Golub & Van Loan, Matrix Computations, §2.5.1 (orthogonal
    projection).
    """

    cap: int | None = 64
    """Most directions retained; None retains every direction that is numerically there."""

    name: ClassVar[str] = "energy"
    formula: ClassVar[str] = "‖c − B Bᵀ c‖², B = the min(cap, ρ) strongest right-singular directions of E"
    source: ClassVar[str] = (
        "Hallucination Energy; orthogonal projection, Golub & Van Loan, Matrix Computations, §2.5"
    )
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    properties: ClassVar[tuple[Property, ...]] = (
        "order",
        "scale",
        "rotation",
        "sign",
        "duplicates",
        "growth",
    )

    def __post_init__(self) -> None:
        if self.cap is not None:
            object.__setattr__(self, "cap", whole(self.name, "cap", self.cap))

    def _values(self, C: Array, subspace: Subspace) -> Array:
        return energies(C, subspace, cap_policy(self.cap, subspace.dimension)).energy


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyVariance(Proxy):
    """The energy with the fewest directions that keep the share q of the spectral mass.

    ``r = min { r : Σ_{i≤r} σ_i² ≥ q · Σ σ_i² }``, then ``‖c − B Bᵀ c‖²``.

    Range
    -----
    [0, 1]. What is retained depends on how often the evidence says a thing: a fact said once among many
    repetitions of another is cut first, so neither duplicates nor added evidence leave the value alone.

    Source
    ------
    Jolliffe, Principal Component Analysis, 2nd ed., §6.1.1 (cumulative share of the variance), without
    centring.
    """

    q: float = 0.9
    """Share of Σσ² that is kept, in (0, 1]."""

    name: ClassVar[str] = "energy_variance"
    formula: ClassVar[str] = (
        "‖c − B Bᵀ c‖², B = the fewest right-singular directions with Σ_{i≤r} σ_i² ≥ q Σ σ_i²"
    )
    source: ClassVar[str] = "Jolliffe, Principal Component Analysis, §6.1.1: cumulative share of the variance"
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    properties: ClassVar[tuple[Property, ...]] = ("order", "scale", "rotation", "sign")

    def __post_init__(self) -> None:
        object.__setattr__(self, "q", within(self.name, "q", self.q, 1e-12, 1.0))

    def _values(self, C: Array, subspace: Subspace) -> Array:
        return energies(C, subspace, RankPolicy("variance", self.q)).energy


@dataclass(frozen=True, slots=True, kw_only=True)
class CenteredAffine(Proxy):
    """A quarter of the squared distance from the claim to the affine hull of the evidence.

    With μ the mean of the unit evidence rows and P the projection on the strongest min(cap, ρ) right-singular
    directions of the centred rows ``E − 1μᵀ``, ``‖(I − P)(c − μ)‖² / 4``.

    The flat passes through the centroid instead of the origin: what all the evidence has in common (its
    topic) must be matched, not merely pointed along, and opposite claims are far. Two points of the unit
    sphere are at most 2 apart and the hull contains evidence points, so 4 is the largest squared distance; it
    is reached for one evidence row (or equal rows) and the opposite claim. One row gives (1 − cos θ)/2.

    Range
    -----
    [0, 1]. Directions count as present when σ_i > tol·σ₁ with σ₁ of the *uncentered* rows: equal rows have no
    centred spectrum, and rounding must not be promoted to one.

    Source
    ------
    Distance to a linear manifold through the centroid: Hastie, Tibshirani & Friedman, The Elements of
    Statistical Learning, §14.5.1.
    """

    cap: int | None = 64
    """Most directions of the affine hull retained; None retains all."""

    name: ClassVar[str] = "centered_affine"
    formula: ClassVar[str] = (
        "‖(I − P)(c − μ)‖² / 4, P = projection on min(cap, ρ) directions of the rows e_i − μ"
    )
    source: ClassVar[str] = "Hastie, Tibshirani & Friedman, Elements of Statistical Learning, §14.5.1"
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    properties: ClassVar[tuple[Property, ...]] = ("order", "scale", "rotation", "duplicates", "growth")

    def __post_init__(self) -> None:
        if self.cap is not None:
            object.__setattr__(self, "cap", whole(self.name, "cap", self.cap))

    def _values(self, C: Array, subspace: Subspace) -> Array:
        centroid = subspace.rows.mean(axis=0)
        _, sigma, Vt = np.linalg.svd(subspace.rows - centroid, full_matrices=False)
        present = int(np.count_nonzero(sigma > RANK_TOLERANCE * subspace.singular_values[0]))
        retained = present if self.cap is None else min(self.cap, present)
        offset = C - centroid
        residual = offset - (offset @ Vt[:retained].T) @ Vt[:retained]
        return clipped(np.einsum("ij,ij->i", residual, residual) / 4.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedSvd(Proxy):
    """The energy with each direction's share weighted by its strength: no cut, a slope.

    ``1 − Σ_i (σ_i/σ₁)^p (v_iᵀ c)²`` over every direction that is numerically there.

    p = 0 is the energy without a cap; the larger p, the more a direction that the evidence hardly uses counts
    as outside.

    Range
    -----
    [0, 1]. Repeated and added evidence changes the weights of all other directions.

    Source
    ------
    Filter factors of a singular value expansion: Hansen, Rank-Deficient and Discrete Ill-Posed Problems,
    §4.2.
    """

    p: float = 1.0
    """Exponent ≥ 0 of the relative singular value."""

    name: ClassVar[str] = "weighted_svd"
    formula: ClassVar[str] = "1 − Σ_i (σ_i/σ₁)^p (v_iᵀ c)²"
    source: ClassVar[str] = "filter factors: Hansen, Rank-Deficient and Discrete Ill-Posed Problems, §4.2"
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    properties: ClassVar[tuple[Property, ...]] = ("order", "scale", "rotation", "sign")

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", within(self.name, "p", self.p, 0.0, 64.0))

    def _values(self, C: Array, subspace: Subspace) -> Array:
        sigma = subspace.singular_values[: subspace.numeric_rank]
        coordinates = energies(C, subspace, cap_policy(None, subspace.dimension)).coordinates
        return clipped(1.0 - coordinates**2 @ (sigma / sigma[0]) ** self.p)
