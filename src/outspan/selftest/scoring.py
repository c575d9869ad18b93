"""The self-test: energy, cosine and every sensor on the pairs, told by kind of edit.

    pairs ─► claim, edit and paraphrase measured ─► scores and findings ─► a line for kind and instrument

It asks one thing of each instrument: does the wrong edit look further outside the evidence than the honest
paraphrase? A low AUC is no malfunction but the reach of the instrument.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from outspan.embedders import Embedder, VectorCache
from outspan.errors import NotInstalled
from outspan.measurement import Measurement, State
from outspan.selftest.pairs import KINDS, Pair, pairs_digest
from outspan.sensors.energy import EnergySensor
from outspan.sensors.literals import LiteralSensor
from outspan.sensors.polarity import PolaritySensor
from outspan.sensors.reading import SENSORS, ClaimSensor, make_sensor

ROLES = ("claim", "edit", "paraphrase")
ALL = "all kinds"
RULES = "rules"
DRAWS = 1000
SEED = 20_261_201


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One instrument on the pairs of one kind."""

    kind: str
    instrument: str
    """``energy``, ``max_cosine``, a sensor's name, or ``rules``: the highest score, and the findings, of the
    sensors that read texts only."""
    pairs: int
    """Pairs whose edit and paraphrase were both measured."""
    of: int
    """Pairs of this kind."""
    auc: float | None
    """Share of (edit, paraphrase) in which the edit's score is higher, ties half; None without a score."""
    auc_low: float | None
    auc_high: float | None
    """95 % interval of the AUC, by resampling pairs; of no width where all agree, however few they are."""
    edit_more_contained: float | None
    """Share of pairs whose edit looks *more* contained than its paraphrase."""
    edits_flagged: float | None
    paraphrases_flagged: float | None
    claims_flagged: float | None
    """Shares with at least one finding; None for instruments that give a number only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTest:
    """The result: lines by kind, with what they were computed on."""

    fingerprint: str
    """Of the energy's regime."""
    digest: str
    """Of the pairs."""
    half: str
    """``build``, ``report`` or ``all``."""
    pairs: int
    same_bag: dict[str, float]
    """Kind to the share of pairs whose claim and edit are the same bag of words."""
    lines: tuple[Line, ...]
    not_run: dict[str, str]
    """Sensor to the reason why it is not among the lines, or is there for some pairs only."""

    def to_dict(self) -> dict[str, object]:
        """Every field by name, as JSON."""
        return {**asdict(self), "lines": [asdict(line) for line in self.lines]}

    def of(self, instrument: str) -> dict[str, Line]:
        """Kind to line, for one instrument."""
        return {line.kind: line for line in self.lines if line.instrument == instrument}


def known_sensors(names: Iterable[str] = ()) -> tuple[list[ClaimSensor], dict[str, str]]:
    """Sensors to ask, those of ``names`` or every one there is, and why some cannot be made."""
    made: dict[str, ClaimSensor] = {}
    missing: dict[str, str] = {}
    for name in names or SENSORS:
        try:
            sensor = make_sensor(name)
        except NotInstalled as error:
            missing[name] = str(error)
            continue
        made[sensor.contract.name] = sensor
    if not names:
        made.setdefault("literals", LiteralSensor())
        made.setdefault("polarity", PolaritySensor())
    return list(made.values()), missing


def run(
    pairs: Sequence[Pair],
    embedder: Embedder | None = None,
    *,
    sensors: Sequence[ClaimSensor] = (),
    not_run: dict[str, str] | None = None,
    half: str = "all",
    cache: VectorCache | None = None,
) -> SelfTest:
    """Measure every pair and tell it by kind.

    Raises
    ------
    ValueError
        Without pairs.
    """
    if not pairs:
        raise ValueError("a self-test needs at least one pair")
    energy = EnergySensor(embedder, proxies=["max_cosine"], sensors=sensors, cache=cache)
    requests = [([pair.claim, pair.edit, pair.paraphrase], list(pair.evidence)) for pair in pairs]
    told = [list(measured) for measured in energy.measure_many(requests)]
    names = [sensor.contract.name for sensor in sensors]
    rules = [sensor.contract.name for sensor in sensors if not sensor.contract.uses]
    reasons = dict(not_run or {}) | _failures(told, names)
    kinds = [kind for kind in KINDS if any(pair.kind == kind for pair in pairs)]
    lines = []
    for kind in (*kinds, ALL):
        chosen = [m for pair, m in zip(pairs, told, strict=True) if kind in (pair.kind, ALL)]
        lines += _lines(kind, chosen, names, rules)
    return SelfTest(
        fingerprint=energy.fingerprint,
        digest=pairs_digest(tuple(pairs)),
        half=half,
        pairs=len(pairs),
        same_bag=_same_bag(pairs, kinds),
        lines=tuple(lines),
        not_run=reasons,
    )


