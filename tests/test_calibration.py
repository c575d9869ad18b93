"""The calibration's parts against oracles; whether it keeps its promise is in test_calibration_promise.py."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from outspan.calibration import (
    ErrorBudget,
    Infeasible,
    Labelled,
    Scale,
    Threshold,
    calibrate,
    curve,
    operating_point,
    read_threshold,
    write_threshold,
)
from outspan.calibration.binomial import (
    clopper_pearson_upper,
    lower_tail,
    most_events,
    trials_needed,
    wilson_interval,
)
from outspan.calibration.sample import draw_one_a_source, share_of
from outspan.errors import InputError, RegimeMismatch

ENERGY = Scale(
    score="energy",
    higher_is_outside=True,
    unit="row",
    fingerprint="sha256:one",
    regime={"embedder": {"name": "fake", "max_tokens": 8}, "rank_policy": "cap:64"},
    data_digest="sha256:data",
)
COSINE = Scale(
    score="max_cosine",
    higher_is_outside=False,
    unit="row",
    fingerprint="sha256:two",
    regime={},
    data_digest="sha256:data",
)
NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


def units(
    unsupported: list[float] | np.ndarray, supported: list[float] | np.ndarray = (), sources: int = 0
) -> list[Labelled]:
    """One source a unit, or ``sources`` of them in turn."""
    values = [(float(v), True) for v in unsupported] + [(float(v), False) for v in supported]
    return [
        Labelled(key=f"k{i}", source=f"s{i % sources if sources else i}", unsupported=label, value=value)
        for i, (value, label) in enumerate(values)
    ]


def made(sample: list[Labelled], scale: Scale = ENERGY, **budget: object) -> Threshold:
    found = calibrate(sample, ErrorBudget(**{"alpha": 0.05, "delta": 0.05, **budget}), scale, now=NOON)
    assert isinstance(found, Threshold), found
    return found


@given(st.integers(0, 400), st.integers(1, 400), st.floats(0.001, 0.999), st.floats(0.001, 0.5))
def test_binomial_against_scipy(events: int, trials: int, rate: float, level: float) -> None:
    events = min(events, trials)
    assert lower_tail(events, trials, rate) == pytest.approx(
        stats.binom.cdf(events, trials, rate), rel=1e-9, abs=1e-300
    )
    upper = 1.0 if events == trials else stats.beta.ppf(1 - level, events + 1, trials - events)
    assert clopper_pearson_upper(events, trials, level) == pytest.approx(upper, abs=1e-9)
    most = most_events(trials, rate, level)
    assert most == -1 or stats.binom.cdf(most, trials, rate) <= level + 1e-12
    assert stats.binom.cdf(most + 1, trials, rate) > level - 1e-12


@given(st.integers(0, 5), st.floats(0.005, 0.5), st.floats(0.001, 0.5))
def test_trials_needed_is_the_least_number(events: int, budget: float, level: float) -> None:
    needed = trials_needed(budget, level, events)
    assert needed is not None
    assert lower_tail(events, needed, budget) <= level < lower_tail(events, needed - 1, budget)


def test_trials_needed_by_formula() -> None:
    assert trials_needed(0.05, 0.05) == 59 == math.ceil(math.log(0.05) / math.log(0.95))
    assert trials_needed(0.02, 0.05) == 149
    assert trials_needed(1e-9, 0.05) is None


@pytest.mark.parametrize(
    "call",
    [
        lambda: lower_tail(0, 5, 0.0),
        lambda: lower_tail(0, -1, 0.5),
        lambda: clopper_pearson_upper(3, 2, 0.05),
        lambda: clopper_pearson_upper(0, 2, 1.0),
        lambda: wilson_interval(0.5, 0),
        lambda: wilson_interval(1.5, 3),
        lambda: ErrorBudget(alpha=0.0, delta=0.05),
        lambda: ErrorBudget(alpha=0.05, delta=float("nan")),
        lambda: ErrorBudget(alpha=0.05, delta=0.05, beta=1.0),
        lambda: ErrorBudget(alpha=0.05, delta=0.05, risk="other"),
    ],
)
def test_numbers_out_of_range_are_refused(call: object) -> None:
    with pytest.raises(ValueError, match=r"no binomial|no bound|no interval|must lie|the risk is"):
        call()


def test_too_few_labels_say_how_many_are_needed() -> None:
    """MAPIE #974: 18 calibration claims at 0.05 have no valid quantile."""
    for count in (0, 1, 18, 58):
        found = calibrate(
            units(np.linspace(0.5, 1, count), [0.1]), ErrorBudget(alpha=0.05, delta=0.05), ENERGY
        )
        assert isinstance(found, Infeasible)
        assert (found.sources, found.needed) == (count, 59)
        assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["infeasible"]["needed"] == 59
    assert made(units(np.linspace(0.5, 1, 59), [0.1])).accept == 0.5


