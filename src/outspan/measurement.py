"""What is measured and what a measurement is: contract, state, regime, record.

A measurement knows no threshold. It says what was observed, in which regime, and, where nothing was
observed, why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import cached_property
from typing import Any

from outspan.canonical import digest_json
from outspan.geometry.subspace import DEFINITION, RANK_TOLERANCE


class State(StrEnum):
    """What became of a claim. Only ``MEASURED`` carries an energy; nothing else can be accepted."""

    MEASURED = "MEASURED"
    NO_EVIDENCE = "NO_EVIDENCE"
    NO_CLAIM = "NO_CLAIM"
    DEGENERATE = "DEGENERATE"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumption:
    """What must hold for the proxy to speak of the property, and what breaks when it does not."""

    key: str
    name: str
    statement: str
    breaks: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """What a number claims to be. A value: two contracts are equal or they are different measurements."""

    target_property: str
    observable_proxy: str
    measurement: str
    measurement_unit: str
    reference: str
    output: str
    score_direction: str
    requires_external_evidence: bool
    requires_generator_internals: bool
    known_blind_spots: tuple[str, ...]

    def to_dict(self) -> dict[str, object]:
        """The contract with JSON types; :meth:`from_dict` gives an equal object back."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self)}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Contract:
        """The inverse of :meth:`to_dict`."""
        return cls(**{**record, "known_blind_spots": tuple(record["known_blind_spots"])})


ENERGY_CONTRACT = Contract(
    target_property="semantic_containment",
    observable_proxy="embedding_subspace_containment",
    measurement="squared_projection_residual",
    measurement_unit="claim_vs_evidence_set",
    reference="supplied_or_retrieved_evidence_embeddings",
    output="energy_in_[0,1]",
    score_direction="higher_means_less_contained",
    requires_external_evidence=True,
    requires_generator_internals=False,
    known_blind_spots=(
        "relation_or_role_inversion_inside_evidence_span",
        "polarity_change_inside_evidence_span",
        "cross_evidence_feature_recombination",
        "bad_or_false_evidence",
        "provenance_failure",
        "citation_misattribution",
        "policy_admissibility",
    ),
)

ASSUMPTIONS = (
    Assumption(
        key="A1",
        name="representation fidelity",
        statement="Differences of meaning that matter make differences in the embedding.",
        breaks="Opposite statements with one embedding get one energy: no threshold parts them.",
    ),
    Assumption(
        key="A2",
        name="approximate linear compositionality",
        statement="Content that the evidence supports is close to a linear combination of evidence vectors.",
        breaks="Supported claims that join passages look outside, or unlicensed combinations look inside.",
    ),
    Assumption(
        key="A3",
        name="novelty correspondence",
        statement="Unsupported material tends to add a component outside the span.",
        breaks="Errors made of the evidence's own words (who did what to whom, not, before) stay inside.",
    ),
    Assumption(
        key="A4",
        name="rank adequacy",
        statement="The retained rank keeps the evidence's real directions, and not so many that all fits.",
        breaks="Too low: supported claims look outside. Too high: everything is explained.",
    ),
    Assumption(
        key="A5",
        name="evidence adequacy",
        statement="The evidence supplied is the right reference for the claim.",
        breaks="An exact measurement against wrong, false or stale evidence is the wrong measurement.",
    ),
)


