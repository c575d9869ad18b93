"""The calibration itself: fixed-sequence tests with exact binomial tails.

**False acceptance and false rejection.** One unit of each source is drawn, so that the trials are
independent. Candidate cuts are the drawn values, tested from the strictest outward; a cut passes if so few
of the drawn units inside it would be seen with a chance of at most δ, were the rate at the budget. The walk
stops at the first that fails. No correction for the number of tests is needed: to break the promise the walk
must pass one fixed cut, the first whose true rate reaches the budget, and that happens with a chance of at
most δ. That the candidates are data does no harm for these two risks, since they are monotone in the cut and
the outcome of a test changes only where a drawn value lies.

**Selective risk.** It need not be monotone, so neither argument holds. Nineteen cuts, at every twentieth part
of the drawn units, are each tested at δ/19 (Bonferroni). Given the value at which a cut stands, the drawn
units inside it are independent draws from the accepted ones, whatever their number, so each test is exact.

Source
------
Angelopoulos, Bates, Candès, Jordan & Lei, Learn then Test (arXiv:2110.01052), §2; Bates, Angelopoulos, Lei,
Malik & Jordan, Distribution-free, risk-controlling prediction sets, JACM 68 (2021), for the monotone case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from outspan.calibration.artefact import (
    FALSE_ACCEPTANCE,
    FALSE_REJECTION,
    SELECTIVE,
    TOLERANCE,
    Bound,
    Risk,
    RiskName,
    Threshold,
    Unit,
)
from outspan.calibration.binomial import clopper_pearson_upper, lower_tail, most_events, trials_needed
from outspan.calibration.sample import Labelled, count_units, draw_one_a_source

SELECTIVE_CUTS = 19
"""Cuts that are tried for the selective risk, at the quantiles 1/20 … 19/20 of the drawn values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorBudget:
    """What may go wrong, and how often a calibration may be wrong about that.

    Raises
    ------
    ValueError
        For a number outside its range.
    """

    alpha: float
    """Largest rate of the risk that bounds acceptance, in (0, 1)."""
    delta: float
    """Chance that the calibration's promise does not hold, in (0, 1); for each cut by itself."""
    beta: float | None = None
    """Largest rate of false rejection, in (0, 1); None asks for no reject cut."""
    risk: RiskName = "false_acceptance"

    def __post_init__(self) -> None:
        for name in ("alpha", "delta", "beta"):
            value = getattr(self, name)
            if value is not None and not 0.0 < value < 1.0:
                raise ValueError(f"{name} must lie between 0 and 1, not {value}")
        if self.risk not in (FALSE_ACCEPTANCE.name, SELECTIVE.name):
            raise ValueError(f"the risk is false_acceptance or selective, not {self.risk!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Which number is calibrated, and where it comes from."""

    score: str
    """``energy`` or the name of a proxy."""
    higher_is_outside: bool
    unit: Unit
    fingerprint: str
    regime: Mapping[str, object]
    data_digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Infeasible:
    """There is no threshold that keeps the budget with the confidence asked for, and why."""

    risk: Risk
    budget: float
    level: float
    """Level of the test, in (0, 1)."""
    sources: int
    """Sources with a labelled, measured unit of the class that the risk's condition names."""
    needed: int | None
    """Sources (for the selective risk: accepted ones) that would do if none of them showed the event; None if
    it is no matter of number."""
    reason: str
    counts: Mapping[str, int]

    def to_dict(self) -> dict[str, object]:
        """Every field by name, as JSON, under ``infeasible``."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        return {"infeasible": {**plain, "risk": self.risk.to_dict(), "counts": dict(self.counts)}}


def calibrate(
    units: Sequence[Labelled],
    budget: ErrorBudget,
    scale: Scale,
    *,
    seed: int = 0,
    tolerance: float = TOLERANCE,
    package: str = "",
    notes: Sequence[str] = (),
    now: datetime | None = None,
) -> Threshold | Infeasible:
    """The largest accept cut, and the innermost reject cut, that keep their budgets.

    Units without a value or without a label take no part and are counted: what was not measured cannot be
    accepted, so it is no false acceptance.

    Parameters
    ----------
    units : labelled measurements.
    budget : what may go wrong.
    scale : which number is calibrated.
    seed : of the draw of one unit a source. To try several and keep the best breaks the promise.
    tolerance : values nearer to a cut than this are reviewed.

    Returns
    -------
    Threshold or Infeasible
        Never a cut that was clipped to what the data could give.

    Raises
    ------
    ValueError
        If a key occurs twice in a source.
    """
    usable = [one for one in units if one.measured and one.unsupported is not None]
    counts = count_units(units)
    search = _Search(usable, budget, scale.higher_is_outside, tolerance, seed, counts)
    accept = search.accept()
    if isinstance(accept, Infeasible):
        return accept
    reject = None if budget.beta is None else search.reject(budget.beta)
    if isinstance(reject, Infeasible):
        return reject
    if budget.beta is not None and reject is not None and reject.outward < accept.outward:
        # Both budgets hold with room to spare. Rejecting less keeps the budget of rejection.
        reject = search.rejecting_at(accept.outward, budget.beta)
        notes = [*notes, "The reject cut was moved out to the accept cut, since both budgets left room."]
    sign = 1.0 if scale.higher_is_outside else -1.0
    return Threshold(
        score=scale.score,
        higher_is_outside=scale.higher_is_outside,
        unit=scale.unit,
        accept=sign * accept.outward,
        reject=None if reject is None else sign * reject.outward,
        delta=budget.delta,
        accept_bound=accept.bound,
        reject_bound=None if reject is None else reject.bound,
        fingerprint=scale.fingerprint,
        regime=scale.regime,
        data_digest=scale.data_digest,
        counts=counts,
        seed=seed,
        package=package,
        created=(now or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        tolerance=tolerance,
        notes=tuple(notes),
    )


@dataclass(frozen=True, slots=True)
class _Cut:
    outward: float
    """The cut, turned so that larger is further outside."""
    bound: Bound


@dataclass(frozen=True, slots=True)
class _Search:
    """The walks over one sample."""

    usable: Sequence[Labelled]
    budget: ErrorBudget
    higher_is_outside: bool
    tolerance: float
    seed: int
    counts: Mapping[str, int]

    def accept(self) -> _Cut | Infeasible:
        found = self._selective() if self.budget.risk == SELECTIVE.name else self._false_acceptance()
        if (
            isinstance(found, _Cut)
            and not (self._outward(self.usable) < found.outward - self.tolerance).any()
        ):
            return self._infeasible(
                found.bound.risk,
                self.budget.alpha,
                sources=found.bound.sources,
                reason="every cut that accepts any of these claims accepts too many unsupported ones: the "
                "score does not part them at this budget, and more labels help only if the innermost "
                "ones are chance",
            )
        return found

    def _false_acceptance(self) -> _Cut | Infeasible:
        drawn, rows = self._drawn(unsupported=True)
        cut = self._walk(drawn, FALSE_ACCEPTANCE, self.budget.alpha)
        if isinstance(cut, Infeasible):
            return cut
        events = int((drawn < cut - self.tolerance).sum())
        return self._cut(
            cut, FALSE_ACCEPTANCE, self.budget.alpha, rows=rows, sources=len(drawn), events=events
        )

    def reject(self, beta: float) -> _Cut | Infeasible:
        drawn, _ = self._drawn(unsupported=False)
        cut = self._walk(-drawn, FALSE_REJECTION, beta)
        return cut if isinstance(cut, Infeasible) else self.rejecting_at(-cut, beta)

    def rejecting_at(self, outward: float, beta: float) -> _Cut:
        """The reject cut there, with the evidence for it."""
        drawn, rows = self._drawn(unsupported=False)
        events = int((drawn > outward + self.tolerance).sum())
        return self._cut(outward, FALSE_REJECTION, beta, rows=rows, sources=len(drawn), events=events)

    def _walk(self, drawn: NDArray[np.float64], risk: Risk, budget: float) -> float | Infeasible:
        """From the strictest cut outward: the last drawn value with few enough drawn values below it.

        A cut is open: what lies at it is not beyond it. So the cut is the value at which the walk stops.
        """
        trials = len(drawn)
        allowed = most_events(trials, budget, self.budget.delta)
        if allowed < 0:
            needed = trials_needed(budget, self.budget.delta)
            reason = "there are too few labelled sources"
            return self._infeasible(risk, budget, sources=trials, needed=needed, reason=reason)
        return float(np.sort(drawn)[allowed])

    def _selective(self) -> _Cut | Infeasible:
        alpha, level = self.budget.alpha, self.budget.delta / SELECTIVE_CUTS
        chosen = draw_one_a_source(self.usable, self.seed)
        values = self._outward(chosen)
        wrong = np.array([bool(one.unsupported) for one in chosen])
        ranks = {len(chosen) * part // (SELECTIVE_CUTS + 1) for part in range(1, SELECTIVE_CUTS + 1)}
        ordered = np.sort(values)
        for cut in (float(ordered[rank]) for rank in sorted(ranks, reverse=True) if rank > 0):
            inside = values < cut - self.tolerance
            trials, events = int(inside.sum()), int((inside & wrong).sum())
            if trials and lower_tail(events, trials, alpha) <= level:
                rows, sources = len(self.usable), len(chosen)
                return self._cut(
                    cut,
                    SELECTIVE,
                    alpha,
                    rows=rows,
                    sources=sources,
                    events=events,
                    trials=trials,
                    level=level,
                )
        needed = trials_needed(alpha, level)
        if needed is not None and len(chosen) * SELECTIVE_CUTS // (SELECTIVE_CUTS + 1) >= needed:
            reason = "at none of the cuts that are tried are so few of the accepted claims unsupported"
            return self._infeasible(SELECTIVE, alpha, sources=len(chosen), level=level, reason=reason)
        reason = "there are too few labelled sources, of which only the accepted ones count"
        return self._infeasible(
            SELECTIVE, alpha, sources=len(chosen), level=level, needed=needed, reason=reason
        )

    def _drawn(self, *, unsupported: bool) -> tuple[NDArray[np.float64], int]:
        """Outward values of one unit a source of a class, and the number of units they were drawn from."""
        of_class = [one for one in self.usable if one.unsupported is unsupported]
        return self._outward(draw_one_a_source(of_class, self.seed)), len(of_class)

    def _outward(self, units: Sequence[Labelled]) -> NDArray[np.float64]:
        values = np.array([one.value for one in units], dtype=np.float64)
        return values if self.higher_is_outside else -values

    def _cut(
        self,
        outward: float,
        risk: Risk,
        budget: float,
        *,
        rows: int,
        sources: int,
        events: int,
        trials: int | None = None,
        level: float | None = None,
    ) -> _Cut:
        trials = sources if trials is None else trials
        level = self.budget.delta if level is None else level
        bound = Bound(
            risk=risk,
            budget=budget,
            rows=rows,
            sources=sources,
            trials=trials,
            events=events,
            level=level,
            p_value=lower_tail(events, trials, budget),
            upper=clopper_pearson_upper(events, trials, level),
        )
        return _Cut(outward, bound)

    def _infeasible(
        self,
        risk: Risk,
        budget: float,
        *,
        sources: int,
        reason: str,
        needed: int | None = None,
        level: float | None = None,
    ) -> Infeasible:
        return Infeasible(
            risk=risk,
            budget=budget,
            level=self.budget.delta if level is None else level,
            sources=sources,
            needed=needed,
            reason=reason,
            counts=self.counts,
        )
