"""One claim taken apart: spectrum, what each evidence sentence contributes, energy against rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np

from outspan.claims import Claim
from outspan.evidence import EvidenceSentence
from outspan.geometry.diagnostics import energy_by_rank, leave_one_out
from outspan.geometry.energy import Energies, energies
from outspan.geometry.perturbation import energy_bounds
from outspan.geometry.subspace import RankPolicy
from outspan.measurement import Measurement
from outspan.sensors.energy import EnergySensor, EvidenceInput

EPSILONS = (0.01, 0.05, 0.1)
"""Sizes of a move of one evidence vector for which an inspection says how far the energy can move."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """An evidence sentence's part in one energy."""

    evidence_id: str
    text: str
    multiplicity: int
    """How many times the sentence was handed in."""
    similarity: float
    """Cosine with the claim, in [-1, 1]."""
    weight: float
    """Coefficient of this sentence in the claim's projection on the retained span."""
    share: float
    """weight · similarity: its part of the explained mass. The parts add up to ``explained``; one may be
    negative, where a sentence corrects what others overdo."""
    energy_rise: float | None
    """Rise of the energy when the sentence is taken away; None where it was not computed."""

    def to_dict(self) -> dict[str, object]:
        """Every field by name, as JSON."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """A measurement with what it was made of."""

    claim: Claim
    measurement: Measurement
    fingerprint: str
    singular_values: tuple[float, ...]
    """σ, descending."""
    energy_by_rank: tuple[float, ...]
    """Energy at rank 1 … ρ; never rises."""
    contributions: tuple[Contribution, ...]
    """The evidence sentences that span the subspace, largest share first."""
    energy_when_a_row_moves: Mapping[str, tuple[float, float]]
    """Size ε of a change of one evidence vector, as text, to the interval that the energy cannot leave."""

    def to_dict(self) -> dict[str, object]:
        """The inspection as JSON."""
        return {
            "claim": {"text": self.claim.text, "start": self.claim.start, "end": self.claim.end},
            "fingerprint": self.fingerprint,
            "measurement": self.measurement.to_dict(),
            "singular_values": list(self.singular_values),
            "energy_by_rank": list(self.energy_by_rank),
            "contributions": [contribution.to_dict() for contribution in self.contributions],
            "energy_when_a_row_moves": {
                epsilon: list(interval) for epsilon, interval in self.energy_when_a_row_moves.items()
            },
        }


def inspect_claim(claim: Claim, evidence: EvidenceInput, sensor: EnergySensor) -> Inspection:
    """Measure one claim and keep what the measurement was made of.

    A claim that is not measured comes with empty spectrum and contributions; its state says why.
    """
    measurement, work = sensor.measure_with_subspace(claim, evidence)
    if work is None:
        return Inspection(
            claim=claim,
            measurement=measurement,
            fingerprint=sensor.fingerprint,
            singular_values=(),
            energy_by_rank=(),
            contributions=(),
            energy_when_a_row_moves={},
        )
    vector, subspace, sentences = work
    result = energies(vector[None, :], subspace, sensor.rank)
    return Inspection(
        claim=claim,
        measurement=measurement,
        fingerprint=sensor.fingerprint,
        singular_values=tuple(subspace.singular_values.tolist()),
        energy_by_rank=tuple(energy_by_rank(result)[0].tolist()),
        contributions=_contributions(result, sentences, sensor.rank),
        energy_when_a_row_moves={
            str(epsilon): _interval(result, sensor.rank, epsilon) for epsilon in EPSILONS
        },
    )


def _interval(result: Energies, rank: RankPolicy, epsilon: float) -> tuple[float, float]:
    bounds = energy_bounds(result.subspace, result, rank, epsilon)
    return float(bounds.lower[0]), float(bounds.upper[0])


def _contributions(
    result: Energies, sentences: list[EvidenceSentence], rank: RankPolicy
) -> tuple[Contribution, ...]:
    subspace, r = result.subspace, result.rank
    similarities = result.similarities[0]
    sigma = subspace.singular_values[:r]
    # The projection is Σ wᵢ eᵢ with w = U_r Σ_r⁻¹ a, and U_r = E V_r Σ_r⁻¹.
    weights = (subspace.rows @ subspace.basis[:, :r] / sigma**2) @ result.coordinates[0, :r]
    rises = leave_one_out(subspace, result, rank)
    parts = [
        Contribution(
            evidence_id=sentence.id,
            text=sentence.text,
            multiplicity=sentence.multiplicity,
            similarity=float(similarities[i]),
            weight=float(weights[i]),
            share=float(weights[i] * similarities[i]),
            energy_rise=None if rises is None else float(rises[0, i]),
        )
        for i, sentence in enumerate(sentences)
    ]
    order = np.argsort([-part.share for part in parts], kind="stable")
    return tuple(parts[i] for i in order)
