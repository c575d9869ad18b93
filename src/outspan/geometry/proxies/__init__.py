"""Named proxies of containment, each with its own contract, all through one signature.

>>> from outspan.geometry.subspace import factor
>>> proxy = make_proxy("local_span(k=2)")
>>> [round(value, 12) for value in proxy([[0.8, 0.6]], factor([[1.0, 0.0]])).tolist()]
[0.36]
>>> str(proxy.contract)
'local_span(k=2)'

None is a mode of another: a number carries the name of what was computed. ``docs/proxies.md`` is made from
the contracts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from outspan.geometry.proxies.contract import (
    FITTED,
    PROPERTIES,
    Direction,
    FittedProxy,
    Parameter,
    Property,
    Proxy,
    ProxyContract,
    parameter_names,
    split_text_form,
)
from outspan.geometry.proxies.convex import Cone, ConvexHull
from outspan.geometry.proxies.fitted import BackgroundAdjusted, Whitened
from outspan.geometry.proxies.neighbours import CentroidCosine, KernelRbf, LocalSpan, MaxCosine, MeanCosine
from outspan.geometry.proxies.spectral import CenteredAffine, Energy, EnergyVariance, WeightedSvd

__all__ = [
    "PROPERTIES",
    "PROXIES",
    "BackgroundAdjusted",
    "CenteredAffine",
    "CentroidCosine",
    "Cone",
    "ConvexHull",
    "Direction",
    "Energy",
    "EnergyVariance",
    "FittedProxy",
    "KernelRbf",
    "LocalSpan",
    "MaxCosine",
    "MeanCosine",
    "Parameter",
    "Property",
    "Proxy",
    "ProxyContract",
    "WeightedSvd",
    "Whitened",
    "make_proxy",
    "parse_contract",
]

_KINDS: tuple[type[Proxy], ...] = (
    Energy,
    EnergyVariance,
    CenteredAffine,
    Whitened,
    WeightedSvd,
    ConvexHull,
    Cone,
    KernelRbf,
    LocalSpan,
    BackgroundAdjusted,
    MaxCosine,
    MeanCosine,
    CentroidCosine,
)

PROXIES: Mapping[str, type[Proxy]] = MappingProxyType({kind.name: kind for kind in _KINDS})
"""Every proxy by name, in the order of the tables."""


def make_proxy(text: str) -> Proxy:
    """The proxy that ``local_span(k=8)`` or ``cone`` names; parameters that are not given have their
    defaults.

    A ``FittedProxy`` (``whitened``, ``background_adjusted``) comes unfitted and refuses to measure until
    ``fit``.

    Raises
    ------
    ValueError
        For an unknown name, an unknown parameter or a value out of range; the message says what there is.
        Also for a text that names a fitted digest: the text cannot bring back the vectors behind it.
    """
    name, parameters = split_text_form(text)
    if FITTED in parameters:
        raise ValueError(
            f"proxy {text!r} names what it was fitted on; make {name} without it and fit it again"
        )
    return _make(name, parameters)


def parse_contract(text: str) -> ProxyContract:
    """The contract whose ``str`` is ``text``.

    Raises
    ------
    ValueError
        As :func:`make_proxy`, but a fitted digest is read.
    """
    name, parameters = split_text_form(text)
    fitted = parameters.pop(FITTED, None)
    if fitted is not None and not (isinstance(fitted, str) and fitted.startswith("sha256:")):
        raise ValueError(f"proxy {text!r}: {FITTED} must be a digest, sha256:…")
    return replace(_make(name, parameters).contract, fitted_digest=fitted)


def _make(name: str, parameters: dict[str, Parameter]) -> Proxy:
    kind = PROXIES.get(name)
    if kind is None:
        near = [known for known in PROXIES if name in known] or get_close_matches(name, PROXIES, n=1)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(PROXIES)}"
        raise ValueError(f"unknown proxy {name!r}: {hint}")
    known = parameter_names(kind)
    for key in parameters:
        if key not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise ValueError(f"proxy {name} has no parameter {key!r}: {has}")
    arguments: dict[str, Any] = dict(parameters)
    return kind(**arguments)
