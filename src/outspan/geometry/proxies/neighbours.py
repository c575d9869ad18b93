"""Proxies that look at rows rather than at directions: local_span, kernel_rbf, and the cosine baselines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from outspan.geometry.proxies.contract import Direction, Property, Proxy, clipped, similarities, whole, within
from outspan.geometry.subspace import RANK_TOLERANCE, ZERO_NORM, Array, Subspace

KERNEL_TOLERANCE = 1e-8
"""Eigenvalues of a kernel matrix at or below this share of the largest are numerically zero: (1e-4)², as for
σ²."""

KERNEL_ROWS = 5000
"""Most evidence rows whose n × n kernel matrix is factored: 200 MB, and about a minute on one core."""

_BLOCK = 128  # claims whose nearest rows are gathered at once


def projected_mass(gram: Array, products: Array, tolerance: float) -> Array:
    """‖P c‖² from inner products alone: ``bᵀ G⁺ b``, eigenvalues at or below ``tolerance·λ₁`` left out.

    Shapes
    ------
    gram (…, n, n), products (…, n, k) with one column a claim; result (…, k).
    """
    eigenvalues, U = np.linalg.eigh(gram)
    present = eigenvalues > tolerance * eigenvalues[..., -1:]
    inverse = np.where(present, 1.0 / np.where(present, eigenvalues, 1.0), 0.0)
    coordinates = np.swapaxes(U, -1, -2) @ products
    return np.asarray((inverse[..., None] * coordinates**2).sum(axis=-2))


def nearest_rows(S: Array, k: int) -> NDArray[np.intp]:
    """(m, min(k, n)) indices of the rows with the largest cosines, from the cosines (m, n), in no order."""
    k = min(k, S.shape[1])
    return np.argpartition(-S, k - 1, axis=1)[:, :k]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSpan(Proxy):
    """The energy against the k evidence rows nearest to the claim, no others.

    ``‖c − P c‖²`` with P the projection on the span of the k rows of largest cosine with c.

    Evidence that is less similar than the k nearest cannot change the value, so unrelated text that is added
    does not lower it as it lowers the energy: the span never has more than k directions.

    Range
    -----
    [0, 1]. Repeated rows take places among the k, and a row turned round is no longer near.

    Source
    ------
    Local linear reconstruction from neighbours: Roweis & Saul, Science 290 (2000), here without their sum
    constraint.
    """

    k: int = 8
    """Rows that span, ≥ 1."""

    name: ClassVar[str] = "local_span"
    formula: ClassVar[str] = "‖c − P c‖², P = projection on the span of the k rows with the largest cosine"
    source: ClassVar[str] = (
        "Roweis & Saul, Nonlinear dimensionality reduction by locally linear embedding, Science 290"
    )
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    properties: ClassVar[tuple[Property, ...]] = ("order", "scale", "rotation")

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", whole(self.name, "k", self.k))

    def _values(self, C: Array, subspace: Subspace) -> Array:
        # In blocks: the gathered rows of all claims at once would be m·k·d numbers.
        blocks = [C[start : start + _BLOCK] for start in range(0, C.shape[0], _BLOCK)]
        return np.concatenate([self._block(block, subspace) for block in blocks])

    def _block(self, C: Array, subspace: Subspace) -> Array:
        S = similarities(C, subspace)
        nearest = nearest_rows(S, self.k)
        rows = subspace.rows[nearest]
        gram = rows @ np.swapaxes(rows, -1, -2)
        products = np.take_along_axis(S, nearest, axis=1)[..., None]
        return clipped(1.0 - projected_mass(gram, products, RANK_TOLERANCE**2)[:, 0])


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRbf(Proxy):
    """Squared residual of the claim's image after projection on the images of the evidence, Gaussian kernel.

    ``1 − k_cᵀ K⁺ k_c`` with ``k(x, y) = exp(−γ‖x − y‖²)``, ``K_ij = k(e_i, e_j)``, ``(k_c)_i = k(e_i, c)``:
    the squared distance in the reproducing-kernel space from the image of c to the span of the images.

    Being near several rows counts, pointing along their difference does not: the larger γ, the more the value
    depends on the nearest row alone. The smaller γ, the more the directions become those of a polynomial in
    the cosine.

    Range
    -----
    [0, 1]. One row gives ``1 − exp(−4γ(1 − cos θ))``.

    Raises
    ------
    ValueError
        For more than 5,000 evidence rows, besides what every proxy refuses: the cost is n³ a set.

    Source
    ------
    Schölkopf & Smola, Learning with Kernels, §14.2 (projection in feature space); equal to the posterior
    variance of a noise-free Gaussian process, Rasmussen & Williams, §2.2.
    """

    gamma: float = 0.5
    """γ > 0; squared distances of unit vectors run from 0 to 4."""

    name: ClassVar[str] = "kernel_rbf"
    formula: ClassVar[str] = "1 − k_cᵀ K⁺ k_c, k(x, y) = exp(−γ‖x − y‖²)"
    source: ClassVar[str] = "Schölkopf & Smola, Learning with Kernels, §14.2"
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    properties: ClassVar[tuple[Property, ...]] = ("order", "scale", "rotation", "duplicates", "growth")

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", within(self.name, "gamma", self.gamma, 1e-6, 1e6))

    def _values(self, C: Array, subspace: Subspace) -> Array:
        if subspace.n > KERNEL_ROWS:
            raise ValueError(
                f"{self.name} factors an n × n matrix and takes at most {KERNEL_ROWS} evidence rows, "
                f"not {subspace.n}: select the evidence first"
            )
        K = np.exp(-2.0 * self.gamma * (1.0 - np.clip(subspace.gram, -1.0, 1.0)))
        k_c = np.exp(-2.0 * self.gamma * (1.0 - similarities(C, subspace)))
        return clipped(1.0 - projected_mass(K, k_c.T, KERNEL_TOLERANCE))


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxCosine(Proxy):
    """Baseline: cosine with the nearest evidence row, ``max_i e_iᵀ c``.

    Range
    -----
    [−1, 1].

    Source
    ------
    The usual retrieval score; what any subspace has to beat.
    """

    name: ClassVar[str] = "max_cosine"
    formula: ClassVar[str] = "max_i e_iᵀ c"
    source: ClassVar[str] = "the usual retrieval score"
    range: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    direction: ClassVar[Direction] = "higher_means_more_similar"
    properties: ClassVar[tuple[Property, ...]] = ("order", "scale", "rotation", "duplicates", "growth")

    def _values(self, C: Array, subspace: Subspace) -> Array:
        return np.asarray(similarities(C, subspace).max(axis=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanCosine(Proxy):
    """Baseline: mean cosine with the evidence rows, ``(1/n) Σ e_iᵀ c``.

    Range
    -----
    [−1, 1].

    Source
    ------
    Topic similarity averaged over the source.
    """

    name: ClassVar[str] = "mean_cosine"
    formula: ClassVar[str] = "(1/n) Σ_i e_iᵀ c"
    source: ClassVar[str] = "average similarity to the source"
    range: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    direction: ClassVar[Direction] = "higher_means_more_similar"
    properties: ClassVar[tuple[Property, ...]] = ("order", "scale", "rotation")

    def _values(self, C: Array, subspace: Subspace) -> Array:
        return np.asarray(similarities(C, subspace).mean(axis=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class CentroidCosine(Proxy):
    """Baseline: cosine with the mean of the unit evidence rows, ``cᵀμ / ‖μ‖``.

    Within one evidence set it ranks claims as ``mean_cosine`` does; across sets it does not, since ‖μ‖ says
    how alike the evidence rows are.

    Range
    -----
    [−1, 1]; NaN where the evidence cancels out (‖μ‖ < 1e-12), since there is no direction to compare with.

    Source
    ------
    Rocchio's centroid: Manning, Raghavan & Schütze, Introduction to Information Retrieval, §14.2.
    """

    name: ClassVar[str] = "centroid_cosine"
    formula: ClassVar[str] = "cᵀμ / ‖μ‖, μ = (1/n) Σ_i e_i"
    source: ClassVar[str] = (
        "Rocchio centroid: Manning, Raghavan & Schütze, Introduction to Information Retrieval, §14.2"
    )
    range: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    direction: ClassVar[Direction] = "higher_means_more_similar"
    properties: ClassVar[tuple[Property, ...]] = ("order", "scale", "rotation")

    def _values(self, C: Array, subspace: Subspace) -> Array:
        centroid = subspace.rows.mean(axis=0)
        norm = float(np.linalg.norm(centroid))
        if norm < ZERO_NORM:
            return np.full(C.shape[0], np.nan)
        return clipped(C @ (centroid / norm), -1.0, 1.0)