def _same_bag(pairs: Sequence[Pair], kinds: Sequence[str]) -> dict[str, float]:
    shares = {}
    for kind in (*kinds, ALL):
        chosen = [pair.same_bag for pair in pairs if kind in (pair.kind, ALL)]
        shares[kind] = sum(chosen) / len(chosen)
    return shares


def _failures(told: Sequence[Sequence[Measurement]], names: Sequence[str]) -> dict[str, str]:
    """Sensor to how often, and first why, it gave no score."""
    reasons: dict[str, str] = {}
    for name in names:
        readings = [one.sensors[name] for measured in told for one in measured]
        failed = [reading for reading in readings if reading.state is not State.MEASURED]
        if failed:
            reasons[name] = f"{len(failed)} of {len(readings)} not measured: {failed[0].reason}"
    return reasons


def _lines(
    kind: str, told: Sequence[Sequence[Measurement]], names: Sequence[str], rules: Sequence[str]
) -> list[Line]:
    lines = []
    for instrument in ("energy", "max_cosine", *names):
        scores = np.array([[_score(one, instrument) for one in measured] for measured in told])
        flags = None if instrument not in names else [[_flag(m, (instrument,)) for m in ms] for ms in told]
        lines.append(_line(kind, instrument, scores, flags))
    if len(rules) > 1:
        highest = [[max(_score(one, name) for name in rules) for one in measured] for measured in told]
        found = [[_flag(one, rules) for one in measured] for measured in told]
        lines.append(_line(kind, RULES, np.array(highest), found))
    return lines


def _score(one: Measurement, instrument: str) -> float:
    """The instrument's number, higher meaning less contained; NaN (inside this module only) where none."""
    value: float | None
    if instrument == "energy":
        value = one.energy
    elif instrument == "max_cosine":
        cosine = one.proxies["max_cosine"]
        value = None if cosine is None else -cosine
    else:
        value = one.sensors[instrument].score
    return float("nan") if value is None else value


def _flag(one: Measurement, names: Sequence[str]) -> bool:
    return any(one.sensors[name].findings for name in names)


def _line(
    kind: str, instrument: str, scores: NDArray[np.float64], flags: Sequence[Sequence[bool]] | None
) -> Line:
    both = scores[~np.isnan(scores[:, 1:]).any(axis=1)]
    auc = _auc(both[:, 1], both[:, 2]) if len(both) else None
    low, high = _interval(both) if len(both) else (None, None)
    shares = [None, None, None] if flags is None else [float(x) for x in np.mean(flags, axis=0)]
    return Line(
        kind=kind,
        instrument=instrument,
        pairs=len(both),
        of=len(scores),
        auc=auc,
        auc_low=low,
        auc_high=high,
        edit_more_contained=float((both[:, 1] < both[:, 2]).mean()) if len(both) else None,
        claims_flagged=shares[0],
        edits_flagged=shares[1],
        paraphrases_flagged=shares[2],
    )


def _auc(edits: NDArray[np.float64], paraphrases: NDArray[np.float64]) -> float:
    difference = edits[:, None] - paraphrases[None, :]
    return float(((difference > 0) + 0.5 * (difference == 0)).mean())


def _interval(both: NDArray[np.float64]) -> tuple[float, float]:
    """95 % interval of the AUC: pairs are drawn again whole, since their two sides belong together."""
    wins = (both[:, 1][:, None] > both[:, 2][None, :]) + 0.5 * (both[:, 1][:, None] == both[:, 2][None, :])
    counts = np.random.default_rng(SEED).multinomial(len(both), np.full(len(both), 1 / len(both)), size=DRAWS)
    draws = np.einsum("bi,ij,bj->b", counts, wins, counts, optimize=True) / len(both) ** 2
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(low), float(high)
