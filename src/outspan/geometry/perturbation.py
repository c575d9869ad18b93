"""How far an energy can move when evidence rows move: a bound, by Wedin's theorem.

Let unit rows move by chords ε₁ … ε_k, together ε = √Σεᵢ² (the Frobenius norm of the change, which is no
smaller than its spectral norm). By Weyl no singular value moves by more than ε, and by Wedin the largest
principal angle θ between the retained subspace before and after obeys

    sin θ ≤ ε / (σ_r − σ_{r+1} − ε)

as long as the denominator is positive and r is the same before and after; σ_{r+1} reads 0 without its ε
where the rows are r in number, since r rows never span more than r directions. A claim's angle to the
subspace, φ = arcsin √energy, moves by no more than θ, so the energy stays in [sin²(φ − θ), sin²(φ + θ)].

Where r can change, less can be said, and it is said: a direction gained lowers the energy and may lower it
to 0; a direction lost raises it and may raise it to 1.

The bound is for the worst move and the worst claim. Climbing a claim's own gradient, one row at a time, the
angle of random claims reached 24 % of θ for 6 rows at r = 2, 6 % for 12 to 24 rows at r = 4 to 8, and 1 %
for 64 rows at r = 32; a random move, a tenth of that or less. Per unit of ε the angle never moved by more
than 1.3. Read a wide interval as "not guaranteed" and not as "unstable".

Sources: P.-Å. Wedin, BIT 12 (1972), 99–111; C. Davis & W. M. Kahan, SIAM J. Numer. Anal. 7 (1970), 1–46;
G. W. Stewart & J. Sun, Matrix Perturbation Theory (1990), ch. V, thm 4.4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from outspan.geometry.energy import Energies
from outspan.geometry.subspace import RANK_TOLERANCE, Array, RankPolicy, Subspace


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyBounds:
    """Where the energies of m claims can be after the evidence, or the claims, have moved."""

    lower: Array
    """(m,) in [0, 1]."""
    upper: Array
    """(m,) in [0, 1]."""
    movement: float
    """ε = √Σεᵢ² ≥ 0, of the evidence rows as unit vectors."""
    angle: float
    """θ in [0, π/2], the most that the retained subspace can turn; π/2 where nothing is guaranteed."""
    gap: float
    """σ_r − σ_{r+1} ≥ 0, which the movement is held against."""
    rank_may_grow: bool
    """Whether a direction might be gained: ``lower`` is then 0."""
    rank_may_shrink: bool
    """Whether a direction might be lost: ``upper`` is then 1."""


def energy_bounds(
    subspace: Subspace,
    measured: Energies,
    policy: RankPolicy,
    movement: float | ArrayLike,
    *,
    claim_movement: float = 0.0,
    tolerance: float = RANK_TOLERANCE,
) -> EnergyBounds:
    """Bounds on the energies after evidence rows, as unit vectors, move by at most ``movement``.

    Parameters
    ----------
    movement : a number if one row moves (any one), a vector (k,) if k rows do; chords in [0, 2].
    claim_movement : how far the claims, as unit vectors, may move besides.

    Raises
    ------
    ValueError
        For a movement outside [0, 2], or more movements than rows.
    """
    chords = np.atleast_1d(np.asarray(movement, dtype=np.float64))
    if chords.ndim != 1 or chords.size > max(1, subspace.n):
        raise ValueError(f"movement has shape {chords.shape}: one number, or one a row of {subspace.n}")
    if not (((chords >= 0.0) & (chords <= 2.0)).all() and 0.0 <= claim_movement <= 2.0):
        raise ValueError("movements are chords between unit vectors: they lie in [0, 2]")
    epsilon = float(np.linalg.norm(chords))
    theta, gap = _turn(subspace, measured.rank, epsilon)
    grows, shrinks = _rank_changes(subspace, measured.rank, policy, epsilon, tolerance)
    reach = theta + 2.0 * math.asin(min(1.0, claim_movement / 2.0))
    phi = np.arcsin(np.sqrt(measured.energy))
    lower = np.sin(np.maximum(phi - reach, 0.0)) ** 2
    upper = np.sin(np.minimum(phi + reach, math.pi / 2.0)) ** 2
    return EnergyBounds(
        lower=np.zeros_like(lower) if grows else lower,
        upper=np.ones_like(upper) if shrinks else upper,
        movement=epsilon,
        angle=theta,
        gap=gap,
        rank_may_grow=grows,
        rank_may_shrink=shrinks,
    )


def _turn(subspace: Subspace, r: int, epsilon: float) -> tuple[float, float]:
    """The most that the span of the first r directions can turn, and the gap behind it."""
    sigma = subspace.singular_values
    if r == 0 or epsilon == 0.0:
        return 0.0, float(sigma[0]) if sigma.size else 0.0
    if r == subspace.dimension:  # the whole space cannot turn
        return 0.0, float(sigma[r - 1])
    others = r < sigma.size  # else no singular value is left to approach σ_r
    gap = float(sigma[r - 1] - sigma[r]) if others else float(sigma[r - 1])
    distance = gap - epsilon if others else gap
    if epsilon >= distance:
        return math.pi / 2.0, gap
    return math.asin(epsilon / distance), gap


def _rank_changes(
    subspace: Subspace, r: int, policy: RankPolicy, epsilon: float, tolerance: float
) -> tuple[bool, bool]:
    """Whether r can grow, and whether it can shrink, when the rows move by ε in all."""
    sigma = subspace.singular_values
    if epsilon == 0.0 or r == 0:
        return False, False
    rho, first = subspace.numeric_rank, float(sigma[0])
    rho_may_grow = rho < sigma.size and sigma[rho] + epsilon > tolerance * (first - epsilon)
    # Weyl: σ₁ … σ_r all stay above the tolerance, or a retained direction may be dropped.
    shrinks = bool(sigma[r - 1] - epsilon <= tolerance * (first + epsilon))
    if policy.kind == "cap":
        return bool(rho_may_grow and r < int(policy.value)), shrinks
    # √Σ_{i≤k} σᵢ² is a norm (Ky Fan's 2-k norm), so it moves by at most ε; the whole, √n, not at all.
    norms = np.sqrt(np.cumsum(sigma**2))
    goal = math.sqrt(policy.value) * float(norms[-1])
    grows = r < sigma.size and norms[r - 1] - epsilon < goal
    shrinks = shrinks or (r > 1 and norms[r - 2] + epsilon >= goal)
    return bool(grows), bool(shrinks)
