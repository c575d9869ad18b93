"""The promise, simulated: over thousands of calibrations on known distributions, the share that breaks it.

Every simulation calls the calibration itself and compares with the true rate at the cut it returned. A
calibration that returns no threshold has broken nothing. The limit on the number of broken ones leaves a correct
method a chance of one in ten thousand to fail; the seeds are fixed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from outspan.calibration import ErrorBudget, Labelled, Scale, Threshold, calibrate

CALIBRATIONS = 2000
SCALE = Scale(score="energy", higher_is_outside=True, unit="row", fingerprint="f", regime={}, data_digest="d")
Sample = list[Labelled]
Draw = Callable[[np.random.Generator], Sample]
Rate = Callable[[float], float]


def limit(level: float) -> int:
    """Most calibrations that may break a promise that holds at this level."""
    return int(stats.binom.ppf(0.9999, CALIBRATIONS, level))


def sample_of(unsupported: np.ndarray, supported: np.ndarray, source: np.ndarray | None = None) -> Sample:
    values = np.concatenate([unsupported, supported])
    source = np.arange(len(values)) if source is None else source
    return [
        Labelled(key=str(i), source=str(source[i]), unsupported=i < len(unsupported), value=float(value))
        for i, value in enumerate(values)
    ]


def broken(draw: Draw, rate: Rate, budget: ErrorBudget, seed: int = 0) -> tuple[int, int]:
    """Calibrations whose true rate exceeds α, and calibrations that gave a threshold."""
    rng = np.random.default_rng(seed)
    wrong = given = 0
    for _ in range(CALIBRATIONS):
        found = calibrate(draw(rng), budget, SCALE)
        if isinstance(found, Threshold):
            given += 1
            wrong += rate(found.accept - found.tolerance) > budget.alpha
    return wrong, given


def uniform(n: int, supported: int = 3) -> Draw:
    return lambda rng: sample_of(rng.random(n), np.full(supported, 1e-9))


def in_steps(n: int, steps: int) -> Draw:
    """Scores on a coarse grid: many ties, some of them at 0."""
    return lambda rng: sample_of(np.floor(rng.random(n) * steps) / steps, np.zeros(3))


def step_rate(steps: int) -> Rate:
    """P(score < cut) on that grid."""
    return lambda cut: np.ceil(np.round(cut * steps, 9)) / steps if cut > 0 else 0.0


def clustered(sources: int) -> Draw:
    """Rows of a source share its score; sources with low scores have many more rows."""

    def draw(rng: np.random.Generator) -> Sample:
        base = rng.random(sources)
        sizes = np.where(base < 0.1, 20, rng.integers(1, 4, sources))
        source = np.repeat(np.arange(sources), sizes)
        return sample_of(
            np.repeat(base, sizes), np.full(3, 1e-9), np.concatenate([source, [9000, 9001, 9002]])
        )

    return draw


BUDGET = ErrorBudget(alpha=0.05, delta=0.05)
CASES = {
    "59 labels, the fewest there can be": (uniform(59), lambda cut: cut, BUDGET),
    "92 labels": (uniform(92), lambda cut: cut, BUDGET),
    "one event allowed": (uniform(93), lambda cut: cut, BUDGET),
    "300 labels": (uniform(300), lambda cut: cut, BUDGET),
    "wide budget": (uniform(40), lambda cut: cut, ErrorBudget(alpha=0.3, delta=0.2)),
    "no supported rows but one": (uniform(120, supported=1), lambda cut: cut, BUDGET),
    "ties": (in_steps(200, 50), step_rate(50), BUDGET),
    "heavy ties": (in_steps(200, 12), step_rate(12), ErrorBudget(alpha=0.1, delta=0.1)),
    "clustered rows": (clustered(100), lambda cut: cut, BUDGET),
}


@pytest.mark.parametrize("name", CASES)
def test_false_acceptance_keeps_its_promise(name: str) -> None:
    draw, rate, budget = CASES[name]
    wrong, given = broken(draw, rate, budget)
    assert given > 0
    assert wrong <= limit(budget.delta), f"{wrong} of {CALIBRATIONS} broken"


def test_the_promise_is_not_kept_by_asking_for_far_too_much() -> None:
    """At 59 labels the chance to break it is 0.95^59 = 0.0485: the test uses its whole level."""
    wrong, given = broken(uniform(59), lambda cut: cut, BUDGET)
    assert (
        given >= CALIBRATIONS - 5
    )  # an unsupported score of 0, within the tolerance, leaves nothing to accept
    assert wrong >= stats.binom.ppf(0.0001, CALIBRATIONS, 0.95**59)


def test_too_few_unsupported_labels_never_give_a_threshold() -> None:
    _, given = broken(lambda rng: sample_of(rng.random(3), rng.random(500) / 9), lambda cut: cut, BUDGET)
    assert given == 0


@pytest.mark.parametrize("n", [59, 300])
def test_a_plain_quantile_breaks_the_promise(n: int) -> None:
    """What the calibration is there to replace: the empirical α-quantile of the unsupported scores."""
    rng = np.random.default_rng(0)
    cuts = np.quantile(rng.random((CALIBRATIONS, n)), BUDGET.alpha, axis=1)
    wrong = int((cuts > BUDGET.alpha).sum())
    assert wrong > 5 * limit(BUDGET.delta), wrong


def test_counting_rows_instead_of_sources_breaks_the_promise() -> None:
    """The same rows and test, each row taken for a source of its own; rows of a source have one score."""

    def draw(rng: np.random.Generator) -> Sample:
        return sample_of(np.repeat(rng.random(20), 6), np.full(3, 1e-9))

    wrong, _ = broken(draw, lambda cut: cut, BUDGET)
    assert wrong > 3 * limit(BUDGET.delta), wrong


def test_false_rejection_keeps_its_promise() -> None:
    rng, wrong = np.random.default_rng(1), 0
    budget = ErrorBudget(alpha=0.5, delta=0.1, beta=0.1)
    for _ in range(CALIBRATIONS):
        found = calibrate(sample_of(np.ones(10), rng.random(80)), budget, SCALE)
        assert isinstance(found, Threshold)
        wrong += 1.0 - (found.reject + found.tolerance) > 0.1
    assert wrong <= limit(0.1)


def hump(score: np.ndarray) -> np.ndarray:
    """Chance of unsupported at a score: low, high in the middle of the inside, low again, high outside.

    The share of unsupported among the accepted crosses 0.1 from below three times as the cut moves out.
    """
    return np.where(score < 0.2, 0.05, np.where(score < 0.3, 0.30, np.where(score < 0.6, 0.03, 0.8)))


def selective_rate(cut: float) -> float:
    grid = (np.arange(100_000) + 0.5) / 100_000
    inside = grid < cut
    return float(hump(grid[inside]).mean()) if inside.any() else 0.0


@pytest.mark.parametrize("n", [150, 400, 1500])
def test_selective_risk_keeps_its_promise_though_it_is_not_monotone(n: int) -> None:
    def draw(rng: np.random.Generator) -> Sample:
        score = rng.random(n)
        wrong = rng.random(n) < hump(score)
        return sample_of(score[wrong], score[~wrong])

    budget = ErrorBudget(alpha=0.1, delta=0.1, risk="selective")
    rng, bad, given = np.random.default_rng(2), 0, 0
    for _ in range(CALIBRATIONS // 4):
        found = calibrate(draw(rng), budget, SCALE)
        if isinstance(found, Threshold):
            given += 1
            bad += selective_rate(found.accept - found.tolerance) > budget.alpha
    assert bad <= stats.binom.ppf(0.9999, CALIBRATIONS // 4, budget.delta)
    assert n < 1000 or given > CALIBRATIONS // 8