def test_many_rows_of_few_sources_are_few() -> None:
    found = calibrate(units([0.9] * 1000, [0.1], sources=20), ErrorBudget(alpha=0.05, delta=0.05), ENERGY)
    assert isinstance(found, Infeasible)
    assert found.sources == 20


@given(st.lists(st.integers(0, 30), min_size=20, max_size=150), st.sampled_from([0.05, 0.1, 0.3]))
def test_the_walk_is_fixed_sequence_testing(scores: list[int], alpha: float) -> None:
    """Against the definition, written out: each distinct value in turn, with scipy's tail, ties included."""
    values = np.array(scores) / 31 + 0.01
    expected = None
    for cut in np.unique(values):
        if stats.binom.cdf((values < cut).sum(), len(values), alpha) > 0.1:
            break
        expected = cut
    found = calibrate(units(values, [0.0]), ErrorBudget(alpha=alpha, delta=0.1), ENERGY)
    assert (found.accept if isinstance(found, Threshold) else None) == expected


@given(
    st.lists(st.integers(0, 50), min_size=60, max_size=120),
    st.sampled_from(["false_acceptance", "selective"]),
)
def test_a_similarity_is_an_energy_turned_round(scores: list[int], risk: str) -> None:
    unsupported = np.array(scores) / 50
    budget = ErrorBudget(alpha=0.3, delta=0.1, beta=0.1, risk=risk)
    one = calibrate(units(unsupported, unsupported / 3), budget, ENERGY)
    other = calibrate(units(-unsupported, -unsupported / 3), budget, COSINE)
    assert type(one) is type(other)
    if isinstance(one, Threshold) and isinstance(other, Threshold):
        assert (other.accept, other.reject) == (-one.accept, -one.reject)
        assert other.accept_bound == one.accept_bound
        for value in (-1.0, 0.0, 0.1, 0.2, 0.5, 1.0):
            assert other.side(-value) == one.side(value)


def test_bounds_agree_with_the_test_and_with_the_gate_rule() -> None:
    rng = np.random.default_rng(1)
    sample = units(rng.normal(0.7, 0.15, 300).clip(0, 1), rng.normal(0.3, 0.15, 300).clip(0, 1))
    found = made(sample, beta=0.1)
    for bound in (found.accept_bound, found.reject_bound):
        assert bound.p_value <= bound.level == 0.05
        assert bound.upper <= bound.budget
        assert bound.trials == bound.sources == bound.rows == 300
    accepted = [one for one in sample if found.side(one.value) == "accept"]
    assert sum(bool(one.unsupported) for one in accepted) == found.accept_bound.events
    rejected = [one for one in sample if found.side(one.value) == "reject"]
    assert sum(not one.unsupported for one in rejected) == found.reject_bound.events
    # One more event would break the budget: the cut is the largest.
    assert lower_tail(found.accept_bound.events + 1, 300, 0.05) > 0.05


def test_reject_never_lies_inside_accept() -> None:
    found = made(units(np.linspace(0.8, 1, 200), np.linspace(0, 0.2, 200)), beta=0.05)
    assert found.reject == found.accept
    assert found.reject_bound.events == 0
    assert "moved out" in found.notes[0]
    with pytest.raises(ValueError, match="accepted side"):
        Threshold.from_dict({**found.to_dict(), "reject": 0.1})


def test_a_score_that_parts_nothing_is_infeasible_at_any_number() -> None:
    found = calibrate(units([0.0] * 500, [0.0] * 500), ErrorBudget(alpha=0.05, delta=0.05), ENERGY)
    assert isinstance(found, Infeasible)
    assert found.needed is None
    assert "does not part them" in found.reason


