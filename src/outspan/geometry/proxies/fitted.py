"""Proxies that need vectors from elsewhere before they can measure: whitened and background_adjusted.

Both refuse to run unfitted, and carry the digest of what they were fitted on in their contract.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outspan.geometry.energy import energies
from outspan.geometry.proxies.contract import Property, Proxy, format_parameter, rows_digest, whole, within
from outspan.geometry.proxies.spectral import cap_policy
from outspan.geometry.subspace import ZERO_NORM, Array, Subspace, as_rows, factor, unit_rows


def _refuse_unfitted(proxy: str, what: str) -> ValueError:
    return ValueError(f"{proxy} was not fitted: call fit(vectors) with {what} from the same embedder")


@dataclass(frozen=True, slots=True, kw_only=True)
class Whitened(Proxy):
    """The energy in a space where ordinary sentences vary equally in every direction.

    Fitted on background vectors x with mean m and covariance S: ``W = ((1 − λ) S + λ (tr S / d) I)^(−1/2)``.
    Claim and evidence are moved to ``W(x − m)``, divided by their norms, and the energy with the given cap is
    taken there.

    Embeddings fill a narrow cone: a few directions that all sentences share make everything look contained.
    Whitening takes them out. λ keeps directions that the background hardly shows from being blown up.

    Range
    -----
    [0, 1]; NaN for a claim equal to the mean m. Evidence rows equal to m are left out; a rotation must be
    applied to the background vectors too.

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
        """Digest of the background vectors and λ; their order does not count."""
        return self._digest

    def fit(self, vectors: ArrayLike) -> Whitened:
        """A copy that whitens as these background vectors (N, d) ask, N ≥ 2.

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
        digest = rows_digest(X, self.name, format_parameter(self.shrinkage))
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
class BackgroundAdjusted(Proxy):
    """The energy placed among the energies that unrelated sentences have against the same evidence.

    ``e / (e + ē)`` with e the claim's energy and ē the geometric mean of the energies of the background bank.

    A claim that has nothing to do with its evidence has expected energy 1 − r/d: the number falls as evidence
    grows, supported or not. Background claims fall along with it, and the ratio stays. 1/2 says *as far
    outside as an unrelated sentence*, whatever the size of the evidence.

    Background sentences that lean on the claim's own source would make it look far outside: those of its
    groups are left out by :meth:`excluding`, and those whose cosine with the claim or with an evidence row is
    ``near`` or more are left out here.

    Range
    -----
    [0, 1]; NaN where the evidence explains the background wholly (ē < 1e-9), so that nothing can be told
    apart.

    Source
    ------
    The design's *size effect*; the form was chosen by measurement, see
    ``docs/decisions/0009-background-adjustment.md``.
    """

    cap: int | None = 64
    """Most directions retained for claim and background alike; None retains all."""
    near: float = 0.9
    """Cosine from which a background sentence counts as a near-duplicate of claim or evidence."""
    _bank: Array | None = field(default=None, repr=False, compare=False)
    _groups: tuple[str, ...] | None = field(default=None, repr=False, compare=False)
    _digest: str | None = field(default=None, repr=False)

    name: ClassVar[str] = "background_adjusted"
    formula: ClassVar[str] = (
        "e / (e + ē), ē = geometric mean of the energies of background claims, same evidence and cap"
    )
    source: ClassVar[str] = (
        "the size effect 1 − r/d; form chosen in docs/decisions/0009-background-adjustment.md"
    )
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    properties: ClassVar[tuple[Property, ...]] = ("order", "scale", "sign", "duplicates")

    LEAST: ClassVar[int] = 20
    """Fewest background claims that make a distribution."""

    def __post_init__(self) -> None:
        if self.cap is not None:
            object.__setattr__(self, "cap", whole(self.name, "cap", self.cap))
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
        """A copy without the background claims of these groups. The contract stays: the rule is the same for
        every claim.

        Raises
        ------
        ValueError
            When the bank has no groups, or too few claims remain.
        """
        if self._bank is None:
            raise _refuse_unfitted(self.name, "a bank of background claims")
        if self._groups is None:
            raise ValueError(
                "background_adjusted: the bank was fitted without groups, so no source can be left out"
            )
        keep = np.array([group not in sources for group in self._groups], dtype=np.bool_)
        self._demand(int(keep.sum()))
        remaining = tuple(g for g, k in zip(self._groups, keep, strict=True) if k)
        return replace(self, _bank=self._bank[keep], _groups=remaining)

    def _demand(self, count: int) -> None:
        if count < self.LEAST:
            raise ValueError(
                f"background_adjusted needs at least {self.LEAST} background claims, not {count}"
            )

    def _values(self, C: Array, subspace: Subspace) -> Array:
        if self._bank is None:
            raise _refuse_unfitted(self.name, "a bank of background claims")
        if self._bank.shape[1] != C.shape[1]:
            raise ValueError(
                f"background_adjusted has a bank in dimension {self._bank.shape[1]}, not {C.shape[1]}"
            )
        policy = cap_policy(self.cap, subspace.dimension)
        background = energies(self._bank, subspace, policy)
        unrelated = background.similarities.max(axis=1) < self.near
        usable = unrelated[None, :] & (self._bank @ C.T < self.near).T
        return place(energies(C, subspace, policy).energy, background.energy, usable, least=self.LEAST)


def place(energy: Array, background: Array, usable: NDArray[np.bool_], *, least: int = 1) -> Array:
    """``e / (e + ē)`` for each claim, ē over the background claims that are usable for it.

    Shapes
    ------
    energy (m,), background (J,), usable (m, J); result (m,), NaN where fewer than ``least`` are usable or ē <
    1e-9.
    """
    counts = usable.sum(axis=1)
    logs = usable @ np.log(np.maximum(background, 1e-12))
    typical = np.exp(logs / np.maximum(counts, 1))
    known = (counts >= least) & (typical >= 1e-9)
    return np.where(known, energy / np.where(known, energy + typical, 1.0), np.nan)
