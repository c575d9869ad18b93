"""The diagnostics against their formulas, and leave-one-out against plain recomputation in every regime."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from outspan.geometry.diagnostics import (
    LEAVE_ONE_OUT_LIMIT,
    describe_claims,
    describe_spectrum,
    energy_by_rank,
    leave_one_out,
)
from outspan.geometry.energy import energies
from outspan.geometry.subspace import RANK_TOLERANCE, RankPolicy, factor
from test_geometry_core import UNCAPPED, problems, unit

CAP = RankPolicy("cap", 3)


@settings(deadline=None)
@given(problems())
def test_the_spectrum_by_its_formulas(problem):
    E, _ = problem
    subspace = factor(E)
    got = describe_spectrum(subspace, CAP)
    sigma = np.linalg.svd(unit(E), compute_uv=False)
    rho = subspace.numeric_rank
    kept = sigma[:rho]
    share = kept / kept.sum()
    assert got.sigma1_ratio == pytest.approx(share[0], abs=1e-7)
    assert got.sigma2_ratio == pytest.approx(share[1] if rho > 1 else 0.0, abs=1e-7)
    assert got.participation_ratio == pytest.approx((kept**2).sum() ** 2 / (kept**4).sum(), rel=1e-7)
    assert got.entropy_rank == pytest.approx(np.exp(-(share * np.log(share)).sum()), rel=1e-7)
    assert 1.0 - 1e-9 <= got.participation_ratio <= rho + 1e-9
    assert 1.0 - 1e-9 <= got.entropy_rank <= rho + 1e-9
    if rho > 3:
        assert got.spectral_gap == pytest.approx((sigma[2] - sigma[3]) / sigma[0], abs=1e-7)
    else:
        assert got.spectral_gap is None
        assert not got.unstable


def test_a_gap_that_is_closed_is_called_unstable():
    assert describe_spectrum(factor(np.eye(8)), CAP).unstable
    strong = np.vstack([np.repeat(np.eye(8)[:3], 5, axis=0), np.eye(8)[3:4]])
    assert not describe_spectrum(factor(strong), CAP).unstable


@settings(deadline=None)
@given(problems(max_n=60))
def test_the_claims_by_their_formulas(problem):
    E, C = problem
    subspace = factor(E)
    measured = energies(C, subspace, CAP)
    got = describe_claims(subspace, measured)
    cosines = unit(C) @ unit(E).T
    np.testing.assert_allclose(measured.similarities, cosines, atol=1e-12)
    np.testing.assert_allclose(got.sim_top1, cosines.max(axis=1), atol=1e-12)
    np.testing.assert_allclose(cosines[np.arange(len(C)), got.nearest], cosines.max(axis=1), atol=1e-12)
    if len(E) > 1:
        np.testing.assert_allclose(got.sim_top2, np.sort(cosines, axis=1)[:, -2], atol=1e-12)
    else:
        assert got.sim_top2 is None
    ladder = energy_by_rank(measured)
    rho, r = subspace.numeric_rank, measured.rank
    assert (np.diff(ladder, axis=1) <= 1e-14).all()
    for values, rank in (
        (got.energy_half_rank, max(1, r // 2)),
        (measured.energy, r),
        (got.energy_double_rank, min(2 * r, rho)),
        (got.energy_uncapped, rho),
    ):
        np.testing.assert_allclose(values, ladder[:, rank - 1], atol=1e-13)
    np.testing.assert_allclose(got.alignment, np.abs(measured.coordinates[:, 0]))
    assert (got.rank_spread >= -1e-14).all()


def without_each_row(C, E, policy):
    """Energies of the reduced sets by an SVD each, and the smallest gap that the policy cuts at."""
    columns, gaps = [], [1.0]
    for i in range(-1, len(E)):
        rest = unit(E if i < 0 else np.delete(E, i, axis=0))
        if len(rest) == 0:
            columns.append(np.ones(len(C)))
            continue
        _, sigma, Vt = np.linalg.svd(rest, full_matrices=False)
        rho = int((sigma > RANK_TOLERANCE * sigma[0]).sum())
        r = policy.retained(sigma, rho)
        gaps.append(np.abs(sigma / sigma[0] / RANK_TOLERANCE - 1.0).min())
        if r < rho:
            gaps.append((sigma[r - 1] - sigma[r]) / sigma[0])
        if policy.kind == "variance":
            share = np.cumsum(sigma**2) / (sigma**2).sum()
            gaps.append(np.abs(share - policy.value).min())
        residual = unit(C) - unit(C) @ Vt[:r].T @ Vt[:r]
        columns.append(np.vecdot(residual, residual))
    return np.array(columns[1:]).T - columns[0][:, None], min(gaps)


@pytest.mark.parametrize(
    "policy", [UNCAPPED, CAP, RankPolicy("cap", 1), RankPolicy("variance", 0.8)], ids=str
)
@settings(deadline=None)
@given(problem=problems(max_n=14))
def test_leave_one_out_is_plain_recomputation(policy, problem):
    E, C = problem
    subspace = factor(E)
    expected, gap = without_each_row(C, E, policy)
    if gap > 1e-5:
        got = leave_one_out(subspace, energies(C, subspace, policy), policy)
        # Within the 1e-7 of jittered copies, which the numeric rank takes for copies, either is right.
        np.testing.assert_allclose(got, expected, atol=1e-8)


def test_leave_one_out_at_the_size_that_matters():
    rng = np.random.default_rng(11)
    E, C = rng.standard_normal((64, 384)) + 2 * rng.standard_normal(384), rng.standard_normal((5, 384))
    for policy in (RankPolicy("cap", 32), UNCAPPED):
        subspace = factor(E)
        expected, _ = without_each_row(C, E, policy)
        np.testing.assert_allclose(
            leave_one_out(subspace, energies(C, subspace, policy), policy), expected, atol=1e-8
        )


def test_without_the_only_row_the_whole_claim_is_outside():
    subspace = factor([[1.0, 0.0]])
    measured = energies([[0.8, 0.6]], subspace, UNCAPPED)
    np.testing.assert_allclose(leave_one_out(subspace, measured, UNCAPPED), [[0.64]])


def test_too_many_rows_for_recomputation_get_no_answer_rather_than_a_guess():
    rng = np.random.default_rng(0)
    subspace = factor(rng.standard_normal((LEAVE_ONE_OUT_LIMIT + 1, 200)))
    claims = rng.standard_normal((1, 200))
    assert leave_one_out(subspace, energies(claims, subspace, CAP), CAP) is None
    assert leave_one_out(subspace, energies(claims, subspace, UNCAPPED), UNCAPPED) is not None