def test_supported_class_absent_or_nearly() -> None:
    found = made(units(np.linspace(0.5, 1, 100)), alpha=0.1)
    assert operating_point(units([0.9]), found).coverage.rate is None
    assert made(units(np.linspace(0.5, 1, 100), [0.2])).accept_bound.rows == 100
    needs = calibrate(
        units(np.linspace(0.5, 1, 100), [0.2]), ErrorBudget(alpha=0.05, delta=0.05, beta=0.1), ENERGY
    )
    assert isinstance(needs, Infeasible)
    assert (needs.risk.name, needs.sources, needs.needed) == ("false_rejection", 1, 29)


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
def test_what_was_not_measured_takes_no_part_and_is_counted(value: float | None) -> None:
    sample = units(np.linspace(0.5, 1, 100), np.linspace(0, 0.5, 100))
    more = [
        Labelled(key=f"x{i}", source=f"x{i}", unsupported=label, value=v)
        for i, (label, v) in enumerate([(True, value), (False, value), (None, value), (None, 0.0)])
    ]
    one, other = made(sample), made(sample + more)
    assert (one.accept, one.accept_bound) == (other.accept, other.accept_bound)
    assert other.counts["unmeasured"] == 3
    assert other.counts["unmeasured_unsupported"] == other.counts["unmeasured_supported"] == 1
    assert other.counts["unlabelled"] == 2
    assert other.side(value) == "review"
    at = operating_point(sample + more, other)
    assert (at.coverage.units, at.coverage_of_all.units) == (100, 101)


def test_selective_needs_more_and_says_what() -> None:
    few = calibrate(
        units(np.linspace(0.5, 1, 20), np.linspace(0, 0.4, 80)),
        ErrorBudget(alpha=0.05, delta=0.05, risk="selective"),
        ENERGY,
    )
    assert isinstance(few, Infeasible)
    assert few.needed == trials_needed(0.05, 0.05 / 19) == 116
    found = made(units(np.linspace(0.5, 1, 100), np.linspace(0, 0.4, 900)), risk="selective")
    assert found.accept_bound.risk.name == "selective"
    assert found.accept_bound.level == 0.05 / 19
    assert 0.3 < found.accept < 0.6
    mixed = calibrate(
        units(np.linspace(0, 1, 500), np.linspace(0, 1, 500)),
        ErrorBudget(alpha=0.05, delta=0.05, risk="selective"),
        ENERGY,
    )
    assert isinstance(mixed, Infeasible)
    assert mixed.needed is None


def test_the_draw_knows_nothing_of_order_or_values() -> None:
    rng = np.random.default_rng(3)
    sample = units(rng.random(300), sources=70)
    shuffled = [sample[i] for i in rng.permutation(300)]
    assert {one.key for one in draw_one_a_source(sample, 0)} == {
        one.key for one in draw_one_a_source(shuffled, 0)
    }
    assert len(draw_one_a_source(sample, 0)) == 70
    with pytest.raises(ValueError, match="twice"):
        draw_one_a_source([sample[0], sample[0]], 0)


def test_the_draw_is_uniform_within_a_source() -> None:
    sample = [
        Labelled(key=str(k), source=str(s), unsupported=True, value=0.0)
        for s in range(4000)
        for k in range(4)
    ]
    drawn = np.bincount([int(one.key) for one in draw_one_a_source(sample, 0)])
    assert stats.chisquare(drawn).pvalue > 1e-4


def test_interval_knows_clusters() -> None:
    values = [0.0] * 50 + [1.0] * 50
    alone = share_of(units(values), lambda one: one.value == 0.0)
    copies = [
        Labelled(key=f"{i}.{k}", source=str(i), unsupported=True, value=v)
        for i, v in enumerate(values)
        for k in range(10)
    ]
    clustered = share_of(copies, lambda one: one.value == 0.0)
    assert (alone.rate, clustered.rate) == (0.5, 0.5)
    assert clustered.low == pytest.approx(alone.low, abs=1e-3)  # ten copies teach nothing
    none = share_of(copies, lambda one: False)
    assert (none.rate, none.low) == (0.0, 0.0)
    assert none.high == pytest.approx(wilson_interval(0.0, 100)[1])


