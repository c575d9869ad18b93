"""What every proxy says about itself, and the one signature that all of them answer to.

A proxy is a frozen dataclass: its fields are its parameters, its class says what it computes. The contract is
read off both, so that a parameter cannot be forgotten in it, and its text form ``weighted_svd(p=1)`` parses
back to an equal object (:func:`outspan.geometry.proxies.parse_contract`).
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outspan.geometry.subspace import Array, Subspace, as_rows, unit_rows

Direction: TypeAlias = Literal["higher_means_less_contained", "higher_means_more_similar"]
Parameter: TypeAlias = int | float | str | None
Property: TypeAlias = Literal["order", "scale", "rotation", "sign", "duplicates", "growth"]

PROPERTIES: dict[Property, str] = {
    "order": "the order of the evidence rows does not matter",
    "scale": "positive scaling of the claim or of single evidence rows does not matter",
    "rotation": "one orthogonal rotation of claim and evidence does not matter",
    "sign": "turning an evidence row round (e to −e) does not matter, while no cap binds",
    "duplicates": "repeating evidence rows does not matter, while no cap binds",
    "growth": "added evidence never makes a claim look less contained, while no cap binds",
}
"""What can be said of a proxy under changes of its input. A property that a proxy does not list fails for it:
tests hold to both sides."""

_TEXT_FORM = re.compile(r"\s*([a-z][a-z0-9_]*)\s*(?:\((.*)\))?\s*", re.DOTALL)
FITTED = "fitted"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyContract:
    """What a proxy measures. Two values are comparable only under equal contracts.

    ``str`` gives name, parameters and the digest of what was fitted; the rest follows from the name.
    """

    name: str
    """Name in tables, records and on the command line."""
    parameters: tuple[tuple[str, Parameter], ...]
    """Every parameter with its value, in the order of definition."""
    formula: str
    """What is computed, for a unit claim c and unit evidence rows e_i."""
    source: str
    """Where the idea comes from."""
    range: tuple[float, float]
    """Smallest and largest possible value."""
    direction: Direction
    """Which end means *outside the evidence*."""
    properties: tuple[Property, ...]
    """Keys of :data:`PROPERTIES` that hold; those not listed fail."""
    fitted_digest: str | None
    """``sha256:`` and 64 hex digits over what the proxy was fitted on; None where nothing is fitted, or not
    yet."""

    def __str__(self) -> str:
        given = [f"{key}={format_parameter(value)}" for key, value in self.parameters]
        if self.fitted_digest is not None:
            given.append(f"{FITTED}={self.fitted_digest}")
        return f"{self.name}({', '.join(given)})" if given else self.name

    def to_dict(self) -> dict[str, Any]:
        """Every field by name, as JSON values."""
        return {
            "name": self.name,
            "parameters": dict(self.parameters),
            "formula": self.formula,
            "source": self.source,
            "range": list(self.range),
            "direction": self.direction,
            "properties": list(self.properties),
            "fitted_digest": self.fitted_digest,
        }


class Proxy(ABC):
    """One way to see containment in a set of vectors.

    Subclasses are frozen dataclasses whose fields are the parameters; fields that start with an underscore
    hold what was fitted and stand in the contract by their digest.
    """

    __slots__ = ()

    name: ClassVar[str]
    formula: ClassVar[str]
    source: ClassVar[str]
    range: ClassVar[tuple[float, float]]
    direction: ClassVar[Direction] = "higher_means_less_contained"
    properties: ClassVar[tuple[Property, ...]]

    @property
    def fitted_digest(self) -> str | None:
        """Digest of what the proxy was fitted on; None for most."""
        return None

    @property
    def contract(self) -> ProxyContract:
        """What this object measures, with its parameters."""
        return ProxyContract(
            name=self.name,
            parameters=tuple((key, getattr(self, key)) for key in parameter_names(type(self))),
            formula=self.formula,
            source=self.source,
            range=self.range,
            direction=self.direction,
            properties=self.properties,
            fitted_digest=self.fitted_digest,
        )

    def __call__(self, claims: ArrayLike, subspace: Subspace) -> Array:
        """Values of ``claims`` against the evidence in ``subspace``.

        Shapes
        ------
        claims (m, d), evidence (n, d) inside ``subspace``, result (m,) float64.

        Range
        -----
        ``contract.range``. NaN where the number does not exist: a claim without direction (norm < 1e-12), or
        what the proxy's docstring names. It is never filled in, so that nobody takes it for a measurement.

        Raises
        ------
        ValueError
            For shapes that do not fit, entries that are not finite, evidence without a single row (that is a
            state, not a number), or a proxy that needs fitting and was not.
        """
        given = as_rows(claims, "claims")
        if given.shape[1] != subspace.dimension:
            raise ValueError(
                f"claims have shape {given.shape} and evidence {subspace.rows.shape}: the dimensions d differ"
            )
        if subspace.n == 0:
            raise ValueError(
                f"{self.name}: the evidence holds no vector with a direction; NO_EVIDENCE is not a number"
            )
        C, kept = unit_rows(given, "claims")
        values = np.full(given.shape[0], np.nan)
        if kept.any():
            values[kept] = self._values(C, subspace)
        return values

    @abstractmethod
    def _values(self, C: Array, subspace: Subspace) -> Array:
        """Values (m,) of unit claims (m, d), m ≥ 1, against at least one row."""


class FittedProxy(Proxy):
    """A proxy that needs vectors from elsewhere before it can measure, and refuses until it has them."""

    __slots__ = ()

    @abstractmethod
    def fit(self, vectors: ArrayLike, *, digest: str | None = None) -> Self:
        """A copy fitted on these background vectors (N, d); ``self`` stays as it is.

        ``digest`` names what the vectors were made from, where that is more stable than they are: the texts
        of a bank keep their digest when another processor rounds the vectors otherwise, and the embedder
        stands in the regime beside it. By default it is the digest of the vectors.
        """


def parameter_names(proxy: type[Proxy]) -> tuple[str, ...]:
    """Names of the fields that are parameters."""
    return tuple(f.name for f in fields(proxy) if not f.name.startswith("_"))  # type: ignore[arg-type]


def split_text_form(text: str) -> tuple[str, dict[str, Parameter]]:
    """``local_span(k=8)`` as its name and its parameters.

    Raises
    ------
    ValueError
        When the text is not of that form; the message shows an example.
    """
    match = _TEXT_FORM.fullmatch(text)
    if match is None:
        raise ValueError(
            f"proxy {text!r} is not of the form name or name(parameter=value), as in local_span(k=8)"
        )
    parameters: dict[str, Parameter] = {}
    for part in filter(None, (part.strip() for part in (match[2] or "").split(","))):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not (equals and key and value) or key in parameters:
            raise ValueError(f"proxy {text!r}: {part!r} is not one parameter=value, as in local_span(k=8)")
        parameters[key] = _parse_parameter(value)
    return match[1], parameters


def _parse_parameter(text: str) -> Parameter:
    if text == "none":
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def format_parameter(value: Parameter) -> str:
    """The shortest text that reads back as the same value."""
    if value is None:
        return "none"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


def whole(proxy: str, key: str, value: object, least: int = 1) -> int:
    """``value`` as a whole number ≥ ``least``; ValueError names the proxy and the parameter."""
    if (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and float(value).is_integer()
        and value >= least
    ):
        return int(value)
    raise ValueError(f"{proxy}: {key} must be a whole number ≥ {least}, not {value!r}")


def within(proxy: str, key: str, value: object, low: float, high: float) -> float:
    """``value`` as a float in [low, high]; ValueError names the proxy and the parameter."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and low <= value <= high:
        return float(value)
    raise ValueError(f"{proxy}: {key} must lie in [{low:g}, {high:g}], not {value!r}")


def rows_digest(rows: Array, *marks: str) -> str:
    """Digest of a set of vectors and the settings that go with them; the order of the rows does not count."""
    digest = hashlib.sha256()
    for mark in (f"{rows.shape[0]}x{rows.shape[1]}", *marks):
        digest.update(len(mark).to_bytes(8, "big") + mark.encode())
    for row in sorted(row.tobytes() for row in rows.astype("<f8")):
        digest.update(row)
    return "sha256:" + digest.hexdigest()


def similarities(C: Array, subspace: Subspace) -> Array:
    """(m, n) cosines of unit claims with evidence rows, rounding kept inside [−1, 1]."""
    return np.clip(C @ subspace.rows.T, -1.0, 1.0)


def clipped(values: Array, low: float = 0.0, high: float = 1.0) -> NDArray[np.float64]:
    """``values`` with rounding beyond the range removed."""
    return np.clip(values, low, high)
