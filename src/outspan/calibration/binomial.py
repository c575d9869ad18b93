"""Exact binomial tails and what follows from them; numpy and the standard library only."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

MOST_TRIALS = 10_000_000
"""Beyond it a number of labels needed is not worth naming."""


def lower_tail(events: int, trials: int, rate: float) -> float:
    """P[Bin(trials, rate) ≤ events].

    This is the p-value of the hypothesis that the rate is at least ``rate``, when ``events`` were seen: under
    it so few events have at most this chance.

    Raises
    ------
    ValueError
        Unless 0 < rate < 1 and trials ≥ 0.
    """
    if not 0.0 < rate < 1.0 or trials < 0:
        raise ValueError(f"no binomial tail for {trials} trials at rate {rate}")
    if events < 0:
        return 0.0
    if events >= trials:
        return 1.0
    return _tail(_log_choose(events, trials), trials, rate)


def _log_choose(events: int, trials: int) -> NDArray[np.float64]:
    """Logarithm of C(trials, j) for j = 0 … events."""
    j = np.arange(events + 1)
    # C(n, j) = C(n, j−1) · (n − j + 1)/j: sums of logarithms of ratios keep more digits than lgamma does.
    steps = np.log((trials - j[1:] + 1) / j[1:])
    return np.concatenate([[0.0], np.cumsum(steps)])


def _tail(log_choose: NDArray[np.float64], trials: int, rate: float) -> float:
    j = np.arange(len(log_choose))
    terms = np.exp(log_choose + j * math.log(rate) + (trials - j) * math.log1p(-rate))
    return min(1.0, math.fsum(terms))


def most_events(trials: int, budget: float, level: float) -> int:
    """Largest number of events with P[Bin(trials, budget) ≤ events] ≤ level; −1 where zero is too many."""
    low, high = -1, trials  # the tail is at most level at low, above it at high
    while high - low > 1:
        middle = (low + high) // 2
        if lower_tail(middle, trials, budget) <= level:
            low = middle
        else:
            high = middle
    return low


def clopper_pearson_upper(events: int, trials: int, level: float) -> float:
    """Upper bound of a rate at confidence 1 − level, in (0, 1].

    The rate at which so few events have the chance ``level``; 1 when every trial was an event, or none was
    made. The test at a budget passes exactly when this bound is at most the budget.

    Source
    ------
    Clopper & Pearson, Biometrika 26 (1934), 404–413.
    """
    if not 0.0 < level < 1.0 or not 0 <= events <= trials:
        raise ValueError(f"no bound for {events} of {trials} at level {level}")
    if events == trials:
        return 1.0
    log_choose = _log_choose(events, trials)
    low, high = 0.0, 1.0
    while high - low > 1e-12:
        middle = (low + high) / 2.0
        if _tail(log_choose, trials, middle) <= level:
            high = middle
        else:
            low = middle
    return high


def trials_needed(budget: float, level: float, events: int = 0) -> int | None:
    """Fewest trials at which ``events`` events still pass the test; None beyond ten million.

    For no event it is ⌈ln level / ln(1 − budget)⌉: 59 for 0.05 and 0.05. No valid test that knows no more
    than that the losses lie in [0, 1] can do with fewer, since a rate at the budget shows no event in fewer
    trials more often than ``level``.
    """
    low, high = events, max(1, 2 * events)  # fails at low, as every trial is an event there
    while lower_tail(events, high, budget) > level:
        low, high = high, 2 * high
        if high > MOST_TRIALS:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        if lower_tail(events, middle, budget) <= level:
            high = middle
        else:
            low = middle
    return high


def wilson_interval(rate: float, trials: float, z: float = 1.959963984540054) -> tuple[float, float]:
    """Wilson's interval in [0, 1] for a rate seen in ``trials`` trials, which need not be a whole number.

    Source
    ------
    Wilson, JASA 22 (1927), 209–212; with an effective number of trials for clustered ones, as Korn &
    Graubard, Survey Methodology 24 (1998), 193–201, do for Clopper–Pearson. Approximate.
    """
    if trials <= 0 or not 0.0 <= rate <= 1.0:
        raise ValueError(f"no interval for the rate {rate} in {trials} trials")
    centre = rate + z * z / (2.0 * trials)
    half = z * math.sqrt(rate * (1.0 - rate) / trials + z * z / (4.0 * trials * trials))
    scale = 1.0 + z * z / trials
    low = 0.0 if rate == 0.0 else max(0.0, (centre - half) / scale)
    high = 1.0 if rate == 1.0 else min(1.0, (centre + half) / scale)
    return low, high