def test_interval_covers() -> None:
    """Nominal 95 %, approximate: 300 clustered samples, at least 90 %."""
    rng, hits = np.random.default_rng(5), 0
    for _ in range(300):
        rates = rng.beta(2, 6, 80)
        sample = [
            Labelled(key=f"{i}.{k}", source=str(i), unsupported=True, value=float(rng.random() < rate))
            for i, rate in enumerate(rates)
            for k in range(1 + i % 5)
        ]
        share = share_of(sample, lambda one: one.value == 1.0)
        hits += share.low <= 0.25 <= share.high
    assert hits >= 270


def test_curve_runs_outward() -> None:
    rng = np.random.default_rng(4)
    sample = units(rng.beta(5, 2, 400), rng.beta(2, 5, 400))
    points = curve(sample, higher_is_outside=True, delta=0.05, tolerance=1e-5)
    assert len(points) == 200
    for name in ("cut", "false_acceptance", "upper", "coverage"):
        column = [getattr(point, name) for point in points]
        assert column == sorted(column)
    assert all(point.upper > point.false_acceptance for point in points)
    only = curve(units([0.5]), higher_is_outside=True, delta=0.05, tolerance=0.0)
    assert only[0].coverage is None


def test_sides() -> None:
    found = made(units(np.linspace(0.5, 1, 100), np.linspace(0, 0.7, 100)), beta=0.1)
    accept, reject, tolerance = found.accept, found.reject, found.tolerance
    assert tolerance == 1e-5
    assert found.side(accept - 2 * tolerance) == "accept"
    assert (
        found.side(accept) == found.side(accept - tolerance / 2) == found.side(accept + tolerance) == "review"
    )
    assert found.side(reject) == found.side(reject + tolerance / 2) == "review"
    assert found.side(reject + 2 * tolerance) == "reject"
    assert found.near(accept + tolerance / 2)
    assert not found.near(accept + 2 * tolerance)
    assert found.side(None) == found.side(math.nan) == found.side(-math.inf) == "review"


def test_artefact_round_trip(tmp_path: Path) -> None:
    found = made(units(np.linspace(0.5, 1, 100), np.linspace(0, 0.7, 100)), beta=0.1)
    path = tmp_path / "t.json"
    write_threshold(found, path)
    again = read_threshold(path)
    assert again == found
    assert again.digest == found.digest
    assert again.created == "2026-05-04T12:00:00Z"
    written = json.loads(path.read_text())
    for name in (
        "score",
        "accept",
        "reject",
        "delta",
        "regime",
        "fingerprint",
        "data_digest",
        "counts",
        "digest",
    ):
        assert name in written
    assert written["accept_bound"]["risk"]["condition"] == "unsupported and measured"
    assert written["accept_bound"]["budget"] == 0.05


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda r: {**r, "accept": r["accept"] + 0.1}, "changed after it was written"),
        (lambda r: {**r, "fingerprint": "sha256:other"}, "changed after it was written"),
        (lambda r: {k: v for k, v in r.items() if k != "regime"}, "lacks regime"),
        (lambda r: {**r, "version": 99}, "no threshold of version 1"),
        (lambda r: [r], "not a JSON object"),
        (lambda r: {**r, "accept": "low"}, "could not convert"),
    ],
)
def test_a_changed_artefact_is_refused(tmp_path: Path, change: object, problem: str) -> None:
    path = tmp_path / "t.json"
    write_threshold(made(units(np.linspace(0.5, 1, 100), [0.1])), path)
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(InputError, match=problem):
        read_threshold(path)


def test_unreadable_artefacts(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_threshold(tmp_path / "missing.json")
    (tmp_path / "t.json").write_text("{")
    with pytest.raises(InputError, match="not JSON"):
        read_threshold(tmp_path / "t.json")
    with pytest.raises(InputError, match="cannot be written"):
        write_threshold(made(units(np.linspace(0.5, 1, 100), [0.1])), tmp_path / "no" / "t.json")


def test_another_regime_is_refused_part_by_part() -> None:
    found = made(units(np.linspace(0.5, 1, 100), [0.1]))
    found.require("sha256:one")
    with pytest.raises(
        RegimeMismatch, match=r"embedder.name was 'fake', is 'real'; rank_policy was 'cap:64'"
    ):
        found.require("sha256:x", {"embedder": {"name": "real", "max_tokens": 8}, "rank_policy": "cap:4"})
    with pytest.raises(RegimeMismatch, match="parts of one of them are not known"):
        found.require("sha256:x")
