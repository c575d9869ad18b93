"""outspan measures how much of a claim lies outside the span of its evidence.

    texts ─► spans ─► evidence set ─► vectors ─► subspace ─► measurement

The measurement is Hallucination Energy: the squared residual of the claim's embedding after orthogonal
projection on the subspace that the evidence embeddings span. It is a sensor, not a verdict.

    >>> import outspan
    >>> sensor = outspan.EnergySensor()                       # doctest: +SKIP
    >>> sensor.measure(claims, evidence)                      # doctest: +SKIP
    >>> outspan.check(answer, evidence, sensor).to_json()     # doctest: +SKIP

Names are loaded when they are first used; importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from outspan.checker import Check, CheckedClaim, check
    from outspan.embedders import Embedder, VectorCache, load_embedder
    from outspan.errors import OutspanError
    from outspan.evidence import EvidenceItem, EvidencePolicy
    from outspan.geometry.energy import hallucination_energy
    from outspan.geometry.subspace import RankPolicy
    from outspan.measurement import ENERGY_CONTRACT, Contract, Measurement, Regime, State
    from outspan.sensors.energy import EnergySensor

_HOME = {
    "Check": "outspan.checker",
    "CheckedClaim": "outspan.checker",
    "check": "outspan.checker",
    "Embedder": "outspan.embedders",
    "VectorCache": "outspan.embedders",
    "load_embedder": "outspan.embedders",
    "OutspanError": "outspan.errors",
    "EvidenceItem": "outspan.evidence",
    "EvidencePolicy": "outspan.evidence",
    "hallucination_energy": "outspan.geometry.energy",
    "RankPolicy": "outspan.geometry.subspace",
    "ENERGY_CONTRACT": "outspan.measurement",
    "Contract": "outspan.measurement",
    "Measurement": "outspan.measurement",
    "Regime": "outspan.measurement",
    "State": "outspan.measurement",
    "EnergySensor": "outspan.sensors.energy",
}

__all__ = [
    "ENERGY_CONTRACT",
    "Check",
    "CheckedClaim",
    "Contract",
    "Embedder",
    "EnergySensor",
    "EvidenceItem",
    "EvidencePolicy",
    "Measurement",
    "OutspanError",
    "RankPolicy",
    "Regime",
    "State",
    "VectorCache",
    "__version__",
    "check",
    "hallucination_energy",
    "load_embedder",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'outspan' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