@dataclass(frozen=True)
class Regime:
    """Everything that an energy depends on besides the texts.

    A threshold means something only in the regime in which it was calibrated; ``fingerprint`` names the
    regime, ``difference`` says where two of them part.
    """

    parts: Mapping[str, object]
    """Name to JSON value, nested where an embedder or a policy has fields of its own."""

    @classmethod
    def of(
        cls,
        *,
        embedder: Mapping[str, object],
        segmenter: str,
        evidence_policy: str,
        rank_policy: str,
        proxy: str,
    ) -> Regime:
        """The regime of one proxy; numeric path, tolerance and definition are the package's own."""
        return cls(
            {
                "embedder": dict(embedder),
                "segmenter": segmenter,
                "evidence_policy": evidence_policy,
                "rank_policy": rank_policy,
                "rank_tolerance": RANK_TOLERANCE,
                "proxy": proxy,
                "numeric_path": "exact float64: EEᵀ for n ≤ d, EᵀE for n > d",
                "definition": DEFINITION,
            }
        )

    @cached_property
    def fingerprint(self) -> str:
        """``sha256:`` over the canonical form of the parts."""
        return digest_json(self.to_dict())

    def to_dict(self) -> dict[str, object]:
        """The parts, as JSON."""
        return {name: _plain(value) for name, value in self.parts.items()}

    def difference(self, other: Regime) -> dict[str, tuple[object, object]]:
        """Dotted name to (ours, theirs) for each part that differs; empty when the fingerprints agree."""
        ours, theirs = _flatten(self.to_dict()), _flatten(other.to_dict())
        names = sorted(ours.keys() | theirs.keys())
        return {
            name: (ours.get(name), theirs.get(name)) for name in names if ours.get(name) != theirs.get(name)
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearest:
    """The evidence sentence with the largest cosine to the claim. No proof: the first thing to look at."""

    evidence_id: str
    text: str
    similarity: float
    """Cosine in [-1, 1]."""

    def to_dict(self) -> dict[str, object]:
        """The three fields, as JSON."""
        return {"evidence_id": self.evidence_id, "text": self.text, "similarity": self.similarity}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lean:
    """An evidence sentence that the claim leans on."""

    evidence_id: str
    energy_rise: float
    """Rise of the energy, in [-1, 1], when this sentence is taken away; negative only where a cap binds."""

    def to_dict(self) -> dict[str, object]:
        """Both fields, as JSON."""
        return {"evidence_id": self.evidence_id, "energy_rise": self.energy_rise}


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostics:
    """How far the energy can be trusted and where it comes from; all from one float64 factorisation."""

    sigma1_ratio: float
    """σ₁/Σσ in (0, 1]."""
    sigma2_ratio: float
    """σ₂/Σσ in [0, 1/2]."""
    participation_ratio: float
    """(Σσ²)²/Σσ⁴ in [1, n]."""
    entropy_rank: float
    """exp(−Σ p ln p), p = σ/Σσ, in [1, n]."""
    sim_top1: float
    """Largest cosine with an evidence sentence, in [-1, 1]."""
    sim_top2: float | None
    """Second largest; None when there is one sentence."""
    sim_margin: float | None
    """sim_top1 − sim_top2 in [0, 2]; None when there is one sentence."""
    alignment: float
    """|v₁ᵀc| in [0, 1]."""
    sensitivity: float | None
    """Largest rise of the energy when one evidence sentence is taken away; None where it was not computed."""
    leans_on: tuple[Lean, ...]
    """The evidence sentences whose loss raises the energy most, at most three."""
    energy_half_rank: float
    """Energy at max(1, r // 2), in [0, 1]."""
    energy_double_rank: float
    """Energy at min(2r, ρ), in [0, 1]."""
    energy_uncapped: float
    """Energy at ρ, in [0, 1]."""
    rank_spread: float
    """Largest minus smallest of the energies at r/2, r, 2r and ρ, in [0, 1]."""
    spectral_gap: float | None
    """(σ_r − σ_{r+1})/σ₁ where the cap binds; None where nothing is cut."""
    identity_error: float
    """|‖c − BBᵀc‖² + ‖Bᵀc‖² − 1|: zero up to rounding, or the basis is broken."""

    def to_dict(self) -> dict[str, object]:
        """Every field by name, as JSON."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceUse:
    """What became of the evidence for this claim."""

    supplied: int
    """Items that were handed in, blank ones included."""
    sentences: int
    """Sentences found in them."""
    merged: int
    """Sentences that repeat another, exactly or nearly, and were merged into it."""
    used: int
    """Rows that span the subspace."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Reason to count of sentences that do not take part; the sensor's evidence set lists them by id."""

    def to_dict(self) -> dict[str, object]:
        """Every field by name, as JSON."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A stretch of a claim that a sensor points to, and what in the evidence it was held against."""

    start: int
    end: int
    """Character offsets in the claim's text, end exclusive: ``claim.text[start:end] == text``."""
    text: str
    kind: str
    """What was found, in the sensor's own words: ``word``, ``number``, ``negation``, …"""
    found: str | None
    """What the evidence has in its place; None where the sensor does not say."""
    expected: str | None
    """What the claim would have to say to agree with the evidence; None where the sensor does not say."""
    evidence_id: str | None
    """The evidence sentence that it was held against; None where there is none."""
    note: str = ""
    value: float | None = None
    """How far outside this stretch is, in [0, 1]; None where the sensor gives no number for a part."""

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise ValueError(f"a finding's offsets must not run backwards: {self.start}, {self.end}")
        if self.value is not None and not 0.0 <= self.value <= 1.0:  # NaN fails the comparison too
            raise ValueError(f"a finding's value must lie in [0, 1], not {self.value}")

    def to_dict(self) -> dict[str, object]:
        """Every field by name, as JSON."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a sensor beside the energy says of one claim. A score where it measured, a reason where not."""

    sensor: str
    state: State
    reason: str | None
    """Why the state is not MEASURED; None when it is."""
    score: float | None
    """In [0, 1], higher meaning less contained; None unless measured."""
    findings: tuple[Finding, ...] = ()
    """In the order of the text."""
    flags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        measured = self.state is State.MEASURED
        if measured is (self.score is None):
            raise ValueError(f"{self.sensor}: a score goes with MEASURED and with nothing else")
        if measured is (self.reason is not None):
            raise ValueError(f"{self.sensor}: a reason goes with every state but MEASURED")
        if self.score is not None and not 0.0 <= self.score <= 1.0:  # NaN fails the comparison too
            raise ValueError(f"{self.sensor}: a score must lie in [0, 1], not {self.score}")

    def to_dict(self) -> dict[str, object]:
        """Every field by name, as JSON."""
        return {
            "sensor": self.sensor,
            "state": str(self.state),
            "reason": self.reason,
            "score": self.score,
            "findings": [finding.to_dict() for finding in self.findings],
            "flags": list(self.flags),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One claim against one evidence set."""

    text: str
    """The claim as it was given."""
    state: State
    reason: str | None
    """Why the state is not MEASURED; None when it is."""
    energy: float | None
    """Squared residual in [0, 1]; None unless measured, so that nobody averages what was not observed."""
    explained: float | None
    """‖Bᵀc‖² in [0, 1]; None unless measured."""
    rank: int
    """r, the number of retained directions."""
    numeric_rank: int
    """ρ, the number of directions that are numerically there."""
    cap_bound: bool
    """Whether r < ρ."""
    nearest: Nearest | None
    diagnostics: Diagnostics | None
    evidence: EvidenceUse
    flags: tuple[str, ...] = ()
    """What a reader must know before using the number: ``truncated``, ``unstable_subspace``, …"""
    proxies: Mapping[str, float | None] = field(default_factory=dict)
    """Other proxies of the same claim and evidence, by name; None where a proxy has no value for them."""
    sensors: Mapping[str, Reading] = field(default_factory=dict)
    """What other sensors say of the same claim and evidence, by name; each has a state of its own."""

    @property
    def operational_energy(self) -> float:
        """The energy, or 1.0 where there is none, for code that needs a number in every row.

        Not part of the record: what stands in a record gets averaged.
        """
        return 1.0 if self.energy is None else self.energy

    def to_dict(self) -> dict[str, object]:
        """The record as JSON; ``proxies`` and ``sensors`` only where some were asked for."""
        record: dict[str, object] = {
            "text": self.text,
            "state": str(self.state),
            "reason": self.reason,
            "energy": self.energy,
            "explained": self.explained,
            "rank": self.rank,
            "numeric_rank": self.numeric_rank,
            "cap_bound": self.cap_bound,
            "nearest": None if self.nearest is None else self.nearest.to_dict(),
            "diagnostics": None if self.diagnostics is None else self.diagnostics.to_dict(),
            "evidence": self.evidence.to_dict(),
            "flags": list(self.flags),
        }
        if self.proxies:
            record["proxies"] = dict(self.proxies)
        if self.sensors:
            record["sensors"] = {name: reading.to_dict() for name, reading in self.sensors.items()}
        return record


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The energies of several claims with the denominator in sight."""

    total: int
    """N, all claims."""
    measured: int
    """n of N that carry an energy."""
    states: Mapping[str, int]
    """Count of each state that occurs."""
    energy_max: float | None
    energy_mean: float | None
    energy_min: float | None
    """Over the measured claims; None when there is none."""

    def to_dict(self) -> dict[str, object]:
        """Every field by name, as JSON."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self)}


def tally(measurements: Iterable[Measurement]) -> Tally:
    """Count states and summarise energies; what was not measured is counted and never averaged."""
    all_of_them = list(measurements)
    energies = [m.energy for m in all_of_them if m.energy is not None]
    states = {str(s): sum(m.state is s for m in all_of_them) for s in State}
    return Tally(
        total=len(all_of_them),
        measured=len(energies),
        states={name: count for name, count in states.items() if count},
        energy_max=max(energies, default=None),
        energy_mean=sum(energies) / len(energies) if energies else None,
        energy_min=min(energies, default=None),
    )


def _plain(value: object) -> object:
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


def _flatten(tree: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping):
            flat.update(_flatten(value, f"{prefix}{name}."))
        else:
            flat[prefix + name] = value
    return flat
