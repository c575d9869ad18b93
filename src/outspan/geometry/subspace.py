"""The span of an evidence set, factored once and reused for every claim.

With ``E`` the (n, d) matrix of unit evidence rows and ``E = U Σ Vᵀ`` its uncentered economy SVD, a
``Subspace`` holds Σ, the numeric rank ρ = #{σ_i > tol·σ₁} and what is needed to read a claim's
coordinates ``a = Vᵀ c`` along the first ρ right-singular directions.

Two exact paths lead there, both in float64:

* n ≤ d: eigen-decomposition of the Gram matrix ``G = E Eᵀ = U Σ² Uᵀ``. Then ``V = Eᵀ U Σ⁻¹``, so that
  ``a = Σ⁻¹ Uᵀ (E c)``: the similarities ``E c`` are wanted anyway, and V is never formed.
* n > d: eigen-decomposition of ``EᵀE = V Σ² Vᵀ`` (d × d).

Squaring halves the digits, and float64 has them to spare: at σ_i = tol·σ₁ = 1e-4·σ₁ the eigenvalue is
1e-8·λ₁, known to about 1e-16·n·λ₁. In float32 it would drown, which is why no float32 Gram exists here.

Source: design document, *Exact definitions* and *Fast exact paths*; Golub & Van Loan, Matrix
Computations, 4th ed., §8.6 (the SVD through the symmetric eigenproblem).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array: TypeAlias = NDArray[np.float64]

RANK_TOLERANCE = 1e-4
"""σ_i at or below this share of σ₁ is numerically zero: such a direction explains nothing."""

ZERO_NORM = 1e-12
"""A vector shorter than this has no direction."""

DEFINITION = "1"
"""Version of the numeric definition; a change that moves an energy by more than rounding raises it."""


def as_rows(vectors: ArrayLike, name: str) -> Array:
    """``vectors`` as a float64 matrix of rows.

    Raises
    ------
    ValueError
        When it is not two-dimensional; the message names the shape.
    """
    rows = _as_float64(vectors, name)
    if rows.ndim != 2:
        raise ValueError(f"{name} must be two-dimensional, (rows, d); its shape is {rows.shape}")
    return rows


def _as_float64(vectors: ArrayLike, name: str) -> Array:
    array = np.asarray(vectors)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold real numbers; its dtype is {array.dtype}")
    return np.ascontiguousarray(array, dtype=np.float64)


def row_norms(rows: Array, name: str) -> Array:
    """2-norms of the rows, safe against overflow.

    A non-finite entry makes its row's norm non-finite, so the common case costs one pass and no separate
    search for NaN.

    Raises
    ------
    ValueError
        When an entry is NaN or infinite; the message names the first such row.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # looked at in the next line
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    if np.isfinite(norms).all():
        return norms
    bad = ~np.isfinite(rows).all(axis=1)
    if bad.any():
        raise ValueError(f"{name}: row {int(np.argmax(bad))} holds NaN or infinity; shape {rows.shape}")
    scale = np.abs(rows).max(axis=1, initial=0.0)
    scale[scale == 0.0] = 1.0
    shrunk = rows / scale[:, None]
    return np.asarray(scale * np.sqrt(np.einsum("ij,ij->i", shrunk, shrunk)))


def unit_rows(rows: Array, name: str) -> tuple[Array, NDArray[np.bool_]]:
    """The rows of ``rows`` that have a direction, at unit length, and the mask (n,) of those kept."""
    norms = row_norms(rows, name)
    kept = norms >= ZERO_NORM
    if kept.all():
        return rows / norms[:, None], kept
    return rows[kept] / norms[kept, None], kept


@dataclass(frozen=True, slots=True)
class RankPolicy:
    """How many directions are retained.

    ``cap:r`` keeps at most r directions; ``variance:q`` keeps the fewest whose squared singular values
    reach the share q of the whole. The two are different measurements and carry different names.
    """

    kind: Literal["cap", "variance"]
    value: float

    def __post_init__(self) -> None:
        if self.kind == "cap" and not (self.value >= 1 and float(self.value).is_integer()):
            raise ValueError(f"cap:r needs a whole number r ≥ 1, not {self.value}")
        if self.kind == "variance" and not 0.0 < self.value <= 1.0:
            raise ValueError(f"variance:q needs 0 < q ≤ 1, not {self.value}")

    @classmethod
    def parse(cls, text: str) -> RankPolicy:
        """Read ``cap:32`` or ``variance:0.9``; the inverse of ``str``."""
        kind, _, value = text.partition(":")
        if kind not in ("cap", "variance"):
            raise ValueError(f"unknown rank policy {text!r}: write cap:32 or variance:0.9")
        try:
            number = float(value)
        except ValueError:
            raise ValueError(f"rank policy {text!r} needs a number after the colon: cap:32") from None
        return cls("cap" if kind == "cap" else "variance", number)

    def __str__(self) -> str:
        return f"{self.kind}:{self.value:g}"

    def retained(self, singular_values: Array, numeric_rank: int) -> int:
        """Number r of retained directions, 0 ≤ r ≤ ρ."""
        if self.kind == "cap":
            return min(int(self.value), numeric_rank)
        mass = np.cumsum(singular_values**2)
        if numeric_rank == 0:
            return 0
        # The share is reached up to rounding: q = 1 must not ask for directions that are numerically zero.
        reached = int(np.searchsorted(mass, self.value * mass[-1] * (1.0 - 1e-12))) + 1
        return min(reached, numeric_rank)


