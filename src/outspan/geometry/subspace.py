"""The span of an evidence set, factored once and reused for every claim.

With ``E`` the (n, d) matrix of unit evidence rows and ``E = U Σ Vᵀ`` its uncentered economy SVD, a
``Subspace`` holds Σ, the numeric rank ρ = #{σ_i > tol·σ₁} and what is needed to read a claim's
coordinates ``a = Vᵀ c`` along the first ρ right-singular directions.

Two exact paths lead there, both in float64:

* n ≤ d: eigen-decomposition of the Gram matrix ``G = E Eᵀ = U Σ² Uᵀ``. Then ``V = Eᵀ U Σ⁻¹``, so that
  ``a = Σ⁻¹ Uᵀ (E c)``: the similarities ``E c`` are wanted anyway, and V is never formed.
* n > d: eigen-decomposition of ``EᵀE = V Σ² Vᵀ`` (d × d), summed over blocks of rows.

A Gram matrix whose smallest σ in use is below 3e-3·σ₁ is set aside for the SVD of E itself: there the
squares would cost digits that the identity ``energy + explained = 1`` is held to.

Squaring halves the digits, and float64 has them to spare: at σ_i = tol·σ₁ = 1e-4·σ₁ the eigenvalue is
1e-8·λ₁, known to about 1e-16·n·λ₁. In float32 it would drown, which is why no float32 Gram exists here.
Below about 1e-8·σ₁ a σ is noise: its order of magnitude means "zero" and nothing else.

A σ within rounding of tol·σ₁ (some 1e-8 of its own size) may fall on either side, on another machine or
in another order of the rows. The numeric rank then differs by one, and an uncapped energy by the claim's
share along that one direction. Where the cap binds, nothing changes: the direction is cut either way.

Source: design document, *Exact definitions* and *Fast exact paths*; Golub & Van Loan, Matrix
Computations, 4th ed., §8.6 (the SVD through the symmetric eigenproblem).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array: TypeAlias = NDArray[np.float64]
Floats: TypeAlias = NDArray[np.floating[Any]]

RANK_TOLERANCE = 1e-4
"""σ_i at or below this share of σ₁ is numerically zero: such a direction explains nothing."""

ZERO_NORM = 1e-12
"""A vector shorter than this has no direction."""

SQUARING_LIMIT = 3e-3
"""A σ in use below this share of σ₁ is taken from E: read from E Eᵀ it would be wrong by more than 1e-10."""

HUGE_NORM = 1e100
"""Vectors longer than this are scaled before they are multiplied: products of two could overflow."""

BLOCK_ROWS = 8192
"""Rows that the covariance path holds at once: 25 MB at d = 384. Fewer make the d × d sums dearer."""

DEFINITION = "1"
"""Version of the numeric definition; a change that moves an energy by more than rounding raises it."""


def as_rows(vectors: ArrayLike, name: str) -> Array:
    """``vectors`` as a float64 matrix of rows, in C order; a copy only where that needs one.

    Raises
    ------
    ValueError
        When it is not two-dimensional or not real; the message names the shape or the dtype.
    """
    return np.ascontiguousarray(real_matrix(vectors, name), dtype=np.float64)


def real_matrix(vectors: ArrayLike, name: str) -> NDArray[Any]:
    """``vectors`` as a two-dimensional array of real numbers, in the precision it came in."""
    if isinstance(vectors, np.ma.MaskedArray):
        raise ValueError(f"{name} is a masked array: fill or drop what is masked first")
    array = np.asarray(vectors)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold real numbers; its dtype is {array.dtype}")
    if array.ndim != 2:
        raise ValueError(f"{name} must be two-dimensional, (rows, d); its shape is {array.shape}")
    return array


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
        norms: Array = np.sqrt(np.vecdot(rows, rows))
    if np.add.reduce(norms) < np.inf:  # False for NaN: one pass in place of two
        return norms
    bad = ~np.isfinite(rows).all(axis=1)
    if bad.any():
        raise ValueError(f"{name}: row {int(np.argmax(bad))} holds NaN or infinity; shape {rows.shape}")
    scale = np.abs(rows).max(axis=1, initial=0.0)
    scale[scale == 0.0] = 1.0
    shrunk = rows / scale[:, None]
    return np.asarray(scale * np.sqrt(np.vecdot(shrunk, shrunk)))


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
        if not isinstance(self.value, Real):
            raise ValueError(f"a rank policy needs a number, not {self.value!r}")
        if self.kind == "cap" and not (self.value >= 1 and float(self.value).is_integer()):
            raise ValueError(f"cap:r needs a whole number r ≥ 1, not {self.value:g}")
        if self.kind == "variance" and not 0.0 < self.value <= 1.0:
            raise ValueError(f"variance:q needs 0 < q ≤ 1, not {self.value:g}")

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
        if self.kind == "cap":
            return f"cap:{int(self.value)}"
        short = f"{self.value:g}"
        return f"variance:{short if float(short) == self.value else repr(float(self.value))}"

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


@dataclass(frozen=True, slots=True)
class Nearest:
    """The evidence rows closest to each of m claims, found in one or several parts of the evidence."""

    top1: Array
    """(m,) largest cosine."""
    top2: Array
    """(m,) second largest; −inf where there is a single row."""
    index: NDArray[np.intp]
    """(m,) position of the row with the largest cosine; the first of equals."""

    @classmethod
    def among(cls, similarities: Array, start: int = 0) -> Nearest:
        """Read off cosines (m, n) with rows ``start`` … ``start + n``."""
        index = similarities.argmax(axis=1)
        n = similarities.shape[1]
        if n == 1:
            top1 = similarities[:, 0]
            return cls(top1, np.full_like(top1, -np.inf), index + start)
        ordered = similarities.copy()
        ordered.partition(n - 2, axis=1)  # the two largest last
        return cls(ordered[:, -1], ordered[:, -2], index + start if start else index)

    def merged(self, later: Nearest) -> Nearest:
        """The nearest of two parts, of which ``later`` holds the rows that follow."""
        newer = later.top1 > self.top1
        beaten = np.minimum(self.top1, later.top1)
        return Nearest(
            np.maximum(self.top1, later.top1),
            np.maximum(beaten, np.maximum(self.top2, later.top2)),
            np.where(newer, later.index, self.index),
        )


@dataclass(frozen=True)
class Subspace:
    """A factored evidence set. Make it with :func:`factor`, or from a stream with ``geometry.large``.

    Not slotted, since rows and basis are computed when first asked for and kept.
    """

    vectors: Floats | None
    """(n, d) the rows that have a direction, at any length; None where they were streamed, not kept."""
    lengths: Array
    """(n,) 2-norms of those rows."""
    kept: NDArray[np.bool_]
    """(n_given,) which of the given rows had a direction."""
    singular_values: Array
    """(min(n, d),) σ, descending, ≥ 0."""
    numeric_rank: int
    """ρ = #{σ_i > tol·σ₁}."""
    dimension: int
    """d, of the embedding space."""
    path: Literal["gram", "svd", "covariance", "streamed_covariance", "compressed"]
    """How the factors were reached; part of the numeric regime."""
    whitener: Array | None = None
    """(n, ρ) ``U Σ⁻¹`` for n ≤ d; similarities times this are coordinates."""
    directions: Array | None = None
    """(d, ρ) V on every path but the Gram path."""
    read_blocks: Callable[[], Iterator[Array]] | None = field(default=None, repr=False)
    """Reads streamed rows once more, as blocks (k, d) of unit rows; None where that cannot be done."""
    seen_nearest: Callable[[Array], Nearest | None] | None = field(default=None, repr=False)
    """The nearest rows of claims that were known when the rows streamed past; see ``geometry.large``."""
    approximation: str = "exact"
    """``exact``, or the name of what was approximated."""
    approximation_error: float = 0.0
    """No energy under the policy asked for is farther than this from the exact one; in [0, 1]."""

    @property
    def n(self) -> int:
        """Number of evidence rows that span the subspace."""
        return int(self.lengths.shape[0])

    @cached_property
    def rows(self) -> Array:
        """(n, d) unit evidence rows, zero rows removed, in the order given.

        Raises
        ------
        ValueError
            When the rows were streamed and not kept.
        """
        if self.vectors is None:
            raise ValueError(f"the {self.n} evidence rows were streamed: they are not in memory")
        return np.asarray(self.vectors / self.lengths[:, None])

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

    def similarity_blocks(self, claims: Array) -> Iterator[Array]:
        """Cosines (m, k) of unit claims (m, d) with the rows in order, k rows at a time.

        Raises
        ------
        ValueError
            When the rows were streamed from a source that cannot be read again.
        """
        if self.vectors is None:
            if self.read_blocks is None:
                raise ValueError("the evidence was a stream that can be read only once")
            for rows in self.read_blocks():
                yield claims @ rows.T
            return
        for start in range(0, self.n, BLOCK_ROWS):
            block = slice(start, start + BLOCK_ROWS)
            yield claims @ self.vectors[block].T / self.lengths[block]


