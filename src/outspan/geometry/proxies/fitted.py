"""Proxies that need vectors from elsewhere before they can measure: whitened and background_adjusted.

Both refuse to run unfitted, and carry the digest of what they were fitted on in their contract.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from outspan.geometry.energy import energies
from outspan.geometry.proxies.contract import (
    FittedProxy,
    Property,
    clipped,
    format_parameter,
    rows_digest,
    similarities,
    whole,
    within,
)
from outspan.geometry.proxies.neighbours import nearest_rows, projected_mass
from outspan.geometry.proxies.spectral import cap_policy
from outspan.geometry.subspace import RANK_TOLERANCE, ZERO_NORM, Array, Subspace, as_rows, factor, unit_rows

LEAST_TYPICAL = 1e-9
"""Below this typical background energy the evidence spans everything, and a ratio would be rounding over
rounding."""


def _refuse_unfitted(proxy: str, what: str) -> ValueError:
    return ValueError(f"{proxy} was not fitted: call fit(vectors) with {what} from the same embedder")


@dataclass(frozen=True, slots=True, kw_only=True)
class Whitened(FittedProxy):
    """The energy in a space where ordinary sentences vary equally in every direction.

    Fitted on background vectors x with mean m and covariance S: ``W = ((1 − λ) S + λ (tr S / d) I)^(−1/2)``.
    Claim and evidence are moved to ``W(x − m)``, divided by their norms, and the energy with the given cap is
    taken there.

    Embeddings fill a narrow cone: a few directions that all sentences share make everything look contained.
    Whitening takes them out. λ keeps directions that the background hardly shows from being blown up.

    Range
    -----
    [0, 1]. A rotation must be applied to the background vectors too. No unit vector equals m, which lies
    inside the unit ball unless all background vectors are equal, and that is refused.

    Source
    ------
    Su et al., Whitening sentence representations for better semantics and faster retrieval (2021); shrinkage:
    Ledoit & Wolf, J. Multivariate Analysis 88 (2004).
    """

    cap: int | None = 64
    """Most directions retained; None retains all."""
    shrinkage: float = 0.1
    """λ in (0, 1]: share of the mean variance in every direction."""
    _mean: Array | None = field(default=None, repr=False, compare=False)
    _transform: Array | None = field(default=None, repr=False, compare=False)
    _digest: str | None = field(default=None, repr=False)

    name: ClassVar[str] = "whitened"
    formula: ClassVar[str] = (
        "energy of W(c − m) against W(e_i − m), W = ((1 − λ)S + λ(tr S/d)I)^(−1/2) of a background"
    )
    source: ClassVar[str] = (
        "Su et al. 2021 (whitening sentence representations); Ledoit & Wolf 2004 (shrinkage)"
    )
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    properties: ClassVar[tuple[Property, ...]] = ("order", "scale", "duplicates", "growth")

    def __post_init__(self) -> None:
        if self.cap is not None:
            object.__setattr__(self, "cap", whole(self.name, "cap", self.cap))
        object.__setattr__(self, "shrinkage", within(self.name, "shrinkage", self.shrinkage, 1e-6, 1.0))

    @property
    def fitted_digest(self) -> str | None:
        """Digest of what was fitted on; for vectors their order does not count."""
        return self._digest

    def fit(self, vectors: ArrayLike, *, digest: str | None = None) -> Whitened:
        """A copy that whitens as these background vectors (N, d) ask, N ≥ 2.

        ``digest`` as in :meth:`FittedProxy.fit`.

        Raises
        ------
        ValueError
            For fewer than two vectors, vectors that are all equal, a wrong shape or entries that are not
            finite.
        """
        X, _ = unit_rows(as_rows(vectors, "background vectors"), "background vectors")
        if X.shape[0] < 2:
            raise ValueError(
                f"whitened needs at least two background vectors with a direction, not {X.shape[0]}"
            )
        mean = X.mean(axis=0)
        covariance = (X - mean).T @ (X - mean) / X.shape[0]
        variance = float(np.trace(covariance)) / X.shape[1]
        if variance < ZERO_NORM:
            raise ValueError(
                "whitened: the background vectors are all equal, so there is nothing to whiten by"
            )
        eigenvalues, U = np.linalg.eigh(covariance)
        spread = (1.0 - self.shrinkage) * np.maximum(eigenvalues, 0.0) + self.shrinkage * variance
        digest = digest or rows_digest(X, self.name, format_parameter(self.shrinkage))
        return replace(self, _mean=mean, _transform=(U / np.sqrt(spread)) @ U.T, _digest=digest)

    def _values(self, C: Array, subspace: Subspace) -> Array:
        if self._mean is None or self._transform is None:
            raise _refuse_unfitted(self.name, "background vectors")
        if self._mean.shape[0] != C.shape[1]:
            raise ValueError(
                f"whitened was fitted in dimension {self._mean.shape[0]}, the claims have {C.shape[1]}"
            )
        evidence = factor((subspace.rows - self._mean) @ self._transform)
        if evidence.n == 0:
            return np.full(C.shape[0], np.nan)
        measured = energies((C - self._mean) @ self._transform, evidence, cap_policy(self.cap, C.shape[1]))
        return np.where(measured.degenerate, np.nan, measured.energy)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundAdjusted(FittedProxy):
    """The energy beside the energies that unrelated sentences have against the same evidence rows.

    ``e / (e + ē)``: e is the claim's energy against the span of its k nearest evidence rows, ē the geometric
    mean of the energies that the background claims have against the very same rows.

    A claim that has nothing to do with its evidence has expected energy 1 − r/d: the number falls as evidence
    grows, supported or not. What added rows take from the residual they take from a background claim in the
    same proportion, so the ratio stays. 1/2 says *as far outside as an unrelated sentence*, whatever the size
    of the evidence. The k nearest rows keep r below d, where every energy would be 0 and the ratio would say
    nothing; a cap on the singular directions cannot do that, since unrelated rows turn the strongest
    directions away from the claim's own evidence.

    Background sentences that lean on the claim's own source would make it look far outside: those of its
    groups are left out by :meth:`excluding`, and those whose cosine with the claim or with any evidence row
    is ``near`` or more are left out here.

    Range
    -----
    [0, 1]; NaN where the rows explain the background wholly (ē < 1e-9, as for k ≥ d), or where fewer than 20
    background claims are left: nothing can be told apart. Duplicates and signs do not matter for n ≤ k; a
    rotation must be applied to the bank too.

    Source
    ------
    The design's *size effect*; the form was chosen by measurement, see
    ``docs/decisions/0009-background-adjustment.md``.
    """

    k: int = 64
    """Rows that span, those nearest to the claim; well below d."""
    near: float = 0.9
    """Cosine from which a background sentence counts as a near-duplicate of claim or evidence."""
    _bank: Array | None = field(default=None, repr=False, compare=False)
    _groups: tuple[str, ...] | None = field(default=None, repr=False, compare=False)
    _digest: str | None = field(default=None, repr=False)

    name: ClassVar[str] = "background_adjusted"
    formula: ClassVar[str] = (
        "e / (e + ē), e = energy against the k nearest rows, ē = geometric mean of the bank's, same rows"
    )
    source: ClassVar[str] = (
        "the size effect 1 − r/d; form chosen in docs/decisions/0009-background-adjustment.md"
    )
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    properties: ClassVar[tuple[Property, ...]] = ("order", "scale", "sign", "duplicates")

    LEAST: ClassVar[int] = 20
    """Fewest background claims that say what is usual."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", whole(self.name, "k", self.k))
        object.__setattr__(self, "near", within(self.name, "near", self.near, 0.0, 1.0))

    @property
    def fitted_digest(self) -> str | None:
        """Digest of the whole bank, before anything is left out for a single claim."""
        return self._digest

    def fit(
        self, vectors: ArrayLike, *, groups: Sequence[str] | None = None, digest: str | None = None
    ) -> BackgroundAdjusted:
        """A copy that compares with this bank.

        Parameters
        ----------
        vectors : (J, d) background claims, J ≥ 20.
        groups : (J,) source of each, so that a claim's own source can be left out.
        digest : digest of the bank's texts where there are texts; by default that of the vectors.

        Raises
        ------
        ValueError
            For a bank that is too small, groups that do not match, a wrong shape or entries that are not
            finite.
        """
        given = as_rows(vectors, "background vectors")
        bank, kept = unit_rows(given, "background vectors")
        if groups is not None and len(groups) != given.shape[0]:
            raise ValueError(
                f"background_adjusted: {len(groups)} groups for {given.shape[0]} background vectors"
            )
        named = None if groups is None else tuple(g for g, k in zip(groups, kept, strict=True) if k)
        self._demand(bank.shape[0])
        return replace(self, _bank=bank, _groups=named, _digest=digest or rows_digest(bank, self.name))

    def excluding(self, *sources: str) -> BackgroundAdjusted:
        """A copy without the background claims of these groups; its contract is the same, as the rule is for
        every claim.

        Raises
        ------
        ValueError
            When the bank has no groups, or too few claims remain.
        """
        bank = self._fitted_bank()
        if self._groups is None:
            raise ValueError(
                "background_adjusted: the bank was fitted without groups, so no source can be left out"
            )
        keep = np.array([group not in sources for group in self._groups], dtype=np.bool_)
        self._demand(int(keep.sum()))
        remaining = tuple(g for g, k in zip(self._groups, keep, strict=True) if k)
        return replace(self, _bank=bank[keep], _groups=remaining)

    def _fitted_bank(self) -> Array:
        if self._bank is None:
            raise _refuse_unfitted(self.name, "a bank of background claims")
        return self._bank

    def _demand(self, count: int) -> None:
        if count < self.LEAST:
            raise ValueError(
                f"background_adjusted needs at least {self.LEAST} background claims, not {count}"
            )

    def _values(self, C: Array, subspace: Subspace) -> Array:
        bank = self._fitted_bank()
        if bank.shape[1] != C.shape[1]:
            raise ValueError(
                f"background_adjusted has a bank in dimension {bank.shape[1]}, the claims have {C.shape[1]}"
            )
        S, background = similarities(C, subspace), similarities(bank, subspace)
        unrelated = background.max(axis=1) < self.near
        usable = unrelated[None, :] & (self.near > C @ bank.T)
        values = np.full(C.shape[0], np.nan)
        for i, rows in enumerate(nearest_rows(S, self.k)):
            if np.count_nonzero(usable[i]) >= self.LEAST:
                products = np.vstack([S[i, rows], background[usable[i]][:, rows]]).T
                near = subspace.rows[rows]
                mass = projected_mass(near @ near.T, products, RANK_TOLERANCE**2)
                energy = clipped(1.0 - mass)
                values[i] = beside(energy[0], energy[1:])
        return values


def beside(energy: float, background: Array) -> float:
    """``e / (e + ē)`` with ē the geometric mean of the background energies; NaN where ē < 1e-9."""
    typical = float(np.exp(np.log(np.maximum(background, ZERO_NORM)).mean()))
    return energy / (energy + typical) if typical >= LEAST_TYPICAL else float("nan")
