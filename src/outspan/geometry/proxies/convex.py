"""Proxies whose combinations of evidence have no negative weights: convex_hull and cone, and their one
solver.

A span may subtract evidence from evidence; these may not. Both are non-negative least squares. The solver is
Lawson and Hanson's active-set method, and no value leaves this module without its optimality certificate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from outspan.geometry.proxies.contract import Property, Proxy, clipped
from outspan.geometry.subspace import Array, Subspace

CERTIFICATE = 1e-10
"""Largest violation of the optimality conditions with which a solution is accepted."""

_ENTER = 1e-12  # a row must promise at least this slope to enter: a hundredth of the certificate


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """A non-negative combination of rows with the proof that no other is better."""

    weights: Array
    """(n,) ≥ 0."""
    squared_distance: float
    """Squared distance from the target to the combination, ≥ 0."""
    certificate: float
    """Violation of the optimality conditions, ≥ 0; what it bounds is said where it is made."""


def solve_cone(rows: Array, target: Array) -> Solution:
    """The point of the cone ``{Σ w_i a_i : w ≥ 0}`` nearest to a target.

    The certificate is the largest violation of the Karush–Kuhn–Tucker conditions of ``min ½‖t − Aᵀw‖²``: with
    the residual ``r = t − Aᵀw``, that of ``A r ≤ 0`` (no row leads closer) and of ``rᵀAᵀw = 0`` (none leads
    closer by its removal). Where the first holds exactly, the second is the duality gap; in general the
    squared distance is too large by at most ``2·certificate·(1 + ‖w*‖₁)``. Rows that are opposite but for a
    rounding need huge weights to reach where only their difference points; such a solution is either not
    found, which the claim is better off with, or fails its certificate.

    Shapes
    ------
    rows (n, p), target (p,).

    Source
    ------
    Lawson & Hanson, Solving Least Squares Problems, ch. 23 (algorithm NNLS).
    """

    def certify(weights: Array) -> Solution:
        nearest = weights @ rows
        residual = target - nearest
        violation = max(float((rows @ residual).max()), abs(float(residual @ nearest)), 0.0)
        return Solution(weights=weights, squared_distance=float(residual @ residual), certificate=violation)

    return _certified(rows, target, certify)


def solve_hull(rows: Array, target: Array) -> Solution:
    """The point of the convex hull of the rows nearest to a target.

    With ``x_i = a_i − t``, the hull's point of least norm is found as a cone problem: among the non-negative
    w, ``‖Σ w_i x_i‖² + (1 − Σ w_i)²`` is least for a multiple of the wanted weights, since for w = s·u with
    Σu = 1 the best s leaves ν/(1 + ν), which grows with ν = ‖Σ u_i x_i‖².

    The certificate is the duality gap ``‖x(u)‖² − min_i ⟨x_i, x(u)⟩``; the squared distance is too large by
    at most twice that.

    Shapes
    ------
    rows (n, p), target (p,).

    Source
    ------
    Wolfe, Finding the nearest point in a polytope, Mathematical Programming 11 (1976): the stopping rule,
    used as the certificate; Lawson & Hanson, ch. 23, for the way there.
    """
    offsets = rows - target
    lifted = np.hstack([offsets, np.ones((offsets.shape[0], 1))])
    aim = np.zeros(lifted.shape[1])
    aim[-1] = 1.0

    def certify(weights: Array) -> Solution:
        share = weights / weights.sum()  # never zero: by the last coordinate any row is better than none
        nearest = share @ offsets
        squared = float(nearest @ nearest)
        gap = max(squared - float((offsets @ nearest).min()), 0.0)
        return Solution(weights=share, squared_distance=squared, certificate=gap)

    return _certified(lifted, aim, certify)


def _certified(rows: Array, target: Array, certify: Callable[[Array], Solution]) -> Solution:
    """The fast solution where it has its certificate, else the one by orthogonal factors.

    Normal equations cost a tenth, but near-duplicate rows (float32 noise, 1e-8) square to the edge of
    float64.
    """
    fast = certify(_active_set(rows, target, _by_normal_equations))
    if fast.certificate <= CERTIFICATE:
        return fast
    stable = certify(_active_set(rows, target, _by_orthogonal_factors))
    return min(fast, stable, key=lambda solution: solution.certificate)


LeastSquares: TypeAlias = Callable[[Array, Array], Array]


def _active_set(rows: Array, target: Array, solve: LeastSquares) -> Array:
    """Lawson–Hanson: the row with the steepest slope enters; where a weight turns negative, step back.

    Each accepted entry lowers the distance, so no active set comes twice; a row whose entry would not
    (rounding among near-duplicates) is barred until something else has entered. The bound on the steps is
    never meant to be met; a run that meets it fails its certificate.
    """
    n = rows.shape[0]
    weights = np.zeros(n)
    active = np.zeros(n, dtype=np.bool_)
    barred = np.zeros(n, dtype=np.bool_)

    def fit(mask: NDArray[np.bool_]) -> Array:
        fitted = np.zeros(n)
        fitted[mask] = solve(rows[mask], target)
        return fitted

    for _ in range(3 * min(n, rows.shape[1]) + 30):
        slopes = rows @ (target - weights @ rows)
        slopes[active | barred] = -np.inf
        entering = int(np.argmax(slopes))
        if slopes[entering] <= _ENTER:
            break
        active[entering] = True
        trial = fit(active)
        if trial[entering] <= 0.0:
            active[entering], barred[entering] = False, True
            continue
        weights = _step_back(weights, trial, active, fit)
        barred[:] = False
    return weights


def _step_back(
    weights: Array, trial: Array, active: NDArray[np.bool_], fit: Callable[[NDArray[np.bool_]], Array]
) -> Array:
    """Walk from ``weights`` to the unconstrained ``trial``; what reaches zero on the way leaves
    ``active``.
    """
    while (trial[active] <= 0.0).any():
        leaving = active & (trial <= 0.0)
        share = float(np.min(weights[leaving] / (weights[leaving] - trial[leaving])))
        weights = weights + share * (trial - weights)
        active &= weights > 1e-15
        weights[~active] = 0.0
        trial = fit(active)
    return trial


def _by_normal_equations(A: Array, target: Array) -> Array:
    """Weights, sign free, that bring the rows of A nearest to the target; one step of refinement."""
    gram = A @ A.T
    try:
        w = np.linalg.solve(gram, A @ target)
        return np.asarray(w + np.linalg.solve(gram, A @ (target - w @ A)))
    except np.linalg.LinAlgError:
        return _by_orthogonal_factors(A, target)


def _by_orthogonal_factors(A: Array, target: Array) -> Array:
    """The same by the SVD of A: slower, and accurate for rows that nearly repeat each other."""
    return np.asarray(np.linalg.lstsq(A.T, target, rcond=None)[0])


def _accepted(solution: Solution) -> float:
    return solution.squared_distance if solution.certificate <= CERTIFICATE else float("nan")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvexHull(Proxy):
    """A quarter of the squared distance from the claim to the convex hull of the evidence.

    ``min ‖c − Σ w_i e_i‖² / 4`` over ``w ≥ 0, Σ w_i = 1``.

    The hull lies inside the unit ball: a claim between two evidence rows is outside it unless the rows are
    close, so the value also grows with the spread of the evidence. Divided by 4 as in ``centered_affine``;
    one row gives (1 − cos θ)/2.

    Range
    -----
    [0, 1]; NaN where the duality gap could not be brought to 1e-10.

    Source
    ------
    Wolfe, Finding the nearest point in a polytope, Math. Programming 11 (1976).
    """

    name: ClassVar[str] = "convex_hull"
    formula: ClassVar[str] = "min ‖c − Σ w_i e_i‖² / 4 over w ≥ 0, Σ w_i = 1"
    source: ClassVar[str] = (
        "Wolfe, Finding the nearest point in a polytope, Mathematical Programming 11 (1976)"
    )
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    properties: ClassVar[tuple[Property, ...]] = ("order", "scale", "rotation", "duplicates", "growth")

    def _values(self, C: Array, subspace: Subspace) -> Array:
        return clipped(np.array([_accepted(solve_hull(subspace.rows, c)) for c in C]) / 4.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cone(Proxy):
    """Squared residual of the claim after projection on the cone of the evidence.

    ``min ‖c − Σ w_i e_i‖²`` over ``w ≥ 0``.

    The energy without subtraction: what two evidence sentences share cannot be taken away to reach what only
    their difference says. One row gives sin²θ for θ < 90° and 1 beyond.

    Range
    -----
    [0, 1], never below the energy without a cap; NaN where the optimality conditions could not be met to
    1e-10.

    Source
    ------
    Lawson & Hanson, Solving Least Squares Problems (1974), ch. 23.
    """

    name: ClassVar[str] = "cone"
    formula: ClassVar[str] = "min ‖c − Σ w_i e_i‖² over w ≥ 0"
    source: ClassVar[str] = "Lawson & Hanson, Solving Least Squares Problems (1974), ch. 23"
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    properties: ClassVar[tuple[Property, ...]] = ("order", "scale", "rotation", "duplicates", "growth")

    def _values(self, C: Array, subspace: Subspace) -> Array:
        return clipped(np.array([_accepted(solve_cone(subspace.rows, c)) for c in C]))