def factor(evidence: ArrayLike, *, tolerance: float = RANK_TOLERANCE) -> Subspace:
    """Factor evidence vectors.

    An array that is float64 already, or has more rows than dimensions, is kept by reference, as
    ``scipy.spatial.KDTree`` does: it must not be changed in place as long as the result is in use. A copy
    costs a fifth of the whole factorisation at 64 rows, most of it in fresh memory pages.

    Parameters
    ----------
    evidence : (n, d) vectors; they are divided by their norms, rows shorter than 1e-12 are dropped.
    tolerance : relative size below which a singular value counts as zero.

    Raises
    ------
    ValueError
        For a wrong shape, a dtype that is not real, or an entry that is not finite.
    """
    given = real_matrix(evidence, "evidence")
    n, d = given.shape
    if n > d:
        return _factor_covariance(given, tolerance)
    return _factor_gram(np.ascontiguousarray(given, dtype=np.float64), tolerance)


def _factor_gram(vectors: Array, tolerance: float) -> Subspace:
    with np.errstate(over="ignore", invalid="ignore"):  # looked at two lines below
        gram = vectors @ vectors.T
    lengths = np.sqrt(gram.diagonal())
    kept = lengths >= ZERO_NORM  # False for NaN
    if np.count_nonzero(kept) < kept.size or not np.add.reduce(lengths) < HUGE_NORM:
        vectors, kept = unit_rows(vectors, "evidence")
        lengths = np.ones(vectors.shape[0])
        gram = vectors @ vectors.T
    inverse = 1.0 / lengths
    gram *= inverse  # n × n numbers scaled in place of n × d
    gram *= inverse[:, None]
    eigenvalues, U = np.linalg.eigh(gram)
    sigma, rank = spectrum(eigenvalues, tolerance)
    if rank and sigma[rank - 1] < SQUARING_LIMIT * sigma[0]:
        return _factor_svd(vectors, lengths, kept, tolerance)
    # eigh is ascending; the strongest ρ directions are its last columns, reversed.
    whitener = U[:, : -rank - 1 : -1] / sigma[:rank]
    subspace = Subspace(vectors, lengths, kept, sigma, rank, vectors.shape[1], "gram", whitener)
    subspace.__dict__["gram"] = gram  # what cached_property would store
    return subspace


