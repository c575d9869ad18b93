"""The energy sensor: made once, then asked about claims and evidence.

claims, evidence ─► cores ─► one embedding pass ─► rows ─► subspace ─► one Measurement a claim
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from outspan.background import shipped
from outspan.claims import Claim, whole_claim
from outspan.embedders import Embedder, VectorCache, embed_checked, load_embedder
from outspan.embedders.guard import NO_DIRECTION
from outspan.errors import EmbedderFailed
from outspan.evidence import (
    EvidenceLike,
    EvidencePolicy,
    EvidenceSentence,
    EvidenceSet,
    Selection,
    claim_decides,
    count_reasons,
    select_rows,
)
from outspan.geometry.diagnostics import (
    ClaimDiagnostics,
    Spectrum,
    describe_claims,
    describe_spectrum,
    leave_one_out,
)
from outspan.geometry.energy import Energies, energies
from outspan.geometry.proxies import BackgroundAdjusted, Proxy, Whitened, make_proxy
from outspan.geometry.subspace import Array, RankPolicy, Subspace, factor
from outspan.measurement import (
    ENERGY_CONTRACT,
    Contract,
    Diagnostics,
    EvidenceUse,
    Lean,
    Measurement,
    Nearest,
    Regime,
    State,
)
from outspan.sensors.reading import (
    ClaimSensor,
    SensorContext,
    SensorContract,
    make_sensor,
    named,
    read_claims,
    sensor_fingerprint,
)
from outspan.sensors.token_store import TokenEmbedder, TokenStore
from outspan.texts import SEGMENTER, SEGMENTER_VERSION

ClaimLike: TypeAlias = "str | Claim"
EvidenceInput: TypeAlias = "Iterable[EvidenceLike] | EvidenceSet | EvidenceLike"

DEFAULT_RANK = "cap:64"
LEANS_SHOWN = 3
LEANS_FROM = 1e-9
"""A rise of the energy below this is rounding: nothing leans on it."""


@dataclass(frozen=True, slots=True)
class _Vectors:
    """Vectors of the texts of one request, and what is known about each."""

    of: Mapping[str, int]
    rows: NDArray[np.float32]
    truncated: NDArray[np.bool_]
    failures: Mapping[int, str]


class Work(NamedTuple):
    """What one measurement is computed from."""

    claim: Array
    """(d,) vector of the claim."""
    subspace: Subspace
    sentences: list[EvidenceSentence]
    """The sentence behind each row of the subspace."""


class EnergySensor:
    """Measures Hallucination Energy: how much of a claim lies outside the span of its evidence.

    Parameters
    ----------
    embedder : turns texts into vectors; the default model, fetched on first use, if none is given.
    rank : ``cap:r`` or ``variance:q``; the two are different measurements.
    evidence : how evidence becomes rows; a policy or its text form, such as ``nearest:64`` or ``all``.
    proxies : other proxies to compute from the same vectors, by name, such as ``max_cosine``.
    sensors : other sensors to ask about the same claims and evidence, by name, such as ``tokens``. Their
        readings stand beside the energy and never change it.
    cache : a store of vectors already computed.

    The sensor may be shared by threads. Its ``contract`` says what the number claims to be, its ``regime``
    everything that the number depends on besides the texts.

    Examples
    --------
    >>> sensor = EnergySensor()                                                   # doctest: +SKIP
    >>> sensor.measure(["The bridge opened in 1932."], ["It was opened in 1932."])[0].energy  # doctest: +SKIP
    """

    contract: Contract = ENERGY_CONTRACT

    def __init__(
        self,
        embedder: Embedder | None = None,
        *,
        rank: RankPolicy | str = DEFAULT_RANK,
        evidence: EvidencePolicy | str | None = None,
        proxies: Sequence[Proxy | str] = (),
        sensors: Sequence[ClaimSensor | str] = (),
        cache: VectorCache | None = None,
    ) -> None:
        self.embedder = load_embedder() if embedder is None else embedder
        self.rank = RankPolicy.parse(rank) if isinstance(rank, str) else rank
        if not isinstance(self.rank, RankPolicy):
            raise ValueError(f"rank must be a RankPolicy or a text such as 'cap:64', not {rank!r}")
        if evidence is None:
            evidence = EvidencePolicy()
        self.evidence = EvidencePolicy.parse(evidence) if isinstance(evidence, str) else evidence
        if not isinstance(self.evidence, EvidencePolicy):
            raise ValueError(f"evidence must be an EvidencePolicy or 'nearest:64', not {evidence!r}")
        asked = [proxies] if isinstance(proxies, str) else list(proxies)
        self.proxies = _named([self._ready(proxy, cache) for proxy in asked])
        given = [sensors] if isinstance(sensors, str) else list(sensors)
        self.sensors = named(make_sensor(one) if isinstance(one, str) else one for one in given)
        self._token_store = self._store()
        self._cache = cache
        self._max_tokens = self.embedder.identity.max_tokens
        self.regime = self._regime_of("energy")

    def _ready(self, proxy: Proxy | str, cache: VectorCache | None) -> Proxy:
        """The proxy, fitted on the shipped background where it needs one and has none."""
        if isinstance(proxy, str):
            proxy = make_proxy(proxy)
        if not isinstance(proxy, Whitened | BackgroundAdjusted) or proxy.fitted_digest is not None:
            return proxy
        bank = shipped()
        embedded = embed_checked(self.embedder, bank.texts, cache=cache)
        if embedded.failures:
            raise EmbedderFailed(
                f"{proxy.contract.name}: the embedder gave no vector for {len(embedded.failures)} of "
                f"{len(bank)} background sentences: {next(iter(embedded.failures.values()))}"
            )
        if isinstance(proxy, Whitened):
            return proxy.fit(embedded.vectors)
        return proxy.fit(embedded.vectors, digest=bank.digest)

    @property
    def fingerprint(self) -> str:
        """Digest of the regime in which the energy is measured."""
        return self.regime.fingerprint

    @property
    def proxy_fingerprints(self) -> dict[str, str]:
        """Digest of the regime of each other proxy: a threshold on one says nothing about another."""
        return {name: self._regime_of(str(p.contract)).fingerprint for name, p in self.proxies.items()}

    @property
    def sensor_contracts(self) -> dict[str, SensorContract]:
        """What the score of each other sensor claims to be."""
        return {name: sensor.contract for name, sensor in self.sensors.items()}

    @property
    def sensor_fingerprints(self) -> dict[str, str]:
        """Digest of everything that the score of each other sensor depends on besides the texts."""
        segmenter = f"{SEGMENTER} {SEGMENTER_VERSION}"
        return {
            name: sensor_fingerprint(sensor, embedder=self.embedder, segmenter=segmenter)
            for name, sensor in self.sensors.items()
        }

    def _store(self) -> TokenStore | None:
        """Keeps token vectors where a sensor reads them and the embedder has them."""
        asked = any("token_vectors" in sensor.contract.uses for sensor in self.sensors.values())
        return TokenStore(self.embedder) if asked and isinstance(self.embedder, TokenEmbedder) else None

    def _regime_of(self, proxy: str) -> Regime:
        return Regime.of(
            embedder=self.embedder.identity.to_dict(),
            segmenter=f"{SEGMENTER} {SEGMENTER_VERSION}",
            evidence_policy=str(self.evidence),
            rank_policy=str(self.rank),
            proxy=proxy,
        )

    def measure(self, claims: Iterable[ClaimLike] | str, evidence: EvidenceInput) -> list[Measurement]:
        """Measure claims against one evidence set.

        Parameters
        ----------
        claims : one text, or several; each is measured whole (``check`` splits an answer into sentences).
        evidence : strings, objects with ``text`` and perhaps ``id``, or None; split into sentences here.

        Returns
        -------
        list of Measurement
            One for each claim, in order, whatever its state.
        """
        if isinstance(claims, str | Claim):
            claims = [claims]
        if isinstance(claims, Mapping | bytes) or not isinstance(claims, Iterable):
            raise ValueError(f"claims must be texts, not {type(claims).__name__}")
        listed = list(claims)
        return self.measure_many([(listed, evidence)])[0]

    def measure_many(
        self, requests: Iterable[tuple[Sequence[ClaimLike], EvidenceInput]]
    ) -> list[list[Measurement]]:
        """Measure several (claims, evidence) pairs in one pass; a text that recurs is embedded once."""
        prepared = [
            ([_as_claim(claim) for claim in claims], EvidenceSet.of(evidence))
            for claims, evidence in requests
        ]
        vectors = self._embed(prepared)
        return [_Request(self, claims, evidence, vectors).measurements() for claims, evidence in prepared]

    def measure_with_subspace(
        self, claim: ClaimLike, evidence: EvidenceInput
    ) -> tuple[Measurement, Work | None]:
        """One measurement with what it was computed from; None in its place where nothing was measured."""
        prepared = ([_as_claim(claim)], EvidenceSet.of(evidence))
        request = _Request(self, *prepared, self._embed([prepared]))
        one = request.measurements()[0]
        return one, None if one.energy is None else request.work(0)

    def _embed(self, prepared: Sequence[tuple[Sequence[Claim], EvidenceSet]]) -> _Vectors:
        needed: dict[str, int] = {}
        for claims, evidence in prepared:
            measurable = [claim.core for claim in claims if claim.unmeasured is None]
            if not measurable or not evidence.sentences:
                continue  # the states of this pair are known without a vector
            for core in (*measurable, *(sentence.core for sentence in evidence.sentences)):
                needed.setdefault(core, len(needed))
        if not needed:
            return _Vectors(needed, np.empty((0, 0), np.float32), np.empty(0, np.bool_), {})
        embedder = self.embedder if self._token_store is None else self._token_store
        embedded = embed_checked(embedder, list(needed), cache=self._cache)
        return _Vectors(needed, embedded.vectors, embedded.truncated(self._max_tokens), embedded.failures)


def _as_claim(claim: ClaimLike) -> Claim:
    if isinstance(claim, str):
        return whole_claim(claim)
    if not isinstance(claim, Claim):
        raise ValueError(f"a claim must be a text, not {type(claim).__name__}")
    return claim


class _Request:
    """One pair of claims and evidence while it is being measured."""

    def __init__(
        self, sensor: EnergySensor, claims: Sequence[Claim], evidence: EvidenceSet, vectors: _Vectors
    ) -> None:
        self.sensor = sensor
        self.claims = claims
        self.evidence = evidence
        self.vectors = vectors
        self.left_out = count_reasons(evidence.left_out)
        self.sentences = self._embedded_sentences()
        # Read once for all claims: there may be many sentences.
        self.evidence_truncated = any(vectors.truncated[vectors.of[one.core]] for one in self.sentences)
        self.weights = self._weights()

    def _embedded_sentences(self) -> list[EvidenceSentence]:
        """Sentences that have a vector; those without, and copies of a vector, are counted as left out."""
        seen: set[bytes] = set()
        kept = []
        for sentence in self.evidence.sentences:
            row = self.vectors.of.get(sentence.core)
            if row is None:
                continue  # nothing was embedded for this pair: no claim in it can be measured
            if row in self.vectors.failures:
                self._leave_out("embedder failed")
                continue
            image = self.vectors.rows[row].tobytes()
            if image in seen:
                self._leave_out("repeat")  # other letters, the same vector: case in an uncased model
                continue
            seen.add(image)
            kept.append(sentence)
        return kept

    def _leave_out(self, reason: str) -> None:
        self.left_out[reason] = self.left_out.get(reason, 0) + 1

    def measurements(self) -> list[Measurement]:
        """One measurement a claim, in order."""
        states = [self._state(claim) for claim in self.claims]
        measured = self._measured([i for i, (state, _) in enumerate(states) if state is State.MEASURED])
        return self._with_sensors(
            [
                measured[i] if i in measured else self._unmeasured(claim, *states[i])
                for i, claim in enumerate(self.claims)
            ]
        )

    def _with_sensors(self, measured: list[Measurement]) -> list[Measurement]:
        """The measurements with what the other sensors say; nothing else about them changes."""
        if not self.sensor.sensors:
            return measured
        context = SensorContext(
            embedder=self.sensor.embedder, vectors=self._vectors_by_text(), tokens=self.sensor._token_store
        )
        told = {
            name: read_claims(sensor, self.claims, self.evidence, context)
            for name, sensor in self.sensor.sensors.items()
        }
        return [
            replace(one, sensors={name: readings[i] for name, readings in told.items()})
            for i, one in enumerate(measured)
        ]

    def _vectors_by_text(self) -> dict[str, NDArray[np.float32]]:
        cores = (*(claim.core for claim in self.claims), *(one.core for one in self.evidence.sentences))
        rows = {core: self.vectors.of[core] for core in cores if core in self.vectors.of}
        return {
            core: self.vectors.rows[row] for core, row in rows.items() if row not in self.vectors.failures
        }

    def _state(self, claim: Claim) -> tuple[State, str | None]:
        if claim.unmeasured is not None:
            return State.NO_CLAIM, claim.unmeasured
        if not self.evidence.sentences:
            return State.NO_EVIDENCE, "no evidence sentence was supplied"
        failure = self.vectors.failures.get(self.vectors.of[claim.core])
        if failure is not None and failure.startswith(NO_DIRECTION):
            return State.DEGENERATE, f"the claim has no direction to compare: {failure}"
        if failure is not None:
            return State.FAILED, f"the embedder gave no vector for the claim: {failure}"
        if not self.sentences:
            return State.FAILED, "the embedder gave no vector for any evidence sentence"
        return State.MEASURED, None

    def _unmeasured(self, claim: Claim, state: State, reason: str | None) -> Measurement:
        return Measurement(
            text=claim.text,
            state=state,
            reason=reason,
            energy=None,
            explained=None,
            rank=0,
            numeric_rank=0,
            cap_bound=False,
            nearest=None,
            diagnostics=None,
            evidence=self._use(None),
            flags=tuple(self._flags(claim)),
            proxies=dict.fromkeys(self.sensor.proxies),
        )

    def _measured(self, indices: Sequence[int]) -> dict[int, Measurement]:
        if not indices:
            return {}
        E, C = self._rows(), np.stack([self._vector(i) for i in indices])
        policy = self.sensor.evidence
        if claim_decides(policy, len(E)):
            done: list[Measurement] = []
            for i, claim in zip(indices, C, strict=True):
                done += self._against([i], claim[None, :], E, select_rows(policy, E, claim, self.weights))
        else:
            done = self._against(indices, C, E, select_rows(policy, E, None, self.weights))
        return dict(zip(indices, done, strict=True))

    def _rows(self) -> NDArray[np.float32]:
        return self.vectors.rows[[self.vectors.of[sentence.core] for sentence in self.sentences]]

    def _weights(self) -> Array | None:
        weights = np.asarray([sentence.weight for sentence in self.sentences])
        return None if (weights == 1.0).all() else weights

    def _vector(self, i: int) -> Array:
        return np.asarray(self.vectors.rows[self.vectors.of[self.claims[i].core]], dtype=np.float64)

    def work(self, i: int) -> Work:
        """What the measurement of claim i is computed from."""
        E, vector = self._rows(), self._vector(i)
        chosen = select_rows(self.sensor.evidence, E, vector, self.weights).rows
        return Work(vector, factor(E[chosen].astype(np.float64)), [self.sentences[row] for row in chosen])

    def _against(
        self, indices: Sequence[int], C: Array, E: NDArray[np.float32], selection: Selection
    ) -> list[Measurement]:
        """Measure claims ``C`` (m, d) against the selected rows of ``E`` (n, d).

        The rows are factored once. Each claim is then projected alone, since a product of another shape
        rounds in another order: a claim has the same bits whatever stands beside it, and a replay can be
        exact. Beside the embedding this costs nothing that can be seen.
        """
        subspace = factor(E[selection.rows].astype(np.float64))
        spectrum = describe_spectrum(subspace, self.sensor.rank)
        sentences = [self.sentences[row] for row in selection.rows]
        proxies = {name: proxy(C, subspace) for name, proxy in self.sensor.proxies.items()}
        use = self._use(selection)
        records = []
        for k, i in enumerate(indices):
            view = _View.of(C[k : k + 1], subspace, spectrum, self.sensor.rank, sentences)
            values = {name: _number(values[k]) for name, values in proxies.items()}
            flags = tuple(self._flags(self.claims[i], view.result.cap_bound, spectrum.unstable))
            records.append(view.measurement(self.claims[i].text, use, flags, values))
        return records

    def _flags(self, claim: Claim, cap_bound: bool = False, unstable: bool = False) -> Iterable[str]:
        row = self.vectors.of.get(claim.core)
        if row is not None and claim.unmeasured is None and self.vectors.truncated[row]:
            yield "truncated"
        if self.evidence_truncated:
            yield "evidence_truncated"
        if "embedder failed" in self.left_out:
            yield "evidence_incomplete"
        if cap_bound:
            yield "cap_bound"
        if unstable:
            yield "unstable_subspace"

    def _use(self, selection: Selection | None) -> EvidenceUse:
        left_out = dict(self.left_out)
        merged = left_out.pop("repeat", 0)
        if selection is not None:
            merged += selection.merged
            if selection.beyond_limit:
                left_out["beyond the limit"] = selection.beyond_limit
        return EvidenceUse(
            supplied=self.evidence.supplied,
            sentences=self.evidence.found,
            merged=merged,
            used=0 if selection is None else len(selection.rows),
            left_out=left_out,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """One claim against one factored evidence set, as records."""

    subspace: Subspace
    spectrum: Spectrum
    result: Energies
    about: ClaimDiagnostics
    leaning: Array | None
    sentences: Sequence[EvidenceSentence]

    @classmethod
    def of(
        cls,
        claim: Array,
        subspace: Subspace,
        spectrum: Spectrum,
        rank: RankPolicy,
        sentences: Sequence[EvidenceSentence],
    ) -> _View:
        result = energies(claim, subspace, rank)
        return cls(
            subspace=subspace,
            spectrum=spectrum,
            result=result,
            about=describe_claims(subspace, result),
            leaning=leave_one_out(subspace, result, rank),
            sentences=sentences,
        )

    def measurement(
        self, text: str, use: EvidenceUse, flags: tuple[str, ...], proxies: Mapping[str, float | None]
    ) -> Measurement:
        return Measurement(
            text=text,
            state=State.MEASURED,
            reason=None,
            energy=float(self.result.energy[0]),
            explained=float(self.result.explained[0]),
            rank=self.result.rank,
            numeric_rank=self.subspace.numeric_rank,
            cap_bound=self.result.cap_bound,
            nearest=self._nearest(),
            diagnostics=self._diagnostics(),
            evidence=use,
            flags=flags,
            proxies=proxies,
        )

    def _nearest(self) -> Nearest:
        sentence = self.sentences[int(self.about.nearest[0])]
        similarity = float(self.about.sim_top1[0])
        return Nearest(evidence_id=sentence.id, text=sentence.text, similarity=similarity)

    def _diagnostics(self) -> Diagnostics:
        about, spectrum = self.about, self.spectrum
        half, double = float(about.energy_half_rank[0]), float(about.energy_double_rank[0])
        uncapped = float(about.energy_uncapped[0])
        ladder = (half, float(self.result.energy[0]), double, uncapped)
        top1 = float(about.sim_top1[0])
        top2 = None if about.sim_top2 is None else float(about.sim_top2[0])
        return Diagnostics(
            sigma1_ratio=spectrum.sigma1_ratio,
            sigma2_ratio=spectrum.sigma2_ratio,
            participation_ratio=spectrum.participation_ratio,
            entropy_rank=spectrum.entropy_rank,
            sim_top1=top1,
            sim_top2=top2,
            sim_margin=None if top2 is None else top1 - top2,
            alignment=float(about.alignment[0]),
            sensitivity=None if self.leaning is None else float(self.leaning[0].max()),
            leans_on=self._leans(),
            energy_half_rank=half,
            energy_double_rank=double,
            energy_uncapped=uncapped,
            rank_spread=max(ladder) - min(ladder),
            spectral_gap=spectrum.spectral_gap,
            identity_error=float(self.result.identity_error[0]),
        )

    def _leans(self) -> tuple[Lean, ...]:
        if self.leaning is None:
            return ()
        rises = self.leaning[0]
        strongest = np.argsort(-rises, kind="stable")[:LEANS_SHOWN]
        return tuple(
            Lean(evidence_id=self.sentences[int(row)].id, energy_rise=float(rises[row]))
            for row in strongest
            if rises[row] > LEANS_FROM
        )


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _named(proxies: Sequence[Proxy]) -> dict[str, Proxy]:
    """Proxies by name; by their full text form where one name comes with several parameters."""
    proxies = list({str(proxy.contract): proxy for proxy in proxies}.values())
    contracts = [proxy.contract for proxy in proxies]
    names = [contract.name for contract in contracts]
    return {
        contract.name
        if names.count(contract.name) == 1 and contract.name != "energy"
        else str(contract): proxy
        for contract, proxy in zip(contracts, proxies, strict=True)
    }