@dataclass(frozen=True)
class Subspace:
    """A factored evidence set. Make it with :func:`factor`.

    Not slotted, since the basis and the leave-one-out factors are computed when first asked for and kept.
    """

    rows: Array
    """(n, d) unit evidence rows, zero rows removed, in the order given."""
    kept: NDArray[np.bool_]
    """(n_given,) which of the given rows had a direction."""
    singular_values: Array
    """(min(n, d),) σ, descending, ≥ 0."""
    numeric_rank: int
    """ρ = #{σ_i > tol·σ₁}."""
    whitener: Array | None
    """(n, ρ) ``U Σ⁻¹`` on the Gram path; coordinates are similarities times this."""
    directions: Array | None
    """(d, ρ) V on the covariance path."""
    path: Literal["gram", "covariance"]

    @property
    def n(self) -> int:
        """Number of evidence rows that span the subspace."""
        return int(self.rows.shape[0])

    @property
    def dimension(self) -> int:
        """Dimension d of the embedding space."""
        return int(self.rows.shape[1])

    @cached_property
    def gram(self) -> Array:
        """(n, n) cosines between evidence rows."""
        return self.rows @ self.rows.T

    @cached_property
    def basis(self) -> Array:
        """(d, ρ) orthonormal columns: the right-singular directions, strongest first."""
        if self.directions is not None:
            return self.directions
        assert self.whitener is not None
        return self.rows.T @ self.whitener

    @cached_property
    def basis_defect(self) -> Array:
        """(ρ, ρ) ``BᵀB − I``: how far from orthonormal rounding left the basis."""
        product = self.basis.T @ self.basis if self.whitener is None else self._whitened_gram()
        product[np.diag_indices_from(product)] -= 1.0
        return product

    def _whitened_gram(self) -> Array:
        assert self.whitener is not None
        return np.asarray(self.whitener.T @ (self.gram @ self.whitener))

    def coordinates(self, claims: Array, similarities: Array) -> Array:
        """(m, ρ) coordinates ``a = Vᵀ c`` of unit claims (m, d) whose cosines with the rows are given (m, n)."""
        if self.whitener is not None:
            return similarities @ self.whitener
        assert self.directions is not None
        return claims @ self.directions


def factor(evidence: ArrayLike, *, tolerance: float = RANK_TOLERANCE) -> Subspace:
    """Factor evidence vectors.

    Parameters
    ----------
    evidence : (n, d) vectors; they are divided by their norms, rows shorter than 1e-12 are dropped.
    tolerance : relative size below which a singular value counts as zero.

    Raises
    ------
    ValueError
        For a wrong shape, a dtype that is not real, or an entry that is not finite.
    """
    rows, kept = unit_rows(as_rows(evidence, "evidence"), "evidence")
    n, d = rows.shape
    if n <= d:
        return _factor_gram(rows, kept, tolerance)
    return _factor_covariance(rows, kept, tolerance)


def _factor_gram(rows: Array, kept: NDArray[np.bool_], tolerance: float) -> Subspace:
    gram = rows @ rows.T
    eigenvalues, vectors = np.linalg.eigh(gram)
    sigma, rank = spectrum(eigenvalues, tolerance)
    # eigh is ascending; the strongest ρ directions are its last columns, reversed.
    whitener = vectors[:, ::-1][:, :rank] / sigma[:rank]
    subspace = Subspace(rows, kept, sigma, rank, whitener, None, "gram")
    subspace.__dict__["gram"] = gram  # what cached_property would store
    return subspace


def _factor_covariance(rows: Array, kept: NDArray[np.bool_], tolerance: float) -> Subspace:
    eigenvalues, vectors = np.linalg.eigh(rows.T @ rows)
    sigma, rank = spectrum(eigenvalues, tolerance)
    directions = np.ascontiguousarray(vectors[:, ::-1][:, :rank])
    return Subspace(rows, kept, sigma, rank, None, directions, "covariance")


def spectrum(ascending_eigenvalues: Array, tolerance: float) -> tuple[Array, int]:
    """Singular values, descending, and the numeric rank, from the eigenvalues of ``EEᵀ`` or ``EᵀE``."""
    sigma = np.sqrt(np.maximum(ascending_eigenvalues[::-1], 0.0))
    if sigma.size == 0:
        return sigma, 0
    return sigma, int(np.count_nonzero(sigma > tolerance * sigma[0]))


def as_record(value: Any) -> Any:
    """Plain Python numbers and lists in place of numpy's, for records; NaN is refused, never written."""
    if isinstance(value, np.ndarray):
        return [as_record(item) for item in value.tolist()]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        raise ValueError("a record must not hold NaN or infinity: leave the field out instead")
    return value