def _factor_svd(vectors: Array, lengths: Array, kept: NDArray[np.bool_], tolerance: float) -> Subspace:
    U, sigma, Vt = np.linalg.svd(vectors / lengths[:, None], full_matrices=False)
    rank = int(np.count_nonzero(sigma > tolerance * sigma[0]))
    directions = np.ascontiguousarray(Vt[:rank].T)
    whitener = U[:, :rank] / sigma[:rank]
    return Subspace(vectors, lengths, kept, sigma, rank, vectors.shape[1], "svd", whitener, directions)


def _factor_covariance(given: NDArray[Any], tolerance: float) -> Subspace:
    covariance = np.zeros((given.shape[1],) * 2)
    norms = np.empty(given.shape[0])
    for start in range(0, given.shape[0], BLOCK_ROWS):
        rows = np.array(given[start : start + BLOCK_ROWS], dtype=np.float64, order="C")
        norms[start : start + BLOCK_ROWS] = add_covariance(covariance, rows)
    kept = norms >= ZERO_NORM
    vectors, lengths = (given, norms) if kept.all() else (given[kept], norms[kept])
    sigma, rank, directions = principal_directions(covariance, lengths.size, tolerance)
    return Subspace(vectors, lengths, kept, sigma, rank, given.shape[1], "covariance", directions=directions)


def add_covariance(covariance: Array, rows: Array) -> Array:
    """Scale ``rows`` (k, d) to unit length in place and add ``rowsᵀ rows``; returns their norms (k,)."""
    norms = scale_to_unit(rows)
    covariance += rows.T @ rows
    return norms


def scale_to_unit(rows: Array) -> Array:
    """Scale ``rows`` (k, d) to unit length in place, those without direction to 0; returns the norms (k,)."""
    norms = row_norms(rows, "evidence")
    rows *= np.divide(1.0, norms, out=np.zeros_like(norms), where=norms >= ZERO_NORM)[:, None]
    return norms


def principal_directions(covariance: Array, n: int, tolerance: float) -> tuple[Array, int, Array]:
    """σ (min(n, d),), ρ and V (d, ρ) from ``EᵀE`` (d, d) of n rows."""
    eigenvalues, vectors = np.linalg.eigh(covariance)
    sigma, rank = spectrum(eigenvalues, tolerance)
    rank = min(rank, n)
    return sigma[:n], rank, np.ascontiguousarray(vectors[:, ::-1][:, :rank])


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
