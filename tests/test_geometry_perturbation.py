"""The perturbation bound against actual perturbation, random and adversarial."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outspan.geometry.energy import energies
from outspan.geometry.perturbation import energy_bounds
from outspan.geometry.subspace import RankPolicy, factor
from test_geometry_core import UNCAPPED, problems, unit

POLICIES = [UNCAPPED, RankPolicy("cap", 2), RankPolicy("cap", 5), RankPolicy("variance", 0.7)]


def moved(rows, which, chord, rng):
    """Unit ``rows`` with those in ``which`` moved along the sphere by ``chord`` in a random direction."""
    rows = rows.copy()
    for i in which:
        step = rng.standard_normal(rows.shape[1])
        step -= (step @ rows[i]) * rows[i]
        norm = np.linalg.norm(step)
        if norm > 1e-9:
            angle = 2.0 * np.arcsin(chord / 2.0)
            rows[i] = np.cos(angle) * rows[i] + np.sin(angle) * step / norm
    return rows


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@settings(deadline=None)
@given(problem=problems(), exponent=st.floats(-6, 0), k=st.integers(1, 3), seed=st.integers(0, 999))
def test_no_random_move_leaves_the_bounds(policy, problem, exponent, k, seed):
    E, C = unit(problem[0]), problem[1]
    rng = np.random.default_rng(seed)
    which = rng.permutation(len(E))[:k]
    chord = 10.0**exponent
    subspace = factor(E)
    measured = energies(C, subspace, policy)
    bounds = energy_bounds(subspace, measured, policy, np.full(len(which), chord))
    after = energies(C, factor(moved(E, which, chord, rng)), policy).energy
    assert (after >= bounds.lower - 1e-8).all()
    assert (after <= bounds.upper + 1e-8).all()


def near_cutoff(gap, seed=0):
    """Six rows in eight dimensions whose second and third singular values are ``gap`` apart."""
    rng = np.random.default_rng(seed)
    U, _, Vt = np.linalg.svd(rng.standard_normal((6, 8)), full_matrices=False)
    E = U @ np.diag([2.0, 1.0, 1.0 - gap, 0.3, 0.2, 0.1]) @ Vt
    return unit(E), rng


@pytest.mark.parametrize("gap", [0.5, 0.1, 0.01, 1e-4])
@pytest.mark.parametrize("share", [0.9, 0.3, 0.05])
def test_an_adversary_stays_within_the_bounds(gap, share):
    E, rng = near_cutoff(gap)
    policy = RankPolicy("cap", 2)
    subspace = factor(E)
    chord = min(0.5, share * (subspace.singular_values[1] - subspace.singular_values[2]))
    claim = rng.standard_normal((1, 8))
    measured = energies(claim, subspace, policy)
    bounds = energy_bounds(subspace, measured, policy, chord)
    for sign in (1.0, -1.0):  # climb, and descend, by the best of random steps
        best, value = E, sign * measured.energy[0]
        for step in range(200):
            i = step % len(E)
            trial = E.copy()  # one row moves: the others are where they were
            start = best[i] if not np.array_equal(best[i], E[i]) else moved(E, [i], chord, rng)[i]
            row = unit(start + 0.3 * chord * rng.standard_normal(8))
            offset = row - E[i]
            trial[i] = row if np.linalg.norm(offset) <= chord else unit(E[i] + 0.99 * chord * unit(offset))
            if np.linalg.norm(trial[i] - E[i]) > chord:
                continue
            reached = sign * energies(claim, factor(trial), policy).energy[0]
            if reached > value:
                best, value = trial, reached
        assert bounds.lower[0] - 1e-9 <= sign * value <= bounds.upper[0] + 1e-9


def test_the_bound_closes_as_the_movement_vanishes():
    E, rng = near_cutoff(0.3)
    policy = RankPolicy("cap", 2)
    measured = energies(rng.standard_normal((4, 8)), factor(E), policy)
    widths = []
    for epsilon in (0.0, 1e-8, 1e-4, 1e-2):
        bounds = energy_bounds(measured.subspace, measured, policy, epsilon)
        widths.append((bounds.upper - bounds.lower).max())
    assert widths[0] < 1e-15
    assert widths == sorted(widths)
    assert widths[1] < 1e-6


def test_one_row_that_turns_towards_the_claim_reaches_the_bound():
    measured = energies([[0.0, 1.0]], factor([[1.0, 0.0]]), UNCAPPED)
    bounds = energy_bounds(measured.subspace, measured, UNCAPPED, 0.1)
    turned = energies([[0.0, 1.0]], factor([[np.sqrt(1 - 0.1**2), 0.1]]), UNCAPPED).energy[0]
    assert bounds.lower[0] == pytest.approx(turned, abs=1e-12)  # sin θ = ε: as tight as a bound can be


def test_a_closed_gap_guarantees_nothing():
    measured = energies(np.ones((1, 8)), factor(np.eye(8)), RankPolicy("cap", 3))
    bounds = energy_bounds(measured.subspace, measured, RankPolicy("cap", 3), 1e-3)
    assert bounds.angle == pytest.approx(np.pi / 2)
    assert (bounds.lower[0], bounds.upper[0]) == (0.0, 1.0)


def test_a_direction_that_may_appear_can_only_lower_the_energy():
    E = np.tile([1.0, 0.0, 0.0], (4, 1))
    measured = energies([[0.0, 0.0, 1.0]], factor(E), UNCAPPED)
    bounds = energy_bounds(measured.subspace, measured, UNCAPPED, 0.01)
    assert bounds.rank_may_grow
    assert not bounds.rank_may_shrink
    assert bounds.lower[0] == 0.0


def test_a_moved_claim_moves_its_angle():
    measured = energies([[0.8, 0.6]], factor([[1.0, 0.0]]), UNCAPPED)
    bounds = energy_bounds(measured.subspace, measured, UNCAPPED, 0.0, claim_movement=0.1)
    angle = 2 * np.arcsin(0.05)
    assert bounds.upper[0] == pytest.approx(np.sin(np.arcsin(0.6) + angle) ** 2)


@pytest.mark.parametrize("movement", [-0.1, 2.1, np.nan, [[0.1]], [0.1, 0.1]])
def test_a_movement_that_cannot_be_is_refused(movement):
    measured = energies([[0.8, 0.6]], factor([[1.0, 0.0]]), UNCAPPED)
    with pytest.raises(ValueError, match="movement"):
        energy_bounds(measured.subspace, measured, UNCAPPED, movement)
